//! What writes home: superblocks, shield and device, with one owner.
//!
//! A journal has one of them. The lanes and the indexes that it works on may be shared with
//! committing threads: it borrows each only for a moment ([`Lanes`], [`Indexes`]).

pub(crate) mod checkpoint;
pub(crate) mod shield;
pub(crate) mod write_ahead;

use crate::commit::scheme::Common;
use crate::format::identity::Identity;
use crate::format::record::Form;
use crate::home::shield::Shield;
use crate::index::{Bounds, FrameAt, Index, IndexMemory, Indexes, NodeId};
use crate::order::hook::{Hook, NoHook, Rule};
use crate::order::ordered::OrderedDevice;
use crate::owner::memory::{Batched, LaneSlot};
use crate::ports::block_device::BlockDevice;
use crate::ports::error::MediumError;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::Policy;
use crate::scan::error::JournalError;
use crate::space::lane::{InLane, Lane};
use crate::space::slots::SlotState;
use crate::space::superblocks::{Superblock, Superblocks};
use crate::units::{BlockNumber, LaneNumber, SlotNumber};

/// All lanes of a journal.
pub trait Lanes<P, H> {
    /// Calls with a lane, and keeps others from it meanwhile.
    ///
    /// # Errors
    /// [`JournalError::Failed`] when the lane is not to be used any more.
    fn with<R>(
        &mut self,
        lane: LaneNumber,
        call: impl FnOnce(&mut InLane<'_, P, H>) -> R,
    ) -> Result<R, JournalError>;

    /// Copies the payload of a frame, whose lane or slot nobody writes there.
    ///
    /// # Errors
    /// The medium's.
    fn read(&self, frame: &FrameAt, into: &mut [u8]) -> Result<(), MediumError>;

    /// Whether all that was looked at counts. Who cannot be given a part of the index is given an
    /// empty one, and is told so here: before a block that was built goes home, and before heads
    /// move.
    ///
    /// # Errors
    /// [`JournalError::Failed`] when it does not.
    fn check_all_there(&self) -> Result<(), JournalError> {
        Ok(())
    }
}

/// The lanes of a journal with one owner, and the states of all their slots.
#[derive(Debug)]
pub(crate) struct OwnLanes<'a, P, H> {
    pub(crate) lanes: &'a mut [LaneSlot<P, H>],
    pub(crate) states: &'a mut [SlotState],
}

impl<P, H> OwnLanes<'_, P, H> {
    pub(crate) fn lane(&self, lane: LaneNumber) -> &Lane<P, H> {
        match self.lanes.get(usize::from(lane.raw())) {
            Some(LaneSlot(Some(lane))) => lane,
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
pub(crate) fn lane_of<P, H>(lanes: &mut [LaneSlot<P, H>], lane: LaneNumber) -> &mut Lane<P, H> {
    match lanes.get_mut(usize::from(lane.raw())) {
        Some(LaneSlot(Some(lane))) => lane,
        _ => unreachable!("an open journal has all its lanes"),
    }
}

/// Memory for writing home.
#[derive(Debug)]
pub struct HomeScratch<'m> {
    /// Blocks that one batch writes.
    pub batch: &'m mut [Batched],
    /// Where fronts of intents are built.
    pub front: &'m mut [u8],
    /// Where an encoded payload is copied to be applied.
    pub payload: &'m mut [u8],
    /// Whole blocks: where images are built. More make longer writes.
    pub blocks: &'m mut [u8],
}

/// What content is built from.
pub(crate) struct View<'a, L, K, N: ?Sized> {
    pub(crate) common: &'a Common<L, K>,
    pub(crate) lanes: &'a N,
    pub(crate) bounds: &'a Bounds,
}

/// What writes home.
#[derive(Debug)]
pub struct Home<P, D, H = NoHook> {
    pub(crate) superblocks: Superblocks<P, H>,
    pub(crate) superblock: Superblock,
    /// `None` where the geometry has no shield.
    pub(crate) shield: Option<Shield<P, H>>,
    pub(crate) device: OrderedDevice<D, H>,
    pub(crate) identity: Identity,
    /// Which attempt to write home this is; never zero. No process lives to see it come round.
    pub(crate) attempt: u32,
}

