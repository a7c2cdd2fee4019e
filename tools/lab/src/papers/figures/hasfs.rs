//! The rows of HasFS: `lcow` beside block journals in four modes, on a turning disk and on a solid
//! state drive.

use block_journal::Mode;
use journal_core::Protocol;
use nvm_journal::{Journal, Lcow};
use sim_disk::time::{Clock, MemoryModel, TimedPmem};

use crate::engines::Failure;
use crate::erased::{DynDisk, DynPmem};
use crate::papers::files::case::{InNvm, Kept, Machine, Medium};
use crate::papers::files::fs::Directories;
use crate::papers::files::loads::{self, Loop, Overwrite};
use crate::papers::files::setup::{Checkpoints, Ran};
use crate::papers::files::world::World;
use crate::papers::host::Host;
use crate::papers::media::{BATCH_BLOCKS, HostDisk};
use crate::papers::policy::HostPolicy;
use crate::papers::row::{Band, Row, Unit, percent_more};
use crate::papers::store::Ring;

/// The slots are the page cache: 14 GB.
pub const NVM_BYTES: u64 = 14 << 30;
/// The write buffer holds 20 MB.
const TRANSACTION_BLOCKS: u64 = (20 << 20) / 4096;
/// Journals of 128 MB on the disk, and of 1 GB in memory.
const RING_BLOCKS: u64 = 1 << 15;
const LARGE_RING_BLOCKS: u64 = 1 << 18;
/// Nearly all of the memory is slots.
const SLOT_FRACTION: u8 = 240;
pub const RUN_NS: u64 = 30_000_000_000;

/// Memory of the host.
pub const MEMORY_BYTES: u64 = 16 << 30;
/// Blocks of a write in order, and of a file of webproxy.
pub const SEQUENTIAL_BLOCKS: u64 = 16;
pub const WEBPROXY_BLOCKS: u64 = 8;

const MACHINE: Machine = Machine {
    host: Host::HASFS,
    cache_bytes: 14 << 30,
    memory_bytes: MEMORY_BYTES,
    ..Machine::USUAL
};

fn lcow(clock: &Clock) -> HostPolicy {
    HostPolicy::new(Lcow::new(), clock)
}

const OURS: Kept = kept(true);

/// A thread beside the writer empties the write buffer. The paper does not say who does.
const BESIDE: Kept = kept(false);

const fn kept(caller_flushes: bool) -> Kept {
    Kept::Nvm(InNvm {
        policy: lcow,
        memory: MemoryModel::hasfs(),
        bytes: NVM_BYTES,
        logs_data: true,
        checkpoints: Checkpoints::Beside,
        objects_max: None,
        caller_flushes,
        slot_fraction: Some(SLOT_FRACTION),
        batch_blocks: BATCH_BLOCKS,
        step_blocks: BATCH_BLOCKS,
        disk_log: true,
        transaction_blocks: TRANSACTION_BLOCKS,
        protocol: Protocol::OneFence,
    })
}

const fn on_disk(mode: Mode) -> Kept {
    Kept::Blocks(mode, Ring::SameDisk, RING_BLOCKS)
}

/// The baselines, by name.
const OTHERS: [(&str, Kept); 4] = [
    ("none", Kept::Without),
    ("writeback", on_disk(Mode::Writeback)),
    ("ordered", on_disk(Mode::Ordered)),
    ("data", on_disk(Mode::Data)),
];

/// A journal in memory, which the paper emulates without any latency.
const NVM_JOURNAL: Kept =
    Kept::Blocks(Mode::Data, Ring::RamDisk(MemoryModel::delta_journaling()), LARGE_RING_BLOCKS);

/// A workload on a file of this many megabytes.
#[derive(Clone, Copy, Debug)]
struct Micro {
    megabytes: u64,
    is_random: bool,
}

impl Micro {
    fn run(
        self,
        medium: Medium,
        kept: Kept,
        writes_back: bool,
        scale: u64,
    ) -> Result<Ran, Failure> {
        self.run_on(&Machine { medium, writes_back, ..MACHINE }, kept, scale)
    }

