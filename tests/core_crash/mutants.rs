//! Every mutant at every persist site is killed.

use journal_core::Durability::{Deferred, Durable};
use lab::core_crash::mutants::{boxed, commit, hunt_all, program, shielded};
use lab::core_crash::program::{Kind, Program};
use sim_disk::mutants::{Group, hunt};
use sim_disk::suite::Edit::{Write, WriteAt};
use sim_disk::{Explorer, Model, Mutator};

#[test]
fn every_mutant_at_every_site_is_killed() {
    let bag = hunt_all(Kind::Words).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(bag.is_clean(), "\n{bag}");
}

/// The sites that a payload passes on its way: the same hunt would take as long for each policy.
#[test]
fn mutants_on_the_way_of_objects_are_killed() {
    let explorer = Explorer::new(Model::Torn8)
        .with_images_per_point_max(1 << 8)
        .with_random_per_point(32)
        .with_kills();
    let write_at = |block| commit(0, block, WriteAt, Durable);
    let commits = |mutator: &Mutator| {
        let of = |lanes, steps| program(mutator, Kind::ObjectLog, lanes, steps);
        let deferred = vec![commit(0, 0, Write, Deferred), commit(1, 1, WriteAt, Durable)];
        boxed([
            Program { steps_after: vec![write_at(0)], ..of(1, vec![write_at(0), write_at(0)]) },
            of(2, deferred),
        ])
    };
    let shielded = |mutator: &Mutator| shielded(mutator, Kind::ObjectLog);
    let groups = [
        Group::new(explorer.clone(), &commits),
        Group::new(explorer.clone(), &shielded),
        Group::new(explorer.with_depth(1), &shielded),
    ];
    // Payloads are no images; a checkpoint and the shield write images all the same.
    let passed = [
        "commit.front",
        "commit.fence",
        "deferred.front",
        "deferred.flush",
        "checkpoint.",
        "shield.",
    ];
    let sites = journal_core::SITES.iter().copied().flatten().copied();
    let sites: Vec<_> =
        sites.filter(|site| passed.iter().any(|begin| site.name.starts_with(begin))).collect();
    let bag = hunt(&groups, &[&sites], &[]).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(bag.survivors().next().is_none() && bag.unreached.is_empty(), "\n{bag}");
    assert!(bag.killed() > 20, "\n{bag}");
}
