//! Room for transactions, where there is too little for all: which one gets it, and which ones
//! wait.
//!
//! Room is bytes of a lane, and frames of the shares of the index. A transaction reserves it block
//! by block. Where it finds too little, it makes room by a checkpoint, if that can be enough. If it
//! cannot, other transactions have reserved the rest, and these rules hold:
//!
//! N1. The transaction gives back all that it has, and gives up its blocks. It notes what it was
//!     short of, together with what earlier tries were short of, and waits asleep, as old as it is.
//! N2. The eldest waiting transaction is served first. All that it wants is reserved for it at one
//!     time, in any lane that has it. Then it begins again, and the next one is served.
//! N3. While one waits, no younger transaction that has no room begins to reserve some: it waits
//!     behind. A transaction that has room already goes on, and ends, or comes to N1.
//! N4. A checkpoint is made for waiting transactions only where it can be enough. Something must
//!     also have been committed since the last checkpoint that freed nothing.
//! N5. The eldest may wait for transactions that do not go on. Then others need not wait for it: a
//!     younger one takes what it wants, if that is free, once nothing was given back for 100
//!     milliseconds.
//!
//! So some transaction always ends. Those that wait hold nothing. Each of the others ends or comes
//! to wait. When all wait, the eldest gets room, again each time it returns. What it wants grows
//! with each of its tries, but is never more than a lane and the index have.
//! Transactions that begin from its first wait on are younger. For its blocks, *wait-die* in the
//! front door does the same.
//!
//! A thread that has another transaction open may wait for room that the other one has. So it waits
//! only for a while: then it goes on, or gets a conflict.
//!
//! A block that cannot be read may keep room from coming free. No transaction waits for that room.

use core::time::Duration;

use journal_core::BlockNumber;
use journal_core::parts::{Operations, share_of};
use journal_core::policy::Policy;
use journal_core::units::LaneNumber;

use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::staging::work::{WantedInShare, Wants, Work};
use crate::threads::block_locks::{Age, Stripe};
use crate::threads::sync::thread::let_others_run;
use crate::threads::waiting::{Asleep, RoomWait};

/// How many times a thread with several transactions looks whether it is served, and how long it
/// sleeps in between.
const LOOKS_WITH_SEVERAL: u32 = 32;
const NAP_WITH_SEVERAL: Duration = Duration::from_millis(3);

/// If nobody has given anything back for this time, a younger transaction goes on as soon as there
/// is room for it.
const QUIET: Duration = Duration::from_millis(100);

impl Wants {
    fn add(&mut self, bytes: u64, wanted: &[WantedInShare], shares: usize) {
        self.bytes = self.bytes.max(bytes);
        for more in wanted {
            let share = share_of(more.block, shares);
            match self.shares.iter_mut().find(|known| share_of(known.block, shares) == share) {
                Some(known) => {
                    known.frames = known.frames.max(more.frames);
                    known.pins = known.pins.max(more.pins);
                }
                None => self.shares.push(*more),
            }
        }
    }
}

impl<L, M: Machine> Shared<L, M> {
    /// Whether a transaction waits for room.
    #[inline(always)]
    pub(crate) fn is_room_awaited(&self) -> bool {
        self.waiting.now_asleep().want_room()
    }

    /// Wakes the waiters after a transaction has ended that had one stripe.
    #[inline(always)]
    pub(crate) fn tell_waiters_for(&self, stripe: Stripe) {
        let asleep = self.waiting.asleep();
        if !asleep.is_nobody() {
            self.wake_waiters(asleep, [stripe].into_iter());
        }
    }

    /// Wakes the threads that wait for one of these stripes, or for room.
    #[cold]
    pub(crate) fn wake_waiters(&self, asleep: Asleep, stripes: impl Iterator<Item = Stripe>) {
        let wanted = stripes.filter(|stripe| asleep.may_want(*stripe));
        wanted.for_each(|stripe| self.waiting.wake_for_block(stripe));
        if asleep.want_room() {
            self.waiting.wake_for_room();
        }
    }

    /// Wakes a thread that waits for room, after a checkpoint has freed something.
    #[cold]
    pub(crate) fn tell_waiters_for_room(&self) {
        if self.waiting.asleep().want_room() {
            self.waiting.wake_for_room();
        }
    }

    /// Gives back room for frames that was granted and not used.
    #[inline]
    pub(crate) fn give_grants_back(&self, work: &mut Work) {
        if !work.granted_frames.is_empty() {
            self.give_frames_back(work);
        }
    }

    #[cold]
    fn give_frames_back(&self, work: &mut Work) {
        for (block, count) in work.granted_frames.drain(..) {
            if let Ok(mut share) = self.lock_share(block) {
                share.reserved -= count;
            }
        }
    }

