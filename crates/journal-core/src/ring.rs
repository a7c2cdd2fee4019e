//! A lane's ring of bytes, addressed by log offsets that only grow.
//!
//! A log offset says how many bytes the lane held before, ever; its place in the ring is the rest
//! of the division by the ring's length. Ranges may wrap round the end of the ring, between lines.

use crate::error::{MediumError, MediumErrorKind};
use crate::hook::{Hook, Rule, Site};
use crate::order::{Dirty, Durable, InFlight, Ordered};
use crate::pmem::{Pmem, PmemRead};
use crate::units::Offset;

/// A region that can be read in place, whether or not it can be written.
pub(crate) trait Source {
    fn len(&self) -> u64;
    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError>;
    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError>;
    fn keeps(&self, rule: Rule) -> bool;
}

impl<P: Pmem, H: Hook> Source for Ordered<P, H> {
    fn len(&self) -> u64 {
        PmemRead::len(self)
    }

    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        Self::bytes(self, at, len)
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        PmemRead::read_into(self, at, into)
    }

    fn keeps(&self, rule: Rule) -> bool {
        Self::keeps(self, rule)
    }
}

/// A part of a span, borrowed: nothing that holds one can write.
#[derive(Debug)]
pub(crate) struct View<'p, P> {
    pmem: &'p P,
    start: Offset,
    len: u64,
}

impl<'p, P: Pmem> View<'p, P> {
    /// All of it.
    pub(crate) fn of(pmem: &'p P) -> Self {
        Self { pmem, start: Offset(0), len: pmem.len() }
    }

    /// A part of it; whatever leaves the whole cannot be read.
    pub(crate) fn part(&self, start: Offset, len: u64) -> Self {
        let start = Offset(self.start.raw().saturating_add(start.raw()));
        Self { pmem: self.pmem, start, len }
    }

    fn place(&self, at: Offset, len: usize) -> Result<Offset, MediumError> {
        let end = at.raw().checked_add(len as u64).filter(|end| *end <= self.len);
        let place = end.and_then(|_| self.start.raw().checked_add(at.raw()));
        place.map(Offset).ok_or(MediumError::new(MediumErrorKind::OutOfRange, at, len))
    }
}

impl<P: Pmem> Source for View<'_, P> {
    fn len(&self) -> u64 {
        self.len
    }

    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        self.pmem.bytes(self.place(at, len)?, len)
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.pmem.read_into(self.place(at, into.len())?, into)
    }

    fn keeps(&self, _rule: Rule) -> bool {
        true
    }
}

/// The ring of an open journal.
pub(crate) type Ring<P, H> = RingOf<Ordered<P, H>>;

#[derive(Debug)]
pub(crate) struct RingOf<S> {
    region: S,
    bytes: u64,
}

/// A range of the ring: up to its end, and from its start.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    first: (Offset, usize),
    second: (Offset, usize),
}

impl<S: Source> RingOf<S> {
    /// The ring that a whole region is; it must not be empty.
    pub(crate) fn new(region: S) -> Self {
        let bytes = region.len();
        debug_assert!(bytes > 0, "the geometry was checked");
        Self { region, bytes }
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.region.keeps(rule)
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn pieces(&self, position: u64, len: usize) -> Pieces {
        let place = position.checked_rem(self.bytes).unwrap_or(0);
        let to_end = usize::try_from(self.bytes.saturating_sub(place)).unwrap_or(usize::MAX);
        let first = len.min(to_end);
        Pieces { first: (Offset(place), first), second: (Offset(0), len.saturating_sub(first)) }
    }

    /// The bytes of a range, in two pieces where it wraps.
    pub(crate) fn slices(&self, position: u64, len: usize) -> Result<(&[u8], &[u8]), MediumError> {
        let Pieces { first, second } = self.pieces(position, len);
        let front = self.region.bytes(first.0, first.1)?;
        if second.1 == 0 {
            return Ok((front, &[]));
        }
        Ok((front, self.region.bytes(second.0, second.1)?))
    }

    /// Copies a range.
    pub(crate) fn read(&self, position: u64, into: &mut [u8]) -> Result<(), MediumError> {
        let Pieces { first, second } = self.pieces(position, into.len());
        let (front, back) = into.split_at_mut(first.1);
        self.region.read_into(first.0, front)?;
        if back.is_empty() {
            return Ok(());
        }
        self.region.read_into(second.0, back)
    }
}

impl<P: Pmem, H: Hook> Ring<P, H> {
    /// Writes a range and puts it in flight.
    pub(crate) fn write(&mut self, site: Site, position: u64, bytes: &[u8]) -> InFlight {
        let Pieces { first, second } = self.pieces(position, bytes.len());
        let (front, back) = bytes.split_at(first.1);
        let in_flight = self.region.write(site, first.0, front);
        if back.is_empty() {
            return in_flight;
        }
        in_flight.and(self.region.write(site, second.0, back))
    }

    /// Writes a range, which [`flush_found`](Self::flush_found) puts in flight later.
    pub(crate) fn store(&mut self, site: Site, position: u64, bytes: &[u8]) {
        let Pieces { first, second } = self.pieces(position, bytes.len());
        let (front, back) = bytes.split_at(first.1);
        let Dirty { .. } = self.region.store(site, first.0, front);
        if !back.is_empty() {
            let Dirty { .. } = self.region.store(site, second.0, back);
        }
    }

    /// Flushes a range that somebody stored, maybe another thread or a process that is no more.
    pub(crate) fn flush_found(&mut self, site: Site, position: u64, len: u64) -> InFlight {
        let len = usize::try_from(len.min(self.bytes)).unwrap_or(usize::MAX);
        let Pieces { first, second } = self.pieces(position, len);
        let in_flight = self.region.flush_found(site, first.0, first.1);
        if second.1 == 0 {
            return in_flight;
        }
        in_flight.and(self.region.flush_found(site, second.0, second.1))
    }

    pub(crate) fn fence<T>(
        &mut self,
        site: Site,
        in_flight: InFlight<T>,
    ) -> Result<Durable<T>, MediumError> {
        self.region.fence(site, in_flight)
    }
}
