//! Room is made in steps, and a transaction goes on as soon as its room is there.

use core::ops::ControlFlow::{Break, Continue};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use journal_core::{BlockDevice, DeviceError, Hook, NoHook, Rule, Site};
use lab::erased::{DynDisk, DynJournal, DynPmem, any_options};
use nvm_journal::policy::{Change, Patch, Thresholds, Update};
use nvm_journal::{
    BlockSize, ByteDelta, CompressedDelta, Durability, Error, FileDisk, FullBlock, Journal,
    LaneStats, Lcow, MapOptions, ObjectLog, Operation,
};
use sim_disk::Mutator;

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

/// The most blocks that go home in one stop, where a step may take this time: blocks that are
/// written whole, or by eight patches each.
fn most_in_a_stop(are_whole: bool, time: Duration) -> u64 {
    let files = Files::new("steps-charged");
    let lane_bytes = if are_whole { BLOCKS * 4608 } else { 64 << 10 };
    let options = any_options(ObjectLog::new(), NoHook).lanes(1).lane_bytes(lane_bytes);
    let options = options.batch_blocks(64).index_frames(1 << 10).longest_stop(time);
    let journal = Journal::format(any_memory(2 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    let (mut before, mut most) = (0, 0);
    for turn in 0..2000_u64 {
        let (number, part) = if are_whole { (turn, 0) } else { (turn / 8, turn % 8) };
        let (number, image) = (number % 200, [turn as u8; BLOCK]);
        let write = journal.transact(|tx| match are_whole {
            true => tx.write(block(number), &image),
            false => tx.write_at(block(number), 64 * part as usize, &image[..64]),
        });
        write.expect("has room");
        let home = journal.stats().expect("counts").checkpointed.blocks;
        (most, before) = (most.max(home - before), home);
    }
    assert!(before > 100, "{before} blocks went home");
    most
}

/// A step is charged for each block, for the changes that its content is built from, and for the
/// frames that it passes.
#[test]
fn a_step_takes_fewer_blocks_where_each_has_many_changes() {
    let micros = Duration::from_micros;
    let whole = [60, 120].map(|time| most_in_a_stop(true, micros(time)));
    let patched = [60, 120].map(|time| most_in_a_stop(false, micros(time)));
    // The charges: a whole block 5 microseconds, one of eight changes 14, a frame half of one.
    assert!((6..=11).contains(&whole[0]) && (12..=22).contains(&whole[1]), "{whole:?}");
    assert!((2..=5).contains(&patched[0]) && (5..=10).contains(&patched[1]), "{patched:?}");
}

/// A block that is patched often goes home once each time the lane goes round. It does not go home
/// with each patch that a head passes.
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

/// One block is patched more often than the index is looked through for a frame. Others are patched
/// until the lane has gone round. Steps have no time for a pass of the index, so they read the
/// records at the head. The block has far newer frames than those.
#[test]
fn a_step_that_reads_the_heads_lists_the_first_of_many_patches() {
    let files = Files::new("steps-deep");
    let options = any_options(ObjectLog::new(), NoHook).lanes(1).lane_bytes(64 << 10);
    let options = options.batch_blocks(4).index_frames(1 << 16).cache_bytes(0);
    let options = options.longest_stop(Duration::from_nanos(1));
    let journal = Journal::format(any_memory(1 << 20), files.any_disk(), &options);
    let journal: DynJournal = journal.expect("formats");
    let patch = |number: u64, turn: usize| {
        let bytes = [turn as u8 + 1; 32];
        journal.transact(|tx| tx.write_at(block(number), 32 * turn, &bytes)).expect("has room");
    };
    (0..100).for_each(|turn| patch(1, turn));
    for turn in 0..2000 {
        patch(2 + turn % 40, (turn / 40) as usize);
    }
    assert!(journal.stats().expect("counts").checkpointed.blocks > 40);
    let mut found = [0; BLOCK];
    journal.read(block(1), &mut found).expect("reads");
    let expected = |at: usize| if at < 100 { at as u8 + 1 } else { 0 };
    assert!(found.chunks(32).enumerate().all(|(at, part)| part == [expected(at); 32]));
}

/// One byte rots in the record at the head: the block that it names is another one then. A step
/// that went by that would let the head pass what is not home.
#[test]
fn a_step_that_reads_the_heads_checks_the_records() {
    let (files, span) = (Files::new("steps-rot"), Files::new("steps-rot-span"));
    let _ = std::fs::remove_file(&span.0);
    let options = any_options(ObjectLog::new(), NoHook).lanes(1).lane_bytes(64 << 10);
    let options = options.batch_blocks(4).index_frames(1 << 12).cache_bytes(0);
    let options = options.longest_stop(Duration::from_nanos(1));
    let nvm = MapOptions::new().create(&span.0, 1 << 20).expect("a new file");
    let journal = Journal::format(DynPmem::new(nvm), files.any_disk(), &options);
    let journal: DynJournal = journal.expect("formats");
    let patch = |number: u64, value: u8| {
        let patch = [value; 32];
        journal.transact(|tx| tx.write_at(block(number), 0, &patch)).expect("has room");
    };
    patch(0xA7, 0x55);
    let bytes = std::fs::read(&span.0).expect("reads");
    let payload = bytes.windows(32).position(|w| w == [0x55; 32]).expect("is logged");
    let is_name = |at: &usize| bytes[*at..*at + 8] == 0xA7_u64.to_le_bytes();
    let name = (payload - 64..payload - 8).find(is_name).expect("names its block");
    let memory = std::fs::OpenOptions::new().write(true).open(&span.0).expect("is there");
    std::os::unix::fs::FileExt::write_all_at(&memory, &[0xA6], name as u64).expect("writes");
    (0..700).for_each(|turn| patch(1 + turn % 40, turn as u8));
    let mut found = [0; BLOCK];
    journal.read(block(0xA7), &mut found).expect("reads");
    assert!(found[..32] == [0x55; 32], "{:?}", &found[..32]);
}

/// The first records of a lane have more frames than a list has room for. A step that reads them
/// lists those of whole records alone.
#[test]
fn a_step_that_reads_the_heads_ends_before_what_it_has_no_room_for() {
    const EACH: u64 = 1100;
    let files = Files::new("steps-many");
    let options = any_options(ObjectLog::new(), NoHook).lanes(1).lane_bytes(5 << 20);
    let options = options.batch_blocks(4).index_frames(1 << 14).cache_bytes(0);
    let options = options.longest_stop(Duration::from_micros(20));
    let disk = DynDisk::new(files.disk_of(8 * EACH));
    let journal = Journal::format(any_memory(8 << 20), disk, &options);
    let journal: DynJournal = journal.expect("formats");
    for part in 0..4 {
        let patches = journal.transact(|tx| {
            (part * EACH..(part + 1) * EACH).try_for_each(|at| tx.write_at(block(at), 64, &[7; 8]))
        });
        patches.expect("has room");
    }
    // The lane goes round.
    (0..1500).for_each(|turn| write(&journal, 6 * EACH + turn % 20, turn as u8));
    for number in 0..4 * EACH {
        let mut found = [0; BLOCK];
        journal.read(block(number), &mut found).expect("reads");
        assert!(found[64..72] == [7; 8], "block {number}");
    }
}

/// Fills the index, and then writes a few blocks over and over. So most records at the heads say
/// nothing any more, and the steps, of 5 microseconds each, have short lists. Returns the most
/// nodes of the index that one of them went through.
fn longest_pass_beside_short_lists(lanes: u16) -> u64 {
    const MANY: u64 = 12_000;
    let files = Files::new(&format!("steps-short-{lanes}"));
    let options = any_options(ObjectLog::new(), NoHook).lanes(lanes).lane_bytes(3 << 19);
    let options = options.index_frames(1 << 14).cache_bytes(0);
    let options = options.longest_stop(Duration::from_micros(5));
    let disk = DynDisk::new(files.disk_of(16 + MANY));
    let journal = Journal::format(any_memory(8 << 20), disk, &options);
    let journal: DynJournal = journal.expect("formats");
    let patch = |number: u64, at: usize| {
        journal.transact(|tx| tx.write_at(block(16 + number), at, &[7; 8])).expect("has room");
    };
    (0..MANY).for_each(|number| patch(number, 64));
    for turn in 0..10_000 {
        match turn % 50 {
            0 => patch(turn / 50, 128),
            _ => write(&journal, turn % 10, turn as u8),
        }
    }
    for number in 0..MANY {
        let mut found = [0; BLOCK];
        journal.read(block(16 + number), &mut found).expect("reads");
        let again = if number < 200 { [7; 8] } else { [0; 8] };
        assert!(found[64..72] == [7; 8] && found[128..136] == again, "block {number}");
    }
    let stats = journal.stats().expect("counts");
    assert!(stats.stops_for_bytes > 100 && stats.checkpointed.blocks >= MANY / 2, "{stats}");
    stats.checkpointed.longest_pass
}

/// A list for the next steps is made by parts of a pass through the index. A part takes half of a
/// step's time at most, however short the list is that the steps have meanwhile.
#[test]
fn a_step_with_a_short_list_goes_through_a_part_of_the_index() {
    for lanes in [1, 3] {
        let longest = longest_pass_beside_short_lists(lanes);
        assert!((1..=250).contains(&longest), "{longest} places, {lanes} lanes");
    }
}

/// A journal of one lane, for records of many patches.
fn for_long_records(name: &str, lane_bytes: u64, blocks: u64, time: Duration) -> DynJournal {
    let files = Files::new(name);
    let options = any_options(ObjectLog::new(), NoHook).lanes(1).lane_bytes(lane_bytes);
    let options = options.index_frames(1 << 17).cache_bytes(0).longest_stop(time);
    let disk = DynDisk::new(files.disk_of(blocks));
    Journal::format(any_memory(2 * lane_bytes), disk, &options).expect("formats")
}

/// Patches these blocks by one record.
fn patch_all(journal: &DynJournal, blocks: impl Iterator<Item = u64>, at: usize) {
    let mut blocks: Vec<u64> = blocks.collect();
    blocks.sort_unstable();
    let patch = [Patch { at: at as u32, bytes: &[7; 8] }];
    let change = |number| Operation::Update(Update::new(block(number), Change::Patches(&patch)));
    let operations: Vec<_> = blocks.into_iter().map(change).collect();
    journal.commit(&operations, Durability::Durable).expect("commits");
}

/// The list is full before the time for reading at the head is over, and the lane has more records.
#[test]
fn a_step_ends_whose_list_is_full_before_its_time_is_over() {
    let time = Duration::from_millis(7);
    let journal = for_long_records("steps-full", 20 << 20, 8000, time);
    let mut turn = 0;
    while journal.stats().expect("counts").stops_for_bytes < 2 {
        patch_all(&journal, turn % 8 * 1000..(turn % 8 + 1) * 1000, 8 * (turn / 8 % 500) as usize);
        turn += 1;
    }
}

/// A record has more frames than half of a list has room for. Only its blocks go home with it.
#[test]
fn a_record_of_more_than_half_of_a_list_goes_home_alone() {
    const EACH: u64 = 3000;
    let journal = for_long_records("steps-half", 1 << 20, 64_000, Duration::from_millis(1));
    let mut before = 0;
    for turn in 0..60 {
        patch_all(&journal, (0..EACH).map(|at| (turn * EACH + at) % 64_000), 8);
        let home = journal.stats().expect("counts").checkpointed.blocks;
        assert!(home - before <= EACH, "{} blocks in one stop", home - before);
        before = home;
    }
    assert!(before > 0);
}

/// Records of many patches in several lanes: a list has room for a few of each lane. So the steps
/// read the heads, and do not go through the whole index, which has thousands of frames.
fn longest_pass_beside_long_records(lanes: u16, each: u64) -> u64 {
    let files = Files::new(&format!("steps-lanes-{lanes}-{each}"));
    let options = any_options(ObjectLog::new(), NoHook).lanes(lanes);
    let options = options.lane_bytes(each * 256 / 4096 * 4096).index_frames(1 << 17);
    let options = options.cache_bytes(0).longest_stop(Duration::from_micros(5));
    let disk = DynDisk::new(files.disk_of(8000));
    let journal = Journal::format(any_memory(8 << 20), disk, &options).expect("formats");
    for turn in 0..60_000 / each {
        // The lanes take turns too.
        let others = (0..turn % u64::from(lanes)).map(|_| journal.begin().expect("begins"));
        let others: Vec<_> = others.collect();
        patch_all(
            &journal,
            (0..each).map(|at| (turn * each + at) % 8000),
            8 * (turn % 500) as usize,
        );
        drop(others);
    }
    let stats = journal.stats().expect("counts");
    assert!(stats.stops_for_bytes > 10, "{stats}");
    stats.checkpointed.longest_pass
}

#[test]
fn a_step_reads_all_heads_before_a_list_is_full() {
    for (lanes, each) in [(3, 700), (8, 300)] {
        let longest = longest_pass_beside_long_records(lanes, each);
        assert!(longest <= 250, "{longest} places, {lanes} lanes, {each} frames in a record");
    }
}

/// One lane has most of the short records that steps read. They read that lane, and not as many
/// records of each of the others, which come behind what the list ends with.
#[test]
fn a_step_reads_most_where_most_is_old() {
    const LANES: u64 = 8;
    let files = Files::new("steps-busy-lane");
    let options = any_options(ObjectLog::new(), NoHook).lanes(LANES as u16).lane_bytes(1 << 19);
    let options = options.index_frames(1 << 16).cache_bytes(0);
    let disk = DynDisk::new(files.disk_of(64));
    let journal = Journal::format(any_memory(8 << 20), disk, &options);
    let journal: DynJournal = journal.expect("formats");
    for turn in 0..30_000 {
        let others = if turn % 2 == 0 { turn / 2 % LANES } else { 0 };
        let others: Vec<_> = (0..others).map(|_| journal.begin().expect("begins")).collect();
        patch_all(&journal, core::iter::once(turn % 64), 64);
        drop(others);
    }
    let stats = journal.stats().expect("counts");
    let each = stats.checkpointed.freed_bytes / stats.checkpoints.max(1);
    assert!(stats.checkpoints > 5 && each > 40_000, "{each}, {stats}");
}

/// The first step has no list to go on with. It makes one by a pass, and begins the next.
#[test]
fn the_first_step_goes_through_the_index_once() {
    let files = Files::new("steps-first");
    let journal = open(&files, false, None);
    let (mut number, mut longest) = (0, 0);
    while longest == 0 {
        write(&journal, number, 1);
        number += 1;
        longest = journal.stats().expect("counts").checkpointed.longest_pass;
    }
    assert!(longest < 2 * number, "{longest} places for {number} frames");
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
    assert!(stats.stops_in_commits >= stats.checkpoints, "each step stopped one: {stats}");
    assert!(stats.longest_stop == stats.longest_stop_in_commits && stats.stopped > Duration::ZERO);
    assert!(most < 140, "{most} 256ths were used");
    assert!(stats.checkpoints > 0 && stats.blocks > 0, "in steps: {stats}");
    (0..4 * BLOCKS).for_each(|number| check(&journal, number, 4));
}

/// Blocks in slots, of which twenty are written again and again: commits reclaim at the first
/// threshold, and nothing goes home. Then each block is written once, and the second one is
/// crossed.
#[test]
fn a_commit_that_crosses_the_first_threshold_alone_writes_nothing_home() {
    const SHAPES: [(u16, u64, u32); 3] = [(1, 1 << 20, 64), (1, 64 << 10, 256), (3, 64 << 10, 64)];
    for (lanes, lane_bytes, lane_slots) in SHAPES {
        let files = Files::new(&format!("steps-reclaim-{lanes}-{lane_bytes}"));
        let options = any_options(ByteDelta::new(), NoHook).thresholds(Thresholds::new(128, 224));
        let options = options.lanes(lanes).lane_bytes(lane_bytes).lane_slots(lane_slots);
        let options = options.index_frames(1 << 16).upkeep_in_commits(true);
        let journal = Journal::format(any_memory(4 << 20), files.any_disk(), &options);
        let journal: DynJournal = journal.expect("formats");
        let stats = || journal.stats().expect("counts");
        let (slots, mut most) = (u64::from(lane_slots), (0, 0));
        for turn in 0..3000 {
            let others = (0..turn % u64::from(lanes)).map(|_| journal.begin().expect("begins"));
            let others: Vec<_> = others.collect();
            write(&journal, turn % 20, turn as u8);
            drop(others);
            let of_each = |(used, taken): (u64, u64), lane: &LaneStats| {
                let free = u64::from(lane.free_slots);
                (
                    used.max(lane.used_bytes * 256 / lane_bytes),
                    taken.max((slots - free) * 256 / slots),
                )
            };
            most = stats().lanes.iter().fold(most, of_each);
        }
        let made = stats();
        assert!(most.0 < 150 && most.1 < 150, "{lanes} lanes: {most:?} 256ths");
        assert!(made.folded.folded > 0 && made.folded.freed_slots > 20, "{made}");
        assert_eq!((made.checkpoints, made.checkpointed.blocks), (0, 0), "{made}");
        assert_eq!(made.stops_for_bytes + made.stops_for_slots, 0, "{made}");
        (2980..3000).for_each(|turn| check(&journal, turn % 20, turn as u8));
        let written = 20..20 + 2 * slots * u64::from(lanes);
        written.clone().for_each(|number| write(&journal, number % 256, number as u8));
        let made = stats();
        assert!(made.checkpoints > 0 && made.stops_for_slots == 0, "{made}");
        written.rev().take(200).for_each(|number| check(&journal, number % 256, number as u8));
    }
}

/// Without the setting, commits leave that to a tick.
#[test]
fn a_commit_makes_no_room_ahead_unless_it_is_asked_to() {
    let files = Files::new("steps-ticks");
    let journal = open(&files, false, None);
    (0..BLOCKS - 8).for_each(|number| write(&journal, number, 5));
    let stats = journal.stats().expect("counts");
    assert_eq!((stats.checkpoints, stats.stops_in_commits), (0, 0));
}

/// Writes a block through the `lane`-th of the lanes: the seats that are free come in their order.
fn write_in(journal: &DynJournal, lane: usize, number: u64, value: u8) {
    let others: Vec<_> = (0..lane).map(|_| journal.begin().expect("begins")).collect();
    let mut tx = journal.begin().expect("begins");
    tx.write(block(number), &[value; BLOCK]).expect("has room");
    tx.commit().expect("commits");
    drop(others);
}

/// Leaves one rule out.
#[derive(Clone, Debug)]
struct Without(Option<Rule>);

impl Hook for Without {
    fn keeps(&self, rule: Rule) -> bool {
        self.0 != Some(rule)
    }
}

/// A checkpoint moves a head beyond all that the list of the steps has in that lane, and the lane
/// goes round. The list still has frames of the other lane, which the next step takes. Returns how
/// many bytes of its first lane are then in use.
fn used_behind_a_list_that_was_overtaken(without: Option<Rule>) -> u64 {
    let (files, span) = (Files::new("steps-back"), Files::new("steps-back-span"));
    let _ = std::fs::remove_file(&span.0);
    let options = any_options(FullBlock, Without(without)).lanes(2).lane_bytes(BLOCKS * 4608);
    let options = options.batch_blocks(16).index_frames(1 << 12).keep_on_close(true);
    let nvm = MapOptions::new().create(&span.0, 2 << 20).expect("a new file");
    let journal = Journal::format(DynPmem::new(nvm), files.any_disk(), &options).expect("formats");
    let used = |lane: usize| journal.stats().expect("counts").lanes[lane].used_bytes;
    let stops = || journal.stats().expect("counts").stops_for_bytes;
    let mut values = [0_u8; 200];
    let mut write = |lane, number: u64, value| {
        write_in(&journal, lane, number, value);
        values[number as usize] = value;
    };
    // Both lanes are full. A step makes the list, and takes what is oldest in both.
    (0..10).for_each(|number| write(1, 100 + number, 1));
    (0..BLOCKS).for_each(|number| write(0, number, 1));
    for number in 10.. {
        write(1, 100 + number, 2);
        if stops() > 0 {
            break;
        }
    }
    // Checkpoints write home what is in the first lane, and end before they have written all of
    // the other one.
    for (turn, batches) in [(0, 4), (1, 3)] {
        (0..4 + 36 * turn).for_each(|number| write(0, number, 3 + turn as u8));
        let mut left = batches;
        let part = journal.checkpoint_steps(|_, _| {
            left -= 1;
            if left == 0 { Break(()) } else { Continue(()) }
        });
        part.expect("writes home");
        assert!(used(0) == 0 && used(1) > 0, "{} and {} bytes", used(0), used(1));
    }
    // The first lane has gone round since the list was made, and the other one is filled.
    let before = stops();
    (0..40).for_each(|number| write(0, number, 5));
    for number in 0.. {
        write(1, 60 + number % 30, 6);
        if stops() > before {
            break;
        }
    }
    let used = used(0);
    if without.is_none() {
        drop(journal);
        let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
        let nvm = MapOptions::new().open(&span.0).expect("is there");
        let journal = Journal::open(DynPmem::new(nvm), DynDisk::new(disk), &options);
        let journal = journal.expect("opens");
        (0..200).for_each(|number| check(&journal, number, values[number as usize]));
    }
    used
}

#[test]
fn a_step_moves_no_head_back_that_a_checkpoint_has_moved() {
    let used = used_behind_a_list_that_was_overtaken(None);
    // All of the lane, and more, seems to be in use.
    let without = used_behind_a_list_that_was_overtaken(Some(Rule::StepMovesForward));
    assert!(without > used && without == BLOCKS * 4608, "{used} bytes, and {without} without");
}

/// A device that panics in a thread of this name.
#[derive(Clone, Debug)]
struct PanicsIn(&'static str, Arc<AtomicBool>);

impl Hook for PanicsIn {
    fn disk_sync<D: BlockDevice>(&mut self, _: Site, device: &mut D) -> Result<(), DeviceError> {
        if std::thread::current().name() == Some(self.0) {
            self.1.store(true, Ordering::SeqCst);
            panic!("a broken driver");
        }
        device.sync()
    }
}

/// A transaction comes between two batches of a checkpoint, and the device panics there. The
/// checkpoint is told that the journal has failed: it does not panic as well.
#[test]
fn a_checkpoint_does_not_panic_where_a_transaction_between_its_batches_does() {
    let files = Files::new("steps-panic");
    let has_panicked = Arc::new(AtomicBool::new(false));
    let hook = PanicsIn("panics", Arc::clone(&has_panicked));
    let options = any_options(FullBlock, hook).lanes(1).lane_bytes(BLOCKS * 4608);
    let options = options.batch_blocks(4).index_frames(1 << 12);
    let journal = &Journal::format(any_memory(2 << 20), files.any_disk(), &options);
    let journal = journal.as_ref().expect("formats");
    (0..BLOCKS - 2).for_each(|number| write(journal, number, 1));
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| {
            let mut helper = None;
            let told = journal.checkpoint_steps(|_, _| {
                if helper.is_none() {
                    let named = std::thread::Builder::new().name("panics".into());
                    let work = || (0..16).for_each(|number| write(journal, 100 + number, 2));
                    helper = Some(named.spawn_scoped(scope, work).expect("a thread"));
                    std::thread::sleep(Duration::from_millis(100));
                }
                Continue(())
            });
            let panicked = helper.expect("was begun").join().is_err();
            (told, panicked)
        });
        let told = checkpoint.join().expect("no panic here");
        assert_eq!(told, (Err(Error::Failed), true));
    });
    assert!(has_panicked.load(Ordering::SeqCst));
}

