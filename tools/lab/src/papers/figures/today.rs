//! Which policy suits media that can be bought: the same work under each policy on three pairs of
//! memory and disk.

use std::fmt::Write as _;

use nvm_journal::AnyPolicy;
use sim_disk::time::{CardModel, Clock, MemoryModel, SsdModel};

use crate::engines::Failure;
use crate::papers::files::case::{InNvm, Kept, Machine, Medium};
use crate::papers::files::fs::Directories;
use crate::papers::files::loads::{self, Loop, Overwrite};
use crate::papers::files::setup::{Checkpoints, Ran};
use crate::papers::host::Host;
use crate::papers::media::BATCH_BLOCKS;
use crate::papers::policy::HostPolicy;

pub const TEXT: &str = "\
All data goes through the journal of 128 MB, without a disk-side log, which is what `Options` give \
by default. Operations a second; the fastest is bold.

- *mail*: varmail, with 16 threads, files of 16 KB and an fsync after each append.
- *pages*: one thread overwrites pages of a file of 64 MB at random. A tenth of each page differs, \
in one run of bytes. An fsync comes after 16 pages.
";

const PAIRS: [(&str, MemoryModel, Medium); 3] = [
    ("NVDIMM-N and NVMe", MemoryModel::nvdimm_n(), Medium::Ssd(SsdModel::nvme())),
    ("CXL memory and NVMe", MemoryModel::cxl(), Medium::Ssd(SsdModel::nvme())),
    ("FRAM and SD card", MemoryModel::fram(), Medium::Card(CardModel::class_10())),
];

/// The policies; each has a function, so that a machine can be copied.
const POLICIES: [fn(&Clock) -> HostPolicy; 7] = [
    |clock| HostPolicy::new(AnyPolicy::ALL[0], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[1], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[2], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[3], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[4], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[5], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[6], clock),
];

/// What the store does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Mail,
    Pages,
}

impl Work {
    const ALL: [Self; 2] = [Self::Mail, Self::Pages];
    /// Blocks of the file of pages, and pages between two fsyncs.
    const FILE_BLOCKS: u64 = 64 << 8;
    const EVERY: u64 = 16;

    const fn name(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Pages => "pages",
        }
    }

    fn run(self, medium: Medium, kept: Kept, scale: u64) -> Result<Ran, Failure> {
        let machine = Machine {
            host: Host::NJS,
            medium,
            directories: Directories::One,
            cache_bytes: 6 << 30,
            memory_bytes: 8 << 30,
            run_ns: Some(120_000_000_000),
            ..Machine::USUAL
        };
        match self {
            Self::Mail => {
                let files = 100_000;
                let (file_blocks, average_blocks, threads) = ((4, 4), 6, 16);
                let machine = Machine { threads, files, file_blocks, average_blocks, ..machine };
                let (steps, count) = (loads::varmail::<4>(), loads::VARMAIL_OPERATIONS);
                machine.run(kept, scale, |world| Loop::new(steps, count, 16, 0, world))
            }
            Self::Pages => {
                let blocks = Self::FILE_BLOCKS / scale;
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
                    every: Some(Self::EVERY),
                    at: 0,
                })
            }
        }
    }
}

/// What the policies came to on a pair of media.
struct Measured {
    media: &'static str,
    work: Work,
    per_second: Vec<f64>,
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
        let near = order.into_iter().filter(|at| self.behind(*at) <= 5.0);
        let names: Vec<_> = near.map(|at| format!("`{}`", AnyPolicy::ALL[at].name())).collect();
        names.join(", ")
    }
}

/// The table, and one that says which policy to choose.
///
/// # Errors
/// Those of the journals.
pub fn tables(scale: u64) -> Result<(String, String), Failure> {
    let mut all = Vec::new();
    for (media, memory, medium) in PAIRS {
        for work in Work::ALL {
            let mut per_second = Vec::new();
            for policy in POLICIES {
                let kept = Kept::Nvm(InNvm {
                    policy,
                    memory,
                    bytes: 128 << 20,
                    logs_data: true,
                    checkpoints: Checkpoints::Beside,
                    objects_max: None,
                    caller_flushes: false,
                    slot_share: None,
                    batch_blocks: BATCH_BLOCKS,
                    step_blocks: BATCH_BLOCKS,
                    disk_log: false,
                    transaction_blocks: 1 << 12,
                });
                per_second.push(work.run(medium, kept, scale)?.per_second);
            }
            all.push(Measured { media, work, per_second });
        }
    }
    let mut page = String::from("| memory and disk | work |");
    for policy in AnyPolicy::ALL {
        let _ = write!(page, " {} |", policy.name());
    }
    let _ = write!(page, " k |\n|---|---|{}---|\n", "---|".repeat(POLICIES.len()));
    let mut advice = String::from(
        "| memory and disk | work | fastest, and what is at most 5 % behind | `adaptive` is behind by |\n\
         |---|---|---|---|\n",
    );
    let adaptive = AnyPolicy::ALL.iter().position(|policy| policy.name() == "adaptive");
    for one in &all {
        let (media, work) = (one.media, one.work.name());
        let _ = write!(page, "| {media} | {work} |");
        for (at, value) in one.per_second.iter().enumerate() {
            let mark = if one.behind(at) <= 0.0 { "**" } else { "" };
            let _ = write!(page, " {mark}{value:.0}{mark} |");
        }
        let _ = writeln!(page, " {scale} |");
        let behind = adaptive.map_or(0.0, |at| one.behind(at));
        let _ = writeln!(advice, "| {media} | {work} | {} | {behind:.0} % |", one.fastest());
    }
    Ok((page, advice))
}
