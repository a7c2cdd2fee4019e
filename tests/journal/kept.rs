//! What a checkpoint writes home while others commit, and what it takes from the cache.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use journal_core::{BlockDevice, BlockNumber, DeviceError, Hook, NoHook, Rule, Site};
use lab::erased::{DynDisk, any_options};
use nvm_journal::{Journal, Lcow, ObjectLog};
use sim_disk::Mutator;

use crate::pinned::Watched;
use crate::use_it::{BLOCK, Files, any_memory, block, memory};

type Call = Box<dyn FnOnce() + Send>;

/// Keeps to the rules of another hook, and calls once before something goes home, or before a batch
/// looks for blocks, behind its fences.
#[derive(Clone)]
struct Between<H> {
    rules: H,
    at_search: bool,
    call: Arc<Mutex<Option<Call>>>,
}

impl<H> Between<H> {
    fn call(&self) {
        let call = self.call.lock().expect("no thread panics").take();
        call.into_iter().for_each(|call| call());
    }
}

impl<H: Hook> Hook for Between<H> {
    fn keeps(&self, rule: Rule) -> bool {
        if self.at_search && rule == Rule::ShieldFirst {
            self.call();
        }
        self.rules.keeps(rule)
    }

    fn disk_write<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        self.call();
        device.write_vectored(first, from)
    }
}

/// Patches two blocks that are in the cache. While the first one goes home, another thread patches
/// the second one, and does not wait for durability. Returns what is home of that one.
fn home_of_the_second(rules: impl Hook + Clone + Send + Sync + 'static) -> [u8; 2] {
    let call: Arc<Mutex<Option<Call>>> = Arc::default();
    let hook = Between { rules, at_search: false, call: Arc::clone(&call) };
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

/// A block that is in a slot is written anew when the fences of the first batch are done. That
/// batch leaves it out, since the slot may be written again. Another one writes it home.
#[test]
fn what_a_list_leaves_out_goes_home_behind_it() {
    for others in [0, 3] {
        let call: Arc<Mutex<Option<Call>>> = Arc::default();
        let hook = Between { rules: NoHook, at_search: true, call: Arc::clone(&call) };
        let files = Files::new(&format!("kept-left-out-{others}"));
        let options = any_options(Lcow::new(), hook).lanes(1).lane_slots(32);
        let disk = DynDisk::new(files.disk_of(64));
        let journal = Journal::format(any_memory(2 << 20), disk, &options).expect("formats");
        let journal = Arc::new(journal);
        for number in (0..others).chain([7]).map(block) {
            journal.transact(|tx| tx.write(number, &[1; BLOCK])).expect("commits");
        }
        let its = Arc::clone(&journal);
        let anew = move || its.transact(|tx| tx.write(block(7), &[2; BLOCK])).expect("commits");
        let elsewhere = move || std::thread::spawn(anew).join().expect("ends");
        *call.lock().expect("no thread panics") = Some(Box::new(elsewhere));
        journal.checkpoint().expect("writes home");
        assert!(call.lock().expect("no thread panics").is_none(), "it was written anew");
        assert!(files.home(block(7)) == [2; BLOCK], "beside {others} others");
        assert_eq!(journal.stats().expect("counts").blocks, 0);
    }
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

/// Patches eight blocks that are in the cache, with room for this number of frames. Returns how
/// many bytes that logs. All blocks are in the cache behind it.
fn logged_with(frames: usize) -> u64 {
    const TURNS: u8 = 200;
    let files = Files::new(&format!("kept-ended-{frames}"));
    let options = any_options(ObjectLog::new(), NoHook).lanes(1).cache_bytes(64 * BLOCK);
    let disk = DynDisk::new(files.disk_of(64));
    let options = options.index_frames(frames);
    let journal = Journal::format(any_memory(4 << 20), disk, &options).expect("formats");
    let mut found = [0; BLOCK];
    (0..8).for_each(|number| journal.read(block(number), &mut found).expect("reads"));
    for turn in 0..TURNS {
        for number in (0..8).map(block) {
            journal.transact(|tx| tx.write_at(number, 64, &[turn; 16])).expect("commits");
        }
    }
    let stats = journal.stats().expect("counts");
    for number in (0..8).map(block) {
        journal.read(number, &mut found).expect("reads");
        assert_eq!(found[64..80], [TURNS - 1; 16], "{number}");
    }
    assert_eq!(journal.stats().expect("counts").cached.misses, stats.cached.misses);
    stats.record_bytes
}

/// Where frames are short, a patch is logged with its whole block. The patches behind it find the
/// block in the cache.
#[test]
fn an_image_that_ends_a_chain_stays_in_the_cache() {
    assert!(logged_with(256) > logged_with(1 << 14) + 8 * BLOCK as u64, "no chain was ended");
}
