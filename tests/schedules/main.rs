//! Transactions that want the same few blocks, under schedules that an explorer chooses: one thread
//! runs as long as it can. Who goes on trying without ever waiting keeps all others from running,
//! and is found.
//!
//! ```sh
//! SCHEDULES=1000 RUSTFLAGS='--cfg shuttle' cargo test --release --test schedules
//! ```

#![forbid(unsafe_code)]
#![cfg(shuttle)]

use std::path::Path;
use std::sync::Arc;

use nvm_journal::{
    BlockNumber, BlockSize, Durability, Error, FileDisk, FullBlock, Journal, Operation, Options,
    Region, Transaction,
};
use shuttle::rand::Rng;
use shuttle::scheduler::PctScheduler;
use shuttle::{Config, Runner, thread};
use sim_disk::{Fault, FaultKind, Image, Model, SimPmem, World};

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
        let body = |tx: &mut Transaction<'_, _, _, _, _>| {
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

/// Whose fence fails knows it a moment before the journal has failed. Nobody who comes for the lane
/// in that moment takes for durable what no longer waits for a fence.
#[test]
fn what_a_failed_fence_was_for_is_durable_for_nobody() {
    type Failing = Journal<FullBlock, SimPmem>;
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
        let journal = Journal::format(media.pmem(), disk(path), &options()).expect("formats");
        let journal = Arc::new(journal);
        journal.commit(&[write(5)], Durability::Deferred).expect("is stored");
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
