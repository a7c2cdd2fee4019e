//! What happens to everybody when blocks cannot go home.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use journal_core::policy::{
    ApplyError, Change, Encoder, Patch, Placement, Policy, PolicyId, Update,
};
use journal_core::{
    BlockDevice, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation, Hook, MediumError,
    NoHook, Offset, Overwrite, Pmem, PmemRead, PmemShare as _, Site,
};
use lab::erased::{DynJournal, DynPmem, any_options};
use nvm_journal::{
    AnyPolicy, BlockNumber, Durability, Error, FullBlock, Journal, Lcow, ObjectLog, Operation,
    Options, OptionsError, Region,
};

use crate::use_it::{BLOCK, Files, any_memory, block, memory};

/// Panics once where something is written home, as a device of the host's own might; or fails.
#[derive(Clone, Debug, Default)]
struct Panics {
    is_armed: Arc<AtomicBool>,
    fails: bool,
}

const BROKEN: DeviceError = DeviceError {
    operation: DeviceOperation::Write,
    kind: DeviceErrorKind::Io { os: Some(5) },
    block: BlockNumber(3),
};

impl Hook for Panics {
    fn disk_write<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        if self.is_armed.swap(false, Ordering::SeqCst) {
            if self.fails {
                return Err(BROKEN);
            }
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        device.write_vectored(first, from)
    }
}

type Call = fn(&DynJournal) -> Result<(), Error>;

/// What a call answers; that it does.
fn told<J: Send + Sync + 'static, R: Send + 'static>(
    journal: &Arc<J>,
    call: impl FnOnce(&J) -> R + Send + 'static,
) -> R {
    let (done, ends) = mpsc::channel();
    let its = Arc::clone(journal);
    std::thread::spawn(move || {
        let answer = call(&its);
        drop(its);
        done.send(answer).expect("is awaited");
    });
    ends.recv_timeout(Duration::from_secs(20)).expect("nobody waits for ever")
}

fn commit(journal: &DynJournal, number: u64) -> Result<(), Error> {
    let operations = [Operation::write(block(number), &[5; BLOCK])];
    journal.commit(&operations, Durability::Durable).map(drop)
}

/// Memory that holds what another one does.
pub(crate) fn copied(reader: &impl PmemRead) -> Region {
    let mut bytes = vec![0; reader.len() as usize];
    reader.read_into(Offset(0), &mut bytes).expect("reads");
    let mut region = memory(reader.len());
    region.store(Offset(0), &bytes);
    region
}

