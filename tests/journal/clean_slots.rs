//! Slots that hold what was read from the disk: they save reads of the disk, go with the first
//! write, and are given back before a commit goes without one.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use journal_core::hook::{Hook, Rule, Site};
use journal_core::pmem::Pmem;
use journal_core::{NoHook, Offset};
use lab::erased::{AnyMachine, DynDisk, DynHook, DynJournal, DynPolicy, any_options};
use lcow::Lcow;
use nvm_journal::policy::Thresholds;
use nvm_journal::{Durability, Journal, Operation, Options};
use sim_disk::Mutator;

use crate::use_it::{BLOCK, CountedReads, Files, any_memory, block};

fn options_with(hook: impl Hook + Clone + Send + Sync + 'static) -> Options<DynPolicy, DynHook> {
    let options = any_options(Lcow::new(), hook).lanes(2).lane_bytes(128 << 10);
    options.lane_slots(32).clean_slots(24)
}

fn options() -> Options<DynPolicy, DynHook> {
    options_with(NoHook)
}

fn open(files: &Files, options: &Options<DynPolicy, DynHook>) -> (DynJournal, Arc<AtomicU64>) {
    let reads = Arc::new(AtomicU64::new(0));
    let disk = DynDisk::new(CountedReads { disk: files.disk(), reads: Arc::clone(&reads) });
    (Journal::format(any_memory(2 << 20), disk, options).expect("formats"), reads)
}

fn write(journal: &DynJournal, number: u64, byte: u8) {
    let image = [byte; BLOCK];
    let write = [Operation::write(block(number), &image)];
    journal.commit(&write, Durability::Durable).map(drop).expect("commits");
}

fn read(journal: &DynJournal, number: u64) -> u8 {
    let mut into = vec![0; BLOCK];
    journal.read(block(number), &mut into).expect("reads");
    assert!(into.iter().all(|byte| *byte == into[0]), "a mixture in block {number}");
    into[0]
}

/// Writes blocks home, each with its number and one.
fn fill_home(journal: &DynJournal) {
    (0..200).for_each(|number| write(journal, number, number as u8 + 1));
    journal.checkpoint().expect("writes home");
}

#[test]
fn what_is_read_is_read_from_a_slot_the_next_time_until_it_is_written() {
    let files = Files::new("clean");
    let (journal, reads) = open(&files, &options());
    fill_home(&journal);
    reads.store(0, Ordering::Relaxed);
    for _ in 0..5 {
        (0..16).for_each(|number| assert_eq!(read(&journal, number), number as u8 + 1));
    }
    let stats = journal.stats().expect("counts");
    assert_eq!((reads.load(Ordering::Relaxed), stats.cached.slot_hits), (16, 64));
    assert_eq!((stats.cached.in_slots, stats.total().free_slots), (16, 64 - 16));
    // What is written is not read there, nor what a checkpoint has made of it.
    write(&journal, 3, 77);
    journal.transact_gathered(|tx| tx.write(block(4), &[78; BLOCK])).expect("gathers");
    journal.transact(|tx| tx.discard(block(5))).expect("commits");
    assert_eq!((read(&journal, 3), read(&journal, 4)), (77, 78));
    journal.checkpoint().expect("writes home");
    assert_eq!((read(&journal, 3), read(&journal, 4), read(&journal, 6)), (77, 78, 7));
    assert_eq!(reads.load(Ordering::Relaxed), 18);
    // There are no more of them than were asked for, and those read again stay.
    for number in (6..100).chain(0..3) {
        assert_eq!(read(&journal, number), number as u8 + 1);
        read(&journal, 6);
    }
    let before = reads.load(Ordering::Relaxed);
    read(&journal, 6);
    let stats = journal.stats().expect("counts");
    assert_eq!((reads.load(Ordering::Relaxed), stats.cached.in_slots), (before, 24));
    assert_eq!(stats.total().free_slots, 64 - 24);
}

#[test]
fn no_commit_goes_without_a_slot_because_of_them() {
    for background in [false, true] {
        let files = Files::new(&format!("clean-gives-{background}"));
        let (journal, _) = open(&files, &options().lanes(1).background_checkpoint(background));
        (0..200).for_each(|number| write(&journal, number, number as u8 + 1));
        journal.checkpoint().expect("writes home");
        let before = journal.stats().expect("counts").total();
        (100..130).for_each(|number| assert_eq!(read(&journal, number), number as u8 + 1));
        assert!(journal.stats().expect("counts").cached.in_slots > 16);
        // As many in one transaction as there are slots.
        let all = |tx: &mut nvm_journal::Transaction<'_, DynPolicy, AnyMachine>| {
            (0..26).try_for_each(|number| tx.write(block(number), &[9; BLOCK]))
        };
        journal.transact(all).expect("commits");
        let after = journal.stats().expect("counts").total();
        assert_eq!(after.new_slots - before.new_slots, 26, "every block has a slot");
        (0..26).for_each(|number| assert_eq!(read(&journal, number), 9));
        journal.checkpoint().expect("writes home");
        (0..26).for_each(|number| assert_eq!(read(&journal, number), 9));
        (100..130).for_each(|number| assert_eq!(read(&journal, number), number as u8 + 1));
    }
}

