//! The simulator on a whole store: the toy log survives every crash, and no bug in it survives the
//! simulator.

use journal_core::{NoHook, Overwrite, Site};
use lab::toy_log::log;
use lab::toy_log::scenario::{self, Program};
use sim_disk::mutants::{Bag, Equivalent, Group, Verdict, hunt};
use sim_disk::{
    Explorer, Fault, FaultKind, Model, Mutant, Mutation, Mutator, Operation, Report, Rules,
    Scenario, generate,
};

/// All programs of up to this many writes to two blocks.
fn programs(length_max: u32) -> impl Iterator<Item = Vec<u64>> {
    (0..=length_max).flat_map(|length| {
        (0..1_u64 << length).map(move |bits| (0..length).map(|bit| bits >> bit & 1).collect())
    })
}

#[test]
fn every_short_program_survives_every_crash_under_every_model() {
    for model in Model::ALL {
        let mut total = Report::default();
        for writes in programs(3) {
            let explorer = Explorer::new(model).with_kills();
            total += explorer
                .explore(&Program::new(&writes, NoHook))
                .unwrap_or_else(|failure| panic!("{failure}"));
        }
        assert_eq!(total.programs, 15);
        assert_eq!(total.points_sampled, 0, "every image of every point was tried");
        assert!(total.images > 3_000, "{model}: {total}");
        assert!(total.kills > 100 && total.outcomes > 40, "{model}: {total}");
    }
}

#[test]
fn images_that_recovery_cannot_tell_apart_need_not_all_be_recovered() {
    for model in Model::ALL {
        let (mut every, mut told_apart) = (Report::default(), Report::default());
        for writes in programs(3) {
            let program = Program::new(&writes, NoHook);
            let explorer = Explorer::new(model).with_kills();
            let explore = |explorer: &Explorer| {
                explorer.explore(&program).unwrap_or_else(|failure| panic!("{failure}"))
            };
            every += explore(&explorer);
            told_apart += explore(&explorer.with_images_told_apart_by_reads());
        }
        assert_eq!(told_apart.images, every.images);
        assert_eq!(told_apart.outcomes, every.outcomes, "{model}");
        assert!(told_apart.recoveries * 3 < every.recoveries * 2, "{every}\n{told_apart}");
    }
    // And what a bug does to any of them is still seen.
    let explorer = Explorer::new(Model::Torn8).with_kills().with_images_told_apart_by_reads();
    let scenarios = |mutator: &Mutator| -> Vec<Box<dyn Scenario>> {
        vec![Box::new(Program::new(&[0, 1, 0], mutator.clone()))]
    };
    let bag = hunt(&[Group::new(explorer, &scenarios)], &[log::site::ALL], &[]);
    let bag = bag.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(bag.is_clean(), "{bag}");
}

#[test]
fn recovery_survives_crashes_of_its_own_two_deep() {
    for overwrite in [Overwrite::NeverInPlace, Overwrite::OldOrNew, Overwrite::MayLeaveGarbage] {
        let program = Program { overwrite, ..Program::new(&[0, 1, 0], NoHook) };
        let explorer = Explorer::new(Model::Torn8).with_depth(2);
        let report = explorer.explore(&program).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.nested > 100 && report.images > 10_000, "{report}");
    }
}

