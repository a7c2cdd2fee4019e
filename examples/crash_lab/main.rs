//! The crash laboratory: short programs on a tiny journal, from several starting states, and every
//! crash of each.
//!
//! `cargo run --release --example crash_lab -- --policy full-block [--budget 2m] [--seed 7]`
//!
//! Under each of two persistency models, on one lane and on two, from each starting state: all
//! programs of one step and of two, and as many of three as there is time for. The power is cut at
//! every persist point and at every return. Programs of one step have every image of every crash
//! recovered and judged (up to 65,536 images a point); longer ones as many as the time allows, and
//! of their crashes only those that a shorter program has not had. Then the recoveries themselves
//! are crashed, twice over, and every mutant at every persist site has to be noticed.
//!
//! The whole of it takes ten minutes on two cores; a shorter budget leaves things out, and says
//! which. Ends with a table of what was required and what was reached, and fails when a state is
//! not allowed or something falls short.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a laboratory reports")]

#[path = "../../tests/crash/damage.rs"]
mod damage;
#[path = "../../tests/crash/delta.rs"]
mod delta;
#[path = "../../tests/crash/format.rs"]
mod format;
mod harmed;
#[path = "../../tests/crash/mutants.rs"]
mod mutants;
#[path = "../../tests/crash/program.rs"]
mod program;
mod table;
mod work;

use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use journal_core::{Durability, Rule};
use sim_disk::mutants::Bag;
use sim_disk::suite::{Edit, Habits, Plan, Step};
use sim_disk::{Explorer, Model, Mutator};

use program::{Kind, Program};
use table::Table;
use work::{IMAGES_ALL, Progress, THREADS, Work};

const USAGE: &str = "\
usage: crash_lab --policy POLICY [--budget TIME] [--seed NUMBER]

  --policy  full-block: every update is logged as an image
            object-log: an update is logged as the objects that change, 16 bytes each
            byte-delta: an update rewrites the version before the newest, in a slot
            lcow: an update goes to a slot, and stays there
            compressed-delta: an update is logged as what differs, or goes to the disk
            two-level: an update is logged as sub-blocks of a word, or goes to the disk
            adaptive: an update is logged in the fewest bytes, or goes to the disk
            words: the tests' own policy, which logs a changed word as that
            logged: the same, with whole blocks in the disk-side log
            mixed: an update is logged in any of the ways there are, by what its image is
  --budget  how long to look, as 90s, 2m, 1h; 10m where nothing is said
  --seed    of everything that is left to chance; 1 where nothing is said";

/// What a full run takes.
const FULL: Duration = Duration::from_secs(10 * 60);

struct Arguments {
    kind: Kind,
    budget: Duration,
    seed: u64,
}

fn arguments() -> Result<Arguments, String> {
    let (mut kind, mut budget, mut seed) = (None, FULL, 1);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
        match argument.as_str() {
            "--policy" => kind = Some(policy(&value()?)?),
            "--budget" => budget = duration(&value()?)?,
            "--seed" => {
                let value = value()?;
                seed = value.parse().map_err(|_| format!("{value} is no seed"))?;
            }
            other => return Err(format!("unknown argument {other}")),
        }
    }
    let kind = kind.ok_or("which policy?")?;
    Ok(Arguments { kind, budget, seed })
}

fn policy(name: &str) -> Result<Kind, String> {
    match name {
        "full-block" => Ok(Kind::FullBlock),
        "object-log" => Ok(Kind::ObjectLog),
        "byte-delta" => Ok(Kind::ByteDelta),
        "lcow" => Ok(Kind::Lcow),
        "compressed-delta" => Ok(Kind::CompressedDelta),
        "two-level" => Ok(Kind::TwoLevel),
        "adaptive" => Ok(Kind::Adaptive),
        "words" => Ok(Kind::Words),
        "logged" => Ok(Kind::Logged),
        "mixed" => Ok(Kind::Mixed),
        other => Err(format!("there is no policy {other}\n\n{USAGE}")),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text} is no time; write 90s, 2m, 1h");
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(wrong()),
    };
    number.checked_mul(seconds).filter(|n| *n > 0).map(Duration::from_secs).ok_or_else(wrong)
}

