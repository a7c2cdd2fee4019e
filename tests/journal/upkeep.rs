//! Room is made in time: at the thresholds, by the host's ticks where no thread does it.

use core::time::Duration;

use byte_delta::ByteDelta;
use lcow::Lcow;
use nvm_journal::policy::Thresholds;
use nvm_journal::{
    AnyPolicy, Durability, Error, FileDisk, Journal, On, Operation, Options, Region,
};

use crate::use_it::{BLOCK, Files, block, memory};

type AnyJournal = Journal<AnyPolicy, On<Region, FileDisk>>;

const SLOTS: u32 = 64;

fn open(files: &Files, policy: impl Into<AnyPolicy>, thresholds: Thresholds) -> AnyJournal {
    let options = Options::new().policy(policy.into()).thresholds(thresholds);
    let options = options.lanes(1).lane_bytes(64 << 10).lane_slots(SLOTS);
    Journal::format(memory(2 << 20), files.disk(), &options).expect("formats")
}

fn write(journal: &AnyJournal, number: u64, value: u8) {
    let image = [value; BLOCK];
    journal.commit(&[Operation::write(block(number), &image)], Durability::Durable).expect("fits");
}

/// How much room was made so far: by reclaiming, and by checkpoints.
fn made(journal: &AnyJournal) -> (u64, u64) {
    let stats = journal.stats().expect("counts");
    (stats.folded.folded, stats.checkpoints)
}

/// Writes a set of blocks that fits the slots again and again, until the host's tick does
/// something. Returns how many slots were taken by then.
fn until_a_tick_acts(journal: &AnyJournal, blocks: u64) -> u32 {
    for round in 0..=u8::MAX {
        for number in 0..blocks {
            write(journal, number, round);
            let free = journal.stats().expect("counts").lanes[0].free_slots;
            journal.tick(Duration::from_millis(1)).expect("ticks");
            if made(journal) != (0, 0) {
                return SLOTS - free;
            }
        }
    }
    panic!("no tick did anything");
}

#[test]
fn older_versions_are_dropped_at_the_first_threshold_and_nothing_goes_home() {
    let files = Files::new("upkeep-reclaim");
    let journal = open(&files, ByteDelta::new(), Thresholds::new(128, 224));
    let taken = until_a_tick_acts(&journal, 20);
    assert!((SLOTS / 2..SLOTS / 2 + 3).contains(&taken), "{taken} of {SLOTS} slots");
    let (folded, checkpoints) = made(&journal);
    assert!(folded > 0 && checkpoints == 0, "{folded} folded, {checkpoints} checkpoints");
    // Twenty blocks always fit below the second threshold.
    for round in 0..20 {
        for number in 0..20 {
            write(&journal, number, round);
            journal.tick(Duration::from_millis(2)).expect("ticks");
        }
    }
    assert_eq!(made(&journal).1, 0);
    assert_eq!(journal.stats().expect("counts").stops_for_slots, 0, "no commit had to");
}

#[test]
fn blocks_go_home_at_the_second_threshold() {
    let files = Files::new("upkeep-home");
    let journal = open(&files, ByteDelta::new(), Thresholds::new(128, 160));
    // Each block once: no version is superfluous.
    for number in 0..u64::from(SLOTS) {
        write(&journal, number, 1);
        journal.tick(Duration::from_millis(1)).expect("ticks");
        let free = journal.stats().expect("counts").lanes[0].free_slots;
        assert!(free >= SLOTS * 96 / 256 - 1, "{free} slots are free");
    }
    assert!(made(&journal).1 > 0);
}

#[test]
fn a_threshold_of_255_reclaims_nothing_before_blocks_go_home() {
    let files = Files::new("upkeep-at-once");
    let policy = ByteDelta::with(ByteDelta::new().settings().delays_checkpoint(false));
    let options = Options::new().policy(AnyPolicy::from(policy));
    let options = options.lanes(1).lane_bytes(64 << 10).lane_slots(SLOTS);
    let journal = Journal::format(memory(2 << 20), files.disk(), &options).expect("formats");
    // Two versions of each are more than three quarters of the slots.
    let taken = until_a_tick_acts(&journal, 30);
    assert!(taken >= SLOTS * 3 / 4, "{taken} slots");
    assert!(made(&journal).1 > 0, "a checkpoint");
}

#[test]
fn nothing_acts_on_thresholds_that_nobody_looks_at() {
    let files = Files::new("upkeep-nobody");
    let journal = open(&files, ByteDelta::new(), Thresholds::new(64, 64));
    for number in 0..u64::from(SLOTS) {
        write(&journal, number % 30, 1);
    }
    assert_eq!(made(&journal), (0, 0));
}

