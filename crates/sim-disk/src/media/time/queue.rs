//! The queue in front of a drive: what the hosts want now, and a list of the background.
//!
//! - A write is taken into the drive's cache, and waits for room there. It leaves by the elevator.
//! - A read goes before the writes. After 500 ms without a write, 16 writes go before it.
//! - A sync waits until all that the cache has taken is served.
//! - Requests of the background enter the cache while it is less than half full, in their order. A
//!   barrier among them waits until all before it is served. They are served while virtual time
//!   passes: between the requests of the hosts, and beside them.
//!
//! The queue learns of a request when a host makes it. Then it serves what the drive would have
//! begun before that time, and no more. A host that is behind in time finds a drive that is ahead,
//! and waits until that is free.

use core::mem;
use std::collections::{BTreeMap, VecDeque};

use crate::media::time::background::{BackgroundList, Ticket, Waiting, Wanted};
use crate::media::time::cache::WriteCache;
use crate::media::time::drive::{Drive, Extent, QueueFacts, Service};

/// Writes have waited too long for reads after this time without one.
pub const WRITES_WAIT_NS: u64 = 500_000_000;
/// When they have, this number of writes goes first.
pub const WRITES_AT_A_TIME: usize = 16;

/// What a drive served, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// A read, a write or a sync.
    pub kind: ServedKind,
    /// Where on the drive.
    pub extent: Extent,
    /// When the drive began.
    pub start: u64,
    /// When it was done.
    pub end: u64,
    /// The numbers of the requests, in the order in which the queue was told of them. A write that
    /// was served in several parts is in several services.
    pub requests: Vec<u64>,
}

/// Kinds of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServedKind {
    /// Bytes were read.
    Read,
    /// Bytes were written.
    Write,
    /// The drive made durable what it had written.
    Sync,
}

/// What a drive did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveUse {
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Requests to sync.
    pub syncs: u64,
    /// How many of these requests the background made.
    pub background: u64,
    /// Requests that are served.
    pub served: u64,
    /// Services of the drive. Writes that merged are served together.
    pub services: u64,
    /// Bytes that the drive wrote.
    pub bytes_written: u64,
    /// Bytes that the drive read.
    pub bytes_read: u64,
    /// How long the drive was busy.
    pub busy_ns: u64,
}

/// A drive with its queue.
#[derive(Debug)]
pub(crate) struct Queue {
    drive: Box<dyn Drive>,
    facts: QueueFacts,
    cache: WriteCache,
    background: BackgroundList,
    /// When the drive can begin its next service.
    free_at: u64,
    /// When the write ends that was begun last, when it began, and its bytes.
    write_until: u64,
    wrote_at: u64,
    writing_bytes: u64,
    /// Whether anything was written since the last sync.
    is_dirty: bool,
    /// When the reads are done that may be outstanding.
    reads: VecDeque<u64>,
    requests: u64,
    /// Parts of each write that are not served.
    parts: BTreeMap<u64, usize>,
    counts: DriveUse,
    log: Option<Vec<Served>>,
}

/// What the drive could do next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Write { at: u64 },
    Read(Waiting, Extent),
    Barrier(Waiting),
}

impl Queue {
    pub(crate) fn new(drive: Box<dyn Drive>) -> Self {
        Self {
            facts: drive.queue_facts(),
            drive,
            cache: WriteCache::default(),
            background: BackgroundList::default(),
            free_at: 0,
            write_until: 0,
            wrote_at: 0,
            writing_bytes: 0,
            is_dirty: false,
            reads: VecDeque::new(),
            requests: 0,
            parts: BTreeMap::new(),
            counts: DriveUse::default(),
            log: None,
        }
    }

    pub(crate) const fn facts(&self) -> QueueFacts {
        self.facts
    }

    pub(crate) const fn counts(&self) -> DriveUse {
        self.counts
    }

    pub(crate) fn unserved(&self) -> u64 {
        let requests = self.counts.reads + self.counts.writes + self.counts.syncs;
        requests - self.counts.served
    }

    /// Begins a log of services, or takes what it has so far.
    pub(crate) fn take_log(&mut self) -> Vec<Served> {
        mem::take(self.log.get_or_insert_default())
    }

    // What hosts want. Each returns when they have it.

    pub(crate) fn write(&mut self, now: u64, extent: Extent) -> u64 {
        self.advance(now);
        for waiting in self.background.pull(extent) {
            self.take_of_background(waiting);
        }
        let mut at = now;
        while !self.has_room(at, extent) {
            at = at.max(self.make_room(at));
        }
        let request = self.number();
        self.counts.writes += 1;
        self.take(extent, request, at);
        at.saturating_add(self.facts.taken_ns)
    }

