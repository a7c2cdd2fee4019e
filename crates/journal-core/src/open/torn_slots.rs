//! Which versions count where slots may be torn, and what becomes of slots at an opening.
//!
//! A record names slots that were under way together with it, so a crash may leave it whole and
//! them torn. An open looks at the slots that blocks' newest content is built from: their newest
//! whole placements, whatever changes lie on top. Where one is not what its record says, the lane
//! of the record ends before it (R10 of [`crate::scan::decide`]), and what that uncovers is decided
//! anew. A record that is known durable is never dropped so: a mismatch there is rot (R11).
//!
//! Dropping records only ever uncovers older ones, so the order in which it is done does not
//! matter. Each slot is read once; how often the frames are gone through is bounded.
//!
//! **Crash**: nothing is written here but voids of torn entries, which a live frame covers.

use crate::format::geometry::Geometry;
use crate::format::identity::CheckSeeds;
use crate::format::record::Form;
use crate::format::slot_entry::FoundEntry;
use crate::index::ahead::nothing_ahead;
use crate::index::frame::{Bounds, FrameAt, NodeId};
use crate::index::{Index, IndexMemory, Indexes};
use crate::order::ordered::{Durable, Hook, InFlight};
use crate::order::rule::Rule;
use crate::ports::error::MediumErrorKind;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::scan::error::OpenError;
use crate::scan::lanes::Scanned;
use crate::space::lane::LaneMemory;
use crate::space::slot_state::SlotState;
use crate::space::slots::Slots;
use crate::units::{BlockNumber, LANES_MAX, LaneNumber, Sequence, SlotNumber, Stamp};

/// The most often that all frames are gone through. Each time except the last one drops a record
/// that was never durable and that an earlier round did not reach. To get here takes thousands of
/// deferred records whose blocks are torn in turns, each whole just where the other one is not.
/// Chance does not do it.
const ROUNDS_MAX: u32 = 1 << 10;

/// The slots of all lanes, while a journal is opened.
pub(crate) struct AllSlots<'a, P, H> {
    pub(crate) lanes: &'a mut [LaneMemory<P, H>],
    /// The states of the first lane's slots, then those of the second one's, and so on.
    pub(crate) states: &'a mut [SlotState],
    pub(crate) geometry: &'a Geometry,
}

