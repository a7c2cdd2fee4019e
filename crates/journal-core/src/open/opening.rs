//! An open under way.

use crate::format::geometry::Geometry;
use crate::format::identity::Identity;
use crate::open::torn_slots::AllSlots;
use crate::order::ordered::Hook;
use crate::order::rule::Rule;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::PmemSplit;
use crate::scan::lanes::Scanned;
use crate::space::lane::LaneSlot;
use crate::space::slot_state::SlotState;

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

impl<P: PmemSplit, H: Hook, K: Kernels> Opening<'_, P, H, K> {
    #[inline]
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        let mut lanes = self.lanes.iter().filter_map(|slot| slot.0.as_ref());
        lanes.next().is_none_or(|lane| lane.ring().keeps(rule))
    }

    pub(crate) fn slots(&mut self) -> AllSlots<'_, P, H> {
        AllSlots { lanes: self.lanes, states: self.states, geometry: self.geometry }
    }
}
