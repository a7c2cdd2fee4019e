//! A transaction under way.
//!
//! 1. A call takes its block: `take` locks it, and reserves what its frame takes
//!    (`engine/reserve.rs`).
//! 2. The new content waits in the seat (`staging/staged.rs`).
//! 3. `commit_as` readies what is staged, and commits it (`engine/commit.rs`).

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use full_block::FullBlock;
use journal_core::parts::Operations as _;
use journal_core::policy::{Kind, Patch, Placement, Policy, Update};
use journal_core::{BlockNumber, Committed, Durability, Operation};

use crate::engine::commit::Recorded;
use crate::engine::reserve::Patching;
use crate::engine::upkeep::trim::Becoming;
use crate::error::Error;
use crate::machine::{Machine, Native};
use crate::shared::Shared;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::staging::hint::Hint;
use crate::staging::seat::{Seat, Seated};
use crate::staging::staged::Below;
use crate::threads::block_locks::Age;

/// Several changes that happen together or not at all.
///
/// A transaction holds each block that it reads or writes until it ends. Other transactions wait
/// for the block, or get a [`Conflict`](Error::Conflict). No other transaction sees any change
/// before the commit, and the transaction itself sees what it has written. Dropping it aborts it,
/// without a trace.
///
/// The blocks' new contents are kept in memory until the commit.
///
/// A function that works in a transaction of the default journal spells no types:
///
/// ```no_run
/// use nvm_journal::{BlockNumber, Error, Journal, Transaction};
///
/// fn add(tx: &mut Transaction<'_>, block: BlockNumber, step: u64) -> Result<(), Error> {
///     let mut sum = [0; 8];
///     tx.read_at(block, 0, &mut sum)?;
///     tx.write_at(block, 0, &(u64::from_le_bytes(sum) + step).to_le_bytes())
/// }
///
/// fn add_to_two(journal: &Journal) -> Result<(), Error> {
///     journal.transact(|tx| {
///         add(tx, BlockNumber(1), 1)?;
///         add(tx, BlockNumber(2), 1)
///     })
/// }
/// ```
///
/// A transaction stays in its thread, to which its buffers belong. The thread must know which
/// transactions are its own, or it would wait for itself:
///
/// ```compile_fail,E0277
/// use nvm_journal::Transaction;
///
/// fn sent<T: Send>() {}
/// sent::<Transaction<'static>>();
/// ```
pub struct Transaction<'j, L: Policy = FullBlock, M: Machine = Native> {
    shared: &'j Shared<L, M>,
    seat: Seated<'j, DiskOf<M>>,
    age: Age,
    /// The block that was in the way, if there was one. After that only beginning again helps.
    blocked: Option<BlockNumber>,
    /// What its record says of it.
    note: Option<[u64; 2]>,
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Whether a request of `bytes` bytes is for one whole block, which the device has.
    #[inline]
    pub(crate) fn check_request(&self, block: BlockNumber, bytes: usize) -> Result<(), Error> {
        self.check_range(block, 0, bytes)?;
        if bytes == self.common.block_bytes() {
            Ok(())
        } else {
            Err(Error::OutOfBlock { block, at: 0, bytes })
        }
    }

    pub(crate) fn check_range(
        &self,
        block: BlockNumber,
        at: usize,
        bytes: usize,
    ) -> Result<(), Error> {
        if !self.common.has(block) {
            return Err(Error::OutOfDevice { block });
        }
        if at.checked_add(bytes).is_none_or(|end| end > self.common.block_bytes()) {
            return Err(Error::OutOfBlock { block, at, bytes });
        }
        Ok(())
    }
}

impl<'j, L: Policy, M: Machine> Transaction<'j, L, M> {
    // C1: inlined, so that what is made here is stored once, where the caller keeps it.
    #[inline(always)]
    pub(crate) fn begin(shared: &'j Shared<L, M>) -> Result<Self, Error> {
        shared.check_not_failed()?;
        let seat = Self::sit_down(shared);
        let age = seat.age();
        Ok(Self { shared, seat, age, blocked: None, note: None })
    }

