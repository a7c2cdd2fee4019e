//! Transactions that wait no longer than their caller says.

use core::time::Duration;
use std::time::Instant;

use journal_core::NoHook;
use lab::erased::{DynDisk, DynJournal, any_options};
use nvm_journal::{Error, FullBlock, Journal, ObjectLog};

use crate::use_it::{BLOCK, Files, any_memory, block};

fn open(files: &Files) -> DynJournal {
    let options = any_options(FullBlock, NoHook).lanes(1).lane_bytes(64 << 10);
    Journal::format(any_memory(1 << 20), DynDisk::new(files.disk()), &options).expect("formats")
}

const LIMITS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(20)];

#[test]
fn a_block_of_another_thread_is_not_waited_for_for_ever() {
    let files = Files::new("limit-block");
    let journal = open(&files);
    let mut holder = journal.begin().expect("begins");
    holder.write(block(3), &[3; BLOCK]).expect("fits");
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            for limit in LIMITS {
                let begun = Instant::now();
                let mut late = journal.begin_within(limit).expect("begins");
                let refused = late.write(block(3), &[4; BLOCK]);
                assert_eq!(refused, Err(Error::OutOfTime));
                assert!(begun.elapsed() >= limit);
                // It goes on, and has lost nothing.
                late.write(block(4), &[4; BLOCK]).expect("is free");
                late.commit().expect("commits");
                let again = journal.transact_within(limit, |tx| tx.write(block(3), &[5; BLOCK]));
                assert_eq!(again, Err(Error::OutOfTime));
            }
        });
        others.join().expect("no panic");
    });
    holder.commit().expect("commits");
    // A later transaction of the same seat has no limit.
    journal.transact(|tx| tx.write(block(3), &[6; BLOCK])).expect("commits");
    for (number, value) in [(3, 6), (4, 4)] {
        let mut found = [0; BLOCK];
        journal.read(block(number), &mut found).expect("reads");
        assert!(found == [value; BLOCK]);
    }
}

/// No checkpoint is made for a transaction that may not wait, and it takes nothing with it.
#[test]
fn room_is_not_waited_for_either() {
    let files = Files::new("limit-room");
    let journal = open(&files);
    let mut written = 0;
    let refused = loop {
        let image = [written as u8; BLOCK];
        match journal.transact_within(Duration::ZERO, |tx| tx.write(block(written), &image)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Error::OutOfTime);
    assert!((10..16).contains(&written), "{written} blocks of 16");
    assert_eq!(journal.stats().expect("counts").checkpoints, 0);
    for _ in 0..100 {
        let again = journal.transact_within(Duration::ZERO, |tx| tx.write(block(99), &[9; BLOCK]));
        assert_eq!(again, Err(Error::OutOfTime));
    }
    // With time there is room.
    let limit = Duration::from_secs(60);
    journal.transact_within(limit, |tx| tx.write(block(99), &[9; BLOCK])).expect("commits");
    assert_eq!(journal.stats().expect("counts").checkpoints, 1);
}

/// Room that another transaction has reserved comes free too late.
#[test]
fn room_of_others_is_not_waited_for() {
    let files = Files::new("limit-reserved");
    let options = any_options(ObjectLog::new(), NoHook).lanes(1).lane_bytes(64 << 10);
    let disk = DynDisk::new(files.disk());
    let journal = Journal::format(any_memory(1 << 20), disk, &options).expect("formats");
    let journal: &DynJournal = &journal;
    let mut large = journal.begin().expect("begins");
    for number in 0..12 {
        large.write(block(number), &[1; BLOCK]).expect("fits");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for limit in LIMITS {
                let refused = journal.transact_within(limit, |tx| {
                    (20..28).try_for_each(|number| tx.write(block(number), &[2; BLOCK]))
                });
                assert_eq!(refused, Err(Error::OutOfTime));
            }
        });
    });
    large.commit().expect("commits");
    journal
        .transact_within(Duration::from_secs(60), |tx| {
            (20..28).try_for_each(|number| tx.write(block(number), &[2; BLOCK]))
        })
        .expect("commits");
}
