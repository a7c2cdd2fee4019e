//! Room is made in time: at the thresholds, by the host's ticks where no thread does it.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Barrier};

use byte_delta::ByteDelta;
use journal_core::{BlockDevice, DeviceError, Hook, NoHook, Rule, Site};
use lab::erased::{DynDisk, DynJournal, any_options};
use lcow::Lcow;
use nvm_journal::policy::{
    ApplyError, Change, Encoder, Kind, Patch, Placement, Policy, PolicyId, Thresholds, Update,
};
use nvm_journal::{
    AnyPolicy, Durability, Error, FileDisk, FullBlock, Journal, ObjectLog, On, Operation, Options,
    Region, Stats, TwoLevel,
};
use sim_disk::Mutator;

use crate::claims::Dice;
use crate::use_it::{BLOCK, CountedReads, Files, any_memory, block, memory};

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

/// What the first threshold frees would end the snapshot. What the second one frees has to go home.
#[test]
fn a_snapshot_stays_until_blocks_have_to_go_home() {
    for in_commits in [false, true] {
        let files = Files::new(&format!("upkeep-snapshot-{in_commits}"));
        let options = Options::new().policy(AnyPolicy::from(ByteDelta::new()));
        let options = options.thresholds(Thresholds::new(128, 224)).upkeep_in_commits(in_commits);
        let options = options.lanes(1).lane_bytes(64 << 10).lane_slots(SLOTS);
        let journal = Journal::format(memory(2 << 20), files.disk(), &options).expect("formats");
        (0..20).for_each(|number| write(&journal, number, 1));
        let snapshot = journal.snapshot().expect("is made");
        let mut least = SLOTS;
        for round in 2..u8::MAX {
            let stats = journal.stats().expect("counts");
            let free = stats.lanes[0].free_slots;
            least = least.min(free);
            assert_eq!((stats.snapshots, stats.snapshots_ended), (1, 0));
            let mut found = [0; BLOCK];
            snapshot.read(block(3), &mut found).expect("is kept");
            assert_eq!(found, [1; BLOCK]);
            write(&journal, u64::from(round % 20), round);
            if !in_commits {
                journal.tick(Duration::from_millis(1)).expect("ticks");
            }
            if snapshot.is_too_old() {
                break;
            }
        }
        // An eighth of the slots is what the second threshold leaves; the first leaves a half.
        assert!((SLOTS / 8 - 1..=SLOTS / 8 + 2).contains(&least), "{in_commits}: {least}");
        let stats = journal.stats().expect("counts");
        assert_eq!((stats.snapshots, stats.snapshots_ended), (0, 1));
        let freed = stats.lanes[0].free_slots;
        assert!(freed > least, "{in_commits}: {freed} slots are free, {stats}");
    }
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

/// Writes blocks a hundred apart, and later two beside the first one, until a tick makes a
/// checkpoint. Returns how many blocks were written.
fn until_a_tick_writes_home(journal: &AnyJournal) -> (u64, Stats) {
    let (blocks, stats) = (1..)
        .find_map(|blocks| {
            match blocks - 1 {
                40 => write(journal, 1, 7),
                41 => write(journal, 2, 7),
                number => write(journal, 100 * number, 7),
            }
            journal.tick(Duration::from_millis(1)).expect("ticks");
            let stats = journal.stats().expect("counts");
            (stats.checkpoints > 0).then_some((blocks, stats))
        })
        .expect("some tick does");
    for number in (0..blocks).filter(|number| ![40, 41].contains(number)).map(|at| at * 100) {
        let mut found = [0; BLOCK];
        journal.read(block(number), &mut found).expect("reads");
        assert_eq!(found, [7; BLOCK], "block {number}");
    }
    (blocks, stats)
}

#[test]
fn what_was_written_last_stays_when_room_is_made() {
    let files = Files::new("upkeep-oldest");
    let options = Options::new().policy(AnyPolicy::from(FullBlock::new())).lanes(1);
    let options = options.lane_bytes(512 << 10).thresholds(Thresholds::new(128, 128));
    let disk = files.disk_of(16_384);
    let journal = Journal::format(memory(1 << 20), disk, &options).expect("formats");
    let (blocks, stats) = until_a_tick_writes_home(&journal);
    // A quarter goes home.
    let home = stats.checkpointed;
    assert!((blocks / 4..blocks / 4 + 5).contains(&home.blocks), "{blocks}: {home:?}");
    assert_eq!(home.writes, home.blocks - 2, "two went along with another one");
    assert_eq!(stats.blocks as u64, blocks - home.blocks + 2, "the ring still has these two");
    let is_home = |number: usize| {
        let bytes = std::fs::read(&files.0).expect("reads");
        bytes[number * BLOCK] == 7
    };
    assert!([0, 1, 2, 1000].map(is_home) == [true; 4]);
    assert!([4500, 5000].map(is_home) == [false; 2]);
    // There is room now, for some time.
    (0..10).for_each(|_| write(&journal, 9, 1));
    journal.tick(Duration::from_millis(2)).expect("ticks");
    assert_eq!(journal.stats().expect("counts").checkpoints, 1);
}

/// Three of four blocks in the ring are the newest of theirs.
#[test]
fn copies_take_as_much_of_what_comes_free_as_the_thresholds_say() {
    for (copied, copies) in [(128, false), (224, true)] {
        let files = Files::new(&format!("upkeep-copies-{copied}"));
        let options = Options::new().policy(AnyPolicy::from(FullBlock::new())).lanes(1);
        let options = options.lane_bytes(512 << 10).relogs(true);
        let options = options.thresholds(Thresholds::new(128, 192).with_copied(copied));
        let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
        for number in 0..64 {
            write(&journal, if number % 4 == 0 { 0 } else { number }, 1);
        }
        journal.tick(Duration::from_millis(1)).expect("ticks");
        let stats = journal.stats().expect("counts");
        assert_eq!((stats.copied > 0, stats.checkpoints), (copies, 0), "{copied}: {stats}");
    }
}

#[test]
fn half_of_what_is_in_the_rings_goes_home_where_frames_are_short() {
    let files = Files::new("upkeep-frames");
    let options = Options::new().policy(AnyPolicy::from(FullBlock::new())).lanes(1);
    let options = options.lane_bytes(1 << 20).index_frames(64);
    let disk = files.disk_of(16_384);
    let journal = Journal::format(memory(2 << 20), disk, &options).expect("formats");
    let (blocks, stats) = until_a_tick_writes_home(&journal);
    assert!(blocks < 128, "{stats}");
    let home = stats.checkpointed.blocks;
    assert!((blocks / 2 - 1..blocks / 2 + 4).contains(&home), "{home} of {blocks}");
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

/// A journal of two levels on a small ring, beside a log on the disk.
fn open_two_level(
    files: &Files,
    (lane_bytes, log_blocks): (u64, u32),
    thresholds: Thresholds,
    hook: impl Hook + Clone + Send + Sync + 'static,
) -> DynJournal {
    let policy = TwoLevel::with(TwoLevel::new().settings().compares(false));
    let options = any_options(policy, hook).thresholds(thresholds).lanes(1);
    let options = options.lane_bytes(lane_bytes).lane_log_blocks(log_blocks).segment_blocks(4);
    let disk = DynDisk::new(files.disk_of(512));
    Journal::format(any_memory(1 << 20), disk, &options).expect("formats")
}

fn used(journal: &DynJournal) -> u64 {
    journal.stats().expect("counts").total().used_bytes
}

/// Half of the log holds blocks, and the ring is to be reclaimed. What is moved leaves places in
/// the log behind, which are used again: nothing has to go home.
#[test]
fn what_is_moved_gives_its_places_in_the_log_back() {
    let files = Files::new("upkeep-places");
    let thresholds = Thresholds::new(128, 192);
    let journal = open_two_level(&files, (64 << 10, 64), thresholds, NoHook);
    for number in 0..44 {
        let image: Vec<u8> = (0..BLOCK).map(|at| (at * 7 + at / 256 + number) as u8).collect();
        journal.transact(|tx| tx.write(block(number as u64), &image)).expect("commits");
    }
    for round in 0_u64.. {
        let patch = [(round % 251) as u8 + 1; 4];
        journal.transact(|tx| tx.write_at(block(round % 44), 0, &patch)).expect("commits");
        if used(&journal) > 41 << 10 {
            break;
        }
    }
    journal.tick(Duration::from_secs(1)).expect("ticks");
    let stats = journal.stats().expect("counts");
    assert_eq!(stats.checkpointed.blocks, 0, "{stats}");
    assert!(stats.moved >= 44 && used(&journal) < 32 << 10, "{stats}");
}

/// A timer moves changes to new places in the log: no home is overwritten.
#[test]
fn a_timer_moves_changes_to_the_log_and_writes_nothing_home() {
    let files = Files::new("upkeep-timer");
    let journal = open_two_level(&files, (64 << 10, 64), Thresholds::new(255, 255), NoHook);
    let seconds = Duration::from_secs;
    journal.tick(seconds(1)).expect("ticks");
    for round in 0..4_u64 {
        for number in 0..12 {
            let patch = [round as u8 + 1; 4];
            journal.transact(|tx| tx.write_at(block(number), 8, &patch)).expect("commits");
        }
        journal.tick(seconds(290 + 300 * round)).expect("ticks");
        assert_eq!(journal.stats().expect("counts").moved, 12 * round, "before its time");
        journal.tick(seconds(302 + 300 * round)).expect("ticks");
        let stats = journal.stats().expect("counts");
        assert_eq!((stats.checkpointed.blocks, stats.moved), (0, 12 * (round + 1)), "{stats}");
        assert_eq!(used(&journal), 0, "the ring is empty");
        assert!(files.home(block(3)) == [0; BLOCK], "nothing is there");
    }
    assert_eq!(journal.checkpoint().expect("writes home").blocks, 12, "now all is");
    assert_eq!(files.home(block(3))[8..12], [4; 4]);
}

/// The record that moves all blocks would not fit the ring, so some are moved.
#[test]
fn as_many_blocks_are_moved_as_the_ring_has_room_for() {
    let files = Files::new("upkeep-some");
    let thresholds = Thresholds::new(192, 255);
    let journal = open_two_level(&files, (32 << 10, 256), thresholds, NoHook);
    let patches = [Patch { at: 0, bytes: &[7; 4] }];
    for first in (0..).step_by(10) {
        let operations: Vec<_> = (first % 250..first % 250 + 10)
            .map(|number| Update::new(block(number), Change::Patches(&patches)))
            .map(Operation::Update)
            .collect();
        journal.commit(&operations, Durability::Durable).expect("commits");
        if used(&journal) > 26 << 10 {
            break;
        }
    }
    journal.tick(Duration::from_secs(1)).expect("ticks");
    let stats = journal.stats().expect("counts");
    assert!(stats.moved > 20 && stats.checkpoints == 0, "{stats}");
}

/// Large transactions overwrite more blocks than the log has, so that it is full again and again.
fn overwrite_by_transactions_of(blocks: u64, gathers: u64) {
    let files = Files::new(&format!("upkeep-log-large-{gathers}"));
    let options = any_options(TwoLevel::new(), NoHook).thresholds(Thresholds::new(192, 192));
    let options = options.lanes(1).lane_bytes(512 << 10).lane_log_blocks(128).segment_blocks(4);
    let journal: DynJournal =
        Journal::format(any_memory(2 << 20), DynDisk::new(files.disk_of(512)), &options)
            .expect("formats");
    let rounds = 60;
    for round in 0..rounds {
        let (image, first) = ([round as u8 + 1; BLOCK], round * blocks);
        let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            (first..first + blocks).try_for_each(|number| tx.write(block(number % 300), &image))
        };
        if gathers == 0 {
            journal.transact(write).expect("commits");
        } else {
            journal.transact_gathered(write).expect("gathers");
            if round % gathers == gathers - 1 {
                journal.sync().expect("commits");
            }
        }
    }
    let stats = journal.stats().expect("counts");
    let (logged, stored) = (stats.total().logged - stats.moved, stats.total().bytes);
    assert_eq!(logged, rounds * blocks, "{stats}");
    assert!(stats.checkpointed.blocks > 0 && stored < 100 << 10, "{stored} bytes: {stats}");
}

/// Where the log is full, a transaction makes room in it for all of its blocks. No image goes to
/// the ring.
#[test]
fn a_large_transaction_finds_blocks_of_the_log_for_all_it_has() {
    overwrite_by_transactions_of(24, 0);
}

#[test]
fn so_does_a_transaction_that_is_gathered_with_others() {
    overwrite_by_transactions_of(8, 3);
}

/// Small changes fill the index beside a log that is nearly empty: they are moved there, and
/// hardly any block goes home.
#[test]
fn an_index_keeps_frames_for_what_is_moved() {
    let files = Files::new("upkeep-full-index");
    let options = any_options(TwoLevel::new(), NoHook).lanes(1).lane_bytes(1 << 20);
    let options = options.lane_log_blocks(4096).index_frames(512);
    let journal: DynJournal =
        Journal::format(any_memory(4 << 20), DynDisk::new(files.disk_of(6000)), &options)
            .expect("formats");
    let mut dice = Dice(3);
    for round in 0..4000_u64 {
        let (number, at) = (dice.below(200), dice.below(100) as usize * 32);
        let change = [round as u8; 32];
        journal.transact(|tx| tx.write_at(block(number), at, &change)).expect("commits");
    }
    let Stats { moved, checkpointed, .. } = journal.stats().expect("counts");
    let home = checkpointed.blocks;
    assert!(moved > 1_000 && home < moved / 4, "{moved} moved, {home} home");
}

/// A journal of two levels whose commits make room at their end, in steps of this time.
fn in_commits(
    files: &Files,
    reclaim_at: u8,
    step: Duration,
    hook: impl Hook + Clone + Send + Sync + 'static,
) -> DynJournal {
    let policy = TwoLevel::with(TwoLevel::new().settings().compares(false));
    let options = any_options(policy, hook).thresholds(Thresholds::new(reclaim_at, 255)).lanes(1);
    let options = options.lane_bytes(64 << 10).lane_log_blocks(128).segment_blocks(4);
    let options = options.upkeep_in_commits(true).longest_stop(step);
    Journal::format(any_memory(1 << 20), DynDisk::new(files.disk_of(512)), &options)
        .expect("formats")
}

/// A commit beside a disk-side log takes one step, which moves no more blocks than it has time for.
#[test]
fn a_commit_moves_no_more_to_the_log_than_one_step_does() {
    let files = Files::new("upkeep-log-steps");
    // A step has time for eight blocks.
    let step = Duration::from_nanos(8 * BLOCK as u64);
    let journal = in_commits(&files, 64, step, NoHook);
    let (mut before, mut most) = (0, 0);
    for round in 0..1500_u64 {
        let patch = [round as u8; 4];
        journal.transact(|tx| tx.write_at(block(round % 60), 8, &patch)).expect("commits");
        let stats = journal.stats().expect("counts");
        let now = stats.moved + stats.checkpointed.blocks;
        (most, before) = (most.max(now - before), now);
        assert!(used(&journal) < 32 << 10, "round {round}: {stats}");
    }
    let stats = journal.stats().expect("counts");
    assert!(stats.moved > 60 && most <= 8, "{most} blocks in a commit: {stats}");
    assert!(stats.stops_in_commits > 10 && stats.stops_for_bytes == 0, "{stats}");
    assert_eq!(stats.checkpointed.blocks, 0, "{stats}");
}

/// The most bytes that a ring has in use, where a running transaction has reserved much of it for a
/// while.
fn most_used(without: &[Rule]) -> u64 {
    let files = Files::new("upkeep-running-log");
    let journal = in_commits(&files, 128, Duration::from_millis(1), Mutator::without(without));
    let patch = |number: u64, value: u64| {
        let bytes = value.to_le_bytes();
        journal.transact(|tx| tx.write_at(block(number), 8, &bytes)).expect("commits");
    };
    for number in 0..6 {
        let gathered = journal.transact_gathered(|tx| tx.write_at(block(100 + number), 9, b"x"));
        gathered.expect("gathers");
    }
    let mut most = 0;
    for round in 0.. {
        if used(&journal) > 20 << 10 {
            break;
        }
        patch(round % 60, round);
    }
    journal.sync().expect("commits");
    for round in 0..400 {
        patch(round % 60, round + 1000);
        most = most.max(used(&journal));
    }
    most
}

/// What a running transaction has reserved is no reason to reclaim later, once it has committed.
#[test]
fn thresholds_are_as_they_were_behind_a_running_transaction() {
    let most = most_used(&[]);
    assert!(most < 36 << 10, "{most} bytes");
    let most = most_used(&[Rule::RunningGivesBack]);
    assert!(most > 38 << 10, "without the rule {most} bytes");
}

/// Stops where the log is synced for the first time, until it is told to go on.
#[derive(Clone, Debug)]
struct StopsInLog(Arc<(Barrier, Barrier, AtomicBool)>);

impl Hook for StopsInLog {
    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        let (stops, goes_on, has_stopped) = &*self.0;
        if site.name == "log.sync" && !has_stopped.swap(true, Ordering::SeqCst) {
            stops.wait();
            goes_on.wait();
        }
        device.sync()
    }
}

