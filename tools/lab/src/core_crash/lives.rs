//! Random lives of journals, most of them with slots or with a disk-side log.
//!
//! A long life crashes here and there, or has a call of its media fail, and goes on: slots are
//! freed and taken again many times, entries are written over, and after every step all that is
//! read is what was written, and no slot is lost or given twice. A short one is crashed everywhere,
//! as far as a small sample goes.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use journal_core::Buffers;
use journal_core::Durability::{Deferred, Durable};
use journal_core::policy::Policy;
use journal_core::{AuditError, BlockNumber, Overwrite, Protocol};
use sim_disk::generate::Source;
use sim_disk::suite::oracle::{
    BLOCK_BYTES, BLOCKS, EMPTY, Found, StoreState, digest, edited, judge,
};
use sim_disk::suite::{Edit, Edits, Opened, Step};
use sim_disk::{
    CrashPoints, Event, Fault, FaultKind, Mark, Model, Operation, Rules, Scenario as _, Tape, World,
};

use crate::core_crash::program::{Kind, Program};

use Edit::{Append, Discard, Overwrite as Whole, Write, WriteAt};

pub const EDITS: [Edit; 6] = [Write, WriteAt, Whole, Discard, Append, Write];

pub fn edits(source: &mut Source, some: &[Edit]) -> Edits {
    let mut edits = Vec::new();
    for block in 0..BLOCKS {
        if source.chance(1, 3) {
            edits.push((block, *source.pick(some)));
        }
    }
    if edits.is_empty() {
        edits.push((source.index(BLOCKS), *source.pick(some)));
    }
    edits.truncate(2);
    edits
}

pub fn step(source: &mut Source, some: &[Edit]) -> Step {
    let lane = source.below(2) as u16;
    match source.below(20) {
        0..=7 => Step::Commit(lane, edits(source, some), Durable),
        8..=10 => Step::Commit(lane, edits(source, some), Deferred),
        11 | 12 => Step::Fold,
        13 => Step::Garbage,
        14 => Step::Batch,
        15 => Step::LetHeadsPass,
        16 => source.pick(&[Step::Evict, Step::Rings, Step::Clean, Step::Move(lane)]).clone(),
        17 => Step::Relog(lane, false),
        18 => source.pick(&[Step::Sync, Step::Checkpoint]).clone(),
        _ => Step::Reopen,
    }
}

pub const KINDS: [Kind; 11] = [
    Kind::FullBlock,
    Kind::Words,
    Kind::ObjectLog,
    Kind::ByteDelta,
    Kind::Lcow,
    Kind::Logged,
    Kind::CompressedDelta,
    Kind::TwoLevel,
    Kind::Adaptive,
    Kind::AdaptiveSlots,
    Kind::Mixed,
];

/// A journal of few slots and little room.
pub fn journal(source: &mut Source) -> Program {
    let kind = *source.pick(&KINDS);
    let lanes = 1 + source.below(2) as u16;
    Program {
        lane_slots: if kind.wants_slots() { 1 + source.below(4) as u32 } else { 0 },
        lane_segments: if kind.wants_log() { 1 + source.below(3) as u32 } else { 0 },
        batch: 1 + source.index(2),
        lane_bytes: *source.pick(&[4 * 192, 8 * 64, 16 * 192]),
        overwrite: *source.pick(&[Overwrite::OldOrNew, Overwrite::MayLeaveGarbage]),
        protocol: *source.pick(&[Protocol::OneFence, Protocol::OneFence, Protocol::TailPointer]),
        ..Program::new(kind, lanes, Vec::new())
    }
}

/// What lives on one journal are like.
#[derive(Debug)]
pub struct Plan<'a> {
    pub program: &'a Program,
    /// How many frames the index has room for.
    pub frames: usize,
    /// Steps of a life are fewer.
    pub steps: u64,
    pub next: fn(&mut Source, &[Edit]) -> Step,
}

/// With garbage on the device nobody knows what is in a block that is not live, and the programs
/// take what they find there for its old content.
pub fn keeps_blocks_live(program: &Program) -> bool {
    program.overwrite == Overwrite::MayLeaveGarbage
}

/// Behind its word a lane holds nothing for the next process: a reopen is told of all before.
pub fn reopens_after_sync(program: &Program) -> bool {
    program.protocol == Protocol::TailPointer
}

