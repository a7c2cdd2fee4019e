//! What a queue asks of a drive: how long it takes to get somewhere, and to move bytes there.

use core::fmt;

/// Consecutive bytes of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Where they begin.
    pub at: u64,
    /// How many there are.
    pub bytes: u64,
}

impl Extent {
    /// Where they end.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes)
    }

    /// Whether two extents have a byte in common.
    #[must_use]
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.at < other.end() && other.at < self.end()
    }
}

/// When the service of a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// When the drive can serve the next request.
    pub busy_until: u64,
    /// When this one is done. A drive that serves several at a time is free before that.
    pub done_at: u64,
}

/// How a queue treats a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueFacts {
    /// Writes that the drive's cache takes before they are served.
    pub cache_requests: usize,
    /// Bytes of these writes that it takes.
    pub cache_bytes: u64,
    /// The elevator looks at this many requests ahead of the head. It takes the one that is reached
    /// first.
    pub ahead: usize,
    /// It also looks at this many behind the head. Where nothing is ahead, it looks at the lowest
    /// requests too: a sweep that has reached its end begins again.
    pub behind: usize,
    /// Whether one in eight services takes the oldest request, if that has waited for two caches
    /// full of others.
    pub serves_oldest: bool,
    /// What the host waits until a write is taken, if there is room in the cache.
    pub taken_ns: u64,
    /// What a host needs from the completion of a request to its next one.
    pub host_ns: u64,
}

/// The mechanics of one drive: where its head is, and how long requests take.
///
/// Times are nanoseconds of virtual time. A drive has no queue: the queue calls it once for each
/// service, in the order in which it chose them, and `now` never goes back.
pub trait Drive: Send + fmt::Debug {
    /// How a queue treats this drive; constant for the life of the drive.
    fn queue_facts(&self) -> QueueFacts;

    /// Where the last request that was served ended.
    fn head(&self) -> u64;

    /// How long it would take to get to some bytes. The elevator compares such times.
    fn reach_ns(&self, now: u64, to: Extent) -> u64;

    /// Writes some bytes to the medium.
    fn write(&mut self, now: u64, extent: Extent) -> Service;

    /// Reads some bytes from the medium, while `outstanding` reads wait, this one among them.
    fn read(&mut self, now: u64, extent: Extent, outstanding: u32) -> Service;

    /// What the drive adds to a sync, when all that it took is served.
    fn sync_ns(&self) -> u64;
}

impl<D: Drive + ?Sized> Drive for Box<D> {
    fn queue_facts(&self) -> QueueFacts {
        (**self).queue_facts()
    }

    fn head(&self) -> u64 {
        (**self).head()
    }

    fn reach_ns(&self, now: u64, to: Extent) -> u64 {
        (**self).reach_ns(now, to)
    }

    fn write(&mut self, now: u64, extent: Extent) -> Service {
        (**self).write(now, extent)
    }

    fn read(&mut self, now: u64, extent: Extent, outstanding: u32) -> Service {
        (**self).read(now, extent, outstanding)
    }

    fn sync_ns(&self) -> u64 {
        (**self).sync_ns()
    }
}

/// How long some bytes take at a rate, rounded up. A rate of zero counts as one byte a second.
pub(crate) fn transfer_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    let nanos = u128::from(bytes) * 1_000_000_000;
    u64::try_from(nanos.div_ceil(u128::from(bytes_per_second.max(1)))).unwrap_or(u64::MAX)
}
