//! Space comes back without the disk.

pub(crate) mod fold;
pub(crate) mod movable;
pub(crate) mod relog;
pub(crate) mod unreadable;
