//! Appends beside checkpoints.

use core::time::Duration;

use journal_core::parts::share_of;
use journal_core::{BlockSize, Hook as _};
use pmem_sys::Region;
use sim_disk::Mutator;

use super::*;
use crate::engine::upkeep::in_steps::Stepped;
use crate::machine::tests::{TinyDisk, TinyMachine};
use crate::{AnyPolicy, ByteDelta, Journal, Options};

const BLOCKS: u64 = 1 << 16;

/// A checkpoint has found how far the lanes are durable, and comes to a block that was
/// discarded and appended since. Returns what the block holds then.
fn appended_before_it_is_found(hook: Mutator) -> [u8; 4096] {
    let disk = TinyDisk::of(BlockSize::DEFAULT, BLOCKS);
    let nvm = Region::anonymous(8 << 20).expect("memory");
    // What is in slots is not written home anyway where it is superseded.
    let options = Options::new().policy(ByteDelta::new().into()).lanes(1).lane_slots(0).hook(hook);
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk, &options).expect("a journal");
    let shared = journal.shared();
    let shares = shared.shares.len();
    assert!(shares > 1, "one share is held, and another one used");
    let is_in_last = |block: &u64| share_of(BlockNumber(*block), shares) == shares - 1;
    let block = BlockNumber((0..BLOCKS).find(is_in_last).expect("there is one"));
    journal.transact(|tx| tx.write(block, &[1; 4096])).expect("commits");
    let other = (block.raw() + 1..BLOCKS).find(is_in_last).expect("there is another");
    journal.transact_deferred(|tx| tx.discard(BlockNumber(other))).expect("commits");
    let cell = shared.lane(LaneNumber(0));
    std::thread::scope(|scope| {
        let home = shared.lock_home().expect("free");
        let checkpoint = scope.spawn(|| journal.checkpoint().map(drop));
        while shared.writes_home.all_find(|| true) {
            std::thread::yield_now();
        }
        // It goes through the shares once it has fenced the lane.
        let share = shared.shares[0].lock().expect("free");
        drop(home);
        while cell.reach.has_deferred() {
            std::thread::yield_now();
        }
        journal.transact(|tx| tx.discard(block)).expect("commits");
        journal.transact(|tx| tx.append(block, &[2; 4096])).expect("commits");
        drop(share);
        checkpoint.join().expect("no panic").expect("writes home");
    });
    assert_eq!(journal.stats().expect("counts").total().appended_home, 1);
    let mut found = [0; 4096];
    journal.read(block, &mut found).expect("reads");
    found
}

#[test]
fn nothing_older_goes_home_over_an_append() {
    assert_eq!(appended_before_it_is_found(Mutator::new()), [2; 4096]);
    let without = Mutator::without(&[Rule::AppendsSpared]);
    assert_eq!(appended_before_it_is_found(without), [1; 4096]);
}