/// A commit takes the slots that it needs, and what else was read stays where readers find it.
#[test]
fn no_more_of_them_are_given_back_than_are_wanted() {
    let files = Files::new("clean-few");
    let options = options().lanes(1).thresholds(Thresholds::new(255, 255));
    let (journal, _) = open(&files, &options);
    fill_home(&journal);
    (100..124).for_each(|number| assert_eq!(read(&journal, number), number as u8 + 1));
    let counts = || {
        let stats = journal.stats().expect("counts");
        (stats.cached.in_slots, u64::from(stats.total().free_slots))
    };
    let (before, free) = counts();
    assert!(before >= 16, "{before} hold what was read");
    let more = 4;
    let all = |tx: &mut nvm_journal::Transaction<'_, DynPolicy, AnyMachine>| {
        (0..free + more).try_for_each(|number| tx.write(block(number), &[9; BLOCK]))
    };
    journal.transact(all).expect("commits");
    assert_eq!(counts(), (before - more, 0));
    // Those that are left are still read from.
    let hits = || journal.stats().expect("counts").cached.slot_hits;
    let before = hits();
    (100..124).for_each(|number| assert_eq!(read(&journal, number), number as u8 + 1));
    assert!(hits() > before, "none is read from");
}

#[test]
fn readers_beside_writers_and_checkpoints_find_the_newest() {
    let files = Files::new("clean-threads");
    let options = options().lane_slots(16).background_checkpoint(true);
    let (journal, _) = open(&files, &options);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let journal = &journal;
            scope.spawn(move || {
                let mut newest = [0_u8; 30];
                for round in 0..1_500_u64 {
                    let at = (round * 7 + thread) % 30;
                    if round % 4 == 0 {
                        newest[at as usize] = round as u8;
                        write(journal, thread * 30 + at, round as u8);
                    }
                    if round % 100 == 99 {
                        journal.checkpoint().expect("writes home");
                    }
                    let at = (round * 11 + thread) % 30;
                    assert_eq!(read(journal, thread * 30 + at), newest[at as usize]);
                }
            });
        }
    });
    journal.checkpoint().expect("writes home");
    let stats = journal.stats().expect("counts");
    assert!(stats.cached.slot_hits > 100, "{}", stats.cached.slot_hits);
    let free = u64::from(stats.total().free_slots);
    assert_eq!(free + stats.cached.in_slots, 32, "no slot is lost");
    journal.close().expect("closes");
}

/// Stops a thread that fills a slot, once, until another one has committed the block.
#[derive(Clone, Debug)]
struct Stops {
    keeps: bool,
    is_armed: Arc<AtomicBool>,
    stopped: Arc<Mutex<Sender<Sender<()>>>>,
}

impl Hook for Stops {
    fn keeps(&self, rule: Rule) -> bool {
        self.keeps || rule != Rule::CleanIsHome
    }

    fn store<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        if site.name == "slot.clean" && self.is_armed.swap(false, Ordering::SeqCst) {
            let (go_on, may_go_on) = channel();
            self.stopped.lock().expect("no panic").send(go_on).expect("waits for it");
            may_go_on.recv().expect("commits");
        }
        pmem.store(at, bytes);
    }
}

/// The block is written, in another lane, after it was read and before the slot counts.
#[test]
fn what_was_read_before_a_commit_does_not_count_behind_it() {
    for keeps in [true, false] {
        let files = Files::new(&format!("clean-late-{keeps}"));
        let (stopped, is_stopped) = channel();
        let is_armed = Arc::new(AtomicBool::new(false));
        let stopped = Arc::new(Mutex::new(stopped));
        let hook = Stops { keeps, is_armed: Arc::clone(&is_armed), stopped };
        let (journal, _) = open(&files, &options_with(hook));
        // Block 0 is read into a slot of the first lane.
        is_armed.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(&journal, 0));
            let go_on = is_stopped.recv().expect("fills a slot");
            // The first lane is held: the commit takes the second one.
            write(&journal, 0, 7);
            go_on.send(()).expect("waits");
            assert_eq!(reader.join().expect("does not panic"), 0);
        });
        assert_eq!(read(&journal, 0), 7);
        journal.checkpoint().expect("writes home");
        assert_eq!(read(&journal, 0), if keeps { 7 } else { 0 }, "the rule is needed");
    }
}

/// A step that looks for slots takes those that hold what was read, before it writes home what only
/// slots hold.
#[test]
fn they_are_given_back_before_a_step_writes_anything_home() {
    for gives_first in [true, false] {
        let files = Files::new(&format!("clean-first-{gives_first}"));
        let rules: &[Rule] = if gives_first { &[] } else { &[Rule::CleanFirst] };
        let options = options_with(Mutator::without(rules)).lanes(1).lane_slots(64);
        let options = options.thresholds(Thresholds::new(128, 128));
        let (journal, _) = open(&files, &options);
        fill_home(&journal);
        (100..124).for_each(|number| assert_eq!(read(&journal, number), number as u8 + 1));
        let before = journal.stats().expect("counts");
        assert!(before.cached.in_slots > 16, "{}", before.cached.in_slots);
        (0..20).for_each(|number| write(&journal, number, 9));
        journal.tick(core::time::Duration::from_secs(1)).expect("makes room");
        let after = journal.stats().expect("counts");
        let gone_home = after.checkpointed.blocks - before.checkpointed.blocks;
        assert_eq!(gone_home == 0, gives_first, "{gone_home} blocks have gone home");
        // As many as it needs, and no more.
        let (before, after) = (before.cached.in_slots, after.cached.in_slots);
        assert_eq!(after < before, gives_first, "{after} of {before}");
        assert!(after > 0, "none is left of {before}");
    }
}
