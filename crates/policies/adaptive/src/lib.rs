//! Of each update the cheapest form, by a model of what the medium and the coder cost.
//!
//! It follows no paper. It chooses among the forms of the other policies: the whole block
//! (`full-block`), runs of changed bytes, a bitmap with words or sub-blocks (`two-level`), the
//! compressed XOR and moved bytes (`compressed-delta`). By settings it also chooses slots
//! (`byte-delta`), appends that go home, and the disk-side log (`two-level`).
//!
//! - **Costs** in persistent memory what the cheapest form takes. That is the changed bytes as
//!   runs, words or sub-blocks with a bitmap, or the XOR of both images compressed. Or it is copies
//!   from the old image, or the whole block. Behind the header of a frame 9 bytes say which images
//!   it leads between. In ordinary memory the old image, until the commit; on the stack up to four
//!   blocks and 16 KiB. In time, by the [`Wish`], up to 10 us for a block of 4 KiB, or no more than
//!   it saves.
//! - **Choose it** when updates are of many kinds, or when it is not known of which.
//! - **Choose `lcow`** where its slots have room for all blocks that are written again and again,
//!   and hardly more. A ring of that length has room for fewer, since part of it is stale. This
//!   policy is hardly behind even there, if room is made by copies (`Options::relogs`). It was
//!   replayed so in 8, 10, 12, 16 and 32 MiB of memory as fast as DRAM, by the model of
//!   `docs/RESULTS.md`. It took at most 1.05 of the time of the best fixed policy, for each trace
//!   that fits. One is an exception, postmark in 8 and 10 MiB: 1.07 and 1.06, for two syncs more.
//!   On memory as slow as PCM it was never behind.
//!
//! More choices come with settings, since they need slots, or make commits wait for the disk:
//!
//! - [`Settings::slots`]: what would be logged whole goes to a slot. The next version of it takes
//!   the place of the one before the newest there, word by word where that is worth it.
//! - [`Settings::appends_home`]: appended data goes home before its record, where a sync of the
//!   disk costs less than the lines of all that the transaction appends. If bytes count, it always
//!   does.
//! - [`Settings::bypasses`]: data goes to the disk-side log where a block there and its part of a
//!   sync cost less than the cheapest form in memory. [`Settings::bypass_above`] draws that line at
//!   a length instead.
//!
//! Objects are sub-blocks to this policy: those of 128 bytes that change are never more bytes than
//! the objects of 256 bytes that hold them.
//!
//! [`Wish::Wear`] counts bytes, and finds the fewest. [`Wish::Speed`] counts nanoseconds of the
//! [`Medium`] and of encoding, and what comes later on the [`Disk`]: the shield of a delta with the
//! sync behind it, and the blocks that go home for the room that is taken. It does not try what it
//! does not hope to gain by. [`Adaptive::choose`] says what was chosen, for counting.
//!
//! It is told the old image, or logs the whole block. Where that image is at hand, a few patches
//! are enough for it. What the medium is can be measured: [`Settings::line_nanos`].

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

use core::num::NonZeroU8;

use journal_core::policy::{
    ApplyError, Change, Class, Encoder, Kind, Patch, Placement, Policy, PolicyId, Thresholds,
    Update,
};
use journal_core::{Kernels, PortableKernels};
use policy_codec::between::{self, HEADER_BYTES};
pub use policy_codec::deltas::Form;
use policy_codec::deltas::{self, Images, SHORT_BYTES};
use policy_codec::{Changed, differ, xor};

mod model;

use model::{Batches, Logged, NAME_BYTES};
pub use model::{Choice, Disk, Medium, Wish, coding_ns};

/// Settings of the policy, each with its default. None of it is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    wish: Wish,
    medium: Medium,
    bypass: Bypass,
    slots: bool,
    disk: Disk,
    batches: Batches,
    /// Nanoseconds of a sync.
    appends_home: Option<u32>,
    reclaim_at: u8,
}