/// A journal of a small lane, and what is held of it: its first record.
fn held(hook: Mutator, call: impl FnOnce(&Journal<AnyPolicy, TinyMachine>, Appending<'_>)) {
    held_in_steps(Duration::from_nanos(1), hook, call);
}

/// Like [`held`], where steps take this time.
fn held_in_steps(
    longest: Duration,
    hook: Mutator,
    call: impl FnOnce(&Journal<AnyPolicy, TinyMachine>, Appending<'_>),
) {
    let nvm = Region::anonymous(1 << 20).expect("memory");
    let options = Options::new().policy(AnyPolicy::from(crate::FullBlock)).hook(hook).lanes(1);
    let options = options.lane_bytes(64 << 10).longest_stop(longest);
    let disk = TinyDisk::of(BlockSize::DEFAULT, 256);
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk, &options).expect("a journal");
    let shared = journal.shared();
    let end = || Ok::<_, Error>(shared.lock_lane(shared.lane(LaneNumber(0)))?.lane.end());
    let first = shared.appends.begin(LaneNumber(0), end).expect("is known");
    call(&journal, first);
}

fn write(journal: &Journal<AnyPolicy, TinyMachine>, number: u64) {
    journal.transact(|tx| tx.write(BlockNumber(number), &[1; 4096])).expect("commits");
}

fn used(journal: &Journal<AnyPolicy, TinyMachine>) -> u64 {
    journal.stats().expect("counts").lanes[0].used_bytes
}

/// Nothing comes free while an append keeps a head, and all does behind it, although nothing was
/// committed meanwhile.
#[test]
fn room_is_made_again_when_an_append_has_ended() {
    held(Mutator::new(), |journal, first| {
        let shared = journal.shared();
        (0..5).for_each(|number| write(journal, number));
        let make_room = || shared.with_upkeep_first(|cell| shared.make_room_in(cell, |_| false));
        make_room().expect("frees nothing");
        let before = used(journal);
        assert!(before > 5 << 12, "{before}");
        drop(first);
        make_room().expect("frees all");
        assert_eq!(used(journal), 0);
    });
}

/// AP3: a whole checkpoint waits for an append that had begun, and for no later one.
#[test]
fn a_whole_checkpoint_leaves_nothing_in_the_rings() {
    use journal_core::units::Sequence;

    held(Mutator::new(), |journal, first| {
        let shared = journal.shared();
        (0..5).for_each(|number| write(journal, number));
        let later = std::thread::scope(|scope| {
            let checkpoint = scope.spawn(|| journal.checkpoint());
            let end = || Ok::<_, Error>(shared.lock_lane(shared.lane(LaneNumber(0)))?.lane.end());
            // When the checkpoint waits, what it waits to pass is held by no other append.
            let later = loop {
                let later = shared.appends.begin(LaneNumber(0), end).expect("is known");
                let second = (Sequence(2), 0);
                if !shared.appends.lock().hold(&later, LaneNumber(0), second) {
                    break later;
                }
                drop(later);
                std::thread::yield_now();
            };
            assert!(!checkpoint.is_finished() && used(journal) > 5 << 12);
            drop(first);
            let report = checkpoint.join().expect("no panic").expect("writes home");
            assert!(report.blocks == 5 && report.freed_bytes > 5 << 12, "{report:?}");
            later
        });
        assert_eq!(used(journal), 0);
        let freed = journal.stats().expect("counts").checkpointed.freed_bytes;
        assert!(freed > 5 << 12, "{freed}");
        drop(later);
    });
    held(Mutator::without(&[Rule::CheckpointsWhole]), |journal, first| {
        (0..5).for_each(|number| write(journal, number));
        let report = journal.checkpoint().expect("writes home");
        assert!(report.blocks == 5 && used(journal) > 5 << 12, "without the rule all is left");
        drop(first);
    });
}

/// IS7: a transaction that needs room waits for the append that keeps the head.
#[test]
fn a_step_that_is_stuck_on_an_append_waits_for_it() {
    for hook in [Mutator::new(), Mutator::without(&[Rule::StepAwaitsAppend])] {
        let waits = hook.keeps(Rule::StepAwaitsAppend);
        held(hook, |journal, first| {
            let shared = journal.shared();
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| (0..40).for_each(|number| write(journal, number)));
                while used(journal) < 40 << 10 || (!waits && shared.done().checkpoints == 0) {
                    std::thread::yield_now();
                }
                // Everything is home, and the head stays.
                std::thread::sleep(Duration::from_millis(30));
                assert!(!writer.is_finished());
                let made = shared.done().checkpoints;
                assert_eq!(made == 0, waits, "{made} checkpoints");
                drop(first);
                while !writer.is_finished() {
                    shared.tell_waiters_for_room();
                    std::thread::yield_now();
                }
            });
        });
    }
}

