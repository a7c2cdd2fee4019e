//! Simulated persistent memory: the [`Pmem`] port on a world's tape.

use std::sync::Arc;

use journal_core::units::{LINE_BYTES, Offset, WORD_BYTES};
use journal_core::{
    Granularity, MediumError, MediumErrorKind, Pmem, PmemFacts, PmemRead, PmemShare, PmemSplit,
};

use crate::media::fault::Operation;
use crate::media::image::Medium;
use crate::media::tape::Event;
use crate::media::world::{Lease, World};

/// An exclusive region of a world's persistent memory.
///
/// Panics on ranges outside the region, as the port says.
#[derive(Debug)]
pub struct SimPmem {
    world: World,
    /// Keeps the span taken while any region of it lives.
    lease: Arc<Lease>,
    /// Where the region begins in the span.
    start: u64,
    /// What this region holds now. The world has the same; this copy can be lent out.
    content: Vec<u8>,
    facts: PmemFacts,
}

impl World {
    /// The whole span of persistent memory. Only one handle at a time: drop it (and all regions
    /// split from it) before asking again.
    ///
    /// # Panics
    /// While another handle lives.
    #[must_use]
    pub fn pmem(&self) -> SimPmem {
        let (lease, content) = self.take_span();
        SimPmem::new(self.clone(), lease, content)
    }
}

impl SimPmem {
    pub(crate) const fn new(world: World, lease: Arc<Lease>, content: Vec<u8>) -> Self {
        let facts = PmemFacts::new(Granularity::Line);
        Self { world, lease, start: 0, content, facts }
    }

    /// This memory with another streaming threshold, to drive both ways of writing.
    #[must_use]
    pub fn with_stream_from_bytes(self, bytes: usize) -> Self {
        Self { facts: self.facts.with_stream_from_bytes(bytes), ..self }
    }

    /// This memory with whole lines streamed and put together from pieces, if it `stitches`.
    /// Otherwise no line is put together, and the default streaming threshold holds.
    #[must_use]
    pub fn with_stitches(self, stitches: bool) -> Self {
        let facts = PmemFacts::new(self.facts.granularity);
        let facts = if stitches { facts.with_stream_from_bytes(LINE_BYTES) } else { facts };
        Self { facts: facts.with_stitches(stitches), ..self }
    }

    /// The place in the span and the range in this region.
    fn range(&self, at: Offset, len: usize) -> (u64, core::ops::Range<usize>) {
        let range = self.checked_range(at, len);
        let range = range.unwrap_or_else(|| {
            panic!("{len} bytes at {at} leave a region of {} bytes", self.len())
        });
        (self.start + at.raw(), range)
    }

    fn checked_range(&self, at: Offset, len: usize) -> Option<core::ops::Range<usize>> {
        let start = usize::try_from(at.raw()).ok()?;
        let end = start.checked_add(len)?;
        (end <= self.content.len()).then_some(start..end)
    }

    fn write(&mut self, at: Offset, bytes: &[u8], event: impl FnOnce(u64, Box<[u8]>) -> Event) {
        let (place, range) = self.range(at, bytes.len());
        if !bytes.is_empty() {
            self.content[range].copy_from_slice(bytes);
            self.world.lock().record(event(place, bytes.into()));
        }
    }
}

/// What a read of persistent memory meets, at `place` in the span.
fn check_read(world: &World, place: u64, at: Offset, len: usize) -> Result<(), MediumError> {
    let fail = |kind| Err(MediumError::new(kind, at, len));
    let mut shared = world.lock();
    if shared.stuck {
        return fail(MediumErrorKind::Stuck);
    }
    shared.note_read(Medium::Pmem, place, len);
    if shared.operation(Operation::MemoryRead).is_some() {
        return fail(MediumErrorKind::Transient);
    }
    match shared.poisoned(place, len) {
        Some(_) => fail(MediumErrorKind::Poisoned),
        None => Ok(()),
    }
}

impl PmemRead for SimPmem {
    fn len(&self) -> u64 {
        self.content.len() as u64
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        into.copy_from_slice(self.bytes(at, into.len())?);
        Ok(())
    }
}

impl Pmem for SimPmem {
    fn facts(&self) -> PmemFacts {
        self.facts
    }

    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        let Some(range) = self.checked_range(at, len) else {
            return Err(MediumError::new(MediumErrorKind::OutOfRange, at, len));
        };
        check_read(&self.world, self.start + at.raw(), at, len)?;
        Ok(&self.content[range])
    }

    fn store(&mut self, at: Offset, bytes: &[u8]) {
        self.write(at, bytes, |at, bytes| Event::Store { at, bytes });
    }

    fn store_u64(&mut self, at: Offset, value: u64) {
        assert_eq!(at.raw() % WORD_BYTES as u64, 0, "an atomic word is aligned");
        self.store(at, &value.to_le_bytes());
    }

    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        self.write(at, bytes, |at, bytes| Event::Stream { at, bytes });
    }

    fn flush(&mut self, at: Offset, len: usize) {
        let (place, range) = self.range(at, len);
        if range.is_empty() {
            return;
        }
        let line = LINE_BYTES as u64;
        let mut shared = self.world.lock();
        let kind = shared.rules.flush;
        for line in (place / line * line..place + len as u64).step_by(LINE_BYTES) {
            shared.record(Event::Flush { line, kind });
        }
    }

    fn fence(&mut self) -> Result<(), MediumError> {
        let fail = |kind| Err(MediumError::new(kind, Offset(0), self.content.len()));
        let mut shared = self.world.lock();
        if shared.stuck {
            return fail(MediumErrorKind::Stuck);
        }
        if shared.operation(Operation::Fence).is_some() {
            shared.stuck = true;
            shared.record(Event::FenceFailed);
            return fail(MediumErrorKind::FenceFailed { os: None });
        }
        shared.record(Event::Fence);
        Ok(())
    }
}

impl PmemSplit for SimPmem {
    fn split_at(mut self, at: Offset) -> Result<(Self, Self), MediumError> {
        let place = self.checked_range(at, 0).filter(|range| range.start % LINE_BYTES == 0);
        let Some(place) = place else {
            return Err(MediumError::new(MediumErrorKind::OutOfRange, at, 0));
        };
        let second = Self {
            world: self.world.clone(),
            lease: Arc::clone(&self.lease),
            start: self.start + at.raw(),
            content: self.content.split_off(place.start),
            facts: self.facts,
        };
        Ok((self, second))
    }
}

impl PmemShare for SimPmem {
    type Reader = SimReader;

    fn reader(&self) -> SimReader {
        SimReader { world: self.world.clone(), start: self.start, len: self.len() }
    }
}

/// Reads a region by copy while its owner writes.
#[derive(Clone, Debug)]
pub struct SimReader {
    world: World,
    start: u64,
    len: u64,
}

impl PmemRead for SimReader {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        let end = at.raw().checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(MediumError::new(MediumErrorKind::OutOfRange, at, into.len()));
        }
        let place = self.start + at.raw();
        check_read(&self.world, place, at, into.len())?;
        into.copy_from_slice(&self.world.lock().now.part(Medium::Pmem, place, into.len()));
        Ok(())
    }
}
