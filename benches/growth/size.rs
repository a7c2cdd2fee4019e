//! Curves by the size of a journal's one lane, under the policy that logs whole blocks. Commits go
//! around the lane.

use std::hint::black_box;
use std::time::Instant;

use journal_core::PmemShare as _;
use nvm_journal::{FullBlock, Journal, Options, Region};

use crate::curves::Curves;
use crate::emptied::Emptied;
use crate::{MIB, NOWHERE};
use lab::bench::media::{BLOCK, Bare, copy_of, memory_with, sum, warm};
use lab::bench::work::{Front, INDEX_FRAMES, commit_at_once, image};
use lab::bench::{Asked, Shuffler, quantile, timed};
use lab::plot::{Plot, Scale};

/// Blocks that are written in turn. They fit into the smallest lane.
const WRITTEN: u64 = 1 << 9;
/// The most bytes of a lane that a commit of one block takes.
const RECORD_BYTES: u64 = BLOCK as u64 + 256;
/// Commits that an open finds after a crash: 3 MiB of blocks.
const LIVE: u64 = 3 * MIB / BLOCK as u64;

fn steps(asked: Asked) -> &'static [u64] {
    asked.of(&[4, 16], &[4, 16, 64, 256], &[4, 16, 64, 256])
}

/// A journal on this memory, after `commits` commits that went around its lane.
fn gone_around(
    images: &[u8],
    region: Region,
    (lane_bytes, commits): (u64, u64),
) -> Emptied<FullBlock> {
    let options = Options::new().lanes(1).lane_bytes(lane_bytes).index_frames(INDEX_FRAMES);
    let journal: Front = Journal::format(region, NOWHERE, &options).expect("formats");
    let most = lane_bytes / RECORD_BYTES - WRITTEN;
    let mut emptied = Emptied::new(journal, commit_at_once, (WRITTEN, most));
    emptied.run(images, commits);
    emptied
}

/// Bytes of memory for a lane of `lane_bytes` bytes.
const fn span_bytes(lane_bytes: u64) -> u64 {
    lane_bytes + MIB
}

pub(crate) fn print_commits(images: &[u8], asked: Asked) -> Plot {
    let title = "Nanoseconds a commit of 4 KiB, one call, full-block";
    let mut curves = Curves::new(title, "MiB of the lane");
    // Every lane gets the same number of commits. It goes around the largest lane once.
    let commits = steps(asked).iter().copied().max().unwrap_or(0) * MIB / BLOCK as u64;
    for mebibytes in steps(asked) {
        curves.step(mebibytes);
        let lane_bytes = mebibytes * MIB;
        let limit = "limit: stream, fence";
        let mut bare = Bare::new(warm(lane_bytes));
        curves.point(limit, limit, 1, move |count| {
            timed(count, |turn| {
                bare.commit(core::iter::once(image(images, turn)), BLOCK);
            })
        });
        let region = warm(span_bytes(lane_bytes));
        let mut emptied = gone_around(images, region, (lane_bytes, commits));
        curves.point("front door", limit, 1, move |count| emptied.run(images, count));
    }
    curves.print(asked.effort())
}

/// A journal that crashed, the times to open it, and those to read its memory, in milliseconds.
struct Left {
    mebibytes: u64,
    bytes: Vec<u8>,
    opens: Vec<f64>,
    reads: Vec<f64>,
}

impl Left {
    fn new(images: &[u8], mebibytes: u64) -> Self {
        let lane_bytes = mebibytes * MIB;
        let region = warm(span_bytes(lane_bytes));
        let reader = region.reader();
        let once = lane_bytes / BLOCK as u64;
        gone_around(images, region, (lane_bytes, once)).leave_with(images, LIVE);
        Self { mebibytes, bytes: copy_of(&reader), opens: Vec::new(), reads: Vec::new() }
    }

    fn round(&mut self) {
        let region = memory_with(&self.bytes);
        let start = Instant::now();
        let journal: Front =
            Journal::open(region, NOWHERE, &Options::<FullBlock>::new()).expect("opens");
        self.opens.push(start.elapsed().as_secs_f64() * 1e3);
        assert_eq!(journal.stats().expect("counts").blocks as u64, WRITTEN, "all are found");
        drop(journal);
        let start = Instant::now();
        black_box(sum(&self.bytes));
        self.reads.push(start.elapsed().as_secs_f64() * 1e3);
    }
}

pub(crate) fn print_opens(images: &[u8], asked: Asked) -> Plot {
    let mut left: Vec<_> = steps(asked).iter().map(|step| Left::new(images, *step)).collect();
    let mut order: Vec<_> = (0..left.len()).collect();
    let mut shuffler = Shuffler::new();
    let rounds = asked.of(1, 7, 31);
    for _ in 0..rounds {
        shuffler.shuffle(&mut order);
        order.iter().for_each(|index| left[*index].round());
    }
    println!("## open after a crash, 3 MiB live, one lane, full-block, {rounds} times each");
    println!("{:<44} {:>9} {:>9} {:>9}", "case", "ms", "p10", "p90");
    for Left { mebibytes, opens, reads, .. } in &left {
        for (name, times) in [("open", opens), ("plain read of all its memory", reads)] {
            let [p50, p10, p90] = [0.5, 0.1, 0.9].map(|share| quantile(times, share));
            let name = format!("{mebibytes:>3} MiB, {name}");
            println!("{name:<44} {p50:>9.3} {p10:>9.3} {p90:>9.3}");
        }
    }
    println!();
    let micros = |times: fn(&Left) -> &[f64]| {
        left.iter().map(|left| quantile(times(left), 0.5) * 1e3).collect()
    };
    Plot {
        title: "Microseconds of an open after a crash, 3 MiB live",
        below: "MiB of the lane",
        scale: Scale::Doubling,
        steps: left.iter().map(|left| left.mebibytes.to_string()).collect(),
        is_joined: true,
        curves: vec![
            ("plain read of it".to_owned(), micros(|left| &left.reads)),
            ("open".to_owned(), micros(|left| &left.opens)),
        ],
    }
}
