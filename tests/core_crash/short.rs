//! Short programs, all of them, and every crash of each.

use journal_core::Durability::{self, Deferred, Durable};
use journal_core::Protocol::{self, OneFence, TailPointer};
use sim_disk::suite::{Edit, Step};
use sim_disk::{Explorer, Model, Report};

use lab::core_crash::program::{Kind, Program};

fn commit(lane: u16, changes: &[(usize, Edit)], durability: Durability) -> Step {
    Step::Commit(lane, changes.to_vec(), durability)
}

fn explore(explorer: &Explorer, program: &Program) -> Report {
    explorer.explore(program).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn one_commit_survives_every_crash() {
    for kind in [Kind::FullBlock, Kind::Words, Kind::ObjectLog] {
        for protocol in [OneFence, TailPointer] {
            let steps = vec![commit(0, &[(0, Edit::Write)], Durable)];
            let program = Program { protocol, ..Program::new(kind, 1, steps) };
            let report = explore(&Explorer::new(Model::Torn8), &program);
            assert_eq!(report.points_sampled, 0);
            assert!(report.images > 1_000, "{kind:?}, {protocol:?}: {report}");
        }
    }
}

/// An oracle that finds nothing wrong may be asleep.
#[test]
fn a_promise_that_is_not_kept_is_noticed() {
    let steps = vec![commit(0, &[(0, Edit::Write)], Deferred)];
    let honest = Program::new(Kind::FullBlock, 1, steps);
    explore(&Explorer::new(Model::Torn8), &honest);
    let lying = Program { promises_too_much: true, ..honest };
    let failure = Explorer::new(Model::Torn8).explore(&lying).expect_err("it was not durable");
    assert!(failure.message.contains("no allowed state"), "{failure}");
}

/// The steps that programs are made of.
fn alphabet(lanes: u16) -> Vec<Step> {
    use Edit::{Append, Discard, Overwrite, Write, WriteAt};
    let mut steps = vec![Step::Sync, Step::Checkpoint, Step::Reopen];
    for lane in 0..lanes {
        steps.push(Step::Stream(lane, vec![vec![(0, Write)], vec![(1, WriteAt)]], true));
        steps.push(Step::Stream(lane, vec![vec![(0, Write)]], false));
        steps.push(commit(lane, &[(0, Write)], Durable));
        steps.push(commit(lane, &[(0, WriteAt)], Durable));
        steps.push(commit(lane, &[(0, WriteAt)], Deferred));
        steps.push(commit(lane, &[(0, Write), (1, WriteAt)], Durable));
        steps.push(commit(lane, &[(0, Discard), (1, Append)], Durable));
        steps.push(commit(lane, &[(0, Overwrite)], Durable));
    }
    steps
}

#[test]
fn programs_of_two_steps_survive_sampled_crashes() {
    programs_of_two_steps_survive(OneFence, 3);
}

#[test]
fn and_with_tail_words() {
    programs_of_two_steps_survive(TailPointer, 2);
}

fn programs_of_two_steps_survive(protocol: Protocol, random_per_point: u32) {
    for lanes in [1, 2] {
        for kind in [Kind::FullBlock, Kind::Words, Kind::ObjectLog] {
            let mut total = Report::default();
            let explorer = Explorer::new(Model::Torn8)
                .with_images_per_point_max(1 << 4)
                .with_random_per_point(random_per_point)
                .with_kills();
            let of = |steps| Program { protocol, ..Program::new(kind, lanes, steps) };
            for first in alphabet(lanes) {
                let alone = of(vec![first.clone()]);
                total += explore(&explorer, &alone);
                for second in alphabet(lanes) {
                    let program = of(vec![first.clone(), second]);
                    let beyond = explorer.clone().with_points_beyond(&alone, &program);
                    total += explore(&beyond.expect("both run"), &program);
                }
            }
            assert!(total.images > 10_000, "{kind:?}: {total}");
        }
    }
}
