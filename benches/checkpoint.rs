//! What writing home costs, and how it slows commits that run meanwhile.
//!
//! `cargo bench --bench checkpoint` prints the tables first (`-- --quick` for short ones). Then it
//! runs criterion over one checkpoint. The journal lies in plain memory. The disk is in memory, or
//! it is a file in the folder for temporary files, behind the system's cache, with real syncs.
#![allow(clippy::print_stdout, reason = "a bench prints its tables")]
#![allow(clippy::std_instead_of_core, reason = "a program")]

use std::path::Path;
use std::time::Instant;

use criterion::{BatchSize, Criterion};
use journal_core::{BlockDevice, BlockSize};
use lab::bench::latency::{Times, print_heading};
use lab::bench::media::{Folder, MemoryDisk, warm};
use lab::bench::work::{Front, commit_at_once, front, image, images, make_room};
use lab::bench::{Asked, Shuffler, print_load, print_machine, quantile};
use nvm_journal::{CheckpointReport, FileDisk, FullBlock, Journal, Options};

/// Blocks of the disk. Each has content before anything is measured.
const BLOCKS: u64 = 1 << 16;
/// The distance between blocks that are no neighbours.
const STRIDE: u64 = 3;
/// Blocks that are committed beside a checkpoint: few, so that each is written again soon.
const BUSY_BLOCKS: u64 = 1 << 12;
/// Bytes of the journal that they are committed to: few, so that it fills soon.
const BUSY_BYTES: u64 = 32 << 20;
/// Commits of a turn: more than that journal has space for.
const TURN: u64 = 8 << 10;

fn main() {
    let asked = Asked::of_arguments();
    if asked != Asked::List {
        print_machine();
        let folder = Folder::new("checkpoint-bench");
        println!("files: {}\n", folder.path().display());
        let images = images();
        let rounds = asked.of(1, 5, 15);
        println!("## checkpoints, full-block, {rounds} times each");
        println!(
            "{:<44} {:>10} {:>10} {:>10} | {:>9} {:>8}",
            "case; blocks per second", "median", "p10", "p90", "blk/write", "batches"
        );
        let dirty = asked.of(&[256][..], &[256, 4096], &[256, 4096, 12288]);
        let memory = MemoryDisk::new(BlockSize::DEFAULT, BLOCKS);
        print_checkpoints("memory", memory, dirty, rounds, &images);
        print_checkpoints("file", file_disk(folder.path(), "throughput"), dirty, rounds, &images);
        println!();
        print_commits(asked.of(1, 3, 15), folder.path(), &images);
        print_load("after");
    }
    let mut criterion = Criterion::default().configure_from_args();
    checkpoints(&mut criterion);
    criterion.final_summary();
}

fn file_disk(folder: &Path, name: &str) -> FileDisk {
    FileDisk::create(folder.join(name), BlockSize::DEFAULT, BLOCKS).expect("a file")
}

/// Writes every block, so that no measurement meets one that was never written.
fn fill(disk: &mut impl BlockDevice, images: &[u8]) {
    for block in 0..disk.block_count() {
        disk.write(journal_core::BlockNumber(block), image(images, block)).expect("writes");
    }
    disk.sync().expect("syncs");
}

fn print_checkpoints<D: BlockDevice + Clone + Send + 'static>(
    on: &str,
    mut disk: D,
    dirty: &[u64],
    rounds: usize,
    images: &[u8],
) {
    fill(&mut disk, images);
    let journal = front(FullBlock, disk, 1);
    for &count in dirty {
        for (stride, which) in [(1, "neighbours"), (STRIDE, "apart")] {
            let mut rates = Vec::new();
            let mut last = CheckpointReport::default();
            for _ in 0..rounds {
                for at in 0..count {
                    commit_at_once(&journal, images, at * stride);
                }
                let start = Instant::now();
                last = journal.checkpoint().expect("writes home");
                rates.push(count as f64 / start.elapsed().as_secs_f64());
                assert_eq!(last.blocks, count, "all went home now, and none before");
            }
            println!(
                "{:<44} {:>10.0} {:>10.0} {:>10.0} | {:>9.1} {:>8}",
                format!("{on}, {count} blocks, {which}"),
                quantile(&rates, 0.5),
                quantile(&rates, 0.1),
                quantile(&rates, 0.9),
                last.blocks as f64 / last.writes as f64,
                last.batches,
            );
        }
    }
}

