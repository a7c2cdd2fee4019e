//! What it costs to find the content of a journal again.
//!
//! `cargo bench --bench recovery` compares the scan, which verifies every record, with a plain read
//! of the same bytes. It also prints how long an open takes (`-- --quick` for short tables). Then
//! it runs criterion over one open. The scan is `examine`, which reads what an open reads, and
//! builds no index.
//!
//! The medium is plain memory with pages of 4 KiB.
#![allow(clippy::print_stdout, reason = "a bench prints its tables")]
#![allow(clippy::std_instead_of_core, reason = "a program")]

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use journal_core::parts::Found;
use journal_core::policy::{Change, Patch, Policy, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, BlockSize, Buffers, Durability, EXAMINE_BYTES_MAX, Geometry, Needs, NoHook, On,
    Operation, Pmem as _, PmemShare as _, examine,
};
use lab::bench::media::{BLOCK, Folder, Nowhere, copy_of, memory_with, sum, warm};
use lab::bench::work::{Front, commit_at_once, image, images, leaked};
use lab::bench::{Asked, Effort, Table, print_load, print_machine, quantile, timed};
use nvm_journal::{FullBlock, Journal, MapOptions, ObjectLog, Options, Region};
use pmem_sys::NativeKernels;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const BLOCKS: u64 = 1 << 16;
const NOWHERE: Nowhere = Nowhere { blocks: BLOCKS };

/// Names a journal's file to a child process. The child opens it, prints how long that took, and
/// ends.
const OPENED: &str = "RECOVERY_BENCH_OPENS";

fn main() {
    if let Some(file) = std::env::var_os(OPENED) {
        println!("{}", open_file(Path::new(&file)).as_nanos());
        return;
    }
    let asked = Asked::of_arguments();
    if asked != Asked::List {
        print_machine();
        println!("checks: {}\n", NativeKernels::detect());
        let effort = Effort { rounds: asked.of(1, 5, 31), ..asked.effort() };
        records(asked.of(4, 64, 64) * MIB).print(effort);
        threads(asked.of(8, 64, 64) * MIB).print(effort);
        sizes(asked.of(&[4][..], &[4, 64, 256], &[4, 64, 256, 1024])).print(effort);
        print_opens(asked);
        print_load("after");
    }
    let mut criterion = Criterion::default().configure_from_args();
    opens(&mut criterion);
    criterion.final_summary();
}

/// A journal with one owner.
type Owned<'m, L> = journal_core::Journal<'m, L, On<Region, Nowhere, NoHook, NativeKernels>>;

/// A journal as it lies in memory, and the size of its content.
struct Left {
    bytes: Vec<u8>,
    geometry: Geometry,
    records: u64,
    used_bytes: u64,
}

