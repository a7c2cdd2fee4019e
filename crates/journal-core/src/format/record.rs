//! The form of a record: one transaction in a lane's ring.
//!
//! ```text
//! line 0        header                                             64 bytes
//! line 1 ..     names of records in other lanes                    16 bytes each
//!               descriptors of the frames                          16 bytes each
//!               encoded payloads, one after the other
//!               zeroes
//!               check of the images, then of everything before      8 bytes, ends a line
//! then          images of the frames that have one                 whole lines each
//! ```
//!
//! What is in front of the images is the *front*. The header, together with the names, has a small
//! check of its own. What they say counts as evidence even where the record as a whole is torn.
//!
//! The images come first in the check. It is computed of them while they go out, and of the front
//! once all that it says is known.
//!
//! A transaction that is too large for one front is stored in several *parts*, each of this form,
//! with one sequence and consecutive positions. Each part's check continues from the one before, so
//! that the last part's covers all of them, in order.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::identity::Identity;
use crate::ports::kernels::Kernels;
use crate::units::{LANES_MAX, LINE_BYTES, LaneNumber, Sequence, Stamp};

/// Lines of the shortest front that describes an image.
pub const RECORD_LINES_MIN: usize = 2;

/// The most frames that one part has.
pub(crate) const FRAMES_PER_PART: usize = 64;

/// No counter gets here: the fastest of them counts bytes, and no medium endures this number of
/// them. What counts up from a header never has to look for the end of its type.
pub(crate) const COUNTER_END: u64 = 1 << 61;

/// No journal is opened of which a counter is here or above: whatever is written from then on stays
/// below [`COUNTER_END`].
pub(crate) const COUNTER_OPEN_END: u64 = COUNTER_END / 2;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// A transaction.
    Commit = 1,
    /// Whole images of blocks that are about to be overwritten at home.
    Intent = 2,
    /// Whole content of blocks, copied within the lanes so that what it is a copy of can go.
    Copy = 3,
}

impl RecordKind {
    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Commit),
            2 => Some(Self::Intent),
            3 => Some(Self::Copy),
            _ => None,
        }
    }

    /// Whether its frames keep the stamps of what they are copies of, among the encoded bytes.
    pub(crate) const fn has_stamps(self) -> bool {
        matches!(self, Self::Intent | Self::Copy)
    }
}

/// What the header of an intent says in the place of a lane.
pub const SHIELD_LANE: LaneNumber = LaneNumber(u8::MAX as u16);

const _: () = assert!(LANES_MAX <= SHIELD_LANE.raw(), "no lane has its number");

/// Set in the last part of a record.
const LAST_PART: u8 = 1;

/// Set where the last entry of the names is no name: it is the transaction's note.
const NOTED: u8 = 2;

/// The first line of a part.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RecordHeader {
    /// The lower half of the CRC-64 of the header, this being zero, and the names, with the seed of
    /// records.
    pub check: U32,
    /// A [`RecordKind`].
    pub kind: u8,
    /// Bit 0: the last part. Bit 1: the last of the names is a note.
    pub flags: u8,
    /// Which part of its record, modulo 2^16.
    pub part: U16,
    /// Lines of the whole part.
    pub lines: U32,
    /// Frames in the part.
    pub frames: U16,
    /// Names in the part, with its note if there is one.
    pub names: u8,
    /// The lane that the part is in; [`SHIELD_LANE`] in an intent.
    pub lane: u8,
    /// The part's lane offset: how many bytes the lane held before it, ever.
    pub position: U64,
    /// The record's sequence in its lane.
    pub sequence: U64,
    /// The epoch it was written in.
    pub epoch: U64,
    /// The superblock's generation it was written under.
    pub generation: U64,
    /// Every record of the lane below this sequence was durable when this one was written.
    pub watermark: U64,
    /// Orders versions of a block across lanes.
    pub stamp: U64,
}

/// Proof that a record of another lane was durable when this one was written.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Name {
    /// Which lane.
    pub lane: U16,
    /// Zero.
    pub reserved: [u8; 6],
    /// The record's sequence there.
    pub sequence: U64,
}

/// One block's part of a record.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FrameHeader {
    /// Which block.
    pub block: U64,
    /// Bytes of the payload.
    pub len: U32,
    /// A [`Form`].
    pub form: u8,
    /// Zero.
    pub reserved: [u8; 3],
}

