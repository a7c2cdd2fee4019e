//! Slots that are to be written again: what others may do between the moment in which that is
//! decided and the moment in which it is done.

use std::sync::{Arc, Mutex};

use journal_core::NoHook;
use journal_core::policy::{
    ApplyError, Change, Encoder, Patch, Placement, Policy, PolicyId, Update,
};
use lab::erased::{DynJournal, any_options};
use nvm_journal::{ByteDelta, Durability, Error, Journal, Operation};

use crate::use_it::{BLOCK, Files, any_memory, block};

type Call = Box<dyn FnOnce() + Send>;

/// Everything in slots; before it places an update of block 9 it does, once, what it was told to.
#[derive(Clone, Default)]
struct Stopping(Arc<Mutex<Option<Call>>>);

impl core::fmt::Debug for Stopping {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Stopping")
    }
}

impl Stopping {
    fn tell(&self, call: impl FnOnce() + Send + 'static) {
        *self.0.lock().expect("no thread panics with it") = Some(Box::new(call));
    }
}

impl Policy for Stopping {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E62)
    }

    fn place(&self, update: &Update<'_>, _out: &mut Encoder<'_>) -> Placement {
        if update.block == block(9) {
            let call = self.0.lock().expect("no thread panics with it").take();
            if let Some(call) = call {
                call();
            }
        }
        // Patches, of which there is no image, cannot be placed so.
        Placement::Slot
    }

    fn apply(&self, _payload: &[u8], _block: &mut [u8]) -> Result<(), ApplyError> {
        Err(ApplyError::Malformed { at: 0 })
    }

    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        ByteDelta::new().rewrite_slot(older, newer, rewrite);
    }
}

type Stopped = DynJournal;

/// One lane with `slots` slots, and block 0 in it, in two versions.
fn rewritten(files: &Files, policy: &Stopping, slots: u32) -> Arc<Stopped> {
    let options = any_options(policy.clone(), NoHook).lanes(1).lane_bytes(96 << 10);
    let options = options.lane_slots(slots);
    let journal = Journal::format(any_memory(1 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    for byte in [1, 2] {
        write(&journal, 0, byte);
    }
    Arc::new(journal)
}

fn write(journal: &Stopped, number: u64, byte: u8) {
    journal.transact(|tx| tx.write(block(number), &[byte; BLOCK])).expect("commits");
}

fn read(journal: &Stopped, number: u64) -> u8 {
    let mut into = vec![0; BLOCK];
    journal.read(block(number), &mut into).expect("reads");
    assert!(into.iter().all(|byte| *byte == into[0]), "a mixture in block {number}");
    into[0]
}

fn free_slots(journal: &Stopped) -> u32 {
    journal.stats().expect("counts").total().free_slots
}

/// Lets another thread do something from beginning to end.
fn elsewhere(journal: &Arc<Stopped>, call: impl FnOnce(&Stopped) + Send + 'static) {
    let journal = Arc::clone(journal);
    std::thread::spawn(move || call(&journal)).join().expect("does not panic");
}

#[test]
fn a_slot_that_is_to_be_written_again_is_given_to_nobody_else() {
    let (files, policy) = (Files::new("held"), Stopping::default());
    let journal = rewritten(&files, &policy, 8);
    let its = Arc::clone(&journal);
    policy.tell(move || {
        elsewhere(&its, |journal| {
            // The older version of block 0 is not needed, and its frame leaves the ring.
            journal.checkpoint().expect("writes home");
            (1..5).for_each(|number| write(journal, number, 10 + number as u8));
        });
    });
    let (three, nine) = ([3; BLOCK], [9; BLOCK]);
    let both = [Operation::write(block(0), &three), Operation::write(block(9), &nine)];
    journal.commit(&both, Durability::Durable).expect("commits").expect("was logged");
    let numbers = [0, 1, 2, 3, 4, 9];
    assert_eq!(numbers.map(|number| read(&journal, number)), [3, 11, 12, 13, 14, 9]);
    assert_eq!(journal.stats().expect("counts").total().rewritten_slots, 1);
    journal.checkpoint().expect("writes home");
    assert_eq!(numbers.map(|number| read(&journal, number)), [3, 11, 12, 13, 14, 9]);
    assert_eq!(free_slots(&journal), 8, "each was given back once");
}

#[test]
fn a_slot_that_was_held_for_nothing_is_given_back() {
    for is_forgotten in [false, true] {
        let (files, policy) = (Files::new("in-vain"), Stopping::default());
        let journal = rewritten(&files, &policy, 3);
        for round in 0..20 {
            let its = Arc::clone(&journal);
            if is_forgotten {
                policy.tell(move || {
                    elsewhere(&its, |journal| {
                        journal.checkpoint().expect("writes home");
                    });
                });
            }
            let image = [round; BLOCK];
            let patches = [Patch { at: 0, bytes: &[1] }];
            let patched = Update::new(block(9), Change::Patches(&patches));
            let both = [Operation::write(block(0), &image), Operation::Update(patched)];
            let refused = journal.commit(&both, Durability::Durable);
            assert!(matches!(refused, Err(Error::CannotPlace { .. })), "{refused:?}");
            let newest = if is_forgotten && round > 0 { 20 + round - 1 } else { 2 };
            assert_eq!(read(&journal, 0), newest);
            if is_forgotten {
                assert_eq!(free_slots(&journal), 3);
                // Two versions again.
                [0, 20 + round].into_iter().for_each(|byte| write(&journal, 0, byte));
            }
        }
        let before = journal.stats().expect("counts").total();
        write(&journal, 0, 99);
        let after = journal.stats().expect("counts").total();
        assert_eq!(
            after.rewritten_slots,
            before.rewritten_slots + 1,
            "it is the older one's again"
        );
        journal.checkpoint().expect("writes home");
        assert_eq!((read(&journal, 0), free_slots(&journal)), (99, 3));
    }
}
