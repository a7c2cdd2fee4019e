//! Blocks that cannot be read, for one of four reasons:
//!
//! - what was written for the block to the disk-side log has rotted;
//! - a change that is logged of it does not apply to what lies below it;
//! - the memory that holds part of it is gone;
//! - the disk does not read its home, on which what is logged is to be built.
//!
//! A thread that writes home or copies leaves such a block out, and goes on with all others.
//!
//! U1. It counts as not home: the cut keeps its frames, no head passes them, and what a read of it
//!     answers stays the same. So nothing is replaced by something older.
//! U2. It is tried once in each attempt to write home. An attempt ends when nothing else is left to
//!     write, or when heads pass. So a thread that writes home until nothing is left comes to an
//!     end.
//! U3. A newer whole version, or a discard, is the end of it.
//! U4. What its frames take, and what lies behind them in their lanes, does not come free before. A
//!     caller that finds no space for that reason is told which block it is.
//!
//! **Crash**: nothing is written. The next process finds out by itself.

use crate::home::error::JournalError;
use crate::home::report::Scope;
use crate::home::{Home, Lanes};
use crate::index::frame::{FrameAt, NodeId};
use crate::index::{Index, IndexMemory, Indexes};
use crate::order::ordered::Hook;
use crate::ports::error::{DeviceError, DeviceOperation, MediumError, MediumErrorKind};
use crate::ports::pmem::Pmem;
use crate::reclaim::movable::each_in_memory;
use crate::units::{BlockNumber, LANES_MAX, LaneNumber};

impl JournalError {
    /// Whether the content of one block cannot be built, and nothing else is wrong. Of an error
    /// that building content has answered.
    pub(crate) const fn is_of_its_block(&self) -> bool {
        let is_poison =
            matches!(self, Self::Medium(MediumError { kind: MediumErrorKind::Poisoned, .. }));
        let is_read =
            matches!(self, Self::Device(DeviceError { operation: DeviceOperation::Read, .. }));
        is_poison || is_read || matches!(self, Self::RottenLog { .. } | Self::Apply { .. })
    }
}

impl<P, D, H> Home<P, D, H> {
    /// What could not be read is tried again by the next thread that writes home.
    pub(crate) const fn end_attempt(&mut self) {
        self.attempt = if self.attempt == u16::MAX { 1 } else { self.attempt.saturating_add(1) };
    }

    /// The attempt before this one. A thread that only copies notes a block for that attempt, so
    /// that this one tries it still.
    pub(crate) const fn last_attempt(&self) -> u16 {
        if self.attempt == 1 { u16::MAX } else { self.attempt.saturating_sub(1) }
    }
}

/// Whether a block's content is built from this frame.
fn is_needed(index: &Index<impl IndexMemory>, id: NodeId, frame: &FrameAt) -> bool {
    let mut next = index.newest(frame.block);
    while let Some(at) = next.filter(|at| *at != id) {
        next = if index.frame(at).is_whole() { None } else { index.older(at) };
    }
    next.is_some()
}

/// The block that keeps a lane's head from advancing, whatever a checkpoint does, because it cannot
/// be read. Either its frame lies at the head, or such a block is in another lane. What lies at the
/// head then has to stay as long as the head of that other lane does (U4).
///
/// # Errors
/// The lanes' errors.
pub fn pinned_by<P: Pmem, H: Hook>(
    lanes: &mut (impl Lanes<P, H> + ?Sized),
    indexes: &mut impl Indexes,
    lane: LaneNumber,
) -> Result<Option<BlockNumber>, JournalError> {
    let (mut seen, mut waiting) = ([false; LANES_MAX as usize], [false; LANES_MAX as usize]);
    let mut next = Some(lane);
    while let Some(lane) = next {
        if let Some(seen) = seen.get_mut(usize::from(lane.raw())) {
            *seen = true;
        }
        let head = lanes.with(lane, |at| at.lane.head)?;
        let mut found = None;
        indexes.each(|index| {
            for id in index.all() {
                let frame = index.frame(id);
                if frame.folded || (frame.lane, frame.record) != (lane, head) {
                    continue;
                }
                if index.is_unreadable(frame.block) && is_needed(index, id, &frame) {
                    found = found.or(Some(frame.block));
                }
                // Older frames, left alone, would hide what is home.
                let older = core::iter::successors(index.older(id), |id| index.older(*id));
                for older in older.map(|id| index.frame(id)).filter(|older| !older.folded) {
                    if let Some(waiting) = waiting.get_mut(usize::from(older.lane.raw())) {
                        *waiting = true;
                    }
                }
            }
        });
        if found.is_some() {
            return Ok(found);
        }
        let mut lanes = (0..).map(LaneNumber).zip(waiting.iter().zip(&seen));
        next = lanes.find(|(_, (waits, seen))| **waits && !**seen).map(|(lane, _)| lane);
    }
    Ok(None)
}

