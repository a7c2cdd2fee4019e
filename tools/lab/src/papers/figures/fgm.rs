//! The rows of FGM: `object-log` beside a block journal in ordered mode, on a second disk and
//! copied into the same memory.

use block_journal::Mode;
use journal_core::Protocol;
use object_log::{ObjectLog, Settings};
use sim_disk::time::{Clock, MemoryModel};

use crate::engines::Failure;
use crate::papers::files::case::{InNvm, Kept, Machine, Medium};
use crate::papers::files::fs::Directories;
use crate::papers::files::loads::{self, Loop, Postmark, WriteFsync};
use crate::papers::files::setup::{Checkpoints, Ran};
use crate::papers::media::BATCH_BLOCKS;
use crate::papers::policy::HostPolicy;
use crate::papers::row::{Band, Curves, Row, Unit, percent_more};
use crate::papers::store::Ring;

pub const NVM_BYTES: u64 = 128 << 20;
const RING_BLOCKS: u64 = NVM_BYTES / 4096;
/// Blocks that a running transaction may change: the ring without the shield has room for half.
const TRANSACTION_BLOCKS: u64 = RING_BLOCKS / 4;
/// Objects that a `TxnInfo` of 8 KiB names.
const OBJECTS_MAX: u64 = 1_022;
/// How long filebench runs a workload that says nothing of it. The drive's cache then holds less
/// than a hundredth of what was written.
pub const WRITEFSYNC_NS: u64 = 60_000_000_000;
/// Blocks of its file, and appends for each fsync of the run whose figure the paper says.
pub const WRITEFSYNC_BLOCKS: u64 = 1 << 18;
pub const WRITEFSYNC_EVERY: u64 = 32;
/// It is emptied when half of it is used.
const CHECKPOINT_AT: u8 = 128;

const MACHINE: Machine = Machine {
    threads: 16,
    files: 960_000,
    file_blocks: (3, 3),
    average_blocks: 4,
    directories: Directories::One,
    cache_bytes: 3 << 30,
    memory_bytes: 4 << 30,
    // A commit to another medium syncs that one alone.
    syncs_homes: false,
    ..Machine::USUAL
};

fn object_log(clock: &Clock) -> HostPolicy {
    // The host itself commits when the TxnInfo is full.
    let settings = Settings::new().checkpoint_at(CHECKPOINT_AT);
    let policy = ObjectLog::with(settings).unwrap_or_default();
    HostPolicy::new(policy, clock)
}

const fn in_nvm(objects_max: u64) -> Kept {
    Kept::Nvm(InNvm {
        policy: object_log,
        memory: MemoryModel::fgm(),
        bytes: NVM_BYTES,
        logs_data: false,
        checkpoints: Checkpoints::StandStill,
        caller_flushes: false,
        slot_fraction: None,
        batch_blocks: BATCH_BLOCKS,
        step_blocks: BATCH_BLOCKS,
        disk_log: true,
        objects_max: Some(objects_max),
        transaction_blocks: TRANSACTION_BLOCKS,
        protocol: Protocol::OneFence,
    })
}

const OURS: Kept = in_nvm(OBJECTS_MAX);

const fn ordered(ring: Ring) -> Kept {
    Kept::Blocks(Mode::Ordered, ring, RING_BLOCKS)
}

const COPIED: Ring = Ring::Copied(MemoryModel::fgm());

/// A workload of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FgmWork {
    Varmail,
    /// Appends of 16 KB.
    VarmailLarge,
    Fileserver,
    /// Blocks an append, and appends between two fsyncs.
    WriteFsync(u64, u64),
    Postmark(u64),
}

impl FgmWork {
    fn name(self) -> String {
        match self {
            Self::Varmail => "varmail, appends of 4 KB".to_owned(),
            Self::VarmailLarge => "varmail, appends of 16 KB".to_owned(),
            Self::Fileserver => "fileserver".to_owned(),
            Self::WriteFsync(blocks, every) => format!("writefsync {} KB x {every}", 4 * blocks),
            Self::Postmark(files) => format!("postmark, {files} K files"),
        }
    }

    fn run(self, kept: Kept, scale: u64) -> Result<Ran, Failure> {
        self.run_on(&MACHINE, kept, scale)
    }