impl Settings {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            wish: Wish::Speed,
            medium: Medium::DRAM,
            bypass: Bypass::Never,
            slots: false,
            disk: Disk::SSD,
            batches: Batches::USUAL,
            appends_home: None,
            reclaim_at: 240,
        }
    }

    /// What is to be little: time, or bytes written. Time.
    #[must_use]
    pub const fn wish(self, wish: Wish) -> Self {
        Self { wish, ..self }
    }

    /// The persistent memory whose time counts. [`Medium::DRAM`].
    #[must_use]
    pub const fn medium(self, medium: Medium) -> Self {
        Self { medium, ..self }
    }

    /// A persistent memory that takes this number of nanoseconds for another line.
    /// `Calibration::line_nanos` of `nvm-journal-pmem-sys` measures it.
    #[must_use]
    pub const fn line_nanos(self, line_ns: u32) -> Self {
        self.medium(Medium { name: "measured", line_ns })
    }

    /// Whether what would be logged whole goes to slots. No, which is the default.
    #[must_use]
    pub const fn slots(self, slots: bool) -> Self {
        Self { slots, ..self }
    }

    /// The disk whose time counts. What is logged brings blocks home sooner or later, and a block
    /// that goes home by deltas alone may go through the shield, with a sync behind it.
    /// [`Disk::SSD`].
    #[must_use]
    pub const fn disk(self, disk: Disk) -> Self {
        Self { disk, ..self }
    }

    /// How many nanoseconds the disk takes for a block that goes home beside its neighbours. 4,000,
    /// as of a solid-state drive; 0 where no commit ever waits for it.
    #[must_use]
    pub const fn home_nanos(self, home_nanos: u32) -> Self {
        self.disk(Disk { name: "measured", block_ns: home_nanos, ..self.disk })
    }

    /// Whether appended data may go home before its record, and how many nanoseconds a sync of the
    /// disk takes. All that a transaction appends shares one sync. `None`, the default: it may not,
    /// so that no commit waits for the disk.
    #[must_use]
    pub const fn appends_home(self, sync_nanos: Option<u32>) -> Self {
        Self { appends_home: sync_nanos, ..self }
    }

    /// The share of the block, in 256ths, that a payload of data may have before the block goes to
    /// the disk-side log instead. Zero: none does, which is the default. Of this and
    /// [`bypasses`](Self::bypasses), the one that is set last counts.
    #[must_use]
    pub const fn bypass_above(self, share: u8) -> Self {
        let bypass = match NonZeroU8::new(share) {
            Some(share) => Bypass::Above(share),
            None => Bypass::Never,
        };
        Self { bypass, ..self }
    }

    /// The disk that has the disk-side log, if data may go there where that costs less. What a
    /// transaction overwrites there shares one sync: each block is chosen as if the others of its
    /// transaction went there too. `None`, the default: no data does, so that no commit waits for
    /// the disk.
    #[must_use]
    pub const fn bypasses(self, log: Option<Disk>) -> Self {
        let bypass = match log {
            Some(disk) => Bypass::Cheaper(disk),
            None => Bypass::Never,
        };
        Self { bypass, ..self }
    }

    /// The fraction of a lane, in 256ths, from which on blocks are written home. 240, fifteen
    /// sixteenths. From there on room is reclaimed in the memory too, before anything goes home:
    /// the fuller a ring is, the less of it is copied.
    #[must_use]
    pub const fn reclaim_at(self, reclaim_at: u8) -> Self {
        Self { reclaim_at, ..self }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

/// The policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adaptive<K = PortableKernels> {
    settings: Settings,
    kernels: K,
}

impl Adaptive {
    /// Its number in the superblock.
    pub const ID: PolicyId = PolicyId(7);

    /// The policy with its default settings.
    #[must_use]
    pub const fn new() -> Self {
        Self::with(Settings::new())
    }

    /// The policy with these settings.
    #[must_use]
    pub const fn with(settings: Settings) -> Self {
        Self { settings, kernels: PortableKernels }
    }
}

impl<K> Adaptive<K> {
    /// This policy with other kernels, which compare images and compute their checks.
    #[must_use]
    pub fn kernels<L: Kernels>(self, kernels: L) -> Adaptive<L> {
        Adaptive { settings: self.settings, kernels }
    }

    /// What it was made with.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// Which data goes to the disk-side log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bypass {
    Never,
    /// What takes more than this share of the block, in 256ths.
    Above(NonZeroU8),
    /// What costs less there, on this disk.
    Cheaper(Disk),
}

/// The most bytes of patches that are logged without the new image. Of more, another form might be
/// better.
const PATCH_BYTES_MAX: usize = 256;

/// Of a sample, fewer words than this say nothing.
const LEAST_SAMPLED: usize = 2;

