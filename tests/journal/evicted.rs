//! Logged blocks that are pinned beside a disk-side log: what the cache has no room for goes to the
//! log, and reads look into ordinary memory or at the disk.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;

use adaptive::Wish;
use journal_core::{NoHook, Rule};
use lab::erased::{DynDisk, DynHook, DynJournal, DynPmem, DynPolicy, any_options};
use nvm_journal::policy::Policy as _;
use nvm_journal::{
    Adaptive, AnyPolicy, BlockSize, CompressedDelta, Durability, FileDisk, Journal, Lcow,
    MapOptions, Operation, Options, TwoLevel,
};
use sim_disk::{Mutator, Rng};

use crate::pinned::{Watched, own_reads};
use crate::use_it::{BLOCK, Files, block};

/// Blocks that fit in the cache, and blocks that are written.
const CACHED: usize = 24;
const WRITTEN: u64 = 100;

/// Each with the disk-side log in use. What changes little stays in the memory: in the rings, or in
/// slots.
fn policies() -> [AnyPolicy; 5] {
    let adaptive = adaptive::Settings::new().wish(Wish::Wear).bypass_above(128);
    [
        TwoLevel::new().into(),
        CompressedDelta::new().into(),
        Adaptive::with(adaptive).into(),
        Adaptive::with(adaptive.slots(true)).into(),
        Lcow::new().into(),
    ]
}

/// A journal in two files.
struct Made {
    disk: Files,
    nvm: Files,
    options: Options<DynPolicy, DynHook>,
    reads: Arc<AtomicU64>,
}

impl Made {
    fn new(name: &str, policy: AnyPolicy, log_blocks: u32) -> Self {
        Self::with_hook(name, policy, log_blocks, NoHook)
    }

    fn with_hook(
        name: &str,
        policy: AnyPolicy,
        log_blocks: u32,
        hook: impl journal_core::Hook + Send + Sync + Clone + 'static,
    ) -> Self {
        let options = any_options(policy, hook)
            .lanes(2)
            .lane_log_blocks(log_blocks)
            .segment_blocks(8)
            .pins_logged(true)
            .cache_bytes(CACHED * BLOCK);
        let name = format!("evicted-{name}-{policy}");
        let (disk, nvm) = (Files::new(&name), Files::new(&format!("{name}-span")));
        Self { disk, nvm, options, reads: Arc::default() }
    }

    fn watched(&self, region: nvm_journal::Region) -> DynPmem {
        DynPmem::new(Watched { region, reads: Arc::clone(&self.reads) })
    }

    fn format(&self) -> DynJournal {
        let _ = std::fs::remove_file(&self.nvm.0);
        let region = MapOptions::new().create(&self.nvm.0, 2 << 20).expect("a new file");
        let disk = DynDisk::new(self.disk.disk_of(1024));
        Journal::format(self.watched(region), disk, &self.options).expect("formats")
    }

    fn open(&self) -> DynJournal {
        let region = MapOptions::new().open(&self.nvm.0).expect("is there");
        let disk = FileDisk::open(&self.disk.0, BlockSize::DEFAULT).expect("is there");
        Journal::open(self.watched(region), DynDisk::new(disk), &self.options).expect("opens")
    }

    /// Reads all blocks, none of them from persistent memory.
    fn holds(&self, journal: &DynJournal, model: &[Vec<u8>]) {
        let before = self.reads.load(Ordering::Relaxed);
        let mut found = vec![0; BLOCK];
        for (number, expected) in (0..).zip(model) {
            journal.read(block(number), &mut found).expect("reads");
            assert!(found == *expected, "block {number}");
            journal.read_at(block(number), 99, &mut found[..30]).expect("reads");
            assert!(found[..30] == expected[99..129], "block {number}");
        }
        assert_eq!(self.reads.load(Ordering::Relaxed), before, "persistent memory was read");
    }
}

