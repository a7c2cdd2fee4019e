//! Locks on blocks, held from a transaction's first touch until it is durable.
//!
//! Blocks share a fixed number of words. Each word holds the age of the transaction that has it, or
//! zero. All blocks of a word belong to one share of the index, and only the holder of that share's
//! lock takes the word. So taking a word is a plain store. Giving it back is a plain store too, and
//! takes no lock.
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

use std::collections::BTreeSet;

use journal_core::BlockNumber;
use journal_core::parts::{RUN_BLOCKS, share_of};

use crate::threads::sync::{AtomicU64, Ordering};

/// When a transaction began, and which it is: unique while it lives, and lower for older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age(pub(crate) u64);

/// One word of the table.
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

/// The locks of one run, for a transaction that takes several of its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLocks<'l> {
    words: &'l [AtomicU64; WORDS],
    /// The stripe of the first word.
    first: Stripe,
}

/// Some words in a cache line of their own.
#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicU64; WORDS]);

#[derive(Debug)]
pub(crate) struct BlockLocks {
    holders: Box<[Line]>,
    shares: usize,
    /// The lines of one share, less one.
    mask: usize,
    /// The age of the youngest transaction that had to wait.
    waited: AtomicU64,
}

/// Transactions that have waited long for words of one share of the index, behind that share's
/// lock.
#[derive(Debug, Default)]
pub(crate) struct Claims(Option<Box<Claimed>>);

/// The claims of each stripe, the oldest first. Out of line, since a share is two cache lines.
#[derive(Debug, Default)]
struct Claimed(BTreeSet<(Stripe, Age)>);

impl Claims {
    /// Keeps a stripe from every younger transaction, until the claim is given up.
    pub(crate) fn add(&mut self, stripe: Stripe, age: Age) {
        self.0.get_or_insert_default().0.insert((stripe, age));
    }

    /// Ends a claim: the claimant has the stripe, or has given up.
    pub(crate) fn give_up(&mut self, stripe: Stripe, age: Age) {
        if let Some(claims) = &mut self.0 {
            claims.0.remove(&(stripe, age));
            if claims.0.is_empty() {
                self.0 = None;
            }
        }
    }

    /// The age of the oldest claimant of a stripe, if it is older than `age`.
    #[inline]
    pub(crate) fn older(&self, stripe: Stripe, age: Age) -> Option<Age> {
        if self.0.is_none() { None } else { self.oldest(stripe).filter(|oldest| *oldest < age) }
    }

    #[cold]
    fn oldest(&self, stripe: Stripe) -> Option<Age> {
        let claims = self.0.as_deref()?;
        claims.0.range((stripe, Age(0))..=(stripe, Age(u64::MAX))).next().map(|claim| claim.1)
    }
}

impl RunLocks<'_> {
    /// Takes the stripe of a block of the run, like [`BlockLocks::try_lock`].
    #[inline(always)]
    pub(crate) fn try_lock(
        &self,
        claims: &Claims,
        block: BlockNumber,
        age: Age,
    ) -> Result<bool, Age> {
        self.try_lock_at(block.raw() as usize % WORDS, claims, age)
    }

    #[inline(always)]
    fn try_lock_at(&self, at: usize, claims: &Claims, age: Age) -> Result<bool, Age> {
        let holder = &self.words[at % WORDS];
        // Pairs with the release by the holder before.
        match holder.load(Ordering::Acquire) {
            0 => {
                if let Some(claimant) = claims.older(Stripe(self.first.0 | at as u32), age) {
                    return Err(claimant);
                }
                holder.store(age.0, Ordering::Relaxed);
                Ok(true)
            }
            found if found == age.0 => Ok(false),
            found => Err(Age(found)),
        }
    }

    /// Gives back a block of the run that this transaction has, like [`BlockLocks::unlock`].
    #[inline(always)]
    pub(crate) fn unlock(&self, block: BlockNumber, age: Age) {
        let holder = &self.words[block.raw() as usize % WORDS];
        debug_assert_eq!(holder.load(Ordering::Relaxed), age.0, "given back by who has it, once");
        holder.store(0, Ordering::Release);
    }
}

impl BlockLocks {
    /// Makes a table with at least `stripes` words for each share of the index.
    pub(crate) fn new(shares: usize, stripes: usize) -> Self {
        let each = stripes.div_ceil(WORDS).next_power_of_two();
        let line = || Line(core::array::from_fn(|_| AtomicU64::new(0)));
        let holders = (0..shares * each).map(|_| line()).collect();
        Self { holders, shares, mask: each - 1, waited: AtomicU64::new(0) }
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
    pub(crate) fn place(&self, stripe: Stripe) -> *const u8 {
        core::ptr::from_ref(self.holder(stripe)).cast()
    }

    /// The locks of a block's run.
    #[inline(always)]
    pub(crate) fn of_run(&self, block: BlockNumber) -> RunLocks<'_> {
        self.beside(self.first_of_run(block))
    }

