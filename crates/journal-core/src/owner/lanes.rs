//! The lanes of the one owner, and what its index says of versions.

use crate::commit::prepared::Versions;
use crate::format::geometry::Geometry;
use crate::format::record::Form;
use crate::home::Lanes;
use crate::home::error::JournalError;
use crate::index::frame::{FrameAt, Full};
use crate::index::{Index, IndexMemory};
use crate::order::ordered::Hook;
use crate::ports::error::MediumError;
use crate::ports::pmem::Pmem;
use crate::space::lane::{InLane, Lane, LaneMemory};
use crate::space::slot_state::SlotState;
use crate::units::{BlockNumber, LaneNumber, Sequence, SlotNumber};

/// What the index of an owner says.
pub(crate) struct Indexed<'a, M> {
    pub(crate) index: &'a mut Index<M>,
    pub(crate) geometry: &'a Geometry,
    /// The lane that is committed through.
    pub(crate) lane: LaneNumber,
    /// Its records below are durable. Those of other lanes are by the time that anything is stored.
    pub(crate) durable_to: Sequence,
    /// [`Rule::NewestSpared`], [`Rule::AppendsNotLive`] and [`Rule::OneOfEachLane`].
    pub(crate) keeps: [bool; 3],
}

impl<M> Indexed<'_, M> {
    /// Whether a frame is durable by the time that anything is stored.
    fn is_durable(&self) -> impl Fn(&FrameAt) -> bool + use<M> {
        let (lane, durable_to) = (self.lane, self.durable_to);
        move |frame| frame.lane != lane || frame.sequence < durable_to
    }
}

impl<M: IndexMemory> Versions for Indexed<'_, M> {
    fn older_slot(&mut self, block: BlockNumber) -> Option<SlotNumber> {
        let (is_durable, [spares, ..]) = (self.is_durable(), self.keeps);
        let is_durable = |frame: &FrameAt| is_durable(frame) || !spares;
        self.index.older_slot(block, self.lane, self.geometry, is_durable)
    }

    fn may_go_home(&mut self, block: BlockNumber) -> bool {
        let Some(newest) = self.index.newest(block) else { return true };
        let frame = self.index.frame(newest);
        let is_durable = self.is_durable()(&frame);
        let is_free = frame.form == Form::Discard && is_durable && !self.index.is_leaving(block);
        let [_, not_live, _] = self.keeps;
        is_free || !not_live
    }

    fn begins_append(&mut self, block: BlockNumber) -> bool {
        self.index.newest(block).is_some()
    }

    fn gone_home(&mut self, block: BlockNumber) {
        self.index.make_sure(block);
    }

    fn is_own(&self, slot: SlotNumber) -> bool {
        self.geometry.lane_of_slot(slot) == self.lane
    }

    #[inline(always)]
    fn take_in(&mut self, frame: FrameAt) -> Result<(), Full> {
        if self.geometry.lane_slots_and_log() > 0 {
            return self.index.insert(frame).map(drop);
        }
        let (is_durable, [.., of_each_lane]) = (self.is_durable(), self.keeps);
        self.index.insert_over(&frame, of_each_lane, is_durable)
    }
}

/// The lanes of a journal with one owner, and the states of all their slots.
#[derive(Debug)]
pub(crate) struct OwnLanes<'a, P, H> {
    pub(crate) lanes: &'a mut [LaneMemory<P, H>],
    pub(crate) states: &'a mut [SlotState],
}

impl<P, H> OwnLanes<'_, P, H> {
    pub(crate) fn lane(&self, lane: LaneNumber) -> &Lane<P, H> {
        match self.lanes.get(usize::from(lane.raw())) {
            Some(LaneMemory(Some(lane))) => lane,
            _ => unreachable!("an open journal has all its lanes"),
        }
    }

    /// A lane with the states of its slots.
    pub(crate) fn in_lane(&mut self, lane: LaneNumber) -> InLane<'_, P, H> {
        let each = self.states.len().checked_div(self.lanes.len()).unwrap_or(0);
        let start = each.saturating_mul(lane.raw().into());
        let states = self.states.get_mut(start..start.saturating_add(each)).unwrap_or_default();
        InLane { lane: lane_of(self.lanes, lane), states }
    }
}

impl<P: Pmem, H: Hook> Lanes<P, H> for OwnLanes<'_, P, H> {
    fn with<R>(
        &mut self,
        lane: LaneNumber,
        call: impl FnOnce(&mut InLane<'_, P, H>) -> R,
    ) -> Result<R, JournalError> {
        Ok(call(&mut self.in_lane(lane)))
    }

    fn read(&self, frame: &FrameAt, into: &mut [u8]) -> Result<(), MediumError> {
        let lane = self.lane(frame.lane);
        match frame.slot() {
            Some(slot) => lane.read_slot(slot, into),
            None => lane.ring().read(frame.payload, into),
        }
    }
}

/// A lane of an open journal, leaving the rest of it free to be borrowed.
pub(crate) fn lane_of<P, H>(lanes: &mut [LaneMemory<P, H>], lane: LaneNumber) -> &mut Lane<P, H> {
    match lanes.get_mut(usize::from(lane.raw())) {
        Some(LaneMemory(Some(lane))) => lane,
        _ => unreachable!("an open journal has all its lanes"),
    }
}
