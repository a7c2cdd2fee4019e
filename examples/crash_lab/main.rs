//! The crash laboratory: short programs on a tiny journal, from several starting states, and every
//! crash of each.
//!
//! `cargo run --release --example crash_lab -- --policy full-block [--budget 2m]`
//!
//! Under each of two persistency models, on one lane and on two: all programs of one step and of
//! two, and as many of three as the budget allows. The power is cut at every persist point and
//! return; every image that the crash may leave is recovered and judged, all of them where a point
//! has at most 65,536, else a declared sample. Images that recovery cannot tell apart are recovered
//! once. Exits with an error at the first state that is not allowed, or when it saw too few.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a laboratory reports")]

#[path = "../../tests/crash/delta.rs"]
mod delta;
mod plan;
#[path = "../../tests/crash/program.rs"]
mod program;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sim_disk::{Explorer, Failure, Model, Report};

use plan::{Experiment, Plan};
use program::Kind;

/// What every model has to see at the least.
const STATES_MIN: u64 = 1_000_000;

/// Programs that have to reach each row of the recovery table that no damage is needed for.
const PROGRAMS_PER_ROW_MIN: u64 = 3;

struct Arguments {
    kind: Kind,
    budget: Duration,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments { kind: Kind::FullBlock, budget: Duration::from_secs(10 * 60) };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
        match argument.as_str() {
            "--policy" => {
                found.kind = match value()?.as_str() {
                    "full-block" => Kind::FullBlock,
                    "words" => Kind::Words,
                    other => {
                        return Err(format!("no policy {other}: full-block, or words (for tests)"));
                    }
                };
            }
            "--budget" => found.budget = duration(&value()?)?,
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(found)
}

fn duration(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = text[..text.len() - unit.len()].parse::<u64>();
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(format!("{text} is no duration: 90s, 15m, 4h")),
    };
    let number = number.map_err(|_| format!("{text} is no duration: 90s, 15m, 4h"))?;
    Ok(Duration::from_secs(number * seconds))
}

/// What was seen under one model.
#[derive(Default)]
struct Seen {
    report: Report,
    /// Experiments done, of each length of program.
    done: [u64; 4],
    /// Experiments that reached each row of the recovery table.
    rows: [u64; journal_core::Row::ALL.len()],
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let models = [Model::X86Line, Model::Torn8];
    let share = arguments.budget / 2;
    let mut good = true;
    for model in models {
        let plan = match Plan::new(arguments.kind) {
            Ok(plan) => plan,
            Err(message) => {
                eprintln!("a starting state cannot be made: {message}");
                return ExitCode::FAILURE;
            }
        };
        match explore(model, &plan, share) {
            Ok(seen) => good &= print(model, &plan, &seen),
            Err(failure) => {
                println!("{model}: NOT ALLOWED\n\n{failure}");
                good = false;
            }
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Works through the plan on two threads until it or the time is at its end.
fn explore(model: Model, plan: &Plan, budget: Duration) -> Result<Seen, Box<Failure>> {
    let begin = Instant::now();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let seen = Mutex::new(Ok(Seen::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while begin.elapsed() < budget && !failed.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(experiment) = plan.experiment(index) else { break };
                    let outcome = run(model, &experiment, index);
                    let mut seen = seen.lock().expect("no thread panics with it");
                    match (&mut *seen, outcome) {
                        (Ok(seen), Ok(report)) => note(seen, &experiment, report, begin, plan),
                        (_, Ok(_)) => {}
                        (seen, Err(failure)) => {
                            *seen = Err(failure);
                            failed.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    eprintln!();
    seen.into_inner().expect("no thread panics with it")
}

fn run(model: Model, experiment: &Experiment, seed: usize) -> Result<Report, Box<Failure>> {
    let explorer = Explorer::new(model)
        .with_seed(seed as u64)
        .with_depth(experiment.depth)
        .with_images_told_apart_by_reads();
    let explorer = if experiment.kills { explorer.with_kills() } else { explorer };
    explorer.explore(&experiment.program)
}

fn note(seen: &mut Seen, experiment: &Experiment, report: Report, begin: Instant, plan: &Plan) {
    seen.report += report;
    seen.done[experiment.length] += 1;
    for (count, (_, hits)) in seen.rows.iter_mut().zip(experiment.program.rows.counts()) {
        *count += u64::from(hits > 0);
    }
    let done: u64 = seen.done.iter().sum();
    eprint!(
        "\r{:>4} s  {done} of {} programs, {} states ",
        begin.elapsed().as_secs(),
        plan.exhaustive(),
        seen.report.images
    );
}

/// Prints what was seen; whether it is enough.
fn print(model: Model, plan: &Plan, seen: &Seen) -> bool {
    let report = &seen.report;
    println!("{model}: {report}");
    let lengths = [(1, plan.of_length(1)), (2, plan.of_length(2))];
    let mut enough = report.images >= STATES_MIN;
    for (length, planned) in lengths {
        println!("  programs of length {length}: {} of {planned}", seen.done[length]);
        enough &= seen.done[length] == planned;
    }
    println!("  programs of length 3, sampled: {}", seen.done[3]);
    println!("  states {} (at least {STATES_MIN})", report.images);
    for (row, programs) in journal_core::Row::ALL.iter().zip(seen.rows) {
        // The other rows tell of damaged media, which power losses alone do not make.
        use journal_core::Row::{Found, KnownDurable, Tail, Void};
        let by_power_loss = matches!(row, KnownDurable | Found | Void | Tail);
        let needed = if by_power_loss { PROGRAMS_PER_ROW_MIN } else { 0 };
        println!("  {row:?}: reached by {programs} programs (at least {needed})");
        enough &= programs >= needed;
    }
    println!("  {}", if enough { "enough, and every state was allowed" } else { "TOO FEW" });
    enough
}
