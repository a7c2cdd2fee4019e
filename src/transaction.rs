//! A transaction under way.

use core::sync::atomic::Ordering;

use journal_core::policy::{Class, Kind, Policy};
use journal_core::units::LaneNumber;
use journal_core::{BlockDevice, BlockNumber, Committed, Durability, Hook, LINE_BYTES, PmemShare};

use crate::error::Error;
use crate::journal::SharedBy;
use crate::shared::block_locks::{Age, Stripe};
use crate::shared::seat::{Seat, Seated};

/// So many times a transaction looks whether what was in its way is gone, before it begins again
/// all the same.
const PATIENCE: u32 = 64;

/// So many times a transaction makes room before it takes the space for reserved by others.
const RESERVE_TRIES: u32 = 8;

/// Several changes that happen together or not at all.
///
/// A block that a transaction reads or writes is its own until it ends: others wait for it, or are
/// told of a [`Conflict`](Error::Conflict). Nothing of it is seen by others before it commits, and
/// it itself sees what it has written. Dropped, it is aborted, without a trace.
///
/// The blocks' new contents are kept in memory until the commit.
#[derive(Debug)]
pub struct Transaction<'j, L, P: PmemShare, D, H>
where
    L: Policy,
    D: BlockDevice + Clone,
    H: Hook,
{
    shared: &'j SharedBy<L, P, D, H>,
    seat: Seated<'j, D>,
    age: Age,
    /// What was in the way, when something was: then nothing but beginning again is of use.
    blocked: Option<(BlockNumber, Stripe)>,
}

impl<L, P, D, H> SharedBy<L, P, D, H>
where
    L: Policy,
    P: PmemShare,
    D: BlockDevice + Clone,
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

    /// Bytes that a record of so many blocks takes at most, whatever the policy decides.
    const fn record_bytes_max(&self, blocks: usize) -> u64 {
        let geometry = &self.common.geometry;
        // Each frame its descriptor; each part, and there are at least two frames in each but the
        // last, its header, its check and what fills the last line; and a name for each lane.
        let part = (2 * LINE_BYTES + 8) as u64;
        let frame = (self.common.block_bytes() + 16) as u64 + part / 2;
        let bytes = frame * blocks as u64 + part + 16 * geometry.lanes as u64;
        bytes.next_multiple_of(LINE_BYTES as u64)
    }
}

