//! What making bytes durable costs on this machine, by each method it has.
//!
//! `cargo bench --bench primitives` prints the interleaved table first (`-- --quick` for a short
//! one). Then it runs criterion over the few operations that users wait for. The column "reference"
//! has the ratios of another machine: Emerald Rapids, DRAM through clwb/ntstore. Compare ratios,
//! not nanoseconds.
//!
//! The medium is plain memory, larger than the caches. No persistent memory is needed, and none is
//! measured.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::std_instead_of_core, reason = "a program")]

use std::cell::{RefCell, RefMut};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use journal_core::{Offset, Pmem, PmemRead, PmemSplit};
use lab::bench::{Effort, Table, print_load, print_machine, timed};
use pmem_sys::{FlushMethod, Method, Region, StreamMethod};

const LINE: usize = 64;
const PAGE: usize = 4096;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if !has("--list") {
        let milliseconds = Duration::from_millis;
        let (effort, mebibytes) = if !has("--bench") {
            // Started by `cargo test`, which only asks whether it runs.
            (Effort { rounds: 1, batch: milliseconds(1) / 100 }, 2)
        } else if has("--quick") {
            (Effort { rounds: 15, batch: milliseconds(1) / 5 }, 256)
        } else {
            (Effort { rounds: 101, batch: milliseconds(2) / 5 }, 256)
        };
        tables(effort, mebibytes << 20);
    }
    let mut criterion = Criterion::default().configure_from_args();
    commits(&mut criterion);
    criterion.final_summary();
}

/// A region and where the next operation goes.
struct Lane {
    region: Region,
    next: usize,
    len: usize,
    /// What is written: a few pages, always in the cache.
    source: Vec<u8>,
}

impl Lane {
    fn new(mut region: Region) -> Self {
        let len = region.len() as usize;
        let source = (0..16 * PAGE).map(|index| index as u8).collect::<Vec<_>>();
        // Touches every page, so that no measurement meets a new one.
        for at in (0..len).step_by(PAGE) {
            region.store(Offset(at as u64), &source[..LINE]);
        }
        Self { region, next: 0, len, source }
    }

    /// Goes on by `stride`, or back to the start, and returns a place for `bytes` bytes.
    #[inline]
    fn advance(&mut self, stride: usize, bytes: usize) -> Offset {
        self.next += stride;
        if self.next + bytes > self.len {
            self.next = 0;
        }
        Offset(self.next as u64)
    }

    #[inline]
    fn store_and_flush(&mut self, at: Offset, bytes: usize, turn: u64) {
        let from = (turn as usize & 3) * PAGE;
        self.region.store(at, &self.source[from..from + bytes]);
        self.region.flush(at, bytes);
    }

    #[inline]
    fn stream(&mut self, at: Offset, bytes: usize, turn: u64) {
        let from = (turn as usize & 3) * PAGE;
        self.region.stream(at, &self.source[from..from + bytes]);
    }

    #[inline]
    fn fence(&mut self) {
        self.region.fence().expect("plain memory does not fail");
    }
}

/// One piece of memory, half for each of two threads. All methods share it: when two threads
/// stream, the choice of pages makes a difference of a tenth.
struct Memory {
    lanes: [RefCell<Lane>; 2],
}

impl Memory {
    fn new(len: usize) -> Self {
        let region = Region::anonymous(len as u64).expect("memory");
        let (first, second) = region.split_at(Offset(len as u64 / 2)).expect("on a line");
        Self { lanes: [first, second].map(|half| RefCell::new(Lane::new(half))) }
    }

    fn lane(&self, number: usize, method: Method) -> RefMut<'_, Lane> {
        let mut lane = self.lanes[number].borrow_mut();
        lane.region.set_method(method).expect("it flushes");
        lane
    }
}

/// The memory, written by one method.
struct Medium<'a> {
    method: Method,
    memory: &'a Memory,
}

