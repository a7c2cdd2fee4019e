//! Slots that are the cache: data blocks live in persistent memory, and a commit says in which
//! slots. A checkpoint writes no data to the device.
//!
//! - **Costs** in persistent memory a slot and 32 bytes beside it for each data block that is
//!   there. A block that is rewritten takes a second one meanwhile. Each update takes 32 bytes in a
//!   record. Metadata takes a whole image in the record. Reads find data in slots, so they cost no
//!   device.
//! - **Choose it** when the data that is written most fits the slots. It then goes to the device
//!   only when slots run short, the blocks used longest ago first: reads count.
//!
//! It follows HasFS, whose page cache is persistent memory with lazy copy-on-write. It has the
//! paper's slots as the cache, its entries that name slots, and its checkpoint of metadata alone.
//! Beyond the paper, one checked record and one fence make an entry durable, and rot is told from a
//! torn tail.
//!
//! The paper's journal entry is a commit here. What is written between two of them is gathered by a
//! running transaction ([`Pacing`]). That keeps it in ordinary memory as long as the memory
//! suffices. What is more goes on to active slots, where it is changed in place until the commit
//! names them.
//!
//! Patches go into the record as runs. A journal without slots logs whole blocks. An image that
//! changes nothing is not logged, where the store gives the old one. [`Settings::compares`] adds:
//! where the journal keeps the old one in ordinary memory.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use core::time::Duration;

use journal_core::policy::{
    ApplyError, Class, Encoder, Pacing, Patch, Placement, Policy, PolicyId, Prefix, Thresholds,
    Update,
};
use policy_codec::runs;

/// Settings of the policy, each with its default. None of it is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    reclaim_at: u8,
    commit_after: Duration,
    checkpoint_after: Option<Duration>,
    compares: bool,
    logs_patches: bool,
}

impl Settings {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            reclaim_at: 224,
            commit_after: Duration::from_secs(5),
            checkpoint_after: None,
            compares: false,
            logs_patches: true,
        }
    }

    /// The fraction of the slots or of a lane, in 256ths, from which on older versions are dropped.
    /// Where that is not enough, blocks are written home. 224, seven eighths.
    #[must_use]
    pub const fn reclaim_at(self, reclaim_at: u8) -> Self {
        Self { reclaim_at, ..self }
    }

    /// Whether patches of a transaction go into its record as they come. No image of the block is
    /// made or read then, and a record has the patches alone. Otherwise they make a new image,
    /// which goes to a slot like any other. On.
    #[must_use]
    pub const fn logs_patches(self, logs_patches: bool) -> Self {
        Self { logs_patches, ..self }
    }

    /// When a running transaction commits at the latest. 5 seconds.
    #[must_use]
    pub const fn commit_after(self, commit_after: Duration) -> Self {
        Self { commit_after, ..self }
    }

    /// When the rings are emptied at the latest. Metadata goes home then, and data stays in its
    /// slots. Only when there is need of room.
    #[must_use]
    pub const fn checkpoint_after(self, checkpoint_after: Option<Duration>) -> Self {
        Self { checkpoint_after, ..self }
    }

    /// Whether an image is compared with the old one, where the journal keeps that in ordinary
    /// memory. If the two are the same, nothing is logged. It costs a copy and a comparison of each
    /// block. Off.
    #[must_use]
    pub const fn compares(self, compares: bool) -> Self {
        Self { compares, ..self }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

/// The policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lcow {
    settings: Settings,
}

impl Lcow {
    /// Its number in the superblock.
    pub const ID: PolicyId = PolicyId(4);

    /// The policy with its default settings.
    #[must_use]
    pub const fn new() -> Self {
        Self::with(Settings::new())
    }

    /// The policy with these settings.
    #[must_use]
    pub const fn with(settings: Settings) -> Self {
        Self { settings }
    }

    /// What it was made with.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl Policy for Lcow {
    fn id(&self) -> PolicyId {
        Self::ID
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let own = match update.class {
            Class::Metadata => Placement::Image,
            Class::Data => Placement::Slot,
        };
        policy_codec::common_answer(update, out).unwrap_or(own)
    }

    #[inline(always)]
    fn prefix_of(&self, patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
        runs::prefix_of(patches.get(at)?)
    }

    fn logs_patches(&self) -> bool {
        self.settings.logs_patches
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        runs::apply(payload, block)
    }

    fn wants_slots(&self) -> bool {
        true
    }

    fn wants_cached_old(&self) -> bool {
        self.settings.compares
    }

    fn keeps_in_slots(&self) -> bool {
        true
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds::new(self.settings.reclaim_at, self.settings.reclaim_at)
    }

    fn pacing(&self) -> Pacing {
        Pacing::new(Some(self.settings.commit_after), None, self.settings.checkpoint_after)
    }
}

#[cfg(test)]
mod tests {
    use journal_core::BlockNumber;
    use journal_core::policy::Change;

    use super::*;

    #[test]
    fn it_asks_for_old_images_that_are_kept_if_it_is_set() {
        let compares = Lcow::with(Settings::new().compares(true));
        assert!(compares.wants_cached_old() && !compares.wants_old());
        assert!(!Lcow::new().wants_cached_old());
    }

    #[test]
    fn room_is_made_and_commits_come_when_the_settings_say_so() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let policy = Lcow::new();
        assert_eq!(policy.thresholds(), Thresholds::new(224, 224));
        assert_eq!(policy.pacing(), Pacing::new(seconds(5), None, None));
        let settings = Settings::new().reclaim_at(7).commit_after(Duration::from_secs(8));
        let policy = Lcow::with(settings.checkpoint_after(seconds(9)).logs_patches(false));
        assert_eq!(policy.thresholds(), Thresholds::new(7, 7));
        assert_eq!(policy.pacing(), Pacing::new(seconds(8), None, seconds(9)));
        assert!(Lcow::new().logs_patches() && !policy.logs_patches());
    }

    #[test]
    fn data_goes_to_slots_and_metadata_into_the_record() {
        let place = |class, old| {
            let mut update = Update::new(BlockNumber(0), Change::Image(&[1; 64]));
            (update.class, update.old) = (class, old);
            Lcow::new().place(&update, &mut Encoder::new(&mut [0; 64]))
        };
        assert_eq!(place(Class::Data, None), Placement::Slot);
        assert_eq!(place(Class::Metadata, None), Placement::Image);
        assert_eq!(place(Class::Metadata, Some(&[1; 64])), Placement::Unchanged);
        assert_eq!(place(Class::Data, Some(&[2; 64])), Placement::Slot);
    }
}
