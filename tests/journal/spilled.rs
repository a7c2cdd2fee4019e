//! A running transaction that outgrows its memory goes on in active slots: nothing is committed for
//! that, readers see all of it, and it is there as a whole after its record alone.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use journal_core::hook::{Hook, Site};
use journal_core::pmem::Pmem;
use journal_core::{MediumError, MediumErrorKind, Offset};
use lab::erased::any_options;
use lcow::Lcow;
use nvm_journal::{
    AnyJournal, AnyPolicy, BlockSize, Error, FileDisk, Hint, Journal, MapOptions, Options, Stats,
};

use crate::use_it::{BLOCK, Files, any_memory, block, memory};

const BUFFER: usize = 8;

fn options() -> Options<AnyPolicy> {
    let options = Options::new().policy(AnyPolicy::from(Lcow::new())).lanes(1);
    options.lane_bytes(128 << 10).lane_slots(80).buffer_bytes(BUFFER * BLOCK)
}

fn journal(files: &Files, options: &Options<AnyPolicy>) -> AnyJournal {
    Journal::format(memory(2 << 20), files.disk(), options).expect("formats")
}

fn gather(journal: &AnyJournal, number: u64, byte: u8) {
    journal.transact_gathered(|tx| tx.write(block(number), &[byte; BLOCK])).expect("gathers");
}

fn patch(journal: &AnyJournal, number: u64, at: usize, byte: u8) {
    journal.transact_gathered(|tx| tx.write_at(block(number), at, &[byte; 9])).expect("gathers");
}

fn read(journal: &AnyJournal, number: u64) -> Vec<u8> {
    let mut into = vec![0; BLOCK];
    journal.read(block(number), &mut into).expect("reads");
    into
}

fn is_all(journal: &AnyJournal, number: u64, byte: u8) {
    let found = read(journal, number);
    assert!(found == [byte; BLOCK], "block {number} has {} and not {byte}", found[0]);
}

fn stats(journal: &AnyJournal) -> Stats {
    journal.stats().expect("counts")
}

#[test]
fn a_full_memory_spills_without_a_record_and_one_record_names_all() {
    let files = Files::new("spills");
    let journal = journal(&files, &options());
    (0..60).for_each(|number| gather(&journal, number, number as u8));
    let before = stats(&journal);
    assert_eq!((before.total().commits, before.gathered.commits), (0, 0));
    assert_eq!((before.gathered.active, before.gathered.spilled), (56, 56));
    assert_eq!((before.total().fences, before.total().new_slots), (7, 56), "one a spill");
    (0..60).for_each(|number| is_all(&journal, number, number as u8));
    journal.sync().expect("commits");
    let after = stats(&journal);
    assert_eq!((after.total().commits, after.total().frames), (1, 60));
    assert_eq!(after.total().fences, before.total().fences + 1, "one for the record");
    assert_eq!((after.total().new_slots, after.gathered.active), (60, 0));
    // Sixty images would not fit the ring: their names do.
    assert!(after.total().bytes < 4 << 10, "{after}");
    (0..60).for_each(|number| is_all(&journal, number, number as u8));
    journal.checkpoint().expect("writes home");
    (0..60).for_each(|number| assert_eq!(files.home(block(number))[7], number as u8));
}

#[test]
fn a_block_that_is_active_is_changed_in_its_slot() {
    let files = Files::new("in-place");
    let journal = journal(&files, &options());
    for round in 0..20_u8 {
        for number in 0..16 {
            let mut before = match round {
                0 => vec![0; BLOCK],
                _ => read(&journal, number),
            };
            patch(&journal, number, 16 * usize::from(round), round + 1);
            before[16 * usize::from(round)..][..9].fill(round + 1);
            assert_eq!(read(&journal, number), before, "round {round}, block {number}");
        }
    }
    let counted = stats(&journal);
    assert_eq!((counted.total().commits, counted.total().new_slots), (0, 16));
    assert_eq!((counted.gathered.active, counted.gathered.spilled), (16, 320));
    // The last ones are in memory, and in slots.
    (0..4).for_each(|number| patch(&journal, number, 2048, 77));
    journal.transact_gathered(|tx| tx.discard(block(2))).expect("gathers");
    journal.sync().expect("commits");
    let counted = stats(&journal);
    assert_eq!((counted.total().commits, counted.total().frames), (1, 16));
    assert_eq!(counted.total().free_slots, 80 - 15, "the slot of a discarded block is free");
    for number in (0..16).filter(|number| *number != 2) {
        let found = read(&journal, number);
        (0..20).for_each(|round| assert_eq!(found[16 * round], round as u8 + 1));
        assert_eq!((found[9], found[2048]), (0, if number < 4 { 77 } else { 0 }));
    }
    // The next one begins anew: what was committed is not changed.
    (0..16).for_each(|number| gather(&journal, number, 5));
    assert_eq!(stats(&journal).total().new_slots, 16 + 16);
    (0..16).for_each(|number| is_all(&journal, number, 5));
}

