//! What is due at a host's time: a commit of what is gathered, room, and a checkpoint.
//!
//! TK1. A tick with a limit makes room in the steps that transactions take, and gives the upkeep
//!      back between them. Behind the limit it begins no step, and no batch of a checkpoint. It
//!      does one at least, so that ticks come to an end however short the limit is.
//! TK2. A checkpoint that the limit ends stays due. The next tick, at whatever time, goes on with
//!      the blocks that it had found, unless another checkpoint has begun since. So blocks that are
//!      written between ticks do not keep it from ending.
//! TK3. What no step can do is left to the transaction that needs the room. A step that has
//!      freed, moved and written nothing is not followed by another one.
//!
//! **Crash**: as for a commit, and for a checkpoint.

use core::ops::ControlFlow;
use core::time::Duration;
use std::time::Instant;

use journal_core::CheckpointReport;
use journal_core::policy::Policy;

use crate::engine::gather::Reason;
use crate::engine::upkeep::in_steps::Stepped;
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::threads::sync::Ordering;

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Does what is due at the host's time `now`, up to a limit, if there is one. Returns whether
    /// all of it is done.
    pub(crate) fn tick(&self, now: Duration, limit: Option<Duration>) -> Result<bool, Error> {
        self.check_not_failed()?;
        let begun = Instant::now();
        // 1. What is gathered.
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let before = self.gathering.now.fetch_max(nanos, Ordering::Relaxed);
        let nanos = nanos.max(before);
        let now = Duration::from_nanos(nanos);
        if before == 0 {
            self.gathering.checkpointed.store(nanos, Ordering::Relaxed);
        }
        self.commit_left()?;
        if let Some(after) = self.gathering.pacing.commit_after {
            let running = self.gathering.lock().running.since;
            if now.saturating_sub(running) >= after {
                self.commit_batch_for(Reason::Timer)?;
            }
        }
        // 2. Room.
        let is_over = || limit.is_some_and(|limit| begun.elapsed() >= limit);
        let mut has_done_all = true;
        if !self.bell.has_thread() {
            match limit {
                None => self.keep_room()?,
                Some(_) => has_done_all = self.keep_room_in_steps(is_over)?,
            }
        }
        // 3. A checkpoint.
        let Some(after) = self.gathering.pacing.checkpoint_after else { return Ok(has_done_all) };
        let last = self.gathering.checkpointed.load(Ordering::Relaxed);
        if now.saturating_sub(Duration::from_nanos(last)) < after {
            return Ok(has_done_all);
        }
        self.gathering.checkpointed.store(nanos, Ordering::Relaxed);
        let mut is_cut = false;
        let mut each = |_: &CheckpointReport, left: u64| {
            is_cut = left > 0 && is_over();
            if is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let goes_on = self.gathering.was_cut.load(Ordering::Relaxed);
        match self.common.policy.keeps_in_slots() {
            true => self.checkpoint_rings_each(&mut each, goes_on)?,
            false => self.checkpoint_each(&mut each, goes_on)?,
        };
        self.gathering.was_cut.store(is_cut, Ordering::Relaxed);
        if is_cut {
            self.gathering.checkpointed.store(last, Ordering::Relaxed);
        }
        Ok(has_done_all && !is_cut)
    }

    /// Makes room ahead of need, in the thread in the background.
    pub(super) fn keep_room_behind(&self) -> Result<(), Error> {
        let running = self.room_of_running();
        self.make_room_ahead(|stage| !self.is_short_beside(stage, running))
    }

    /// Makes room where a threshold is crossed. It is for hosts that have no thread for this. What
    /// the running transaction has reserved is no reason to write anything home: when it commits,
    /// it gives most of that back.
    fn keep_room(&self) -> Result<(), Error> {
        if !self.is_due() {
            return Ok(());
        }
        let running = self.reserved_by_running();
        match self.make_room_ahead(|stage| !self.is_short_beside(stage, running)) {
            // A commit that finds no room is told.
            Err(Error::NoShield { .. }) => Ok(()),
            made => made,
        }
    }

    /// Like [`keep_room`](Self::keep_room), step by step until the limit (TK1). Returns whether no
    /// further step would help, now or when an append has ended.
    fn keep_room_in_steps(&self, is_over: impl Fn() -> bool) -> Result<bool, Error> {
        while self.is_due() {
            let running = self.reserved_by_running();
            match self.make_room_by_a_step(|stage| self.is_short_of_any(stage, running)) {
                Ok(Stepped::More) if !is_over() => {}
                Ok(Stepped::More | Stepped::Awaits) => return Ok(false),
                // A commit that finds no room is told.
                Ok(Stepped::Enough) | Err(Error::NoShield { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
