//! A mounted database without SQLite's types: its file, its locks, and its connections.

pub(crate) mod codes;
pub(crate) mod connection;
pub(crate) mod counts;
pub(crate) mod locks;
pub(crate) mod mounted_file;
pub(crate) mod old_pages;
