//! Appends beside checkpoints.

use journal_core::BlockSize;
use journal_core::parts::share_of;
use pmem_sys::Region;
use sim_disk::Mutator;

use super::*;
use crate::machine::tests::{TinyDisk, TinyMachine};
use crate::{AnyPolicy, ByteDelta, Journal, Options};

const BLOCKS: u64 = 1 << 16;

/// A checkpoint has found how far the lanes are durable, and comes to a block that was
/// discarded and appended since. Returns what the block holds then.
fn appended_before_it_is_found(hook: Mutator) -> [u8; 4096] {
    let disk = TinyDisk::of(BlockSize::DEFAULT, BLOCKS);
    let nvm = Region::anonymous(8 << 20).expect("memory");
    // What is in slots is not written home anyway where it is superseded.
    let options = Options::new().policy(ByteDelta::new().into()).lanes(1).lane_slots(0).hook(hook);
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk, &options).expect("a journal");
    let shared = journal.shared();
    let shares = shared.shares.len();
    assert!(shares > 1, "one share is held, and another one used");
    let is_in_last = |block: &u64| share_of(BlockNumber(*block), shares) == shares - 1;
    let block = BlockNumber((0..BLOCKS).find(is_in_last).expect("there is one"));
    journal.transact(|tx| tx.write(block, &[1; 4096])).expect("commits");
    let other = (block.raw() + 1..BLOCKS).find(is_in_last).expect("there is another");
    journal.transact_deferred(|tx| tx.discard(BlockNumber(other))).expect("commits");
    let cell = shared.lane(LaneNumber(0));
    std::thread::scope(|scope| {
        let home = shared.lock_home().expect("free");
        let checkpoint = scope.spawn(|| journal.checkpoint().map(drop));
        while shared.writes_home.all_find(|| true) {
            std::thread::yield_now();
        }
        // It goes through the shares once it has fenced the lane.
        let share = shared.shares[0].lock().expect("free");
        drop(home);
        while cell.reach.has_deferred() {
            std::thread::yield_now();
        }
        journal.transact(|tx| tx.discard(block)).expect("commits");
        journal.transact(|tx| tx.append(block, &[2; 4096])).expect("commits");
        drop(share);
        checkpoint.join().expect("no panic").expect("writes home");
    });
    assert_eq!(journal.stats().expect("counts").total().appended_home, 1);
    let mut found = [0; 4096];
    journal.read(block, &mut found).expect("reads");
    found
}

#[test]
fn nothing_older_goes_home_over_an_append() {
    assert_eq!(appended_before_it_is_found(Mutator::new()), [2; 4096]);
    let without = Mutator::without(&[Rule::AppendsSpared]);
    assert_eq!(appended_before_it_is_found(without), [1; 4096]);
}

/// AP1, of appends that end in any order.
#[test]
fn a_record_is_held_as_long_as_an_append_needs_it() {
    use journal_core::units::Sequence;

    let appends = crate::shared::home_cell::appends::Appends::<TinyDisk, Mutator>::none();
    let at = |sequence: u64| Ok::<_, ()>((Sequence(sequence), 64 * sequence));
    let held = || appends.lock().not_passed()[1].map(|(sequence, _)| sequence.raw());
    let begin = |sequence| appends.begin(LaneNumber(1), || at(sequence)).expect("is known");
    assert_eq!(held(), None);
    let (first, second) = (begin(5), begin(7));
    appends.lock().hold(&second, LaneNumber(1), (Sequence(3), 192));
    assert_eq!(held(), Some(3));
    assert_eq!(appends.lock().not_passed()[0], None);
    drop(second);
    assert_eq!(held(), Some(5));
    let third = begin(9);
    drop(first);
    assert_eq!(held(), Some(9));
    drop(third);
    assert_eq!(held(), None);
}
