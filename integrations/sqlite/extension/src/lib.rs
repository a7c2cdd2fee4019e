//! SQLite on nvm-journal, as an extension: its entry point is `sqlite3_extension_init`.
//!
//! ```sh
//! cargo build --release --manifest-path integrations/sqlite/extension/Cargo.toml
//! ```
//!
//! It wants SQLite 3.45.3 or later that was built with `-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE`, and
//! says so to another one. Once a program has loaded it, databases are opened by URIs:
//!
//! ```text
//! SELECT load_extension('target/release/libnvm_journal_sqlite_extension.so');
//! ATTACH 'file:main.db?vfs=nvj&nvm=/mnt/pmem/main.nvj&policy=byte-delta' AS main2;
//! ```
//!
//! For programs that give no URI, the environment variable `NVJ_DEFAULT` has the parameters
//! (`nvm=/mnt/pmem/main.nvj`), and the VFS is the default one.

#![forbid(unsafe_code)]

pub use nvm_journal_sqlite;
