//! A fence, a disk write or a sync fails. The caller that asked for it is told, everybody else is
//! refused from then on, nobody waits for ever, and what was acknowledged is there after the next
//! open.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use journal_core::{BlockNumber, Overwrite, Rule};
use nvm_journal::Error;
use sim_disk::{
    Explorer, Fault, FaultKind, Image, Model, Mutator, Operation, OperationCounts, Scenario, World,
};

use crate::guards::{Stage, within};
use crate::probe::Logged;
use crate::program::{Program, apply, read_block};
use lab::oracle::{BLOCK_BYTES, Change, End, next_number, sync_label};

use Change::{Read, Touch, Write};
use End::{Deferred, Durable};

const KINDS: [Operation; 3] = [Operation::Fence, Operation::DiskWrite, Operation::DiskSync];

fn program(lanes: u16, rules_off: &[Rule]) -> Program {
    let program = Program::new(Logged::Halves, lanes, Vec::new());
    let mutator = Mutator::without(rules_off);
    Program { mutator, lane_bytes: 16 * 64, overwrite: Overwrite::MayLeaveGarbage, ..program }
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 5).with_random_per_point(6)
}

/// Whether it is the answer of a call that met the failure itself.
const fn is_told(error: &Error) -> bool {
    matches!(error, Error::Medium(_) | Error::Device(_))
}

/// A call that covers earlier ones, with marks.
fn covering(stage: &Stage, call: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let label = sync_label(stage.world.history().len() as u64);
    stage.world.called(label);
    call()?;
    stage.world.returned(label);
    Ok(())
}

/// One thread makes every kind of call until one fails.
struct Alone {
    program: Program,
    fault: Option<(Operation, u64)>,
}

/// Every kind of call, in order.
fn calls(stage: &Stage) -> Result<(), Error> {
    let journal = &stage.journal;
    stage.transact(1, &[(0, Write), (1, Write)], Durable)?;
    covering(stage, || journal.checkpoint().map(drop))?;
    stage.transact(2, &[(0, Touch)], Deferred)?;
    stage.transact(3, &[(1, Touch), (0, Read)], Durable)?;
    stage.transact(4, &[(3, Write)], Deferred)?;
    covering(stage, || journal.sync())?;
    covering(stage, || journal.checkpoint().map(drop))?;
    // The lane fills up, and room is made on the way.
    for number in 5..10 {
        stage.transact(number, &[(2, Write), (4, Write)], Durable)?;
    }
    covering(stage, || journal.checkpoint().map(drop))
}

impl Alone {
    /// Runs; returns whether the open succeeded.
    fn run(&self, world: &World) -> Result<bool, String> {
        if let Some((operation, index)) = self.fault {
            world.inject(Fault::on(operation, index, FaultKind::Error));
        }
        let Ok(stage) = Stage::open(&self.program, world) else { return Ok(false) };
        let mut early = stage.journal.begin().map_err(|error| error.to_string())?;
        apply(&mut early, 99, 5, Write).map_err(|error| format!("early: {error}"))?;
        match (calls(&stage), self.fault) {
            (Ok(()), None) => return Ok(true),
            (Err(error), Some(_)) if is_told(&error) => {}
            (result, fault) => return Err(format!("{fault:?} and {result:?}")),
        }
        let before = (world.operations(), world.tape().len());
        let journal = &stage.journal;
        let mut into = [0; BLOCK_BYTES];
        let refused = |what: &str, result: Result<(), Error>| match result {
            Err(Error::Failed) => Ok(()),
            result => Err(format!("{what} is not refused: {result:?}")),
        };
        // One by one: what is not refused may wait for ever for a block that is not home.
        refused("begin", journal.begin().map(drop))?;
        refused("sync", journal.sync())?;
        refused("checkpoint", journal.checkpoint().map(drop))?;
        let write = journal.transact(|tx| tx.write(BlockNumber(2), &[7; BLOCK_BYTES]));
        refused("transact", write)?;
        for block in 0..4 {
            refused("read", read_block(journal, block).map(drop))?;
        }
        refused("an early read", early.read(BlockNumber(0), &mut into))?;
        refused("an early commit", early.commit().map(drop))?;
        refused("sync", journal.sync())?;
        if (world.operations(), world.tape().len()) != before {
            return Err("refused, and the media were touched".into());
        }
        Ok(true)
    }

    fn operations(&self) -> OperationCounts {
        let world = World::boot(self.start(), Model::Torn8);
        self.run(&world).expect("runs without a fault");
        world.operations()
    }
}

