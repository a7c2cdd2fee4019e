//! The crash laboratory: short programs on a tiny journal, from several starting states, and every
//! crash of each.
//!
//! ```sh
//! cargo run --release -p lab --bin crash_lab -- --policy all --budget 15m
//! cargo run --release -p lab --bin crash_lab -- --policy full-block [--budget 2m] [--seed 7]
//! ```
//!
//! Under each of two persistency models, on one lane and on two, from each starting state: all
//! programs of one step and of two, and as many of three as there is time for. The power is cut at
//! every persist point and at every return. Programs of one step have every image of every crash
//! recovered and judged (up to 65,536 images a point); longer ones as many as the time allows, and
//! of their crashes only those that a shorter program has not had. Then the recoveries themselves
//! are crashed, twice over, and every mutant at every persist site has to be noticed.
//!
//! Before that, what needs no crash (`harm.rs`): bits turned in a journal, operations that fail,
//! and lanes of every length filled. Then programs of the front door, whose snapshots, spills and
//! upkeep the core's owner does not have (`door.rs`). Beside all of it, the bugs that other systems
//! had, each as a mutant (`known_bugs`).
//!
//! The whole of it takes ten minutes a policy on two cores; a shorter budget leaves things out, and
//! says which. All policies share a budget, with gates of their own sizes (`sizes.rs`). Ends with a
//! table of what was required and what was reached, with what other commands have left in
//! `target/gates` (`gates/elsewhere.rs`), and fails when a state is not allowed or a gate that was
//! run falls short.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a laboratory reports")]

use core::time::Duration;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use journal_core::{Durability, Rule};
use lab::core_crash::mutants;
use lab::core_crash::program::{Kind, Program};
use lab::crash_lab::door::{self, Doors};
use lab::crash_lab::harm::{Harm, harm_all};
use lab::crash_lab::sizes::{FULL, Sizes};
use lab::crash_lab::table::{
    self, Slot, json_of_known_bugs, print_left_out, print_model, print_slots,
};
use lab::crash_lab::work::{Progress, THREADS, Work};
use lab::gates::{self, Gate};
use lab::known_bugs::{self, Entry};
use serde_json::json;
use sim_disk::mutants::Bag;
use sim_disk::suite::{Edit, Habits, Plan, Step};
use sim_disk::{Explorer, Failure, Model, Mutator};

const POLICIES_HELP: &str = "\
full-block: every update is logged as an image
object-log: an update is logged as the objects that change, 16 bytes each
byte-delta: an update rewrites the version before the newest, in a slot
lcow: an update goes to a slot, and stays there
compressed-delta: an update is logged as what differs, or goes to the disk
two-level: an update is logged as sub-blocks of a word, or goes to the disk
adaptive: an update is logged in the fewest bytes, or goes to the disk
all: all of these, one after the other
words: the tests' own policy, which logs a changed word as that
logged: the same, with whole blocks in the disk-side log
adaptive-slots: as adaptive, in slots instead of the disk; what is appended goes home
mixed: an update is logged in any of the ways there are, by what its image is";

/// What a run over all policies takes where nothing is said.
const ALL: Duration = Duration::from_secs(15 * 60);

/// Policies by name. Those of the tests come last, with settings of others, and are not among all.
const POLICIES: [(&str, Kind); 11] = [
    ("full-block", Kind::FullBlock),
    ("object-log", Kind::ObjectLog),
    ("byte-delta", Kind::ByteDelta),
    ("lcow", Kind::Lcow),
    ("compressed-delta", Kind::CompressedDelta),
    ("two-level", Kind::TwoLevel),
    ("adaptive", Kind::Adaptive),
    ("words", Kind::Words),
    ("logged", Kind::Logged),
    ("adaptive-slots", Kind::AdaptiveSlots),
    ("mixed", Kind::Mixed),
];

const OF_THE_TESTS: usize = 4;

const MODELS: [Model; 2] = [Model::X86Line, Model::Torn8];

/// Every crash of short programs on a tiny journal.
#[derive(Parser)]
struct Arguments {
    /// Which policy, or all.
    #[arg(long, long_help = POLICIES_HELP, value_parser = policies)]
    policy: Policies,
    /// How long to look, as 90s, 2m, 1h; 10m where nothing is said, 15m for all.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<Duration>,
    /// Of everything that is left to chance.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// A file to write the result to.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where other commands have left their results; target/gates where nothing is said.
    #[arg(long, value_name = "FOLDER")]
    gates: Option<PathBuf>,
}

