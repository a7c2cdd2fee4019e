//! The suite's programs, over the policies of this project and that of the tests.

use adaptive::{Adaptive, Wish};
use byte_delta::ByteDelta;
use compressed_delta::CompressedDelta;
use full_block::FullBlock;
use journal_core::policy::{
    ApplyError, Encoder, Pacing, Patch, Placement, Policy, PolicyId, Prefix, Thresholds, Update,
};
use lcow::Lcow;
use object_log::{ObjectLog, Settings};
use policy_codec::bitmap::Unit;
use two_level::TwoLevel;

use crate::core_crash::delta::{Logged, Mixed, Words};

/// A program over one of them.
pub type Program = sim_disk::suite::Program<Kind>;

/// Which policy the journal has. It does what that one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    FullBlock,
    Words,
    /// Objects of 16 bytes, four in a block.
    ObjectLog,
    ByteDelta,
    Lcow,
    /// Whole blocks in the disk-side log, words in the records.
    Logged,
    CompressedDelta,
    /// Sub-blocks of a word.
    TwoLevel,
    /// In the fewest bytes; what takes more than half of a block goes to the disk.
    Adaptive,
    /// `adaptive` with slots instead of the disk. What is appended goes home.
    AdaptiveSlots,
    /// Each of the ways there are, by what the new image is.
    Mixed,
}

/// The policy of objects, in the size of these blocks.
pub fn object_log() -> ObjectLog {
    ObjectLog::with(Settings::new().object_bytes(16)).expect("settings that can be")
}

/// The policy of two levels, in the size of these blocks: a transaction that writes two words, and
/// is shown the old image, stays in memory, any other goes to the disk.
pub fn two_level() -> TwoLevel {
    TwoLevel::with(two_level::Settings::new().sub_block(Unit::WORD).few_units(64))
}

/// The adaptive policy, with the disk-side log.
pub fn adaptive() -> Adaptive {
    Adaptive::with(adaptive::Settings::new().wish(Wish::Wear).bypass_above(128))
}

/// The adaptive policy, with slots, and with appends that go home.
pub fn adaptive_slots() -> Adaptive {
    let settings = adaptive::Settings::new().wish(Wish::Wear).slots(true);
    Adaptive::with(settings.appends_home(Some(0)))
}

/// Calls the same method of whichever policy it is.
macro_rules! of_kind {
    ($self:ident, $policy:ident => $call:expr) => {
        match $self {
            Kind::FullBlock => {
                let $policy = FullBlock;
                $call
            }
            Kind::Words => {
                let $policy = Words;
                $call
            }
            Kind::ObjectLog => {
                let $policy = object_log();
                $call
            }
            Kind::ByteDelta => {
                let $policy = ByteDelta::new();
                $call
            }
            Kind::Lcow => {
                let $policy = Lcow::new();
                $call
            }
            Kind::Logged => {
                let $policy = Logged;
                $call
            }
            Kind::CompressedDelta => {
                let $policy = CompressedDelta::new();
                $call
            }
            Kind::TwoLevel => {
                let $policy = two_level();
                $call
            }
            Kind::Adaptive => {
                let $policy = adaptive();
                $call
            }
            Kind::AdaptiveSlots => {
                let $policy = adaptive_slots();
                $call
            }
            Kind::Mixed => {
                let $policy = Mixed;
                $call
            }
        }
    };
}

impl Policy for Kind {
    fn id(&self) -> PolicyId {
        of_kind!(self, policy => policy.id())
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        of_kind!(self, policy => policy.place(update, out))
    }

    fn prefix_of(&self, patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
        of_kind!(self, policy => policy.prefix_of(patches, at))
    }

    fn logs_patches(&self) -> bool {
        of_kind!(self, policy => policy.logs_patches())
    }

    fn patch_bytes_on_old(&self, block_bytes: usize) -> usize {
        of_kind!(self, policy => policy.patch_bytes_on_old(block_bytes))
    }

