//! The steps that programs are made of.

use core::fmt;

use journal_core::Durability;

use crate::suite::program::oracle::{Edit, Edits};

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A transaction through a lane.
    Commit(u16, Edits, Durability),
    /// A transaction that is stored in as many parts as there are lists, and then committed or
    /// aborted.
    Stream(u16, Vec<Edits>, bool),
    /// Makes deferred transactions durable.
    Sync,
    /// Writes home, everything, and empties the lanes.
    Checkpoint,
    /// Writes one batch home.
    Batch,
    /// Drops from the lanes what can be dropped.
    LetHeadsPass,
    /// Frees space at the head of a lane by copying; whether anything has to be copied.
    Relog(u16, bool),
    /// A transaction of one block whose content was written to a slot, and changed there, before.
    Active(u16, usize, Durability),
    /// A transaction of one block whose content was spilled to a slot, and again, before; or that
    /// spill alone.
    Spill(u16, usize, bool),
    /// Lets slots' entries say what the rings do.
    Fold,
    /// Gives back the slots of superseded versions.
    Garbage,
    /// Empties the rings, and leaves in slots what is there.
    Rings,
    /// Writes home what slots hold, one batch.
    Evict,
    /// Makes blocks of the disk-side log free: what is left in a segment goes home.
    Clean,
    /// Moves blocks of which changes are logged to a lane's disk-side log.
    Move(u16),
    /// Closes the journal without ceremony and opens it again.
    Reopen,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit(lane, edits, durability) => {
                write!(f, "a {durability:?} commit through lane {lane}: {}", in_words(edits))
            }
            Self::Stream(lane, parts, commits) => {
                let parts: Vec<String> = parts.iter().map(|part| in_words(part)).collect();
                let end = if *commits { "committed" } else { "aborted" };
                write!(f, "a transaction through lane {lane}, stored in {} parts ", parts.len())?;
                write!(f, "and then {end}: {}", parts.join("; "))
            }
            Self::Sync => f.write_str("sync"),
            Self::Checkpoint => f.write_str("checkpoint"),
            Self::Batch => f.write_str("one batch of a checkpoint"),
            Self::LetHeadsPass => f.write_str("drop from the lanes what can be dropped"),
            Self::Relog(lane, _) => write!(f, "free the head of lane {lane} by copying"),
            Self::Active(lane, block, durability) => {
                write!(
                    f,
                    "a {durability:?} commit through lane {lane} of a slot with block {block}"
                )
            }
            Self::Spill(lane, block, commits) => {
                let end = if *commits { "and commit it" } else { "and forget it" };
                write!(f, "spill block {block} to a slot of lane {lane}, {end}")
            }
            Self::Fold => f.write_str("fold: entries of slots say what the rings do"),
            Self::Garbage => f.write_str("give back the slots of superseded versions"),
            Self::Rings => f.write_str("empty the rings, leaving what is in slots"),
            Self::Evict => f.write_str("write home a batch of what slots hold"),
            Self::Move(lane) => write!(f, "move changed blocks to the log of lane {lane}"),
            Self::Clean => f.write_str("write home what is left of a segment of the log"),
            Self::Reopen => f.write_str("close without ceremony, and open"),
        }
    }
}

fn in_words(edits: &[(usize, Edit)]) -> String {
    let edits = edits.iter().map(|(block, edit)| match edit {
        Edit::Write => format!("change the first and the last word of block {block}"),
        Edit::WriteAt => format!("change the first word of block {block}"),
        Edit::Overwrite => format!("overwrite block {block}"),
        Edit::Append => format!("append block {block}"),
        Edit::Discard => format!("discard block {block}"),
    });
    edits.collect::<Vec<_>>().join(", ")
}
