//! An open under way.

use crate::format::geometry::Geometry;
use crate::format::identity::Identity;
use crate::format::superblock::superblock_bytes;
use crate::index::Indexes;
use crate::open::torn_slots::AllSlots;
use crate::order::hook::Hook;
use crate::order::ordered::InFlight;
use crate::order::rule::Rule;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::PmemSplit;
use crate::scan::error::OpenError;
use crate::scan::verdict::Scanned;
use crate::space::lane::LaneSlot;
use crate::space::slot_state::SlotState;
use crate::space::superblocks::{Superblock, Superblocks};
use crate::units::{Sequence, Stamp};

crate::sites! {
    pub(crate) mod site {
        FOUND: Flush = "open.found";
        FOUND_FENCE: Fence = "open.found.fence";
        REPEAT: DiskWrite = "open.repeat";
        REPEAT_SYNC: DiskSync = "open.repeat.sync";
    }
}

/// An open under way.
pub(crate) struct Opening<'a, P, H, K> {
    pub(super) lanes: &'a mut [LaneSlot<P, H>],
    pub(super) states: &'a mut [SlotState],
    pub(super) scanned: Scanned,
    pub(super) geometry: &'a Geometry,
    pub(super) identity: &'a Identity,
    pub(super) kernels: &'a K,
    pub(super) front: &'a mut [u8],
}

/// Reads a lane with what an opening has.
macro_rules! reader {
    ($opening:expr, $lane:expr) => {
        Reader {
            ring: $lane.ring(),
            lane: $lane.number,
            geometry: $opening.geometry,
            identity: $opening.identity,
            kernels: $opening.kernels,
            scratch: crate::space::part::record_front(&mut *$opening.front, $opening.geometry),
            all: None,
            lap: 0,
        }
    };
}

pub(crate) use reader;

impl<P: PmemSplit, H: Hook, K: Kernels> Opening<'_, P, H, K> {
    #[inline]
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        let mut lanes = self.lanes.iter().filter_map(|slot| slot.0.as_ref());
        lanes.next().is_none_or(|lane| lane.ring().keeps(rule))
    }

    pub(crate) fn slots(&mut self) -> AllSlots<'_, P, H> {
        AllSlots { lanes: self.lanes, states: self.states, geometry: self.geometry }
    }

    /// Drops what names torn slots, and finds out which version holds which slot.
    pub(crate) fn resolve(&mut self, indexes: &mut impl Indexes) -> Result<(), OpenError> {
        if self.geometry.lane_places() == 0 {
            return Ok(());
        }
        let Self { lanes, states, geometry, scanned, kernels, identity, .. } = self;
        let mut slots = AllSlots { lanes, states, geometry };
        slots.resolve(indexes, scanned, *kernels, identity.seeds)?;
        slots.find_holders(indexes);
        Ok(())
    }

    pub(crate) fn flush_slots(&mut self, indexes: &mut impl Indexes) -> Option<InFlight> {
        let Self { lanes, states, geometry, scanned, .. } = self;
        let mut slots = AllSlots { lanes, states, geometry };
        slots.flush_found(indexes, scanned)
    }

    /// Makes durable what was accepted and may be only visible.
    pub(crate) fn make_durable(
        &mut self,
        superblocks: &mut Superblocks<P, H>,
        superblock: &Superblock,
        more: [Option<InFlight>; 2],
    ) -> Result<(), OpenError> {
        let accepted = superblocks.accepted();
        let pmem = superblocks.pmem_mut();
        let bytes = superblock_bytes(self.geometry.lanes);
        let mut found: InFlight = pmem.flush_found(site::FOUND, accepted, bytes);
        for more in more.into_iter().flatten() {
            found = found.and(more);
        }
        let lanes = self.lanes.iter_mut().filter_map(|slot| slot.0.as_mut());
        for (lane, walked) in lanes.zip(self.scanned.walked.iter().flatten()) {
            let len = walked.tail.saturating_sub(walked.found_from);
            if len > 0 {
                let flushed = lane.ring_mut().flush_found(site::FOUND, walked.found_from, len);
                found = found.and(flushed);
            }
            if let Some(word) = lane.tail_word_mut() {
                found = found.and(word.put_in_flight(superblock, walked.tail));
            }
        }
        let _ = superblocks.pmem_mut().fence(site::FOUND_FENCE, found)?;
        Ok(())
    }

    /// Begins a new epoch in memory.
    pub(crate) fn take_over(&mut self, superblock: &mut Superblock) {
        let evidence = &self.scanned.evidence;
        let epoch = evidence.epoch.max(superblock.epoch());
        let generation = evidence.generation.max(superblock.generation());
        let raise = u64::from(self.keeps(Rule::EpochRaised));
        superblock.header.epoch = epoch.raw().saturating_add(raise).into();
        superblock.header.generation = generation.raw().saturating_add(1).into();
        superblock.set_closed(false);
        let found = if self.keeps(Rule::StampFloor) { evidence.stamp } else { Stamp(0) };
        let stamp = found.max(superblock.stamp_floor());
        superblock.header.stamp_floor = stamp.raw().into();
        let lanes = self.lanes.iter_mut().filter_map(|slot| slot.0.as_mut());
        for ((lane, walked), note) in
            lanes.zip(self.scanned.walked.iter().flatten()).zip(superblock.notes_mut())
        {
            let next: Sequence = walked.next_sequence;
            lane.tail = walked.tail;
            lane.flushed_to = walked.tail;
            lane.next_sequence = next;
            lane.durable_to = next;
            lane.last_stamp = stamp;
            note.epoch_first = next.raw().into();
            note.durable_to = next.raw().into();
        }
    }
}