/// A transaction that has a block waits for one that is being moved, and is told of no conflict:
/// the upkeep waits for nobody.
#[test]
fn transactions_wait_for_blocks_that_are_moved() {
    let files = Files::new("upkeep-waits");
    let gate = Arc::new((Barrier::new(2), Barrier::new(2), AtomicBool::new(false)));
    let hook = StopsInLog(Arc::clone(&gate));
    let journal = &open_two_level(&files, (64 << 10, 64), Thresholds::new(0, 255), hook);
    for round in 0..50_u64 {
        let bytes = round.to_le_bytes();
        journal.transact(|tx| tx.write_at(block(1 + round % 2), 8, &bytes)).expect("commits");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| journal.tick(Duration::from_secs(1)).expect("ticks"));
        gate.0.wait();
        let waits = scope.spawn(|| {
            let mut tx = journal.begin().expect("begins");
            tx.write_at(block(9), 0, b"x").expect("is free");
            tx.write_at(block(1), 0, b"y").expect("is waited for");
            tx.commit().expect("commits");
        });
        gate.1.wait();
        waits.join().expect("no panic");
    });
    // The upkeep may come to what that transaction has changed before it ends.
    let moved = journal.stats().expect("counts").moved;
    assert!((2..=4).contains(&moved), "{moved} blocks were moved");
}

