//! What becomes of old images that are lent to the policy (`src/engine/lent.rs`) when they go while
//! it is asked, and when it panics.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use journal_core::policy::{
    ApplyError, Encoder, Pacing, Placement, Policy, PolicyId, Thresholds, Update,
};
use journal_core::{
    BlockDevice, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation, NoHook,
};
use lab::erased::{DynDisk, DynJournal, DynPmem, any_options};
use nvm_journal::{
    Adaptive, AnyPolicy, BlockNumber, CompressedDelta, Durability, Error, FileDisk, Hint,
    Operation, TwoLevel,
};

use crate::claims::Dice;
use crate::use_it::{BLOCK, BLOCKS, Files, block, memory};

/// The most frames of a part of a record.
const FRAMES_PER_PART: u64 = 64;

/// The block at which the policy does what it is told.
const AT: u64 = 120;

/// What the policy does when it is asked about that block, once.
enum Told {
    /// Tells another thread, and waits for it.
    Waits(Sender<()>, Receiver<()>),
    Panics,
}

/// Compressed deltas, of a policy that is told to do something, and counts how often it is asked.
#[derive(Clone, Default)]
struct Asked(CompressedDelta, Arc<Mutex<Option<Told>>>, Arc<AtomicU64>);

impl Policy for Asked {
    fn id(&self) -> PolicyId {
        self.0.id()
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        self.2.fetch_add(1, Ordering::Relaxed);
        let told = (update.block == block(AT)).then(|| self.1.lock().expect("is whole").take());
        match told.flatten() {
            Some(Told::Waits(says, hears)) => {
                says.send(()).expect("is heard");
                hears.recv().expect("is answered");
            }
            Some(Told::Panics) => panic!("as it is to"),
            None => {}
        }
        self.0.place(update, out)
    }

    fn patch_bytes_on_old(&self, block_bytes: usize) -> usize {
        self.0.patch_bytes_on_old(block_bytes)
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        self.0.apply(payload, block)
    }

    fn check(&self, payload: &[u8], block: &[u8]) -> Result<(), ApplyError> {
        self.0.check(payload, block)
    }

    fn wants_old(&self) -> bool {
        self.0.wants_old()
    }

    fn thresholds(&self) -> Thresholds {
        self.0.thresholds()
    }

    fn pacing(&self) -> Pacing {
        self.0.pacing()
    }
}

impl Asked {
    fn is_told(&self, told: Told) {
        *self.1.lock().expect("is whole") = Some(told);
    }
}

/// A journal whose cache has room for half of the blocks, and has the lower half.
fn format(files: &Files, policy: &Asked) -> DynJournal {
    let cached = BLOCKS as usize / 2 * BLOCK;
    let options = any_options(policy.clone(), NoHook).lanes(2).cache_bytes(cached);
    let pmem = DynPmem::new(memory(8 << 20));
    let journal = DynJournal::format(pmem, files.any_disk(), &options).expect("formats");
    for number in 0..AT {
        journal.transact(|tx| tx.write(block(number), &image(number))).expect("commits");
    }
    journal.checkpoint().expect("writes home");
    (0..AT).for_each(|number| drop(read(&journal, number)));
    journal
}

fn image(number: u64) -> Vec<u8> {
    (0..BLOCK as u64).map(|at| (at * 7 + at / 256 * number + number) as u8).collect()
}

fn read(journal: &DynJournal, number: u64) -> Vec<u8> {
    let mut found = vec![0; BLOCK];
    journal.read(block(number), &mut found).expect("reads");
    found
}

fn misses(journal: &DynJournal) -> u64 {
    journal.stats().expect("works").cached.misses
}

/// Reads other blocks, until nothing is kept that was lent.
fn evict(journal: &DynJournal) {
    (0..4).for_each(|_| (AT..BLOCKS).for_each(|number| drop(read(journal, number))));
}

