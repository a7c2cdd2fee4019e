//! The parts of a record: what the front of each says, where its frames lie, and how a lane stores
//! it.

use crate::format::front::{Extent, extent};
use crate::format::geometry::Geometry;
use crate::format::record::{
    CHECK_BYTES, FRAME_BYTES, FRAMES_PER_PART, Form, FrameHeader, HEADER_BYTES, HeaderFields,
    NAME_BYTES, Name, Note, RecordHeader, RecordKind, evidence_check, names_end,
};
use crate::format::slot_entry::{NAMED_SLOT_BYTES, NamedSlot};
use crate::index::frame::FrameAt;
use crate::order::ordered::{Hook, InFlight, Pace};
use crate::order::rule::Rule;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::Prefix;
use crate::ports::stitched::{Piece, Seeds, Stitched};
use crate::space::lane::{Lane, Names, OpenRecord};
use crate::units::{BlockNumber, LANES_MAX, LINE_BYTES, Offset, WORD_BYTES};

crate::sites! {
    pub(crate) mod site {
        IMAGE: Write = "commit.image";
        FRONT: Write = "commit.front";
        DEFERRED_IMAGE: Store = "deferred.image";
        DEFERRED_FRONT: Store = "deferred.front";
    }
}

/// A frame, before it is stored: what its descriptor will say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameIn {
    pub(crate) block: BlockNumber,
    /// Bytes of its payload.
    pub(crate) len: u32,
    pub(crate) form: Form,
    /// The operation that it is of, in its transaction.
    pub(crate) operation: u32,
}

impl FrameIn {
    /// No frame.
    pub(crate) const EMPTY: Self =
        Self { block: BlockNumber(0), len: 0, form: Form::Discard, operation: 0 };

    /// Puts its descriptor into a front at `at`; returns where it ends.
    #[inline(always)]
    pub(crate) fn put(&self, front: &mut [u8], at: usize) -> usize {
        let Self { block, len, form, .. } = *self;
        let (block, len) = (block.raw().into(), len.into());
        let header = FrameHeader { block, len, form: form as u8, reserved: [0; 3] };
        put_words(front, at, header.words())
    }
}

/// A frame with its image; with nothing where it has none.
pub(crate) type WithImage<'a> = (FrameIn, &'a [u8]);

/// The most bytes of encoded payload that one part has, in blocks.
pub(crate) const ENCODED_BLOCKS: usize = 2;

/// The most bytes of a front that a frame takes, beside what its policy encodes.
const FRAME_BYTES_MAX: usize = FRAME_BYTES + NAMED_SLOT_BYTES;

/// The most bytes of any front of this geometry, those of intents included.
pub(crate) const fn front_bytes_max(geometry: &Geometry) -> usize {
    let (of_record, of_intent) = (record_front_bytes_max(geometry), geometry.intent_front_bytes());
    if of_record as u64 > of_intent { of_record } else { of_intent as usize }
}

/// The most bytes of the front of a part of a record in a lane.
pub(crate) const fn record_front_bytes_max(geometry: &Geometry) -> usize {
    let lists = (LANES_MAX as usize)
        .saturating_mul(NAME_BYTES)
        .saturating_add(FRAMES_PER_PART.saturating_mul(FRAME_BYTES_MAX));
    let bytes = lists
        .saturating_add(HEADER_BYTES)
        .saturating_add(geometry.block_size.bytes().saturating_mul(ENCODED_BLOCKS))
        .saturating_add(CHECK_BYTES);
    bytes.next_multiple_of(LINE_BYTES)
}

/// The part of the scratch memory that the front of a record in a lane may take. Which records are
/// whole must not depend on how much memory there is.
pub(crate) fn record_front<'m>(front: &'m mut [u8], geometry: &Geometry) -> &'m mut [u8] {
    let bytes = record_front_bytes_max(geometry).min(front.len());
    front.get_mut(..bytes).unwrap_or_default()
}

/// What a front says beside its descriptors and payloads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lists<'a, N> {
    pub(crate) frame_count: usize,
    /// How many names there are, and a note.
    pub(crate) name_count: usize,
    /// The names of records.
    pub(crate) names: N,
    pub(crate) note: Option<Note>,
    pub(crate) last: bool,
    /// Where lists end, including payload already copied.
    pub(crate) end: usize,
    /// Payload still in the caller's memory: it comes behind the lists.
    pub(crate) lent: LentPayload<'a>,
}

/// Payload in the caller's memory: it is not in a front yet, and need not come there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LentPayload<'a> {
    /// All payloads, or the rest of the only one; they may be none.
    Bytes(&'a [u8]),
    /// All payloads, behind whole words.
    Pieces(&'a [Piece<'a>]),
}