/// Holds the first sync of a checkpoint until it is told to go on.
#[derive(Clone, Debug)]
struct HoldsHome(Arc<(Barrier, Barrier)>);

impl Hook for HoldsHome {
    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        if site.name == "checkpoint.sync" {
            self.0.0.wait();
            self.0.1.wait();
        }
        device.sync()
    }
}

/// A device holds a checkpoint's writes as long as an append takes.
#[test]
fn an_append_does_not_wait_for_a_batch_of_a_checkpoint() {
    let files = Files::new("upkeep-append");
    let gate = Arc::new((Barrier::new(2), Barrier::new(2)));
    let options = any_options(ByteDelta::new(), HoldsHome(Arc::clone(&gate))).lanes(1);
    let journal: &DynJournal =
        &Journal::format(any_memory(2 << 20), files.any_disk(), &options).expect("formats");
    journal.transact(|tx| tx.write(block(1), &[1; BLOCK])).expect("commits");
    std::thread::scope(|scope| {
        scope.spawn(|| journal.checkpoint().expect("writes home"));
        gate.0.wait();
        journal.transact(|tx| tx.append(block(10), &[2; BLOCK])).expect("commits");
        gate.1.wait();
    });
    let stats = journal.stats().expect("counts");
    assert_eq!((stats.total().appended_home, stats.stops_for_home), (1, 0), "{stats}");
    assert!(files.home(block(10)) == [2; BLOCK]);
}

