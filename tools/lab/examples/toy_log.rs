//! Testing a store with the simulator: every crash of a small redo log, and every bug in it.
//!
//! `cargo run --release -p lab --example toy_log`

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use journal_core::NoHook;
use lab::toy_log::{log, scenario};
use sim_disk::mutants::{Group, hunt};
use sim_disk::{Explorer, Model, Mutator, Scenario};

fn main() {
    let program = scenario::Program::new(&[0, 1, 0], NoHook);
    println!("{}:", program.name());
    for model in Model::ALL {
        match Explorer::new(model).with_depth(1).with_kills().explore(&program) {
            Ok(report) => println!("  {model}: {report}"),
            Err(failure) => println!("  {model}: {failure}"),
        }
    }

    println!("\nevery persist site, got wrong in every way (torn8):\n");
    let explorer = Explorer::new(Model::Torn8).with_depth(1).with_kills();
    let programs = |mutator: &Mutator| -> Vec<Box<dyn Scenario>> {
        vec![Box::new(scenario::Program::new(&[0, 1, 0], mutator.clone()))]
    };
    match hunt(&[Group::new(explorer.clone(), &programs)], &[log::site::ALL], &[]) {
        Ok(bag) => println!("{bag}"),
        Err(failure) => println!("{failure}"),
    }

    println!("the first of them, as it is reported:\n");
    let mutator = Mutator::with(sim_disk::Mutant {
        site: log::site::COMMIT,
        mutation: sim_disk::Mutation::DropFence,
    });
    if let Err(failure) = explorer.explore(&scenario::Program::new(&[0], mutator)) {
        println!("{failure}");
    }
}
