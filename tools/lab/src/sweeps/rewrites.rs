//! A block of 4 KiB written again and again, with a percentage of its bytes changed each time, at
//! random places: what one commit costs under each policy.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;

use journal_core::Policy;
use journal_core::{
    BlockNumber, BlockSize, DeviceFacts, NoHook, Offset, Overwrite, Pmem as _, PmemRead as _,
};
use nvm_journal::{AnyPolicy, ByteDelta, Journal, Options, Region};
use sim_disk::{DiskImage, Image, Model, World};

use crate::erased::{DynJournal, any_options, of_world};
use crate::plot::{Plot, Scale};
use crate::sweeps::parts::{BLOCK, BLOCKS, Kept, Numbers, Sweep};
use crate::whole_slots::WholeSlots;

const PERCENT: [u64; 7] = [0, 1, 5, 10, 25, 50, 100];

/// Rewrites that are counted, after some that are not.
const COUNTED: u64 = 48;
const BEFORE: u64 = 4;
/// Rewrites that are timed.
const TIMED: usize = 2_000;

/// What one commit costs.
#[derive(Clone, Copy)]
struct Cost {
    bytes: f64,
    lines: f64,
    nanos: f64,
}

/// One of its figures.
type Of = fn(&Cost) -> f64;

/// An image of which a percentage of the bytes changes with every step.
struct Changing {
    image: Vec<u8>,
    places: Vec<usize>,
    numbers: Numbers,
}

impl Changing {
    fn new() -> Self {
        let mut numbers = Numbers::new(7);
        let image = (0..BLOCK).map(|_| numbers.below(256) as u8).collect();
        Self { image, places: (0..BLOCK).collect(), numbers }
    }

    fn step(&mut self, percent: u64) -> &[u8] {
        let count = BLOCK * percent as usize / 100;
        for at in 0..count {
            let other = at + self.numbers.below((BLOCK - at) as u64) as usize;
            self.places.swap(at, other);
            self.image[self.places[at]] ^= 1 + self.numbers.below(255) as u8;
        }
        &self.image
    }
}

fn cost<L: Policy + Copy + Send + Sync + 'static>(
    policy: L,
    percent: u64,
) -> Result<Cost, Box<dyn Error>> {
    let options = any_options(policy, NoHook).lanes(1).lane_bytes(1 << 20);
    // Counted.
    let facts = DeviceFacts::new(512, Overwrite::OldOrNew);
    let disk = DiskImage::blank(BlockSize::DEFAULT, BLOCKS, facts);
    let world = World::boot(Image::blank(8 << 20).with_disk(disk), Model::Torn8);
    let (pmem, disk) = of_world(&world);
    let journal = DynJournal::format(pmem, disk, &options)?;
    let mut changing = Changing::new();
    let mut before = world.tape().counts();
    for turn in 0..BEFORE + COUNTED {
        if turn == BEFORE {
            before = world.tape().counts();
        }
        let image = changing.step(percent);
        journal.transact(|tx| tx.write(BlockNumber(5), image))?;
    }
    let spent = world.tape().counts();
    let stored = spent.stored_bytes + spent.streamed_bytes;
    let bytes = stored - before.stored_bytes - before.streamed_bytes;
    let lines = spent.lines() - before.lines();
    drop(journal);
    // Timed.
    let options = Options::new().policy(policy).lanes(1).lane_bytes(16 << 20).disk_log(true);
    let mut region = Region::anonymous(64 << 20)?;
    for page in (0..region.len()).step_by(BLOCK) {
        region.store(Offset(page), &[1]);
    }
    let journal = Journal::format(region, Kept::new(), &options)?;
    let mut changing = Changing::new();
    let mut times = Vec::with_capacity(TIMED);
    for _ in 0..TIMED {
        let image = changing.step(percent);
        let start = Instant::now();
        journal.transact(|tx| tx.write(BlockNumber(5), image))?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    times.sort_unstable_by(f64::total_cmp);
    let count = COUNTED as f64;
    Ok(Cost { bytes: bytes as f64 / count, lines: lines as f64 / count, nanos: times[TIMED / 2] })
}

pub fn measure() -> Result<Sweep, Box<dyn Error>> {
    let mut rows: Vec<(String, Vec<Cost>)> = Vec::new();
    for policy in AnyPolicy::ALL.iter().copied() {
        let costs: Result<_, _> = PERCENT.iter().map(|at| cost(policy, *at)).collect();
        rows.push((policy.name().to_owned(), costs?));
    }
    let whole = WholeSlots(ByteDelta::new());
    let costs: Result<_, _> = PERCENT.iter().map(|at| cost(whole, *at)).collect();
    rows.push(("byte-delta, whole".to_owned(), costs?));

    let mut page = String::from(
        "\n## Rewrites of 4 KiB, by the bytes that differ\n\nOne block, written again and again \
         as a whole, through the front door. With each step a percentage of\nits bytes changes, \
         one by one, at random places. `byte-delta` writes over the version before \
         the\nnewest, from which up to twice as many bytes differ. *whole* is `byte-delta` \
         without byte update.\n",
    );
    let kinds: [(&str, Of); 3] = [
        ("bytes a commit", |cost| cost.bytes),
        ("lines a commit", |cost| cost.lines),
        ("ns a commit, median", |cost| cost.nanos),
    ];
    for (title, of) in kinds {
        write!(page, "\n| {title} |")?;
        PERCENT.iter().try_for_each(|percent| write!(page, " {percent} % |"))?;
        write!(page, "\n|---|{}\n", "---|".repeat(PERCENT.len()))?;
        for (name, costs) in &rows {
            write!(page, "| {name} |")?;
            costs.iter().try_for_each(|cost| write!(page, " {:.0} |", of(cost)))?;
            page.push('\n');
        }
    }
    let at_full = |name: &str| {
        let row = rows.iter().find(|(known, _)| known == name);
        row.and_then(|(_, costs)| costs.last()).copied().ok_or("no such row")
    };
    let (ours, whole) = (at_full("byte-delta")?, at_full("byte-delta, whole")?);
    writeln!(
        page,
        "\nWhere all bytes differ, `byte-delta` costs {:+.1} % bytes, {:+.1} % lines and {:+.0} % \
         time beside *whole*.",
        100.0 * (ours.bytes / whole.bytes - 1.0),
        100.0 * (ours.lines / whole.lines - 1.0),
        100.0 * (ours.nanos / whole.nanos - 1.0)
    )?;
    let plot = |title, of: Of| Plot {
        title,
        below: "bytes that differ, in a hundred",
        scale: Scale::Doubling,
        is_joined: true,
        steps: PERCENT.iter().map(|percent| format!("{percent} %")).collect(),
        curves: rows
            .iter()
            .map(|(name, costs)| (name.clone(), costs.iter().map(of).collect()))
            .collect(),
    };
    let plots = vec![
        ("rewrites-bytes.svg", plot("Bytes a commit", |cost| cost.bytes)),
        ("rewrites-lines.svg", plot("Lines a commit", |cost| cost.lines)),
        ("rewrites-ns.svg", plot("Nanoseconds a commit", |cost| cost.nanos)),
    ];
    Ok(Sweep { page, plots })
}
