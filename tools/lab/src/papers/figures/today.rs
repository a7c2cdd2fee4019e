//! Which policy suits media that can be bought: the same work under each policy on three pairs of
//! memory and disk.

use std::fmt::Write as _;

use adaptive::{Disk, Settings};
use journal_core::Protocol;
use nvm_journal::{Adaptive, AnyPolicy};
use sim_disk::time::{CardModel, Clock, MemoryModel, SsdModel};

use crate::engines::Failure;
use crate::papers::files::case::{InNvm, Kept, Machine, Medium};
use crate::papers::files::fs::Directories;
use crate::papers::files::loads::{self, Loop, Overwrite};
use crate::papers::files::setup::{Checkpoints, Ran};
use crate::papers::host::Host;
use crate::papers::media::BATCH_BLOCKS;
use crate::papers::policy::HostPolicy;

/// Bytes of the journal, of which FRAM has a part.
pub const NVM_BYTES: u64 = 128 << 20;
/// Threads of mail, and blocks of its files.
pub const MAIL_THREADS: usize = 16;
pub const MAIL_BLOCKS: u64 = 4;
/// Blocks of the file of pages, and pages between two fsyncs.
pub const PAGES_BLOCKS: u64 = 64 << 8;
pub const PAGES_EVERY: u64 = 16;
/// How far behind the fastest policy `adaptive` may be, in a hundred.
pub const BEHIND_MAX: f64 = 5.0;

/// The head of what the fastest policy and `adaptive` took.
const COUNTS: &str = "
What the fastest and `adaptive` took for each operation. The memory's time is part of the whole. \
Home writes are requests and blocks to the disk; syncs are counted for 1,000 operations.

| memory and disk | work | policy | us | us in memory | lines | home writes | blocks | syncs | \
us all threads stood still |
|---|---|---|---|---|---|---|---|---|---|
";

/// A memory and a disk.
struct Pair {
    name: &'static str,
    memory: MemoryModel,
    medium: Medium,
    /// `adaptive` is told how fast the memory is.
    adaptive: fn(&Clock) -> HostPolicy,
    /// Everything is divided by this, unless somebody says otherwise; and how long a run takes, at
    /// the papers' size.
    scale: u64,
    run_ns: u64,
    /// Whether policies that have a disk-side log get one: where the disk is the faster medium.
    disk_log: bool,
}

const NVME: Medium = Medium::Ssd(SsdModel::nvme());
const CARD: Medium = Medium::Card(CardModel::class_10());

/// FRAM is sold by the megabyte.
pub const OF_FRAM: u64 = 16;
/// How long runs take: the journal fills some times.
const OF_NVME_NS: u64 = 700_000_000;
const OF_CARD_NS: u64 = 120_000_000_000;

const PAIRS: [Pair; 4] = [
    Pair {
        name: "NVDIMM-N and NVMe",
        memory: MemoryModel::nvdimm_n(),
        medium: NVME,
        adaptive: nvdimm,
        scale: 1,
        run_ns: OF_NVME_NS,
        disk_log: false,
    },
    Pair {
        name: "CXL memory and NVMe",
        memory: MemoryModel::cxl(),
        medium: NVME,
        adaptive: cxl,
        scale: 1,
        run_ns: OF_NVME_NS,
        disk_log: false,
    },
    Pair {
        name: "FRAM and SD card",
        memory: MemoryModel::fram(),
        medium: CARD,
        adaptive: fram,
        scale: OF_FRAM,
        run_ns: OF_CARD_NS,
        disk_log: false,
    },
    Pair {
        name: "FRAM and SD card, with a disk-side log",
        memory: MemoryModel::fram(),
        medium: CARD,
        adaptive: fram_with_log,
        scale: OF_FRAM,
        run_ns: OF_CARD_NS,
        disk_log: true,
    },
];

/// The policy at this place of [`AnyPolicy::ALL`], on a host of today.
fn policy<const AT: usize>(clock: &Clock) -> HostPolicy {
    HostPolicy::new(AnyPolicy::ALL[AT], clock).of_today().reclaims_at(RECLAIM_AT)
}

/// Room is made from this fraction of a lane on, in 256ths, by all policies: checkpoints run beside
/// the threads, so that room that is made early makes nobody wait.
pub const RECLAIM_AT: u8 = 160;

/// How far `adaptive` was behind where all policies made room from one half on, in percent. It was
/// counted once, of an earlier build.
pub const BEHIND_AT_HALF: [(&str, f64); 3] =
    [("half_pages", 6.5), ("half_mail_log", 7.0), ("half_pages_log", 5.1)];

/// Checkpoints go on beside the threads, and this drive keeps up: no commit waits for a block.
pub const NVME_BESIDE: Disk = Disk { block_ns: 0, ..Disk::NVME };

