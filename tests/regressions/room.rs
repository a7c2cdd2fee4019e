//! Transactions that together want more room than there is. Somebody always ends, each transaction
//! is tried a few times, and a checkpoint that frees nothing is not made again and again.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Barrier, mpsc};

use adaptive::Adaptive;
use full_block::FullBlock;
use journal_core::NoHook;
use journal_core::policy::Policy;
use lab::erased::{AnyMachine, DynDisk, DynHook, DynJournal, DynPmem, DynPolicy, any_options};
use lcow::Lcow;
use nvm_journal::{BlockNumber, Durability, Error, Operation, Options, Region, Transaction};
use object_log::ObjectLog;

use crate::media::{BLOCK, MemoryDisk};

type Crowded = DynJournal;
type Tx<'j> = Transaction<'j, DynPolicy, AnyMachine>;
type Given = Options<DynPolicy, DynHook>;

/// Bytes of a lane for a record of one block, with all that belongs to it.
const RECORD: u64 = 4352;

/// What the threads of a test have done.
#[derive(Debug, Default)]
struct Done {
    commits: AtomicU64,
    /// How often a transaction was begun, and begun again.
    tries: AtomicU64,
}

fn with(policy: impl Policy + Clone + Send + Sync + 'static) -> Given {
    any_options(policy, NoHook)
}

fn journal(options: &Given) -> Arc<Crowded> {
    let nvm = DynPmem::new(Region::anonymous(4 << 20).expect("memory"));
    let disk = DynDisk::new(MemoryDisk::new(1024));
    Arc::new(Crowded::format(nvm, disk, options).expect("formats"))
}

/// Each thread makes `rounds` transactions beside all others. Returns what they did and how many
/// checkpoints there were. Fails where one does not end for a long time.
fn all_commit<F>(options: &Given, threads: u64, rounds: u64, transact: F) -> (u64, u64)
where
    F: Fn(&Crowded, &AtomicU64, u64, u64) -> Result<(), Error> + Send + Sync + 'static,
{
    let (journal, done) = (journal(options), Arc::new(Done::default()));
    let transact = Arc::new(transact);
    let start = Arc::new(Barrier::new(threads as usize));
    let (ended, ends) = mpsc::channel();
    for thread in 0..threads {
        let (journal, done, ended) = (Arc::clone(&journal), Arc::clone(&done), ended.clone());
        let (start, transact) = (Arc::clone(&start), Arc::clone(&transact));
        std::thread::spawn(move || {
            start.wait();
            for round in 0..rounds {
                transact(&journal, &done.tries, thread, round).expect("commits");
                done.commits.fetch_add(1, Ordering::Relaxed);
            }
            ended.send(()).expect("is awaited");
        });
    }
    for _ in 0..threads {
        let end = ends.recv_timeout(Duration::from_secs(60));
        assert!(end.is_ok(), "{done:?}, {}", journal.stats().expect("counts"));
    }
    assert_eq!(done.commits.load(Ordering::Relaxed), threads * rounds);
    (done.tries.load(Ordering::Relaxed), journal.stats().expect("counts").checkpoints)
}

/// Four threads fill a lane with transactions of which two have no room at once.
fn large_transactions_commit(options: Given, lanes: u16, lane_bytes: u64) {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 25;
    let options = options.lanes(lanes).lane_bytes(lane_bytes);
    let (tries, checkpoints) =
        all_commit(&options, THREADS, ROUNDS, |journal, tries, thread, round| {
            journal.transact(|tx| {
                tries.fetch_add(1, Ordering::Relaxed);
                let blocks = thread * 100..thread * 100 + 40;
                blocks.map(BlockNumber).try_for_each(|block| tx.write(block, &[round as u8; BLOCK]))
            })
        });
    let commits = THREADS * ROUNDS;
    // With each try somebody else is on the way, and a checkpoint needs something new to free.
    assert!(tries <= commits * 8, "{tries} tries for {commits} commits");
    assert!(checkpoints <= (tries + commits) * 2, "{checkpoints} checkpoints, {tries} tries");
}

#[test]
fn large_transactions_on_one_lane_commit() {
    large_transactions_commit(with(FullBlock), 1, 64 * RECORD);
    large_transactions_commit(with(<Adaptive>::default()), 1, 64 * RECORD);
    large_transactions_commit(with(<ObjectLog>::default()), 1, 64 * RECORD);
    large_transactions_commit(with(<Lcow>::default()), 1, 64 * RECORD);
}

#[test]
fn large_transactions_on_a_lane_for_each_commit() {
    large_transactions_commit(with(FullBlock), 4, 64 * RECORD);
    large_transactions_commit(with(<Adaptive>::default()), 4, 64 * RECORD);
    large_transactions_commit(with(<ObjectLog>::default()), 4, 64 * RECORD);
    large_transactions_commit(with(<Lcow>::default()), 4, 64 * RECORD);
}

/// The index has room for one transaction and a half.
#[test]
fn large_transactions_in_a_small_index_commit() {
    let few = |options: Given| options.index_frames(60);
    large_transactions_commit(few(with(FullBlock)), 4, 64 * RECORD);
    large_transactions_commit(few(with(<Lcow>::default())), 4, 64 * RECORD);
}

/// Writes some of a few blocks, whole or in part, in an order that differs from round to round.
fn write_some(tx: &mut Tx<'_>, number: u64, count: u64) -> Result<(), Error> {
    for step in 0..count {
        let block = BlockNumber((number * 7 + step * (1 + number % 3)) % 4);
        match (number + step) % 3 {
            0 => tx.write_at(block, 8, &[number as u8; 24])?,
            _ => tx.write(block, &[number as u8; BLOCK])?,
        }
    }
    Ok(())
}

fn mixed_transactions_commit(options: &Given) {
    const THREADS: u64 = 5;
    const ROUNDS: u64 = 120;
    let (tries, checkpoints) =
        all_commit(options, THREADS, ROUNDS, |journal, tries, thread, round| {
            let number = thread * 31 + round;
            let body = |tx: &mut Tx<'_>| {
                tries.fetch_add(1, Ordering::Relaxed);
                write_some(tx, number, 1 + number % 3)
            };
            let block = BlockNumber(number % 4);
            match number % 5 {
                0 => journal.transact(body),
                1 => journal.transact_deferred(body),
                2 | 3 => journal.transact_gathered(body),
                _ => {
                    tries.fetch_add(1, Ordering::Relaxed);
                    let image = [number as u8; BLOCK];
                    let operation = Operation::write(block, &image);
                    journal.commit(&[operation], Durability::Durable).map(drop)
                }
            }
        });
    let commits = THREADS * ROUNDS;
    assert!(tries <= commits * 8, "{tries} tries for {commits} commits");
    assert!(checkpoints <= (tries + commits) * 2, "{checkpoints} checkpoints, {tries} tries");
}

/// Durable, deferred and gathered transactions share one lane of three records, or of four.
#[test]
fn transactions_of_all_kinds_on_a_tiny_lane_commit() {
    for (in_background, records) in [(true, 3), (false, 3), (true, 4), (false, 4)] {
        let tiny = |options: Given| {
            options.lanes(1).lane_bytes(records * RECORD).background_checkpoint(in_background)
        };
        mixed_transactions_commit(&tiny(with(<Adaptive>::default())));
        mixed_transactions_commit(&tiny(with(FullBlock)));
        mixed_transactions_commit(&tiny(with(<ObjectLog>::default())));
    }
}