    /// The locks of the run that a stripe belongs to.
    #[inline(always)]
    fn beside(&self, stripe: Stripe) -> RunLocks<'_> {
        let line = stripe.0 as usize / WORDS;
        RunLocks { words: &self.holders[line].0, first: Stripe((line * WORDS) as u32) }
    }

    fn holder(&self, stripe: Stripe) -> &AtomicU64 {
        &self.beside(stripe).words[stripe.0 as usize % WORDS]
    }

    /// Takes a stripe. The caller has the lock of the stripe's share, and so the claims there.
    /// Returns whether the stripe was not held before by the same transaction.
    ///
    /// # Errors
    /// The age of the transaction that has the stripe instead, or will have it.
    #[inline(always)]
    pub(crate) fn try_lock(&self, claims: &Claims, stripe: Stripe, age: Age) -> Result<bool, Age> {
        self.beside(stripe).try_lock_at(stripe.0 as usize % WORDS, claims, age)
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

    /// The age of the transaction that has a stripe at this moment.
    pub(crate) fn holder_of(&self, stripe: Stripe) -> Option<Age> {
        match self.holder(stripe).load(Ordering::Relaxed) {
            0 => None,
            age => Some(Age(age)),
        }
    }

    /// Gives a stripe back. The next holder sees what this one did before.
    #[inline]
    pub(crate) fn unlock(&self, stripe: Stripe) {
        self.holder(stripe).store(0, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod explored;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_has_one_holder_who_may_ask_again() {
        let (locks, claims) = (BlockLocks::new(1, 3), Claims::default());
        let stripe = locks.stripe(BlockNumber(7));
        assert_eq!(locks.try_lock(&claims, stripe, Age(2)), Ok(true));
        assert_eq!(locks.try_lock(&claims, stripe, Age(2)), Ok(false));
        assert_eq!(locks.try_lock(&claims, stripe, Age(1)), Err(Age(2)));
        assert_eq!(locks.holder_of(stripe), Some(Age(2)));
        locks.unlock(stripe);
        assert_eq!(
            (locks.holder_of(stripe), locks.try_lock(&claims, stripe, Age(1))),
            (None, Ok(true))
        );
    }

    #[test]
    fn what_is_claimed_is_kept_from_whoever_is_younger() {
        let (locks, mut claims) = (BlockLocks::new(1, 2), Claims::default());
        let (stripe, other) = (Stripe(0), Stripe(1));
        for age in [6, 4, 5] {
            claims.add(stripe, Age(age));
        }
        let ask = |claims: &Claims, stripe, age| {
            let asked = locks.try_lock(claims, stripe, Age(age));
            if asked == Ok(true) {
                locks.unlock(stripe);
            }
            asked
        };
        assert_eq!(ask(&claims, stripe, 7), Err(Age(4)), "the oldest is first");
        assert_eq!(ask(&claims, stripe, 5), Err(Age(4)), "claimants have an order too");
        assert_eq!(ask(&claims, stripe, 4), Ok(true));
        assert_eq!(ask(&claims, stripe, 3), Ok(true), "who is older does not wait for it");
        assert_eq!(ask(&claims, other, 7), Ok(true));
        claims.give_up(other, Age(4));
        claims.give_up(stripe, Age(4));
        assert_eq!(ask(&claims, stripe, 7), Err(Age(5)));
        claims.give_up(stripe, Age(6));
        claims.give_up(stripe, Age(5));
        assert_eq!(ask(&claims, stripe, 7), Ok(true));
        assert!(claims.0.is_none());
    }

    #[test]
    fn the_youngest_that_waited_is_known_also_when_ages_come_round() {
        let locks = BlockLocks::new(1, 1);
        let behind = |age| {
            locks.note_waits(Age(age));
            locks.age_behind().0
        };
        assert_eq!([behind(7), behind(5), behind(9)], [7, 7, 9]);
        let nearly = u64::MAX / 2;
        assert_eq!([behind(nearly), behind(u64::MAX - 1), behind(3)], [nearly, u64::MAX - 1, 3]);
        assert_eq!([behind(u64::MAX), behind(4)], [3, 4]);
    }

    #[test]
    fn what_has_a_stripe_keeps_it_whoever_claims_it() {
        let (locks, mut claims) = (BlockLocks::new(1, 1), Claims::default());
        let stripe = Stripe(0);
        assert_eq!(locks.try_lock(&claims, stripe, Age(9)), Ok(true));
        claims.add(stripe, Age(3));
        assert_eq!(locks.try_lock(&claims, stripe, Age(9)), Ok(false));
        assert_eq!(locks.try_lock(&claims, stripe, Age(3)), Err(Age(9)));
    }

    #[test]
    fn every_block_has_a_stripe_and_all_of_a_stripe_one_share() {
        for (shares, stripes) in [(1, 1), (4, 2), (64, 64)] {
            let locks = BlockLocks::new(shares, stripes);
            for block in (0..10_000).chain([u64::MAX]).map(BlockNumber) {
                let (stripe, each) = (locks.stripe(block).0 as usize, stripes.max(WORDS));
                assert!(stripe < shares * each);
                assert_eq!(stripe / each, share_of(block, shares));
                // A run is in one line.
                let first = BlockNumber(block.raw() - block.raw() % RUN_BLOCKS);
                assert_eq!(stripe / WORDS, locks.stripe(first).0 as usize / WORDS);
                assert_eq!(stripe % WORDS, (block.raw() % RUN_BLOCKS) as usize);
            }
        }
    }
}
