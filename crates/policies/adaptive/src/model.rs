//! What things cost: the model that choices are made by.
//!
//! It is coarse on purpose. What matters is which of two forms is cheaper, and between those the
//! medium makes the difference. Where writing a line takes no longer than in ordinary memory, a
//! coder never pays. Where it takes ten times as long, a coder nearly always pays.
//!
//! A delta costs more than its lines. On a disk that may tear a block, one that goes home by deltas
//! alone goes through the shield first. A shield smaller than a batch brings more syncs.
//!
//! A line costs more than its store. A lane that is full goes on when blocks have gone home, and
//! the disk takes for one of them as long as fast memory takes for a thousand lines. Each line
//! that is logged bears its part of that.

use journal_core::LINE_BYTES;
use journal_core::policy::{Encoder, Placement};
use policy_codec::deltas::Form;

/// What is to be little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Time, that of writing to the medium and that of encoding.
    #[default]
    Speed,
    /// Bytes written to the medium, whatever time that takes.
    Wear,
}

/// A persistent memory, in the model's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Medium {
    /// In words.
    pub name: &'static str,
    /// Nanoseconds in which it takes in another line of 64 bytes, where several are on their way.
    pub line_ns: u32,
}

impl Medium {
    /// Memory as fast as ordinary one: battery-backed, or an NVDIMM-N.
    pub const DRAM: Self = Self { name: "DRAM", line_ns: 3 };

    /// Phase-change memory: writes some thirty times slower.
    pub const PCM: Self = Self { name: "PCM", line_ns: 100 };

    /// A small chip on a serial bus, 64 bytes in some 15 us.
    pub const FRAM: Self = Self { name: "FRAM", line_ns: 15_000 };

    /// Nanoseconds in which `bytes` bytes are written.
    #[must_use]
    pub const fn time_of(&self, bytes: usize) -> u64 {
        (bytes.div_ceil(LINE_BYTES) as u64).saturating_mul(self.line_ns as u64)
    }
}

/// A disk, in the model's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Disk {
    /// In words.
    pub name: &'static str,
    /// Nanoseconds of a block that goes home beside its neighbours. Zero where no commit waits for
    /// it: checkpoints go on beside commits, and the disk keeps up with them.
    pub block_ns: u32,
    /// Nanoseconds of a sync, where the disk has written all that it has taken.
    pub sync_ns: u32,
}

impl Disk {
    /// A solid-state drive that a user has who says nothing.
    pub const SSD: Self = Self { name: "SSD", block_ns: 4_000, sync_ns: 100_000 };

    /// A drive on PCI Express, 3 GB/s. Nothing protects its cache from a power loss, so that a
    /// sync waits for the flash.
    pub const NVME: Self = Self { name: "NVMe", block_ns: 2_400, sync_ns: 900_000 };

    /// A memory card of class 10, 10 MB/s.
    pub const CARD: Self = Self { name: "SD card", block_ns: 410_000, sync_ns: 2_000_000 };
}

/// What a checkpoint writes home between two syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batches {
    /// Blocks of a batch.
    pub(crate) blocks: u32,
    /// How many of them may go through the shield. Zero: none has to.
    pub(crate) shielded: u32,
}

impl Batches {
    /// What a journal of 128 MiB has that says nothing else.
    pub(crate) const USUAL: Self = Self { blocks: 1_024, shielded: 1_024 };
}

/// One delta in this many has its block written into the shield when the block goes home.
const DELTAS_PER_SHIELD: u64 = 8;

/// Blocks that go home for each of them that goes through the shield. It was counted of varmail,
/// which appends data and changes metadata.
const HOMES_PER_SHIELD: u64 = 4;

/// Blocks that are logged whole, as a rule, for each that goes home so that its lane goes on. What
/// is logged brings that nearer. It was counted in replays of ten real traces, of stores that fit
/// their lanes and of some that do not.
const BLOCKS_PER_HOME: u64 = 12;

/// The block that copies are reckoned with.
const BLOCK_BYTES: usize = 4096;

/// Seven eighths.
const COPIED_MAX: u8 = 224;

/// Bytes in a record that name a block of the disk-side log, behind its descriptor.
pub(crate) const NAME_BYTES: usize = 16;

/// The share of what comes free in a ring that copies may take, in 256ths: as much as costs no more
/// than to write home what takes that room. Beyond seven eighths little comes free by any copy.
pub(crate) fn copied_share(medium: &Medium, disk: &Disk) -> u8 {
    let (copied, home) = (medium.time_of(BLOCK_BYTES), u64::from(disk.block_ns));
    let share = home.saturating_mul(256).checked_div(home.saturating_add(copied)).unwrap_or(0);
    u8::try_from(share).unwrap_or(u8::MAX).min(COPIED_MAX)
}

/// What it costs to log something of a block of a certain length, now and later. What takes a
/// division is computed when it is made, since many lengths are weighed then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged<'a> {
    medium: &'a Medium,
    disk: &'a Disk,
    block_bytes: usize,
    /// Lines of a block.
    block_lines: u64,
    /// Nanoseconds of the shield for each delta. Of a block that goes through it, those are for its
    /// lines there, and for its part in the syncs that come for the shield alone.
    shield_ns: u64,
}

