//! What a transaction costs beside the bare medium.
//!
//! `cargo bench --bench commit` prints the interleaved table first (`-- --quick` for a short one),
//! then runs criterion over the few calls that users wait for. The *limit* of a row is to stream as
//! many bytes of payload and fence, in the same rounds.
//!
//! The medium is plain memory, larger than the caches, and the device throws everything away: what
//! is measured is the journal. Lanes are emptied between batches, outside the measurement.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::std_instead_of_core, reason = "a program")]

mod support;

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use journal_core::policy::{ApplyError, Change, Encoder, Placement, Policy, PolicyId, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, Durability, Geometry, NoHook,
    Offset, Operation, Overwrite, Pmem, PmemRead as _, PmemSplit as _, Protocol,
};
use nvm_journal::{Buffers, FullBlock, Journal, Options, Region};
use pmem_sys::NativeKernels;
use support::{Effort, Table, print_load, print_machine, timed};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 1 << 12;
/// Room for more commits than any batch has.
const LANE_BYTES: u64 = 64 << 20;

type Front = Journal<FullBlock, Region, Nowhere>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if !has("--list") {
        let (rounds, micros) = match (has("--bench"), has("--quick")) {
            // Started by `cargo test`: does it run at all?
            (false, _) => (1, 10),
            (true, true) => (21, 200),
            (true, false) => (101, 400),
        };
        tables(Effort { rounds, batch: Duration::from_micros(micros) });
    }
    let mut criterion = Criterion::default().configure_from_args();
    calls(&mut criterion);
    criterion.final_summary();
}

/// A device that throws away what is written, and reads as zeroes.
#[derive(Clone, Copy, Debug)]
struct Nowhere;

impl BlockDevice for Nowhere {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew)
    }

    fn block_size(&self) -> BlockSize {
        BlockSize::DEFAULT
    }

    fn block_count(&self) -> u64 {
        BLOCKS
    }

    fn read(&mut self, _first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        into.fill(0);
        Ok(())
    }

    fn write(&mut self, _first: BlockNumber, _from: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

fn front(lanes: u16) -> Front {
    let options = Options::new().lanes(lanes).lane_bytes(LANE_BYTES).index_frames(1 << 15);
    let region = warm(u64::from(lanes) * LANE_BYTES + (1 << 20));
    Journal::format(region, Nowhere, &options).expect("formats")
}

/// Memory whose every page was touched.
fn warm(bytes: u64) -> Region {
    let mut region = Region::anonymous(bytes).expect("memory");
    for at in (0..region.len()).step_by(BLOCK) {
        region.store(Offset(at), &[1; 64]);
    }
    region
}

/// What is written: a few blocks that stay in the cache.
fn images() -> Vec<u8> {
    (0..16 * BLOCK).map(|at| (at * 7) as u8).collect()
}

fn image(images: &[u8], turn: u64) -> &[u8] {
    &images[(turn as usize % 16) * BLOCK..][..BLOCK]
}

/// The bare medium: stream and fence, going round.
struct Bare {
    region: Region,
    next: u64,
}

impl Bare {
    fn new(region: Region) -> Self {
        Self { region, next: 0 }
    }

    #[inline]
    fn commit<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>, bytes: usize) {
        if self.next + bytes as u64 > self.region.len() {
            self.next = 0;
        }
        for piece in pieces {
            self.region.stream(Offset(self.next), piece);
            self.next += piece.len() as u64;
        }
        self.region.fence().expect("plain memory does not fail");
    }
}

/// One transaction of `count` neighbouring blocks, durable.
#[inline]
fn commit(journal: &Front, images: &[u8], first: u64, count: u64) {
    let mut tx = journal.begin().expect("begins");
    for block in 0..count {
        tx.write(BlockNumber(first + block), image(images, first + block)).expect("fits");
    }
    black_box(tx.commit().is_ok());
}

/// The same in one call, with the images where they are.
#[inline]
fn commit_at_once(journal: &Front, images: &[u8], block: u64) {
    let operations = [Operation::write(BlockNumber(block), image(images, block))];
    black_box(journal.commit(&operations, Durability::Durable).is_ok());
}

/// Empties the lanes when so many commits of so many blocks might not fit any more. Not before
/// every batch: a checkpoint leaves nothing in the caches.
fn make_room(journal: &Front, commits: u64, blocks: u64) {
    let used = journal.stats().expect("counts").total().used_bytes;
    if used + commits * (blocks * (BLOCK as u64 + 256) + 256) > LANE_BYTES {
        journal.checkpoint().expect("empties");
    }
}

