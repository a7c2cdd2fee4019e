//! A lane's ring of bytes, addressed by lane offsets that only grow.
//!
//! A lane offset says how many bytes the lane held before, ever. Its offset in the ring is the rest
//! of the division by the ring's length. Ranges may wrap round the end of the ring, between lines.

use crate::index::frame::FrameAt;
use crate::order::ordered::{Dirty, Hook, InFlight, Ordered};
use crate::order::rule::Rule;
use crate::order::site::Site;
use crate::order::source::Source;
use crate::ports::error::MediumError;
use crate::ports::pmem::{Pmem, PmemRead, PmemShare};
use crate::space::slots::SlotReader;
use crate::units::{Offset, SlotNumber};

/// The most bytes of a payload that are asked for ahead: those of a block of usual size. What lies
/// behind them the processor asks for by itself.
const PREFETCHED_BYTES: usize = 4096;

/// The ring of an open journal.
pub(crate) type Ring<P, H> = RingOf<Ordered<P, H>>;

#[derive(Debug)]
pub(crate) struct RingOf<S> {
    /// The whole ring in the order of its offsets, for callers that need no position.
    pub(crate) region: S,
    bytes: u64,
}

/// A range of the ring as two pieces: up to the ring's end, and from its start where it wraps.
#[derive(Clone, Copy, Debug)]
struct RingRange {
    first: (Offset, usize),
    second: (Offset, usize),
}

impl RingRange {
    #[inline]
    const fn of(ring_bytes: u64, position: u64, len: usize) -> Self {
        let offset = match position.checked_rem(ring_bytes) {
            Some(offset) => offset,
            None => 0,
        };
        let to_end = ring_bytes.saturating_sub(offset);
        let first = if (len as u64) < to_end { len } else { to_end as usize };
        Self { first: (Offset(offset), first), second: (Offset(0), len.saturating_sub(first)) }
    }

    /// Copies what lies there, piece by piece.
    fn read(
        self,
        into: &mut [u8],
        read: impl Fn(Offset, &mut [u8]) -> Result<(), MediumError>,
    ) -> Result<(), MediumError> {
        let (to_end, wrapped) = into.split_at_mut(self.first.1);
        read(self.first.0, to_end)?;
        if wrapped.is_empty() { Ok(()) } else { read(self.second.0, wrapped) }
    }
}

/// Reads a lane beside its writer.
#[derive(Clone, Debug)]
pub struct LaneReader<R> {
    region: R,
    bytes: u64,
    slots: Option<SlotReader<R>>,
}

impl<R: PmemRead> LaneReader<R> {
    /// Copies a range of lane offsets.
    ///
    /// # Errors
    /// The medium's.
    pub fn read(&self, position: u64, into: &mut [u8]) -> Result<(), MediumError> {
        let range = RingRange::of(self.bytes, position, into.len());
        range.read(into, |at, into| self.region.read_into(at, into))
    }

    /// Begins to bring the first bytes of a frame's payload into the caches, or those of what is in
    /// the slot that it names.
    pub fn prefetch_payload(&self, frame: &FrameAt) {
        let len = (frame.len as usize).min(PREFETCHED_BYTES);
        match (frame.slot(), &self.slots) {
            (None, _) => {
                let (at, len) = RingRange::of(self.bytes, frame.payload, len).first;
                self.region.prefetch(at, len);
            }
            (Some(slot), Some(slots)) => slots.prefetch(slot, PREFETCHED_BYTES),
            (Some(_), None) => {}
        }
    }

    /// Copies the payload of a frame of the lane, or what is in the slot that it names.
    ///
    /// # Errors
    /// The medium's.
    pub fn read_payload(&self, frame: &FrameAt, into: &mut [u8]) -> Result<(), MediumError> {
        match frame.slot() {
            Some(slot) => self.read_slot(slot, into),
            None => self.read(frame.payload, into),
        }
    }

    /// Copies what one of the lane's slots holds.
    ///
    /// # Errors
    /// The medium's.
    pub fn read_slot(&self, slot: SlotNumber, into: &mut [u8]) -> Result<(), MediumError> {
        match &self.slots {
            Some(slots) => slots.read(slot, into),
            None => unreachable!("the index names slots of this journal"),
        }
    }
}

impl<P: PmemShare, H> Ring<P, H> {
    pub(crate) fn reader(&self, slots: Option<SlotReader<P::Reader>>) -> LaneReader<P::Reader> {
        LaneReader { region: self.region.reader(), bytes: self.bytes, slots }
    }
}

