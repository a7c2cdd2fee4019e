//! What a tick does for one batch, and what it does once.

use core::time::Duration;

use journal_core::BlockNumber;
use pmem_sys::Region;
use sim_disk::Mutator;

use crate::machine::tests::{TinyDisk, TinyMachine};
use crate::policy::Thresholds;
use crate::shared::index_memory::looks::LOOKS;
use crate::{AnyPolicy, Journal, Lcow, Options};

const SLOTS: u64 = 20_000;

/// A quarter of the slots is given back, by hundreds of batches. They share the passes through the
/// index: one for each list, and some before and behind all batches.
#[test]
#[cfg_attr(miri, ignore = "many blocks")]
fn batches_of_a_tick_share_a_pass_through_the_index() {
    let disk = TinyDisk::new(SLOTS);
    let block_bytes = journal_core::BlockSize::MIN.bytes();
    let options = Options::new().policy(AnyPolicy::from(Lcow::new())).hook(Mutator::new());
    let options = options.lanes(1).lane_bytes(8 << 20).lane_slots(SLOTS as u32).batch_blocks(16);
    let options = options.index_frames(2 * SLOTS as usize).thresholds(Thresholds::new(64, 192));
    let nvm = Region::anonymous((16 << 20) + SLOTS * 2 * block_bytes as u64).expect("memory");
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk, &options).expect("a journal");
    for number in 0..SLOTS - 1 {
        let image = vec![number as u8 | 1; block_bytes];
        journal.transact(|tx| tx.write(BlockNumber(number), &image)).expect("commits");
    }
    let before = LOOKS.get();
    journal.tick(Duration::from_secs(1)).expect("ticks");
    let looks = LOOKS.get() - before;
    let stats = journal.stats().expect("counts");
    let free = u64::from(stats.total().free_slots);
    assert!((SLOTS / 4..SLOTS / 3).contains(&free), "{free} free slots: {stats}");
    assert!(stats.checkpointed.batches > 200, "{stats}");
    // The blocks that were written first have gone home.
    let mut found = vec![0; block_bytes];
    for number in (0..SLOTS - 1).step_by(111) {
        journal.read(BlockNumber(number), &mut found).expect("reads");
        assert_eq!(found[0], number as u8 | 1);
    }
    assert!(looks < 300 * SLOTS, "{} looks for each slot", looks / SLOTS);
}
