//! Ticks with a limit: they do what is due piece by piece, and say whether something is left.

use core::time::Duration;
use std::os::unix::fs::FileExt as _;

use byte_delta::ByteDelta;
use lcow::Lcow;
use nvm_journal::policy::{Pacing, Thresholds};
use nvm_journal::{
    AnyPolicy, Durability, FileDisk, FullBlock, Journal, On, Operation, Options, Region, TwoLevel,
};

use crate::use_it::{BLOCK, Files, block, memory};

type AnyJournal = Journal<AnyPolicy, On<Region, FileDisk>>;

/// A limit that is over when the tick begins.
const NONE: Duration = Duration::ZERO;

const AN_HOUR: Duration = Duration::from_secs(3600);

/// Opens a journal whose steps are as short as they can be.
fn open(files: &Files, policy: impl Into<AnyPolicy>, slots: u32, pacing: Pacing) -> AnyJournal {
    let options = Options::new().policy(policy.into()).thresholds(Thresholds::new(64, 128));
    let options = options.lanes(1).lane_bytes(256 << 10).lane_slots(slots).batch_blocks(4);
    let options = options.longest_stop(Duration::from_nanos(1)).pacing(pacing);
    Journal::format(memory(2 << 20), files.disk(), &options).expect("formats")
}

fn write(journal: &AnyJournal, number: u64, value: u8) {
    let image = [value; BLOCK];
    journal.commit(&[Operation::write(block(number), &image)], Durability::Durable).expect("fits");
}

fn home(journal: &AnyJournal) -> u64 {
    journal.stats().expect("counts").checkpointed.blocks
}

/// Writes blocks until the second threshold is crossed: half of the ring, or of the slots.
fn fill(journal: &AnyJournal, blocks: u64) {
    (0..blocks).for_each(|number| write(journal, number, number as u8 + 1));
    assert_eq!(home(journal), 0, "nothing has made room yet");
}

fn reads_all(journal: &AnyJournal, blocks: u64) {
    let mut found = [0; BLOCK];
    for number in 0..blocks {
        journal.read(block(number), &mut found).expect("reads");
        assert_eq!(found, [number as u8 + 1; BLOCK]);
    }
}

#[test]
fn a_tick_without_time_takes_one_step_toward_room() {
    for (policy, slots) in [
        (AnyPolicy::from(FullBlock::new()), 0),
        (ByteDelta::new().into(), 64),
        (Lcow::new().into(), 64),
    ] {
        let files = Files::new(&format!("ticks-room-{slots}-{}", policy_name(&policy)));
        let journal = open(&files, policy, slots, Pacing::new(None, None, None));
        fill(&journal, 48);
        let (mut ticks, mut before) = (1, 0);
        while !journal.tick_within(Duration::ZERO, NONE).expect("ticks") {
            let now = home(&journal);
            assert!(now <= before + 4, "tick {ticks} wrote {} blocks home", now - before);
            (ticks, before) = (ticks + 1, now);
            assert!(ticks < 100, "the ticks do not end");
        }
        assert!(ticks > 4, "{ticks} ticks made all the room");
        // What one tick makes without a limit was made already.
        let stats = journal.stats().expect("counts");
        journal.tick(Duration::ZERO).expect("ticks");
        assert_eq!(home(&journal), stats.checkpointed.blocks, "{slots}: {stats}");
        assert!(journal.tick_within(Duration::ZERO, NONE).expect("ticks"));
        assert_eq!(home(&journal), stats.checkpointed.blocks);
        reads_all(&journal, 48);
    }
}

fn policy_name(policy: &AnyPolicy) -> String {
    format!("{policy:?}").chars().take_while(|at| at.is_alphanumeric()).collect()
}

#[test]
fn a_tick_with_time_makes_all_the_room_at_once() {
    let files = Files::new("ticks-at-once");
    let journal = open(&files, FullBlock::new(), 0, Pacing::new(None, None, None));
    fill(&journal, 48);
    assert!(journal.tick_within(Duration::ZERO, AN_HOUR).expect("ticks"));
    assert!(home(&journal) > 4);
    reads_all(&journal, 48);
}

#[test]
fn a_checkpoint_that_a_limit_ends_stays_due() {
    for (policy, slots) in [(AnyPolicy::from(FullBlock::new()), 0), (Lcow::new().into(), 64)] {
        let files = Files::new(&format!("ticks-checkpoint-{slots}"));
        let at = Duration::from_secs;
        let journal = open(&files, policy, slots, Pacing::new(None, None, Some(at(60))));
        assert!(journal.tick_within(at(1), NONE).expect("begins the clock"));
        // Below the first threshold.
        fill(&journal, 12);
        assert!(journal.tick_within(at(60), NONE).expect("waits"));
        assert_eq!(home(&journal), 0);
        let mut ticks = 1;
        while !journal.tick_within(at(61), NONE).expect("ticks") {
            assert_eq!(home(&journal), 4 * ticks, "one batch for each tick");
            ticks += 1;
        }
        let stats = journal.stats().expect("counts");
        let is_all = if slots == 0 { stats.blocks == 0 } else { stats.total().used_bytes < 4096 };
        assert!(is_all, "{slots}: {stats}");
        assert!(journal.tick_within(at(120), NONE).expect("waits"), "the next minute has begun");
        assert_eq!(journal.stats().expect("counts").checkpoints, stats.checkpoints);
        reads_all(&journal, 12);
    }
}