    /// Uses room for one frame in a block's share that was granted, if there is any.
    #[cold]
    pub(crate) fn use_granted_frame(&self, work: &mut Work, block: BlockNumber) -> bool {
        let is_here = |granted: &(BlockNumber, usize)| self.share_together(granted.0, block);
        let Some(at) = work.granted_frames.iter().position(is_here) else { return false };
        let granted = &mut work.granted_frames[at];
        granted.1 -= 1;
        if granted.1 == 0 {
            work.granted_frames.swap_remove(at);
        }
        true
    }
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Waits for what a transaction gave up for: for room, or for a block. The transaction holds
    /// nothing now. A block is taken, so that the transaction has it when it begins again.
    ///
    /// # Errors
    /// `Conflict` where that wait would have no end. Either another transaction of this thread has
    /// the block, or the transactions that have it wait for this thread.
    pub(crate) fn await_turn(
        &self,
        work: &mut Work,
        age: Age,
        block: BlockNumber,
    ) -> Result<(), Error> {
        if !core::mem::take(&mut work.is_short) {
            return self.lock_block(work, age, block).map(drop);
        }
        if self.await_room(work, age)? { Ok(()) } else { Err(Error::Conflict { block }) }
    }

    /// Waits for the turn of a transaction that has reserved no room, and is to reserve some for
    /// this block (N3).
    ///
    /// # Errors
    /// `Conflict` where the transaction may not sleep, since it has blocks.
    #[cold]
    pub(crate) fn await_room_to_begin(
        &self,
        work: &mut Work,
        age: Age,
        block: BlockNumber,
        bytes: u64,
    ) -> Result<(), Error> {
        if work.has_room() || !self.waiting.has_older_for_room(age) {
            return Ok(());
        }
        let pins = usize::from(self.may_need_pin(block)?);
        let wants = work.wants.get_or_insert_default();
        wants.add(bytes, &[WantedInShare { block, frames: 1, pins }], self.shares.len());
        if !work.has_blocks() {
            // A transaction that may not wait any longer goes on; it is a small one.
            return self.await_room(work, age).map(drop);
        }
        work.is_short = true;
        Err(Error::Conflict { block })
    }

    /// Notes that a transaction was short of room for one block more (N1).
    #[cold]
    pub(crate) fn short_of_room(
        &self,
        work: &mut Work,
        bytes: u64,
        others: Option<&(impl Operations + ?Sized)>,
        block: BlockNumber,
    ) -> Error {
        let mut shares: Vec<WantedInShare> = Vec::new();
        if let Some(others) = others {
            let others = (0..others.count()).map(|at| others.block(at));
            for each in others.chain(core::iter::once(block)) {
                let pins = match self.may_need_pin(each) {
                    Ok(needs) => usize::from(needs),
                    Err(error) => return error,
                };
                match shares.iter_mut().find(|known| self.share_together(known.block, each)) {
                    Some(known) => {
                        known.frames += 1;
                        known.pins += pins;
                    }
                    None => shares.push(WantedInShare { block: each, frames: 1, pins }),
                }
            }
        }
        let wants = work.wants.get_or_insert_default();
        wants.add(bytes, &shares, self.shares.len());
        work.is_short = true;
        // A caller that begins anew by itself lets other threads go on.
        let_others_run();
        Error::Conflict { block }
    }

    /// Waits, holding nothing, until what a transaction wants is reserved for it. Returns whether
    /// it is, or whether waiting will not help.
    fn await_room(&self, work: &mut Work, age: Age) -> Result<bool, Error> {
        debug_assert!(
            !work.has_blocks() && !work.has_room(),
            "a waiting transaction holds nothing"
        );
        self.blocks.note_waits(age);
        let wait = self.waiting.wait_for_room(age);
        let mut looks = LOOKS_WITH_SEVERAL;
        loop {
            self.check_not_failed()?;
            let may_wait = work.may_wait();
            if may_wait == Some(Duration::ZERO) {
                return Err(Error::OutOfTime);
            }
            if wait.is_first() {
                if self.look_for_room(work)? {
                    return Ok(true);
                }
                if !wait.is_first() {
                    // An older one came, and may have found taken what this one tried to take.
                    self.waiting.wake_for_room();
                }
            }
            if !self.seats.has_several() {
                // An explorer has no time.
                let nap = may_wait.unwrap_or(QUIET).min(QUIET);
                if wait.is_first() || cfg!(any(loom, shuttle)) {
                    wait.sleep(may_wait);
                } else if wait.sleeps_in_quiet(nap) && nap == QUIET && self.grant(work)? {
                    return Ok(true);
                }
                continue;
            }
            if looks == 0 {
                // As in N5: what waits before it may be what its own thread has.
                return self.grant(work);
            }
            looks -= 1;
            Self::rest(&wait);
        }
    }

    /// Sleeps for a short while. An explorer has no time, so there it lets other threads run.
    fn rest(wait: &RoomWait<'_>) {
        if cfg!(any(loom, shuttle)) {
            let_others_run();
        } else {
            wait.sleep_for(NAP_WITH_SEVERAL);
        }
    }

