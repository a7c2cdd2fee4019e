//! The rows of the two systems for mobile devices: two-level logging, and delta journaling.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nvm_journal::{CompressedDelta, TwoLevel};
use sim_disk::time::{CardModel, MemoryModel};

use crate::engines::Failure;
use crate::papers::figures::overwrite::{self, Difference, HomeRule};
use crate::papers::generators::form::TraceForm;
use crate::papers::generators::{mobibench, tpcc};
use crate::papers::policy::HostPolicy;
use crate::papers::row::{Band, Row, Unit, percent_more};
use crate::papers::traces::{self, Logs, Setting, TraceRun};
use crate::trace::{SAMPLE, Trace};

/// Transactions of SQLite in the trace of Mobibench.
const SQLITE_TRANSACTIONS: f64 = 3.0 * mobibench::OF_EACH_KIND as f64;
/// What the paper's baseline makes of them in a second.
const PAPER_PER_SECOND: f64 = 33.0;
/// What SQLite computes for a transaction, before calibration.
const SQLITE_CPU_SECONDS: f64 = 0.0015;
/// The journal that two-level logging replaces: 16 MB.
const SMALL_RING_BLOCKS: u64 = 1 << 12;
/// And the one of delta journaling: 128 MB.
const RING_BLOCKS: u64 = 1 << 15;

/// A folder of traces.
pub struct Folder<'a>(pub &'a Path);

impl Folder<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.btrc.zst"))
    }

    fn opener(&self, name: &str) -> impl Fn() -> Result<Box<dyn Read>, Failure> + use<> {
        let file = self.file(name);
        move || Ok(Box::new(File::open(&file)?))
    }
}

/// A trace that a generator has made.
struct Generated(Arc<[u8]>);

impl Generated {
    fn new(trace: Vec<u8>) -> Self {
        Self(trace.into())
    }

    fn opener(&self) -> impl Fn() -> Result<Box<dyn Read>, Failure> + use<> {
        let trace = Arc::clone(&self.0);
        move || Ok(Box::new(Cursor::new(Arc::clone(&trace))))
    }

    /// Its form, beside that of a real trace.
    fn table(&self, real: &Path) -> Result<String, Failure> {
        let form = |source: Box<dyn Read>| -> Result<TraceForm, Failure> {
            Ok(TraceForm::of(&mut Trace::open(source)?, u64::MAX)?)
        };
        Ok(form((self.opener())()?)?.table(&form(Box::new(File::open(real)?))?))
    }
}

/// How long a card takes to close a unit, in milliseconds.
const CLOSINGS_MS: [u64; 3] = [10, 40, 150];
/// Megabytes of PRAM: more sizes on the card that is the usual one.
const fn pram_mb(closing_ms: u64) -> &'static [u64] {
    if closing_ms == CLOSINGS_MS[0] { &[512, 4, 8, 16, 32, 64] } else { &[512, 4] }
}
/// The seed and the warehouses of the generators.
const SEED: u64 = 1;
const WAREHOUSES: u64 = 1;

const fn card(closing_ms: u64) -> CardModel {
    CardModel { closing_ns: closing_ms * 1_000_000, ..CardModel::class_10() }
}

fn two_level(nvm_bytes: u64, card: CardModel) -> Setting {
    Setting::new(card, MemoryModel::two_level(), nvm_bytes)
}

fn run_two_level(open: traces::Open<'_>, setting: Setting) -> Result<TraceRun, Failure> {
    traces::by_journal(open, setting, |clock| HostPolicy::new(TwoLevel::new(), clock))
}

/// How much faster a run is than the baseline, where SQLite's processor time makes the baseline as
/// fast as the paper's; and that time in milliseconds a transaction.
fn slowed(ours: &TraceRun, base: &TraceRun) -> (f64, f64) {
    let cpu = (1.0 / PAPER_PER_SECOND - base.seconds() / SQLITE_TRANSACTIONS).max(0.0);
    let seconds = |run: &TraceRun| run.seconds() + SQLITE_TRANSACTIONS * cpu;
    (seconds(base) / seconds(ours), 1e3 * cpu)
}

