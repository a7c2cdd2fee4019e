//! The running transaction: many small transactions of the store, gathered in ordinary memory until
//! they commit as one record.
//!
//! G1. A transaction is gathered whole, under the locks of its blocks, which are then released.
//! G2. A block that is gathered is as if it were locked. A transaction that is not gathered itself
//!     and touches the block commits the running transaction first. So nothing is durable without
//!     what it builds on, and no other thread writes the block's frames meanwhile.
//! G3. One batch commits at a time, and the next one runs meanwhile. A reader looks for a block in
//!     the running batch, then in the committing one, then in the journal. The journal has the
//!     block before the committing batch lets it go.
//! G4. The room that the record takes at worst is reserved as blocks are gathered, so its commit
//!     cannot fail for space.
//!     Where the lane has too little, that is what it takes with its data in the disk-side log.
//!     An appended block of which the journal knows nothing needs its name alone, if the policy
//!     sends such blocks home. While it is gathered no frame of it appears (G2), so nothing keeps
//!     it from going there.
//! G5. Where ordinary memory is full, content goes on to active slots ([`spill`]). A slot that a
//!     batch has active is changed by that batch alone, and never again once its record is stored.
//!
//! Order of locks: blocks, then the turn to commit, then all the others. The gathered blocks
//! themselves are behind a mutex that is held for a moment, with nothing but shares taken under it.
//!
//! **Crash**: the running transaction is gone, with what it has in active slots. The committing one
//! is there as a whole or not at all. Transactions that were gathered later are not there without
//! those gathered before.

mod spill;

use std::sync::Arc;

use journal_core::parts::Operations;
use journal_core::policy::{Class, Kind, Policy, Update};
use journal_core::{BlockNumber, Durability, Operation, Rule};

use crate::engine::read::Keeps;
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::gathering::{Batch, Gathered};
use crate::staging::hint::Hint;
use crate::staging::staged::Staged;
use crate::staging::work::Work;
use crate::threads::sync::{MutexGuard, Ordering};

/// What the running transaction has too little of for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    /// Memory, or bytes of its lane: a spill may help.
    Room,
    /// It names as many objects as it may.
    Objects,
}