/// Explores every mutant of the log under a model.
fn hunt_log(model: Model, sites: &[Site], equivalents: &[Equivalent], writes: &[u64]) -> Bag {
    let explorer = Explorer::new(model).with_kills();
    let scenarios = |mutator: &Mutator| -> Vec<Box<dyn Scenario>> {
        vec![Box::new(Program::new(writes, mutator.clone()))]
    };
    let groups = [Group::new(explorer, &scenarios)];
    hunt(&groups, &[sites], equivalents).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn every_mutant_at_every_site_is_killed() {
    for model in [Model::X86Line, Model::Torn8, Model::Arm] {
        let bag = hunt_log(model, log::site::ALL, &[], &[0, 1, 0]);
        assert!(bag.is_clean(), "{model}:\n{bag}");
        // Four sites put in flight, three fence (two ways each), one range of two lines can be
        // shortened, three sites can go wrong in one way, and one store can be left out.
        assert_eq!(bag.killed(), 2 * 4 + 2 * 3 + 1 + 3 + 1, "{bag}");
    }
}

#[test]
fn durable_caches_need_no_flush_and_still_need_fences_and_order() {
    let bag = hunt_log(Model::Eadr, log::site::ALL, &[], &[0, 1, 0]);
    let survivors: Vec<String> = bag.survivors().map(|mutant| mutant.to_string()).collect();
    assert!(survivors.contains(&"DropFlush at commit.header.flush".to_owned()), "{survivors:?}");
    let killed = |name: &str| {
        let is = |(mutant, verdict): &&(Mutant, Verdict)| {
            mutant.to_string() == name && matches!(verdict, Verdict::Killed(_))
        };
        bag.verdicts.iter().any(|entry| is(&entry))
    };
    assert!(killed("DropFence at commit.fence"), "the payload is streamed: {bag}");
    assert!(killed("SwapAcross at commit.payload"), "{bag}");
    assert!(killed("SwapAcross at checkpoint.home"), "{bag}");
    assert!(killed("DropSync at checkpoint.sync"), "{bag}");
}

#[test]
fn a_hunt_reports_what_its_scenarios_miss() {
    // Recovery goes on to write, so all sites are reached; but the program itself never filled
    // the ring, so nobody saw an unsynced checkpoint.
    let bag = hunt_log(Model::Torn8, log::site::ALL, &[], &[]);
    assert!(bag.unreached.is_empty(), "{bag}");
    let mutant = Mutant { site: log::site::HOME_SYNC, mutation: Mutation::DropSync };
    assert!(bag.survivors().any(|survivor| survivor == mutant), "{bag}");
    assert!(!bag.is_clean());

    let idle = |mutator: &Mutator| -> Vec<Box<dyn Scenario>> {
        let program = Program::new(&[], mutator.clone());
        vec![Box::new(Program { writes_after: Vec::new(), ..program })]
    };
    let groups = [Group::new(Explorer::new(Model::Torn8), &idle)];
    let bag = hunt(&groups, &[log::site::ALL], &[]).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(bag.unreached.contains(&log::site::COMMIT), "{bag}");
    assert!(bag.untouched.contains(&log::site::COMMIT), "{bag}");
    assert!(!bag.is_clean());

    let bag = hunt_log(Model::Torn8, &log::site::ALL[1..], &[], &[0]);
    assert_eq!(bag.undeclared, [log::site::PAYLOAD]);

    let mutant = Mutant { site: log::site::COMMIT, mutation: Mutation::DropFence };
    let wrong = Equivalent { mutant, proof: "none" };
    let bag = hunt_log(Model::Torn8, log::site::ALL, &[wrong], &[0, 1, 0]);
    assert_eq!(bag.stale_equivalents, [mutant], "a killed mutant is not equivalent");
}

fn broken(mutation: Mutation, site: Site, writes: &[u64]) -> Program<Mutator> {
    Program::new(writes, Mutator::with(Mutant { site, mutation }))
}

#[test]
fn a_failure_tells_its_story() {
    let explorer = Explorer::new(Model::Torn8).with_seed(7);
    let program = broken(Mutation::DropFence, log::site::COMMIT, &[0]);
    let failure = explorer.explore(&program).expect_err("an unfenced commit is lost").to_string();
    for part in ["torn8, seed 7", "life 1:", "POWER LOST", "[commit.payload]", "lost", "toy log"] {
        assert!(failure.contains(part), "{part} is missing in:\n{failure}");
    }
}

#[test]
fn a_seed_replays_to_the_letter() {
    let explore = |seed| {
        // So few images a point that most are sampled, by the seed.
        let explorer = Explorer::new(Model::Torn8).with_images_per_point_max(8).with_seed(seed);
        let report = explorer.explore(&Program::new(&[0, 1, 0], NoHook));
        let broken = broken(Mutation::DropFlush, log::site::HEADER_FLUSH, &[0, 1, 0]);
        let failure = explorer.explore(&broken).expect_err("noticed by samples too");
        (report.unwrap_or_else(|failure| panic!("{failure}")), failure.to_string())
    };
    assert_eq!(explore(1), explore(1));
    assert!(explore(1).0.points_sampled > 0, "and the report says that it sampled");
}

#[test]
fn a_bug_shrinks_to_the_shortest_program_that_shows_it() {
    let check = |source: &mut generate::Source| {
        let writes = source.list(5, |source| source.below(scenario::BLOCKS));
        let mutant = broken(Mutation::DropSync, log::site::HOME_SYNC, &writes);
        let program = Program { writes_after: Vec::new(), records: 1, ..mutant };
        let explored = Explorer::new(Model::Torn8).explore(&program);
        explored.map(drop).map_err(|_| format!("{writes:?}"))
    };
    let found = generate::check(3, 100, check).expect_err("an unsynced checkpoint loses data");
    assert_eq!(found.message, "[0, 0]", "the second write checkpoints the first: {found}");
}

/// Explores a program during whose life one fault hits.
fn with_fault(fault: Fault) -> Result<Report, String> {
    let program = Program { fault: Some(fault), ..Program::new(&[0, 1, 0, 1], NoHook) };
    let explored = Explorer::new(Rules::new(Model::Torn8)).explore(&program);
    explored.map_err(|failure| failure.to_string())
}

#[test]
fn an_error_at_any_operation_is_survived() {
    let world = sim_disk::World::boot(Program::new(&[], NoHook).start(), Model::Torn8);
    let program = Program::new(&[0, 1, 0, 1], NoHook);
    program.program(&world).expect("runs without a fault");
    let operations = world.operations();
    for operation in [Operation::Fence, Operation::DiskWrite, Operation::DiskSync] {
        assert!(operations.of(operation) > 0, "{operation:?} is exercised");
    }
    for index in 0..operations.all() {
        let fault = Fault::at(index, FaultKind::Error);
        for fault in [fault, fault.for_ever()] {
            if let Err(failure) = with_fault(fault) {
                panic!("operation {index}: {failure}");
            }
        }
    }
}

#[test]
fn a_disk_that_lies_is_beyond_a_log_without_checksums_at_home() {
    for kind in [FaultKind::Lost, FaultKind::Misdirected { blocks: 1 }] {
        let fault = Fault::on(Operation::DiskWrite, 0, kind);
        assert!(with_fault(fault).is_err(), "{kind:?} has an effect");
    }
}
