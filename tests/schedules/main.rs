//! Transactions that want the same few blocks, under schedules that an explorer chooses: one thread
//! runs as long as it can. A thread that goes on trying without ever waiting keeps all others from
//! running, and is found.
//!
//! ```sh
//! SCHEDULES=1000 RUSTFLAGS='--cfg shuttle' cargo test --release --test schedules
//! ```

#![forbid(unsafe_code)]
#![cfg(shuttle)]

use core::sync::atomic::{AtomicU64, Ordering};
use std::path::Path;
use std::sync::Arc;

use journal_core::{DeviceFacts, Overwrite};
use nvm_journal::policy::Policy;
use nvm_journal::{
    BlockNumber, BlockSize, Durability, Error, FileDisk, FullBlock, Journal, Lcow, ObjectLog, On,
    Operation, Options, Region, Transaction,
};
use shuttle::rand::Rng;
use shuttle::scheduler::PctScheduler;
use shuttle::{Config, Runner, thread};
use sim_disk::{CrashPoints, DiskImage, Fault, FaultKind, Image, Model, SimDisk, SimPmem, World};

const BLOCK: usize = 4096;
const IMAGE: [u8; BLOCK] = [7; BLOCK];

/// Some of them have a word of the table together, however many shares there are.
const BLOCKS: [u64; 8] = [0, 28, 56, 1, 47, 52, 7, 19];

/// Runs something in every schedule, with the path of a file for the disk.
fn explore(name: &str, run: impl Fn(&Path) + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 19;
    config.silence_warnings = true;
    let asked = std::env::var("SCHEDULES").ok();
    let schedules = asked.map_or(300, |asked| asked.parse().expect("a number"));
    let path = std::env::temp_dir().join(format!("nvm-journal-{}-{name}", std::process::id()));
    let its = path.clone();
    let run = move || {
        let _ = std::fs::remove_file(&its);
        run(&its);
    };
    Runner::new(PctScheduler::new_from_seed(1, 3, schedules), config).run(run);
    let _ = std::fs::remove_file(&path);
}

fn options() -> Options {
    Options::new().lanes(2).lane_bytes(64 << 10).shield_blocks(0)
}

fn disk(path: &Path) -> FileDisk {
    FileDisk::create(path, BlockSize::DEFAULT, 64).expect("a new file")
}

/// Each of four threads calls this three times, in every schedule.
fn all_end(name: &str, call: impl Fn(&Journal, u64) -> Result<(), Error> + Send + Sync + 'static) {
    let call = Arc::new(call);
    explore(name, move |path| {
        let memory = Region::anonymous(1 << 20).expect("memory");
        let journal = Journal::format(memory, disk(path), &options()).expect("formats");
        let journal = Arc::new(journal);
        let threads = (0..4).map(|number| {
            let (journal, call) = (Arc::clone(&journal), Arc::clone(&call));
            thread::spawn(move || (0..3).for_each(|_| call(&journal, number).expect("ends")))
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|thread| thread.join().expect("does not panic"));
    });
}

fn write(number: u64) -> Operation<'static> {
    Operation::write(BlockNumber(number), &IMAGE)
}

#[test]
fn who_holds_another_block_ends_in_one_call() {
    all_end("several", |journal, number| {
        let operations = [write(number), write(5)];
        let operations = if number < 2 { &operations[1..] } else { &operations };
        journal.commit(operations, Durability::Durable).map(drop)
    });
}

#[test]
fn who_holds_another_block_ends_as_a_transaction() {
    all_end("staged", |journal, number| {
        if number < 2 {
            return journal.commit(&[write(5)], Durability::Durable).map(drop);
        }
        journal.transact(|tx| {
            tx.write(BlockNumber(number), &IMAGE)?;
            tx.write(BlockNumber(5), &IMAGE)
        })
    });
}

