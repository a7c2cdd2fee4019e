//! Requests of the background: a list in order, with barriers, beside a drive's cache.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::media::time::drive::Extent;

/// Stands for all that the background wanted of one disk when it was issued.
///
/// A call in the background returns at once, with its effects. In virtual time its requests are
/// served later. Until then, nothing that depends on them has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The number of the last request; none if the background never wanted anything.
    last: Option<u64>,
}

/// What the background wants of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Read(Extent),
    Write(Extent),
    /// A sync: what comes behind it waits until all before it is served.
    Barrier,
}

/// One request of the background.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) request: u64,
    pub(crate) arrival: u64,
    pub(crate) wanted: Wanted,
}

/// The requests of the background that are not served yet, and the tickets for them.
#[derive(Debug, Default)]
pub(crate) struct BackgroundList {
    waiting: VecDeque<Waiting>,
    /// Writes in `waiting`, by where they begin and their numbers. A write that is pulled ahead
    /// leaves this map at once, and the list when its turn comes.
    writes: BTreeMap<(u64, u64), Waiting>,
    longest_bytes: u64,
    /// Writes that the cache has taken and the drive has not served.
    in_cache: BTreeSet<u64>,
    unserved: BTreeSet<u64>,
    last: Option<u64>,
    /// Tickets of which something is not served yet.
    open: BTreeSet<u64>,
    /// For each other ticket, when all up to its number was served.
    done: BTreeMap<u64, u64>,
    latest_at: u64,
}

impl BackgroundList {
    pub(crate) fn push(&mut self, waiting: Waiting) {
        let request = waiting.request;
        if let Wanted::Write(extent) = waiting.wanted {
            self.longest_bytes = self.longest_bytes.max(extent.bytes);
            self.writes.insert((extent.at, request), waiting);
        }
        self.unserved.insert(request);
        self.last = Some(request);
        self.waiting.push_back(waiting);
    }

    /// The first in the list that can be served or taken now.
    pub(crate) fn front(&mut self) -> Option<Waiting> {
        while let Some(waiting) = self.waiting.front() {
            match waiting.wanted {
                Wanted::Write(extent)
                    if !self.writes.contains_key(&(extent.at, waiting.request)) =>
                {
                    self.waiting.pop_front();
                }
                Wanted::Barrier if !self.in_cache.is_empty() => return None,
                _ => return Some(*waiting),
            }
        }
        None
    }

    /// The first leaves the list: the cache takes it, or the drive serves it.
    pub(crate) fn pop(&mut self) {
        let Some(waiting) = self.waiting.pop_front() else { return };
        if let Wanted::Write(extent) = waiting.wanted {
            self.leaves(extent, waiting.request);
        }
    }

    fn leaves(&mut self, extent: Extent, request: u64) {
        self.writes.remove(&(extent.at, request));
        self.in_cache.insert(request);
    }

    /// Writes that have to be served before a write of this extent that comes now: those that
    /// overlap it, and those before them that overlap these. They leave the list.
    pub(crate) fn pull(&mut self, extent: Extent) -> Vec<Waiting> {
        let mut pulled = BTreeMap::new();
        let mut over = vec![(extent, u64::MAX)];
        while let Some((extent, before)) = over.pop() {
            let from = extent.at.saturating_sub(self.longest_bytes);
            let near = self.writes.range((from, 0)..(extent.end(), 0));
            let near: Vec<_> = near.map(|(_, waiting)| *waiting).collect();
            for waiting in near {
                let Wanted::Write(other) = waiting.wanted else { continue };
                if waiting.request < before && other.overlaps(&extent) {
                    self.leaves(other, waiting.request);
                    over.push((other, waiting.request));
                    pulled.insert(waiting.request, waiting);
                }
            }
        }
        pulled.into_values().collect()
    }

    /// A request is served.
    pub(crate) fn served(&mut self, request: u64, at: u64) {
        self.in_cache.remove(&request);
        self.unserved.remove(&request);
        self.latest_at = self.latest_at.max(at);
        let first_left = self.unserved.first().copied().unwrap_or(u64::MAX);
        while let Some(ticket) = self.open.first().copied().filter(|one| *one < first_left) {
            self.open.remove(&ticket);
            self.done.insert(ticket, self.latest_at);
        }
    }

    /// A ticket for all requests so far.
    pub(crate) fn ticket(&mut self) -> Ticket {
        if let Some(last) = self.last {
            if self.unserved.is_empty() {
                self.done.entry(last).or_insert(self.latest_at);
            } else {
                self.open.insert(last);
            }
        }
        Ticket { last: self.last }
    }

    /// When all that a ticket is for was served, if it was.
    pub(crate) fn served_at(&self, ticket: Ticket) -> Option<u64> {
        ticket.last.map_or(Some(0), |last| self.done.get(&last).copied())
    }

    pub(crate) fn unserved(&self) -> usize {
        self.unserved.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(request: u64, at: u64, bytes: u64) -> Waiting {
        Waiting { request, arrival: 0, wanted: Wanted::Write(Extent { at, bytes }) }
    }

    const fn barrier(request: u64) -> Waiting {
        Waiting { request, arrival: 0, wanted: Wanted::Barrier }
    }

    #[test]
    fn a_barrier_waits_for_what_is_before_it() {
        let mut list = BackgroundList::default();
        let none = list.ticket();
        assert_eq!(list.served_at(none), Some(0));
        for waiting in [write(1, 0, 8), barrier(2), write(3, 0, 8)] {
            list.push(waiting);
        }
        let ticket = list.ticket();
        assert_eq!(list.front().map(|one| one.request), Some(1));
        list.pop();
        assert!(list.front().is_none());
        list.served(1, 10);
        assert_eq!(list.front().map(|one| one.request), Some(2));
        list.pop();
        list.served(2, 12);
        list.pop();
        assert_eq!((list.served_at(ticket), list.unserved()), (None, 1));
        list.served(3, 11);
        assert_eq!((list.served_at(ticket), list.unserved()), (Some(12), 0));
        assert_eq!(list.ticket(), ticket);
    }

    #[test]
    fn what_is_pulled_takes_along_what_it_overlaps() {
        let mut list = BackgroundList::default();
        for waiting in
            [write(1, 6, 4), write(2, 20, 4), barrier(3), write(4, 0, 10), write(5, 8, 4)]
        {
            list.push(waiting);
        }
        let pulled = list.pull(Extent { at: 2, bytes: 1 });
        assert_eq!(pulled.iter().map(|one| one.request).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(list.front().map(|one| one.request), Some(2));
        list.pop();
        assert!(list.front().is_none());
    }
}