/// Bytes of a check.
pub(crate) const CHECK_BYTES: usize = 8;
pub(crate) const HEADER_BYTES: usize = size_of::<RecordHeader>();
pub(crate) const NAME_BYTES: usize = size_of::<Name>();

/// Two words that a store gives with a transaction. They take the place of a name.
pub(crate) type Note = [u64; 2];
pub(crate) const FRAME_BYTES: usize = size_of::<FrameHeader>();

/// Bytes of a stamp.
pub(crate) const STAMP_BYTES: usize = size_of::<u64>();

/// Bytes that an intent or a copy has for each frame: its descriptor, and the stamp of what it
/// copies.
pub(crate) const INTENT_FRAME_BYTES: usize = FRAME_BYTES + STAMP_BYTES;

const _: () = assert!(HEADER_BYTES == LINE_BYTES && NAME_BYTES == 16 && FRAME_BYTES == 16);
const _: () = assert!(size_of::<Note>() == NAME_BYTES);

/// How a frame carries its block's new content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// The whole image, behind the front.
    Image = 1,
    /// What the policy encoded, in the front.
    Encoded = 2,
    /// Nothing: the block is not live any more.
    Discard = 3,
    /// The whole image, in a slot; the front says which, and what its content's check is.
    Slot = 4,
    /// The whole image, at home: it was synced there before.
    Home = 5,
    /// The whole image, in the disk-side log, synced there before; the front says where, and what
    /// its content's check is.
    Log = 6,
}

impl Form {
    #[inline]
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Image),
            2 => Some(Self::Encoded),
            3 => Some(Self::Discard),
            4 => Some(Self::Slot),
            5 => Some(Self::Home),
            6 => Some(Self::Log),
            _ => None,
        }
    }
}

/// Fields as words, put together in registers (C1), for `Name`, `FrameHeader` and `RecordHeader`.
impl Name {
    pub(crate) fn new(lane: LaneNumber, sequence: Sequence) -> Self {
        Self { lane: lane.raw().into(), reserved: [0; 6], sequence: sequence.raw().into() }
    }

    #[inline]
    pub(crate) fn words(self) -> [u64; 2] {
        [self.lane.get().into(), self.sequence.get()]
    }
}

impl FrameHeader {
    #[inline]
    pub(crate) fn words(self) -> [u64; 2] {
        let Self { block, len, form, reserved: _ } = self;
        [block.get(), u64::from(len.get()) | u64::from(form) << 32]
    }
}

/// What the header of a part says, except its check, which covers the names as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderFields<'a> {
    pub(crate) kind: RecordKind,
    /// Which part of its record.
    pub(crate) part: u64,
    pub(crate) is_last: bool,
    /// Whether the last of its names is a note.
    pub(crate) is_noted: bool,
    pub(crate) lines: u32,
    pub(crate) frames: usize,
    pub(crate) names: usize,
    pub(crate) lane: LaneNumber,
    pub(crate) position: u64,
    pub(crate) sequence: Sequence,
    /// Every record of the lane below this sequence is durable. The header calls it `watermark`.
    pub(crate) durable_to: Sequence,
    pub(crate) stamp: Stamp,
    /// The epoch and the generation that it is written in.
    pub(crate) identity: &'a Identity,
}

impl RecordHeader {
    /// The header of a part, its check being zero, for commits, copies and intents alike.
    ///
    /// This function makes flags, epoch and generation. The maker of the record gives every other
    /// value in [`HeaderFields`]: `space/part.rs`, `home/shield.rs` and `reclaim/relog.rs`.
    #[inline(always)]
    pub(crate) fn of(fields: &HeaderFields<'_>) -> Self {
        const { assert!(LANES_MAX <= u8::MAX as u16, "a part has a name for each lane at most") };
        #[rustfmt::skip]
        let &HeaderFields {
            kind, part, is_last, is_noted, lines, frames, names, lane,
            position, sequence, durable_to, stamp, identity,
        } = fields;
        Self {
            check: U32::ZERO,
            kind: kind as u8,
            flags: if is_last { LAST_PART } else { 0 } | if is_noted { NOTED } else { 0 },
            part: ((part & u64::from(u16::MAX)) as u16).into(),
            lines: lines.into(),
            frames: u16::try_from(frames).unwrap_or(u16::MAX).into(),
            names: u8::try_from(names).unwrap_or(u8::MAX),
            lane: (lane.raw() & u16::from(u8::MAX)) as u8,
            position: position.into(),
            sequence: sequence.raw().into(),
            epoch: identity.epoch.raw().into(),
            generation: identity.generation.raw().into(),
            watermark: durable_to.raw().into(),
            stamp: stamp.raw().into(),
        }
    }

