//! Short programs, all of them or a part, and every crash of each or a sample.

use journal_core::Overwrite;
use sim_disk::{Explorer, Model, Report, Rng};

use crate::probe::Logged;
use crate::program::{Program, Step, Tx};
use lab::oracle::{Change, End};

use Change::{Append, Discard, Read, Touch, Write};
use End::{Abort, Deferred, Durable, Gathered, Together};

fn explore(explorer: &Explorer, program: &Program) -> Report {
    explorer.explore(program).unwrap_or_else(|failure| panic!("{failure}"))
}

fn one(seat: usize, changes: &[(usize, Change)], end: End) -> Step {
    Step::One(Tx::new(seat, changes, end))
}

#[test]
fn one_transaction_survives_every_crash() {
    let program = Program::new(Logged::Halves, 1, vec![one(0, &[(0, Touch)], Durable)]);
    let report = explore(&Explorer::new(Model::Torn8), &program);
    assert_eq!(report.points_sampled, 0, "{report}");
    assert!(report.images > 1_000, "{report}");
}

#[test]
fn a_deferred_touch_and_a_sync_survive_every_crash() {
    let steps = vec![one(0, &[(0, Touch)], Deferred), Step::Sync];
    let report = explore(&Explorer::new(Model::Torn8), &Program::new(Logged::Halves, 1, steps));
    assert_eq!(report.points_sampled, 0, "{report}");
    assert!(report.images > 1_000, "{report}");
}

/// The steps that programs are made of.
fn alphabet(lanes: u16) -> Vec<Step> {
    let mut steps = vec![
        Step::Sync,
        Step::Checkpoint,
        Step::Close,
        Step::Reopen,
        one(0, &[(0, Write)], Durable),
        one(0, &[(0, Touch)], Durable),
        one(0, &[(0, Touch)], Deferred),
        one(0, &[(0, Discard), (1, Write)], Durable),
        one(0, &[(0, Append), (1, Touch), (2, Write)], Deferred),
        one(0, &[(0, Write)], Abort),
        one(0, &[(0, Read), (2, Touch)], Durable),
        one(0, &[(0, Read)], Durable),
        Step::AtOnce(Tx::new(0, &[(0, Write), (1, Discard)], Durable)),
        Step::AtOnce(Tx::new(0, &[(1, Write)], Deferred)),
        Step::AtOnce(Tx::new(0, &[(0, Touch), (1, Touch)], Durable)),
    ];
    if lanes > 1 {
        let two = |first, second, turned| {
            let first: Tx = first;
            Step::Two(first, second, turned)
        };
        steps.extend([
            one(1, &[(0, Write)], Durable),
            one(1, &[(0, Touch)], Deferred),
            one(1, &[(0, Read), (1, Touch)], Deferred),
            Step::AtOnce(Tx::new(1, &[(0, Write), (2, Write)], Durable)),
            two(Tx::new(0, &[(0, Write)], Durable), Tx::new(1, &[(1, Touch)], Durable), true),
            two(Tx::new(1, &[(0, Touch)], Deferred), Tx::new(0, &[(2, Write)], Durable), false),
            two(Tx::new(0, &[(1, Touch)], Deferred), Tx::new(1, &[(1, Write)], Durable), true),
        ]);
    }
    steps
}

/// How many ways there are to go on.
const AFTERWARDS: usize = 6;

/// What is done after each recovery of a pair of steps.
fn afterwards(turn: usize) -> Vec<Step> {
    let touch = one(turn % 2, &[(0, Touch), (1, Read)], [Durable, Deferred][turn / 2 % 2]);
    [
        vec![touch.clone(), Step::Sync, one(0, &[(0, Write)], Durable)],
        vec![one(0, &[(0, Write), (1, Touch)], Deferred), Step::Checkpoint, touch.clone()],
        vec![touch, one(1, &[(0, Discard), (2, Write)], Durable), Step::Checkpoint],
    ][turn % 3]
        .clone()
}

