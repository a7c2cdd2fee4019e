//! Which programs are run from which starting states.

use std::sync::Arc;

use journal_core::Durability::{self, Deferred, Durable};
use sim_disk::Rng;

use crate::program::{Begin, Change1, Kind, Program, Step};

/// One program from one starting state.
pub(crate) struct Experiment {
    pub(crate) program: Program,
    /// How many steps it has.
    pub(crate) length: usize,
    pub(crate) depth: u32,
    pub(crate) kills: bool,
}

/// A starting state, and the number of lanes it has.
struct Start {
    lanes: u16,
    begin: Option<Arc<Begin>>,
}

/// All of them, in order: length one, length two, then length three by chance.
pub(crate) struct Plan {
    kind: Kind,
    starts: Vec<Start>,
}

fn commit(lane: u16, block: usize, change: Change1, durability: Durability) -> Step {
    Step::Commit(lane, vec![(block, change)], durability)
}

/// What a transaction may do: write (the first block is live, the second was never written), write
/// in part, discard; to one block or to two.
fn changes() -> Vec<Vec<(usize, Change1)>> {
    use Change1::{Discard, Touch, Write};
    vec![
        vec![(0, Write)],
        vec![(0, Touch)],
        vec![(0, Discard)],
        vec![(1, Write)],
        vec![(0, Write), (1, Write)],
        vec![(0, Touch), (1, Touch)],
        vec![(0, Discard), (1, Write)],
    ]
}

/// Every step a program may have.
fn alphabet(lanes: u16) -> Vec<Step> {
    let mut steps = vec![Step::Checkpoint, Step::Reopen, Step::Sync];
    for lane in 0..lanes {
        for changes in changes() {
            steps.push(Step::Commit(lane, changes.clone(), Durable));
            steps.push(Step::Commit(lane, changes.clone(), Deferred));
            // In a part of its own each, and then given up.
            let parts = changes.into_iter().map(|change| vec![change]).collect();
            steps.push(Step::Stream(lane, parts, false));
        }
    }
    steps
}

impl Plan {
    pub(crate) fn new(kind: Kind) -> Result<Self, String> {
        let mut starts = Vec::new();
        for lanes in [1, 2] {
            starts.push(Start { lanes, begin: None });
            for (steps, torn) in prologues(lanes) {
                let begin = Program::new(kind, lanes, steps).leaves(torn)?;
                starts.push(Start { lanes, begin: Some(Arc::new(begin)) });
            }
        }
        Ok(Self { kind, starts })
    }

    fn count(&self, length: u32) -> usize {
        self.starts.iter().map(|start| alphabet(start.lanes).len().pow(length)).sum()
    }

    /// Programs of this length, over all starting states.
    pub(crate) fn of_length(&self, length: u32) -> u64 {
        self.count(length) as u64
    }

    /// Programs that are not left to chance.
    pub(crate) fn exhaustive(&self) -> u64 {
        self.of_length(1) + self.of_length(2)
    }

    pub(crate) fn experiment(&self, index: usize) -> Option<Experiment> {
        let (ones, twos) = (self.count(1), self.count(2));
        if index < ones {
            return self.numbered(index, 1);
        }
        if index < ones + twos {
            return self.numbered(index - ones, 2);
        }
        let mut rng = Rng::new(index as u64);
        let all = self.count(3);
        self.numbered(rng.index(all), 3)
    }

    /// The `index`-th program of a length, counted through the starting states.
    fn numbered(&self, index: usize, length: u32) -> Option<Experiment> {
        let mut index = index;
        for start in &self.starts {
            let alphabet = alphabet(start.lanes);
            let count = alphabet.len().pow(length);
            if index >= count {
                index -= count;
                continue;
            }
            let mut steps = Vec::new();
            for _ in 0..length {
                steps.push(alphabet[index % alphabet.len()].clone());
                index /= alphabet.len();
            }
            let program = Program::new(self.kind, start.lanes, steps);
            let is_smallest = length == 1 && start.lanes == 1;
            return Some(Experiment {
                program: Program {
                    begin: start.begin.clone(),
                    // After recovery: three more operations, crashed like the rest where the
                    // depth says so.
                    steps_after: vec![
                        commit(0, 2, Change1::Write, Durable),
                        Step::Checkpoint,
                        commit(0, 2, Change1::Touch, Durable),
                    ],
                    ..program
                },
                length: length as usize,
                depth: u32::from(is_smallest),
                kills: length == 1,
            });
        }
        None
    }
}

/// Programs that lead to the other starting states, and whether a crash tears their last record.
fn prologues(lanes: u16) -> Vec<(Vec<Step>, bool)> {
    use Change1::Write;
    let last = lanes - 1;
    let write = |lane, block| commit(lane, block, Write, Durable);
    // A lane holds four records; when it is full, the program checkpoints and goes on.
    let wrapped = (0..13).flat_map(|_| (0..lanes).map(|lane| write(lane, 0))).collect();
    let nearly_full = vec![write(0, 0), write(0, 0), write(0, 0)];
    let in_both_lanes = vec![write(0, 0), write(last, 0)];
    let dropped = vec![write(0, 0), commit(0, 0, Write, Deferred), commit(0, 2, Write, Deferred)];
    vec![(wrapped, false), (nearly_full, false), (in_both_lanes, false), (dropped, true)]
}
