//! The memory that a journal works in: plain slices, given by the caller.
//!
//! [`Needs::of`] says how much of each. More helps only for entries and nodes.

use crate::commit::batched::Batched;
use crate::format::geometry::Geometry;
use crate::index::{Entry, Node};
use crate::order::ordered::NoHook;
use crate::scan::error::OpenError;
use crate::space::lane::LaneMemory;
use crate::space::part::{ENCODED_BLOCKS, front_bytes_max, record_front_bytes_max};
use crate::space::slot_state::SlotState;

/// The slices.
#[derive(Debug)]
pub struct JournalMemory<'m, P, H = NoHook> {
    /// One for each lane.
    pub lanes: &'m mut [LaneMemory<P, H>],
    /// One for each block that is not home, and a third more to keep searches short.
    pub entries: &'m mut [Entry],
    /// One for each frame in the lanes.
    pub nodes: &'m mut [Node],
    /// Blocks that one batch of a checkpoint writes home, and that one transaction writes to the
    /// disk-side log.
    pub batch: &'m mut [Batched],
    /// Where fronts of records are built and read.
    pub front: &'m mut [u8],
    /// Where encoded payloads of one transaction lie until they are stored.
    pub encoded: &'m mut [u8],
    /// Whole blocks: where images are built on their way home. More make longer writes.
    pub blocks: &'m mut [u8],
    /// One for each slot, and for each block of the disk-side log.
    pub slots: &'m mut [SlotState],
}

/// How long the slices of a [`JournalMemory`] have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// Exactly one for each lane.
    pub lanes: usize,
    /// At least.
    pub entries: usize,
    /// At least.
    pub nodes: usize,
    /// At least.
    pub batch: usize,
    /// At least.
    pub front_bytes: usize,
    /// Of these, what the fronts of records in the lanes take.
    pub record_front_bytes: usize,
    /// At least.
    pub encoded_bytes: usize,
    /// At least.
    pub blocks_bytes: usize,
    /// At least.
    pub slots: usize,
}

impl Needs {
    /// What a journal of this geometry needs when no more than `frames` frames are in its lanes and
    /// slots at a time. A commit that would exceed that is refused, as for lack of space in a lane.
    #[must_use]
    pub const fn of(geometry: &Geometry, frames: usize) -> Self {
        let block = geometry.block_size.bytes();
        Self {
            lanes: geometry.lanes as usize,
            entries: frames.saturating_add(frames / 3).saturating_add(2),
            nodes: frames,
            batch: 1,
            front_bytes: front_bytes_max(geometry),
            record_front_bytes: record_front_bytes_max(geometry),
            encoded_bytes: block.saturating_mul(ENCODED_BLOCKS),
            blocks_bytes: block,
            slots: geometry.slots() as usize,
        }
    }
}

impl<P, H> JournalMemory<'_, P, H> {
    /// Which slice is too short, if one is.
    pub(crate) fn too_short(&self, geometry: &Geometry) -> Option<OpenError> {
        let needs = Needs::of(geometry, 1);
        let slices = [
            ("lanes", self.lanes.len(), needs.lanes),
            ("entries", self.entries.len(), needs.entries),
            ("nodes", self.nodes.len(), needs.nodes),
            ("batch", self.batch.len(), needs.batch),
            ("front bytes", self.front.len(), needs.front_bytes),
            ("encoded bytes", self.encoded.len(), needs.encoded_bytes),
            ("blocks bytes", self.blocks.len(), needs.blocks_bytes),
            ("slots", self.slots.len(), needs.slots),
        ];
        let short = slices.into_iter().find(|(_, given, needed)| given < needed);
        short.map(|(slice, given, needed)| OpenError::MemoryTooShort { slice, given, needed })
    }
}
