//! Objects: of each block the objects that changed are logged (an inode, a row, an entry), not the
//! block.
//!
//! - **Costs** in persistent memory the objects that changed, 16 bytes per block, and at most
//!   [`OVERHEAD_MAX`] more to say which they are. A record adds a header line and a check. One
//!   object of 256 bytes takes 6 lines, where a block of 4 KiB takes 66. Of patches, the bytes
//!   given are logged, and no more: one of 3 bytes takes 2 lines. No memory beside the index, which
//!   has a node for each frame: a block that changes often has many of them. Where the
//!   store does not say what changed and gives the old image, [`kernels`](ObjectLog::kernels)
//!   compare the two. So they do with [`Settings::compares`], if the journal keeps the old image in
//!   ordinary memory. An image that changes nothing is then not logged. Without the old image the
//!   block is logged whole.
//! - **Choose it** when blocks are tables of small things that change one at a time, as the
//!   metadata of a file system. The store has to say which (`Transaction::write_at`, ranges,
//!   patches). A block of which the greater part changes is logged whole.
//!
//! The unit is [`Update::object_bytes`], or where the store does not know, a piece of
//! [`Settings::object_bytes`].
//!
//! It follows FGM, the fine-grained metadata journal. It has the paper's objects, one descriptor
//! for a transaction, and checkpoints by room or time. [`Pacing`] has its timer and the size of its
//! `TxnInfo`. Beyond the paper, one fence commits instead of two, and a home write that tears loses
//! no clean object. Patches are logged by the byte.

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

mod changed;
mod payload;
mod settings;
#[cfg(test)]
mod tests;

use core::num::NonZeroUsize;

use journal_core::policy::{
    ApplyError, Change, Encoder, Kind, Pacing, Patch, Placement, Policy, PolicyId, Prefix, Span,
    Thresholds, Update,
};
use journal_core::{Kernels, PortableKernels};
use policy_codec::changed::{BLOCK_BYTES_MAX, number_count, spans_between};

use changed::{Changed, Size};
pub use payload::OVERHEAD_MAX;
pub use settings::{Settings, SettingsError};

/// Room for the words of a block of 4 KiB. To clear what the longest block takes costs as much as
/// to compare a block of 4 KiB.
const FEW_NUMBERS: usize = number_count(4 << 10);

/// The policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectLog<K = PortableKernels> {
    settings: Settings,
    kernels: K,
}

impl ObjectLog {
    /// Its number in the superblock.
    pub const ID: PolicyId = PolicyId(3);

    /// The policy with its default settings.
    #[must_use]
    pub const fn new() -> Self {
        Self { settings: Settings::new(), kernels: PortableKernels }
    }

    /// The policy with these settings.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub const fn with(settings: Settings) -> Result<Self, SettingsError> {
        match settings.first_wrong() {
            None => Ok(Self { settings, kernels: PortableKernels }),
            Some(error) => Err(error),
        }
    }
}

impl<K> ObjectLog<K> {
    /// This policy with other kernels, which compare images.
    #[must_use]
    pub fn kernels<L: Kernels>(self, kernels: L) -> ObjectLog<L> {
        ObjectLog { settings: self.settings, kernels }
    }