/// `adaptive` is told how fast memory and disk are, and that commits may wait for the disk.
fn told(clock: &Clock, line_ns: u32, disk: Disk, log: Option<Disk>) -> HostPolicy {
    let settings = Settings::new().line_nanos(line_ns).disk(disk).bypasses(log);
    let settings = settings.appends_home(Some(disk.sync_ns)).reclaim_at(RECLAIM_AT);
    HostPolicy::new(Adaptive::with(settings), clock).of_today()
}

fn nvdimm(clock: &Clock) -> HostPolicy {
    told(clock, 4, NVME_BESIDE, None)
}

fn cxl(clock: &Clock) -> HostPolicy {
    told(clock, 2, NVME_BESIDE, None)
}

fn fram(clock: &Clock) -> HostPolicy {
    told(clock, 12_800, Disk::CARD, None)
}

fn fram_with_log(clock: &Clock) -> HostPolicy {
    told(clock, 12_800, Disk::CARD, Some(Disk::CARD))
}

/// The policies; each has a function, so that a machine can be copied. `adaptive` is the last.
const POLICIES: [fn(&Clock) -> HostPolicy; 6] =
    [policy::<0>, policy::<1>, policy::<2>, policy::<3>, policy::<4>, policy::<5>];

/// What the store does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Mail,
    Pages,
}

impl Job {
    const ALL: [Self; 2] = [Self::Mail, Self::Pages];

    const fn name(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Pages => "pages",
        }
    }

    fn run(self, pair: &Pair, kept: Kept, scale: u64, seed: u64) -> Result<Ran, Failure> {
        let machine = Machine {
            seed,
            // No jbd2 is there.
            host: Host { batches_in_memory: false, ..Host::NJS },
            medium: pair.medium,
            directories: Directories::One,
            cache_bytes: 6 << 30,
            memory_bytes: 8 << 30,
            run_ns: Some(pair.run_ns),
            ..Machine::USUAL
        };
        match self {
            Self::Mail => {
                let files = 100_000;
                let (file_blocks, average_blocks) = ((MAIL_BLOCKS, MAIL_BLOCKS), 6);
                let threads = MAIL_THREADS;
                let machine = Machine { threads, files, file_blocks, average_blocks, ..machine };
                let (steps, count) = (loads::varmail::<MAIL_BLOCKS>(), loads::VARMAIL_OPERATIONS);
                machine.run(kept, scale, |world| Loop::new(steps, count, threads, 0, world))
            }
            Self::Pages => {
                let blocks = PAGES_BLOCKS / scale;
                let machine = Machine {
                    files: 4 * scale,
                    file_blocks: (0, 0),
                    first_blocks: blocks,
                    average_blocks: blocks / 2,
                    filled_percent: 100,
                    differs: 410,
                    ..machine
                };
                machine.run(kept, scale, |_| Overwrite {
                    file: 0,
                    blocks,
                    at_a_time: 1,
                    is_random: true,
                    appends: false,
                    passes: 1,
                    region: blocks,
                    every: Some(PAGES_EVERY),
                    at: 0,
                })
            }
        }
    }
}

/// What the policies came to on a pair of media.
struct Measured {
    media: &'static str,
    work: Job,
    scale: u64,
    per_second: Vec<f64>,
    ran: Vec<Runs>,
}

/// How often each cell is run, each time with another seed.
const SEEDS: u64 = 5;

/// Some runs of one policy: what they came to together, and the mean of their throughput.
struct Runs {
    sum: Ran,
    /// How far apart the slowest and the fastest run are, in hundredths of the mean.
    spread: f64,
}

impl Runs {
    fn of(runs: Vec<Ran>) -> Self {
        let speeds: Vec<f64> = runs.iter().map(|ran| ran.per_second).collect();
        let mean = speeds.iter().sum::<f64>() / speeds.len().max(1) as f64;
        let most = speeds.iter().copied().fold(mean, f64::max);
        let least = speeds.iter().copied().fold(mean, f64::min);
        let mut sum = Ran { per_second: mean, ..Ran::default() };
        for ran in runs {
            sum.operations += ran.operations;
            sum.drive_writes += ran.drive_writes;
            sum.drive_blocks += ran.drive_blocks;
            sum.drive_syncs += ran.drive_syncs;
            sum.stood_still_ms += ran.stood_still_ms;
            sum.memory.units += ran.memory.units;
            sum.memory.nanos += ran.memory.nanos;
        }
        Self { sum, spread: 100.0 * (most - least) / mean }
    }
}

