//! Versions: a block's newest content and the one before lie in slots. A rewrite costs the words in
//! which it differs from the version that it takes the place of.
//!
//! - **Costs** in persistent memory two slots for each block that is written again and again, and
//!   32 bytes beside each. Per update the words that differ from the version *before* the newest,
//!   in whole lines, and 32 bytes in a record. The first two versions of a block are written whole.
//!   A block of 4 KiB of which one line differs takes 1 line in the slot and 2 in the record.
//!   Comparing reads the older version where it lies.
//! - **Choose it** when the same blocks are rewritten with small changes, and the store does not
//!   say which. Where it does, as patches, they go into the record as runs, and no slot is touched.
//!
//! It follows NJS, versioned journal blocks updated by the byte. It has the paper's two versions of
//! a block, its writing of changed bytes alone, and its delayed checkpoint, which first gives back
//! older versions. Beyond the paper, one checked record and one fence commit a transaction, and rot
//! is told from a torn tail. It tells three kinds of updates apart. Metadata and overwritten data
//! go to slots. Appended data, whose old content nobody needs, goes straight home, and is synced
//! there before the record; [`Appends`] says otherwise.
//!
//! A journal without slots logs whole blocks. An image that changes nothing is not logged, where
//! the store gives the old one. [`Settings::compares`] adds: where the journal keeps the old one in
//! ordinary memory. An image that differs from that in a few bytes is then logged as patches are.

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
    ApplyError, Change, Class, Encoder, Kind, NoRoom, Pacing, Patch, Placement, Policy, PolicyId,
    Prefix, Thresholds, Update,
};
use policy_codec::{differ, runs};

/// The part of a block that is few bytes.
const FEW: usize = 8;

/// Where the content of appended blocks goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Appends {
    /// Home, before the record. One write to the device and one sync for each transaction that
    /// appends.
    #[default]
    Home,
    /// Into slots, as everything else: the published system's "all journal".
    Slots,
}

/// Settings of the policy, each with its default. None of it is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    appends: Appends,
    reclaim_at: u8,
    commit_after: Duration,
    checkpoint_after: Duration,
    compares: bool,
    updates_bytes: bool,
    delays_checkpoint: bool,
    logs_patches: bool,
}

