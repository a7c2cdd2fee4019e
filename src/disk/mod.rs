//! Disks: a file, and a journal's log beside the blocks of its store.

pub(crate) mod direct;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod joined;
pub(crate) mod options;
mod syncs;
