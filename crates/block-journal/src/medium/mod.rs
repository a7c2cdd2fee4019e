//! The journal's device, byte by byte.

pub(crate) mod format;
pub(crate) mod layout;
pub(crate) mod superblock;