#[test]
fn transactions_of_all_kinds_end() {
    all_end("all-kinds", |journal, _| {
        let mut rng = shuttle::rand::thread_rng();
        let [one, other, third] = [(); 3].map(|()| BLOCKS[rng.gen_range(0..BLOCKS.len())]);
        let durability = match rng.gen_range(0..3) {
            0 => Durability::Deferred,
            _ => Durability::Durable,
        };
        let body = |tx: &mut Transaction<'_, _, _>| {
            tx.write(BlockNumber(one), &IMAGE)?;
            tx.write_at(BlockNumber(other), 0, &[3; 8])?;
            tx.write(BlockNumber(third), &IMAGE)
        };
        match rng.gen_range(0..6) {
            0 => journal.commit(&[write(one)], durability).map(drop),
            1 if one != other => {
                let both = [write(one.min(other)), write(one.max(other))];
                journal.commit(&both, durability).map(drop)
            }
            2 => journal.transact_gathered(body),
            3 => journal.transact_deferred(body),
            4 => journal.checkpoint().map(drop),
            _ => journal.transact(body),
        }
    });
}

/// What three threads want of a journal that has room for one of them at a time.
struct Scarce {
    options: Options,
    /// Blocks of which each transaction writes some.
    blocks: u64,
    /// The most that one writes.
    most: u64,
}