/// Readers wait for blocks that are on their way home. After a panic there no thread waits,
/// whatever it asks for.
#[test]
fn a_panic_on_the_way_home_keeps_nobody_waiting() {
    let files = Files::new("home-panics");
    let panics = Panics::default();
    let options = any_options(FullBlock, panics.clone());
    let journal = Journal::format(any_memory(1 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    let journal = Arc::new(journal);
    commit(&journal, 3).expect("commits");
    assert_eq!(journal.failure(), None);
    panics.is_armed.store(true, Ordering::SeqCst);
    let its = Arc::clone(&journal);
    let checkpoint = std::thread::spawn(move || its.checkpoint().map(drop)).join();
    checkpoint.expect_err("panics");
    let calls: [Call; 6] = [
        |journal| journal.read(block(3), &mut [0; BLOCK]),
        |journal| journal.transact(|tx| tx.write_at(block(3), 9, b"new")),
        |journal| commit(journal, 3),
        |journal| commit(journal, 4),
        |journal| journal.sync(),
        |journal| journal.checkpoint().map(drop),
    ];
    for call in calls {
        assert_eq!(told(&journal, call), Err(Error::Failed));
    }
    assert_eq!(journal.failure(), Some(Error::Failed));
    let journal = Arc::into_inner(journal).expect("all threads are done");
    assert_eq!(journal.close().map(drop), Err(Error::Failed));
}

/// A panic or failure ends the background thread. Every later call then fails, and `failure` says
/// why.
#[test]
fn what_happens_in_the_background_is_told_to_everybody() {
    for fails in [false, true] {
        let failure = if fails { Error::Device(BROKEN) } else { Error::Failed };
        told_of_the_background(Panics { fails, ..Panics::default() }, failure);
    }
}

fn told_of_the_background(panics: Panics, failure: Error) {
    let files = Files::new("home-background");
    panics.is_armed.store(true, Ordering::SeqCst);
    let options = any_options(FullBlock, panics).lanes(1).lane_bytes(128 << 10);
    let options = options.background_checkpoint(true);
    let journal = Journal::format(any_memory(1 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    // So full that it is asked to make room, and no fuller.
    (0..26).try_for_each(|number| commit(&journal, number)).unwrap_or_else(|error| {
        assert_eq!(error, Error::Failed);
    });
    let begun = Instant::now();
    while journal.read(block(99), &mut [0; BLOCK]) != Err(Error::Failed) {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody is told");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(journal.failure(), Some(failure));
}

/// A device that may tear a block, and changes that are logged of one, need a shield: that is said
/// when the journal is formatted. One that was formatted for another device gives back all that
/// does not need one, and a whole image is the end of it.
#[test]
fn what_needs_a_shield_and_has_none_is_refused_or_stays_alone() {
    let files = Files::new("home-shield");
    let options =
        Options::new().policy(AnyPolicy::from(ObjectLog::new())).lanes(1).shield_blocks(0);
    let formatted = Journal::format(memory(1 << 20), files.disk(), &options).map(drop);
    assert_eq!(formatted, Err(Error::Options(OptionsError::NoShield)));
    let whole = Options::new().lanes(1).shield_blocks(0);
    drop(Journal::format(memory(1 << 20), files.disk(), &whole).expect("logs whole blocks"));

    let disk = files.disk();
    let atomic = disk.clone().with_facts(DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew));
    let region = memory(1 << 20);
    let reader = region.reader();
    let journal = Journal::format(region, atomic, &options).expect("formats");
    let image = [5; BLOCK];
    for number in 10..20 {
        let operations = [Operation::write(block(number), &image)];
        journal.commit(&operations, Durability::Durable).expect("commits");
    }
    journal.transact(|tx| tx.write_at(block(3), 9, b"new")).expect("commits");
    drop(journal);
    let journal = Journal::open(copied(&reader), disk, &options).expect("opens");
    let used = || journal.stats().expect("counts").lanes[0].used_bytes;
    let before = used();
    let stays = Error::NoShield { block: block(3) };
    assert_eq!(journal.checkpoint(), Err(stays));
    assert!(used() < BLOCK as u64 && used() < before, "{} of {before}", used());
    let mut found = [0; BLOCK];
    journal.read(block(3), &mut found).expect("reads");
    assert_eq!(found[9..12], *b"new");
    journal.transact(|tx| tx.write(block(3), &image)).expect("commits");
    journal.checkpoint().expect("all can go home");
    assert_eq!(used(), 0);
    journal.close().expect("closes");
}

/// A thread that needs room beside such a block is refused where there is none.
#[test]
fn room_is_made_beside_what_needs_a_shield_and_has_none() {
    let files = Files::new("home-room");
    let options =
        Options::new().policy(AnyPolicy::from(ObjectLog::new())).lanes(1).lane_bytes(64 << 10);
    let options = options.shield_blocks(0);
    let disk = files.disk();
    let atomic = disk.clone().with_facts(DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew));
    let region = memory(1 << 20);
    let reader = region.reader();
    let journal = Journal::format(region, atomic, &options).expect("formats");
    for number in 10..22 {
        journal.transact(|tx| tx.write(block(number), &[5; BLOCK])).expect("commits");
    }
    journal.transact(|tx| tx.write_at(block(3), 9, b"new")).expect("commits");
    drop(journal);
    let journal = Journal::open(copied(&reader), disk, &options).expect("opens");
    let write = |number, byte: u8| journal.transact(|tx| tx.write(block(number), &[byte; BLOCK]));
    (0..12).for_each(|turn| write(10 + turn % 8, turn as u8).expect("there is room"));
    // What lies behind it does not come free: some time there is none.
    let refused = (0..100).find_map(|turn| write(10 + turn % 8, turn as u8).err());
    assert_eq!(refused, Some(Error::NoShield { block: block(3) }));
}

/// What lies before them in the ring keeps slots as well from coming free. What finds none goes
/// into the ring, while that has room.
#[test]
fn slots_that_do_not_come_free_for_want_of_a_shield_are_done_without() {
    let files = Files::new("home-slots");
    let options = Options::new().policy(AnyPolicy::from(Lcow::new())).lanes(1).lane_bytes(64 << 10);
    let options = options.lane_slots(4).shield_blocks(0);
    let disk = files.disk();
    let atomic = disk.clone().with_facts(DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew));
    let region = memory(1 << 20);
    let reader = region.reader();
    let journal = Journal::format(region, atomic, &options).expect("formats");
    let patches = [Patch { at: 9, bytes: b"new" }];
    let patched = Operation::Update(Update::new(block(3), Change::Patches(&patches)));
    journal.commit(&[patched], Durability::Durable).expect("commits");
    drop(journal);
    let journal = Journal::open(copied(&reader), disk, &options).expect("opens");
    let write = |number: u8| {
        let image = [number; BLOCK];
        let operations = [Operation::write(block(number.into()), &image)];
        journal.commit(&operations, Durability::Durable)
    };
    for number in 10..22 {
        write(number).expect("the ring has room");
    }
    let refused = (22..50).find_map(|number| write(number).err());
    assert_eq!(refused, Some(Error::NoShield { block: block(3) }));
    let mut found = [0; BLOCK];
    for number in 10..22_u8 {
        journal.read(block(number.into()), &mut found).expect("reads");
        assert_eq!(found, [number; BLOCK]);
    }
    journal.read(block(3), &mut found).expect("reads");
    assert_eq!(found[8..13], *b"\0new\0");
}

/// Calls back at each flush, fence and sync.
#[derive(Clone, Default)]
struct Tells(Arc<Mutex<Option<Told>>>);

type Told = Arc<dyn Fn(Site) + Send + Sync>;

impl core::fmt::Debug for Tells {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Tells")
    }
}

impl Tells {
    fn set(&self, told: Option<Told>) {
        *self.0.lock().expect("nobody panics") = told;
    }

    fn tell(&self, site: Site) {
        let told = self.0.lock().expect("nobody panics").clone();
        if let Some(told) = told {
            told(site);
        }
    }
}

impl Hook for Tells {
    fn flush<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, len: usize) {
        self.tell(site);
        pmem.flush(at, len);
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        self.tell(site);
        pmem.fence()
    }

    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        self.tell(site);
        device.sync()
    }
}

