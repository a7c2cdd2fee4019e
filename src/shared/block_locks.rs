//! Locks on blocks, held from a transaction's first touch until it is durable.
//!
//! Blocks share a fixed number of words, each of which holds the age of the transaction that has
//! it, or zero. Taking one is a compare-and-exchange, giving it back a plain release store.
//!
//! *Wait-die*: a transaction that already holds something waits only for younger ones; where an
//! older one is in the way, it gives up ([`Blocked`]) and is tried again, as old as it was. So
//! nobody waits in a circle, and whoever is oldest gets through. One that holds nothing yet may
//! wait for anybody: nobody waits for it.

use core::sync::atomic::{AtomicU64, Ordering};

use journal_core::BlockNumber;

/// When a transaction began, and which it is: unique while it lives, and lower for older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age(pub(crate) u64);

/// One word of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stripe(u32);

/// Someone else has the block, and waiting is not allowed, or of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocked;

#[derive(Debug)]
pub(crate) struct BlockLocks {
    holders: Box<[AtomicU64]>,
}

impl BlockLocks {
    /// At least `stripes` of them.
    pub(crate) fn new(stripes: usize) -> Self {
        let stripes = stripes.next_power_of_two();
        Self { holders: (0..stripes).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn stripe(&self, block: BlockNumber) -> Stripe {
        // Neighbours are apart: threads with blocks of their own do not share lines.
        let scattered = block.raw().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        Stripe(scattered as u32 & (self.holders.len() as u32 - 1))
    }

    fn holder(&self, stripe: Stripe) -> &AtomicU64 {
        &self.holders[stripe.0 as usize]
    }

    /// Takes a stripe; returns whether it was not held before by the same transaction.
    ///
    /// `may_wait` is asked again and again while somebody is in the way, with its age.
    #[inline]
    pub(crate) fn lock(
        &self,
        stripe: Stripe,
        age: Age,
        may_wait: impl Fn(Age) -> bool,
    ) -> Result<bool, Blocked> {
        let holder = self.holder(stripe);
        match holder.compare_exchange(0, age.0, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(true),
            Err(found) if found == age.0 => Ok(false),
            Err(_) => self.wait(stripe, age, may_wait),
        }
    }

    #[cold]
    fn wait(
        &self,
        stripe: Stripe,
        age: Age,
        may_wait: impl Fn(Age) -> bool,
    ) -> Result<bool, Blocked> {
        let holder = self.holder(stripe);
        let mut patience = super::Patience::default();
        loop {
            let found = holder.load(Ordering::Relaxed);
            if found == 0 {
                let taken = holder.compare_exchange(0, age.0, Ordering::Acquire, Ordering::Relaxed);
                if taken.is_ok() {
                    return Ok(true);
                }
            } else if !may_wait(Age(found)) {
                return Err(Blocked);
            }
            patience.pause();
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
        let mut patience = super::Patience::default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_has_one_holder_who_may_ask_again() {
        let locks = BlockLocks::new(3);
        let stripe = locks.stripe(BlockNumber(7));
        assert_eq!(locks.lock(stripe, Age(2), |_| false), Ok(true));
        assert_eq!(locks.lock(stripe, Age(2), |_| false), Ok(false));
        assert_eq!(locks.lock(stripe, Age(1), |holder| holder > Age(2)), Err(Blocked));
        locks.unlock(stripe);
        assert_eq!(locks.lock(stripe, Age(1), |_| false), Ok(true));
    }

    #[test]
    fn whoever_may_wait_gets_it_when_it_is_free() {
        let locks = BlockLocks::new(1);
        let stripe = locks.stripe(BlockNumber(0));
        assert_eq!(locks.lock(stripe, Age(9), |_| false), Ok(true));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| locks.lock(stripe, Age(1), |holder| holder == Age(9)));
            std::thread::sleep(core::time::Duration::from_millis(2));
            locks.unlock(stripe);
            assert_eq!(waiting.join().expect("does not panic"), Ok(true));
        });
    }

    #[test]
    fn every_block_has_a_stripe() {
        for stripes in [1, 2, 64] {
            let locks = BlockLocks::new(stripes);
            for block in (0..10_000).chain([u64::MAX]) {
                assert!((locks.stripe(BlockNumber(block)).0 as usize) < stripes);
            }
        }
    }
}
