//! Reading a lane: which records are there, and their frames.
//!
//! All bytes are hostile. Lengths and counts are checked before they are used. Every step moves on
//! by at least a line, and a line is looked at a bounded number of times. So a scan takes at most a
//! constant number of passes over the ring.

use zerocopy::FromBytes as _;

use crate::format::front::{Frame, Front};
use crate::format::geometry::Geometry;
use crate::format::identity::Identity;
use crate::format::record::{
    FRAME_BYTES, Form, FrameHeader, Note, RecordHeader, RecordKind, is_evidence, split_note,
};
use crate::index::frame::{FrameAt, Full};
use crate::order::rule::Rule;
use crate::order::source::Source;
use crate::ports::error::{MediumError, MediumErrorKind};
use crate::ports::kernels::Kernels;
use crate::space::ring::RingOf;
use crate::units::{LANES_MAX, LINE_BYTES, LaneNumber, Offset, Sequence, SlotNumber, Stamp};

pub(super) const LINE: u64 = LINE_BYTES as u64;

/// Images are checked in pieces of this length. Meanwhile as much of what lies [`AHEAD_BYTES`]
/// behind is on its way to the caches. Asked for in larger pieces, it fills what a processor waits
/// with, and the rest waits for that.
const PIECE_BYTES: usize = 1024;
/// Far enough that the memory has as much to do as it can take.
const AHEAD_BYTES: usize = 12 << 10;

/// One part of a record, read from the medium and checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedPart<'a> {
    pub(crate) header: &'a RecordHeader,
    /// Its check, from which the next part's continues.
    check: u64,
}

/// Where a valid part has to stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartBounds {
    /// The lane offset that it ends at or before.
    pub(crate) end: u64,
    /// How many blocks the store has. Each frame of a valid part is of one of those.
    pub(crate) device_blocks: u64,
}

impl PartBounds {
    /// Whether the part at `position` ends at or before the end. A part that is right except for
    /// that, and cannot be read, is an error all the same: nobody knows what it was.
    #[inline(always)]
    fn hold(&self, position: u64, header: &RecordHeader) -> bool {
        position.checked_add(header.total_bytes()).is_some_and(|part_end| part_end <= self.end)
    }
}

/// What there is to read a lane with.
pub(crate) struct Reader<'a, S, K> {
    pub(crate) ring: &'a RingOf<S>,
    pub(crate) lane: LaneNumber,
    pub(crate) geometry: &'a Geometry,
    pub(crate) identity: &'a Identity,
    pub(crate) kernels: &'a K,
    /// Holds a front that wraps. None is longer.
    pub(crate) scratch: &'a mut [u8],
    /// All of the ring, if somebody has asked for it, and none of it is poisoned.
    pub(crate) all: Option<&'a [u8]>,
    /// A lane offset of the ring's first byte.
    pub(crate) lap: u64,
}

/// Behind the end of a lane a poisoned line holds no header; other errors say nothing of the
/// content. Up to the end, and at it, poison is an error as well. What was there may have been
/// acknowledged, and a torn tail would be gone for good.
pub(super) fn readable<T>(read: Result<T, MediumError>) -> Result<Option<T>, MediumError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind == MediumErrorKind::Poisoned => Ok(None),
        Err(error) => Err(error),
    }
}

/// The newer of two notes. Of one stamp the first counts.
pub(crate) fn newer_note(
    known: Option<(Stamp, Note)>,
    other: Option<(Stamp, Note)>,
) -> Option<(Stamp, Note)> {
    let stamp = |noted: Option<(Stamp, Note)>| noted.map(|(stamp, _)| stamp);
    if stamp(other) > stamp(known) { other } else { known }
}

impl<'a, S: Source, K: Kernels> Reader<'a, S, K> {
    /// The names behind a header, up to the ring's end and from its start.
    #[inline(always)]
    pub(super) fn names(
        &self,
        position: u64,
        header: &RecordHeader,
    ) -> Result<(&'a [u8], &'a [u8]), MediumError> {
        match header.names_bytes() {
            // Even an empty read could touch a lost line.
            0 => Ok((&[], &[])),
            bytes => self.slices(position.saturating_add(LINE), bytes),
        }
    }

