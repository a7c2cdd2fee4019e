//! A memory that takes time: it wraps another one, and charges its calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal_core::{
    MediumError, Offset, Pmem, PmemFacts, PmemRead, PmemShare, PmemSplit, Seeds, Stitched,
};

use crate::media::time::clock::Clock;
use crate::media::time::memory::MemoryModel;

/// A region of any memory, whose calls take what a [`MemoryModel`] says.
///
/// Every call goes on to the region inside, whose facts are the facts of this one. Two regions that
/// came from one by a split share their counts, as their readers do.
///
/// The time goes to the actor that is current. Actors do not share the bandwidth: two that stream
/// at the same virtual time do not slow each other down.
#[derive(Debug)]
pub struct TimedPmem<P> {
    inner: P,
    meter: MemoryMeter,
}

/// What was charged for a memory, and whether reads are charged; clones are the same meter.
#[derive(Clone, Debug)]
pub struct MemoryMeter {
    clock: Clock,
    model: MemoryModel,
    counts: Arc<Mutex<(MemoryUse, bool)>>,
}

/// What was done to a memory so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Flushes and streams of at least one byte.
    pub calls: u64,
    /// Units that these touched.
    pub units: u64,
    /// Fences.
    pub fences: u64,
    /// Units that were read while reads were charged.
    pub read_units: u64,
    /// What all of it took.
    pub nanos: u64,
}

impl MemoryMeter {
    fn lock(&self) -> MutexGuard<'_, (MemoryUse, bool)> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parameters of the memory.
    #[must_use]
    pub const fn model(&self) -> MemoryModel {
        self.model
    }

    /// The counts so far.
    #[must_use]
    pub fn so_far(&self) -> MemoryUse {
        self.lock().0
    }

    /// Whether reads cost time from now on. At first they do not: outside of recovery a store reads
    /// its own copies, or what the processor's cache holds. Switch it on around an open.
    pub fn charge_reads(&self, charged: bool) {
        self.lock().1 = charged;
    }

    fn persisted(&self, at: u64, bytes: usize) {
        let units = self.model.units(at, bytes as u64);
        if units == 0 {
            return;
        }
        let nanos = self.model.persist_ns(at, bytes as u64);
        self.add(MemoryUse { calls: 1, units, nanos, ..MemoryUse::default() });
    }

    fn fenced(&self) {
        let nanos = self.model.fence_ns;
        self.add(MemoryUse { fences: 1, nanos, ..MemoryUse::default() });
    }

    fn read(&self, at: Offset, bytes: usize) {
        if !self.lock().1 {
            return;
        }
        let read_units = self.model.units(at.raw(), bytes as u64);
        let nanos = read_units.saturating_mul(self.model.read_unit_ns);
        self.add(MemoryUse { read_units, nanos, ..MemoryUse::default() });
    }

    fn add(&self, more: MemoryUse) {
        let (sum, _) = &mut *self.lock();
        sum.calls += more.calls;
        sum.units += more.units;
        sum.fences += more.fences;
        sum.read_units += more.read_units;
        sum.nanos = sum.nanos.saturating_add(more.nanos);
        self.clock.charge(more.nanos);
    }
}

impl<P> TimedPmem<P> {
    /// Wraps a region.
    #[must_use]
    pub fn new(inner: P, clock: &Clock, model: MemoryModel) -> Self {
        let counts = Arc::default();
        Self { inner, meter: MemoryMeter { clock: clock.clone(), model, counts } }
    }

    /// The counts of this region, and of all that is split from it.
    #[must_use]
    pub fn meter(&self) -> MemoryMeter {
        self.meter.clone()
    }
}

impl<P: PmemRead> PmemRead for TimedPmem<P> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.meter.read(at, into.len());
        self.inner.read_into(at, into)
    }
}

impl<P: Pmem> Pmem for TimedPmem<P> {
    fn facts(&self) -> PmemFacts {
        self.inner.facts()
    }

    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        self.meter.read(at, len);
        self.inner.bytes(at, len)
    }

    fn store(&mut self, at: Offset, bytes: &[u8]) {
        self.inner.store(at, bytes);
    }

    fn store_u64(&mut self, at: Offset, value: u64) {
        self.inner.store_u64(at, value);
    }

    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        self.meter.persisted(at.raw(), bytes.len());
        self.inner.stream(at, bytes);
    }

    fn stream_checked(&mut self, at: Offset, stitched: &Stitched<'_>, seeds: Seeds) -> u64 {
        // One call, whatever the memory inside makes of it.
        self.meter.persisted(at.raw(), stitched.bytes());
        self.inner.stream_checked(at, stitched, seeds)
    }

    fn flush(&mut self, at: Offset, len: usize) {
        self.meter.persisted(at.raw(), len);
        self.inner.flush(at, len);
    }

    fn fence(&mut self) -> Result<(), MediumError> {
        self.meter.fenced();
        self.inner.fence()
    }
}

impl<P: PmemSplit> PmemSplit for TimedPmem<P> {
    fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError> {
        let Self { inner, meter } = self;
        let (first, second) = inner.split_at(at)?;
        Ok((Self { inner: first, meter: meter.clone() }, Self { inner: second, meter }))
    }
}

impl<P: PmemShare> PmemShare for TimedPmem<P> {
    type Reader = TimedReader<P::Reader>;

    fn reader(&self) -> Self::Reader {
        TimedReader { inner: self.inner.reader(), meter: self.meter.clone() }
    }
}

/// A reader of a [`TimedPmem`].
#[derive(Clone, Debug)]
pub struct TimedReader<R> {
    inner: R,
    meter: MemoryMeter,
}

impl<R: PmemRead> PmemRead for TimedReader<R> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.meter.read(at, into.len());
        self.inner.read_into(at, into)
    }
}