/// A store writes the same blocks again between ticks. They are found first, and do not keep a
/// checkpoint from what is behind them.
#[test]
fn blocks_that_are_written_again_do_not_keep_a_cut_checkpoint_from_ending() {
    let files = Files::new("ticks-hot");
    let at = Duration::from_secs;
    let options = Options::new().policy(AnyPolicy::from(FullBlock::new()));
    let options = options.lanes(1).lane_bytes(8 << 20).lane_slots(0).batch_blocks(4);
    let options = options.pacing(Pacing::new(None, None, Some(at(60))));
    let journal: AnyJournal =
        Journal::format(memory(10 << 20), files.disk(), &options).expect("formats");
    assert!(journal.tick_within(at(1), NONE).expect("begins the clock"));
    (4..12).for_each(|number| write(&journal, number, 7));
    let mut ticks = 0;
    loop {
        (0..4).for_each(|number| write(&journal, number, ticks));
        ticks += 1;
        if journal.tick_within(at(61), NONE).expect("ticks") {
            break;
        }
        assert!(ticks < 10, "the checkpoint does not end");
    }
    let home = std::fs::read(&files.0).expect("reads");
    (4..12).for_each(|block| assert_eq!(home[block * BLOCK], 7, "block {block} is not home"));
}

#[test]
fn a_tick_goes_on_at_an_earlier_time_and_sets_no_clock_back() {
    let files = Files::new("ticks-earlier");
    let at = Duration::from_secs;
    let journal = open(&files, FullBlock::new(), 0, Pacing::new(None, None, Some(at(60))));
    assert!(journal.tick_within(at(1), NONE).expect("begins the clock"));
    fill(&journal, 12);
    assert!(!journal.tick_within(at(61), NONE).expect("ticks"));
    while !journal.tick_within(Duration::ZERO, NONE).expect("ticks") {}
    let before = journal.stats().expect("counts").checkpoints;
    write(&journal, 1, 1);
    assert!(journal.tick_within(at(62), NONE).expect("waits"));
    assert_eq!(journal.stats().expect("counts").checkpoints, before);
}

/// A block of the disk-side log has rotted, so that its block cannot go home. Each step tries that
/// one again. Ticks end all the same.
#[test]
fn ticks_end_where_a_block_of_the_log_cannot_be_read() {
    let noise = |number: u64| -> Vec<u8> {
        let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        core::iter::repeat_with(next).take(BLOCK).collect()
    };
    let files = Files::new("ticks-rot");
    let options = Options::new().policy(AnyPolicy::from(TwoLevel::new())).cache_bytes(0);
    let options = options.lanes(1).lane_bytes(64 << 10).lane_log_blocks(24).segment_blocks(4);
    let options = options.thresholds(Thresholds::new(64, 128)).batch_blocks(4);
    let options = options.longest_stop(Duration::from_nanos(1));
    let disk = files.disk_of(512);
    let journal: AnyJournal = Journal::format(memory(1 << 20), disk, &options).expect("formats");
    let image = noise(77);
    journal.transact(|tx| tx.write(block(3), &image)).expect("commits");
    let bytes = std::fs::read(&files.0).expect("reads");
    let at = bytes.chunks(BLOCK).position(|chunk| chunk == image).expect("is in the log");
    let file = std::fs::OpenOptions::new().write(true).open(&files.0).expect("opens");
    file.write_all_at(&[0xEE; 512], (at * BLOCK) as u64).expect("rots");
    let mut tried = 0;
    for round in 0..120_u64 {
        let number = 4 + round * 7 % 20;
        // Where there is no room without the rotten block, a commit says so.
        let _ = match round % 3 {
            0 => journal.transact(|tx| tx.write(block(number), &noise(round))),
            1 => journal.transact(|tx| tx.write_at(block(3), 8, &noise(round)[..40])),
            _ => journal.transact(|tx| tx.write_at(block(number), 8, &noise(round)[..700])),
        };
        let mut ticks = 0;
        while !journal.tick_within(Duration::ZERO, NONE).expect("ticks") {
            ticks += 1;
            assert!(ticks < 100, "round {round}: the ticks do not end");
        }
        tried = journal.stats().expect("counts").checkpointed.unreadable;
    }
    assert!(tried > 0, "no step came to the rotten block");
}
