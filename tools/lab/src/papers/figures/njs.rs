//! The rows of NJS: `byte-delta` beside a block journal in data mode on a RAM disk.

use block_journal::Mode;
use byte_delta::{Appends, ByteDelta, Settings};
use journal_core::Protocol;
use sim_disk::time::{Clock, MemoryModel};

use crate::engines::Failure;
use crate::papers::files::case::{InNvm, Kept, Machine, Medium};
use crate::papers::files::fs::Directories;
use crate::papers::files::loads::{self, Loop, Overwrite, Postmark};
use crate::papers::files::setup::{Checkpoints, Ran};
use crate::papers::host::Host;
use crate::papers::media::BATCH_BLOCKS;
use crate::papers::policy::HostPolicy;
use crate::papers::row::{Band, Curves, Row, Unit, percent_more};
use crate::papers::store::Ring;

/// The journal has 128 MB.
pub const NVM_BYTES: u64 = 128 << 20;
const RING_BLOCKS: u64 = NVM_BYTES / 4096;
/// Blocks that a running transaction changes at most: an eighth of the memory. The ring has room
/// for them at worst when it is half empty; where it is fuller, the journal commits earlier.
const TRANSACTION_BLOCKS: u64 = RING_BLOCKS / 8;
/// Blocks that a block journal writes home at a time, as the one of Linux.
pub const OLDEST_BLOCKS: u64 = 64;
/// Blocks of 8 GB, which IOzone writes.
pub const FILE_BLOCKS: u64 = 8 << 18;

const MACHINE: Machine =
    Machine { host: Host::NJS, cache_bytes: 6 << 30, memory_bytes: 8 << 30, ..Machine::USUAL };

fn byte_delta(clock: &Clock) -> HostPolicy {
    HostPolicy::new(ByteDelta::new(), clock)
}

fn whole_slots(clock: &Clock) -> HostPolicy {
    byte_delta(clock).with_whole_slots()
}

fn not_delayed(clock: &Clock) -> HostPolicy {
    HostPolicy::new(ByteDelta::with(Settings::new().delays_checkpoint(false)), clock)
}

fn all_logged(clock: &Clock) -> HostPolicy {
    HostPolicy::new(ByteDelta::with(Settings::new().appends(Appends::Slots)), clock)
}

const fn in_nvm(policy: fn(&Clock) -> HostPolicy, checkpoints: Checkpoints) -> Kept {
    Kept::Nvm(InNvm {
        policy,
        memory: MemoryModel::njs(),
        bytes: NVM_BYTES,
        logs_data: true,
        checkpoints,
        caller_flushes: false,
        slot_fraction: None,
        batch_blocks: BATCH_BLOCKS,
        step_blocks: BATCH_BLOCKS,
        disk_log: true,
        objects_max: None,
        transaction_blocks: TRANSACTION_BLOCKS,
        protocol: Protocol::OneFence,
    })
}

const fn data_mode(ring: Ring) -> Kept {
    Kept::Blocks(Mode::Data, ring, RING_BLOCKS)
}

const RAM_DISK: Ring = Ring::RamDisk(MemoryModel::njs());

/// A workload of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Postmark,
    Fileserver,
    Varmail,
}

impl Work {
    pub const ALL: [Self; 3] = [Self::Postmark, Self::Fileserver, Self::Varmail];

