//! Images that are written whole, and compared with what ordinary memory keeps of their blocks.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::thread;

use journal_core::policy::{Change, Kind, Patch, Policy as _, Span, Update};
use journal_core::{Offset, Pmem as _, PmemRead as _, PmemShare as _};
use nvm_journal::{
    AnyPolicy, BlockSize, ByteDelta, Durability, FileDisk, FullBlock, Journal, Lcow, ObjectLog,
    Operation, Options, Region,
};

use crate::claims::Dice;
use crate::use_it::{BLOCK, Files, block, memory};

const SPAN_BYTES: u64 = 8 << 20;

/// Bytes that are logged of a whole image, with its header, its name and the check.
const WHOLE: u64 = 4224;

fn object_log(compares: bool) -> AnyPolicy {
    let settings = object_log::Settings::new().compares(compares);
    ObjectLog::with(settings).expect("settings that can be").into()
}

fn lcow(compares: bool) -> AnyPolicy {
    Lcow::with(lcow::Settings::new().compares(compares)).into()
}

fn byte_delta(compares: bool) -> AnyPolicy {
    ByteDelta::with(byte_delta::Settings::new().compares(compares)).into()
}

fn format(files: &Files, options: &Options<AnyPolicy>) -> Journal<AnyPolicy> {
    Journal::format(memory(SPAN_BYTES), files.disk(), options).expect("formats")
}

/// Bytes of records, and slots that were written.
fn logged(journal: &Journal<AnyPolicy>) -> (u64, u64) {
    let total = journal.stats().expect("goes on").total();
    (total.bytes, total.new_slots + total.rewritten_slots)
}

/// How an image is written.
#[derive(Clone, Copy, Debug)]
enum Way {
    Transaction,
    Call,
    Beside,
    Gathered,
}

const WAYS: [Way; 4] = [Way::Transaction, Way::Call, Way::Beside, Way::Gathered];

/// The block that is written beside another one.
const OTHER: u64 = 40;

/// Writes an image; returns what that has logged. Beside it a patch of another block is logged, if
/// the way is that, and is not counted.
fn write(journal: &Journal<AnyPolicy>, way: Way, number: u64, image: &[u8]) -> (u64, u64) {
    let before = logged(journal);
    let operation = Operation::write(block(number), image);
    match way {
        Way::Transaction => journal.transact(|tx| tx.write(block(number), image)),
        Way::Call => journal.commit(&[operation], Durability::Durable).map(drop),
        Way::Beside => {
            let patches = [Patch { at: 0, bytes: b"beside" }];
            let update = Update::new(block(OTHER), Change::Patches(&patches));
            let both = [operation, Operation::Update(update)];
            journal.commit(&both, Durability::Durable).map(drop)
        }
        Way::Gathered => journal
            .transact_gathered(|tx| tx.write(block(number), image))
            .and_then(|()| journal.sync()),
    }
    .expect("commits");
    let after = logged(journal);
    let mut found = vec![0; BLOCK];
    journal.read(block(number), &mut found).expect("reads");
    assert!(found == image, "{way:?}");
    (after.0 - before.0, after.1 - before.1)
}

fn noise(seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed);
    (0..BLOCK / 8).flat_map(|_| dice.below(u64::MAX).to_le_bytes()).collect()
}

#[test]
fn of_an_image_the_objects_that_differ_are_logged_and_nothing_of_an_identical_one() {
    for way in WAYS {
        for compares in [false, true] {
            let files = Files::new(&format!("compared-objects-{way:?}-{compares}"));
            // The cache is there in both cases, and makes no difference by itself.
            let options = Options::new().policy(object_log(compares)).cache_bytes(1 << 20);
            let journal = format(&files, &options);
            let mut image = noise(1);
            let bytes = |image: &[u8]| write(&journal, way, 3, image).0;
            let first = bytes(&image);
            assert!(first >= WHOLE, "{way:?}: {first}");
            let identical = bytes(&image);
            image[1000] ^= 1;
            let one_object = bytes(&image);
            let other = noise(2);
            let all = bytes(&other);
            assert!(all >= WHOLE, "{way:?}: {all}");
            let beside = if matches!(way, Way::Beside) { 2 * 64 } else { 0 };
            if compares {
                assert_eq!((identical, one_object), (beside, 384), "{way:?}");
            } else {
                assert!(identical >= WHOLE && one_object >= WHOLE, "{way:?}");
            }
        }
    }
}