    fn run_on(self, machine: &Machine, kept: Kept, scale: u64) -> Result<Ran, Failure> {
        let blocks = (self.megabytes << 8) / scale;
        let machine = Machine {
            files: 4 * scale,
            file_blocks: (0, 0),
            first_blocks: blocks,
            average_blocks: blocks / 2,
            filled_percent: 100,
            directories: Directories::One,
            run_ns: Some(RUN_NS),
            ..*machine
        };
        let is_random = self.is_random;
        let at_a_time = if is_random { 1 } else { SEQUENTIAL_BLOCKS };
        machine.run(kept, scale, |_| Overwrite {
            file: 0,
            blocks,
            at_a_time,
            is_random,
            appends: false,
            passes: 1,
            region: blocks,
            every: None,
            at: 0,
        })
    }
}

fn why(ours: &Ran, other: &Ran) -> String {
    format!(
        "{:.0} against {:.0} /s; ours {}; there {}",
        ours.per_second,
        other.per_second,
        ours.counts(),
        other.counts()
    )
}

const MEDIA: [(&str, Medium); 2] = [("HDD", Medium::HDD), ("SSD", Medium::SSD)];

/// Tables 1 and 2: the gates.
pub fn tables_1_and_2(scale: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let random = Micro { megabytes: 20 << 10, is_random: true };
    for (name, medium) in MEDIA {
        let is_hdd = name == "HDD";
        let free = random.run(medium, Kept::Without, false, scale)?;
        let none = random.run(medium, Kept::Without, true, scale)?;
        let row = |figure, compared: String, paper, ours: &Ran, other: &Ran, band| Row {
            figure,
            compared,
            paper,
            ours: percent_more(ours.per_second, other.per_second),
            unit: Unit::Percent,
            band,
            scale,
            why: why(ours, other),
        };
        let (paper, band) = match is_hdd {
            true => ("- 77.3 .. - 78.9 %", Band::Must(-82.0, -70.0)),
            false => ("- 75.7, - 76.6 %", Band::Must(-80.0, -55.0)),
        };
        let compared = format!("{name}: none with / without write-back");
        rows.push(row("gate: HasFS Table 1", compared, paper, &none, &free, band));
        for (mode, kept) in &OTHERS[1..] {
            let other = random.run(medium, *kept, true, scale)?;
            let (paper, band) = match (*mode, is_hdd) {
                ("data", true) => ("- 96.8 %", Band::Must(-98.0, -90.0)),
                ("data", false) => ("- 61.5 %", Band::Must(-80.0, -50.0)),
                ("ordered", true) => ("- 22.3 %", Band::Printed),
                ("ordered", false) => ("- 10.3 %", Band::Printed),
                (_, true) => ("- 20.7 %", Band::Printed),
                _ => ("- 4.2 %", Band::Printed),
            };
            let compared = format!("{name}: {mode} / none");
            rows.push(row("gate: HasFS Table 2", compared, paper, &other, &none, band));
        }
    }
    Ok(rows)
}