/// Changes blocks by patches, images, metadata and in one call.
fn change(journal: &DynJournal, model: &mut [Vec<u8>], round: u64) {
    let number = round * 7 % WRITTEN;
    let (now, at) = (&mut model[number as usize], (round * 13 % 3000) as usize);
    let byte = round as u8;
    match round % 8 {
        0 => {
            now.fill(byte);
            let write = [Operation::write(block(number), now)];
            journal.commit(&write, Durability::Durable).map(drop).expect("commits");
        }
        1 => {
            now.fill(byte);
            let image = [byte; BLOCK];
            journal.transact(|tx| tx.write_metadata(block(number), &image)).expect("commits");
        }
        2 => {
            now.fill(0);
            journal.transact(|tx| tx.discard(block(number))).expect("commits");
            now[..].fill(byte);
            journal.transact(|tx| tx.write(block(number), &[byte; BLOCK])).expect("commits");
        }
        3 => {
            now[at..at + 9].fill(byte);
            let patch = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
                tx.write_at(block(number), at, &[byte; 9])
            };
            journal.transact_gathered(patch).expect("gathers");
        }
        _ => {
            now[at..at + 9].fill(byte);
            journal.transact(|tx| tx.write_at(block(number), at, &[byte; 9])).expect("commits");
        }
    }
}

#[test]
fn what_the_cache_has_no_room_for_goes_to_the_log_and_nothing_goes_home() {
    for policy in policies() {
        let made = Made::new("bound", policy, 256);
        let journal = made.format();
        let mut model = vec![vec![0; BLOCK]; WRITTEN as usize];
        for round in 0..800 {
            change(&journal, &mut model, round);
            let stats = journal.stats().expect("counts");
            assert!(stats.cached.pinned <= CACHED && stats.cached.blocks <= CACHED, "{stats}");
            if round % 50 == 0 {
                journal.sync().expect("commits what is gathered");
                made.holds(&journal, &model);
            }
        }
        journal.sync().expect("commits what is gathered");
        made.holds(&journal, &model);
        let stats = journal.stats().expect("counts");
        assert!(stats.moved > 100 && stats.stops_for_frames > 0, "{policy}: {stats}");
        assert_eq!(stats.checkpointed.blocks, 0, "{policy}: nothing goes home: {stats}");
        assert!(stats.cached.pinned > 0, "{policy}: {stats}");
        // What an open finds in the memory goes to the log as well.
        drop(journal);
        let journal = made.open();
        let stats = journal.stats().expect("counts");
        assert_eq!((stats.cached.pinned, stats.checkpointed.blocks), (0, 0), "{policy}: {stats}");
        made.holds(&journal, &model);
        (800..1000).for_each(|round| change(&journal, &mut model, round));
        journal.sync().expect("commits what is gathered");
        made.holds(&journal, &model);
        journal.close().expect("closes");
    }
}

/// The log has hardly more room than there are blocks: its cleaner writes some of them home.
#[test]
fn only_the_cleaner_of_a_log_that_is_short_writes_home() {
    for policy in policies() {
        let made = Made::new("cleaned", policy, 48);
        let journal = made.format();
        let mut model = vec![vec![0; BLOCK]; WRITTEN as usize];
        for round in 0..1200 {
            change(&journal, &mut model, round);
            let stats = journal.stats().expect("counts");
            assert!(stats.cached.pinned <= CACHED, "{stats}");
            let used = 2 * 48 - stats.lanes.iter().map(|it| it.free_log_blocks).sum::<u32>();
            assert!(used > 24 || stats.checkpointed.blocks == 0, "the log has room: {stats}");
        }
        journal.sync().expect("commits what is gathered");
        made.holds(&journal, &model);
        let stats = journal.stats().expect("counts");
        assert!(stats.checkpointed.blocks > 0 && stats.moved > 100, "{policy}: {stats}");
        drop(journal);
        made.holds(&made.open(), &model);
    }
}

#[test]
fn threads_evict_what_others_have_pinned() {
    let made = Made::new("threads", TwoLevel::new().into(), 256);
    let journal = made.format();
    std::thread::scope(|scope| {
        for writer in 0..3_u64 {
            let journal = &journal;
            scope.spawn(move || {
                for round in 0..300_u64 {
                    let number = 3 * (round * 7 % 30) + writer;
                    let bytes = round.to_le_bytes();
                    let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
                        tx.write_at(block(number), 8, &bytes)?;
                        tx.write_at(block(90 + number % 5), 8 * writer as usize, &bytes)
                    };
                    journal.transact(write).expect("commits");
                    let mut found = [0; 8];
                    journal.read_at(block(number), 8, &mut found).expect("reads");
                    assert_eq!(found, bytes, "block {number}");
                }
            });
        }
        scope.spawn(|| {
            let (mut found, before) = (vec![0; BLOCK], own_reads());
            for round in 0..6_000_u64 {
                journal.read(block(round % 95), &mut found).expect("reads");
            }
            // A reader that has waited long for a commit looks into the memory.
            assert!(own_reads() - before < 60, "{} reads", own_reads() - before);
        });
    });
    let stats = journal.stats().expect("counts");
    assert!(stats.moved > 100 && stats.cached.pinned <= CACHED, "{stats}");
    assert_eq!(stats.checkpointed.blocks, 0, "{stats}");
    for number in 0..90_u64 {
        let last = (0..300).rev().find(|round| round * 7 % 30 == number / 3).expect("was written");
        let mut found = [0; 8];
        journal.read_at(block(number), 8, &mut found).expect("reads");
        assert_eq!(u64::from_le_bytes(found), last, "block {number}");
    }
}