/// A row of two-level logging beside a log-structured store.
fn against_log(compared: String, ours: &TraceRun, base: &TraceRun, band: Band) -> Row {
    let (times, cpu_ms) = slowed(ours, base);
    Row {
        figure: "two-level, mobibench",
        compared,
        paper: "2.2 x",
        ours: times,
        unit: Unit::Times,
        band,
        scale: 1,
        why: format!("CPU {cpu_ms:.1} ms a transaction; {}", ours.counts()),
    }
}

/// Mobibench as a generator, to be run on other media.
pub struct Mobibench(Generated);

impl Mobibench {
    pub fn new() -> Self {
        Self(Generated::new(mobibench::trace(SEED, mobibench::OF_EACH_KIND)))
    }

    /// How much faster it is than a log-structured store on the same card. There SQLite's
    /// processor time makes the store as fast as the paper's, too.
    pub fn against_log(&self, card: CardModel, memory: MemoryModel) -> Result<f64, Failure> {
        let open = self.0.opener();
        let base = traces::by_log_structured(&open, card, Logs::One, 0)?;
        let ours = run_two_level(&open, Setting { memory, ..two_level(512 << 20, card) })?;
        Ok(slowed(&ours, &base).0)
    }
}

/// Two-level logging, on Mobibench as a generator; with the trace, also how near the generator
/// comes to it.
pub fn generated_mobibench(folder: Option<&Folder<'_>>) -> Result<(Vec<Row>, String), Failure> {
    let generated = Generated::new(mobibench::trace(SEED, mobibench::OF_EACH_KIND));
    let open = generated.opener();
    let mut rows = Vec::new();
    for closing_ms in CLOSINGS_MS {
        let card = card(closing_ms);
        let base = traces::by_log_structured(&open, card, Logs::One, 0)?;
        for nvm_mb in pram_mb(closing_ms) {
            let ours = run_two_level(&open, two_level(nvm_mb << 20, card))?;
            let compared = format!(
                "/ log-structured; {nvm_mb} MB of PRAM, a unit closes in {closing_ms} ms; the \
                 generator"
            );
            rows.push(against_log(compared, &ours, &base, Band::Printed));
        }
    }
    let real = folder.map(|folder| folder.file(MOBIBENCH));
    let table = real.map_or(Ok(String::new()), |real| generated.table(&real))?;
    Ok((rows, table))
}

/// Two-level logging, on the trace of Mobibench.
pub fn mobibench(folder: &Folder<'_>) -> Result<Vec<Row>, Failure> {
    let open = folder.opener(MOBIBENCH);
    let mut rows = Vec::new();
    for closing_ms in CLOSINGS_MS {
        let card = card(closing_ms);
        let base = traces::by_log_structured(&open, card, Logs::One, 0)?;
        if closing_ms == 10 {
            let seconds = base.seconds() + SQLITE_TRANSACTIONS * SQLITE_CPU_SECONDS;
            rows.push(Row {
                figure: "gate: log-structured store",
                compared: "on the card, 1.5 ms of CPU a transaction".into(),
                paper: "33 /s",
                ours: SQLITE_TRANSACTIONS / seconds,
                unit: Unit::PerSecond,
                band: Band::Must(25.0, 60.0),
                scale: 1,
                why: base.counts(),
            });
        }
        let fast = MemoryModel::two_level();
        let of_fast = pram_mb(closing_ms).iter().map(|nvm_mb| (*nvm_mb, "", fast));
        let slow = (512, " of 60 us", MemoryModel::two_level_slow());
        for (nvm_mb, slow, memory) in of_fast.chain([slow]) {
            let setting = Setting { memory, ..two_level(nvm_mb << 20, card) };
            let ours = run_two_level(&open, setting)?;
            let is_must = (closing_ms, nvm_mb, slow) == (10, 512, "");
            let mut against = |base: &TraceRun, name: &str, band| {
                let compared = format!(
                    "/ {name}; {nvm_mb} MB of PRAM{slow}, a unit closes in {closing_ms} ms"
                );
                rows.push(against_log(compared, &ours, base, band));
            };
            let band = if is_must { Band::Must(1.8, 3.0) } else { Band::Printed };
            against(&base, "log-structured", band);
            if is_must {
                // As F2FS has it, which is the paper's baseline.
                let base = traces::by_log_structured(&open, card, Logs::Two, 0)?;
                against(&base, "log-structured with logs of data and of nodes", Band::Printed);
            }
        }
    }
    Ok(rows)
}

