//! Real block traces through the journal: what each policy costs, and whether it survives crashes.
//!
//! `cargo run --release -p lab --bin replay -- [--policy P] [--results FOLDER] FILE.btrc.zst...`
//!
//! Each trace is replayed under each policy twice. First on plain memory, where everything that
//! goes out to the media is counted, and set against a bound that is computed from the images
//! alone. Then in the simulator, where the power goes at some of its transactions, and all blocks
//! of the trace are compared; of some of the states that recovery finds, `e2fsck` or `sqlite3` is
//! asked as well, where they are installed. Where there are several traces, threads commit the
//! shortest of them beside each other as well.
//!
//! It ends with an error if a trace is not one, a bound does not hold, a policy that chooses takes
//! longer than one that does not, or a crash is not survived.
//! What a trace is, `trace.rs` says; `--make-sample` writes a small one, the one that is kept in
//! `tools/lab/traces`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program reports")]

use core::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Parser;
use lab::progress::Progress;
use lab::replay::ask::{Asker, Nobody, Tool};
use lab::replay::crash::{self, CrashReport, Plan};
use lab::replay::document::{self, Beside};
use lab::replay::policies::{self, Known, Role, Traces};
use lab::replay::run::{self, Room};
use lab::replay::table::{Row, Section};
use lab::replay::together;
use lab::trace::{Trace, writer};
use sim_disk::Mutator;

const ROOM: Room =
    Room { nvm_bytes: 32 << 20, log_blocks: 1 << 15, segment_blocks: 64, index_frames: 1 << 20 };
/// Threads that commit beside each other.
const THREADS_MAX: usize = 4;
const PLAN: Plan = Plan { crashes: 40, seed: 1, shown: 4 };

/// Real block traces through the journal.
#[derive(Parser)]
struct Arguments {
    /// One policy; all of them if it is not given.
    #[arg(long, value_name = "P", value_parser = policy)]
    policy: Option<&'static Known>,
    /// Bytes of persistent memory when counting.
    #[arg(long, value_name = "N", default_value_t = ROOM.nvm_bytes)]
    nvm_bytes: u64,
    /// Blocks of the disk-side log, for policies that want one.
    #[arg(long, value_name = "N", default_value_t = ROOM.log_blocks)]
    log_blocks: u32,
    /// Blocks of a segment of it.
    #[arg(long, value_name = "N", default_value_t = ROOM.segment_blocks)]
    segment_blocks: u32,
    /// Frames that the index has room for.
    #[arg(long, value_name = "N", default_value_t = ROOM.index_frames)]
    index_frames: usize,
    /// Crashes for each trace and policy.
    #[arg(long, value_name = "N", default_value_t = PLAN.crashes)]
    crashes: u64,
    /// States of them that e2fsck or sqlite3 is asked about.
    #[arg(long, value_name = "N", default_value_t = PLAN.shown)]
    ask: u64,
    /// Of everything that is left to chance.
    #[arg(long, value_name = "N", default_value_t = PLAN.seed)]
    seed: u64,
    /// Also writes the pages there: RESULTS.md, and the folder results with all tables.
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// JSON in place of the tables, an object for each trace.
    #[arg(long)]
    json: bool,
    /// Writes the small trace of the tests, and nothing else.
    #[arg(long, value_name = "FILE")]
    make_sample: Option<PathBuf>,
    /// Traces, *.btrc.zst.
    #[arg(required_unless_present = "make_sample")]
    files: Vec<PathBuf>,
}

impl Arguments {
    const fn room(&self) -> Room {
        Room {
            nvm_bytes: self.nvm_bytes,
            log_blocks: self.log_blocks,
            segment_blocks: self.segment_blocks,
            index_frames: self.index_frames,
        }
    }

    const fn plan(&self) -> Plan {
        Plan { crashes: self.crashes, seed: self.seed, shown: self.ask }
    }
}

