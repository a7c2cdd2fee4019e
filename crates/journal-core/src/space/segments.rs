//! Segments of the disk-side log: which of a lane's blocks there is written next.
//!
//! The log lies on the device, behind the blocks of the store. Its blocks are numbered, have
//! entries and are given back as slots are ([`crate::space::slots`]). But a block there is written
//! once, whole, and synced before the record that names it is stored
//! ([`crate::home::write_ahead`]). It is never written again before nothing needs it.
//!
//! SG1. Blocks are taken one behind the other in the *open* segment, so that what is written
//!     together lies together. A segment is opened when none of its blocks is used.
//! SG2. A freed log block is reused only when its whole segment is free: a cleaner
//!     ([`Scope::Segment`](crate::Scope::Segment)) moves what is left home.
//!
//! **Crash**: nothing of it is on the medium. An open counts the blocks that versions name; what
//! was written and is in no record is free.

use crate::format::geometry::Geometry;
use crate::space::slot_state::SlotState;

/// No block.
const NONE: u32 = u32::MAX;

/// The segments of one lane. Blocks are numbered from the first one of the lane's log on, and
/// so are their states.
#[derive(Debug)]
pub(crate) struct Segments {
    blocks: u32,
    segment_blocks: u32,
    /// The block that is taken next, in the open segment.
    next: u32,
    /// The first block of the first segment that is not used at all.
    free: u32,
    /// Blocks that can be taken.
    free_blocks: u32,
}

/// The blocks of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// How many of them are used.
    pub(crate) used: u64,
}

impl Segments {
    /// Nothing is free yet.
    pub(crate) const fn new(geometry: &Geometry) -> Self {
        Self {
            blocks: geometry.lane_log_blocks,
            segment_blocks: geometry.segment_blocks,
            next: NONE,
            free: NONE,
            free_blocks: 0,
        }
    }

    pub(crate) const fn free_blocks(&self) -> u32 {
        self.free_blocks
    }

    /// The first block of a block's segment.
    fn first_of(&self, block: u32) -> u32 {
        block.saturating_sub(block.checked_rem(self.segment_blocks).unwrap_or(0))
    }

    /// Whether a block lies behind the ones taken so far, in the open segment.
    fn is_open(&self, first: u32) -> bool {
        self.next != NONE && self.first_of(self.next) == first
    }

    /// Which blocks are used is known: lists the segments that are not, the lowest first.
    pub(crate) fn begin(&mut self, states: &mut [SlotState]) {
        for first in (0..self.blocks).step_by(self.segment_blocks.max(1) as usize).rev() {
            let end = first.saturating_add(self.segment_blocks);
            let blocks = states.get(first as usize..end as usize).unwrap_or_default();
            let used = blocks.iter().filter(|state| !state.is_free()).count();
            if let Some(state) = states.get_mut(first as usize) {
                state.set_used(used as u64);
            }
            if used == 0 {
                self.put_free(states, first);
            }
        }
    }

    fn put_free(&mut self, states: &mut [SlotState], first: u32) {
        if let Some(state) = states.get_mut(first as usize) {
            state.set_next(self.free);
            self.free = first;
            self.free_blocks = self.free_blocks.saturating_add(self.segment_blocks);
        }
    }

    /// Takes the next block.
    pub(crate) fn take(&mut self, states: &mut [SlotState]) -> Option<u32> {
        if self.next == NONE {
            let first = states.get_mut(self.free as usize).filter(|_| self.free != NONE)?;
            self.next = self.free;
            self.free = first.take_next();
        }
        let block = self.next;
        let first = self.first_of(block);
        states.get_mut(block as usize)?.set_free(false);
        let counted = states.get_mut(first as usize)?;
        counted.set_used(counted.used().saturating_add(1));
        self.free_blocks = self.free_blocks.saturating_sub(1);
        let next = block.saturating_add(1);
        self.next = if next < first.saturating_add(self.segment_blocks) { next } else { NONE };
        Some(block)
    }

    /// Gives a block back: nothing needs what it holds. Once: media that lie name one twice.
    pub(crate) fn give(&mut self, states: &mut [SlotState], block: u32) {
        let Some(state) = states.get_mut(block as usize).filter(|state| !state.is_free()) else {
            return;
        };
        state.set_free(true);
        let first = self.first_of(block);
        let Some(counted) = states.get_mut(first as usize) else { return };
        let used = counted.used().saturating_sub(1);
        counted.set_used(used);
        if used == 0 && !self.is_open(first) {
            self.put_free(states, first);
        }
    }

