//! A fence, a disk write or a sync fails: the handle refuses everything from then on and touches
//! the media no more, and whatever a crash then leaves, the next open is right.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use journal_core::Buffers;
use journal_core::Durability::{Deferred, Durable};
use journal_core::policy::{Change, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, CheckpointReport, CommitError, JournalError, Operation as Asked, Overwrite, Rule,
};
use sim_disk::suite::{Edit, Opened, Step};
use sim_disk::{
    Explorer, Fault, FaultKind, Image, Model, Mutator, Operation, OperationCounts, Scenario, World,
};

use lab::core_crash::delta::Words;
use lab::core_crash::program::{Kind, Program};

use Edit::{Write, WriteAt};

/// What is done with a handle after a call of it has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// Every call is made, and has to be refused.
    CallEverything,
    /// The program goes on as if nothing had happened; what then returns counts as a promise.
    GoOn,
}

/// A program one operation of which fails.
struct Failing {
    program: Program,
    fault: Option<(Operation, u64)>,
    after: After,
}

/// Every kind of call, with the shield, names, and deferred records of both lanes.
fn program(rules_off: &[Rule]) -> Program {
    let commit = |lane, changes: &[(usize, Edit)], durability| {
        Step::Commit(lane, changes.to_vec(), durability)
    };
    let steps = vec![
        commit(0, &[(0, Write), (1, Write)], Durable),
        Step::Checkpoint,
        commit(0, &[(0, WriteAt)], Deferred),
        commit(1, &[(1, WriteAt)], Durable),
        Step::Stream(1, vec![vec![(0, WriteAt)], vec![(2, Write)]], true),
        commit(0, &[(3, Write)], Deferred),
        Step::Sync,
        Step::Batch,
        Step::LetHeadsPass,
        Step::Checkpoint,
        Step::Sync,
    ];
    let program = Program::new(Kind::Words, 2, steps);
    let mutator = Mutator::without(rules_off);
    Program { overwrite: Overwrite::MayLeaveGarbage, mutator, ..program }
}

impl Failing {
    /// Runs the program; returns whether the open succeeded.
    fn run(&self, world: &World) -> Result<bool, String> {
        if let Some((operation, index)) = self.fault {
            world.inject(Fault::on(operation, index, FaultKind::Error));
        }
        let mut buffers = Buffers::new(&self.program.geometry(), 64, 1);
        let Ok(mut journal) = self.program.open(world, Words, buffers.borrow()) else {
            return Ok(false);
        };
        let mut failed = false;
        for step in &self.program.steps {
            let result = self.program.step(world, &mut journal, step);
            if result.is_ok() {
                continue;
            }
            failed = true;
            if self.after == After::CallEverything {
                refuses_everything(world, &mut journal)?;
                break;
            }
        }
        if failed == self.fault.is_none() {
            return Err(format!("{:?} made a call fail: {failed}", self.fault));
        }
        Ok(true)
    }

    /// How many operations of each kind there are when nothing fails.
    fn operations(&self) -> Result<OperationCounts, String> {
        let world = World::boot(self.start(), Model::Torn8);
        self.run(&world)?;
        Ok(world.operations())
    }
}

fn refuses_everything(world: &World, journal: &mut Opened<'_, Words>) -> Result<(), String> {
    let before = (world.operations(), world.tape().len());
    let image = [7; 64];
    let update = || [Asked::Update(Update::new(BlockNumber(2), Change::Image(&image)))];
    let (lane, other) = (LaneNumber(0), LaneNumber(1));
    let commits = [
        journal.commit(lane, &update(), Durable).map(drop),
        journal.commit(other, &update(), Deferred).map(drop),
        journal.commit(other, &[Asked::Discard(BlockNumber(0))], Durable).map(drop),
        journal.begin(lane, 512).map(drop),
        journal.begin(other, 512).map(drop),
    ];
    let mut report = CheckpointReport::default();
    let calls = [
        journal.sync(),
        journal.checkpoint().map(drop),
        journal.checkpoint_batch(journal_core::Scope::All, &mut report).map(drop),
        journal.let_heads_pass(&mut report),
        journal.read(BlockNumber(0), &mut [0; 64]),
        journal.read(BlockNumber(3), &mut [0; 64]),
        // A caller that asks once more is told once more.
        journal.sync(),
    ];
    let refused = commits.iter().all(|result| *result == Err(CommitError::Failed))
        && calls.iter().all(|result| *result == Err(JournalError::Failed));
    if !refused {
        return Err(format!("not refused: {commits:?}, {calls:?}"));
    }
    if (world.operations(), world.tape().len()) != before {
        return Err("refused, and the media were touched".into());
    }
    Ok(())
}

impl Scenario for Failing {
    fn name(&self) -> String {
        format!("{:?} fails, then {:?}", self.fault, self.after)
    }

    fn start(&self) -> Image {
        self.program.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        self.run(world).map(drop)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.program.recover(world)
    }
}

/// Every operation that a failure of makes an outcome unknown.
fn faults() -> Vec<(Operation, u64)> {
    let scenario = Failing { program: program(&[]), fault: None, after: After::GoOn };
    let operations = scenario.operations().expect("runs without a fault");
    let kinds = [Operation::Fence, Operation::DiskWrite, Operation::DiskSync];
    let all = kinds.into_iter().flat_map(|kind| (0..operations.of(kind)).map(move |at| (kind, at)));
    all.collect()
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 6).with_random_per_point(8)
}

#[test]
fn after_any_failure_everything_is_refused_and_the_next_open_is_right() {
    let faults = faults();
    let mut kinds: Vec<Operation> = faults.iter().map(|(kind, _)| *kind).collect();
    kinds.dedup();
    assert_eq!(kinds.len(), 3, "fences, writes and syncs: {faults:?}");
    let mut images = 0;
    for fault in faults {
        for after in [After::CallEverything, After::GoOn] {
            let scenario = Failing { program: program(&[]), fault: Some(fault), after };
            let report =
                explorer().explore(&scenario).unwrap_or_else(|failure| panic!("{failure}"));
            images += report.images;
        }
    }
    assert!(images > 1_000, "{images}");
}

#[test]
fn without_stickiness_calls_are_not_refused() {
    let mut handles = 0;
    for fault in faults() {
        let program = program(&[Rule::Sticky]);
        let start = program.start();
        let scenario = Failing { program, fault: Some(fault), after: After::CallEverything };
        // What was stored may not even be readable any more, which the core relies on.
        let run = || scenario.run(&World::boot(start, Model::Torn8));
        match catch_unwind(AssertUnwindSafe(run)) {
            // An open that fails leaves no handle.
            Ok(Ok(opened)) => assert!(!opened, "{fault:?}: refused all the same"),
            Ok(Err(_)) | Err(_) => handles += 1,
        }
    }
    assert!(handles > 10, "{handles}");
}

#[test]
fn without_stickiness_a_promise_is_broken() {
    let broken = faults().into_iter().filter(|fault| {
        let (program, fault) = (program(&[Rule::Sticky]), Some(*fault));
        explorer().explore(&Failing { program, fault, after: After::GoOn }).is_err()
    });
    assert!(broken.count() > 0, "nothing needs it");
}