    /// The header that these bytes begin with, if it belongs at `position`. It may be torn: nothing
    /// is said of its check.
    #[inline(always)]
    fn placed(&self, position: u64, bytes: &'a [u8]) -> Option<&'a RecordHeader> {
        let (header, _) = RecordHeader::ref_from_prefix(bytes).ok()?;
        // The position first: it is cheap, and wrong nearly everywhere that holds no header.
        let is_elsewhere = header.position.get() != position && self.ring.keeps(Rule::PlaceChecked);
        if is_elsewhere || u16::from(header.names) > LANES_MAX {
            return None;
        }
        // A header of another lane is content: a copy of the journal's memory.
        if !header.is_of(self.lane) && self.ring.keeps(Rule::LaneChecked) {
            return None;
        }
        header.counters_are_in_range().then_some(header)
    }

    /// The header at `position` of a part that was found whole, if it is still there.
    #[inline(always)]
    pub(crate) fn placed_at(&self, position: u64) -> Result<Option<&'a RecordHeader>, MediumError> {
        let (line, _) = self.slices(position, LINE_BYTES)?;
        Ok(self.placed(position, line))
    }

    /// The header at `position`, if it is whole and belongs there.
    #[inline(always)]
    pub(crate) fn header(&self, position: u64) -> Result<Option<&'a RecordHeader>, MediumError> {
        let Some(header) = self.placed_at(position)? else { return Ok(None) };
        Ok(self.is_evidence(position, header)?.then_some(header))
    }

    /// Whether the header at `position`, which belongs there, is whole.
    #[inline(always)]
    fn is_evidence(&self, position: u64, header: &RecordHeader) -> Result<bool, MediumError> {
        if header.evidence_bytes() as u64 > self.ring.bytes() {
            return Ok(false);
        }
        let (first, second) = self.names(position, header)?;
        Ok(is_evidence(self.kernels, self.identity.seeds.record, header, [first, second]))
    }

    /// The note of the part at `position`, which was found whole, with the stamp of its record; and
    /// where the next part begins.
    pub(crate) fn note_at(
        &self,
        position: u64,
    ) -> Result<(Option<(Stamp, Note)>, u64), MediumError> {
        let header = self.placed_at(position)?.ok_or_else(|| self.gone(position))?;
        let (_, note) = split_note(header, self.names(position, header)?);
        let note = note.map(|note| (Stamp(header.stamp.get()), note));
        Ok((note, position.saturating_add(header.total_bytes().max(LINE))))
    }

    /// The newest note of the parts between two lane offsets, which were found whole, given one
    /// that is known.
    pub(crate) fn newest_note(
        &self,
        from: u64,
        to: u64,
        known: Option<(Stamp, Note)>,
    ) -> Result<Option<(Stamp, Note)>, MediumError> {
        let (mut newest, mut at) = (known, from);
        while at < to {
            let (note, next) = self.note_at(at)?;
            newest = newer_note(newest, note);
            at = next;
        }
        Ok(newest)
    }

    /// The line at `position` was readable and is not any more.
    pub(crate) fn gone(&self, position: u64) -> MediumError {
        let offset = Offset(self.ring.offset_in_ring(position));
        MediumError::new(MediumErrorKind::Poisoned, offset, LINE_BYTES)
    }

    /// The bytes of a range of the ring, in two pieces where it wraps.
    #[inline(always)]
    pub(super) fn slices(
        &self,
        position: u64,
        len: usize,
    ) -> Result<(&'a [u8], &'a [u8]), MediumError> {
        let offset = usize::try_from(self.ring.offset_in_ring(position)).unwrap_or(usize::MAX);
        match self.all.and_then(|all| all.get(offset..)?.get(..len)) {
            Some(bytes) => Ok((bytes, &[])),
            None => self.ring.slices(position, len),
        }
    }

    /// How long the part with this header is, unless it contradicts itself.
    #[inline(always)]
    fn part_bytes(&self, header: &RecordHeader) -> Option<usize> {
        let (total, lists) = (header.total_bytes(), header.lists_bytes());
        let is_too_long = lists as u64 > total || total > self.ring.bytes();
        let is_part = header.record_kind().is_some() && !is_too_long;
        is_part.then_some(usize::try_from(total).ok()?)
    }

    /// The front at `position`, of a part that was found whole. Nothing of it is checked but where
    /// it belongs, and that it does not contradict itself.
    fn front_at(&mut self, position: u64) -> Result<Option<Front<'_>>, MediumError> {
        let Some(header) = self.placed_at(position)? else { return Ok(None) };
        let Some(total) = self.part_bytes(header) else { return Ok(None) };
        let longest = self.scratch.len();
        let front = match readable(self.slices(position, total))? {
            Some((whole, [])) => Front::parse(self.geometry, whole),
            _ => self.scattered_front(position, header)?,
        };
        Ok(front.filter(|front| front.bytes.len() <= longest))
    }

    /// The front with this header, of a part that wraps, or some of which cannot be read.
    fn scattered_front(
        &mut self,
        position: u64,
        header: &RecordHeader,
    ) -> Result<Option<Front<'_>>, MediumError> {
        // The images are not read: the end of a lane may be in them.
        let (frames_at, lists) = (header.evidence_bytes(), header.lists_bytes());
        let frames_len = lists.saturating_sub(frames_at);
        let frames = self.slices(position.saturating_add(frames_at as u64), frames_len)?;
        let images = image_count(frames.0).saturating_add(image_count(frames.1));
        let images = images.checked_mul(self.geometry.block_size.bytes() as u64);
        let front = images.and_then(|images| header.total_bytes().checked_sub(images));
        let front = front.and_then(|front| usize::try_from(front).ok());
        let Some(len) = front.filter(|len| *len <= self.scratch.len()) else { return Ok(None) };
        let bytes = match self.slices(position, len)? {
            (whole, []) => whole,
            (first, second) => {
                let room = self.scratch.get_mut(..len).unwrap_or_default();
                for (into, byte) in room.iter_mut().zip(first.iter().chain(second)) {
                    *into = *byte;
                }
                room
            }
        };
        Ok(Front::parse(self.geometry, bytes))
    }

    /// Copies the front at `position`, of a part that was found whole, to the scratch memory;
    /// returns how long it is.
    pub(crate) fn copy_front(&mut self, position: u64) -> Result<Option<usize>, MediumError> {
        let Some(front) = self.front_at(position)? else { return Ok(None) };
        let len = front.bytes.len();
        let room = self.scratch.get_mut(..len).unwrap_or_default();
        self.ring.read(position, room)?;
        Ok(Some(len))
    }

    /// Where a lane offset is: most are of the same lap as the last one.
    #[inline(always)]
    fn near_offset(&mut self, position: u64) -> usize {
        let mut offset = position.wrapping_sub(self.lap);
        if offset >= self.ring.bytes() {
            offset = self.ring.offset_in_ring(position);
            self.lap = position.wrapping_sub(offset);
        }
        usize::try_from(offset).unwrap_or(usize::MAX)
    }

    /// The part at `position`, if it is whole and inside the bounds.
    ///
    /// Where all of it lies in one piece, the small check of its header is not looked at. The check
    /// of all of it says more.
    #[inline(always)]
    pub(crate) fn part(
        &mut self,
        position: u64,
        seed: u64,
        bounds: PartBounds,
    ) -> Result<Option<CheckedPart<'a>>, MediumError> {
        let offset = self.near_offset(position);
        let near = self.all.and_then(|all| all.get(offset..));
        let Some(near) = near.filter(|_| self.ring.keeps(Rule::RecordCheck)) else {
            return self.part_in_steps(position, seed, bounds);
        };
        let Some(header) = self.placed(position, near) else { return Ok(None) };
        let Some(total) = self.part_bytes(header) else { return Ok(None) };
        if total > near.len() {
            return self.part_in_steps(position, seed, bounds);
        }
        let check = self.check_of(position, near, total, seed, bounds);
        Ok(check.map(|check| CheckedPart { header, check }))
    }

    /// Like [`part`](Self::part), for one that wraps, or some of which cannot be read. A torn
    /// header does not say how much of what follows has to be readable: whatever is not all there
    /// then is no part.
    #[cold]
    fn part_in_steps(
        &mut self,
        position: u64,
        seed: u64,
        bounds: PartBounds,
    ) -> Result<Option<CheckedPart<'a>>, MediumError> {
        let Some(header) = self.placed_at(position)? else { return Ok(None) };
        let is_evidence = self.is_evidence(position, header)?;
        let Some(total) = self.part_bytes(header) else { return Ok(None) };
        let pieces = readable(self.slices(position, total))?;
        let is_checked = pieces.is_some() && self.ring.keeps(Rule::RecordCheck);
        if !is_evidence && !is_checked {
            return Ok(None);
        }
        let check = match pieces {
            Some((whole, [])) => self.check_of(position, whole, total, seed, bounds),
            _ => self.check_of_scattered(position, header, seed, bounds)?,
        };
        Ok(check.map(|check| CheckedPart { header, check }))
    }

    /// The check of the part at `position`, if it is whole and inside the bounds. The part is the
    /// first `total` bytes of `near`.
    #[inline(always)]
    fn check_of(
        &self,
        position: u64,
        near: &[u8],
        total: usize,
        seed: u64,
        bounds: PartBounds,
    ) -> Option<u64> {
        let part = near.get(..total)?;
        let front = Front::parse(self.geometry, part)?;
        let images = part.get(front.bytes.len()..)?;
        if !bounds.hold(position, front.header) {
            return None;
        }
        if front.bytes.len() > self.scratch.len()
            || !is_in(&front, self.geometry, self.lane, bounds)
        {
            return None;
        }
        let mut check = seed;
        let mut ahead = near.get(AHEAD_BYTES..).unwrap_or_default();
        self.prefetch(&mut ahead, front.bytes.len());
        for piece in images.chunks(PIECE_BYTES) {
            self.prefetch(&mut ahead, piece.len());
            check = self.kernels.crc64(check, piece);
        }
        whole_check(&front, self.kernels, check, self.ring.keeps(Rule::RecordCheck))
    }

    /// Begins to bring the next bytes of these into the caches. What foretells the processor what
    /// is read next ends with each page of memory.
    #[inline]
    fn prefetch(&self, ahead: &mut &[u8], len: usize) {
        let (next, rest) = ahead.split_at_checked(len).unwrap_or_default();
        self.kernels.prefetch(next);
        *ahead = rest;
    }

    /// Like [`check_of`](Self::check_of), for a part that wraps, or some of which cannot be read.
    fn check_of_scattered(
        &mut self,
        position: u64,
        header: &RecordHeader,
        seed: u64,
        bounds: PartBounds,
    ) -> Result<Option<u64>, MediumError> {
        let Self { ring, lane, geometry, kernels, .. } = *self;
        let Some(front) = self.scattered_front(position, header)? else { return Ok(None) };
        if !bounds.hold(position, header) || !is_in(&front, geometry, lane, bounds) {
            return Ok(None);
        }
        let images = header.total_bytes().saturating_sub(front.bytes.len() as u64);
        let mut check = seed;
        // Not even nothing is read from behind the part: that line is none of its business.
        if images > 0 {
            let behind = position.saturating_add(front.bytes.len() as u64);
            let images = usize::try_from(images).unwrap_or(usize::MAX);
            let (first, second) = ring.slices(behind, images)?;
            check = kernels.crc64(kernels.crc64(check, first), second);
        }
        Ok(whole_check(&front, kernels, check, ring.keeps(Rule::RecordCheck)))
    }

    /// The record of this sequence at `position`, if all its parts are whole.
    pub(crate) fn record(
        &mut self,
        position: u64,
        sequence: Sequence,
        bounds: PartBounds,
    ) -> Result<Option<Record<'a>>, MediumError> {
        // Not even read: behind a tail word nothing matters, not even whether it can be read.
        if position >= bounds.end {
            return Ok(None);
        }
        let Some(part) = self.part(position, self.identity.seeds.record, bounds)? else {
            return Ok(None);
        };
        if !self.is_of_record(part.header, sequence, 0) {
            return Ok(None);
        }
        if !part.header.is_last_part() {
            return self.record_of_parts(position, sequence, bounds, part);
        }
        let end = position.saturating_add(part.header.total_bytes());
        Ok(Some(Record { header: part.header, end }))
    }

    /// Whether this can be such a part of the record of such a sequence.
    #[inline(always)]
    fn is_of_record(&self, header: &RecordHeader, sequence: Sequence, index: u16) -> bool {
        let is_in_sequence = header.sequence.get() == sequence.raw();
        is_of_a_lane(header)
            && (is_in_sequence || !self.ring.keeps(Rule::PlaceChecked))
            && header.part.get() == index
    }

    /// The record of which this is the first part, and not the last one.
    fn record_of_parts(
        &mut self,
        position: u64,
        sequence: Sequence,
        bounds: PartBounds,
        mut part: CheckedPart<'a>,
    ) -> Result<Option<Record<'a>>, MediumError> {
        let (first, mut at, mut index) = (part.header, position, 0_u16);
        while !part.header.is_last_part() {
            at = at.saturating_add(part.header.total_bytes());
            let is_chained = self.ring.keeps(Rule::PartsChained);
            let seed = if is_chained { part.check } else { self.identity.seeds.record };
            let Some(next) = self.part(at, seed, bounds)? else { return Ok(None) };
            // It may wrap: the checks already tie the parts together, in order.
            index = index.wrapping_add(1);
            let header = next.header;
            let belongs = self.is_of_record(header, sequence, index)
                && first.epoch == header.epoch
                && first.stamp == header.stamp;
            if !belongs {
                return Ok(None);
            }
            part = next;
        }
        Ok(Some(Record { header: first, end: at.saturating_add(part.header.total_bytes()) }))
    }
}