/// A transaction changes some blocks, and appends one. When the policy is asked about that one, it
/// has been asked about all others. Their images are gone when their record is stored (L3).
fn images_go_while_it_is_asked(name: &str, count: u64, writes: bool) {
    let (files, policy) = (Files::new(&format!("loans-{name}")), Asked::default());
    let journal = format(&files, &policy);
    let changed = |number: u64| {
        let mut image = image(number);
        image[50..200].fill(!number as u8);
        image[3000..3040].fill(number as u8);
        image
    };
    let ((says, hears), (answers, is_answered)) = (channel(), channel());
    policy.is_told(Told::Waits(says, is_answered));
    let before = policy.2.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let journal = &journal;
        scope.spawn(move || {
            hears.recv_timeout(Duration::from_secs(60)).expect("is asked");
            evict(journal);
            answers.send(()).expect("waits");
        });
        let change = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            for number in 0..count {
                let new = changed(number);
                if writes {
                    tx.write(block(number), &new)?;
                } else {
                    tx.write_at(block(number), 50, &new[50..200])?;
                    tx.write_at(block(number), 3000, &new[3000..3040])?;
                }
            }
            tx.write_with(block(AT), Hint::APPEND, &image(AT))
        };
        journal.transact(change).expect("commits");
    });
    // Twice where there are several parts, and once more about the first part, on lent images.
    let asked = policy.2.load(Ordering::Relaxed) - before;
    assert!(asked <= 2 * (count + 1) + FRAMES_PER_PART, "{name}: asked {asked} times");
    for goes_home in [false, true] {
        (0..count).for_each(|at| assert!(read(&journal, at) == changed(at), "{name}, block {at}"));
        (count..=AT).for_each(|at| assert!(read(&journal, at) == image(at), "{name}, block {at}"));
        if !goes_home {
            journal.checkpoint().expect("writes home");
        }
    }
    (0..count).for_each(|at| assert!(files.home(block(at))[..] == changed(at), "{name}, {at}"));
}

#[test]
fn images_that_go_while_the_policy_is_asked_are_not_asked_for_again() {
    for writes in [false, true] {
        // One part, which is at hand; several, about which the policy is asked again.
        images_go_while_it_is_asked(&format!("few-{writes}"), 3, writes);
        images_go_while_it_is_asked(&format!("many-{writes}"), 110, writes);
        // All that is lent is in the first part, and not all of it is at hand when that is stored.
        for count in 12..=28 {
            images_go_while_it_is_asked(&format!("first-{writes}-{count}"), count, writes);
        }
    }
}

/// A call whose record has several parts is prepared on loans in vain. The next one as long is not,
/// until one has a single part again.
#[test]
fn a_call_of_several_parts_is_prepared_on_loans_in_vain_once() {
    let (files, policy) = (Files::new("loans-parts"), Asked::default());
    let journal = format(&files, &policy);
    let count = 30;
    let asked_for = |round: u64, len: usize| {
        let images: Vec<_> = (0..count)
            .map(|number| {
                let mut image = image(number);
                let mut dice = Dice(round * count + number + 1);
                image[..len].fill_with(|| dice.below(256) as u8);
                image
            })
            .collect();
        let operations: Vec<_> =
            (0..).zip(&images).map(|(at, image)| Operation::write(block(at), image)).collect();
        let before = policy.2.load(Ordering::Relaxed);
        journal.commit(&operations, Durability::Durable).expect("commits");
        (0..).zip(&images).for_each(|(at, image)| assert!(read(&journal, at) == *image));
        policy.2.load(Ordering::Relaxed) - before
    };
    // All of them are kept.
    (0..count).for_each(|number| drop(read(&journal, number)));
    let first = asked_for(1, 900);
    assert!(first > 2 * count, "asked {first} times");
    assert_eq!(asked_for(2, 900), 2 * count, "no image is lent");
    // A call that changes nothing has no parts at all.
    asked_for(2, 900);
    assert!(asked_for(3, 900) > 2 * count, "images are lent again");
    // That takes back what the last one has changed.
    assert_eq!(asked_for(4, 40), 2 * count, "no image is lent");
    assert_eq!(asked_for(5, 40), count, "it has one part");
    assert!(asked_for(6, 900) > 2 * count, "images are lent again");
}

/// The image that is written is compared with what the cache has at the commit, and no copy of it
/// is made before that.
#[test]
fn what_is_lent_for_an_image_is_read_again_where_it_has_gone() {
    let files = Files::new("loans-image");
    let journal = format(&files, &Asked::default());
    let mut new = image(3);
    new[77] ^= 1;
    let mut tx = journal.begin().expect("begins");
    tx.write(block(3), &new).expect("writes");
    evict(&journal);
    let before = (misses(&journal), journal.stats().expect("works").total().bytes);
    tx.commit().expect("commits");
    assert_eq!(misses(&journal), before.0 + 1);
    assert_eq!(journal.stats().expect("works").total().bytes, before.1 + 128, "a difference");
    assert!(read(&journal, 3) == new);
}

