//! Two levels: the sub-blocks that a small change touches go into persistent memory. A block of
//! which much changes goes whole to a log on the disk.
//!
//! - **Costs** in persistent memory some 20 bytes of header, 4 bytes of bitmap for a block of 4
//!   KiB, and 128 bytes for each changed sub-block. A block that goes to the disk costs 32 bytes of
//!   persistent memory. Each transaction that has such a block costs one write and one sync of the
//!   disk.
//! - **Choose it** when persistent memory is small beside a disk that takes large sequential writes
//!   well. Bytes in memory are spent where they save the most on the disk.
//!
//! It follows two-level logging. It has the paper's sub-blocks with a bitmap, its log on the disk,
//! where the journal has one, and a cleaner that empties the log's segments. Beyond the paper, one
//! checked record and one fence commit a transaction, and rot is told from a torn tail.
//!
//! Metadata stays in persistent memory whatever its size. What changes is what the store says, in
//! ranges. Where it gives whole images, the old one is compared, unless [`Settings::compares`] says
//! not to. Blocks that are logged lie above what is home or in the disk's log, never over it. The
//! content below stays until a newer one is durable. Readers find the newest content in memory as
//! long as a cache keeps it.
//!
//! Of an appended block nobody needs the old content. Its sub-blocks that hold anything are logged
//! above zeroes, if that is less than what changes.
//!
//! The payload's first byte is its form. It is 1 for a [bitmap and sub-blocks](bitmap) of 128
//! bytes. For sub-blocks of another size it is 16 and the power of two that they have. With 64
//! added they lie above zeroes. It is 2 for [`runs`] of bytes, which patches alone are logged as.

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
    Prefix, Span, Thresholds, Update,
};
use journal_core::{Kernels, PortableKernels};
pub use policy_codec::bitmap::Unit;
use policy_codec::{Changed, bitmap, runs};

/// Settings of the policy, each with its default. All of them may differ from one opening to the
/// next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    unit: Unit,
    few_units: u8,
    compares: bool,
    logs_patches: bool,
    reclaim_at: u8,
    checkpoint_after: Duration,
}

impl Settings {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            unit: Unit::SUB_BLOCK,
            few_units: 128,
            compares: true,
            logs_patches: true,
            reclaim_at: 192,
            checkpoint_after: Duration::from_secs(300),
        }
    }

    /// The sub-block: 128 bytes, 32 of them in a block of 4 KiB. Each payload says which it has, so
    /// that a journal is opened with any.
    #[must_use]
    pub const fn sub_block(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// Sub-blocks of this number of bytes; `None` where [`Unit::new`] knows no such size.
    #[must_use]
    pub const fn sub_block_bytes(self, bytes: usize) -> Option<Self> {
        match Unit::new(bytes) {
            Some(unit) => Some(self.sub_block(unit)),
            None => None,
        }
    }

    /// The share of a block's sub-blocks, in 256ths, up to which the changed ones go into the
    /// record. Above it data goes to the disk. 128, half of them.
    #[must_use]
    pub const fn few_units(self, few_units: u8) -> Self {
        Self { few_units, ..self }
    }

    /// Whether images that are given whole are compared with the old ones. They are; otherwise all
    /// of their sub-blocks count as changed.
    #[must_use]
    pub const fn compares(self, compares: bool) -> Self {
        Self { compares, ..self }
    }

    /// Whether patches of a transaction go into its record as they come. No image of the block is
    /// made or read then, and a record has the patches alone. Otherwise the sub-blocks that they
    /// touch are logged. On.
    #[must_use]
    pub const fn logs_patches(self, logs_patches: bool) -> Self {
        Self { logs_patches, ..self }
    }

    /// The fraction of a lane, in 256ths, from which on it is emptied. 192, three quarters.
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

const SUB_BLOCKS: u8 = 1;
const RUNS: u8 = 2;
/// Where sub-blocks have another size, the form is this number plus their power of two.
const SUB_BLOCKS_OF: u8 = 16;
/// This number is added to the form of sub-blocks that lie above zeroes, not above old content.
const OVER_ZEROES: u8 = 64;

/// The form of a payload with sub-blocks of this size.
const fn form_of(unit: Unit) -> u8 {
    if unit.bytes() == Unit::SUB_BLOCK.bytes() {
        return SUB_BLOCKS;
    }
    // Units have less than 2 to the power of 16 bytes.
    SUB_BLOCKS_OF | unit.bytes().ilog2() as u8
}

/// The sub-block of a form, if it is one that has some. Each has one form.
const fn unit_of(form: u8) -> Option<Unit> {
    let unit = match form {
        SUB_BLOCKS => return Some(Unit::SUB_BLOCK),
        SUB_BLOCKS_OF..=31 => {
            Unit::new(1_usize.wrapping_shl(form.wrapping_sub(SUB_BLOCKS_OF) as u32))
        }
        _ => None,
    };
    match unit {
        Some(unit) if form_of(unit) == form => Some(unit),
        _ => None,
    }
}

/// The policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwoLevel<K = PortableKernels> {
    settings: Settings,
    kernels: K,
}

impl TwoLevel {
    /// Its number in the superblock.
    pub const ID: PolicyId = PolicyId(6);

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

impl<K> TwoLevel<K> {
    /// This policy with other kernels, which compare images.
    #[must_use]
    pub fn kernels<L: Kernels>(self, kernels: L) -> TwoLevel<L> {
        TwoLevel { settings: self.settings, kernels }
    }

