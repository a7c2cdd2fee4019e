//! The machines can fail: with a rule of the protocol broken, or a step of persistence got wrong,
//! each finds a case that shows it among its first ones, and makes it small.

use journal_core::{Rule, SITES};
use nvm_journal::AnyPolicy;
use sim_disk::{Mutant, Mutation, Mutator};

use crate::lives::{Ended, Life, run};
use crate::policies::{default, tiny};
use crate::run::{cases, counterexample};
use crate::{door, large, owner};

/// Cases until a bug has to be found.
const CASES: u32 = 400;

/// A journal that is got wrong.
#[derive(Clone, Copy, Debug)]
enum Bug {
    Without(Rule),
    At(&'static str, Mutation),
}

use Bug::{At, Without};

impl Bug {
    fn mutator(self) -> Mutator {
        match self {
            Self::Without(rule) => Mutator::without(&[rule]),
            Self::At(name, mutation) => {
                let site = SITES.iter().copied().flatten().find(|site| site.name == name);
                Mutator::with(Mutant { site: *site.expect("declared"), mutation })
            }
        }
    }
}

/// The smallest case in which one owner's journal shows the bug.
fn of_owner(bug: Bug, policy: &str, shrinks: u32) -> Option<(owner::Shape, Vec<Life<owner::Act>>)> {
    counterexample(CASES, shrinks, &owner::case(), |(shape, lives)| {
        run(&owner::Owner::new(tiny(policy), shape, bug.mutator()), lives).map(drop)
    })
}

/// The smallest case behind the front door that shows the bug.
fn of_front(bug: Bug, policy: &str, shrinks: u32) -> Option<(door::Shape, Vec<Life<door::Act>>)> {
    counterexample(CASES, shrinks, &door::case(), |(shape, lives)| {
        run(&door::Front::new(tiny(policy), shape, bug.mutator()), lives).map(drop)
    })
}

#[test]
fn the_owners_machine_finds_broken_rules() {
    let bugs = [
        (Rule::RecordCheck, "full-block"),
        (Rule::LastPartAtCommit, "full-block"),
        (Rule::SequencesUnbroken, "byte-delta"),
        (Rule::EpochRaised, "lcow"),
        (Rule::BothCopies, "two-level"),
        (Rule::DeferredFirst, "byte-delta"),
        (Rule::StampAbove, "lcow"),
        (Rule::DurableGoesHome, "object-log"),
        (Rule::ShieldFirst, "adaptive"),
        (Rule::ShieldFloor, "compressed-delta"),
        (Rule::CutKeepsNeeded, "full-block"),
        (Rule::CutDropsOlder, "two-level"),
        (Rule::StampFloor, "adaptive"),
        (Rule::HeadsTogether, "full-block"),
        (Rule::SpaceChecked, "object-log"),
        (Rule::SlotCheck, "lcow"),
        (Rule::TailWords, "byte-delta"),
        (Rule::Sticky, "two-level"),
    ];
    for (rule, policy) in bugs {
        assert!(of_owner(Without(rule), policy, 0).is_some(), "{policy} without {rule:?}");
    }
}

#[test]
fn the_front_doors_machine_finds_broken_rules() {
    let bugs = [
        (Rule::RecordCheck, "full-block"),
        (Rule::BothCopies, "byte-delta"),
        (Rule::DeferredFirst, "compressed-delta"),
        (Rule::StampAbove, "lcow"),
        (Rule::ShieldFirst, "two-level"),
        (Rule::ShieldFloor, "adaptive"),
        (Rule::CutKeepsNeeded, "two-level"),
        (Rule::StampFloor, "object-log"),
        (Rule::HeadsTogether, "full-block"),
        (Rule::SlotCheck, "byte-delta"),
        (Rule::Sticky, "adaptive"),
        (Rule::SnapshotsKept, "full-block"),
        (Rule::SnapshotsEnd, "object-log"),
        (Rule::SnapshotsStamped, "two-level"),
    ];
    for (rule, policy) in bugs {
        assert!(of_front(Without(rule), policy, 0).is_some(), "{policy} without {rule:?}");
    }
}

#[test]
fn both_find_steps_that_are_left_out() {
    let bugs = [
        (At("commit.fence", Mutation::DropFence), "full-block"),
        (At("commit.front", Mutation::DropFlush), "object-log"),
        (At("commit.image", Mutation::DropFlush), "full-block"),
        (At("deferred.flush", Mutation::DropFlush), "two-level"),
        (At("checkpoint.sync", Mutation::DropSync), "adaptive"),
        (At("log.sync", Mutation::DropSync), "compressed-delta"),
        (At("slot.image", Mutation::DropFlush), "byte-delta"),
        (At("slot.entry", Mutation::DropFlush), "lcow"),
        (At("superblock.copy", Mutation::DropFlush), "full-block"),
    ];
    for (bug, policy) in bugs {
        assert!(of_owner(bug, policy, 0).is_some(), "one owner, {policy}: {bug:?}");
        assert!(of_front(bug, policy, 0).is_some(), "the front door, {policy}: {bug:?}");
    }
}

#[test]
fn the_large_machine_finds_them_too() {
    let bugs = [
        (At("commit.fence", Mutation::DropFence), "full-block"),
        (At("checkpoint.sync", Mutation::DropSync), "byte-delta"),
        (Without(Rule::RecordCheck), "two-level"),
    ];
    for (bug, policy) in bugs {
        let found = counterexample(4, 0, &large::case(60, 3), |case| {
            large::run(default(policy), bug.mutator(), case).map(drop)
        });
        assert!(found.is_some(), "{policy}: {bug:?}");
    }
}

#[test]
fn what_is_found_is_made_small() {
    let bug = At("commit.fence", Mutation::DropFence);
    let acts = |lives: usize, acts: usize| {
        assert!(lives <= 2 && acts <= 2, "{lives} lives and {acts} steps are left");
    };
    let (_, lives) = of_owner(bug, "full-block", 2_000).expect("is found");
    acts(lives.len(), lives.iter().map(|life| life.acts.len()).sum());
    let (_, lives) = of_front(bug, "full-block", 2_000).expect("is found");
    acts(lives.len(), lives.iter().map(|life| life.acts.len()).sum());
}

/// What some cases of each policy have come to.
#[derive(Default)]
struct Reach {
    images: u64,
    failed: u64,
}

impl Reach {
    fn note(&mut self, ended: &Ended) {
        self.images += ended.images;
        self.failed += ended.failed;
    }
}

/// Steps that no case has taken.
fn not_reached(mutator: &Mutator) -> Vec<&'static str> {
    let reached = mutator.reached();
    let all = SITES.iter().copied().flatten();
    all.filter(|site| !reached.contains_key(site)).map(|site| site.name).collect()
}

