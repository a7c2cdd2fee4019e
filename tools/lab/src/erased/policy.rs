//! Any policy, as one type.

use core::fmt;
use std::sync::Arc;

use journal_core::policy::{
    ApplyError, Encoder, Pacing, Patch, Placement, Policy, PolicyId, Prefix, Thresholds, Update,
};

/// A policy that can be copied behind a pointer.
trait Copied: Policy + Send + Sync {
    /// A copy that knows the batches of its checkpoints.
    fn with_batches(&self, blocks: u32, shielded: u32) -> Arc<dyn Copied>;
}

impl<L: Policy + Clone + Send + Sync + 'static> Copied for L {
    fn with_batches(&self, blocks: u32, shielded: u32) -> Arc<dyn Copied> {
        let mut copy = self.clone();
        copy.set_batches(blocks, shielded);
        Arc::new(copy)
    }
}

/// A policy behind a pointer; clones share it.
#[derive(Clone)]
pub struct DynPolicy(Arc<dyn Copied>);

impl DynPolicy {
    pub fn new(policy: impl Policy + Clone + Send + Sync + 'static) -> Self {
        Self(Arc::new(policy))
    }
}

impl fmt::Debug for DynPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.id(), f)
    }
}

impl Policy for DynPolicy {
    fn id(&self) -> PolicyId {
        self.0.id()
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        self.0.place(update, out)
    }

    fn prefix_of(&self, patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
        self.0.prefix_of(patches, at)
    }

    fn logs_patches(&self) -> bool {
        self.0.logs_patches()
    }

    fn patch_bytes_on_old(&self, block_bytes: usize) -> usize {
        self.0.patch_bytes_on_old(block_bytes)
    }

    fn wants_old_check(&self) -> bool {
        self.0.wants_old_check()
    }

    fn counts_alike(&self) -> bool {
        self.0.counts_alike()
    }

    fn set_batches(&mut self, blocks: u32, shielded: u32) {
        self.0 = self.0.with_batches(blocks, shielded);
    }

    fn place_on(&self, update: &Update<'_>, old_check: u64, out: &mut Encoder<'_>) -> Placement {
        self.0.place_on(update, old_check, out)
    }

    fn logs_images(&self) -> bool {
        self.0.logs_images()
    }

    fn logs_whole_blocks(&self) -> bool {
        self.0.logs_whole_blocks()
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        self.0.apply(payload, block)
    }

    fn check(&self, payload: &[u8], block: &[u8]) -> Result<(), ApplyError> {
        self.0.check(payload, block)
    }

    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        self.0.rewrite_slot(older, newer, rewrite);
    }

    fn wants_slots(&self) -> bool {
        self.0.wants_slots()
    }

    fn wants_log(&self) -> bool {
        self.0.wants_log()
    }

    fn wants_old(&self) -> bool {
        self.0.wants_old()
    }

    fn wants_cached_old(&self) -> bool {
        self.0.wants_cached_old()
    }

    fn sends_appends_home(&self) -> bool {
        self.0.sends_appends_home()
    }

    fn bypasses_when_full(&self) -> bool {
        self.0.bypasses_when_full()
    }

    fn keeps_in_slots(&self) -> bool {
        self.0.keeps_in_slots()
    }

    fn thresholds(&self) -> Thresholds {
        self.0.thresholds()
    }

    fn pacing(&self) -> Pacing {
        self.0.pacing()
    }

    fn objects_in(&self, update: &Update<'_>) -> u32 {
        self.0.objects_in(update)
    }
}
