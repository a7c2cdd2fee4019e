//! Rot: every bit of a journal's span, turned by itself.
//!
//! What was acknowledged is then shown as it is, or there is an error, or the last transaction is
//! missing. Nothing tells a missing last transaction from one that was never finished. No other
//! outcome is right.

use core::fmt;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use journal_core::BlockNumber;
use journal_core::Durability::Durable;
use journal_core::policy::Policy;

use crate::media::image::{Image, Medium};
use crate::media::model::Model;
use crate::media::tape::Mark;
use crate::media::world::World;
use crate::power::explore::Scenario as _;
use crate::suite::program::habits::Habits;
use crate::suite::program::memory::Memory;
use crate::suite::program::oracle::{BLOCK_BYTES, BLOCKS, Block, Edit, StoreState, latest};
use crate::suite::program::program::{Opened, Program};
use crate::suite::program::step::Step;

/// Bytes of the span that bits are turned in.
pub const ROT_BYTES: usize = 16 << 10;

/// Bits of it.
pub const ROT_BITS: usize = 8 * ROT_BYTES;

/// Room in the index: a frame takes a quarter of a record of a block.
const FRAMES: usize = ROT_BYTES / 48;

/// A journal to turn bits in, and what it has to show.
#[derive(Clone, Debug)]
pub struct Rot<P> {
    program: Program<P>,
    image: Image,
    /// What was acknowledged.
    whole: StoreState,
    /// What was acknowledged, without the last transaction.
    before: StoreState,
}

/// What an open says of a turned bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotSeen {
    /// Everything is there.
    Whole,
    /// It does not open, and says why.
    Refused,
    /// A block answers with an error; the others are right.
    Unreadable,
    /// The last transaction is not there.
    LastLost,
}

impl RotSeen {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::Whole, Self::Refused, Self::Unreadable, Self::LastLost];
}

/// More than a lane holds, with a checkpoint and another open on the way.
fn steps(habits: &Habits) -> Vec<Step> {
    let edits = [Edit::Write, Edit::WriteAt, Edit::Overwrite, Edit::Write];
    let mut steps = Vec::new();
    for number in 0..100 {
        let block = number % BLOCKS;
        let mut edited = vec![(block, edits[number / BLOCKS % edits.len()])];
        if number % 7 == 3 && block + 1 < BLOCKS {
            edited.push((block + 1, Edit::Write));
        }
        steps.push(Step::Commit(0, edited, Durable));
        if number % 16 == 15 && habits.has_places() {
            steps.extend([Step::Fold, Step::Garbage]);
        }
        match number {
            47 => steps.push(Step::Checkpoint),
            63 => steps.push(Step::Reopen),
            _ => {}
        }
    }
    steps
}

impl<P: Policy + Clone + fmt::Debug> Rot<P> {
    /// A journal of one lane in a span of [`ROT_BYTES`], most of it in use.
    ///
    /// # Errors
    /// What went wrong on the way to it, or that it does not show what was written.
    pub fn of(policy: P) -> Result<Self, String> {
        Self::of_program(Program::new(policy, 1, Vec::new()))
    }

    /// Like [`of`](Self::of), with a program's shape and mutator. The size of its lane and its
    /// steps are replaced.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_program(program: Program<P>) -> Result<Self, String> {
        let bytes = |lane_bytes| {
            let geometry = Program { lane_bytes, ..program.clone() }.geometry();
            geometry.span_bytes().unwrap_or(u64::MAX)
        };
        let lane_bytes = (1..=ROT_BYTES as u64 / 64).rev().map(|lines| lines * 64);
        let lane_bytes = lane_bytes.into_iter().find(|lane| bytes(*lane) <= ROT_BYTES as u64);
        let lane_bytes = lane_bytes.ok_or("what is not the lane takes the whole span")?;
        let steps = steps(&program.habits);
        let program = Program { lane_bytes, steps, ..program };
        let world = World::boot(program.start(), Model::Torn8);
        for life in program.steps.split(|step| *step == Step::Reopen) {
            let mut memory = Memory::new(&program.geometry(), FRAMES, program.batch);
            let opened = program.open(&world, program.policy.clone(), memory.borrow());
            let mut journal = opened.map_err(|error| error.to_string())?;
            life.iter().try_for_each(|step| program.step(&world, &mut journal, step))?;
        }
        let history = world.history();
        let last = history.iter().rposition(|mark| matches!(mark, Mark::Called(_)));
        let first = program.first_state();
        let before = latest(&history[..last.unwrap_or(0)], &first);
        let whole = latest(&history, &first);
        let rot = Self { image: world.visible(), whole, before, program };
        match rot.judge(rot.image.clone(), true)? {
            RotSeen::Whole => Ok(rot),
            other => Err(format!("nothing has rotted, and it is {other:?}")),
        }
    }

    /// How many bits there are.
    #[must_use]
    pub fn bits(&self) -> usize {
        8 * self.image.pmem().len()
    }

    /// Turns one bit, and opens the journal. Where it `goes_on`, what was accepted is written home
    /// and opened once more, and shows the same.
    ///
    /// # Errors
    /// What is shown, and is neither what was written nor an error.
    pub fn turn(&self, bit: usize, goes_on: bool) -> Result<RotSeen, String> {
        let mut image = self.image.clone();
        image.flip_bit(Medium::Pmem, bit as u64 / 8, (bit % 8) as u8);
        self.judge(image, goes_on).map_err(|what| format!("bit {bit} is turned: {what}"))
    }

    fn judge(&self, image: Image, goes_on: bool) -> Result<RotSeen, String> {
        let judged = catch_unwind(AssertUnwindSafe(|| {
            let world = World::boot(image, Model::Torn8);
            let seen = self.look(&world, goes_on)?;
            if !goes_on || seen == RotSeen::Refused {
                return Ok(seen);
            }
            match self.look(&world, false)? {
                again if again == seen => Ok(seen),
                again => Err(format!("{seen:?} at first, and then {again:?}")),
            }
        }));
        judged.unwrap_or_else(|_| Err("it panics".into()))
    }

    fn look(&self, world: &World, goes_on: bool) -> Result<RotSeen, String> {
        let mut memory = Memory::new(&self.program.geometry(), FRAMES, self.program.batch);
        let policy = self.program.policy.clone();
        let Ok(mut journal) = self.program.open(world, policy, memory.borrow()) else {
            return Ok(RotSeen::Refused);
        };
        let found: [Option<Block>; BLOCKS] =
            core::array::from_fn(|block| read(&mut journal, block as u64));
        let seen = self.seen(&found)?;
        if goes_on {
            journal.checkpoint().map_err(|error| format!("it opens, and then {error}"))?;
        }
        Ok(seen)
    }

    fn seen(&self, found: &[Option<Block>; BLOCKS]) -> Result<RotSeen, String> {
        let shows = |state: &StoreState| {
            let blocks = state.iter().zip(found);
            blocks.clone().all(|(cell, found)| found.is_none() || cell == found)
        };
        match (shows(&self.whole), found.contains(&None)) {
            (true, false) => Ok(RotSeen::Whole),
            (true, true) => Ok(RotSeen::Unreadable),
            _ if shows(&self.before) => Ok(RotSeen::LastLost),
            _ => Err(format!("{found:02x?}, not {:02x?}", self.whole)),
        }
    }
}

fn read<L: Policy>(journal: &mut Opened<'_, L>, block: u64) -> Option<Block> {
    let mut content = [0; BLOCK_BYTES];
    journal.read(BlockNumber(block), &mut content).ok()?;
    Some(content)
}
