//! Every persist site that the front door leads to, got wrong in every way.

use journal_core::{Overwrite, Protocol, Site};
use sim_disk::mutants::{Group, hunt};
use sim_disk::{Explorer, Image, Mark, Medium, Model, Mutator, Scenario};

use crate::guards::{a_group_around, within};
use crate::probe::Logged;
use crate::program::{Program, SUPERBLOCK_UNIT, Step, Tx};
use crate::rules::one;
use lab::oracle::{Change, End};

use Change::{Append, Discard, Touch, Write};
use End::{Deferred, Durable};

fn program(mutator: &Mutator, lanes: u16, steps: Vec<Step>) -> Program {
    let program = Program::new(Logged::Halves, lanes, steps);
    Program { mutator: mutator.clone(), lane_bytes: 16 * 64, ..program }
}

fn boxed<const N: usize>(programs: [Program; N]) -> Vec<Box<dyn Scenario>> {
    programs.into_iter().map(|program| Box::new(program) as Box<dyn Scenario>).collect()
}

/// Commits, deferred and durable, in one lane and in two.
fn commits(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let deferred = |block| one(0, &[(block, Write)], Deferred);
    let two = Step::Two(
        Tx::new(0, &[(0, Touch)], Deferred),
        Tx::new(1, &[(1, Touch), (2, Write)], Durable),
        false,
    );
    let write = || one(0, &[(0, Write)], Durable);
    boxed([
        Program {
            steps_after: vec![one(0, &[(0, Touch)], Durable)],
            ..program(mutator, 1, vec![write()])
        },
        program(mutator, 1, vec![write(), Step::Checkpoint, one(0, &[(0, Touch)], Durable)]),
        Program {
            steps_after: vec![Step::Checkpoint],
            ..program(mutator, 1, vec![deferred(0), Step::Sync, deferred(1)])
        },
        program(mutator, 2, vec![two]),
    ])
}

/// Threads of which one makes durable what another has stored.
fn grouped(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    vec![Box::new(a_group_around(mutator))]
}

/// A journal whose commits end with a tail word.
fn tailed(mutator: &Mutator, lanes: u16, steps: Vec<Step>) -> Program {
    Program { protocol: Protocol::TailPointer, ..program(mutator, lanes, steps) }
}

/// Commits that end with a tail word: behind a checkpoint, and for several deferred ones.
fn tails(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let write = |seat, block, end| one(seat, &[(block, Write)], end);
    let deferred = write(0, 0, Deferred);
    boxed([
        tailed(mutator, 1, vec![write(0, 0, Durable), Step::Checkpoint, write(0, 1, Durable)]),
        tailed(mutator, 1, vec![deferred.clone(), write(0, 1, Deferred), Step::Sync]),
        tailed(mutator, 2, vec![deferred, write(1, 1, Durable)]),
    ])
}

/// A killed process leaves a word, and the next one builds on it. Without a word nothing counts,
/// so no kill spares what was deferred: the oracle expects it to.
fn killed_tails(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let write = |block| one(0, &[(block, Write)], Durable);
    let at_once = Step::AtOnce(Tx::new(0, &[(2, Write)], Durable));
    boxed([Program { steps_after: vec![write(1)], ..tailed(mutator, 1, vec![write(0), at_once]) }])
}

/// Threads of which one stores the tail word for what another has stored.
fn grouped_tails(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let mut scripted = a_group_around(mutator);
    scripted.program.protocol = Protocol::TailPointer;
    vec![Box::new(scripted)]
}

/// A touch whose base is at home, on a device that leaves garbage behind.
fn shielded(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let (write, touch) = (one(0, &[(0, Write)], Durable), one(0, &[(0, Touch)], Durable));
    let program = program(mutator, 1, vec![write, Step::Checkpoint, touch, Step::Checkpoint]);
    boxed([Program { overwrite: Overwrite::MayLeaveGarbage, ..program }])
}

/// Versions in slots: whole ones, rewritten ones, deferred ones.
fn slots(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let of = |steps| Program { logs: Logged::Versions, ..program(mutator, 1, steps) };
    let of = |steps| Program { lane_slots: 4, ..of(steps) };
    let write = |end| one(0, &[(0, Write)], end);
    let touch = || one(0, &[(0, Touch)], Durable);
    boxed([
        of(vec![touch(), touch(), touch()]),
        of(vec![write(Deferred), write(Deferred), Step::Sync, write(Deferred), Step::Sync]),
    ])
}

