//! What a durable commit of SQLite costs here, beside SQLite's own ways.
//!
//! ```sh
//! cargo run --release -p nvm-journal-sqlite --example sqlite -- --quick
//! cargo run --release -p nvm-journal-sqlite --example sqlite -- \
//!     --disk /var/tmp --nvm /dev/shm --json sqlite.json --svg sqlite.svg
//! ```
//!
//! `--disk` is the folder of the databases, and `--nvm` the one that stands for persistent memory:
//! one on a DAX file system is the real thing. All engines take turns in each round, so that
//! whatever else the machine does meets all of them.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]
#![allow(clippy::std_instead_of_core, reason = "this is a program")]

mod aims;
mod engine;
mod plot;
mod workload;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::{Engine, Open};
use hdrhistogram::Histogram;
use nvm_journal::{Adaptive, AnyPolicy, Wish};
use nvm_journal_sqlite::for_pages;
use serde_json::{Value, json};
use workload::Workload;

/// What the command line says.
struct Settings {
    disk: PathBuf,
    nvm: PathBuf,
    json: Option<PathBuf>,
    /// Where a picture of the tables goes.
    svg: Option<PathBuf>,
    rounds: u32,
    /// How long an engine has its turn.
    turn: Duration,
    /// Transactions of a count.
    counted: u32,
    rows: i64,
}

impl Settings {
    fn of_arguments() -> Result<Self, Box<dyn Error>> {
        let memory = PathBuf::from("/dev/shm");
        let nvm = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let mut settings = Self {
            disk: std::env::temp_dir(),
            nvm,
            json: None,
            svg: None,
            rounds: 5,
            turn: Duration::from_millis(250),
            counted: 10_000,
            rows: 100_000,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
            match argument.as_str() {
                "--quick" => {
                    settings.rounds = 2;
                    settings.turn = Duration::from_millis(60);
                    settings.counted = 1000;
                    settings.rows = 20_000;
                }
                "--disk" => settings.disk = value()?.into(),
                "--nvm" => settings.nvm = value()?.into(),
                "--json" => settings.json = Some(value()?.into()),
                "--svg" => settings.svg = Some(value()?.into()),
                "--rounds" => settings.rounds = value()?.parse()?,
                _ => return Err(format!("no such argument: {argument}").into()),
            }
        }
        Ok(settings)
    }
}

/// Goes when it is dropped, with all that is in it.
struct Folder(PathBuf);