    fn wants_old_check(&self) -> bool {
        of_kind!(self, policy => policy.wants_old_check())
    }

    fn place_on(&self, update: &Update<'_>, old_check: u64, out: &mut Encoder<'_>) -> Placement {
        of_kind!(self, policy => policy.place_on(update, old_check, out))
    }

    fn logs_images(&self) -> bool {
        of_kind!(self, policy => policy.logs_images())
    }

    fn logs_whole_blocks(&self) -> bool {
        of_kind!(self, policy => policy.logs_whole_blocks())
    }

    fn counts_alike(&self) -> bool {
        of_kind!(self, policy => policy.counts_alike())
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        of_kind!(self, policy => policy.apply(payload, block))
    }

    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        of_kind!(self, policy => policy.rewrite_slot(older, newer, rewrite));
    }

    fn check(&self, payload: &[u8], block: &[u8]) -> Result<(), ApplyError> {
        of_kind!(self, policy => policy.check(payload, block))
    }

    fn wants_slots(&self) -> bool {
        of_kind!(self, policy => policy.wants_slots())
    }

    fn wants_log(&self) -> bool {
        of_kind!(self, policy => policy.wants_log())
    }

    fn wants_old(&self) -> bool {
        of_kind!(self, policy => policy.wants_old())
    }

    fn wants_cached_old(&self) -> bool {
        of_kind!(self, policy => policy.wants_cached_old())
    }

    fn sends_appends_home(&self) -> bool {
        of_kind!(self, policy => policy.sends_appends_home())
    }

    fn keeps_in_slots(&self) -> bool {
        of_kind!(self, policy => policy.keeps_in_slots())
    }

    fn bypasses_when_full(&self) -> bool {
        of_kind!(self, policy => policy.bypasses_when_full())
    }

    fn thresholds(&self) -> Thresholds {
        of_kind!(self, policy => policy.thresholds())
    }

    fn pacing(&self) -> Pacing {
        of_kind!(self, policy => policy.pacing())
    }

    fn objects_in(&self, update: &Update<'_>) -> u32 {
        of_kind!(self, policy => policy.objects_in(update))
    }
}

#[cfg(test)]
mod tests {
    use sim_disk::suite::Habits;

    use super::*;

    /// The suite finds out by asking what these policies say of themselves.
    #[test]
    fn habits_are_found_out() {
        let habits = |kind: Kind| {
            let habits = Habits::of(&kind);
            assert_eq!(habits.id, kind.id());
            let Habits { logs_deltas, takes_patches, appends_go_home, .. } = habits;
            let slots = (habits.has_slots, habits.keeps_in_slots);
            let logs =
                [Kind::Logged, Kind::CompressedDelta, Kind::TwoLevel, Kind::Adaptive, Kind::Mixed];
            assert_eq!(habits.has_log, logs.contains(&kind));
            (logs_deltas, takes_patches, appends_go_home, slots)
        };
        assert_eq!(habits(Kind::FullBlock), (false, false, false, (false, false)));
        assert_eq!(habits(Kind::Words), (true, false, false, (false, false)));
        assert_eq!(habits(Kind::ObjectLog), (true, true, false, (false, false)));
        assert_eq!(habits(Kind::ByteDelta), (true, true, true, (true, false)));
        assert_eq!(habits(Kind::Lcow), (true, true, false, (true, true)));
        assert_eq!(habits(Kind::Logged), (true, false, false, (false, true)));
        assert_eq!(habits(Kind::CompressedDelta), (true, false, false, (false, true)));
        assert_eq!(habits(Kind::TwoLevel), (true, true, false, (false, true)));
        assert_eq!(habits(Kind::Adaptive), (true, false, false, (false, true)));
        assert_eq!(habits(Kind::AdaptiveSlots), (true, false, true, (true, true)));
    }
}