/// A transaction has asked for room by when its caller ends the checkpoint. What is left to be
/// written home stays there.
#[test]
fn a_checkpoint_that_is_ended_writes_no_more_where_others_need_room() {
    let files = Files::new("steps-ended-beside");
    let journal = &open(&files, true, None);
    (0..BLOCKS - 2).for_each(|number| write(journal, number, 1));
    std::thread::scope(|scope| {
        let part = journal.checkpoint_steps(|_, _| {
            scope.spawn(|| (0..16).for_each(|number| write(journal, 100 + number, 2)));
            std::thread::sleep(Duration::from_millis(100));
            Break(())
        });
        assert_eq!(part.expect("writes home").blocks, 4, "one batch");
    });
}

/// A block whose home was changed behind the journal's back: what is logged of it does not apply
/// there, so nothing writes it home. Its frame stays at the head of the second lane. Returns how
/// often it was tried while the first lane has gone round some times, and the most blocks that went
/// home in one stop. Then the block is written anew, and both lanes go on.
fn tries_of_what_cannot_be_read(without: Option<Rule>) -> (u64, u64) {
    let files = Files::new("steps-held");
    let options = any_options(CompressedDelta::new(), Without(without)).lanes(2);
    let options = options.lane_bytes(BLOCKS * 4608).batch_blocks(4).index_frames(1 << 12);
    let options = options.cache_bytes(0);
    let journal = Journal::format(any_memory(2 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    let noise = |seed: u64| {
        let mut random = seed | 1;
        let mut next = || {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (random >> 56) as u8
        };
        core::array::from_fn::<u8, BLOCK, _>(|_| next())
    };
    let write_noise = |lane: usize, number: u64, seed: u64| {
        let others: Vec<_> = (0..lane).map(|_| journal.begin().expect("begins")).collect();
        let mut tx = journal.begin().expect("begins");
        tx.write(block(number), &noise(seed)).expect("has room");
        tx.commit().expect("commits");
        drop(others);
    };
    write_noise(0, 0, 7);
    journal.checkpoint().expect("writes home");
    let others = journal.begin().expect("begins");
    let mut tx = journal.begin().expect("begins");
    tx.write_at(block(0), 100, &[1; 8]).expect("has room");
    tx.commit().expect("commits");
    drop(others);
    let home = std::fs::OpenOptions::new().write(true).open(&files.0).expect("the disk's file");
    std::os::unix::fs::FileExt::write_all_at(&home, &noise(8), 0).expect("writes");
    // Older than all that comes.
    (0..20).for_each(|number| write_noise(1, 100 + number, number));
    let (mut before, mut most) = (1, 0);
    for turn in 0..8 * BLOCKS {
        write_noise(0, 1 + turn % 90, turn);
        let home = journal.stats().expect("counts").checkpointed.blocks;
        (most, before) = (most.max(home - before), home);
    }
    let stats = journal.stats().expect("counts");
    assert!(stats.stops_for_bytes > 10, "{stats}");
    let tries = stats.checkpointed.unreadable;
    assert_eq!(journal.unreadable(), Ok(vec![block(0)]));
    // What ends it.
    write_noise(1, 0, 9);
    (0..2 * BLOCKS).for_each(|turn| write_noise(1, 100 + turn % 20, turn));
    assert_eq!(journal.unreadable(), Ok(vec![]));
    (0..8 * BLOCKS).rev().take(90).for_each(|turn| {
        let mut found = [0; BLOCK];
        journal.read(block(1 + turn % 90), &mut found).expect("reads");
        assert!(found == noise(turn), "block {}", 1 + turn % 90);
    });
    (tries, most)
}

/// The heads of other lanes go on in steps, and no step tries the block again. Without that, whole
/// checkpoints make all room.
#[test]
fn a_block_that_cannot_be_read_does_not_end_the_steps_of_other_lanes() {
    let (tries, most) = tries_of_what_cannot_be_read(None);
    assert!(tries == 1 && most < 30, "{tries} tries, {most} blocks in a stop");
    let (tries, most) = tries_of_what_cannot_be_read(Some(Rule::StepPassesHeld));
    assert!(tries > 3 && most > 40, "without it {tries} tries, {most} blocks in a stop");
}

/// The second lane has a block at its head that cannot be read, and an older version of another
/// one behind it. So the third lane, which has the newest version of that, has to stay as well. The
/// first one goes on in steps all the same.
#[test]
fn a_lane_that_waits_for_one_that_is_held_back_does_not_end_the_steps_either() {
    let files = Files::new("steps-held-third");
    let options = any_options(CompressedDelta::new(), NoHook).lanes(3).cache_bytes(0);
    let options = options.lane_bytes(BLOCKS * 4608).batch_blocks(4).index_frames(1 << 12);
    let journal = Journal::format(any_memory(4 << 20), files.any_disk(), &options);
    let journal: DynJournal = journal.expect("formats");
    let noise = |seed: u64| {
        let mut random = seed | 1;
        core::array::from_fn::<u8, BLOCK, _>(|_| {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (random >> 56) as u8
        })
    };
    let commit_in = |lane: u16, number: u64, at: usize, bytes: &[u8]| {
        let others: Vec<_> = (0..lane).map(|_| journal.begin().expect("begins")).collect();
        let mut tx = journal.begin().expect("begins");
        tx.write_at(block(number), at, bytes).expect("has room");
        let committed = tx.commit().expect("commits").expect("was logged");
        assert_eq!(committed.lane.raw(), lane);
        drop(others);
    };
    commit_in(0, 0, 0, &noise(7));
    journal.checkpoint().expect("writes home");
    commit_in(1, 0, 100, &[1; 8]);
    let home = std::fs::OpenOptions::new().write(true).open(&files.0).expect("the disk's file");
    std::os::unix::fs::FileExt::write_all_at(&home, &noise(8), 0).expect("writes");
    // More of each lane than one step looks at.
    (0..20).for_each(|number| commit_in(1, 100 + number, 0, &noise(number)));
    commit_in(1, 150, 0, &noise(1));
    commit_in(2, 150, 0, &noise(2));
    (0..20).for_each(|number| commit_in(2, 200 + number, 0, &noise(number)));
    let (mut before, mut most) = (journal.stats().expect("counts").checkpointed.blocks, 0);
    for turn in 0..8 * BLOCKS {
        commit_in(0, 1 + turn % 90, 0, &noise(turn));
        let home = journal.stats().expect("counts").checkpointed.blocks;
        (most, before) = (most.max(home - before), home);
    }
    let stats = journal.stats().expect("counts");
    let tries = stats.checkpointed.unreadable;
    assert!(stats.stops_for_bytes > 10, "{stats}");
    assert!(tries == 1 && most < 50, "{tries} tries, {most} blocks in a stop");
}

/// What comes free without a write home, where the oldest record names more slots than a step
/// folds frames of others.
fn freed_behind_a_long_record(without: &[Rule]) -> (u64, u64) {
    let files = Files::new("steps-long-record");
    let options = any_options(Lcow::new(), Mutator::without(without)).lanes(1);
    let options = options.lane_bytes(256 << 10).lane_slots(256).batch_blocks(4);
    let options = options.upkeep_in_commits(true).thresholds(Thresholds::new(64, 255));
    let journal: DynJournal =
        Journal::format(any_memory(4 << 20), files.any_disk(), &options).expect("formats");
    let image = [7; BLOCK];
    let long = journal.transact(|tx| (0..40).try_for_each(|at| tx.write(block(at), &image)));
    long.expect("has room");
    for _ in 0..40 {
        journal.transact(|tx| tx.write_metadata(block(100), &image)).expect("has room");
    }
    let stats = journal.stats().expect("counts");
    (0..40).for_each(|number| check(&journal, number, 7));
    (stats.folded.freed_bytes, stats.checkpointed.blocks)
}

/// A step that writes nothing home passes a record of any number of slots.
#[test]
fn a_step_folds_a_record_that_names_more_slots_than_it_takes() {
    let (freed, home) = freed_behind_a_long_record(&[]);
    assert!(freed > 64 << 10 && home == 0, "{freed} bytes came free, {home} blocks went home");
    let (freed, _) = freed_behind_a_long_record(&[Rule::StepFoldsRecord]);
    assert_eq!(freed, 0, "without the rule the step is stuck");
}