/// How many transactions each thread makes, and how many blocks each of them changes.
const ROUNDS: u64 = 300;
const TOGETHER: usize = 3;

/// A thread's changes: in each block it has a word of its own, with the number of its last round
/// there. Returns those numbers.
fn write_rounds(journal: &DynJournal, writer: u64, blocks: u64, cached: usize) -> Vec<u64> {
    let mut rng = Rng::new(0xE71C + writer);
    let mut last = vec![0; blocks as usize];
    let at = 8 * writer as usize;
    for round in 1..=ROUNDS {
        let mut changed = BTreeSet::new();
        while changed.len() < TOGETHER {
            changed.insert(rng.below(blocks));
        }
        let mut changed: Vec<_> = changed.into_iter().collect();
        // In any order: threads that have blocks wait for each other.
        if rng.below(2) == 0 {
            changed.reverse();
        }
        let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            changed.iter().try_for_each(|it| tx.write_at(block(*it), at, &round.to_le_bytes()))
        };
        match rng.below(8) {
            0 => journal.transact_gathered(write).expect("gathers"),
            1 => journal.transact_deferred(write).expect("commits"),
            _ => journal.transact(write).expect("commits"),
        }
        changed.iter().for_each(|it| last[*it as usize] = round);
        if round % 4 == writer % 4 {
            let stats = journal.stats().expect("counts");
            assert!(stats.cached.pinned <= cached, "{stats}");
        }
        let one = rng.below(blocks);
        let mut found = [0; 8];
        journal.read_at(block(one), at, &mut found).expect("reads");
        assert_eq!(u64::from_le_bytes(found), last[one as usize], "block {one}, {writer}, {round}");
    }
    last
}

/// Eight threads have some blocks each, in a cache that has room for little more, while the log and
/// the rings are full. All of them end.
#[test]
fn threads_with_a_tiny_cache_and_a_full_log_come_to_an_end() {
    const BLOCKS: u64 = 60;
    let [levels, compressed, _, in_slots, cow] = policies();
    let cases = [(levels, 16, 12), (compressed, 8, 6), (in_slots, 16, 12), (cow, 16, 12)];
    for (at, (policy, log_blocks, cached)) in cases.into_iter().enumerate() {
        let (tell, told) = std::sync::mpsc::channel();
        let writers = std::thread::spawn(move || {
            let mut made = Made::new(&format!("tiny-{at}"), policy, log_blocks);
            made.options = made.options.cache_bytes(cached * BLOCK).lane_bytes(64 << 10);
            if policy.wants_slots() {
                made.options = made.options.lane_slots(7);
            }
            let journal = made.format();
            let last: Vec<_> = std::thread::scope(|scope| {
                let writer = |number| {
                    let journal = &journal;
                    scope.spawn(move || write_rounds(journal, number, BLOCKS, cached))
                };
                let writers: Vec<_> = (0..8).map(writer).collect();
                writers.into_iter().map(|it| it.join().expect("goes on")).collect()
            });
            journal.sync().expect("commits what is gathered");
            let stats = journal.stats().expect("counts");
            assert!(stats.moved > 0 && stats.cached.pinned <= cached, "{policy}: {stats}");
            let mut model = vec![vec![0; BLOCK]; BLOCKS as usize];
            for (writer, last) in last.iter().enumerate() {
                for (image, round) in model.iter_mut().zip(last) {
                    image[8 * writer..][..8].copy_from_slice(&round.to_le_bytes());
                }
            }
            made.holds(&journal, &model);
            // Nothing is reserved any more: one transaction may have all of the cache.
            let all = journal.transact(|tx| {
                (0..cached as u64).try_for_each(|it| tx.write_at(block(it), 4000, &[7]))
            });
            all.expect("fits");
            model[..cached].iter_mut().for_each(|image| image[4000] = 7);
            drop(journal);
            made.holds(&made.open(), &model);
            tell.send(()).expect("is awaited");
        });
        let ended = told.recv_timeout(Duration::from_secs(200));
        assert!(ended != Err(RecvTimeoutError::Timeout), "{policy}: somebody waits for ever");
        writers.join().expect("does not panic");
    }
}