/// Each of three threads makes two transactions of any kind, in every schedule. All of them end,
/// and no checkpoint is made again and again.
fn all_find_room(name: &str, scarce: fn() -> Scarce) {
    explore(name, move |path| {
        let Scarce { options, blocks, most } = scarce();
        let memory = Region::anonymous(1 << 20).expect("memory");
        let journal = Journal::format(memory, disk(path), &options).expect("formats");
        let (journal, tries) = (Arc::new(journal), Arc::new(AtomicU64::new(0)));
        let threads = (0..3_u64).map(|_| {
            let (journal, tries) = (Arc::clone(&journal), Arc::clone(&tries));
            thread::spawn(move || {
                for _ in 0..2 {
                    let mut rng = shuttle::rand::thread_rng();
                    let (first, count) = (rng.gen_range(0..blocks), rng.gen_range(1..=most));
                    let body = |tx: &mut Transaction<'_, _, _>| {
                        tries.fetch_add(1, Ordering::SeqCst);
                        let numbers = (0..count).map(|at| BlockNumber((first + at) % blocks));
                        numbers.into_iter().try_for_each(|number| tx.write(number, &IMAGE))
                    };
                    let result = match rng.gen_range(0..5) {
                        0 => journal.transact_deferred(body),
                        1 => journal.transact_gathered(body),
                        2 => {
                            tries.fetch_add(1, Ordering::SeqCst);
                            journal.commit(&[write(first)], Durability::Durable).map(drop)
                        }
                        _ => journal.transact(body),
                    };
                    result.expect("ends");
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|thread| thread.join().expect("does not panic"));
        let (tries, stats) = (tries.load(Ordering::SeqCst), journal.stats().expect("counts"));
        assert!(tries <= 6 * 12, "{tries} tries for six commits");
        assert!(stats.checkpoints <= 6 * 8, "{} checkpoints, {tries} tries", stats.checkpoints);
    });
}

/// Bytes of a lane for a record of one block, with all that belongs to it.
const RECORD: u64 = 4352;

#[test]
fn a_tiny_lane_is_shared() {
    all_find_room("tiny-lane", || Scarce {
        options: options().lanes(1).lane_bytes(3 * RECORD),
        blocks: 4,
        most: 3,
    });
}

#[test]
fn two_tiny_lanes_are_shared() {
    all_find_room("tiny-lanes", || Scarce {
        options: options().lanes(2).lane_bytes(3 * RECORD),
        blocks: 6,
        most: 3,
    });
}

#[test]
fn a_tiny_index_is_shared() {
    all_find_room("tiny-index", || Scarce {
        options: options().index_frames(4),
        blocks: 6,
        most: 4,
    });
}

/// A thread whose fence fails knows it a moment before the journal has failed. Another that comes
/// for the lane in that moment does not take for durable what no longer waits for a fence.
#[test]
fn what_a_failed_fence_was_for_is_durable_for_nobody() {
    type Failing = Journal<ObjectLog, On<SimPmem, FileDisk>>;
    let calls: [fn(&Failing) -> Result<(), Error>; 3] = [
        |journal| journal.checkpoint().map(drop),
        Failing::sync,
        // What it has read is to be durable, though it writes nothing.
        |journal| {
            let mut tx = journal.begin()?;
            tx.read(BlockNumber(5), &mut [0; BLOCK])?;
            tx.commit().map(drop)
        },
    ];
    explore("failed-fence", move |path| {
        let media = World::boot(Image::blank(1 << 20), Model::Torn8);
        let options = options().policy(ObjectLog::new()).shield_blocks(2);
        let journal = Journal::format(media.pmem(), disk(path), &options).expect("formats");
        let journal = Arc::new(journal);
        // A longer record would be fenced at once.
        let stored = journal.transact_deferred(|tx| tx.write_at(BlockNumber(5), 0, &[3; 8]));
        stored.expect("is stored");
        let fences = media.operations().of(sim_disk::Operation::Fence);
        media.inject(Fault::on(sim_disk::Operation::Fence, fences, FaultKind::Error));
        let threads = calls.map(|call| {
            let journal = Arc::clone(&journal);
            thread::spawn(move || call(&journal))
        });
        for thread in threads {
            thread.join().expect("does not panic").expect_err("is not durable");
        }
    });
}

/// Accounts that threads move amounts between, and what all of them have together.
const ACCOUNTS: u64 = 4;

fn amount(
    read: impl Fn(BlockNumber, &mut [u8]) -> Result<(), Error>,
    number: u64,
) -> Result<u64, Error> {
    let mut image = vec![0; BLOCK];
    read(BlockNumber(number), &mut image)?;
    Ok(u64::from_le_bytes(*image.first_chunk().expect("a word")))
}

/// Each snapshot shows one state, in every schedule, while others commit, write home and evict.
fn snapshots_show_one_state<L>(name: &str, options: fn() -> Options<L>)
where
    L: Policy + Clone + Send + Sync + 'static,
{
    explore(name, move |path| {
        let memory = Region::anonymous(1 << 20).expect("memory");
        let journal = Journal::format(memory, disk(path), &options()).expect("formats");
        let journal = Arc::new(journal);
        for number in 0..ACCOUNTS {
            journal.commit(&[write(number)], Durability::Durable).expect("fits");
        }
        let all = ACCOUNTS.wrapping_mul(u64::from_le_bytes([7; 8]));
        let moves = |journal: &Journal<L>| {
            let mut rng = shuttle::rand::thread_rng();
            let (from, step) = (rng.gen_range(0..ACCOUNTS), rng.gen_range(1..ACCOUNTS));
            let both = [(from, u64::MAX), ((from + step) % ACCOUNTS, 1)];
            let body = |tx: &mut Transaction<'_, _, _>| {
                for (number, change) in both {
                    let mut word = [0; 8];
                    tx.read_at(BlockNumber(number), 0, &mut word)?;
                    let sum = u64::from_le_bytes(word).wrapping_add(change);
                    tx.write_at(BlockNumber(number), 0, &sum.to_le_bytes())?;
                }
                Ok(())
            };
            match rng.gen_range(0..6) {
                0 => journal.transact_gathered(body),
                1 => journal.transact_deferred(body),
                2 => journal.checkpoint().map(drop),
                _ => journal.transact(body),
            }
        };
        let shows = move |journal: &Journal<L>| {
            let snapshot = journal.snapshot()?;
            for _ in 0..2 {
                let mut sum = 0_u64;
                for number in 0..ACCOUNTS {
                    match amount(|block, image| snapshot.read(block, image), number) {
                        Err(Error::SnapshotTooOld) => return Ok(()),
                        found => sum = sum.wrapping_add(found?),
                    }
                }
                assert_eq!(sum, all, "a snapshot shows two states");
            }
            Ok(())
        };
        let threads = (0..4).map(|number| {
            let journal = Arc::clone(&journal);
            thread::spawn(move || {
                for _ in 0..3 {
                    let result = if number == 0 { shows(&journal) } else { moves(&journal) };
                    result.expect("ends");
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|thread| thread.join().expect("does not panic"));
    });
}

#[test]
fn a_snapshot_of_whole_blocks_shows_one_state() {
    snapshots_show_one_state("snapshots", options);
}

/// Fewer slots than versions: what is in them goes home, and slots are written again.
#[test]
fn a_snapshot_of_slots_shows_one_state() {
    let options = || options().policy(Lcow::new()).lane_slots(3).shield_blocks(2);
    snapshots_show_one_state("snapshots-slots", options);
}

const LIVES: usize = 3;

/// What the threads of [`life`] have done to their blocks.
#[derive(Default)]
struct Versions {
    /// Committed, in whatever way.
    committed: [AtomicU64; LIVES],
    /// Answered to be durable.
    durable: [AtomicU64; LIVES],
}

type Simulated = Journal<FullBlock, On<SimPmem, SimDisk>>;

/// Commits version after version of a block of its own, in all ways, until something fails.
fn life(journal: &Simulated, versions: &Versions, me: usize) -> Result<(), Error> {
    let mut rng = shuttle::rand::thread_rng();
    let block = BlockNumber(me as u64 * 16);
    for version in 1..5_u64 {
        let image = [version as u8; BLOCK];
        let one = [Operation::write(block, &image)];
        let is_durable = match rng.gen_range(0..8) {
            0 => journal.commit(&one, Durability::Durable).map(|_| true),
            1 => journal.transact_gathered(|tx| tx.write(block, &image)).map(|()| false),
            2 => journal.transact_deferred(|tx| tx.write(block, &image)).map(|()| false),
            _ => journal.commit(&one, Durability::Deferred).map(|_| false),
        }?;
        versions.committed[me].store(version, Ordering::SeqCst);
        let own = &versions.durable[me];
        if is_durable {
            own.fetch_max(version, Ordering::SeqCst);
        }
        let all = versions.committed.each_ref().map(|all| all.load(Ordering::SeqCst));
        match rng.gen_range(0..3) {
            0 => journal.sync()?,
            1 => journal.checkpoint().map(drop)?,
            _ => {
                // What it has read is durable, though it writes nothing.
                journal.transact(|tx| tx.read(block, &mut [0; BLOCK]))?;
                own.fetch_max(version, Ordering::SeqCst);
                continue;
            }
        }
        for (durable, version) in versions.durable.iter().zip(all) {
            durable.fetch_max(version, Ordering::SeqCst);
        }
    }
    Ok(())
}

/// Whatever is answered to be durable survives the worst crash, whichever call of a medium fails.
#[test]
fn what_is_answered_to_be_durable_is() {
    fn caller() -> u64 {
        usize::from(shuttle::current::me()) as u64
    }
    let one = || {
        let facts = DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew);
        let blank = DiskImage::blank(BlockSize::DEFAULT, 64, facts);
        let media = World::boot(Image::blank(256 << 10).with_disk(blank), Model::Torn8);
        let options = options();
        let journal = Journal::format(media.pmem(), media.disk(0), &options).expect("formats");
        let journal: Arc<Simulated> = Arc::new(journal);
        let mut rng = shuttle::rand::thread_rng();
        let kind = match rng.gen_range(0..5) {
            0 => sim_disk::Operation::DiskWrite,
            1 => sim_disk::Operation::DiskSync,
            _ => sim_disk::Operation::Fence,
        };
        let at = media.operations().of(kind) + rng.gen_range(0..5);
        media.inject(Fault::on(kind, at, FaultKind::Error));
        let versions = Arc::new(Versions::default());
        let threads: Vec<_> = (0..LIVES)
            .map(|me| {
                let (journal, versions) = (Arc::clone(&journal), Arc::clone(&versions));
                thread::spawn(move || life(&journal, &versions, me))
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("does not panic"));
        let all_went_well = ended.fold(true, |all, result| all & result.is_ok());
        assert_eq!(all_went_well, media.operations().of(kind) <= at, "{kind:?}");
        drop(journal);
        let tape = media.tape();
        let points = CrashPoints::new(&media.start(), &tape, media.rules(), tape.len());
        let end = points.last().expect("has an end");
        // Nothing that was not fenced.
        let worst = World::boot(end.image(&vec![0; end.cells().len()]), Model::Torn8);
        let journal: Simulated =
            Journal::open(worst.pmem(), worst.disk(0), &options).expect("opens");
        for (me, durable) in versions.durable.iter().enumerate() {
            let mut found = [0; BLOCK];
            journal.read(BlockNumber(me as u64 * 16), &mut found).expect("reads");
            let durable = durable.load(Ordering::SeqCst);
            assert!(u64::from(found[0]) >= durable, "{me}: {} of {durable}, {kind:?}", found[0]);
        }
    };
    explore("durable", move |_| sim_disk::world::name_callers(caller, one));
}
