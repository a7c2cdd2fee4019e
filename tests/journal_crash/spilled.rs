//! Running transactions that spill to active slots, and every crash of them: what is active is
//! never there without its record, and what a record names is never changed in place.

use journal_core::{Overwrite, Rule};
use sim_disk::mutants::{Group, hunt};
use sim_disk::{Explorer, Image, Model, Mutator, Scenario, World};

#[cfg(shuttle)]
use shuttle::thread;
#[cfg(not(shuttle))]
use std::thread;

use crate::guards::Stage;
use crate::probe::Logged;
use crate::program::{Program, Step, covering, read_all};
use crate::rules::{needs, one};
use lab::oracle::{Change, End, judge};

use Change::{Append, Discard, Touch, Write};
use End::{Durable, Gathered};

fn gathered(changes: &[(usize, Change)]) -> Step {
    one(0, changes, Gathered)
}

fn gather(block: usize, change: Change) -> Step {
    gathered(&[(block, change)])
}

/// A program whose running transaction keeps two blocks in memory.
pub(crate) fn program(steps: Vec<Step>) -> Program {
    let program = Program { buffer: 2, ..Program::new(Logged::Cached, 1, steps) };
    Program { lane_bytes: 24 * 64, lane_slots: 8, ..program }
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 8).with_random_per_point(32)
}

fn survives(explorer: &Explorer, program: &Program) -> u64 {
    let explored = explorer.explore(program);
    explored.unwrap_or_else(|failure| panic!("{failure}")).images
}

/// Two records that name slots, the second over the first; between them slots are changed in place.
pub(crate) fn in_place() -> Vec<Step> {
    vec![
        gather(0, Write),
        gather(1, Write),
        gather(0, Touch),
        gather(1, Write),
        Step::Sync,
        gather(0, Touch),
        gather(1, Touch),
        gather(0, Write),
        gather(1, Touch),
        Step::Sync,
    ]
}

#[test]
fn every_crash_of_a_spill_leaves_what_a_record_names_and_no_more() {
    let mut images = survives(&explorer(), &program(in_place()));
    images += survives(&explorer().with_kills().with_depth(1), &program(in_place()));
    assert!(images > 2_000, "{images}");
}

#[test]
fn discards_and_blocks_both_active_and_in_memory_survive_every_crash() {
    let steps = vec![
        gathered(&[(0, Write), (1, Write), (2, Write)]),
        gather(1, Discard),
        gather(3, Write),
        gather(1, Append),
        gather(0, Discard),
        Step::Sync,
        gathered(&[(0, Append), (1, Touch)]),
        gather(2, Discard),
        gather(2, Append),
        one(0, &[(2, Touch)], Durable),
        gather(1, Touch),
    ];
    let program = program(steps);
    let images = survives(&explorer(), &program);
    assert!(images > 500, "{images}");
    let after = vec![gather(1, Touch), gather(2, Touch), gather(3, Touch), Step::Sync];
    survives(&explorer(), &Program { steps_after: after, ..program });
}

/// Slots run short: blocks go home, and a spill finds no slot.
#[test]
fn spills_that_find_no_slot_survive_every_crash() {
    let round = |change| (0..5).map(move |block| gather(block, change));
    let steps: Vec<_> = round(Write).chain(round(Touch)).chain([Step::Checkpoint]).collect();
    for lane_slots in [2, 3, 6] {
        let program = Program { lane_slots, ..program(steps.clone()) };
        let program = Program { overwrite: Overwrite::MayLeaveGarbage, ..program };
        let images = survives(&explorer(), &program);
        assert!(images > 300, "{lane_slots}: {images}");
    }
}

/// One thread spills, and another one commits: its fence proves nothing of what the first one has
/// flushed.
struct TwoThreads(Program);

impl Scenario for TwoThreads {
    fn name(&self) -> String {
        "a spill of another thread".into()
    }

    fn start(&self) -> Image {
        self.0.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let stage = Stage::open(&self.0, world).map_err(|error| error.to_string())?;
        let spill = |first: u64, change| {
            (0..2).try_for_each(|block| {
                stage.transact(first + block, &[(block as usize, change)], Gathered)
            })
        };
        for (first, change) in [(1, Write), (3, Touch)] {
            let spilled = thread::scope(|scope| scope.spawn(|| spill(first, change)).join());
            spilled.map_err(|_| "panicked")?.map_err(|error| error.to_string())?;
        }
        covering(world, || stage.journal.sync())?;
        judge(world, &read_all(&stage.journal)?).map(drop)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.0.recover(world)
    }
}

#[test]
fn every_mutant_of_a_spill_is_killed() {
    let spills = |mutator: &Mutator| {
        let program = Program { mutator: mutator.clone(), ..program(in_place()) };
        let threads = TwoThreads(program.clone());
        vec![Box::new(program) as Box<dyn Scenario>, Box::new(threads)]
    };
    let explorer = explorer().with_images_per_point_max(1 << 6).with_random_per_point(16);
    let groups =
        [Group::new(explorer.clone(), &spills), Group::new(explorer.with_kills(), &spills)];
    let sites = journal_core::SITES.concat().into_iter();
    let sites: Vec<_> = sites.filter(|site| site.name.starts_with("slot.spilled")).collect();
    assert_eq!(sites.len(), 3);
    let bag = hunt(&groups, &[&sites], &[]).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(bag.survivors().next().is_none() && bag.unreached.is_empty(), "\n{bag}");
    assert!(bag.killed() >= 5, "\n{bag}");
}

#[test]
fn what_a_record_names_is_active_no_more() {
    let steps = in_place();
    needs(Rule::ActiveOnce, &explorer(), &program(steps[..steps.len() - 1].to_vec()));
}

#[test]
fn nothing_names_a_slot_before_a_record_does() {
    let steps = in_place();
    needs(Rule::SpillsUnnamed, &explorer(), &program(steps[..4].to_vec()));
}

/// An open that believed what no record names would show a state that never was.
#[test]
fn a_slot_that_no_record_names_is_free_after_a_crash() {
    let after = vec![gather(4, Write), gather(5, Write), Step::Sync];
    let program = Program { steps_after: after, ..program(in_place()) };
    survives(&explorer().with_depth(1), &program);
}