#[test]
fn an_identical_image_takes_no_slot() {
    for (name, policy) in [("lcow", lcow as fn(bool) -> _), ("byte-delta", byte_delta)] {
        let logs_few = |compares| compares && name == "byte-delta";
        for way in WAYS {
            for compares in [false, true] {
                let files = Files::new(&format!("compared-{name}-{way:?}-{compares}"));
                let options = Options::new().policy(policy(compares)).cache_bytes(1 << 20);
                let journal = format(&files, &options);
                let mut image = noise(1);
                assert_eq!(write(&journal, way, 3, &image).1, 1);
                let (bytes, slots) = write(&journal, way, 3, &image);
                let is_beside = matches!(way, Way::Beside);
                assert_eq!(slots, u64::from(!compares), "{name}, {way:?}");
                assert_eq!(bytes > 0, is_beside || !compares, "{name}, {way:?}");
                // A byte that differs goes into the record, if the policy looks for it.
                image[9] ^= 1;
                let (_, slots) = write(&journal, way, 3, &image);
                assert_eq!(slots, u64::from(!logs_few(compares)), "{name}, {way:?}");
                assert_eq!(write(&journal, way, 3, &noise(2)).1, 1, "{name}, {way:?}");
            }
        }
    }
}

#[test]
fn nothing_is_compared_where_nothing_is_kept_and_nothing_is_read_for_it() {
    let image = noise(1);
    // Without a cache.
    let files = Files::new("compared-uncached");
    let journal = format(&files, &Options::new().policy(object_log(true)).cache_bytes(0));
    for way in WAYS {
        for _ in 0..2 {
            assert!(write(&journal, way, 3, &image).0 >= WHOLE, "{way:?}");
        }
    }
    drop(journal);
    // With the one that there is by default, which an open leaves empty.
    let files = Files::new("compared-opened");
    let options = Options::new().policy(object_log(true));
    let memory = memory(SPAN_BYTES);
    let reader = memory.reader();
    let journal = Journal::format(memory, files.disk(), &options).expect("formats");
    for number in 3..6 {
        assert_eq!(write(&journal, Way::Call, number, &image).0, WHOLE);
        assert_eq!(write(&journal, Way::Call, number, &image).0, 0);
    }
    drop(journal);
    let mut bytes = vec![0; SPAN_BYTES as usize];
    reader.read_into(Offset(0), &mut bytes).expect("reads");
    let journal = open(&files, &bytes, &options);
    for (number, way) in (3..).zip([Way::Call, Way::Transaction]) {
        assert!(write(&journal, way, number, &image).0 >= WHOLE, "{way:?}");
        assert_eq!(write(&journal, way, number, &image).0, 0, "{way:?}");
    }
    // But what a reader has left there counts.
    journal.read(block(5), &mut vec![0; BLOCK]).expect("reads");
    assert_eq!(write(&journal, Way::Call, 5, &image).0, 0);
}

fn open(files: &Files, bytes: &[u8], options: &Options<AnyPolicy>) -> Journal<AnyPolicy> {
    let mut region: Region = memory(SPAN_BYTES);
    region.store(Offset(0), bytes);
    let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
    Journal::open(region, disk, options).expect("opens")
}

/// A caller that says more of a block than its new image is taken at its word, as without the
/// setting.
#[test]
fn what_a_caller_says_of_a_block_counts() {
    let files = Files::new("compared-said");
    let journal = format(&files, &Options::new().policy(object_log(true)).lanes(1));
    let mut image = noise(1);
    let commit = |update| {
        let before = logged(&journal).0;
        journal.commit(&[Operation::Update(update)], Durability::Durable).expect("commits");
        logged(&journal).0 - before
    };
    // Nothing is kept of this block.
    let ranges = [Span { at: 8, len: 8 }];
    image.fill(0);
    image[8..16].fill(7);
    let said = Update::new(block(3), Change::Ranges { image: &image, ranges: &ranges });
    assert_eq!(commit(said), 384);
    let mut brought = Update::new(block(4), Change::Image(&image));
    let zeros = vec![0; BLOCK];
    brought.old = Some(&zeros);
    assert_eq!(commit(brought), 384);
    // And of these something is.
    assert_eq!(commit(said), 384, "nothing is asked about ranges");
    let mut new = Update::new(block(4), Change::Image(&image));
    new.kind = Kind::Append;
    assert_eq!(commit(new), WHOLE, "what was not live is no base");
    assert_eq!(commit(Update::new(block(4), Change::Image(&image))), 0);
}

#[test]
fn whole_blocks_are_not_compared() {
    assert!(!FullBlock.wants_cached_old());
    assert!(AnyPolicy::ALL.iter().all(|policy| !policy.wants_cached_old()));
}

const THREADS: u64 = 3;
const USED: u64 = 10;
const ROUNDS: u64 = 400;