/// Two-level logging, on the trace of filebench's varmail.
pub fn filebench(folder: &Folder<'_>) -> Result<Vec<Row>, Failure> {
    let open = folder.opener("ext4-varmail-datajournal");
    let mut rows = Vec::new();
    for closing_ms in CLOSINGS_MS {
        let card = card(closing_ms);
        let base = traces::by_block_journal(&open, card, SMALL_RING_BLOCKS)?;
        let log = traces::by_log_structured(&open, card, Logs::One, 0)?;
        for nvm_mb in pram_mb(closing_ms) {
            let ours = run_two_level(&open, two_level(nvm_mb << 20, card))?;
            let is_must = (closing_ms, *nvm_mb) == (10, 512);
            let (ms, base_ms) = (ours.millis_a_commit(), base.millis_a_commit());
            let row = |against: &str, paper, other: f64, band, why| Row {
                figure: "two-level, filebench",
                compared: format!(
                    "time a commit, {against}; {nvm_mb} MB of PRAM, a unit closes in \
                     {closing_ms} ms"
                ),
                paper,
                ours: other / ms,
                unit: Unit::Times,
                band,
                scale: 1,
                why,
            };
            let band = if is_must { Band::at_least(3.0) } else { Band::Printed };
            let why = format!("{base_ms:.1} -> {ms:.1} ms; {}", ours.counts());
            rows.push(row("/ block journal of 16 MB", "19.9 -> 4.3 ms: 4.6 x", base_ms, band, why));
            if is_must {
                let other = log.millis_a_commit();
                let why = format!("{other:.1} ms there");
                rows.push(row("/ log-structured", "-", other, Band::Printed, why));
            }
        }
    }
    Ok(rows)
}

const MOBIBENCH: &str = "ext4-mobibench-datajournal";
const TPCC: &str = "ext4-tpcc-datajournal";

/// Delta journaling, on the trace of TPC-C.
pub fn tpcc(folder: &Folder<'_>) -> Result<Vec<Row>, Failure> {
    tpcc_rows(&folder.opener(TPCC), "", Band::at_least(15.0))
}

/// Delta journaling, on TPC-C as a generator; with the trace, also how near the generator comes to
/// it.
pub fn generated_tpcc(folder: Option<&Folder<'_>>) -> Result<(Vec<Row>, String), Failure> {
    let generated = Generated::new(tpcc::trace(SEED, WAREHOUSES, tpcc::WRITING));
    let rows = tpcc_rows(&generated.opener(), "; the generator", Band::Printed)?;
    let real = folder.map(|folder| folder.file(TPCC));
    let table = real.map_or(Ok(String::new()), |real| generated.table(&real))?;
    Ok((rows, table))
}

fn tpcc_rows(open: traces::Open<'_>, of: &str, must: Band) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for closing_ms in CLOSINGS_MS {
        let card = card(closing_ms);
        let base = traces::by_block_journal(open, card, RING_BLOCKS)?;
        let ours = traces::by_journal(open, overwrite::setting(card, 1), |clock| {
            HostPolicy::new(CompressedDelta::new(), clock)
        })?;
        let (b, o, n) = (base.seconds(), ours.seconds(), ours.commits as f64);
        let band = if closing_ms == 10 { must } else { Band::Printed };
        let cpu_ms = 1e3 * (b - 1.2 * o) / (0.2 * n);
        rows.push(Row {
            figure: "delta, TPC-C",
            compared: format!("/ data mode, disk alone; a unit closes in {closing_ms} ms{of}"),
            paper: "+ 20 % tpmC",
            ours: percent_more(b, o),
            unit: Unit::Percent,
            band,
            scale: 1,
            why: format!(
                "{b:.1} -> {o:.1} s; + 20 % at {cpu_ms:.1} ms of CPU a commit; {}",
                ours.counts()
            ),
        });
    }
    Ok(rows)
}

