//! Re-logging under the simulator: a block that rests at the head of a lane is copied to its tail.

use journal_core::Durability::{self, Deferred, Durable};
use journal_core::Rule;
use sim_disk::{Explorer, Model, Mutator, Report};

use crate::program::{Change1, Kind, Program, Step};

use Change1::{Discard, Touch, Write};

fn commit(lane: u16, changes: &[(usize, Change1)], durability: Durability) -> Step {
    Step::Commit(lane, changes.to_vec(), durability)
}

fn write(lane: u16, block: usize) -> Step {
    commit(lane, &[(block, Write)], Durable)
}

fn touch(lane: u16, block: usize) -> Step {
    commit(lane, &[(block, Touch)], Durable)
}

const COPY: Step = Step::Relog(0, true);

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 8).with_random_per_point(16)
}

fn explore(explorer: &Explorer, program: &Program) -> Report {
    explorer.explore(program).unwrap_or_else(|failure| panic!("{program:?}\n{failure}"))
}

/// Block 0 rests, block 1 does not, and the copy of the first frees the space of both.
fn rests() -> Vec<Step> {
    vec![write(0, 0), write(0, 1), write(0, 1), COPY]
}

#[test]
fn a_copy_survives_every_crash() {
    for kind in [Kind::FullBlock, Kind::Words] {
        let explorer = Explorer::new(Model::Torn8).with_images_per_point_max(1 << 16).with_kills();
        let report = explore(&explorer, &Program::new(kind, 1, rests()));
        assert_eq!(report.points_sampled, 0, "{report}");
        assert!(report.images > 4_000, "{kind:?}: {report}");
    }
}

#[test]
fn a_copy_survives_crashes_of_its_recovery() {
    for after in [write(0, 0), touch(0, 0), Step::Checkpoint, Step::Relog(0, false)] {
        let program = Program::new(Kind::Words, 1, rests());
        let program = Program { steps_after: vec![after], ..program };
        explore(&explorer().with_depth(1).with_kills(), &program);
    }
}

/// What a lane may begin with when it is copied, all on two lanes.
fn beginnings() -> Vec<Vec<Step>> {
    let hot = || [write(0, 1), write(0, 1)];
    let with = |first: &[Step]| [first, &hot()].concat();
    vec![
        with(&[write(0, 0)]),
        // A discard; a change on top of what is home; a chain over both lanes.
        with(&[commit(0, &[(0, Discard)], Durable)]),
        with(&[write(1, 0), Step::Checkpoint, touch(0, 0)]),
        with(&[write(0, 0), touch(1, 0)]),
        with(&[write(1, 0), touch(0, 0), touch(1, 0)]),
        // What is copied may not be durable yet, or half of a transaction.
        with(&[write(0, 0), commit(1, &[(0, Touch), (2, Write)], Deferred)]),
        vec![write(0, 0), commit(0, &[(1, Touch), (2, Write)], Deferred), write(1, 2), touch(0, 1)],
        // A copy of a copy.
        [rests(), vec![write(0, 1), touch(0, 1)]].concat(),
    ]
}

/// What may come after.
fn ends() -> Vec<Step> {
    vec![
        write(0, 0),
        write(1, 0),
        touch(1, 0),
        commit(0, &[(0, Touch), (1, Touch)], Deferred),
        commit(1, &[(0, Discard)], Durable),
        Step::Relog(0, false),
        Step::Relog(1, false),
        Step::Checkpoint,
        Step::Batch,
        Step::Reclaim,
        Step::Sync,
        Step::Reopen,
    ]
}

#[test]
fn programs_with_a_copy_survive_sampled_crashes() {
    for kind in [Kind::FullBlock, Kind::Words] {
        let mut total = Report::default();
        for beginning in beginnings() {
            for first in ends() {
                let steps = [beginning.clone(), vec![Step::Relog(0, false), first]].concat();
                let program = Program::new(kind, 2, steps);
                total += explore(&explorer().with_kills(), &program);
            }
        }
        assert!(total.images > 10_000, "{kind:?}: {total}");
    }
}

#[test]
fn two_and_three_steps_behind_a_copy_survive_sampled_crashes() {
    let mut total = Report::default();
    let explorer =
        Explorer::new(Model::Torn8).with_images_per_point_max(1 << 5).with_random_per_point(6);
    for first in ends() {
        for second in ends() {
            for third in [Step::Relog(0, false), touch(0, 0), Step::Reopen] {
                let last = [first.clone(), second.clone(), third];
                let steps = [&rests()[..], &last[..]].concat();
                let program = Program { batch: 1, ..Program::new(Kind::Words, 2, steps) };
                total += explore(&explorer, &program);
            }
        }
    }
    assert!(total.images > 10_000, "{total}");
}

/// The program survives as the protocol is, and does not without the rule.
fn needs(rule: Rule, program: &Program) {
    needs_beside(&[], rule, program);
}

/// The same where `others`, which would keep it alive as well, are off in any case.
fn needs_beside(others: &[Rule], rule: Rule, program: &Program) {
    let without = |rules: &[Rule]| Program { mutator: Mutator::without(rules), ..program.clone() };
    explore(&explorer(), &without(others));
    let failure = explorer().explore(&without(&[others, &[rule]].concat()));
    assert!(failure.is_err(), "{rule:?} is off, and nothing notices");
}

/// The copy's record has a higher stamp than what is committed later through an idle lane. Here the
/// head advance lifts that lane above it too; whoever commits while another thread copies has only
/// this rule.
#[test]
fn a_copy_never_hides_a_newer_version_of_another_lane() {
    let steps = [rests(), vec![write(1, 0)]].concat();
    let beside = [Rule::StampFloor];
    needs_beside(&beside, Rule::CopiedStamp, &Program::new(Kind::FullBlock, 2, steps));
}

/// Nothing is left of what was copied, and its copy's stamp is lower than the record's.
#[test]
fn the_stamps_of_copies_outlive_what_they_copy() {
    let steps = [rests(), vec![Step::Reopen, write(0, 2)]].concat();
    needs(Rule::StampFloor, &Program::new(Kind::FullBlock, 1, steps));
}

/// A deferred transaction has changed the block that is copied, and another one.
#[test]
fn only_durable_content_is_copied() {
    let half = commit(1, &[(0, Touch), (2, Write)], Deferred);
    let steps = vec![write(0, 0), write(0, 1), write(0, 1), half, COPY];
    needs(Rule::DurableIsCopied, &Program::new(Kind::Words, 2, steps));
}