impl<'a> Logged<'a> {
    pub(crate) fn new(
        medium: &'a Medium,
        disk: &'a Disk,
        batches: Batches,
        block_bytes: usize,
    ) -> Self {
        let sync_ns = |blocks: u32| u64::from(disk.sync_ns).checked_div(blocks.into());
        let shielded_ns: u64 = match sync_ns(batches.shielded) {
            None => 0,
            Some(behind_shield) => {
                let anyway = sync_ns(batches.blocks).unwrap_or(0).saturating_mul(HOMES_PER_SHIELD);
                medium.time_of(block_bytes).saturating_add(behind_shield.saturating_sub(anyway))
            }
        };
        let block_lines = block_bytes.div_ceil(LINE_BYTES) as u64;
        let shield_ns = shielded_ns / DELTAS_PER_SHIELD;
        Self { medium, disk, block_bytes, block_lines, shield_ns }
    }

    /// Nanoseconds for `bytes` bytes: for their lines, and their part in what goes home later.
    pub(crate) fn time_of(&self, bytes: usize) -> u64 {
        self.medium.time_of(bytes).saturating_add(self.home_ns(bytes))
    }

    /// Nanoseconds of what goes home later for the room that `bytes` bytes take.
    #[inline]
    fn home_ns(&self, bytes: usize) -> u64 {
        let lines = bytes.div_ceil(LINE_BYTES) as u64;
        let of_lines = lines.saturating_mul(self.disk.block_ns.into()) / BLOCKS_PER_HOME;
        // A shift, since it is asked for many lengths, and blocks are powers of two.
        match self.block_lines.is_power_of_two() {
            true => of_lines.checked_shr(self.block_lines.trailing_zeros()).unwrap_or(0),
            false => of_lines.checked_div(self.block_lines).unwrap_or(0),
        }
    }

    /// Nanoseconds of a block in a log on this disk, with its part in what goes home later. It
    /// shares a sync with others, of which there are `alike` with it.
    pub(crate) fn time_on(&self, disk: &Disk, alike: u32) -> u64 {
        let sync_ns = u64::from(disk.sync_ns).checked_div(alike.into()).unwrap_or(0);
        let name_ns = self.medium.time_of(NAME_BYTES);
        let home_ns = self.home_ns(self.block_bytes);
        let on_disk_ns = u64::from(disk.block_ns).saturating_add(sync_ns);
        on_disk_ns.saturating_add(name_ns).saturating_add(home_ns)
    }

    /// Nanoseconds for a delta of `bytes` bytes in this form. A whole image needs no shield.
    #[inline]
    pub(crate) fn time_as(&self, form: Form, bytes: usize) -> u64 {
        let coding_ns = coding_ns(form, self.block_bytes);
        self.time_of(bytes).saturating_add(coding_ns).saturating_add(self.shield_ns)
    }
}

/// Nanoseconds in which a form is encoded, and applied once, in a block of `block_bytes`. Measured
/// for blocks of 4 KiB of which a twentieth differs.
#[must_use]
pub const fn coding_ns(form: Form, block_bytes: usize) -> u64 {
    let of_4_kib = match form {
        Form::Runs => 260,
        Form::Words => 190,
        Form::Xor | Form::Complement => 2_500,
        Form::Moves => 3_500,
        _ => 150,
    };
    (block_bytes as u64).saturating_mul(of_4_kib) / 4096
}

/// Nanoseconds in which patches are encoded, and applied once, in a block of `block_bytes`, where
/// the check of the old image is known. Measured for patches of up to 256 bytes.
pub(crate) const fn patching_ns(block_bytes: usize) -> u64 {
    (block_bytes as u64).saturating_mul(170) / 4096
}

/// How short a coder may be hoped to make what takes `bytes` otherwise. Copies take half of that,
/// as a rule, and a compressed XOR hardly less than all.
pub(crate) const fn hoped_for(coder: Form, bytes: usize) -> usize {
    match coder {
        Form::Moves => bytes / 2,
        _ => bytes.saturating_sub(bytes / 8),
    }
}

/// What was chosen for an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// Where it goes.
    pub placement: Placement,
    /// In which form it is encoded, or would have been: what else was weighed. None where nothing
    /// was encoded.
    pub form: Option<Form>,
    /// How long that is; of what is logged whole, nothing was encoded.
    pub payload_bytes: usize,
    /// Nanoseconds that encoding took by the model, with what was tried in vain.
    pub coding_ns: u64,
}

impl Choice {
    pub(crate) const fn whole(placement: Placement) -> Self {
        Self { placement, form: None, payload_bytes: 0, coding_ns: 0 }
    }

    /// What an encoder holds, unless the whole block is no longer.
    pub(crate) fn of(is_put: bool, block_bytes: usize, out: &Encoder<'_>) -> Self {
        let payload_bytes = out.as_bytes().len();
        if !is_put || payload_bytes >= block_bytes {
            let whole = Self::whole(Placement::Image);
            return Self { payload_bytes: block_bytes, ..whole };
        }
        let form = Form::of(out.as_bytes());
        Self { placement: Placement::Encoded, form, payload_bytes, coding_ns: 0 }
    }
}
