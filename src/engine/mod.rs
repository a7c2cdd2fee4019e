//! What transactions, readers and checkpoints do: the verbs of the front door.

pub(crate) mod background;
pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod commit_short;
pub(crate) mod gather;
pub(crate) mod read;
pub(crate) mod reserve;
pub(crate) mod room_in_turn;
pub(crate) mod scan;
pub(crate) mod versions;