/// Runs on both threads at once, and takes the time from the first start to the last end.
fn both(count: u64, work: impl Fn(u64, u64) + Sync) -> Duration {
    let barrier = Barrier::new(2);
    let one = |thread: u64| {
        barrier.wait();
        let start = Instant::now();
        for turn in 0..count {
            work(thread, turn);
        }
        (start, Instant::now())
    };
    let one = &one;
    let ((start, end), (other_start, other_end)) = std::thread::scope(|scope| {
        let other = scope.spawn(move || one(1));
        (one(0), other.join().expect("does not panic"))
    });
    end.max(other_end) - start.min(other_start)
}

fn tables(effort: Effort) {
    print_machine();
    println!("medium: plain memory, lanes of {} MiB, blocks of 4 KiB", LANE_BYTES >> 20);
    println!("checks: {}", NativeKernels::detect());
    println!();
    let images = images();
    whole_blocks(&images).print(effort);
    protocols(&images).print(effort);
    two_threads(&images).print(effort);
    print_load("after");
}

fn whole_blocks(images: &[u8]) -> Table<'_> {
    let mut table = Table::new("durable transactions of whole blocks, one thread, full-block");
    let bare = RefCell::new(Bare::new(warm(LANE_BYTES)));
    let bare: &'static RefCell<Bare> = Box::leak(Box::new(bare));
    let journal: &'static Front = Box::leak(Box::new(front(1)));
    for blocks in [1_u64, 8, 64] {
        let versus = format!("{blocks:>2} blocks, limit");
        table.row(versus.clone(), &versus, 1, None, move |count| {
            let mut bare = bare.borrow_mut();
            timed(count, |turn| {
                let pieces = (0..blocks).map(|block| image(images, turn + block));
                bare.commit(pieces, blocks as usize * BLOCK);
            })
        });
        let name = format!("{blocks:>2} blocks, front door");
        table.row(name, &versus, 1, None, move |count| {
            make_room(journal, count, blocks);
            timed(count, |turn| commit(journal, images, turn * blocks % (BLOCKS - 64), blocks))
        });
    }
    for blocks in [8_usize, 64] {
        let name = format!("{blocks:>2} blocks, front door, in one call");
        let versus = format!("{blocks:>2} blocks, limit");
        table.row(name, &versus, 1, None, move |count| {
            make_room(journal, count, blocks as u64);
            timed(count, |turn| {
                let first = turn * blocks as u64 % (BLOCKS - 64);
                let write = |at| Operation::write(BlockNumber(first + at), image(images, at));
                let operations: Vec<_> = (0..blocks as u64).map(write).collect();
                black_box(journal.commit(&operations, Durability::Durable).is_ok());
            })
        });
    }
    let versus = " 1 blocks, limit";
    table.row(" 1 blocks, front door, in one call", versus, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| commit_at_once(journal, images, turn % BLOCKS))
    });
    table.row(" 1 blocks, front door, transact", versus, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| {
            let block = BlockNumber(turn % BLOCKS);
            journal.transact(|tx| tx.write(block, image(images, turn))).expect("commits");
        })
    });
    table.row(" 1 blocks, front door, deferred", versus, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| {
            let mut tx = journal.begin().expect("begins");
            tx.write(BlockNumber(turn % BLOCKS), image(images, turn)).expect("fits");
            black_box(tx.commit_deferred().is_ok());
        })
    });
    let one_owner = one_owner(images, FullBlock, Protocol::OneFence);
    table.row(" 1 blocks, core, one owner", versus, 1, None, one_owner);
    table
}

/// The default protocol, and the two-fence one of the published systems.
fn protocols(images: &[u8]) -> Table<'_> {
    let mut table = Table::new("one fence and two (tail pointer), core, one owner");
    for (protocol, fences) in [(Protocol::OneFence, "one fence"), (Protocol::TailPointer, "two")] {
        let of = |payload| format!("{payload}, {fences}");
        let versus = |payload| format!("{payload}, one fence");
        let whole = one_owner(images, FullBlock, protocol);
        table.row(of("4 KiB"), &versus("4 KiB"), 1, None, whole);
        let line = one_owner(images, FirstLine, protocol);
        table.row(of("64 B"), &versus("64 B"), 1, None, line);
    }
    table
}

/// Logs the first line of a block, and nothing else.
#[derive(Clone, Copy, Debug)]
struct FirstLine;

impl Policy for FirstLine {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E58)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        match update.change {
            Change::Image(image) if out.put(&image[..64]).is_ok() => Placement::Encoded,
            _ => Placement::Image,
        }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        let place = block.get_mut(..payload.len()).ok_or(ApplyError::OutOfBlock { at: 0 })?;
        place.copy_from_slice(payload);
        Ok(())
    }
}

