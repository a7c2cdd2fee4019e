//! Threads that have a transaction open, and wait with another one for each other's blocks.

use core::time::Duration;
use std::sync::{Arc, Barrier, mpsc};

use nvm_journal::{Durability, Error, Journal, Operation, Options};

use crate::use_it::{BLOCK, Files, block, memory};

/// A change of one block, as a transaction of its own.
type Way = fn(&Journal, u64) -> Result<(), Error>;

const WAYS: [Way; 5] = [
    |journal, number| {
        let operation = Operation::write(block(number), &[7; BLOCK]);
        journal.commit(&[operation], Durability::Durable).map(drop)
    },
    |journal, number| {
        let operation = Operation::write(block(number), &[7; BLOCK]);
        journal.commit(&[operation], Durability::Deferred).map(drop)
    },
    // What it takes before that it has to give up.
    |journal, number| {
        let own = Operation::write(block(0), &[7; BLOCK]);
        let operations = [own, Operation::write(block(number), &[7; BLOCK])];
        journal.commit(&operations, Durability::Durable).map(drop)
    },
    |journal, number| {
        let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            tx.read(block(number), &mut [0; BLOCK])?;
            tx.write(block(number), &[7; BLOCK])
        };
        journal.transact(write)
    },
    |journal, number| {
        let mut tx = journal.begin()?;
        tx.write(block(number), &[7; BLOCK])?;
        tx.commit().map(drop)
    },
];

fn journal(files: &Files) -> Arc<Journal> {
    let options = Options::new().lanes(2).lane_bytes(256 << 10);
    Arc::new(Journal::format(memory(1 << 20), files.disk(), &options).expect("formats"))
}

/// Each thread has a block in an open transaction, and wants that of the next one, the last that of
/// the first. Returns how many were told that they wait for themselves.
fn told_in_a_ring(journal: &Arc<Journal>, threads: u64, way: Way) -> usize {
    let (done, ends) = mpsc::channel();
    let all_have_theirs = Arc::new(Barrier::new(threads as usize));
    for thread in 0..threads {
        let (journal, done) = (Arc::clone(journal), done.clone());
        let all_have_theirs = Arc::clone(&all_have_theirs);
        std::thread::spawn(move || {
            let mut tx = journal.begin().expect("begins");
            tx.write(block(100 + thread), &[1; BLOCK]).expect("nobody has it");
            all_have_theirs.wait();
            let next = 100 + (thread + 1) % threads;
            let is_told = match way(&journal, next) {
                Ok(()) => false,
                Err(Error::Conflict { block: at }) => {
                    // Or it waits for block 0, whose holder waits for a block of this thread.
                    assert!(at == block(next) || at == block(0), "{at:?}");
                    true
                }
                Err(error) => panic!("{error}"),
            };
            tx.commit().expect("nothing is wrong with this one");
            done.send(is_told).expect("is waited for");
        });
    }
    let told = (0..threads)
        .map(|_| ends.recv_timeout(Duration::from_secs(30)).expect("nobody waits for ever"));
    told.filter(|is_told| *is_told).count()
}

#[test]
fn of_threads_that_wait_for_each_other_one_is_told() {
    for threads in [2, 3] {
        for (number, way) in WAYS.into_iter().enumerate() {
            let files = Files::new(&format!("ring-{threads}-{number}"));
            let journal = journal(&files);
            for _ in 0..3 {
                assert_eq!(told_in_a_ring(&journal, threads, way), 1, "way {number}");
            }
        }
    }
}

/// One thread has one transaction only, which may wait since it is the older one.
#[test]
fn a_thread_is_told_that_waits_for_one_that_waits_for_its_other_transaction() {
    for (number, way) in WAYS.into_iter().enumerate() {
        let files = Files::new(&format!("older-{number}"));
        let journal = journal(&files);
        let both_have_theirs = Barrier::new(2);
        let (done, ends) = mpsc::channel();
        std::thread::scope(|scope| {
            let mut older = journal.begin().expect("begins");
            older.write(block(1), &[1; BLOCK]).expect("nobody has it");
            let (journal, both_have_theirs) = (&journal, &both_have_theirs);
            scope.spawn(move || {
                let mut younger = journal.begin().expect("begins");
                younger.write(block(2), &[2; BLOCK]).expect("nobody has it");
                both_have_theirs.wait();
                let result = way(journal, 1);
                drop(younger);
                done.send(result).expect("is waited for");
            });
            both_have_theirs.wait();
            let written = older.write(block(2), &[1; BLOCK]);
            let is_told = matches!(written, Err(Error::Conflict { .. }));
            assert!(is_told || written.is_ok());
            drop(older);
            let result = ends.recv_timeout(Duration::from_secs(30)).expect("ends");
            match result {
                Ok(()) => assert!(is_told),
                Err(Error::Conflict { .. }) => assert!(!is_told),
                Err(error) => panic!("{error}"),
            }
        });
    }
}

/// A thread that has one block, and wants only later ones, waits for no thread that waits for it.
#[test]
fn nobody_is_told_who_is_in_no_circle() {
    let files = Files::new("no-circle");
    let journal = journal(&files);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let journal = &journal;
            scope.spawn(move || {
                for round in 0..60_u64 {
                    let own = 100 + (thread + round) % 6;
                    let mut tx = journal.begin().expect("begins");
                    tx.write(block(own), &[1; BLOCK]).expect("it has nothing, and may wait");
                    // Long enough for a waiter to look.
                    std::thread::sleep(Duration::from_micros(500));
                    let way = WAYS[[0, 1, 3, 4][round as usize % 4]];
                    way(journal, own + 1 + round % 2).expect("waits, and not for itself");
                    tx.commit().expect("nothing is wrong with this one");
                }
            });
        }
    });
}
