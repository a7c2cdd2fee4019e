//! Locks on blocks, held from a transaction's first touch until it is durable.
//!
//! Runs of blocks share a fixed number of cache lines, in which each block of a run has a word. The
//! word holds the age of the transaction that has the block, or zero. All blocks of a line belong
//! to one share of the index, and only the holder of that share's lock takes a word. So taking a
//! word is a plain store. Giving it back is a plain store too, and takes no lock.
//!
//! *No lock covers two blocks.* A line belongs to one run at a time. It passes to another run only
//! while all its words are zero. Where they are not, a block of the other run is locked *beside*
//! the table, in a map that has its number. This is slower, and rare: it takes two runs of one line
//! with blocks locked at the same time. So transactions with different blocks never wait for each
//! other.
//!
//! *Wait-die*: a transaction that already holds something waits only for younger ones. Where an
//! older one is in the way, it gives up and is tried again, as old as it was. So no transactions
//! wait in a circle, and the oldest gets through. A transaction that holds nothing yet may wait for
//! any other: of the transactions that hold something, none waits for it.
//!
//! *Claims*: a transaction that has waited a while for a block claims it. A younger one is then
//! refused as if the claimant held the block. No transaction that holds something ever waits for a
//! claim, because it never waits for an older one. Whatever begins behind the first wait of a
//! transaction is younger than it ([`BlockLocks::age_behind`]). So from its claim on, it waits only
//! for transactions that were there before. A claim goes when its transaction has to give up for an
//! older one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use journal_core::BlockNumber;
use journal_core::parts::{RUN_BLOCKS, share_of};

use crate::threads::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// When a transaction began, and which it is: unique while it lives, and lower for older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age(pub(crate) u64);

/// One word of the table. Other blocks may have it too, at other times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stripe(u32);

impl Stripe {
    /// The stripe of a block, where this is the stripe of the first block of its run.
    #[inline]
    pub(crate) const fn beside(self, block: BlockNumber) -> Self {
        Self(self.0 | (block.raw() % RUN_BLOCKS) as u32)
    }

    /// The stripe's number in the table.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }
}

/// The words of a run of blocks.
const WORDS: usize = RUN_BLOCKS as usize;

/// The run that a line belongs to before it belongs to any.
const NO_RUN: u64 = u64::MAX;

/// The number of a block's run.
const fn run_of(block: BlockNumber) -> u64 {
    block.raw() / RUN_BLOCKS
}

/// Where a transaction has a block that it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockedAt {
    /// Where it had the block before.
    Before,
    /// In this word of the table.
    Word(Stripe),
    /// Beside the table.
    Beside,
}

/// The locks of one run, for a transaction that takes several of its blocks. None of them is taken
/// beside the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLocks<'l> {
    words: &'l [AtomicU64; WORDS],
    /// The run that the words belong to.
    belongs_to: &'l AtomicU64,
    run: u64,
}

/// Some words in a cache line of their own.
#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicU64; WORDS]);

#[derive(Debug)]
pub(crate) struct BlockLocks {
    holders: Box<[Line]>,
    /// For each line, the run that it belongs to.
    runs: Box<[AtomicU64]>,
    /// Blocks that are locked beside the table, and the transactions that have them. It changes
    /// only with the lock of the block's share.
    beside: Mutex<BTreeMap<BlockNumber, Age>>,
    shares: usize,
    /// The lines of one share, less one.
    mask: usize,
    /// The age of the youngest transaction that had to wait.
    waited: AtomicU64,
}

/// What is unusual about the blocks of one share of the index, behind that share's lock: which of
/// them are claimed, and which are locked beside the table.
#[derive(Debug, Default)]
pub(crate) struct Claims(Option<Box<Claimed>>);

/// Out of line, since a share is two cache lines.
#[derive(Debug, Default)]
struct Claimed {
    /// The claims of each block, the oldest first.
    ages: BTreeSet<(BlockNumber, Age)>,
    /// The blocks of the share that are locked beside the table.
    beside: BTreeSet<BlockNumber>,
}

impl Claims {
    /// Keeps a block from every younger transaction, until the claim is withdrawn.
    pub(crate) fn add(&mut self, block: BlockNumber, age: Age) {
        self.0.get_or_insert_default().ages.insert((block, age));
    }

    /// Ends a claim: the claimant has the block, or no longer wants it.
    pub(crate) fn withdraw(&mut self, block: BlockNumber, age: Age) {
        if let Some(claims) = &mut self.0 {
            claims.ages.remove(&(block, age));
            self.forget_if_empty();
        }
    }

