//! Where in a table the entry of a block is looked for.
//!
//! Guarantees: [`home`] and [`next`] name places of the table, and from any of them on `next` comes
//! by all of them before it comes back. [`order`] numbers them in the order of `next`.
//!
//! Blocks of a run are side by side, in a group of places, two to a line. So a caller that writes
//! several of them finds the line of the next one in the caches. Where a place is taken, the search
//! goes on at the same place of the next group, so two runs of one group do not mix. The block that
//! comes first in its group differs from run to run. So callers that use every eighth block meet no
//! more often than others.

use crate::units::BlockNumber;

/// Spreads block numbers over the whole range; the upper bits choose a place in a table.
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

/// Places of a group.
const GROUP: usize = RUN_BLOCKS as usize;

/// How many whole groups a table of `places` has. Those behind them come last.
const fn groups_of(places: usize) -> usize {
    places / GROUP
}

/// A seed for [`home`], made of the address that a table lies at.
#[inline(always)]
pub(super) fn seed_of(address: usize) -> u64 {
    // The higher half of the product is the better one.
    scatter(address as u64).rotate_right(u64::BITS / 2)
}

/// Where a block is looked for first, in a table of `places`.
///
/// A medium or a client may choose blocks that all lead to the same few places; then each look-up
/// goes through many of them. The seed is another one in each process, and nobody outside knows it.
#[inline(always)]
pub(super) fn first_place(block: u64, places: usize, seed: u64) -> usize {
    let scaled = |hash: u64, count: usize| {
        let scaled = u128::from(hash).wrapping_mul(count as u128).wrapping_shr(64);
        usize::try_from(scaled).unwrap_or(0)
    };
    let run = scatter((block / RUN_BLOCKS) ^ seed);
    match groups_of(places) {
        0 => scaled(scatter(block ^ seed), places),
        groups => {
            // Of other bits than those that choose a group, or one of several tables.
            let turned = block.wrapping_add(run.wrapping_shr(16)) % RUN_BLOCKS;
            scaled(run, groups).wrapping_mul(GROUP).wrapping_add(turned as usize)
        }
    }
}

/// Where to look behind a place.
#[inline(always)]
pub(super) fn next(place: usize, places: usize) -> usize {
    let grouped = groups_of(places).wrapping_mul(GROUP);
    let beside = place.wrapping_add(1);
    if place >= grouped {
        return if beside < places { beside } else { 0 };
    }
    let below = place.wrapping_add(GROUP);
    let into = beside % GROUP;
    match (below < grouped, into) {
        (true, _) => below,
        // Behind the last of the last group there may be more, and behind that is the first.
        (_, 0) if grouped < places => grouped,
        _ => into,
    }
}

/// How many places are looked at before this one, from the first on.
pub(super) fn order(place: usize, places: usize) -> usize {
    let groups = groups_of(places);
    if place >= groups.wrapping_mul(GROUP) {
        return place;
    }
    (place % GROUP).wrapping_mul(groups).wrapping_add(place / GROUP)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;

    use super::*;

    #[test]
    fn every_place_comes_once_and_in_its_order() {
        let (most, blocks) = if cfg!(miri) { (20, 20) } else { (100, 1000) };
        for places in 1..most {
            let (mut place, mut seen) = (0, vec![false; places]);
            for number in 0..places {
                assert_eq!(order(place, places), number, "place {place} of {places}");
                assert!(!core::mem::replace(&mut seen[place], true), "place {place} of {places}");
                place = next(place, places);
            }
            assert_eq!(place, 0, "around {places} places");
            assert!((0..blocks).all(|block| first_place(block, places, block) < places));
        }
        assert!(first_place(u64::MAX, usize::MAX >> 8, 7) < usize::MAX >> 8);
    }

    #[test]
    fn a_run_has_a_group() {
        for run in 0..if cfg!(miri) { 5 } else { 100 } {
            let first = run * RUN_BLOCKS;
            let mut homes: vec::Vec<_> =
                (first..first + RUN_BLOCKS).map(|b| first_place(b, 300, 99)).collect();
            homes.sort_unstable();
            let group = homes[0] / GROUP * GROUP;
            assert_eq!(homes, (group..group + GROUP).collect::<vec::Vec<_>>());
        }
    }

    /// In a table as full as an index can be, and in one that has half of that.
    #[test]
    #[cfg_attr(miri, ignore = "a count of many steps")]
    fn searches_are_short_whatever_blocks_there_are() {
        const PLACES: usize = 1366;
        let used = [1024, 512];
        for (count, most) in used.into_iter().zip([3.0, 1.4]) {
            let seeds = [0, seed_of(0x7F12_3456_7000)];
            let steps = [1, 2, 7, 8, 16, 64, 1000, 4096];
            for (step, seed) in steps.into_iter().flat_map(|step| seeds.map(|seed| (step, seed))) {
                let mut table = vec![false; PLACES];
                let mut looked = 0;
                for block in (0..).step_by(step).take(count) {
                    let mut place = first_place(block, PLACES, seed);
                    while core::mem::replace(&mut table[place], true) {
                        place = next(place, PLACES);
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
        const PLACES: usize = 1 << 16;
        let runs = (0..1_u64 << 20).filter(|run| scatter(*run) >> 60 == 0);
        let blocks: vec::Vec<u64> = runs.map(|run| run * RUN_BLOCKS).take(4096).collect();
        let sixteenths = |seed: u64| {
            let mut counts = [0_usize; 16];
            for block in &blocks {
                counts[first_place(*block, PLACES, seed) / (PLACES / 16)] += 1;
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