/// The cache has room for all blocks, and the rings and slots have not: what they hold goes to the
/// log too, by the steps of transactions and by ticks.
#[test]
fn what_the_rings_and_slots_have_no_room_for_goes_to_the_log() {
    let [levels, .., cow] = policies();
    for (policy, ticks) in [(levels, false), (levels, true), (cow, false), (cow, true)] {
        let mut made = Made::new("rings", policy, 256);
        made.options = made.options.cache_bytes(64 * BLOCK).lane_bytes(96 << 10);
        if policy.wants_slots() {
            made.options = made.options.lane_slots(9);
        }
        let journal = made.format();
        let mut model = vec![vec![0; BLOCK]; 40];
        for round in 0..200_usize {
            let number = round * 7 % model.len();
            model[number].fill(round as u8);
            let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| match policy.wants_slots() {
                true => tx.write(block(number as u64), &model[number]),
                false => tx.write_metadata(block(number as u64), &model[number]),
            };
            journal.transact(write).expect("commits");
            if ticks {
                journal.tick(Duration::from_millis(round as u64)).expect("makes room");
            }
        }
        let stats = journal.stats().expect("counts");
        assert!(stats.moved > 0 && stats.stops_for_frames == 0, "{policy}: {stats}");
        assert_eq!(stats.checkpointed.blocks, 0, "{policy}, {ticks}: {stats}");
        made.holds(&journal, &model);
    }
}

/// EV4: what an open transaction has stays. Who needs room waits for it, and writes nothing home.
#[test]
fn nothing_goes_home_while_all_pinned_blocks_are_taken() {
    const TAKEN: u64 = CACHED as u64 * 2 / 3;
    let made = Made::new("taken", TwoLevel::new().into(), 256);
    let journal = made.format();
    let write = |number: u64, byte: u8| {
        journal.transact(|tx| tx.write_at(block(number), 0, &[byte])).expect("commits");
    };
    (0..TAKEN).for_each(|it| write(it, 1));
    let mut taken = journal.begin().expect("begins");
    (0..TAKEN).for_each(|it| taken.write_at(block(it), 0, &[2]).expect("is pinned already"));
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..2).map(|it| scope.spawn(move || write(50 + it, 3))).collect();
        std::thread::sleep(Duration::from_millis(100));
        let stats = journal.stats().expect("counts");
        assert_eq!((stats.moved, stats.checkpointed.blocks), (0, 0), "{stats}");
        taken.commit().expect("commits");
        others.into_iter().for_each(|it| it.join().expect("ends"));
    });
    let stats = journal.stats().expect("counts");
    assert_eq!(stats.checkpointed.blocks, 0, "{stats}");
    let mut found = [0; 1];
    for (number, byte) in (0..TAKEN).map(|it| (it, 2)).chain([(50, 3), (51, 3)]) {
        journal.read_at(block(number), 0, &mut found).expect("reads");
        assert_eq!(found, [byte], "block {number}");
    }
}

/// EV4: a transaction does not wait for itself. It begins anew at a conflict, as any host may, and
/// in the same order.
#[test]
fn what_a_transaction_has_itself_goes_home_for_it() {
    const TAKEN: u64 = CACHED as u64 * 2 / 3;
    let made = Made::new("own", TwoLevel::new().into(), 256);
    let journal = made.format();
    for it in 0..TAKEN {
        journal.transact(|tx| tx.write_at(block(it), 0, &[1])).expect("commits");
    }
    let all = (0..TAKEN).chain([50]);
    let once = || -> Result<(), nvm_journal::Error> {
        let mut tx = journal.begin()?;
        all.clone().try_for_each(|it| tx.write_at(block(it), 0, &[2]))?;
        tx.commit().map(drop)
    };
    assert!((0..8).any(|_| once().is_ok()), "it does not come to an end");
    let mut found = [0; 1];
    for it in all {
        journal.read_at(block(it), 0, &mut found).expect("reads");
        assert_eq!(found, [2], "block {it}");
    }
}