/// Why a process ended early.
#[derive(Debug)]
enum Trouble {
    /// The journal refused a call, which it may where its media do.
    Refused(String),
    /// It did, or shows, what it never may.
    Wrong(String),
}

use Trouble::{Refused, Wrong};

fn read<L: Policy>(journal: &mut Opened<'_, L>) -> Result<Found, Trouble> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in (0..).zip(&mut blocks) {
        let read = journal.read(BlockNumber(number), block);
        read.map_err(|error| Refused(format!("read: {error}")))?;
    }
    Ok(blocks)
}

/// One process.
struct Life<'a, 's> {
    program: &'a Program,
    frames: usize,
    source: &'s mut Source,
    next: fn(&mut Source, &[Edit]) -> Step,
    /// Which kind of call of its media fails, once.
    fails: Option<Operation>,
    /// Where its tape begins, behind that of a process that was killed.
    from: usize,
    /// What the blocks hold; `None` where that is not determined.
    state: StoreState,
    /// The blocks that this process has given up.
    given_up: [bool; BLOCKS],
    /// For the report.
    done: Vec<Step>,
}

impl Life<'_, '_> {
    fn live(&mut self, world: &World, steps: u64) -> Result<(), Trouble> {
        let mut left = steps;
        loop {
            let mut buffers =
                Buffers::new(&self.program.geometry(), self.frames, self.program.batch);
            let opened = self.program.open(world, self.program.policy, buffers.borrow());
            let mut journal = opened.map_err(|error| Refused(format!("open: {error}")))?;
            if self.done.is_empty() {
                self.begin(world, &mut journal)?;
            }
            loop {
                journal.audit().map_err(|error| match error {
                    AuditError::Medium(error) => Refused(error.to_string()),
                    wrong => Wrong(wrong.to_string()),
                })?;
                self.look(&mut journal)?;
                if left == 0 {
                    return Ok(());
                }
                left -= 1;
                let step = self.next_step();
                self.done.push(step.clone());
                if step == Step::Reopen {
                    if reopens_after_sync(self.program) {
                        self.step(world, &mut journal, &Step::Sync)?;
                    }
                    break;
                }
                let calls = world.history();
                let calls = calls.iter().filter(|mark| matches!(mark, Mark::Called(_))).count();
                self.step(world, &mut journal, &step)?;
                self.note(&step, calls as u64 + 1);
            }
        }
    }

    /// Does a step. Where a write, a sync or a fence failed, nothing is promised any more.
    fn step<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        step: &Step,
    ) -> Result<(), Trouble> {
        let Err(refused) = self.program.step(world, journal, step) else { return Ok(()) };
        let is_stuck = self.fails.is_some_and(fails_for_good) && has_failed(world, self.from);
        match journal.sync() {
            Ok(()) if is_stuck => Err(Wrong(format!("a sync after {refused}"))),
            _ => Err(Refused(refused)),
        }
    }

    /// What the crash before has left.
    fn begin<L: Policy>(
        &mut self,
        world: &World,
        journal: &mut Opened<'_, L>,
    ) -> Result<(), Trouble> {
        let (history, found) = (world.history(), read(journal)?);
        judge(&history, &found, EMPTY).map_err(Wrong)?;
        world.recovered(digest(&found));
        self.state = found.map(Some);
        for (block, cell) in self.state.iter_mut().enumerate() {
            let discards = |mark: &Mark| match mark {
                Mark::Called(label) => label >> (2 * block) & 3 == 3,
                _ => false,
            };
            if history.iter().any(discards) {
                *cell = None;
            }
        }
        Ok(())
    }

    fn look<L: Policy>(&self, journal: &mut Opened<'_, L>) -> Result<(), Trouble> {
        for (block, (cell, found)) in self.state.iter().zip(&read(journal)?).enumerate() {
            if cell.is_some_and(|cell| cell != *found) {
                let words = [found[0], found[56]];
                let told = format!("block {block} begins and ends with {words:02x?}");
                return Err(Wrong(told));
            }
        }
        Ok(())
    }

    /// A step that may be: only what is known not to be live is appended to.
    fn next_step(&mut self) -> Step {
        let mut step = (self.next)(self.source, &EDITS);
        let Step::Commit(_, edits, _) = &mut step else { return step };
        for (block, edit) in edits {
            let given_up = &mut self.given_up[*block];
            *edit = match *edit {
                Append | Discard if keeps_blocks_live(self.program) => Whole,
                Append if self.state[*block].is_some() => WriteAt,
                edit if self.state[*block].is_some() => edit,
                _ if !*given_up => Whole,
                Discard => Discard,
                _ => *self.source.pick(&[Whole, Append]),
            };
            *given_up = *edit == Discard;
        }
        step
    }

    fn note(&mut self, step: &Step, number: u64) {
        let Step::Commit(_, edits, _) = step else { return };
        for (block, edit) in edits {
            let cell = &mut self.state[*block];
            let old = cell.unwrap_or([0; BLOCK_BYTES]);
            *cell = (*edit != Discard).then(|| edited(&old, number, *edit));
        }
    }
}