impl<'a> LentPayload<'a> {
    /// The payloads that lie elsewhere as one; nothing where they are pieces.
    pub(crate) const fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Pieces(_) => &[],
        }
    }

    /// Copies all of it to `at`; returns where it ends.
    #[inline(always)]
    pub(crate) fn copy_to(self, front: &mut [u8], at: usize) -> usize {
        match self {
            Self::Bytes(bytes) => {
                let end = at.saturating_add(bytes.len());
                if let Some(to) = front.get_mut(at..end) {
                    to.copy_from_slice(bytes);
                }
                end
            }
            Self::Pieces(pieces) => {
                let end = pieces.iter().fold(at, |at, piece| piece.copy_to(front, at));
                debug_assert!(end <= front.len(), "the transaction was cut into parts that fit");
                end
            }
        }
    }
}

/// The payloads of a part that lie in its front, one after the other in the order of the frames.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Encoded<'a> {
    /// All payloads as they will lie there.
    Whole(&'a [u8]),
    /// A piece of each frame.
    Pieces(&'a [Piece<'a>]),
}

impl<'a> Encoded<'a> {
    /// Bytes of all of them.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match *self {
            Self::Whole(bytes) => bytes.len(),
            Self::Pieces(pieces) => {
                pieces.iter().fold(0, |sum: usize, piece| sum.saturating_add(piece.len()))
            }
        }
    }

    /// All payloads as one, where they are not pieces.
    #[inline]
    pub(crate) const fn whole(&self) -> &'a [u8] {
        match *self {
            Self::Whole(bytes) => bytes,
            Self::Pieces(_) => &[],
        }
    }

    /// All payloads, lent until they are stored.
    #[inline]
    pub(crate) const fn lent(&self) -> LentPayload<'a> {
        match *self {
            Self::Whole(bytes) => LentPayload::Bytes(bytes),
            Self::Pieces(pieces) => LentPayload::Pieces(pieces),
        }
    }
}

/// One part of a record, before it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a, F> {
    pub(crate) frame_count: usize,
    /// Its frames, `frame_count` of them, ascending by block.
    pub(crate) frames: F,
    pub(crate) encoded: Encoded<'a>,
    /// How many of the frames have an image.
    pub(crate) image_count: usize,
    pub(crate) names: &'a Names,
    pub(crate) last: bool,
}

/// Where the next payloads of a part lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextPayloads {
    /// Lane offset of what lies in the front, and how much of it was gone through.
    pub(super) encoded_at: u64,
    pub(super) used: usize,
    /// Lane offset of the next image.
    pub(crate) image_at: u64,
}

impl<F> Part<'_, F> {
    /// Bytes of its front before the descriptors.
    #[inline]
    pub(crate) fn names_end(&self) -> usize {
        names_end(self.names.count())
    }

    /// Bytes of its front before the payloads.
    #[inline]
    pub(crate) fn lists_bytes(&self) -> usize {
        self.names_end().saturating_add(self.frame_count.saturating_mul(FRAME_BYTES))
    }

    /// Where its first payloads lie, when it begins at a lane offset.
    #[inline]
    pub(crate) fn first_payloads(&self, position: u64, extent: &Extent) -> NextPayloads {
        NextPayloads {
            encoded_at: position.saturating_add(self.lists_bytes() as u64),
            used: 0,
            image_at: position.saturating_add(extent.front as u64),
        }
    }
}

/// How a part is stored.
#[derive(Debug)]
pub(crate) struct PartStore<'a> {
    pub(crate) geometry: &'a Geometry,
    /// Memory in which its front is made.
    pub(crate) front: &'a mut [u8],
    /// Whether its frames are taken in before it is stored.
    pub(crate) takes_in_first: bool,
}