/// Nor does it wait for itself where it has only read what is pinned.
#[test]
fn what_a_transaction_has_read_itself_goes_home_for_it() {
    let made = Made::new("own-read", TwoLevel::new().into(), 256);
    let journal = made.format();
    for it in 0..CACHED as u64 {
        journal.transact(|tx| tx.write_at(block(it), 0, &[1])).expect("commits");
    }
    let mut found = vec![0; BLOCK];
    let mut once = || -> Result<(), nvm_journal::Error> {
        let mut tx = journal.begin()?;
        (0..CACHED as u64).try_for_each(|it| tx.read(block(it), &mut found).map(drop))?;
        tx.write_at(block(50), 0, &[2])?;
        tx.commit().map(drop)
    };
    assert!((0..8).any(|_| once().is_ok()), "it does not come to an end");
    journal.read_at(block(50), 0, &mut found[..1]).expect("reads");
    assert_eq!(found[0], 2);
}

/// EV2: a block that is read again and again stays, however long ago it was changed.
#[test]
fn what_is_used_is_evicted_last() {
    const MARK: [u8; 24] = *b"what is read stays where";
    let is_on_disk = |reads: bool| {
        let made = Made::new("used", TwoLevel::new().into(), 256);
        let journal = made.format();
        let mut found = vec![0; BLOCK];
        for round in 0..150 {
            journal.transact(|tx| tx.write_at(block(1 + round % 60), 0, &[1])).expect("commits");
            if round == 40 {
                journal.transact(|tx| tx.write_at(block(0), 0, &MARK)).expect("commits");
            }
            if reads {
                journal.read(block(0), &mut found).expect("reads");
            }
        }
        assert!(journal.stats().expect("counts").moved > 40);
        let disk = std::fs::read(&made.disk.0).expect("the disk's file");
        disk.windows(MARK.len()).any(|bytes| bytes == MARK)
    };
    assert!(!is_on_disk(true) && is_on_disk(false));
}

/// EV6: a transaction that finds the cache full moves as many blocks as a step has the time for.
/// The others of the list go in later steps, if nothing has changed or used them meanwhile.
#[test]
fn an_eviction_moves_no_more_blocks_than_a_step_has_time_for() {
    let most_moved = |longest_stop: Duration| {
        let mut made = Made::new("step", TwoLevel::new().into(), 256);
        made.options = made.options.cache_bytes(4 * CACHED * BLOCK).longest_stop(longest_stop);
        let journal = made.format();
        let mut model = vec![vec![0; BLOCK]; 300];
        let (mut most, mut before) = (0, 0);
        for round in 0..450_u64 {
            let number = round * 7 % 300;
            model[number as usize][40..43].fill(round as u8);
            journal.transact(|tx| tx.write_at(block(number), 40, &[round as u8; 3])).expect("fits");
            let moved = journal.stats().expect("counts").moved;
            (most, before) = (most.max(moved - before), moved);
        }
        made.holds(&journal, &model);
        let stats = journal.stats().expect("counts");
        assert_eq!(stats.checkpointed.blocks, 0, "nothing goes home");
        assert!(stats.moved > 300, "{}", stats.moved);
        drop(journal);
        made.holds(&made.open(), &model);
        most
    };
    assert_eq!(most_moved(Duration::from_nanos(1)), 1);
    assert_eq!(most_moved(Duration::from_nanos(3 * BLOCK as u64)), 3);
    assert!(most_moved(Duration::from_millis(1)) > 3);
}

/// A transaction may change as many blocks as the cache has room for, and no more.
#[test]
fn a_transaction_that_changes_more_blocks_than_fit_is_refused() {
    let made = Made::new("refused", TwoLevel::new().into(), 256);
    let journal = made.format();
    let change = |blocks: u64| {
        journal.transact(|tx| (0..blocks).try_for_each(|it| tx.write_at(block(it), 0, &[1])))
    };
    for _ in 0..3 {
        change(CACHED as u64).expect("fits");
        let refused = change(CACHED as u64 + 1).expect_err("does not");
        assert!(matches!(refused, nvm_journal::Error::TooManyBlocks { .. }), "{refused}");
    }
    assert_eq!(journal.stats().expect("counts").checkpointed.blocks, 0);
}

/// What the first block has, in the log.
const MARK: [u8; 24] = *b"what lies in the log has";

