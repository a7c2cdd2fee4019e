//! The machine over the core's door: one owner, and everything that it can be asked.
//!
//! Media, steps and oracle are those of the crash suite: four blocks of 64 bytes, whose recovered
//! state has to be that after some prefix of the calls, with all that was acknowledged.

use journal_core::Durability::{self, Deferred, Durable};
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, JournalError, Overwrite, Protocol};
use nvm_journal::AnyPolicy;
use proptest::prelude::*;
use sim_disk::suite::oracle::{
    BLOCK_BYTES, BLOCKS, EMPTY, Found, StoreState, digest, edited, judge,
};
use sim_disk::suite::{Edit, Edits, Memory, Opened, Program, Step};
use sim_disk::{Image, Mark, Model, Mutator, Scenario as _};

use crate::lives::{Life, Machine, Process, lives, run};
use crate::policies::{for_each_policy, has_places, tiny};
use crate::run::{Sample, holds};

use Edit::{Append, Discard, Overwrite as Whole, Write, WriteAt};

/// One step.
pub(crate) type Act = Step;

/// A journal of few slots and little room.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) lanes: u16,
    pub(crate) lane_bytes: u64,
    pub(crate) lane_slots: u32,
    pub(crate) lane_segments: u32,
    pub(crate) batch: usize,
    pub(crate) overwrite: Overwrite,
    pub(crate) protocol: Protocol,
    pub(crate) model: Model,
}

impl Shape {
    /// The suite's own.
    pub(crate) const PLAIN: Self = Self {
        lanes: 2,
        lane_bytes: 4 * 192,
        lane_slots: 4,
        lane_segments: 2,
        batch: 2,
        overwrite: Overwrite::OldOrNew,
        protocol: Protocol::OneFence,
        model: Model::Torn8,
    };
}

fn shape() -> impl Strategy<Value = Shape> {
    let protocol = prop_oneof![3 => Just(Protocol::OneFence), 1 => Just(Protocol::TailPointer)];
    let disk = [Overwrite::OldOrNew, Overwrite::MayLeaveGarbage];
    let layout = (
        1..3_u16,
        prop::sample::select(vec![4 * 192_u64, 9 * 64, 16 * 192]),
        1..5_u32,
        1..4_u32,
        1..3_usize,
    );
    let media = (
        prop::sample::select(disk.to_vec()),
        protocol,
        prop::sample::select(vec![Model::Torn8, Model::X86Line]),
    );
    (layout, media).prop_map(|(layout, (overwrite, protocol, model))| {
        let (lanes, lane_bytes, lane_slots, lane_segments, batch) = layout;
        Shape { lanes, lane_bytes, lane_slots, lane_segments, batch, overwrite, protocol, model }
    })
}

fn edits(blocks_max: usize) -> impl Strategy<Value = Edits> {
    let edit = prop::sample::select(vec![Whole, Write, Write, Write, WriteAt, Discard, Append]);
    // One is hot.
    let block = prop_oneof![Just(0), 0..BLOCKS];
    prop::collection::btree_map(block, edit, 1..=blocks_max)
        .prop_map(|edits| edits.into_iter().collect())
}

fn step() -> impl Strategy<Value = Step> {
    let durability = || prop_oneof![2 => Just(Durable), 1 => Just(Deferred)];
    // One of these is hot as well: a version is written over where it is in the same lane.
    let lane = || prop_oneof![2 => Just(0), 1 => 0..2_u16];
    let commit = (lane(), edits(2), durability());
    let stream = (lane(), edits(2), any::<bool>()).prop_map(|(lane, edits, commits)| {
        Step::Stream(lane, edits.into_iter().map(|edit| vec![edit]).collect(), commits)
    });
    let active = (lane(), 0..BLOCKS, durability());
    prop_oneof![
        12 => commit.prop_map(|(lane, edits, durability)| Step::Commit(lane, edits, durability)),
        2 => stream,
        1 => active.prop_map(|(lane, block, durability)| Step::Active(lane, block, durability)),
        1 => Just(Step::Sync),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Batch),
        1 => Just(Step::LetHeadsPass),
        1 => (0..2_u16).prop_map(|lane| Step::Relog(lane, false)),
        2 => Just(Step::Fold),
        1 => Just(Step::Garbage),
        1 => Just(Step::Rings),
        1 => Just(Step::Evict),
        1 => Just(Step::Clean),
        1 => (0..2_u16).prop_map(Step::Move),
    ]
}

/// A journal, and its lives.
pub(crate) fn case() -> impl Strategy<Value = (Shape, Vec<Life<Step>>)> {
    (shape(), lives(step, 16))
}