fn times_row(
    figure: &'static str,
    compared: String,
    (paper, band): (&'static str, Band),
    ours: &Ran,
    other: &Ran,
    scale: u64,
) -> Row {
    let value = ours.per_second / other.per_second;
    let why = why(ours, other);
    Row { figure, compared, paper, ours: value, unit: Unit::Times, band, scale, why }
}

/// Figures 7 to 10: a file that is larger than all memory, and one that fits. `small_scale` is that
/// of the small one, which cannot be as small as the large one.
pub fn figures_7_to_10(scale: u64, small_scale: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (name, medium) in MEDIA {
        let is_hdd = name == "HDD";
        for (is_random, kind) in [(true, "random"), (false, "sequential")] {
            let micro = Micro { megabytes: 20 << 10, is_random };
            let ours = micro.run(medium, OURS, true, scale)?;
            for (mode, kept) in OTHERS {
                let other = micro.run(medium, kept, true, scale)?;
                let band = match (is_hdd, is_random, mode) {
                    (true, true, "none") => Band::at_least(1.4),
                    (true, true, "data") => Band::at_least(20.0),
                    (false, true, "none") => Band::at_least(1.1),
                    (false, true, "data") | (false, false, "data") => Band::at_least(2.0),
                    (true, false, "none") => Band::Must(0.7, 1.3),
                    (false, false, "none") => Band::Above(1.0),
                    _ => Band::Printed,
                };
                let paper = match (is_hdd, is_random) {
                    (true, true) => "1.6 .. 46.6 x",
                    (false, true) => "1.7 .. 2.9 x",
                    (true, false) => "no gain",
                    (false, false) => "1.3 .. 3.1 x",
                };
                let figure = if is_hdd { "HasFS 7" } else { "HasFS 8" };
                let compared = format!("{name}, 20 GB, {kind}: / {mode}");
                rows.push(times_row(figure, compared, (paper, band), &ours, &other, scale));
                if mode == "none" {
                    let ours = micro.run(medium, BESIDE, true, scale)?;
                    let compared = format!("{name}, 20 GB, {kind}: / {mode}; a thread empties");
                    let said = (paper, Band::Printed);
                    rows.push(times_row(figure, compared, said, &ours, &other, scale));
                }
            }
        }
        let micro = Micro { megabytes: 100, is_random: true };
        let ours = micro.run(medium, OURS, true, small_scale)?;
        for (mode, kept) in OTHERS {
            let other = micro.run(medium, kept, true, small_scale)?;
            let said = match (is_hdd, mode) {
                (_, "none") => ("loses", Band::Must(0.0, 1.0)),
                (true, "data") => ("> 2.8 x", Band::at_least(2.8)),
                (false, "data") => ("> 1.3 x", Band::at_least(1.3)),
                _ => ("loses", Band::Printed),
            };
            let figure = if is_hdd { "HasFS 9" } else { "HasFS 10" };
            let compared = format!("{name}, 100 MB, random: / {mode}");
            rows.push(times_row(figure, compared, said, &ours, &other, small_scale));
        }
    }
    Ok(rows)
}

/// Figure 7 alone, random writes.
pub fn figure_7_random(scale: u64) -> Result<Vec<Row>, Failure> {
    let micro = Micro { megabytes: 20 << 10, is_random: true };
    let ours = micro.run(Medium::HDD, OURS, true, scale)?;
    let mut rows = Vec::new();
    for ((mode, kept), least) in [(OTHERS[0], 1.4), (OTHERS[3], 20.0)] {
        let other = micro.run(Medium::HDD, kept, true, scale)?;
        let said = ("1.6 .. 46.6 x", Band::at_least(least));
        let compared = format!("HDD, 20 GB, random: / {mode}");
        rows.push(times_row("HasFS 7", compared, said, &ours, &other, scale));
    }
    Ok(rows)
}

/// How much faster random writes are than without a journal, on another host and other media.
pub fn random_against_none(
    host: Host,
    medium: Medium,
    memory: MemoryModel,
    scale: u64,
) -> Result<f64, Failure> {
    let micro = Micro { megabytes: 20 << 10, is_random: true };
    let Kept::Nvm(nvm) = OURS else { return Err("a journal in memory".into()) };
    let machine = Machine { host, medium, ..MACHINE };
    let ours = micro.run_on(&machine, Kept::Nvm(InNvm { memory, ..nvm }), scale)?;
    let other = micro.run_on(&machine, Kept::Without, scale)?;
    Ok(ours.per_second / other.per_second)
}

/// A workload of filebench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Macro {
    Fileserver,
    Varmail,
    Webserver,
    Webproxy,
}

impl Macro {
    fn run(self, medium: Medium, kept: Kept, scale: u64) -> Result<Ran, Failure> {
        self.run_on(&Machine { medium, ..MACHINE }, kept, scale)
    }

    fn run_on(self, machine: &Machine, kept: Kept, scale: u64) -> Result<Ran, Failure> {
        let mut world = self.on(machine).world(kept, scale)?;
        let mut load = self.load(&world);
        world.run(&mut load)
    }

