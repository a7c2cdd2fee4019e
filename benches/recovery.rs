//! What it takes to find again what is in a journal.
//!
//! `cargo bench --bench recovery` prints how the scan that verifies every record does beside a
//! plain read of the same bytes, and how long an open takes (`-- --quick` for short tables); then
//! it runs criterion over one open. The scan is `examine`, which reads what an open reads, and
//! builds no index.
//!
//! The medium is plain memory with pages of 4 KiB. Lanes are walked one after the other, by one
//! thread, as recovery does.
#![allow(clippy::print_stdout, reason = "a bench prints its tables")]
#![allow(clippy::std_instead_of_core, reason = "a program")]

mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use journal_core::policy::{Change, Patch, Policy};
use journal_core::units::LaneNumber;
use journal_core::{
    Durability, EXAMINE_BYTES_MAX, Geometry, Offset, Pmem as _, PmemRead as _, PmemShare as _,
    examine,
};
use nvm_journal::{FullBlock, Journal, ObjectLog, Options, Region};
use pmem_sys::NativeKernels;
use support::media::{BLOCK, Nowhere, warm};
use support::work::{Front, commit_change, image, images, leaked};
use support::{Asked, Effort, Table, print_load, print_machine, quantile, timed};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const BLOCKS: u64 = 1 << 16;
const NOWHERE: Nowhere = Nowhere { blocks: BLOCKS };
/// Memory is copied in pieces of so many bytes.
const PIECE: usize = 1 << 20;

fn main() {
    let asked = Asked::of_arguments();
    if asked != Asked::List {
        print_machine();
        println!("checks: {}\n", NativeKernels::detect());
        let effort = Effort { rounds: asked.of(1, 5, 31), ..asked.effort() };
        records(asked.of(4, 64, 64) * MIB).print(effort);
        sizes(asked.of(&[4][..], &[4, 64, 256], &[4, 64, 256, 1024])).print(effort);
        print_opens(asked);
        print_load("after");
    }
    let mut criterion = Criterion::default().configure_from_args();
    opens(&mut criterion);
    criterion.final_summary();
}

/// A journal as it lies in memory, and what is in it.
struct Left {
    bytes: Vec<u8>,
    geometry: Geometry,
    records: u64,
    used_bytes: u64,
}

/// How the journal's owner goes.
#[derive(Clone, Copy)]
enum End {
    Closes,
    Crashes,
}