/// One owner's journal under test.
#[derive(Debug)]
pub(crate) struct Owner {
    program: Program<AnyPolicy>,
    pub(crate) model: Model,
}

impl Owner {
    pub(crate) fn new(policy: AnyPolicy, shape: &Shape, mutator: Mutator) -> Self {
        let program = Program::new(policy, shape.lanes, Vec::new());
        let (has_slots, has_log) = (program.habits.has_slots, program.habits.has_log);
        let program = Program {
            lane_bytes: shape.lane_bytes,
            lane_slots: if has_slots { shape.lane_slots } else { 0 },
            lane_segments: if has_log { shape.lane_segments } else { 0 },
            batch: shape.batch,
            overwrite: shape.overwrite,
            protocol: shape.protocol,
            mutator,
            ..program
        };
        Self { program, model: shape.model }
    }

    /// Whether the policy takes the step at all.
    fn takes(&self, step: &Step) -> bool {
        let habits = &self.program.habits;
        match step {
            Step::Fold | Step::Garbage | Step::Rings => has_places(&self.program.policy),
            Step::Evict => habits.has_slots,
            Step::Active(..) | Step::Spill(..) => habits.has_slots && habits.keeps_in_slots,
            Step::Clean | Step::Move(_) => habits.has_log,
            _ => true,
        }
    }
}

/// What the blocks hold, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    state: StoreState,
    /// Blocks that this process has given up: they may be appended to.
    given_up: [bool; BLOCKS],
}

impl Known {
    /// After a crash. A block that was ever discarded may hold anything, whatever is found.
    fn after_crash(history: &[Mark], found: &Found) -> Self {
        let mut state = found.map(Some);
        for (block, cell) in state.iter_mut().enumerate() {
            let discards = |mark: &Mark| match mark {
                Mark::Called(label) => label >> (2 * block) & 3 == 3,
                _ => false,
            };
            if history.iter().any(discards) {
                *cell = None;
            }
        }
        Self { state, given_up: [false; BLOCKS] }
    }

    /// The step with edits that may be: only what is known not to be live is appended to, and what
    /// is not known is written whole.
    fn legal(&self, step: &Step, keeps_blocks_live: bool) -> Step {
        let legal = |edits: &Edits| -> Edits {
            let legal = |(block, edit): &(usize, Edit)| {
                let (is_live, given_up) = (self.state[*block].is_some(), self.given_up[*block]);
                let edit = match edit {
                    Append | Discard if keeps_blocks_live => Whole,
                    // The next one may be.
                    Append if is_live => Discard,
                    edit if is_live => *edit,
                    _ if !given_up => Whole,
                    edit @ (Append | Discard) => *edit,
                    _ => Whole,
                };
                (*block, edit)
            };
            edits.iter().map(legal).collect()
        };
        match step {
            Step::Commit(lane, edits, durability) => Step::Commit(*lane, legal(edits), *durability),
            Step::Stream(lane, parts, commits) => {
                Step::Stream(*lane, parts.iter().map(legal).collect(), *commits)
            }
            Step::Active(lane, block, durability) if self.state[*block].is_none() => {
                Step::Commit(*lane, vec![(*block, Whole)], *durability)
            }
            other => other.clone(),
        }
    }

    /// After a step whose call has this number.
    fn note(&mut self, step: &Step, number: u64) {
        let edits = match step {
            Step::Commit(_, edits, _) => edits.clone(),
            Step::Stream(_, parts, true) => parts.concat(),
            Step::Active(_, block, _) => vec![(*block, Write)],
            _ => return,
        };
        for (block, edit) in edits {
            let cell = &mut self.state[block];
            let old = cell.unwrap_or([0; BLOCK_BYTES]);
            *cell = (edit != Discard).then(|| edited(&old, number, edit));
            self.given_up[block] = edit == Discard;
        }
    }
}

type Journal<'m> = Opened<'m, AnyPolicy>;

fn read(journal: &mut Journal<'_>) -> Result<Found, String> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in (0..).zip(&mut blocks) {
        journal.read(BlockNumber(number), block).map_err(|error| format!("read: {error}"))?;
    }
    Ok(blocks)
}

impl Owner {
    /// What is read, and what is known of the slots, against the model.
    fn look(&self, known: &Known, journal: &mut Journal<'_>) -> Result<(), String> {
        for (block, (cell, found)) in known.state.iter().zip(&read(journal)?).enumerate() {
            if cell.is_some_and(|cell| cell != *found) {
                let cell = cell.map(|cell| (cell[0], cell[56]));
                let found = (found[0], found[56]);
                return Err(format!("block {block} begins and ends {found:?}, not {cell:?}"));
            }
        }
        journal.audit().map_err(|error| error.to_string())
    }