    #[inline]
    pub(crate) fn words(self) -> [u64; 8] {
        // All fields are named, so that a new one does not compile before it is stored.
        #[rustfmt::skip]
        let Self {
            check, kind, flags, part, lines, frames, names, lane,
            position, sequence, epoch, generation, watermark, stamp,
        } = self;
        let (check, part) = (u64::from(check.get()), u64::from(part.get()));
        let first = check | u64::from(kind) << 32 | u64::from(flags) << 40 | part << 48;
        let (frames, names) = (u64::from(frames.get()), u64::from(names));
        let second = u64::from(lines.get()) | frames << 32 | names << 48 | u64::from(lane) << 56;
        let [position, sequence] = [position.get(), sequence.get()];
        let [epoch, generation] = [epoch.get(), generation.get()];
        [first, second, position, sequence, epoch, generation, watermark.get(), stamp.get()]
    }

    /// Its kind, if there is such a one.
    #[must_use]
    pub const fn record_kind(&self) -> Option<RecordKind> {
        RecordKind::from_byte(self.kind)
    }

    /// Whether the record ends with this part.
    #[must_use]
    pub const fn is_last_part(&self) -> bool {
        self.flags & LAST_PART != 0
    }

    /// Whether the last entry of its names is a note.
    #[must_use]
    pub const fn has_note(&self) -> bool {
        self.flags & NOTED != 0 && self.names > 0
    }

    /// Whether it says that it is of this lane.
    #[inline]
    pub(crate) fn is_of(&self, lane: LaneNumber) -> bool {
        u16::from(self.lane) == lane.raw()
    }

    /// Whether no counter is where none can be.
    pub(crate) fn counters_are_in_range(&self) -> bool {
        let Self { position, sequence, epoch, generation, watermark, stamp, .. } = self;
        let counters = [position, sequence, epoch, generation, watermark, stamp];
        // The end is a power of two: the bits of all of them are below it, or one of them is not.
        counters.iter().fold(0, |bits, counter| bits | counter.get()) < COUNTER_END
    }

    /// Bytes of the whole part.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.lines.get()).saturating_mul(LINE_BYTES as u64)
    }

    /// Bytes of its names.
    pub(crate) fn names_bytes(&self) -> usize {
        usize::from(self.names).saturating_mul(NAME_BYTES)
    }

    /// Bytes of the header and its names: what the small check covers.
    pub(crate) fn evidence_bytes(&self) -> usize {
        names_end(self.names.into())
    }

    /// Bytes of header, names and descriptors.
    pub(crate) fn lists_bytes(&self) -> usize {
        usize::from(self.frames.get())
            .saturating_mul(FRAME_BYTES)
            .saturating_add(self.evidence_bytes())
    }
}

/// Bytes of a header and that many names. The descriptors begin there.
#[inline(always)]
pub(crate) const fn names_end(names: usize) -> usize {
    HEADER_BYTES.saturating_add(names.saturating_mul(NAME_BYTES))
}

const _: () = assert!(COUNTER_END.is_power_of_two());

/// The small check of a header with its names, just stored; its own place for it is zero.
#[inline]
pub(crate) fn evidence_check(kernels: &impl Kernels, seed: u64, evidence: &[u8]) -> u32 {
    (kernels.crc64_of_stored(seed, evidence) & u64::from(u32::MAX)) as u32
}

/// Whether the small check that a header says is the one of it and its names, in pieces.
#[inline]
pub(crate) fn is_evidence(
    kernels: &impl Kernels,
    seed: u64,
    header: &RecordHeader,
    names: [&[u8]; 2],
) -> bool {
    // A CRC begins with the sum of the seed and the first word. So what is to be zero there may as
    // well be in both.
    let check = header.check.get();
    let mut right = kernels.crc64(seed ^ u64::from(check), header.as_bytes());
    // Most headers have no names.
    for piece in names.into_iter().filter(|piece| !piece.is_empty()) {
        right = kernels.crc64(right, piece);
    }
    right & u64::from(u32::MAX) == u64::from(check)
}

