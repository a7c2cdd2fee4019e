//! The running transaction: what it takes in, when it commits, and what others see meanwhile.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;

use journal_core::hook::{Hook, Site};
use journal_core::pmem::Pmem;
use journal_core::policy::Pacing;
use journal_core::{MediumError, Policy, Rule};
use lab::erased::{DynJournal, any_options};
use nvm_journal::{
    AnyPolicy, BlockSize, ByteDelta, Durability, Error, FileDisk, FullBlock, Journal, Machine,
    MapOptions, ObjectLog, Operation, Options, Stats,
};
use sim_disk::Mutator;

use crate::use_it::{BLOCK, Files, any_memory, block, memory};

fn journal<L>(files: &Files, options: &Options<L>) -> Journal<L>
where
    L: Policy + Clone + Send + Sync + 'static,
{
    Journal::format(memory(4 << 20), files.disk(), options).expect("formats")
}

fn gather<L: Policy, M: Machine>(journal: &Journal<L, M>, number: u64, byte: u8) {
    journal.transact_gathered(|tx| tx.write(block(number), &[byte; BLOCK])).expect("gathers");
}

fn read<L: Policy, M: Machine>(journal: &Journal<L, M>, number: u64) -> u8 {
    let mut into = vec![0; BLOCK];
    journal.read(block(number), &mut into).expect("reads");
    assert!(into.iter().all(|byte| *byte == into[0]), "a mixture in block {number}");
    into[0]
}

/// Commits, fences and frames.
fn counted(stats: &Stats) -> (u64, u64, u64) {
    let total = stats.total();
    (total.commits, total.fences, total.frames)
}

fn paced(pacing: Pacing) -> Options {
    Options::new().pacing(pacing)
}

#[test]
fn a_thousand_writes_of_ten_blocks_are_one_record_of_ten_frames() {
    let files = Files::new("absorbs");
    let journal = journal(&files, &Options::new());
    for round in 0..1000_u64 {
        gather(&journal, round % 10, round as u8);
        assert_eq!(read(&journal, round % 10), round as u8, "is seen at once");
    }
    let stats = journal.stats().expect("counts");
    assert_eq!((counted(&stats), stats.gathered.waiting), ((0, 0, 0), 1000));
    journal.sync().expect("commits");
    let stats = journal.stats().expect("counts");
    assert_eq!(counted(&stats), (1, 1, 10));
    let gathered = stats.gathered;
    assert_eq!((gathered.transactions, gathered.commits, gathered.waiting), (1000, 1, 0));
    for number in 0..10 {
        assert_eq!(read(&journal, number), (990 + number) as u8);
    }
    journal.sync().expect("has nothing to do");
    assert_eq!(counted(&journal.stats().expect("counts")), (1, 1, 10));
}

/// The image of a block that is discarded stays in memory until the record, or until it is spilled.
#[test]
fn blocks_that_are_written_and_discarded_again_and_again_fill_the_memory() {
    let files = Files::new("discards-fill");
    let journal = journal(&files, &Options::new().buffer_bytes(8 * BLOCK));
    for round in 0..100 {
        gather(&journal, 1, round);
        journal.transact_gathered(|tx| tx.discard(block(1))).expect("gathers");
    }
    let stats = journal.stats().expect("counts");
    assert_eq!(stats.gathered.commits, 100 / 16, "twice its blocks are too much");
}

#[test]
fn what_was_not_synced_is_gone_and_what_was_is_found() {
    for (turn, policy) in (0..).zip(AnyPolicy::ALL.iter().copied()) {
        let files = Files::new(&format!("{turn}-lost"));
        let span = Files::new(&format!("{turn}-lost-span"));
        let _ = std::fs::remove_file(&span.0);
        let options = Options::new().policy(policy).keep_on_close(true);
        let nvm = MapOptions::new().create(&span.0, 4 << 20).expect("a new file");
        let mut journal = Journal::format(nvm, files.disk(), &options).expect("formats");
        for byte in 1..4 {
            (0..20).for_each(|number| gather(&journal, number, byte));
            match byte {
                1 => journal.sync().expect("commits"),
                2 => journal.checkpoint().map(drop).expect("commits, and writes home"),
                _ => {}
            }
        }
        (0..20).for_each(|number| assert_eq!(read(&journal, number), 3));
        for ends in [true, false] {
            if ends {
                drop(journal);
            } else {
                gather(&journal, 19, 4);
                journal.close().expect("commits");
            }
            let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
            let nvm = MapOptions::new().open(&span.0).expect("is there");
            journal = Journal::open(nvm, disk, &options).expect("opens");
            (0..19).for_each(|number| assert_eq!(read(&journal, number), 2, "{policy}"));
            assert_eq!(read(&journal, 19), if ends { 2 } else { 4 }, "{policy}");
        }
    }
}

