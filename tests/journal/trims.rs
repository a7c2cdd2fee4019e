//! What a trim tells the disk of, and what it leaves alone.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex};

use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts,
    DeviceOperation, NoHook,
};
use lab::erased::{DynDisk, DynJournal, any_options};
use nvm_journal::policy::Policy;
use nvm_journal::{
    ByteDelta, Durability, Error, FileDisk, FileDiskOptions, FullBlock, Journal, Lcow, Operation,
};

use crate::use_it::{BLOCK, Files, any_memory, block};

/// What happened to a disk, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Write(u64),
    Discard(u64, u64),
    Zeroes(u64, u64),
}

/// A disk that tells what it did. A write of one block may be slow: it waits for a discard, or for
/// a while.
#[derive(Clone)]
struct Told {
    disk: FileDisk,
    events: Arc<(Mutex<Vec<Event>>, Condvar)>,
    slow: Arc<AtomicU64>,
    /// Whether zeroes are refused, when a part of them is there.
    refuses: Arc<AtomicBool>,
}

impl Told {
    fn new(files: &Files) -> Self {
        let _none = std::fs::remove_file(&files.0);
        let options = FileDiskOptions::new().growing(1000);
        let disk = options.create(&files.0, BlockSize::DEFAULT, 0).expect("a file");
        let slow = Arc::new(AtomicU64::new(u64::MAX));
        Self { disk, events: Arc::default(), slow, refuses: Arc::default() }
    }

    fn tell(&self, event: Event) {
        self.events.0.lock().expect("no panic").push(event);
        self.events.1.notify_all();
    }

    fn zeroes(&self) -> Vec<Event> {
        let events = self.events.0.lock().expect("no panic");
        events.iter().copied().filter(|event| matches!(event, Event::Zeroes(..))).collect()
    }

    fn discards(&self) -> Vec<Event> {
        let events = self.events.0.lock().expect("no panic");
        events.iter().copied().filter(|event| matches!(event, Event::Discard(..))).collect()
    }

    fn journal(&self, policy: impl Policy + Clone + Send + Sync + 'static) -> DynJournal {
        let options = any_options(policy, NoHook).lanes(2).lane_bytes(512 << 10);
        Journal::format(any_memory(4 << 20), DynDisk::new(self.clone()), &options).expect("formats")
    }

    fn home(&self, number: u64) -> Vec<u8> {
        let mut image = vec![1; BLOCK];
        self.disk.clone().read(block(number), &mut image).expect("reads");
        image
    }
}

impl BlockDevice for Told {
    fn facts(&self) -> DeviceFacts {
        self.disk.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.disk.block_size()
    }

    fn block_count(&self) -> u64 {
        self.disk.block_count()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        self.disk.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        if first.raw() == self.slow.load(Ordering::SeqCst) {
            self.slow.store(u64::MAX - 1, Ordering::SeqCst);
            let is_to_come = |events: &mut Vec<Event>| {
                !events.iter().any(|event| matches!(event, Event::Discard(..)))
            };
            let events = self.events.0.lock().expect("no panic");
            let limit = Duration::from_millis(300);
            drop(self.events.1.wait_timeout_while(events, limit, is_to_come).expect("no panic"));
        }
        self.disk.write(first, from)?;
        let blocks = (from.len() / BLOCK) as u64;
        (first.raw()..first.raw() + blocks).for_each(|block| self.tell(Event::Write(block)));
        Ok(())
    }

    fn discard(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        self.disk.discard(first, blocks)?;
        self.tell(Event::Discard(first.raw(), blocks));
        Ok(())
    }

    fn write_zeroes(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        if self.refuses.load(Ordering::SeqCst) {
            self.disk.write(first, &[0xEE; BLOCK])?;
            let kind = DeviceErrorKind::Io { os: Some(28) };
            return Err(DeviceError::new(DeviceOperation::Write, kind, first));
        }
        self.disk.write_zeroes(first, blocks)?;
        self.tell(Event::Zeroes(first.raw(), blocks));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.disk.sync()
    }
}