    fn run_on(self, machine: &Machine, kept: Kept, scale: u64) -> Result<Ran, Failure> {
        match self {
            Self::Varmail => {
                let (steps, count) = (loads::varmail::<1>(), loads::VARMAIL_OPERATIONS);
                machine.run(kept, scale, |world| Loop::new(steps, count, 16, 0, world))
            }
            Self::VarmailLarge => {
                let (steps, count) = (loads::varmail::<4>(), loads::VARMAIL_OPERATIONS);
                machine.run(kept, scale, |world| Loop::new(steps, count, 16, 0, world))
            }
            Self::Fileserver => {
                let machine = Machine {
                    threads: 50,
                    files: 800_000,
                    file_blocks: (4, 4),
                    average_blocks: 5,
                    directories: Directories::Many,
                    ..*machine
                };
                let (steps, count) = (loads::fileserver::<4>(), loads::FILESERVER_OPERATIONS);
                machine.run(kept, scale, |world| Loop::new(steps, count, 50, 0, world))
            }
            Self::WriteFsync(blocks, every) => {
                let machine = Machine {
                    threads: 1,
                    files: 8 * scale,
                    file_blocks: (0, 0),
                    average_blocks: (1 << 17) / scale,
                    filled_percent: 100,
                    run_ns: Some(WRITEFSYNC_NS),
                    ..*machine
                };
                // A file of 1 GB, which begins anew when it is full.
                let most = WRITEFSYNC_BLOCKS / scale;
                machine.run(kept, scale, |_| WriteFsync { blocks, every, written: 0, most })
            }
            Self::Postmark(thousands) => {
                let sizes = (1, 3);
                let machine = Machine {
                    threads: 1,
                    files: thousands * 1_000,
                    file_blocks: sizes,
                    average_blocks: 2,
                    directories: Directories::Many,
                    ..*machine
                };
                machine.run(kept, scale, |world| Postmark::new(world, sizes, false))
            }
        }
    }
}

struct Compared<'a> {
    figure: &'static str,
    compared: String,
    paper: &'static str,
    ours: &'a Ran,
    other: &'a Ran,
    unit: Unit,
    band: Band,
}

impl Compared<'_> {
    fn row(self, scale: u64) -> Row {
        let Self { figure, compared, paper, ours, other, unit, band } = self;
        let value = match unit {
            Unit::Times => ours.per_second / other.per_second,
            _ => percent_more(ours.per_second, other.per_second),
        };
        let why = format!(
            "{:.1} against {:.1} /s; ours {}; there {}",
            ours.per_second,
            other.per_second,
            ours.counts(),
            other.counts()
        );
        Row { figure, compared, paper, ours: value, unit, band, scale, why }
    }
}

/// FGM figure 2a: the gates among the baselines. The figure does not say whether the journal on an
/// HDD has a disk of its own; the paper's text has two disks where it compares with memory.
pub fn figure_2(scale: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for work in [FgmWork::Varmail, FgmWork::Fileserver] {
        let is_varmail = work == FgmWork::Varmail;
        let none = work.run(Kept::Without, scale)?;
        let disk = work.run(ordered(Ring::SameDisk), scale)?;
        let second = work.run(ordered(Ring::SecondDisk), scale)?;
        let nvm = work.run(ordered(COPIED), scale)?;
        let mut gate = |name: &str, paper, ours: &Ran, other: &Ran, band| {
            let compared = format!("{}: {name}", work.name());
            let (figure, unit) = ("gate: FGM 2a", Unit::Percent);
            rows.push(Compared { figure, compared, paper, ours, other, unit, band }.row(scale));
        };
        let (paper, band) = match is_varmail {
            true => ("- 48.2 %", Band::Must(-60.0, -10.0)),
            false => ("- 40.9 %", Band::Must(-60.0, -15.0)),
        };
        gate("ordered on HDD / none", paper, &disk, &none, band);
        gate("ordered on a second HDD / none", paper, &second, &none, Band::Printed);
        let (paper, band) = match is_varmail {
            true => ("+ 11.1 %", Band::Must(-10.0, 40.0)),
            false => ("+ 12.4 %", Band::Printed),
        };
        gate("journal in NVM / on a second HDD", paper, &nvm, &second, band);
        gate("journal in NVM / on the same HDD", paper, &nvm, &disk, Band::Printed);
    }
    Ok(rows)
}