    /// A machine with the files of this workload.
    const fn on(self, machine: &Machine) -> Machine {
        let (threads, files, blocks, average_blocks, directories) = match self {
            Self::Fileserver => (50, 491_000, 16, 18, Directories::Many),
            Self::Varmail => (16, 983_000, 8, 9, Directories::One),
            Self::Webserver => (100, 491_000, 16, 18, Directories::Many),
            Self::Webproxy => (100, 983_000, WEBPROXY_BLOCKS, 9, Directories::One),
        };
        let file_blocks = (blocks, blocks);
        Machine { threads, files, file_blocks, average_blocks, directories, ..*machine }
    }

    fn load(self, world: &World) -> Loop {
        let (steps, count, threads, logs) = match self {
            Self::Fileserver => (loads::fileserver::<16>(), loads::FILESERVER_OPERATIONS, 50, 0),
            Self::Varmail => (loads::varmail::<4>(), loads::VARMAIL_OPERATIONS, 16, 0),
            Self::Webserver => (loads::WEBSERVER, loads::WEBSERVER_OPERATIONS, 100, 100),
            Self::Webproxy => (loads::WEBPROXY, loads::WEBPROXY_OPERATIONS, 100, 0),
        };
        Loop::new(steps, count, threads, logs, world)
    }
}

/// How much faster fileserver is than in data mode, on other media.
pub fn fileserver_against_data(
    medium: Medium,
    memory: MemoryModel,
    scale: u64,
) -> Result<f64, Failure> {
    let Kept::Nvm(nvm) = OURS else { return Err("a journal in memory".into()) };
    let ours = Macro::Fileserver.run(medium, Kept::Nvm(InNvm { memory, ..nvm }), scale)?;
    let other = Macro::Fileserver.run(medium, on_disk(Mode::Data), scale)?;
    Ok(ours.per_second / other.per_second)
}

/// A run that ends before a journal of 1 GB is three quarters full.
const BEFORE_FULL_NS: u64 = 15_000_000_000;

/// Figures 11 and 12, varmail while a journal of 1 GB in memory has room for all.
pub fn short_varmail(scale: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (name, medium) in MEDIA {
        let machine = Machine { medium, run_ns: Some(BEFORE_FULL_NS), ..MACHINE };
        let ours = Macro::Varmail.run_on(&machine, OURS, scale)?;
        let other = Macro::Varmail.run_on(&machine, NVM_JOURNAL, scale)?;
        let (figure, said) = match name {
            "HDD" => ("HasFS 11, short", ("loses", Band::Printed)),
            _ => ("HasFS 12, short", ("-", Band::Printed)),
        };
        let compared =
            format!("{name}, varmail, 15 s: / NVM journal of 1 GB, before its first checkpoint");
        rows.push(times_row(figure, compared, said, &ours, &other, scale));
    }
    Ok(rows)
}

/// Pages that recovery finds in Table 4.
pub const PAGES: u64 = 10_000;

/// What an open took after a crash, in seconds: the open itself, metadata on its way home, and
/// pages; and how many blocks these were. Without `apart`, the open writes all of it home.
fn recovered(
    work: Macro,
    medium: Medium,
    apart: bool,
    scale: u64,
) -> Result<([f64; 3], [u64; 2]), Failure> {
    let machine = Machine { medium, slots_taken: Some(PAGES), ..MACHINE };
    let mut world = work.on(&machine).world(OURS, scale)?;
    let mut load = work.load(&world);
    world.run(&mut load)?;
    let (clock, disk, region) = world.crash()?;
    let Kept::Nvm(nvm) = OURS else { return Err("a journal in memory".into()) };
    let pmem = TimedPmem::new(region, &clock, nvm.memory);
    pmem.meter().charge_reads(true);
    let mut times = [clock.now(); 4];
    let options = nvm.options(&clock, scale).drain_on_open(!apart);
    // A host that has just started has no block in its memory.
    let journal = Journal::open(DynPmem::new(pmem), DynDisk::new(HostDisk::cold(disk)), &options)?;
    times[1] = clock.now();
    let metadata = journal.checkpoint_rings()?.blocks;
    times[2] = clock.now();
    let pages = journal.checkpoint()?.blocks;
    times[3] = clock.now();
    let seconds = [0, 1, 2].map(|at| (times[at + 1] - times[at]) as f64 / 1e9);
    Ok((seconds, [metadata, pages]))
}

