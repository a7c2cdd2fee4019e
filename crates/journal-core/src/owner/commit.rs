//! Commits of the one owner.

use crate::commit::error::CommitError;
use crate::commit::scheme::Common;
use crate::owner::journal::Journal;
use crate::owner::machine::Machine;
use crate::ports::policy::Policy;
use crate::reclaim::unreadable::{filled_by, pinned_by};
use crate::space::lane::InLane;
use crate::units::{BlockNumber, LaneNumber};

impl<L: Policy, M: Machine> Journal<'_, L, M> {
    /// A lane with what is known of its slots, to keep active content there; `None` when there is
    /// no such lane.
    ///
    /// Where the call panics the journal refuses to go on: what is active may be half changed.
    pub fn with_active<R>(
        &mut self,
        lane: LaneNumber,
        call: impl FnOnce(&mut InLane<'_, M::Pmem, M::Hook>, &Common<L, M::Kernels>) -> R,
    ) -> Option<R> {
        let is_there = lane.raw() < self.common.geometry.lanes;
        is_there.then(|| {
            self.watched(|journal| call(&mut journal.lanes.in_lane(lane), &journal.common))
        })
    }

    /// Blocks that the last write home or the last copy has left out, because they could not be
    /// read. A read says why; a whole new image, or a discard, is the end of it.
    pub fn unreadable(&self) -> impl Iterator<Item = BlockNumber> + '_ {
        self.index.each_unreadable()
    }

    /// Whether there is room for a record, and for its frames in the index.
    #[inline]
    pub(crate) fn see_to_space(
        &mut self,
        lane: LaneNumber,
        bytes: u64,
        frames: usize,
    ) -> Result<(), CommitError> {
        match self.check_space(lane, bytes, frames) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.explain(lane, error)),
        }
    }

    /// Why there is too little space, if a checkpoint makes none.
    #[cold]
    fn explain(&mut self, lane: LaneNumber, error: CommitError) -> CommitError {
        let found = match error {
            CommitError::NoSpace { .. } => pinned_by(&mut self.lanes, &mut self.index, lane),
            CommitError::IndexFull { .. } => {
                filled_by(&mut self.lanes, &mut self.index, BlockNumber(0))
            }
            _ => Ok(None),
        };
        match found {
            Ok(Some(block)) => CommitError::Unreadable { block },
            _ => error,
        }
    }
}