    const fn name(self) -> &'static str {
        match self {
            Self::Postmark => "postmark",
            Self::Fileserver => "fileserver",
            Self::Varmail => "varmail",
        }
    }

    fn run(self, kept: Kept, scale: u64) -> Result<Ran, Failure> {
        self.run_on(&MACHINE, kept, scale)
    }

    fn run_on(self, machine: &Machine, kept: Kept, scale: u64) -> Result<Ran, Failure> {
        match self {
            Self::Postmark => {
                let sizes = (1, 256);
                let machine =
                    Machine { files: 10_000, file_blocks: sizes, average_blocks: 150, ..*machine };
                machine.run(kept, scale, |world| Postmark::new(world, sizes, true))
            }
            Self::Fileserver => {
                let machine = Machine {
                    threads: 50,
                    files: 50_000,
                    file_blocks: (32, 32),
                    average_blocks: 40,
                    ..*machine
                };
                let (steps, count) = (loads::fileserver::<32>(), loads::FILESERVER_OPERATIONS);
                machine.run(kept, scale, |world| Loop::new(steps, count, 50, 0, world))
            }
            Self::Varmail => {
                let machine = Machine {
                    threads: 16,
                    files: 400_000,
                    file_blocks: (4, 4),
                    average_blocks: 6,
                    directories: Directories::One,
                    ..*machine
                };
                let (steps, count) = (loads::varmail::<4>(), loads::VARMAIL_OPERATIONS);
                machine.run(kept, scale, |world| Loop::new(steps, count, 16, 0, world))
            }
        }
    }
}

/// Writes of IOzone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    Sequential,
    Again,
    Random,
}

/// Writes a file of 8 GB, without a sync; a new one, or over one that is there.
fn iozone(write: Write, kept: Kept, scale: u64) -> Result<Ran, Failure> {
    iozone_on(&MACHINE, write, kept, scale)
}

fn iozone_on(machine: &Machine, write: Write, kept: Kept, scale: u64) -> Result<Ran, Failure> {
    let blocks = FILE_BLOCKS / scale;
    let at_a_time = if write == Write::Random { 1 } else { 16 };
    let operations = match write {
        Write::Random => blocks / 8,
        _ => blocks / at_a_time,
    };
    let is_new = write == Write::Sequential;
    let machine = Machine {
        files: 4 * scale,
        file_blocks: (0, 0),
        first_blocks: if is_new { 0 } else { blocks },
        average_blocks: blocks / 2,
        directories: Directories::One,
        filled_percent: 100,
        operations: Some(operations),
        ..*machine
    };
    machine.run(kept, scale, |_| Overwrite {
        file: 0,
        blocks,
        at_a_time,
        is_random: write == Write::Random,
        appends: is_new,
        passes: 1,
        region: blocks,
        every: None,
        at: 0,
    })
}

fn both(ours: &Ran, other: &Ran) -> String {
    format!(
        "{:.1} against {:.1} /s; ours {}; there {}",
        ours.per_second,
        other.per_second,
        ours.counts(),
        other.counts()
    )
}

/// Two ways to make checkpoints.
const WAYS: [(&str, Checkpoints); 2] =
    [("stands still", Checkpoints::StandStill), ("in the background", Checkpoints::Beside)];

/// NJS figure 8a: IOzone against data mode on a RAM disk.
pub fn figure_8a(write: Write, scale: u64) -> Result<Vec<Row>, Failure> {
    let (name, paper, band) = match write {
        Write::Sequential => ("IOzone, sequential", "+ 24.4 %", Band::Must(10.0, 60.0)),
        Write::Again => ("IOzone, re-write", "+ 56.3 %", Band::Above(0.0)),
        Write::Random => ("IOzone, random", "+ 137.1 %", Band::at_least(30.0)),
    };
    let mut rows = Vec::new();
    let other = iozone(write, data_mode(RAM_DISK), scale)?;
    for (way, checkpoints) in WAYS {
        let ours = iozone(write, in_nvm(byte_delta, checkpoints), scale)?;
        let band = if checkpoints == Checkpoints::StandStill { band } else { Band::Printed };
        rows.push(row("NJS 8a", format!("{name}; {way}"), paper, &ours, &other, band, scale));
    }
    Ok(rows)
}

/// NJS figure 8b: workloads against data mode on a RAM disk.
pub fn figure_8b(work: Work, scale: u64) -> Result<Vec<Row>, Failure> {
    let paper = match work {
        Work::Postmark => "+ 53.9 %",
        Work::Fileserver => "+ 43.1 %",
        Work::Varmail => "+ 50.6 %",
    };
    let mut rows = Vec::new();
    let other = work.run(data_mode(RAM_DISK), scale)?;
    for (way, checkpoints) in WAYS {
        let ours = work.run(in_nvm(byte_delta, checkpoints), scale)?;
        let stands_still = checkpoints == Checkpoints::StandStill;
        let band = if stands_still { Band::at_least(40.0) } else { Band::Printed };
        let compared = format!("{}; {way}", work.name());
        rows.push(row("NJS 8b", compared, paper, &ours, &other, band, scale));
        if work == Work::Varmail && stands_still {
            rows.push(against_two_fences(work, &ours, scale)?);
        }
    }
    Ok(rows)
}

