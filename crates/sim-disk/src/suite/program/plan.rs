//! Which programs are run from which starting states.

use core::fmt;
use std::sync::Arc;

use journal_core::Durability::{Deferred, Durable};
use journal_core::policy::Policy;
use journal_core::{EXAMINE_BYTES_MAX, Overwrite, PortableKernels, Protocol, Row, examine};

use crate::media::model::Model;
use crate::media::rng::Rng;
use crate::media::world::World;
use crate::power::explore::Scenario as _;
use crate::suite::program::habits::Habits;
use crate::suite::program::oracle::{BLOCK_BYTES, Edit, Edits};
use crate::suite::program::program::{Begin, Program};
use crate::suite::program::step::Step;

use Edit::{Append, Discard, Write, WriteAt};

/// The models that programs are crashed under: lines that keep a prefix of their stores, as x86
/// does, and single words, weaker than any hardware.
pub const MODELS: [Model; 2] = [Model::X86Line, Model::Torn8];

/// A state that programs begin with.
#[derive(Debug)]
pub struct Start {
    /// In a few words.
    pub name: &'static str,
    /// Of its journal.
    pub lanes: u16,
    begin: Option<Arc<Begin>>,
}

/// All programs over a policy.
#[derive(Debug)]
pub struct Plan<P> {
    /// Which.
    pub policy: P,
    /// What it does with the suite's updates.
    pub habits: Habits,
    /// By which its commits become durable.
    pub protocol: Protocol,
    /// What programs begin with, on one lane and on two.
    pub starts: Vec<Start>,
}

/// A program by its place among all those of its length.
#[derive(Clone, Debug)]
pub struct Numbered<P> {
    /// The program.
    pub program: Program<P>,
    /// The state that it begins with, in words.
    pub start: &'static str,
    /// The program without its last step.
    pub prefix: Program<P>,
}

/// Every edit, with the block that it is done to where it stands alone. An append is to a block
/// that is not live in most starting states. The other edits are to a block that is.
const EDITS: [(usize, Edit); 5] =
    [(0, Write), (0, WriteAt), (0, Edit::Overwrite), (1, Append), (0, Discard)];

/// What a transaction may do: one edit, or two of them, to a block each.
fn transactions() -> Vec<Edits> {
    let mut all: Vec<Edits> = EDITS.iter().map(|edit| vec![*edit]).collect();
    for (index, (_, first)) in EDITS.iter().enumerate() {
        all.extend(EDITS[index..].iter().map(|(_, second)| vec![(0, *first), (1, *second)]));
    }
    all
}

/// Every step that a program may have.
#[must_use]
pub fn alphabet(habits: &Habits, lanes: u16) -> Vec<Step> {
    let mut steps =
        vec![Step::Checkpoint, Step::Reopen, Step::Sync, Step::Batch, Step::LetHeadsPass];
    if habits.has_places() {
        steps.extend([Step::Fold, Step::Garbage, Step::Rings]);
    }
    steps.extend(habits.has_slots.then_some(Step::Evict));
    steps.extend(habits.has_log.then_some(Step::Clean));
    for lane in 0..lanes {
        steps.push(Step::Relog(lane, false));
        steps.extend(habits.has_log.then_some(Step::Move(lane)));
        if habits.has_slots && habits.keeps_in_slots {
            steps.push(Step::Active(lane, 0, Durable));
            steps.push(Step::Active(lane, 0, Deferred));
            steps.extend([true, false].map(|commits| Step::Spill(lane, 0, commits)));
        }
        for edits in transactions() {
            steps.push(Step::Commit(lane, edits.clone(), Durable));
            steps.push(Step::Commit(lane, edits.clone(), Deferred));
            // Each edit is stored as a part of its own, and then aborted.
            let parts = edits.into_iter().map(|edit| vec![edit]).collect();
            steps.push(Step::Stream(lane, parts, false));
        }
    }
    steps
}

/// What is done after a recovery: three more operations, on a block that no program touches.
fn three_more() -> Vec<Step> {
    let more = |edit| Step::Commit(0, vec![(2, edit)], Durable);
    vec![more(Write), Step::Checkpoint, more(WriteAt)]
}

