//! A reader beside a batch that is still committing when its record is there.

use pmem_sys::Region;
use sim_disk::Mutator;

use super::*;
use crate::machine::tests::{TinyDisk, TinyMachine};
use crate::{AnyPolicy, Journal, Lcow, Options};

const BLOCK: usize = journal_core::BlockSize::MIN.bytes();

type TinyJournal = Journal<AnyPolicy, TinyMachine>;

/// Behind the record, and before the batch lets go of its blocks, a checkpoint writes these home.
/// Other blocks get their slots (SP3).
#[test]
fn a_slot_that_was_given_back_is_not_read_for_the_block_that_was_active_there() {
    let nvm = Region::anonymous(1 << 20).expect("there is memory");
    let options = Options::new()
        .policy(AnyPolicy::from(Lcow::new()))
        .hook(Mutator::new())
        .lanes(1)
        .lane_slots(4);
    let options = options.buffer_bytes(2 * BLOCK);
    let journal: TinyJournal = Journal::format(nvm, TinyDisk::new(64), &options).expect("formats");
    let shared = journal.shared();
    let active = [0, 1].map(BlockNumber);
    for block in active {
        journal.transact_gathered(|tx| tx.write(block, &[1; BLOCK])).expect("gathers");
    }
    assert!(shared.seal(Reason::Other));
    let sealed = shared.gathering.lock().committing.clone().expect("was sealed");
    assert_eq!(sealed.active.len(), active.len());
    let mut turn = shared.turn().expect("no thread panicked");
    (turn.lane, turn.reserved_bytes) = (sealed.lane, sealed.reserved_bytes);
    shared.commit_spilled(&mut turn, &sealed).expect("commits");
    let read = |block| {
        let mut content = [0; BLOCK];
        journal.read(block, &mut content).expect("reads");
        content
    };
    active.iter().for_each(|block| assert_eq!(read(*block), [1; BLOCK]));
    shared.checkpoint().expect("writes home");
    for number in 10..14 {
        journal.transact(|tx| tx.write(BlockNumber(number), &[9; BLOCK])).expect("commits");
    }
    assert_eq!(journal.stats().expect("counts").total().free_slots, 0);
    // What is home is read, and not what the slots hold now.
    active.iter().for_each(|block| assert_eq!(read(*block), [1; BLOCK]));
    shared.gathering.lock().committing = None;
    shared.gathering.is_there.store(false, Ordering::Release);
    active.iter().for_each(|block| assert_eq!(read(*block), [1; BLOCK]));
}