/// What an operation took, in columns.
fn took(ran: &Ran) -> String {
    let each = |count: u64| count as f64 / ran.operations.max(1) as f64;
    format!(
        "{:.2} | {:.2} | {:.1} | {:.2} | {:.2} | {:.2} | {:.1}",
        1e6 / ran.per_second,
        each(ran.memory.nanos) / 1e3,
        each(ran.memory.units),
        each(ran.drive_writes),
        each(ran.drive_blocks),
        1e3 * each(ran.drive_syncs),
        1e6 * ran.stood_still_ms as f64 / 1e3 / ran.operations.max(1) as f64,
    )
}

impl Measured {
    fn best(&self) -> f64 {
        self.per_second.iter().copied().fold(0.0, f64::max)
    }

    /// How much slower a policy is than the fastest, in a hundred.
    fn behind(&self, at: usize) -> f64 {
        100.0 * (1.0 - self.per_second[at] / self.best())
    }

    /// The policies that are at most 5 % behind the fastest, which comes first.
    fn fastest(&self) -> String {
        let mut order: Vec<usize> = (0..self.per_second.len()).collect();
        order.sort_by(|one, other| self.per_second[*other].total_cmp(&self.per_second[*one]));
        let near = order.into_iter().filter(|at| self.behind(*at) <= BEHIND_MAX);
        let names: Vec<_> = near.map(|at| format!("`{}`", AnyPolicy::ALL[at].name())).collect();
        names.join(", ")
    }
}

/// The table, and one that says which policy to choose.
///
/// # Errors
/// Those of the journals.
pub fn tables(scale: Option<u64>) -> Result<(String, String), Failure> {
    let mut all = Vec::new();
    for pair in PAIRS {
        let Pair { name: media, memory, adaptive, disk_log, .. } = pair;
        let scale = scale.unwrap_or(pair.scale);
        for work in Job::ALL {
            let mut ran = Vec::new();
            for policy in POLICIES.into_iter().chain([adaptive]) {
                let kept = Kept::Nvm(InNvm {
                    policy,
                    memory,
                    bytes: NVM_BYTES,
                    logs_data: true,
                    checkpoints: Checkpoints::Beside,
                    objects_max: None,
                    caller_flushes: false,
                    slot_fraction: None,
                    batch_blocks: BATCH_BLOCKS,
                    step_blocks: BATCH_BLOCKS,
                    disk_log,
                    transaction_blocks: 1 << 12,
                    protocol: Protocol::OneFence,
                });
                let runs = (0..SEEDS).map(|seed| work.run(&pair, kept, scale, seed));
                ran.push(Runs::of(runs.collect::<Result<Vec<_>, _>>()?));
            }
            let per_second = ran.iter().map(|runs| runs.sum.per_second).collect();
            all.push(Measured { media, work, scale, per_second, ran });
        }
    }
    let mut page = String::from("| memory and disk | work |");
    for policy in AnyPolicy::ALL {
        let _ = write!(page, " {} |", policy.name());
    }
    let _ = write!(page, " k |\n|---|---|{}---|\n", "---|".repeat(AnyPolicy::ALL.len()));
    let mut advice = String::from(
        "| memory and disk | work | fastest, and what is at most 5 % behind | `adaptive` is \
        behind by |\n\
         |---|---|---|---|\n",
    );
    let mut counts = String::from(COUNTS);
    let adaptive = AnyPolicy::ALL.iter().position(|policy| policy.name() == "adaptive");
    for one in &all {
        let (media, work) = (one.media, one.work.name());
        let _ = write!(page, "| {media} | {work} |");
        for (at, value) in one.per_second.iter().enumerate() {
            let mark = if one.behind(at) <= 0.0 { "**" } else { "" };
            let _ = write!(page, " {mark}{value:.0}{mark} |");
        }
        let _ = writeln!(page, " {} |", one.scale);
        for (at, policy) in AnyPolicy::ALL.iter().enumerate() {
            if one.behind(at) <= 0.0 || Some(at) == adaptive {
                let (name, took) = (policy.name(), took(&one.ran[at].sum));
                let _ = writeln!(counts, "| {media} | {work} | {name} | {took} |");
            }
        }
        let behind = adaptive.map_or(0.0, |at| one.behind(at));
        let _ = writeln!(advice, "| {media} | {work} | {} | {behind:.0} % |", one.fastest());
    }
    let runs = all.iter().flat_map(|one| &one.ran);
    let spread = runs.map(|runs| runs.spread).fold(0.0, f64::max);
    page.push_str(&counts);
    let _ = writeln!(
        page,
        "\nEach cell is the mean of {SEEDS} runs with other seeds. The slowest and the fastest run \
         of a cell are at most {spread:.1} % of it apart."
    );
    Ok((page, advice))
}