/// A third of all pairs of steps, another one for each number of lanes and form of log. Crashes in
/// the first step are explored with some of the second ones, so that ways to go on come behind.
fn pairs(logs: Logged, lanes: u16, overwrite: Overwrite) -> Report {
    let mut total = Report::default();
    let explorer =
        Explorer::new(Model::Torn8).with_images_per_point_max(1 << 4).with_random_per_point(3);
    for (turn, first) in alphabet(lanes).into_iter().enumerate() {
        for (other, second) in alphabet(lanes).into_iter().enumerate() {
            if (turn + 2 * other + usize::from(lanes) + logs as usize) % 3 != 0 {
                continue;
            }
            let steps = vec![first.clone(), second];
            let program = Program {
                overwrite,
                drain_on_open: (turn + other) % 5 == 0,
                keep_on_close: (turn + other) % 2 == 0,
                steps_after: afterwards(turn + other),
                whole_after: u8::from((turn + other) % 4 == 0),
                ..Program::new(logs, lanes, steps)
            };
            let kills = (turn + other) % 3 == 0;
            let mut explorer = if kills { explorer.clone().with_kills() } else { explorer.clone() };
            if other >= AFTERWARDS {
                let alone = Program { steps: vec![first.clone()], ..program.clone() };
                let beyond = explorer.with_points_beyond(&alone, &program);
                explorer = beyond.expect("both run");
            }
            total += explore(&explorer, &program);
        }
    }
    total
}

#[test]
fn pairs_of_steps_on_one_lane_survive_sampled_crashes() {
    let total = pairs(Logged::Halves, 1, Overwrite::MayLeaveGarbage);
    assert!(total.images > 5_000, "{total}");
}

#[test]
fn pairs_of_steps_on_two_lanes_survive_sampled_crashes() {
    let total = pairs(Logged::Halves, 2, Overwrite::OldOrNew);
    assert!(total.images > 5_000, "{total}");
}

#[test]
fn pairs_of_steps_on_three_lanes_of_whole_blocks_survive_sampled_crashes() {
    let total = pairs(Logged::Whole, 3, Overwrite::MayLeaveGarbage);
    assert!(total.images > 5_000, "{total}");
}

#[test]
fn pairs_of_steps_on_two_lanes_of_differences_survive_sampled_crashes() {
    let total = pairs(Logged::Compressed, 2, Overwrite::MayLeaveGarbage);
    assert!(total.images > 5_000, "{total}");
}

#[test]
fn pairs_of_steps_on_two_lanes_of_two_levels_survive_sampled_crashes() {
    let total = pairs(Logged::Levels, 2, Overwrite::OldOrNew);
    assert!(total.images > 5_000, "{total}");
}

#[test]
fn pairs_of_steps_on_two_lanes_of_compared_objects_survive_sampled_crashes() {
    let total = pairs(Logged::Compared, 2, Overwrite::MayLeaveGarbage);
    assert!(total.images > 5_000, "{total}");
}

#[test]
fn pairs_of_steps_on_two_lanes_of_versions_survive_sampled_crashes() {
    let total = pairs(Logged::Versions, 2, Overwrite::MayLeaveGarbage);
    assert!(total.images > 5_000, "{total}");
}

#[test]
fn pairs_of_steps_on_two_lanes_of_cached_blocks_survive_sampled_crashes() {
    let total = pairs(Logged::Cached, 2, Overwrite::OldOrNew);
    assert!(total.images > 5_000, "{total}");
}

#[test]
fn recoveries_that_are_crashed_themselves_find_the_same() {
    let explorer = Explorer::new(Model::Torn8)
        .with_images_per_point_max(1 << 3)
        .with_random_per_point(3)
        .with_depth(2);
    let mut total = Report::default();
    for (drain_on_open, end) in [(false, Durable), (true, Deferred)] {
        let steps = vec![
            one(0, &[(0, Write), (1, Write)], Durable),
            Step::Checkpoint,
            Step::Two(
                Tx::new(0, &[(0, Touch)], end),
                Tx::new(1, &[(1, Touch), (2, Write)], end),
                true,
            ),
        ];
        let program = Program {
            drain_on_open,
            overwrite: Overwrite::MayLeaveGarbage,
            steps_after: vec![one(1, &[(0, Touch), (1, Read)], Durable)],
            ..Program::new(Logged::Halves, 2, steps)
        };
        total += explore(&explorer, &program);
    }
    assert!(total.nested > 100, "{total}");
}

/// Steps of programs in which nothing but a sync, or a transaction that is not gathered itself,
/// makes the running transaction commit.
fn gathering() -> Vec<Step> {
    vec![
        Step::Sync,
        Step::Checkpoint,
        Step::Close,
        Step::Reopen,
        one(0, &[(0, Write), (1, Touch)], Together),
        one(1, &[(0, Touch)], Together),
        one(0, &[(2, Write)], Together),
        one(1, &[(1, Discard), (2, Touch)], Together),
        one(0, &[(0, Read), (3, Write)], Together),
        one(1, &[(0, Read), (4, Write)], Durable),
        one(0, &[(0, Touch)], Durable),
        one(1, &[(1, Touch), (3, Write)], Deferred),
        one(0, &[(5, Write)], Durable),
        Step::Two(Tx::new(0, &[(0, Write)], Together), Tx::new(1, &[(1, Write)], Together), true),
    ]
}