/// Whether nobody can say what is on the media after such a call has failed.
const fn fails_for_good(operation: Operation) -> bool {
    matches!(operation, Operation::Fence | Operation::DiskWrite | Operation::DiskSync)
}

/// Whether a call of the media has failed behind this place of the tape.
fn has_failed(world: &World, from: usize) -> bool {
    let tape = world.tape();
    let mut events = tape.entries().iter().skip(from).map(|entry| &entry.event);
    events.any(|event| matches!(event, Event::Fault(_)))
}

/// What a panic says counts as any other failure.
fn guarded(call: impl FnOnce() -> Result<(), Trouble>) -> Result<(), Trouble> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Wrong(format!("panicked: {text:?}")))
    })
}

pub fn long_life(source: &mut Source) -> Result<(), String> {
    let program = &journal(source);
    live(source, &Plan { program, frames: 64, steps: 12, next: step })
}

/// Four processes on one journal. The first three are killed, or lose power, somewhere; of any of
/// them a call may fail, after which it is over.
pub fn live(source: &mut Source, plan: &Plan<'_>) -> Result<(), String> {
    let Plan { program, frames, next, .. } = *plan;
    let rules = Rules::from(Model::Torn8);
    let mut world = World::boot(program.start(), rules);
    let (mut past, mut from, mut done) = (Vec::new(), 0, format!("{plan:?}"));
    for _ in 0..4 {
        let fails = source.chance(1, 4).then(|| *source.pick(&Operation::MEMORY_AND_DISKS));
        if let Some(operation) = fails {
            let index = source.below(64);
            done += &format!("\n{operation:?} number {index} fails");
            world.inject(Fault::on(operation, index, FaultKind::Error));
        }
        let steps = source.below(plan.steps);
        let mut life = Life {
            program,
            frames,
            source,
            next,
            fails,
            from,
            state: EMPTY,
            given_up: [false; BLOCKS],
            done: Vec::new(),
        };
        let result = guarded(|| life.live(&world, steps));
        done += &format!("\n{:?}", life.done);
        match result {
            Ok(()) => {}
            Err(Refused(_)) if has_failed(&world, from) => {}
            Err(Refused(what) | Wrong(what)) => return Err(format!("{done}\n{what}")),
        }
        let (start, tape) = (world.start(), world.tape());
        if source.chance(1, 3) {
            let position = tape.len() - source.index((tape.len() - from).max(1));
            done += &format!("\nkilled at {position} of {}", tape.len());
            world = World::killed(&start, rules, &tape, position, past.clone());
            from = position + 1;
            continue;
        }
        let points = || CrashPoints::new(&start, &tape, rules, from);
        let count = points().count();
        let chosen = count - 1 - source.index(count);
        let point = points().nth(chosen).expect("fewer than there are");
        let keep_of_8 = source.below(9);
        let cells = point.cells().iter();
        let choice: Vec<_> = cells
            .map(|cell| match keep_of_8 {
                0 => 0,
                8 => cell.newest(),
                _ if source.chance(keep_of_8, 8) => cell.newest(),
                _ => source.index(cell.options()),
            })
            .collect();
        done += &format!("\npower lost at {} of {}", point.position(), tape.len());
        past.extend(point.marks());
        past.push(Mark::PowerLost);
        world = World::killed(&point.image(&choice), rules, &Tape::new(), 0, past.clone());
        from = 0;
    }
    Ok(())
}