/// Formats a journal and fills it, as far as so many bytes, with commits of such a change, the
/// payload of which has so many bytes.
fn left<L: Policy + Clone + Send + Sync + 'static>(
    policy: L,
    span_bytes: u64,
    (fill_bytes, payload): (u64, usize),
    end: End,
    change: impl Fn(u64, &mut dyn FnMut(Change<'_>)),
) -> Left {
    let region = warm(span_bytes);
    let reader = region.reader();
    // No share of the index is to be full before the lane is.
    let frames = fill_bytes as usize / payload * 2 + 1024;
    let options = Options::new().policy(policy).lanes(1).index_frames(frames);
    let journal: Front<L> = Journal::format(region, NOWHERE, &options).expect("formats");
    let used = || journal.stats().expect("counts").total().used_bytes;
    let commit = |turn| {
        change(turn, &mut |change| {
            commit_change(&journal, turn % BLOCKS, change, Durability::Durable);
        });
    };
    commit(0);
    let records = fill_bytes / used();
    (1..records).for_each(commit);
    let (geometry, used_bytes) = (*journal.geometry(), used());
    match end {
        End::Closes => journal.close().expect("closes"),
        End::Crashes => drop(journal),
    }
    let mut bytes = vec![0; span_bytes as usize];
    for (at, piece) in (0..).step_by(PIECE).zip(bytes.chunks_mut(PIECE)) {
        reader.read_into(Offset(at), piece).expect("reads");
    }
    Left { bytes, geometry, records, used_bytes }
}

/// One of whole blocks, in a lane that is nearly full.
fn of_blocks(images: &[u8], span_bytes: u64) -> Left {
    of_blocks_as_far_as(images, span_bytes, span_bytes / 16 * 15, End::Crashes)
}

fn of_blocks_as_far_as(images: &[u8], span_bytes: u64, fill_bytes: u64, end: End) -> Left {
    left(FullBlock, span_bytes, (fill_bytes, BLOCK), end, |turn, commit| {
        commit(Change::Image(image(images, turn)));
    })
}

fn of_objects(images: &[u8], span_bytes: u64, bytes: usize) -> Left {
    let fill_bytes = span_bytes / 16 * 15;
    left(ObjectLog::new(), span_bytes, (fill_bytes, bytes), End::Crashes, |turn, commit| {
        commit(Change::Patches(&[Patch { at: 512, bytes: &image(images, turn)[..bytes] }]));
    })
}

impl Left {
    /// Memory with this journal in it.
    fn region(&self) -> Region {
        let mut region = Region::anonymous(self.bytes.len() as u64).expect("memory");
        for (at, piece) in (0..).step_by(PIECE).zip(self.bytes.chunks(PIECE)) {
            region.store(Offset(at), piece);
        }
        region
    }

    /// A scan of it beside a plain read of its records, per KiB of them.
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
}

/// Reads every word.
fn sum(bytes: &[u8]) -> u64 {
    let mut sums = [0_u64; 8];
    for line in bytes.chunks_exact(64) {
        for (sum, word) in sums.iter_mut().zip(line.chunks_exact(8)) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            *sum = sum.wrapping_add(word);
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

fn records(span_bytes: u64) -> Table<'static> {
    let mut table = Table::new(format!(
        "scan with verification, one lane of {} MiB; ns per KiB of records (1024 / ns: GB/s)",
        span_bytes / MIB
    ));
    let images = images();
    of_blocks(&images, span_bytes).rows(&mut table, "blocks of 4 KiB");
    for bytes in [1024, 256, 64] {
        let left = of_objects(&images, span_bytes, bytes);
        let name = format!("{bytes} B in {} B", left.used_bytes / left.records);
        left.rows(&mut table, &name);
    }
    table
}

fn sizes(mebibytes: &[u64]) -> Table<'static> {
    let mut table = Table::new("the same by the size of the journal, blocks of 4 KiB");
    let images = images();
    for size in mebibytes {
        of_blocks(&images, size * MIB).rows(&mut table, &format!("{size:>4} MiB"));
    }
    table
}

/// Bytes of memory that can be had.
fn available_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * KIB
}

/// Opens a journal so many times, each in memory of its own; the times in milliseconds.
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

fn print_opens(asked: Asked) {
    let rounds = asked.of(1, 5, 21);
    let images = images();
    println!("## open, full-block, one lane, {rounds} times each");
    println!("{:<44} {:>9} {:>9} {:>9} {:>9}", "case", "live MiB", "ms", "p10", "p90");
    let print = |name: &str, left: &Left| {
        let times = open_times(left, rounds);
        println!(
            "{name:<44} {:>9} {:>9.3} {:>9.3} {:>9.3}",
            left.used_bytes / MIB,
            quantile(&times, 0.5),
            quantile(&times, 0.1),
            quantile(&times, 0.9),
        );
    };
    let of_blocks =
        |span: u64, fill: u64, end| of_blocks_as_far_as(&images, span * MIB, fill * MIB, end);
    let large = asked.of(16, 1024, 1024);
    // The memory of the journal, and a copy.
    if available_bytes() > 3 * large * MIB {
        let mut closed = of_blocks(large, large / 16, End::Closes);
        closed.used_bytes = 0;
        print(&format!("{large} MiB, closed"), &closed);
    } else {
        println!("LEFT OUT: {large} MiB, closed: {} MiB are free", available_bytes() / MIB);
    }
    let span = asked.of(16, 256, 256);
    for fill in [span / 16, span / 4, span / 2, span / 16 * 15] {
        print(&format!("{span} MiB, crashed"), &of_blocks(span, fill, End::Crashes));
    }
    println!();
}

/// What users wait for.
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