impl Folder {
    fn new(root: &Path, name: &str) -> Result<Self, Box<dyn Error>> {
        let folder = root.join(format!("nvm-journal-sqlite-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Times of one engine in one workload, in nanoseconds.
struct Times {
    of_all: Histogram<u64>,
    medians: Vec<f64>,
}

fn turn(
    open: &mut Open,
    workload: Workload,
    length: Duration,
    times: &mut Times,
) -> Result<(), Box<dyn Error>> {
    let mut own = Histogram::<u64>::new(3)?;
    let end = Instant::now() + length;
    while Instant::now() < end {
        let taken = open.transaction(workload)?;
        let nanoseconds = u64::try_from(taken.as_nanos())?.max(1);
        own.record(nanoseconds)?;
        times.of_all.record(nanoseconds)?;
    }
    times.medians.push(own.value_at_quantile(0.5) as f64);
    Ok(())
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Lets all engines take turns in one workload; prints a table of it.
fn compare(
    settings: &Settings,
    workload: Workload,
    opened: &mut [(Engine, Open)],
) -> Result<Value, Box<dyn Error>> {
    let mut times = Vec::new();
    for (_, open) in opened.iter_mut() {
        times.push(Times { of_all: Histogram::new(3)?, medians: Vec::new() });
        // The first of them take pages of memory and statements from the compiler.
        for _ in 0..20 {
            open.transaction(workload)?;
        }
    }
    for round in 0..settings.rounds as usize {
        for at in 0..opened.len() {
            let at = (at + round) % opened.len();
            turn(&mut opened[at].1, workload, settings.turn, &mut times[at])?;
        }
    }
    let base = opened.iter().position(|(engine, _)| *engine == Engine::WAL_FULL_MEMORY);
    println!(
        "\n{workload}\n{:38} {:>9} {:>9} {:>10} {:>8}",
        "", "p50 us", "p99 us", "commits/s", "to base"
    );
    let mut rows = Vec::new();
    for ((engine, _), own) in opened.iter().zip(&times) {
        let p50 = median(own.medians.iter().copied()) / 1000.0;
        let p99 = own.of_all.value_at_quantile(0.99) as f64 / 1000.0;
        let rate = 1e9 / own.of_all.mean();
        let ratio = base.map_or(f64::NAN, |base| {
            median(own.medians.iter().zip(&times[base].medians).map(|(own, base)| own / base))
        });
        println!("{:38} {p50:9.1} {p99:9.1} {rate:10.0} {ratio:8.2}", engine.to_string());
        rows.push(json!({
            "engine": engine.to_string(), "durable": engine.is_durable(), "p50_us": p50,
            "p99_us": p99, "commits_per_s": rate, "to_wal_full_in_memory": ratio,
            "transactions": own.of_all.len(),
        }));
    }
    Ok(json!({ "workload": workload.to_string(), "engines": rows }))
}

/// The policies that are counted: all, set for pages, and the adaptive one once more. By default
/// that one takes the least time, and not the fewest bytes. With each, whether it is to store no
/// more than changes.
fn counted() -> Vec<(String, AnyPolicy, bool)> {
    let of_changes = |policy: &AnyPolicy| {
        matches!(
            policy,
            AnyPolicy::ByteDelta(_) | AnyPolicy::CompressedDelta(_) | AnyPolicy::TwoLevel(_)
        )
    };
    let named = |policy: &AnyPolicy| (policy.to_string(), for_pages(*policy), of_changes(policy));
    let mut all: Vec<_> = AnyPolicy::ALL.iter().map(named).collect();
    let fewest = Adaptive::with(Adaptive::new().settings().wish(Wish::Wear));
    all.push(("adaptive, the fewest bytes".to_owned(), fewest.into(), true));
    all
}

/// Counts what each policy stores, fences and writes.
fn count(settings: &Settings, template: &Path) -> Result<Value, Box<dyn Error>> {
    let mut all = Vec::new();
    for workload in Workload::ALL {
        println!("\n{workload}: for each of {} commits, checkpoints included", settings.counted);
        println!(
            "{:38} {:>9} {:>8} {:>8} {:>11} {:>10}",
            "", "NVM bytes", "lines", "fences", "disk writes", "disk syncs"
        );
        for (name, policy, of_changes) in counted() {
            let (disk, nvm) =
                (Folder::new(&settings.disk, "count")?, Folder::new(&settings.nvm, "count-nvm")?);
            let (mut open, media) =
                Open::counted(policy, template, &disk.0, &nvm.0, settings.rows)?;
            open.transaction(workload)?;
            let before = media.now();
            for _ in 0..settings.counted {
                open.transaction(workload)?;
            }
            let counts = media.now().since(&before);
            let each = |count: u64| count as f64 / f64::from(settings.counted);
            println!(
                "{:38} {:9.0} {:8.1} {:8.3} {:11.4} {:10.4}",
                name,
                each(counts.bytes),
                each(counts.lines),
                each(counts.fences),
                each(counts.disk_writes),
                each(counts.disk_syncs)
            );
            all.push(json!({
                "workload": workload.to_string(), "policy": name, "of_changes": of_changes,
                "commits": settings.counted, "nvm_bytes": counts.bytes, "lines": counts.lines,
                "fences": counts.fences, "disk_writes": counts.disk_writes,
                "disk_blocks": counts.disk_blocks, "disk_syncs": counts.disk_syncs,
            }));
        }
    }
    Ok(Value::Array(all))
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::of_arguments()?;
    nvm_journal_sqlite::register(engine::VFS)?;
    let start = Instant::now();
    let (disk, nvm) = (Folder::new(&settings.disk, "disk")?, Folder::new(&settings.nvm, "nvm")?);
    let template = disk.0.join("template");
    workload::fill(&template, settings.rows)?;
    println!(
        "SQLite {}, {} rows; databases in {}, persistent memory in {}",
        rusqlite::version(),
        settings.rows,
        settings.disk.display(),
        settings.nvm.display()
    );
    println!("to base: the median of the rounds' ratios to {}", Engine::WAL_FULL_MEMORY);
    println!("(loses): a power cut takes commits back, because they are not durable");
    let mut opened = Vec::new();
    for engine in Engine::all() {
        let open = Open::new(engine, &template, &disk.0, &nvm.0, settings.rows)?;
        opened.push((engine, open));
    }
    let mut tables = Vec::new();
    for workload in Workload::ALL {
        tables.push(compare(&settings, workload, &mut opened)?);
    }
    for (engine, open) in opened {
        open.close().map_err(|error| format!("{engine}: {error}"))?;
    }
    let counts = count(&settings, &template)?;
    let aims = aims::all(&tables, &counts, settings.counted);
    println!("\naims, for one row inserted");
    aims.iter().for_each(|aim| println!("{aim}"));
    println!("\n{:.0} s", start.elapsed().as_secs_f64());
    if let Some(path) = &settings.svg {
        std::fs::write(path, plot::svg(&tables))?;
        println!("{}", path.display());
    }
    if let Some(path) = &settings.json {
        let all = json!({
            "sqlite": rusqlite::version(), "rows": settings.rows, "rounds": settings.rounds,
            "latencies": tables, "counts": counts,
            "aims": aims.iter().map(aims::Aim::to_json).collect::<Vec<_>>(),
        });
        std::fs::write(path, serde_json::to_string_pretty(&all)?)?;
        println!("{}", path.display());
    }
    Ok(())
}
