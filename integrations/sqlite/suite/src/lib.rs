//! What SQLite's own test programs link: `nvj_init` registers the VFS.

#![forbid(unsafe_code)]

pub use nvm_journal_sqlite;