fn main() -> ExitCode {
    match arguments() {
        Ok(arguments) => match laboratory(&arguments) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(message) => {
                println!("\n{message}");
                ExitCode::FAILURE
            }
        },
        Err(message) => {
            eprintln!("{message}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Everything; whether it was enough.
fn laboratory(arguments: &Arguments) -> Result<bool, String> {
    let begin = Instant::now();
    let (budget, seed) = (arguments.budget, arguments.seed);
    println!("policy {:?}, seed {seed}, budget {} s", arguments.kind, budget.as_secs());
    let writes_at = match arguments.kind {
        Kind::FullBlock => "logged as an image, since this policy logs nothing else",
        Kind::Words | Kind::Logged => "logged as that word",
        Kind::ObjectLog => "in every other call as a patch alone, logged as an object or a patch",
        Kind::ByteDelta | Kind::Lcow => "in every other call as a patch alone, logged as such",
        Kind::CompressedDelta | Kind::Adaptive => "logged as what differs from the old image",
        Kind::Mixed => "logged in each of the ways there are",
        Kind::TwoLevel => "in every other call as a patch alone, logged as such or as a sub-block",
    };
    println!("write_at is a new image and the range of the word it differs in, {writes_at}");
    println!(
        "overwrite and append keep the old image from the policy; append says it is not needed"
    );
    println!("an aborted transaction is a streamed one, given up after its parts were stored");
    the_oracle_can_fail()?;
    let plan = Plan::new(arguments.kind)
        .map_err(|message| format!("a starting state cannot be made: {message}"))?;
    let progress = Progress::new(budget);
    let mut table = Table::new(budget, FULL);
    let models = [Model::X86Line, Model::Torn8];
    // The hunt has a thread of its own, beside those of the models.
    let deltas = if Habits::of(&arguments.kind).logs_deltas { arguments.kind } else { Kind::Words };
    let hunt = std::thread::spawn(move || mutants::hunt_all(deltas));
    for (index, model) in models.into_iter().enumerate() {
        let left = budget.saturating_sub(begin.elapsed());
        let share = left / u32::try_from(models.len() - index).expect("few models");
        let work = Work {
            model,
            plan: &plan,
            seed,
            until: Instant::now() + share,
            images_all: images_all(budget),
            progress: &progress,
        };
        let seen = work.run().map_err(|failure| format!("{model}: NOT ALLOWED\n\n{failure}"))?;
        progress.clear();
        table.add_model(model, &plan, &seen);
    }
    let bag = hunt.join().map_err(|_| "the hunt for mutants panicked")?;
    let bag = bag.map_err(|failure| format!("without a mutant: NOT ALLOWED\n\n{failure}"))?;
    print_bag(&bag);
    table.add_bag(&bag);
    println!("\n{} s on {THREADS} threads, and one for the hunt", begin.elapsed().as_secs());
    Ok(table.print())
}

/// Images up to which a point of a one-step program is explored whole: fewer in a short run.
fn images_all(budget: Duration) -> u64 {
    let full = FULL.as_secs();
    let share = budget.as_secs().min(full);
    (IMAGES_ALL * share / full).next_power_of_two().clamp(1, IMAGES_ALL)
}

fn print_bag(bag: &Bag) {
    println!("\nmutants, under torn8 ('.': nothing at the site to change in this way)\n{bag}");
}

/// An oracle that finds nothing wrong may be asleep: it has to notice a record that is believed
/// without its check, a commit without its fence, and a promise that was never kept.
fn the_oracle_can_fail() -> Result<(), String> {
    let commit = |durability| Step::Commit(0, vec![(0, Edit::Write)], durability);
    let program = Program::new(Kind::FullBlock, 1, vec![commit(Durability::Durable)]);
    let unchecked = Mutator::without(&[Rule::RecordCheck]);
    let broken = [
        ("a check not looked at", Program { mutator: unchecked, ..program.clone() }),
        (
            "a promise not kept",
            Program {
                promises_too_much: true,
                steps: vec![commit(Durability::Deferred)],
                ..program.clone()
            },
        ),
    ];
    let explorer = Explorer::new(Model::Torn8).with_images_per_point_max(1 << 8);
    for (what, program) in broken {
        if explorer.explore(&program).is_ok() {
            return Err(format!("the oracle does not notice {what}"));
        }
        println!("the oracle notices {what}");
    }
    Ok(())
}