/// Whether the frames of a front are of blocks, and in slots of the lane, that there are.
#[inline(always)]
fn is_in(front: &Front<'_>, geometry: &Geometry, lane: LaneNumber, bounds: PartBounds) -> bool {
    let is_named = |frame: Frame| {
        frame.slot(front.bytes).is_none_or(|named| {
            let slot = SlotNumber(named.slot.get());
            let is_logged = geometry.log_block(slot).is_some();
            geometry.lane_of_slot(slot) == lane && is_logged == (frame.form == Form::Log)
        })
    };
    let are_there = front.frames.is_empty() || front.highest_block < bounds.device_blocks;
    are_there && (!front.has_slots || front.frames(geometry).all(is_named))
}

/// The check of a part, continued from that of its images, if it is right.
#[inline(always)]
fn whole_check(front: &Front<'_>, kernels: &impl Kernels, images: u64, looks: bool) -> Option<u64> {
    let (body, right) = front.bytes.split_last_chunk()?;
    let check = kernels.crc64(images, body);
    (check == u64::from_le_bytes(*right) || !looks).then_some(check)
}

/// How many images these descriptors have.
fn image_count(frames: &[u8]) -> u64 {
    let frames = frames.chunks_exact(FRAME_BYTES);
    let frames = frames.filter_map(|bytes| FrameHeader::read_from_bytes(bytes).ok());
    frames.filter(|frame| frame.form == Form::Image as u8).count() as u64
}

