//! A record that is being stored, and what it names.

use crate::format::record::{Name, Note};
use crate::order::ordered::InFlight;
use crate::units::{LANES_MAX, LaneNumber, Sequence, Stamp};

/// The records of other lanes that a record names: of each lane at most one, the latest. And what
/// the store has noted of the transaction.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// A bit for each lane that is named.
    lanes: u32,
    sequences: [Sequence; LANES_MAX as usize],
    note: Option<Note>,
}

const _: () = assert!(LANES_MAX as u32 <= u32::BITS, "each lane has a bit");

impl Names {
    /// No record.
    pub const NONE: Self =
        Self { lanes: 0, sequences: [Sequence(0); LANES_MAX as usize], note: None };

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

    /// Gives the record a note, or none. The medium
    /// [must have notes](crate::parts::Home::begin_notes).
    #[inline]
    pub const fn set_note(&mut self, note: Option<[u64; 2]>) {
        self.note = note;
    }

    /// What the store has noted of the transaction.
    #[must_use]
    #[inline]
    pub const fn note(&self) -> Option<[u64; 2]> {
        self.note
    }

    /// Names none any more, and notes nothing.
    #[inline]
    pub const fn clear(&mut self) {
        (self.lanes, self.note) = (0, None);
    }

    /// Entries in the record: the names, and the note. No record names its own lane, so there are
    /// no more than lanes.
    #[inline]
    pub(crate) const fn count(&self) -> usize {
        (self.lanes.count_ones() as usize).saturating_add(self.note.is_some() as usize)
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
