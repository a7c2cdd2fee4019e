//! A transaction takes what it needs before it commits: locks on its blocks, and room for its
//! record and its frames.
//!
//! Space is counted twice. The lane and the index count what is used. What is promised to
//! transactions under way is counted beside them: `LaneCell::unreserved` says what of a lane is not
//! promised, and `Share::reserved` how many frames are. So a commit cannot fail for lack of space.
//! A call that finds no room is refused while its transaction is built.

mod bypass;

use journal_core::parts::{Lead, Operations, is_of_run};
use journal_core::policy::{Change, Patch, Policy, Update};
use journal_core::record::Form;
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, LINE_BYTES, Operation};
use pmem_sys::StoreLockGuard;

use crate::error::Error;
use crate::machine::Machine;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::shared::lane_cell::LaneState;
use crate::shared::levels::{Room, Stage};
use crate::shared::share::Share;
use crate::shared::{Shared, ShortOf};
use crate::staging::hint::Hint;
use crate::staging::seat::Seat;
use crate::staging::work::Work;
use crate::threads::block_locks::{Age, LockedAt};
use crate::threads::seat_numbers::is_last;
use crate::threads::sync::thread::Patience;
use crate::threads::waiting::{BlockWait, InCircle};

/// How a patch is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patching {
    /// The patch alone. The policy logs patches, and the block's newest content stays what they
    /// change.
    Alone,
    /// The patch alone. The policy is lent the block's newest content, which is kept.
    OnKept,
    /// The patch with the block's new image.
    OnImage,
    /// The block's new image alone, which covers all older frames of the block.
    AsWhole,
}

/// At most this number of a block's patches is prefetched: a processor waits for few lines at once.
const PREFETCHED_MAX: usize = 8;

/// How many bytes of a large lane are taken in hand at a time: those of some records of a block.
const IN_HAND_BYTES: u64 = 64 << 10;

/// What is kept of a lane is at most the lane divided by this.
const KEPT_PART: u64 = 16;

impl<L, M: Machine> Shared<L, M> {
    /// Locks the blocks of some operations, which are of one run and of this share. It locks one
    /// after the other until one is not free, and notes what their next frames will overwrite.
    /// Returns a bit for each block that was not this transaction's before, and how many blocks it
    /// has now.
    ///
    /// This is a function of its own so that it has registers (C2): its callers are large, and use
    /// all of them.
    #[inline(never)]
    pub(crate) fn lock_run(
        &self,
        share: &Share,
        work: &mut Work,
        age: Age,
        run: &[Operation<'_>],
    ) -> (u32, usize) {
        let Some(first) = run.first().map(Operation::block) else { return (0, 0) };
        self.common.prefetch_next_nodes(&share.index, run.len());
        let locks = self.blocks.of_run(first);
        let (mut taken, mut count) = (0, 0);
        for operation in run {
            let block = operation.block();
            self.prefetch_entry(share, block);
            match locks.try_lock(&share.claims, block, age) {
                Some(true) => taken |= 1 << count,
                Some(false) => {}
                None => break,
            }
            self.note_overwritten_by(work, share, share.index.lead(block));
            self.prefetch_patched(share, operation);
            count += 1;
        }
        (taken, count)
    }

    /// Begins to bring into the caches what a commit of this operation will patch of what is kept
    /// of its block.
    #[inline]
    pub(super) fn prefetch_patched(&self, share: &Share, operation: &Operation<'_>) {
        if let Operation::Update(Update { block, change: Change::Patches(patches), .. }) = operation
        {
            let patches = patches.iter().take(PREFETCHED_MAX);
            let ranges = patches.map(|Patch { at, bytes }| (*at as usize, bytes.len()));
            self.prefetch_kept(share, *block, ranges);
        }
    }

    /// Notes what the next frame of a locked block will overwrite, which was looked up.
    #[inline(always)]
    pub(crate) fn note_overwritten_by(&self, work: &mut Work, share: &Share, lead: Option<Lead>) {
        let Some(lead) = lead else { return };
        self.common.prefetch_lead(&share.index, &lead);
        if let Some(frame) = share.index.overwritten_by(lead, work.lane) {
            work.overwritten = work.overwritten.max(frame.stamp);
            work.names.name(frame.lane, frame.sequence);
        }
    }
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Chooses the lane of a transaction that begins, or begins again. This is done once, since the
    /// next choice knows nothing of a lane that was left.
    #[inline]
    pub(crate) fn choose_lane(&self, seat: &mut Seat<DiskOf<M>>) {
        let leaves = seat.work.leaves_lane;
        if self.lane(seat.favourite).turn.is_busy() || leaves {
            seat.work.leaves_lane = false;
            let left = if leaves { seat.work.lane } else { seat.favourite };
            seat.favourite = self.seats.another_lane();
            if seat.favourite == left {
                seat.favourite = self.seats.another_lane();
            }
        }
        // Deferred commits in several lanes would have to make each other durable.
        let lane = if seat.work.defers && !leaves { LaneNumber(0) } else { seat.favourite };
        if seat.work.lane != lane {
            seat.work.lane = lane;
        }
    }

    /// Locks a block until the transaction ends; the lock of its share comes with it.
    #[inline]
    pub(crate) fn lock_block(
        &self,
        work: &mut Work,
        age: Age,
        block: BlockNumber,
    ) -> Result<StoreLockGuard<'_, Share>, Error> {
        let mut share = self.lock_share(block)?;
        self.prefetch_entry(&share, block);
        if let Err(holder) = self.try_lock_block(&mut share, work, age, block) {
            drop(share);
            let mut wait = || self.wait_to_lock(work, age, block, holder);
            share = if is_last(holder) { self.stopped(ShortOf::Moved, wait)? } else { wait()? };
        }
        if self.gathering.has_any() {
            // Not with the share in hand: what is gathered comes before it in the order of locks.
            drop(share);
            work.on_gathered |= self.gathering.has(block);
            share = self.lock_share(block)?;
        }
        Ok(share)
    }