impl<S: Source, K: Kernels> Reader<'_, S, K> {
    /// Calls with every frame of the whole record at `start`; returns where the next record begins.
    pub(crate) fn each_frame(
        &mut self,
        start: u64,
        call: &mut impl FnMut(FrameAt) -> Result<(), Full>,
    ) -> Result<u64, IndexError> {
        let mut at = start;
        loop {
            let (geometry, lane) = (self.geometry, self.lane);
            // It was there a moment ago.
            let gone = self.gone(at);
            let front = self.front_at(at).map_err(IndexError::Medium)?;
            let front = front.ok_or(IndexError::Medium(gone))?;
            let called = each_frame_of_front(geometry, lane, start, at, &front, &mut *call);
            called.map_err(|Full| IndexError::Full)?;
            at = at.saturating_add(front.header.total_bytes());
            if front.header.is_last_part() {
                return Ok(at);
            }
        }
    }
}

/// Calls with every frame of the part at `position`, whose front is given, of the record that
/// begins at `record`.
pub(crate) fn each_frame_of_front(
    geometry: &Geometry,
    lane: LaneNumber,
    record: u64,
    position: u64,
    front: &Front<'_>,
    mut call: impl FnMut(FrameAt) -> Result<(), Full>,
) -> Result<(), Full> {
    let is_intent = front.header.record_kind() == Some(RecordKind::Intent);
    let mut frames = front.frames(geometry).zip(front.stamps());
    frames.try_for_each(|(frame, stamp)| {
        let slot = frame.slot(front.bytes);
        if is_intent {
            return Ok(());
        }
        call(FrameAt {
            block: frame.block,
            stamp,
            lane,
            sequence: Sequence(front.header.sequence.get()),
            record,
            payload: slot.map_or(position.saturating_add(frame.offset), |at| at.content.get()),
            len: slot.map_or(frame.len, |at| at.slot.get()),
            form: frame.form,
            folded: false,
        })
    })
}

/// Whether a part of its kind can be where it is: no intent is in a lane, and a copy is whole.
fn is_of_a_lane(header: &RecordHeader) -> bool {
    match header.record_kind() {
        Some(RecordKind::Commit) => true,
        Some(RecordKind::Copy) => header.part.get() == 0 && header.is_last_part(),
        _ => false,
    }
}

/// Why a record's frames are not all in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexError {
    /// The index has no room for another frame.
    Full,
    /// The medium.
    Medium(MediumError),
}

/// A whole record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    /// The header of its first part.
    pub(crate) header: &'a RecordHeader,
    /// Behind its last part.
    pub(crate) end: u64,
}
