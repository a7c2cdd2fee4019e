//! What it costs to read a block's newest content, by where that lies.
//!
//! `cargo bench --bench read` prints the interleaved tables first (`-- --quick` for short ones).
//! Then it runs criterion over the few calls that users wait for. The *limit* of a row is to look a
//! block up in a hash table and to copy it from ordinary memory, in the same rounds.
//!
//! Blocks are read in a random order. There are more of them than the nearer caches hold. The
//! journal and the device both lie in plain memory.
#![allow(clippy::print_stdout, reason = "a bench prints its tables")]
#![allow(clippy::std_instead_of_core, reason = "a program")]

use std::collections::HashMap;
use std::hint::black_box;

use criterion::Criterion;
use journal_core::policy::{Change, Patch, Policy};
use journal_core::{BlockNumber, BlockSize, Durability};
use lab::bench::media::{BLOCK, MemoryDisk, warm};
use lab::bench::work::{
    Front, INDEX_FRAMES, LANE_BYTES, both, commit_change, front, image, images,
};
use lab::bench::{Asked, Table, print_load, print_machine, timed};
use nvm_journal::{FullBlock, Journal, ObjectLog, Options};

/// Blocks of each kind.
const BLOCKS: u64 = 1 << 10;
/// Lengths of the chains of deltas. Zero is a whole block alone.
const CHAINS: [u64; 5] = [0, 1, 2, 4, 8];
/// The first of the blocks that were never written.
const CLEAN: u64 = CHAINS.len() as u64 * BLOCKS;
const DELTA_BYTES: usize = 256;

type Reads<L> = Front<L, MemoryDisk>;

fn main() {
    let asked = Asked::of_arguments();
    let media = Media::new();
    if asked != Asked::List {
        print_machine();
        println!("{BLOCKS} blocks of 4 KiB of each kind; deltas of {DELTA_BYTES} bytes\n");
        for threads in [1, 2] {
            reads(&media, threads).print(asked.effort());
        }
        println!("cache: {:?}", media.cached.stats().expect("counts").cached);
        print_load("after");
    }
    let mut criterion = Criterion::default().configure_from_args();
    calls(&mut criterion, &media);
    criterion.final_summary();
}

fn disk() -> MemoryDisk {
    MemoryDisk::new(BlockSize::DEFAULT, CLEAN + BLOCKS)
}

struct Media {
    /// Blocks in ordinary memory, by their numbers.
    table: HashMap<u64, Box<[u8]>>,
    /// A journal that keeps all contents in ordinary memory.
    cached: Reads<FullBlock>,
    /// A journal that keeps no contents in ordinary memory.
    logged: Reads<ObjectLog>,
}

impl Media {
    fn new() -> Self {
        let images = images();
        let table = (0..BLOCKS).map(|block| (block, image(&images, block).into())).collect();
        // The cache is so large that none of its shares fills up early.
        let options = Options::<FullBlock>::new().lanes(1).index_frames(INDEX_FRAMES);
        let options = options.cache_bytes(4 * BLOCKS as usize * BLOCK);
        let cached = Journal::format(warm(LANE_BYTES), disk(), &options).expect("formats");
        let logged = front(ObjectLog::new(), clean(&images), 1);
        for block in 0..BLOCKS {
            whole(&cached, &images, block);
        }
        for (chain, length) in CHAINS.into_iter().enumerate() {
            for block in (chain as u64 * BLOCKS..).take(BLOCKS as usize) {
                whole(&logged, &images, block);
                for turn in 0..length {
                    let bytes = &image(&images, block + turn)[..DELTA_BYTES];
                    let patch = [Patch { at: turn as u32 * 512, bytes }];
                    let change = Change::Patches(&patch);
                    commit_change(&logged, block, change, Durability::Durable);
                }
            }
        }
        let in_lanes = logged.stats().expect("counts");
        assert_eq!(in_lanes.blocks as u64, CLEAN, "nothing went home");
        Self { table, cached, logged }
    }
}

fn whole<L: Policy + Clone + Send + Sync + 'static>(journal: &Reads<L>, images: &[u8], block: u64) {
    commit_change(journal, block, Change::Image(image(images, block)), Durability::Durable);
}

/// A device on which the last blocks have content.
fn clean(images: &[u8]) -> MemoryDisk {
    use journal_core::BlockDevice as _;
    let mut disk = disk();
    for block in (CLEAN..).take(BLOCKS as usize) {
        disk.write(BlockNumber(block), image(images, block)).expect("writes");
    }
    disk
}

/// The number of the next block, without a pattern.
#[inline]
fn scattered(thread: u64, turn: u64) -> u64 {
    ((thread << 32) + turn).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 & (BLOCKS - 1)
}

#[inline]
fn read<L: Policy + Clone + Send + Sync + 'static>(journal: &Reads<L>, block: u64) {
    let mut content = [0; BLOCK];
    journal.read(BlockNumber(block), &mut content).expect("reads");
    black_box(&content);
}

fn reads<'a>(media: &'a Media, threads: u64) -> Table<'a> {
    let count = if threads > 1 { "two threads, time per read over both" } else { "one thread" };
    let mut table = Table::new(format!("reads of a block, {count}"));
    let limit = "copied from a hash table";
    let mut row = |name: String, work: Box<dyn Fn(u64, u64) + Sync + 'a>| {
        table.row(name, limit, threads, None, move |count| match threads {
            1 => timed(count, |turn| work(0, turn)),
            _ => both(count, &work),
        });
    };
    row(limit.to_owned(), {
        Box::new(|thread, turn| {
            let mut content = [0; BLOCK];
            content.copy_from_slice(&media.table[&scattered(thread, turn)]);
            black_box(&content);
        })
    });
    row("dirty, in the cache".to_owned(), {
        Box::new(|thread, turn| read(&media.cached, scattered(thread, turn)))
    });
    for (chain, length) in CHAINS.into_iter().enumerate() {
        let name = match length {
            0 => "dirty, one whole frame".to_owned(),
            _ => format!("dirty, a whole frame and {length} deltas"),
        };
        let first = chain as u64 * BLOCKS;
        row(
            name,
            Box::new(move |thread, turn| read(&media.logged, first + scattered(thread, turn))),
        );
    }
    row("clean, from the device".to_owned(), {
        Box::new(|thread, turn| read(&media.logged, CLEAN + scattered(thread, turn)))
    });
    table
}

/// The calls that users wait for.
fn calls(criterion: &mut Criterion, media: &Media) {
    let media: &Media = media;
    let mut group = criterion.benchmark_group("read");
    let mut turn = 0;
    let mut next = move || {
        turn += 1;
        scattered(0, turn)
    };
    group.bench_function("dirty, in the cache", |bencher| {
        bencher.iter(|| read(&media.cached, next()));
    });
    group.bench_function("dirty, one whole frame", |bencher| {
        bencher.iter(|| read(&media.logged, next()));
    });
    group.bench_function("clean", |bencher| bencher.iter(|| read(&media.logged, CLEAN + next())));
    group.finish();
}