/// The core's own journal, which has no locks.
fn one_owner<L: Policy + 'static>(
    images: &[u8],
    policy: L,
    protocol: Protocol,
) -> impl FnMut(u64) -> Duration + use<'_, L> {
    let geometry = Geometry {
        block_size: BlockSize::DEFAULT,
        lanes: 1,
        lane_bytes: LANE_BYTES,
        shield_blocks: 0,
        unit_bytes: 4096,
        protocol,
        lane_slots: 0,
        lane_log_blocks: 0,
        segment_blocks: 0,
    };
    let kernels = NativeKernels::detect();
    let mut region = warm(LANE_BYTES + (1 << 20));
    let id = [1; 16];
    journal_core::format(&mut region, NoHook, &kernels, &geometry, id, &policy, BLOCKS)
        .expect("formats");
    let buffers: &'static mut _ = Box::leak(Box::new(Buffers::new(&geometry, 1 << 15, 256)));
    let mut journal =
        journal_core::Journal::open(region, Nowhere, policy, NoHook, kernels, buffers.borrow())
            .expect("opens");
    let mut commits = 0;
    move |count| {
        commits += count;
        if commits * (BLOCK as u64 + 256) > LANE_BYTES {
            journal.checkpoint().expect("empties");
            commits = count;
        }
        timed(count, |turn| {
            let change = Change::Image(image(images, turn));
            let update = Update::new(BlockNumber(turn % BLOCKS), change);
            let operations = [Operation::Update(update)];
            let durable = Durability::Durable;
            black_box(journal.commit(LaneNumber(0), &operations, durable).is_ok());
        })
    }
}

fn two_threads(images: &[u8]) -> Table<'_> {
    let mut table = Table::new("two threads, one block each; time per block over both");
    let journal: &'static Front = Box::leak(Box::new(front(2)));
    let halves = warm(2 * LANE_BYTES).split_at(Offset(LANE_BYTES)).expect("on a line");
    let halves: &'static [std::sync::Mutex<Bare>; 2] = Box::leak(Box::new(
        [halves.0, halves.1].map(|half| std::sync::Mutex::new(Bare::new(half))),
    ));
    let bare = move |thread: u64, turn: u64| {
        let mut bare = halves[thread as usize].lock().expect("nobody panics");
        bare.commit(core::iter::once(image(images, turn)), BLOCK);
    };
    let one_limit = "limit, one thread";
    table.row(one_limit, one_limit, 1, None, move |count| timed(count, |turn| bare(0, turn)));
    table.row("limit, two threads", one_limit, 2, None, move |count| both(count, bare));
    let one = "front door, one thread";
    table.row(one, one, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| commit(journal, images, turn % (BLOCKS / 2), 1))
    });
    let apart = move |thread: u64, turn: u64| {
        commit(journal, images, thread * (BLOCKS / 2) + turn % (BLOCKS / 2), 1);
    };
    table.row("front door, two threads, blocks of their own", one, 2, None, move |count| {
        make_room(journal, 2 * count, 1);
        both(count, apart)
    });
    let once = "front door, one thread, in one call";
    table.row(once, once, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| commit_at_once(journal, images, turn % (BLOCKS / 2)))
    });
    let apart = move |thread: u64, turn: u64| {
        commit_at_once(journal, images, thread * (BLOCKS / 2) + turn % (BLOCKS / 2));
    };
    table.row("front door, two threads, in one call", once, 2, None, move |count| {
        make_room(journal, 2 * count, 1);
        both(count, apart)
    });
    let together = move |_: u64, turn: u64| {
        journal.transact(|tx| tx.write(BlockNumber(0), image(images, turn))).expect("gets through");
    };
    table.row("front door, two threads, the same block", one, 2, None, move |count| {
        make_room(journal, 2 * count, 1);
        both(count, together)
    });
    table
}

/// What users wait for.
fn calls(criterion: &mut Criterion) {
    let images = images();
    let mut group = criterion.benchmark_group("commit");
    let journal = front(1);
    for blocks in [1_u64, 8, 64] {
        let mut turn = 0;
        group.bench_function(format!("{blocks} blocks of 4 KiB"), |bencher| {
            let commits = |(): ()| {
                for _ in 0..16 {
                    turn += blocks;
                    commit(&journal, &images, turn % (BLOCKS - 64), blocks);
                }
            };
            let empty = || {
                let used = journal.stats().expect("counts").total().used_bytes;
                if used > LANE_BYTES / 2 {
                    journal.checkpoint().expect("empties");
                }
            };
            bencher.iter_batched(empty, commits, BatchSize::PerIteration);
        });
    }
    group.finish();
}