/// A checkpoint of the rings leaves the data in its slots, and so does the timer.
#[test]
fn slots_keep_what_a_checkpoint_of_the_rings_leaves() {
    let files = Files::new("upkeep-rings");
    let policy = Lcow::with(Lcow::new().settings().checkpoint_after(Some(Duration::from_secs(9))));
    let journal = open(&files, policy, Thresholds::new(255, 255));
    let metadata = [7; BLOCK];
    for round in 0..3_u64 {
        (0..10).for_each(|number| write(&journal, number, round as u8 + 1));
        journal.transact(|tx| tx.write_metadata(block(30), &metadata)).expect("commits");
        let report = match round {
            0 => journal.checkpoint_rings().expect("empties the rings"),
            _ => {
                let before = journal.stats().expect("counts").checkpointed;
                journal.tick(Duration::from_secs(1 + 10 * round)).expect("ticks");
                journal.tick(Duration::from_secs(10 + 10 * round)).expect("ticks");
                let mut report = journal.stats().expect("counts").checkpointed;
                report.blocks -= before.blocks;
                report
            }
        };
        assert_eq!(report.blocks, 1, "round {round}: the metadata alone goes home");
        let used = journal.stats().expect("counts").lanes[0].used_bytes;
        assert_eq!(used, 0, "round {round}: the ring is empty");
        assert!(files.home(block(30)) == metadata, "it is there");
        assert!(files.home(block(3)) != [round as u8 + 1; BLOCK], "this is not");
        let mut found = [0; BLOCK];
        journal.read(block(3), &mut found).expect("reads");
        assert!(found == [round as u8 + 1; BLOCK]);
    }
    let report = journal.checkpoint().expect("writes home");
    assert_eq!(report.blocks, 10, "and now everything is home");
    assert!(files.home(block(3)) == [3; BLOCK]);
}

/// Blocks that are home, logged, gathered and discarded, read as one run.
#[test]
fn a_run_of_blocks_is_read_as_its_blocks_are() {
    let files = Files::new("read-run");
    let options = Options::new().policy(AnyPolicy::from(ByteDelta::new()));
    let journal = Journal::format(memory(2 << 20), files.disk(), &options).expect("formats");
    let write = |number: u64, value| {
        journal.transact(|tx| tx.write(block(number), &[value; BLOCK])).expect("commits");
    };
    (0..100).for_each(|number| write(number, number as u8));
    journal.checkpoint().expect("writes home");
    (0..100).step_by(7).for_each(|number| write(number, 200));
    journal.transact_gathered(|tx| tx.write(block(50), &[201; BLOCK])).expect("is gathered");
    for (first, count) in [(0, 100), (1, 5), (50, 1), (99, 1), (40, 20)] {
        let mut run = vec![9; count * BLOCK];
        journal.read_run(block(first), &mut run).expect("reads");
        for (number, found) in (first..).zip(run.chunks(BLOCK)) {
            let mut alone = [0; BLOCK];
            journal.read(block(number), &mut alone).expect("reads");
            assert!(found == alone, "block {number} of a run from {first}: {}", found[0]);
        }
    }
    let refused = |first, bytes| journal.read_run(block(first), &mut vec![0; bytes]);
    assert!(matches!(refused(0, 0), Err(Error::OutOfBlock { .. })));
    assert!(matches!(refused(0, BLOCK + 1), Err(Error::OutOfBlock { .. })));
    assert!(matches!(refused(255, 2 * BLOCK), Err(Error::OutOfDevice { .. })));
    assert!(matches!(refused(u64::MAX, 2 * BLOCK), Err(Error::OutOfDevice { .. })));
}

#[test]
fn bytes_are_read_without_a_transaction() {
    for cached in [0, 1 << 20] {
        let files = Files::new(&format!("read-at-{cached}"));
        let options = Options::new().policy(AnyPolicy::from(ByteDelta::new())).cache_bytes(cached);
        let journal = Journal::format(memory(2 << 20), files.disk(), &options).expect("formats");
        let image: Vec<u8> = (0..BLOCK).map(|at| at as u8).collect();
        journal.transact(|tx| tx.write(block(1), &image)).expect("commits");
        journal.transact_gathered(|tx| tx.write_at(block(1), 17, &[0xAB])).expect("is gathered");
        for _ in 0..2 {
            let mut found = [0; 5];
            journal.read_at(block(1), 15, &mut found).expect("reads");
            assert_eq!(found, [15, 16, 0xAB, 18, 19]);
            journal.sync().expect("syncs");
        }
        let mut found = [0; 5];
        let past = journal.read_at(block(1), BLOCK - 4, &mut found);
        assert!(matches!(past, Err(nvm_journal::Error::OutOfBlock { at, bytes: 5, .. })
            if at == BLOCK - 4));
        assert_eq!(journal.read_at(block(1), BLOCK, &mut []), Ok(()));
    }
}
