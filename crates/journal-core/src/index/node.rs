//! The parts of an index: an entry for each block that has frames, and a node for each frame.

use zerocopy::FromZeros;

use crate::format::record::Form;
use crate::index::frame::{FrameAt, NodeId};
use crate::units::{LANES_MAX, LaneNumber, Sequence, Stamp};

/// No node. The first one is number 1, so that entries of zeroes are empty.
pub(super) const NONE: u32 = 0;

/// Of the lane of an entry's newest frame, these bits. Marks are above.
const LANE_BITS: u8 = 0x1F;
/// A mark: an earlier process may have written the block's home in vain.
pub(super) const SUSPECT: u8 = 1 << 5;
/// A mark: slots' entries may speak of the block. Where it is missing, none does.
pub(super) const HAS_FOLDED: u8 = 1 << 6;
/// A mark: the block is being written home now.
pub(super) const IS_LEAVING: u8 = 1 << 7;

/// The entry of one block that has frames in the lanes: half a line, and never of two.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(align(32))]
pub struct Entry {
    pub(super) block: u64,
    pub(super) newest: u32,
    pub(super) oldest: u32,
    /// The newest frame that is no change alone.
    pub(super) whole: u32,
    /// The lane of the newest frame, and marks: [`SUSPECT`], [`HAS_FOLDED`] and [`IS_LEAVING`].
    pub(super) lane_and_marks: u8,
    /// Frames that are changes alone and came since the newest whole one, up to the most that this
    /// can count. Some may have been forgotten since.
    pub(super) chain: u8,
    /// The last attempt of a checkpoint that could not read it; zero for none.
    pub(super) unreadable: u16,
    /// The stamp of the content that a checkpoint has written home and synced; zero for none.
    pub(super) home: u64,
}

impl Entry {
    /// An entry that has no block.
    pub const EMPTY: Self = Self {
        block: 0,
        newest: NONE,
        oldest: NONE,
        whole: NONE,
        lane_and_marks: 0,
        chain: 0,
        unreadable: 0,
        home: 0,
    };
}

const _: () = assert!(size_of::<Entry>() == 32, "of a line there are two");
const _: () = assert!(LANES_MAX == LANE_BITS as u16 + 1, "a lane has these bits, and all of them");

/// What an entry says of the newest frame of its block: known before that frame's own line is.
#[derive(Clone, Copy, Debug)]
pub struct Lead {
    newest: NodeId,
    lane: LaneNumber,
    oldest: NodeId,
    is_unreadable: bool,
}

impl Entry {
    /// Notes the newest frame.
    #[inline(always)]
    pub(super) fn set_newest(&mut self, newest: u32, lane: u16) {
        debug_assert!(lane < LANES_MAX, "a frame's lane is one of the journal's");
        let lane = u8::try_from(lane).unwrap_or(u8::MAX) & LANE_BITS;
        (self.newest, self.lane_and_marks) = (newest, self.lane_and_marks & !LANE_BITS | lane);
    }

    /// Sets a mark, or takes it away.
    #[inline(always)]
    pub(super) const fn set(&mut self, mark: u8, is_so: bool) {
        let others = self.lane_and_marks & !mark;
        self.lane_and_marks = if is_so { others | mark } else { others };
    }

    /// Whether it has a mark.
    #[inline(always)]
    pub(super) const fn has(&self, mark: u8) -> bool {
        self.lane_and_marks & mark != 0
    }

    /// Of an entry that is not empty.
    #[inline(always)]
    pub(super) const fn lead(&self) -> Lead {
        let lane = LaneNumber((self.lane_and_marks & LANE_BITS) as u16);
        let is_unreadable = self.unreadable != 0;
        Lead { newest: NodeId(self.newest), oldest: NodeId(self.oldest), lane, is_unreadable }
    }
}

impl Lead {
    /// The newest frame.
    #[inline]
    #[must_use]
    pub const fn newest(&self) -> NodeId {
        self.newest
    }

    /// The lane that it lies in.
    #[inline]
    #[must_use]
    pub const fn lane(&self) -> LaneNumber {
        self.lane
    }

    /// Whether a checkpoint could not read the block, and it is neither home nor written since.
    #[inline]
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// The oldest frame.
    #[inline]
    pub(super) const fn oldest(&self) -> NodeId {
        self.oldest
    }
}

/// The node of one frame: a line of its own, so that adding one touches no other.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(align(64))]
pub struct Node {
    pub(super) stamp: u64,
    pub(super) payload: u64,
    pub(super) record: u64,
    pub(super) sequence: u64,
    pub(super) len: u32,
    pub(super) older: u32,
    pub(super) newer: u32,
    /// The block's entry is found by it when the node is dropped.
    pub(super) block: u64,
    pub(super) lane: u16,
    /// A [`Form`], or zero.
    pub(super) form: u8,
    pub(crate) folded: bool,
    pub(crate) stale: bool,
    /// Whether it stands for a frame that an open has yet to come to.
    pub(crate) awaited: bool,
}

impl Node {
    /// A node that has no frame.
    pub const EMPTY: Self = Self {
        stamp: 0,
        payload: 0,
        record: 0,
        sequence: 0,
        len: 0,
        older: NONE,
        newer: NONE,
        block: 0,
        lane: 0,
        form: 0,
        folded: false,
        stale: false,
        awaited: false,
    };
}

impl Node {
    /// What stands for a frame, between two others of its block.
    #[inline(always)]
    pub(super) const fn of(frame: &FrameAt, older: u32, newer: u32) -> Self {
        Self {
            stamp: frame.stamp.raw(),
            payload: frame.payload,
            record: frame.record,
            sequence: frame.sequence.raw(),
            len: frame.len,
            older,
            newer,
            block: frame.block.raw(),
            lane: frame.lane.raw(),
            form: frame.form as u8,
            folded: frame.folded,
            stale: false,
            awaited: false,
        }
    }

    /// How the frame carries the content.
    #[inline]
    pub(crate) const fn form(&self) -> Form {
        match Form::from_byte(self.form) {
            Some(form) => form,
            // It stands for no frame.
            None => Form::Discard,
        }
    }

    /// The lane that it lies in.
    #[inline]
    pub(crate) const fn lane(&self) -> LaneNumber {
        LaneNumber(self.lane)
    }

    /// Its record there.
    #[inline]
    pub(crate) const fn sequence(&self) -> Sequence {
        Sequence(self.sequence)
    }

    /// Its place in the order of versions.
    #[inline]
    pub(crate) const fn stamp(&self) -> Stamp {
        Stamp(self.stamp)
    }

    /// The frame before it, of the same block.
    #[inline]
    pub(crate) fn older(&self) -> Option<NodeId> {
        (self.older != NONE).then_some(NodeId(self.older))
    }
}
