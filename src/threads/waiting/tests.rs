//! Which threads are woken, and which are told that they wait for themselves.

use journal_core::parts::RUN_BLOCKS;

use super::*;
use crate::threads::block_locks::Claims;

const BLOCKS: [BlockNumber; 4] = [BlockNumber(0), BlockNumber(1), BlockNumber(2), BlockNumber(3)];

fn seat(number: u64) -> SeatNumbers {
    SeatNumbers::of([number])
}

fn take(blocks: &BlockLocks, block: BlockNumber, age: u64) {
    assert!(blocks.try_lock(&mut Claims::default(), block, Age(age)).is_ok());
}

fn has_rung(alarm: &Alarm) -> bool {
    core::mem::take(&mut *alarm.lock())
}

/// Ages 1 to 3 are of seats 1 to 3. Seats 5 to 7 belong to the same three threads.
#[test]
fn the_thread_that_closes_a_circle_is_told_and_nobody_else() {
    let (blocks, waiting) = (BlockLocks::new(1, 8), Waiting::new(None));
    for (block, age) in BLOCKS.iter().zip([1, 2, 3]) {
        take(&blocks, *block, age);
    }
    // Each waits with a transaction that holds nothing, and has another one that does.
    let wait = |number: u64, block: BlockNumber| {
        let seats = SeatNumbers::of([number, number + 4]);
        waiting.wait_for_block(&blocks, (block, Age(number + 4)), seats, false)
    };
    let one = wait(1, BLOCKS[1]).expect("waits for the second one");
    let two = wait(2, BLOCKS[2]).expect("waits for the third one");
    let beside = waiting.wait_for_block(&blocks, (BLOCKS[0], Age(9)), seat(9), false);
    let beside = beside.expect("leads to a circle later, and is in none");
    assert_eq!(wait(3, BLOCKS[0]).err(), Some(InCircle));
    let three = wait(3, BLOCKS[3]).expect("nobody has that one");
    drop((one, two, three, beside));
    assert!(waiting.now_asleep().is_nobody());
}

/// Wait-die takes care of threads that wait with the only transaction that they have.
#[test]
fn nobody_is_told_where_the_youngest_gives_up_by_itself() {
    let (blocks, waiting) = (BlockLocks::new(1, 8), Waiting::new(None));
    let [first, second, ..] = BLOCKS;
    take(&blocks, first, 1);
    take(&blocks, second, 2);
    let younger = waiting.wait_for_block(&blocks, (first, Age(2)), seat(2), true);
    let older = waiting.wait_for_block(&blocks, (second, Age(1)), seat(1), true);
    assert!(younger.is_ok() && older.is_ok());
}

#[test]
fn a_block_that_comes_free_wakes_the_eldest_and_those_that_hold_something() {
    let (blocks, waiting) = (BlockLocks::new(1, 8), Waiting::new(None));
    let [block, other, ..] = BLOCKS;
    let stripe = blocks.stripe(block);
    let wait = |block, age: u64, holds_some| {
        let wait = waiting.wait_for_block(&blocks, (block, Age(age)), seat(age), holds_some);
        wait.expect("is in no circle")
    };
    let waits = [wait(block, 4, false), wait(block, 3, false), wait(block, 5, true)];
    let beside = wait(other, 1, false);
    let woken = || waits.each_ref().map(|wait| has_rung(&wait.alarm));
    assert!(waiting.now_asleep().may_want(stripe) && !waiting.now_asleep().want_room());
    waiting.wake_for_block(stripe);
    assert_eq!(woken(), [false, true, true]);
    assert!(!has_rung(&beside.alarm));
    let [first, second, third] = waits;
    // One that has it wakes nobody before it gives it back, and one that gives up the next one.
    second.end_with_it();
    assert!(!has_rung(&first.alarm));
    drop(third);
    assert!(has_rung(&first.alarm));
    waiting.wake_all();
    assert!(has_rung(&first.alarm) && has_rung(&beside.alarm));
    drop((first, beside));
    assert!(waiting.now_asleep().is_nobody());
}

/// A transaction that ends knows the word of a block alone, which others have too.
#[test]
fn a_stripe_that_comes_free_wakes_the_eldest_of_each_of_its_blocks() {
    let (blocks, waiting) = (BlockLocks::new(1, 1), Waiting::new(None));
    let all = [0, 1, 2].map(|run| BlockNumber(3 + run * RUN_BLOCKS));
    let wait = |(block, age): (BlockNumber, u64)| {
        waiting.wait_for_block(&blocks, (block, Age(age)), seat(age), false).expect("no circle")
    };
    let waits = [(all[0], 5), (all[1], 3), (all[1], 4), (all[2], 2), (BLOCKS[2], 1)].map(wait);
    let woken = || waits.each_ref().map(|wait| has_rung(&wait.alarm));
    waiting.wake_for_block(blocks.stripe(all[2]));
    assert_eq!(woken(), [true, true, false, true, false]);
}

/// A circle leads over blocks that are locked beside the table.
#[test]
fn a_thread_whose_block_is_locked_beside_the_table_closes_a_circle_too() {
    let (blocks, waiting) = (BlockLocks::new(1, 1), Waiting::new(None));
    let [first, second] = [BlockNumber(3), BlockNumber(3 + RUN_BLOCKS)];
    let mut claims = Claims::default();
    for (block, age) in [(first, 1), (second, 2)] {
        assert!(blocks.try_lock(&mut claims, block, Age(age)).is_ok());
    }
    let wait = |number: u64, block: BlockNumber| {
        let seats = SeatNumbers::of([number, number + 4]);
        waiting.wait_for_block(&blocks, (block, Age(number + 4)), seats, false)
    };
    let one = wait(1, second).expect("waits for the second one");
    assert_eq!(wait(2, first).err(), Some(InCircle));
    drop(one);
}

#[test]
fn room_is_looked_for_by_the_eldest_alone() {
    let waiting = Waiting::new(None);
    let waits = [4, 3, 5].map(|age| waiting.wait_for_room(Age(age)));
    let woken = |waits: &[RoomWait<'_>]| {
        let all: Vec<_> = waits.iter().filter(|wait| has_rung(&wait.alarm)).collect();
        all.iter().map(|wait| wait.age.0).collect::<Vec<_>>()
    };
    assert_eq!(waits.each_ref().map(RoomWait::is_first), [false, true, false]);
    assert!(waiting.has_older_for_room(Age(4)) && !waiting.has_older_for_room(Age(2)));
    waiting.wake_for_room();
    assert_eq!(woken(&waits), [3]);
    let [first, second, third] = waits;
    drop(second);
    let waits = [first, third];
    assert_eq!(woken(&waits), [4], "the next one is told when it is the first");
    waiting.wake_all();
    assert_eq!(woken(&waits), [4, 5]);
    assert!(waiting.now_asleep().want_room());
    drop(waits);
    assert!(waiting.now_asleep().is_nobody());
}

#[test]
fn a_ring_is_kept_until_it_is_taken() {
    let alarm = Alarm::new();
    alarm.ring();
    // Far longer than the test may take.
    alarm.sleep(Duration::from_secs(3600));
    alarm.sleep(Duration::from_millis(1));
    assert!(!has_rung(&alarm));
}