/// The policies that are looked at.
#[derive(Clone)]
struct Policies {
    of: Vec<(&'static str, Kind)>,
    is_all: bool,
}

fn policies(name: &str) -> Result<Policies, String> {
    if name == "all" {
        return Ok(Policies {
            of: POLICIES[..POLICIES.len() - OF_THE_TESTS].to_vec(),
            is_all: true,
        });
    }
    let one = POLICIES.iter().find(|(known, _)| *known == name);
    let one = one.ok_or_else(|| {
        let names = POLICIES.map(|(known, _)| known);
        format!("there is {}, and all", names.join(", "))
    })?;
    Ok(Policies { of: vec![*one], is_all: false })
}

/// The folder `gates` beside what the build makes.
fn gates_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let own = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target");
    target.unwrap_or_else(own).join("gates")
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
    match laboratory(&Arguments::parse()) {
        Ok(gates) => ExitCode::from(gates::exit_code(&gates)),
        Err(message) => {
            println!("\n{message}");
            ExitCode::FAILURE
        }
    }
}

/// Everything; what was required, and what was reached.
fn laboratory(arguments: &Arguments) -> Result<Vec<Gate>, String> {
    // 1. The arguments say what is run, and for how long.
    let begin = Instant::now();
    let others = arguments.gates.clone().unwrap_or_else(gates_folder);
    let seed = arguments.seed;
    let Policies { of: policies, is_all } = &arguments.policy;
    let is_all = *is_all;
    let budget = arguments.budget.unwrap_or(if is_all { ALL } else { FULL });
    let sizes = if is_all { Sizes::of_all(budget) } else { Sizes::of_one(budget) };
    let names: Vec<&str> = policies.iter().map(|(name, _)| *name).collect();
    println!("{}, seed {seed}, budget {} s", names.join(", "), budget.as_secs());
    println!("gates of the size: {}", sizes.name);
    for (name, kind) in policies {
        println!("{name}: write_at is a new image and the range of the word it differs in,");
        println!("  {}", writes_at(*kind));
    }
    println!(
        "overwrite and append keep the old image from the policy; append says it is not needed"
    );
    println!("an aborted transaction is a streamed one, given up after its parts were stored");
    // 2. The oracle is shown states that it must refuse.
    the_oracle_can_fail()?;
    // 3. Mutants are hunted.
    // The hunt has a thread of its own, beside those of the models; one for all policies has the
    // tests' own deltas, as the test of it has.
    let deltas = match policies[..] {
        [(_, one)] if Habits::of(&one).logs_deltas => one,
        _ => Kind::Words,
    };
    let hunt = std::thread::spawn(move || (mutants::hunt_all(deltas), known_bugs::try_all()));
    // 4. Harm without a crash, in a tenth of the time at most.
    let harms = harm_all(policies, &sizes, Instant::now() + budget / 10);
    harms.iter().for_each(Harm::print);
    // 5. Programs of the front door, in six tenths, some of each policy in turn.
    let until = Instant::now() + budget * 6 / 10;
    let doors = policies.iter().map(|of| Doors::of(*of, (sizes.door_programs, seed)));
    let mut doors: Vec<_> = doors.collect();
    while Instant::now() < until && doors.iter().any(Doors::goes_on) {
        doors.iter_mut().for_each(|of_policy| of_policy.explore_some(until));
    }
    doors.iter().for_each(Doors::print);
    // 6. Each policy under each model, in the rest of the time.
    let progress = Progress::new(budget);
    let mut slots: Vec<Slot> = Vec::new();
    let count = policies.len() * MODELS.len();
    for (name, kind) in policies {
        let plan = Plan::new(*kind)
            .map_err(|message| format!("{name}: a starting state cannot be made: {message}"))?;
        for model in MODELS {
            let left = budget.saturating_sub(begin.elapsed());
            let share = left / u32::try_from(count - slots.len()).expect("few slots");
            let work = Work {
                policy: name,
                model,
                plan: &plan,
                seed,
                until: Instant::now() + share,
                images_all: sizes.images_all,
                thorough_one_in: sizes.thorough_one_in,
                nested_depth: sizes.nested_depth,
                progress: &progress,
            };
            let seen = work.run();
            progress.clear();
            match &seen {
                Ok(seen) if !is_all => print_model(model, &plan, seen),
                Ok(seen) => {
                    let (seconds, states) = (seen.took.as_secs_f64(), seen.report.images);
                    println!("{name}, {model}: {seconds:.1} s, {states} states");
                }
                // The others are looked at all the same.
                Err(failure) => println!("\n{name}, {model}: NOT ALLOWED\n\n{failure}"),
            }
            slots.push(Slot::new(name, model, &plan, seen.ok()));
        }
    }
    // 7. All results are held against the gates, printed, and written.
    let (bag, entries) = hunt.join().map_err(|_| "the hunt for mutants panicked")?;
    let mut gates: Vec<Gate> = slots.iter().flat_map(|slot| slot.gates(&sizes)).collect();
    gates.extend(harms.iter().flat_map(Harm::gates));
    gates.extend(doors.iter().flat_map(Doors::gates));
    gates.extend(gates_of_hunt(&bag));
    gates.extend(gates_of_known_bugs(&entries));
    gates.extend(gates::elsewhere::read(&others));
    let took = begin.elapsed();
    println!("\n{} s on {THREADS} threads, and one for the hunt", took.as_secs());
    print_left_out(&slots);
    print_slots(&slots);
    println!("\n{}", gates::table(&gates));
    let shortfalls = gates::shortfalls(&gates);
    shortfalls.iter().for_each(|line| println!("{line}"));
    println!("{}", if shortfalls.is_empty() { "enough" } else { "NOT ENOUGH" });
    if let Some(file) = &arguments.json {
        let result = json!({
            "command": "crash_lab",
            "seed": seed,
            "budget_seconds": budget.as_secs(),
            "took_seconds": took.as_secs(),
            "sizes": sizes.name,
            "slots": slots.iter().map(Slot::json).collect::<Vec<_>>(),
            "harm": harms.iter().map(Harm::json).collect::<Vec<_>>(),
            "front_door": doors.iter().map(Doors::json).collect::<Vec<_>>(),
            "known_bugs": json_of_known_bugs(&entries),
            "gates": gates::json(&gates),
            "enough": gates::exit_code(&gates) == 0,
        });
        let written = std::fs::write(file, format!("{result:#}\n"));
        written.map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(gates)
}

/// What became of the known bugs.
fn gates_of_known_bugs(entries: &[Entry]) -> Vec<Gate> {
    println!("\nknown bugs of other systems:\n{}", known_bugs::table(entries));
    table::gates_of_known_bugs(entries)
}

const fn writes_at(kind: Kind) -> &'static str {
    match kind {
        Kind::FullBlock => "logged as an image, since this policy logs nothing else",
        Kind::Words | Kind::Logged => "logged as that word",
        Kind::ObjectLog => "in every other call as a patch alone, logged as an object or a patch",
        Kind::ByteDelta | Kind::Lcow => "in every other call as a patch alone, logged as such",
        Kind::CompressedDelta | Kind::Adaptive | Kind::AdaptiveSlots => {
            "logged as what differs from the old image"
        }
        Kind::Mixed => "logged in each of the ways there are",
        Kind::TwoLevel => "in every other call as a patch alone, logged as such or as a sub-block",
    }
}

/// What the hunt came to; a state that is not allowed without any mutant ends it.
fn gates_of_hunt(bag: &Result<Bag, Box<Failure>>) -> Vec<Gate> {
    let violations =
        |count| Gate::at_most("states not allowed without a mutant", "the hunt", 0, count);
    match bag {
        Ok(bag) => {
            println!("\nmutants, under torn8 ('.': nothing at the site to change in this way)");
            println!("{bag}");
            let mut gates = table::gates_of_bag(bag);
            gates.push(violations(0));
            gates
        }
        Err(failure) => {
            println!("\nwithout a mutant: NOT ALLOWED\n\n{failure}");
            vec![violations(1)]
        }
    }
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
    for (bug, kind) in door::NOTICED {
        let Some(programs) = door::notices(bug, kind, door::NOTICED_WITHIN) else {
            return Err(format!("{kind:?}: no program of the front door notices {bug:?}"));
        };
        println!("programs of the front door notice {bug:?} under {kind:?}: {programs}");
    }
    Ok(())
}