/// FGM figures 9a, 10a, 11a and 12a: throughput, of those that are wanted.
pub fn figures_9_to_12(scale: u64, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let (must, percent) = (Band::at_least, Unit::Percent);
    let works = [
        ("FGM 9a", FgmWork::Varmail, percent, ("+ 51.8 %", must(30.0)), ("+ 34.5 %", must(30.0))),
        (
            "FGM 9a",
            FgmWork::VarmailLarge,
            percent,
            ("+ 51.8 %", Band::Printed),
            ("+ 34.5 %", Band::Printed),
        ),
        (
            "FGM 10a",
            FgmWork::Fileserver,
            percent,
            ("+ 73.6 %", must(35.0)),
            ("+ 41.6 %", must(35.0)),
        ),
        (
            "FGM 11a",
            FgmWork::WriteFsync(1, 32),
            Unit::Times,
            ("15.8 x", Band::Must(11.0, 20.0)),
            ("2.8 x", Band::Printed),
        ),
        (
            "FGM 11a",
            FgmWork::WriteFsync(1, 128),
            Unit::Times,
            ("-", Band::Printed),
            ("-", Band::Printed),
        ),
        (
            "FGM 11a",
            FgmWork::WriteFsync(4, 32),
            Unit::Times,
            ("-", Band::Printed),
            ("-", Band::Printed),
        ),
        (
            "FGM 12a",
            FgmWork::Postmark(500),
            percent,
            ("+ 114 %", must(60.0)),
            ("+ 79.6 %", must(60.0)),
        ),
        ("FGM 12a", FgmWork::Postmark(100), percent, ("-", Band::Printed), ("-", Band::Printed)),
    ];
    for (figure, work, unit, on_disk, on_nvm) in works {
        if !is_wanted(figure) {
            continue;
        }
        let ours = work.run(OURS, scale)?;
        for (ring, name, (paper, band)) in [
            (Ring::SecondDisk, "ordered on a second disk", on_disk),
            (COPIED, "ordered in NVM", on_nvm),
        ] {
            let other = work.run(ordered(ring), scale)?;
            let compared = format!("{}: / {name}", work.name());
            let ours = &ours;
            let compared = Compared { figure, compared, paper, ours, other: &other, unit, band };
            rows.push(compared.row(scale));
        }
        if matches!(work, FgmWork::Varmail | FgmWork::WriteFsync(1, 32)) {
            rows.push(against_two_fences(figure, work, &ours, scale)?);
        }
    }
    rows.extend(with_a_sync(scale, &is_wanted)?);
    if is_wanted("FGM 12a") {
        rows.extend(without_a_shield(scale)?);
    }
    Ok(rows)
}

/// A workload whose commits have a second fence, and a tail word behind it.
fn against_two_fences(
    figure: &'static str,
    work: FgmWork,
    ours: &Ran,
    scale: u64,
) -> Result<Row, Failure> {
    let Kept::Nvm(nvm) = OURS else { return Err("a journal in memory".into()) };
    let tails = Kept::Nvm(InNvm { protocol: Protocol::TailPointer, ..nvm });
    let other = &work.run(tails, scale)?;
    let compared = format!("{}: one fence / two and a tail word", work.name());
    let (paper, unit, band) = ("-", Unit::Percent, Band::Printed);
    Ok(Compared { figure, compared, paper, ours, other, unit, band }.row(scale))
}

/// Figure 11a on a second disk alone.
pub fn writefsync_alone(scale: u64) -> Result<Vec<Row>, Failure> {
    let (figure, unit, paper, band) = ("FGM 11a", Unit::Times, "15.8 x", Band::Must(11.0, 20.0));
    let work = FgmWork::WriteFsync(1, 32);
    let (ours, other) = (work.run(OURS, scale)?, work.run(ordered(Ring::SecondDisk), scale)?);
    let compared = format!("{}: / ordered on a second disk", work.name());
    let row = Compared { figure, compared, paper, ours: &ours, other: &other, unit, band };
    Ok(vec![row.row(scale)])
}