impl Medium<'_> {
    /// `count` operations on the first half.
    fn run(&self, count: u64, mut work: impl FnMut(&mut Lane, u64)) -> Duration {
        let mut lane = self.memory.lane(0, self.method);
        timed(count, |turn| work(&mut lane, turn))
    }

    /// `count` operations on each half, at the same time.
    fn run_both(&self, count: u64, work: impl Fn(&mut Lane, u64) + Sync) -> Duration {
        let mut first = self.memory.lane(0, self.method);
        let mut second = self.memory.lane(1, self.method);
        let barrier = Barrier::new(2);
        let one = |lane: &mut Lane| {
            barrier.wait();
            let start = Instant::now();
            timed(count, |turn| work(lane, turn));
            (start, Instant::now())
        };
        let (first, second) = (&mut *first, &mut *second);
        let ((start, end), (other_start, other_end)) = crossbeam::scope(|scope| {
            let other = scope.spawn(|_| one(second));
            (one(first), other.join().expect("a lane does not panic"))
        })
        .expect("a lane does not panic");
        end.max(other_end) - start.min(other_start)
    }
}

/// Every method worth a row: each flush with the best stream, each stream with the best flush.
struct Media<'a> {
    flushes: Vec<(FlushMethod, Medium<'a>)>,
    streams: Vec<(StreamMethod, Medium<'a>)>,
}

impl<'a> Media<'a> {
    fn new(memory: &'a Memory) -> Self {
        let best = Method::best();
        let medium = |flush, stream| {
            // On a processor without a line flush there is one method, and it is the best.
            let method = Method::new(flush, stream).unwrap_or(best);
            Medium { method, memory }
        };
        let mut flushes: Vec<_> =
            FlushMethod::supported().map(|flush| (flush, medium(flush, best.stream()))).collect();
        if flushes.is_empty() {
            flushes.push((best.flush(), medium(best.flush(), best.stream())));
        }
        let streams = StreamMethod::supported()
            .map(|stream| (stream, medium(best.flush(), stream)))
            .collect();
        Self { flushes, streams }
    }

    /// The widest stream, which comes nearest to the limit of the machine.
    fn limit(&self) -> (&StreamMethod, &Medium<'a>) {
        let (stream, medium) = self.streams.first().expect("there is always one");
        (stream, medium)
    }

    fn best_flush(&self) -> (&FlushMethod, &Medium<'a>) {
        let (flush, medium) = self.flushes.first().expect("there is always one");
        (flush, medium)
    }
}

fn tables(effort: Effort, len: usize) {
    print_machine();
    let memory = Memory::new(len);
    let media = Media::new(&memory);
    println!("medium: plain memory, {} MiB, the same for all methods, 4 KiB pages", len >> 20);
    println!("best method: {}", Method::best());
    println!("limit: {} + fence of a hot source, back to back", media.limit().1.method.stream());
    println!("reference: Emerald Rapids, DRAM through clwb/ntstore");
    println!();
    one_line(&media).print(effort);
    lines_per_commit(&media).print(effort);
    blocks(&media).print(effort);
    fences(&media).print(effort);
    threshold(len);
    print_load("after");
}

/// Where the next operation of [`one_line`] goes.
const PATTERNS: [(&str, usize); 3] = [("next line", LINE), ("next page", PAGE + LINE), ("same", 0)];

fn one_line<'a>(media: &'a Media<'_>) -> Table<'a> {
    let mut table = Table::new("one line, durable, back to back");
    let (limit, _) = media.limit();
    let versus = format!("stream {limit} / next line");
    for (flush, medium) in &media.flushes {
        let reference = match flush {
            FlushMethod::Clwb => [Some(0.83), Some(1.49), Some(0.90)],
            FlushMethod::ClflushOpt => [Some(0.80), Some(1.45), Some(1.50)],
            FlushMethod::Clflush => [Some(0.79), Some(1.45), Some(1.53)],
            _ => [None; 3],
        };
        for ((pattern, stride), reference) in PATTERNS.into_iter().zip(reference) {
            table.row(format!("store, {flush} / {pattern}"), &versus, 1, reference, move |count| {
                medium.run(count, |lane, turn| {
                    let at = lane.advance(stride, LINE);
                    lane.store_and_flush(at, LINE, turn);
                    lane.fence();
                })
            });
        }
    }
    for (stream, medium) in &media.streams {
        let reference = match stream {
            StreamMethod::Avx512 | StreamMethod::Avx2 | StreamMethod::Movdir64b => [Some(1.0); 3],
            StreamMethod::Movnti => [Some(1.02), Some(1.02), Some(1.03)],
            _ => [None; 3],
        };
        for ((pattern, stride), reference) in PATTERNS.into_iter().zip(reference) {
            table.row(
                format!("stream {stream} / {pattern}"),
                &versus,
                1,
                reference,
                move |count| {
                    medium.run(count, |lane, turn| {
                        let at = lane.advance(stride, LINE);
                        lane.stream(at, LINE, turn);
                        lane.fence();
                    })
                },
            );
        }
    }
    let (_, medium) = media.limit();
    table.row("store, neither flush nor fence / next line", &versus, 1, Some(0.04), |count| {
        medium.run(count, |lane, turn| {
            let at = lane.advance(LINE, LINE);
            let from = (turn as usize & 3) * PAGE;
            lane.region.store(at, &lane.source[from..from + LINE]);
        })
    });
    table.out_of_contest();
    table.row("fence alone", &versus, 1, Some(0.01), |count| {
        medium.run(count, |lane, _| lane.fence())
    });
    table.out_of_contest();
    table
}

/// Lines of a commit, and store + clwb over the widest stream on the reference machine.
const CURVE: [(usize, Option<f64>); 12] = [
    (1, Some(0.84)),
    (2, Some(0.91)),
    (3, Some(0.94)),
    (4, Some(1.01)),
    (5, Some(1.05)),
    (6, None),
    (8, Some(1.33)),
    (12, None),
    (16, Some(1.81)),
    (32, Some(2.52)),
    (48, None),
    (64, Some(3.51)),
];

fn lines_per_commit<'a>(media: &'a Media<'_>) -> Table<'a> {
    let mut table = Table::new("lines per commit, one fence (to limit: to the stream of as many)");
    let ((stream, streaming), (flush, flushing)) = (media.limit(), media.best_flush());
    for (lines, reference) in CURVE {
        let bytes = lines * LINE;
        let versus = format!("{lines:>2} lines, stream {stream}");
        table.row(versus.clone(), &versus, 1, None, move |count| {
            streaming.run(count, |lane, turn| {
                let at = lane.advance(bytes, bytes);
                lane.stream(at, bytes, turn);
                lane.fence();
            })
        });
        table.row(
            format!("{lines:>2} lines, store, {flush}"),
            &versus,
            1,
            reference,
            move |count| {
                flushing.run(count, |lane, turn| {
                    let at = lane.advance(bytes, bytes);
                    lane.store_and_flush(at, bytes, turn);
                    lane.fence();
                })
            },
        );
    }
    table
}

fn blocks<'a>(media: &'a Media<'_>) -> Table<'a> {
    let mut table = Table::new("a 4 KiB block and a fence; two threads: time per block over both");
    let versus = format!("stream {}, 1 thread", media.limit().0);
    for (stream, medium) in &media.streams {
        let reference = match stream {
            StreamMethod::Avx512 => [Some(1.0), Some(0.50)],
            StreamMethod::Avx2 | StreamMethod::Movdir64b => [Some(1.0), None],
            _ => [None; 2],
        };
        let work = |lane: &mut Lane, turn: u64| {
            let at = lane.advance(PAGE, PAGE);
            lane.stream(at, PAGE, turn);
            lane.fence();
        };
        table.row(format!("stream {stream}, 1 thread"), &versus, 1, reference[0], move |count| {
            medium.run(count, work)
        });
        table.row(format!("stream {stream}, 2 threads"), &versus, 2, reference[1], move |count| {
            medium.run_both(count, work)
        });
    }
    for (flush, medium) in &media.flushes {
        let work = |lane: &mut Lane, turn: u64| {
            let at = lane.advance(PAGE, PAGE);
            lane.store_and_flush(at, PAGE, turn);
            lane.fence();
        };
        let reference = (*flush == FlushMethod::Clwb).then_some(2.85);
        table.row(format!("store, {flush}, 1 thread"), &versus, 1, reference, move |count| {
            medium.run(count, work)
        });
        table.row(format!("store, {flush}, 2 threads"), &versus, 2, None, move |count| {
            medium.run_both(count, work)
        });
    }
    let (stream, medium) = media.limit();
    let name = format!("stream {stream}, 1 thread, a fence per 16 blocks");
    table.row(name, &versus, 1, Some(0.57), move |count| {
        medium.run(count, |lane, turn| {
            let at = lane.advance(PAGE, PAGE);
            lane.stream(at, PAGE, turn);
            if turn % 16 == 15 {
                lane.fence();
            }
        })
    });
    table
}

fn fences<'a>(media: &'a Media<'_>) -> Table<'a> {
    let mut table = Table::new("fences per commit: the payload, then lines of their own");
    let (_, medium) = media.limit();
    let reference = [(64, [1.0, 2.0, 3.0]), (256, [1.0, 1.92, 2.82]), (4096, [1.0, 1.50, 2.00])];
    for (bytes, ratios) in reference {
        let versus = format!("{bytes:>4} B, 1 fence");
        for (more, ratio) in ratios.into_iter().enumerate() {
            let name = match more {
                0 => versus.clone(),
                _ => format!("{bytes:>4} B, {} fences", more + 1),
            };
            table.row(name, &versus, 1, Some(ratio), move |count| {
                medium.run(count, |lane, turn| {
                    // The record, its lines and the next record lie next to each other.
                    let whole = bytes + more * LINE;
                    let at = lane.advance(whole, whole);
                    lane.stream(at, bytes, turn);
                    lane.fence();
                    for line in 0..more {
                        let at = at.raw() + (bytes + line * LINE) as u64;
                        lane.stream(Offset(at), LINE, turn);
                        lane.fence();
                    }
                })
            });
        }
    }
    table
}

/// What [`Region::calibrate`] finds on this machine.
fn threshold(len: usize) {
    let region = Region::anonymous(len as u64).expect("memory");
    let default = region.facts().stream_from_bytes;
    let start = Instant::now();
    let (_, measured) = region.calibrate().expect("plain memory does not fail");
    println!(
        "streaming wins from {} bytes on (default {default}), found in {:?}",
        measured.stream_from_bytes,
        start.elapsed()
    );
    for point in &measured.points {
        println!("  {:>2} lines: stream / store {:.2}", point.lines, point.stream_to_store);
    }
}

/// The call that users wait for: one commit by the best method, by size.
fn commits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("commit");
    let region = Region::anonymous(64 << 20).expect("memory");
    let mut lane = Lane::new(region);
    for bytes in [LINE, 4 * LINE, 16 * LINE, PAGE] {
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("store", bytes), |bencher| {
            let mut turn = 0;
            bencher.iter(|| {
                turn += 1;
                let at = lane.advance(bytes, bytes);
                lane.store_and_flush(at, bytes, black_box(turn));
                lane.fence();
            });
        });
        group.bench_function(BenchmarkId::new("stream", bytes), |bencher| {
            let mut turn = 0;
            bencher.iter(|| {
                turn += 1;
                let at = lane.advance(bytes, bytes);
                lane.stream(at, bytes, black_box(turn));
                lane.fence();
            });
        });
    }
    group.finish();
}
