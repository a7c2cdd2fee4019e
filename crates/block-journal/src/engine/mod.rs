//! What the journal does.

mod checkpoint;
mod commit;
pub(crate) mod journal;
mod recovery;
