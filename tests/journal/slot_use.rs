//! Which blocks leave the slots when slots run short: those used longest ago, and reads count.

use core::time::Duration;

use journal_core::policy::Pacing;
use lcow::Lcow;
use nvm_journal::{
    AnyJournal, AnyPolicy, BlockSize, Durability, FileDisk, Hint, Journal, MapOptions, Operation,
    Options,
};

use crate::use_it::{BLOCK, Files, block, memory};

const SLOTS: u32 = 32;

fn options() -> Options<AnyPolicy> {
    let options = Options::new().policy(AnyPolicy::from(Lcow::new())).lanes(1);
    options.lane_bytes(128 << 10).lane_slots(SLOTS).batch_blocks(4)
}

fn journal(files: &Files, options: &Options<AnyPolicy>) -> AnyJournal {
    Journal::format(memory(2 << 20), files.disk(), options).expect("formats")
}

fn write(journal: &AnyJournal, number: u64, byte: u8) {
    let image = [byte; BLOCK];
    let write = [Operation::write(block(number), &image)];
    journal.commit(&write, Durability::Durable).expect("commits");
}

fn read(journal: &AnyJournal, number: u64) -> u8 {
    let mut into = vec![0; BLOCK];
    journal.read(block(number), &mut into).expect("reads");
    assert!(into.iter().all(|byte| *byte == into[0]), "a mixture in block {number}");
    into[0]
}

/// The blocks below `count` that have gone home; each was written with its number and one.
fn home(files: &Files, count: u64) -> Vec<u64> {
    (0..count).filter(|number| files.home(block(*number))[5] == *number as u8 + 1).collect()
}

/// Makes an upkeep write home what it has to, until four slots are free.
fn sweep(journal: &AnyJournal) {
    journal.tick(Duration::from_secs(1)).expect("makes room");
}

#[test]
fn a_block_that_is_read_stays_when_its_neighbours_go_home() {
    for cached in [0, 64 * BLOCK] {
        let files = Files::new(&format!("read-often-{cached}"));
        let journal = journal(&files, &options().cache_bytes(cached));
        (0..u64::from(SLOTS)).for_each(|number| write(&journal, number, number as u8 + 1));
        // They were written long ago, and are read.
        for _ in 0..2 {
            for number in [1, 2, 5] {
                assert_eq!(read(&journal, number), number as u8 + 1);
            }
        }
        sweep(&journal);
        assert_eq!(home(&files, 32), [0, 3, 4, 6], "those of its neighbours that are used least");
        // Another round: what was read before the last sweep is older than what is read now.
        assert_eq!(read(&journal, 2), 3);
        (0..4).for_each(|number| write(&journal, 100 + number, 1));
        sweep(&journal);
        assert_eq!(home(&files, 32), [0, 3, 4, 6, 7, 8, 9, 10]);
        (0..32).for_each(|number| assert_eq!(read(&journal, number), number as u8 + 1));
    }
}

/// Likewise where a transaction that finds no slot makes some free itself, in steps.
#[test]
fn a_step_takes_what_was_used_longest_ago_too() {
    let files = Files::new("read-often-steps");
    let journal = journal(&files, &options());
    (0..u64::from(SLOTS)).for_each(|number| write(&journal, number, number as u8 + 1));
    for number in [1, 2, 5] {
        assert_eq!(read(&journal, number), number as u8 + 1);
    }
    write(&journal, 100, 1);
    assert_eq!(home(&files, 32), [0, 3, 4, 6], "those of its neighbours that are used least");
    // What is read behind the first step counts in the next one.
    assert_eq!(read(&journal, 8), 9);
    (0..4).for_each(|number| write(&journal, 101 + number, 1));
    assert_eq!(home(&files, 32), [0, 3, 4, 6, 7, 9, 10, 11]);
    (0..32).for_each(|number| assert_eq!(read(&journal, number), number as u8 + 1));
}

