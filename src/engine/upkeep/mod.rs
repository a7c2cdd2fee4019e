//! What makes room, beside threads that commit.

pub(crate) mod background;
pub(crate) mod checkpoint;
mod in_steps;
pub(crate) mod move_to_log;
mod relog;
