//! What `byte-delta` would cost without its idea, for the programs that compare.

use journal_core::policy::{
    ApplyError, Encoder, Pacing, Patch, Placement, Policy, PolicyId, Thresholds, Update,
};
use nvm_journal::ByteDelta;

/// `byte-delta` without what it is for: slots are rewritten as a whole.
#[derive(Clone, Copy, Debug)]
pub struct WholeSlots(pub ByteDelta);

impl Policy for WholeSlots {
    fn id(&self) -> PolicyId {
        self.0.id()
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        self.0.place(update, out)
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        self.0.apply(payload, block)
    }

    fn rewrite_slot(&self, _older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        rewrite(Patch { at: 0, bytes: newer });
    }

    fn wants_slots(&self) -> bool {
        self.0.wants_slots()
    }

    fn thresholds(&self) -> Thresholds {
        self.0.thresholds()
    }

    fn pacing(&self) -> Pacing {
        self.0.pacing()
    }
}
