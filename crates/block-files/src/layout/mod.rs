//! The blocks of the directory, byte by byte.

pub(crate) mod format;
pub(crate) mod free_runs;