/// Counts in a block, one for each thread: what one thread adds another must not lose.
fn count_at(thread: u64) -> Range<usize> {
    let at = 1000 * thread as usize;
    at..at + 8
}

fn count_in(image: &[u8], thread: u64) -> u64 {
    let bytes = image[count_at(thread)].try_into();
    u64::from_le_bytes(bytes.expect("eight bytes"))
}

/// One thread's images: half of them are what the block holds, and the others have one count more.
fn rewrite(journal: &Journal<AnyPolicy>, thread: u64, added: &[AtomicU64], whole: &AtomicU64) {
    let mut dice = Dice(thread);
    let mut image = vec![0; BLOCK];
    for round in 0..ROUNDS {
        let (number, adds) = (dice.below(USED), dice.below(2));
        let mut change = |tx: &mut nvm_journal::Transaction<'_, AnyPolicy>| {
            tx.read(block(number), &mut image)?;
            let count = count_in(&image, thread) + adds;
            image[count_at(thread)].copy_from_slice(&count.to_le_bytes());
            tx.write(block(number), &image)
        };
        match round % 8 {
            0 | 1 => journal.transact_deferred(&mut change),
            2 => journal.transact_gathered(&mut change),
            _ => journal.transact(&mut change),
        }
        .expect("commits");
        added[(thread * USED + number) as usize].fetch_add(adds, Ordering::Relaxed);
        // A block of the thread's own, in one call.
        let own = noise(thread * 10 + round / 40);
        let operation = Operation::write(block(100 + thread), &own);
        journal.commit(&[operation], Durability::Durable).expect("commits");
        whole.fetch_add(u64::from(round % 40 == 0), Ordering::Relaxed);
    }
}

#[test]
fn threads_that_write_what_is_there_or_nearly_so_lose_nothing_and_log_little() {
    let policies =
        [("objects", object_log(true)), ("lcow", lcow(true)), ("delta", byte_delta(true))];
    for (name, policy) in policies {
        let files = Files::new(&format!("compared-threads-{name}"));
        let options = Options::new().policy(policy).lanes(2);
        let memory = memory(SPAN_BYTES);
        let reader = memory.reader();
        let journal: Journal<AnyPolicy> =
            Journal::format(memory, files.disk(), &options).expect("formats");
        let added: Vec<_> = (0..THREADS * USED).map(|_| AtomicU64::new(0)).collect();
        let (whole, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let (journal, added, whole) = (&journal, &added, &whole);
            let writers: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || rewrite(journal, thread, added, whole)))
                .collect();
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    journal.checkpoint().expect("goes home");
                    thread::sleep(Duration::from_millis(3));
                }
            });
            writers.into_iter().for_each(|writer| writer.join().expect("writes"));
            is_over.store(true, Ordering::Relaxed);
        });
        journal.sync().expect("becomes durable");
        let check = |journal: &Journal<AnyPolicy>, when: &str| {
            let mut found = vec![0; BLOCK];
            for number in 0..USED {
                journal.read(block(number), &mut found).expect("reads");
                for thread in 0..THREADS {
                    let added = added[(thread * USED + number) as usize].load(Ordering::Relaxed);
                    assert_eq!(count_in(&found, thread), added, "{name}, {number} {when}");
                }
            }
            for thread in 0..THREADS {
                journal.read(block(100 + thread), &mut found).expect("reads");
                assert!(found == noise(thread * 10 + (ROUNDS - 1) / 40), "{name} {when}");
            }
        };
        check(&journal, "at once");
        let (bytes, slots) = logged(&journal);
        let written = 2 * THREADS * ROUNDS;
        let whole = whole.load(Ordering::Relaxed);
        // Nearly half of the shared images change nothing, and nine in ten of a thread's own.
        match name {
            // Some are whole, where nothing was kept.
            "objects" => assert!(bytes < (written / 2) * 384 + 4 * whole * WHOLE, "{bytes}"),
            _ => assert!(slots < written / 2, "{name}: {slots}"),
        }
        drop(journal);
        let mut bytes = vec![0; SPAN_BYTES as usize];
        reader.read_into(Offset(0), &mut bytes).expect("reads");
        let journal = open(&files, &bytes, &options);
        check(&journal, "after an open");
        journal.close().expect("closes");
        let mut disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
        let mut found = vec![0; BLOCK];
        for number in 0..USED {
            journal_core::BlockDevice::read(&mut disk, block(number), &mut found).expect("reads");
            let sum = (0..THREADS).map(|thread| count_in(&found, thread)).sum::<u64>();
            let of = |thread| added[(thread * USED + number) as usize].load(Ordering::Relaxed);
            assert_eq!(sum, (0..THREADS).map(of).sum::<u64>(), "{name}, {number} at home");
        }
    }
}