#[test]
fn a_trim_tells_the_disk_of_runs_and_the_file_has_holes() {
    let files = Files::new("trim-runs");
    let disk = Told::new(&files);
    let journal = disk.journal(FullBlock);
    for number in 0..100 {
        journal.transact(|tx| tx.write(block(number), &[7; BLOCK])).expect("commits");
    }
    journal.checkpoint().expect("all goes home");
    assert_eq!(journal.trim(block(10), 70), Ok(70));
    let expected = [Event::Discard(10, 32), Event::Discard(42, 32), Event::Discard(74, 6)];
    assert_eq!(disk.discards(), expected);
    assert_eq!((disk.home(9), disk.home(80)), (vec![7; BLOCK], vec![7; BLOCK]));
    for number in [10, 45, 79] {
        assert_eq!(disk.home(number), [0; BLOCK], "{number}");
    }
    // What is written to a trimmed block builds on zeroes.
    journal.transact(|tx| tx.write_at(block(45), 100, b"new")).expect("commits");
    journal.checkpoint().expect("goes home");
    let mut expected = vec![0; BLOCK];
    expected[100..103].copy_from_slice(b"new");
    assert_eq!(disk.home(45), expected);
    assert_eq!(journal.write_zeroes(block(90), 5), Ok(()));
    let mut found = [1; BLOCK];
    journal.read(block(94), &mut found).expect("reads");
    assert_eq!(found, [0; BLOCK]);
    let refused = journal.trim(block(999), 2);
    assert_eq!(refused, Err(Error::OutOfDevice { block: block(1000) }));
    assert_eq!(journal.trim(block(1000), 0), Ok(0));
    assert!(matches!(journal.write_zeroes(block(1), u64::MAX), Err(Error::OutOfDevice { .. })));
}

/// Zeroes are the disk's work: 16 KiB of persistent memory would not hold the images.
#[test]
fn zeroes_are_passed_on_and_not_logged() {
    let files = Files::new("zeroes-passed-on");
    let disk = Told::new(&files);
    let journal = disk.journal(FullBlock);
    let is_zero = |number: u64| {
        let mut found = [1; BLOCK];
        journal.read(block(number), &mut found).expect("reads");
        found == [0; BLOCK]
    };
    for number in 0..100 {
        journal.transact(|tx| tx.write(block(number), &[7; BLOCK])).expect("commits");
    }
    journal.checkpoint().expect("all goes home");
    let bytes = |journal: &DynJournal| journal.stats().expect("works").total().bytes;
    let before = bytes(&journal);
    journal.write_zeroes(block(10), 70).expect("room");
    assert_eq!(disk.zeroes(), [Event::Zeroes(10, 32), Event::Zeroes(42, 32), Event::Zeroes(74, 6)]);
    let logged = bytes(&journal) - before;
    assert!(logged < 16 << 10, "{logged} bytes");
    assert_eq!((9..81).filter(|number| is_zero(*number)).count(), 70);
    assert_eq!((disk.home(10), disk.home(79)), (vec![0; BLOCK], vec![0; BLOCK]));
    journal.checkpoint().expect("the discards go");
    assert_eq!((9..81).filter(|number| is_zero(*number)).count(), 70);
    // 1. Where the disk refuses, the journal has the zeroes, whatever the disk holds.
    disk.refuses.store(true, Ordering::SeqCst);
    journal.write_zeroes(block(0), 2).expect("is logged");
    assert_eq!(disk.home(0), [0xEE; BLOCK]);
    assert!(is_zero(0) && is_zero(1) && !is_zero(2));
    journal.checkpoint().expect("goes home");
    assert_eq!((disk.home(0), disk.home(1)), (vec![0; BLOCK], vec![0; BLOCK]));
    disk.refuses.store(false, Ordering::SeqCst);
    // 2. A snapshot sees what was.
    let snapshot = journal.snapshot().expect("begins");
    journal.write_zeroes(block(5), 1).expect("is logged");
    assert_eq!((disk.zeroes().len(), is_zero(5)), (3, true));
    let mut found = [0; BLOCK];
    snapshot.read(block(5), &mut found).expect("reads");
    assert_eq!(found, [7; BLOCK]);
}

