//! Which programs are run from which starting states.

use std::sync::Arc;

use journal_core::Durability::{Deferred, Durable};
use journal_core::{Overwrite, Row};
use sim_disk::{Damage, Rng};

use crate::damage::{
    lose_the_newest_superblock, rot_first_record, rot_last_slot, rot_noted_record,
    stale_first_record,
};
use crate::oracle::{Edit, Edits};
use crate::program::{Begin, Kind, Program, Step};

use Edit::{Append, Discard, Write, WriteAt};

/// A state that programs begin with.
pub(crate) struct Start {
    pub(crate) name: &'static str,
    pub(crate) lanes: u16,
    begin: Option<Arc<Begin>>,
}

/// All programs.
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) starts: Vec<Start>,
}

/// A program by its place among all those of its length.
#[derive(Clone)]
pub(crate) struct Numbered {
    pub(crate) program: Program,
    /// The same without its last step.
    pub(crate) prefix: Program,
}

/// Every edit, with the block that it is done to where it stands alone: an append is to a block
/// that is not live in most starting states, the others are to one that is.
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
pub(crate) fn alphabet(kind: Kind, lanes: u16) -> Vec<Step> {
    let mut steps = vec![Step::Checkpoint, Step::Reopen, Step::Sync];
    if kind.has_slots() {
        steps.extend([Step::Fold, Step::Garbage, Step::Rings, Step::Evict]);
    }
    for lane in 0..lanes {
        if kind == Kind::Lcow {
            steps.push(Step::Active(lane, 0, Durable));
            steps.push(Step::Active(lane, 0, Deferred));
        }
        for edits in transactions() {
            steps.push(Step::Commit(lane, edits.clone(), Durable));
            steps.push(Step::Commit(lane, edits.clone(), Deferred));
            // Each edit is stored as a part of its own, and then given up.
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

impl Plan {
    pub(crate) fn new(kind: Kind) -> Result<Self, String> {
        let mut starts = Vec::new();
        for lanes in [1, 2] {
            starts.push(Start { name: "fresh", lanes, begin: None });
            for (name, steps, lost_bytes) in prologues(kind, lanes) {
                let program =
                    Program { overwrite: overwrite(kind), ..Program::new(kind, lanes, steps) };
                let begin = program.leaves(lost_bytes)?;
                if lost_bytes > 0 && begin.blocks()[2] != [0; crate::oracle::BLOCK_BYTES] {
                    return Err(format!("{name}: the crash was to drop the last records"));
                }
                starts.push(Start { name, lanes, begin: Some(Arc::new(begin)) });
            }
        }
        Ok(Self { kind, starts })
    }

    /// Whether programs of this policy can reach a row of the recovery table.
    pub(crate) fn can_reach(&self, row: Row) -> bool {
        match row {
            Row::RottenTailWord => false,
            Row::TornSlot | Row::RottenSlot => self.kind.has_slots(),
            _ => true,
        }
    }

    /// Programs of a length, over all starting states.
    pub(crate) fn count(&self, length: usize) -> usize {
        self.starts
            .iter()
            .map(|start| alphabet(self.kind, start.lanes).len().pow(length as u32))
            .sum()
    }

    fn program(&self, start: &Start, steps: Vec<Step>) -> Program {
        Program {
            begin: start.begin.clone(),
            overwrite: overwrite(self.kind),
            ..Program::new(self.kind, start.lanes, steps)
        }
    }

    /// The `index`-th program of a length.
    pub(crate) fn numbered(&self, index: usize, length: usize) -> Numbered {
        let mut index = index;
        for start in &self.starts {
            let alphabet = alphabet(self.kind, start.lanes);
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
            let program = self.program(start, steps);
            return Numbered { program, prefix: self.program(start, prefix) };
        }
        unreachable!("an index below the count")
    }

    /// The order in which programs of a length are run: each once, by a seed, so that what a short
    /// run leaves out is left out by chance.
    pub(crate) fn order(&self, length: usize, seed: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.count(length)).collect();
        let mut rng = Rng::new(seed);
        for last in (1..order.len()).rev() {
            order.swap(last, rng.index(last + 1));
        }
        order
    }

    /// Programs whose recovery is crashed in turn, twice over, in the smallest geometry: one lane
    /// of two records.
    pub(crate) fn nested(&self) -> Vec<Program> {
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
        if self.kind.has_slots() {
            let write = || commit(Write, Durable);
            programs.push(vec![write(), write(), write()]);
            programs.push(vec![write(), Step::Fold, write(), Step::Fold]);
            programs.push(vec![write(), write(), Step::Fold, Step::Garbage]);
            programs.push(vec![write(), Step::Fold, Step::Evict]);
            programs.push(vec![commit(Discard, Durable), commit(Append, Durable)]);
            programs.push(vec![write(), Step::Fold, Step::Relog(0, false)]);
        }
        let small = |steps| Program {
            lane_bytes: 2 * 192,
            overwrite: overwrite(self.kind),
            ..Program::new(self.kind, 1, steps)
        };
        programs.into_iter().map(small).collect()
    }

    /// Programs on media that are harmed, for the rows of the recovery table that no power loss
    /// reaches.
    pub(crate) fn damaged(&self) -> Vec<(Program, Damage)> {
        let write = |lane, block| Step::Commit(lane, vec![(block, Write)], Durable);
        let mut all: Vec<(Program, Damage)> = Vec::new();
        let mut add = |lanes, steps, damage| {
            let program = Program::new(Kind::FullBlock, lanes, steps);
            all.push((Program { may_report_rot: true, ..program }, damage));
        };
        for block in 0..3 {
            let two = || vec![write(0, block), write(0, block + 1)];
            add(1, two(), rot_first_record::<2>);
            add(2, vec![write(0, block), write(1, block)], rot_first_record::<2>);
            add(1, vec![write(0, block), Step::Reopen], rot_noted_record::<1>);
            add(1, two(), stale_first_record::<2>);
            let fill = [write(0, 0), write(0, 1), write(0, 2), Step::Checkpoint];
            let steps = fill.into_iter().chain(two()).collect();
            add(1, steps, lose_the_newest_superblock);
        }
        if self.kind.has_slots() {
            for block in 0..3 {
                let steps = vec![write(0, block), write(0, block + 1)];
                let program = Program::new(self.kind, 1, steps);
                let program = Program { may_report_rot: true, ..program };
                all.push((program, rot_last_slot::<2>));
            }
        }
        all
    }
}

/// The same with three more operations after each recovery, and one more crash.
pub(crate) fn going_on(program: &Program) -> Program {
    Program { steps_after: three_more(), crash_after: true, ..program.clone() }
}

/// Deltas need the shield where a device leaves garbage; so it does.
fn overwrite(kind: Kind) -> Overwrite {
    if kind.logs_deltas() { Overwrite::MayLeaveGarbage } else { Overwrite::OldOrNew }
}

/// Programs that lead to the other starting states, and how many bytes of lane 0 a crash takes
/// where they are not durable.
fn prologues(kind: Kind, lanes: u16) -> Vec<(&'static str, Vec<Step>, u64)> {
    // Whole images under every policy: the records that these states count are of one length.
    let write = |lane, block| Step::Commit(lane, vec![(block, Edit::Overwrite)], Durable);
    let deferred = |block| Step::Commit(0, vec![(block, Edit::Overwrite)], Deferred);
    let two_records = if kind.has_slots() { 2 * 128 } else { 2 * 192 };
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
    if kind.has_slots() {
        let fold = || vec![Step::Fold];
        let twice = [in_all_lanes(1, 0), fold(), in_all_lanes(1, 0)].concat();
        all.push(("a block folded, and rewritten over it", twice.clone(), 0));
        all.push(("the same, and folded again", [twice, fold()].concat(), 0));
        let fill = (0..4).flat_map(|block| in_all_lanes(1, block)).collect();
        all.push(("no slot free", fill, 0));
    }
    all
}
