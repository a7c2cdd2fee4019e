//! Slots that a killed process has changed, in the core.

use byte_delta::ByteDelta;
use journal_core::policy::{Change, Update};
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, Buffers, Durability, Journal, Operation, PortableKernels};
use lab::whole_first::{Ask, Life, Opens, geometry, needs_slots_written_whole};
use sim_disk::{Mutator, World};

/// The core on one block.
struct Core;

impl Opens for Core {
    type Policy = ByteDelta;

    fn policy(&self) -> ByteDelta {
        ByteDelta::new()
    }

    fn slots(&self) -> u32 {
        2
    }

    fn open(&self, world: &World, mutator: Mutator, live: Life<'_>) -> Result<(), String> {
        let mut buffers = Buffers::new(&geometry(self.slots()), 16, 1);
        let (pmem, disk, policy) = (world.pmem(), world.disk(0), self.policy());
        let memory = buffers.borrow();
        let opened = Journal::open(pmem, disk, policy, mutator, PortableKernels, memory);
        let mut journal = opened.map_err(|error| error.to_string())?;
        live(&mut |ask| match ask {
            Ask::Read(into) => {
                journal.read(BlockNumber(0), into).map_err(|error| error.to_string())
            }
            Ask::Write(image) => {
                let update = Update::new(BlockNumber(0), Change::Image(image));
                let operations = [Operation::Update(update)];
                let committed = journal.commit(LaneNumber(0), &operations, Durability::Durable);
                committed.map(drop).map_err(|error| error.to_string())
            }
        })
    }
}

#[test]
fn a_slot_that_an_earlier_process_may_have_changed_is_written_whole_first() {
    needs_slots_written_whole(&Core, 64);
}
