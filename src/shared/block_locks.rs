//! Locks on blocks, held from a transaction's first touch until it is durable.
//!
//! Blocks share a fixed number of words, each of which holds the age of the transaction that has
//! it, or zero. All blocks of a word belong to one share of the index, and a word is taken by who
//! has that share's lock; so taking it is a plain store, and so is giving it back, which takes no
//! lock.
//!
//! *Wait-die*: a transaction that already holds something waits only for younger ones; where an
//! older one is in the way, it gives up and is tried again, as old as it was. So
//! nobody waits in a circle, and whoever is oldest gets through. One that holds nothing yet may
//! wait for anybody: nobody waits for it.

use journal_core::BlockNumber;
use journal_core::parts::share_of;

use crate::sync::thread::Patience;
use crate::sync::{AtomicU64, Ordering};

/// When a transaction began, and which it is: unique while it lives, and lower for older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age(pub(crate) u64);

/// One word of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stripe(u32);

#[derive(Debug)]
pub(crate) struct BlockLocks {
    holders: Box<[AtomicU64]>,
    shares: usize,
    /// The words of one share, less one.
    mask: usize,
}

impl BlockLocks {
    /// At least so many for each share of the index.
    pub(crate) fn new(shares: usize, stripes: usize) -> Self {
        let each = stripes.next_power_of_two();
        let holders = (0..shares * each).map(|_| AtomicU64::new(0)).collect();
        Self { holders, shares, mask: each - 1 }
    }

    #[inline]
    pub(crate) fn stripe(&self, block: BlockNumber) -> Stripe {
        // Neighbours are apart: threads with blocks of their own do not share lines.
        let scattered = block.raw().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let share = share_of(block, self.shares);
        Stripe((share * (self.mask + 1) + (scattered as usize & self.mask)) as u32)
    }

    fn holder(&self, stripe: Stripe) -> &AtomicU64 {
        &self.holders[stripe.0 as usize]
    }

    /// Takes a stripe, for who has the lock of its share; returns whether it was not held before by
    /// the same transaction.
    ///
    /// # Errors
    /// Who has it instead.
    #[inline]
    pub(crate) fn try_lock(&self, stripe: Stripe, age: Age) -> Result<bool, Age> {
        let holder = self.holder(stripe);
        // Pairs with the release of who had it before.
        match holder.load(Ordering::Acquire) {
            0 => {
                holder.store(age.0, Ordering::Relaxed);
                Ok(true)
            }
            found if found == age.0 => Ok(false),
            found => Err(Age(found)),
        }
    }

    /// Who has a stripe at this moment.
    pub(crate) fn holder_of(&self, stripe: Stripe) -> Option<Age> {
        match self.holder(stripe).load(Ordering::Relaxed) {
            0 => None,
            age => Some(Age(age)),
        }
    }

    /// Waits until a stripe is free, or for a while; takes nothing.
    pub(crate) fn await_free(&self, stripe: Stripe) {
        let mut patience = Patience::default();
        while !patience.is_long() && self.holder(stripe).load(Ordering::Relaxed) != 0 {
            patience.pause();
        }
    }

    /// Gives a stripe back. What its holder did before is seen by whoever takes it next.
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
        let locks = BlockLocks::new(1, 3);
        let stripe = locks.stripe(BlockNumber(7));
        assert_eq!(locks.try_lock(stripe, Age(2)), Ok(true));
        assert_eq!(locks.try_lock(stripe, Age(2)), Ok(false));
        assert_eq!(locks.try_lock(stripe, Age(1)), Err(Age(2)));
        assert_eq!(locks.holder_of(stripe), Some(Age(2)));
        locks.unlock(stripe);
        assert_eq!((locks.holder_of(stripe), locks.try_lock(stripe, Age(1))), (None, Ok(true)));
    }

    #[test]
    fn every_block_has_a_stripe_and_all_of_a_stripe_one_share() {
        for (shares, stripes) in [(1, 1), (4, 2), (64, 64)] {
            let locks = BlockLocks::new(shares, stripes);
            for block in (0..10_000).chain([u64::MAX]).map(BlockNumber) {
                let stripe = locks.stripe(block).0 as usize;
                assert!(stripe < shares * stripes);
                assert_eq!(stripe / stripes, share_of(block, shares));
            }
        }
    }
}
