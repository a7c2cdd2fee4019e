//! Compressed deltas: of a block that changes a little the record has what differs, as short as one
//! of a few encodings makes it. A block that changes a lot goes to the disk-side log.
//!
//! - **Costs** in persistent memory some 30 bytes for each update and what differs in it. Of that
//!   the shortest is kept: runs of new bytes, a bitmap and new words, or the XOR of both images
//!   compressed. In ordinary memory the old image, until the commit. On the stack three blocks and
//!   8 KiB. In time about 2 us for a block of 4 KiB, more than writing all of it to fast memory
//!   takes. A block that goes to the log costs a write and a sync there, and 32 bytes in the
//!   record.
//! - **Choose it** when persistent memory is small, slow or wears out, and updates are small or
//!   compress well.
//!
//! It follows delta journaling. It has the paper's compressed XOR, its choice by the share of bits
//! that differ, and its log on the disk, where the journal has one. Beyond the paper, it can copy
//! bytes that have moved inside a block from the old image ([`Settings::moves`]), and one fence
//! commits a transaction.
//!
//! Each payload says between which images it leads ([`policy_codec::between`]), so that it may meet
//! a home that is newer. What goes to the log is decided by the share of bits that differ
//! ([`Settings`]), and where nothing is shorter than the block. It is told the old image, or logs
//! the whole block; patches alone it does not take.
//!
//! The payload's form is one of [`policy_codec::deltas`]: the XOR is compressed as an LZO1X stream,
//! or its complement, where nearly all bits differ.

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
    ApplyError, Change, Encoder, Pacing, Patch, Placement, Policy, PolicyId, Thresholds, Update,
};
use journal_core::{Kernels, PortableKernels};
use policy_codec::deltas::{self, Form, Images};
use policy_codec::{Changed, between};

/// Settings of the policy, each with its default. None of it is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    few_bits: u8,
    most_bits: u8,
    moves: bool,
    reclaim_at: u8,
    checkpoint_after: Duration,
}

impl Settings {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            few_bits: 64,
            most_bits: 192,
            moves: false,
            reclaim_at: 192,
            checkpoint_after: Duration::from_secs(300),
        }
    }

    /// The share of the block's bits, in 256ths, from which on as many differ that the block goes
    /// to the disk-side log. 64, a quarter.
    #[must_use]
    pub const fn few_bits(self, few_bits: u8) -> Self {
        Self { few_bits, ..self }
    }

    /// The share of the block's bits, in 256ths, above which the few bits that do not differ are
    /// logged. 192, three quarters.
    #[must_use]
    pub const fn most_bits(self, most_bits: u8) -> Self {
        Self { most_bits, ..self }
    }

    /// Whether copies from the old image, wherever in it, are tried too, and kept where they are
    /// shorter. They are not: the published system sees bytes in their places only.
    #[must_use]
    pub const fn moves(self, moves: bool) -> Self {
        Self { moves, ..self }
    }

    /// The fraction of a lane, in 256ths, from which on blocks are written home. 192, three
    /// quarters.
    #[must_use]
    pub const fn reclaim_at(self, reclaim_at: u8) -> Self {
        Self { reclaim_at, ..self }
    }

    /// When a checkpoint is made at the latest. 5 minutes.
    #[must_use]
    pub const fn checkpoint_after(self, checkpoint_after: Duration) -> Self {
        Self { checkpoint_after, ..self }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

/// The policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressedDelta<K = PortableKernels> {
    settings: Settings,
    kernels: K,
}

impl CompressedDelta {
    /// Its number in the superblock.
    pub const ID: PolicyId = PolicyId(5);

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

impl<K> CompressedDelta<K> {
    /// This policy with other kernels, which compare images and compute their checks.
    #[must_use]
    pub fn kernels<L: Kernels>(self, kernels: L) -> CompressedDelta<L> {
        CompressedDelta { settings: self.settings, kernels }
    }

