//! Where in a table the entry of a block is looked for.
//!
//! Guarantees: [`first_entry`] and [`next`] name entries of the table, and from any of them on
//! `next` comes by all of them before it comes back. [`order`] numbers them in the order of `next`.
//!
//! Blocks of a run are side by side, in a group of entries, two to a line. So a caller that writes
//! several of them finds the line of the next one in the caches. Where an entry is taken, the
//! search goes on at the same entry of the next group, so two runs of one group do not mix. The
//! block that comes first in its group differs from run to run. So callers that use every eighth
//! block meet no more often than others.

use crate::units::BlockNumber;

/// Spreads block numbers over the whole range; the upper bits choose an entry of a table.
const fn scatter(block: u64) -> u64 {
    block.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// This number of blocks, from a multiple of it on, are of one index: what is written at once is
/// often side by side.
pub const RUN_BLOCKS: u64 = 8;

/// Whether two blocks are of one run, and so of one index.
#[inline]
#[must_use]
pub const fn is_of_run(a: BlockNumber, b: BlockNumber) -> bool {
    a.raw() / RUN_BLOCKS == b.raw() / RUN_BLOCKS
}

/// Which of `count` indexes (a power of two) has this block.
#[inline]
#[must_use]
pub fn share_of(block: BlockNumber, count: usize) -> usize {
    // Not the upper bits: blocks of one share still have to spread over its table.
    let middle = scatter(block.raw() / RUN_BLOCKS).checked_shr(20).unwrap_or(0);
    usize::try_from(middle & u64::from(u16::MAX)).unwrap_or(0) & count.saturating_sub(1)
}

/// Entries of a group.
const GROUP: usize = RUN_BLOCKS as usize;

/// How many whole groups a table of `entries` has. Those behind them come last.
const fn groups_of(entries: usize) -> usize {
    entries / GROUP
}

/// A seed for [`first_entry`], made of the address that a table lies at.
#[inline(always)]
pub(super) fn seed_of(address: usize) -> u64 {
    // The higher half of the product is the better one.
    scatter(address as u64).rotate_right(u64::BITS / 2)
}

/// Where a block is looked for first, in a table of `entries`.
///
/// A medium or a client may choose blocks that all lead to the same few entries; then each look-up
/// goes through many of them. The seed is another one in each process, and nobody outside knows it.
#[inline(always)]
pub(super) fn first_entry(block: u64, entries: usize, seed: u64) -> usize {
    let scaled = |hash: u64, count: usize| {
        let scaled = u128::from(hash).wrapping_mul(count as u128).wrapping_shr(64);
        usize::try_from(scaled).unwrap_or(0)
    };
    let run = scatter((block / RUN_BLOCKS) ^ seed);
    match groups_of(entries) {
        0 => scaled(scatter(block ^ seed), entries),
        groups => {
            // Of other bits than those that choose a group, or one of several tables.
            let turned = block.wrapping_add(run.wrapping_shr(16)) % RUN_BLOCKS;
            scaled(run, groups).wrapping_mul(GROUP).wrapping_add(turned as usize)
        }
    }
}

/// Where to look behind an entry.
#[inline(always)]
pub(super) fn next(at: usize, entries: usize) -> usize {
    let grouped = groups_of(entries).wrapping_mul(GROUP);
    let beside = at.wrapping_add(1);
    if at >= grouped {
        return if beside < entries { beside } else { 0 };
    }
    let below = at.wrapping_add(GROUP);
    let into = beside % GROUP;
    match (below < grouped, into) {
        (true, _) => below,
        // Behind the last of the last group there may be more, and behind that is the first.
        (_, 0) if grouped < entries => grouped,
        _ => into,
    }
}

/// How many entries are looked at before this one, from the first on.
pub(super) fn order(at: usize, entries: usize) -> usize {
    let groups = groups_of(entries);
    if at >= groups.wrapping_mul(GROUP) {
        return at;
    }
    (at % GROUP).wrapping_mul(groups).wrapping_add(at / GROUP)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;

    use super::*;

    #[test]
    fn every_entry_comes_once_and_in_its_order() {
        let (most, blocks) = if cfg!(miri) { (20, 20) } else { (100, 1000) };
        for entries in 1..most {
            let (mut at, mut seen) = (0, vec![false; entries]);
            for number in 0..entries {
                assert_eq!(order(at, entries), number, "entry {at} of {entries}");
                assert!(!core::mem::replace(&mut seen[at], true), "entry {at} of {entries}");
                at = next(at, entries);
            }
            assert_eq!(at, 0, "around {entries} entries");
            assert!((0..blocks).all(|block| first_entry(block, entries, block) < entries));
        }
        assert!(first_entry(u64::MAX, usize::MAX >> 8, 7) < usize::MAX >> 8);
    }

    #[test]
    fn a_run_has_a_group() {
        for run in 0..if cfg!(miri) { 5 } else { 100 } {
            let first = run * RUN_BLOCKS;
            let mut homes: vec::Vec<_> =
                (first..first + RUN_BLOCKS).map(|b| first_entry(b, 300, 99)).collect();
            homes.sort_unstable();
            let group = homes[0] / GROUP * GROUP;
            assert_eq!(homes, (group..group + GROUP).collect::<vec::Vec<_>>());
        }
    }

    /// In a table as full as an index can be, and in one that has half of that.
    #[test]
    #[cfg_attr(miri, ignore = "a count of many steps")]
    fn searches_are_short_whatever_blocks_there_are() {
        const ENTRIES: usize = 1366;
        let used = [1024, 512];
        for (count, most) in used.into_iter().zip([3.0, 1.4]) {
            let seeds = [0, seed_of(0x7F12_3456_7000)];
            let steps = [1, 2, 7, 8, 16, 64, 1000, 4096];
            for (step, seed) in steps.into_iter().flat_map(|step| seeds.map(|seed| (step, seed))) {
                let mut table = vec![false; ENTRIES];
                let mut looked = 0;
                for block in (0..).step_by(step).take(count) {
                    let mut at = first_entry(block, ENTRIES, seed);
                    while core::mem::replace(&mut table[at], true) {
                        at = next(at, ENTRIES);
                        looked += 1;
                    }
                    looked += 1;
                }
                let mean = f64::from(looked) / count as f64;
                assert!(mean < most, "every {step}th of {count} blocks takes {mean} looks");
            }
        }
    }

    /// Blocks that one seed looks for in a sixteenth of the table; under others they are spread.
    #[test]
    #[cfg_attr(miri, ignore = "a count of many steps")]
    fn blocks_chosen_to_meet_do_not_meet_under_another_seed() {
        const ENTRIES: usize = 1 << 16;
        let runs = (0..1_u64 << 20).filter(|run| scatter(*run) >> 60 == 0);
        let blocks: vec::Vec<u64> = runs.map(|run| run * RUN_BLOCKS).take(4096).collect();
        let sixteenths = |seed: u64| {
            let mut counts = [0_usize; 16];
            for block in &blocks {
                counts[first_entry(*block, ENTRIES, seed) / (ENTRIES / 16)] += 1;
            }
            counts
        };
        assert_eq!(sixteenths(0)[0], blocks.len(), "all of them meet");
        let pages = (0..64).map(|page| 0x7F00_0000_0000 + (page << 12));
        let worst = pages.map(|address| sixteenths(seed_of(address)).into_iter().max());
        let worst: vec::Vec<_> = worst.flatten().collect();
        let crowded = worst.iter().filter(|most| **most > blocks.len() / 4).count();
        assert!(crowded <= 4, "{worst:?}");
    }
}
