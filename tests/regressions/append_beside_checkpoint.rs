//! A block was appended home, and a checkpoint came by before the record of that was stored.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts,
    DeviceOperation, Hook, MediumError, NoHook, Overwrite, Pmem, Rule, Site,
};
use lab::erased::{DynJournal, any_options, of_world};
use nvm_journal::AnyPolicy;
use sim_disk::{DiskImage, Image, Model, World};

const BLOCK: usize = 512;
const BLOCKS: u64 = 64;

thread_local! {
    /// Whether this thread stops in its next sync of the disk.
    static STOPS_IN_SYNC: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<(bool, bool)>,
    moved: Condvar,
    /// Where the disk was synced so far.
    sites: Mutex<Vec<Site>>,
}

impl Gate {
    fn stop(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.0 = true;
        self.moved.notify_all();
        while !state.1 {
            state = self.moved.wait(state).expect("no panic");
        }
    }

    fn await_stopped(&self) {
        let mut state = self.state.lock().expect("no panic");
        while !state.0 {
            state = self.moved.wait(state).expect("no panic");
        }
    }

    fn open(&self) {
        self.state.lock().expect("no panic").1 = true;
        self.moved.notify_all();
    }
}

/// Passes everything on, and lets a thread wait behind a sync of the disk.
#[derive(Clone, Debug)]
struct Stopping(Arc<Gate>, Option<Rule>);

impl Hook for Stopping {
    fn keeps(&self, rule: Rule) -> bool {
        self.1 != Some(rule)
    }

    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        device.sync()?;
        self.0.sites.lock().expect("no panic").push(site);
        if STOPS_IN_SYNC.take() {
            self.0.stop();
        }
        Ok(())
    }
}

fn byte_delta() -> AnyPolicy {
    let found = AnyPolicy::ALL.iter().find(|policy| policy.name() == "byte-delta");
    *found.expect("there is one")
}

/// What a thread does with the journal.
type Call = dyn FnOnce(&DynJournal) + Send;

/// Lets others run for about this long, without a sleep that may take longer.
fn pass(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::thread::yield_now();
    }
}

/// What block 5 shows in the end. The checkpoint comes when the append is synced at home and has no
/// record, and the append goes on soon after: another time in each round.
fn round(without: Option<Rule>, nth: u64) -> u8 {
    let facts = DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew);
    let block_size = BlockSize::new(BLOCK as u32).expect("a block size");
    let disk = DiskImage::blank(block_size, BLOCKS, facts);
    let world = World::boot(Image::blank(1 << 18).with_disk(disk), Model::Torn8);
    let plain = any_options(byte_delta(), NoHook).lanes(1).keep_on_close(true);
    let (pmem, disk) = of_world(&world);
    let first = DynJournal::format(pmem, disk, &plain).expect("formats");
    first.transact(|tx| tx.write(BlockNumber(5), &[1; BLOCK])).expect("commits");
    first.transact(|tx| tx.discard(BlockNumber(5))).expect("commits");
    drop(first);

    // The next process finds the discard.
    let gate = Arc::new(Gate::default());
    let options = any_options(byte_delta(), Stopping(Arc::clone(&gate), without))
        .lanes(1)
        .keep_on_close(true)
        .background_checkpoint(false);
    let (pmem, disk) = of_world(&world);
    let journal = Arc::new(DynJournal::open(pmem, disk, &options).expect("opens"));
    let spawn = |call: Box<Call>| {
        let journal = Arc::clone(&journal);
        std::thread::spawn(move || call(&journal))
    };
    // Block 5 is appended: written home, synced, and its record is about to be stored.
    let appender = spawn(Box::new(|journal| {
        STOPS_IN_SYNC.set(true);
        journal.transact(|tx| tx.append(BlockNumber(5), &[7; BLOCK])).expect("commits");
    }));
    gate.await_stopped();
    // A checkpoint comes by.
    let checkpointer = spawn(Box::new(|journal| {
        journal.checkpoint().expect("writes home");
    }));
    pass(Duration::from_micros(10 * (nth % 64)));
    gate.open();
    for thread in [appender, checkpointer] {
        thread.join().expect("no panic");
    }
    let mut content = [0; BLOCK];
    journal.read(BlockNumber(5), &mut content).expect("reads");
    content[0]
}

/// The discard that an earlier process left makes the home suspect. The checkpoint would make it
/// sure by writing zeroes there, over what was just appended.
#[test]
fn a_checkpoint_does_not_overwrite_what_was_just_appended_home() {
    let shown: Vec<u8> = (0..400).map(|nth| round(None, nth)).collect();
    assert!(shown.iter().all(|byte| *byte == 7), "{shown:?}");
}

#[test]
fn because_an_append_makes_its_home_sure() {
    let wrong = (0..4000).any(|nth| round(Some(Rule::AppendsMakeSure), nth) != 7);
    assert!(wrong, "the rule is off, and nothing notices");
}