/// A journal with a cache of eight blocks. Its first block has rotted in the log, and a change of
/// that block lies at the head of a ring.
fn with_one_unreadable(name: &str, lanes: u16, log_blocks: u32) -> (Made, DynJournal) {
    let mut made = Made::new(name, TwoLevel::new().into(), log_blocks);
    made.options = made.options.lanes(lanes).lane_bytes(32 << 10).cache_bytes(8 * BLOCK);
    let journal = made.format();
    let mut image = vec![7; BLOCK];
    image[..MARK.len()].copy_from_slice(&MARK);
    journal.transact(|tx| tx.write(block(0), &image)).expect("commits");
    journal.transact(|tx| tx.write_at(block(0), 99, &[1])).expect("commits");
    drop(journal);
    let mut disk = std::fs::read(&made.disk.0).expect("the disk's file");
    let at = disk.windows(MARK.len()).position(|bytes| bytes == MARK);
    disk[at.expect("is in the log")] ^= 1;
    std::fs::write(&made.disk.0, disk).expect("is written");
    let journal = made.open();
    assert_eq!(journal.unreadable(), Ok(vec![block(0)]));
    (made, journal)
}

/// Fails if a test takes longer than this.
fn within(seconds: u64, what: &str, test: impl FnOnce() + Send + 'static) {
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        tell.send(()).expect("is awaited");
    });
    let ended = told.recv_timeout(Duration::from_secs(seconds));
    assert!(ended != Err(RecvTimeoutError::Timeout), "{what}: it waits for ever");
    thread.join().expect("does not panic");
}

/// The cache is full all the time, and the log is too, unless it is long. Nobody waits for
/// ever: transactions go on, or are told what keeps them. What replaces the block ends it.
#[test]
fn what_cannot_be_read_keeps_nobody_waiting_for_the_cache() {
    type Cure = fn(&DynJournal) -> Result<(), nvm_journal::Error>;
    let cures: [Cure; 3] = [
        |journal| journal.transact(|tx| tx.write(block(0), &[8; BLOCK])),
        |journal| journal.transact(|tx| tx.write_metadata(block(0), &[8; BLOCK])),
        |journal| journal.transact(|tx| tx.discard(block(0))),
    ];
    let cases = [8, 24, 256].into_iter().flat_map(|log| (0..).zip(cures).map(move |it| (log, it)));
    for (log_blocks, (at, cure)) in cases {
        let name = format!("unreadable-{log_blocks}-{at}");
        within(100, &name.clone(), move || {
            let (_made, journal) = with_one_unreadable(&name, 2, log_blocks);
            let change = |round: u64| {
                let number = block(1 + round * 7 % 60);
                match round % 3 {
                    0 => journal
                        .commit(&[Operation::write(number, &[1; BLOCK])], Durability::Durable)
                        .map(drop),
                    1 => journal.transact_gathered(|tx| tx.write_at(number, 0, &[1])),
                    _ => journal.transact(|tx| tx.write_at(number, 0, &[1])),
                }
            };
            let refused = (0..2000).find_map(|round| change(round).err());
            let expected = nvm_journal::Error::Unreadable { block: block(0) };
            assert!(refused.is_none_or(|error| error == expected), "{name}: {refused:?}");
            cure(&journal).expect("ends it");
            (0..200).try_for_each(change).expect("goes on");
        });
    }
}

/// A transaction has all that is pinned, and a block cannot be read. There is room in the log, so
/// another transaction waits, and goes on when the first one has ended.
#[test]
fn beside_what_cannot_be_read_a_transaction_waits_for_those_that_will_end() {
    within(100, "waits", || {
        let (_made, journal) = with_one_unreadable("waits", 1, 256);
        let mut all = 1..=8;
        let pin = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            all.try_for_each(|it| tx.write_at(block(it), 0, &[1]))
        };
        journal.transact(pin).expect("fits");
        let mut first = journal.begin().expect("begins");
        (1..=8).try_for_each(|it| first.write_at(block(it), 0, &[2])).expect("are pinned");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| journal.transact(|tx| tx.write_at(block(9), 0, &[1])));
            std::thread::sleep(Duration::from_millis(300));
            assert!(!second.is_finished(), "it waits");
            first.commit().expect("commits");
            second.join().expect("goes on").expect("finds room");
        });
    });
}

/// Without the rule blocks go home from the cache, over what is there.
#[test]
fn without_its_rule_an_eviction_writes_home() {
    let without = |rules: &[Rule]| {
        let hook = Mutator::without(rules);
        let made = Made::with_hook("rule", TwoLevel::new().into(), 256, hook);
        let journal = made.format();
        for number in 0..WRITTEN {
            journal.transact(|tx| tx.write_at(block(number), 0, &[1])).expect("commits");
        }
        let stats = journal.stats().expect("counts");
        (stats.moved > 0, stats.checkpointed.blocks > 0)
    };
    assert_eq!(without(&[]), (true, false));
    assert!(without(&[Rule::EvictedToLog]).1);
}
