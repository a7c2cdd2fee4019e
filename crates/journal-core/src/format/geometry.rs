//! Where everything lies in a span.
//!
//! ```text
//! | superblock A | superblock B | shield area | tail words | lane 0 | lane 1 | ...
//! | slot entries of lane 0 | of lane 1 | ... | slots of lane 0 | of lane 1 | ...
//! ```
//!
//! Tail words there are only with [`Protocol::TailPointer`], and slots where the geometry has some.
//!
//! The disk-side log lies on the device, behind the blocks of the store: the segments of lane 0,
//! those of lane 1, and so on. Its blocks are numbered as if they were further slots of their
//! lanes, and have entries as slots have.
//!
//! The superblock copies lie in separate media units, so that one bad unit never takes both. Each
//! part becomes an exclusive region of its own.

use core::fmt;

use crate::format::record::{CHECK_BYTES, INTENT_FRAME_BYTES, RECORD_LINES_MIN};
use crate::format::slot_entry::ENTRY_BYTES;
use crate::format::superblock::superblock_bytes;
use crate::format::tail_word::LANE_BYTES_MAX;
use crate::units::{BlockSize, LINE_BYTES, LaneNumber, Offset, SlotNumber};

pub use crate::units::LANES_MAX;

/// The largest media unit: where the first superblock copy is not whole, the second one is looked
/// for at every line up to here.
pub const UNIT_BYTES_MAX: u32 = 1 << 21;

/// The most blocks that one batch of a checkpoint protects: an intent's front, and the list of its
/// blocks, are kept in memory.
pub const SHIELD_BLOCKS_MAX: u32 = 4096;

/// The most slots that a journal can have.
pub const SLOTS_MAX: u32 = 1 << 30;

/// How a commit becomes durable; fixed when a journal is formatted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Protocol {
    /// One fence: a record counts if its check is right.
    #[default]
    OneFence,
    /// Two fences: the record, then the lane's tail word; a record counts if it lies below that.
    ///
    /// The protocol of the published systems, kept as a baseline for comparisons. It costs one
    /// fence more. In return, the last commit is no longer the one whose rot looks like a torn
    /// tail.
    TailPointer,
}

/// The shape of a journal; fixed when it is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Geometry {
    /// The store's block.
    pub block_size: BlockSize,
    /// How many lanes: the number of threads that commit without waiting for each other.
    pub lanes: u16,
    /// Bytes of each lane's ring; a multiple of the line.
    pub lane_bytes: u64,
    /// Blocks that one batch of a checkpoint protects against torn overwrites; zero where the
    /// device never tears.
    pub shield_blocks: u32,
    /// Bytes of a media unit: what a medium error takes at once. A multiple of the line, and at
    /// most [`UNIT_BYTES_MAX`].
    pub unit_bytes: u32,
    /// How a commit becomes durable.
    pub protocol: Protocol,
    /// Slots of each lane: each has room for a block, beside the rings, for policies that keep
    /// versions of blocks in them. Zero for those that do not.
    pub lane_slots: u32,
    /// Blocks of each lane in the disk-side log, for policies that write whole blocks there; a
    /// multiple of `segment_blocks`. Zero for those that do not.
    pub lane_log_blocks: u32,
    /// Blocks of a segment of the disk-side log: written one behind the other, and used again when
    /// none of them is needed. Zero exactly where there is no log.
    pub segment_blocks: u32,
}