/// Logs the beginning of blocks 1 and 2 and all of others; panics where it is armed to: when it
/// places what begins with one byte, or when it applies something, after a while.
#[derive(Clone, Debug, Default)]
struct Armed {
    places: Arc<AtomicBool>,
    applies: Arc<AtomicBool>,
    /// Whether it has come to that.
    has_come: Arc<AtomicBool>,
}

const BAD: u8 = 0xEE;

impl Policy for Armed {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E5A)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let Some(image) = update.change.image() else { return Placement::Image };
        if image[0] == BAD && self.places.swap(false, Ordering::SeqCst) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        let is_low = update.block.0 <= 2 && out.put(&image[..16]).is_ok();
        if is_low { Placement::Encoded } else { Placement::Image }
    }

    fn apply(&self, payload: &[u8], into: &mut [u8]) -> Result<(), ApplyError> {
        if self.applies.swap(false, Ordering::SeqCst) {
            self.has_come.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(300));
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        into[..payload.len()].copy_from_slice(payload);
        Ok(())
    }
}

/// A thread that commits what was gathered, because it wants a block of it or needs room, holds
/// blocks that others wait for. They are told when the policy panics over it.
#[test]
fn a_panic_over_what_was_gathered_keeps_nobody_waiting() {
    for needs_room in [false, true] {
        let (files, policy) = (Files::new("home-gathered"), Armed::default());
        let options = any_options(policy.clone(), NoHook).lanes(1).lane_bytes(64 << 10);
        let journal = Journal::format(any_memory(1 << 20), files.any_disk(), &options);
        let journal = journal.expect("formats");
        let journal = Arc::new(journal);
        journal.transact_gathered(|tx| tx.write(block(5), &[BAD; BLOCK])).expect("is gathered");
        policy.places.store(true, Ordering::SeqCst);
        let (image, numbers) = ([1; BLOCK], if needs_room { 20..34 } else { 5..7 });
        let all: Vec<_> = numbers.clone().map(|at| Operation::write(block(at), &image)).collect();
        let committed =
            catch_unwind(AssertUnwindSafe(|| journal.commit(&all, Durability::Durable)));
        committed.expect_err("panics");
        let other = block(numbers.end - 1);
        let told =
            told(&journal, move |journal| journal.transact(|tx| tx.write(other, &[2; BLOCK])));
        assert_eq!(told, Err(Error::Failed), "{needs_room}");
    }
}