    /// Locks a block, of which a range is patched: where it begins, and its bytes. Returns how the
    /// patch is to be logged.
    ///
    /// Where the patch then needs no image, and the caller says so, room for the block's frame is
    /// reserved as well, if there is some at once. Returns whether it is.
    #[inline]
    pub(crate) fn lock_to_patch(
        &self,
        work: &mut Work,
        age: Age,
        block: BlockNumber,
        range: (usize, usize),
        reserves: bool,
    ) -> Result<(Patching, bool), Error> {
        let mut share = self.lock_block(work, age, block)?;
        // Looked up once: what follows waits for these lines, and mostly they are far.
        let lead = share.index.lead(block);
        let patching = self.patching(&mut share, work, block, lead);
        // To find the page is to wait for the entry of the cache. A transaction of several blocks
        // would wait for one after the other, where these lie in no near cache.
        if work.has_one_block() || share.keeps_near() {
            self.prefetch_kept(&share, block, [range]);
        }
        let is_reserved = reserves
            && matches!(patching, Patching::Alone | Patching::OnKept)
            && self.common.geometry.lane_slots_and_log() == 0
            && share.has_room()
            && !self.wants_step(&share)
            && !self.is_room_awaited();
        if is_reserved {
            work.note_if_by_exchange(&share);
            self.reserve_frame_of(&mut share, work, block, lead);
        }
        Ok((patching, is_reserved))
    }

    /// How a patch of a locked block is to be logged.
    #[inline]
    fn patching(
        &self,
        share: &mut Share,
        work: &Work,
        block: BlockNumber,
        lead: Option<Lead>,
    ) -> Patching {
        if work.on_gathered {
            return Patching::OnImage;
        }
        let logs_patches = self.common.policy.logs_patches();
        if !logs_patches && self.patch_bytes_on_old() == 0 {
            // No frame is looked at without need: it lies in a line that is far.
            let is_long = self.whole_after > 0 && share.ends_chain_of(block, self.whole_after);
            return if is_long { Patching::AsWhole } else { Patching::OnImage };
        }
        let newest = lead.map(|lead| share.index.frame(lead.newest()).form);
        if newest == Some(Form::Discard) {
            Patching::OnImage
        } else if lead.is_some_and(|lead| lead.is_unreadable())
            || share.ends_chain_of(block, self.whole_after)
        {
            Patching::AsWhole
        } else if self.pins {
            Patching::OnImage
        } else if logs_patches {
            Patching::Alone
        } else if self.lent_by(share, block, lead).is_some() {
            Patching::OnKept
        } else {
            Patching::OnImage
        }
    }