#[test]
fn triples_of_steps_with_running_transactions_survive_sampled_crashes() {
    let mut total = Report::default();
    let explorer =
        Explorer::new(Model::Torn8).with_images_per_point_max(1 << 3).with_random_per_point(3);
    let steps = gathering();
    for turn in (0..steps.len() * steps.len()).step_by(5) {
        let (first, second) = (turn / steps.len(), turn % steps.len());
        let third = (first * 5 + second * 3) % steps.len();
        // One gathered in any case, and two that find the sync of it.
        let begin = one(turn % 2, &[(turn % 3, Write), (5, Touch)], Together);
        let middle = [first, second, third].map(|at| steps[at].clone());
        let program = Program {
            lane_bytes: 64 * 64,
            overwrite: [Overwrite::OldOrNew, Overwrite::MayLeaveGarbage][turn % 2],
            keep_on_close: turn % 3 == 0,
            steps_after: afterwards(turn),
            ..Program::new(
                [Logged::Halves, Logged::Versions, Logged::Cached, Logged::Compressed][turn % 4],
                2,
                [vec![begin], middle.to_vec(), vec![Step::Sync]].concat(),
            )
        };
        let kills = turn % 3 == 1;
        let explorer = if kills { explorer.clone().with_kills() } else { explorer.clone() };
        total += explore(&explorer, &program);
    }
    assert!(total.images > 5_000, "{total}");
}

/// A random program, the lanes of which fill up and are emptied on the way.
fn random(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let logs = [
        Logged::Halves,
        Logged::Whole,
        Logged::Versions,
        Logged::Cached,
        Logged::Compressed,
        Logged::Levels,
        Logged::Far,
    ];
    let logs = logs[rng.below(7) as usize];
    let lanes = rng.below(3) as u16 + 1;
    let tx = |rng: &mut Rng, seat: usize| {
        let mut changes: Vec<(usize, Change)> = Vec::new();
        for _ in 0..=rng.below(2) {
            let block = rng.below(4) as usize;
            let change = [Write, Touch, Touch, Read, Discard, Append][rng.below(6) as usize];
            if changes.iter().all(|(other, _)| *other != block) {
                changes.push((block, change));
            }
        }
        Tx::new(seat, &changes, [Durable, Deferred, Gathered, Abort][rng.below(4) as usize])
    };
    let mut steps = Vec::new();
    for _ in 0..6 {
        let step = match rng.below(8) {
            0 => Step::Sync,
            1 => Step::Checkpoint,
            2 => [Step::Close, Step::Reopen][rng.below(2) as usize].clone(),
            3 => {
                let mut tx = tx(&mut rng, 0);
                tx.changes.retain(|(_, change)| *change != Read);
                tx.changes.sort_by_key(|(block, _)| *block);
                tx.end = if tx.end == Gathered { Durable } else { tx.end };
                Step::AtOnce(tx)
            }
            4 => Step::Two(tx(&mut rng, 0), tx(&mut rng, 1), rng.below(2) == 0),
            _ => {
                let seat = rng.below(u64::from(lanes)) as usize;
                Step::One(tx(&mut rng, seat))
            }
        };
        steps.push(step);
    }
    Program {
        overwrite: [Overwrite::OldOrNew, Overwrite::MayLeaveGarbage][rng.below(2) as usize],
        keep_on_close: rng.below(2) == 0,
        whole_after: [0, 0, 1, 2][rng.below(4) as usize],
        steps_after: afterwards(rng.below(12) as usize),
        ..Program::new(logs, lanes, steps)
    }
}

#[test]
fn longer_programs_survive_sampled_crashes() {
    let mut total = Report::default();
    for seed in 0..60 {
        let explorer = Explorer::new(Model::Torn8)
            .with_seed(seed)
            .with_images_per_point_max(1 << 3)
            .with_random_per_point(3);
        let explorer = if seed % 3 == 0 { explorer.with_kills() } else { explorer };
        let explored = explorer.explore(&random(seed));
        total += explored.unwrap_or_else(|failure| panic!("workload {seed}: {failure}"));
    }
    assert!(total.images > 5_000, "{total}");
}