impl<S: Source> RingOf<S> {
    /// The ring that a whole region is; it must not be empty.
    pub(crate) fn new(region: S) -> Self {
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

    #[inline]
    const fn range(&self, position: u64, len: usize) -> RingRange {
        RingRange::of(self.bytes, position, len)
    }

    /// All of its bytes, in the order of their offsets.
    pub(crate) fn all(&self) -> Result<&[u8], MediumError> {
        self.region.bytes(Offset(0), usize::try_from(self.bytes).unwrap_or(usize::MAX))
    }

    /// Where a lane offset is.
    #[inline]
    pub(crate) const fn offset_in_ring(&self, position: u64) -> u64 {
        match position.checked_rem(self.bytes) {
            Some(offset) => offset,
            None => 0,
        }
    }

    /// The bytes of a range, in two pieces where it wraps.
    pub(crate) fn slices(&self, position: u64, len: usize) -> Result<(&[u8], &[u8]), MediumError> {
        let RingRange { first, second } = self.range(position, len);
        let to_end = self.region.bytes(first.0, first.1)?;
        if second.1 == 0 {
            return Ok((to_end, &[]));
        }
        Ok((to_end, self.region.bytes(second.0, second.1)?))
    }

    /// Copies a range.
    pub(crate) fn read(&self, position: u64, into: &mut [u8]) -> Result<(), MediumError> {
        let pieces = self.range(position, into.len());
        pieces.read(into, |at, into| self.region.read_into(at, into))
    }
}

impl<P: Pmem, H: Hook> Ring<P, H> {
    /// Writes a range and puts it in flight.
    #[inline]
    pub(crate) fn write(&mut self, site: Site, position: u64, bytes: &[u8]) -> InFlight {
        self.write_piece(site, position, bytes, bytes.len() as u64)
    }

    /// Like [`write`](Self::write), for a piece of `whole_bytes` that go out before one fence.
    ///
    /// Inlined at any price (C2): to go on with what wraps, a function would save its registers
    /// first.
    #[inline(always)]
    pub(crate) fn write_piece(
        &mut self,
        site: Site,
        position: u64,
        bytes: &[u8],
        whole_bytes: u64,
    ) -> InFlight {
        let RingRange { first, second } = self.range(position, bytes.len());
        let (to_end, wrapped) = bytes.split_at(first.1);
        let in_flight = self.region.write_piece(site, first.0, to_end, whole_bytes);
        if second.1 == 0 {
            return in_flight;
        }
        in_flight.and(self.region.write_piece(site, second.0, wrapped, whole_bytes))
    }

    /// Begins to bring a range into the caches that is soon to be [stored](Self::store).
    #[inline]
    pub(crate) fn prefetch_to_store(&self, position: u64, bytes: usize) {
        let (at, bytes) = self.range(position, bytes).first;
        self.region.prefetch(at, bytes);
    }

    /// Whether `bytes` of a record of `whole_bytes` are better stitched than copied together: where
    /// they would be streamed anyway, and do not wrap.
    #[inline]
    pub(crate) fn stitches(&self, position: u64, bytes: usize, whole_bytes: u64) -> bool {
        self.region.stitches(whole_bytes) && self.range(position, bytes).second.1 == 0
    }

    /// Writes a range, which [`flush_found`](Self::flush_found) puts in flight later.
    #[inline]
    pub(crate) fn store(&mut self, site: Site, position: u64, bytes: &[u8]) {
        let RingRange { first, second } = self.range(position, bytes.len());
        let (to_end, wrapped) = bytes.split_at(first.1);
        let Dirty { .. } = self.region.store(site, first.0, to_end);
        if !wrapped.is_empty() {
            let Dirty { .. } = self.region.store(site, second.0, wrapped);
        }
    }

    /// Flushes a range that somebody stored, maybe another thread or a process that is no more.
    #[inline]
    pub(crate) fn flush_found(&mut self, site: Site, position: u64, len: u64) -> InFlight {
        let len = usize::try_from(len.min(self.bytes)).unwrap_or(usize::MAX);
        let RingRange { first, second } = self.range(position, len);
        let in_flight = self.region.flush_found(site, first.0, first.1);
        if second.1 == 0 {
            return in_flight;
        }
        in_flight.and(self.region.flush_found(site, second.0, second.1))
    }
}