    fn forget_if_empty(&mut self) {
        if self.0.as_ref().is_some_and(|claims| claims.ages.is_empty() && claims.beside.is_empty())
        {
            self.0 = None;
        }
    }

    /// Whether a block is locked beside the table.
    fn has_beside(&self, block: BlockNumber) -> bool {
        self.0.as_ref().is_some_and(|claims| claims.beside.contains(&block))
    }

    /// Whether a block is not to be had by its word alone.
    #[cold]
    fn hinder(&self, block: BlockNumber, age: Age) -> bool {
        self.has_beside(block) || self.older(block, age).is_some()
    }

    /// The age of the oldest claimant of a block, if it is older than `age`.
    pub(crate) fn older(&self, block: BlockNumber, age: Age) -> Option<Age> {
        let claims = self.0.as_deref()?;
        let oldest = claims.ages.range((block, Age(0))..=(block, Age(u64::MAX))).next()?.1;
        (oldest < age).then_some(oldest)
    }
}

impl RunLocks<'_> {
    /// Takes the word of a block of the run. Returns whether the block was not held before by the
    /// same transaction. `None` where the block is not free, or is not to be had in this way. The
    /// caller has the lock of the run's share, and so the claims there.
    #[inline(always)]
    pub(crate) fn try_lock(&self, claims: &Claims, block: BlockNumber, age: Age) -> Option<bool> {
        if (claims.0.is_some() && claims.hinder(block, age)) || !self.have_line() {
            return None;
        }
        self.try_word(block, age).ok()
    }

    /// Whether the line belongs to the run, or does from now on.
    #[inline(always)]
    fn have_line(&self) -> bool {
        self.belongs_to.load(Ordering::Relaxed) == self.run || self.take_line()
    }

    /// Takes the line for the run, if no block of another run is locked in it.
    fn take_line(&self) -> bool {
        // Pairs with the release by each holder before: it goes on to the next holder of its block,
        // which may have that block beside the table.
        let is_free = self.words.iter().all(|holder| holder.load(Ordering::Acquire) == 0);
        if is_free {
            self.belongs_to.store(self.run, Ordering::Release);
        }
        is_free
    }

    #[inline(always)]
    fn try_word(&self, block: BlockNumber, age: Age) -> Result<bool, Age> {
        let holder = &self.words[block.raw() as usize % WORDS];
        // Pairs with the release by the holder before.
        match holder.load(Ordering::Acquire) {
            0 => {
                holder.store(age.0, Ordering::Release);
                Ok(true)
            }
            found if found == age.0 => Ok(false),
            found => Err(Age(found)),
        }
    }

    /// The age of the transaction that has a block of the run in its word at this moment.
    fn holder_of(&self, block: BlockNumber) -> Option<Age> {
        let is_ours = |order| self.belongs_to.load(order) == self.run;
        if !is_ours(Ordering::Acquire) {
            return None;
        }
        let holder = self.words[block.raw() as usize % WORDS].load(Ordering::Acquire);
        // The line may have passed to another run meanwhile.
        (holder != 0 && is_ours(Ordering::Relaxed)).then_some(Age(holder))
    }

    /// Gives back a block of the run that this transaction has in its word, like
    /// [`BlockLocks::unlock`].
    #[inline(always)]
    pub(crate) fn unlock(&self, block: BlockNumber, age: Age) {
        let holder = &self.words[block.raw() as usize % WORDS];
        debug_assert_eq!(holder.load(Ordering::Relaxed), age.0, "given back by its holder, once");
        holder.store(0, Ordering::Release);
    }
}

impl BlockLocks {
    /// Makes a table with at least `stripes` words for each share of the index.
    pub(crate) fn new(shares: usize, stripes: usize) -> Self {
        let each = stripes.div_ceil(WORDS).next_power_of_two();
        let line = || Line(core::array::from_fn(|_| AtomicU64::new(0)));
        let lines = shares * each;
        Self {
            holders: (0..lines).map(|_| line()).collect(),
            runs: (0..lines).map(|_| AtomicU64::new(NO_RUN)).collect(),
            beside: Mutex::default(),
            shares,
            mask: each - 1,
            waited: AtomicU64::new(0),
        }
    }

    /// The stripe of the first block of a block's run.
    #[inline]
    pub(crate) fn first_of_run(&self, block: BlockNumber) -> Stripe {
        // Runs are apart, and each is in one line, as its blocks are of one share. So threads with
        // blocks of their own mostly share neither lines nor shares of the index.
        let scattered = (block.raw() / RUN_BLOCKS).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let share = share_of(block, self.shares);
        let line = share * (self.mask + 1) + (scattered as usize & self.mask);
        Stripe((line * WORDS) as u32)
    }

