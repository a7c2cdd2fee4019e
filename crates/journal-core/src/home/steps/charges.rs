//! What a step of a checkpoint is charged, so that it ends in time.

use crate::home::oldest::Oldest;
use crate::index::Indexes;

/// What a step is charged for a node of the index that it goes through, in nanoseconds. These
/// charges are what the steps were seen to take, on plain memory and a disk of plain memory.
const NODE_NANOS: u64 = 10;

/// What it is charged for a frame of a list that it goes through to put some in order.
pub(super) const ORDER_NANOS: u64 = 10;

/// What a frame of a list costs until it is in order, where a pass made the list. Records at a head
/// are in order. Where assertions are on, short records of a test are read sooner, and long ones
/// are not.
const IN_ORDER_NANOS: u64 = if cfg!(debug_assertions) { 150 } else { 100 };

/// What it is charged for a record that it lists at a head, and for each of its frames.
const LISTED_NANOS: u64 = 60;

/// What it is charged to list a record at a head, which has this number of bytes. All are checked.
pub(super) const fn nanos_of_record(bytes: u64, frames: u64) -> u64 {
    LISTED_NANOS.saturating_mul(frames.saturating_add(1)).saturating_add(bytes / 8)
}

/// What it is charged for a frame that it looks at and passes.
pub(super) const FRAME_NANOS: u64 = 500;

/// What it is charged for a frame beside that, where slots may be folded or given back.
pub(super) const SLOT_NANOS: u64 = 500;

/// What it is charged for a block, beside what its bytes take.
const BLOCK_NANOS: u64 = 3_000;

/// What it is charged for a frame of a block that is no whole block, where ordinary memory does not
/// have the content.
const CHANGE_NANOS: u64 = 1_000;

/// What it is charged for a block that is written home: half a nanosecond for each byte, half as
/// much again where it is read from home before, and for each change that it is built from.
pub(super) const fn nanos_of(block_bytes: usize, changes: u64, reads_home: bool) -> u64 {
    let bytes = block_bytes as u64;
    let read = if reads_home { bytes / 4 } else { 0 };
    let copies = (bytes / 2).saturating_add(read);
    BLOCK_NANOS.saturating_add(copies).saturating_add(changes.saturating_mul(CHANGE_NANOS))
}

/// What a step may be charged, and what it was charged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charges {
    pub(super) most: u64,
    so_far: u64,
    /// For each frame that is looked at.
    pub(super) frame: u64,
}

impl Charges {
    pub(super) const fn up_to(most: u64) -> Self {
        Self { most, so_far: 0, frame: FRAME_NANOS }
    }

    pub(super) const fn add(&mut self, nanos: u64) {
        self.so_far = self.so_far.saturating_add(nanos);
    }

    pub(super) const fn left(&self) -> u64 {
        self.most.saturating_sub(self.so_far)
    }

    /// How many frames may still be looked at.
    pub(super) fn frames_left(&self) -> usize {
        let frames = self.left().checked_div(self.frame).unwrap_or(u64::MAX);
        usize::try_from(frames).unwrap_or(usize::MAX)
    }

    pub(super) const fn have_room_for(&self, nanos: u64) -> bool {
        self.so_far.saturating_add(nanos) <= self.most
    }
}

/// Nodes of the indexes. A pass goes through all, and works where frames are or were.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexNodes {
    pub(super) all: usize,
    used: usize,
    frames: usize,
}

impl IndexNodes {
    pub(super) fn of(indexes: &mut impl Indexes) -> Self {
        let mut nodes = Self { all: 0, used: 0, frames: 0 };
        indexes.each(|index| {
            nodes.all = nodes.all.saturating_add(index.node_count());
            nodes.used = nodes.used.saturating_add(index.used_nodes());
            nodes.frames = nodes.frames.saturating_add(index.frames());
        });
        nodes
    }

    /// How many are left for a list whose pass has begun.
    pub(super) const fn behind(&self, list: &Oldest<'_>) -> usize {
        if list.is_whole() { 0 } else { self.all.saturating_sub(list.passed_nodes()) }
    }

    /// Whether a list of this memory is made sooner, for each of its frames, by reading records at
    /// the heads than by a pass. The records have this number of bytes, and most have one frame.
    pub(super) fn are_read_sooner(&self, list: &Oldest<'_>, bytes: u64) -> bool {
        let frames = (self.frames as u64).max(1);
        let listed = frames.min(list.memory.len() as u64).max(1);
        let passed = self.nanos_of(self.all).div_ceil(listed);
        let read = nanos_of_record(bytes.div_ceil(frames), 1);
        read < passed.saturating_add(IN_ORDER_NANOS)
    }

    /// About how many of some of them are used.
    pub(super) fn used_of(&self, nodes: usize) -> u64 {
        let used = (self.used as u128).saturating_mul(nodes as u128);
        let used = used.checked_div(self.all as u128).unwrap_or(0);
        u64::try_from(used).unwrap_or(u64::MAX)
    }

    /// What a step is charged to go through some of them.
    pub(super) fn nanos_of(&self, nodes: usize) -> u64 {
        NODE_NANOS.saturating_mul(self.used_of(nodes))
    }

    /// How many a step goes through in this time: at least one.
    pub(super) fn within(&self, nanos: u64) -> usize {
        let used = u128::from(nanos / NODE_NANOS);
        let nodes = used.saturating_mul(self.all as u128).checked_div(self.used as u128);
        usize::try_from(nodes.unwrap_or(u128::MAX)).unwrap_or(usize::MAX).max(1)
    }
}
