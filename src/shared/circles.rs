//! Threads that wait for each other in a circle, and how one of them is told.
//!
//! *Wait-die* keeps transactions from that, one by one. A thread with several of them open has
//! their blocks while it waits with another one; so whoever waits long says for what, and looks
//! whether the way from there, from holder to what its thread waits for, leads back to it. That is
//! so for as long as nobody gives up, and of all in the circle the first one to see it does. (A
//! second one may, where somebody gives up for another reason at that moment.)
//!
//! Whoever waits only a little takes no part, and long waits are few: each looks at all of them
//! again and again. What is waited for in another journal, or by anything else than blocks, is not
//! seen.

use std::sync::PoisonError;

use super::block_locks::{Age, BlockLocks, Stripe};
use super::seat::SeatNumbers;
use crate::sync::{Mutex, MutexGuard};

/// A thread that waits.
#[derive(Debug)]
struct Waiter {
    /// Of the transaction that it waits with.
    age: Age,
    /// All that its transactions may sit on.
    seats: SeatNumbers,
    /// What it waits for.
    stripe: Stripe,
}

/// Who waits, of all threads.
#[derive(Debug, Default)]
pub(crate) struct Circles(Mutex<Vec<Waiter>>);

/// A thread's long wait, until it ends.
pub(crate) struct LongWait<'s> {
    circles: &'s Circles,
    age: Age,
}

impl Circles {
    /// A thread begins to wait, with one of its transactions.
    pub(crate) fn enter(&self, age: Age, seats: SeatNumbers, stripe: Stripe) -> LongWait<'_> {
        self.waiters().push(Waiter { age, seats, stripe });
        LongWait { circles: self, age }
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LongWait<'_> {
    /// Whether it waits, by way of others, for itself. Then it no longer counts as waiting, so that
    /// nobody else gives up for the same.
    pub(crate) fn is_in_circle(&self, blocks: &BlockLocks) -> bool {
        let mut waiters = self.circles.waiters();
        let of = |age: Age| waiters.iter().position(|waiter| waiter.age == age);
        let Some(own) = of(self.age) else { return false };
        let mut at = own;
        // A way that comes round without coming here is for others to see.
        for _ in 0..waiters.len() {
            let Some(holder) = blocks.holder_of(waiters[at].stripe) else { return false };
            let next = waiters.iter().position(|waiter| waiter.seats.have(holder));
            match next {
                Some(next) if next == own => {
                    waiters.swap_remove(own);
                    return true;
                }
                Some(next) => at = next,
                None => return false,
            }
        }
        false
    }
}

impl Drop for LongWait<'_> {
    fn drop(&mut self) {
        self.circles.waiters().retain(|waiter| waiter.age != self.age);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use journal_core::BlockNumber;

    use super::*;

    #[test]
    fn the_first_to_see_a_circle_is_told_and_nobody_else() {
        let blocks = BlockLocks::new(1, 8);
        let stripes = [0, 1, 2, 3].map(|number| blocks.stripe(BlockNumber(number)));
        let seat = |number: u64| SeatNumbers::of([number]);
        // Each has one, and the fourth one nothing.
        for (stripe, number) in stripes.iter().zip([1, 2, 3]) {
            let claims = Default::default();
            assert_eq!(blocks.try_lock(&claims, *stripe, Age(number)), Ok(true));
        }
        let circles = Circles::default();
        let one = circles.enter(Age(1), seat(1), stripes[1]);
        let two = circles.enter(Age(2), seat(2), stripes[2]);
        assert!(!one.is_in_circle(&blocks) && !two.is_in_circle(&blocks));
        let beside = circles.enter(Age(4), seat(4), stripes[0]);
        let three = circles.enter(Age(3), seat(3), stripes[0]);
        assert!(!beside.is_in_circle(&blocks), "leads into a circle, and is in none");
        assert!(two.is_in_circle(&blocks));
        assert!([&one, &two, &three].iter().all(|wait| !wait.is_in_circle(&blocks)));
        // Whoever gave up may come again.
        drop(two);
        let two = circles.enter(Age(2), seat(2), stripes[3]);
        assert!(!two.is_in_circle(&blocks) && !one.is_in_circle(&blocks));
        drop((one, two, three, beside));
        assert!(circles.waiters().is_empty());
    }
}