impl Scenario for Alone {
    fn name(&self) -> String {
        format!("{:?} fails", self.fault)
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
fn faults(lanes: u16) -> Vec<(Operation, u64)> {
    let operations = Alone { program: program(lanes, &[]), fault: None }.operations();
    let all = KINDS.into_iter();
    all.flat_map(|kind| (0..operations.of(kind)).map(move |at| (kind, at))).collect()
}

#[test]
fn after_any_failure_everything_is_refused_and_the_next_open_is_right() {
    within(120, || {
        let mut images = 0;
        for lanes in [1, 2] {
            let faults = faults(lanes);
            let has = |kind| faults.iter().any(|fault| fault.0 == kind);
            assert!(KINDS.into_iter().all(has), "fences, writes and syncs: {faults:?}");
            for fault in faults {
                let scenario = Alone { program: program(lanes, &[]), fault: Some(fault) };
                let explored = explorer().explore(&scenario);
                images += explored.unwrap_or_else(|failure| panic!("{failure}")).images;
            }
        }
        assert!(images > 1_000, "{images}");
    });
}

#[test]
fn without_stickiness_calls_are_not_refused() {
    let mut noticed = 0;
    for fault in faults(2) {
        let scenario = Alone { program: program(2, &[Rule::Sticky]), fault: Some(fault) };
        let world = World::boot(scenario.start(), Model::Torn8);
        match catch_unwind(AssertUnwindSafe(|| scenario.run(&world))) {
            // An open that fails leaves no journal.
            Ok(Ok(opened)) => assert!(!opened, "{fault:?}: refused all the same"),
            Ok(Err(_)) | Err(_) => noticed += 1,
        }
    }
    assert!(noticed > 10, "{noticed}");
}

/// Threads in groups, beside a checkpointing and a reading one, all of which want one block.
struct Crowd {
    program: Program,
    fault: (Operation, u64),
}

/// How a thread's work ended.
type Ended = Result<(), Error>;

const WRITERS: u64 = 4;

impl Crowd {
    fn write(stage: &Stage, thread: u64) -> Ended {
        for round in 0..6 {
            let number = 1 + thread + WRITERS * round;
            let changes = [(2 + thread as usize, Write), (0, [Touch, Write][round as usize % 2])];
            let ends = if (thread + round) % 5 == 4 { Deferred } else { Durable };
            stage.transact(number, &changes[..1 + (round as usize + thread as usize) % 2], ends)?;
        }
        Ok(())
    }

    fn write_home(stage: &Stage) -> Ended {
        for _ in 0..4 {
            covering(stage, || stage.journal.checkpoint().map(drop))?;
        }
        Ok(())
    }

    fn read(stage: &Stage) -> Ended {
        for round in 0..50 {
            read_block(&stage.journal, round % 4)?;
        }
        Ok(())
    }
}

impl Scenario for Crowd {
    fn name(&self) -> String {
        format!("{:?} fails among {} lanes", self.fault, self.program.lanes)
    }

    fn start(&self) -> Image {
        self.program.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let stage = Stage::open(&self.program, world).map_err(|error| error.to_string())?;
        // The lane's holder takes its time, so that others come, and groups form.
        stage.probe.watch(|site| {
            if site.name.ends_with(".front") || site.name == "commit.fence" {
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let (operation, index) = self.fault;
        let behind_open = world.operations().of(operation) + index;
        world.inject(Fault::on(operation, behind_open, FaultKind::Error));
        let ended: Vec<Ended> = std::thread::scope(|scope| {
            let stage = &stage;
            let writers =
                (0..WRITERS).map(|thread| scope.spawn(move || Self::write(stage, thread)));
            let mut threads: Vec<_> = writers.collect();
            threads.push(scope.spawn(|| Self::write_home(stage)));
            threads.push(scope.spawn(|| Self::read(stage)));
            threads.into_iter().map(|thread| thread.join().expect("does not panic")).collect()
        });
        let has_failed = world.operations().of(operation) > behind_open;
        let told = ended.iter().filter(|ended| ended.is_err_and(|error| is_told(&error))).count();
        let fit = |ended: &Ended| match ended {
            Ok(()) => true,
            Err(error) => has_failed && (*error == Error::Failed || is_told(error)),
        };
        if !ended.iter().all(fit) || has_failed != (told > 0) {
            return Err(format!("fails: {has_failed}, and {ended:?}"));
        }
        let refused = stage.journal.begin().map(drop) == Err(Error::Failed);
        if refused != has_failed {
            return Err(format!("fails: {has_failed}, refuses: {refused}"));
        }
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.program.recover(world)
    }
}

#[test]
fn nobody_waits_for_ever_for_what_has_failed() {
    within(120, || {
        for lanes in [1, 2] {
            for fault in KINDS.into_iter().flat_map(|kind| (0..14).map(move |at| (kind, at))) {
                let explorer =
                    explorer().with_images_per_point_max(1 << 2).with_random_per_point(1);
                let scenario = Crowd { program: program(lanes, &[]), fault };
                explorer.explore(&scenario).unwrap_or_else(|failure| panic!("{failure}"));
            }
        }
    });
}

#[test]
fn a_thread_that_waits_for_a_block_is_told_of_the_failure() {
    within(30, || {
        let program = program(1, &[]);
        let world = World::boot(program.start(), Model::Torn8);
        let stage = Stage::open(&program, &world).expect("opens");
        let fences = world.operations().of(Operation::Fence);
        world.inject(Fault::on(Operation::Fence, fences, FaultKind::Error));
        let mut holder = stage.journal.begin().expect("begins");
        apply(&mut holder, 1, 0, Write).expect("is free");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| stage.transact(2, &[(0, Touch)], Durable));
            let reading = scope.spawn(|| stage.transact(3, &[(0, Read)], Durable));
            std::thread::sleep(crate::guards::A_WHILE);
            assert!(!waiting.is_finished() && !reading.is_finished(), "the block is taken");
            let told = holder.commit().expect_err("its fence fails");
            assert!(is_told(&told), "{told}");
            // The block stays taken: nobody may see what has become of it.
            for thread in [waiting, reading] {
                assert_eq!(thread.join().expect("does not panic"), Err(Error::Failed));
            }
        });
        assert_eq!(next_number(&world.history()), 1, "nobody got as far as a commit");
    });
}