/// Why a running transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The host's time has come.
    Timer,
    /// It names as many objects as it may.
    Objects,
    /// It has too little room for one more.
    Room,
    /// A caller needs it durable, or the next transaction has another note.
    Other,
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Gathers a transaction whose blocks are locked and for which room is reserved. However the
    /// call ends, the transaction is over, and holds nothing any more.
    pub(crate) fn gather(
        &self,
        work: &mut Work,
        staged: &Staged,
        note: Option<[u64; 2]>,
    ) -> Result<(), Error> {
        let result = self.gather_held(work, staged, note);
        if result.is_err() {
            // No thread may see what has become of its blocks once the journal has failed.
            if !self.has_failed() {
                self.abort(work, staged);
            }
            work.clear();
            return result;
        }
        self.give_grants_back(work);
        self.unlock_blocks(work);
        work.clear();
        if !self.gathering.is_full() {
            return Ok(());
        }
        self.spill()?;
        // A batch cannot wait for more whose memory is filled by what no slot takes.
        let is_full = self.gathering.is_nearly_full();
        if is_full { self.hand_over(Reason::Room) } else { Ok(()) }
    }

    fn gather_held(
        &self,
        work: &mut Work,
        staged: &Staged,
        note: Option<[u64; 2]>,
    ) -> Result<(), Error> {
        if staged.count() == 0 {
            return self.check_not_failed();
        }
        loop {
            self.check_not_failed()?;
            let mut gathered = self.gathering.lock();
            let Gathered { running, committing, .. } = &mut *gathered;
            if running.is_empty() {
                let objects = self.objects_of(staged);
                // The running transaction takes over what this one has reserved (G4).
                (running.lane, running.reserved_bytes) = (work.lane, work.reserved_bytes);
                work.reserved_bytes = 0;
                running.reserved_log = core::mem::take(&mut work.reserved_log);
                running.bypasses = work.bypasses;
                running.since = self.gathering.now();
                (running.objects, running.note) = (objects, note);
            } else if running.note != note {
                // A record has one note, of all of its blocks.
                drop(gathered);
                self.hand_over(Reason::Other)?;
                continue;
            } else if let Err(lacks) = self.takes_in(running, committing.as_deref(), staged) {
                drop(gathered);
                if lacks == Lacks::Objects {
                    self.hand_over(Reason::Objects)?;
                } else if !self.spill()? {
                    self.hand_over(Reason::Room)?;
                }
                continue;
            }
            self.give_back_known(staged, |block| running.has(block));
            running.both += self.active_anew(running, staged);
            running.staged.absorb(staged);
            running.transactions += 1;
            gathered.stats.transactions += 1;
            gathered.stats.blocks += staged.count() as u64;
            self.gathering.is_there.store(true, Ordering::Release);
            drop(gathered);
            self.unreserve_bytes(work);
            self.unreserve_slots_and_log(work);
            return Ok(());
        }
    }

    /// How many blocks of a transaction the running one has in active slots alone.
    fn active_anew(&self, running: &Batch, staged: &Staged) -> usize {
        if running.active.is_empty() {
            return 0;
        }
        let blocks = (0..staged.count()).map(|at| staged.block(at));
        let is_one =
            |block: &BlockNumber| running.active.contains_key(block) && !running.staged.has(*block);
        blocks.filter(is_one).count()
    }

    /// Looks whether the running transaction has room for one more. If so, what that one takes is
    /// reserved.
    fn takes_in(
        &self,
        running: &mut Batch,
        committing: Option<&Batch>,
        staged: &Staged,
    ) -> Result<(), Lacks> {
        let blocks = (0..staged.count()).map(|at| staged.block(at));
        let new = blocks.filter(|block| !running.staged.has(*block)).count();
        let count = running.staged.count() + new;
        let objects = running.objects + self.objects_of_union(running, staged);
        let max = self.gathering.pacing.objects_max;
        if max.is_some_and(|max| objects > max.get().into()) {
            return Err(Lacks::Objects);
        }
        // Where all of it has been spilled, any transaction is taken.
        if count > self.gathering.blocks_max && running.staged.count() > 0 {
            return Err(Lacks::Room);
        }
        let not_active = running.not_active() + new - self.active_anew(running, staged);
        let (homeward, others) = self.homeward_of(running, committing, staged);
        let known = others.iter().filter(|block| running.homeward.contains(block)).count();
        let new = homeward.iter().filter(|block| !running.homeward.contains(block)).count();
        let all_homeward = running.homeward.len() + new - known;
        let needed = self.batch_bytes_max(not_active, running.active.len(), all_homeward);
        let more = needed.saturating_sub(running.reserved_bytes);
        let is_too_large = needed > self.common.geometry.lane_bytes;
        let kept = self.kept_to_bypass() + self.kept_bytes(more);
        // Where others wait for room it goes on with what it has.
        let has_more =
            || more == 0 || (!self.is_room_awaited() && self.take_bytes(running.lane, more, kept));
        if !is_too_large && has_more() {
            running.reserved_bytes += more;
        } else if self.is_room_awaited() || !self.reserve_to_bypass_together(running, staged) {
            return Err(Lacks::Room);
        }
        running.objects = objects;
        others.iter().for_each(|block| _ = running.homeward.remove(block));
        running.homeward.extend(homeward);
        Ok(())
    }

    /// The blocks of a transaction that are sure to go home when the running one has taken them
    /// in, and its other blocks.
    fn homeward_of(
        &self,
        running: &Batch,
        committing: Option<&Batch>,
        staged: &Staged,
    ) -> (Vec<BlockNumber>, Vec<BlockNumber>) {
        if !self.common.policy.sends_appends_home() {
            return (Vec::new(), Vec::new());
        }
        let is_sure = |at: usize| {
            let block = staged.block(at);
            let Hint { class, kind, .. } = running.staged.hint_with(staged, at);
            let is_append = class == Class::Data && kind == Kind::Append;
            // Its record is in the index before the committing batch is gone (G3).
            let is_known = || {
                committing.is_some_and(|batch| batch.has(block))
                    || self
                        .lock_share(block)
                        .map_or(true, |share| share.index.newest(block).is_some())
            };
            is_append
                && staged.image(block).is_some()
                && !running.active.contains_key(&block)
                && (!is_known() || !self.keeps(Rule::HomewardUnknown))
        };
        let (sure, others): (Vec<_>, Vec<_>) = (0..staged.count()).partition(|at| is_sure(*at));
        let blocks = |chosen: Vec<usize>| chosen.into_iter().map(|at| staged.block(at)).collect();
        (blocks(sure), blocks(others))
    }

    fn objects_of(&self, staged: &Staged) -> u64 {
        (0..staged.count()).map(|at| self.objects_in(&staged.operation(at))).sum()
    }

    fn objects_in(&self, operation: &Operation<'_>) -> u64 {
        match operation {
            Operation::Update(update) => self.common.policy.objects_in(update).into(),
            _ => 1,
        }
    }

    /// How many objects a transaction adds to those of the running one.
    fn objects_of_union(&self, running: &Batch, staged: &Staged) -> u64 {
        let mut more = 0_u64;
        for at in 0..staged.count() {
            let new = staged.operation(at);
            let known = running.staged.operation_of(new.block());
            if known.is_none() && running.active.contains_key(&new.block()) {
                // Its objects were counted before it was spilled.
                continue;
            }
            let before = known.map_or(0, |known| self.objects_in(&known));
            let both = running.staged.objects_with(staged, at, |update: &Update<'_>| {
                self.common.policy.objects_in(update).into()
            });
            more += both.unwrap_or_else(|| self.objects_in(&new)).saturating_sub(before);
        }
        more
    }

    /// Gives back the room in the index for frames of blocks that are gathered already.
    fn give_back_known(&self, staged: &Staged, is_known: impl Fn(BlockNumber) -> bool) {
        for at in 0..staged.count() {
            let block = staged.operation(at).block();
            if let Some(Ok(mut share)) = is_known(block).then(|| self.lock_share(block)) {
                share.reserved -= 1;
            }
        }
    }

    /// Makes room for another running transaction. If there is a thread in the background, and it
    /// has no other to commit, this one is left to it. Otherwise the caller commits it.
    fn hand_over(&self, reason: Reason) -> Result<(), Error> {
        if self.bell.has_thread() && self.seal(reason) {
            self.bell.wake();
            return Ok(());
        }
        self.commit_batch_for(reason)
    }

    /// Turns the running transaction into the committing one. Returns whether there is no other one
    /// to commit before that.
    fn seal(&self, reason: Reason) -> bool {
        let mut gathered = self.gathering.lock();
        if gathered.committing.is_some() {
            return false;
        }
        if !gathered.running.is_empty() {
            match reason {
                Reason::Timer => gathered.stats.by_timer += 1,
                Reason::Objects => gathered.stats.by_objects += 1,
                Reason::Room => gathered.stats.by_room += 1,
                Reason::Other => {}
            }
            let spare = gathered.spare.take();
            let mut next = spare.unwrap_or_else(|| Batch::new(self.gathering.block_bytes));
            if !self.keeps(Rule::ActiveOnce) {
                next.active = gathered.running.active.clone();
            }
            let sealed = core::mem::replace(&mut gathered.running, next);
            gathered.committing = Some(Arc::new(sealed));
        }
        true
    }

    /// Commits everything that is gathered by now, durably: a caller needs it.
    pub(crate) fn commit_batch(&self) -> Result<(), Error> {
        self.commit_batch_for(Reason::Other)
    }

    /// Commits everything that is gathered by now, durably.
    pub(super) fn commit_batch_for(&self, reason: Reason) -> Result<(), Error> {
        if !self.gathering.is_there.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut turn = self.turn()?;
        self.commit_sealed(&mut turn)?;
        // Where another thread has sealed the batch meanwhile, that was all there was.
        self.seal(reason);
        self.commit_sealed(&mut turn)
    }

    /// Commits what was left to be committed, if no other thread does so already.
    pub(crate) fn commit_left(&self) -> Result<(), Error> {
        if !self.gathering.is_there.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut turn = self.turn()?;
        self.commit_sealed(&mut turn)
    }

    fn turn(&self) -> Result<MutexGuard<'_, Box<Work>>, Error> {
        self.gathering.turn.lock().map_err(|_| self.poisoned())
    }

    fn commit_sealed(&self, work: &mut Work) -> Result<(), Error> {
        self.check_not_failed()?;
        let Some(sealed) = self.gathering.lock().committing.clone() else { return Ok(()) };
        work.lane = sealed.lane;
        work.reserved_bytes = sealed.reserved_bytes;
        (work.reserved_log, work.bypasses) = (sealed.reserved_log, sealed.bypasses);
        // The caller may hold blocks that others wait for.
        if sealed.note.is_some() {
            work.names.set_note(sealed.note);
        }
        let committed = self.fail_on_panic(|| match sealed.active.is_empty() {
            true => {
                self.note_overwritten(work, &sealed.staged);
                self.commit_reserved(work, &sealed.staged, Keeps::All, Durability::Durable)
            }
            false => self.commit_spilled(work, &sealed),
        });
        if let Err(error) = committed {
            // The callers were told that this would be durable some time, and others have read it.
            self.fail_of(error);
            return Err(error);
        }
        self.uses.advance();
        let mut gathered = self.gathering.lock();
        gathered.committing = None;
        gathered.spare = Arc::into_inner(sealed).map(Batch::emptied);
        gathered.stats.commits += 1;
        let is_there = !gathered.running.is_empty();
        self.gathering.is_there.store(is_there, Ordering::Release);
        drop(gathered);
        self.note_given_back();
        Ok(())
    }

    /// Notes again what a transaction overwrites: what was gathered has been committed since.
    pub(crate) fn note_overwritten<O: Operations + ?Sized>(&self, work: &mut Work, operations: &O) {
        for at in 0..operations.count() {
            let block = operations.block(at);
            let Ok(share) = self.lock_share(block) else { return };
            work.note_if_by_exchange(&share);
            self.note_overwritten_by(work, &share, share.index.lead(block));
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