/// Threads write zeroes, and images of one byte, to the same blocks, beside checkpoints. A block is
/// never a mixture.
#[test]
fn zeroes_and_writers_leave_whole_blocks() {
    let files = Files::new("zeroes-threads");
    let disk = Told::new(&files);
    let journal = &disk.journal(FullBlock);
    std::thread::scope(|scope| {
        for byte in 1..3 {
            scope.spawn(move || {
                for round in 0..200 {
                    let to = block(round % 4);
                    journal.transact(|tx| tx.write(to, &[byte; BLOCK])).expect("commits");
                    let mut found = [9; BLOCK];
                    journal.read(to, &mut found).expect("reads");
                    assert_eq!(found, [found[0]; BLOCK]);
                    assert!(found[0] < 3, "{}", found[0]);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..100 {
                journal.write_zeroes(block(0), 4).expect("room");
            }
        });
        scope.spawn(|| (0..30).for_each(|_| assert!(journal.checkpoint().is_ok())));
    });
    journal.write_zeroes(block(0), 4).expect("room");
    journal.checkpoint().expect("goes home");
    for number in 0..4 {
        assert_eq!(disk.home(number), [0; BLOCK]);
    }
}

#[test]
fn every_kind_of_policy_reads_zeroes_behind_a_trim() {
    fn check(name: &str, policy: impl Policy + Clone + Send + Sync + 'static) {
        let files = Files::new(name);
        let disk = Told::new(&files);
        let journal = disk.journal(policy);
        for round in 1..4 {
            journal.transact(|tx| tx.write(block(5), &[round; BLOCK])).expect("commits");
            journal.transact(|tx| tx.write_at(block(5), 9, b"delta")).expect("commits");
            if round == 2 {
                journal.checkpoint().expect("goes home");
            }
            assert_eq!(journal.trim(block(5), 1), Ok(1), "{name}");
            let mut found = [1; BLOCK];
            journal.read(block(5), &mut found).expect("reads");
            assert_eq!(found, [0; BLOCK], "{name}, {round}");
            journal.checkpoint().expect("the discard's frame goes");
            journal.read(block(5), &mut found).expect("reads");
            assert_eq!(found, [0; BLOCK], "{name}, {round}");
            journal.transact(|tx| tx.write_at(block(5), 9, b"delta")).expect("commits");
            journal.read(block(5), &mut found).expect("reads");
            assert_eq!((&found[..9], &found[9..14]), (&[0; 9][..], &b"delta"[..]), "{name}");
        }
    }
    check("trim-full-block", FullBlock);
    check("trim-byte-delta", ByteDelta::new());
    check("trim-lcow", Lcow::new());
}

/// A snapshot may see what the disk holds.
#[test]
fn a_trim_leaves_the_disk_to_an_open_snapshot() {
    let files = Files::new("trim-snapshot");
    let disk = Told::new(&files);
    let journal = disk.journal(FullBlock);
    journal.transact(|tx| tx.write(block(3), &[3; BLOCK])).expect("commits");
    journal.checkpoint().expect("goes home");
    let snapshot = journal.snapshot().expect("begins");
    assert_eq!(journal.trim(block(3), 1), Ok(0));
    let mut found = [0; BLOCK];
    snapshot.read(block(3), &mut found).expect("reads");
    assert_eq!(found, [3; BLOCK]);
    drop(snapshot);
    assert_eq!((disk.discards(), journal.trim(block(3), 1)), (vec![], Ok(1)));
}

/// A checkpoint that has taken a block's old content would write it behind the trim.
#[test]
fn a_trim_waits_for_what_is_on_its_way_home() {
    let files = Files::new("trim-on-its-way");
    let disk = Told::new(&files);
    let journal = disk.journal(FullBlock);
    journal.transact(|tx| tx.write(block(5), &[5; BLOCK])).expect("commits");
    disk.slow.store(5, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| journal.checkpoint());
        while disk.slow.load(Ordering::SeqCst) == 5 {
            std::thread::yield_now();
        }
        assert_eq!(journal.trim(block(5), 1), Ok(1));
        checkpoint.join().expect("no panic").expect("goes home");
    });
    let events = disk.events.0.lock().expect("no panic").clone();
    assert_eq!(events, [Event::Write(5), Event::Discard(5, 1)]);
    assert_eq!(disk.home(5), [0; BLOCK]);
}