fn row(
    figure: &'static str,
    compared: String,
    paper: &'static str,
    ours: &Ran,
    other: &Ran,
    band: Band,
    scale: u64,
) -> Row {
    Row {
        figure,
        compared,
        paper,
        ours: percent_more(ours.per_second, other.per_second),
        unit: Unit::Percent,
        band,
        scale,
        why: both(ours, other),
    }
}

/// A workload whose commits have a second fence, and a tail word behind it.
fn against_two_fences(work: Work, ours: &Ran, scale: u64) -> Result<Row, Failure> {
    let Kept::Nvm(nvm) = in_nvm(byte_delta, Checkpoints::StandStill) else {
        return Err("a journal in memory".into());
    };
    let tails = Kept::Nvm(InNvm { protocol: Protocol::TailPointer, ..nvm });
    let other = work.run(tails, scale)?;
    let compared = format!("{}; stands still: one fence / two and a tail word", work.name());
    Ok(row("NJS 8b", compared, "-", ours, &other, Band::Printed, scale))
}

/// NJS figure 1: the gates among the baselines.
pub fn figure_1(scale: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let papers =
        [(Work::Varmail, "- 43.8 %", "+ 12.1 %"), (Work::Fileserver, "- 41.9 %", "+ 11.7 %")];
    for (work, on_disk, on_ram) in papers {
        let none = work.run(Kept::Without, scale)?;
        let disk = work.run(data_mode(Ring::SameDisk), scale)?;
        let ram = work.run(data_mode(RAM_DISK), scale)?;
        let gate = |name: &str, paper, ours: &Ran, other: &Ran, band| {
            let compared = format!("{}: {name}", work.name());
            row("gate: NJS 1", compared, paper, ours, other, band, scale)
        };
        rows.push(gate("data mode on HDD / none", on_disk, &disk, &none, Band::Must(-75.0, -25.0)));
        rows.push(gate("RAM disk / HDD", on_ram, &ram, &disk, Band::Must(0.0, 45.0)));
    }
    Ok(rows)
}

/// NJS figure 11: all of it logged, or appends sent home.
pub fn figure_11(scale: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let papers = ["+ 7.2 %", "+ 5.5 %", "+ 6.9 %"];
    for (work, paper) in Work::ALL.into_iter().zip(papers) {
        for (way, checkpoints) in WAYS {
            let split = work.run(in_nvm(byte_delta, checkpoints), scale)?;
            let all = work.run(in_nvm(all_logged, checkpoints), scale)?;
            let band = match (work, checkpoints) {
                (Work::Varmail, Checkpoints::StandStill) => Band::Above(0.0),
                (Work::Postmark | Work::Fileserver, Checkpoints::Beside) => Band::at_least(-10.0),
                _ => Band::Printed,
            };
            let compared = format!("{}; {way}: all logged / split", work.name());
            rows.push(row("NJS 11", compared, paper, &all, &split, band, scale));
        }
    }
    Ok(rows)
}

/// A workload with the delayed checkpoint. And without: the oldest blocks go home, a few at a time,
/// as a block journal has it.
fn delayed_and_oldest_first(
    work: Work,
    machine: &Machine,
    scale: u64,
) -> Result<[Ran; 2], Failure> {
    let Kept::Nvm(nvm) = in_nvm(not_delayed, Checkpoints::InCommits) else {
        return Err("a journal in memory".into());
    };
    // As many at every scale.
    let step_blocks = OLDEST_BLOCKS * scale;
    let early = work.run_on(machine, Kept::Nvm(InNvm { step_blocks, ..nvm }), scale)?;
    let late = work.run_on(machine, in_nvm(byte_delta, Checkpoints::StandStill), scale)?;
    Ok([late, early])
}

