//! Every persist site of the core, got wrong in every way.
//!
//! Each group of programs explores one thing that can go wrong; the hunt goes through all of them
//! until one notices.

use journal_core::Durability::{self, Deferred, Durable};
use journal_core::Overwrite;
use sim_disk::mutants::{Group, hunt};
use sim_disk::{Explorer, Image, Mark, Medium, Model, Mutator, Scenario};

use crate::format::{Reformat, rot_the_new_copy};
use crate::program::{Change1, Kind, Program, SUPERBLOCK_UNIT, Step};

use Change1::{Touch, Write};

fn commit(lane: u16, block: usize, change: Change1, durability: Durability) -> Step {
    Step::Commit(lane, vec![(block, change)], durability)
}

fn program(mutator: &Mutator, kind: Kind, lanes: u16, steps: Vec<Step>) -> Program {
    Program { mutator: mutator.clone(), ..Program::new(kind, lanes, steps) }
}

fn boxed<const N: usize>(programs: [Program; N]) -> Vec<Box<dyn Scenario>> {
    programs.into_iter().map(|program| Box::new(program) as Box<dyn Scenario>).collect()
}

/// Commits, deferred and durable, in one lane and in two, and checkpoints of whole images.
fn commits(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let of = |lanes, steps| program(mutator, Kind::FullBlock, lanes, steps);
    let write = || commit(0, 0, Write, Durable);
    let touch = || commit(0, 0, Touch, Durable);
    boxed([
        Program { steps_after: vec![touch()], ..of(1, vec![write()]) },
        of(1, vec![write(), Step::Checkpoint, touch()]),
        Program {
            steps_after: vec![Step::Checkpoint],
            ..of(1, vec![commit(0, 0, Write, Deferred), Step::Sync, commit(0, 1, Write, Deferred)])
        },
        of(2, vec![commit(0, 0, Write, Deferred), commit(1, 1, Touch, Durable)]),
    ])
}

/// A delta whose base is at home, on a device that leaves garbage behind.
fn shielded(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let (write, touch) = (commit(0, 0, Write, Durable), commit(0, 0, Touch, Durable));
    let steps = vec![write, Step::Checkpoint, touch, Step::Checkpoint];
    let program = program(mutator, Kind::Words, 1, steps);
    boxed([Program { overwrite: Overwrite::MayLeaveGarbage, ..program }])
}

/// A commit into space that a checkpoint has freed.
fn after_a_checkpoint(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let write = |block| commit(0, block, Write, Durable);
    let steps = vec![write(0), Step::Checkpoint, write(1)];
    boxed([program(mutator, Kind::FullBlock, 1, steps)])
}

/// A block that rests in front of one that does not, and its copy.
fn copies(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let write = |block| commit(0, block, Write, Durable);
    let steps = vec![write(0), write(1), write(1), Step::Relog(0, true)];
    boxed([program(mutator, Kind::FullBlock, 1, steps)])
}

/// A span that held another journal.
fn formats(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    vec![Box::new(Reformat { mutator: mutator.clone() })]
}

/// Rot in the first superblock copy, once the freed space is in use: the second one has to do.
fn rot_the_first_copy(image: &mut Image, history: &[Mark]) {
    let calls = history.iter().filter(|mark| matches!(mark, Mark::Called(_)));
    if calls.count() == 2 {
        image.flip_bit(Medium::Pmem, 100, 1);
    }
}

/// The same in the second copy.
fn rot_the_second_copy(image: &mut Image, history: &[Mark]) {
    let calls = history.iter().filter(|mark| matches!(mark, Mark::Called(_)));
    if calls.count() == 2 {
        image.flip_bit(Medium::Pmem, SUPERBLOCK_UNIT + 100, 1);
    }
}

#[test]
fn every_mutant_at_every_site_is_killed() {
    let explorer = Explorer::new(Model::Torn8)
        .with_images_per_point_max(1 << 8)
        .with_random_per_point(32)
        .with_kills();
    let groups = [
        Group::new(explorer.clone().with_depth(1), &commits),
        Group::new(explorer.clone(), &shielded),
        Group::new(explorer.clone(), &copies),
        Group::new(explorer.clone().with_damage(rot_the_first_copy), &after_a_checkpoint),
        Group::new(explorer.clone().with_damage(rot_the_second_copy), &after_a_checkpoint),
        Group::new(explorer.clone().with_damage(rot_the_new_copy), &formats),
        Group::new(explorer.with_depth(1), &shielded),
    ];
    let bag = hunt(&groups, journal_core::SITES, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(bag.is_clean(), "\n{bag}");
}