    /// Locks a block. The caller has the lock of its share.
    ///
    /// # Errors
    /// The age of the transaction that has the block instead, or will have it.
    #[inline(always)]
    pub(super) fn try_lock_block(
        &self,
        share: &mut Share,
        work: &mut Work,
        age: Age,
        block: BlockNumber,
    ) -> Result<(), Age> {
        match self.blocks.try_lock(&mut share.claims, block, age)? {
            LockedAt::Before => {}
            LockedAt::Word(stripe) => work.held.push(stripe),
            LockedAt::Beside => work.held_beside.push(block),
        }
        Ok(())
    }

    /// Waits for a block, if that is allowed. A transaction that has waited a while claims it, and
    /// sleeps.
    #[cold]
    fn wait_to_lock(
        &self,
        work: &mut Work,
        age: Age,
        block: BlockNumber,
        mut holder: Age,
    ) -> Result<StoreLockGuard<'_, Share>, Error> {
        self.blocks.note_waits(age);
        let stripe = self.blocks.stripe(block);
        let holds_some = work.has_blocks() || work.has_room();
        let mut patience = Patience::of_the_next();
        let mut wait = None;
        let mut look = || {
            self.check_not_failed()?;
            let may_wait = !holds_some || holder > age;
            if !may_wait || self.seats.is_own(holder) {
                return Err(Error::Conflict { block });
            }
            if work.is_out_of_time() {
                return Err(Error::OutOfTime);
            }
            match &wait {
                Some(wait) => BlockWait::sleep(wait, work.may_wait()),
                // Behind threads that sleep there is nothing to be had soon.
                None if patience.is_long() || self.waiting.now_asleep().may_want(stripe) => {
                    wait = Some(self.begin_to_sleep(age, block, holds_some)?);
                }
                None => {
                    patience.pause();
                    // Looking first leaves the share to others.
                    if let Some(found) = self.blocks.holder_of(block) {
                        holder = found;
                        return Ok(None);
                    }
                }
            }
            let mut share = self.lock_share(block)?;
            let locked = self.try_lock_block(&mut share, work, age, block);
            Ok(locked.map_err(|found| holder = found).is_ok().then_some(share))
        };
        let mut locked = loop {
            match look() {
                Ok(None) => {}
                Ok(Some(share)) => break Ok(share),
                Err(error) => break Err(error),
            }
        };
        if let Some(wait) = wait {
            match &mut locked {
                Ok(share) => {
                    share.claims.withdraw(block, age);
                    wait.end_with_it();
                }
                // Before the threads are woken that were refused because of the claim.
                Err(_) => self.lock_share(block)?.claims.withdraw(block, age),
            }
        }
        locked
    }

    /// Begins to sleep for a block, and claims it. It is an error if the thread waits for itself.
    fn begin_to_sleep(
        &self,
        age: Age,
        block: BlockNumber,
        holds_some: bool,
    ) -> Result<BlockWait<'_>, Error> {
        let seats = self.seats.own_numbers();
        let wait = self.waiting.wait_for_block(&self.blocks, (block, age), seats, holds_some);
        let wait = wait.map_err(|InCircle| Error::Conflict { block })?;
        self.lock_share(block)?.claims.add(block, age);
        Ok(wait)
    }

    /// Bytes that a record of `blocks` blocks takes at most, whatever the policy decides.
    pub(crate) const fn record_bytes_max(&self, blocks: usize) -> u64 {
        let geometry = &self.common.geometry;
        // Each frame has its descriptor. Each part has its header, its check and what fills its
        // last line; all parts except the last have at least two frames. And there is a name for
        // each lane.
        let part = (2 * LINE_BYTES + 8) as u64;
        let block = geometry.block_size.bytes() as u64;
        if blocks == 1 {
            // Rounded up to the line, so that mostly nothing is given back.
            let front = (LINE_BYTES + 16 + 8 + 16 * geometry.lanes as usize) as u64;
            // A block appended home needs no image, only a two-line discard record.
            let discard = 2 * LINE_BYTES as u64;
            let rest = if block < discard { discard } else { block };
            return front.next_multiple_of(LINE_BYTES as u64) + rest;
        }
        let frame = block + 16 + part / 2;
        let bytes = frame * blocks as u64 + part + 16 * geometry.lanes as u64;
        bytes.next_multiple_of(LINE_BYTES as u64)
    }

    /// Bytes of a lane kept so that one block can always be rewritten or discarded, to release an
    /// unreadable block. None are kept where there is no disk-side log, which is what may rot, or
    /// where lanes are too short. A transaction that needs all of a lane gets it.
    #[inline]
    pub(crate) const fn kept_bytes(&self, needed: u64) -> u64 {
        let geometry = &self.common.geometry;
        if geometry.lane_log_blocks == 0 {
            return 0;
        }
        let kept = self.record_bytes_max(1);
        if geometry.lane_bytes / KEPT_PART < kept || needed > geometry.lane_bytes - kept {
            return 0;
        }
        kept
    }

    /// Makes sure that there are slots, and blocks of the log, where no background thread does. A
    /// version that finds none goes into the ring, whole, and from there home. `count` says how
    /// many blocks the transaction has: each may need a block of the log.
    fn see_to_slots_and_log(&self, work: &Work, count: usize) -> Result<(), Error> {
        let (geometry, cell) = (&self.common.geometry, self.lane(work.lane));
        let has_slots = || geometry.lane_slots == 0 || cell.unreserved_slots.left() > 0;
        let log_blocks = self.log_blocks_to_see_to(work.lane, count);
        let has_log = || {
            log_blocks <= work.reserved_log.into() || self.log_left(cell, log_blocks) >= log_blocks
        };
        let has_some = || has_slots() && has_log();
        if self.clean.is_some() && !has_slots() {
            self.give_clean_back(Some(work.lane), 1)?;
        }
        if has_some() || self.bell.has_thread() {
            return Ok(());
        }
        if work.is_out_of_time() {
            // What finds no slot goes into the ring.
            return Ok(());
        }
        let wanted = Room { bytes: 0, slots: 1, log_blocks };
        match self.stopped(ShortOf::Slots, || self.make_room_of(wanted, work.until, |_| has_some()))
        {
            // What stays for others, or the time, is no reason to refuse this transaction, which
            // goes into the ring.
            Err(Error::NoShield { .. } | Error::OutOfTime) => Ok(()),
            made => made,
        }
    }

    /// How many blocks of a lane's log are to be free for a transaction of `count` blocks, which
    /// may be committed with what is gathered. No more than the upkeep keeps free: for a few blocks
    /// of a large transaction the log is not emptied.
    fn log_blocks_to_see_to(&self, lane: LaneNumber, count: usize) -> u64 {
        if self.common.geometry.lane_log_blocks == 0 {
            return 0;
        }
        let most = self.levels.of(Stage::WriteHome).log_blocks;
        (count as u64 + self.gathering.log_blocks_of_running(lane)).min(most)
    }

    /// Takes at least one more block of some operations; returns how many.
    #[inline]
    pub(crate) fn take_some(
        &self,
        work: &mut Work,
        age: Age,
        operations: &[Operation<'_>],
        at: usize,
    ) -> Result<usize, Error> {
        let (before, rest) = operations.split_at(at);
        let count = self.take_run(work, age, rest)?;
        if let (0, Some(next)) = (count, rest.first()) {
            self.take_block(work, age, before, next.block())?;
            return Ok(1);
        }
        Ok(count)
    }

    /// Takes the blocks of the first run one after the other, until one is not free; returns how
    /// many. Their share is locked once.
    #[inline]
    fn take_run(
        &self,
        work: &mut Work,
        age: Age,
        operations: &[Operation<'_>],
    ) -> Result<usize, Error> {
        let Some(first) = operations.first().map(Operation::block) else { return Ok(0) };
        if self.common.geometry.lane_slots_and_log() > 0 {
            return Ok(0);
        }
        let mut share = self.lock_share(first)?;
        work.note_if_by_exchange(&share);
        // Block by block, a step is taken where the share is low on frames.
        if self.wants_step(&share) {
            return Ok(0);
        }
        let free = share.index.free_frames().saturating_sub(share.reserved);
        let of_run = operations.iter().take_while(|other| is_of_run(first, other.block()));
        let run = &operations[..of_run.take(free).count()];
        let (taken, count) = self.lock_run(&share, work, age, run);
        let taken = run.iter().enumerate().filter(|(at, _)| taken & 1 << at != 0);
        work.held.extend(taken.map(|(_, operation)| self.blocks.stripe(operation.block())));
        // What was gathered of these blocks before is seen now, and looked into block by block.
        if self.gathering.has_any() {
            return Ok(0);
        }
        share.reserved += count;
        Ok(count)
    }

    /// Takes a block beside others: locks it, and reserves what its frame takes, so that the commit
    /// cannot fail for space. `update` says what it is; `None` where it is discarded.
    #[inline]
    pub(crate) fn take_one_more(
        &self,
        work: &mut Work,
        age: Age,
        others: &(impl Operations + ?Sized),
        block: BlockNumber,
        update: Option<Hint>,
    ) -> Result<(), Error> {
        self.take_block(work, age, others, block)?;
        self.reserve_one_more(work, others, block, update)
    }

    /// Reserves the bytes of a block beside others, where room for its frame is reserved.
    #[inline(always)]
    pub(crate) fn reserve_one_more(
        &self,
        work: &mut Work,
        others: &(impl Operations + ?Sized),
        block: BlockNumber,
        update: Option<Hint>,
    ) -> Result<(), Error> {
        let needed = self.record_bytes_max(others.count() + 1);
        let more = needed.saturating_sub(work.reserved_bytes);
        let kept = self.kept_to_bypass();
        if more == 0 || self.try_reserve_above(work, more, kept + self.kept_bytes(needed)) {
            return Ok(());
        }
        if kept > 0 && self.reserve_to_bypass(work, others, block, update) {
            return Ok(());
        }
        let reserved = self.reserve_bytes(work, needed, block);
        self.or_give_up_frame(reserved, block)
    }

    /// Reserves what a block takes that is staged already, and gets other content: where data goes
    /// to the disk-side log, it depends on what the content is.
    #[cold]
    pub(crate) fn reserve_again(
        &self,
        work: &mut Work,
        all: &(impl Operations + ?Sized),
        block: BlockNumber,
        update: Option<Hint>,
    ) -> Result<(), Error> {
        if self.reserve_to_bypass(work, all, block, update) {
            return Ok(());
        }
        self.reserve_bytes(work, self.record_bytes_max(all.count()), block)
    }

    /// Locks a block and reserves room in the index for its frame.
    #[inline]
    fn take_block(
        &self,
        work: &mut Work,
        age: Age,
        others: &(impl Operations + ?Sized),
        block: BlockNumber,
    ) -> Result<(), Error> {
        let mut share = self.lock_block(work, age, block)?;
        work.note_if_by_exchange(&share);
        let is_there = self.reserve_frame(&mut share, work, block);
        let is_low = self.is_low(&share) && !work.is_out_of_time();
        drop(share);
        if !is_there {
            self.stopped(ShortOf::Frames, || self.make_room_for_frame(work, age, others, block))?;
        } else if is_low {
            let stepped = self.stopped(ShortOf::Frames, || self.step_ahead(block));
            self.or_give_up_frame(stepped, block)?;
        }
        if self.common.geometry.lane_slots_and_log() == 0 {
            return Ok(());
        }
        let seen_to = self.see_to_slots_and_log(work, others.count() + 1);
        self.or_give_up_frame(seen_to, block)
    }

    /// Gives back what is reserved for a block's frame if something else has failed.
    #[inline]
    pub(crate) fn or_give_up_frame(
        &self,
        result: Result<(), Error>,
        block: BlockNumber,
    ) -> Result<(), Error> {
        if result.is_err() {
            self.lock_share(block)?.reserved -= 1;
            self.tell_waiters_for_room();
        }
        result
    }

    /// Makes room in the index for the frame of a locked block, and reserves it.
    #[cold]
    pub(crate) fn make_room_for_frame(
        &self,
        work: &mut Work,
        age: Age,
        others: &(impl Operations + ?Sized),
        block: BlockNumber,
    ) -> Result<(), Error> {
        let reserve = |work: &mut Work| {
            let mut share = self.lock_share(block)?;
            Ok::<_, Error>(self.reserve_frame(&mut share, work, block))
        };
        if reserve(work)? {
            return Ok(());
        }
        if work.is_out_of_time() {
            return Err(Error::OutOfTime);
        }
        self.commit_batch()?;
        let own = (0..others.count()).map(|at| others.block(at));
        let beside = own.filter(|other| self.share_together(*other, block)).count();
        let could_be = |share: &Share| share.reserved_max() > share.reserved;
        let mut stays = false;
        if could_be(&*self.lock_share(block)?) {
            let wanted = usize::from(self.needs_pin_of(block)?);
            stays = self.evict([(block, wanted)])? || self.are_pins_of(block, age)?;
            let has_room = |_| {
                let share = self.lock_share(block);
                share.is_ok_and(|mut share| self.has_room_for(&mut share, block, stays))
            };
            self.make_room(work.until, has_room)?;
        }
        if reserve(work)? {
            return Ok(());
        }
        if beside >= self.lock_share(block)?.reserved_max() {
            return Err(Error::TooManyBlocks { blocks: beside + 1 });
        }
        self.check_not_filled(block)?;
        if stays {
            self.check_pins_come_free(block, beside + 1)?;
        }
        Err(self.short_of_room(work, work.reserved_bytes, Some(others), block))
    }

    /// Reserves room for the block's frame in its share of the index, if there is any. Notes what
    /// the frame will overwrite.
    #[inline]
    pub(crate) fn reserve_frame(
        &self,
        share: &mut Share,
        work: &mut Work,
        block: BlockNumber,
    ) -> bool {
        let lead = share.index.lead(block);
        self.reserve_frame_of(share, work, block, lead)
    }

    /// Like [`reserve_frame`](Self::reserve_frame), where the block was looked up in the index.
    #[inline(always)]
    fn reserve_frame_of(
        &self,
        share: &mut Share,
        work: &mut Work,
        block: BlockNumber,
        lead: Option<Lead>,
    ) -> bool {
        if share.has_room() && !self.lacks_pin(share, block) {
            share.reserved += 1;
            if share.is_filling() && self.wants_free_frames() {
                self.ask_for_checkpoint();
            }
        } else if !self.use_granted_frame(work, block) {
            return false;
        }
        self.common.prefetch_next_node(&share.index);
        self.note_overwritten_by(work, share, lead);
        true
    }

    /// Reserves `needed` bytes of the lane, of which `block` is to be the last block.
    #[inline]
    pub(crate) fn reserve_bytes(
        &self,
        work: &mut Work,
        needed: u64,
        block: BlockNumber,
    ) -> Result<(), Error> {
        let more = needed.saturating_sub(work.reserved_bytes);
        if more == 0 || self.try_reserve(work, more) {
            return Ok(());
        }
        let capacity = self.common.geometry.lane_bytes;
        if needed > capacity {
            return Err(Error::TooLarge { needed, capacity });
        }
        self.stopped(ShortOf::Bytes, || self.reserve_slowly(work, block, needed, more))
    }

    #[inline]
    pub(crate) fn try_reserve(&self, work: &mut Work, more: u64) -> bool {
        let kept = self.kept_bytes(work.reserved_bytes + more);
        self.try_reserve_above(work, more, kept)
    }

    /// Like [`try_reserve`](Self::try_reserve), where `kept` bytes have to be left.
    #[inline(always)]
    pub(crate) fn try_reserve_above(&self, work: &mut Work, more: u64, kept: u64) -> bool {
        let is_there = (kept == 0 && self.take_from_hand(work.lane, more))
            || self.take_bytes(work.lane, more, kept);
        work.reserved_bytes += if is_there { more } else { 0 };
        is_there
    }

    #[inline]
    pub(crate) fn try_reserve_in(&self, lane: LaneNumber, more: u64) -> bool {
        self.take_bytes(lane, more, self.kept_bytes(more))
    }

    #[inline]
    pub(crate) fn take_bytes(&self, lane: LaneNumber, more: u64, kept: u64) -> bool {
        let Some(left) = self.lane(lane).unreserved.take(more, kept) else { return false };
        if left < self.levels.asks_below_bytes() {
            self.ask_for_checkpoint();
        }
        true
    }

    /// Sees to it that `bytes` bytes are in the lane's hand: reserved for its holder. If they are
    /// not, some more are reserved, so that mostly nothing changes that others watch. Returns
    /// whether they are there.
    #[inline]
    pub(super) fn see_to_hand(
        &self,
        lane: LaneNumber,
        state: &mut LaneState<M>,
        bytes: u64,
    ) -> bool {
        state.in_hand >= bytes || self.fill_hand(lane, state, bytes)
    }

    /// The most bytes that are kept in hand where a transaction gives back what it has reserved.
    #[inline]
    pub(super) const fn in_hand_max(&self) -> u64 {
        let part = self.common.geometry.lane_bytes >> 8;
        if part < IN_HAND_BYTES { part } else { IN_HAND_BYTES }
    }

    /// Reserves bytes that its holder has in hand, if this thread has the lane without waiting for
    /// anything: no locked instruction comes into it.
    #[inline(always)]
    fn take_from_hand(&self, lane: LaneNumber, bytes: u64) -> bool {
        if bytes > self.in_hand_max() || self.is_room_awaited() {
            return false;
        }
        let Some(mut state) = self.lane(lane).turn.take_by_favour() else { return false };
        let is_there = self.see_to_hand(lane, &mut state, bytes);
        if is_there {
            state.in_hand -= bytes;
        }
        is_there
    }

    #[cold]
    fn fill_hand(&self, lane: LaneNumber, state: &mut LaneState<M>, bytes: u64) -> bool {
        if self.is_room_awaited() {
            return false;
        }
        let more = bytes - state.in_hand;
        let many = more.max(self.in_hand_max());
        let taken = [many, more].into_iter().find(|bytes| self.try_reserve_in(lane, *bytes));
        state.in_hand += taken.unwrap_or(0);
        taken.is_some()
    }

    /// Gives back what is reserved for the holder of a lane.
    pub(crate) fn give_from_hand(&self, lane: LaneNumber) -> Result<(), Error> {
        let cell = self.lane(lane);
        let bytes = core::mem::take(&mut self.lock_lane(cell)?.in_hand);
        cell.unreserved.give(bytes);
        Ok(())
    }

    #[cold]
    fn reserve_slowly(
        &self,
        work: &mut Work,
        block: BlockNumber,
        needed: u64,
        more: u64,
    ) -> Result<(), Error> {
        // The lane's holder and the running transaction have reserved more than they will take.
        self.give_from_hand(work.lane)?;
        if work.is_out_of_time() {
            return if self.try_reserve(work, more) { Ok(()) } else { Err(Error::OutOfTime) };
        }
        self.commit_batch()?;
        if self.try_reserve(work, more) {
            return Ok(());
        }
        // Other threads may be faster than this one to take what a checkpoint has freed.
        let kept = self.kept_bytes(needed);
        let mut stays = None;
        if self.could_have(work.lane, more + kept)? {
            let unreserved = &self.lane(work.lane).unreserved;
            stays = match self.make_room(work.until, |_| unreserved.left() >= more + kept) {
                Err(error @ Error::NoShield { .. }) => Some(error),
                made => made.map(|()| None)?,
            };
            self.give_from_hand(work.lane)?;
            if self.try_reserve_above(work, more, kept) {
                return Ok(());
            }
        }
        // The next transaction, or the next try, goes through another lane.
        work.leaves_lane = true;
        if let Some(error) = stays {
            return Err(error);
        }
        if let Err(error) = self.check_not_pinned(work.lane, more + kept) {
            // The kept bytes are kept for this.
            let ends_it = self.lock_share(block)?.index.is_unreadable(block);
            if ends_it && self.try_reserve_above(work, more, 0) {
                work.leaves_lane = false;
                return Ok(());
            }
            return Err(error);
        }
        // Other transactions have reserved the rest. Waiting for them with blocks in hand might
        // never end: they may be waiting for one of these blocks.
        Err(self.short_of_room(work, needed, None::<&[Operation<'_>]>, block))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
