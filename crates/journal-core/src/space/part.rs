//! The parts of a record before they are stored: what the front of each says, and where its frames
//! lie.
//!
//! Nothing here stores anything on the medium; [`crate::space::lane`] does.

use crate::format::front::Extent;
use crate::format::geometry::Geometry;
use crate::format::record::{
    CHECK_BYTES, FRAME_BYTES, FRAMES_PER_PART, Form, FrameHeader, HEADER_BYTES, NAME_BYTES,
};
use crate::format::slot_entry::SLOT_FRAME_BYTES;
use crate::ports::stitched::Piece;
use crate::space::open_record::Names;
use crate::units::{BlockNumber, LANES_MAX, LINE_BYTES, WORD_BYTES};

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

/// Where the images of frames are.
pub(crate) trait Images {
    /// That of a frame of [`Form::Image`].
    fn image(&self, frame: &FrameIn) -> &[u8];
}

/// There are none.
pub(crate) struct NoImages;

impl Images for NoImages {
    fn image(&self, _frame: &FrameIn) -> &[u8] {
        &[]
    }
}

/// The most bytes of encoded payload that one part has, in blocks.
pub(crate) const ENCODED_BLOCKS: usize = 2;

/// The most bytes of a front that a frame takes, beside what its policy encodes.
const FRAME_BYTES_MAX: usize = FRAME_BYTES + SLOT_FRAME_BYTES;

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
    pub(crate) name_count: usize,
    /// The names of records, `name_count` of them.
    pub(crate) names: N,
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
                if let Some(place) = front.get_mut(at..end) {
                    place.copy_from_slice(bytes);
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
    /// As they will be there.
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
pub(crate) struct Part<'a, I: ?Sized, F> {
    pub(crate) frame_count: usize,
    /// Its frames, `frame_count` of them, ascending by block.
    pub(crate) frames: F,
    pub(crate) encoded: Encoded<'a>,
    pub(crate) images: &'a I,
    /// How many of the frames have an image.
    pub(crate) image_count: usize,
    pub(crate) names: &'a Names,
    pub(crate) last: bool,
}

/// Where the next payloads of a part lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextPayloads {
    /// Log offset of what lies in the front, and how much of it was gone through.
    pub(super) encoded_at: u64,
    pub(super) used: usize,
    /// Log offset of the next image.
    pub(crate) image_at: u64,
}

impl<I: ?Sized, F> Part<'_, I, F> {
    /// Bytes of its front before the descriptors.
    #[inline]
    pub(crate) fn names_end(&self) -> usize {
        HEADER_BYTES.saturating_add(self.names.count().saturating_mul(NAME_BYTES))
    }

    /// Bytes of its front before the payloads.
    #[inline]
    pub(crate) fn lists_bytes(&self) -> usize {
        self.names_end().saturating_add(self.frame_count.saturating_mul(FRAME_BYTES))
    }

    /// Where its first payloads lie, when it begins at a log offset.
    #[inline]
    pub(crate) fn first_payloads(&self, position: u64, extent: &Extent) -> NextPayloads {
        NextPayloads {
            encoded_at: position.saturating_add(self.lists_bytes() as u64),
            used: 0,
            image_at: position.saturating_add(extent.front as u64),
        }
    }
}

/// Writes words from `at` on; returns where they end.
#[inline]
pub(crate) fn put_words<const COUNT: usize>(
    front: &mut [u8],
    at: usize,
    words: [u64; COUNT],
) -> usize {
    let end = at.saturating_add(COUNT.saturating_mul(WORD_BYTES));
    let places = front.get_mut(at..end).unwrap_or_default();
    for (place, word) in places.chunks_exact_mut(WORD_BYTES).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    end
}
