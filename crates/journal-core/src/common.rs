//! The parts of an open journal that all share and none changes: policy, kernels, geometry.

use crate::commit::operation::Operation;
use crate::format::geometry::Geometry;
use crate::format::identity::CheckSeeds;
use crate::index::{Index, IndexMemory, Lead};
use crate::ports::kernels::Kernels;
use crate::ports::policy::{Change, Policy, Update};
use crate::units::BlockNumber;

/// Policy, kernels and geometry: read by all, changed by none.
#[derive(Clone, Copy, Debug)]
pub struct Common<L, K> {
    /// Decides how updates are logged.
    pub policy: L,
    /// Computes checks.
    pub kernels: K,
    /// The shape of the journal.
    pub geometry: Geometry,
    /// Blocks of the store; what the device has beyond them is the disk-side log.
    pub device_blocks: u64,
    /// The seeds of checks.
    pub(crate) seeds: CheckSeeds,
}

impl<L: Policy, K> Common<L, K> {
    /// Bytes of a block.
    #[inline]
    pub const fn block_bytes(&self) -> usize {
        self.geometry.block_size.bytes()
    }

    /// Whether the store has such a block.
    #[inline]
    pub const fn has(&self, block: BlockNumber) -> bool {
        block.raw() < self.device_blocks
    }
}

/// More would push each other out of the nearest cache.
const PREFETCH_BYTES_MAX: usize = 4096;

impl<L, K: Kernels> Common<L, K> {
    /// Begins to bring the place of the next frame into the caches: in an index of many shares it
    /// is never near the one before.
    #[inline]
    pub fn prefetch_place(&self, index: &Index<impl IndexMemory>) {
        self.kernels.prefetch_line(index.next_node());
    }

    /// Like [`prefetch_place`](Self::prefetch_place), for the next `count` frames of one index.
    #[inline(always)]
    pub fn prefetch_places(&self, index: &Index<impl IndexMemory>, count: usize) {
        index.next_nodes(count).for_each(|at| self.kernels.prefetch_line(at));
    }

    /// Begins to bring into the caches what a frame changes in an index beside its own place: the
    /// newest frame of its block and the one below that. To be called before the frame streams out
    /// (C9).
    #[inline(always)]
    pub fn prefetch_lead(&self, index: &Index<impl IndexMemory>, lead: &Lead) {
        index.nodes_of(lead).into_iter().for_each(|at| self.kernels.prefetch_line(at));
    }

    /// Begins to bring the line at an address into the caches.
    #[inline]
    pub fn prefetch_line(&self, at: *const u8) {
        self.kernels.prefetch_line(at);
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