/// A head could pass an eighth of its ring without a write home. If an append keeps the head, what
/// the step would have spared goes home.
#[test]
fn a_step_that_an_append_holds_spares_nothing() {
    let fill = |journal: &_| [0, 0, 0, 1].into_iter().for_each(|number| write(journal, number));
    let longest = Duration::from_millis(1);
    held_in_steps(longest, Mutator::new(), |journal, first| {
        fill(journal);
        let shared = journal.shared();
        let step = || shared.make_room_by_a_step(|_| true).expect("takes a step");
        assert!(matches!(step(), Stepped::More));
        let home = shared.done().checkpointed.blocks;
        assert_eq!((home, used(journal) > 4 << 12), (2, true), "both blocks are home");
        assert!(matches!(step(), Stepped::Awaits));
        drop(first);
    });
    held_in_steps(longest, Mutator::new(), |journal, first| {
        drop(first);
        fill(journal);
        let (shared, before) = (journal.shared(), used(journal));
        let _ = shared.make_room_by_a_step(|_| true).expect("takes a step");
        let (home, freed) = (shared.done().checkpointed.blocks, before - used(journal));
        assert_eq!((home, freed > 8 << 10), (0, true), "without an append {freed} come free");
    });
}

/// IS7: a transaction with a limit waits for an append no longer than that.
#[test]
fn no_append_is_waited_for_beyond_a_limit() {
    use std::time::Instant;

    held(Mutator::new(), |journal, first| {
        std::thread::scope(|scope| {
            let write = |number| {
                let limit = Duration::from_millis(30);
                journal.transact_within(limit, |tx| tx.write(BlockNumber(number), &[1; 4096]))
            };
            let writer = scope.spawn(move || (0..40).find_map(|number| write(number).err()));
            let begun = Instant::now();
            while !writer.is_finished() && begun.elapsed() < Duration::from_secs(10) {
                std::thread::yield_now();
            }
            let is_in_time = writer.is_finished();
            drop(first);
            while !writer.is_finished() {
                journal.shared().tell_waiters_for_room();
                std::thread::yield_now();
            }
            let refused = writer.join().expect("no panic");
            assert_eq!((is_in_time, refused), (true, Some(Error::OutOfTime)));
        });
        write(journal, 99);
    });
}

/// AP1: heads may have passed in one of the superblocks when the other one fails. No append begins
/// behind that without knowing it.
#[test]
fn a_failure_is_noted_before_an_append_may_begin_behind_it() {
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;
    use std::sync::Barrier;

    use journal_core::JournalError;
    use journal_core::parts::Lanes as _;

    let fails: [fn() -> Result<(), JournalError>; 2] =
        [|| Err(JournalError::Failed), || panic!("a device panics")];
    for fail in fails {
        held(Mutator::new(), |journal, first| {
            let (shared, passing) = (journal.shared(), Barrier::new(2));
            std::thread::scope(|scope| {
                let append = scope.spawn(|| {
                    passing.wait();
                    let holds = shared.appends.lock();
                    let is_known = shared.has_failed();
                    drop(holds);
                    is_known
                });
                let pass = || {
                    LanesOf(shared).passing(|_, _| {
                        passing.wait();
                        fail()
                    })
                };
                let passed = catch_unwind(AssertUnwindSafe(pass));
                assert!(!matches!(passed, Ok(Ok(()))));
                assert!(append.join().expect("no panic"));
            });
            drop(first);
        });
    }
}

/// AP1, of appends that end in any order.
#[test]
fn a_record_is_held_as_long_as_an_append_needs_it() {
    use journal_core::units::Sequence;

    let appends = crate::shared::home_cell::appends::Appends::<TinyDisk, Mutator>::none();
    let at = |sequence: u64| Ok::<_, ()>((Sequence(sequence), 64 * sequence));
    let held = || appends.lock().not_passed()[1].map(|(sequence, _)| sequence.raw());
    let begin = |sequence| appends.begin(LaneNumber(1), || at(sequence)).expect("is known");
    assert_eq!(held(), None);
    let (first, second) = (begin(5), begin(7));
    appends.lock().hold(&second, LaneNumber(1), (Sequence(3), 192));
    assert_eq!(held(), Some(3));
    assert_eq!(appends.lock().not_passed()[0], None);
    drop(second);
    assert_eq!(held(), Some(5));
    let third = begin(9);
    drop(first);
    assert_eq!(held(), Some(9));
    drop(third);
    assert_eq!(held(), None);
}
