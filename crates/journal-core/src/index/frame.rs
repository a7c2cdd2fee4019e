//! A frame as the index knows it.

use crate::format::geometry::Geometry;
use crate::format::record::Form;
use crate::format::slot_entry::SlotEntry;
use crate::units::{BlockNumber, LANES_MAX, LaneNumber, Sequence, SlotNumber, Stamp};

/// A frame as the index knows it.
#[derive(Clone, Copy, Debug)]
pub struct FrameAt {
    /// The block that has this content.
    pub block: BlockNumber,
    /// Its place in the order of versions.
    pub stamp: Stamp,
    /// The lane it lies in.
    pub lane: LaneNumber,
    /// Its record there.
    pub sequence: Sequence,
    /// Lane offset of the record.
    pub record: u64,
    /// Lane offset of the payload; of a frame that names a slot, or a block of the disk-side log,
    /// the check of what is there.
    pub payload: u64,
    /// Bytes of the payload; of a frame that names a slot, or a block of the disk-side log, which
    /// one.
    pub len: u32,
    /// How it carries the content.
    pub form: Form,
    /// Whether the slot's entry says the same: then the frame in the ring is not needed. One that
    /// has left the ring is of sequence 0.
    pub folded: bool,
}

/// The index has no room for another block or frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A handle to a frame in one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(pub(crate) u32);

/// Per lane, the first sequence that does not count: what is at or above is as if it were not
/// there.
pub type Bounds = [Sequence; LANES_MAX as usize];

impl FrameAt {
    /// What is left of a frame when only its slot's entry says it.
    pub(crate) fn of_entry(geometry: &Geometry, slot: SlotNumber, entry: &SlotEntry) -> Self {
        let form = if geometry.log_block(slot).is_some() { Form::Log } else { Form::Slot };
        let lane = geometry.lane_of_slot(slot);
        Self {
            block: BlockNumber(entry.block.get()),
            stamp: Stamp(entry.stamp.get()),
            lane,
            sequence: Sequence(0),
            record: 0,
            payload: entry.content.get(),
            len: slot.raw(),
            form,
            folded: true,
        }
    }

    /// The slot, or the block of the disk-side log, that it names, if it does.
    #[must_use]
    pub fn slot(&self) -> Option<SlotNumber> {
        matches!(self.form, Form::Slot | Form::Log).then_some(SlotNumber(self.len))
    }

    /// Whether the block's content is wholly there, whatever older frames say.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.form != Form::Encoded
    }

    /// Whether the frame's record lies below the bound of its lane.
    #[must_use]
    pub fn is_below(&self, bounds: &Bounds) -> bool {
        bounds.get(usize::from(self.lane.raw())).is_some_and(|bound| self.sequence < *bound)
    }
}

/// Everything counts: the journal has one owner, which sees what it has just done.
pub(crate) const NO_BOUNDS: Bounds = [Sequence(u64::MAX); LANES_MAX as usize];
