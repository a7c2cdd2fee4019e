//! Commits of the one owner that carry a note, its active slots, and why a commit finds no space.
//!
//! A plain commit is in `owner/journal.rs`.

use crate::commit::error::CommitError;
use crate::commit::operation::Operation;
use crate::common::Common;
use crate::home::error::JournalError;
use crate::order::rule::Rule;
use crate::owner::journal::{Committed, Durability, Journal};
use crate::owner::machine::Machine;
use crate::ports::policy::Policy;
use crate::reclaim::unreadable::{filled_by, pinned_by};
use crate::space::lane::{Goes, InLane};
use crate::units::{BlockNumber, LaneNumber, Stamp};

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
            self.fail_on_panic(|journal| call(&mut journal.lanes.in_lane(lane), &journal.common))
        })
    }

    /// Lets records have notes from now on: see
    /// [`Home::begin_notes`](crate::parts::Home::begin_notes).
    ///
    /// # Errors
    /// Those of a checkpoint, and `Geometry`, with nothing changed.
    pub fn begin_notes(&mut self) -> Result<(), JournalError> {
        self.at_home(|home, common, lanes, _, _| home.begin_notes(common, lanes))
    }

    /// Commits a transaction like [`commit`](Self::commit), with two words of the store's own. The
    /// newest note comes back in [`Recovery::note`](crate::Recovery::note).
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit), and `NoNotes` before [`begin_notes`](Self::begin_notes).
    pub fn commit_noted(
        &mut self,
        lane: LaneNumber,
        operations: &[Operation<'_>],
        note: [u64; 2],
        durability: Durability,
    ) -> Result<Committed, CommitError> {
        if !self.home.has_notes() {
            return Err(CommitError::NoNotes);
        }
        self.commit_as(lane, operations, Some(note), durability, Goes::ByPolicy)
    }

    /// The stamp of the last record with a note since the journal was opened. Those of earlier ones
    /// are below all stamps of now.
    #[cold]
    pub(crate) fn last_noted(&self) -> Stamp {
        let lanes = (0..self.common.geometry.lanes).map(|lane| self.lane(LaneNumber(lane)));
        let stamps = lanes.filter_map(|lane| lane.noted).map(|(stamp, _)| stamp);
        stamps.max().filter(|_| self.keeps(Rule::NotesRise)).unwrap_or(Stamp(0))
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