    #[inline]
    pub(crate) fn stripe(&self, block: BlockNumber) -> Stripe {
        self.first_of_run(block).beside(block)
    }

    /// The address of the word that says which transaction has a stripe.
    #[inline]
    pub(crate) fn address_of(&self, stripe: Stripe) -> *const u8 {
        core::ptr::from_ref(self.holder(stripe)).cast()
    }

    /// The locks of a block's run.
    #[inline(always)]
    pub(crate) fn of_run(&self, block: BlockNumber) -> RunLocks<'_> {
        let line = self.first_of_run(block).0 as usize / WORDS;
        let (words, belongs_to) = (&self.holders[line].0, &self.runs[line]);
        RunLocks { words, belongs_to, run: run_of(block) }
    }

    fn holder(&self, stripe: Stripe) -> &AtomicU64 {
        let stripe = stripe.0 as usize;
        &self.holders[stripe / WORDS].0[stripe % WORDS]
    }

    fn lock_beside(&self) -> MutexGuard<'_, BTreeMap<BlockNumber, Age>> {
        // Nothing in here panics.
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a block. The caller has the lock of its share, and so the claims there.
    ///
    /// # Errors
    /// The age of the transaction that has the block instead, or will have it.
    #[inline(always)]
    pub(crate) fn try_lock(
        &self,
        claims: &mut Claims,
        block: BlockNumber,
        age: Age,
    ) -> Result<LockedAt, Age> {
        let run = self.of_run(block);
        if claims.0.is_some() || !run.have_line() {
            return self.try_lock_carefully(claims, block, age);
        }
        let is_new = run.try_word(block, age)?;
        Ok(if is_new { LockedAt::Word(self.stripe(block)) } else { LockedAt::Before })
    }

    /// Takes a block like [`try_lock`](Self::try_lock), where blocks of its share are claimed, or
    /// locked beside the table, or its line belongs to another run.
    #[cold]
    fn try_lock_carefully(
        &self,
        claims: &mut Claims,
        block: BlockNumber,
        age: Age,
    ) -> Result<LockedAt, Age> {
        let run = self.of_run(block);
        let beside = claims.has_beside(block).then(|| self.lock_beside().get(&block).copied());
        match beside.flatten().or_else(|| run.holder_of(block)) {
            Some(holder) if holder == age => return Ok(LockedAt::Before),
            Some(holder) => return Err(holder),
            None => {}
        }
        if let Some(claimant) = claims.older(block, age) {
            return Err(claimant);
        }
        if run.have_line() {
            // It may have come free since.
            let is_new = run.try_word(block, age)?;
            return Ok(if is_new { LockedAt::Word(self.stripe(block)) } else { LockedAt::Before });
        }
        self.lock_beside().insert(block, age);
        claims.0.get_or_insert_default().beside.insert(block);
        Ok(LockedAt::Beside)
    }

    /// Gives back a block that was taken beside the table. The caller has the lock of its share.
    pub(crate) fn unlock_beside(&self, claims: &mut Claims, block: BlockNumber) {
        self.lock_beside().remove(&block);
        if let Some(claimed) = &mut claims.0 {
            claimed.beside.remove(&block);
            claims.forget_if_empty();
        }
    }

    /// Notes that a transaction has to wait, or to give up for now.
    pub(crate) fn note_waits(&self, age: Age) {
        // Ages wrap around.
        let is_later = |waited: u64| age.0.wrapping_sub(waited) < 1 << 63;
        let later = |waited| is_later(waited).then_some(age.0);
        // An age that is not later is noted already.
        let _ = self.waited.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// The age that a transaction that begins now has to be above.
    #[inline]
    pub(crate) fn age_behind(&self) -> Age {
        Age(self.waited.load(Ordering::Relaxed))
    }

    /// The age of the transaction that has a block at this moment.
    pub(crate) fn holder_of(&self, block: BlockNumber) -> Option<Age> {
        // The map first: as long as it has the block, the word is of another one, or of none.
        let beside = self.lock_beside().get(&block).copied();
        beside.or_else(|| self.of_run(block).holder_of(block))
    }

    /// Gives a word back. The next holder of its block sees what this one did before.
    #[inline]
    pub(crate) fn unlock(&self, stripe: Stripe) {
        self.holder(stripe).store(0, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod explored;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