/// Forms whose length is known before anything is encoded.
const PLAIN: [Form; 3] = [Form::Runs, Form::Words, Form::SubBlocks];

/// The one of them that is encoded in the least time.
const QUICKEST: Form = Form::SubBlocks;

impl<K: Kernels> Adaptive<K> {
    /// What it does with an update, and why. The payload is in `out` where there is one.
    pub fn choose(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Choice {
        let Some(new) = update.change.image() else {
            return self.choose_for_patches(update, None, out);
        };
        let choice = self.choose_for_image(update, new, out);
        let logged_bytes = match choice.placement {
            Placement::Image => new.len(),
            Placement::Encoded => choice.payload_bytes,
            _ => return choice,
        };
        let is_data = update.class == Class::Data;
        let goes_to_log = is_data && self.goes_to_log(update, &choice, logged_bytes, new.len());
        let is_told = matches!(self.settings.bypass, Bypass::Above(_));
        let appends = is_data && update.kind == Kind::Append;
        let placement = match choice.placement {
            _ if goes_to_log && is_told => Placement::DiskLog,
            _ if appends && self.goes_home(update, logged_bytes) => Placement::Home,
            _ if goes_to_log => Placement::DiskLog,
            Placement::Image if self.settings.slots => Placement::Slot,
            placement => placement,
        };
        Choice { placement, ..choice }
    }

    /// Whether a block goes to the disk-side log, where `logged_bytes` of it would be logged
    /// otherwise.
    fn goes_to_log(
        &self,
        update: &Update<'_>,
        choice: &Choice,
        logged_bytes: usize,
        block_bytes: usize,
    ) -> bool {
        match (&self.settings.bypass, self.settings.wish) {
            (Bypass::Never, _) => false,
            (Bypass::Above(share), _) => {
                let limit = block_bytes.saturating_mul(share.get().into());
                logged_bytes.saturating_mul(256) > limit
            }
            (Bypass::Cheaper(_), Wish::Wear) => logged_bytes > NAME_BYTES,
            (Bypass::Cheaper(disk), Wish::Speed) => {
                let logged = self.logged(block_bytes);
                let in_memory = match choice.form {
                    Some(form) => logged.time_as(form, logged_bytes),
                    None => logged.time_of(logged_bytes),
                };
                logged.time_on(disk, update.alike.max(1)) < in_memory
            }
        }
    }

    /// Like [`choose`](Self::choose), where the check of the old image is known. Patches are then
    /// cheaper to encode.
    pub fn choose_on(&self, update: &Update<'_>, old_check: u64, out: &mut Encoder<'_>) -> Choice {
        match update.change {
            Change::Patches(_) => self.choose_for_patches(update, Some(old_check), out),
            _ => self.choose(update, out),
        }
    }

    /// Whether a block that nothing has to survive of goes home: the write there comes anyway, so
    /// it costs its part in a sync. In persistent memory it would cost its lines.
    fn goes_home(&self, update: &Update<'_>, logged_bytes: usize) -> bool {
        let Some(sync_ns) = self.settings.appends_home else { return false };
        match self.settings.wish {
            Wish::Wear => true,
            Wish::Speed => {
                let appended = u64::from(update.alike.max(1));
                let logged_ns = self.settings.medium.time_of(logged_bytes);
                logged_ns.saturating_mul(appended) > sync_ns.into()
            }
        }
    }

    /// What it does with an image, where there is nothing but the record.
    fn choose_for_image(&self, update: &Update<'_>, new: &[u8], out: &mut Encoder<'_>) -> Choice {
        let whole = Choice::whole(Placement::Image);
        let Some(old) = update.old else { return whole };
        if self.is_hopeless(old, new) {
            return whole;
        }
        let Some(changed) = Changed::between(&self.kernels, old, new) else { return whole };
        if changed.is_nothing() {
            return Choice::whole(Placement::Unchanged);
        }
        let images = Images { old, new, changed: &changed };
        match self.settings.wish {
            Wish::Wear => self.shortest(&images, out),
            Wish::Speed => self.fastest(&images, out),
        }
    }

    /// What it does with patches, of which no image was made.
    fn choose_for_patches(
        &self,
        update: &Update<'_>,
        old_check: Option<u64>,
        out: &mut Encoder<'_>,
    ) -> Choice {
        // Patches alone say nothing of the image that they lead to: refused.
        let refused = Choice::whole(Placement::Image);
        let (Change::Patches(patches), Some(old)) = (update.change, update.old) else {
            return refused;
        };
        match deltas::put_patches(&self.kernels, (old, old_check), patches, out) {
            Ok(true) => {
                let coding_ns = match old_check {
                    Some(_) => model::patching_ns(old.len()),
                    None => coding_ns(Form::Runs, old.len()),
                };
                Choice { coding_ns, ..Choice::of(true, old.len(), out) }
            }
            Ok(false) => Choice::whole(Placement::Unchanged),
            Err(_) => refused,
        }
    }

    /// What it costs to log something of a block.
    fn logged(&self, block_bytes: usize) -> Logged<'_> {
        let Settings { medium, disk, batches, .. } = &self.settings;
        Logged::new(medium, disk, *batches, block_bytes)
    }

