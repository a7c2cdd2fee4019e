//! Whole checkpoints, which leave nothing in the rings of what was committed before them.
//!
//! Appends may keep heads back. A whole checkpoint waits for those that have begun when it has
//! written everything home, and then lets the heads go on (AP3). It waits with nothing in hand.
//!
//! **Crash**: as for a checkpoint.

use core::ops::ControlFlow;
use std::time::Instant;

use journal_core::policy::Policy;
use journal_core::{CheckpointReport, Rule, Scope};

use crate::engine::upkeep::checkpoint::{Each, Ended, HeldUpkeep, Task};
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::lending::{LanesOf, SharesOf};

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Writes home everything that is committed by now, and removes it from the lanes.
    pub(crate) fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        self.checkpoint_each(&mut |_, _| ControlFlow::Continue(()), false)
    }

    /// Like [`checkpoint`](Self::checkpoint), with a call behind each batch, which may end it. It
    /// may go on with one that was ended like that.
    pub(crate) fn checkpoint_each(
        &self,
        each: Each<'_>,
        goes_on: bool,
    ) -> Result<CheckpointReport, Error> {
        self.whole(|cell| {
            self.checkpoint_in(cell, Task { goes_on, ..Task::whole(Scope::All) }, each)
        })
    }

    /// Runs a checkpoint that is to leave nothing in the rings of what was committed before. Where
    /// appends kept heads back, the checkpoint waits for them and lets the heads go on (AP3).
    pub(super) fn whole(
        &self,
        call: impl FnOnce(&mut HeldUpkeep<'_>) -> Result<Ended, Error>,
    ) -> Result<CheckpointReport, Error> {
        let Ended { mut report, stays, is_held } = self.with_upkeep(call)?;
        if is_held && self.keeps(Rule::CheckpointsWhole) {
            let end = |cell| Ok::<_, Error>(self.lock_lane(cell)?.lane.end().0);
            let ends = self.lanes.iter().map(|cell| end(cell));
            self.appends.await_begun(ends)?;
            let (before, start) = (report, Instant::now());
            self.with_upkeep(|cell| self.let_heads_pass(cell, &mut report).map(drop))?;
            self.note_passed(&before, &report, start);
        }
        stays.map_or(Ok(report), Err)
    }

    /// Why a block stays, if one does for want of a shield. Such a block is in no list.
    ///
    /// The frame that a block's content begins with may be forgotten meanwhile, unless something is
    /// [being written](Self::writing). What is left would seem to lie on home.
    pub(super) fn lacks_shield(&self, scope: Scope) -> Result<Option<Error>, Error> {
        if self.common.geometry.shield_blocks > 0 {
            return Ok(None);
        }
        self.writing(|| {
            let (common, lanes, shares) = (&self.common, &mut LanesOf(self), &mut SharesOf(self));
            let lacks = self.lock_home()?.lacks_shield(common, lanes, shares, scope)?;
            Ok(lacks.map(|block| Error::NoShield { block }))
        })
    }

    /// Notes in the superblock that all is durable, and that nothing comes behind it.
    pub(crate) fn close(&self) -> Result<(), Error> {
        self.check_not_failed()?;
        self.with_upkeep(|_| {
            let noted = self.lock_home()?.close(&self.common, &mut LanesOf(self));
            noted.map_err(Error::from).inspect_err(|error| self.fail_of(*error))
        })
    }

    /// Notes what has come free at the end of a checkpoint that was noted before.
    fn note_passed(&self, before: &CheckpointReport, now: &CheckpointReport, start: Instant) {
        let freed = (now.freed_bytes - before.freed_bytes, now.freed_slots - before.freed_slots);
        let mut done = self.lock_done();
        done.checkpointing += start.elapsed();
        done.checkpointed.freed_bytes += freed.0;
        done.checkpointed.freed_slots += freed.1;
        drop(done);
        self.note_left();
        if freed != (0, 0) {
            self.tell_waiters_for_room();
        }
    }
}
