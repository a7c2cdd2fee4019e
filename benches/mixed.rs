//! Traces of real block updates, transaction by transaction, under each policy.
//!
//! `cargo bench --bench mixed` prints a table of each trace. Each transaction is a durable commit
//! in one call. The table shows how long these took, and what went out to the memory until all
//! blocks were home. Then criterion runs over the whole of the small trace. By default that trace,
//! which the tests use, is the only one. `NVM_JOURNAL_TRACES=FILE:FILE... cargo bench --bench
//! mixed` takes others as well.
//!
//! The journal has one lane of plain memory, too small for a long trace. Making space is part of a
//! transaction's time, since no thread in the background does it. The device is in memory.
#![allow(clippy::print_stdout, reason = "a bench prints its tables")]
#![allow(clippy::std_instead_of_core, reason = "a program")]

use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use journal_core::policy::{Change, Class, Kind, Policy, Update};
use journal_core::{BlockDevice as _, BlockNumber, Durability, Operation};
use lab::bench::counted::{Counted, Counts};
use lab::bench::latency::Times;
use lab::bench::media::{MemoryDisk, warm};
use lab::bench::{Asked, print_load, print_machine};
use lab::trace::{Header, State, Trace, Transaction, Write};
use nvm_journal::{AnyPolicy, CheckpointReport, Journal, On, Options};

/// Persistent memory of the journal.
const SPAN_BYTES: u64 = 64 << 20;
/// Blocks of the disk-side log, for policies that want one.
const LOG_BLOCKS: u32 = 4096;
/// A trace with fewer transactions is replayed until this many were run.
const TRANSACTIONS: usize = 6_000;

type Traced = Journal<AnyPolicy, On<Counted, MemoryDisk>>;

