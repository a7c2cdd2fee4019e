//! A transaction under way.

use core::fmt;

use journal_core::parts::Operations as _;
use journal_core::policy::{Patch, Placement, Policy, Update};
use journal_core::{BlockDevice, BlockNumber, Committed, Durability, Hook, Operation, PmemShare};

use crate::error::Error;
use crate::hint::Hint;
use crate::shared::SharedBy;
use crate::staging::seat::{Seat, Seated};
use crate::threads::block_locks::Age;

/// Several changes that happen together or not at all.
///
/// A block that a transaction reads or writes is its own until it ends: others wait for it, or are
/// told of a [`Conflict`](Error::Conflict). Nothing of it is seen by others before it commits, and
/// it itself sees what it has written. Dropped, it is aborted, without a trace.
///
/// The blocks' new contents are kept in memory until the commit.
///
/// It stays in its thread, to which it belongs as its buffers do, and which would wait for itself
/// if it did not know:
///
/// ```compile_fail,E0277
/// use nvm_journal::core::NoHook;
/// use nvm_journal::{FileDisk, FullBlock, Region, Transaction};
///
/// fn sent<T: Send>() {}
/// sent::<Transaction<'static, FullBlock, Region, FileDisk, NoHook>>();
/// ```
pub struct Transaction<'j, L, P: PmemShare, D, H>
where
    L: Policy,
    D: BlockDevice + Clone + Send,
    H: Hook,
{
    shared: &'j SharedBy<L, P, D, H>,
    seat: Seated<'j, D>,
    age: Age,
    /// What was in the way, when something was: then nothing but beginning again is of use.
    blocked: Option<BlockNumber>,
}

impl<L, P, D, H> SharedBy<L, P, D, H>
where
    L: Policy,
    P: PmemShare,
    D: BlockDevice + Clone + Send,
    H: Hook,
{
    /// Whether so many bytes are one block, which the device has.
    #[inline]
    pub(crate) fn check_request(&self, block: BlockNumber, bytes: usize) -> Result<(), Error> {
        self.check_range(block, 0, bytes)?;
        if bytes == self.common.block_bytes() {
            Ok(())
        } else {
            Err(Error::OutOfBlock { block, at: 0, bytes })
        }
    }

    fn check_range(&self, block: BlockNumber, at: usize, bytes: usize) -> Result<(), Error> {
        if !self.common.has(block) {
            return Err(Error::OutOfDevice { block });
        }
        if at.checked_add(bytes).is_none_or(|end| end > self.common.block_bytes()) {
            return Err(Error::OutOfBlock { block, at, bytes });
        }
        Ok(())
    }
}

