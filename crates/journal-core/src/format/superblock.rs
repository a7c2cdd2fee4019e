//! The superblock, byte by byte.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first bytes of every superblock.
pub const MAGIC: [u8; 8] = *b"nvmjrnl\0";

/// The first bytes of a span that somebody began to format and did not finish.
pub const VOID_MAGIC: [u8; 8] = *b"nvmjvoid";

/// The version of the on-media format.
pub const FORMAT_VERSION: u32 = 2;

/// The incompatible feature of
/// [`Protocol::TailPointer`](crate::format::geometry::Protocol::TailPointer): there are tail words,
/// and records count up to them only.
pub const TAIL_POINTER: u64 = 1;

/// The incompatible feature of a journal with slots: frames may name them, and entries of theirs
/// count beside the lanes.
pub const SLOTS: u64 = 2;

/// The incompatible feature of a journal with a disk-side log: frames may name its blocks, and
/// entries of theirs count beside the lanes.
pub const DISK_LOG: u64 = 4;

/// The incompatible feature of a journal whose records may have notes. The newest note is in the
/// superblock too.
pub const NOTES: u64 = 8;

/// The part of the superblock that does not depend on the number of lanes. 128 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SuperblockHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`FORMAT_VERSION`].
    pub version: U32,
    /// Bytes of a block.
    pub block_bytes: U32,
    /// Features that a reader may ignore.
    pub compatible: U64,
    /// Features that a reader must know, or refuse the journal.
    pub incompatible: U64,
    /// The journal's identity, chosen when it was formatted.
    pub journal_id: [u8; 16],
    /// Bytes of each lane's ring.
    pub lane_bytes: U64,
    /// Which policy wrote the journal.
    pub policy: U32,
    /// Blocks of the shield area.
    pub shield_blocks: U32,
    /// Bytes of a media unit.
    pub unit_bytes: U32,
    /// How many lanes there are.
    pub lanes: U16,
    /// Zero.
    pub reserved: U16,
    /// Blocks of the device that the journal belongs to.
    pub device_blocks: U64,
    /// Raised by every superblock write.
    pub generation: U64,
    /// Raised by every open.
    pub epoch: U64,
    /// At or above every stamp that has been dropped.
    pub stamp_floor: U64,
    /// The lowest batch number that is believed in the shield area.
    pub shield_floor: U64,
    /// Slots of each lane.
    pub lane_slots: U32,
    /// Blocks of each lane in the disk-side log.
    pub lane_log_blocks: U32,
    /// Blocks of a segment of the disk-side log.
    pub segment_blocks: U32,
    /// The lower half of the generation, exclusive-or the bytes `clsd`, if this was written by
    /// formatting or by a close. Else another number: zero where that is one.
    pub closed: U32,
}

/// What the superblock says of one lane. 32 bytes.
#[derive(
    Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, PartialEq,
)]
#[repr(C)]
pub struct LaneMark {
    /// Lane offset of the first live record.
    pub head: U64,
    /// Its sequence.
    pub head_sequence: U64,
    /// The first sequence of the current epoch: every record below is known durable.
    pub epoch_first: U64,
    /// Every record below was known durable when the superblock was written.
    pub durable_to: U64,
}

/// What the superblock says of notes, with the feature [`NOTES`]. 32 bytes, behind its check.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct KeptNote {
    /// The stamp of the record whose note it is; 0 where there was none yet.
    pub stamp: U64,
    /// The note.
    pub note: [U64; 2],
    /// The CRC-64 of the bytes before, with the superblock's check as its seed.
    pub check: U64,
}

const _: () = assert!(size_of::<SuperblockHeader>() == 128 && size_of::<LaneMark>() == 32);
const _: () = assert!(size_of::<KeptNote>() == 32);

pub(crate) const CHECK_BYTES: usize = 8;

/// Bytes of a superblock of a journal with this number of lanes, its check included.
#[must_use]
pub const fn superblock_bytes(lanes: u16) -> usize {
    size_of::<SuperblockHeader>()
        .saturating_add((lanes as usize).saturating_mul(size_of::<LaneMark>()))
        .saturating_add(CHECK_BYTES)
}
