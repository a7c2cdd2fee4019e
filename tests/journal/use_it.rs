//! Each call does what its documentation says.

use core::sync::atomic::{AtomicU64, Ordering};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use journal_core::units::LaneNumber;
use journal_core::{
    BlockDevice, CheckpointReport, DeviceError, DeviceFacts, Offset, Pmem as _, Protocol,
};
use lab::erased::{DynDisk, DynPmem};
use nvm_journal::{
    AnyPolicy, BlockNumber, BlockSize, ByteDelta, Committed, Durability, Error, FileDisk,
    FileDiskErrorKind, FileDiskOptions, FullBlock, Journal, Lcow, MapOptions, ObjectLog, Operation,
    Options, Region,
};

pub(crate) const BLOCK: usize = 4096;
pub(crate) const BLOCKS: u64 = 256;

/// A disk file that goes when it is dropped.
pub(crate) struct Files(pub(crate) std::path::PathBuf);

impl Files {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir();
        Self(folder.join(format!("nvm-journal-front-{}-{name}", std::process::id())))
    }

    pub(crate) fn disk(&self) -> FileDisk {
        self.disk_of(BLOCKS)
    }

    pub(crate) fn disk_of(&self, blocks: u64) -> FileDisk {
        let _ = std::fs::remove_file(&self.0);
        FileDisk::create(&self.0, BlockSize::DEFAULT, blocks).expect("a new file")
    }

    /// [`disk`](Self::disk), for a journal of any policy and hook.
    pub(crate) fn any_disk(&self) -> DynDisk {
        DynDisk::new(self.disk())
    }
}

