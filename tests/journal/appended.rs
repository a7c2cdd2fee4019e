//! Appends beside what else goes on at the device: trims, and syncs that fail.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, Barrier, Mutex, MutexGuard};
use std::time::Instant;

use byte_delta::ByteDelta;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts,
    DeviceOperation, Hook, Rule, Site,
};
use lab::erased::{DynDisk, DynJournal, any_options};
use nvm_journal::{Error, Journal};

use crate::use_it::{BLOCK, any_memory, block};

/// Whether a flag is set before some time is over.
fn is_soon(flag: &AtomicBool) -> bool {
    let begun = Instant::now();
    while !flag.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_millis(50) {
        std::thread::yield_now();
    }
    flag.load(Ordering::SeqCst)
}

/// What a disk of a few blocks holds, whose handles are told of nothing that others do.
#[derive(Debug, Default)]
struct Content {
    /// It is as long as what was written to it.
    blocks: Vec<[u8; BLOCK]>,
    /// What blocks held before they were written, since the last sync.
    unsynced: Vec<(usize, [u8; BLOCK])>,
    /// Whether the next sync loses what is not synced.
    loses: bool,
}

/// A disk in memory, which becomes shorter where its end is discarded.
#[derive(Clone, Debug, Default)]
struct Short {
    held: Arc<Mutex<Content>>,
    /// Whether a discard waits for a write, when it has looked how long the disk is.
    waits: Arc<AtomicBool>,
    is_written: Arc<AtomicBool>,
}

impl Short {
    fn held(&self) -> MutexGuard<'_, Content> {
        self.held.lock().expect("no panic")
    }

    fn home(&self, number: usize) -> [u8; BLOCK] {
        self.held().blocks.get(number).copied().unwrap_or([0; BLOCK])
    }
}

impl BlockDevice for Short {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::cautious()
    }

    fn block_size(&self) -> BlockSize {
        BlockSize::DEFAULT
    }

    fn block_count(&self) -> u64 {
        512
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        for (number, into) in (first.raw() as usize..).zip(into.chunks_mut(BLOCK)) {
            into.copy_from_slice(&self.home(number));
        }
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let mut held = self.held();
        for (number, image) in (first.raw() as usize..).zip(from.chunks(BLOCK)) {
            let len = held.blocks.len().max(number + 1);
            held.blocks.resize(len, [0; BLOCK]);
            let before = held.blocks[number];
            held.unsynced.push((number, before));
            held.blocks[number].copy_from_slice(image);
        }
        self.is_written.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn discard(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        let (first, end) = (first.raw() as usize, (first.raw() + blocks) as usize);
        let len = self.held().blocks.len();
        if self.waits.load(Ordering::SeqCst) {
            self.is_written.store(false, Ordering::SeqCst);
            is_soon(&self.is_written);
        }
        if end >= len {
            self.held().blocks.truncate(first);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        let mut held = self.held();
        let unsynced = core::mem::take(&mut held.unsynced);
        if !core::mem::take(&mut held.loses) {
            return Ok(());
        }
        for (number, before) in unsynced.into_iter().rev() {
            held.blocks[number] = before;
        }
        drop(held);
        let kind = DeviceErrorKind::Io { os: Some(5) };
        Err(DeviceError::new(DeviceOperation::Sync, kind, block(0)))
    }
}

fn journal(disk: &Short, hook: impl Hook + Clone + Send + Sync + 'static) -> DynJournal {
    let options = any_options(ByteDelta::new(), hook).lanes(1);
    Journal::format(any_memory(2 << 20), DynDisk::new(disk.clone()), &options).expect("formats")
}

/// A block is trimmed at the end of a disk that becomes shorter, while another one is appended
/// behind that. Returns what the disk holds of that one.
fn appended_beside_a_trim(hook: sim_disk::Mutator) -> [u8; BLOCK] {
    let disk = Short::default();
    let journal = &journal(&disk, hook);
    journal.transact(|tx| tx.write(block(10), &[1; BLOCK])).expect("commits");
    journal.checkpoint().expect("writes home");
    disk.waits.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(journal.trim(block(10), 1), Ok(1)));
        // It comes to look how long the disk is.
        while disk.is_written.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        journal.transact(|tx| tx.append(block(11), &[2; BLOCK])).expect("commits");
    });
    assert_eq!(journal.stats().expect("counts").total().appended_home, 1);
    disk.home(11)
}

#[test]
fn a_trim_that_makes_the_disk_shorter_cuts_off_no_append() {
    use sim_disk::Mutator;
    assert!(appended_beside_a_trim(Mutator::new()) == [2; BLOCK]);
    let without = Mutator::without(&[Rule::TrimsAlone]);
    assert!(appended_beside_a_trim(without) == [0; BLOCK], "without the rule it is lost");
}

/// The sync of a checkpoint loses what an append has written, and says so when the append has
/// gone on.
#[derive(Clone, Debug)]
struct LosesFirst {
    disk: Short,
    is_written: Arc<Barrier>,
    is_lost: Arc<Barrier>,
    /// Whether the append has ended.
    is_over: Arc<AtomicBool>,
}

impl Hook for LosesFirst {
    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        if site.name == "append.sync" {
            self.is_written.wait();
            self.is_lost.wait();
            return device.sync();
        }
        self.is_written.wait();
        self.disk.held().loses = true;
        let synced = device.sync();
        self.is_lost.wait();
        // Nobody has noted yet that the journal has failed.
        while !self.is_over.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        synced
    }
}

/// The device says once that a sync has failed, and knows nothing of it afterwards. What another
/// handle has written before is lost, and so is not acknowledged.
#[test]
fn no_append_is_acknowledged_behind_a_sync_of_a_checkpoint_that_has_failed() {
    let disk = Short::default();
    let barrier = || Arc::new(Barrier::new(2));
    let is_over = Arc::new(AtomicBool::new(false));
    let (is_written, is_lost) = (barrier(), barrier());
    let hook =
        LosesFirst { disk: disk.clone(), is_written, is_lost, is_over: Arc::clone(&is_over) };
    let journal = &journal(&disk, hook);
    journal.transact(|tx| tx.write(block(1), &[1; BLOCK])).expect("commits");
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| journal.checkpoint().map(drop));
        let appended = journal.transact(|tx| tx.append(block(10), &[2; BLOCK]));
        is_over.store(true, Ordering::SeqCst);
        let failed = checkpoint.join().expect("no panic").expect_err("its sync fails");
        assert_eq!((appended, disk.home(10)), (Err(failed), [0; BLOCK]));
        assert!(matches!(failed, Error::Device(_)), "{failed}");
    });
}