/// Writers and trims of the same blocks. A discarded block's content is undefined: a checkpoint may
/// bring back what was home. So what a writer reads of its block is any image that it wrote there,
/// or zeroes, but never a mixture.
#[test]
fn trims_and_writers_meet_in_no_block() {
    let files = Files::new("trim-threads");
    let disk = Told::new(&files);
    let journal = &disk.journal(ByteDelta::new());
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u64)
            .map(|number| {
                scope.spawn(move || {
                    for round in 1..=60_u8 {
                        let own = block(number);
                        journal.transact(|tx| tx.write(own, &[round; BLOCK])).expect("commits");
                        if round % 7 == 0 {
                            journal.checkpoint().expect("goes home");
                        }
                        let mut found = [0; BLOCK];
                        journal.read(own, &mut found).expect("reads");
                        let [first, ..] = found;
                        let is_whole = first <= round && found == [first; BLOCK];
                        assert!(is_whole, "{round}: {first}");
                    }
                })
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            journal.trim(block(0), 2).expect("a trim");
        }
    });
    for number in 0..2 {
        journal.transact(|tx| tx.write(block(number), &[9; BLOCK])).expect("commits");
    }
    journal.checkpoint().expect("goes home");
    assert_eq!((disk.home(0), disk.home(1)), (vec![9; BLOCK], vec![9; BLOCK]));
}

/// A commit that must not wait leaves everything as it was where it would have to.
#[test]
fn a_commit_that_must_not_wait_says_not_now() {
    let files = Files::new("try-commit");
    let disk = Told::new(&files);
    let journal = disk.journal(FullBlock);
    let images = [[1; BLOCK], [2; BLOCK]];
    let operations =
        [Operation::write(block(1), &images[0]), Operation::write(block(2), &images[1])];
    let mut holder = journal.begin().expect("begins");
    holder.write(block(2), &[8; BLOCK]).expect("is free");
    std::thread::scope(|scope| {
        let refused = scope.spawn(|| journal.try_commit(&operations, Durability::Durable));
        let refused = refused.join().expect("no panic");
        let is_for_now = matches!(refused, Err(Error::OutOfTime | Error::Conflict { .. }));
        assert!(is_for_now, "{refused:?}");
    });
    holder.abort();
    let mut found = [9; BLOCK];
    journal.read(block(1), &mut found).expect("reads");
    assert_eq!(found, [0; BLOCK], "nothing has changed");
    let committed = journal.try_commit(&operations, Durability::Durable).expect("nobody is there");
    assert!(committed.is_some());
    journal.read(block(2), &mut found).expect("reads");
    assert_eq!(found, [2; BLOCK]);
    assert_eq!(journal.try_commit(&[], Durability::Deferred), Ok(None));
    let descending = [operations[1], operations[0]];
    let refused = journal.try_commit(&descending, Durability::Durable);
    assert_eq!(refused, Err(Error::NotAscending { block: block(1) }));
    // No room: it makes no checkpoint, and asks for none.
    let mut number = 10;
    let refused = loop {
        let image = [number as u8; BLOCK];
        match journal.try_commit(&[Operation::write(block(number), &image)], Durability::Durable) {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Error::OutOfTime);
    assert!(number > 20 && journal.stats().expect("counts").checkpoints == 0, "{number}");
    let image = [1; BLOCK];
    journal.commit(&[Operation::write(block(number), &image)], Durability::Durable).expect("waits");
}