impl<P: Pmem, H: Hook> Lane<P, H> {
    /// The sizes of the next part. The caller has seen to it that it fits.
    pub(crate) fn size_part<F>(
        &self,
        open: &OpenRecord,
        part: &Part<'_, F>,
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
    /// calls `take_in` with its frames.
    ///
    /// The first image goes out before anything else is done: all of the rest is computed while it
    /// is on its way. So each frame is taken in behind its image. Where there are no images, all
    /// frames are taken in behind the front. Frames that are to be taken in early are an exception
    /// to both.
    #[inline]
    pub(crate) fn store_part<'a>(
        &mut self,
        open: &mut OpenRecord,
        part: &Part<'a, impl Iterator<Item = WithImage<'a>> + Clone>,
        kernels: &impl Kernels,
        store: PartStore<'_>,
        mut take_in: impl FnMut(FrameAt),
    ) {
        let PartStore { geometry, front, takes_in_first } = store;
        let extent = &self.size_part(open, part, geometry);
        let Part { frame_count, ref frames, image_count, names, last, .. } = *part;
        let (encoded, lent) = (part.encoded.whole(), part.encoded.lent());
        let (end, first) = (part.lists_bytes(), part.first_payloads(open.next, extent));
        let has_images = image_count > 0;
        if takes_in_first {
            self.each_frame(open, part, first, &mut take_in);
        }
        let (mut next, mut check, mut at) = (first, open.check, part.names_end());
        for (frame, image) in frames.clone() {
            if frame.form == Form::Image {
                check = self.store_image(open, next.image_at, image, check, kernels);
            }
            at = frame.put(front, at);
            let frame = self.next_frame(open, encoded, frame, &mut next);
            if has_images && !takes_in_first {
                take_in(frame);
            }
        }
        let (name_count, note, names) = (names.count(), names.note(), names.each());
        let lists = Lists { frame_count, name_count, names, note, last, end, lent };
        self.store_front(open, extent, lists, check, kernels, front);
        if !has_images && !takes_in_first {
            self.each_frame(open, part, first, &mut take_in);
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
        let Lists { mut end, lent, name_count, note, .. } = lists;
        if let Some(note) = note {
            self.noted = Some((open.stamp, note));
        }
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
        // All lines but the last go out before the check is computed, which is in the last (C8).
        let is_ahead = open.pace == Pace::AtOnce && front.len() >= AHEAD_FROM_BYTES;
        let ahead = if is_ahead { front.len().saturating_sub(LINE_BYTES) } else { 0 };
        if is_ahead {
            let lines = front.get(..ahead).unwrap_or_default();
            open.add(self.ring.write_piece(site::FRONT, open.next, lines, extent.total));
        }
        if let Some((body, to)) = front.split_last_chunk_mut() {
            check = kernels.crc64_of_stored(check, body);
            *to = check.to_le_bytes();
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
        let lists = front.get(..end.next_multiple_of(WORD_BYTES)).unwrap_or_default();
        let stitched = match lent {
            LentPayload::Bytes(body) => Stitched::new(lists, end, body),
            LentPayload::Pieces(pieces) => Stitched::of_pieces(lists, pieces),
        };
        match stitched {
            Some(stitched) => self.put_stitched(position, &stitched, seeds),
            None => self.stitch_long_front(position, lists, lent.bytes(), seeds),
        }
    }

    /// Like [`stitch_front`](Self::stitch_front), for many frames, whose lists are longer than what
    /// goes by the shortest way. Takes only the position: passing `open` by reference would force
    /// it into memory for all callers.
    #[inline(never)]
    fn stitch_long_front(
        &mut self,
        position: u64,
        lists: &[u8],
        body: &[u8],
        seeds: Seeds,
    ) -> (InFlight, u64) {
        let piece = [Piece { prefix: Prefix::NONE, bytes: body }];
        let pieces = if body.is_empty() { &[] } else { &piece[..] };
        let Some(stitched) = Stitched::of_pieces(lists, pieces) else {
            unreachable!("lists are whole words")
        };
        self.put_stitched(position, &stitched, seeds)
    }

    /// Writes a stitched front, which does not wrap.
    #[inline(always)]
    fn put_stitched(
        &mut self,
        position: u64,
        stitched: &Stitched<'_>,
        seeds: Seeds,
    ) -> (InFlight, u64) {
        let offset = Offset(self.ring.offset_in_ring(position));
        self.ring.region.write_checked(site::FRONT, offset, stitched, seeds)
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
        let Lists { frame_count, name_count, names, note, last, .. } = lists;
        let header = RecordHeader::of(&HeaderFields {
            kind: RecordKind::Commit,
            part: open.parts,
            is_last: last,
            is_noted: note.is_some(),
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
        if let Some(note) = note {
            at = put_words(front, at, note);
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
                    let named: NamedSlot = zerocopy::transmute!(*named.unwrap_or(&NO_SLOT));
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

    /// Calls with every frame of a part. Lent like this, `call` is inlined. Otherwise each frame
    /// would be stored, to be lent to it (C2).
    #[inline(always)]
    fn each_frame<'a, C: FnMut(FrameAt)>(
        &self,
        open: &OpenRecord,
        part: &Part<'a, impl Iterator<Item = WithImage<'a>> + Clone>,
        mut next: NextPayloads,
        call: &mut C,
    ) {
        for (frame, _) in part.frames.clone() {
            call(self.next_frame(open, part.encoded.whole(), frame, &mut next));
        }
    }
}

/// Stands for a slot where there is none.
const NO_SLOT: [u8; NAMED_SLOT_BYTES] = [0; NAMED_SLOT_BYTES];

/// From how many bytes on a front goes out in two pieces.
const AHEAD_FROM_BYTES: usize = 3 * LINE_BYTES;

/// Writes words from `at` on; returns where they end.
#[inline]
pub(crate) fn put_words<const COUNT: usize>(
    front: &mut [u8],
    at: usize,
    words: [u64; COUNT],
) -> usize {
    let end = at.saturating_add(COUNT.saturating_mul(WORD_BYTES));
    let targets = front.get_mut(at..end).unwrap_or_default();
    for (to, word) in targets.chunks_exact_mut(WORD_BYTES).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    end
}
