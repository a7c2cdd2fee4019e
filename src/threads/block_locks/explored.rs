//! Every schedule around [`BlockLocks`]: transactions that want one block, or blocks of one word.

use std::sync::Arc;

use loom::thread;
use pmem_sys::StoreLock;

use super::*;
use crate::threads::explored::{Word, each_order_is_needed, explore, is_caught};

const BLOCK: BlockNumber = BlockNumber(7);

/// A block that has the word of the first one, where the table has one line, and one that has the
/// word beside it.
const OTHER: BlockNumber = BlockNumber(7 + RUN_BLOCKS);
const BESIDE_OTHER: BlockNumber = BlockNumber(6 + RUN_BLOCKS);

struct Block {
    locks: BlockLocks,
    share: StoreLock<Claims>,
    content: Word,
}

impl Block {
    fn new() -> Arc<Self> {
        let (locks, share) = (BlockLocks::new(1, 1), StoreLock::new(Claims::default()));
        Arc::new(Self { locks, share, content: Word::new() })
    }

    fn take(&self, block: BlockNumber, age: Age) -> Option<LockedAt> {
        let mut share = self.share.lock().expect("nobody panics");
        self.locks.try_lock(&mut share, block, age).ok()
    }

    fn give(&self, block: BlockNumber, taken: LockedAt) {
        match taken {
            LockedAt::Before => panic!("nobody asks twice"),
            LockedAt::Word(word) => self.locks.unlock(word),
            LockedAt::Beside => {
                let mut share = self.share.lock().expect("nobody panics");
                self.locks.unlock_beside(&mut share, block);
            }
        }
    }
}

type Takes = fn(&Block, Age) -> Option<LockedAt>;

fn take(block: &Block, age: Age) -> Option<LockedAt> {
    block.take(BLOCK, age)
}

/// Takes the block where the share is free, and not otherwise. No thread waits, so more of them can
/// be explored.
fn take_at_once(block: &Block, age: Age) -> Option<LockedAt> {
    let share = block.share.try_lock().expect("nobody panics");
    share.and_then(|mut share| block.locks.try_lock(&mut share, BLOCK, age).ok())
}

/// Each thread counts the block's content up, if it gets the block.
fn count(transactions: u64, takes: Takes, unlocks: fn(&Block, LockedAt)) {
    let block = Block::new();
    let transact = move |block: &Block, age| {
        let taken = takes(block, Age(age));
        if let Some(taken) = taken {
            let content = block.content.read();
            block.content.write(content + 1);
            unlocks(block, taken);
        }
        u64::from(taken.is_some())
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
    assert_eq!(block.locks.holder_of(BLOCK), None);
}

fn unlock(block: &Block, taken: LockedAt) {
    block.give(BLOCK, taken);
}

/// The line passes to another run, and the block is then locked beside the table. Its new holder
/// sees what was done before.
fn count_beside() {
    let block = Block::new();
    let its = Arc::clone(&block);
    let one = its.take(BLOCK, Age(1)).expect("is free");
    let other = thread::spawn(move || {
        let beside = block.take(BESIDE_OTHER, Age(2)).expect("nobody wants it");
        let taken = block.take(BLOCK, Age(2));
        if let Some(taken) = taken {
            assert_eq!(block.content.read(), 1, "misses what was done before");
            block.give(BLOCK, taken);
        }
        block.give(BESIDE_OTHER, beside);
    });
    its.content.write(1);
    its.give(BLOCK, one);
    other.join().expect("does not panic");
    assert_eq!((its.locks.holder_of(BLOCK), its.locks.holder_of(BESIDE_OTHER)), (None, None));
}

/// Two blocks of one word: each is free for its transaction at any time.
fn nobody_waits() {
    let block = Block::new();
    let its = Arc::clone(&block);
    let other = thread::spawn(move || {
        let taken = its.take(OTHER, Age(2)).expect("is free");
        assert_ne!(its.locks.holder_of(BLOCK), Some(Age(2)));
        its.give(OTHER, taken);
    });
    let taken = block.take(BLOCK, Age(1)).expect("is free");
    block.give(BLOCK, taken);
    other.join().expect("does not panic");
}

/// A thread that asks, with no lock, which transaction has a block is never told of one that has
/// another block of its word.
fn look_on() {
    let block = Block::new();
    let its = Arc::clone(&block);
    let taken = block.take(BLOCK, Age(1)).expect("is free");
    let other = thread::spawn(move || {
        for (of, its_age) in [(BLOCK, 1), (OTHER, 2)] {
            let holder = its.locks.holder_of(of);
            assert!(holder.is_none_or(|holder| holder == Age(its_age)), "{of:?}: {holder:?}");
        }
    });
    block.give(BLOCK, taken);
    block.take(OTHER, Age(2)).expect("is free");
    other.join().expect("does not panic");
}

#[test]
fn one_transaction_at_a_time_has_a_block_and_sees_what_was_done_before() {
    explore(None, || count(2, take, unlock));
    explore(Some(3), || count(3, take_at_once, unlock));
    explore(Some(3), count_beside);
}

#[test]
fn blocks_of_one_word_are_free_for_each_other() {
    explore(Some(3), nobody_waits);
    explore(Some(3), look_on);
}

#[test]
fn steps_got_wrong_are_caught() {
    let without_the_share: Takes =
        |block, age| block.locks.try_lock(&mut Claims::default(), BLOCK, age).ok();
    assert!(is_caught(None, move || count(2, without_the_share, unlock)));
    let releases_nothing = |block: &Block, taken| match taken {
        LockedAt::Word(word) => block.locks.holder(word).store(0, Ordering::Relaxed),
        taken => unlock(block, taken),
    };
    assert!(is_caught(None, move || count(2, take, releases_nothing)));
}

#[test]
fn every_order_is_needed() {
    let models = &[|| count(2, take, unlock), count_beside, look_on];
    each_order_is_needed("block_locks.rs", Some(3), models);
}
