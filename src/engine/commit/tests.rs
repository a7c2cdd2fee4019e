//! What the cache takes of a transaction whose blocks are another one's by then.

use journal_core::{BlockNumber, Operation};
use pmem_sys::Region;
use sim_disk::Mutator;

use super::at_once::Sees;
use super::*;
use crate::machine::tests::{TinyDisk, TinyMachine};
use crate::staging::hint::Hint;
use crate::staging::seat::Seat;
use crate::staging::staged::Below;
use crate::{AnyPolicy, FullBlock, Journal, Options};

const BLOCK: usize = journal_core::BlockSize::MIN.bytes();

type TinyJournal = Journal<AnyPolicy, TinyMachine>;

fn options(mutator: Mutator) -> Options<AnyPolicy, Mutator> {
    Options::new().policy(FullBlock.into()).hook(mutator)
}

/// A transaction changes one block, and of another one nothing, which is not logged. Before its
/// pages are the cache's, a transaction in another lane writes that one. Both have the same stamp.
#[test]
fn what_another_transaction_wrote_by_then_stays_what_is_read() {
    let nvm = Region::anonymous(1 << 20).expect("there is memory");
    let options = options(Mutator::new()).lanes(2).cache_bytes(1 << 20);
    let journal: TinyJournal = Journal::format(nvm, TinyDisk::new(64), &options).expect("formats");
    let shared = journal.shared();
    assert!(shared.caches, "there is a cache");
    let [same, other] = [3, 40].map(BlockNumber);
    let mut first = shared.seats.sit();
    let age = first.next_age(shared.blocks.age_behind());
    first.work.lane = LaneNumber(0);
    let Seat { work, staged, .. } = &mut *first;
    for block in [same, other] {
        shared
            .take_one_more(work, age, staged, block, Some(Hint::DATA))
            .expect("is free, and fits");
        staged.spare().fill(0);
        let bytes = if block == other { &[1][..] } else { &[] };
        staged.patch(block, None, Below::Spare, 0, bytes);
    }
    let committed = staged.ready(|operations| {
        let prepared = shared.prepare_and_reserve(work, operations, Goes::ByPolicy);
        let (prepared, durable) = ((prepared, None), Durability::Durable);
        shared.commit_and_give_back(work, operations, Keeps::Patches, prepared, durable)
    });
    let committed = committed.expect("commits").expect("one is logged");
    let mut second = shared.seats.sit();
    let age = second.next_age(shared.blocks.age_behind());
    second.work.lane = LaneNumber(1);
    let write = [Operation::write(same, &[2; BLOCK])];
    let durable = Durability::Durable;
    let later = shared.commit_at_once(&mut second, age, &write, durable, Sees::Operations);
    let later = later.expect("commits").expect("is logged");
    assert_eq!((later.stamp, later.lane), (committed.stamp, LaneNumber(1)));
    shared.keep_pages(&mut first.staged, &committed);
    let mut content = [0; BLOCK];
    journal.read(same, &mut content).expect("reads");
    assert_eq!(content, [2; BLOCK]);
    journal.read(other, &mut content).expect("reads");
    assert_eq!(content[..2], [1, 0]);
    first.staged.clear();
}

/// A reader waits for the holder of a pinned block. When that one has let go of it, its content is
/// in ordinary memory.
#[test]
fn what_is_pinned_is_kept_before_its_block_is_let_go() {
    let nvm = Region::anonymous(1 << 20).expect("there is memory");
    let options = options(Mutator::new()).lanes(1).cache_bytes(1 << 20).pins_logged(true);
    let journal: TinyJournal = Journal::format(nvm, TinyDisk::new(64), &options).expect("formats");
    let (shared, block) = (journal.shared(), BlockNumber(3));
    let mut content = [0; BLOCK];
    for byte in 1..4 {
        let mut seat = shared.seats.sit();
        let age = seat.next_age(shared.blocks.age_behind());
        let Seat { work, staged, .. } = &mut *seat;
        shared
            .take_one_more(work, age, staged, block, Some(Hint::DATA))
            .expect("is free, and fits");
        staged.write(block, Hint::DATA, &[byte; BLOCK]);
        let durability = Durability::Durable;
        let mut error = None;
        let recorded = staged.ready(|operations| {
            shared.commit_ready(work, operations, None, durability, &mut error)
        });
        assert!(recorded.is_some() && error.is_none(), "commits, and is logged");
        let misses = || journal.stats().expect("counts").cached.misses;
        let before = misses();
        journal.read(block, &mut content).expect("reads");
        assert_eq!((content, misses()), ([byte; BLOCK], before));
        seat.staged.clear();
    }
}