    pub(crate) fn read(&mut self, now: u64, extent: Extent) -> u64 {
        self.advance(now);
        let request = self.number();
        self.counts.reads += 1;
        if self.cache.covers(extent) {
            self.counts.served += 1;
            return now.saturating_add(self.facts.taken_ns);
        }
        if self.writes_starve(now) {
            for _ in 0..WRITES_AT_A_TIME {
                self.serve_a_write();
            }
        }
        self.serve_read(self.free_at.max(now), now, extent, request)
    }

    pub(crate) fn sync(&mut self, now: u64) -> u64 {
        self.advance(now);
        let request = self.number();
        self.counts.syncs += 1;
        while self.serve_a_write() {}
        self.sync_at(self.free_at.max(now), request)
    }

    // What the background wants. It waits for nothing.

    pub(crate) fn push(&mut self, now: u64, wanted: Wanted) {
        let request = self.number();
        self.counts.background += 1;
        match wanted {
            Wanted::Read(_) => self.counts.reads += 1,
            Wanted::Write(_) => self.counts.writes += 1,
            Wanted::Barrier => self.counts.syncs += 1,
        }
        self.background.push(Waiting { request, arrival: now, wanted });
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.background.ticket()
    }

    /// When all that a ticket is for was served, by a time.
    pub(crate) fn served_at(&mut self, now: u64, ticket: Ticket) -> Option<u64> {
        self.advance(now);
        self.background.served_at(ticket).filter(|served| *served <= now)
    }

    /// Serves until all that a ticket is for is served; returns when that is.
    pub(crate) fn serve_ticket(&mut self, ticket: Ticket) -> u64 {
        loop {
            if let Some(at) = self.background.served_at(ticket) {
                return at;
            }
            if !self.serve_next(u64::MAX) {
                return self.free_at;
            }
        }
    }

    /// Serves all there is; returns when the drive is idle.
    pub(crate) fn drain(&mut self) -> u64 {
        while self.serve_next(u64::MAX) {}
        debug_assert_eq!(self.background.unserved(), 0, "it was served");
        self.free_at
    }

    // What the drive does.

    /// Serves what the drive begins before a time.
    fn advance(&mut self, until: u64) {
        while self.serve_next(until) {}
    }

    /// Serves what comes next, if that begins before a time; returns whether it did.
    fn serve_next(&mut self, until: u64) -> bool {
        self.admit(until);
        let Some((start, next)) = self.next().filter(|(start, _)| *start < until) else {
            return false;
        };
        match next {
            Next::Write { at } => self.serve_write(start, at),
            Next::Read(waiting, extent) => {
                self.background.pop();
                self.serve_read(start, start, extent, waiting.request);
            }
            Next::Barrier(waiting) => {
                self.background.pop();
                let at = self.sync_at(start, waiting.request);
                self.background.served(waiting.request, at);
            }
        }
        true
    }

    /// What the drive could begin first, and when. At the same time, a read goes before a write.
    fn next(&mut self) -> Option<(u64, Next)> {
        let services = self.counts.services;
        let chosen = self.cache.choose(self.free_at, services, &self.facts, &*self.drive);
        let write = chosen.map(|(start, at)| (start, Next::Write { at }));
        let other = self.background.front().and_then(|waiting| {
            let start = self.free_at.max(waiting.arrival);
            match waiting.wanted {
                Wanted::Read(extent) => Some((start, Next::Read(waiting, extent))),
                Wanted::Barrier => Some((start, Next::Barrier(waiting))),
                Wanted::Write(_) => None,
            }
        });
        match (other, write) {
            (Some(other), Some(write)) if write.0 < other.0 => Some(write),
            (other, write) => other.or(write),
        }
    }

    /// Takes writes of the background into the cache while it is less than half full.
    fn admit(&mut self, until: u64) {
        while 2 * self.cache.len() < self.facts.cache_requests
            && 2 * self.cache.bytes() < self.facts.cache_bytes
        {
            let front = self.background.front().filter(|waiting| waiting.arrival < until);
            let Some(waiting) = front else { return };
            let Wanted::Write(_) = waiting.wanted else { return };
            self.background.pop();
            self.take_of_background(waiting);
        }
    }