#[test]
fn what_is_read_through_changes_or_in_a_transaction_stays_too() {
    let files = Files::new("read-changed");
    let journal = journal(&files, &options());
    (0..u64::from(SLOTS)).for_each(|number| write(&journal, number, number as u8 + 1));
    journal.transact(|tx| tx.read(block(0), &mut [0; BLOCK])).expect("reads");
    journal.transact(|tx| tx.read_at(block(1), 9, &mut [0; 9])).expect("reads");
    journal.read_at(block(2), 9, &mut [0; 9]).expect("reads");
    let mut run = vec![0; 2 * BLOCK];
    journal.read_run(block(3), &mut run).expect("reads");
    sweep(&journal);
    assert_eq!(home(&files, 32), [5, 6, 7, 8]);
}

/// Readers and writers beside a thread that evicts: nobody reads anything but the newest content.
#[test]
fn reads_beside_evictions_are_right() {
    let files = Files::new("evictions");
    let journal = journal(&files, &options().background_checkpoint(true));
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let journal = &journal;
            scope.spawn(move || {
                let mut newest = [0_u8; 40];
                for round in 0..2_000_u64 {
                    let at = (round * 7 + thread) % 40;
                    if round % 3 == 0 {
                        newest[at as usize] = round as u8;
                        write(journal, thread * 40 + at, round as u8);
                    }
                    // Some more often than others.
                    let at = if round % 4 == 0 { at } else { round % 5 };
                    assert_eq!(read(journal, thread * 40 + at), newest[at as usize]);
                }
            });
        }
    });
    assert!(journal.stats().expect("counts").checkpointed.freed_slots > 100);
}

#[test]
fn a_timer_empties_the_rings_and_leaves_data_in_its_slots() {
    let files = Files::new("timer");
    let at = |seconds| Duration::from_secs(seconds);
    let pacing = Pacing::new(Some(at(5)), None, Some(at(60)));
    let journal = journal(&files, &options().pacing(pacing));
    journal.tick(at(1)).expect("begins the clock");
    (0..8).for_each(|number| write(&journal, number, number as u8 + 1));
    let metadata = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
        tx.write_with(block(20), Hint::METADATA, &[21; BLOCK])
    };
    journal.transact(metadata).expect("commits");
    journal.tick(at(60)).expect("waits");
    assert_eq!(journal.stats().expect("counts").checkpoints, 0);
    journal.tick(at(61)).expect("makes a checkpoint");
    let stats = journal.stats().expect("counts");
    assert_eq!((stats.checkpoints, stats.checkpointed.blocks), (1, 1), "the metadata");
    assert_eq!(home(&files, 32), [20]);
    assert_eq!((stats.total().used_bytes, stats.total().free_slots), (0, SLOTS - 8));
    (0..8).for_each(|number| assert_eq!(read(&journal, number), number as u8 + 1));
}

#[test]
fn a_close_leaves_data_in_its_slots_if_it_is_asked_to() {
    for keeps in [true, false] {
        let (files, span) = (Files::new("closes"), Files::new("closes-span"));
        let _ = std::fs::remove_file(&span.0);
        let options = options().keep_on_close(keeps);
        let nvm = MapOptions::new().create(&span.0, 2 << 20).expect("a new file");
        let journal = Journal::format(nvm, files.disk(), &options).expect("formats");
        (0..8).for_each(|number| write(&journal, number, number as u8 + 1));
        if keeps {
            journal.checkpoint_rings().expect("folds");
        }
        journal.close().expect("closes");
        assert_eq!(home(&files, 8).len(), if keeps { 0 } else { 8 });
        let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
        let nvm = MapOptions::new().open(&span.0).expect("is there");
        let journal = Journal::open(nvm, disk, &options).expect("opens");
        let free = journal.stats().expect("counts").total().free_slots;
        assert_eq!(free, if keeps { SLOTS - 8 } else { SLOTS });
        (0..8).for_each(|number| assert_eq!(read(&journal, number), number as u8 + 1));
    }
}