#[test]
fn a_block_that_was_discarded_and_written_again_has_its_last_content() {
    let files = Files::new("discards");
    let journal = journal(&files, &options());
    (0..16).for_each(|number| gather(&journal, number, 1));
    for number in 0..16 {
        journal.transact_gathered(|tx| tx.discard(block(number))).expect("gathers");
    }
    (0..16).step_by(2).for_each(|number| patch(&journal, number, 100, 2));
    (16..40).for_each(|number| gather(&journal, number, 3));
    let live = |number: u64| {
        let found = read(&journal, number);
        assert_eq!((found[100], found[108]), (2, 2), "block {number}");
    };
    (0..16).step_by(2).for_each(live);
    journal.sync().expect("commits");
    (0..16).step_by(2).for_each(live);
    (16..40).for_each(|number| is_all(&journal, number, 3));
    let free = stats(&journal).total().free_slots;
    journal.checkpoint().expect("writes home");
    assert!(free >= 80 - 40 && stats(&journal).total().free_slots == 80);
}

/// Metadata stays in memory until the record, which holds its images.
#[test]
fn what_no_slot_takes_stays_in_memory() {
    let files = Files::new("metadata");
    let journal = journal(&files, &options());
    for number in 0..60_u64 {
        let hint = if number % 30 == 0 { Hint::METADATA } else { Hint::DATA };
        let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            tx.write_with(block(number), hint, &[number as u8; BLOCK])
        };
        journal.transact_gathered(write).expect("gathers");
    }
    let counted = stats(&journal);
    assert_eq!((counted.gathered.commits, counted.gathered.waiting), (0, 60));
    journal.sync().expect("commits");
    (0..60).for_each(|number| is_all(&journal, number, number as u8));
    let counted = stats(&journal).total();
    assert_eq!((counted.frames, counted.new_slots), (60, 58));
    // Memory full of it is committed.
    for number in 0..20_u64 {
        let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            tx.write_metadata(block(number), &[9; BLOCK])
        };
        journal.transact_gathered(write).expect("gathers");
    }
    assert_eq!(stats(&journal).gathered.commits, 1 + 2);
}

#[test]
fn when_slots_run_out_room_is_made_or_it_commits() {
    let files = Files::new("runs-out");
    let journal = journal(&files, &options().lane_slots(20));
    for round in 0..6_u8 {
        (0..100).for_each(|number| gather(&journal, number, round + 1));
        (0..100).for_each(|number| is_all(&journal, number, round + 1));
    }
    let counted = stats(&journal);
    assert!(counted.gathered.commits > 20, "no more than 28 blocks each: {counted}");
    journal.sync().expect("commits");
    (0..100).for_each(|number| is_all(&journal, number, 6));
    journal.checkpoint().expect("writes home");
    assert_eq!(stats(&journal).total().free_slots, 20, "no slot is lost");
}

#[test]
fn a_transaction_of_more_than_the_memory_holds_is_one_all_the_same() {
    let files = Files::new("large");
    let journal = journal(&files, &options());
    for byte in 1..4_u8 {
        let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            (0..24).try_for_each(|number| tx.write(block(number), &[byte; BLOCK]))
        };
        journal.transact_gathered(write).expect("gathers");
    }
    let counted = stats(&journal);
    assert_eq!((counted.gathered.commits, counted.gathered.active), (0, 24));
    journal.sync().expect("commits");
    (0..24).for_each(|number| is_all(&journal, number, 3));
    assert_eq!(stats(&journal).total().frames, 24);
}

#[test]
fn what_was_active_is_gone_with_the_process_and_its_slots_are_free() {
    let (files, span) = (Files::new("gone"), Files::new("gone-span"));
    let _ = std::fs::remove_file(&span.0);
    let nvm = MapOptions::new().create(&span.0, 2 << 20).expect("a new file");
    let journal = Journal::format(nvm, files.disk(), &options()).expect("formats");
    (0..30).for_each(|number| gather(&journal, number, 1));
    journal.sync().expect("commits");
    (0..40).for_each(|number| gather(&journal, number, 2));
    assert_eq!(stats(&journal).gathered.active, 40);
    drop(journal);
    let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
    let nvm = MapOptions::new().open(&span.0).expect("is there");
    let journal = Journal::open(nvm, disk, &options()).expect("opens");
    (0..30).for_each(|number| is_all(&journal, number, 1));
    (30..40).for_each(|number| is_all(&journal, number, 0));
    assert_eq!(stats(&journal).total().free_slots, 80 - 30);
}