    /// Whether the longest patches that are taken without a new image cost less than that would.
    fn patches_pay(&self, block_bytes: usize) -> bool {
        let logged = self.logged(block_bytes);
        let costs_less =
            || logged.time_as(Form::Runs, PATCH_BYTES_MAX) < logged.time_of(block_bytes);
        self.settings.wish == Wish::Wear || costs_less()
    }

    /// Whether a sample of words says that more differs than is worth any form. Never where a
    /// coder may pay, which a sample says nothing of.
    fn is_hopeless(&self, old: &[u8], new: &[u8]) -> bool {
        // Most updates are told by their first words that differ, before anything is reckoned.
        if deltas::sampled_words(old, new, LEAST_SAMPLED) < LEAST_SAMPLED {
            return false;
        }
        let (logged, block_bytes) = (self.logged(new.len()), new.len());
        let image_ns = logged.time_of(block_bytes);
        let pays = |form: Form, bytes: usize| logged.time_as(form, bytes) < image_ns;
        let coder_pays = |coder: Form| pays(coder, model::hoped_for(coder, block_bytes));
        let is_sure = self.settings.wish == Wish::Speed
            && !matches!(self.settings.bypass, Bypass::Above(_))
            && !coder_pays(Form::Moves)
            && !coder_pays(Form::Xor);
        if !is_sure {
            return false;
        }
        // The fewest sampled words with which no plain form pays; by half, since a sample may be
        // wrong. Of as many bytes, the form that is quickest to encode costs the least.
        let bytes = |words: usize| block_bytes.saturating_mul(words) / deltas::SAMPLED_WORDS / 2;
        let (mut least, mut beyond) = (LEAST_SAMPLED, deltas::SAMPLED_WORDS.saturating_add(1));
        while least < beyond {
            let middle = least.midpoint(beyond);
            let pays = pays(QUICKEST, bytes(middle));
            if pays { least = middle.saturating_add(1) } else { beyond = middle }
        }
        least <= deltas::SAMPLED_WORDS && deltas::sampled_words(old, new, least) >= least
    }

    /// The fewest bytes.
    fn shortest(&self, images: &Images<'_>, out: &mut Encoder<'_>) -> Choice {
        let forms = [Form::Runs, Form::Words, Form::Moves, self.xor_of(images)];
        let put = deltas::put_shortest(&self.kernels, &forms, images, out);
        let mut choice = Choice::of(put.is_ok(), images.new.len(), out);
        let is_short = choice.form.is_some() && choice.payload_bytes <= SHORT_BYTES;
        for form in forms {
            choice.coding_ns = choice.coding_ns.saturating_add(coding_ns(form, images.new.len()));
            // Nothing was tried behind it.
            if is_short && choice.form == Some(form) {
                break;
            }
        }
        choice
    }