/// A geometry that no journal can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeometryError {
    /// No lane, or more than [`LANES_MAX`].
    Lanes {
        /// How many were asked for.
        lanes: u16,
    },
    /// A lane is not a multiple of the line, or cannot hold a record of one block.
    LaneBytes {
        /// What was asked for.
        bytes: u64,
        /// The least there has to be.
        least: u64,
    },
    /// A lane is longer than a tail word can say.
    LaneTooLong {
        /// What was asked for.
        bytes: u64,
        /// The most there can be.
        most: u64,
    },
    /// The media unit is not a multiple of the line, a superblock does not fit into it, or it is
    /// larger than [`UNIT_BYTES_MAX`].
    UnitBytes {
        /// What was asked for.
        bytes: u32,
        /// The least there has to be.
        least: u32,
    },
    /// More slots than can be numbered.
    LaneSlots {
        /// What was asked for.
        slots: u32,
    },
    /// The disk-side log is not made of whole segments.
    Segments {
        /// Blocks of each lane that were asked for.
        blocks: u32,
        /// Blocks of a segment that were asked for.
        segment_blocks: u32,
    },
    /// More blocks in a batch than one record describes.
    ShieldBlocks {
        /// What was asked for.
        blocks: u32,
    },
    /// The span would have more bytes than can be counted.
    Overflow,
    /// The span is smaller than the geometry.
    SpanTooSmall {
        /// What the geometry needs.
        needed: u64,
        /// What there is.
        available: u64,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lanes { lanes } => write!(f, "{lanes} lanes; there are 1 to {LANES_MAX}"),
            Self::LaneBytes { bytes, least } => {
                write!(f, "lanes of {bytes} bytes; multiples of {LINE_BYTES} from {least} on")
            }
            Self::LaneTooLong { bytes, most } => {
                write!(f, "lanes of {bytes} bytes; with tail words up to {most}")
            }
            Self::UnitBytes { bytes, least } => {
                write!(
                    f,
                    "media units of {bytes} bytes; multiples of {LINE_BYTES} from {least} to \
                     {UNIT_BYTES_MAX}"
                )
            }
            Self::ShieldBlocks { blocks } => {
                write!(f, "batches of {blocks} blocks; there are up to {SHIELD_BLOCKS_MAX}")
            }
            Self::LaneSlots { slots } => {
                write!(
                    f,
                    "{slots} slots and log blocks in each lane; all together there are up to \
                     {SLOTS_MAX}"
                )
            }
            Self::Segments { blocks, segment_blocks } => {
                write!(f, "{blocks} log blocks in each lane, in segments of {segment_blocks}")
            }
            Self::Overflow => f.write_str("the span would be too large to count"),
            Self::SpanTooSmall { needed, available } => {
                write!(f, "the journal needs {needed} bytes, the span has {available}")
            }
        }
    }
}

impl core::error::Error for GeometryError {}

const LINE: u64 = LINE_BYTES as u64;

impl Geometry {
    /// Checks every bound that the rest of the crate relies on. `const`, so that a program whose
    /// geometry is fixed can be refused by the compiler.
    ///
    /// # Errors
    /// The first bound that does not hold.
    pub const fn check(&self) -> Result<(), GeometryError> {
        if self.lanes == 0 || self.lanes > LANES_MAX {
            return Err(GeometryError::Lanes { lanes: self.lanes });
        }
        let least = self.record_bytes_one_block();
        if self.lane_bytes % LINE != 0 || self.lane_bytes < least {
            return Err(GeometryError::LaneBytes { bytes: self.lane_bytes, least });
        }
        if matches!(self.protocol, Protocol::TailPointer) && self.lane_bytes > LANE_BYTES_MAX {
            let (bytes, most) = (self.lane_bytes, LANE_BYTES_MAX);
            return Err(GeometryError::LaneTooLong { bytes, most });
        }
        let least = superblock_bytes(self.lanes).next_multiple_of(LINE_BYTES);
        // No more than `LANES_MAX` notes are in it.
        let least = least as u32;
        if self.unit_bytes as u64 % LINE != 0
            || self.unit_bytes < least
            || self.unit_bytes > UNIT_BYTES_MAX
        {
            return Err(GeometryError::UnitBytes { bytes: self.unit_bytes, least });
        }
        if self.shield_blocks > SHIELD_BLOCKS_MAX {
            return Err(GeometryError::ShieldBlocks { blocks: self.shield_blocks });
        }
        if self.slots() > SLOTS_MAX as u64 {
            let slots = self.lane_slots.saturating_add(self.lane_log_blocks);
            return Err(GeometryError::LaneSlots { slots });
        }
        let (blocks, segment_blocks) = (self.lane_log_blocks, self.segment_blocks);
        let is_whole = match blocks.checked_rem(segment_blocks) {
            Some(rest) => rest == 0 && blocks > 0,
            None => blocks == 0,
        };
        if !is_whole {
            return Err(GeometryError::Segments { blocks, segment_blocks });
        }
        match self.span_bytes() {
            Some(_) => Ok(()),
            None => Err(GeometryError::Overflow),
        }
    }

    /// Bytes of a record that holds one block image.
    #[must_use]
    pub const fn record_bytes_one_block(&self) -> u64 {
        (RECORD_LINES_MIN as u64)
            .saturating_mul(LINE)
            .saturating_add(self.block_size.bytes() as u64)
    }

    /// Bytes of the shield area: one intent record of a full batch.
    #[must_use]
    pub const fn shield_bytes(&self) -> u64 {
        if self.shield_blocks == 0 {
            return 0;
        }
        let images = (self.shield_blocks as u64).saturating_mul(self.block_size.bytes() as u64);
        images.saturating_add(self.intent_front_bytes())
    }

