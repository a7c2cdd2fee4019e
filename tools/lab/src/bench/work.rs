//! The work that benches ask journals for.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use journal_core::policy::{Change, Policy, Update};
use journal_core::{BlockDevice, BlockNumber, Durability, Operation};
use nvm_journal::{FullBlock, Journal, On, Options, Region};

use super::media::{Aligned, BLOCK, Nowhere, warm};

/// A front door on plain memory.
pub type Front<L = FullBlock, D = Nowhere> = Journal<L, On<Region, D>>;

/// Bytes of a lane: enough for the commits of any batch.
pub const LANE_BYTES: u64 = 64 << 20;

/// Frames of an index: no share of it is full before the lane is.
pub const INDEX_FRAMES: usize = 1 << 17;

/// A journal with `lanes` lanes. Its memory, and that of its index, was touched before.
pub fn front<L, D>(policy: L, disk: D, lanes: u16) -> Front<L, D>
where
    L: Policy + Clone + Send + Sync + 'static,
    D: BlockDevice + Clone + Send + 'static,
{
    front_of(policy, disk, lanes, LANE_BYTES, INDEX_FRAMES)
}

/// Like `front`, with lanes of `lane_bytes` bytes and an index of `index_frames` frames.
pub fn front_of<L, D>(
    policy: L,
    disk: D,
    lanes: u16,
    lane_bytes: u64,
    index_frames: usize,
) -> Front<L, D>
where
    L: Policy + Clone + Send + Sync + 'static,
    D: BlockDevice + Clone + Send + 'static,
{
    let options = Options::new().policy(policy).lanes(lanes).index_frames(index_frames);
    let options = options.index_at_once(true);
    let region = warm(u64::from(lanes) * lane_bytes + (1 << 20));
    Journal::format(region, disk, &options).expect("formats")
}

/// A value that lives until the program ends.
pub fn leaked<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

/// The contents that are written: a few blocks that stay in the cache.
pub fn images() -> Aligned {
    (0..16 * BLOCK).map(|at| (at * 7) as u8).collect()
}

pub fn image(images: &[u8], turn: u64) -> &[u8] {
    &images[(turn as usize % 16) * BLOCK..][..BLOCK]
}

/// Commits one whole block in one call.
#[inline]
pub fn commit_at_once<L, D>(journal: &Front<L, D>, images: &[u8], block: u64)
where
    L: Policy + Clone + Send + Sync + 'static,
    D: BlockDevice + Clone + Send + 'static,
{
    commit_change(journal, block, Change::Image(image(images, block)), Durability::Durable);
}

/// Commits one change in one call.
#[inline]
pub fn commit_change<L, D>(
    journal: &Front<L, D>,
    block: u64,
    change: Change<'_>,
    durability: Durability,
) where
    L: Policy + Clone + Send + Sync + 'static,
    D: BlockDevice + Clone + Send + 'static,
{
    let operations = [Operation::Update(Update::new(BlockNumber(block), change))];
    black_box(journal.commit(&operations, durability).is_ok());
}

/// The number of bytes of a lane that the record of one commit takes.
pub fn record_bytes<L, D, R>(journal: &Front<L, D>, commit: impl FnOnce() -> R) -> usize
where
    L: Policy + Clone + Send + Sync + 'static,
    D: BlockDevice + Clone + Send + 'static,
{
    let stored = || journal.stats().expect("counts").total().bytes;
    let before = stored();
    black_box(commit());
    (stored() - before) as usize
}

/// Empties a journal when `commits` commits of `blocks` blocks might not fit any more. It does so
/// rarely, because a checkpoint leaves the caches cold.
pub fn make_room<L, D>(journal: &Front<L, D>, commits: u64, blocks: u64)
where
    L: Policy + Clone + Send + Sync + 'static,
    D: BlockDevice + Clone + Send + 'static,
{
    let stats = journal.stats().expect("counts");
    let (total, geometry) = (stats.total(), journal.geometry());
    let frames = commits * blocks;
    let block_bytes = geometry.block_size.bytes() as u64;
    let bytes = total.used_bytes + frames * (block_bytes + 256) + commits * 256;
    // A policy may want more slots or log blocks than there are at all, and copes with that.
    let is_short = |free: u32, all: u64| u64::from(free) < frames.min(all / 2);
    if bytes > geometry.lane_bytes
        || stats.frames as u64 + frames > INDEX_FRAMES as u64 / 4
        || is_short(total.free_slots, geometry.lane_slots.into())
        || is_short(total.free_log_blocks, geometry.lane_log_blocks.into())
    {
        journal.checkpoint().expect("empties");
    }
}

/// Runs `work` on two threads, and takes the time from the first start to the last end.
pub fn both(count: u64, work: impl Fn(u64, u64) + Sync) -> Duration {
    together(2, count, work)
}

/// Like `both`, on `threads` threads. The first of them is the caller's.
pub fn together(threads: u64, count: u64, work: impl Fn(u64, u64) + Sync) -> Duration {
    let barrier = Barrier::new(threads as usize);
    let one = |thread: u64| {
        barrier.wait();
        let start = Instant::now();
        for turn in 0..count {
            work(thread, turn);
        }
        (start, Instant::now())
    };
    let one = &one;
    let times: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|other| scope.spawn(move || one(other))).collect();
        let first = one(0);
        let others = others.into_iter().map(|other| other.join().expect("does not panic"));
        core::iter::once(first).chain(others).collect()
    });
    let start = times.iter().map(|(start, _)| *start).min();
    let end = times.iter().map(|(_, end)| *end).max();
    start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start)
}