/// How much faster varmail is with the delayed checkpoint, on another disk.
pub fn delayed_against_oldest_first(medium: Medium, scale: u64) -> Result<f64, Failure> {
    let machine = Machine { medium, ..MACHINE };
    let [late, early] = delayed_and_oldest_first(Work::Varmail, &machine, scale)?;
    Ok(late.per_second / early.per_second)
}

/// NJS figure 10: with and without the delayed checkpoint.
pub fn figure_10(scale: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let papers = ["+ 31.5 %", "+ 20.3 %", "+ 32.1 %"];
    for (work, paper) in Work::ALL.into_iter().zip(papers) {
        let [late, early] = delayed_and_oldest_first(work, &MACHINE, scale)?;
        let least = if work == Work::Varmail { 20.0 } else { 0.0 };
        let compared = format!("{}: delayed checkpoint / oldest first", work.name());
        let band = Band::at_least(least);
        rows.push(row("NJS 10", compared, paper, &late, &early, band, scale));
    }
    Ok(rows)
}

/// Percent of a block that differ, in figure 9a.
pub const DIFFERENCES: [usize; 6] = [0, 20, 40, 60, 80, 100];
/// Blocks of a region that is written again while the journal has it, and regions of the file.
pub const REGION_BLOCKS: u64 = 1 << 12;
const REGIONS: u64 = 16;
/// The third pass is the first that finds an older version beside the newest.
const PASSES: u64 = 3;

/// A file that is written again, of which a part of each block differs.
#[derive(Clone, Copy, Debug)]
struct Again {
    /// Blocks of the file, and of a region that is written some times before the next one.
    blocks: u64,
    region: u64,
    passes: u64,
    /// Percent of a block that differ.
    percent: usize,
    memory: MemoryModel,
}

impl Again {
    fn run(self, policy: fn(&Clock) -> HostPolicy, scale: u64) -> Result<Ran, Failure> {
        let Kept::Nvm(nvm) = in_nvm(policy, Checkpoints::StandStill) else {
            return Err("a journal in memory".into());
        };
        let (blocks, region) = (self.blocks / scale, self.region / scale);
        let machine = Machine {
            files: 4 * scale,
            file_blocks: (0, 0),
            first_blocks: blocks,
            average_blocks: blocks,
            directories: Directories::One,
            filled_percent: 100,
            operations: Some(self.passes * blocks / 16),
            differs: 4096 * self.percent / 100,
            ..MACHINE
        };
        machine.run(Kept::Nvm(InNvm { memory: self.memory, ..nvm }), scale, |_| Overwrite {
            file: 0,
            blocks,
            at_a_time: 16,
            is_random: false,
            appends: false,
            passes: self.passes,
            region,
            every: None,
            at: 0,
        })
    }

    /// How much more it is with byte update than without, in a hundred.
    fn gain(self, scale: u64) -> Result<(f64, Ran, Ran), Failure> {
        let (ours, other) = (self.run(byte_delta, scale)?, self.run(whole_slots, scale)?);
        Ok((percent_more(ours.per_second, other.per_second), ours, other))
    }
}

fn falls(compared: String, gains: &[f64], band: Band, scale: u64) -> Row {
    let falls = gains.first().zip(gains.last()).map_or(0.0, |(first, last)| first - last);
    let mean = gains.iter().sum::<f64>() / gains.len() as f64;
    Row {
        figure: "NJS 9a",
        compared,
        paper: "21 points",
        ours: falls,
        unit: Unit::Percent,
        band,
        scale,
        why: format!("mean {mean:+.1} %, the paper's + 10.8 %"),
    }
}