/// Where the disk was synced while a checkpoint of several batches went on, and a block was
/// appended from its first batch on.
fn syncs_of_a_checkpoint_and_an_append() -> Vec<Site> {
    let facts = DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew);
    let block_size = BlockSize::new(BLOCK as u32).expect("a block size");
    let disk = DiskImage::blank(block_size, BLOCKS, facts);
    let world = World::boot(Image::blank(1 << 18).with_disk(disk), Model::Torn8);
    let gate = Arc::new(Gate::default());
    let options = any_options(byte_delta(), Stopping(Arc::clone(&gate), None))
        .lanes(2)
        .batch_blocks(1)
        .shield_blocks(1)
        .keep_on_close(true);
    let (pmem, disk) = of_world(&world);
    let journal = DynJournal::format(pmem, disk, &options);
    let journal = &journal.expect("formats");
    for block in 40..46 {
        journal.transact(|tx| tx.write(BlockNumber(block), &[4; BLOCK])).expect("commits");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            STOPS_IN_SYNC.set(true);
            journal.checkpoint().expect("writes home");
        });
        gate.await_stopped();
        scope.spawn(|| {
            journal.transact(|tx| tx.append(BlockNumber(5), &[7; BLOCK])).expect("commits");
        });
        pass(Duration::from_millis(5));
        gate.open();
    });
    gate.sites.lock().expect("no panic").clone()
}

/// An append goes home between two batches of a checkpoint, and does not wait for the last one. It
/// comes too late for that in some rounds, but not in all.
#[test]
fn an_append_does_not_wait_for_a_whole_checkpoint() {
    let is_between = |sites: &Vec<Site>| {
        let at = sites.iter().position(|site| site.name.starts_with("append"));
        let behind = &sites[at.expect("it is synced")..];
        behind.iter().any(|site| site.name.starts_with("checkpoint"))
    };
    let mut rounds = (0..500).map(|_| syncs_of_a_checkpoint_and_an_append());
    assert!(rounds.any(|sites| is_between(&sites)), "it always waits");
}

thread_local! {
    /// Whether this thread's next sync of the disk fails, and it waits where the failure is noted.
    static FAILS: Cell<bool> = const { Cell::new(false) };
    static HAS_FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Lets an append fail beside a checkpoint that waits for it.
#[derive(Clone, Debug)]
struct Failing {
    gate: Arc<Gate>,
    /// Whether a head has moved, and whether one had when the failure was noted.
    moved: Arc<[AtomicBool; 2]>,
}

impl Hook for Failing {
    fn keeps(&self, rule: Rule) -> bool {
        if rule == Rule::Sticky && HAS_FAILED.take() {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(100) {
                std::thread::yield_now();
            }
            self.moved[1].store(self.moved[0].load(Ordering::SeqCst), Ordering::SeqCst);
        }
        true
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        if site.name.starts_with("superblock") {
            self.moved[0].store(true, Ordering::SeqCst);
        }
        pmem.fence()
    }

    fn disk_sync<D: BlockDevice>(&mut self, _: Site, device: &mut D) -> Result<(), DeviceError> {
        if FAILS.take() {
            self.gate.stop();
            HAS_FAILED.set(true);
            let (operation, kind) = (DeviceOperation::Sync, DeviceErrorKind::Io { os: None });
            return Err(DeviceError { operation, kind, block: BlockNumber(0) });
        }
        device.sync()
    }
}

/// Its home may show what is not durable, and the discard below it tells of that. So no head passes
/// the discard before the journal has failed, although a checkpoint waits for the append to end.
#[test]
fn an_append_that_fails_lets_no_head_pass() {
    let facts = DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew);
    let block_size = BlockSize::new(BLOCK as u32).expect("a block size");
    let disk = DiskImage::blank(block_size, BLOCKS, facts);
    let world = World::boot(Image::blank(1 << 18).with_disk(disk), Model::Torn8);
    let (gate, moved) = (Arc::new(Gate::default()), Arc::<[AtomicBool; 2]>::default());
    let hook = Failing { gate: Arc::clone(&gate), moved: Arc::clone(&moved) };
    let options = any_options(byte_delta(), hook).lanes(1).keep_on_close(true);
    let (pmem, disk) = of_world(&world);
    let journal = &DynJournal::format(pmem, disk, &options).expect("formats");
    journal.transact(|tx| tx.write(BlockNumber(5), &[1; BLOCK])).expect("commits");
    journal.transact(|tx| tx.discard(BlockNumber(5))).expect("commits");
    std::thread::scope(|scope| {
        let appender = scope.spawn(|| {
            FAILS.set(true);
            journal.transact(|tx| tx.append(BlockNumber(5), &[7; BLOCK]))
        });
        gate.await_stopped();
        let checkpointer = scope.spawn(|| journal.checkpoint());
        pass(Duration::from_millis(50));
        // Heads may have come as far as the discard.
        moved[0].store(false, Ordering::SeqCst);
        gate.open();
        appender.join().expect("no panic").expect_err("its sync failed");
        checkpointer.join().expect("no panic").expect_err("the journal has failed");
    });
    assert!(!moved[1].load(Ordering::SeqCst), "a head has moved before the failure was noted");
}
