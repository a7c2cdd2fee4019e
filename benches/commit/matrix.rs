//! Every policy, by bytes that change in a block, number of blocks, number of threads, and
//! durability.
//!
//! The store says which bytes change, as a range of the new image. The rest stays as it was. Each
//! row has blocks of its own, and writes them in turn, with other bytes each time.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use journal_core::policy::{Change, Span, Update};
use journal_core::{BlockNumber, BlockSize, Durability, Operation};
use nvm_journal::AnyPolicy;

use crate::threads::halves;
use lab::bench::media::{Aligned, BLOCK, Bare, MemoryDisk};
use lab::bench::work::{Front, both, front, leaked, make_room};
use lab::bench::{Effort, Table, timed};

/// Blocks of a row. The cache of old images holds the blocks of all rows.
const ROW_BLOCKS: u64 = 256;
/// Blocks of the disk, a quarter of which may be the disk-side log.
const DISK_BLOCKS: u64 = 1 << 14;
/// The number of different contents that are written.
const CONTENTS: usize = 16;
const LARGE: usize = 16 << 10;

/// What one row does, under each policy.
#[derive(Clone, Copy)]
struct Work {
    /// Bytes that change in each block.
    payload: usize,
    blocks: u64,
    threads: u64,
    durability: Durability,
}

const fn durable(payload: usize, blocks: u64, threads: u64) -> Work {
    Work { payload, blocks, threads, durability: Durability::Durable }
}

const fn deferred(payload: usize) -> Work {
    Work { payload, blocks: 1, threads: 1, durability: Durability::Deferred }
}

const WORKS: [Work; 13] = [
    durable(64, 1, 1),
    durable(256, 1, 1),
    durable(1024, 1, 1),
    durable(BLOCK, 1, 1),
    durable(LARGE, 1, 1),
    durable(256, 8, 1),
    durable(256, 64, 1),
    durable(BLOCK, 8, 1),
    durable(BLOCK, 64, 1),
    durable(256, 1, 2),
    durable(BLOCK, 1, 2),
    deferred(256),
    deferred(BLOCK),
];

impl Work {
    fn name(&self) -> String {
        let Self { payload, blocks, threads, .. } = self;
        let threads = if *threads > 1 { ", two threads" } else { "" };
        format!("{payload:>5} B x {blocks:>2}{threads}")
    }

    fn block_bytes(&self) -> usize {
        self.payload.max(BLOCK)
    }

    /// Images of a block, which differ in what changes alone.
    fn images(&self) -> Vec<Aligned> {
        // Xorshift: any generator will do.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 8) as u8
        };
        let mut image = || {
            let mut image = vec![0; self.block_bytes()];
            image[..self.payload].fill_with(&mut byte);
            image.into()
        };
        (0..CONTENTS).map(|_| image()).collect()
    }
}

/// The number of turns of one thread, in a line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Turns(AtomicU64);

impl Turns {
    /// Takes the next turn. Only one thread at a time may call it.
    fn take(&self) -> u64 {
        let turn = self.0.load(Ordering::Relaxed);
        self.0.store(turn + 1, Ordering::Relaxed);
        turn
    }
}

/// A row that is measured.
struct Run {
    work: Work,
    images: Vec<Aligned>,
    ranges: [Span; 1],
    /// The first of its blocks.
    first: u64,
    /// The turns so far, by thread.
    turns: [Turns; 2],
}

impl Run {
    fn new(work: Work, first: u64) -> Self {
        let ranges = [Span { at: 0, len: work.payload as u32 }];
        Self { work, images: work.images(), ranges, first, turns: Default::default() }
    }

    fn change(&self, turn: u64) -> Change<'_> {
        let passes = turn * self.work.blocks / (ROW_BLOCKS / self.work.threads);
        let image = &self.images[passes as usize % CONTENTS];
        if self.work.payload == image.len() {
            return Change::Image(image);
        }
        Change::Ranges { image, ranges: &self.ranges }
    }

    #[inline]
    fn commit(&self, journal: &Front<AnyPolicy, MemoryDisk>, thread: u64) {
        let turn = self.turns[thread as usize].take();
        let blocks = ROW_BLOCKS / self.work.threads;
        let first = self.first + thread * blocks + turn * self.work.blocks % blocks;
        let update = |block| Operation::Update(Update::new(block, self.change(turn)));
        let durability = self.work.durability;
        let done = if self.work.blocks == 1 {
            journal.commit(&[update(BlockNumber(first))], durability)
        } else {
            let blocks = (first..first + self.work.blocks).map(BlockNumber);
            journal.commit(&blocks.map(update).collect::<Vec<_>>(), durability)
        };
        black_box(done.expect("commits"));
    }

    /// Commits each of its blocks once, so that no measured commit meets new memory.
    fn warm(&self, journal: &Front<AnyPolicy, MemoryDisk>) {
        let Work { blocks, threads, .. } = self.work;
        for thread in 0..threads {
            for _ in 0..ROW_BLOCKS / threads / blocks {
                make_room(journal, 1, blocks);
                self.commit(journal, thread);
            }
        }
    }

    fn limit(&self, bare: &[Mutex<Bare>; 2], thread: u64, turn: u64) {
        let Work { payload, blocks, .. } = self.work;
        let mut bare = bare[thread as usize].lock().expect("no thread panics");
        let piece = |block| &self.images[(turn + block) as usize % CONTENTS][..payload];
        bare.commit((0..blocks).map(piece), payload * blocks as usize);
    }

    fn on(&self, count: u64, work: impl Fn(u64, u64) + Sync) -> Duration {
        if self.work.threads > 1 { both(count, work) } else { timed(count, |turn| work(0, turn)) }
    }
}

pub(crate) fn print(effort: Effort) {
    let bare = halves();
    for policy in AnyPolicy::ALL {
        table(*policy, bare).print(effort);
    }
}

fn table(policy: AnyPolicy, bare: &'static [Mutex<Bare>; 2]) -> Table<'static> {
    let title = format!("{policy}: bytes changed x blocks; two threads: time per commit over both");
    let mut table = Table::new(title);
    let journal = |block_bytes: usize| {
        let block_size = BlockSize::new(block_bytes as u32).expect("a power of two");
        &*leaked(front(policy, MemoryDisk::new(block_size, DISK_BLOCKS), 2))
    };
    let (small, large) = (journal(BLOCK), journal(LARGE));
    for (work, row) in WORKS.into_iter().zip(0..) {
        let run: &Run = leaked(Run::new(work, row * ROW_BLOCKS));
        let versus = format!("{}, limit", work.name());
        let journal = if work.block_bytes() == BLOCK { small } else { large };
        let mut name = work.name();
        if work.durability == Durability::Durable {
            table.row(versus.clone(), &versus, work.threads, None, move |count| {
                run.on(count, |thread, turn| run.limit(bare, thread, turn))
            });
        } else {
            name += ", deferred";
        }
        run.warm(journal);
        table.row(name, &versus, work.threads, None, move |count| {
            make_room(journal, count * work.threads, work.blocks);
            run.on(count, |thread, _| run.commit(journal, thread))
        });
    }
    table
}
