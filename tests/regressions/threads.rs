//! Many threads that want the same few blocks at once. Each waits asleep, is woken when it may be
//! its turn, and commits at its first try or soon after.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Barrier, mpsc};

use full_block::FullBlock;
use journal_core::NoHook;
use lab::erased::{DynDisk, DynJournal, DynPmem, any_options};
use nvm_journal::{BlockNumber, Error, Region};

use crate::media::{BLOCK, MemoryDisk};

type Crowded = DynJournal;

/// The counters belong to several shares of the index.
const COUNTERS: [u64; 5] = [0, 3, 28, 47, 56];

/// Adds one to each of the counters.
fn count(journal: &Crowded, tries: &AtomicU64, order: usize) -> Result<(), Error> {
    journal.transact(|tx| {
        tries.fetch_add(1, Ordering::Relaxed);
        for at in 0..COUNTERS.len() {
            let block = BlockNumber(COUNTERS[(at + order) % COUNTERS.len()]);
            let mut counter = [0; 8];
            tx.read_at(block, 0, &mut counter)?;
            let counter = u64::from_le_bytes(counter) + 1;
            tx.write_at(block, 0, &counter.to_le_bytes())?;
        }
        Ok(())
    })
}

/// `threads` threads come while a transaction has all of the counters, and each counts once when
/// that has ended. Returns how often they have tried.
fn all_count(threads: u64, order: fn(u64) -> usize) -> u64 {
    let nvm = DynPmem::new(Region::anonymous(4 << 20).expect("memory"));
    let disk = DynDisk::new(MemoryDisk::new(64));
    let journal = Crowded::format(nvm, disk, &any_options(FullBlock, NoHook)).expect("formats");
    let (journal, tries) = (Arc::new(journal), Arc::new(AtomicU64::new(0)));
    let mut first = journal.begin().expect("begins");
    for number in COUNTERS {
        first.read(BlockNumber(number), &mut [0; BLOCK]).expect("nobody has it");
    }
    let (ended, ends) = mpsc::channel();
    let start = Arc::new(Barrier::new(threads as usize + 1));
    for thread in 0..threads {
        let (journal, tries) = (Arc::clone(&journal), Arc::clone(&tries));
        let (start, ended) = (Arc::clone(&start), ended.clone());
        let call = move || {
            start.wait();
            count(&journal, &tries, order(thread)).expect("commits");
            ended.send(()).expect("is awaited");
        };
        std::thread::Builder::new().stack_size(256 << 10).spawn(call).expect("a thread");
    }
    start.wait();
    // Most of them wait by then, and sleep.
    std::thread::sleep(Duration::from_millis(100));
    drop(first);
    for _ in 0..threads {
        ends.recv_timeout(Duration::from_secs(60)).expect("everybody gets through");
    }
    for number in COUNTERS {
        let mut content = [0; BLOCK];
        journal.read(BlockNumber(number), &mut content).expect("reads");
        let counter = u64::from_le_bytes(content[..8].try_into().expect("eight bytes"));
        assert_eq!(counter, threads, "block {number}");
    }
    tries.load(Ordering::Relaxed)
}

/// The threads wait for the first block while they hold nothing, and nothing else is in their way.
#[test]
fn a_thousand_threads_count_at_their_first_try() {
    let tries = all_count(1000, |_| 0);
    assert_eq!(tries, 1000);
}

/// In opposite orders some have to give up for older ones, and begin again.
#[test]
fn threads_that_count_in_opposite_orders_begin_again_a_few_times() {
    let tries = all_count(300, |thread| thread as usize % COUNTERS.len());
    assert!(tries <= 300 * 8, "{tries} tries");
}
