//! One lane: how a transaction becomes a record, and the record durable, with one fence.
//!
//! A commit writes the images, then the front with the check over everything, and fences. The
//! record is valid if and only if its check is right; there is no commit mark. Only where the
//! journal was formatted for comparisons with [`Protocol::TailPointer`] a tail word follows, behind
//! a second fence ([`crate::space::tail_word`]).
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

use crate::format::front::{Extent, extent};
use crate::format::geometry::Geometry;
use crate::format::identity::Identity;
use crate::format::record::{Form, HeaderFields, Name, RecordHeader, RecordKind, evidence_check};
use crate::format::slot_entry::{SLOT_FRAME_BYTES, SlotFrame};
use crate::index::frame::FrameAt;
use crate::order::hook::{Hook, NoHook};
use crate::order::ordered::{Durable, InFlight};
use crate::order::rule::Rule;
use crate::ports::error::MediumError;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::{Pmem, PmemShare};
use crate::ports::policy::Prefix;
use crate::ports::stitched::{Piece, Seeds, Stitched};
use crate::space::open_record::{OpenRecord, Pace, PartStore};
use crate::space::part::{FrameIn, Images, LentPayload, Lists, NextPayloads, Part, put_words};
use crate::space::ring::{LaneReader, Ring};
use crate::space::slot_state::SlotState;
use crate::space::slots::Slots;
use crate::space::tail_word::TailWord;
use crate::units::{LINE_BYTES, LaneNumber, Sequence, SlotNumber, Stamp, WORD_BYTES};

crate::sites! {
    pub(crate) mod site {
        IMAGE: Write = "commit.image";
        FRONT: Write = "commit.front";
        FENCE: Fence = "commit.fence";
        DEFERRED_IMAGE: Store = "deferred.image";
        DEFERRED_FRONT: Store = "deferred.front";
        DEFERRED_FLUSH: Flush = "deferred.flush";
    }
}

/// From how many bytes on a front goes out in two pieces.
const AHEAD_FROM_BYTES: usize = 3 * LINE_BYTES;