/// A row of the overwrites: megabytes, what differs, and the paper's word.
type Overwritten = (u64, Difference, &'static str, (&'static str, Band));

const TENTH: Overwritten = (256, Difference::Tenth, "10 %", ("16.8 x", Band::Must(12.0, 22.0)));
const HALF: Overwritten = (256, Difference::Half, "50 %", ("about 1", Band::Must(0.85, 1.1)));

/// Some of them, for a quick run.
pub const QUICK_OVERWRITES: [Overwritten; 2] = [TENTH, HALF];

/// Megabytes of the file that does not fit into the memory.
const LARGE_MB: u64 = 512;

/// Delta journaling, a file that is overwritten.
pub fn overwrites(scale: u64) -> Result<Vec<Row>, Failure> {
    let large = ("2.3 x", Band::Must(1.6, 3.2));
    let figures = [
        TENTH,
        (256, Difference::NineTenths, "90 %", TENTH.3),
        (LARGE_MB, Difference::Tenth, "10 %", large),
        (LARGE_MB, Difference::NineTenths, "90 %", large),
        HALF,
        (LARGE_MB, Difference::Half, "50 %", HALF.3),
    ];
    overwrites_of(&figures, scale)
}

/// Some of these rows.
pub fn overwrites_of(figures: &[Overwritten], scale: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (mb, difference, name, (paper, band)) in figures.iter().copied() {
        let blocks = mb * 256 / scale;
        let base = overwrite::by_block_journal(difference, blocks, card(10), scale)?;
        let setting = overwrite::setting(card(10), scale);
        let mut row = |checkpoints, which: &str, band| -> Result<(), Failure> {
            let ours = overwrite::by_journal(difference, blocks, setting, checkpoints)?;
            rows.push(Row {
                figure: "delta, overwrite",
                compared: format!("/ data mode; {mb} MB, {name} differ{which}"),
                paper,
                ours: base.seconds() / ours.seconds(),
                unit: Unit::Times,
                band,
                scale,
                why: format!(
                    "{:.1} -> {:.1} s; {}; there {} logged, {} home",
                    base.seconds(),
                    ours.seconds(),
                    ours.counts(),
                    base.logged,
                    base.home
                ),
            });
            Ok(())
        };
        row(HomeRule::USUAL, "", band)?;
        if mb == LARGE_MB && difference == Difference::Tenth {
            row(HomeRule::Paper(4), "; a quarter is free", Band::Printed)?;
            row(HomeRule::Paper(16), "; a sixteenth is free", Band::Printed)?;
            row(HomeRule::Own, "; room as we make it", Band::Printed)?;
        }
    }
    Ok(rows)
}

/// Two-level logging beside a block journal, on the small trace that the project keeps.
pub fn on_sample() -> Result<Vec<Row>, Failure> {
    let open = || -> Result<Box<dyn Read>, Failure> { Ok(Box::new(SAMPLE)) };
    let base = traces::by_block_journal(&open, card(10), SMALL_RING_BLOCKS)?;
    let setting = Setting { log_blocks: 1 << 12, ..two_level(8 << 20, card(10)) };
    let ours = run_two_level(&open, setting)?;
    Ok(vec![Row {
        figure: "two-level, sample",
        compared: "time a commit, / block journal of 16 MB".to_owned(),
        paper: "4.6 x on filebench",
        ours: base.millis_a_commit() / ours.millis_a_commit(),
        unit: Unit::Times,
        band: Band::at_least(1.0),
        scale: 1,
        why: ours.counts(),
    }])
}