    fn take_of_background(&mut self, waiting: Waiting) {
        if let Wanted::Write(extent) = waiting.wanted {
            self.take(extent, waiting.request, waiting.arrival);
        }
    }

    fn take(&mut self, extent: Extent, request: u64, arrival: u64) {
        let parts = self.cache.take(extent, request, arrival, self.counts.services);
        self.parts.insert(request, parts);
        self.is_dirty = true;
    }

    /// Whether the cache takes one more write. The one that is being served lies in it too. An
    /// empty cache takes any.
    fn has_room(&self, now: u64, extent: Extent) -> bool {
        let is_serving = self.write_until > now;
        if self.cache.is_empty() && !is_serving {
            return true;
        }
        let count = self.cache.len() + usize::from(is_serving);
        let bytes = self.cache.bytes() + if is_serving { self.writing_bytes } else { 0 };
        let has_bytes = bytes.saturating_add(self.cache.adds(extent)) <= self.facts.cache_bytes;
        has_bytes && (count < self.facts.cache_requests.max(1) || self.cache.merges(extent))
    }

    /// Returns when the write is served that the drive has begun, or begins the next one.
    fn make_room(&mut self, now: u64) -> u64 {
        if self.write_until <= now {
            self.serve_a_write();
        }
        self.write_until
    }

    /// Serves the write that comes next, if there is one.
    fn serve_a_write(&mut self) -> bool {
        let services = self.counts.services;
        let chosen = self.cache.choose(self.free_at, services, &self.facts, &*self.drive);
        if let Some((start, at)) = chosen {
            self.serve_write(start, at);
        }
        chosen.is_some()
    }

    fn writes_starve(&self, now: u64) -> bool {
        let waits_since = self.cache.oldest_arrival().map(|arrival| arrival.max(self.wrote_at));
        let start = self.free_at.max(now);
        waits_since.is_some_and(|since| start.saturating_sub(since) > WRITES_WAIT_NS)
    }

    fn serve_write(&mut self, start: u64, at: u64) {
        let Some(mut entry) = self.cache.remove(at) else { return };
        let service = self.drive.write(start, entry.extent);
        self.wrote_at = start;
        self.write_until = service.busy_until.max(service.done_at);
        self.writing_bytes = entry.extent.bytes;
        self.counts.bytes_written += entry.extent.bytes;
        entry.requests.sort_unstable();
        for request in &entry.requests {
            self.part_served(*request, service.done_at);
        }
        entry.requests.dedup();
        self.serviced(ServedKind::Write, start, service, entry.extent, entry.requests);
    }

    fn part_served(&mut self, request: u64, at: u64) {
        let Some(parts) = self.parts.get_mut(&request) else { return };
        *parts -= 1;
        if *parts == 0 {
            self.parts.remove(&request);
            self.counts.served += 1;
            self.background.served(request, at);
        }
    }

    fn serve_read(&mut self, start: u64, now: u64, extent: Extent, request: u64) -> u64 {
        self.reads.retain(|done_at| *done_at > now);
        let outstanding = u32::try_from(self.reads.len() + 1).unwrap_or(u32::MAX);
        let service = self.drive.read(start, extent, outstanding);
        self.reads.push_back(service.done_at);
        self.counts.bytes_read += extent.bytes;
        self.counts.served += 1;
        self.background.served(request, service.done_at);
        self.serviced(ServedKind::Read, start, service, extent, vec![request]);
        service.done_at
    }

    /// Syncs when the drive is free; returns when that is done.
    fn sync_at(&mut self, start: u64, request: u64) -> u64 {
        self.counts.served += 1;
        if !self.is_dirty {
            // Nothing was taken since the last sync, which is over.
            return start;
        }
        let end = start.saturating_add(self.drive.sync_ns());
        // What the cache holds beside a barrier is not durable by it.
        self.is_dirty = !self.cache.is_empty();
        let extent = Extent { at: self.drive.head(), bytes: 0 };
        let service = Service { busy_until: end, done_at: end };
        self.serviced(ServedKind::Sync, start, service, extent, vec![request]);
        end
    }

    fn serviced(
        &mut self,
        kind: ServedKind,
        start: u64,
        service: Service,
        extent: Extent,
        requests: Vec<u64>,
    ) {
        self.free_at = service.busy_until;
        self.counts.busy_ns += service.busy_until.saturating_sub(start);
        self.counts.services += 1;
        if let Some(log) = &mut self.log {
            log.push(Served { kind, extent, start, end: service.done_at, requests });
        }
    }

    const fn number(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }
}
