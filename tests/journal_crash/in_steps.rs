//! Room that is made in steps: by transactions that find none, at the end of commits that cross a
//! threshold, and by checkpoints that are ended behind a batch.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use journal_core::policy::Thresholds;
use journal_core::{Overwrite, Rule, Site};
use sim_disk::mutants::{Group, hunt};
use sim_disk::{Explorer, Model, Mutator, Scenario};

use crate::guards::within;
use crate::probe::Logged;
use crate::program::{Program, Step, Tx};
use crate::rules::an_older_version_is_held;
use lab::oracle::{Change, End};

use Change::{Discard, Touch, Write};
use End::{Deferred, Durable};

/// Blocks of the programs: more than a batch has.
const BLOCKS: u64 = 4;

/// Draws numbers, always the same ones.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % end
    }
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 5).with_random_per_point(8)
}

/// Transactions of one block or two, in one lane or two. They take several times the room there is.
fn program(seed: u64, in_commits: bool, mutator: &Mutator) -> Program {
    let mut dice = Dice(seed);
    let logs = [Logged::Halves, Logged::Whole, Logged::Versions, Logged::Cached];
    let logs = logs[(seed % 4) as usize];
    let lanes = 1 + (seed / 4 % 2) as u16;
    let mut steps = Vec::new();
    for at in 0..14 {
        let block = dice.below(BLOCKS) as usize;
        let change = match dice.below(8) {
            0 => Discard,
            1..4 => Touch,
            _ => Write,
        };
        let mut changes = vec![(block, change)];
        if dice.below(3) == 0 {
            changes.push(((block + 1) % BLOCKS as usize, Write));
            changes.sort_unstable_by_key(|(block, _)| *block);
        }
        let end = if dice.below(4) == 0 { Deferred } else { Durable };
        let seat = dice.below(u64::from(lanes)) as usize;
        steps.push(Step::One(Tx::new(seat, &changes, end)));
        match at {
            5 => steps.push(Step::OneBatch),
            9 if seed % 3 == 0 => steps.push(Step::Reopen),
            _ => {}
        }
    }
    let overwrite = match logs {
        Logged::Halves if seed % 16 < 8 => Overwrite::MayLeaveGarbage,
        _ => Overwrite::OldOrNew,
    };
    Program {
        mutator: mutator.clone(),
        lane_bytes: 14 * 64,
        lane_slots: if matches!(logs, Logged::Halves | Logged::Whole) { 0 } else { 3 },
        batch: 1 + dice.below(2) as usize,
        thresholds: in_commits.then_some(Thresholds::new(100, 100)),
        in_commits,
        overwrite,
        ..Program::new(logs, lanes, steps)
    }
}

fn programs(in_commits: bool, mutator: &Mutator) -> Vec<Program> {
    (0..32).map(|seed| program(seed, in_commits, mutator)).collect()
}

/// Steps that have no time for a pass of the index: they read the records at the heads.
fn hurried(in_commits: bool, mutator: &Mutator) -> Vec<Program> {
    let hurry = |program| Program { longest_stop: Duration::from_nanos(1), ..program };
    programs(in_commits, mutator).into_iter().map(hurry).collect()
}

/// Blocks in slots, in commits that cross the first threshold and never the second one: a step
/// writes nothing home as long as a transaction finds room.
fn reclaiming(mutator: &Mutator) -> Vec<Program> {
    let reclaims = |seed| {
        let logs = if seed % 4 == 2 { Logged::Versions } else { Logged::Cached };
        let thresholds = Some(Thresholds::new(80, 255));
        Program { logs, lane_slots: 8, thresholds, ..program(seed, true, mutator) }
    };
    (0..32).map(reclaims).collect()
}

fn survive(programs: &[Program]) -> Result<(), String> {
    programs.iter().try_for_each(|program| {
        explorer().explore(program).map(drop).map_err(|failure| format!("{program:?}: {failure}"))
    })
}