impl<P: Policy + Clone + fmt::Debug> Plan<P> {
    /// All programs over `policy`, with one fence for each commit.
    ///
    /// # Errors
    /// A starting state that cannot be made: what went wrong on the way to it.
    pub fn new(policy: P) -> Result<Self, String> {
        Self::of_protocol(policy, Protocol::OneFence)
    }

    /// Like [`new`](Self::new), with another protocol.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_protocol(policy: P, protocol: Protocol) -> Result<Self, String> {
        let habits = Habits::of(&policy);
        let mut starts = Vec::new();
        for lanes in [1, 2] {
            starts.push(Start { name: "an empty journal", lanes, begin: None });
            for (name, steps, lost_bytes) in prologues(&habits, lanes, two_records(&policy, lanes)?)
            {
                let program = Program {
                    protocol,
                    overwrite: overwrite(&habits),
                    ..Program::new(policy.clone(), lanes, steps)
                };
                let begin = program.leaves(lost_bytes)?;
                if lost_bytes > 0 && begin.blocks()[2] != [0; BLOCK_BYTES] {
                    return Err(format!("{name}: the crash was to drop the last records"));
                }
                starts.push(Start { name, lanes, begin: Some(Arc::new(begin)) });
            }
        }
        Ok(Self { policy, habits, protocol, starts })
    }

    /// Whether programs of this policy can reach a row of the recovery table.
    #[must_use]
    pub fn can_reach(&self, row: Row) -> bool {
        match row {
            Row::RottenTailWord => false,
            Row::TornSlot | Row::RottenSlot => self.habits.has_slots,
            _ => true,
        }
    }

    /// Programs of a length, over all starting states.
    #[must_use]
    pub fn count(&self, length: usize) -> usize {
        self.starts
            .iter()
            .map(|start| alphabet(&self.habits, start.lanes).len().pow(length as u32))
            .sum()
    }

    fn program(&self, start: &Start, steps: Vec<Step>, stitches: bool) -> Program<P> {
        Program {
            stitches,
            begin: start.begin.clone(),
            protocol: self.protocol,
            overwrite: overwrite(&self.habits),
            ..Program::new(self.policy.clone(), start.lanes, steps)
        }
    }

    /// The `index`-th program of a length.
    ///
    /// # Panics
    /// When no program of that length has this number, or the length is nothing.
    #[must_use]
    pub fn numbered(&self, index: usize, length: usize) -> Numbered<P> {
        // Three in seven, by a number that the digits of its steps do not follow from.
        let stitches = index % 7 % 2 == 1;
        let mut index = index;
        for start in &self.starts {
            let alphabet = alphabet(&self.habits, start.lanes);
            let count = alphabet.len().pow(length as u32);
            if index >= count {
                index -= count;
                continue;
            }
            let mut steps = Vec::new();
            for _ in 0..length {
                steps.push(alphabet[index % alphabet.len()].clone());
                index /= alphabet.len();
            }
            let prefix = steps[..steps.len() - 1].to_vec();
            let program = self.program(start, steps, stitches);
            let prefix = self.program(start, prefix, stitches);
            return Numbered { program, start: start.name, prefix };
        }
        unreachable!("an index below the count")
    }

    /// The order in which programs of a length are run: each once, by a seed. What a short run
    /// leaves out is left out by chance.
    #[must_use]
    pub fn order(&self, length: usize, seed: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.count(length)).collect();
        let mut rng = Rng::new(seed);
        for last in (1..order.len()).rev() {
            order.swap(last, rng.index(last + 1));
        }
        order
    }

    /// Programs whose recovery is crashed in turn, twice over, in the smallest geometry: one lane
    /// of two records.
    #[must_use]
    pub fn nested(&self) -> Vec<Program<P>> {
        let commit = |edit, durability| Step::Commit(0, vec![(0, edit)], durability);
        let programs = [
            vec![commit(Write, Durable)],
            vec![commit(Write, Deferred)],
            vec![commit(WriteAt, Durable)],
            vec![commit(Discard, Durable)],
            vec![Step::Stream(0, vec![vec![(0, Write)]], false)],
            vec![commit(WriteAt, Durable), Step::Checkpoint],
            vec![commit(WriteAt, Durable), Step::Reopen],
        ];
        let mut programs = Vec::from(programs);
        if self.habits.has_places() {
            let write = || commit(Write, Durable);
            let goes = if self.habits.has_log { Step::Clean } else { Step::Evict };
            programs.push(vec![write(), write(), write()]);
            programs.push(vec![write(), Step::Fold, write(), Step::Fold]);
            programs.push(vec![write(), write(), Step::Fold, Step::Garbage]);
            programs.push(vec![write(), write(), Step::Fold, goes]);
            programs.push(vec![commit(Discard, Durable), commit(Append, Durable)]);
            programs.push(vec![write(), Step::Fold, Step::Relog(0, false)]);
        }
        let small = |(at, steps)| Program {
            stitches: at % 2 == 1,
            lane_bytes: 2 * 192,
            protocol: self.protocol,
            overwrite: overwrite(&self.habits),
            ..Program::new(self.policy.clone(), 1, steps)
        };
        programs.into_iter().enumerate().map(small).collect()
    }
}

