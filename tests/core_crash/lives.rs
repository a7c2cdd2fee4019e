//! Random lives and random programs survive.

use lab::core_crash::lives::{
    EDITS, journal, keeps_blocks_live, long_life, reopens_after_sync, step,
};
use lab::core_crash::program::Program;
use sim_disk::generate::Source;
use sim_disk::suite::Edit::{Discard, Overwrite as Whole, Write, WriteAt};
use sim_disk::suite::{Edit, Step};
use sim_disk::{Explorer, Model};

#[test]
fn long_lives_survive() {
    let lived = sim_disk::generate::check(1, 6_000, long_life);
    lived.unwrap_or_else(|found| panic!("{found}"));
}

/// Steps for the explorer, which may lose any of them.
fn steps(source: &mut Source, count: u64, some: &[Edit], program: &Program) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..count {
        let next = step(source, some);
        if next == Step::Reopen && reopens_after_sync(program) {
            steps.push(Step::Sync);
        }
        steps.push(next);
    }
    steps
}

fn short_life(source: &mut Source) -> Result<(), String> {
    let mut program = journal(source);
    let before: &[Edit] =
        if keeps_blocks_live(&program) { &[Write, WriteAt, Whole] } else { &EDITS };
    let count = 2 + source.below(7);
    program.steps = steps(source, count, before, &program);
    let discards = |step: &Step| match step {
        Step::Commit(_, edits, _) => edits.iter().any(|(_, edit)| *edit == Discard),
        _ => false,
    };
    let after: &[Edit] =
        if program.steps.iter().any(discards) { &[Write, Whole] } else { &[Write, WriteAt] };
    let count = source.below(3);
    program.steps_after = steps(source, count, after, &program);
    let explorer = Explorer::new(Model::Torn8).with_seed(source.below(1 << 20));
    let explorer = match source.below(4) {
        0 => explorer.with_images_per_point_max(4).with_random_per_point(3).with_depth(1),
        1 => explorer.with_images_per_point_max(12).with_random_per_point(6),
        _ => explorer.with_images_per_point_max(12).with_random_per_point(6).with_kills(),
    };
    let explored = explorer.explore(&program);
    explored.map(drop).map_err(|failure| format!("{program:?}\n{failure}"))
}

#[test]
fn random_programs_survive() {
    let lived = sim_disk::generate::check(1, 80, short_life);
    lived.unwrap_or_else(|found| panic!("{found}"));
}