fn policy(name: &str) -> Result<&'static Known, String> {
    let known = policies::ALL.iter().find(|known| known.name == name);
    known.ok_or_else(|| {
        let names: Vec<_> = policies::ALL.iter().map(|known| known.name).collect();
        format!("there is {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    match work() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("replay: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Everything; whether all bounds hold.
fn work() -> Result<bool, Box<dyn Error>> {
    let arguments = Arguments::parse();
    if let Some(sample) = &arguments.make_sample {
        std::fs::write(sample, writer::Sample::file())?;
        return Ok(true);
    }
    let sections = sections(&arguments)?;
    for section in &sections {
        let text = if arguments.json { section.json().to_string() } else { section.plain() };
        println!("{text}");
    }
    let beside = beside(&arguments)?;
    if let Some(results) = &arguments.results {
        std::fs::create_dir_all(results.join("results"))?;
        let (command, room) = (command(&arguments), arguments.room());
        for (name, text) in document::pages(&sections, &beside, &command, &room) {
            std::fs::write(results.join(name), text)?;
        }
    }
    Ok(sections.iter().all(Section::holds))
}

/// Every trace under all policies, a thread for each trace.
fn sections(arguments: &Arguments) -> Result<Vec<Section>, Box<dyn Error>> {
    thread::scope(|scope| {
        let of_file = |file| move || section(file, arguments).map_err(|error| error.to_string());
        let threads = arguments.files.iter().map(|file| scope.spawn(of_file(file)));
        let threads: Vec<_> = threads.collect();
        let sections = threads.into_iter().map(|thread| match thread.join() {
            Ok(section) => section.map_err(Into::into),
            Err(_) => Err("a thread panicked".into()),
        });
        sections.collect()
    })
}

/// The shortest of several traces, committed by a thread each, under every policy that does one
/// thing.
fn beside(arguments: &Arguments) -> Result<Vec<Beside>, Box<dyn Error>> {
    let lengths = arguments.files.iter().map(|file| Ok((file.metadata()?.len(), file)));
    let mut files = lengths.collect::<Result<Vec<_>, std::io::Error>>()?;
    files.sort_unstable();
    files.truncate(THREADS_MAX);
    let is_wanted = |known: &&Known| {
        let is_asked = arguments.policy.is_none_or(|one| one.name == known.name);
        is_asked && known.role == Role::Fixed && known.traces == Traces::All
    };
    let mut beside = Vec::new();
    for known in policies::ALL.iter().filter(is_wanted).filter(|_| files.len() > 1) {
        let traces = files.iter().map(|(_, file)| open(file)).collect::<Result<Vec<_>, _>>();
        let together = together::together(&mut traces?, known, &arguments.room());
        let together = together.map_err(|error| format!("threads, {}: {error}", known.name))?;
        eprintln!("{}: {together:?}", known.name);
        beside.push(Beside { policy: known.name, together });
    }
    Ok(beside)
}

/// The command that makes the document again, wherever the traces are: what is not said is the
/// default.
fn command(arguments: &Arguments) -> String {
    let mut command = "cargo run --release -p lab --bin replay --".to_owned();
    let (Plan { crashes, seed, .. }, room) = (arguments.plan(), arguments.room());
    let numbers = [
        ("--nvm-bytes", room.nvm_bytes, ROOM.nvm_bytes),
        ("--index-frames", room.index_frames as u64, ROOM.index_frames as u64),
        ("--log-blocks", room.log_blocks.into(), ROOM.log_blocks.into()),
        ("--segment-blocks", room.segment_blocks.into(), ROOM.segment_blocks.into()),
        ("--crashes", crashes, PLAN.crashes),
        ("--seed", seed, PLAN.seed),
    ];
    for (name, number, usual) in numbers {
        if number != usual {
            command += &format!(" {name} {number}");
        }
    }
    command + " --results docs *.btrc.zst"
}

fn open(file: &Path) -> Result<Trace<File>, Box<dyn Error>> {
    let in_file = |error: &dyn Error| format!("{}: {error}", file.display());
    let source = File::open(file).map_err(|error| in_file(&error))?;
    Ok(Trace::open(source).map_err(|error| in_file(&error))?)
}

/// One trace under all policies.
fn section(file: &Path, arguments: &Arguments) -> Result<Section, Box<dyn Error>> {
    let mut rows = Vec::new();
    let mut name = String::new();
    let (room, plan) = (arguments.room(), arguments.plan());
    for known in policies::ALL {
        if arguments.policy.is_some_and(|one| one.name != known.name) {
            continue;
        }
        let begin = Instant::now();
        let mut trace = open(file)?;
        name.clone_from(&trace.header().name);
        if !known.is_for(&name) {
            continue;
        }
        let progress = Progress::new(format!("{name}, {}, counts", known.name));
        let figures = run::replay(&mut trace, known, &room, |done| progress.show(done));
        let figures = figures.map_err(|error| format!("{name}, {}: {error}", known.name))?;
        drop(progress);
        let counted = begin.elapsed();
        let crashes = crashed(file, known, figures.transactions, &plan)?;
        // For the user that waits, and in no table.
        eprintln!(
            "{name}, {}: counted in {:.1} s, {} crashes in {:.1} s",
            known.name,
            counted.as_secs_f64(),
            crashes.crashes,
            (begin.elapsed() - counted).as_secs_f64()
        );
        rows.push(Row { known, figures, crashes });
    }
    Ok(Section { trace: name, rows })
}

fn crashed(
    file: &Path,
    known: &Known,
    transactions: u64,
    plan: &Plan,
) -> Result<CrashReport, Box<dyn Error>> {
    let mut trace = open(file)?;
    let header = trace.header().clone();
    let progress = Progress::new(format!("{}, {}, crashes", header.name, known.name));
    let show = |done| progress.show(done);
    let mutator = Mutator::new();
    let in_trace =
        |error: &dyn Error| format!("{}, {}, seed {}: {error}", header.name, known.name, plan.seed);
    let tool = Tool::of(&header).filter(|_| plan.shown > 0);
    let asker = tool.map(Asker::new).transpose()?.flatten();
    let Some(mut asker) = asker else {
        if let Some(tool) = tool {
            eprintln!(
                "SKIPPED: {} is not installed, nobody is asked about {}",
                tool.name(),
                header.name
            );
        }
        let plan = Plan { shown: 0, ..*plan };
        let report =
            crash::crashes(&mut trace, transactions, known, &plan, &mutator, &mut Nobody, show);
        return Ok(report.map_err(|error| in_trace(&error))?);
    };
    let report = crash::crashes(&mut trace, transactions, known, plan, &mutator, &mut asker, show);
    if let Some(error) = asker.failed.take() {
        return Err(in_trace(&error).into());
    }
    let report = report.map_err(|error| in_trace(&error))?;
    let tool = tool.map_or("", Tool::name);
    eprintln!("{}, {}: {tool} accepts {} of {}", header.name, known.name, report.shown, plan.shown);
    Ok(report)
}
