//! Every schedule around [`Seats`] and the ages that are told there.

use std::sync::Arc;

use journal_core::{BlockNumber, BlockSize, Protocol};
use loom::thread;
use pmem_sys::StoreLock;

use super::*;
use crate::machine::tests::TinyDisk;
use crate::threads::block_locks::{BlockLocks, Claims};
use crate::threads::explored::{explore, let_others_run};

const GEOMETRY: Geometry = Geometry {
    block_size: BlockSize::MIN,
    lanes: 2,
    lane_bytes: 1 << 12,
    shield_blocks: 0,
    unit_bytes: 4096,
    protocol: Protocol::OneFence,
    lane_slots: 0,
    lane_log_blocks: 0,
    segment_blocks: 0,
};

fn seats() -> Arc<Seats<TinyDisk>> {
    Arc::new(Seats::new(TinyDisk::new(4), GEOMETRY))
}

#[test]
fn nobody_sits_where_another_one_does() {
    explore(Some(3), || {
        let seats = seats();
        let sit = |seats: &Seats<TinyDisk>| {
            let mut first = seats.sit();
            let mut second = seats.sit();
            assert_ne!(first.number, second.number);
            [first.next_age(Age(0)), second.next_age(Age(0))]
        };
        let its = Arc::clone(&seats);
        let other = thread::spawn(move || sit(&its));
        let own = sit(&seats);
        let ages = [own, other.join().expect("does not panic")].concat();
        assert_ne!(ages[0], ages[1]);
    });
}

/// A thread has seats; another one sits down, and takes a block.
fn takes_a_seat_and_a_block() {
    let seats = seats();
    let blocks = Arc::new((BlockLocks::new(1, 1), StoreLock::new(())));
    let block = BlockNumber(7);
    let stripe = blocks.0.stripe(block);
    drop([seats.sit(), seats.sit()]);
    let (its, its_blocks) = (Arc::clone(&seats), Arc::clone(&blocks));
    let other = thread::spawn(move || {
        let mut seat = its.sit();
        let age = seat.next_age(Age(0));
        let share = its_blocks.1.lock().expect("nobody panics");
        its_blocks.0.try_lock(&mut Claims::default(), block, age).expect("is free");
        drop(share);
        its_blocks.0.unlock(stripe);
    });
    let_others_run();
    if let Some(holder) = blocks.0.holder_of(block) {
        assert!(!seats.is_own(holder), "takes another's transaction for its own");
    }
    other.join().expect("does not panic");
}

#[test]
fn nobody_takes_anothers_transaction_for_its_own() {
    explore(None, takes_a_seat_and_a_block);
}