impl<'j, L, P, D, H> Transaction<'j, L, P, D, H>
where
    L: Policy,
    P: PmemShare,
    D: BlockDevice + Clone + Send,
    H: Hook,
{
    #[inline]
    pub(crate) fn begin(shared: &'j SharedBy<L, P, D, H>) -> Result<Self, Error> {
        shared.check_not_failed()?;
        let mut seat = shared.seats.sit();
        shared.choose_lane(&mut seat);
        seat.work.forget_wants();
        let age = seat.next_age(shared.blocks.age_behind());
        Ok(Self { shared, seat, age, blocked: None })
    }

    /// Reads a block: what this transaction has written, or else what is committed. Nobody changes
    /// it before the transaction ends.
    ///
    /// # Errors
    /// `Conflict`; `OutOfDevice`; `OutOfBlock` unless `into` is one block long; and those of
    /// [`Journal::read`](crate::Journal::read), after which it can go on where the journal does.
    pub fn read(&mut self, block: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        self.shared.check_request(block, into.len())?;
        self.lock(block)?;
        match self.seat.staged.image(block) {
            Some(image) => {
                into.copy_from_slice(image);
                Ok(())
            }
            None => self.shared.read(self.seat.for_reading(), block, into).map(drop),
        }
    }

    /// Reads bytes of a block, as [`read`](Self::read) does.
    ///
    /// # Errors
    /// As [`read`](Self::read), and `OutOfBlock` when the bytes do not lie in the block.
    pub fn read_at(&mut self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        self.shared.check_range(block, at, into.len())?;
        self.lock(block)?;
        if self.seat.staged.image(block).is_none() {
            let (image, _) = self.committed(block)?;
            into.copy_from_slice(&image[at..][..into.len()]);
            self.seat.give_room_back(image);
        } else if let Some(image) = self.seat.staged.image(block) {
            into.copy_from_slice(&image[at..][..into.len()]);
        }
        Ok(())
    }

    /// Makes `image` the block's new content.
    ///
    /// # Errors
    /// `Conflict`; `OutOfDevice`; `OutOfBlock` unless `image` is one block long; `TooLarge` and
    /// `TooManyBlocks`. The transaction is as before, and can go on but after a conflict. When the
    /// journal is full it makes room first, with the errors of
    /// [`checkpoint`](crate::Journal::checkpoint), and `Unreadable` where that makes none.
    #[inline]
    pub fn write(&mut self, block: BlockNumber, image: &[u8]) -> Result<(), Error> {
        self.write_with(block, Hint::DATA, image)
    }

    /// As [`write`](Self::write), for a block that is not live: never written, or discarded. A
    /// policy may make something of that.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn append(&mut self, block: BlockNumber, image: &[u8]) -> Result<(), Error> {
        self.write_with(block, Hint::APPEND, image)
    }

    /// As [`write`](Self::write), for a block that holds structure of the store. A policy may make
    /// something of that.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_metadata(&mut self, block: BlockNumber, image: &[u8]) -> Result<(), Error> {
        self.write_with(block, Hint::METADATA, image)
    }

    /// As [`write`](Self::write), for a store that can say more of the block. Said twice of a
    /// block, the last word counts; whether it was live counts as it was said first.
    ///
    /// # Errors
    /// As [`write`](Self::write).
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
        self.take(block)?;
        if self.shared.common.policy.wants_old() && !self.seat.staged.has(block) {
            self.shared.keep_old(&mut self.seat, block, hint.kind)?;
        }
        self.seat.staged.write(block, hint, image);
        Ok(())
    }

    /// What is committed of a block, and whether that is live.
    fn committed(&mut self, block: BlockNumber) -> Result<(Vec<u8>, bool), Error> {
        let mut content = self.seat.take_room(self.shared.common.block_bytes());
        let is_live = self.shared.read(self.seat.for_reading(), block, &mut content)?;
        Ok((content, is_live))
    }

    /// Does what an operation says.
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
    /// they are, and may log no more than those.
    ///
    /// # Errors
    /// As [`write`](Self::write) and [`read`](Self::read), and `OutOfBlock` when the bytes do not
    /// lie in the block.
    pub fn write_at(&mut self, block: BlockNumber, at: usize, bytes: &[u8]) -> Result<(), Error> {
        self.patch(block, None, at, bytes)
    }

    /// As [`write_at`](Self::write_at), for a store that can say more of the block, which then
    /// holds for the whole of it.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn write_at_with(
        &mut self,
        block: BlockNumber,
        hint: Hint,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        self.patch(block, Some(hint), at, bytes)
    }

    fn patch(
        &mut self,
        block: BlockNumber,
        hint: Option<Hint>,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        self.shared.check_range(block, at, bytes.len())?;
        self.await_room_to_begin(block)?;
        self.lock(block)?;
        if self.seat.staged.has(block) {
            // What was discarded before is undefined, and no longer as it was.
            self.seat.staged.patch(block, hint, None, at, bytes);
            return Ok(());
        }
        // What an earlier transaction has discarded is written whole: a checkpoint may forget the
        // discard, and show something else below what is logged of it.
        let (old, is_live) = self.committed(block)?;
        self.take(block)?;
        if is_live && self.shared.common.policy.wants_old() {
            self.seat.staged.keep_old(block, &old);
        }
        self.seat.staged.patch(block, hint, is_live.then_some(&old), at, bytes);
        self.seat.give_room_back(old);
        Ok(())
    }

    /// Says that the block is not live any more: its content is undefined until it is written
    /// again, and need not be written home.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn discard(&mut self, block: BlockNumber) -> Result<(), Error> {
        self.shared.check_range(block, 0, 0)?;
        self.take(block)?;
        self.seat.staged.discard(block);
        Ok(())
    }

    /// Commits durably: when it returns, no crash takes the transaction back. One fence.
    ///
    /// `None` when there was nothing to log.
    ///
    /// # Errors
    /// `Conflict` when an earlier call has met one; `CannotPlace`: the transaction is aborted then.
    /// `Medium`, `Device` and `Failed`: whether it is durable is unknown until the journal is
    /// opened again. Never for lack of space.
    #[inline]
    pub fn commit(mut self) -> Result<Option<Committed>, Error> {
        self.end(Durability::Durable)
    }

    /// Commits without waiting: others see it at once, and the next [`sync`](crate::Journal::sync),
    /// or a later durable commit, makes it durable. A crash before may take it back, with all
    /// deferred commits behind it.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_deferred(mut self) -> Result<Option<Committed>, Error> {
        self.end(Durability::Deferred)
    }

    /// Hands it to the *running transaction*, which gathers many in ordinary memory and commits
    /// them with one record and one fence: of a block that is written again and again only the last
    /// content. Others see it at once. It becomes durable with the running transaction, and that by
    /// the next [`sync`](crate::Journal::sync), when it is full or as old as
    /// [`Options::pacing`](crate::Options::pacing) says, or when a transaction that is not gathered
    /// touches one of its blocks. Until then a crash takes back all of it, and never a part.
    ///
    /// # Errors
    /// `Conflict` when an earlier call has met one: the transaction is aborted then. `Medium`,
    /// `Device`, `CannotPlace` and `Failed`, when the one that ran before had to be committed, or
    /// this one filled it: the journal has failed then. Never for lack of space.
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
        let seat: &mut Seat<D> = &mut self.seat;
        seat.defers = false;
        let result = self.shared.gather(&mut seat.work, &seat.staged);
        seat.staged.clear();
        result
    }

    /// Gives the transaction up, as if it had never begun. So does dropping it.
    pub fn abort(self) {
        drop(self);
    }

    #[inline]
    fn end(&mut self, durability: Durability) -> Result<Option<Committed>, Error> {
        if let Some(block) = self.blocked {
            return Err(Error::Conflict { block });
        }
        let seat: &mut Seat<D> = &mut self.seat;
        seat.defers = durability == Durability::Deferred;
        if seat.work.on_gathered {
            // Aborted when it is dropped, unless the journal has failed.
            self.shared.settle_gathered(&mut seat.work, &seat.staged)?;
        }
        let result = self.shared.commit(&mut seat.work, &seat.staged, durability);
        seat.staged.clear();
        result
    }

    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Aborts and begins again, as old as before, so that it gets through some time.
    pub(crate) fn begin_again(&mut self) -> Result<(), Error> {
        self.give_up();
        self.shared.choose_lane(&mut self.seat);
        match self.blocked.take() {
            Some(block) => self.shared.await_turn(&mut self.seat.work, self.age, block),
            None => self.shared.check_not_failed(),
        }
    }

    fn give_up(&mut self) {
        let seat: &mut Seat<D> = &mut self.seat;
        self.shared.abort(&mut seat.work, &seat.staged);
        seat.staged.clear();
    }

    /// Locks a block, until the transaction ends.
    #[inline]
    fn lock(&mut self, block: BlockNumber) -> Result<(), Error> {
        if let Some(block) = self.blocked {
            return Err(Error::Conflict { block });
        }
        let locked = self.shared.lock_block(&mut self.seat.work, self.age, block).map(drop);
        self.note(locked)
    }

    /// Waits for its turn to reserve room, before it has any, where others wait for it.
    #[inline]
    fn await_room_to_begin(&mut self, block: BlockNumber) -> Result<(), Error> {
        if !self.shared.is_room_awaited() || self.seat.staged.count() > 0 {
            return Ok(());
        }
        let bytes = self.shared.record_bytes_max(1);
        let awaited = self.shared.await_room_to_begin(&mut self.seat.work, self.age, block, bytes);
        self.note(awaited)
    }

    /// Locks a block and reserves what its frame takes, so that the commit cannot fail for space.
    #[inline]
    fn take(&mut self, block: BlockNumber) -> Result<(), Error> {
        if let Some(block) = self.blocked {
            return Err(Error::Conflict { block });
        }
        self.await_room_to_begin(block)?;
        let seat: &mut Seat<D> = &mut self.seat;
        if seat.staged.has(block) {
            return Ok(());
        }
        let taken = self.shared.take_block(&mut seat.work, self.age, &seat.staged, block);
        let taken = taken
            .and_then(|()| self.shared.reserve_for_one_more(&mut seat.work, &seat.staged, block));
        self.note(taken)
    }

    /// Remembers a conflict: nothing but beginning again is of use after one.
    #[inline]
    fn note(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        if let Err(Error::Conflict { block }) = result {
            self.blocked = Some(block);
        }
        result
    }
}

/// How far it is: what it writes is its owner's.
impl<L, P, D, H> fmt::Debug for Transaction<'_, L, P, D, H>
where
    L: Policy,
    P: PmemShare,
    D: BlockDevice + Clone + Send,
    H: Hook,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Transaction");
        out.field("blocks", &self.seat.staged.count()).field("blocked", &self.blocked);
        out.finish_non_exhaustive()
    }
}

impl<L, P, D, H> Drop for Transaction<'_, L, P, D, H>
where
    L: Policy,
    P: PmemShare,
    D: BlockDevice + Clone + Send,
    H: Hook,
{
    fn drop(&mut self) {
        // After a failure nobody may see what has become of the blocks.
        let work = &self.seat.work;
        if (!work.held.is_empty() || work.has_room()) && !self.shared.has_failed() {
            self.give_up();
        }
    }
}
