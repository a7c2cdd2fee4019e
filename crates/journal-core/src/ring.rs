//! A lane's ring of bytes, addressed by log offsets that only grow.
//!
//! A log offset says how many bytes the lane held before, ever; its place in the ring is the rest
//! of the division by the ring's length. Ranges may wrap round the end of the ring, between lines.

use crate::error::MediumError;
use crate::hook::{Hook, Rule, Site};
use crate::order::{Dirty, Durable, InFlight, Ordered};
use crate::pmem::{Pmem, PmemRead, PmemShare};
use crate::units::Offset;

#[derive(Debug)]
pub(crate) struct Ring<P, H> {
    region: Ordered<P, H>,
    bytes: u64,
}

/// A range of the ring: up to its end, and from its start.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    first: (Offset, usize),
    second: (Offset, usize),
}

impl Pieces {
    const fn of(ring_bytes: u64, position: u64, len: usize) -> Self {
        let place = match position.checked_rem(ring_bytes) {
            Some(place) => place,
            None => 0,
        };
        let to_end = ring_bytes.saturating_sub(place);
        let first = if (len as u64) < to_end { len } else { to_end as usize };
        Self { first: (Offset(place), first), second: (Offset(0), len.saturating_sub(first)) }
    }
}

fn read_pieces(
    region: &impl PmemRead,
    ring_bytes: u64,
    position: u64,
    into: &mut [u8],
) -> Result<(), MediumError> {
    let Pieces { first, second } = Pieces::of(ring_bytes, position, into.len());
    let (front, back) = into.split_at_mut(first.1);
    region.read_into(first.0, front)?;
    if back.is_empty() {
        return Ok(());
    }
    region.read_into(second.0, back)
}

/// Reads a lane beside its writer.
#[derive(Clone, Debug)]
pub struct LaneReader<R> {
    region: R,
    bytes: u64,
}

impl<R: PmemRead> LaneReader<R> {
    /// Copies a range of log offsets.
    ///
    /// # Errors
    /// The medium's.
    pub fn read(&self, position: u64, into: &mut [u8]) -> Result<(), MediumError> {
        read_pieces(&self.region, self.bytes, position, into)
    }
}

impl<P: PmemShare, H> Ring<P, H> {
    pub(crate) fn reader(&self) -> LaneReader<P::Reader> {
        LaneReader { region: self.region.reader(), bytes: self.bytes }
    }
}

impl<P: Pmem, H: Hook> Ring<P, H> {
    /// The ring that a whole region is; it must not be empty.
    pub(crate) fn new(region: Ordered<P, H>) -> Self {
        let bytes = region.len();
        debug_assert!(bytes > 0, "the geometry was checked");
        Self { region, bytes }
    }

    #[inline]
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.region.keeps(rule)
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    const fn pieces(&self, position: u64, len: usize) -> Pieces {
        Pieces::of(self.bytes, position, len)
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
        read_pieces(&self.region, self.bytes, position, into)
    }

    /// Writes a range and puts it in flight.
    #[inline]
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
    #[inline]
    pub(crate) fn store(&mut self, site: Site, position: u64, bytes: &[u8]) {
        let Pieces { first, second } = self.pieces(position, bytes.len());
        let (front, back) = bytes.split_at(first.1);
        let Dirty { .. } = self.region.store(site, first.0, front);
        if !back.is_empty() {
            let Dirty { .. } = self.region.store(site, second.0, back);
        }
    }

    /// Flushes a range that somebody stored, maybe another thread or a process that is no more.
    #[inline]
    pub(crate) fn flush_found(&mut self, site: Site, position: u64, len: u64) -> InFlight {
        let len = usize::try_from(len.min(self.bytes)).unwrap_or(usize::MAX);
        let Pieces { first, second } = self.pieces(position, len);
        let in_flight = self.region.flush_found(site, first.0, first.1);
        if second.1 == 0 {
            return in_flight;
        }
        in_flight.and(self.region.flush_found(site, second.0, second.1))
    }

    #[inline]
    pub(crate) fn fence<T>(
        &mut self,
        site: Site,
        in_flight: InFlight<T>,
    ) -> Result<Durable<T>, MediumError> {
        self.region.fence(site, in_flight)
    }
}
