//! Logged blocks that stay in ordinary memory: reads never touch persistent memory, and the size of
//! the cache bounds what is logged.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use journal_core::policy::{Change, Patch, Update};
use journal_core::{MediumError, NoHook, Offset, Pmem, PmemFacts, PmemRead, PmemShare, PmemSplit};
use lab::erased::{DynDisk, DynHook, DynJournal, DynPmem, DynPolicy, any_options};
use nvm_journal::{
    AnyPolicy, BlockSize, Durability, FileDisk, FullBlock, Journal, MapOptions, Operation, Options,
    OptionsError, Region,
};

use crate::use_it::{BLOCK, Files, block, memory};

thread_local! {
    /// How often this thread has read persistent memory.
    static OWN_READS: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has read persistent memory.
pub(crate) fn own_reads() -> u64 {
    OWN_READS.with(Cell::get)
}

fn count(reads: &AtomicU64) {
    reads.fetch_add(1, Ordering::Relaxed);
    OWN_READS.with(|own| own.set(own.get() + 1));
}

/// Memory whose readers are counted.
pub(crate) struct Watched {
    pub(crate) region: Region,
    pub(crate) reads: Arc<AtomicU64>,
}

/// A reader that counts.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    reader: <Region as PmemShare>::Reader,
    reads: Arc<AtomicU64>,
}

impl PmemRead for Reader {
    fn len(&self) -> u64 {
        self.reader.len()
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        count(&self.reads);
        self.reader.read_into(at, into)
    }
}

impl PmemRead for Watched {
    fn len(&self) -> u64 {
        self.region.len()
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        count(&self.reads);
        self.region.read_into(at, into)
    }
}

impl Pmem for Watched {
    fn facts(&self) -> PmemFacts {
        self.region.facts()
    }

    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        count(&self.reads);
        self.region.bytes(at, len)
    }

    fn store(&mut self, at: Offset, bytes: &[u8]) {
        self.region.store(at, bytes);
    }

    fn store_u64(&mut self, at: Offset, value: u64) {
        self.region.store_u64(at, value);
    }

    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        self.region.stream(at, bytes);
    }

    fn flush(&mut self, at: Offset, len: usize) {
        self.region.flush(at, len);
    }

    fn fence(&mut self) -> Result<(), MediumError> {
        self.region.fence()
    }
}

impl PmemSplit for Watched {
    fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError> {
        let (front, back) = self.region.split_at(at)?;
        let part = |region| Self { region, reads: Arc::clone(&self.reads) };
        Ok((part(front), part(back)))
    }
}

impl PmemShare for Watched {
    type Reader = Reader;

    fn reader(&self) -> Reader {
        Reader { reader: self.region.reader(), reads: Arc::clone(&self.reads) }
    }
}

fn options(policy: AnyPolicy) -> Options<DynPolicy, DynHook> {
    any_options(policy, NoHook).lanes(2).pins_logged(true).cache_bytes(128 * BLOCK)
}

fn open(files: &Files, options: &Options<DynPolicy, DynHook>) -> (DynJournal, Arc<AtomicU64>) {
    let reads = Arc::new(AtomicU64::new(0));
    let nvm = DynPmem::new(Watched { region: memory(4 << 20), reads: Arc::clone(&reads) });
    (Journal::format(nvm, files.any_disk(), options).expect("formats"), reads)
}

/// Images, patches, discards and appends, by transactions and in one call; each block is read back
/// behind each of them.
#[test]
fn reads_of_logged_blocks_never_touch_persistent_memory() {
    for policy in AnyPolicy::ALL.iter().copied() {
        let files = Files::new(&format!("pinned-{policy}"));
        let (journal, reads) = open(&files, &options(policy));
        let mut expected = vec![vec![0_u8; BLOCK]; 24];
        let mut of_reads = 0;
        for round in 0..240_u64 {
            let number = round * 7 % 23;
            let (byte, at) = (round as u8, (round * 13 % 200) as usize);
            let now = &mut expected[number as usize];
            match round % 6 {
                0 => {
                    now.fill(byte);
                    let write = [Operation::write(block(number), now)];
                    journal.commit(&write, Durability::Durable).map(drop).expect("commits");
                }
                1 => {
                    now.fill(byte);
                    expected[number as usize + 1].fill(byte);
                    let both = [block(number), block(number + 1)];
                    let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
                        both.iter().try_for_each(|one| tx.write(*one, &[byte; BLOCK]))
                    };
                    journal.transact(write).expect("commits");
                }
                2 => {
                    now[at..at + 9].fill(byte);
                    journal
                        .transact(|tx| tx.write_at(block(number), at, &[byte; 9]))
                        .expect("commits");
                }
                3 => {
                    now[at..at + 9].fill(byte);
                    journal
                        .transact_deferred(|tx| tx.write_at(block(number), at, &[byte; 9]))
                        .expect("commits");
                }
                4 => {
                    now[at..at + 9].fill(byte);
                    let patches = [Patch { at: at as u32, bytes: &[byte; 9] }];
                    let update = Update::new(block(number), Change::Patches(&patches));
                    let update = [Operation::Update(update)];
                    journal.commit(&update, Durability::Durable).map(drop).expect("commits");
                }
                _ => {
                    now[at..at + 9].fill(byte);
                    journal
                        .transact_gathered(|tx| tx.write_at(block(number), at, &[byte; 9]))
                        .expect("gathers");
                }
            }
            let before = reads.load(Ordering::Relaxed);
            let mut found = vec![0; BLOCK];
            for (number, expected) in (0..).zip(&expected) {
                journal.read(block(number), &mut found).expect("reads");
                assert!(found == *expected, "{policy}, round {round}, block {number}");
                journal.read_at(block(number), at, &mut found[..9]).expect("reads");
                assert!(found[..9] == expected[at..at + 9]);
            }
            of_reads += reads.load(Ordering::Relaxed) - before;
        }
        assert_eq!(of_reads, 0, "{policy}");
        let stats = journal.stats().expect("counts");
        assert!(stats.blocks > 0 && stats.total().commits > 100, "{policy}: {stats}");
        journal.close().expect("closes");
    }
}