/// How many running transactions committed by the timer, by their objects, and for room.
fn reasons(stats: &Stats) -> (u64, u64, u64) {
    (stats.gathered.by_timer, stats.gathered.by_objects, stats.gathered.by_room)
}

#[test]
fn it_commits_when_the_buffer_is_full_or_the_lane_or_there_are_objects_enough() {
    let files = Files::new("full");
    let by_buffer = journal(&files, &Options::new().buffer_bytes(8 * BLOCK));
    (0..20).for_each(|number| gather(&by_buffer, number, 1));
    let stats = by_buffer.stats().expect("counts");
    assert_eq!((counted(&stats), stats.gathered.waiting), ((2, 2, 16), 4));
    assert_eq!(reasons(&stats), (0, 0, 2), "by timer, by objects, for room");
    let by_lane = Options::new().lanes(1).lane_bytes(64 << 10).shield_blocks(0);
    let by_lane = journal(&files, &by_lane);
    (0..40).for_each(|number| gather(&by_lane, number, 1));
    by_lane.sync().expect("commits");
    let stats = by_lane.stats().expect("counts");
    let total = stats.total();
    assert!((3..=6).contains(&total.commits), "no more than 15 blocks fit the lane: {stats}");
    assert_eq!((total.fences, total.frames), (total.commits, 40));
    (0..40).for_each(|number| assert_eq!(read(&by_lane, number), 1));
    let pacing = Pacing::new(None, NonZeroU32::new(6), None);
    let by_objects =
        journal(&files, &Options::new().policy(AnyPolicy::from(ObjectLog::new())).pacing(pacing));
    // Two objects in each block; what is written again is there already.
    for round in 0..9_u64 {
        let both = by_objects.transact_gathered(|tx| {
            tx.write_at(block(round / 3), 0, &[round as u8])?;
            tx.write_at(block(round / 3), 512, &[round as u8])
        });
        both.expect("gathers");
    }
    assert_eq!(by_objects.stats().expect("counts").gathered.commits, 0, "six objects");
    let one = by_objects.transact_gathered(|tx| tx.write_at(block(1), 100, b"the first"));
    one.expect("gathers");
    assert_eq!(by_objects.stats().expect("counts").gathered.commits, 0, "the same six");
    let one = by_objects.transact_gathered(|tx| tx.write_at(block(1), 300, b"a third one"));
    one.expect("gathers");
    let stats = by_objects.stats().expect("counts");
    assert_eq!((stats.gathered.commits, stats.gathered.waiting), (1, 1));
    assert_eq!((stats.total().frames, reasons(&stats)), (3, (0, 1, 0)));
    by_objects.sync().expect("commits");
    let stats = by_objects.stats().expect("counts");
    assert_eq!((stats.gathered.commits, reasons(&stats)), (2, (0, 1, 0)), "it was asked for");
}

#[test]
fn it_commits_when_the_hosts_clock_says_so() {
    let files = Files::new("ticks");
    let at = |seconds| Duration::from_secs(seconds);
    let journal = journal(&files, &paced(Pacing::new(Some(at(5)), None, Some(at(60)))));
    journal.tick(at(1000)).expect("has nothing to do");
    gather(&journal, 1, 1);
    journal.tick(at(1004)).expect("waits");
    gather(&journal, 2, 2);
    assert_eq!(journal.stats().expect("counts").gathered.commits, 0);
    journal.tick(at(1005)).expect("commits");
    let stats = journal.stats().expect("counts");
    assert_eq!((stats.gathered.commits, counted(&stats)), (1, (1, 1, 2)));
    assert_eq!(reasons(&stats), (1, 0, 0));
    gather(&journal, 1, 3);
    journal.tick(at(1009)).expect("waits");
    assert_eq!(journal.stats().expect("counts").gathered.waiting, 1);
    journal.tick(at(1059)).expect("commits");
    let stats = journal.stats().expect("counts");
    assert_eq!((stats.gathered.commits, stats.checkpoints), (2, 0));
    journal.tick(at(1060)).expect("makes a checkpoint");
    let stats = journal.stats().expect("counts");
    assert_eq!((stats.checkpoints, stats.checkpointed.blocks), (1, 2));
}

