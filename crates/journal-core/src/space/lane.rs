//! One lane: its ring of records, the record that is being stored there, and how it becomes
//! durable, with one fence.
//!
//! A commit writes the images, then the front with the check over everything
//! ([`crate::space::part`]), and fences. The record is valid if and only if its check is right;
//! there is no commit mark. Only where the journal was formatted for comparisons with
//! [`Protocol::TailPointer`] a tail word follows, behind a second fence
//! ([`crate::space::tail_word`]).
//!
//! [`Protocol::TailPointer`]: crate::Protocol::TailPointer
//!
//! **Crash** before the fence returns: any words of the record may be missing, so its check is
//! wrong (or all of it is there). Nothing else in the ring is touched: a record is written only
//! into free space, which a durable superblock has freed before.
//!
//! LN1. `head <= tail <= head + ring`, all multiples of the line.
//! LN2. A sequence is never skipped: what was stored under one is a record, or overwritten.
//! LN3. Every record below `durable_to` is durable; nothing at or above it was acknowledged.

use crate::format::identity::Identity;
use crate::format::record::{Name, Note};
use crate::order::ordered::{Durable, Hook, InFlight, NoHook, Pace};
use crate::order::rule::Rule;
use crate::ports::error::MediumError;
use crate::ports::pmem::{Pmem, PmemShare};
use crate::space::ring::{LaneReader, Ring};
use crate::space::slot_state::SlotState;
use crate::space::slots::Slots;
use crate::space::stored::{Stored, WEAR_PARTS, Wear};
use crate::space::tail_word::TailWord;
use crate::units::{LANES_MAX, LINE_BYTES, LaneNumber, Sequence, SlotNumber, Stamp, WORD_BYTES};

crate::sites! {
    pub(crate) mod site {
        FENCE: Fence = "commit.fence";
        DEFERRED_FLUSH: Flush = "deferred.flush";
    }
}

/// One lane: a ring of records with one writer at a time.
#[derive(Debug)]
pub struct Lane<P, H = NoHook> {
    pub(super) ring: Ring<P, H>,
    pub(crate) identity: Identity,
    pub(crate) number: LaneNumber,
    /// Lane offset of the first live record.
    pub(crate) head: u64,
    /// Lane offset behind the last record.
    pub(crate) tail: u64,
    pub(crate) next_sequence: Sequence,
    pub(crate) durable_to: Sequence,
    /// At or above every stamp in the lane.
    pub(crate) last_stamp: Stamp,
    /// Where deferred records begin that nobody has flushed.
    deferred_from: Option<u64>,
    /// Lane offset behind the last record that was put in flight: the next fence makes all before
    /// durable.
    pub(crate) flushed_to: u64,
    /// Only with [`Protocol::TailPointer`](crate::Protocol::TailPointer).
    tail_word: Option<TailWord<P, H>>,
    /// Only where the geometry has slots.
    slots: Option<Slots<P, H>>,
    /// Words that were stored beside the ring.
    tail_words: u64,
    /// The note of the last record that has one, since the journal was opened, and its stamp.
    pub(crate) noted: Option<(Stamp, Note)>,
}

/// A lane with what is known of its slots.
#[derive(Debug)]
pub struct InLane<'a, P, H = NoHook> {
    /// The lane.
    pub lane: &'a mut Lane<P, H>,
    /// One for each of its slots.
    pub states: &'a mut [SlotState],
}

impl<P: PmemShare, H> Lane<P, H> {
    /// Reads the lane beside its writer.
    pub fn reader(&self) -> LaneReader<P::Reader> {
        self.ring.reader(self.slots.as_ref().map(Slots::reader))
    }
}

impl<P: Pmem, H: Hook> Lane<P, H> {
    /// A lane that begins at `head` and holds nothing yet.
    pub(crate) const fn new(
        ring: Ring<P, H>,
        identity: Identity,
        number: LaneNumber,
        head: u64,
        next_sequence: Sequence,
        last_stamp: Stamp,
    ) -> Self {
        Self {
            ring,
            identity,
            number,
            head,
            tail: head,
            next_sequence,
            durable_to: next_sequence,
            last_stamp,
            deferred_from: None,
            flushed_to: head,
            tail_word: None,
            slots: None,
            tail_words: 0,
            noted: None,
        }
    }