fn need(rule: Rule, programs: impl Fn(&Mutator) -> Vec<Program>) {
    let without = Mutator::without(&[rule]);
    let result = catch_unwind(AssertUnwindSafe(|| survive(&programs(&without))));
    assert!(!matches!(result, Ok(Ok(()))), "{rule:?} is off, and nothing notices");
}

#[test]
fn a_transaction_without_room_makes_some_in_steps() {
    within(300, || survive(&programs(false, &Mutator::new())).unwrap_or_else(|e| panic!("{e}")));
}

#[test]
fn a_commit_that_crosses_a_threshold_makes_room() {
    within(300, || survive(&programs(true, &Mutator::new())).unwrap_or_else(|e| panic!("{e}")));
}

#[test]
fn a_commit_that_crosses_the_first_threshold_alone_reclaims() {
    within(300, || survive(&reclaiming(&Mutator::new())).unwrap_or_else(|e| panic!("{e}")));
}

#[test]
fn a_step_without_time_for_a_pass_reads_the_heads() {
    within(300, || survive(&hurried(false, &Mutator::new())).unwrap_or_else(|e| panic!("{e}")));
    within(300, || survive(&hurried(true, &Mutator::new())).unwrap_or_else(|e| panic!("{e}")));
}

#[test]
fn a_step_needs_its_rules() {
    within(600, || {
        // Of a block, steps pass older frames first. A checkpoint that ends early does not.
        need(Rule::CutDropsOlder, |mutator| {
            vec![Program { mutator: mutator.clone(), ..an_older_version_is_held() }]
        });
        for in_commits in [false, true] {
            need(Rule::StepPassesSeen, |mutator| programs(in_commits, mutator));
            need(Rule::StepListsAll, |mutator| programs(in_commits, mutator));
            need(Rule::StepListsAll, |mutator| hurried(in_commits, mutator));
            need(Rule::DurableGoesHome, |mutator| programs(in_commits, mutator));
            need(Rule::StampFloor, |mutator| programs(in_commits, mutator));
        }
        need(Rule::StepPassesSeen, reclaiming);
        need(Rule::StepListsAll, reclaiming);
        need(Rule::VoidsFenced, reclaiming);
    });
}

fn boxed(programs: Vec<Program>) -> Vec<Box<dyn Scenario>> {
    programs.into_iter().map(|program| Box::new(program) as Box<dyn Scenario>).collect()
}

/// In the steps of commits that reclaim: entries that are not durable when heads pass, and so on.
#[test]
fn every_mutant_of_a_step_that_reclaims_is_killed() {
    let bag = within(600, || {
        let of = |mutator: &Mutator| boxed(reclaiming(mutator));
        let groups = [Group::new(explorer(), &of)];
        let is_of_a_step =
            |site: &Site| site.name.starts_with("slot.entry") || site.name.starts_with("slot.void");
        let sites: Vec<Site> =
            journal_core::SITES.concat().into_iter().filter(is_of_a_step).collect();
        hunt(&groups, &[&sites], &[]).unwrap_or_else(|failure| panic!("{failure}"))
    });
    assert!(bag.killed() > 2, "\n{bag}");
}

/// In steps of commits alone: a cut before the sync, a head before what goes home, and so on.
#[test]
fn every_mutant_of_a_step_is_killed() {
    let bag = within(600, || {
        let of = |mutator: &Mutator| boxed(programs(true, mutator));
        let groups = [Group::new(explorer(), &of)];
        let is_of_a_step = |site: &Site| site.name.starts_with("checkpoint.");
        let sites: Vec<Site> =
            journal_core::SITES.concat().into_iter().filter(is_of_a_step).collect();
        hunt(&groups, &[&sites], &[]).unwrap_or_else(|failure| panic!("{failure}"))
    });
    // One for the writes, and one for the sync. Sites of commits are not declared here.
    assert_eq!(bag.killed(), 2, "\n{bag}");
}
