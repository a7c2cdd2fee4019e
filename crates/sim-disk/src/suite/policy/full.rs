//! Full lanes: of every length, filled until something does not fit.

use core::fmt;

use journal_core::policy::Policy;
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, CommitError, Durability};

use crate::media::model::Model;
use crate::media::world::World;
use crate::power::explore::{Scenario as _, guarded};
use crate::suite::program::memory::Memory;
use crate::suite::program::oracle::{BLOCK_BYTES, BLOCKS, Edit, Edits, Found, Label, judge};
use crate::suite::program::program::{Opened, Program};

/// The lengths of lanes, in lines: from the shortest that a record fits into.
pub const FULL_LINES: core::ops::RangeInclusive<u64> = 3..=40;

/// Transactions that are tried.
const TRIES: u64 = 48;

/// What was met on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Transactions that fitted at once.
    pub fitted: u64,
    /// Transactions that fitted behind a checkpoint.
    pub waited: u64,
    /// Transactions that are larger than a lane.
    pub too_large: u64,
}

impl core::ops::AddAssign for Filled {
    fn add_assign(&mut self, other: Self) {
        self.fitted += other.fitted;
        self.waited += other.waited;
        self.too_large += other.too_large;
    }
}

/// Transactions of one block to all of them.
fn edits(number: u64) -> Edits {
    let edit = [Edit::Write, Edit::Overwrite, Edit::WriteAt][number as usize % 3];
    let count = [1, 1, 2, 1, 3, 1, 4][number as usize % 7];
    let first = number as usize % (BLOCKS - count + 1);
    (first..first + count).map(|block| (block, edit)).collect()
}

/// Fills lanes of `lines` lines each, again and again. A transaction that does not fit is refused
/// with nothing changed. It fits behind a checkpoint unless it is larger than a lane. Everything
/// that was acknowledged is there in the end.
///
/// # Errors
/// What is not so.
pub fn fill<P: Policy + Clone + fmt::Debug>(
    policy: P,
    lanes: u16,
    lines: u64,
) -> Result<Filled, String> {
    let program = Program { lane_bytes: 64 * lines, ..Program::new(policy, lanes, Vec::new()) };
    fill_program(&program).map_err(|what| format!("{lanes} lanes of {lines} lines: {what}"))
}

/// Like [`fill`], with a program's shape and mutator.
///
/// # Errors
/// As [`fill`].
pub fn fill_program<P: Policy + Clone + fmt::Debug>(
    program: &Program<P>,
) -> Result<Filled, String> {
    let mut filled = Filled::default();
    guarded(|| {
        let world = World::boot(program.start(), Model::Torn8);
        let geometry = program.geometry();
        // The memory of a journal holds its span; both are given back before the next open.
        let on = |use_it: &mut dyn FnMut(&mut Opened<'_, P>) -> Result<(), String>| {
            let mut memory = Memory::new(&geometry, 256, program.batch);
            let opened = program.open(&world, program.policy.clone(), memory.borrow());
            use_it(&mut opened.map_err(|error| error.to_string())?)
        };
        on(&mut |journal| {
            for number in 0..TRIES {
                let lane = LaneNumber(number as u16 % program.lanes);
                one(program, &world, journal, (lane, &edits(number)), &mut filled)?;
                journal.audit().map_err(|error| error.to_string())?;
            }
            Ok(())
        })?;
        on(&mut |journal| shows(program, &world, journal))
    })?;
    Ok(filled)
}

fn one<P: Policy + Clone + fmt::Debug, L: Policy>(
    program: &Program<P>,
    world: &World,
    journal: &mut Opened<'_, L>,
    (lane, edits): (LaneNumber, &[(usize, Edit)]),
    filled: &mut Filled,
) -> Result<(), String> {
    let label = Label { number: program.next_call(world), edits: edits.to_vec() };
    let images = program.images(world, journal, edits, label.number)?;
    let patches = images.patches();
    let operations = images.operations(&patches);
    let commit =
        |journal: &mut Opened<'_, L>| journal.commit(lane, &operations, Durability::Durable);
    let mut count = &mut filled.fitted;
    let mut result = commit(journal);
    if let Err(CommitError::NoSpace { needed, free }) = result {
        if needed <= free {
            return Err(format!("{needed} bytes do not fit into {free}"));
        }
        shows(program, world, journal)?;
        journal.checkpoint().map_err(|error| error.to_string())?;
        count = &mut filled.waited;
        result = commit(journal);
    }
    match result {
        Ok(_) => {
            world.called(label.encode());
            world.returned(label.encode());
        }
        Err(CommitError::TooLarge { needed, capacity }) if needed > capacity => {
            count = &mut filled.too_large;
        }
        Err(error) => return Err(error.to_string()),
    }
    *count += 1;
    shows(program, world, journal)
}

fn shows<P: Policy + Clone + fmt::Debug, L: Policy>(
    program: &Program<P>,
    world: &World,
    journal: &mut Opened<'_, L>,
) -> Result<(), String> {
    let mut found: Found = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in (0..).zip(&mut found) {
        journal.read(BlockNumber(number), block).map_err(|error| error.to_string())?;
    }
    judge(&world.history(), &found, program.first_state())
}