/// A reader that panics in a policy takes a share of the index with it. A checkpoint that is under
/// way and does not see what is in there makes nothing of that: no head moves, nothing goes home.
#[test]
fn a_part_of_the_index_that_a_panic_takes_is_not_taken_for_empty() {
    for (begins_at, reads) in [("deferred.flush", 1), ("shield.fence", 2)] {
        let (files, policy, tells) = (Files::new("home-share"), Armed::default(), Tells::default());
        let options = any_options(policy.clone(), tells.clone());
        let options = options.lanes(1).batch_blocks(1).cache_bytes(0);
        let (disk, region) = (files.any_disk(), any_memory(1 << 20));
        let reader = region.reader();
        let journal = Journal::format(region, disk.clone(), &options).expect("formats");
        let journal = Arc::new(journal);
        let commit = |journal: &DynJournal, number: u64, durability| {
            let image = [number as u8; BLOCK];
            let operations = [Operation::write(block(number), &image)];
            journal.commit(&operations, durability).expect("commits");
        };
        for number in [1, 2] {
            commit(&journal, number, Durability::Durable);
        }
        let (its, armed) = (Arc::clone(&journal), policy.clone());
        let (syncs, begun) = (AtomicU64::new(0), AtomicBool::new(false));
        tells.set(Some(Arc::new(move |site| {
            if site.name == "checkpoint.sync" && syncs.fetch_add(1, Ordering::SeqCst) == 1 {
                // Behind what is settled.
                commit(&its, 3, Durability::Durable);
                commit(&its, 4, Durability::Deferred);
            }
            if site.name == begins_at && !begun.swap(true, Ordering::SeqCst) {
                armed.applies.store(true, Ordering::SeqCst);
                let its = Arc::clone(&its);
                std::thread::spawn(move || its.read(block(reads), &mut [0; BLOCK]));
                let begun = Instant::now();
                while !armed.has_come.load(Ordering::SeqCst) {
                    assert!(begun.elapsed() < Duration::from_secs(20), "nobody reads");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        })));
        let _ = journal.checkpoint();
        tells.set(None);
        drop(journal);
        let copied = DynPmem::new(copied(&reader));
        let journal = Journal::open(copied, disk, &options).expect("opens");
        let is_third_there = begins_at == "deferred.flush";
        let third = if is_third_there { BLOCK } else { 0 };
        for (number, written) in [(1, 16), (2, 16), (3, third)] {
            let mut found = [0; BLOCK];
            journal.read(block(number), &mut found).expect("reads");
            let mut expected = [0; BLOCK];
            expected[..written].fill(number as u8);
            assert!(found == expected, "block {number}, {begins_at}");
        }
    }
}
