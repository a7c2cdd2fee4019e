//! What a commit asks the caches for before it needs it (C9, in the door's `src/engine/mod.rs`).

use crate::commit::operation::Operation;
use crate::common::Common;
use crate::index::{Index, IndexMemory, Lead};
use crate::ports::kernels::Kernels;
use crate::ports::policy::{Change, Policy, Update};

/// More would push each other out of the nearest cache.
const PREFETCH_BYTES_MAX: usize = 4096;

impl<L, K: Kernels> Common<L, K> {
    /// Begins to bring the node of the next frame into the caches. In an index of many shares it is
    /// never near the one before.
    #[inline]
    pub fn prefetch_next_node(&self, index: &Index<impl IndexMemory>) {
        self.kernels.prefetch_line(index.next_node());
    }

    /// Like [`prefetch_next_node`](Self::prefetch_next_node), for the next `count` frames of one
    /// index.
    #[inline(always)]
    pub fn prefetch_next_nodes(&self, index: &Index<impl IndexMemory>, count: usize) {
        index.next_nodes(count).for_each(|at| self.kernels.prefetch_line(at));
    }

    /// Begins to bring into the caches what a frame changes in an index beside its own node: the
    /// newest frame of its block and the one below that. To be called before the frame streams out
    /// (C9).
    #[inline(always)]
    pub fn prefetch_lead(&self, index: &Index<impl IndexMemory>, lead: &Lead) {
        index.nodes_of(lead).into_iter().for_each(|at| self.kernels.prefetch_line(at));
    }
}

impl<L: Policy, K: Kernels> Common<L, K> {
    /// Begins to bring the first image into the caches. For a commit's very beginning (C9).
    #[inline]
    pub fn prefetch(&self, operations: &[Operation<'_>]) {
        if let Some(Operation::Update(Update { change: Change::Image(image), .. })) =
            operations.first()
        {
            self.prefetch_image(image);
        }
    }

    /// Begins to bring an image into the caches, or the first part of it.
    #[inline]
    pub fn prefetch_image(&self, image: &[u8]) {
        let end = image.len().min(PREFETCH_BYTES_MAX);
        self.kernels.prefetch(image.get(..end).unwrap_or_default());
    }
}