    /// What it was made with.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl<K: Kernels> TwoLevel<K> {
    /// The words of the new image that may differ from the old one, as far as somebody says so.
    fn changed(&self, update: &Update<'_>, new: &[u8]) -> Option<Changed> {
        match update.change {
            Change::Ranges { ranges, .. } => {
                let mut changed = Changed::none(new.len())?;
                ranges.iter().for_each(|range| changed.mark(*range));
                Some(changed)
            }
            _ if self.settings.compares => Changed::between(&self.kernels, update.old?, new),
            _ => None,
        }
    }
}

impl<K> TwoLevel<K> {
    /// Whether more sub-blocks of data differ in their first words than are logged by themselves.
    /// Then it does not matter what else differs.
    fn is_much(&self, update: &Update<'_>, new: &[u8]) -> bool {
        let (Change::Image(_), Class::Data, Some(old)) = (update.change, update.class, update.old)
        else {
            return false;
        };
        if !self.settings.compares || old.len() != new.len() {
            return false;
        }
        let unit = self.settings.unit;
        let count = unit.count_in(new.len());
        let few = count.saturating_mul(self.settings.few_units.into()) / 256;
        // A short one at the end is left out: it decides nothing.
        let units = old.chunks_exact(unit.bytes()).zip(new.chunks_exact(unit.bytes()));
        let differs = |(old, new): (&[u8], &[u8])| usize::from(first_word(old) != first_word(new));
        // To count them all takes less than to look for the end.
        units.fold(0, |count: usize, unit| count.wrapping_add(differs(unit))) > few
    }
}

/// The word that a sub-block begins with, if a whole one is there.
fn first_word(unit: &[u8]) -> Option<u64> {
    unit.first_chunk().copied().map(u64::from_le_bytes)
}

/// The sub-blocks that hold anything but zeroes.
fn not_zero(unit: Unit, new: &[u8]) -> Option<Changed> {
    let mut changed = Changed::none(new.len())?;
    let mut at = 0_u32;
    for bytes in new.chunks(unit.bytes()) {
        let len = u32::try_from(bytes.len()).ok()?;
        if bytes.iter().any(|byte| *byte != 0) {
            changed.mark(Span { at, len });
        }
        at = at.saturating_add(len);
    }
    Some(changed)
}

fn put_runs(update: &Update<'_>, out: &mut Encoder<'_>) -> Result<(), NoRoom> {
    out.put(&[RUNS])?;
    runs::put(update.change.pieces(), out)
}

impl<K: Kernels> Policy for TwoLevel<K> {
    fn id(&self) -> PolicyId {
        TwoLevel::ID
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let Some(new) = update.change.image() else {
            // Without an image there is no other form: the core refuses the update.
            let put = put_runs(update, out);
            return if put.is_ok() { Placement::Encoded } else { Placement::Image };
        };
        let whole = match update.class {
            Class::Metadata => Placement::Image,
            Class::Data => Placement::DiskLog,
        };
        let is_append = update.kind == Kind::Append;
        if !is_append && self.is_much(update, new) {
            return whole;
        }
        let unit = self.settings.unit;
        let changed = self.changed(update, new);
        if changed.as_ref().is_some_and(Changed::is_nothing) {
            return Placement::Unchanged;
        }
        let count = |changed: &Changed| changed.unit_count(unit);
        let over_zeroes = if is_append { not_zero(unit, new) } else { None };
        // Neither is moved: they take more bytes than most payloads.
        let (form, changed) = match (&changed, &over_zeroes) {
            (Some(changed), Some(over)) if count(changed) <= count(over) => {
                (form_of(unit), changed)
            }
            (_, Some(over)) => (form_of(unit) | OVER_ZEROES, over),
            (Some(changed), None) => (form_of(unit), changed),
            (None, None) => return whole,
        };
        let all = unit.count_in(new.len()).saturating_mul(self.settings.few_units.into());
        let is_much = changed.unit_count(unit).saturating_mul(256) > all;
        if is_much && update.class == Class::Data {
            return whole;
        }
        let encoded = out
            .put(&[form])
            .and_then(|()| out.put_with(|room| bitmap::encode(changed, unit, new, room)).map(drop));
        let is_shorter = encoded.is_ok() && out.as_bytes().len() < new.len();
        if is_shorter { Placement::Encoded } else { whole }
    }

    #[inline(always)]
    fn prefix_of(&self, patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
        let prefix = runs::prefix_of(patches.get(at)?)?;
        Some(if at == 0 { prefix.behind(RUNS) } else { prefix })
    }

    fn logs_patches(&self) -> bool {
        self.settings.logs_patches
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        let Some((form, payload)) = payload.split_first() else {
            return Err(ApplyError::Malformed { at: 0 });
        };
        match unit_of(*form & !OVER_ZEROES) {
            Some(unit) => {
                if *form & OVER_ZEROES != 0 {
                    block.fill(0);
                }
                Ok(bitmap::apply(payload, unit, block)?)
            }
            None if *form == RUNS => runs::apply(payload, block),
            None => Err(ApplyError::Malformed { at: 0 }),
        }
    }

    fn wants_log(&self) -> bool {
        true
    }

    fn wants_old(&self) -> bool {
        self.settings.compares
    }

    fn keeps_in_slots(&self) -> bool {
        true
    }

    fn bypasses_when_full(&self) -> bool {
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
