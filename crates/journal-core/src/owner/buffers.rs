//! The memory that a journal works in, owned: for owners that have an allocator.
//!
//! **Crash**: nothing of it is on the medium.

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;

use crate::commit::batched::Batched;
use crate::format::geometry::Geometry;
use crate::index::{Entry, Node};
use crate::order::ordered::NoHook;
use crate::owner::memory::{JournalMemory, Needs};
use crate::space::lane::LaneMemory;
use crate::space::slot_state::SlotState;

/// Owns what [`JournalMemory`] borrows.
#[derive(Debug)]
pub struct Buffers<P, H = NoHook> {
    lanes: Vec<LaneMemory<P, H>>,
    entries: Vec<Entry>,
    nodes: Vec<Node>,
    batch: Vec<Batched>,
    front: Vec<u8>,
    encoded: Vec<u8>,
    blocks: Vec<u8>,
    slots: Vec<SlotState>,
}

impl<P, H> Buffers<P, H> {
    /// Memory for a journal of this geometry, with room for `frames` frames in its lanes, and
    /// batches of `batch_blocks` blocks in its checkpoints.
    #[must_use]
    pub fn new(geometry: &Geometry, frames: usize, batch_blocks: usize) -> Self {
        let needs = Needs::of(geometry, frames);
        let batch_blocks = batch_blocks.max(needs.batch);
        Self {
            lanes: (0..needs.lanes).map(|_| LaneMemory::EMPTY).collect(),
            entries: vec![Entry::EMPTY; needs.entries],
            nodes: vec![Node::EMPTY; needs.nodes],
            batch: vec![Batched::EMPTY; batch_blocks],
            front: vec![0; needs.front_bytes],
            encoded: vec![0; needs.encoded_bytes],
            // A whole batch may lie in one run.
            blocks: vec![0; batch_blocks.saturating_mul(geometry.block_size.bytes())],
            slots: vec![SlotState::EMPTY; needs.slots],
        }
    }

    /// Gives it room for `blocks` blocks in one write home: longer writes take more memory. Without
    /// this call, the room is a whole batch.
    #[must_use]
    pub fn run_blocks(mut self, blocks: usize, geometry: &Geometry) -> Self {
        self.blocks = vec![0; blocks.max(1).saturating_mul(geometry.block_size.bytes())];
        self
    }

    /// The slices that a journal is opened with.
    pub fn borrow(&mut self) -> JournalMemory<'_, P, H> {
        JournalMemory {
            lanes: &mut self.lanes,
            entries: &mut self.entries,
            nodes: &mut self.nodes,
            batch: &mut self.batch,
            front: &mut self.front,
            encoded: &mut self.encoded,
            blocks: &mut self.blocks,
            slots: &mut self.slots,
        }
    }
}