    /// Looks for what the eldest waiting transaction wants. It looks in what is free, in what is
    /// reserved without need, and in what a checkpoint frees. Returns whether the transaction need
    /// not wait any more.
    fn look_for_room(&self, work: &mut Work) -> Result<bool, Error> {
        if self.grant(work)? {
            return Ok(true);
        }
        self.give_from_hands()?;
        self.commit_batch()?;
        if self.grant(work)? {
            return Ok(true);
        }
        let Some(wants) = work.wants.clone() else { return Ok(true) };
        let mut stays = false;
        if self.could_fit(&wants)? {
            stays = self.evict(wants.shares.iter().map(|it| (it.block, it.pins)))?;
            self.make_room(work.until, |_| self.fits(&wants, stays))?;
            self.give_from_hands()?;
            if self.grant(work)? {
                return Ok(true);
            }
        }
        self.waits_in_vain(&wants, stays)
    }

    fn give_from_hands(&self) -> Result<(), Error> {
        self.each_lane().try_for_each(|lane| self.give_from_hand(lane))
    }

    fn each_lane(&self) -> impl Iterator<Item = LaneNumber> + use<L, M> {
        (0..self.common.geometry.lanes).map(LaneNumber)
    }

    /// Reserves all that a transaction wants, if it is there (N2).
    fn grant(&self, work: &mut Work) -> Result<bool, Error> {
        let Some(wants) = work.wants.take() else { return Ok(true) };
        let is_granted = self.grant_all(work, &wants);
        work.wants = Some(wants);
        is_granted
    }

    fn grant_all(&self, work: &mut Work, wants: &Wants) -> Result<bool, Error> {
        for WantedInShare { block, frames, pins } in wants.shares.iter().copied() {
            let mut share = self.lock_share(block)?;
            let lacks_pins = pins > 0 && share.lacks_pins(pins);
            if share.index.free_frames() < share.reserved + frames || lacks_pins {
                drop(share);
                self.give_frames_back(work);
                return Ok(false);
            }
            share.reserved += frames;
            work.granted_frames.push((block, frames));
        }
        // A transaction that is too large for a lane is told so when it begins again.
        if wants.bytes == 0 || wants.bytes > self.common.geometry.lane_bytes {
            return Ok(true);
        }
        let lanes = core::iter::once(work.lane).chain(self.each_lane());
        let Some(lane) = { lanes }.find(|lane| self.try_reserve_in(*lane, wants.bytes)) else {
            self.give_frames_back(work);
            return Ok(false);
        };
        (work.lane, work.reserved_bytes) = (lane, wants.bytes);
        Ok(true)
    }

    /// Whether all that is wanted is there. `pins` says whether room to pin blocks is.
    fn fits(&self, wants: &Wants, pins: bool) -> bool {
        let needed = wants.bytes + self.kept_bytes(wants.bytes);
        let has_bytes = self.each_lane().any(|lane| self.lane(lane).unreserved.left() >= needed);
        let has_frames = |wanted: &WantedInShare| {
            self.lock_share(wanted.block).is_ok_and(|mut share| {
                let has_frames = share.index.free_frames() >= share.reserved + wanted.frames;
                has_frames && !(pins && wanted.pins > 0 && share.lacks_pins(wanted.pins))
            })
        };
        has_bytes && wants.shares.iter().all(has_frames)
    }

    /// Whether all that is wanted would be there if all records were home (N4).
    fn could_fit(&self, wants: &Wants) -> Result<bool, Error> {
        for wanted in &wants.shares {
            let share = self.lock_share(wanted.block)?;
            if share.reserved_max() < share.reserved + wanted.frames {
                return Ok(false);
            }
        }
        let needed = wants.bytes + self.kept_bytes(wants.bytes);
        for lane in self.each_lane() {
            if self.could_have(lane, needed)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a lane would have `bytes` bytes that are not reserved, if its records were home.
    pub(crate) fn could_have(&self, lane: LaneNumber, bytes: u64) -> Result<bool, Error> {
        let cell = self.lane(lane);
        let state = self.lock_lane(cell)?;
        let reserved = state.lane.free_bytes().saturating_sub(cell.unreserved.left());
        Ok(state.lane.capacity_bytes() >= reserved + bytes)
    }

    /// Whether a block that cannot be read keeps what is wanted from coming free, in all lanes.
    /// Then the transaction is told when it goes on. `stays` says whether an eviction has found
    /// blocks that cannot be moved.
    fn waits_in_vain(&self, wants: &Wants, stays: bool) -> Result<bool, Error> {
        for wanted in &wants.shares {
            let has_some = self.lock_share(wanted.block)?.index.free_frames() >= wanted.frames;
            if !has_some {
                self.check_not_filled_by_more(wanted.block)?;
            }
            if stays {
                self.check_pins_come_free(wanted.block, wanted.pins)?;
            }
        }
        let needed = wants.bytes + self.kept_bytes(wants.bytes);
        for lane in self.each_lane() {
            match self.check_not_pinned(lane, needed) {
                Ok(()) => return Ok(false),
                Err(Error::Unreadable { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