/// A transaction that is not gathered commits what it touches first, active or not.
#[test]
fn a_durable_transaction_builds_on_what_is_active() {
    let files = Files::new("builds-on-active");
    let journal = journal(&files, &options());
    (0..16).for_each(|number| gather(&journal, number, 1));
    let mut seen = vec![0; BLOCK];
    journal.transact(|tx| tx.read(block(3), &mut seen)).expect("reads");
    assert_eq!((stats(&journal).gathered.commits, seen[0]), (1, 1));
    (0..16).for_each(|number| gather(&journal, number, 2));
    journal.transact(|tx| tx.write_at(block(4), 0, &[3; 4])).expect("commits");
    assert_eq!(stats(&journal).gathered.commits, 2);
    let found = read(&journal, 4);
    assert_eq!((found[3], found[4]), (3, 2));
    (0..16).for_each(|number| gather(&journal, number, 4));
    let mut run = vec![0; 16 * BLOCK];
    journal.read_run(block(0), &mut run).expect("reads");
    assert!(run.iter().all(|byte| *byte == 4));
    assert_eq!(stats(&journal).gathered.commits, 2, "a reader needs no record");
}

/// Threads move amounts between counters in running transactions that spill all the time, beside
/// readers, durable commits and checkpoints.
fn transfers(options: &Options<AnyPolicy>, name: &str) {
    let files = Files::new(&format!("spilled-transfers-{name}"));
    let journal = journal(&files, options);
    let work = |seed: u64| {
        for round in 0..600_u64 {
            let mix = (seed * 7919 + round).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let body = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
                for (number, step) in [(mix % 40, u64::MAX), ((mix >> 20) % 40, 1)] {
                    let mut counter = [0; 8];
                    tx.read_at(block(number), 16, &mut counter)?;
                    let counter = u64::from_le_bytes(counter).wrapping_add(step);
                    tx.write_at(block(number), 16, &counter.to_le_bytes())?;
                }
                Ok::<_, Error>(())
            };
            match (mix >> 40) % 32 {
                0 => journal.transact(body).expect("commits"),
                1 => journal.transact_deferred(body).expect("commits"),
                2 => journal.sync().expect("commits"),
                3 => journal.checkpoint().map(drop).expect("writes home"),
                _ => journal.transact_gathered(body).expect("gathers"),
            }
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|seed| {
            let work = &work;
            scope.spawn(move || work(seed));
        });
    });
    let counters = (0..40).map(|number| {
        let found = read(&journal, number);
        u64::from_le_bytes(found[16..24].try_into().expect("eight bytes"))
    });
    assert_eq!(counters.fold(0_u64, u64::wrapping_add), 0, "nothing is made and nothing is lost");
    let counted = stats(&journal);
    assert!(counted.gathered.spilled > 100, "{name}: {counted}");
    journal.checkpoint().expect("writes home");
    let geometry = *journal.geometry();
    assert_eq!(u64::from(stats(&journal).total().free_slots), geometry.slots(), "none is lost");
    journal.close().expect("closes");
}

#[test]
fn transfers_keep_the_sum_in_running_transactions_that_spill() {
    transfers(&options(), "roomy");
    transfers(&options().lane_slots(20), "short");
    transfers(&options().lane_slots(20).background_checkpoint(true), "short-background");
    transfers(&options().lanes(3).lane_bytes(64 << 10).lane_slots(12), "lanes");
    let compares = Lcow::with(Lcow::new().settings().compares(true));
    transfers(&options().policy(compares.into()).cache_bytes(16 * BLOCK), "compared");
}

/// Goes wrong where a spill fences, or where it flushes.
#[derive(Clone, Copy, Debug)]
struct Fails {
    panics: bool,
}

impl Hook for Fails {
    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        if site.name != "slot.spilled.fence" {
            return pmem.fence();
        }
        assert!(!self.panics, "as it is to");
        Err(MediumError::new(MediumErrorKind::FenceFailed { os: None }, Offset(0), 0))
    }
}

#[test]
fn a_spill_that_fails_or_panics_ends_the_journal() {
    for panics in [false, true] {
        let files = Files::new(&format!("spill-fails-{panics}"));
        let options = any_options(Lcow::new(), Fails { panics }).lanes(1).lane_bytes(128 << 10);
        let options = options.lane_slots(80).buffer_bytes(BUFFER * BLOCK);
        let journal = Journal::format(any_memory(2 << 20), files.any_disk(), &options);
        let journal = journal.expect("formats");
        let gather =
            |number: u64| journal.transact_gathered(|tx| tx.write(block(number), &[1; BLOCK]));
        (0..7).for_each(|number| gather(number).expect("gathers"));
        let full = catch_unwind(AssertUnwindSafe(|| gather(7)));
        match full {
            Ok(ended) => assert!(!panics && matches!(ended, Err(Error::Medium(_))), "{ended:?}"),
            Err(_) => assert!(panics),
        }
        assert_eq!(gather(8), Err(Error::Failed));
        assert_eq!(journal.read(block(1), &mut [0; BLOCK]), Err(Error::Failed));
        assert!(journal.failure().is_some() && journal.sync() == Err(Error::Failed));
    }
}
