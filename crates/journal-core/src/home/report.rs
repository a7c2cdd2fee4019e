//! Reports of calls that free space, and the scopes of checkpoints.

use crate::units::SlotNumber;

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Blocks written home.
    pub blocks: u64,
    /// Writes that took, neighbouring blocks being merged.
    pub writes: u64,
    /// Batches, each ended by a sync.
    pub batches: u64,
    /// Of the blocks, those that went through the shield first.
    pub shielded: u64,
    /// Bytes of the lanes that became free.
    pub freed_bytes: u64,
    /// Slots that became free.
    pub freed_slots: u64,
    /// Blocks that were left out because their content cannot be read. A read of one says why, and
    /// `reclaim/unreadable.rs` lists the reasons. Nothing of them is lost that was there. Their
    /// frames, and what lies behind those in their lanes, take space. It comes free once the
    /// blocks are written anew, whole, or discarded.
    pub unreadable: u64,
    /// The most nodes of the index that one step went through for what is oldest, of those that
    /// are or were used. Its time goes with that.
    pub longest_pass: u64,
}

/// How a step of a checkpoint has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Blocks were written home, or heads have moved, or both.
    Done,
    /// Nothing lies in the rings.
    Empty,
    /// Something keeps the heads where they are that a step does not deal with.
    Stuck,
    /// An append keeps a head where it is, for as long as it is on its way home.
    Held,
}

/// What a step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepBounds {
    /// How many nanoseconds it is to take at most, on fast memory and a fast disk.
    pub nanos: u64,
    /// Whether it writes home. If not, it folds frames and gives slots back, and heads pass what
    /// needs no write home.
    pub writes_home: bool,
    /// Whether a list of blocks in slots is made by a pass through the whole index, and no slots of
    /// older versions are looked for. Such a list has the blocks that were used longest ago of all.
    pub lists_all: bool,
}

/// What a checkpoint writes home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// Leaves out blocks whose newest frame has been folded into a slot entry.
    Rings,
    /// One batch of what slots hold: those used longest ago, where reads are noted, or else those
    /// written longest ago.
    OldestInSlots,
    /// What a segment of the disk-side log holds, from one of its numbers up to another.
    Segment {
        /// Its first.
        first: SlotNumber,
        /// The one behind its last.
        end: SlotNumber,
    },
}

/// What folding, or giving older versions back, did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FoldReport {
    /// Frames that entries of slots say by now.
    pub folded: u64,
    /// Slots that became free.
    pub freed_slots: u64,
    /// Bytes of the lanes that became free.
    pub freed_bytes: u64,
    /// Fences that took.
    pub fences: u64,
}