/// The disk of the homes is synced before a commit elsewhere, as later kernels do it.
fn with_a_sync(scale: u64, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Row>, Failure> {
    let machine = Machine { syncs_homes: true, ..MACHINE };
    let (mut rows, band) = (Vec::new(), Band::Printed);
    let works = [
        ("FGM 9a", FgmWork::Varmail, Unit::Percent, ["+ 51.8 %", "+ 34.5 %"]),
        ("FGM 11a", FgmWork::WriteFsync(1, 32), Unit::Times, ["15.8 x", "2.8 x"]),
    ];
    for (figure, work, unit, papers) in works {
        if !is_wanted(figure) {
            continue;
        }
        let ours = work.run_on(&machine, OURS, scale)?;
        let rings = [(Ring::SecondDisk, "on a second disk"), (COPIED, "in NVM")];
        for ((ring, name), paper) in rings.into_iter().zip(papers) {
            let other = work.run_on(&machine, ordered(ring), scale)?;
            let compared = format!("{}: / ordered {name}; data is synced", work.name());
            let row = Compared { figure, compared, paper, ours: &ours, other: &other, unit, band };
            rows.push(row.row(scale));
        }
    }
    Ok(rows)
}

/// On a disk that never tears a block, nothing goes through the shield.
fn without_a_shield(scale: u64) -> Result<Vec<Row>, Failure> {
    let machine = Machine { is_atomic: true, ..MACHINE };
    let work = FgmWork::Postmark(500);
    let (ours, other) = (
        work.run_on(&machine, OURS, scale)?,
        work.run_on(&machine, ordered(Ring::SecondDisk), scale)?,
    );
    let compared = format!("{}: / ordered on a second disk; no block is ever torn", work.name());
    let (figure, paper, unit, band) = ("FGM 12a", "+ 114 %", Unit::Percent, Band::Printed);
    let row = Compared { figure, compared, paper, ours: &ours, other: &other, unit, band };
    Ok(vec![row.row(scale)])
}

/// Objects that a `TxnInfo` names. It has two words of its own, and eight bytes for each object.
const fn objects_of(bytes: u32) -> u64 {
    let objects = (bytes / 8).saturating_sub(2);
    if objects == 0 { 1 } else { objects as u64 }
}

/// FGM figures 13 and 14: the size of the `TxnInfo`, from 256 B to 128 KiB. Returns the rows, and
/// for each workload its throughput and its commits of 1,000 operations at each size. Where the
/// number of commits has a band, it is counted at `commits_scale`: the timer commits sooner, the
/// coarser the scale.
pub fn figure_13(scale: u64, commits_scale: u64) -> Result<(Vec<Row>, [Curves; 2]), Failure> {
    let (mut rows, mut speeds, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    for work in [FgmWork::Varmail, FgmWork::Fileserver, FgmWork::Postmark(500)] {
        let mut runs = Vec::new();
        for bytes in SIZES {
            runs.push(work.run(in_nvm(objects_of(bytes)), scale)?);
        }
        let (first, last) = (&runs[0], &runs[runs.len() - 1]);
        let (paper, band) = match work {
            FgmWork::Varmail => ("+ 20 %", Band::Printed),
            FgmWork::Fileserver => ("+ 56.5 %", Band::Above(0.0)),
            _ => ("best at 4 KB, + 35 % there", Band::Printed),
        };
        let unit = Unit::Percent;
        let compared = format!("{}: 128 KiB / 256 B", work.name());
        let figure = "FGM 13";
        let row = Compared { figure, compared, paper, ours: last, other: first, unit, band };
        rows.push(row.row(scale));
        if matches!(work, FgmWork::Postmark(_)) {
            let best = runs.iter().max_by(|one, other| one.per_second.total_cmp(&other.per_second));
            let compared = format!("{}: best size / 128 KiB", work.name());
            let ours = best.unwrap_or(last);
            let band = Band::Above(0.0);
            let row = Compared { figure, compared, paper, ours, other: last, unit, band };
            rows.push(row.row(scale));
        }
        let per_operation = |ran: &Ran| ran.commits as f64 / ran.operations.max(1) as f64;
        let (paper, band) = match work {
            FgmWork::Varmail => ("- 95.8 %", Band::Printed),
            FgmWork::Fileserver => ("- 99.8 %", Band::Must(f64::NEG_INFINITY, -99.0)),
            _ => ("-", Band::Printed),
        };
        let (mut ends, mut scale_of_ends) = ([first.clone(), last.clone()], scale);
        if band != Band::Printed && commits_scale != scale {
            let run = |bytes| work.run(in_nvm(objects_of(bytes)), commits_scale);
            ends = [run(SIZES[0])?, run(SIZES[SIZES.len() - 1])?];
            scale_of_ends = commits_scale;
        }
        rows.push(Row {
            figure: "FGM 14",
            compared: format!("{}: commits an operation, 128 KiB / 256 B", work.name()),
            paper,
            ours: percent_more(per_operation(&ends[1]), per_operation(&ends[0])),
            unit,
            band,
            scale: scale_of_ends,
            why: ends
                .each_ref()
                .map(|ran| format!("{} commits of {} operations", ran.commits, ran.operations))
                .join(", against those at 128 KiB: "),
        });
        speeds.push((work.name(), runs.iter().map(|ran| ran.per_second).collect()));
        let of_thousand = runs.iter().map(|ran| 1e3 * per_operation(ran));
        commits.push((work.name(), of_thousand.collect()));
    }
    Ok((rows, [speeds, commits]))
}

/// How much faster a workload is, on other media.
pub fn against_disk(
    work: FgmWork,
    medium: Medium,
    memory: MemoryModel,
    scale: u64,
) -> Result<f64, Failure> {
    let machine = Machine { medium, ..MACHINE };
    let Kept::Nvm(nvm) = OURS else { return Err("a journal in memory".into()) };
    let ours = work.run_on(&machine, Kept::Nvm(InNvm { memory, ..nvm }), scale)?;
    let other = work.run_on(&machine, ordered(Ring::SecondDisk), scale)?;
    Ok(ours.per_second / other.per_second)
}

/// Bytes of a `TxnInfo`.
pub const SIZES: [u32; 10] =
    [256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10];