fn main() {
    let asked = Asked::of_arguments();
    let sample = Whole::read(lab::trace::SAMPLE);
    if asked != Asked::List {
        print_machine();
        println!("medium: plain memory, {} MiB, one lane\n", SPAN_BYTES >> 20);
        sample.print(asked);
        let files = std::env::var_os("NVM_JOURNAL_TRACES").unwrap_or_default();
        for path in std::env::split_paths(&files).filter(|path| !path.as_os_str().is_empty()) {
            let file = File::open(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            Whole::read(file).print(asked);
        }
        print_load("after");
    }
    let mut criterion = Criterion::default().configure_from_args();
    replays(&mut criterion, &sample);
    criterion.final_summary();
}

/// A whole trace.
struct Whole {
    header: Header,
    bases: State,
    transactions: Vec<Transaction>,
}

/// What a replay took.
struct Replayed {
    times: Vec<Duration>,
    home: CheckpointReport,
    nvm: Counts,
}

impl Whole {
    fn read(source: impl Read) -> Self {
        let mut trace = Trace::open(source).expect("a trace");
        let (header, bases) = (trace.header().clone(), trace.state().clone());
        let mut transactions = Vec::new();
        while trace.advance().expect("a trace") {
            transactions.push(trace.transaction().clone());
        }
        Self { header, bases, transactions }
    }

    /// An empty journal, and the disk as it was when the trace began.
    fn journal(&self, policy: AnyPolicy, counts: &Arc<Mutex<Counts>>) -> Traced {
        let log_blocks = if policy.wants_log() { LOG_BLOCKS } else { 0 };
        let blocks = self.header.device_blocks + u64::from(log_blocks);
        let mut disk = MemoryDisk::new(self.header.block_size, blocks);
        for (block, image) in &self.bases {
            disk.write(BlockNumber(*block), image).expect("writes");
        }
        let options = Options::new().policy(policy).lanes(1).lane_log_blocks(log_blocks);
        let region = Counted::new(warm(SPAN_BYTES), counts);
        Journal::format(region, disk, &options).expect("formats")
    }

    /// Commits these transactions. Each update comes with the image that it overwrites, as the
    /// store knows it.
    fn commit(
        &self,
        journal: &Traced,
        transactions: &[Transaction],
        mut took: impl FnMut(Duration),
    ) {
        let mut state = self.bases.clone();
        for Transaction { writes, .. } in transactions {
            let update = |write| operation(write, &state);
            let operations: Vec<_> = writes.iter().map(update).collect();
            let start = Instant::now();
            journal.commit(&operations, Durability::Durable).expect("commits");
            took(start.elapsed());
            state.extend(writes.iter().map(|write| (write.block, Arc::clone(&write.image))));
        }
    }

    fn replay(&self, policy: AnyPolicy, transactions: &[Transaction]) -> Replayed {
        let counts = Arc::default();
        let journal = self.journal(policy, &counts);
        let mut times = Vec::with_capacity(transactions.len());
        self.commit(&journal, transactions, |took| times.push(took));
        journal.checkpoint().expect("writes home");
        let home = journal.stats().expect("counts").checkpointed;
        drop(journal);
        let nvm = *counts.lock().expect("no thread panics");
        Replayed { times, home, nvm }
    }

    fn print(&self, asked: Asked) {
        let count = self.transactions.len();
        let writes: usize = self.transactions.iter().map(|it| it.writes.len()).sum();
        println!("## {}: {count} transactions of {writes} blocks", self.header.name);
        println!(
            "{:<20} {:>9} {:>9} {:>9} {:>11} | {:>10} {:>8} {:>7} | {:>9}",
            "policy; ns",
            "p50",
            "p99",
            "p99.9",
            "most",
            "NVM B/txn",
            "lines",
            "fences",
            "disk blks"
        );
        let again = TRANSACTIONS.div_ceil(count.max(1));
        let passes = asked.of(1, again.min(3), again);
        for policy in AnyPolicy::ALL {
            let mut times = Times::new();
            let mut last = None;
            for _ in 0..passes {
                let replayed = self.replay(*policy, &self.transactions);
                replayed.times.iter().for_each(|took| times.note(*took));
                last = Some(replayed);
            }
            let Some(Replayed { home, nvm, .. }) = last else { continue };
            // Formatting and opening a journal is not counted.
            let nothing = self.replay(*policy, &[]).nvm;
            let per = |all: fn(&Counts) -> u64| (all(&nvm) - all(&nothing)) as f64 / count as f64;
            println!(
                "{:<20} {:>9} {:>9} {:>9} {:>11} | {:>10.0} {:>8.1} {:>7.2} | {:>9}",
                policy.name(),
                times.at(50.0),
                times.at(99.0),
                times.at(99.9),
                times.at(100.0),
                per(|counts| counts.bytes),
                per(|counts| counts.lines),
                per(|counts| counts.fences),
                home.blocks,
            );
        }
        println!();
    }
}

fn operation<'a>(write: &'a Write, state: &'a State) -> Operation<'a> {
    let mut update = Update::new(BlockNumber(write.block), Change::Image(&write.image));
    update.old = state.get(&write.block).map(|old| &**old);
    update.class = if write.is_data() { Class::Data } else { Class::Metadata };
    update.kind = if write.is_new() { Kind::Append } else { Kind::Overwrite };
    update.object_bytes = u32::from(write.object_bytes).try_into().ok();
    Operation::Update(update)
}

/// Replays of a whole trace.
fn replays(criterion: &mut Criterion, sample: &Whole) {
    let mut group = criterion.benchmark_group(format!("all of {}", sample.header.name));
    for policy in AnyPolicy::ALL {
        group.bench_function(policy.name(), |bencher| {
            let journal = || sample.journal(*policy, &Arc::default());
            let replay = |journal: Traced| {
                sample.commit(&journal, &sample.transactions, drop);
                journal
            };
            bencher.iter_batched(journal, replay, BatchSize::PerIteration);
        });
    }
    group.finish();
}