impl Files {
    /// What the disk holds of a block.
    pub(crate) fn home(&self, number: BlockNumber) -> [u8; BLOCK] {
        let mut found = [0; BLOCK];
        let disk = std::fs::File::open(&self.0).expect("the disk's file");
        disk.read_exact_at(&mut found, number.raw() * BLOCK as u64).expect("reads");
        found
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(crate) fn memory(bytes: u64) -> Region {
    Region::anonymous(bytes).expect("memory")
}

/// [`memory`], for a journal of any policy and hook.
pub(crate) fn any_memory(bytes: u64) -> DynPmem {
    DynPmem::new(memory(bytes))
}

pub(crate) fn block(number: u64) -> BlockNumber {
    BlockNumber(number)
}

fn read(journal: &Journal, number: u64) -> Vec<u8> {
    let mut into = vec![0; BLOCK];
    journal.read(block(number), &mut into).expect("reads");
    into
}

#[test]
fn a_transaction_is_seen_when_it_is_committed_and_by_itself_before() {
    let files = Files::new("seen");
    let journal = Journal::format(memory(1 << 20), files.disk(), &Options::new()).expect("formats");
    let mut tx = journal.begin().expect("begins");
    tx.write(block(3), &[3; BLOCK]).expect("fits");
    tx.write_at(block(4), 10, b"four").expect("fits");
    tx.write_at(block(3), 0, b"three").expect("fits");
    let mut own = [0; BLOCK];
    tx.read(block(3), &mut own).expect("reads");
    assert_eq!((&own[..5], own[5]), (&b"three"[..], 3));
    let mut part = [0; 6];
    tx.read_at(block(4), 9, &mut part).expect("reads");
    assert_eq!(&part, b"\0four\0");
    assert_eq!(read(&journal, 3), [0; BLOCK]);
    let committed = tx.commit().expect("commits").expect("something was logged");
    assert_eq!(committed.sequence.raw(), 1);
    assert_eq!((&read(&journal, 3)[..5], read(&journal, 3)[9]), (&b"three"[..], 3));
    assert_eq!(&read(&journal, 4)[9..15], b"\0four\0");
}

#[test]
fn operations_given_together_are_one_transaction() {
    let files = Files::new("together");
    let journal = Journal::format(memory(1 << 20), files.disk(), &Options::new()).expect("formats");
    let (one, two) = ([1; BLOCK], [2; BLOCK]);
    let both = [Operation::write(block(1), &one), Operation::write(block(2), &two)];
    let committed = journal.commit(&both, Durability::Durable).expect("commits");
    assert_eq!(committed.expect("was logged").sequence.raw(), 1);
    assert_eq!((read(&journal, 1), read(&journal, 2)), (one.to_vec(), two.to_vec()));
    let again = [Operation::Discard(block(1)), Operation::write(block(1), &two)];
    let refused = journal.commit(&again, Durability::Durable);
    assert_eq!(refused, Err(Error::NotAscending { block: block(1) }));
    let outside = [Operation::write(block(BLOCKS), &one)];
    let refused = journal.commit(&outside, Durability::Deferred);
    assert_eq!(refused, Err(Error::OutOfDevice { block: block(BLOCKS) }));
    assert_eq!(journal.commit(&[], Durability::Durable), Ok(None));
    let held: Vec<_> = (0..BLOCKS).map(|number| Operation::write(block(number), &one)).collect();
    let refused = journal.commit(&held, Durability::Durable);
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    assert_eq!(journal.stats().expect("counts").total().commits, 1);
    journal.commit(&both, Durability::Deferred).expect("everything was given back");
}

#[test]
fn what_is_aborted_or_dropped_never_was() {
    let files = Files::new("aborted");
    let journal = Journal::format(memory(1 << 20), files.disk(), &Options::new()).expect("formats");
    for _ in 0..1000 {
        let mut tx = journal.begin().expect("begins");
        tx.append(block(1), &[9; BLOCK]).expect("fits, each time");
        tx.discard(block(2)).expect("fits, each time");
        tx.abort();
    }
    assert_eq!(read(&journal, 1), [0; BLOCK]);
    assert_eq!(journal.begin().expect("begins").commit(), Ok(None));
    assert_eq!(journal.stats().expect("counts").total().commits, 0);
}

#[test]
fn bad_requests_are_refused_and_change_nothing() {
    let files = Files::new("refused");
    let options = Options::new().lanes(1).lane_bytes(64 << 10).shield_blocks(0);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let mut tx = journal.begin().expect("begins");
    let outside = block(BLOCKS);
    assert_eq!(tx.write(outside, &[0; BLOCK]), Err(Error::OutOfDevice { block: outside }));
    let bad = |at, bytes| Err(Error::OutOfBlock { block: block(1), at, bytes });
    assert_eq!(tx.write(block(1), &[0; 7]), bad(0, 7));
    assert_eq!(tx.write_at(block(1), BLOCK - 1, &[0; 2]), bad(BLOCK - 1, 2));
    assert_eq!(tx.read_at(block(1), usize::MAX, &mut [0; 2]), bad(usize::MAX, 2));
    assert_eq!(journal.read(block(1), &mut [0; 9]), bad(0, 9));
    for number in 0..15 {
        tx.write(block(number), &[7; BLOCK]).expect("fits");
    }
    let refused = tx.write(block(15), &[7; BLOCK]);
    assert!(matches!(refused, Err(Error::TooLarge { capacity: 65_536, .. })), "{refused:?}");
    tx.write(block(14), &[8; BLOCK]).expect("was reserved before");
    tx.commit().expect("cannot fail for space");
    assert_eq!(read(&journal, 14), [8; BLOCK]);
}

#[test]
fn a_full_journal_makes_room_by_itself() {
    let files = Files::new("full");
    let options = Options::new().lanes(1).lane_bytes(64 << 10);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    for round in 0..200_u64 {
        let content = [round as u8; BLOCK];
        journal.transact(|tx| tx.write(block(round % 40), &content)).expect("commits");
    }
    for number in 0..40 {
        assert_eq!(read(&journal, number), [(160 + number) as u8; BLOCK]);
    }
    let stats = journal.stats().expect("counts");
    assert_eq!((stats.total().commits, stats.total().fences), (200, 200));
    assert!(stats.checkpoints >= 10, "{stats:?}");
}

#[test]
fn a_disk_past_the_cache_holds_everything_behind_a_close() {
    let files = Files::new("direct");
    let disk = FileDiskOptions::new().direct(true).create(&files.0, BlockSize::DEFAULT, BLOCKS);
    let disk = match disk.map_err(|error| error.kind) {
        Ok(disk) => disk,
        Err(FileDiskErrorKind::DirectRefused { source }) => {
            let says = format!("NOT TESTED: a disk past the cache, which is refused: {source}\n");
            let told = std::io::Write::write_all(&mut std::io::stderr(), says.as_bytes());
            return told.expect("a standard error");
        }
        Err(error) => panic!("{error}"),
    };
    let options = Options::new().lanes(1).lane_bytes(128 << 10);
    let journal = Journal::format(memory(1 << 20), disk, &options).expect("formats");
    for round in 0..200_u64 {
        let content = [round as u8; BLOCK];
        let write = journal.transact(|tx| {
            tx.write(block(round % 50), &content)?;
            tx.write_at(block(100 + round % 7), 5, &[round as u8])
        });
        write.expect("commits");
    }
    journal.close().expect("closes");
    let disk = std::fs::read(&files.0).expect("is there");
    for number in 0..50 {
        assert!(disk[number * BLOCK..][..BLOCK] == [(150 + number) as u8; BLOCK]);
    }
    for number in 0..7 {
        let last = (193..200).find(|round| round % 7 == number).expect("one of seven");
        let at = (100 + number) * BLOCK;
        assert_eq!((disk[at + 4], usize::from(disk[at + 5])), (0, last));
    }
}

#[test]
fn deferred_commits_are_read_at_once_and_share_a_fence() {
    let files = Files::new("deferred");
    let options = Options::new().policy(AnyPolicy::from(ObjectLog::new()));
    let journal = Journal::format(memory(4 << 20), files.disk(), &options).expect("formats");
    let mut all = Vec::new();
    let mut found = [0; BLOCK];
    for number in 0..20 {
        if number % 2 == 0 {
            let mut tx = journal.begin().expect("begins");
            tx.write_at(block(number), 7, &[5; 64]).expect("fits");
            all.extend(tx.commit_deferred().expect("commits"));
        } else {
            let written = journal.transact_deferred(|tx| tx.write_at(block(number), 7, &[5; 64]));
            written.expect("commits");
        }
        journal.read(block(number), &mut found).expect("reads");
        assert_eq!((found[6], found[7], found[70], found[71]), (0, 5, 5, 0));
    }
    assert_eq!(journal.stats().expect("counts").total().fences, 0);
    assert!(!all.iter().any(|committed| journal.is_durable(committed)));
    journal.sync().expect("fences");
    assert!(all.len() == 10 && all.iter().all(|committed| journal.is_durable(committed)));
    let nobodys = Committed { lane: LaneNumber(99), ..all[0] };
    assert!(!journal.is_durable(&nobodys));
    assert!(journal.stats().expect("counts").total().fences <= 2, "two lanes at most");
}

/// A long record costs less when it is streamed, and then it needs a fence of its own. That fence
/// also makes durable what was deferred before.
#[test]
fn a_long_deferred_commit_is_durable_at_once() {
    let files = Files::new("deferred-long");
    let options = Options::new().policy(AnyPolicy::from(ObjectLog::new())).lanes(1);
    let journal = Journal::format(memory(4 << 20), files.disk(), &options).expect("formats");
    let deferred = |bytes: &[u8]| {
        let mut tx = journal.begin().expect("begins");
        if bytes.len() == BLOCK {
            tx.write(block(1), bytes).expect("fits");
        } else {
            tx.write_at(block(2), 0, bytes).expect("fits");
        }
        tx.commit_deferred().expect("commits").expect("was logged")
    };
    let fences = || journal.stats().expect("counts").total().fences;
    let short = deferred(&[1; 64]);
    assert!(fences() == 0 && !journal.is_durable(&short));
    let long = deferred(&[2; BLOCK]);
    assert_eq!((fences(), journal.is_durable(&short), journal.is_durable(&long)), (1, true, true));
    let last = deferred(&[3; 64]);
    assert!(fences() == 1 && !journal.is_durable(&last));
    journal.sync().expect("fences");
    assert!(fences() == 2 && journal.is_durable(&last));
}

/// A block has two slots then, which take turns: a version that is durable frees the slot of the
/// one before.
#[test]
fn a_deferred_image_that_fills_a_slot_is_durable_at_once() {
    let files = Files::new("deferred-slot");
    let options = Options::new().policy(AnyPolicy::from(Lcow::new())).lanes(1);
    let journal = Journal::format(memory(4 << 20), files.disk(), &options).expect("formats");
    for content in 0..10 {
        // Of the last ones little changes, but this policy writes all.
        let mut image = [content.min(5); BLOCK];
        image[99] = content;
        journal.transact_deferred(|tx| tx.write(block(1), &image)).expect("commits");
    }
    let total = journal.stats().expect("counts").total();
    assert_eq!((total.commits, total.fences), (10, 10));
    assert_eq!((total.new_slots, total.rewritten_slots), (2, 8));
}

/// Where an older version becomes the new one by a few bytes, deferring pays.
#[test]
fn a_deferred_image_that_changes_little_of_a_slot_waits() {
    let files = Files::new("deferred-few");
    let options = Options::new().policy(AnyPolicy::from(ByteDelta::new())).lanes(1);
    let journal = Journal::format(memory(4 << 20), files.disk(), &options).expect("formats");
    let fences_after = |content| {
        let mut image = [7; BLOCK];
        image[99] = content;
        journal.transact_deferred(|tx| tx.write(block(1), &image)).expect("commits");
        journal.stats().expect("counts").total().fences
    };
    // The third takes the slot of the first.
    assert_eq!([1, 2, 3].map(fences_after), [1, 2, 2]);
    journal.sync().expect("fences");
    // The fourth takes that of the second. Nothing is left for the fifth, which fills a third slot.
    assert_eq!([4, 5].map(fences_after), [3, 4]);
}

/// Commits that stay deferred share lane 0. Those that are fenced as too long need not.
#[test]
fn long_deferred_commits_stay_in_their_lane() {
    let files = Files::new("deferred-lane");
    let options = Options::new().policy(AnyPolicy::from(ObjectLog::new())).lanes(2);
    let journal = Journal::format(memory(4 << 20), files.disk(), &options).expect("formats");
    let first = journal.begin().expect("begins");
    let lane_of = |len, durability| {
        let mut tx = journal.begin().expect("begins");
        tx.write_at(block(1), 0, &[7; BLOCK][..len]).expect("fits");
        let committed = match durability {
            Durability::Durable => tx.commit(),
            Durability::Deferred => tx.commit_deferred(),
        };
        committed.expect("commits").expect("was logged").lane.raw()
    };
    let lanes = |len, durability| [(); 3].map(|()| lane_of(len, durability));
    let (short, long) = (64, BLOCK);
    assert_eq!(lanes(long, Durability::Deferred), [1, 1, 1]);
    assert_eq!(lanes(short, Durability::Deferred), [1, 0, 0]);
    // Short ones among long ones would have to be made durable at once in another lane.
    assert_eq!(lanes(long, Durability::Deferred), [0, 0, 0]);
    assert_eq!(lanes(long, Durability::Durable), [0, 1, 1]);
    drop(first);
}

/// The protocol is the journal's: an open does not choose.
#[test]
fn a_journal_with_tail_words_commits_with_two_fences_and_is_found() {
    let (files, span) = (Files::new("tails"), Files::new("tails-span"));
    let _ = std::fs::remove_file(&span.0);
    let nvm = MapOptions::new().create(&span.0, 1 << 20).expect("a new file");
    let options = Options::new().lanes(2).protocol(Protocol::TailPointer).keep_on_close(true);
    let journal = Journal::format(nvm, files.disk(), &options).expect("formats");
    for number in 0..20 {
        let content = [number as u8; BLOCK];
        journal.transact(|tx| tx.write(block(number), &content)).expect("commits");
    }
    let total = journal.stats().expect("counts").total();
    assert_eq!((total.commits, total.fences), (20, 40));
    journal.close().expect("closes");
    let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
    let nvm = MapOptions::new().open(&span.0).expect("is there");
    let journal = Journal::open(nvm, disk, &Options::new()).expect("opens");
    assert_eq!(journal.recovery().records, 20);
    for number in 0..20 {
        assert_eq!(read(&journal, number), [number as u8; BLOCK]);
    }
}

#[test]
fn closing_drains_and_opening_finds() {
    let files = Files::new("closed");
    let path = Files::new("closed-nvm");
    let _ = std::fs::remove_file(&path.0);
    let map = || nvm_journal::MapOptions::new();
    let nvm = map().create(&path.0, 1 << 20).expect("a new file");
    let options = Options::new();
    let journal = Journal::format(nvm, files.disk(), &options).expect("formats");
    journal.transact(|tx| tx.write(block(1), &[1; BLOCK])).expect("commits");
    drop(journal);
    let open = |options: &Options| {
        let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
        Journal::open(map().open(&path.0).expect("is there"), disk, options).expect("opens")
    };
    let journal = open(&options);
    assert_eq!(journal.recovery().records, 1);
    assert_eq!(read(&journal, 1), [1; BLOCK]);
    journal.close().expect("drains");
    let journal = open(&options.clone().keep_on_close(true));
    assert_eq!(journal.recovery().records, 0);
    assert_eq!(read(&journal, 1), [1; BLOCK]);
    journal.transact(|tx| tx.write(block(2), &[2; BLOCK])).expect("commits");
    journal.close().expect("keeps");
    let journal = open(&options.clone().drain_on_open(true));
    assert_eq!((journal.recovery().records, journal.recovery().found), (1, 1));
    assert_eq!(journal.checkpoint(), Ok(CheckpointReport::default()));
    assert_eq!(read(&journal, 2), [2; BLOCK]);
}

#[test]
fn open_never_creates() {
    let files = Files::new("never");
    let refused = Journal::open(memory(1 << 20), files.disk(), &Options::new());
    let error = refused.expect_err("there is nothing");
    assert!(error.is_no_journal(), "{error}");
    // As a format that was cut short leaves it.
    let mut begun = memory(1 << 20);
    begun.store(Offset(0), b"nvmjvoid");
    let error = Journal::open(begun, files.disk(), &Options::new()).expect_err("not finished");
    assert!(error.is_no_journal(), "{error}");
    let _: Options<FullBlock> = Options::default();
}

/// A disk whose reads are counted.
#[derive(Clone, Debug)]
pub(crate) struct CountedReads {
    pub(crate) disk: FileDisk,
    pub(crate) reads: Arc<AtomicU64>,
}

impl BlockDevice for CountedReads {
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
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.disk.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.disk.write(first, from)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.disk.sync()
    }
}