    /// What it was made with.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    fn unit(&self, update: &Update<'_>) -> NonZeroUsize {
        let bytes = update.object_bytes.map_or(self.settings.object_bytes, |bytes| bytes.get());
        usize::try_from(bytes).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
    }

    /// Whether a block changes so far that its image is the better frame.
    fn is_too_much(&self, size: &Size, image: &[u8]) -> bool {
        let share = size.bytes.saturating_mul(256);
        share >= image.len().saturating_mul(usize::from(self.settings.whole_at))
    }

    /// `spans` are those of what changes.
    #[inline]
    fn place_objects<S: Iterator<Item = Span> + Clone>(
        &self,
        spans: S,
        changed: Changed<'_, S>,
        image: &[u8],
        out: &mut Encoder<'_>,
    ) -> Placement {
        let is_too_much = |size: &Size| self.is_too_much(size, image);
        match payload::put_runs(changed.runs_of(spans), image, is_too_much, out) {
            Some(size) if size.objects == 0 => Placement::Unchanged,
            Some(_) => Placement::Encoded,
            None => self.place_many(changed, image, out),
        }
    }

    /// Of what the store has said.
    fn place_said(
        &self,
        update: &Update<'_>,
        unit: NonZeroUsize,
        image: &[u8],
        out: &mut Encoder<'_>,
    ) -> Placement {
        let changed = changed::said(update, unit);
        self.place_objects(changed.spans(), changed, image, out)
    }

    /// Like `place_objects`, for what is not put as runs.
    #[inline(never)]
    fn place_many(
        &self,
        mut changed: Changed<'_, impl Iterator<Item = Span> + Clone>,
        image: &[u8],
        out: &mut Encoder<'_>,
    ) -> Placement {
        let is_too_much = |size: &Size| self.is_too_much(size, image);
        loop {
            let size = changed.size(image.len());
            if size.objects == 0 {
                return Placement::Unchanged;
            }
            if is_too_much(&size) {
                return Placement::Image;
            }
            if payload::has_runs(&size) {
                // Runs were tried.
                return Placement::Image;
            }
            out.clear();
            if payload::has_map(&size) {
                let put = payload::put_map(&changed, &size, image, out);
                let is_shorter = put.is_ok() && out.as_bytes().len() < image.len();
                return if is_shorter { Placement::Encoded } else { Placement::Image };
            }
            // The objects are small and far apart, and naming each takes too much: take them in
            // twos.
            let two = NonZeroUsize::MIN.saturating_add(1);
            changed.unit = changed.unit.saturating_mul(two);
            if payload::put_runs(changed.runs(), image, is_too_much, out).is_some() {
                return Placement::Encoded;
            }
        }
    }
}

impl<K: Kernels> ObjectLog<K> {
    /// Of an image; in a function of its own, so that patches, which cost least, need none.
    #[inline(never)]
    fn place_image(&self, update: &Update<'_>, image: &[u8], out: &mut Encoder<'_>) -> Placement {
        // What lies below a block that was not live is nothing to build on.
        if update.kind == Kind::Append {
            return Placement::Image;
        }
        match (update.change, update.old) {
            (Change::Image(_), None) => Placement::Image,
            (Change::Image(_), Some(old)) => {
                let (mut few, mut many);
                let memory: &mut [u64] = if number_count(image.len()) <= FEW_NUMBERS {
                    few = [0; FEW_NUMBERS];
                    &mut few
                } else {
                    many = [0; number_count(BLOCK_BYTES_MAX)];
                    &mut many
                };
                let (images, unit) = ([old, image], self.unit(update));
                match spans_between(&self.kernels, images, memory) {
                    Some(words) => {
                        // Not from where others find them: what was stored there by words would
                        // be loaded by two.
                        let spans = words.clone();
                        let changed = changed::found(words, images, unit);
                        self.place_objects(spans, changed, image, out)
                    }
                    None => self.place_said(update, unit, image, out),
                }
            }
            _ => self.place_said(update, self.unit(update), image, out),
        }
    }
}

impl<K: Kernels> Policy for ObjectLog<K> {
    fn id(&self) -> PolicyId {
        ObjectLog::ID
    }

    #[inline(always)]
    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        if let Some(image) = update.change.image() {
            return self.place_image(update, image, out);
        }
        let Change::Patches(patches) = update.change else { return Placement::Image };
        // Without an image there is no other form: the core refuses the update.
        if payload::put_patches(patches, out).is_ok() {
            Placement::Encoded
        } else {
            Placement::Image
        }
    }

    #[inline(always)]
    fn prefix_of(&self, patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
        payload::prefix_of(patches, at)
    }

    fn logs_patches(&self) -> bool {
        true
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        payload::apply(payload, block)
    }

    fn wants_cached_old(&self) -> bool {
        self.settings.compares
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds::new(self.settings.checkpoint_at, self.settings.checkpoint_at)
    }

    fn pacing(&self) -> Pacing {
        self.settings.pacing()
    }

    fn objects_in(&self, update: &Update<'_>) -> u32 {
        let changed = changed::said(update, self.unit(update));
        u32::try_from(changed.objects().count()).unwrap_or(u32::MAX)
    }
}