/// One lane: a ring of records with one writer at a time.
#[derive(Debug)]
pub struct Lane<P, H = NoHook> {
    ring: Ring<P, H>,
    pub(crate) identity: Identity,
    pub(crate) number: LaneNumber,
    /// Log offset of the first live record.
    pub(crate) head: u64,
    /// Log offset behind the last record.
    pub(crate) tail: u64,
    pub(crate) next_sequence: Sequence,
    pub(crate) durable_to: Sequence,
    /// At or above every stamp in the lane.
    pub(crate) last_stamp: Stamp,
    /// Where deferred records begin that nobody has flushed.
    deferred_from: Option<u64>,
    /// Log offset behind the last record that was put in flight: the next fence makes all before
    /// durable.
    pub(crate) flushed_to: u64,
    /// Only with [`Protocol::TailPointer`](crate::Protocol::TailPointer).
    tail_word: Option<TailWord<P, H>>,
    /// Only where the geometry has slots.
    slots: Option<Slots<P, H>>,
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
        }
    }

    /// What it has beside its ring.
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
    pub fn free_places(&self) -> FreePlaces {
        let (slots, log_blocks) = (self.free_slots(), self.free_log_blocks());
        FreePlaces { slots, log_blocks, bypasses: false }
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

    /// The sizes of the next part. The caller has seen to it that it fits.
    pub(crate) fn size_part<I: ?Sized, F>(
        &self,
        open: &OpenRecord,
        part: &Part<'_, I, F>,
        geometry: &Geometry,
    ) -> Extent {
        let Part { frame_count, image_count, names, .. } = *part;
        let encoded = part.encoded.len();
        let extent = extent(geometry, names.count(), frame_count, encoded, image_count);
        let Some(extent) = extent else {
            unreachable!("the transaction was cut into parts that fit")
        };
        self.check_fits(open, &extent);
        extent
    }

    /// A next part of this size fits.
    #[inline]
    pub(crate) fn check_fits(&self, open: &OpenRecord, extent: &Extent) {
        let used = open.next.saturating_sub(self.head).saturating_add(extent.total);
        assert!(used <= self.ring.bytes(), "LN1: the space was reserved");
    }

    /// Stores a part behind the tail: its images, then its front with the check over all of it; and
    /// tells of its frames.
    ///
    /// The first image goes out before anything else is done: all of the rest is computed while it
    /// is on its way. So each frame is told of behind its image. Where there are no images, all
    /// frames are told of behind the front. Frames that are to be told of early are an exception to
    /// both.
    #[inline]
    pub(crate) fn store_part<I: Images + ?Sized>(
        &mut self,
        open: &mut OpenRecord,
        part: &Part<'_, I, impl Iterator<Item = FrameIn> + Clone>,
        kernels: &impl Kernels,
        store: PartStore<'_>,
        mut tell: impl FnMut(FrameAt),
    ) {
        let PartStore { extent, front, is_early } = store;
        let Part { frame_count, ref frames, image_count, names, last, .. } = *part;
        let (encoded, lent) = (part.encoded.whole(), part.encoded.lent());
        let (end, first) = (part.lists_bytes(), part.first_payloads(open.next, extent));
        let has_images = image_count > 0;
        if is_early {
            self.each_frame(open, part, first, &mut tell);
        }
        let (mut next, mut check, mut at) = (first, open.check, part.names_end());
        for frame in frames.clone() {
            if frame.form == Form::Image {
                let image = part.images.image(&frame);
                check = self.store_image(open, next.image_at, image, check, kernels);
            }
            at = frame.put(front, at);
            let frame = self.next_frame(open, encoded, frame, &mut next);
            if has_images && !is_early {
                tell(frame);
            }
        }
        let (name_count, names) = (names.count(), names.each());
        let lists = Lists { frame_count, name_count, names, last, end, lent };
        self.store_front(open, extent, lists, check, kernels, front);
        if !has_images && !is_early {
            self.each_frame(open, part, first, &mut tell);
        }
    }

    /// Stores an image of a part; returns the check with it.
    #[inline(always)]
    pub(crate) fn store_image(
        &mut self,
        open: &mut OpenRecord,
        at: u64,
        image: &[u8],
        check: u64,
        kernels: &impl Kernels,
    ) -> u64 {
        match open.pace {
            Pace::AtOnce => open.add(self.ring.write(site::IMAGE, at, image)),
            Pace::Deferred => self.ring.store(site::DEFERRED_IMAGE, at, image),
        }
        kernels.crc64(check, image)
    }

    /// Stores the front of a part whose descriptors are in it. It puts header and names before
    /// them, and behind them the payloads that lie elsewhere. It fills the last line, which ends
    /// with the check of all of the front and of what is stored of the record.
    ///
    /// It may go out in two pieces. They are lines like any others that one fence completes: in
    /// whatever order they arrive, the record counts when all of it is there.
    #[inline(always)]
    pub(crate) fn store_front(
        &mut self,
        open: &mut OpenRecord,
        extent: &Extent,
        lists: Lists<'_, impl IntoIterator<Item = Name>>,
        mut check: u64,
        kernels: &impl Kernels,
        scratch: &mut [u8],
    ) {
        let Some(front) = scratch.get_mut(..extent.front) else {
            unreachable!("the transaction was cut into parts that fit")
        };
        let Lists { mut end, lent, name_count, .. } = lists;
        let is_stitched =
            open.pace == Pace::AtOnce && self.ring.stitches(open.next, front.len(), extent.total);
        // With no names, the header check covers just the first line, so the medium computes it.
        let by_line = is_stitched && name_count == 0;
        self.put_lists(open, lists, extent, (!by_line).then_some(kernels), front);
        if is_stitched {
            let line = by_line.then_some(self.identity.seeds.record);
            let seeds = Seeds { line, all: check };
            let (written, check) = self.stitch_front(open.next, front, end, lent, seeds);
            open.add(written);
            return self.stored_part(open, extent, check);
        }
        end = lent.copy_to(front, end);
        front.get_mut(end..).unwrap_or_default().fill(0);
        // C8
        let is_ahead = open.pace == Pace::AtOnce && front.len() >= AHEAD_FROM_BYTES;
        let ahead = if is_ahead { front.len().saturating_sub(LINE_BYTES) } else { 0 };
        if is_ahead {
            let lines = front.get(..ahead).unwrap_or_default();
            open.add(self.ring.write_piece(site::FRONT, open.next, lines, extent.total));
        }
        if let Some((body, place)) = front.split_last_chunk_mut() {
            check = kernels.crc64_of_stored(check, body);
            *place = check.to_le_bytes();
        }
        let (at, rest) = (open.next.saturating_add(ahead as u64), front.get(ahead..));
        let rest = rest.unwrap_or_default();
        match open.pace {
            Pace::AtOnce => open.add(self.ring.write_piece(site::FRONT, at, rest, extent.total)),
            Pace::Deferred => self.ring.store(site::DEFERRED_FRONT, at, rest),
        }
        self.stored_part(open, extent, check);
    }

    /// Writes a front whose lists are put, with what comes behind those; returns the check of all.
    #[inline(always)]
    fn stitch_front(
        &mut self,
        position: u64,
        front: &[u8],
        end: usize,
        lent: LentPayload<'_>,
        seeds: Seeds,
    ) -> (InFlight, u64) {
        let head = front.get(..end.next_multiple_of(WORD_BYTES)).unwrap_or_default();
        let stitched = match lent {
            LentPayload::Bytes(body) => Stitched::new(head, end, body),
            LentPayload::Pieces(pieces) => Stitched::of_pieces(head, pieces),
        };
        match stitched {
            Some(stitched) => self.ring.write_checked(site::FRONT, position, &stitched, seeds),
            None => self.stitch_long_front(position, head, lent.bytes(), seeds),
        }
    }

    /// Like [`stitch_front`](Self::stitch_front), for many frames, whose lists are longer than what
    /// goes by the shortest way. Takes only the position: passing `open` by reference would force
    /// it into memory for all callers.
    #[inline(never)]
    fn stitch_long_front(
        &mut self,
        position: u64,
        head: &[u8],
        body: &[u8],
        seeds: Seeds,
    ) -> (InFlight, u64) {
        let piece = [Piece { prefix: Prefix::NONE, bytes: body }];
        let pieces = if body.is_empty() { &[] } else { &piece[..] };
        let Some(stitched) = Stitched::of_pieces(head, pieces) else {
            unreachable!("lists are whole words")
        };
        self.ring.write_checked(site::FRONT, position, &stitched, seeds)
    }

    /// All of a part is stored.
    #[inline(always)]
    fn stored_part(&self, open: &mut OpenRecord, extent: &Extent, check: u64) {
        if self.ring.keeps(Rule::PartsChained) {
            open.check = check;
        }
        open.parts = open.parts.wrapping_add(1);
        open.next = open.next.saturating_add(extent.total);
    }

    /// The record is stored whole, and can no longer be taken back. It is not durable yet.
    ///
    /// Returns what a fence has to complete, deferred records before it included; `None` for one
    /// that is deferred itself.
    #[inline(always)]
    pub fn close(
        &mut self,
        open: OpenRecord,
        states: &mut [SlotState],
    ) -> Option<InFlight<Sequence>> {
        let sequence = self.next_sequence;
        self.tail = open.next;
        self.last_stamp = self.last_stamp.max(open.stamp);
        self.next_sequence = Sequence(sequence.raw().saturating_add(1));
        if open.pace == Pace::Deferred {
            self.deferred_from.get_or_insert(open.start);
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

    /// Flushes deferred records up to a log offset, and the slots that they name.
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
        self.ring.fence(site::FENCE, in_flight).map(drop)
    }

    /// One fence: the record and every earlier one of this lane is durable. Two where the lane has
    /// a tail word.
    ///
    /// # Errors
    /// The medium's: the outcome is unknown, and the lane must not be used any more.
    #[inline(always)]
    pub fn fence(&mut self, record: InFlight<Sequence>) -> Result<Durable<Sequence>, MediumError> {
        let mut durable = self.ring.fence(site::FENCE, record)?;
        if let Some(word) = &mut self.tail_word {
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

/// Memory for one lane.
#[derive(Debug)]
pub struct LaneSlot<P, H = NoHook>(pub(crate) Option<Lane<P, H>>);

impl<P, H> LaneSlot<P, H> {
    /// Nothing yet.
    pub const EMPTY: Self = Self(None);

    /// The lane that an open has put here, for an owner that keeps it elsewhere.
    pub const fn take(&mut self) -> Option<Lane<P, H>> {
        self.0.take()
    }
}

/// Free slots and log blocks of a lane, as a transaction finds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreePlaces {
    /// Slots of its lane.
    pub slots: u32,
    /// Blocks of its lane in the disk-side log.
    pub log_blocks: u32,
    /// Whether data goes to the log, so that the record is short.
    pub bypasses: bool,
}

impl<P: Pmem, H: Hook> Lane<P, H> {
    /// Puts header and names of a part, and the check of both where there is something to compute
    /// it with.
    ///
    /// A front is made of whole words, and read back by words (C1).
    #[inline(always)]
    pub(crate) fn put_lists(
        &self,
        open: &OpenRecord,
        lists: Lists<'_, impl IntoIterator<Item = Name>>,
        extent: &Extent,
        kernels: Option<&impl Kernels>,
        front: &mut [u8],
    ) {
        let Lists { frame_count, name_count, names, last, .. } = lists;
        let header = RecordHeader::of(&HeaderFields {
            kind: RecordKind::Commit,
            part: open.parts,
            is_last: last,
            lines: extent.lines(),
            frames: frame_count,
            names: name_count,
            lane: self.number,
            position: open.position(),
            sequence: self.next_sequence,
            durable_to: self.durable_to,
            stamp: open.stamp,
            identity: &self.identity,
        });
        let words = header.words();
        let mut at = put_words(front, 0, words);
        for name in names {
            at = put_words(front, at, name.words());
        }
        if let Some(kernels) = kernels {
            let evidence = front.get(..at).unwrap_or_default();
            let evidence = evidence_check(kernels, self.identity.seeds.record, evidence);
            let [first, ..] = words;
            put_words(front, 0, [first | u64::from(evidence)]);
        }
    }

    /// Where the next frame of a part lies.
    #[inline(always)]
    pub(crate) fn next_frame(
        &self,
        open: &OpenRecord,
        encoded: &[u8],
        frame: FrameIn,
        next: &mut NextPayloads,
    ) -> FrameAt {
        let FrameIn { mut len, form, .. } = frame;
        let payload = if form == Form::Image {
            let payload = next.image_at;
            next.image_at = payload.saturating_add(u64::from(len));
            payload
        } else {
            let at = next.used;
            next.used = at.saturating_add(len as usize);
            match form {
                Form::Slot | Form::Log => {
                    let named = encoded.get(at..).and_then(|from| from.first_chunk());
                    let named: SlotFrame = zerocopy::transmute!(*named.unwrap_or(&NO_SLOT));
                    len = named.slot.get();
                    named.content.get()
                }
                _ => next.encoded_at.saturating_add(at as u64),
            }
        };
        self.frame_at(open, FrameIn { len, ..frame }, payload)
    }

    /// Where a frame lies; for one that names a slot, the check and the number of that.
    #[inline]
    pub(crate) const fn frame_at(
        &self,
        open: &OpenRecord,
        frame: FrameIn,
        payload: u64,
    ) -> FrameAt {
        let FrameIn { block, len, form, .. } = frame;
        FrameAt {
            block,
            stamp: open.stamp,
            lane: self.number,
            sequence: open.sequence,
            record: open.start,
            payload,
            len,
            form,
            folded: false,
        }
    }

    /// Calls with every frame of a part.
    #[inline(always)]
    pub(crate) fn each_frame<I: ?Sized>(
        &self,
        open: &OpenRecord,
        part: &Part<'_, I, impl Iterator<Item = FrameIn> + Clone>,
        mut next: NextPayloads,
        mut call: impl FnMut(FrameAt),
    ) {
        for frame in part.frames.clone() {
            call(self.next_frame(open, part.encoded.whole(), frame, &mut next));
        }
    }
}

/// Stands for a slot where there is none.
const NO_SLOT: [u8; SLOT_FRAME_BYTES] = [0; SLOT_FRAME_BYTES];

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
