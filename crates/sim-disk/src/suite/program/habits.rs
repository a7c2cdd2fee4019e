//! What a policy does with the updates that the suite makes, found out by asking it.
//!
//! A policy that has never been seen is tested like a known one. The suite asks [`Policy::place`]
//! about updates of each shape that it makes, and takes the answers for the policy's habits.

use journal_core::policy::{
    Change, Encoder, Kind, Patch, Placement, Policy, PolicyId, Span, Update,
};
use journal_core::{BlockNumber, WORD_BYTES};

use crate::media::rng::mix;
use crate::suite::program::oracle::{BLOCK_BYTES, Block, Edit, edited};

/// How a policy answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Habits {
    /// Its number.
    pub id: PolicyId,
    /// Whether it encodes anything, so that what is logged may need what is home.
    pub logs_deltas: bool,
    /// Whether it logs an update of which nothing but the changed bytes is known.
    pub takes_patches: bool,
    /// Whether it has appends written over what is home.
    pub appends_go_home: bool,
    /// Whether it keeps versions in slots.
    pub has_slots: bool,
    /// Whether it writes whole blocks to the disk-side log.
    pub has_log: bool,
    /// Whether what is in slots, or there, stays.
    pub keeps_in_slots: bool,
}

/// Images that it is asked about.
const ASKED: u64 = 8;

impl Habits {
    /// Whether what it writes outside of the records has entries, which are folded.
    #[must_use]
    pub const fn has_places(&self) -> bool {
        self.has_slots || self.has_log
    }

    /// What `policy` answers.
    #[must_use]
    pub fn of(policy: &impl Policy) -> Self {
        let mut habits = Self {
            id: policy.id(),
            logs_deltas: false,
            takes_patches: false,
            appends_go_home: false,
            has_slots: policy.wants_slots(),
            has_log: policy.wants_log(),
            keeps_in_slots: policy.keeps_in_slots(),
        };
        let mut old: Block = [0; BLOCK_BYTES];
        for number in 0..ASKED {
            let at = mix(number);
            let new = edited(&old, at, Edit::Write);
            habits.note(policy, &old, &new, &edited(&old, at, Edit::WriteAt));
            old = new;
        }
        habits
    }

    /// Asks about one block: all of it changes, or its first word.
    fn note(&mut self, policy: &impl Policy, old: &Block, all: &Block, word: &Block) {
        let spans = [Span { at: 0, len: WORD_BYTES as u32 }];
        let patches = [Patch { at: 0, bytes: &word[..WORD_BYTES] }];
        let ranges = Change::Ranges { image: word, ranges: &spans };
        let mut place = |change, old, kind| {
            let mut update = Update::new(BlockNumber(0), change);
            (update.old, update.kind) = (old, kind);
            let placement = policy.place(&update, &mut Encoder::new(&mut [0; BLOCK_BYTES]));
            self.logs_deltas |= placement == Placement::Encoded;
            placement
        };
        place(Change::Image(all), Some(&old[..]), Kind::Overwrite);
        place(Change::Image(all), None, Kind::Overwrite);
        place(ranges, Some(&old[..]), Kind::Overwrite);
        place(ranges, None, Kind::Overwrite);
        let patched = place(Change::Patches(&patches), None, Kind::Overwrite);
        let appended = place(Change::Image(all), None, Kind::Append);
        self.takes_patches |= patched == Placement::Encoded;
        self.appends_go_home |= appended == Placement::Home;
    }
}
