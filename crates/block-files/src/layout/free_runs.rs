//! Which blocks of the store are free: runs of neighbours, in memory alone.
//!
//! Guarantees: no two runs touch, so there is at most one run more than there are extents and
//! blocks of the directory.

use alloc::collections::BTreeMap;
use core::ops::Bound;

/// Sets of blocks, as runs none of which touches another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(first, count)| (*first, *count))
    }

    /// The last run that begins before a block or at it.
    fn at_or_before(&self, block: u64) -> Option<(u64, u64)> {
        self.0.range(..=block).next_back().map(|(first, count)| (*first, *count))
    }

    /// The blocks of a run join the set. Some of them may be in it.
    pub(crate) fn join(&mut self, first: u64, count: u64) {
        if count == 0 {
            return;
        }
        let (mut start, mut end) = (first, first.saturating_add(count));
        while let Some((other, length)) = self.at_or_before(end) {
            let other_end = other.saturating_add(length);
            if other_end < start {
                break;
            }
            self.0.remove(&other);
            (start, end) = (start.min(other), end.max(other_end));
        }
        self.0.insert(start, end.saturating_sub(start));
    }

    /// The blocks of a run leave the set. Some of them may not be in it.
    pub(crate) fn leave(&mut self, first: u64, count: u64) {
        let end = first.saturating_add(count);
        let Some(last) = end.checked_sub(1).filter(|_| count > 0) else { return };
        while let Some((other, length)) = self.at_or_before(last) {
            let other_end = other.saturating_add(length);
            if other_end <= first {
                break;
            }
            self.0.remove(&other);
            if other_end > end {
                self.0.insert(end, other_end.saturating_sub(end));
            }
            if other < first {
                self.0.insert(other, first.saturating_sub(other));
                break;
            }
        }
    }
}

/// The free blocks, by runs: the first block, and how many there are.
#[derive(Debug, Default)]
pub(crate) struct FreeRuns {
    runs: BTreeMap<u64, u64>,
    free: u64,
    /// Where the last run was taken: the next search begins there.
    cursor: u64,
}

impl FreeRuns {
    /// All blocks of a store that lie in none of these runs, which are sorted and do not overlap.
    pub(crate) fn between(used: &[(u64, u64)], blocks: u64) -> Self {
        let mut free = Self::default();
        let mut at = 0;
        for (first, count) in used {
            free.give(at, first.saturating_sub(at));
            at = first.saturating_add(*count);
        }
        free.give(at, blocks.saturating_sub(at));
        free
    }

    /// How many blocks are free.
    pub(crate) const fn free(&self) -> u64 {
        self.free
    }

    /// The parts of a run that are free.
    pub(crate) fn within(&self, first: u64, count: u64) -> Vec<(u64, u64)> {
        let end = first.saturating_add(count);
        let before = self.runs.range(..first).next_back();
        let runs = before.into_iter().chain(self.runs.range(first..end));
        let parts = runs.map(|(start, length)| {
            let (from, to) = (first.max(*start), end.min(start.saturating_add(*length)));
            (from, to.saturating_sub(from))
        });
        parts.filter(|(_, count)| *count > 0).collect()
    }

    /// Behind this block all are free.
    pub(crate) fn end_of_used(&self, blocks: u64) -> u64 {
        let last = self.runs.iter().next_back();
        let last = last.filter(|(first, count)| first.saturating_add(**count) >= blocks);
        last.map_or(blocks, |(first, _)| *first)
    }

    /// Takes a run of at most `wanted` blocks: the blocks from `near` on if they are free, else
    /// some others. `None` if no block is free, or none is wanted.
    pub(crate) fn take(&mut self, near: Option<u64>, wanted: u64) -> Option<(u64, u64)> {
        if wanted == 0 {
            return None;
        }
        let at_near = near.and_then(|near| self.runs.get_key_value(&near));
        let behind = || self.runs.range(self.cursor..).next().or_else(|| self.runs.iter().next());
        let (first, count) = at_near.or_else(behind).map(|(first, count)| (*first, *count))?;
        let taken = count.min(wanted);
        self.runs.remove(&first);
        let rest = first.saturating_add(taken);
        if taken < count {
            self.runs.insert(rest, count.saturating_sub(taken));
        }
        self.free = self.free.saturating_sub(taken);
        self.cursor = rest;
        Some((first, taken))
    }

    /// Gives a run back.
    pub(crate) fn give(&mut self, first: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.free = self.free.saturating_add(count);
        let (mut start, mut length) = (first, count);
        let end = first.saturating_add(count);
        if let Some(behind) = self.runs.remove(&end) {
            length = length.saturating_add(behind);
        }
        let before = self.runs.range((Bound::Unbounded, Bound::Excluded(first))).next_back();
        let before = before.map(|(first, count)| (*first, *count));
        if let Some((before, blocks)) = before {
            if before.saturating_add(blocks) == first {
                start = before;
                length = length.saturating_add(blocks);
            }
        }
        self.runs.insert(start, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain set of numbers.
    #[test]
    fn runs_that_overlap_are_one_set() {
        use alloc::collections::BTreeSet;

        let (mut runs, mut model) = (Runs::default(), BTreeSet::new());
        let mut seed = 7_u64;
        for step in 0..2000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (first, count) = ((seed >> 33) % 60, (seed >> 50) % 9);
            if step % 3 == 0 {
                runs.leave(first, count);
                (first..first + count).for_each(|block| {
                    model.remove(&block);
                });
            } else {
                runs.join(first, count);
                model.extend(first..first + count);
            }
            let blocks: Vec<u64> =
                runs.iter().flat_map(|(first, count)| first..first + count).collect();
            assert!(blocks.iter().eq(model.iter()), "step {step}: {runs:?}");
            let ends = runs.iter().map(|(first, count)| first + count);
            let mut gaps = ends.zip(runs.iter().skip(1));
            assert!(gaps.all(|(end, (next, _))| end < next), "step {step}: {runs:?}");
        }
        runs.join(0, u64::MAX);
        assert_eq!(runs.iter().count(), 1);
        runs.leave(0, u64::MAX);
        assert_eq!(runs, Runs::default());
    }

    #[test]
    fn runs_are_taken_apart_and_grow_together_again() {
        let mut free = FreeRuns::between(&[(0, 2), (5, 1)], 10);
        assert_eq!((free.free(), free.runs.len()), (7, 2));
        assert_eq!(free.take(None, 2), Some((2, 2)));
        assert_eq!(free.take(Some(6), 2), Some((6, 2)));
        assert_eq!(free.take(Some(2), 9), Some((8, 2)));
        assert_eq!(free.take(None, 9), Some((4, 1)));
        assert_eq!((free.take(None, 1), free.free()), (None, 0));
        for (first, count) in [(8, 2), (2, 3), (6, 2), (5, 1)] {
            free.give(first, count);
        }
        assert_eq!((free.free(), free.runs.clone()), (8, BTreeMap::from([(2, 8)])));
        assert_eq!(free.take(None, 0), None);
        assert_eq!(free.end_of_used(10), 2);
        assert_eq!(free.end_of_used(11), 11);
        free.take(Some(2), 3);
        assert_eq!((free.within(0, 10), free.within(6, 2)), (vec![(5, 5)], vec![(6, 2)]));
        assert_eq!(free.within(0, 5), []);
    }
}