    /// What it was made with.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// The most bytes of patches that are logged without the new image. More of them might compress.
const PATCH_BYTES_MAX: usize = 256;

impl<K> CompressedDelta<K> {
    /// Which shares of the bits, in 256ths, are worth no coder.
    const fn bounds(&self) -> core::ops::RangeInclusive<u8> {
        self.settings.few_bits..=self.settings.most_bits
    }
}

impl<K: Kernels> CompressedDelta<K> {
    /// Where patches of an old image go, whose check may be known.
    fn place_patches(
        &self,
        old: (&[u8], Option<u64>),
        patches: &[Patch<'_>],
        out: &mut Encoder<'_>,
    ) -> Placement {
        match deltas::put_patches(&self.kernels, old, patches, out) {
            Ok(true) => Placement::Encoded,
            Ok(false) => Placement::Unchanged,
            Err(_) => Placement::Image,
        }
    }
}

impl<K: Kernels> Policy for CompressedDelta<K> {
    fn id(&self) -> PolicyId {
        CompressedDelta::ID
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let new = match (update.change, update.old) {
            (Change::Patches(patches), Some(old)) => {
                return self.place_patches((old, None), patches, out);
            }
            // Patches alone say nothing of the image that they lead to: refused.
            (Change::Patches(_), None) => return Placement::Image,
            (change, _) => change.image(),
        };
        let (Some(new), Some(old)) = (new, update.old) else { return Placement::DiskLog };
        if deltas::is_hopeless(old, new, self.bounds()) {
            return Placement::DiskLog;
        }
        let changed = Changed::between(&self.kernels, old, new);
        let Some(changed) = changed else { return Placement::DiskLog };
        if changed.is_nothing() {
            return Placement::Unchanged;
        }
        let bits = (new.len() as u64).saturating_mul(8);
        let share = changed.bit_count(old, new).saturating_mul(256);
        let form = if share < bits.saturating_mul(self.settings.few_bits.into()) {
            Form::Xor
        } else if share > bits.saturating_mul(self.settings.most_bits.into()) {
            Form::Complement
        } else {
            return Placement::DiskLog;
        };
        let forms = [Form::Runs, Form::Words, form, Form::Moves];
        let tried = forms.get(..if self.settings.moves { 4 } else { 3 }).unwrap_or_default();
        let images = Images { old, new, changed: &changed };
        match deltas::put_shortest(&self.kernels, tried, &images, out) {
            Ok(()) if out.as_bytes().len() < new.len() => Placement::Encoded,
            _ => Placement::DiskLog,
        }
    }

    fn wants_old_check(&self) -> bool {
        true
    }

    fn place_on(&self, update: &Update<'_>, old_check: u64, out: &mut Encoder<'_>) -> Placement {
        match (update.change, update.old) {
            (Change::Patches(patches), Some(old)) => {
                self.place_patches((old, Some(old_check)), patches, out)
            }
            _ => self.place(update, out),
        }
    }

    fn patch_bytes_on_old(&self, block_bytes: usize) -> usize {
        // So few bytes that no other form is shorter, and that too many bits never differ.
        let few = block_bytes.saturating_mul(self.settings.few_bits.into()) / 1024;
        if self.settings.moves { 0 } else { few.min(PATCH_BYTES_MAX) }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        deltas::apply(&self.kernels, payload, block)
    }

    fn check(&self, payload: &[u8], block: &[u8]) -> Result<(), ApplyError> {
        between::check(&self.kernels, payload, block)
    }

    fn wants_log(&self) -> bool {
        true
    }

    fn wants_old(&self) -> bool {
        true
    }

    fn keeps_in_slots(&self) -> bool {
        true
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds::new(self.settings.reclaim_at, self.settings.reclaim_at)
    }

    fn pacing(&self) -> Pacing {
        Pacing::new(None, None, Some(self.settings.checkpoint_after))
    }
}

#[cfg(test)]
mod tests;
