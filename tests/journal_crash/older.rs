//! What is older than a block's content, and may not come back: images of an earlier intent, older
//! versions below the entry of the newest one, and words that a killed process has left in a slot.

use journal_core::policy::Thresholds;
use journal_core::{BlockNumber, Durability, Operation, Overwrite, Rule};
use lab::erased::{DynJournal, any_options, of_world};
use lab::oracle::{Change, End};
use lab::whole_first::{Ask, Life, Opens, needs_slots_written_whole};
use sim_disk::{Explorer, Model, Mutator, World};

use crate::probe::Logged;
use crate::program::{Program, Step};
use crate::rules::{needs, one};

use Change::{Append, Discard, Touch, Write};
use End::Durable;

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 8).with_random_per_point(32)
}

/// Block 0 goes home by an intent, which stays, since the other block keeps the head. Then it is
/// given up, and appended at home.
#[test]
fn an_append_at_home_is_not_undone_by_an_older_intent() {
    let change = |block, change| one(0, &[(block, change)], Durable);
    let steps = vec![
        change(3, Write),
        change(0, Touch),
        Step::OneBatch,
        change(0, Discard),
        change(0, Append),
    ];
    let program = Program::new(Logged::Patches, 1, steps);
    let overwrite = Overwrite::MayLeaveGarbage;
    let program = Program { lane_bytes: 32 * 64, batch: 1, overwrite, ..program };
    needs(Rule::AppendsNotRepeated, &explorer(), &program);
}

/// An older version of block 0 is in the first lane, held there by a change of block 1, when a slot
/// is wanted: the block goes home, and the entry of its newest version could go.
#[test]
fn the_entry_of_the_newest_version_stays_while_older_frames_do() {
    let change = |seat, block, change| one(seat, &[(block, change)], Durable);
    let steps = vec![change(0, 1, Touch), change(0, 0, Write), change(1, 0, Write), Step::Tick];
    let thresholds = Some(Thresholds::new(255, 255));
    let program = Program::new(Logged::Cached, 2, steps);
    let program = Program { lane_bytes: 32 * 64, lane_slots: 1, thresholds, ..program };
    needs(Rule::NewestVoidedLast, &explorer(), &program);
}

/// The front door on one block.
struct Door;

impl Opens for Door {
    type Policy = Logged;

    fn policy(&self) -> Logged {
        Logged::Versions
    }

    fn slots(&self) -> u32 {
        3
    }

    fn open(&self, world: &World, mutator: Mutator, live: Life<'_>) -> Result<(), String> {
        let options = any_options(self.policy(), mutator).index_frames(16);
        let (pmem, disk) = of_world(world);
        let opened = DynJournal::open(pmem, disk, &options);
        let journal = opened.map_err(|error| error.to_string())?;
        live(&mut |ask| {
            let answer = match ask {
                Ask::Read(into) => journal.read(BlockNumber(0), into),
                Ask::Write(image) => {
                    let operations = [Operation::write(BlockNumber(0), image)];
                    journal.commit(&operations, Durability::Durable).map(drop)
                }
            };
            answer.map_err(|error| error.to_string())
        })
    }
}

#[test]
fn a_slot_that_an_earlier_process_may_have_changed_is_written_whole_first() {
    needs_slots_written_whole(&Door, 32);
}