/// Formats a journal and fills its lanes in turn, up to `fill_bytes` bytes. Each commit makes one
/// change, with a payload of `payload` bytes. The journal is then left without a close.
fn left<L: Policy + Clone>(
    policy: L,
    lanes: u16,
    span_bytes: u64,
    (fill_bytes, payload): (u64, usize),
    change: impl Fn(u64, &mut dyn FnMut(Change<'_>)),
) -> Left {
    let mut region = warm(span_bytes);
    let reader = region.reader();
    let options = Options::new().policy(policy.clone()).lanes(lanes);
    let plan = options.plan(span_bytes, BlockSize::DEFAULT).expect("has room");
    let (geometry, kernels) = (plan.geometry, NativeKernels::detect());
    journal_core::format(&mut region, NoHook, &kernels, &geometry, [1; 16], &policy, BLOCKS)
        .expect("formats");
    let frames = fill_bytes as usize / payload * 2 + 1024;
    let mut buffers = Buffers::new(&geometry, frames, 256);
    let opened = Owned::open(region, NOWHERE, policy, NoHook, kernels, buffers.borrow());
    let mut journal = opened.expect("opens");
    let mut commit = |turn: u64| {
        let lane = LaneNumber((turn % u64::from(lanes)) as u16);
        change(turn, &mut |change| {
            let update = Operation::Update(Update::new(BlockNumber(turn % BLOCKS), change));
            journal.commit(lane, &[update], Durability::Durable).expect("fits");
        });
        let used = |lane| geometry.lane_bytes - journal.free_bytes(lane).expect("is there");
        (0..lanes).map(LaneNumber).map(used).sum::<u64>()
    };
    let records = fill_bytes / commit(0);
    let used_bytes = (1..records).fold(0, |_, turn| commit(turn));
    Left { bytes: copy_of(&reader), geometry, records, used_bytes }
}

/// A journal of whole blocks, in a lane that is nearly full.
fn of_blocks(images: &[u8], span_bytes: u64) -> Left {
    of_blocks_as_far_as(images, span_bytes, span_bytes / 16 * 15)
}

fn of_blocks_as_far_as(images: &[u8], span_bytes: u64, fill_bytes: u64) -> Left {
    of_blocks_in(1, images, span_bytes, fill_bytes)
}

fn of_blocks_in(lanes: u16, images: &[u8], span_bytes: u64, fill_bytes: u64) -> Left {
    left(FullBlock, lanes, span_bytes, (fill_bytes, BLOCK), |turn, commit| {
        commit(Change::Image(image(images, turn)));
    })
}

fn of_objects(lanes: u16, images: &[u8], span_bytes: u64, bytes: usize) -> Left {
    let fill_bytes = span_bytes / 16 * 15;
    left(ObjectLog::new(), lanes, span_bytes, (fill_bytes, bytes), |turn, commit| {
        commit(Change::Patches(&[Patch { at: 512, bytes: &image(images, turn)[..bytes] }]));
    })
}

impl Left {
    /// Memory that holds this journal.
    fn region(&self) -> Region {
        memory_with(&self.bytes)
    }

    /// Adds a scan beside a plain read of the journal's records, each per KiB of records.
    fn rows(self, table: &mut Table<'_>, name: &str) {
        let region: &Region = leaked(self.region());
        let Self { geometry, records, used_bytes, .. } = self;
        let kib = used_bytes / KIB;
        let versus = format!("{name}, plain read");
        table.row(versus.clone(), &versus, kib, None, move |count| {
            let start = geometry.lane(LaneNumber(0));
            timed(count, |_| {
                let bytes = region.bytes(start, used_bytes as usize).expect("reads");
                black_box(sum(bytes));
            })
        });
        let kernels = NativeKernels::detect();
        let mut scratch = vec![0; EXAMINE_BYTES_MAX];
        table.row(format!("{name}, scan"), &versus, kib, None, move |count| {
            timed(count, |_| {
                let found = examine(region, &kernels, &mut scratch).expect("examines");
                assert_eq!(found.lanes()[0].records, records);
            })
        });
    }

    /// Adds scans of the two lanes by one thread and by two, and plain reads.
    fn rows_by_two(self, table: &mut Table<'_>, name: &str) {
        let region = self.region();
        let reader: &Region = leaked(self.region());
        let Self { geometry, used_bytes, records, .. } = self;
        let kernels = NativeKernels::detect();
        let examined = examine(reader, &kernels, &mut vec![0; EXAMINE_BYTES_MAX]);
        let found: u64 = examined.expect("examines").lanes().iter().map(|lane| lane.records).sum();
        assert_eq!(records, found, "all that was committed is there");
        let found: &Found<_, _> =
            leaked(Found::load(region, NoHook, &kernels).expect("is a journal"));
        let (kib, front_bytes) = (used_bytes / KIB, Needs::of(&geometry, 1).front_bytes);
        let lane_bytes = used_bytes as usize / 2;
        for threads in [1, 2] {
            let versus = format!("{name}, plain read, one thread");
            let case = |what: &str| {
                format!("{name}, {what}, {}", if threads == 1 { "one thread" } else { "two" })
            };
            table.row(case("plain read"), &versus, kib, None, move |count| {
                timed(count, |_| {
                    for_both(threads, |lane| {
                        let bytes = reader.bytes(geometry.lane(lane), lane_bytes).expect("reads");
                        black_box(sum(bytes));
                    });
                })
            });
            let versus = format!("{name}, scan, one thread");
            table.row(case("scan"), &versus, kib, None, move |count| {
                timed(count, |_| {
                    for_both(threads, |lane| {
                        let mut front = vec![0; front_bytes];
                        let scan = found.unscanned().scan([lane], &kernels, &mut front);
                        black_box(scan.is_ok());
                    });
                })
            });
        }
    }
}

/// Does `work` for both lanes, on a thread each or one after the other.
fn for_both(threads: u64, work: impl Fn(LaneNumber) + Sync) {
    let lanes = [0, 1].map(LaneNumber);
    if threads == 1 {
        return lanes.into_iter().for_each(work);
    }
    std::thread::scope(|scope| {
        let [own, other] = lanes;
        let work = &work;
        scope.spawn(move || work(other));
        work(own);
    });
}

fn records(span_bytes: u64) -> Table<'static> {
    let mut table = Table::new(format!(
        "scan with verification, one lane of {} MiB; ns per KiB of records (1024 / ns: GB/s)",
        span_bytes / MIB
    ));
    let images = images();
    of_blocks(&images, span_bytes).rows(&mut table, "blocks of 4 KiB");
    for bytes in [1024, 256, 64] {
        let left = of_objects(1, &images, span_bytes, bytes);
        let name = format!("{bytes} B in {} B", left.used_bytes / left.records);
        left.rows(&mut table, &name);
    }
    table
}

/// Scans of two lanes, by one thread and by two. Each stands beside a plain read of the lanes'
/// bytes by the same number of threads.
fn threads(span_bytes: u64) -> Table<'static> {
    let mut table = Table::new(format!(
        "the scan of two lanes in {} MiB, by one thread and by two; ns per KiB over both",
        span_bytes / MIB
    ));
    let images = images();
    let fill_bytes = span_bytes / 16 * 15;
    of_blocks_in(2, &images, span_bytes, fill_bytes).rows_by_two(&mut table, "blocks of 4 KiB");
    for bytes in [256, 64] {
        let left = of_objects(2, &images, span_bytes, bytes);
        let name = format!("{bytes} B in {} B", left.used_bytes / left.records);
        left.rows_by_two(&mut table, &name);
    }
    table
}