impl Settings {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            appends: Appends::Home,
            reclaim_at: 192,
            commit_after: Duration::from_secs(5),
            checkpoint_after: Duration::from_secs(5 * 60),
            compares: false,
            updates_bytes: true,
            delays_checkpoint: true,
            logs_patches: true,
        }
    }

    /// Where appended blocks go. Home.
    #[must_use]
    pub const fn appends(self, appends: Appends) -> Self {
        Self { appends, ..self }
    }

    /// The fraction of the slots or of a lane, in 256ths, from which on older versions are dropped.
    /// Where that is not enough, blocks are written home. 192, three quarters.
    #[must_use]
    pub const fn reclaim_at(self, reclaim_at: u8) -> Self {
        Self { reclaim_at, ..self }
    }

    /// Whether of a block's older version only the bytes that differ are written anew. Otherwise
    /// its slot is written whole, as a journal of whole versions does it. On.
    #[must_use]
    pub const fn updates_bytes(self, updates_bytes: bool) -> Self {
        Self { updates_bytes, ..self }
    }

    /// Whether older versions are dropped first, and blocks are written home only where that is
    /// not enough. Otherwise blocks go home as soon as the [threshold](Self::reclaim_at) is
    /// crossed. On.
    #[must_use]
    pub const fn delays_checkpoint(self, delays_checkpoint: bool) -> Self {
        Self { delays_checkpoint, ..self }
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

    /// When blocks are written home at the latest. 5 minutes.
    #[must_use]
    pub const fn checkpoint_after(self, checkpoint_after: Duration) -> Self {
        Self { checkpoint_after, ..self }
    }

    /// Whether an image is compared with the newest one, where the journal keeps that in ordinary
    /// memory. If the two are the same, nothing is logged. If the bytes that differ take an eighth
    /// of a block at most, and [patches are logged](Self::logs_patches), they go into the record as
    /// patches do. It costs a copy and a comparison of each block. Off.
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
pub struct ByteDelta {
    settings: Settings,
}

impl ByteDelta {
    /// Its number in the superblock.
    pub const ID: PolicyId = PolicyId(2);

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

    /// Encodes the bytes in which an image differs from the old one, if they are few and are to be
    /// looked for.
    fn put_few(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Result<usize, NoRoom> {
        let looks = self.settings.compares && self.settings.logs_patches;
        let (Change::Image(image), Some(old), Kind::Overwrite, true) =
            (update.change, update.old, update.kind, looks)
        else {
            return Err(NoRoom);
        };
        out.put_with(|room| {
            let most = image.len() / FEW;
            let mut few = Encoder::new(room.get_mut(..most).ok_or(NoRoom)?);
            runs::put_differing(old, &[Patch { at: 0, bytes: image }], &mut few)?;
            Ok(few.as_bytes().len())
        })
    }
}

impl Policy for ByteDelta {
    fn id(&self) -> PolicyId {
        Self::ID
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let is_new_data = update.kind == Kind::Append && update.class == Class::Data;
        let goes_home = is_new_data && self.settings.appends == Appends::Home;
        if goes_home && update.change.image().is_some() {
            return Placement::Home;
        }
        if let Some(answer) = policy_codec::common_answer(update, out) {
            return answer;
        }
        match self.put_few(update, out) {
            Ok(_) => Placement::Encoded,
            Err(NoRoom) => Placement::Slot,
        }
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

    fn wants_cached_old(&self) -> bool {
        self.settings.compares
    }

    fn wants_slots(&self) -> bool {
        true
    }

    fn sends_appends_home(&self) -> bool {
        self.settings.appends == Appends::Home
    }

    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        if self.settings.updates_bytes {
            differ::words(older, newer, rewrite);
        } else {
            rewrite(Patch { at: 0, bytes: newer });
        }
    }

    fn thresholds(&self) -> Thresholds {
        let Settings { reclaim_at, delays_checkpoint, .. } = self.settings;
        Thresholds::new(if delays_checkpoint { reclaim_at } else { u8::MAX }, reclaim_at)
    }

    fn pacing(&self) -> Pacing {
        Pacing::new(Some(self.settings.commit_after), None, Some(self.settings.checkpoint_after))
    }
}

#[cfg(test)]
mod tests {
    use journal_core::BlockNumber;

    use super::*;

    fn place(policy: ByteDelta, kind: Kind, change: Change<'_>, old: Option<&[u8]>) -> Placement {
        let mut update = Update::new(BlockNumber(0), change);
        (update.kind, update.old) = (kind, old);
        policy.place(&update, &mut Encoder::new(&mut [0; 64]))
    }

    #[test]
    fn it_asks_for_old_images_that_are_kept_if_it_is_set() {
        let compares = ByteDelta::with(Settings::new().compares(true));
        assert!(compares.wants_cached_old() && !compares.wants_old());
        assert!(!ByteDelta::new().wants_cached_old());
    }

    #[test]
    fn overwrites_go_to_slots_and_appends_where_the_setting_says() {
        let image = Change::Image(&[1; 64]);
        let policy = ByteDelta::new();
        assert_eq!(place(policy, Kind::Overwrite, image, None), Placement::Slot);
        assert_eq!(place(policy, Kind::Overwrite, image, Some(&[2; 64])), Placement::Slot);
        assert_eq!(place(policy, Kind::Overwrite, image, Some(&[1; 64])), Placement::Unchanged);
        assert_eq!(place(policy, Kind::Append, image, Some(&[1; 64])), Placement::Home);
        let mut metadata = Update::new(BlockNumber(0), image);
        (metadata.kind, metadata.class) = (Kind::Append, Class::Metadata);
        let out = &mut Encoder::new(&mut []);
        assert_eq!(policy.place(&metadata, out), Placement::Slot, "metadata never goes home");
        let all = ByteDelta::with(Settings::new().appends(Appends::Slots));
        assert_eq!(place(all, Kind::Append, image, None), Placement::Slot);
    }

    #[test]
    fn the_few_bytes_in_which_an_image_differs_are_logged_if_it_compares() {
        let compares = Settings::new().compares(true);
        let (old, mut new) = ([1_u8; 4096], [1_u8; 4096]);
        (new[0], new[4095]) = (2, 3);
        let mut room = [0; 4096];
        let mut asked = |settings, image: &[u8], kind| {
            let mut update = Update::new(BlockNumber(0), Change::Image(image));
            (update.old, update.kind) = (Some(&old[..]), kind);
            let mut out = Encoder::new(&mut room);
            let placement = ByteDelta::with(settings).place(&update, &mut out);
            let mut block = old;
            assert_eq!(ByteDelta::new().apply(out.as_bytes(), &mut block), Ok(()));
            assert_eq!(placement == Placement::Encoded, block == image);
            (placement, out.as_bytes().len())
        };
        let overwrites = Kind::Overwrite;
        assert_eq!(asked(compares, &new, overwrites), (Placement::Encoded, 10));
        // An eighth of the block, with what says where it lies. A byte more is too much.
        let differs_in = |count| core::array::from_fn::<u8, 4096, _>(|at| 1 + u8::from(at < count));
        assert_eq!(asked(compares, &differs_in(508), overwrites), (Placement::Encoded, 512));
        assert_eq!(asked(compares, &differs_in(509), overwrites), (Placement::Slot, 0));
        // Settings that say otherwise, and a block whose old content nobody needs.
        assert_eq!(asked(Settings::new(), &new, overwrites), (Placement::Slot, 0));
        assert_eq!(asked(compares.logs_patches(false), &new, overwrites), (Placement::Slot, 0));
        let appends = compares.appends(Appends::Slots);
        assert_eq!(asked(appends, &new, Kind::Append), (Placement::Slot, 0));
    }

    #[test]
    fn it_can_be_told_to_write_slots_whole_and_to_write_home_at_once() {
        let (older, newer) = ([1; 64], [2; 64]);
        let (mut calls, mut bytes) = (0, 0);
        let mut note = |patch: Patch<'_>| (calls, bytes) = (calls + 1, bytes + patch.bytes.len());
        let plain = Settings::new().updates_bytes(false).delays_checkpoint(false);
        ByteDelta::with(plain).rewrite_slot(&older, &older, &mut note);
        ByteDelta::new().rewrite_slot(&older, &older, &mut note);
        ByteDelta::new().rewrite_slot(&older, &newer, &mut note);
        assert_eq!((calls, bytes), (2, 128));
        assert_eq!(ByteDelta::with(plain).thresholds(), Thresholds::new(255, 192));
        assert_eq!(ByteDelta::new().thresholds(), Thresholds::new(192, 192));
    }

    #[test]
    fn commits_and_checkpoints_come_when_the_settings_say_so() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(ByteDelta::new().pacing(), Pacing::new(seconds(5), None, seconds(300)));
        let settings = Settings::new().reclaim_at(7).commit_after(Duration::from_secs(8));
        let settings = settings.checkpoint_after(Duration::from_secs(9)).logs_patches(false);
        let policy = ByteDelta::with(settings);
        assert_eq!(policy.thresholds(), Thresholds::new(7, 7));
        assert_eq!(policy.pacing(), Pacing::new(seconds(8), None, seconds(9)));
        assert!(ByteDelta::new().logs_patches() && !policy.logs_patches());
    }

    #[test]
    fn patches_go_into_the_record_and_come_back() {
        let patches = [Patch { at: 3, bytes: &[7, 8] }, Patch { at: 9, bytes: &[9] }];
        let update = Update::new(BlockNumber(0), Change::Patches(&patches));
        let mut room = [0; 64];
        let mut out = Encoder::new(&mut room);
        assert_eq!(ByteDelta::new().place(&update, &mut out), Placement::Encoded);
        let mut block = [0; 16];
        assert_eq!(ByteDelta::new().apply(out.as_bytes(), &mut block), Ok(()));
        assert_eq!(block, [0, 0, 0, 7, 8, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0]);
        let mut narrow = [0; 8];
        let refused = ByteDelta::new().place(&update, &mut Encoder::new(&mut narrow));
        assert_eq!(refused, Placement::Image);
    }
}