/// Calls when it is asked about an append. These go home, and all else is logged whole.
#[derive(Clone)]
struct Asked(Arc<dyn Fn() + Send + Sync>);

impl Policy for Asked {
    fn id(&self) -> PolicyId {
        PolicyId(0x00A5_CED0)
    }

    fn place(&self, update: &Update<'_>, _out: &mut Encoder<'_>) -> Placement {
        if update.kind != Kind::Append {
            return Placement::Image;
        }
        (self.0)();
        Placement::Home
    }

    fn apply(&self, _payload: &[u8], _block: &mut [u8]) -> Result<(), ApplyError> {
        Err(ApplyError::OutOfBlock { at: 0 })
    }

    fn sends_appends_home(&self) -> bool {
        true
    }
}

/// A batch takes a discarded block when its append has been prepared already. The append waits for
/// the end of the batch, which is a stop.
#[test]
fn an_append_waits_for_the_batch_that_has_its_block() {
    let files = Files::new("upkeep-append-waits");
    let gate = Arc::new((Barrier::new(2), Barrier::new(2)));
    let asked = Arc::new((AtomicU32::new(0), Barrier::new(2), Barrier::new(2)));
    let its = Arc::clone(&asked);
    let policy = Asked(Arc::new(move || {
        // First twice before it is prepared, and then when it is about to go home.
        if its.0.fetch_add(1, Ordering::Relaxed) == 2 {
            its.1.wait();
            its.2.wait();
        }
    }));
    let options = any_options(policy, HoldsHome(Arc::clone(&gate))).lanes(1);
    let journal: &DynJournal =
        &Journal::format(any_memory(2 << 20), files.any_disk(), &options).expect("formats");
    journal.transact(|tx| tx.write(block(1), &[1; BLOCK])).expect("commits");
    journal.transact(|tx| tx.write(block(10), &[1; BLOCK])).expect("commits");
    journal.transact(|tx| tx.discard(block(10))).expect("commits");
    std::thread::scope(|scope| {
        let append = scope.spawn(|| journal.transact(|tx| tx.append(block(10), &[2; BLOCK])));
        asked.1.wait();
        scope.spawn(|| journal.checkpoint().expect("writes home"));
        gate.0.wait();
        asked.2.wait();
        // Now it waits, or is about to.
        std::thread::sleep(Duration::from_millis(20));
        let has_waited = !append.is_finished();
        gate.1.wait();
        append.join().expect("no panic").expect("commits");
        assert!(has_waited);
    });
    let stats = journal.stats().expect("counts");
    assert_eq!((stats.total().appended_home, stats.stops_for_home), (1, 1), "{stats}");
    let longest = stats.longest_stop_for_home;
    assert!(longest > Duration::ZERO && longest <= stats.stopped, "{stats}");
    assert!(files.home(block(10)) == [2; BLOCK]);
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

/// Neighbours that are home are read in one call of the disk, and none of what is logged is.
#[test]
fn a_run_of_blocks_is_read_in_few_calls_of_the_disk() {
    let files = Files::new("read-run-calls");
    let reads = Arc::new(AtomicU64::new(0));
    let disk = DynDisk::new(CountedReads { disk: files.disk(), reads: Arc::clone(&reads) });
    let options = any_options(FullBlock, NoHook).cache_bytes(0);
    let journal = Journal::format(any_memory(2 << 20), disk, &options).expect("formats");
    let write = |number: u64| {
        journal.transact(|tx| tx.write(block(number), &[number as u8; BLOCK])).expect("commits");
    };
    (0..48).for_each(write);
    journal.checkpoint().expect("writes home");
    let calls = || {
        reads.store(0, Ordering::Relaxed);
        let mut run = vec![0; 48 * BLOCK];
        journal.read_run(block(0), &mut run).expect("reads");
        let numbers: Vec<u8> = run.chunks(BLOCK).map(|image| image[0]).collect();
        assert!(numbers.iter().copied().eq(0..48), "{numbers:?}");
        reads.load(Ordering::Relaxed)
    };
    let at_once = calls();
    write(20);
    assert_eq!((at_once, calls()), (1, 2));
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

/// What is gathered has reserved the longest record that it may have. A tick does not take that for
/// used: nothing goes home before the lane holds what makes it.
#[test]
fn what_the_running_transaction_has_reserved_sends_nothing_home() {
    let files = Files::new("upkeep-running");
    let journal = open(&files, ObjectLog::new(), Thresholds::new(128, 192));
    let mut rounds = 0;
    loop {
        let stats = journal.stats().expect("counts");
        if stats.total().used_bytes > stats.lane_bytes / 4 {
            break;
        }
        // Eight blocks, of each of which a few bytes are logged.
        for number in 0..8_u64 {
            let gathered = journal.transact_gathered(|tx| tx.write_at(block(number), 9, &[rounds]));
            gathered.expect("gathers");
        }
        journal.tick(Duration::ZERO).expect("ticks");
        assert_eq!(journal.stats().expect("counts").checkpoints, 0, "round {rounds}");
        journal.sync().expect("commits");
        rounds += 1;
    }
    assert!(rounds > 5, "{rounds} rounds");
}