#[test]
fn the_thread_in_the_background_ticks_by_itself() {
    let files = Files::new("own-clock");
    let pacing = Pacing::new(Some(Duration::from_millis(20)), None, None);
    let journal = journal(&files, &paced(pacing).background_checkpoint(true));
    gather(&journal, 1, 1);
    for _ in 0..500 {
        if journal.stats().expect("counts").gathered.commits == 1 {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("nobody commits it");
}

#[test]
fn who_is_not_gathered_is_not_durable_without_what_it_builds_on() {
    let files = Files::new("builds-on");
    let journal = journal(&files, &Options::new());
    let commits = || journal.stats().expect("counts").gathered.commits;
    gather(&journal, 1, 1);
    journal.transact(|tx| tx.write(block(2), &[2; BLOCK])).expect("commits");
    assert_eq!(commits(), 0, "it has nothing to do with it");
    let mut seen = vec![0; BLOCK];
    journal.transact(|tx| tx.read(block(1), &mut seen)).expect("reads");
    assert_eq!((commits(), seen[0]), (1, 1));
    gather(&journal, 1, 3);
    journal.transact_deferred(|tx| tx.write_at(block(1), 0, &[3; 9])).expect("commits");
    assert_eq!(commits(), 2);
    gather(&journal, 1, 4);
    let image = [5; BLOCK];
    let operations = [Operation::write(block(1), &image)];
    journal.commit(&operations, Durability::Durable).expect("commits");
    assert_eq!((commits(), read(&journal, 1)), (3, 5));
    gather(&journal, 1, 6);
    let mut tx = journal.begin().expect("begins");
    tx.write(block(1), &[7; BLOCK]).expect("fits");
    tx.abort();
    assert_eq!((commits(), read(&journal, 1)), (3, 6), "who gives up needs nothing");
    gather(&journal, 1, 7);
    journal.transact_gathered(|tx| tx.discard(block(1))).expect("gathers");
    journal.transact_gathered(|tx| tx.write_at(block(1), 1, &[9])).expect("gathers");
    journal.sync().expect("commits");
    journal.read(block(1), &mut seen).expect("reads");
    assert_eq!((commits(), seen[1]), (4, 9));
}

/// Stops a thread that fences a commit, while it is told to.
#[derive(Clone, Debug, Default)]
struct Slow {
    stops: Arc<AtomicU32>,
    waiting: Arc<AtomicU32>,
}

impl Hook for Slow {
    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        if site.name == "commit.fence" {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            wait_until(|| self.stops.load(Ordering::SeqCst) == 0);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        pmem.fence()
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn writers_go_on_while_what_was_gathered_before_is_committed() {
    let (files, hook) = (Files::new("overlap"), Slow::default());
    let options = any_options(FullBlock, hook.clone());
    let journal = Journal::format(any_memory(4 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    (0..10).for_each(|number| gather(&journal, number, 1));
    hook.stops.store(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| journal.sync());
        wait_until(|| hook.waiting.load(Ordering::SeqCst) == 1);
        // The same blocks, and others; readers find each where it is.
        for number in 5..15 {
            assert_eq!(read(&journal, number), u8::from(number < 10));
            gather(&journal, number, 2);
        }
        (0..15).for_each(|number| assert_eq!(read(&journal, number), 1 + u8::from(number >= 5)));
        assert!(!syncing.is_finished());
        hook.stops.store(0, Ordering::SeqCst);
        syncing.join().expect("does not panic").expect("commits");
    });
    (0..15).for_each(|number| assert_eq!(read(&journal, number), 1 + u8::from(number >= 5)));
    let stats = journal.stats().expect("counts");
    assert_eq!((counted(&stats), stats.gathered.waiting), ((1, 1, 10), 10));
    journal.sync().expect("commits");
    assert_eq!(counted(&journal.stats().expect("counts")), (2, 2, 20));
    (0..15).for_each(|number| assert_eq!(read(&journal, number), 1 + u8::from(number >= 5)));
}

/// Moves amounts between counters, gathered, durable and deferred, from many threads; readers see
/// no counter go where it never was.
fn transfers(policy: AnyPolicy, background: bool) {
    let files = Files::new(&format!("gathered-{policy}-{background}"));
    let options = Options::new().policy(policy).lanes(2).lane_bytes(160 << 10);
    let options = options.lane_slots(if policy.wants_slots() { 20 } else { 0 });
    let options = options.background_checkpoint(background).buffer_bytes(6 * BLOCK);
    let journal: Journal<AnyPolicy> =
        Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let work = |seed: u64| {
        for round in 0..500_u64 {
            let mix = (seed * 7919 + round).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let (from, to) = (mix % 12, (mix >> 20) % 12);
            let body = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
                for (number, step) in [(from, u64::MAX), (to, 1)] {
                    let mut counter = [0; 8];
                    tx.read_at(block(number), 16, &mut counter)?;
                    let counter = u64::from_le_bytes(counter).wrapping_add(step);
                    tx.write_at(block(number), 16, &counter.to_le_bytes())?;
                }
                Ok::<_, Error>(())
            };
            let moved = match (mix >> 40) % 8 {
                0 => journal.transact(body),
                1 => journal.transact_deferred(body),
                _ => journal.transact_gathered(body),
            };
            moved.expect("gets through");
            match round % 97 {
                31 => journal.sync().expect("commits"),
                96 => journal.checkpoint().map(drop).expect("writes home"),
                _ => {}
            }
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|seed| {
            let work = &work;
            scope.spawn(move || work(seed));
        });
    });
    let mut sum = 0_u64;
    let mut content = vec![0; BLOCK];
    for number in 0..12 {
        journal.read(block(number), &mut content).expect("reads");
        let counter = content[16..24].try_into().expect("eight bytes");
        sum = sum.wrapping_add(u64::from_le_bytes(counter));
    }
    assert_eq!(sum, 0, "{policy}: nothing is made and nothing is lost");
    let gathered = journal.stats().expect("counts").gathered;
    assert!(gathered.commits > 10 && gathered.transactions > 1000, "{policy}: {gathered:?}");
    journal.close().expect("closes");
}

#[test]
fn transfers_keep_the_sum_in_running_transactions() {
    for policy in AnyPolicy::ALL {
        for background in [false, true] {
            transfers(*policy, background);
        }
    }
}

#[test]
fn what_runs_fails_with_the_journal_and_is_not_shown() {
    /// Fails the first fence of a commit.
    #[derive(Clone, Copy, Debug)]
    struct Fails;
    impl Hook for Fails {
        fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
            if site.name == "commit.fence" {
                let kind = journal_core::MediumErrorKind::FenceFailed { os: None };
                return Err(MediumError::new(kind, journal_core::Offset(0), 0));
            }
            pmem.fence()
        }
    }
    let files = Files::new("fails");
    let options = any_options(FullBlock, Fails);
    let journal = Journal::format(any_memory(4 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    gather(&journal, 1, 1);
    assert!(matches!(journal.sync(), Err(Error::Medium(_))));
    assert_eq!(journal.read(block(1), &mut [0; BLOCK]), Err(Error::Failed));
    let refused = journal.transact_gathered(|tx| tx.write(block(2), &[2; BLOCK]));
    assert_eq!(refused, Err(Error::Failed));
}

/// A lane of fewer blocks than the tests append, under the policy that sends appends home.
fn homeward(files: &Files, mutator: Mutator, lane_blocks: u64, slots: u32) -> DynJournal {
    let options = any_options(ByteDelta::new(), mutator).lanes(1).lane_slots(slots);
    let options = options.lane_bytes(lane_blocks * BLOCK as u64).pacing(Pacing::default());
    Journal::format(any_memory(4 << 20), files.any_disk(), &options).expect("formats")
}

fn gather_append(journal: &DynJournal, number: u64, byte: u8) -> Result<(), Error> {
    journal.transact_gathered(|tx| tx.append(block(number), &[byte; BLOCK]))
}

#[test]
fn what_goes_home_reserves_no_room_for_images() {
    let files = Files::new("homeward");
    let journal = homeward(&files, Mutator::new(), 16, 8);
    for number in 0..100 {
        gather_append(&journal, number, number as u8).expect("gathers");
    }
    // What is written again and discarded in the same batch.
    journal.transact_gathered(|tx| tx.write_at(block(7), 9, &[7; 80])).expect("gathers");
    journal.transact_gathered(|tx| tx.discard(block(8))).expect("gathers");
    journal.sync().expect("commits");
    let stats = journal.stats().expect("counts");
    assert_eq!((stats.total().commits, stats.total().appended_home), (1, 99), "{stats}");
    assert_eq!(stats.stops_for_bytes + stats.stops_for_slots, 0, "{stats}");
    let numbers = (0..100).filter(|number| ![7, 8].contains(number));
    numbers.for_each(|number| assert_eq!(read(&journal, number), number as u8));
    assert_eq!((read(&journal, 7), read(&journal, 8)), (7, 0));
    assert_eq!(files.home(block(99)), [99; BLOCK]);
}

/// A block that is live does not go home, whatever the store says of it: its image needs room.
#[test]
fn an_append_of_a_known_block_reserves_room_for_its_image() {
    let appended = |mutator: Mutator, gathers: bool| {
        let files = Files::new(&format!("homeward-known-{mutator:?}-{gathers}"));
        let journal = homeward(&files, mutator, 12, 0);
        let all = 0..8;
        for number in all.clone() {
            match gathers {
                // The committing batch has the block, or its record is in the index.
                true => gather(&journal, number, 1),
                false => {
                    journal.transact(|tx| tx.write(block(number), &[1; BLOCK])).expect("commits");
                }
            }
        }
        journal.sync().expect("commits");
        all.clone().try_for_each(|number| gather_append(&journal, number, 2))?;
        journal.sync()?;
        all.for_each(|number| assert_eq!(read(&journal, number), 2));
        Ok::<(), Error>(())
    };
    for gathers in [false, true] {
        appended(Mutator::new(), gathers).expect("commits");
        let without = appended(Mutator::without(&[Rule::HomewardUnknown]), gathers);
        assert!(without.is_err(), "the rule is off, and nothing notices");
    }
}
