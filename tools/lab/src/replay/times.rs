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

use adaptive::Medium;

use crate::replay::count::Account;
use crate::replay::policies::{Known, Role};
use crate::replay::run::Figures;

/// A persistent memory.
pub struct Memory {
    pub medium: &'static Medium,
    /// A fence, with whatever is behind it.
    fence_ns: u64,
}

/// Ordinary memory was measured: some 3 ns for a line behind others, some 165 ns for a fence. What
/// phase-change memory takes is chosen: a line some thirty times as long, a fence three times.
pub const MEMORIES: [Memory; 2] = [
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

impl Figures {
    /// Nanoseconds of the disk.
    fn disk_ns(&self) -> u64 {
        self.disk.blocks * BLOCK_NS + self.disk.runs * WRITE_NS + self.disk.syncs * SYNC_NS
    }

    /// Nanoseconds of a memory, and of encoding.
    pub fn memory_ns(&self, memory: &Memory) -> u64 {
        let Account { records, slots, entries, voids, moves, upkeep, .. } = self.nvm;
        let all = [records, slots, entries, voids, moves, upkeep];
        let lines: u64 = all.iter().map(|written| written.lines).sum();
        let fences: u64 = all.iter().map(|written| written.fences).sum();
        lines * u64::from(memory.medium.line_ns) + fences * memory.fence_ns + self.coding_ns
    }

    /// All of it.
    pub fn time_ns(&self, memory: &Memory) -> u64 {
        self.memory_ns(memory) + self.disk_ns()
    }
}

/// The least of what the fixed policies among some take, by what is asked.
pub fn least_of_fixed<'a>(
    rows: impl IntoIterator<Item = (&'static Known, &'a Figures)>,
    time: impl Fn(&Figures) -> u64,
) -> Option<u64> {
    let fixed = rows.into_iter().filter(|(known, _)| known.role == Role::Fixed);
    fixed.map(|(_, figures)| time(figures)).min()
}

/// Whether a policy that chooses for a memory takes hardly longer there than the best of the fixed
/// ones; nothing is asked of others.
pub fn keeps_up(known: &Known, figures: &Figures, least: impl Fn(&Memory) -> Option<u64>) -> bool {
    let Role::LeastTime(medium) = known.role else { return true };
    MEMORIES.iter().filter(|memory| memory.medium == medium).all(|memory| {
        let most = least(memory).map(|least| least + least * ABOVE_MAX_PERCENT / 100);
        most.is_none_or(|most| figures.time_ns(memory) <= most)
    })
}