/// The names behind a header, in pieces, without the note where there is one; and the note. An
/// entry lies in one piece: both begin at a multiple of its length.
pub(crate) fn split_note<'a>(
    header: &RecordHeader,
    (first, second): (&'a [u8], &'a [u8]),
) -> ([&'a [u8]; 2], Option<Note>) {
    if !header.has_note() {
        return ([first, second], None);
    }
    let (names, last) = match second {
        [] => first
            .split_last_chunk()
            .map_or(([first, second], None), |(first, last)| ([first, second], Some(last))),
        _ => second
            .split_last_chunk()
            .map_or(([first, second], None), |(second, last)| ([first, second], Some(last))),
    };
    let note = last.map(|last: &[u8; NAME_BYTES]| {
        let words: [U64; 2] = zerocopy::transmute!(*last);
        words.map(U64::get)
    });
    (names, note)
}

/// The names that some bytes behind a header are.
pub(crate) fn names(bytes: &[u8]) -> impl Iterator<Item = (LaneNumber, Sequence)> + '_ {
    bytes.chunks_exact(NAME_BYTES).filter_map(|bytes| {
        let name = Name::read_from_bytes(bytes).ok()?;
        Some((LaneNumber(name.lane.get()), Sequence(name.sequence.get())))
    })
}

// Thousands of checks, which Miri would take minutes for.
#[cfg(all(test, not(miri)))]
mod tests {
    extern crate std;

    use core::array;
    use std::collections::BTreeSet;
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::ports::kernels::PortableKernels;

    /// For each bit of a header and its names: how the check in the header and the computed check
    /// differ once that bit is turned.
    fn syndromes(seed: u64, evidence: &[u8]) -> Vec<u32> {
        let check = |bytes: &[u8]| evidence_check(&PortableKernels, seed, bytes);
        let right = check(evidence);
        let of_the_check = (0..u32::BITS).map(|bit| 1 << bit);
        let mut turned = evidence.to_vec();
        let of_the_rest = (u32::BITS as usize..8 * evidence.len()).map(|bit| {
            let mask = 1 << (bit % 8);
            turned[bit / 8] ^= mask;
            let found = check(&turned);
            turned[bit / 8] ^= mask;
            found ^ right
        });
        of_the_check.chain(of_the_rest).collect()
    }

    /// A CRC is linear: whatever the header and the seed, an error is found unless what its bits do
    /// cancels out.
    #[test]
    fn what_a_bit_does_to_the_small_check_depends_on_nothing_else() {
        let plain = syndromes(0, &[0; HEADER_BYTES]);
        let header: [u8; HEADER_BYTES] = array::from_fn(|at| if at < 4 { 0 } else { 3 * at as u8 });
        assert_eq!(syndromes(0x0123_4567_89AB_CDEF, &header), plain);
    }

    #[test]
    fn the_small_check_finds_errors_of_three_bits() {
        let bits = syndromes(0, &[0; HEADER_BYTES]);
        let all: BTreeSet<u32> = bits.iter().copied().collect();
        assert!(!all.contains(&0), "each bit matters");
        assert_eq!(all.len(), 8 * HEADER_BYTES, "no two make up for each other");
        for (at, second) in bits.iter().enumerate() {
            let made_up = |first: &&u32| all.contains(&(*first ^ second));
            assert_eq!(bits[..at].iter().find(made_up), None, "no third makes up for two");
        }
    }

    #[test]
    fn the_small_check_finds_errors_within_25_bits() {
        for near in syndromes(0, &[0; HEADER_BYTES]).windows(25) {
            // No sum of them is zero: each has a bit that none of those left of the others has.
            let mut left = near.to_vec();
            while let Some(one) = left.pop() {
                assert_ne!(one, 0);
                let bit = one & one.wrapping_neg();
                left.iter_mut().filter(|other| **other & bit != 0).for_each(|other| *other ^= one);
            }
        }
    }

    /// What a bit does depends on how far from the end it is, so this holds of fewer names too.
    #[test]
    fn the_small_check_finds_errors_of_two_bits_in_names() {
        let evidence = vec![0; HEADER_BYTES + NAME_BYTES * usize::from(LANES_MAX)];
        let bits: BTreeSet<u32> = syndromes(0, &evidence).into_iter().collect();
        assert!(!bits.contains(&0) && bits.len() == 8 * evidence.len());
    }
}
