//! What a checkpoint writes home from the cache.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use journal_core::{BlockDevice, BlockNumber, DeviceError, Hook, NoHook, Rule, Site};
use lab::erased::{DynDisk, any_options};
use nvm_journal::{Journal, ObjectLog};
use sim_disk::Mutator;

use crate::pinned::Watched;
use crate::use_it::{BLOCK, Files, any_memory, block, memory};

type Call = Box<dyn FnOnce() + Send>;

/// Keeps to the rules of another hook, and calls once before something goes home.
#[derive(Clone)]
struct Between<H> {
    rules: H,
    call: Arc<Mutex<Option<Call>>>,
}

impl<H: Hook> Hook for Between<H> {
    fn keeps(&self, rule: Rule) -> bool {
        self.rules.keeps(rule)
    }

    fn disk_write<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        let call = self.call.lock().expect("no thread panics").take();
        call.into_iter().for_each(|call| call());
        device.write_vectored(first, from)
    }
}

/// Patches two blocks that are in the cache. While the first one goes home, another thread patches
/// the second one, and does not wait for durability. Returns what is home of that one.
fn home_of_the_second(rules: impl Hook + Clone + Send + Sync + 'static) -> [u8; 2] {
    let call: Arc<Mutex<Option<Call>>> = Arc::default();
    let hook = Between { rules, call: Arc::clone(&call) };
    let files = Files::new("kept-durable");
    let options = any_options(ObjectLog::new(), hook).lanes(1).cache_bytes(16 * BLOCK);
    let disk = DynDisk::new(files.disk_of(64));
    let journal = Journal::format(any_memory(2 << 20), disk, &options).expect("formats");
    let journal = Arc::new(journal);
    let mut found = [0; BLOCK];
    for number in [3, 7].map(block) {
        journal.read(number, &mut found).expect("reads");
        journal.transact(|tx| tx.write_at(number, 0, b"1")).expect("commits");
    }
    let its = Arc::clone(&journal);
    let deferred = move || {
        let mut tx = its.begin().expect("begins");
        tx.write_at(block(7), 1, b"2").expect("has room");
        tx.commit_deferred().expect("commits");
    };
    let elsewhere = move || std::thread::spawn(deferred).join().expect("ends");
    *call.lock().expect("no thread panics") = Some(Box::new(elsewhere));
    journal.checkpoint().expect("writes home");
    journal.read(block(7), &mut found).expect("reads");
    assert_eq!(&found[..2], b"12");
    let home = files.home(block(7));
    [home[0], home[1]]
}

#[test]
fn nothing_goes_home_from_the_cache_that_is_not_durable() {
    assert_eq!(&home_of_the_second(NoHook), b"1\0");
    let without = Mutator::without(&[Rule::KeptIsDurable]);
    assert_eq!(&home_of_the_second(without), b"12", "nothing notices");
}

/// A chain is not read from the persistent memory where the cache has its content.
#[test]
fn a_chain_goes_home_from_the_cache() {
    for (cached, is_read) in [(64, false), (0, true)] {
        let files = Files::new("kept-chain");
        let options = any_options(ObjectLog::new(), NoHook).lanes(1).cache_bytes(cached * BLOCK);
        let reads = Arc::new(AtomicU64::new(0));
        let region = Watched { region: memory(2 << 20), reads: Arc::clone(&reads) };
        let region = lab::erased::DynPmem::new(region);
        let disk = DynDisk::new(files.disk_of(64));
        let journal = Journal::format(region, disk, &options).expect("formats");
        let mut found = [0; BLOCK];
        for number in (0..9).map(block) {
            journal.read(number, &mut found).expect("reads");
            for turn in 1..9 {
                let at = usize::from(turn) * 99;
                journal.transact(|tx| tx.write_at(number, at, &[turn; 50])).expect("commits");
            }
        }
        reads.store(0, Ordering::Relaxed);
        assert_eq!(journal.checkpoint().expect("writes home").blocks, 9);
        // For the shield and for its home. One read beside them is of no frame.
        let of_frames = reads.load(Ordering::Relaxed) - 1;
        assert_eq!(of_frames, if is_read { 2 * 9 * 8 } else { 0 }, "a cache of {cached} blocks");
        for number in 0..9 {
            let home = files.home(block(number));
            for turn in 1..9_u8 {
                assert_eq!(home[usize::from(turn) * 99..][..50], [turn; 50], "block {number}");
            }
        }
    }
}
