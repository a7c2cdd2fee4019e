//! Where things are stored: lanes, rings, slots, segments, superblocks, and what is free there.

pub(crate) mod lane;
pub(crate) mod part;
pub(crate) mod ring;
pub(crate) mod segments;
pub mod slots;
pub mod superblocks;
pub(crate) mod tail_word;