/// NJS figure 9a: with and without byte update, by how much of a block differs. The file of 8 GB is
/// written again once, as the paper says. Beside it are regions that are written again while the
/// journal has them: their gains are returned too, with both readings of the memory's latency.
pub fn figure_9(scale: u64, large_scale: u64) -> Result<(Vec<Row>, Curves), Failure> {
    let (mut rows, mut curves, mut gains) = (Vec::new(), Vec::new(), Vec::new());
    for (percent, paper, band) in
        [(0, "+ 20.1 %", Band::Must(4.0, 45.0)), (100, "- 1 %", Band::at_least(-5.0))]
    {
        let memory = MemoryModel::njs_per_line();
        let again = Again { blocks: FILE_BLOCKS, region: FILE_BLOCKS, passes: 1, percent, memory };
        let (gain, ours, other) = again.gain(large_scale)?;
        gains.push(gain);
        let compared =
            format!("8 GB, {percent} % differ, 300 ns a line: with / without byte update");
        rows.push(row("NJS 9a", compared, paper, &ours, &other, band, large_scale));
    }
    let compared = "8 GB, 300 ns a line: from 0 to 100 % it falls by".to_owned();
    rows.push(falls(compared, &gains, Band::Above(0.0), large_scale));
    let memories =
        [("300 ns a line", MemoryModel::njs_per_line()), ("300 ns a call", MemoryModel::njs())];
    for (name, memory) in memories {
        let mut gains = Vec::new();
        for percent in DIFFERENCES {
            let again = Again {
                blocks: REGIONS * REGION_BLOCKS,
                region: REGION_BLOCKS,
                passes: PASSES,
                percent,
                memory,
            };
            let (gain, ours, other) = again.gain(scale)?;
            gains.push(gain);
            let paper = match percent {
                0 => "+ 20.1 %",
                100 => "- 1 %",
                _ => continue,
            };
            let compared =
                format!("regions, {percent} % differ, {name}: with / without byte update");
            rows.push(row("NJS 9a", compared, paper, &ours, &other, Band::Printed, scale));
        }
        let compared = format!("regions, {name}: from 0 to 100 % it falls by");
        rows.push(falls(compared, &gains, Band::Printed, scale));
        curves.push((name.to_owned(), gains));
    }
    Ok((rows, curves))
}

/// How much faster a workload is than in data mode, on other media.
pub fn against_data_mode(
    work: Work,
    medium: Medium,
    memory: MemoryModel,
    scale: u64,
) -> Result<f64, Failure> {
    let machine = Machine { medium, ..MACHINE };
    let Kept::Nvm(nvm) = in_nvm(byte_delta, Checkpoints::StandStill) else {
        return Err("a journal in memory".into());
    };
    let ours = work.run_on(&machine, Kept::Nvm(InNvm { memory, ..nvm }), scale)?;
    let other = work.run_on(&machine, data_mode(Ring::RamDisk(memory)), scale)?;
    Ok(ours.per_second / other.per_second)
}

/// How much faster random writes are than in data mode, on another host and other media.
pub fn random_against_data_mode(
    host: Host,
    medium: Medium,
    memory: MemoryModel,
    scale: u64,
) -> Result<f64, Failure> {
    let machine = Machine { host, medium, ..MACHINE };
    let other = data_mode(Ring::RamDisk(memory));
    let Kept::Nvm(nvm) = in_nvm(byte_delta, Checkpoints::StandStill) else {
        return Err("a journal in memory".into());
    };
    let ours = iozone_on(&machine, Write::Random, Kept::Nvm(InNvm { memory, ..nvm }), scale)?;
    let other = iozone_on(&machine, Write::Random, other, scale)?;
    Ok(ours.per_second / other.per_second)
}

/// The row of figure 8a that has a mechanism of its own: one sorted sweep.
pub fn random_alone(scale: u64) -> Result<Vec<Row>, Failure> {
    let other = iozone(Write::Random, data_mode(RAM_DISK), scale)?;
    let ours = iozone(Write::Random, in_nvm(byte_delta, Checkpoints::StandStill), scale)?;
    let compared = "IOzone, random; stands still".to_owned();
    let band = Band::at_least(30.0);
    Ok(vec![row("NJS 8a", compared, "+ 137.1 %", &ours, &other, band, scale)])
}