    /// Takes a seat for a transaction that begins.
    #[inline(never)]
    fn sit_down(shared: &'j Shared<L, M>) -> Seated<'j, DiskOf<M>> {
        let mut seat = shared.seats.sit();
        shared.choose_lane(&mut seat);
        seat.work.forget_wants();
        let _ = seat.next_age(shared.blocks.age_behind());
        seat
    }

    /// Begins like [`begin`](Self::begin). The transaction waits no longer than `limit`, all of its
    /// waits together.
    pub(crate) fn begin_within(shared: &'j Shared<L, M>, limit: Duration) -> Result<Self, Error> {
        let mut transaction = Self::begin(shared)?;
        // A limit that no clock can express is no limit.
        transaction.seat.work.until = Instant::now().checked_add(limit);
        Ok(transaction)
    }

    /// Reads a block: what this transaction has written, or else what is committed. No other thread
    /// changes the block before the transaction ends.
    ///
    /// # Errors
    /// `Conflict`; `OutOfDevice`; `OutOfBlock` unless `into` is one block long. Also those of
    /// [`Journal::read`](crate::Journal::read), after which the transaction can go on where the
    /// journal does.
    pub fn read(&mut self, block: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        self.shared.check_request(block, into.len())?;
        self.lock(block)?;
        match self.seat.staged.image(block) {
            Some(image) => {
                pmem_sys::copy_block(into, image);
                Ok(())
            }
            None => {
                self.shared.read(self.seat.for_reading(), block, into)?;
                self.seat.staged.overlay(block, 0, into);
                Ok(())
            }
        }
    }

    /// Reads bytes of a block, like [`read`](Self::read).
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), and `OutOfBlock` when the bytes do not lie in the block.
    pub fn read_at(&mut self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        self.shared.check_range(block, at, into.len())?;
        if self.seat.staged.has(block) {
            self.lock(block)?;
        }
        if let Some(image) = self.seat.staged.image(block) {
            pmem_sys::copy_block(into, &image[at..][..into.len()]);
            return Ok(());
        }
        if !self.lock_and_read_kept(block, at, into)? {
            self.read_to_spare(block)?;
            let image = self.seat.staged.spare();
            pmem_sys::copy_block(into, &image[at..][..into.len()]);
        }
        self.seat.staged.overlay(block, at, into);
        Ok(())
    }

    /// Makes `image` the block's new content.
    ///
    /// # Errors
    /// `Conflict`; `OutOfDevice`; `OutOfBlock` unless `image` is one block long; `TooLarge` and
    /// `TooManyBlocks`. The transaction is as before, and can go on except after a conflict.
    ///
    /// When the journal is full the call makes room first, with the errors of
    /// [`checkpoint`](crate::Journal::checkpoint), and `Unreadable` where a checkpoint makes no
    /// room.
    #[inline]
    pub fn write(&mut self, block: BlockNumber, image: &[u8]) -> Result<(), Error> {
        self.write_with(block, Hint::DATA, image)
    }