#[test]
fn the_cache_bounds_what_is_logged_and_the_rest_goes_home() {
    let files = Files::new("pinned-bound");
    let (journal, reads) = open(&files, &options(FullBlock.into()).cache_bytes(64 * BLOCK));
    for round in 1..4_u8 {
        for number in 0..250 {
            let image = [round; BLOCK];
            let write = [Operation::write(block(number), &image)];
            journal.commit(&write, Durability::Durable).map(drop).expect("commits");
            let stats = journal.stats().expect("counts");
            assert!(stats.blocks <= 64 && stats.cached.blocks >= stats.blocks, "{stats}");
        }
        let (before, mut found) = (reads.load(Ordering::Relaxed), vec![0; BLOCK]);
        for number in 0..250 {
            journal.read(block(number), &mut found).expect("reads");
            assert!(found == [round; BLOCK], "block {number}");
        }
        assert_eq!(reads.load(Ordering::Relaxed), before, "from memory, or from the disk");
    }
    assert!(journal.stats().expect("counts").checkpointed.blocks > 400);
}

#[test]
fn an_open_writes_home_what_it_finds_and_readers_beside_writers_see_the_newest() {
    let files = Files::new("pinned-open");
    let span = Files::new("pinned-open-span");
    let _ = std::fs::remove_file(&span.0);
    let nvm = MapOptions::new().create(&span.0, 4 << 20).expect("a new file");
    let unpinned = Options::new().policy(AnyPolicy::from(FullBlock));
    let journal = Journal::format(nvm, files.disk(), &unpinned).expect("formats");
    for number in 0..200 {
        let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            tx.write(block(number), &[number as u8; BLOCK])
        };
        journal.transact(write).expect("commits");
    }
    drop(journal);
    let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
    let reads = Arc::new(AtomicU64::new(0));
    let region = MapOptions::new().open(&span.0).expect("is there");
    let nvm = DynPmem::new(Watched { region, reads: Arc::clone(&reads) });
    // The cache is far smaller than what is found.
    let options = options(FullBlock.into()).cache_bytes(32 * BLOCK);
    let journal = Journal::open(nvm, DynDisk::new(disk), &options).expect("opens");
    assert_eq!(journal.stats().expect("counts").blocks, 0);
    let (before, mut found) = (reads.load(Ordering::Relaxed), vec![0; BLOCK]);
    for number in 0..200_u64 {
        journal.read(block(number), &mut found).expect("reads");
        assert!(found == [number as u8; BLOCK], "block {number}");
    }
    assert_eq!(reads.load(Ordering::Relaxed), before);
    std::thread::scope(|scope| {
        let journal = &journal;
        for writer in 0..2_u64 {
            scope.spawn(move || {
                for round in 0..300_u64 {
                    let number = writer + 2 * (round % 20);
                    let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
                        tx.write(block(number), &[round as u8; BLOCK])
                    };
                    journal.transact(write).expect("commits");
                    let mut found = vec![0; BLOCK];
                    journal.read(block(number), &mut found).expect("reads");
                    assert!(found == [round as u8; BLOCK]);
                }
            });
        }
        scope.spawn(move || {
            let mut found = vec![0; BLOCK];
            for round in 0..3_000_u64 {
                journal.read(block(round % 40), &mut found).expect("reads");
                assert!(found.iter().all(|byte| *byte == found[0]), "a mixture");
            }
        });
    });
    journal.close().expect("closes");
}

#[test]
fn nothing_is_pinned_in_a_cache_that_there_is_not() {
    let options = Options::new().pins_logged(true).cache_bytes(0);
    let refused = options.plan(4 << 20, BlockSize::DEFAULT).expect_err("cannot be");
    assert_eq!(refused, OptionsError::NoCache);
    assert!(refused.to_string().contains("cache_bytes"));
}
