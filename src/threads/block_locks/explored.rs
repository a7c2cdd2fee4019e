//! Every schedule around [`BlockLocks`]: transactions that want one block.

use std::sync::Arc;

use loom::thread;
use pmem_sys::StoreLock;

use super::*;
use crate::threads::explored::{Word, each_order_is_needed, explore, is_caught};

struct Block {
    locks: BlockLocks,
    share: StoreLock<Claims>,
    content: Word,
}

type Takes = fn(&Block, Stripe, Age) -> bool;

fn take(block: &Block, stripe: Stripe, age: Age) -> bool {
    let share = block.share.lock().expect("nobody panics");
    block.locks.try_lock(&share, stripe, age).is_ok()
}

/// Takes the stripe where the share is free, and not otherwise. No thread waits, so more of them
/// can be explored.
fn take_at_once(block: &Block, stripe: Stripe, age: Age) -> bool {
    let share = block.share.try_lock().expect("nobody panics");
    share.is_some_and(|share| block.locks.try_lock(&share, stripe, age).is_ok())
}

/// Each thread counts the block's content up, if it gets the block.
fn count(transactions: u64, takes: Takes, unlocks: fn(&BlockLocks, Stripe)) {
    let block = Block {
        locks: BlockLocks::new(1, 1),
        share: StoreLock::new(Claims::default()),
        content: Word::new(),
    };
    let block = Arc::new(block);
    let stripe = block.locks.stripe(BlockNumber(7));
    let transact = move |block: &Block, age| {
        let is_taken = takes(block, stripe, Age(age));
        if is_taken {
            let content = block.content.read();
            block.content.write(content + 1);
            unlocks(&block.locks, stripe);
        }
        u64::from(is_taken)
    };
    let others = (2..=transactions).map(|age| {
        let block = Arc::clone(&block);
        thread::spawn(move || transact(&block, age))
    });
    let others: Vec<_> = others.collect();
    let mut done = transact(&block, 1);
    for thread in others {
        done += thread.join().expect("does not panic");
    }
    assert_eq!(block.content.read(), done, "two had it at once, or missed what was done before");
    assert_eq!(block.locks.holder_of(stripe), None);
}

#[test]
fn one_transaction_at_a_time_has_a_block_and_sees_what_was_done_before() {
    explore(None, || count(2, take, BlockLocks::unlock));
    explore(Some(3), || count(3, take_at_once, BlockLocks::unlock));
}

#[test]
fn steps_got_wrong_are_caught() {
    let without_the_share: Takes =
        |block, stripe, age| block.locks.try_lock(&Claims::default(), stripe, age).is_ok();
    assert!(is_caught(None, move || count(2, without_the_share, BlockLocks::unlock)));
    let releases_nothing = |locks: &BlockLocks, stripe| {
        locks.holder(stripe).store(0, Ordering::Relaxed);
    };
    assert!(is_caught(None, move || count(2, take, releases_nothing)));
}

#[test]
fn every_order_is_needed() {
    each_order_is_needed("block_locks.rs", None, &[|| count(2, take, BlockLocks::unlock)]);
}
