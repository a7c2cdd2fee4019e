//! Disks, and disks together with memory.

use sim_disk::{Defect, Model};

use super::{Disk, GARBAGE, LOSING, Litmus, Place, X0, Y0};

/// Disks do not care what memory is like.
const ALL: &[Model] = &Model::ALL;
const W0: Place = Place::Unit(Disk::Whole, 0);
const W1: Place = Place::Unit(Disk::Whole, 1);
const T0: Place = Place::Unit(Disk::Torn, 0);
const T1: Place = Place::Unit(Disk::Torn, 1);
const G0: Place = Place::Unit(Disk::Messy, 0);
const G1: Place = Place::Unit(Disk::Messy, 1);
const M0: Place = Place::Unit(Disk::Moving, 0);
const M1: Place = Place::Unit(Disk::Moving, 1);

pub(crate) const TESTS: &[Litmus] = &[
    Litmus {
        name: "disk: written without a sync",
        why: "writes lie in the disk's cache and leave it in any order",
        models: ALL,
        program: |p| p.write(Disk::Whole, 0, 1).write(Disk::Whole, 1, 1),
        sees: &[W0, W1],
        allowed: &[&[0, 0], &[1, 0], &[0, 1], &[1, 1]],
        forbidden: &[],
        kills: &[Defect::DiskKeepsOrder],
    },
    Litmus {
        name: "disk: a sync between",
        why: "what was written before a good sync is there",
        models: ALL,
        program: |p| p.write(Disk::Whole, 0, 1).sync(Disk::Whole).write(Disk::Whole, 1, 1),
        sees: &[W0, W1],
        allowed: &[&[0, 0], &[1, 0], &[1, 1]],
        forbidden: &[&[0, 1]],
        kills: &[Defect::SyncIsNoOp],
    },
    Litmus {
        name: "disk: torn at the unit",
        why: "a block of several atomic units may be there in part",
        models: ALL,
        program: |p| p.write(Disk::Torn, 0, 1),
        sees: &[T0, T1],
        allowed: &[&[0, 0], &[1, 0], &[0, 1], &[1, 1]],
        forbidden: &[],
        kills: &[Defect::DiskWritesAreAtomic, Defect::DiskKeepsOrder],
    },
    Litmus {
        name: "disk: never in place",
        why: "a disk that writes elsewhere first shows a block old or new",
        models: ALL,
        program: |p| p.write(Disk::Moving, 0, 1).write(Disk::Moving, 0, 2),
        sees: &[M0, M1],
        allowed: &[&[0, 0], &[1, 1], &[2, 2]],
        forbidden: &[&[1, 0], &[0, 1], &[2, 1], &[1, 2]],
        kills: &[Defect::OnlyOldestAndNewest],
    },
    Litmus {
        name: "disk: garbage",
        why: "a unit hit in the middle of an overwrite may hold neither old nor new",
        models: ALL,
        program: |p| p.write(Disk::Messy, 0, 1).sync(Disk::Messy).write(Disk::Messy, 1, 1),
        sees: &[G0, G1],
        allowed: &[&[0, 0], &[1, 0], &[GARBAGE, 0], &[1, 1], &[1, GARBAGE]],
        forbidden: &[&[0, 1], &[GARBAGE, 1]],
        kills: &[Defect::SyncIsNoOp, Defect::OnlyOldestAndNewest],
    },
    Litmus {
        name: "disk: overwritten before the sync",
        why: "either write may be the last to arrive before the power goes",
        models: ALL,
        program: |p| {
            p.write(Disk::Whole, 0, 1).write(Disk::Whole, 0, 2).sync(Disk::Whole).returns()
        },
        sees: &[W0, Place::Returns],
        allowed: &[&[0, 0], &[1, 0], &[2, 0], &[2, 1]],
        forbidden: &[&[0, 1], &[1, 1]],
        kills: &[Defect::SyncIsNoOp, Defect::OnlyOldestAndNewest],
    },
    Litmus {
        name: "disk: units of two writes mix",
        why: "each unit by itself is old, or one of the two",
        models: ALL,
        program: |p| p.write(Disk::Torn, 0, 1).write(Disk::Torn, 0, 2),
        sees: &[T0, T1],
        allowed: &[&[0, 0], &[1, 0], &[2, 0], &[0, 1], &[1, 1], &[2, 1], &[0, 2], &[1, 2], &[2, 2]],
        forbidden: &[],
        kills: &[Defect::DiskWritesAreAtomic, Defect::DiskKeepsOrder, Defect::OnlyOldestAndNewest],
    },
    Litmus {
        name: "disk: a failed sync, then a good one",
        why: "the failed one may have dropped the dirty pages; the good one knows nothing of it",
        models: ALL,
        program: |p| p.write(Disk::Whole, 0, 1).sync_fails(Disk::Whole).sync(Disk::Whole).returns(),
        sees: &[W0, Place::Returns],
        allowed: &[&[0, 0], &[1, 0], &[0, 1], &[1, 1]],
        forbidden: &[],
        kills: &[Defect::FailedSyncIsForgiven],
    },
    Litmus {
        name: "disk: written again after a failed sync",
        why: "what is written anew is covered by the next good sync",
        models: ALL,
        program: |p| {
            let p = p.write(Disk::Whole, 0, 1).sync_fails(Disk::Whole).write(Disk::Whole, 0, 2);
            p.sync(Disk::Whole).returns()
        },
        sees: &[W0, Place::Returns],
        allowed: &[&[0, 0], &[1, 0], &[2, 0], &[2, 1]],
        forbidden: &[&[0, 1], &[1, 1]],
        kills: &[Defect::SyncIsNoOp],
    },
    Litmus {
        name: "disk: some written again after a failed sync",
        why: "the good sync covers the one write, not the other that failed",
        models: ALL,
        program: |p| {
            let p = p.write(Disk::Whole, 0, 1).write(Disk::Whole, 1, 1).sync_fails(Disk::Whole);
            p.write(Disk::Whole, 0, 1).sync(Disk::Whole).returns()
        },
        sees: &[W0, W1, Place::Returns],
        allowed: &[&[0, 0, 0], &[1, 0, 0], &[0, 1, 0], &[1, 1, 0], &[1, 0, 1], &[1, 1, 1]],
        forbidden: &[&[0, 0, 1], &[0, 1, 1]],
        kills: &[Defect::FailedSyncIsForgiven, Defect::SyncIsNoOp],
    },
    Litmus {
        name: "disk: somebody else's sync",
        why: "a sync is of one disk",
        models: ALL,
        program: |p| {
            let p = p.write(Disk::Other, 0, 1).write(Disk::Whole, 0, 1);
            p.sync(Disk::Whole).returns()
        },
        sees: &[Place::Unit(Disk::Other, 0), W0, Place::Returns],
        allowed: &[&[0, 0, 0], &[1, 0, 0], &[0, 1, 0], &[1, 1, 0], &[0, 1, 1], &[1, 1, 1]],
        forbidden: &[&[0, 0, 1], &[1, 0, 1]],
        kills: &[Defect::SyncIsNoOp],
    },
    Litmus {
        name: "disk, then memory",
        why: "a journal entry is dropped once its block has been synced, not before",
        models: LOSING,
        program: |p| p.write(Disk::Whole, 0, 1).sync(Disk::Whole).store(X0, 1),
        sees: &[W0, X0],
        allowed: &[&[0, 0], &[1, 0], &[1, 1]],
        forbidden: &[&[0, 1]],
        kills: &[Defect::SyncIsNoOp],
    },
    Litmus {
        name: "memory, then disk",
        why: "fenced memory says nothing of an unsynced disk",
        models: LOSING,
        program: |p| {
            let p = p.write(Disk::Whole, 0, 1).store(X0, 1).weak(X0).fence().returns();
            p.sync(Disk::Whole).returns()
        },
        sees: &[W0, X0, Place::Returns],
        allowed: &[
            &[0, 0, 0],
            &[1, 0, 0],
            &[0, 1, 0],
            &[1, 1, 0],
            &[0, 1, 1],
            &[1, 1, 1],
            &[1, 1, 2],
        ],
        forbidden: &[&[0, 0, 1], &[1, 0, 1], &[0, 1, 2]],
        kills: &[Defect::SyncIsNoOp],
    },
    Litmus {
        name: "a sync is no fence",
        why: "a disk's sync completes no flush of memory",
        models: LOSING,
        program: |p| {
            p.store(X0, 1).weak(X0).write(Disk::Whole, 0, 1).sync(Disk::Whole).store(Y0, 1)
        },
        sees: &[X0, W0, Y0],
        allowed: &[&[0, 0, 0], &[1, 0, 0], &[0, 1, 0], &[1, 1, 0], &[0, 1, 1], &[1, 1, 1]],
        forbidden: &[&[0, 0, 1], &[1, 0, 1]],
        kills: &[Defect::WeakFlushIsStrong, Defect::SyncIsNoOp],
    },
    Litmus {
        name: "disk: killed before the sync",
        why: "the disk keeps what it was given, and the next process may sync it",
        models: ALL,
        program: |p| p.write(Disk::Whole, 0, 1).killed().by(1).sync(Disk::Whole).returns(),
        sees: &[W0, Place::Kills, Place::Returns],
        allowed: &[&[0, 0, 0], &[1, 0, 0], &[0, 1, 0], &[1, 1, 0], &[1, 1, 1]],
        forbidden: &[&[0, 1, 1]],
        kills: &[Defect::SyncIsNoOp],
    },
];