/// A ring so small that what it says has to be said by entries of slots, which are then voided.
fn folds(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let of = |steps| Program { logs: Logged::Cached, ..program(mutator, 1, steps) };
    let write = |block| one(0, &[(block, Write)], Durable);
    let rewritten = |times: usize| (0..times).map(|_| write(0)).collect::<Vec<_>>();
    let of_each = |block| vec![write(block), write(block), write(block)];
    let freed = [vec![Step::Checkpoint], vec![write(1), write(1), write(1), write(2)]].concat();
    boxed([
        Program {
            lane_bytes: 8 * 64,
            lane_slots: 4,
            // Heads pass frames whose entries a killed process has left.
            steps_after: vec![write(1)],
            ..of(rewritten(7))
        },
        Program { lane_bytes: 8 * 64, lane_slots: 2, ..of([rewritten(5), freed].concat()) },
        // Slots of older versions are given back and taken again.
        Program {
            lane_bytes: 8 * 64,
            lane_slots: 2,
            ..of([of_each(0), of_each(1), of_each(0)].concat())
        },
    ])
}

/// Appends that go home.
fn appends(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let change = |change| one(0, &[(0, change)], Durable);
    let steps = vec![change(Discard), change(Append), change(Touch)];
    boxed([Program { logs: Logged::Appending, lane_slots: 4, ..program(mutator, 1, steps) }])
}

/// Whole blocks in the disk-side log, and changes on top of them.
fn logged(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let change = |change| one(0, &[(0, change)], Durable);
    let of = |logs: Logged| {
        let steps = vec![change(Append), change(Touch), change(Append)];
        Program { logs, lane_segments: logs.lane_segments(), ..program(mutator, 1, steps) }
    };
    boxed([of(Logged::Compressed), of(Logged::Far)])
}

/// A commit into space that a checkpoint has freed.
fn after_a_checkpoint(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let write = |block| one(0, &[(block, Write)], Durable);
    boxed([program(mutator, 1, vec![write(0), Step::Checkpoint, write(1)])])
}

/// Rot in one superblock copy, once the freed space is in use: the other one has to do.
fn rot<const UNIT: u64>(image: &mut Image, history: &[Mark]) {
    let calls = history.iter().filter(|mark| matches!(mark, Mark::Called(_)));
    if calls.count() == 3 {
        image.flip_bit(Medium::Pmem, UNIT * SUPERBLOCK_UNIT + 100, 1);
    }
}

/// The sites of spills are in `spilled.rs`. What was read from the disk is stored for readers
/// alone, so no crash shows it: programs of `lab::crash_lab::door` read what a mutant leaves there.
fn is_elsewhere(site: &Site) -> bool {
    site.name.starts_with("slot.spilled") || site.name == "slot.clean"
}

/// Only a format voids and forgets superblocks and voids all entries. Only the journal with one
/// owner has steps of its own to re-log. All of that is the core's.
fn is_of_the_core_alone(site: &Site) -> bool {
    ["superblock.void", "superblock.forg", "relog.", "slot.first"]
        .iter()
        .any(|part| site.name.starts_with(part))
}

#[test]
fn every_mutant_at_every_site_is_killed() {
    let bag = within(900, || {
        let explorer =
            Explorer::new(Model::Torn8).with_images_per_point_max(1 << 6).with_random_per_point(16);
        let kills = explorer.clone().with_kills();
        // What is quick comes first: most are killed there.
        let groups = [
            Group::new(explorer.clone(), &commits),
            Group::new(explorer.clone(), &tails),
            Group::new(explorer.clone(), &shielded),
            Group::new(explorer.clone().with_damage(rot::<0>), &after_a_checkpoint),
            Group::new(explorer.clone().with_damage(rot::<1>), &after_a_checkpoint),
            Group::new(explorer.clone(), &slots),
            Group::new(explorer.clone(), &appends),
            Group::new(explorer.clone(), &logged),
            Group::new(explorer.clone(), &folds),
            Group::new(explorer.clone(), &grouped),
            Group::new(explorer, &grouped_tails),
            Group::new(kills.clone(), &slots),
            Group::new(kills.clone().with_depth(1), &killed_tails),
            Group::new(kills.clone().with_depth(1), &folds),
            Group::new(kills.clone().with_depth(1), &shielded),
            Group::new(kills.with_depth(1), &commits),
        ];
        let sites = journal_core::SITES.concat();
        let sites: Vec<Site> = sites
            .into_iter()
            .filter(|site| !is_of_the_core_alone(site) && !is_elsewhere(site))
            .collect();
        hunt(&groups, &[&sites], &[]).unwrap_or_else(|failure| panic!("{failure}"))
    });
    assert!(bag.is_clean(), "\n{bag}");
}