fn sizes(mebibytes: &[u64]) -> Table<'static> {
    let mut table = Table::new("the scan by the size of the journal, blocks of 4 KiB");
    let images = images();
    for size in mebibytes {
        of_blocks(&images, size * MIB).rows(&mut table, &format!("{size:>4} MiB"));
    }
    table
}

/// Opens a journal `rounds` times, each time in memory of its own. The times are in milliseconds.
fn open_times(left: &Left, rounds: usize) -> Vec<f64> {
    let options = Options::<FullBlock>::new();
    let open = |_| {
        let region = left.region();
        let start = Instant::now();
        let journal: Front = Journal::open(region, NOWHERE, &options).expect("opens");
        let took = start.elapsed();
        assert_eq!(journal.stats().expect("counts").total().used_bytes, left.used_bytes);
        took
    };
    let times: Vec<Duration> = (0..rounds).map(open).collect();
    times.iter().map(|took| took.as_secs_f64() * 1e3).collect()
}

fn open_file(file: &Path) -> Duration {
    let region = MapOptions::new().open(file).expect("opens");
    let start = Instant::now();
    let journal: Front =
        Journal::open(region, NOWHERE, &Options::<FullBlock>::new()).expect("opens");
    let took = start.elapsed();
    drop(journal);
    took
}

/// Opens a closed journal in a file `rounds` times, each time in a new process. In an old process
/// the allocator may give the index used pages, and clear them first.
fn closed_open_times(images: &[u8], span_bytes: u64, rounds: usize) -> Vec<f64> {
    let folder = Folder::below(Path::new("/dev/shm"), "recovery-bench");
    let file = folder.path().join("nvm");
    let open = |_| {
        let region = MapOptions::new().create(&file, span_bytes).expect("a file");
        let journal: Front =
            Journal::format(region, NOWHERE, &Options::<FullBlock>::new()).expect("formats");
        (0..64).for_each(|block| commit_at_once(&journal, images, block));
        journal.close().expect("closes");
        let this = std::env::current_exe().expect("a path");
        let output = Command::new(this).env(OPENED, &file).output().expect("runs");
        std::fs::remove_file(&file).expect("is there");
        let nanos = String::from_utf8(output.stdout).expect("a number");
        nanos.trim().parse::<f64>().expect("a number") / 1e6
    };
    (0..rounds).map(open).collect()
}

fn print_opens(asked: Asked) {
    let rounds = asked.of(1, 5, 21);
    let images = images();
    println!("## open, full-block, one lane, {rounds} times each");
    println!("{:<44} {:>9} {:>9} {:>9} {:>9}", "case", "live MiB", "ms", "p10", "p90");
    let print = |name: &str, live_bytes: u64, times: &[f64]| {
        let [p50, p10, p90] = [0.5, 0.1, 0.9].map(|share| quantile(times, share));
        println!("{name:<44} {:>9} {p50:>9.3} {p10:>9.3} {p90:>9.3}", live_bytes / MIB);
    };
    for span in asked.of(&[16][..], &[64, 1024], &[64, 256, 1024]) {
        let times = closed_open_times(&images, span * MIB, rounds);
        print(&format!("{span} MiB, closed, another process"), 0, &times);
    }
    let span = asked.of(16, 256, 256);
    for fill in [span / 16, span / 4, span / 2, span / 16 * 15] {
        let left = of_blocks_as_far_as(&images, span * MIB, fill * MIB);
        print(&format!("{span} MiB, crashed"), left.used_bytes, &open_times(&left, rounds));
    }
    println!();
}

/// The call that users wait for.
fn opens(criterion: &mut Criterion) {
    let left = of_blocks(&images(), 16 * MIB);
    let options = Options::<FullBlock>::new();
    let mut group = criterion.benchmark_group("recovery");
    group.bench_function("open after a crash, 15 MiB in use", |bencher| {
        let open = |region| Front::open(region, NOWHERE, &options).expect("opens");
        bencher.iter_batched(|| left.region(), open, BatchSize::PerIteration);
    });
    group.finish();
}
