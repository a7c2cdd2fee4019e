//! Everything that speaks C. Each `unsafe` block is one operation with its proof.
//!
//! What SQLite promises its VFS, and the proofs rely on:
//!
//! - SQ1. A `sqlite3_vfs` that was registered stays where it is until the process ends. This crate
//!   unregisters none, and the host's are static.
//! - SQ2. A `sqlite3_file` is given to `xOpen` with `szOsFile` bytes of room, and stays there until
//!   its `xClose` has returned. One thread at a time calls its methods.
//! - SQ3. Names are C strings that live as long as the file that they open. The name of a main
//!   database is one that the function `sqlite3_uri_parameter` takes.
//! - SQ4. Buffers have as many bytes as the call says, and pointers for results are valid.
//! - SQ5. Only a connection that has the lock `RESERVED` creates a rollback journal, and only one
//!   has it at a time. The memory of the journal's `sqlite3_file` stays until that connection has
//!   written its pages. A file that is not open has no methods.

#[cfg(any(feature = "extension", feature = "suite"))]
mod entry;
pub(crate) mod file;
pub(crate) mod files;
pub(crate) mod host;
pub(crate) mod host_disk;
mod rollback_journal;
pub(crate) mod vfs;