impl<P: Pmem, H: Hook> AllSlots<'_, P, H> {
    fn keeps(&self, rule: Rule) -> bool {
        let mut lanes = self.lanes.iter().filter_map(|lane| lane.0.as_ref());
        lanes.next().is_none_or(|lane| lane.ring().keeps(rule))
    }

    fn of_lane(&mut self, lane: LaneNumber) -> Option<(&mut Slots<P, H>, &mut [SlotState])> {
        let each = usize::try_from(self.geometry.lane_slots_and_log()).unwrap_or(usize::MAX);
        let start = each.saturating_mul(lane.raw().into());
        let states = self.states.get_mut(start..start.saturating_add(each))?;
        let lane = self.lanes.get_mut(usize::from(lane.raw()))?;
        Some((lane.0.as_mut()?.slots_mut()?, states))
    }

    /// Lists the entries of a lane in the order of their stamps; returns how many there are.
    pub(crate) fn list_entries(
        &mut self,
        lane: LaneNumber,
        kernels: &impl Kernels,
        seeds: CheckSeeds,
        device_blocks: u64,
    ) -> Result<usize, OpenError> {
        let region = self.geometry.slot_entries_of(lane);
        let Some((slots, states)) = self.of_lane(lane) else { return Ok(0) };
        states.fill(SlotState::EMPTY);
        let mut count = 0_usize;
        for slot in slots.numbers() {
            let found =
                slots.entry(slot, kernels, seeds).map_err(|error| error.of_whole(region))?;
            let FoundEntry::Whole(entry) = found else { continue };
            if !entry.is_sane(device_blocks) {
                return Err(OpenError::RottenEntry { slot });
            }
            if let Some(state) = states.get_mut(count) {
                state.note(entry.stamp.get(), slot);
                count = count.saturating_add(1);
            }
        }
        let listed = states.get_mut(..count).unwrap_or_default();
        listed.sort_unstable_by_key(|state| state.noted());
        Ok(count)
    }

    /// The stamp of the `at`-th entry in a lane's list.
    pub(crate) fn listed(&mut self, lane: LaneNumber, at: usize) -> Option<(Stamp, SlotNumber)> {
        let (_, states) = self.of_lane(lane)?;
        states.get(at)?.noted().map(|(stamp, slot)| (Stamp(stamp), slot))
    }

    /// What an entry says, as a frame that has left its ring.
    pub(crate) fn entry(
        &mut self,
        slot: SlotNumber,
        kernels: &impl Kernels,
        seeds: CheckSeeds,
    ) -> Result<Option<FrameAt>, OpenError> {
        let lane = self.geometry.lane_of_slot(slot);
        let region = self.geometry.slot_entries_of(lane);
        let Some((slots, _)) = self.of_lane(lane) else { return Ok(None) };
        let found = slots.entry(slot, kernels, seeds).map_err(|error| error.of_whole(region))?;
        let FoundEntry::Whole(entry) = found else { return Ok(None) };
        Ok(Some(FrameAt::of_entry(self.geometry, slot, &entry)))
    }

    /// Drops records that name torn slots. The lanes then end as if those had never been stored.
    pub(crate) fn resolve(
        &mut self,
        indexes: &mut impl Indexes,
        scanned: &mut Scanned,
        kernels: &impl Kernels,
        seeds: CheckSeeds,
    ) -> Result<(), OpenError> {
        self.states.fill(SlotState::EMPTY);
        for _ in 0..ROUNDS_MAX {
            let mut cut = Cut::of(scanned);
            let (mut failure, mut missing) = (Ok(()), Ok(()));
            indexes.each(|index| {
                for block in index.each_block() {
                    if failure.is_err() {
                        return;
                    }
                    match self.check_block(index, block, scanned, &mut cut, kernels, seeds) {
                        Err(OpenError::Medium(error))
                            if error.kind == MediumErrorKind::Poisoned =>
                        {
                            missing = Err(OpenError::Medium(error));
                        }
                        checked => failure = checked,
                    }
                }
            });
            failure?;
            if !cut.was_lowered {
                // Only now it is certain that the slot counts.
                return missing;
            }
            for (number, record) in (0..).zip(cut.records) {
                if let (Some(record), Some(bound)) = (record, cut.bounds.get(usize::from(number))) {
                    scanned.end_before(LaneNumber(number), *bound, record);
                }
            }
            indexes.each(|index| {
                index.remove_where(|frame| !frame.is_below(&cut.bounds), nothing_ahead);
            });
        }
        Err(OpenError::Unresolved)
    }

    /// Lowers the cut until the block's newest whole placement is what its record says.
    fn check_block<M: IndexMemory>(
        &mut self,
        index: &Index<M>,
        block: BlockNumber,
        scanned: &Scanned,
        cut: &mut Cut,
        kernels: &impl Kernels,
        seeds: CheckSeeds,
    ) -> Result<(), OpenError> {
        let mut next = index.newest(block);
        while let Some(id) = next {
            next = index.older(id);
            let frame = index.frame(id);
            // What is folded stays, whatever becomes of its record.
            let counts = frame.folded || frame.is_below(&cut.bounds);
            if !counts || !frame.is_whole() {
                continue;
            }
            // What is in the disk-side log was synced before its record was stored.
            let slot = frame.slot().filter(|_| frame.form == Form::Slot);
            let Some(slot) = slot else { return Ok(()) };
            let content = self.content(slot, kernels, seeds)?;
            if content == Some(frame.payload) || !self.keeps(Rule::SlotCheck) {
                return Ok(());
            }
            if frame.folded {
                return Err(OpenError::RottenSlot { slot, block });
            }
            cut.lower(&frame);
            if scanned.is_known_durable(frame.lane, frame.sequence) {
                // The verdict finds the rot there.
                return Ok(());
            }
        }
        Ok(())
    }

    /// The check of what a slot holds, computed once.
    fn content(
        &mut self,
        slot: SlotNumber,
        kernels: &impl Kernels,
        seeds: CheckSeeds,
    ) -> Result<Option<u64>, OpenError> {
        let lane = self.geometry.lane_of_slot(slot);
        let region = self.geometry.slots_of(lane);
        let Some((slots, states)) = self.of_lane(lane) else { return Ok(None) };
        let at = slots.index(slot);
        if let Some((known, _)) = states.get(at).and_then(SlotState::noted) {
            return Ok(Some(known));
        }
        let content =
            slots.content(slot, kernels, seeds).map_err(|error| error.of_whole(region))?;
        if let Some(state) = states.get_mut(at) {
            state.note(content, slot);
        }
        Ok(Some(content))
    }

    /// Notes of every slot the highest stamp that names it, and of every frame whether it is older
    /// than that. Two kinds of frames may be: older versions of the block, and those of blocks that
    /// had the slot before.
    pub(crate) fn find_holders(&mut self, indexes: &mut impl Indexes) {
        self.states.fill(SlotState::EMPTY);
        if !self.keeps(Rule::HoldersFound) {
            return;
        }
        indexes.each(|index| {
            for frame in index.all().map(|id| index.frame(id)) {
                let Some(slot) = frame.slot() else { continue };
                if let Some(state) = self.states.get_mut(slot.raw() as usize) {
                    let known = state.noted().map_or(0, |(stamp, _)| stamp);
                    state.note(known.max(frame.stamp.raw()), slot);
                }
            }
        });
        indexes.each(|index| {
            for number in 0..index.node_count() {
                let Some(id) = index.used_node(number) else { continue };
                self.mark(index, id);
            }
        });
    }

    fn mark<M: IndexMemory>(&self, index: &mut Index<M>, id: NodeId) {
        let frame = index.frame(id);
        let Some(slot) = frame.slot() else { return };
        let holder = self.states.get(slot.raw() as usize).and_then(SlotState::noted);
        index.set_stale(id, holder.is_some_and(|(stamp, _)| stamp != frame.stamp.raw()));
    }

    /// Whether every torn entry has a frame in a ring that covers its slot. Holders are known.
    pub(crate) fn check_torn_entries(
        &mut self,
        kernels: &impl Kernels,
        seeds: CheckSeeds,
    ) -> Result<(), OpenError> {
        for lane in (0..self.geometry.lanes).map(LaneNumber) {
            let region = self.geometry.slot_entries_of(lane);
            let Some((slots, states)) = self.of_lane(lane) else { continue };
            for (slot, state) in slots.numbers().zip(states) {
                let found = slots.entry(slot, kernels, seeds);
                let found = found.map_err(|error| error.of_whole(region))?;
                if matches!(found, FoundEntry::Torn) && state.noted().is_none() {
                    return Err(OpenError::RottenEntry { slot });
                }
            }
        }
        Ok(())
    }

    /// Makes durable what a process that is no more may have left visible. That is all entries, and
    /// the slots that frames name which are not known durable.
    pub(crate) fn flush_found(
        &mut self,
        indexes: &mut impl Indexes,
        scanned: &Scanned,
    ) -> Option<InFlight> {
        let mut in_flight = None;
        for lane in (0..self.geometry.lanes).map(LaneNumber) {
            let Some((slots, _)) = self.of_lane(lane) else { continue };
            InFlight::join(&mut in_flight, slots.flush_entries_found());
        }
        indexes.each(|index| {
            for id in index.all() {
                let frame = index.frame(id);
                let is_held = frame.form == Form::Slot && !index.is_stale(id);
                let Some(slot) = frame.slot().filter(|_| is_held) else { continue };
                let noted = scanned.is_below_mark(frame.lane, frame.sequence);
                if let Some((slots, _)) = self.of_lane(frame.lane).filter(|_| !noted) {
                    InFlight::join(&mut in_flight, slots.flush_found(slot));
                }
            }
        });
        in_flight
    }

    /// Voids torn entries, and makes that durable: heads will pass the frames that cover them.
    pub(crate) fn void_torn(
        &mut self,
        kernels: &impl Kernels,
        seeds: CheckSeeds,
    ) -> Result<(), OpenError> {
        let mut in_flight = None;
        for lane in (0..self.geometry.lanes).map(LaneNumber) {
            let region = self.geometry.slot_entries_of(lane);
            let Some((slots, _)) = self.of_lane(lane) else { continue };
            for slot in slots.numbers() {
                let found = slots.entry(slot, kernels, seeds);
                let found = found.map_err(|error| error.of_whole(region))?;
                if matches!(found, FoundEntry::Torn) && slots.keeps(Rule::TornEntriesVoided) {
                    InFlight::join(&mut in_flight, slots.void_entry(slot));
                }
            }
        }
        if let (Some(in_flight), Some((slots, _))) = (in_flight, self.of_lane(LaneNumber(0))) {
            let Durable { .. } = slots.fence_voids(in_flight)?;
        }
        Ok(())
    }

    /// Gives back every slot that nothing names. Holders are known.
    pub(crate) fn give_rest(&mut self) {
        for lane in (0..self.geometry.lanes).map(LaneNumber) {
            let Some((slots, states)) = self.of_lane(lane) else { continue };
            for slot in slots.numbers() {
                let state = states.get_mut(slots.index(slot));
                let Some(state) = state else { continue };
                let is_free = state.noted().is_none();
                *state = SlotState::EMPTY;
                if slots.log_block(slot).is_some() {
                    state.set_free(is_free);
                } else if is_free {
                    slots.give(states, slot);
                }
            }
            slots.begin_segments(states);
        }
    }
}

/// How far each lane counts.
struct Cut {
    bounds: Bounds,
    /// Where the first record begins that does not.
    records: [Option<u64>; LANES_MAX as usize],
    was_lowered: bool,
}

impl Cut {
    fn of(scanned: &Scanned) -> Self {
        let mut bounds = [Sequence(0); LANES_MAX as usize];
        for (bound, (_, walked)) in bounds.iter_mut().zip(scanned.lanes()) {
            *bound = walked.next_sequence;
        }
        Self { bounds, records: [None; LANES_MAX as usize], was_lowered: false }
    }

    /// Ends the lane before this frame's record, which lies below its bound.
    fn lower(&mut self, frame: &FrameAt) {
        let number = usize::from(frame.lane.raw());
        let lane = self.bounds.get_mut(number).zip(self.records.get_mut(number));
        if let Some((bound, record)) = lane {
            (*bound, *record) = (frame.sequence, Some(frame.record));
            self.was_lowered = true;
        }
    }
}
