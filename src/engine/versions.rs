//! What the shared index says of a block's versions while a transaction is prepared and stored.
//!
//! The answers depend on what other threads do meanwhile. So each is given once for a transaction,
//! and kept until it is stored.
//!
//! A slot that is to be written again is held from the answer on, so that no other thread gives it
//! back. It is held under the lock of the block's share of the index. Behind that lock every reader
//! sees a newer version, and none copies from the slot any more.

use journal_core::parts::{FrameAt, Full, Versions};
use journal_core::record::Form;
use journal_core::units::{LaneNumber, SlotNumber};
use journal_core::{BlockNumber, Rule};

use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::home_cell::appends::Appending;
use crate::staging::work::Answer;

/// Knows versions by the shared index.
pub(crate) struct SharedVersions<'s, 'w, L, M: Machine> {
    pub(crate) shared: &'s Shared<L, M>,
    /// The lane that is committed through.
    pub(crate) lane: LaneNumber,
    /// Ascending by block.
    pub(crate) answers: &'w mut Vec<Answer>,
    /// Whether some share's lock needs an atomic exchange.
    pub(crate) takes_in_first: bool,
    /// The blocks whose frames were taken in, if the caller asks for them.
    pub(crate) taken_in: Option<&'w mut Vec<BlockNumber>>,
    /// Whether all old images that were to be lent were there.
    pub(crate) is_lent_all: bool,
    /// The appends that it begins.
    pub(crate) appending: Option<&'w Appending<'w>>,
}

impl<'s, 'w, L, M: Machine> SharedVersions<'s, 'w, L, M> {
    pub(crate) const fn new(
        shared: &'s Shared<L, M>,
        lane: LaneNumber,
        answers: &'w mut Vec<Answer>,
    ) -> Self {
        let (takes_in_first, taken_in, is_lent_all, appending) = (false, None, true, None);
        Self { shared, lane, answers, takes_in_first, taken_in, is_lent_all, appending }
    }
}

impl<L, M: Machine> SharedVersions<'_, '_, L, M> {
    fn answer(&mut self, block: BlockNumber) -> usize {
        match self.answers.binary_search_by_key(&block, |answer| answer.block) {
            Ok(at) => at,
            Err(at) => {
                let answer = Answer { block, older_slot: None, may_go_home: None };
                self.answers.insert(at, answer);
                at
            }
        }
    }

    /// Whether a frame is durable by the time that anything is stored. All records of other lanes
    /// that may be read are durable by then.
    fn is_durable(&self, frame: &FrameAt) -> bool {
        frame.lane != self.lane || self.shared.lane(frame.lane).reach.is_durable(frame.sequence)
    }
}

impl<L, M: Machine> Versions for SharedVersions<'_, '_, L, M> {
    fn older_slot(&mut self, block: BlockNumber) -> Option<SlotNumber> {
        let at = self.answer(block);
        if let Some(known) = self.answers[at].older_slot {
            return known;
        }
        // A snapshot may see the older version.
        let is_kept = self.shared.keeps_for_snapshots();
        let share = if is_kept { None } else { self.shared.lock_share(block).ok() };
        let slot = share.and_then(|mut share| {
            let spares = self.shared.keeps(Rule::NewestSpared);
            let is_durable = |frame: &FrameAt| self.is_durable(frame) || !spares;
            share.index.hold_older_slot(block, self.lane, &self.shared.common.geometry, is_durable)
        });
        self.answers[at].older_slot = Some(slot);
        slot
    }

    fn may_go_home(&mut self, block: BlockNumber) -> bool {
        let at = self.answer(block);
        if let Some(known) = self.answers[at].may_go_home {
            return known;
        }
        let may = self.shared.lock_share(block).is_ok_and(|share| {
            let Some(newest) = share.index.newest(block) else { return true };
            let frame = share.index.frame(newest);
            // A snapshot may see what is home, if the discard came behind it.
            if self.shared.keeps_for_snapshots() {
                return false;
            }
            let is_free = frame.form == Form::Discard && self.is_durable(&frame);
            is_free && !share.index.is_leaving(block) || !self.shared.keeps(Rule::AppendsNotLive)
        });
        self.answers[at].may_go_home = Some(may);
        may
    }

    fn with_old<R>(
        &mut self,
        block: BlockNumber,
        with_check: bool,
        call: impl FnOnce(Option<(&[u8], Option<u64>)>) -> R,
    ) -> R {
        let is_lent_all = &mut self.is_lent_all;
        self.shared.with_kept_and_check(block, with_check, |kept| {
            *is_lent_all &= kept.is_some();
            call(kept)
        })
    }

    fn begins_append(&mut self, block: BlockNumber) -> bool {
        self.appending.is_none_or(|appending| self.shared.begins_append(appending, block))
    }

    fn is_own(&self, slot: SlotNumber) -> bool {
        self.shared.common.geometry.lane_of_slot(slot) == self.lane
    }

    fn takes_in_first(&self) -> bool {
        self.takes_in_first
    }

    // So that a frame need not be in memory: it would be loaded again by two words at a time.
    #[inline(always)]
    fn take_in(&mut self, frame: FrameAt) -> Result<(), Full> {
        if let Some(taken_in) = &mut self.taken_in {
            taken_in.push(frame.block);
        }
        self.shared.take_in(frame);
        Ok(())
    }
}

impl<L, M: Machine> Shared<L, M> {
    /// Whether a snapshot may see what a commit would forget or write over.
    pub(super) fn keeps_for_snapshots(&self) -> bool {
        self.snapshots.are_kept() && self.keeps(Rule::SnapshotsKept)
    }
}
