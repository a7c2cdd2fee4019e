//! Every persist site of the core, got wrong in every way.
//!
//! Each group of programs explores one thing that can go wrong; the hunt goes through all of them
//! until one notices. The shield has no use for whole images, so its sites are reached by a policy
//! of deltas.

use journal_core::Durability::{self, Deferred, Durable};
use journal_core::{Overwrite, Protocol, Site};
use sim_disk::mutants::{Bag, Equivalent, Group, Mutant, Mutation, hunt};
use sim_disk::suite::{Edit, Step};
use sim_disk::{Explorer, Failure, Model, Mutator, Scenario};

use crate::core_crash::damage::{rot_the_first_copy, rot_the_second_copy};
use crate::core_crash::format::{Reformat, rot_the_new_copy};
use crate::core_crash::format_over::{lose_the_first_line, some_pairs};
use crate::core_crash::program::{Kind, Program};

use Edit::{Write, WriteAt};

pub fn commit(lane: u16, block: usize, change: Edit, durability: Durability) -> Step {
    Step::Commit(lane, vec![(block, change)], durability)
}

pub fn program(mutator: &Mutator, kind: Kind, lanes: u16, steps: Vec<Step>) -> Program {
    Program { mutator: mutator.clone(), ..Program::new(kind, lanes, steps) }
}

pub fn boxed<const N: usize>(programs: [Program; N]) -> Vec<Box<dyn Scenario>> {
    programs.into_iter().map(|program| Box::new(program) as Box<dyn Scenario>).collect()
}

/// Commits, deferred and durable, in one lane and in two, and checkpoints of whole images.
fn commits(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let of = |lanes, steps| program(mutator, Kind::FullBlock, lanes, steps);
    let write = || commit(0, 0, Write, Durable);
    let write_at = || commit(0, 0, WriteAt, Durable);
    boxed([
        Program { steps_after: vec![write_at()], ..of(1, vec![write()]) },
        of(1, vec![write(), Step::Checkpoint, write_at()]),
        Program {
            steps_after: vec![Step::Checkpoint],
            ..of(1, vec![commit(0, 0, Write, Deferred), Step::Sync, commit(0, 1, Write, Deferred)])
        },
        of(2, vec![commit(0, 0, Write, Deferred), commit(1, 1, WriteAt, Durable)]),
    ])
}

/// Commits with tail words.
fn tail_words(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let steps = vec![commit(0, 0, Write, Durable)];
    let program = program(mutator, Kind::FullBlock, 1, steps);
    let steps_after = vec![commit(0, 0, WriteAt, Durable)];
    boxed([Program { protocol: Protocol::TailPointer, steps_after, ..program }])
}

/// A delta whose base is at home, on a device that leaves garbage behind.
pub fn shielded(mutator: &Mutator, deltas: Kind) -> Vec<Box<dyn Scenario>> {
    let (write, write_at) = (commit(0, 0, Write, Durable), commit(0, 0, WriteAt, Durable));
    let steps = vec![write, Step::Checkpoint, write_at, Step::Checkpoint];
    let program = program(mutator, deltas, 1, steps);
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

/// Versions in slots: whole ones, rewritten ones, deferred ones.
fn slots(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let of = |steps| program(mutator, Kind::ByteDelta, 1, steps);
    let write = |durability| commit(0, 0, Write, durability);
    boxed([
        of(vec![write(Durable), write(Durable), write(Durable)]),
        of(vec![write(Deferred), write(Deferred), Step::Sync, write(Deferred), Step::Sync]),
    ])
}

/// Entries of slots, written and voided.
fn folds(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let of = |steps| program(mutator, Kind::ByteDelta, 1, steps);
    let write = |block| commit(0, block, Write, Durable);
    let begin = || vec![write(0), Step::Fold, write(0), Step::Fold];
    let freed = vec![Step::Checkpoint, write(1), write(1), write(1), write(2)];
    boxed([Program { lane_slots: 2, ..of([begin(), freed].concat()) }])
}

/// What an open finds of slots: versions of a killed process, and torn entries.
fn found_slots(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let of = |steps| program(mutator, Kind::ByteDelta, 1, steps);
    let write = || commit(0, 0, Write, Durable);
    let steps_after = vec![write(), Step::Fold, Step::Reopen];
    let folded = || of(vec![write(), Step::Fold]);
    boxed([
        Program { steps_after, ..folded() },
        Program { steps_after: vec![Step::Fold], crash_after: true, ..folded() },
    ])
}

/// Appends that go home.
fn appends(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let of = |steps| program(mutator, Kind::ByteDelta, 1, steps);
    let change = |edit| commit(0, 0, edit, Durable);
    boxed([of(vec![change(Edit::Discard), change(Edit::Append), change(WriteAt)])])
}

/// Whole blocks in the disk-side log.
fn logged(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let write = || commit(0, 0, Write, Durable);
    boxed([program(mutator, Kind::Logged, 1, vec![write(), write()])])
}

/// A span that held another journal.
fn formats(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    vec![Box::new(Reformat { mutator: mutator.clone() })]
}

/// Formats over journals of many shapes. What the old journal held counts too.
fn formats_over(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    some_pairs(mutator).map(|pair| Box::new(pair) as Box<dyn Scenario>).collect()
}

/// Mutants of a format that change nothing.
fn equivalents() -> [Equivalent; 2] {
    let forgotten = |mutation, proof| {
        let is_forgotten = |site: &&Site| site.name == "superblock.forgotten";
        let site = journal_core::SITES.iter().flat_map(|sites| sites.iter()).find(is_forgotten);
        Equivalent { mutant: Mutant { site: *site.expect("declared"), mutation }, proof }
    };
    [
        forgotten(
            Mutation::SwapAcross,
            "the next fence makes it durable as well, before anything else of the old journal goes",
        ),
        forgotten(Mutation::ShortenRange, "no copy begins in the last line"),
    ]
}

/// The sites that a journal with one owner leads to. Spills, and slots for what was read, are the
/// door's: its own crash tests have them.
pub fn sites() -> Vec<Site> {
    let all = journal_core::SITES.iter().copied().flatten().copied();
    all.filter(|site| !site.name.starts_with("slot.spilled") && site.name != "slot.clean").collect()
}

/// Gets every site wrong in every way.
pub fn hunt_all(deltas: Kind) -> Result<Bag, Box<Failure>> {
    let explorer = Explorer::new(Model::Torn8)
        .with_images_per_point_max(1 << 8)
        .with_random_per_point(32)
        .with_kills();
    let shielded = move |mutator: &Mutator| shielded(mutator, deltas);
    let groups = [
        Group::new(explorer.clone().with_depth(1), &commits),
        Group::new(explorer.clone().with_depth(1), &tail_words),
        Group::new(explorer.clone(), &shielded),
        Group::new(explorer.clone(), &copies),
        Group::new(explorer.clone(), &slots),
        Group::new(explorer.clone(), &folds),
        Group::new(explorer.clone().with_depth(1), &found_slots),
        Group::new(explorer.clone(), &appends),
        Group::new(explorer.clone(), &logged),
        Group::new(explorer.clone().with_damage(rot_the_first_copy), &after_a_checkpoint),
        Group::new(explorer.clone().with_damage(rot_the_second_copy), &after_a_checkpoint),
        Group::new(explorer.clone().with_damage(rot_the_new_copy), &formats),
        Group::new(explorer.clone(), &formats_over),
        Group::new(explorer.clone().with_damage(lose_the_first_line), &formats_over),
        Group::new(explorer.with_depth(1), &shielded),
    ];
    hunt(&groups, &[&sites()], &equivalents())
}
