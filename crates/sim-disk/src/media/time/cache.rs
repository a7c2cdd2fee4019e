//! Writes that a drive has taken and not yet served: merged where they meet, and chosen by the
//! elevator.
//!
//! No byte is in two of the entries. So a block that is written again before it was served is
//! served once, with its newest content, and two writes of one block are never served in another
//! order.

use std::collections::{BTreeMap, BTreeSet};

use crate::media::time::drive::{Drive, Extent, QueueFacts};

/// Bytes up to which neighbours are merged.
pub const MERGED_BYTES_MAX: u64 = 1 << 20;

/// One service out of this many takes the oldest request.
const OLDEST_EVERY: u64 = 8;

/// Writes that are served together.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) extent: Extent,
    /// When the youngest of the requests came. The drive serves none of them earlier.
    pub(crate) arrival: u64,
    /// The numbers of the requests; one that lies here in several parts is here several times.
    pub(crate) requests: Vec<u64>,
    /// Services of the drive before the oldest came.
    since: u64,
}

impl Pending {
    fn oldest(&self) -> u64 {
        self.requests.iter().copied().min().unwrap_or(u64::MAX)
    }
}

/// The entries, by where they begin.
#[derive(Debug, Default)]
pub(crate) struct WriteCache {
    entries: BTreeMap<u64, Pending>,
    /// The number of each entry's oldest request, with where the entry begins.
    ages: BTreeSet<(u64, u64)>,
    /// Bytes of all entries.
    bytes: u64,
}

impl WriteCache {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// When the oldest entry came.
    pub(crate) fn oldest_arrival(&self) -> Option<u64> {
        self.ages.first().and_then(|(_, at)| self.entries.get(at)).map(|entry| entry.arrival)
    }

    fn insert(&mut self, entry: Pending) {
        self.ages.insert((entry.oldest(), entry.extent.at));
        self.bytes += entry.extent.bytes;
        self.entries.insert(entry.extent.at, entry);
    }

    pub(crate) fn remove(&mut self, at: u64) -> Option<Pending> {
        let entry = self.entries.remove(&at)?;
        self.ages.remove(&(entry.oldest(), at));
        self.bytes -= entry.extent.bytes;
        Some(entry)
    }

    /// Where the entries begin that have bytes in common with an extent.
    fn overlapping(&self, extent: Extent) -> Vec<u64> {
        let before = self.entries.range(..extent.at).next_back();
        let before = before.filter(|(_, entry)| entry.extent.overlaps(&extent));
        let inside = self.entries.range(extent.at..extent.end());
        before.into_iter().chain(inside).map(|(at, _)| *at).collect()
    }

    /// The parts of an extent that no entry has.
    fn gaps(&self, extent: Extent) -> Vec<Extent> {
        let mut gaps = Vec::new();
        let mut at = extent.at;
        let covered = self.overlapping(extent).into_iter().map(|at| self.entries[&at].extent);
        for covered in covered.chain([Extent { at: extent.end(), bytes: 0 }]) {
            if covered.at > at {
                gaps.push(Extent { at, bytes: covered.at - at });
            }
            at = at.max(covered.end());
        }
        gaps
    }

    /// Whether the cache has all bytes of an extent.
    pub(crate) fn covers(&self, extent: Extent) -> bool {
        self.gaps(extent).is_empty()
    }

    /// Bytes that a write adds to those that are here.
    pub(crate) fn adds(&self, extent: Extent) -> u64 {
        self.gaps(extent).iter().map(|gap| gap.bytes).sum()
    }

    /// Where the neighbours begin with which a gap can be merged: the one that ends where it
    /// begins, and the one that begins where it ends.
    fn neighbours(&self, gap: Extent) -> (Option<u64>, Option<u64>) {
        let mut bytes = gap.bytes;
        let mut fits = |entry: &Pending| {
            let merged = bytes + entry.extent.bytes;
            let fits = merged <= MERGED_BYTES_MAX;
            if fits {
                bytes = merged;
            }
            fits
        };
        let left = self.entries.range(..gap.at).next_back().map(|(_, entry)| entry);
        let left = left.filter(|entry| entry.extent.end() == gap.at).filter(|entry| fits(entry));
        let right = self.entries.get(&gap.end()).filter(|entry| fits(entry));
        (left.map(|entry| entry.extent.at), right.map(|entry| entry.extent.at))
    }

    /// Whether a write needs no entry of its own.
    pub(crate) fn merges(&self, extent: Extent) -> bool {
        self.gaps(extent).into_iter().all(|gap| self.neighbours(gap) != (None, None))
    }

    /// Takes a write; returns in how many parts it lies in the cache.
    pub(crate) fn take(
        &mut self,
        extent: Extent,
        request: u64,
        arrival: u64,
        services: u64,
    ) -> usize {
        let gaps = self.gaps(extent);
        let covered = self.overlapping(extent);
        let parts = gaps.len() + covered.len();
        for at in covered {
            if let Some(entry) = self.entries.get_mut(&at) {
                // The oldest request stays the oldest: this one is younger.
                entry.requests.push(request);
                entry.arrival = entry.arrival.max(arrival);
            }
        }
        for gap in gaps {
            let mut all =
                Pending { extent: gap, arrival, requests: vec![request], since: services };
            let (left, right) = self.neighbours(gap);
            for neighbour in [left, right].into_iter().flatten() {
                let Some(other) = self.remove(neighbour) else { continue };
                all.extent.at = all.extent.at.min(other.extent.at);
                all.extent.bytes += other.extent.bytes;
                all.arrival = all.arrival.max(other.arrival);
                all.since = all.since.min(other.since);
                all.requests.extend(other.requests);
            }
            self.insert(all);
        }
        parts
    }

