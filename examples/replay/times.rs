//! One figure for all that a policy does: the time that a model gives it, on two media, beside one
//! disk. Nothing here is measured; it weighs counts against each other.
//!
//! It is the sum of
//!
//! - the lines that were flushed or streamed to persistent memory, and the fences: those of
//!   commits, of entries and voids, of copies, shields and superblocks;
//! - the writes that the disk was asked for, home and to its log, their blocks and the syncs, with
//!   the checkpoint at the end of the trace;
//! - what encoding takes, and applying it once, as the adaptive policy's own model has it.
//!
//! What all policies do alike, comparing images and computing checks, is left out.

use journal_core::Operation;
use journal_core::policy::Encoder;

use adaptive::{Adaptive, Form, Medium, coding_ns};
use policy_codec::deltas::SHORT_BYTES;

use crate::count::{Account, Place};
use crate::policies::{Known, Role};
use crate::run::Figures;

/// A persistent memory.
pub(crate) struct Memory {
    pub(crate) medium: &'static Medium,
    /// A fence, with whatever is behind it.
    fence_ns: u64,
}

/// Ordinary memory was measured: some 3 ns for a line behind others, some 165 ns for a fence. What
/// phase-change memory takes is chosen: a line some thirty times as long, a fence three times.
pub(crate) const MEMORIES: [Memory; 2] = [
    Memory { medium: &Medium::DRAM, fence_ns: 165 },
    Memory { medium: &Medium::PCM, fence_ns: 500 },
];

/// The disk is chosen too: a solid-state drive that takes 2 GB/s, 20 us to begin a write, and
/// 100 us for a sync.
const BLOCK_NS: u64 = 2_000;
const WRITE_NS: u64 = 20_000;
const SYNC_NS: u64 = 100_000;

/// How far above the best of the fixed policies one that chooses may be, in percent.
const ABOVE_MAX_PERCENT: u64 = 5;

/// How long encoding takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Coding {
    Nothing,
    /// For each frame with a delta as long as this form.
    Each(Form),
    /// For each frame that names a slot.
    EachSlot(Form),
    /// For each frame with a delta as long as these forms together, unless a short one is found.
    Tried(&'static [Form]),
    /// As long as the policy says itself.
    Chosen(&'static Adaptive),
}

impl Coding {
    /// Whether a delta begins with its form.
    pub(crate) const fn says_forms(&self) -> bool {
        matches!(self, Self::Tried(_) | Self::Chosen(_))
    }

    /// For a frame.
    pub(crate) fn of_frame(&self, place: Place, block_bytes: usize) -> u64 {
        match (self, place) {
            (Self::Each(form), Place::Encoded { .. }) | (Self::EachSlot(form), Place::Slot) => {
                coding_ns(*form, block_bytes)
            }
            (Self::Tried(forms), Place::Encoded { first, bytes }) => {
                let ends = |form: &&Form| bytes <= SHORT_BYTES as u64 && **form as u8 == first;
                let tried =
                    forms.iter().position(|form| ends(&form)).map_or(forms.len(), |at| at + 1);
                forms[..tried].iter().map(|form| coding_ns(*form, block_bytes)).sum()
            }
            _ => 0,
        }
    }

    /// For an update, whatever becomes of it.
    pub(crate) fn of_update(&self, operation: &Operation<'_>) -> u64 {
        let (Self::Chosen(policy), Operation::Update(update)) = (self, operation) else { return 0 };
        let mut room = vec![0; update.change.image().map_or(0, <[u8]>::len)];
        policy.choose(update, &mut Encoder::new(&mut room)).coding_ns
    }
}

impl Figures {
    /// Nanoseconds of the disk.
    fn disk_ns(&self) -> u64 {
        self.disk.blocks * BLOCK_NS + self.disk.runs * WRITE_NS + self.disk.syncs * SYNC_NS
    }

    /// Nanoseconds of a memory, and of encoding.
    pub(crate) fn memory_ns(&self, memory: &Memory) -> u64 {
        let Account { records, slots, entries, voids, upkeep, .. } = self.nvm;
        let all = [records, slots, entries, voids, upkeep];
        let lines: u64 = all.iter().map(|written| written.lines).sum();
        let fences: u64 = all.iter().map(|written| written.fences).sum();
        lines * u64::from(memory.medium.line_ns) + fences * memory.fence_ns + self.coding_ns
    }

    /// All of it.
    pub(crate) fn time_ns(&self, memory: &Memory) -> u64 {
        self.memory_ns(memory) + self.disk_ns()
    }
}

/// The least of what the fixed policies among some take, by what is asked.
pub(crate) fn least_of_fixed<'a>(
    rows: impl IntoIterator<Item = (&'static Known, &'a Figures)>,
    time: impl Fn(&Figures) -> u64,
) -> Option<u64> {
    let fixed = rows.into_iter().filter(|(known, _)| known.role == Role::Fixed);
    fixed.map(|(_, figures)| time(figures)).min()
}

/// Whether a policy that chooses for a memory takes hardly longer there than the best of the fixed
/// ones; nothing is asked of others.
pub(crate) fn keeps_up(
    known: &Known,
    figures: &Figures,
    least: impl Fn(&Memory) -> Option<u64>,
) -> bool {
    let Role::LeastTime(medium) = known.role else { return true };
    MEMORIES.iter().filter(|memory| memory.medium == medium).all(|memory| {
        let most = least(memory).map(|least| least + least * ABOVE_MAX_PERCENT / 100);
        most.is_none_or(|most| figures.time_ns(memory) <= most)
    })
}