/// What a transaction of one operation has reserved is used, given back, or in the lane's hand.
#[test]
fn a_transaction_of_one_operation_leaves_nothing_reserved() {
    let nvm = Region::anonymous(1 << 20).expect("there is memory");
    let options = options(Mutator::new()).policy(object_log::ObjectLog::new().into()).lanes(1);
    let options = options.lane_log_blocks(0);
    let journal: TinyJournal = Journal::format(nvm, TinyDisk::new(64), &options).expect("formats");
    let shared = journal.shared();
    let cell = shared.lane(LaneNumber(0));
    let most = 2 * shared.in_hand_max() + shared.record_bytes_max(1);
    let mut was_in_hand = false;
    for turn in 0..200 {
        let block = BlockNumber(turn % 8);
        let mut tx = journal.begin().expect("begins");
        match turn % 5 {
            0 => tx.write(block, &[turn as u8; BLOCK]),
            1 => tx.write_at(block, 8, &[1; 8]),
            2 => tx.write_at(block, 8, &[2; 8]).and_then(|()| tx.write_at(block, 32, &[3; 8])),
            3 => tx.write_at(block, 0, &[]),
            _ => tx.discard(block),
        }
        .expect("fits");
        let committed = if turn % 2 == 0 { tx.commit() } else { tx.commit_deferred() };
        committed.expect("commits");
        for share in &shared.shares {
            assert_eq!(share.lock().expect("nobody panics").reserved, 0, "turn {turn}");
        }
        let state = shared.lock_lane(cell).expect("nobody panics");
        assert_eq!(state.lane.free_bytes(), cell.unreserved.left() + state.in_hand, "turn {turn}");
        assert!(state.in_hand <= most, "turn {turn}: {}", state.in_hand);
        was_in_hand |= state.in_hand > 0;
    }
    // Where the system has far fences, the thread is favoured by now.
    assert!(was_in_hand || pmem_sys::FarFence::register().is_none());
}

/// BY1 says that a transaction whose data goes to the log fits into what it has reserved. Where it
/// had reserved less, nothing would be stored.
#[test]
fn no_transaction_stores_more_than_it_has_reserved() {
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;

    let commit = |mutator: Mutator| {
        let nvm = Region::anonymous(1 << 20).expect("there is memory");
        let options = options(mutator).lanes(1).lane_log_blocks(8).segment_blocks(4);
        let journal: TinyJournal =
            Journal::format(nvm, TinyDisk::new(64), &options).expect("formats");
        let shared = journal.shared();
        let mut seat = shared.seats.sit();
        let age = seat.next_age(shared.blocks.age_behind());
        let Seat { work, staged, .. } = &mut *seat;
        let taken = shared.take_one_more(work, age, staged, BlockNumber(3), Some(Hint::DATA));
        taken.expect("is free, and fits");
        shared.unreserve_bytes(work);
        work.bypasses = true;
        let left = shared.lane(work.lane).unreserved.left();
        assert!(shared.take_bytes(work.lane, left, 0), "others have all of it");
        let image = [1; BLOCK];
        let write = [Operation::write(BlockNumber(3), &image)];
        shared.commit_reserved(work, &write[..], Keeps::All, Durability::Durable)
    };
    let refused = commit(Mutator::new());
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    let without = || commit(Mutator::without(&[Rule::BypassFits]));
    let stored = catch_unwind(AssertUnwindSafe(without));
    assert!(!matches!(stored, Ok(Err(Error::TooLarge { .. }))), "{stored:?}");
}
