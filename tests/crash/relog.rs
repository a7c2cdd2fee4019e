//! Re-logging under the simulator: a block that rests at the head of a lane is copied to its tail.

use journal_core::Durability::{Deferred, Durable};
use journal_core::Rule;
use sim_disk::{Explorer, Model, Report};

use crate::oracle::Edit;
use crate::program::{Kind, Program, Step};
use crate::rules::{commit, explorer, needs, needs_beside, write, write_at};

use Edit::{Discard, Write, WriteAt};

const COPY: Step = Step::Relog(0, true);

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
    for after in [write(0, 0), write_at(0, 0), Step::Checkpoint, Step::Relog(0, false)] {
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
        with(&[write(1, 0), Step::Checkpoint, write_at(0, 0)]),
        with(&[write(0, 0), write_at(1, 0)]),
        with(&[write(1, 0), write_at(0, 0), write_at(1, 0)]),
        // What is copied may not be durable yet, or half of a transaction.
        with(&[write(0, 0), commit(1, &[(0, WriteAt), (2, Write)], Deferred)]),
        vec![
            write(0, 0),
            commit(0, &[(1, WriteAt), (2, Write)], Deferred),
            write(1, 2),
            write_at(0, 1),
        ],
        // A copy of a copy.
        [rests(), vec![write(0, 1), write_at(0, 1)]].concat(),
    ]
}

/// What may come after.
fn ends() -> Vec<Step> {
    vec![
        write(0, 0),
        write(1, 0),
        write_at(1, 0),
        commit(0, &[(0, WriteAt), (1, WriteAt)], Deferred),
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
            for third in [Step::Relog(0, false), write_at(0, 0), Step::Reopen] {
                let last = [first.clone(), second.clone(), third];
                let steps = [&rests()[..], &last[..]].concat();
                let program = Program { batch: 1, ..Program::new(Kind::Words, 2, steps) };
                total += explore(&explorer, &program);
            }
        }
    }
    assert!(total.images > 10_000, "{total}");
}

/// The copy's record has a higher stamp than what is committed later through an idle lane. Here the
/// head advance lifts that lane above it too; whoever commits while another thread copies has only
/// this rule.
#[test]
fn a_copy_never_hides_a_newer_version_of_another_lane() {
    let steps = [rests(), vec![write(1, 0)]].concat();
    let beside = [Rule::StampFloor];
    needs_beside(&beside, Rule::CopiedStamp, &explorer(), &Program::new(Kind::FullBlock, 2, steps));
}

/// Nothing is left of what was copied, and its copy's stamp is lower than the record's.
#[test]
fn the_stamps_of_copies_outlive_what_they_copy() {
    let steps = [rests(), vec![Step::Reopen, write(0, 2)]].concat();
    needs(Rule::StampFloor, &explorer(), &Program::new(Kind::FullBlock, 1, steps));
}

/// A deferred transaction has changed the block that is copied, and another one.
#[test]
fn only_durable_content_is_copied() {
    let half = commit(1, &[(0, WriteAt), (2, Write)], Deferred);
    let steps = vec![write(0, 0), write(0, 1), write(0, 1), half, COPY];
    needs(Rule::DurableIsCopied, &explorer(), &Program::new(Kind::Words, 2, steps));
}