/// Table 4: recovery. The paper writes pages back, and leaves metadata out.
pub fn table_4(scale: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let works = [
        (Macro::Fileserver, "fileserver", ["1.67 s", "302 ms"]),
        (Macro::Webserver, "webserver", ["3.13 s", "268 ms"]),
        (Macro::Webproxy, "webproxy", ["1.88 s", "232 ms"]),
    ];
    for (at, (name, medium)) in MEDIA.into_iter().enumerate() {
        let must = if name == "HDD" { Band::Must(0.5, 8.0) } else { Band::Must(0.1, 1.0) };
        for (work, said, papers) in works {
            let ([all, _, _], _) = recovered(work, medium, false, scale)?;
            let ([open, metadata, pages], blocks) = recovered(work, medium, true, scale)?;
            let row = |compared, ours, band, why| Row {
                figure: "HasFS Table 4",
                compared,
                paper: papers[at],
                ours,
                unit: Unit::Seconds,
                band,
                scale,
                why,
            };
            let why = format!(
                "apart: open {open:.3} s, {} blocks of metadata {metadata:.3} s, then {} pages",
                blocks[0], blocks[1]
            );
            let compared = format!("{name}, {said}: an open that writes all home");
            rows.push(row(compared, all, must, why.clone()));
            let compared = format!("{name}, {said}: the {PAGES} pages alone");
            rows.push(row(compared, pages, Band::Printed, why));
        }
    }
    Ok(rows)
}

/// Figures 11 and 12: workloads of filebench.
pub fn figures_11_and_12(scale: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let works = [
        (Macro::Fileserver, "fileserver"),
        (Macro::Varmail, "varmail"),
        (Macro::Webserver, "webserver"),
        (Macro::Webproxy, "webproxy"),
    ];
    for (name, medium) in MEDIA {
        let is_hdd = name == "HDD";
        for (work, said) in works {
            let ours = work.run(medium, OURS, scale)?;
            for (mode, kept) in OTHERS.into_iter().chain([("NVM journal of 1 GB", NVM_JOURNAL)]) {
                let other = work.run(medium, kept, scale)?;
                let compared = format!("{name}, {said}: / {mode}");
                let figure = if is_hdd { "HasFS 11" } else { "HasFS 12" };
                let band = band_of(work, is_hdd, mode);
                rows.push(times_row(figure, compared, band, &ours, &other, scale));
            }
        }
    }
    Ok(rows)
}

fn band_of(work: Macro, is_hdd: bool, mode: &str) -> (&'static str, Band) {
    let at_least = Band::at_least;
    match (work, is_hdd, mode) {
        (Macro::Fileserver, true, "data") => ("2.9 x", at_least(1.7)),
        (Macro::Fileserver, false, "data") => ("1.7 x", at_least(1.4)),
        (Macro::Fileserver, false, "none") => ("close", Band::Must(0.8, 1.3)),
        (Macro::Varmail, true, "ordered" | "data") => ("> 4.4 x", at_least(2.0)),
        (Macro::Varmail, true, "NVM journal of 1 GB") => ("loses", Band::Must(0.0, 1.0)),
        (Macro::Varmail, false, "ordered" | "data") => ("> 4.4 x", at_least(3.0)),
        (Macro::Webserver, true, _) => ("1.7 x", Band::Printed),
        (Macro::Webproxy, true, _) => ("2.1 .. 2.3 x", Band::Printed),
        (Macro::Webserver, false, "none" | "ordered") => ("close", Band::Must(0.8, 1.2)),
        (Macro::Webproxy, false, "ordered") => ("1.2 .. 1.5 x", at_least(1.1)),
        _ => ("-", Band::Printed),
    }
}
