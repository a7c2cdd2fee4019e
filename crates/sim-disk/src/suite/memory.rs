//! The memory that the suite's journals work in, owned.

use journal_core::{Batched, Entry, Geometry, JournalMemory, LaneSlot, Needs, Node, SlotState};

use crate::mutants::Mutator;
use crate::pmem::SimPmem;

/// Owns what [`JournalMemory`] borrows, for a journal under the simulator.
#[derive(Debug)]
pub struct Memory {
    lanes: Vec<LaneSlot<SimPmem, Mutator>>,
    entries: Vec<Entry>,
    nodes: Vec<Node>,
    batch: Vec<Batched>,
    front: Vec<u8>,
    encoded: Vec<u8>,
    blocks: Vec<u8>,
    slots: Vec<SlotState>,
}

impl Memory {
    /// Memory for a journal of this shape, with room for so many frames, and for checkpoints that
    /// write so many blocks home together.
    #[must_use]
    pub fn new(geometry: &Geometry, frames: usize, batch_blocks: usize) -> Self {
        let needs = Needs::of(geometry, frames);
        let batch_blocks = batch_blocks.max(needs.batch);
        Self {
            lanes: (0..needs.lanes).map(|_| LaneSlot::EMPTY).collect(),
            entries: vec![Entry::EMPTY; needs.entries],
            nodes: vec![Node::EMPTY; needs.nodes],
            batch: vec![Batched::EMPTY; batch_blocks],
            front: vec![0; needs.front_bytes],
            encoded: vec![0; needs.encoded_bytes],
            blocks: vec![0; batch_blocks * geometry.block_size.bytes()],
            slots: vec![SlotState::EMPTY; needs.slots],
        }
    }

    /// The slices that a journal is opened with.
    pub fn borrow(&mut self) -> JournalMemory<'_, SimPmem, Mutator> {
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