    /// The least time: the plain form that is fastest by what is known beforehand, and then a coder
    /// where it can be faster still.
    fn fastest(&self, images: &Images<'_>, out: &mut Encoder<'_>) -> Choice {
        let block_bytes = images.new.len();
        let logged = self.logged(block_bytes);
        let time_of = |form: Form, payload_bytes: usize| logged.time_as(form, payload_bytes);
        let image_time = logged.time_of(block_bytes);
        let by_bound = |form: Form| {
            // How long it would be is not asked of what is too slow whatever that is.
            let bound = (time_of(form, 0) < image_time).then(|| form.bound(images.changed))?;
            let bytes = bound.unwrap_or(block_bytes).saturating_add(HEADER_BYTES);
            Some((time_of(form, bytes), form)).filter(|(time, _)| *time < image_time)
        };
        let plain = PLAIN.into_iter().filter_map(by_bound).min_by_key(|(time, _)| *time);
        let (mut is_put, mut spent) = (false, 0_u64);
        if let Some((_, form)) = plain {
            is_put = deltas::put(&self.kernels, form, images, out).is_ok();
            spent = coding_ns(form, block_bytes);
        }
        let mut time = match plain {
            Some((_, form)) if is_put => time_of(form, out.as_bytes().len()).min(image_time),
            _ => image_time,
        };
        for coder in [Form::Moves, Form::Xor] {
            // What it takes is known, what it saves is not.
            let shortest = if is_put { out.as_bytes().len() } else { block_bytes };
            if time_of(coder, model::hoped_for(coder, shortest)) >= time {
                continue;
            }
            if coder == Form::Xor && deltas::xor_is_random(images) {
                continue;
            }
            // Bits are counted only where the XOR is tried.
            let coder = if coder == Form::Xor { self.xor_of(images) } else { coder };
            let is_shorter = if is_put {
                deltas::put_if_shorter(coder, images, out)
            } else {
                out.clear();
                deltas::put(&self.kernels, coder, images, out).is_ok()
            };
            is_put |= is_shorter;
            spent = spent.saturating_add(coding_ns(coder, block_bytes));
            if is_shorter {
                time = time_of(coder, out.as_bytes().len());
            }
        }
        Choice { coding_ns: spent, ..Choice::of(is_put, block_bytes, out) }
    }

    /// Whether few bits differ, or few do not.
    fn xor_of(&self, images: &Images<'_>) -> Form {
        let bits = xor::changed_bits(images.old, images.new);
        let all = (images.new.len() as u64).saturating_mul(8);
        if bits.saturating_mul(2) > all { Form::Complement } else { Form::Xor }
    }
}

impl<K: Kernels> Policy for Adaptive<K> {
    fn id(&self) -> PolicyId {
        Adaptive::ID
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        self.choose(update, out).placement
    }

    fn wants_old_check(&self) -> bool {
        true
    }

    fn place_on(&self, update: &Update<'_>, old_check: u64, out: &mut Encoder<'_>) -> Placement {
        self.choose_on(update, old_check, out).placement
    }

    fn patch_bytes_on_old(&self, block_bytes: usize) -> usize {
        let takes = !self.wants_log() && self.patches_pay(block_bytes);
        if takes { PATCH_BYTES_MAX } else { 0 }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        deltas::apply(&self.kernels, payload, block)
    }

    fn check(&self, payload: &[u8], block: &[u8]) -> Result<(), ApplyError> {
        between::check(&self.kernels, payload, block)
    }

    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        // Comparing costs as much as to encode words.
        let compares = match self.settings.wish {
            Wish::Wear => true,
            Wish::Speed => {
                let medium = &self.settings.medium;
                coding_ns(Form::Words, newer.len()) < medium.time_of(newer.len()) / 2
            }
        };
        if compares {
            differ::words(older, newer, rewrite);
        } else {
            rewrite(Patch { at: 0, bytes: newer });
        }
    }

    fn counts_alike(&self) -> bool {
        let is_by_cost = matches!(self.settings.bypass, Bypass::Cheaper(_));
        self.settings.appends_home.is_some() || is_by_cost
    }

    fn set_batches(&mut self, blocks: u32, shielded: u32) {
        self.settings.batches = Batches { blocks, shielded };
    }

    fn wants_slots(&self) -> bool {
        self.settings.slots
    }

    fn wants_log(&self) -> bool {
        self.settings.bypass != Bypass::Never
    }

    fn wants_old(&self) -> bool {
        true
    }

    fn keeps_in_slots(&self) -> bool {
        self.wants_log() || self.settings.slots
    }

    fn bypasses_when_full(&self) -> bool {
        self.wants_log()
    }

    fn thresholds(&self) -> Thresholds {
        let Settings { reclaim_at, medium, disk, .. } = &self.settings;
        // In a ring that is used up further, more of what the head comes to is stale.
        let thresholds = Thresholds::new(*reclaim_at, *reclaim_at);
        match self.settings.wish {
            Wish::Wear => thresholds,
            Wish::Speed => thresholds.with_copied(model::copied_share(medium, disk)),
        }
    }
}

#[cfg(test)]
mod tests;
