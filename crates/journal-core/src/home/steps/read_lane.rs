//! How far the records at the heads are read for a list of the oldest frames.

use crate::format::record::RecordKind;
use crate::home::oldest::Records;
use crate::order::source::Source;
use crate::ports::kernels::Kernels;
use crate::scan::reader::Reader;
use crate::units::{LANES_MAX, LaneNumber, Sequence, Stamp};

/// A record of no more bytes may be read with the one before it.
const SHORT_BYTES: u64 = 512;

/// How far records are read at a lane's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadLane {
    pub(super) number: LaneNumber,
    /// The next record.
    pub(super) at: (Sequence, u64),
    pub(super) end: (Sequence, u64),
    /// That of the next record. Of one that was not looked at, below all others.
    pub(super) stamp: Stamp,
    /// Whether the next record is short, and a transaction's: a copy's frames are older than its
    /// stamp.
    pub(super) is_short: bool,
}

impl ReadLane {
    pub(super) fn all(heads: &Records, ends: &Records) -> [Self; LANES_MAX as usize] {
        let none = Sequence(0);
        let (number, stamp, is_short) = (LaneNumber(0), Stamp(0), false);
        let lane = Self { number, at: (none, 0), end: (none, 0), stamp, is_short };
        let mut all = [lane; LANES_MAX as usize];
        for ((number, lane), (at, end)) in (0..).zip(&mut all).zip(heads.iter().zip(ends)) {
            (lane.number, lane.at, lane.end) = (LaneNumber(number), *at, *end);
        }
        all
    }

    pub(super) fn has_more(&self) -> bool {
        self.at.1 < self.end.1 && self.at.0 < self.end.0
    }

    pub(super) const fn age(&self) -> (Stamp, LaneNumber) {
        (self.stamp, self.number)
    }

    /// Looks how old the next record is, if there is one. Returns whether that is known.
    pub(super) fn look<S: Source, K: Kernels>(&mut self, reader: &Reader<'_, S, K>) -> bool {
        if !self.has_more() {
            return true;
        }
        let Ok(Some(header)) = reader.header(self.at.1) else { return false };
        self.stamp = Stamp(header.stamp.get());
        self.is_short = header.kind == RecordKind::Commit as u8
            && header.is_last_part()
            && header.total_bytes() <= SHORT_BYTES;
        header.sequence.get() == self.at.0.raw()
    }
}
