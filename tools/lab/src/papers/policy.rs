//! The policies of the library, and what their encoding costs the host in virtual time.

use core::fmt;

use adaptive::{Form, coding_ns};
use journal_core::PolicyId;
use journal_core::policy::{
    ApplyError, Encoder, Pacing, Patch, Placement, Policy, Prefix, Thresholds, Update,
};
use nvm_journal::AnyPolicy;
use sim_disk::time::Clock;

use crate::papers::BLOCK;

/// How much slower the papers' processors are than the one of the policies' own model.
const SLOWER: u64 = 3;

/// A policy whose encoding takes virtual time. It is one type for all policies, so that the journal
/// is compiled once.
#[derive(Clone)]
pub struct HostPolicy {
    policy: AnyPolicy,
    /// Whether slots are rewritten as a whole: `byte-delta` without its idea.
    whole_slots: bool,
    /// Whether it is as published, and on a host of its time; or as the library has it, on a host
    /// of today.
    is_published: bool,
    /// From which fraction of a lane on room is made, in 256ths, where the policy is not asked.
    reclaims_at: Option<u8>,
    clock: Clock,
}

impl HostPolicy {
    pub fn new(policy: impl Into<AnyPolicy>, clock: &Clock) -> Self {
        Self {
            policy: policy.into(),
            whole_slots: false,
            is_published: true,
            reclaims_at: None,
            clock: clock.clone(),
        }
    }

    /// Makes room from this fraction of a lane on, in 256ths, whatever the policy would say.
    pub fn reclaims_at(self, fraction: u8) -> Self {
        Self { reclaims_at: Some(fraction), ..self }
    }

    /// As the library has it, on a host of today, which is the one of the policies' own model.
    pub fn of_today(self) -> Self {
        Self { is_published: false, ..self }
    }

    fn charge_ns(&self, nanos: u64) {
        self.clock.charge_cpu(if self.is_published { SLOWER * nanos } else { nanos });
    }

    pub fn with_whole_slots(self) -> Self {
        Self { whole_slots: true, ..self }
    }

    fn charge(&self, forms: &[Form]) {
        let nanos: u64 = forms.iter().map(|form| coding_ns(*form, BLOCK)).sum();
        self.charge_ns(nanos);
    }

    /// What the policy has encoded, or has tried to.
    fn charge_placed(&self, placement: Placement, out: &Encoder<'_>) {
        match (&self.policy, placement) {
            (AnyPolicy::CompressedDelta(_), Placement::Encoded) => {
                let first = out.as_bytes().first().copied();
                // A short delta is taken as it is found.
                if first == Some(Form::Runs as u8) {
                    self.charge(&[Form::Runs]);
                } else if first == Some(Form::Words as u8) {
                    self.charge(&[Form::Runs, Form::Words]);
                } else {
                    self.charge(&[Form::Runs, Form::Words, Form::Xor]);
                }
            }
            (AnyPolicy::CompressedDelta(_), Placement::DiskLog) => self.charge(&[Form::Runs]),
            (AnyPolicy::TwoLevel(_) | AnyPolicy::ObjectLog(_), Placement::Encoded) => {
                self.charge(&[Form::SubBlocks]);
            }
            _ => {}
        }
    }
}

impl fmt::Debug for HostPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)
    }
}

impl Policy for HostPolicy {
    fn id(&self) -> PolicyId {
        self.policy.id()
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        if let AnyPolicy::Adaptive(adaptive) = &self.policy {
            let choice = adaptive.choose(update, out);
            self.charge_ns(choice.coding_ns);
            return choice.placement;
        }
        let placement = self.policy.place(update, out);
        self.charge_placed(placement, out);
        placement
    }

    fn place_on(&self, update: &Update<'_>, old_check: u64, out: &mut Encoder<'_>) -> Placement {
        let AnyPolicy::Adaptive(adaptive) = &self.policy else { return self.place(update, out) };
        let choice = adaptive.choose_on(update, old_check, out);
        self.charge_ns(choice.coding_ns);
        choice.placement
    }

    fn prefix_of(&self, patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
        self.policy.prefix_of(patches, at)
    }

    /// The published systems make an image of what is patched, except for those that log objects.
    fn logs_patches(&self) -> bool {
        let logs = !self.is_published || matches!(self.policy, AnyPolicy::ObjectLog(_));
        logs && self.policy.logs_patches()
    }

    fn patch_bytes_on_old(&self, block_bytes: usize) -> usize {
        if self.is_published { 0 } else { self.policy.patch_bytes_on_old(block_bytes) }
    }

    fn wants_old_check(&self) -> bool {
        !self.is_published && self.policy.wants_old_check()
    }

    fn counts_alike(&self) -> bool {
        self.policy.counts_alike()
    }

    fn set_batches(&mut self, blocks: u32, shielded: u32) {
        self.policy.set_batches(blocks, shielded);
    }

    fn logs_images(&self) -> bool {
        self.policy.logs_images()
    }

    fn logs_whole_blocks(&self) -> bool {
        self.policy.logs_whole_blocks()
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        self.policy.apply(payload, block)
    }

    fn check(&self, payload: &[u8], block: &[u8]) -> Result<(), ApplyError> {
        self.policy.check(payload, block)
    }

    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        if self.whole_slots {
            return rewrite(Patch { at: 0, bytes: newer });
        }
        if matches!(self.policy, AnyPolicy::ByteDelta(_)) {
            self.charge(&[Form::Words]);
        }
        self.policy.rewrite_slot(older, newer, rewrite);
    }

    fn wants_slots(&self) -> bool {
        self.policy.wants_slots()
    }

    fn wants_log(&self) -> bool {
        self.policy.wants_log()
    }

    fn wants_old(&self) -> bool {
        self.policy.wants_old()
    }

    fn wants_cached_old(&self) -> bool {
        self.policy.wants_cached_old()
    }

    fn sends_appends_home(&self) -> bool {
        self.policy.sends_appends_home()
    }

    fn bypasses_when_full(&self) -> bool {
        self.policy.bypasses_when_full()
    }

    fn keeps_in_slots(&self) -> bool {
        self.policy.keeps_in_slots()
    }

    fn thresholds(&self) -> Thresholds {
        let of_policy = || self.policy.thresholds();
        self.reclaims_at.map_or_else(of_policy, |fraction| Thresholds::new(fraction, fraction))
    }

    fn pacing(&self) -> Pacing {
        self.policy.pacing()
    }

    fn objects_in(&self, update: &Update<'_>) -> u32 {
        self.policy.objects_in(update)
    }
}
