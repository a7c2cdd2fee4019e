//! The cell of the home: what writes home, and the memory that it works in.

use journal_core::parts::Home;
use journal_core::{Batched, BlockNumber, Geometry, Needs};

use crate::machine::Machine;

/// What writes home, with its memory.
pub(crate) struct HomeCell<M: Machine> {
    pub(crate) home: Home<M::Pmem, M::Disk, M::Hook>,
    pub(crate) batch: Vec<Batched>,
    pub(crate) front: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) blocks: Vec<u8>,
    /// Blocks that are found and not written yet.
    pub(crate) waiting: Vec<BlockNumber>,
    /// How far the lanes could be read when everything was tried to make room, and nothing came
    /// free. Until the lanes go on, nothing will come free.
    pub(crate) in_vain: Option<u64>,
}

impl<M: Machine> HomeCell<M> {
    pub(crate) fn new(
        home: Home<M::Pmem, M::Disk, M::Hook>,
        geometry: &Geometry,
        batch_blocks: usize,
    ) -> Self {
        let needs = Needs::of(geometry, 1);
        Self {
            home,
            // One sync for a whole shield.
            batch: vec![Batched::EMPTY; batch_blocks.max(geometry.shield_blocks as usize)],
            front: vec![0; needs.front_bytes],
            payload: vec![0; needs.encoded_bytes],
            // This many blocks are written in one call, if they lie in one run.
            blocks: vec![0; batch_blocks * geometry.block_size.bytes()],
            waiting: Vec::new(),
            in_vain: None,
        }
    }
}