    /// Like [`write`](Self::write), for a block that is not live: never written, or discarded. A
    /// policy may use that.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub fn append(&mut self, block: BlockNumber, image: &[u8]) -> Result<(), Error> {
        self.write_with(block, Hint::APPEND, image)
    }

    /// Like [`write`](Self::write), for a block that holds structure of the store. A policy may use
    /// that.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub fn write_metadata(&mut self, block: BlockNumber, image: &[u8]) -> Result<(), Error> {
        self.write_with(block, Hint::METADATA, image)
    }

    /// Like [`write`](Self::write), with a hint. If a block gets several hints, the last one
    /// counts; whether the block was live is taken from the first.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    #[inline]
    pub fn write_with(
        &mut self,
        block: BlockNumber,
        hint: Hint,
        image: &[u8],
    ) -> Result<(), Error> {
        self.shared.check_request(block, image.len())?;
        self.shared.common.prefetch_image(image);
        self.shared.prefetch_block(block);
        self.take_first(block, Some(hint))?;
        let shared = self.shared;
        let (wants_old, compares) = (shared.common.policy.wants_old(), shared.compares_cached());
        let is_first = (wants_old || compares) && !self.seat.staged.has(block);
        let is_lent = is_first && hint.kind == Kind::Overwrite && shared.lends_old(block);
        if is_first && wants_old && !is_lent {
            shared.keep_old(&mut self.seat, block, hint.kind)?;
        } else if is_first && !is_lent {
            shared.keep_cached_old(&mut self.seat, block, hint.kind)?;
        }
        self.seat.staged.write(block, hint, image);
        if is_lent {
            self.seat.staged.lend_old(block);
        }
        Ok(())
    }

    /// Locks a block, and reads bytes of what the cache keeps of it. Returns whether it keeps
    /// anything.
    fn lock_and_read_kept(
        &mut self,
        block: BlockNumber,
        at: usize,
        into: &mut [u8],
    ) -> Result<bool, Error> {
        if let Some(block) = self.blocked {
            return Err(Error::Conflict { block });
        }
        let shared = self.shared;
        let read = shared
            .lock_block(&mut self.seat.work, self.age, block)
            .and_then(|share| shared.read_kept_of(share, block, at, into));
        if read.is_err() {
            self.note_conflict(read.map(drop))?;
        }
        read
    }

    /// Reads what is committed of a block into the spare page; returns whether the block is live.
    fn read_to_spare(&mut self, block: BlockNumber) -> Result<bool, Error> {
        let (reading, spare) = self.seat.for_reading_spare();
        self.shared.read(reading, block, spare)
    }

    /// Stages an operation in this transaction.
    pub(crate) fn stage(&mut self, operation: &Operation<'_>) -> Result<(), Error> {
        let (block, update) = match operation {
            Operation::Update(update) => (update.block, update),
            Operation::Discard(block) => return self.discard(*block),
            other => {
                let (block, placement) = (other.block(), Placement::Slot);
                return Err(Error::CannotPlace { block, placement });
            }
        };
        let Update { class, kind, object_bytes, change, .. } = *update;
        let hint = Hint { class, kind, object_bytes };
        if let Some(image) = change.image() {
            return self.write_with(block, hint, image);
        }
        for Patch { at, bytes } in change.pieces() {
            self.write_at_with(block, hint, at as usize, bytes)?;
        }
        Ok(())
    }

    /// Changes bytes of the block; the rest of it stays as it is. The policy is told which bytes
    /// change, and may log no more than those.
    ///
    /// Where the policy [logs patches](Policy::logs_patches), the block is mostly not even read. So
    /// the call does not find out whether it can be. If it cannot, a later read says so, and a
    /// checkpoint leaves the block out, until it is written whole.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write) and [`read`](Self::read), and `OutOfBlock` when the
    /// bytes do not lie in the block.
    pub fn write_at(&mut self, block: BlockNumber, at: usize, bytes: &[u8]) -> Result<(), Error> {
        self.patch(block, None, at, bytes)
    }

    /// Like [`write_at`](Self::write_at), with a hint, which then holds for the whole block.
    ///
    /// # Errors
    /// The errors of [`write_at`](Self::write_at).
    pub fn write_at_with(
        &mut self,
        block: BlockNumber,
        hint: Hint,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        self.patch(block, Some(hint), at, bytes)
    }

    // C2: inlined, so that a write is one call where nothing is in its way.
    #[inline(always)]
    fn patch(
        &mut self,
        block: BlockNumber,
        hint: Option<Hint>,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        self.shared.check_range(block, at, bytes.len())?;
        self.anew_if_first(|tx| tx.try_patch(block, hint, at, bytes))
    }

    #[inline(never)]
    fn try_patch(
        &mut self,
        block: BlockNumber,
        hint: Option<Hint>,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        self.await_room_to_begin(block)?;
        // What lies below a block that was not live is nothing to build on.
        let is_new = hint.is_some_and(|hint| hint.kind == Kind::Append);
        let shared = self.shared;
        let bytes_max = shared.patch_bytes_max();
        // Whether it needs no image, as far as that is known before the block is locked.
        let may_be_alone = !is_new
            && bytes.len() <= bytes_max
            && !self.seat.staged.has(block)
            && self.seat.staged.takes_patch(bytes)
            && !shared.needs_image_to_bypass(&self.seat.work, &self.seat.staged);
        let reserves = may_be_alone && !shared.compares_cached();
        let (patching, is_reserved) = self.lock_to_patch(block, (at, bytes.len()), reserves)?;
        let update = Some(hint.unwrap_or(Hint::DATA));
        if self.seat.staged.has(block) {
            if self.seat.work.bypasses {
                self.build_image(block)?;
                let after = self.seat.staged.hint_after(block, hint);
                self.take(block, Some(after))?;
            }
            if self.seat.staged.note_patch(block, hint, at, bytes, bytes_max) {
                return Ok(());
            }
            self.build_image(block)?;
            // A block discarded before in this transaction has no defined content to keep.
            self.seat.staged.patch(block, hint, Below::Nothing, at, bytes);
            return Ok(());
        }
        if !is_new && shared.compares_cached() && shared.has_kept(block, at, bytes) {
            return Ok(());
        }
        if may_be_alone && matches!(patching, Patching::Alone | Patching::OnKept) {
            if is_reserved {
                let Seat { work, staged, .. } = &mut *self.seat;
                let reserved = shared.reserve_one_more(work, staged, block, update);
                self.note_conflict(reserved)?;
            } else {
                self.take(block, update)?;
            }
            if self.seat.work.bypasses {
                // What goes to the log is an image.
                let read = self.read_to_spare(block);
                self.shared.or_give_up_frame(read.map(drop), block)?;
                let is_live = read == Ok(true);
                return self.patch_spare(block, hint, (is_live, patching), (at, bytes));
            }
            let is_noted = self.seat.staged.note_first_patch(block, hint, at, bytes, bytes_max);
            assert!(is_noted, "it is the block's first");
            if patching == Patching::OnKept {
                self.seat.staged.lend_old(block);
            }
            return Ok(());
        }
        // A block that an earlier transaction discarded is logged whole. A checkpoint may forget
        // the discard, and then other content lies below what is logged of the block.
        // The page goes from the cache to the transaction, unless others need what it holds.
        let is_lost = !shared.common.policy.wants_old() && !is_new && !self.seat.work.on_gathered;
        let is_taken = is_lost && shared.take_kept(block, self.seat.staged.spare_page());
        let is_live = is_taken || self.read_to_spare(block)?;
        self.take(block, update)?;
        self.patch_spare(block, hint, (is_live, patching), (at, bytes))
    }

    /// Stages a patch of the content in the spare page, which the block has if it is live.
    fn patch_spare(
        &mut self,
        block: BlockNumber,
        hint: Option<Hint>,
        (is_live, patching): (bool, Patching),
        (at, bytes): (usize, &[u8]),
    ) -> Result<(), Error> {
        let is_compared = is_live && patching != Patching::AsWhole;
        if is_compared && self.shared.common.policy.wants_old() {
            self.seat.staged.keep_spare_as_old(block);
        }
        let below = match (is_live, patching) {
            (false, _) => Below::Nothing,
            (true, Patching::AsWhole) => Below::Whole,
            (true, Patching::Alone | Patching::OnKept | Patching::OnImage) => Below::Spare,
        };
        self.seat.staged.patch(block, hint, below, at, bytes);
        Ok(())
    }

    /// Locks a block. Returns how a patch of it is to be logged, and whether room for its frame is
    /// reserved already.
    #[inline]
    fn lock_to_patch(
        &mut self,
        block: BlockNumber,
        bytes: (usize, usize),
        reserves: bool,
    ) -> Result<(Patching, bool), Error> {
        if let Some(block) = self.blocked {
            return Err(Error::Conflict { block });
        }
        let work = &mut self.seat.work;
        let locked = self.shared.lock_to_patch(work, self.age, block, bytes, reserves);
        if locked.is_err() {
            self.note_conflict(locked.map(drop))?;
        }
        locked
    }

    /// Makes the image of a block that has nothing but patches in this transaction.
    #[cold]
    fn build_image(&mut self, block: BlockNumber) -> Result<(), Error> {
        self.shared.build_image(&mut self.seat, block)
    }

    /// Says that the block is not live any more. Its content is undefined until it is written
    /// again, and need not be written home.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub fn discard(&mut self, block: BlockNumber) -> Result<(), Error> {
        self.shared.check_range(block, 0, 0)?;
        self.take_first(block, None)?;
        self.seat.staged.discard(block);
        Ok(())
    }

    /// Notes two words of the store's own with the transaction. Its record carries them, and they
    /// become durable with it. The last call counts.
    ///
    /// The newest note of all comes back with every later open, in
    /// [`Recovery::note`](crate::Recovery::note). No checkpoint loses it. So a store may keep there
    /// what changes with each transaction, the length of a file for example. And as long as the
    /// record is in its lane, [`Journal::each_noted`](crate::Journal::each_noted) tells the notes
    /// of its blocks: for example, the owner of a block, and its position there.
    ///
    /// A transaction that changes nothing has no record: its note is lost. Transactions are
    /// gathered in one record only with others of the same note.
    ///
    /// The first note ever in a journal writes its superblock, so that earlier versions of this
    /// library refuse the journal from then on. A record with a note is 16 bytes longer.
    ///
    /// # Errors
    /// `Failed`, and `Medium` in the first call. `Options` where a
    /// [media unit](crate::Options::unit_bytes) is too short for the superblock with a note.
    pub fn note(&mut self, note: [u64; 2]) -> Result<(), Error> {
        self.shared.see_to_notes()?;
        self.note = Some(note);
        Ok(())
    }

    /// Commits durably: when it returns, no crash takes the transaction back. One fence.
    ///
    /// `None` when there was nothing to log.
    ///
    /// # Errors
    /// `Conflict` when an earlier call has met one, or `CannotPlace`: the transaction is aborted
    /// then. After `Medium`, `Device` and `Failed`, whether it is durable is unknown until the
    /// journal is opened again. A commit never fails for lack of space.
    #[inline]
    pub fn commit(mut self) -> Result<Option<Committed>, Error> {
        let mut error = None;
        let recorded = self.commit_as(Durability::Durable, &mut error);
        self.told(recorded, error)
    }

    /// Commits without a fence: others see the transaction at once. The next
    /// [`sync`](crate::Journal::sync), or a later durable commit, makes it durable. A crash before
    /// then may take it back, with all deferred commits behind it.
    ///
    /// A record that stores more than about 1 KiB, in slots or in the lane, is fenced all the same,
    /// as a durable one is: that costs less than flushing it later. So deferring whole blocks saves
    /// nothing. Like a durable record, it may wait for the fence of another thread.
    ///
    /// # Errors
    /// The errors of [`commit`](Self::commit).
    pub fn commit_deferred(mut self) -> Result<Option<Committed>, Error> {
        let mut error = None;
        let recorded = self.commit_as(Durability::Deferred, &mut error);
        self.told(recorded, error)
    }

    /// Hands it to the *running transaction*, which gathers many transactions in ordinary memory.
    /// The running transaction commits them with one record and one fence. Of a block that is
    /// written again and again, the record holds only the last content.
    ///
    /// Others see the transaction at once. It becomes durable with the running transaction. That
    /// commits in these cases:
    ///
    /// - at the next [`sync`](crate::Journal::sync);
    /// - when it is full, or as old as [`Options::pacing`](crate::Options::pacing) says;
    /// - when a transaction that is not gathered touches one of its blocks.
    ///
    /// Until then a crash takes back all of it, and never a part.
    ///
    /// # Errors
    /// `Conflict` when an earlier call has met one, and the errors of [`read`](Self::read) where a
    /// block was patched that cannot be read: the transaction is aborted then. `Medium`, `Device`,
    /// `CannotPlace` and `Failed`, when the previous running transaction had to be committed, or
    /// this one filled it: the journal has failed then, which
    /// [`Journal::failure`](crate::Journal::failure) tells. The call never fails for lack of space.
    ///
    /// ```no_run
    /// # fn example(journal: &nvm_journal::Journal) -> Result<(), nvm_journal::Error> {
    /// # use nvm_journal::{BlockNumber, Error};
    /// for step in 0_u64..1000 {
    ///     journal.transact_gathered(|tx| tx.write_at(BlockNumber(1), 0, &step.to_le_bytes()))?;
    /// }
    /// journal.sync()?; // One record, with one block.
    /// # Ok(())
    /// # }
    /// ```
    pub fn commit_gathered(mut self) -> Result<(), Error> {
        if let Some(block) = self.blocked {
            return Err(Error::Conflict { block });
        }
        // The running transaction may take in more than one transaction of a block.
        let patched: Vec<_> = self.seat.staged.patched().collect();
        patched.into_iter().try_for_each(|block| self.build_image(block))?;
        if self.seat.staged.has_loans() {
            self.shared.end_loans(&mut self.seat)?;
        }
        let seat: &mut Seat<DiskOf<M>> = &mut self.seat;
        seat.work.defers = false;
        let result = self.shared.gather(&mut seat.work, &seat.staged, self.note);
        seat.staged.clear();
        result
    }

    /// Gives the transaction up, as if it had never begun. Dropping it does the same.
    pub fn abort(self) {
        drop(self);
    }

    #[inline(never)]
    fn commit_as(&mut self, durability: Durability, error: &mut Option<Error>) -> Option<Recorded> {
        if let Err(one) = self.make_ready(durability) {
            // The transaction is aborted when it is dropped, unless the journal has failed.
            *error = Some(one);
            return None;
        }
        let recorded = self.commit_staged(durability, error);
        self.seat.staged.clear();
        self.shared.see_to_room(error.is_none());
        recorded
    }

    /// What the caller is told of a commit.
    #[inline(always)]
    fn told(
        &self,
        recorded: Option<Recorded>,
        error: Option<Error>,
    ) -> Result<Option<Committed>, Error> {
        match error {
            None => Ok(recorded.map(|recorded| recorded.committed(self.seat.work.lane))),
            Some(error) => Err(error),
        }
    }

    /// Does what comes before anything that is staged is committed.
    #[inline]
    fn make_ready(&mut self, durability: Durability) -> Result<(), Error> {
        if let Some(block) = self.blocked {
            return Err(Error::Conflict { block });
        }
        let seat: &mut Seat<DiskOf<M>> = &mut self.seat;
        seat.work.begins_to_commit(durability);
        if seat.work.on_gathered || (self.note.is_some() && self.shared.gathering.is_noted()) {
            self.shared.make_gathered_durable(&mut seat.work, &seat.staged)?;
        }
        if self.note.is_some() {
            seat.work.names.set_note(self.note);
        }
        Ok(())
    }

    /// Commits what is staged. Images that are kept for readers are handed over with their pages.
    #[inline]
    fn commit_staged(
        &mut self,
        durability: Durability,
        error: &mut Option<Error>,
    ) -> Option<Recorded> {
        let (shared, seat): (_, &mut Seat<DiskOf<M>>) = (self.shared, &mut self.seat);
        let recorded = match seat.staged.has_loans() {
            true => shared.commit_on_loans(seat, durability, error)?,
            false => {
                let Seat { staged, work, .. } = &mut *seat;
                staged.ready(|it| shared.commit_ready(work, it, None, durability, error))?
            }
        };
        let Seat { staged, work, .. } = seat;
        if staged.images() > 0 && shared.caches && !shared.pins {
            shared.keep_pages(staged, &recorded.committed(work.lane));
        }
        Some(recorded)
    }

    /// Runs `body`, and then `commit` on this. Where another transaction is in the way,
    /// `body` runs again from the beginning.
    #[inline]
    pub(crate) fn run<R, E: From<Error>, C>(
        mut self,
        mut body: impl FnMut(&mut Self) -> Result<R, E>,
        commit: impl FnOnce(Self) -> Result<C, Error>,
    ) -> Result<R, E> {
        loop {
            match body(&mut self) {
                Ok(result) if self.blocked.is_none() => {
                    commit(self)?;
                    return Ok(result);
                }
                Err(error) if self.blocked.is_none() => return Err(error),
                _ => self.begin_without_note()?,
            }
        }
    }

    /// Begins again, for a caller that does everything anew.
    pub(crate) fn begin_without_note(&mut self) -> Result<(), Error> {
        self.note = None;
        self.begin_again()
    }

    /// Aborts, and begins again with the same age, so that the transaction gets through at last.
    fn begin_again(&mut self) -> Result<(), Error> {
        self.abort_staged();
        self.shared.choose_lane(&mut self.seat);
        let Some(block) = self.blocked.take() else { return self.shared.check_not_failed() };
        let awaited = self.shared.await_turn(&mut self.seat.work, self.age, block);
        self.note_conflict(awaited)
    }

    /// Runs one call. After a conflict in its first call the transaction waits for its turn. Then
    /// the call runs again: the caller has seen nothing yet.
    #[inline]
    fn anew_if_first(
        &mut self,
        mut call: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_first = !self.seat.work.has_blocks();
        loop {
            match call(self) {
                Err(Error::Conflict { .. }) if is_first => self.begin_again()?,
                result => return result,
            }
        }
    }

    // Once for each journal, and not once for each call of a user.
    #[inline(never)]
    fn take_first(&mut self, block: BlockNumber, update: Option<Hint>) -> Result<(), Error> {
        self.anew_if_first(|tx| tx.take(block, update))
    }

    fn abort_staged(&mut self) {
        let seat: &mut Seat<DiskOf<M>> = &mut self.seat;
        self.shared.abort(&mut seat.work, &seat.staged);
        seat.staged.clear();
    }

    /// Locks a block, until the transaction ends.
    #[inline]
    pub(crate) fn lock(&mut self, block: BlockNumber) -> Result<(), Error> {
        if let Some(block) = self.blocked {
            return Err(Error::Conflict { block });
        }
        let locked = self.shared.lock_block(&mut self.seat.work, self.age, block).map(drop);
        self.note_conflict(locked)
    }

    /// Lets the device forget blocks that this transaction has, and that are not live.
    pub(crate) fn forget_home(
        &mut self,
        blocks: core::ops::Range<u64>,
        becoming: Becoming,
    ) -> Result<Vec<u64>, Error> {
        self.shared.forget_home(&mut self.seat, blocks, becoming)
    }

    /// Waits for this transaction's turn to reserve room, if others wait for room and it has none
    /// yet.
    #[inline]
    fn await_room_to_begin(&mut self, block: BlockNumber) -> Result<(), Error> {
        if !self.shared.is_room_awaited() || self.seat.staged.count() > 0 {
            return Ok(());
        }
        let bytes = self.shared.record_bytes_max(1);
        let awaited = self.shared.await_room_to_begin(&mut self.seat.work, self.age, block, bytes);
        self.note_conflict(awaited)
    }

    /// Locks a block and reserves what its frame takes, so that the commit cannot fail for space.
    /// `update` says what it is; `None` where it is discarded.
    #[inline]
    fn take(&mut self, block: BlockNumber, update: Option<Hint>) -> Result<(), Error> {
        if let Some(block) = self.blocked {
            return Err(Error::Conflict { block });
        }
        self.await_room_to_begin(block)?;
        let seat: &mut Seat<DiskOf<M>> = &mut self.seat;
        if seat.staged.has(block) {
            if !seat.work.bypasses {
                return Ok(());
            }
            let update = update.map(|hint| seat.staged.hint_after(block, Some(hint)));
            let taken = self.shared.reserve_again(&mut seat.work, &seat.staged, block, update);
            return self.note_conflict(taken);
        }
        let (work, staged) = (&mut seat.work, &seat.staged);
        let taken = self.shared.take_one_more(work, self.age, staged, block, update);
        self.note_conflict(taken)
    }

    /// Remembers a conflict: after one, only beginning again helps.
    #[inline]
    fn note_conflict(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        if let Err(Error::Conflict { block }) = result {
            self.blocked = Some(block);
        }
        result
    }
}

/// Shows how far the transaction is. What it writes belongs to its owner.
impl<L: Policy, M: Machine> fmt::Debug for Transaction<'_, L, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Transaction");
        out.field("blocks", &self.seat.staged.count()).field("blocked", &self.blocked);
        out.finish_non_exhaustive()
    }
}

impl<L: Policy, M: Machine> Drop for Transaction<'_, L, M> {
    fn drop(&mut self) {
        if self.seat.work.until.is_some() {
            self.seat.work.until = None;
        }
        // After a failure no thread may see what has become of the blocks.
        let work = &self.seat.work;
        if (work.has_blocks() || work.has_room()) && !self.shared.has_failed() {
            self.abort_staged();
        }
    }
}
