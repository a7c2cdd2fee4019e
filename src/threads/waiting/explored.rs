//! Every schedule around [`Waiting`]: threads that sleep for a block or for room, and those that
//! give it back. No explorer wakes a thread by time, so a lost wake-up is a deadlock, and is found.

use loom::thread;
use pmem_sys::StoreLock;

use super::*;
use crate::threads::block_locks::Claims;
use crate::threads::explored::{explore, is_caught};
use crate::threads::free_space::Unreserved;

const BLOCK: BlockNumber = BlockNumber(7);

/// One block, and what a thread needs to wait for it.
struct Block {
    locks: BlockLocks,
    claims: StoreLock<Claims>,
    waiting: Waiting,
    stripe: Stripe,
}

impl Block {
    fn new() -> Arc<Self> {
        let locks = BlockLocks::new(1, 1);
        let stripe = locks.stripe(BLOCK);
        let claims = StoreLock::new(Claims::default());
        Arc::new(Self { locks, claims, waiting: Waiting::new(FarFence::register()), stripe })
    }

    fn take(&self, age: u64) -> bool {
        let mut claims = self.claims.lock().expect("nobody panics");
        self.locks.try_lock(&mut claims, BLOCK, Age(age)).is_ok()
    }

    fn wait(&self, age: u64) -> BlockWait<'_> {
        let seats = SeatNumbers::of([age]);
        let key = (BLOCK, Age(age));
        self.waiting.wait_for_block(&self.locks, key, seats, false).expect("no circle")
    }
}

type Gives = fn(&Block);
type Waits = fn(&Block, u64);

/// Gives the block back like a transaction that ends: it gives everything back, and then looks
/// which threads sleep.
fn give(block: &Block) {
    block.locks.unlock(block.stripe);
    let asleep = block.waiting.asleep();
    if asleep.may_want(block.stripe) {
        block.waiting.wake_for_block(block.stripe);
    }
}

/// Waits like a thread that holds nothing: it looks once more before it sleeps.
fn wait_and_take(block: &Block, age: u64) {
    let wait = block.wait(age);
    while !block.take(age) {
        wait.sleep(None);
    }
    wait.end_with_it();
}

/// One thread has the block and gives it back. Others wait for it, have it, and give it back.
fn hand_over(waiters: u64, waits: Waits, gives: Gives) {
    let block = Block::new();
    assert!(block.take(9));
    let others = (1..=waiters).map(|age| {
        let block = Arc::clone(&block);
        thread::spawn(move || {
            waits(&block, age);
            gives(&block);
        })
    });
    let others: Vec<_> = others.collect();
    gives(&block);
    others.into_iter().for_each(|thread| thread.join().expect("does not panic"));
    assert_eq!(block.locks.holder_of(BLOCK), None);
    assert!(block.waiting.now_asleep().is_nobody());
}

#[test]
fn nobody_sleeps_while_its_block_is_free() {
    explore(Some(3), || hand_over(1, wait_and_take, give));
    explore(Some(2), || hand_over(2, wait_and_take, give));
}

#[test]
fn steps_of_a_block_got_wrong_are_caught() {
    let looks_first: Gives = |block| {
        let asleep = block.waiting.asleep();
        block.locks.unlock(block.stripe);
        if asleep.may_want(block.stripe) {
            block.waiting.wake_for_block(block.stripe);
        }
    };
    assert!(is_caught(Some(3), move || hand_over(1, wait_and_take, looks_first)));
    let has_no_fence: Gives = |block| {
        block.locks.unlock(block.stripe);
        if block.waiting.now_asleep().may_want(block.stripe) {
            block.waiting.wake_for_block(block.stripe);
        }
    };
    assert!(is_caught(Some(3), move || hand_over(1, wait_and_take, has_no_fence)));
    let wakes_nobody: Gives = |block| block.locks.unlock(block.stripe);
    assert!(is_caught(Some(3), move || hand_over(1, wait_and_take, wakes_nobody)));
    let sleeps_without_a_look: Waits = |block, age| {
        let wait = block.wait(age);
        wait.sleep(None);
        while !block.take(age) {
            wait.sleep(None);
        }
        wait.end_with_it();
    };
    assert!(is_caught(Some(3), move || hand_over(1, sleeps_without_a_look, give)));
    let looks_before_it_says_so: Waits = |block, age| {
        if block.take(age) {
            return;
        }
        let wait = block.wait(age);
        wait.sleep(None);
        while !block.take(age) {
            wait.sleep(None);
        }
        wait.end_with_it();
    };
    assert!(is_caught(Some(3), move || hand_over(1, looks_before_it_says_so, give)));
}

/// Room for one, and threads that take it by turns: as tickets are served.
struct Room {
    left: Unreserved,
    waiting: Waiting,
}

type Serves = fn(&Room, Age);

fn serve(room: &Room, age: Age) {
    let wait = room.waiting.wait_for_room(age);
    while !wait.is_first() || room.left.take(1, 0).is_none() {
        wait.sleep(None);
    }
}

fn end(room: &Room) {
    room.left.give(1);
    if room.waiting.asleep().want_room() {
        room.waiting.wake_for_room();
    }
}

fn takes_turns(waiters: u64, serves: Serves, ends: fn(&Room)) {
    let room = Room { left: Unreserved::new(0), waiting: Waiting::new(FarFence::register()) };
    let room = Arc::new(room);
    let others = (1..=waiters).map(|age| {
        let room = Arc::clone(&room);
        thread::spawn(move || {
            serves(&room, Age(age));
            ends(&room);
        })
    });
    let others: Vec<_> = others.collect();
    ends(&room);
    others.into_iter().for_each(|thread| thread.join().expect("does not panic"));
    assert_eq!(room.left.left(), 1);
}

#[test]
fn nobody_sleeps_while_there_is_room_for_it() {
    explore(Some(3), || takes_turns(1, serve, end));
    explore(Some(2), || takes_turns(2, serve, end));
}

#[test]
fn steps_of_room_got_wrong_are_caught() {
    let has_no_fence: fn(&Room) = |room| {
        room.left.give(1);
        if room.waiting.now_asleep().want_room() {
            room.waiting.wake_for_room();
        }
    };
    assert!(is_caught(Some(3), move || takes_turns(1, serve, has_no_fence)));
    let wakes_first: fn(&Room) = |room| {
        if room.waiting.asleep().want_room() {
            room.waiting.wake_for_room();
        }
        room.left.give(1);
    };
    assert!(is_caught(Some(3), move || takes_turns(1, serve, wakes_first)));
    let wakes_no_next: Serves = |room, age| {
        let wait = room.waiting.wait_for_room(age);
        while !wait.is_first() || room.left.take(1, 0).is_none() {
            wait.sleep(None);
        }
        room.waiting.leave_room(age);
        core::mem::forget(wait);
    };
    // Where there is room for both by the time that the first one is served.
    let gives_for_all: fn(&Room) = |room| room.left.give(2);
    let twice = move |serves: Serves| {
        let room = Room { left: Unreserved::new(0), waiting: Waiting::new(FarFence::register()) };
        let room = Arc::new(room);
        let others = [1, 2].map(|age| {
            let room = Arc::clone(&room);
            thread::spawn(move || serves(&room, Age(age)))
        });
        gives_for_all(&room);
        if room.waiting.asleep().want_room() {
            room.waiting.wake_for_room();
        }
        others.into_iter().for_each(|thread| thread.join().expect("does not panic"));
    };
    explore(Some(2), move || twice(serve));
    assert!(is_caught(Some(2), move || twice(wakes_no_next)));
}
