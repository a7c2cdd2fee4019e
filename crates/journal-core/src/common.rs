//! What every part of an open journal goes by, and nothing changes.

use crate::geometry::Geometry;
use crate::policy::Policy;
use crate::units::{BlockNumber, Epoch, Generation};

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
    /// Of the checks of what slots and the disk-side log hold.
    pub(crate) content_seed: u64,
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

/// What all records that are written now have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// All checks' seed: made of the journal's id.
    pub(crate) seed: u64,
    pub(crate) epoch: Epoch,
    pub(crate) generation: Generation,
}