/// It panics with a share of the index in hand. The journal has failed then, and tells everybody.
#[test]
fn a_policy_that_panics_while_it_is_lent_an_image_ends_the_journal() {
    for patches in [false, true] {
        let (files, policy) = (Files::new(&format!("loans-panic-{patches}")), Asked::default());
        let journal = format(&files, &policy);
        journal.transact(|tx| tx.append(block(AT), &image(AT))).expect("commits");
        drop(read(&journal, AT));
        policy.is_told(Told::Panics);
        let change = |tx: &mut nvm_journal::Transaction<'_, _, _>| match patches {
            true => tx.write_at(block(AT), 5, &[1; 5]),
            false => tx.write(block(AT), &image(1)),
        };
        let ended = catch_unwind(AssertUnwindSafe(|| journal.transact(change)));
        assert!(ended.is_err());
        let write = |number| {
            move |tx: &mut nvm_journal::Transaction<'_, _, _>| tx.write(block(number), &image(2))
        };
        std::thread::scope(|scope| {
            for number in [AT, AT, 1] {
                let journal = &journal;
                scope.spawn(move || {
                    let found = journal.read(block(AT), &mut [0; BLOCK]);
                    assert_eq!(found, Err(Error::Failed));
                    assert_eq!(journal.transact(write(number)), Err(Error::Failed));
                });
            }
        });
        assert!(journal.failure().is_some());
    }
}

/// A disk that does not read block 3 while it is told so.
#[derive(Clone)]
struct Unreadable(FileDisk, Arc<AtomicBool>);

impl BlockDevice for Unreadable {
    fn facts(&self) -> DeviceFacts {
        self.0.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.0.block_size()
    }

    fn block_count(&self) -> u64 {
        self.0.block_count()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        if first == block(3) && self.1.load(Ordering::SeqCst) {
            let (operation, kind) = (DeviceOperation::Read, DeviceErrorKind::Io { os: Some(5) });
            return Err(DeviceError { operation, kind, block: first });
        }
        self.0.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.0.write(first, from)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.0.sync()
    }
}

/// A difference to what the cache has would need the home that the disk does not read (U4).
#[test]
fn a_block_that_the_disk_does_not_read_is_written_anew_whole_though_the_cache_has_it() {
    let policies =
        [AnyPolicy::from(CompressedDelta::new()), Adaptive::new().into(), TwoLevel::new().into()];
    for (policy, patches) in policies.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let files = Files::new(&format!("loans-unreadable-{policy}-{patches}"));
        let fails = Arc::new(AtomicBool::new(false));
        let disk = DynDisk::new(Unreadable(files.disk(), Arc::clone(&fails)));
        let options = any_options(policy, NoHook).lanes(1).cache_bytes(8 * BLOCK);
        let pmem = DynPmem::new(memory(4 << 20));
        let journal = DynJournal::format(pmem, disk, &options).expect("formats");
        journal.transact(|tx| tx.write(block(3), &image(3))).expect("commits");
        journal.checkpoint().expect("writes home");
        assert!(read(&journal, 3) == image(3));
        // The cache has no room for it beside these.
        for number in [3].into_iter().chain(10..50) {
            journal.transact(|tx| tx.write_at(block(number), 9, &[1; 9])).expect("commits");
            read(&journal, number);
        }
        fails.store(true, Ordering::SeqCst);
        assert!(journal.read(block(3), &mut [0; BLOCK]).is_err(), "{policy}: it is in the cache");
        journal.checkpoint().expect("goes on");
        assert_eq!(journal.unreadable(), Ok(vec![block(3)]), "{policy}");
        fails.store(false, Ordering::SeqCst);
        let mut new = read(&journal, 3);
        fails.store(true, Ordering::SeqCst);
        new[100] ^= 1;
        let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| match patches {
            true => tx.write_at(block(3), 100, &new[100..101]),
            false => tx.write(block(3), &new),
        };
        journal.transact(write).expect("commits");
        assert_eq!(journal.unreadable(), Ok(Vec::new()), "{policy}, {patches}");
        assert_eq!(journal.checkpoint().expect("writes home").unreadable, 0, "{policy}");
        assert!(files.home(block(3))[..] == new, "{policy}, {patches}");
    }
}