/// A journal that is filled again and again, and the times of its commits.
struct Busy<D: BlockDevice + Clone + Send + 'static> {
    name: String,
    journal: Front<FullBlock, D>,
    /// Whether it is emptied before each turn, and has space for all of it.
    is_emptied: bool,
    times: Times,
}

impl<D: BlockDevice + Clone + Send + 'static> Busy<D> {
    fn turn(&mut self, images: &[u8]) {
        if self.is_emptied {
            make_room(&self.journal, TURN, 1);
        }
        for turn in 0..TURN {
            let start = Instant::now();
            commit_at_once(&self.journal, images, turn % BUSY_BLOCKS);
            self.times.note(start.elapsed());
        }
    }

    fn print(&self) {
        let stats = self.journal.stats().expect("counts");
        self.times.print(&format!("{}, {} checkpoints", self.name, stats.checkpoints));
    }
}

/// Three journals that make space in different ways.
fn busy<D: BlockDevice + Clone + Send + 'static>(
    on: &str,
    disk: impl Fn(&str) -> D,
    images: &[u8],
) -> [Busy<D>; 3] {
    let small = Options::<FullBlock>::new().lanes(1);
    let roomy = small.clone().lane_bytes(2 * BUSY_BYTES);
    [
        ("no checkpoint beside", roomy, true),
        ("in the background", small.clone().background_checkpoint(true), false),
        ("by the thread that finds no space", small, false),
    ]
    .map(|(how, options, is_emptied)| {
        let mut disk = disk(how);
        fill(&mut disk, images);
        let span_bytes = if is_emptied { 2 * BUSY_BYTES + (1 << 20) } else { BUSY_BYTES };
        let journal = Journal::format(warm(span_bytes), disk, &options).expect("formats");
        Busy { name: format!("{on}, {how}"), journal, is_emptied, times: Times::new() }
    })
}

fn print_commits(rounds: usize, folder: &Path, images: &[u8]) {
    let memory = |_: &str| MemoryDisk::new(BlockSize::DEFAULT, BLOCKS);
    let mut in_memory = busy("memory", memory, images);
    let mut in_files = busy("file", |name| file_disk(folder, name), images);
    let mut order: Vec<_> = (0..in_memory.len() + in_files.len()).collect();
    let mut shuffler = Shuffler::new();
    for _ in 0..rounds {
        shuffler.shuffle(&mut order);
        for &index in &order {
            match index.checked_sub(in_memory.len()) {
                None => in_memory[index].turn(images),
                Some(index) => in_files[index].turn(images),
            }
        }
    }
    print_heading("durable commits of a block in one call, one thread, beside checkpoints");
    in_memory.iter().for_each(Busy::print);
    in_files.iter().for_each(Busy::print);
    println!();
}

/// The calls that users wait for.
fn checkpoints(criterion: &mut Criterion) {
    let images = images();
    let mut disk = MemoryDisk::new(BlockSize::DEFAULT, BLOCKS);
    fill(&mut disk, &images);
    let journal = front(FullBlock, disk, 1);
    let mut group = criterion.benchmark_group("checkpoint");
    for blocks in [16, 256] {
        let dirty = || (0..blocks).for_each(|at| commit_at_once(&journal, &images, at * STRIDE));
        group.bench_function(format!("{blocks} blocks to memory"), |bencher| {
            let home = |()| journal.checkpoint().expect("writes home");
            bencher.iter_batched(dirty, home, BatchSize::PerIteration);
        });
    }
    group.finish();
}
