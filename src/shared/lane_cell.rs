//! The cell of a lane: the lane behind its lock, and beside it what others may know of it.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use journal_core::parts::{Lane, LaneReader};
use journal_core::{PmemShare, SlotState};
use pmem_sys::FarFence;

use crate::machine::Machine;
use crate::stats::LaneStats;
use crate::threads::durable_to::Reach;
use crate::threads::free_space::Unreserved;
use crate::threads::lane_turn::{Group, Turn};
use crate::threads::watchers::{Due, Watchers};

/// The cell of a lane: the lane, and what others may know of it without its lock.
pub(crate) struct LaneCell<M: Machine> {
    pub(crate) turn: Turn<LaneState<M>>,
    pub(crate) reader: LaneReader<<M::Pmem as PmemShare>::Reader>,
    pub(crate) reach: Reach,
    /// Callers that are told when records are durable.
    pub(crate) watchers: Arc<Watchers>,
    /// Bytes.
    pub(crate) unreserved: CachePadded<Unreserved>,
    pub(crate) unreserved_slots: Unreserved,
    /// Blocks of the disk-side log.
    pub(crate) unreserved_log: Unreserved,
}

pub(crate) struct LaneState<M: Machine> {
    pub(crate) lane: Lane<M::Pmem, M::Hook>,
    /// One for each of its slots.
    pub(crate) slots: Box<[SlotState]>,
    /// The group under way.
    pub(crate) group: Group,
    /// Bytes of the lane that are reserved for its holder.
    pub(crate) in_hand: u64,
    pub(crate) stats: LaneStats,
    /// Where the lane's records ended when the journal was opened.
    pub(crate) opened_at: u64,
}

impl<M: Machine> LaneCell<M> {
    pub(crate) fn new(
        lane: Lane<M::Pmem, M::Hook>,
        slots: Box<[SlotState]>,
        far: Option<FarFence>,
    ) -> Self {
        let state = |lane: Lane<M::Pmem, M::Hook>| LaneState {
            opened_at: lane.tail(),
            lane,
            slots,
            group: Group::default(),
            in_hand: 0,
            stats: LaneStats::default(),
        };
        Self {
            unreserved_slots: Unreserved::new(lane.free_slots().into()),
            unreserved_log: Unreserved::new(lane.free_log_blocks().into()),
            reader: lane.reader(),
            reach: Reach::new(lane.durable_to()),
            watchers: Watchers::none(),
            unreserved: CachePadded::new(Unreserved::new(lane.free_bytes())),
            turn: Turn::new(state(lane), far),
        }
    }

    /// The watchers of what the lane's holder has made durable. They are to be told when the lane
    /// is given back.
    #[inline]
    pub(crate) fn due(&self, lane: &Lane<M::Pmem, M::Hook>) -> Due {
        if self.watchers.are_there() {
            self.watchers.due(lane.durable_to())
        } else {
            Due::default()
        }
    }
}