    /// Bytes of the front of an intent of a full batch.
    pub(crate) const fn intent_front_bytes(&self) -> u64 {
        (self.shield_blocks as u64)
            .saturating_mul(INTENT_FRAME_BYTES as u64)
            .saturating_add(LINE)
            .saturating_add(CHECK_BYTES as u64)
            .next_multiple_of(LINE)
    }

    /// Bytes of the tail words: a line for each lane, or nothing.
    #[must_use]
    pub const fn tails_bytes(&self) -> u64 {
        match self.protocol {
            Protocol::OneFence => 0,
            Protocol::TailPointer => LINE.saturating_mul(self.lanes as u64),
        }
    }

    /// Whether a journal of this shape can be, and fits into a span of `available` bytes.
    pub(crate) fn check_fits(&self, available: u64) -> Result<(), GeometryError> {
        self.check()?;
        let needed = self.span_bytes().ok_or(GeometryError::Overflow)?;
        if needed > available {
            return Err(GeometryError::SpanTooSmall { needed, available });
        }
        Ok(())
    }

    /// Bytes of the whole span, or `None` when they cannot be counted.
    #[must_use]
    pub const fn span_bytes(&self) -> Option<u64> {
        // Units, batches, lanes and slots are few and small: what lies beside the rings can be
        // counted.
        let lanes = self.lanes as u64;
        let before = self.lane(LaneNumber(0)).raw();
        let behind = self.entries_bytes().saturating_add(self.slots_bytes()).saturating_mul(lanes);
        match self.lane_bytes.checked_mul(lanes) {
            Some(rings) => match rings.checked_add(before) {
                Some(bytes) => bytes.checked_add(behind),
                None => None,
            },
            None => None,
        }
    }

    /// Slots of each lane, and its blocks in the disk-side log: what has an entry.
    #[must_use]
    pub const fn lane_slots_and_log(&self) -> u64 {
        (self.lane_slots as u64).saturating_add(self.lane_log_blocks as u64)
    }

    /// Slots of all lanes, and the blocks of the disk-side log.
    #[must_use]
    pub const fn slots(&self) -> u64 {
        self.lane_slots_and_log().saturating_mul(self.lanes as u64)
    }

    /// Blocks of the disk-side log, which lie on the device behind those of the store.
    #[must_use]
    pub const fn log_blocks(&self) -> u64 {
        (self.lane_log_blocks as u64).saturating_mul(self.lanes as u64)
    }

    /// Bytes of the slot entries of each lane: whole lines.
    #[must_use]
    pub const fn entries_bytes(&self) -> u64 {
        self.lane_slots_and_log().saturating_mul(ENTRY_BYTES as u64).next_multiple_of(LINE)
    }

    /// Bytes of the slots of each lane.
    #[must_use]
    pub const fn slots_bytes(&self) -> u64 {
        (self.lane_slots as u64).saturating_mul(self.block_size.bytes() as u64)
    }

    /// Where the slot entries begin, lane after lane.
    #[must_use]
    pub const fn slot_entries(&self) -> Offset {
        self.lane(LaneNumber(self.lanes))
    }

    /// Where the slots begin, lane after lane.
    #[must_use]
    pub const fn first_slot(&self) -> Offset {
        let entries = self.entries_bytes().saturating_mul(self.lanes as u64);
        Offset(self.slot_entries().raw().saturating_add(entries))
    }

    /// Where the slot entries of a lane begin.
    pub(crate) const fn slot_entries_of(&self, lane: LaneNumber) -> Offset {
        let before = self.entries_bytes().saturating_mul(lane.raw() as u64);
        Offset(self.slot_entries().raw().saturating_add(before))
    }

    /// Where the slots of a lane begin.
    pub(crate) const fn slots_of(&self, lane: LaneNumber) -> Offset {
        let before = self.slots_bytes().saturating_mul(lane.raw() as u64);
        Offset(self.first_slot().raw().saturating_add(before))
    }

    /// The lane that a slot belongs to; of a slot that there is not, one that there is not.
    #[must_use]
    pub const fn lane_of_slot(&self, slot: SlotNumber) -> LaneNumber {
        match (slot.raw() as u64).checked_div(self.lane_slots_and_log()) {
            Some(lane) if lane < self.lanes as u64 => LaneNumber(lane as u16),
            _ => LaneNumber(u16::MAX),
        }
    }

