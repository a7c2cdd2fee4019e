//! A record that is being stored, and what it names.

use crate::format::record::Name;
use crate::order::ordered::InFlight;
use crate::units::{LANES_MAX, LaneNumber, Sequence, Stamp};

/// The records of other lanes that a record names: of each lane at most one, the latest.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// A bit for each lane that is named.
    lanes: u32,
    sequences: [Sequence; LANES_MAX as usize],
}

const _: () = assert!(LANES_MAX as u32 <= u32::BITS, "each lane has a bit");

impl Names {
    /// No record.
    pub const NONE: Self = Self { lanes: 0, sequences: [Sequence(0); LANES_MAX as usize] };

    /// Names a record too.
    #[inline]
    pub fn name(&mut self, lane: LaneNumber, sequence: Sequence) {
        let Some(known) = self.sequences.get_mut(usize::from(lane.raw())) else { return };
        let bit = 1_u32.checked_shl(lane.raw().into()).unwrap_or(0);
        if self.lanes & bit == 0 || *known < sequence {
            *known = sequence;
        }
        self.lanes |= bit;
    }

    /// Names none any more.
    #[inline]
    pub const fn clear(&mut self) {
        self.lanes = 0;
    }

    #[inline]
    pub(crate) const fn count(&self) -> usize {
        self.lanes.count_ones() as usize
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = Name> + '_ {
        let mut left = self.lanes;
        core::iter::from_fn(move || {
            let lane = (left != 0).then(|| left.trailing_zeros() as u16)?;
            left &= left.wrapping_sub(1);
            let sequence = self.sequences.get(usize::from(lane))?;
            Some(Name::new(LaneNumber(lane), *sequence))
        })
    }
}

/// What the last part that is stored ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The record.
    Record,
    /// Nothing yet: more parts follow.
    Nothing,
}

/// Whether a record is put in flight while it is stored, or only when somebody asks.
///
/// A deferred record is merely stored: the thread that makes it durable may be another one, and
/// no thread completes what another has streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Put in flight as it is stored.
    AtOnce,
    /// Stored; flushed by the thread that fences the lane next.
    Deferred,
}

/// A record that is being stored part by part.
#[derive(Debug)]
#[must_use = "a record that is not closed has to be abandoned"]
pub struct OpenRecord {
    pub(crate) stamp: Stamp,
    pub(crate) sequence: Sequence,
    pub(super) pace: Pace,
    /// Parts stored so far; a header has room for the lower bits.
    pub(crate) parts: u64,
    /// The check of the parts so far.
    pub(crate) check: u64,
    /// Where the record began, to go back there.
    pub(crate) start: u64,
    /// Where its next part goes. The lane's own tail stays in front of the record until that is
    /// stored whole: an open record that nobody ends leaves no gap.
    pub(super) next: u64,
    pub(super) in_flight: Option<InFlight>,
}

impl OpenRecord {
    /// Its sequence, once it is closed.
    #[must_use]
    pub const fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Its stamp.
    #[must_use]
    pub const fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Bytes of it that are stored.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.next.saturating_sub(self.start)
    }

    /// Lane offset of its next part.
    pub(crate) const fn position(&self) -> u64 {
        self.next
    }

    pub(crate) const fn pace(&self) -> Pace {
        self.pace
    }

    pub(crate) fn add(&mut self, stored: InFlight) {
        InFlight::join(&mut self.in_flight, stored);
    }
}