    /// The segments of which some blocks are used and none can be taken.
    pub(crate) fn full<'s>(
        &self,
        states: &'s [SlotState],
    ) -> impl Iterator<Item = Segment> + use<'s> {
        let (size, open) = (self.segment_blocks, self.next);
        let open = if open == NONE { NONE } else { self.first_of(open) };
        let firsts = (0..self.blocks).step_by(size.max(1) as usize);
        firsts.filter(move |first| *first != open).filter_map(move |first| {
            let used = states.get(first as usize)?.used();
            let end = first.saturating_add(size);
            (used > 0).then_some(Segment { first, end, used })
        })
    }

    /// Whether as many blocks can be taken as the open segment and those on the list have, and
    /// whether as many are used as each segment says.
    pub(crate) fn is_right(&self, states: &[SlotState]) -> bool {
        let open = match self.next {
            NONE => 0,
            next => self.first_of(next).saturating_add(self.segment_blocks).saturating_sub(next),
        };
        let next = |first: &u32| states.get(*first as usize)?.next();
        let listed = core::iter::successors((self.free != NONE).then_some(self.free), next);
        let most = self.blocks.saturating_add(1) as usize;
        let segments = u32::try_from(listed.take(most).count()).unwrap_or(u32::MAX);
        let free = segments.saturating_mul(self.segment_blocks).saturating_add(open);
        let counted = |segment: &[SlotState]| {
            let used = segment.iter().filter(|state| !state.is_free()).count() as u64;
            segment.first().is_some_and(|first| first.used() == used)
        };
        let blocks = states.get(..self.blocks as usize).unwrap_or_default();
        let mut segments = blocks.chunks(self.segment_blocks.max(1) as usize);
        free == self.free_blocks && segments.all(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::geometry::Protocol;
    use crate::units::BlockSize;

    fn segments(lane_log_blocks: u32, segment_blocks: u32) -> (Segments, [SlotState; 6]) {
        let geometry = Geometry {
            block_size: BlockSize::MIN,
            lanes: 1,
            lane_bytes: 1024,
            shield_blocks: 0,
            unit_bytes: 256,
            protocol: Protocol::OneFence,
            lane_slots: 0,
            lane_log_blocks,
            segment_blocks,
        };
        let mut states = [SlotState::EMPTY; 6];
        for state in &mut states {
            state.set_free(true);
        }
        (Segments::new(&geometry), states)
    }

    #[test]
    fn blocks_are_taken_in_order_and_again_when_their_segment_is_free() {
        let (mut log, mut states) = segments(6, 3);
        // As an open finds it: one block of the second segment is used.
        states[4].set_free(false);
        log.begin(&mut states);
        assert_eq!((log.free_blocks(), log.is_right(&states)), (3, true));
        let taken: [_; 4] = core::array::from_fn(|_| log.take(&mut states));
        assert_eq!(taken, [Some(0), Some(1), Some(2), None]);
        let full = |log: &Segments, states: &[SlotState]| {
            let mut used = [0; 2];
            for segment in log.full(states) {
                used[usize::from(segment.first == 3)] = segment.used;
            }
            used
        };
        assert_eq!(full(&log, &states), [3, 1]);
        log.give(&mut states, 0);
        log.give(&mut states, 0);
        log.give(&mut states, 2);
        assert_eq!((log.take(&mut states), full(&log, &states)), (None, [1, 1]));
        log.give(&mut states, 4);
        assert_eq!((log.free_blocks(), log.take(&mut states)), (3, Some(3)));
        assert_eq!(full(&log, &states), [1, 0], "what is open is not full");
        log.give(&mut states, 3);
        assert_eq!((log.free_blocks(), log.is_right(&states)), (2, true), "it is still open");
        log.give(&mut states, 1);
        assert_eq!((log.free_blocks(), log.is_right(&states)), (5, true));
        let rest: [_; 6] = core::array::from_fn(|_| log.take(&mut states));
        assert_eq!(rest, [Some(4), Some(5), Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn a_lane_without_a_log_has_no_blocks() {
        let (mut log, mut states) = segments(0, 0);
        log.begin(&mut states);
        log.give(&mut states, 7);
        assert_eq!((log.free_blocks(), log.take(&mut states)), (0, None));
        assert_eq!(log.full(&states).count(), 0);
    }
}
