//! What every part of an open journal reads and none changes: policy, kernels, geometry, seeds.
//!
//! The other methods of [`Common`] lie with what they do: how operations become a record in
//! `commit/store.rs`, `commit/one_operation.rs` and `commit/patches.rs`; what a commit asks for
//! ahead in `commit/prefetch.rs`; how content is put together in `home/content.rs`.

use crate::format::geometry::Geometry;
use crate::format::identity::CheckSeeds;
use crate::ports::kernels::Kernels;
use crate::ports::policy::Policy;
use crate::units::BlockNumber;

/// What an open journal is made with: its policy, kernels, geometry and seeds.
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

impl<L, K: Kernels> Common<L, K> {
    /// Begins to bring the line at an address into the caches.
    #[inline]
    pub fn prefetch_line(&self, at: *const u8) {
        self.kernels.prefetch_line(at);
    }
}