    /// Whether everything is free again, as a checkpoint leaves it. A segment of the disk-side log
    /// that is filled in part is free when it has gone round.
    fn look_empty(&self, journal: &Journal<'_>) -> Result<(), String> {
        let geometry = self.program.geometry();
        let rest = geometry.segment_blocks.saturating_sub(1);
        for lane in (0..geometry.lanes).map(LaneNumber) {
            let log = journal.free_log_blocks(lane);
            let least = geometry.lane_log_blocks.saturating_sub(rest);
            let is_empty = journal.free_bytes(lane) == Some(geometry.lane_bytes)
                && journal.free_slots(lane) == Some(geometry.lane_slots)
                && log.is_some_and(|free| (least..=geometry.lane_log_blocks).contains(&free));
            if !is_empty {
                return Err(format!("lane {} is not empty behind a checkpoint", lane.raw()));
            }
        }
        Ok(())
    }

    fn step(
        &self,
        process: &Process<'_, Step>,
        known: &mut Known,
        journal: &mut Journal<'_>,
        step: &Step,
    ) -> Result<(), String> {
        let keeps_blocks_live = self.program.overwrite == Overwrite::MayLeaveGarbage;
        let step = known.legal(step, keeps_blocks_live);
        let history = process.world.history();
        let called = history.iter().filter(|mark| matches!(mark, Mark::Called(_))).count();
        self.program
            .step(process.world, journal, &step)
            .map_err(|error| format!("{step}: {error}"))?;
        known.note(&step, called as u64 + 1);
        if step == Step::Checkpoint {
            self.look_empty(journal)?;
        }
        Ok(())
    }

    /// A call has failed: its caller is told, and refused from then on.
    fn after_failure(
        process: &Process<'_, Step>,
        journal: &mut Journal<'_>,
        result: Result<(), String>,
    ) -> Result<(), String> {
        if !process.failure_sticks() {
            return Ok(());
        }
        match (result, journal.sync()) {
            (Err(_), Err(JournalError::Failed)) => Ok(()),
            (told, after) => Err(format!("a call failed: {told:?}, and then {after:?}")),
        }
    }
}

impl Machine for Owner {
    type Act = Step;
    /// What is known at the end of a process that the next one follows.
    type Memory = Option<Known>;

    fn start(&self) -> Image {
        self.program.start()
    }

    fn model(&self) -> Model {
        self.model
    }

    fn live(&self, process: &Process<'_, Step>, memory: &mut Option<Known>) -> Result<(), String> {
        let world = process.world;
        let mut buffers = Memory::new(&self.program.geometry(), 64, self.program.batch);
        let mut journal = match self.program.open(world, self.program.policy, buffers.borrow()) {
            Err(_) if process.has_failed() => return Ok(()),
            opened => opened.map_err(|error| format!("open: {error}"))?,
        };
        let mut known = match memory.take().filter(|_| process.follows) {
            Some(Known { state, .. }) => Known { state, given_up: [false; BLOCKS] },
            None => match read(&mut journal) {
                Err(_) if process.has_failed() => return Ok(()),
                Err(error) => return Err(error),
                Ok(found) => {
                    let history = world.history();
                    judge(&history, &found, EMPTY)?;
                    world.recovered(digest(&found));
                    Known::after_crash(&history, &found)
                }
            },
        };
        // Behind its word a lane holds nothing for the next process: it is told of all before.
        let told = self.program.protocol == Protocol::TailPointer || process.closes;
        let last = [Step::Sync];
        let last = last.iter().filter(|_| told);
        for step in process.acts.iter().filter(|step| self.takes(step)).chain(last) {
            let result = self.step(process, &mut known, &mut journal, step);
            let result = result.and_then(|()| self.look(&known, &mut journal));
            if process.has_failed() {
                return Self::after_failure(process, &mut journal, result);
            }
            result?;
        }
        if process.closes {
            let closed = journal.close();
            if process.has_failed() {
                return Ok(());
            }
            closed.map_err(|error| format!("close: {error}"))?;
        }
        *memory = Some(known);
        Ok(())
    }

    fn three_more(&self) -> Vec<Step> {
        let commit = |edit| Step::Commit(0, vec![(2, edit)], Durability::Durable);
        vec![commit(Write), Step::Checkpoint, commit(WriteAt)]
    }
}

fn check(name: &str) {
    let sample = Sample { cases: 200, share: 1, source: file!() };
    holds(&sample, &case(), |(shape, lives)| {
        run(&Owner::new(tiny(name), shape, Mutator::new()), lives).map(drop)
    });
}

for_each_policy!(check);
