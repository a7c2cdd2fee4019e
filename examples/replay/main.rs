//! Real block traces through the journal: what each policy costs, and whether it survives crashes.
//!
//! `cargo run --release --example replay -- [--policy P] [--results FILE] FILE.btrc.zst...`
//!
//! Each trace is replayed under each policy twice. First on plain memory, where everything that
//! goes out to the media is counted, and set against a bound that is computed from the images
//! alone. Then in the simulator, where the power goes at some of its transactions, and all blocks
//! of the trace are compared; of some of the states that recovery finds, `e2fsck` or `sqlite3` is
//! asked as well, where they are installed.
//!
//! It ends with an error if a trace is not one, a bound does not hold, a policy that chooses takes
//! longer than one that does not, or a crash is not survived.
//! What journal and policy are asked for to make room, `room.rs` says.
//! What a trace is, `trace.rs` says; `--make-sample` writes a small one, the one that is kept in
//! `tests/traces`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its reader")]

mod ask;
mod bound;
mod count;
mod crash;
mod deltas;
mod frame;
mod media;
mod papers;
mod policies;
mod room;
mod run;
mod table;
mod times;
mod trace;
mod versions;
#[path = "../support/whole_slots.rs"]
mod whole_slots;
mod writer;

use core::error::Error;
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use sim_disk::Mutator;

use ask::{Asker, Nobody, Tool};
use crash::{CrashReport, Plan};
use policies::Known;
use run::Room;
use table::{Row, Section};
use trace::Trace;

const HELP: &str = "Real block traces through the journal.

  FILE...            traces, *.btrc.zst
  --policy P         one policy; all of them if it is not given
  --lane-bytes N     bytes of the lane when counting, slots included, 33554432 by default
  --slot-share N     256ths of them that are slots, for policies that need some, 192 by default
  --log-blocks N     blocks of the disk-side log, for policies that want one, 4096 by default
  --segment-blocks N blocks of a segment of it, 64 by default
  --crashes N        crashes for each trace and policy, 40 by default
  --ask N            states of them that e2fsck or sqlite3 is asked about, 4 by default
  --seed N           of everything that is left to chance, 1 by default
  --results FILE     also writes the tables there, as Markdown
  --json             JSON in place of the tables, an object for each trace
  --make-sample FILE writes the small trace of the tests, and nothing else
";

const ROOM: Room =
    Room { lane_bytes: 32 << 20, slot_share: 192, log_blocks: 4096, segment_blocks: 64 };
const PLAN: Plan = Plan { crashes: 40, seed: 1, shown: 4 };

struct Arguments {
    policies: Vec<&'static Known>,
    room: Room,
    plan: Plan,
    results: Option<PathBuf>,
    json: bool,
    sample: Option<PathBuf>,
    files: Vec<PathBuf>,
}

fn policy(name: &str) -> Result<&'static Known, String> {
    let known = policies::ALL.iter().find(|known| known.name == name);
    known.ok_or_else(|| {
        let names: Vec<_> = policies::ALL.iter().map(|known| known.name).collect();
        format!("there is no policy {name}; there is {}", names.join(", "))
    })
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments {
        policies: policies::ALL.iter().collect(),
        room: ROOM,
        plan: PLAN,
        results: None,
        json: false,
        sample: None,
        files: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |value: String| {
            value.parse::<u64>().map_err(|_| format!("{value} is no value for {word}"))
        };
        let small = |number| u32::try_from(number).map_err(|_| format!("{number} is too many"));
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--json" => arguments.json = true,
            "--policy" => arguments.policies = vec![policy(&value()?)?],
            "--lane-bytes" => arguments.room.lane_bytes = number(value()?)?,
            "--slot-share" => arguments.room.slot_share = number(value()?)?,
            "--log-blocks" => arguments.room.log_blocks = small(number(value()?)?)?,
            "--segment-blocks" => arguments.room.segment_blocks = small(number(value()?)?)?,
            "--crashes" => arguments.plan.crashes = number(value()?)?,
            "--ask" => arguments.plan.shown = number(value()?)?,
            "--seed" => arguments.plan.seed = number(value()?)?,
            "--results" => arguments.results = Some(value()?.into()),
            "--make-sample" => arguments.sample = Some(value()?.into()),
            _ if word.starts_with('-') => return Err(format!("{word} is unknown: --help")),
            _ => arguments.files.push(word.into()),
        }
    }
    Ok(Some(arguments))
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
    let Some(arguments) = arguments(std::env::args().skip(1))? else {
        print!("{HELP}");
        return Ok(true);
    };
    if let Some(sample) = &arguments.sample {
        std::fs::write(sample, writer::Sample::file())?;
        return Ok(true);
    }
    if arguments.files.is_empty() {
        return Err("no trace: --help".into());
    }
    let mut sections = Vec::new();
    for file in &arguments.files {
        let section = section(file, &arguments)?;
        let text = if arguments.json { section.json() } else { section.plain() };
        println!("{text}");
        sections.push(section);
    }
    if let Some(results) = &arguments.results {
        let text = table::document(&sections, &command(&arguments), &arguments.room);
        std::fs::write(results, text)?;
    }
    Ok(sections.iter().all(Section::holds))
}

/// The command that makes the document again, wherever the traces are: what is not said is the
/// default.
fn command(arguments: &Arguments) -> String {
    let mut command = "cargo run --release --example replay --".to_owned();
    let Plan { crashes, seed, .. } = arguments.plan;
    let numbers = [
        ("--lane-bytes", arguments.room.lane_bytes, ROOM.lane_bytes),
        ("--slot-share", arguments.room.slot_share, ROOM.slot_share),
        ("--log-blocks", arguments.room.log_blocks.into(), ROOM.log_blocks.into()),
        ("--segment-blocks", arguments.room.segment_blocks.into(), ROOM.segment_blocks.into()),
        ("--crashes", crashes, PLAN.crashes),
        ("--seed", seed, PLAN.seed),
    ];
    for (name, number, usual) in numbers {
        if number != usual {
            command += &format!(" {name} {number}");
        }
    }
    command + " --results docs/RESULTS.md *.btrc.zst"
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
    for known in &arguments.policies {
        let begin = Instant::now();
        let mut trace = open(file)?;
        name.clone_from(&trace.header().name);
        if !known.is_for(&name) {
            continue;
        }
        let progress = Progress::new(&name, known.name, "counts");
        let figures = run::replay(&mut trace, known, &arguments.room, |done| progress.show(done));
        let figures = figures.map_err(|error| format!("{name}, {}: {error}", known.name))?;
        drop(progress);
        let counted = begin.elapsed();
        let crashes = crashed(file, known, figures.transactions, &arguments.plan)?;
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
    let progress = Progress::new(&header.name, known.name, "crashes");
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

const BAR: usize = 40;

/// One line on a terminal, nothing elsewhere.
struct Progress {
    what: String,
    shown: bool,
}

impl Progress {
    fn new(trace: &str, policy: &str, part: &str) -> Self {
        let shown = std::io::stderr().is_terminal();
        Self { what: format!("{trace}, {policy}, {part}"), shown }
    }

    fn show(&self, done: f64) {
        if self.shown {
            let full = ((done.clamp(0.0, 1.0) * BAR as f64) as usize).min(BAR);
            let bar = format!("{}{}", "#".repeat(full), ".".repeat(BAR - full));
            let _ = write!(std::io::stderr(), "\r[{bar}] {:<50}", self.what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r{:94}\r", "");
        }
    }
}