/// This program with three more operations after each recovery, and one more crash.
#[must_use]
pub fn going_on<P: Clone>(program: &Program<P>) -> Program<P> {
    Program { steps_after: three_more(), crash_after: true, ..program.clone() }
}

/// Deltas need the shield where a device leaves garbage; so it does.
#[must_use]
pub const fn overwrite(habits: &Habits) -> Overwrite {
    if habits.logs_deltas { Overwrite::MayLeaveGarbage } else { Overwrite::OldOrNew }
}

/// Bytes that the first two records of the crashed prologue take in lane 0: policies differ in how
/// they log an image.
fn two_records<P: Policy + Clone + fmt::Debug>(policy: &P, lanes: u16) -> Result<u64, String> {
    let overwrite = |durability| Step::Commit(0, vec![(0, Edit::Overwrite)], durability);
    let steps = vec![overwrite(Durable), overwrite(Deferred)];
    let program = Program::new(policy.clone(), lanes, steps);
    let world = World::boot(program.start(), Model::Torn8);
    program.program(&world)?;
    let mut scratch = vec![0; EXAMINE_BYTES_MAX];
    let examined = examine(&world.pmem(), &PortableKernels, &mut scratch);
    let examined = examined.map_err(|error| error.to_string())?;
    examined.lanes().first().map(|lane| lane.tail).ok_or_else(|| "no lane was found".to_owned())
}

/// Programs that lead to the other starting states, and how many bytes of lane 0 a crash takes
/// where they are not durable.
fn prologues(habits: &Habits, lanes: u16, two_records: u64) -> Vec<(&'static str, Vec<Step>, u64)> {
    // Whole images under every policy: the records that these states count are of one length.
    let write = |lane, block| Step::Commit(lane, vec![(block, Edit::Overwrite)], Durable);
    let deferred = |block| Step::Commit(0, vec![(block, Edit::Overwrite)], Deferred);
    let in_all_lanes = |times: usize, block| -> Vec<Step> {
        (0..times).flat_map(|_| (0..lanes).map(move |lane| write(lane, block))).collect()
    };
    // A lane holds four records; when it is full, the program checkpoints and goes on.
    let mut all = vec![
        ("ring wrapped 3 times", in_all_lanes(13, 0), 0),
        ("one record short of full", in_all_lanes(3, 0), 0),
        ("a block with two frames, in both lanes", vec![write(0, 0), write(lanes - 1, 0)], 0),
        // The second record is lost, the third one is whole behind it: an open has dropped both.
        ("a crash dropped records", vec![write(0, 0), deferred(0), deferred(2)], two_records),
    ];
    if habits.has_places() {
        let fold = || vec![Step::Fold];
        let twice = [in_all_lanes(1, 0), fold(), in_all_lanes(1, 0)].concat();
        all.push(("a block folded, and rewritten over it", twice.clone(), 0));
        all.push(("the same, and folded again", [twice, fold()].concat(), 0));
        let fill = (0..4).flat_map(|block| in_all_lanes(1, block)).collect();
        all.push(("no slot free, or no segment", fill, 0));
    }
    all
}