    /// Lane offset behind the last record, which never falls.
    #[must_use]
    pub const fn tail(&self) -> u64 {
        self.tail
    }

    /// What was stored for records from the lane offset `from` on, and for the words beside them.
    #[must_use]
    pub const fn stored_records(&self, from: u64) -> Stored {
        let (bytes, word) = (self.tail.saturating_sub(from), WORD_BYTES as u64);
        let lines = bytes.div_ceil(LINE_BYTES as u64);
        Stored { bytes, lines }
            .and(Stored { bytes: self.tail_words.saturating_mul(word), lines: self.tail_words })
    }

    /// The lines of each part of the ring that were stored from the lane offset `from` on. They are
    /// worked out from the offsets, so that no commit counts them.
    #[must_use]
    pub fn ring_wear(&self, from: u64) -> [u64; WEAR_PARTS] {
        let mut wear = Wear::of(self.ring.bytes());
        wear.add_round(from, self.tail);
        wear.parts()
    }

    /// The lines of each part of the slots' entries, and of the slots, that were stored.
    #[must_use]
    pub fn slot_wear(&self) -> [[u64; WEAR_PARTS]; 2] {
        self.slots.as_ref().map_or([[0; WEAR_PARTS]; 2], Slots::wear)
    }

    /// What was stored in slots and their entries.
    #[must_use]
    pub fn stored_slots(&self) -> Stored {
        self.slots.as_ref().map_or(Stored::NOTHING, Slots::stored)
    }

    /// Adds the tail word and the slots.
    pub(crate) fn with(
        self,
        tail_word: Option<TailWord<P, H>>,
        slots: Option<Slots<P, H>>,
    ) -> Self {
        Self { tail_word, slots, ..self }
    }

    pub(crate) const fn slots(&self) -> Option<&Slots<P, H>> {
        self.slots.as_ref()
    }

    pub(crate) const fn slots_mut(&mut self) -> Option<&mut Slots<P, H>> {
        self.slots.as_mut()
    }

    /// Slots that hold nothing.
    #[must_use]
    pub fn free_slots(&self) -> u32 {
        self.slots.as_ref().map_or(0, Slots::free_count)
    }

    /// Blocks of the disk-side log that can be taken.
    #[must_use]
    pub fn free_log_blocks(&self) -> u32 {
        self.slots.as_ref().map_or(0, Slots::free_log_blocks)
    }

    /// Free slots and log blocks of this lane.
    #[must_use]
    pub fn free_room(&self) -> FreeRoom {
        let (slots, log_blocks) = (self.free_slots(), self.free_log_blocks());
        FreeRoom { slots, log_blocks, goes: Goes::ByPolicy }
    }

    /// Copies what one of its slots holds.
    ///
    /// # Errors
    /// The medium's.
    pub fn read_slot(&self, slot: SlotNumber, into: &mut [u8]) -> Result<(), MediumError> {
        match &self.slots {
            Some(slots) => slots.read(slot, into),
            None => unreachable!("the index names slots of this journal"),
        }
    }

    pub(crate) const fn ring(&self) -> &Ring<P, H> {
        &self.ring
    }

    /// Which lane it is.
    #[must_use]
    pub const fn number(&self) -> LaneNumber {
        self.number
    }

    /// Every record below this sequence is durable.
    #[must_use]
    pub const fn durable_to(&self) -> Sequence {
        self.durable_to
    }

    /// The next record's sequence, and where it will lie.
    pub const fn end(&self) -> (Sequence, u64) {
        (self.next_sequence, self.tail)
    }

    /// The sequence of the next record.
    #[must_use]
    pub const fn next_sequence(&self) -> Sequence {
        self.next_sequence
    }

    /// At or above every stamp in the lane.
    #[must_use]
    pub const fn last_stamp(&self) -> Stamp {
        self.last_stamp
    }

    /// Has all later records get stamps above this one.
    pub fn raise_stamp(&mut self, stamp: Stamp) {
        self.last_stamp = self.last_stamp.max(stamp);
    }