/// A block that cannot be read, if the index that has `block` is full of nothing but the frames of
/// such blocks and what lies behind them.
///
/// # Errors
/// The lanes' errors.
pub fn filled_by<P: Pmem, H: Hook>(
    lanes: &mut (impl Lanes<P, H> + ?Sized),
    indexes: &mut impl Indexes,
    block: BlockNumber,
) -> Result<Option<BlockNumber>, JournalError> {
    let (mut may_go, mut first) = (false, None);
    let mut holds = [false; LANES_MAX as usize];
    indexes.of(block, |index| {
        for frame in index.all().map(|id| index.frame(id)) {
            if index.is_unreadable(frame.block) {
                first = first.or(Some(frame.block));
            } else if frame.folded {
                may_go = true;
            } else if let Some(holds) = holds.get_mut(usize::from(frame.lane.raw())) {
                *holds = true;
            }
        }
    });
    for (lane, _) in (0..).map(LaneNumber).zip(holds).filter(|(_, holds)| *holds) {
        if may_go {
            break;
        }
        match pinned_by(lanes, indexes, lane)? {
            Some(block) => first = first.or(Some(block)),
            None => may_go = true,
        }
    }
    Ok(first.filter(|_| !may_go))
}

/// How many blocks of the index that has `block` keep their newest content in memory, unless it is
/// moved: a block that cannot be read keeps the heads of their lanes. Returns that block too, or
/// `None` where there are none.
///
/// # Errors
/// The lanes' errors.
pub fn kept_in_memory<P: Pmem, H: Hook>(
    lanes: &mut (impl Lanes<P, H> + ?Sized),
    indexes: &mut impl Indexes,
    block: BlockNumber,
) -> Result<Option<(usize, BlockNumber)>, JournalError> {
    let mut of_lanes = [0_usize; LANES_MAX as usize];
    indexes.of(block, |index| {
        let newest = each_in_memory(index).filter_map(|(_, block)| index.newest(block));
        for frame in newest.map(|id| index.frame(id)).filter(|frame| !frame.folded) {
            if let Some(count) = of_lanes.get_mut(usize::from(frame.lane.raw())) {
                *count = count.saturating_add(1);
            }
        }
    });
    let (mut kept, mut first) = (0_usize, None);
    for (lane, count) in (0..).map(LaneNumber).zip(of_lanes).filter(|(_, count)| *count > 0) {
        if let Some(block) = pinned_by(lanes, indexes, lane)? {
            (kept, first) = (kept.saturating_add(count), first.or(Some(block)));
        }
    }
    Ok(first.map(|block| (kept, block)))
}

/// The segment of a lane's disk-side log that is cleaned with the least work, among those that
/// nothing which cannot be read keeps from coming free.
///
/// # Errors
/// The lanes' errors.
pub fn segment_to_clean<P: Pmem, H: Hook>(
    lanes: &mut (impl Lanes<P, H> + ?Sized),
    indexes: &mut impl Indexes,
    lane: LaneNumber,
) -> Result<Option<Scope>, JournalError> {
    let mut before = None;
    loop {
        let segment = lanes.with(lane, |at| {
            at.lane.slots().and_then(|slots| slots.cheapest_segment(at.states, before))
        })?;
        let Some((used, first, end)) = segment else { return Ok(None) };
        let mut is_stuck = false;
        indexes.each(|index| {
            is_stuck |= index.each_unreadable().any(|block| {
                let whole = index.newest(block).and_then(|newest| index.whole_below(newest));
                let slot = whole.and_then(|whole| index.frame(whole).slot());
                slot.is_some_and(|slot| (first..end).contains(&slot))
            });
        });
        if !is_stuck {
            return Ok(Some(Scope::Segment { first, end }));
        }
        before = Some((used, first));
    }
}
