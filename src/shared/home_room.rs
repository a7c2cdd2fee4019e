//! What writes home, and the memory that it works in.

use journal_core::parts::Home;
use journal_core::{Batched, Geometry, Needs};

/// What writes home, with its memory.
#[derive(Debug)]
pub(crate) struct HomeRoom<P, D, H> {
    pub(crate) home: Home<P, D, H>,
    pub(crate) batch: Vec<Batched>,
    pub(crate) front: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) blocks: Vec<u8>,
    /// How far the lanes could be read when everything was tried to make room, and nothing came
    /// free. Until the lanes go on, nothing will come free.
    pub(crate) in_vain: Option<u64>,
}

impl<P, D, H> HomeRoom<P, D, H> {
    pub(crate) fn new(home: Home<P, D, H>, geometry: &Geometry, batch_blocks: usize) -> Self {
        let needs = Needs::of(geometry, 1);
        Self {
            home,
            batch: vec![Batched::EMPTY; batch_blocks],
            front: vec![0; needs.front_bytes],
            payload: vec![0; needs.encoded_bytes],
            // A whole batch may lie in one run.
            blocks: vec![0; batch_blocks * geometry.block_size.bytes()],
            in_vain: None,
        }
    }
}