impl<'j, L, P, D, H> Transaction<'j, L, P, D, H>
where
    L: Policy,
    P: PmemShare,
    D: BlockDevice + Clone,
    H: Hook,
{
    #[inline]
    pub(crate) fn begin(shared: &'j SharedBy<L, P, D, H>) -> Result<Self, Error> {
        shared.check_not_failed()?;
        let mut seat = shared.seats.sit();
        if shared.lane(seat.favourite).is_busy() {
            seat.favourite = shared.seats.another_lane();
        }
        // Deferred commits in several lanes would have to make each other durable.
        seat.lane = if seat.defers { LaneNumber(0) } else { seat.favourite };
        let age = seat.next_age(&shared.seats);
        Ok(Self { shared, seat, age, blocked: None })
    }

    /// Reads a block: what this transaction has written, or else what is committed. Nobody changes
    /// it before the transaction ends.
    ///
    /// # Errors
    /// `Conflict`; `OutOfDevice`; `OutOfBlock` unless `into` is one block long; those of media.
    pub fn read(&mut self, block: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        self.shared.check_request(block, into.len())?;
        self.lock(block)?;
        match self.seat.staged.image(block) {
            Some(image) => {
                into.copy_from_slice(image);
                Ok(())
            }
            None => self.shared.read(&mut self.seat, block, into),
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
            let mut image = vec![0; self.shared.common.block_bytes()];
            self.shared.read(&mut self.seat, block, &mut image)?;
            into.copy_from_slice(&image[at..][..into.len()]);
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
    /// [`checkpoint`](crate::Journal::checkpoint).
    #[inline]
    pub fn write(&mut self, block: BlockNumber, image: &[u8]) -> Result<(), Error> {
        self.write_as(block, Kind::Overwrite, Class::Data, image)
    }

    /// As [`write`](Self::write), for a block that is not live: never written, or discarded. A
    /// policy may make something of that.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn append(&mut self, block: BlockNumber, image: &[u8]) -> Result<(), Error> {
        self.write_as(block, Kind::Append, Class::Data, image)
    }

    /// As [`write`](Self::write), for a block that holds structure of the store. A policy may make
    /// something of that.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_metadata(&mut self, block: BlockNumber, image: &[u8]) -> Result<(), Error> {
        self.write_as(block, Kind::Overwrite, Class::Metadata, image)
    }

    #[inline]
    fn write_as(
        &mut self,
        block: BlockNumber,
        kind: Kind,
        class: Class,
        image: &[u8],
    ) -> Result<(), Error> {
        self.shared.check_request(block, image.len())?;
        self.take(block)?;
        self.seat.staged.write(block, kind, class, image);
        Ok(())
    }

    /// Changes bytes of the block; the rest of it stays as it is.
    ///
    /// # Errors
    /// As [`write`](Self::write), and `OutOfBlock` when the bytes do not lie in the block.
    pub fn write_at(&mut self, block: BlockNumber, at: usize, bytes: &[u8]) -> Result<(), Error> {
        self.shared.check_range(block, at, bytes.len())?;
        self.lock(block)?;
        if self.seat.staged.image(block).is_some() {
            self.seat.staged.patch(block, Class::Data, &[], at, bytes);
            return Ok(());
        }
        let mut old = vec![0; self.shared.common.block_bytes()];
        // What it has discarded before it finds undefined, and no longer as it was.
        if !self.seat.staged.has(block) {
            self.shared.read(&mut self.seat, block, &mut old)?;
        }
        self.take(block)?;
        self.seat.staged.patch(block, Class::Data, &old, at, bytes);
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
        self.seat.staged.discard(block, Class::Data);
        Ok(())
    }

    /// Commits durably: when it returns, no crash takes the transaction back. One fence.
    ///
    /// `None` when there was nothing to log.
    ///
    /// # Errors
    /// `Conflict` when an earlier call has met one; `CannotPlace`: the transaction is aborted then.
    /// `Medium` and `Failed`: whether it is durable is unknown until the journal is opened again.
    /// Never for lack of space.
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

    /// Gives the transaction up, as if it had never begun. So does dropping it.
    pub fn abort(self) {
        drop(self);
    }

    #[inline]
    fn end(&mut self, durability: Durability) -> Result<Option<Committed>, Error> {
        if let Some((block, _)) = self.blocked {
            return Err(Error::Conflict { block });
        }
        self.shared.commit(&mut self.seat, durability)
    }

    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Aborts and begins again, as old as before, so that it gets through some time.
    pub(crate) fn begin_again(&mut self) -> Result<(), Error> {
        self.shared.abort(&mut self.seat);
        if let Some((_, stripe)) = self.blocked.take() {
            self.shared.blocks.await_free(stripe, PATIENCE);
        }
        self.shared.check_not_failed()
    }

    /// Locks a block, until the transaction ends.
    #[inline]
    fn lock(&mut self, block: BlockNumber) -> Result<(), Error> {
        if let Some((block, _)) = self.blocked {
            return Err(Error::Conflict { block });
        }
        let Self { shared, age, .. } = *self;
        let stripe = shared.blocks.stripe(block);
        let holds_nothing = self.seat.held.is_empty();
        let may_wait = |holder: Age| {
            let is_younger = holder > age;
            !shared.has_failed() && !shared.seats.is_own(holder) && (holds_nothing || is_younger)
        };
        match shared.blocks.lock(stripe, age, may_wait) {
            Ok(true) => self.seat.held.push(stripe),
            Ok(false) => {}
            Err(_) => {
                shared.check_not_failed()?;
                return Err(self.block(block));
            }
        }
        Ok(())
    }

    #[cold]
    fn block(&mut self, block: BlockNumber) -> Error {
        self.blocked = Some((block, self.shared.blocks.stripe(block)));
        Error::Conflict { block }
    }

    /// Locks a block and reserves what its frame takes, so that the commit cannot fail for space.
    #[inline]
    fn take(&mut self, block: BlockNumber) -> Result<(), Error> {
        self.lock(block)?;
        if self.seat.staged.has(block) {
            return Ok(());
        }
        self.reserve_bytes(block)?;
        if self.reserve_frame(block)? {
            return Ok(());
        }
        let shared = self.shared;
        let has_room = || shared.share(block).is_ok_and(|share| share.has_room());
        shared.make_room(has_room)?;
        if self.reserve_frame(block)? {
            return Ok(());
        }
        let own = self.seat.staged.reserved().filter(|other| shared.share_together(*other, block));
        if own.count() >= shared.share(block)?.index.capacity() {
            return Err(Error::TooManyBlocks { blocks: self.seat.staged.len() + 1 });
        }
        Err(self.block(block))
    }

    /// Reserves room for the block's frame in its share of the index, if there is any, and notes
    /// what it will overwrite.
    #[inline]
    fn reserve_frame(&mut self, block: BlockNumber) -> Result<bool, Error> {
        let mut share = self.shared.share(block)?;
        if !share.has_room() {
            return Ok(false);
        }
        share.reserved += 1;
        if let Some(newest) = share.index.newest(block) {
            let frame = share.index.frame(newest);
            let seat: &mut Seat<D> = &mut self.seat;
            seat.overwritten = seat.overwritten.max(frame.stamp);
            if frame.lane != seat.lane {
                let name = &mut seat.names[usize::from(frame.lane.raw())];
                *name = (*name).max(frame.sequence);
            }
        }
        Ok(true)
    }

    /// Reserves bytes of the lane for one more block.
    #[inline]
    fn reserve_bytes(&mut self, block: BlockNumber) -> Result<(), Error> {
        let needed = self.shared.record_bytes_max(self.seat.staged.len() + 1);
        let more = needed.saturating_sub(self.seat.reserved_bytes);
        if more == 0 || self.try_reserve(more) {
            return Ok(());
        }
        self.reserve_slowly(block, needed, more)
    }

    #[inline]
    fn try_reserve(&mut self, more: u64) -> bool {
        let unreserved = &self.shared.lane(self.seat.lane).unreserved;
        let take = |free: u64| free.checked_sub(more);
        let Ok(before) = unreserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else {
            return false;
        };
        self.seat.reserved_bytes += more;
        if before - more < self.shared.low_bytes {
            self.shared.ask_for_checkpoint();
        }
        true
    }

    #[cold]
    fn reserve_slowly(&mut self, block: BlockNumber, needed: u64, more: u64) -> Result<(), Error> {
        let capacity = self.shared.common.geometry.lane_bytes;
        if needed > capacity {
            return Err(Error::TooLarge { needed, capacity });
        }
        // Others may be faster than this thread to take what a checkpoint has freed.
        for _ in 0..RESERVE_TRIES {
            let unreserved = &self.shared.lane(self.seat.lane).unreserved;
            self.shared.make_room(|| unreserved.load(Ordering::Relaxed) >= more)?;
            if self.try_reserve(more) {
                return Ok(());
            }
        }
        // The rest is reserved by others. To wait for them might be for ever: they may be waiting
        // for a block of this one.
        Err(self.block(block))
    }
}

impl<L, P, D, H> Drop for Transaction<'_, L, P, D, H>
where
    L: Policy,
    P: PmemShare,
    D: BlockDevice + Clone,
    H: Hook,
{
    fn drop(&mut self) {
        if !self.seat.held.is_empty() {
            self.shared.abort(&mut self.seat);
        }
    }
}