    /// Bytes of the ring.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.ring.bytes()
    }

    /// Bytes that records can take before a head advances.
    #[must_use]
    pub const fn free_bytes(&self) -> u64 {
        self.ring.bytes().saturating_sub(self.tail.saturating_sub(self.head))
    }

    /// Whether deferred records wait for somebody to flush them.
    #[must_use]
    pub const fn has_deferred(&self) -> bool {
        self.deferred_from.is_some()
    }

    /// Begins a record. The caller has seen to it that all of it fits.
    pub fn begin(&self, stamp: Stamp, pace: Pace) -> OpenRecord {
        OpenRecord {
            stamp,
            sequence: self.next_sequence,
            pace,
            parts: 0,
            check: self.identity.seeds.record,
            start: self.tail,
            next: self.tail,
            in_flight: None,
        }
    }

    /// The record is stored whole, and can no longer be taken back. It is not durable yet.
    ///
    /// Returns what a fence has to complete, deferred records before it included; `None` for one
    /// that is deferred itself.
    #[inline(always)]
    fn close(&mut self, open: OpenRecord, states: &mut [SlotState]) -> Option<InFlight<Sequence>> {
        let sequence = self.next_sequence;
        self.tail = open.next;
        self.last_stamp = self.last_stamp.max(open.stamp);
        self.next_sequence = Sequence(sequence.raw().saturating_add(1));
        if open.pace == Pace::Deferred {
            self.deferred_from.get_or_insert(open.start);
            // C9: the next record is stored there by plain stores.
            self.ring.prefetch_to_store(self.tail, NEXT_RECORD_BYTES);
            return None;
        }
        let in_flight = open.in_flight?;
        // This record was put in flight as it was stored; those before it, up to its start, were
        // not.
        let may_wait = self.deferred_from.is_some() || self.slots.is_some();
        let deferred = may_wait.then(|| self.flush_deferred(open.start, states)).flatten();
        let in_flight = match deferred {
            Some(deferred) => in_flight.and(deferred),
            None => in_flight,
        };
        self.flushed_to = self.tail;
        Some(in_flight.carrying(sequence))
    }

    /// Closes a record that is stored whole, and [fences](Self::fence) it. A deferred one is
    /// fenced, with all before it, only if `flushes_deferred` says so. `None` where nothing is
    /// fenced.
    ///
    /// # Errors
    /// The medium's: the outcome is unknown, and the lane must not be used any more.
    #[inline(always)]
    pub fn close_and_fence(
        &mut self,
        open: OpenRecord,
        states: &mut [SlotState],
        flushes_deferred: bool,
    ) -> Result<Option<Durable<Sequence>>, MediumError> {
        let in_flight = match self.close(open, states) {
            None if flushes_deferred => self.flush_all_deferred(states),
            in_flight => in_flight,
        };
        in_flight.map(|in_flight| self.fence(in_flight)).transpose()
    }

    /// Flushes deferred records up to a lane offset, and the slots that they name.
    fn flush_deferred(&mut self, to: u64, states: &mut [SlotState]) -> Option<InFlight> {
        let mut in_flight = None;
        if let Some(from) = self.deferred_from.take() {
            let len = to.saturating_sub(from);
            in_flight = Some(self.ring.flush_found(site::DEFERRED_FLUSH, from, len));
        }
        if let Some(flushed) = self.slots.as_mut().and_then(|slots| slots.flush_dirty(states)) {
            InFlight::join(&mut in_flight, flushed);
        }
        in_flight
    }

    /// Whether a fence has failed: nothing waits to be flushed, and not everything is durable.
    #[must_use]
    pub fn has_unfenced(&self) -> bool {
        self.deferred_from.is_none() && self.durable_to < self.next_sequence
    }

    /// Puts all deferred records in flight; `None` when there is none.
    pub fn flush_all_deferred(&mut self, states: &mut [SlotState]) -> Option<InFlight<Sequence>> {
        // Active slots are flushed only with a record.
        let _ = self.deferred_from?;
        let last = Sequence(self.next_sequence.raw().saturating_sub(1));
        let in_flight = self.flush_deferred(self.tail, states)?;
        self.flushed_to = self.tail;
        Some(in_flight.carrying(last))
    }

    /// Forgets a record whose last part is not stored: its place and sequence are used again. Parts
    /// of it that are still in the ring never count, since no later part's check continues theirs.
    ///
    /// What is in flight of it arrives before its place is used again. The next thread that stores
    /// there may be another one, and nothing else orders what the two have streamed.
    ///
    /// # Errors
    /// The medium's: the lane must not be used any more.
    pub fn abandon(&mut self, open: OpenRecord) -> Result<(), MediumError> {
        self.tail = open.start;
        if !self.ring.keeps(Rule::SequencesUnbroken) {
            self.next_sequence = Sequence(self.next_sequence.raw().saturating_add(1));
        }
        let Some(in_flight) = open.in_flight else { return Ok(()) };
        self.ring.region.fence(site::FENCE, in_flight).map(drop)
    }

    /// One fence: the record and every earlier one of this lane is durable. Two where the lane has
    /// a tail word.
    ///
    /// # Errors
    /// The medium's: the outcome is unknown, and the lane must not be used any more.
    #[inline(always)]
    pub fn fence(&mut self, record: InFlight<Sequence>) -> Result<Durable<Sequence>, MediumError> {
        let mut durable = self.ring.region.fence(site::FENCE, record)?;
        if let Some(word) = &mut self.tail_word {
            self.tail_words = self.tail_words.saturating_add(1);
            durable = word.advance(durable, self.flushed_to)?;
        }
        self.durable_to = Sequence(durable.what().raw().saturating_add(1));
        Ok(durable)
    }

    pub(crate) fn ring_mut(&mut self) -> &mut Ring<P, H> {
        &mut self.ring
    }

    pub(crate) const fn tail_word_mut(&mut self) -> Option<&mut TailWord<P, H>> {
        self.tail_word.as_mut()
    }

    /// How many fences [`fence`](Self::fence) is.
    #[must_use]
    pub const fn fences(&self) -> u64 {
        if self.tail_word.is_some() { 2 } else { 1 }
    }
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