    /// The entry that is served next, and when its service begins, if the drive is free from `now`.
    pub(crate) fn choose(
        &self,
        now: u64,
        services: u64,
        facts: &QueueFacts,
        drive: &dyn Drive,
    ) -> Option<(u64, u64)> {
        if facts.serves_oldest && services % OLDEST_EVERY == 0 {
            let oldest = self.ages.first().and_then(|(_, at)| self.entries.get(at));
            let patience = 2 * facts.cache_requests as u64;
            let waited = |entry: &&Pending| services.saturating_sub(entry.since) > patience;
            if let Some(entry) = oldest.filter(waited).filter(|entry| entry.arrival <= now) {
                return Some((now, entry.extent.at));
            }
        }
        let head = drive.head();
        let came = |(_, entry): &(&u64, &Pending)| entry.arrival <= now;
        let ahead = self.entries.range(head..).filter(came).take(facts.ahead);
        let behind = self.entries.range(..head).rev().filter(came).take(facts.behind);
        // A sweep that has reached its end begins again at the lowest.
        let is_at_end = !self.entries.range(head..).any(|entry| came(&entry));
        let lowest = if is_at_end { facts.ahead } else { 0 };
        let lowest = self.entries.range(..head).filter(came).take(lowest);
        let reached = ahead.chain(behind).chain(lowest).map(|(_, entry)| entry.extent);
        let first = reached.min_by_key(|extent| drive.reach_ns(now, *extent));
        if let Some(extent) = first {
            return Some((now, extent.at));
        }
        let next = self.entries.values().min_by_key(|entry| (entry.arrival, entry.extent.at));
        next.map(|entry| (entry.arrival, entry.extent.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::time::drives::ssd::{Ssd, SsdModel};

    fn extent(at: u64, bytes: u64) -> Extent {
        Extent { at, bytes }
    }

    fn kept(cache: &WriteCache) -> Vec<(u64, u64, Vec<u64>)> {
        let entries = cache.entries.values();
        entries.map(|one| (one.extent.at, one.extent.bytes, one.requests.clone())).collect()
    }

    #[test]
    fn neighbours_and_equal_writes_merge() {
        let mut cache = WriteCache::default();
        assert_eq!(cache.take(extent(0, 10), 1, 0, 0), 1);
        assert_eq!(cache.take(extent(20, 10), 2, 0, 0), 1);
        assert!(cache.merges(extent(20, 10)) && cache.merges(extent(5, 8)));
        assert!(!cache.merges(extent(40, 1)));
        assert_eq!(cache.take(extent(20, 10), 3, 0, 0), 1);
        assert_eq!(kept(&cache), [(0, 10, vec![1]), (20, 10, vec![2, 3])]);
        assert_eq!(cache.take(extent(10, 10), 4, 7, 0), 1);
        assert_eq!(kept(&cache), [(0, 30, vec![4, 1, 2, 3])]);
        assert!(cache.covers(extent(3, 27)) && !cache.covers(extent(3, 28)));
        assert_eq!(cache.oldest_arrival(), Some(7));
        assert!(cache.remove(0).is_some() && cache.is_empty() && cache.ages.is_empty());
    }

    #[test]
    fn a_write_over_several_lies_in_parts() {
        let mut cache = WriteCache::default();
        let most = MERGED_BYTES_MAX;
        cache.take(extent(0, most), 1, 0, 0);
        cache.take(extent(2 * most, most), 2, 0, 0);
        // Too long for either.
        assert_eq!(cache.take(extent(most / 2, 2 * most), 3, 0, 0), 3);
        assert_eq!(
            kept(&cache),
            [(0, most, vec![1, 3]), (most, most, vec![3]), (2 * most, most, vec![2, 3])]
        );
    }
    #[test]
    fn one_in_eight_services_takes_the_oldest_when_it_has_waited() {
        let model = SsdModel::sata();
        let facts = QueueFacts { cache_requests: 4, serves_oldest: true, ..model.queue };
        let drive = Ssd::new(model);
        let mut cache = WriteCache::default();
        cache.take(extent(100, 1), 1, 0, 0);
        cache.take(extent(50, 1), 2, 0, 0);
        let chosen = |services, facts| cache.choose(0, services, facts, &drive);
        let services = [0, 8, 15, 16, 17, 24].map(|services| chosen(services, &facts));
        let (near, far) = (Some((0, 50)), Some((0, 100)));
        // Eight services of others are not more than two caches full.
        assert_eq!(services, [near, near, near, far, near, far]);
        assert_eq!(chosen(16, &QueueFacts { serves_oldest: false, ..facts }), near);
    }

    #[test]
    fn the_elevator_begins_again_and_waits_for_what_is_to_come() {
        let model = SsdModel::sata();
        let mut drive = Ssd::new(model);
        drive.write(0, extent(0, 60));
        let mut cache = WriteCache::default();
        let next = |cache: &WriteCache| cache.choose(5, 1, &model.queue, &drive);
        assert_eq!(next(&cache), None);
        cache.take(extent(70, 1), 1, 9, 0);
        assert_eq!(next(&cache), Some((9, 70)));
        cache.take(extent(10, 1), 2, 5, 0);
        assert_eq!(next(&cache), Some((5, 10)));
        cache.take(extent(80, 1), 3, 5, 0);
        assert_eq!(next(&cache), Some((5, 80)));
    }
}