#[test]
fn every_step_of_persistence_is_reached() {
    let (of_owner, of_front) = (Mutator::new(), Mutator::new());
    let mut reach = Reach::default();
    for name in AnyPolicy::ALL.iter().map(AnyPolicy::name) {
        for (shape, lives) in cases(&owner::case(), 250) {
            let owner = owner::Owner::new(tiny(name), &shape, of_owner.clone());
            reach.note(&run(&owner, &lives).expect("holds"));
        }
        for (shape, lives) in cases(&door::case(), 250) {
            let front = door::Front::new(tiny(name), &shape, of_front.clone());
            reach.note(&run(&front, &lives).expect("holds"));
        }
    }
    // A format's own, which no crash of these lives is in.
    let formats = [
        "slot.first",
        "slot.first.fence",
        "superblock.forgotten",
        "superblock.void",
        "superblock.void.fence",
        "superblock.forget",
        "superblock.forget.fence",
    ];
    // Spills, and slots for what was read, are the door's.
    let is_the_doors = |name: &&str| name.starts_with("slot.spilled") || *name == "slot.clean";
    let of_owners: Vec<_> =
        not_reached(&of_owner).into_iter().filter(|name| !is_the_doors(name)).collect();
    assert_eq!(of_owners, formats);
    // Tail words are a baseline that the machine of the owner has; and its lanes are too short for
    // a copy that would free more than it costs.
    let is_beside = |name: &&str| name.starts_with("tail.") || name.starts_with("relog.");
    let beside: Vec<_> =
        not_reached(&of_front).into_iter().filter(|name| !is_beside(name)).collect();
    assert_eq!(beside, formats);
    assert!(reach.images > 20_000 && reach.failed > 200, "{} {}", reach.images, reach.failed);
}
