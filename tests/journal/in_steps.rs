//! Room is made in steps, and a transaction goes on as soon as its room is there.

use core::ops::ControlFlow::{Break, Continue};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use journal_core::NoHook;
use lab::erased::{DynJournal, any_options};
use nvm_journal::policy::Thresholds;
use nvm_journal::{FullBlock, Journal, ObjectLog};

use crate::use_it::{BLOCK, Files, any_memory, block};

/// Blocks that a lane holds, about.
const BLOCKS: u64 = 56;

fn open(files: &Files, is_small: bool, in_commits: Option<Thresholds>) -> DynJournal {
    let options = any_options(FullBlock, NoHook).lanes(1).lane_bytes(BLOCKS * 4608);
    let options = options.batch_blocks(if is_small { 4 } else { 16 }).index_frames(1 << 12);
    let options = match in_commits {
        Some(thresholds) => options.upkeep_in_commits(true).thresholds(thresholds),
        None => options,
    };
    Journal::format(any_memory(2 << 20), files.any_disk(), &options).expect("formats")
}

fn write(journal: &DynJournal, number: u64, value: u8) {
    journal.transact(|tx| tx.write(block(number), &[value; BLOCK])).expect("has room");
}

fn check(journal: &DynJournal, number: u64, value: u8) {
    let mut found = [0; BLOCK];
    journal.read(block(number), &mut found).expect("reads");
    assert!(found == [value; BLOCK], "block {number}");
}

#[test]
fn a_transaction_writes_home_no_more_than_it_needs() {
    let files = Files::new("steps-no-more");
    let journal = open(&files, true, None);
    let mut before = 0;
    for number in 0..3 * BLOCKS {
        write(&journal, number, number as u8);
        let home = journal.stats().expect("counts").checkpointed.blocks;
        assert!(home - before <= 4, "{} blocks in one stop", home - before);
        before = home;
    }
    let stats = journal.stats().expect("counts");
    assert!(stats.stops_for_bytes > 10 && stats.blocks as u64 > BLOCKS / 2, "{stats}");
    assert_eq!(stats.longest_stop, stats.longest_stop_for_bytes);
    (0..3 * BLOCKS).for_each(|number| check(&journal, number, number as u8));
}

/// Blocks that are patched again and again go home as often as the lane goes round, not with each
/// patch that a head passes.
#[test]
fn a_block_that_is_patched_often_goes_home_once_a_round() {
    let files = Files::new("steps-patched");
    let options = any_options(ObjectLog::new(), NoHook).lanes(1).lane_bytes(64 << 10);
    let options = options.batch_blocks(4).index_frames(1 << 12);
    let journal = Journal::format(any_memory(1 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    for turn in 0..4000_u64 {
        let at = (turn / 8 % 64) as usize * 64;
        let patch = [turn as u8; 64];
        journal.transact(|tx| tx.write_at(block(turn % 8), at, &patch)).expect("has room");
    }
    let home = journal.stats().expect("counts").checkpointed.blocks;
    assert!((8..400).contains(&home), "{home} blocks for 4000 patches");
}

#[test]
fn a_transaction_does_not_wait_for_the_end_of_a_checkpoint() {
    let files = Files::new("steps-beside");
    let journal = open(&files, true, None);
    for number in 0..BLOCKS - 8 {
        write(&journal, number, 1);
    }
    let (is_through, mut was_through) = (AtomicBool::new(false), false);
    std::thread::scope(|scope| {
        let mut helper = None;
        let report = journal.checkpoint_steps(|_, left| {
            helper.get_or_insert_with(|| {
                scope.spawn(|| {
                    // More than is left of the lane.
                    (0..16).for_each(|number| write(&journal, 100 + number, 2));
                    is_through.store(true, Ordering::SeqCst);
                })
            });
            was_through |= is_through.load(Ordering::SeqCst);
            // The disk is slow.
            std::thread::sleep(Duration::from_millis(20));
            assert!(left <= BLOCKS);
            Continue(())
        });
        report.expect("writes home");
    });
    assert!(was_through, "it has waited for all of the checkpoint");
    (0..BLOCKS - 8).for_each(|number| check(&journal, number, 1));
    (100..116).for_each(|number| check(&journal, number, 2));
}

#[test]
fn a_checkpoint_can_be_ended_and_what_went_home_counts() {
    let files = Files::new("steps-ended");
    let journal = open(&files, false, None);
    for number in 0..48 {
        write(&journal, number, 3);
    }
    let mut seen = Vec::new();
    let part = journal.checkpoint_steps(|report, left| {
        seen.push((report.blocks, left));
        if seen.len() == 2 { Break(()) } else { Continue(()) }
    });
    let part = part.expect("writes home");
    assert_eq!(seen, [(16, 32), (32, 16)]);
    assert_eq!(part.blocks, 32);
    // The blocks were written in the order of their numbers.
    assert!(part.freed_bytes >= 32 * BLOCK as u64, "{part:?}");
    assert_eq!(journal.stats().expect("counts").blocks, 16);
    (0..48).for_each(|number| check(&journal, number, 3));
    assert_eq!(journal.checkpoint().expect("writes home").blocks, 16);
    assert_eq!(journal.stats().expect("counts").blocks, 0);
}

/// The commit that crosses the threshold makes room: no thread, and no tick.
#[test]
fn a_commit_that_crosses_the_threshold_makes_room() {
    let files = Files::new("steps-commits");
    let journal = open(&files, false, Some(Thresholds::new(255, 128)));
    let mut most = 0;
    for number in 0..4 * BLOCKS {
        write(&journal, number, 4);
        let stats = journal.stats().expect("counts");
        most = most.max(stats.total().used_bytes * 256 / stats.lane_bytes);
    }
    let stats = journal.stats().expect("counts");
    assert_eq!(stats.stops_for_bytes, 0, "{stats}");
    assert!(most < 140, "{most} 256ths were used");
    assert!(stats.checkpoints > 0 && stats.blocks > 0, "in steps: {stats}");
    (0..4 * BLOCKS).for_each(|number| check(&journal, number, 4));
}

/// Without the setting, commits leave that to a tick.
#[test]
fn a_commit_makes_no_room_ahead_unless_it_is_asked_to() {
    let files = Files::new("steps-ticks");
    let journal = open(&files, false, None);
    (0..BLOCKS - 8).for_each(|number| write(&journal, number, 5));
    assert_eq!(journal.stats().expect("counts").checkpoints, 0);
}