/// How much of the ring a deferred record brings into the caches for the next one. Few deferred
/// records are longer.
const NEXT_RECORD_BYTES: usize = 256;

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
    #[must_use]
    #[inline]
    pub const fn count(&self) -> usize {
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

/// Memory for one lane.
#[derive(Debug)]
pub struct LaneMemory<P, H = NoHook>(pub(crate) Option<Lane<P, H>>);

impl<P, H> LaneMemory<P, H> {
    /// Memory that has no lane yet.
    pub const EMPTY: Self = Self(None);

    /// The lane that an open has put here, for an owner that keeps it elsewhere.
    pub const fn take(&mut self) -> Option<Lane<P, H>> {
        self.0.take()
    }
}

/// Where a transaction's images go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goes {
    /// Where the policy says.
    #[default]
    ByPolicy,
    /// Data goes to the disk-side log instead of the record, so that the record is short.
    DataToLog,
    /// All go to slots, as long as some are free. The policy is not asked.
    ToSlots,
    /// All go to the disk-side log, as long as it has free blocks. The policy is not asked.
    ToLog,
    /// All go into the record. The policy is not asked.
    IntoRecord,
}

/// Free slots and log blocks of a lane, as a transaction finds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeRoom {
    /// Slots of its lane.
    pub slots: u32,
    /// Blocks of its lane in the disk-side log.
    pub log_blocks: u32,
    /// Where images go.
    pub goes: Goes,
}

impl<P: Pmem, H: Hook> InLane<'_, P, H> {
    /// Takes a block of the disk-side log that nothing needs.
    pub fn take_log_block(&mut self) -> Option<SlotNumber> {
        self.lane.slots_mut()?.take_log_block(self.states)
    }

    /// Gives back a slot that was held, of which no version is left.
    pub fn give_slot(&mut self, slot: SlotNumber) {
        if let Some(slots) = self.lane.slots_mut() {
            slots.give(self.states, slot);
        }
    }
}