    /// Which block of the disk-side log a number stands for, counted from the log's begin; `None`
    /// for that of a slot, or of nothing.
    #[must_use]
    pub const fn log_block(&self, slot: SlotNumber) -> Option<u64> {
        let slot = slot.raw() as u64;
        if slot >= self.slots() {
            return None;
        }
        let of_lane = self.lane_slots_and_log();
        match (slot.checked_div(of_lane), slot.checked_rem(of_lane)) {
            (Some(lane), Some(at)) => match at.checked_sub(self.lane_slots as u64) {
                Some(at) => {
                    Some(lane.saturating_mul(self.lane_log_blocks as u64).saturating_add(at))
                }
                None => None,
            },
            _ => None,
        }
    }

    /// Where the second superblock copy begins.
    #[must_use]
    pub const fn second_superblock(&self) -> Offset {
        Offset(self.unit_bytes as u64)
    }

    /// Where the shield area begins.
    #[must_use]
    pub const fn shield(&self) -> Offset {
        Offset((self.unit_bytes as u64).saturating_mul(2))
    }

    /// Where the tail words begin, one line for each lane.
    #[must_use]
    pub const fn tails(&self) -> Offset {
        Offset(self.shield().raw().saturating_add(self.shield_bytes()))
    }

    /// Where a lane's ring begins.
    #[must_use]
    pub const fn lane(&self, lane: LaneNumber) -> Offset {
        let before = (lane.raw() as u64).saturating_mul(self.lane_bytes);
        let first = self.tails().raw().saturating_add(self.tails_bytes());
        Offset(first.saturating_add(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest that can be, with slots and a log.
    const LEAST: Geometry = Geometry {
        block_size: BlockSize::MIN,
        lanes: 1,
        lane_bytes: 192,
        shield_blocks: 0,
        unit_bytes: 192,
        protocol: Protocol::OneFence,
        lane_slots: 1,
        lane_log_blocks: 2,
        segment_blocks: 2,
    };

    #[test]
    fn every_bound_is_checked_on_both_sides() {
        let check = |change: &dyn Fn(&mut Geometry)| {
            let mut geometry = LEAST;
            change(&mut geometry);
            geometry.check()
        };
        assert_eq!(check(&|_| {}), Ok(()));
        for lanes in [0, LANES_MAX + 1] {
            let found = check(&|geometry| (geometry.lanes, geometry.unit_bytes) = (lanes, 1 << 12));
            assert_eq!(found, Err(GeometryError::Lanes { lanes }));
        }
        let most = |geometry: &mut Geometry| {
            (geometry.lanes, geometry.unit_bytes) = (LANES_MAX, UNIT_BYTES_MAX);
        };
        assert_eq!(check(&most), Ok(()));
        for bytes in [128, 191, 193] {
            let found = check(&|geometry| geometry.lane_bytes = bytes);
            assert_eq!(found, Err(GeometryError::LaneBytes { bytes, least: 192 }));
        }
        let tail_pointer = |bytes: u64| {
            check(&|geometry| {
                (geometry.protocol, geometry.lane_bytes) = (Protocol::TailPointer, bytes);
            })
        };
        let most = LANE_BYTES_MAX;
        assert_eq!(tail_pointer(most), Ok(()));
        let (bytes, found) = (most + 64, tail_pointer(most + 64));
        assert_eq!(found, Err(GeometryError::LaneTooLong { bytes, most }));
        // A header of 128 bytes, a note of 32 for each lane, a check of 8.
        for bytes in [128, 200, UNIT_BYTES_MAX + 64] {
            let found = check(&|geometry| geometry.unit_bytes = bytes);
            assert_eq!(found, Err(GeometryError::UnitBytes { bytes, least: 192 }));
        }
        let blocks = SHIELD_BLOCKS_MAX;
        assert_eq!(check(&|geometry| geometry.shield_blocks = blocks), Ok(()));
        let found = check(&|geometry| geometry.shield_blocks = blocks + 1);
        assert_eq!(found, Err(GeometryError::ShieldBlocks { blocks: blocks + 1 }));
        assert_eq!(check(&|geometry| geometry.lane_slots = SLOTS_MAX - 2), Ok(()));
        let found = check(&|geometry| geometry.lane_slots = SLOTS_MAX - 1);
        assert_eq!(found, Err(GeometryError::LaneSlots { slots: SLOTS_MAX + 1 }));
        for (blocks, segment_blocks) in [(3, 2), (2, 0), (0, 2)] {
            let found = check(&|geometry| {
                (geometry.lane_log_blocks, geometry.segment_blocks) = (blocks, segment_blocks);
            });
            assert_eq!(found, Err(GeometryError::Segments { blocks, segment_blocks }));
        }
        let found = check(&|geometry| geometry.lane_bytes = u64::MAX - 63);
        assert_eq!(found, Err(GeometryError::Overflow));
    }
}