impl<P: Pmem, D: BlockDevice, H: Hook> Home<P, D, H> {
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.device.keeps(rule)
    }

    /// Reads a block's home.
    pub(crate) fn read(&mut self, block: BlockNumber, into: &mut [u8]) -> Result<(), JournalError> {
        self.device.read(block, into).map_err(JournalError::Device)
    }

    /// A block's content up to the bounds: the newest whole placement below them, and everything
    /// newer on top of it.
    ///
    /// While it is built nobody else may remove frames, or write the block home.
    pub(crate) fn content<L: Policy, K: Kernels, N: Lanes<P, H> + ?Sized>(
        &mut self,
        view: &View<'_, L, K, N>,
        indexes: &mut impl Indexes,
        block: BlockNumber,
        payload: &mut [u8],
        into: &mut [u8],
    ) -> Result<(), JournalError> {
        let View { common, lanes, bounds } = *view;
        let below = indexes.of(block, |index| {
            let newest = index.newest_below(block, bounds);
            common.block_below(index, block, newest)
        });
        if let Some(below) = below {
            self.read(below, into)?;
        }
        indexes.of(block, |index| {
            let Some(newest) = index.newest_below(block, bounds) else { return Ok(()) };
            let read = |frame: &FrameAt, into: &mut [u8]| lanes.read(frame, into);
            apply_frames(common, index, newest, read, payload, into)
        })
    }
}

/// The frame from which the content up to `newest` is built, and whether that lies on top of what
/// is home.
#[must_use]
pub fn oldest_needed(index: &Index<impl IndexMemory>, newest: NodeId) -> (NodeId, bool) {
    let mut oldest = newest;
    loop {
        match index.frame(oldest).form {
            Form::Encoded => {}
            form => return (oldest, form == Form::Home),
        }
        match index.older(oldest) {
            Some(older) => oldest = older,
            None => return (oldest, true),
        }
    }
}

impl<L: Policy, K: Kernels> Common<L, K> {
    /// Which block of the device has to be read to build a block's content up to `newest`, if one
    /// has: its home, or the block of the disk-side log that it was written to.
    #[must_use]
    pub fn block_below(
        &self,
        index: &Index<impl IndexMemory>,
        block: BlockNumber,
        newest: Option<NodeId>,
    ) -> Option<BlockNumber> {
        let Some(newest) = newest else { return Some(block) };
        let (oldest, needs_home) = oldest_needed(index, newest);
        if needs_home {
            return Some(block);
        }
        let frame = index.frame(oldest);
        frame.slot().filter(|_| frame.form == Form::Log).and_then(|slot| self.log_place(slot))
    }

    /// Where a block of the disk-side log is on the device.
    pub(crate) fn log_place(&self, slot: SlotNumber) -> Option<BlockNumber> {
        let at = self.geometry.log_block(slot)?;
        Some(BlockNumber(self.device_blocks.saturating_add(at)))
    }
}

/// Builds the content up to `newest` in `into`, which holds what
/// [lies below](Common::block_below).
///
/// # Errors
/// The medium's, a payload that does not apply, or rot in the disk-side log.
pub fn apply_frames<L: Policy, K: Kernels>(
    common: &Common<L, K>,
    index: &Index<impl IndexMemory>,
    newest: NodeId,
    read: impl Fn(&FrameAt, &mut [u8]) -> Result<(), MediumError>,
    payload: &mut [u8],
    into: &mut [u8],
) -> Result<(), JournalError> {
    let (mut id, _) = oldest_needed(index, newest);
    loop {
        let frame: FrameAt = index.frame(id);
        match frame.form {
            Form::Discard => into.fill(0),
            Form::Home => {}
            Form::Log => {
                let slot = frame.slot();
                let is_as_said =
                    |slot| common.kernels.crc64(common.seeds.content(slot), into) == frame.payload;
                if !slot.is_some_and(is_as_said) {
                    let place = slot.and_then(|slot| common.log_place(slot));
                    let place = place.unwrap_or(frame.block);
                    return Err(JournalError::RottenLog { block: frame.block, place });
                }
            }
            Form::Image | Form::Slot => read(&frame, into).map_err(JournalError::Medium)?,
            Form::Encoded => {
                let payload = payload.get_mut(..frame.len as usize);
                let Some(payload) = payload else { unreachable!("fits: it was made there") };
                read(&frame, payload).map_err(JournalError::Medium)?;
                common
                    .policy
                    .apply(payload, into)
                    .and_then(|()| match id == newest {
                        true => common.policy.check(payload, into),
                        false => Ok(()),
                    })
                    .map_err(|error| JournalError::Apply { block: frame.block, error })?;
            }
        }
        if id == newest {
            return Ok(());
        }
        let Some(newer) = index.newer(id) else { return Ok(()) };
        id = newer;
    }
}
