//! The medium, byte by byte.

pub(crate) mod front;
pub mod geometry;
pub(crate) mod identity;
pub mod record;
pub(crate) mod slot_entry;
pub(crate) mod superblock;
pub(crate) mod tail_word;
