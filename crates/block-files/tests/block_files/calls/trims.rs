//! What a trim needs of the journal before the disk forgets blocks: a checkpoint, without which
//! snapshots would see zeroes, and the next open would write to blocks that were given back.

use core::error::Error;
use core::fmt;
use std::sync::Arc;

use block_files::{BlockFiles, Store};
use lab::erased::{DynDisk, DynJournal, DynPmem, any_options};
use lab::test_disks::Forgets;
use nvm_journal::ports::NoHook;
use nvm_journal::{
    BlockNumber, BlockSize, CheckpointReport, Committed, Durability, FileDiskOptions, FullBlock,
    Journal, Operation, Stats, Totals,
};

use crate::calls::{journal, world};

type Result<T> = core::result::Result<T, nvm_journal::Error>;

/// A journal whose checkpoints may be left out.
struct Negligent {
    journal: Arc<DynJournal>,
    checkpoints: bool,
}

impl fmt::Debug for Negligent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Negligent").field("checkpoints", &self.checkpoints).finish_non_exhaustive()
    }
}

impl Store for Negligent {
    fn block_size(&self) -> BlockSize {
        Store::block_size(&*self.journal)
    }

    fn block_count(&self) -> u64 {
        Store::block_count(&*self.journal)
    }

    fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<()> {
        Store::read_at(&*self.journal, block, at, into)
    }

    fn read_run(&self, first: BlockNumber, into: &mut [u8]) -> Result<()> {
        Store::read_run(&*self.journal, first, into)
    }

    fn commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>> {
        Store::commit(&*self.journal, operations, durability)
    }

    fn sync(&self) -> Result<()> {
        Store::sync(&*self.journal)
    }

    fn checkpoint(&self) -> Result<CheckpointReport> {
        match self.checkpoints {
            true => Store::checkpoint(&*self.journal),
            false => Ok(CheckpointReport::default()),
        }
    }

    fn close(&self) -> Result<()> {
        Store::close(&*self.journal)
    }

    fn stats(&self) -> Result<Stats> {
        Store::stats(&*self.journal)
    }

    fn totals(&self) -> Result<Totals> {
        Store::totals(&*self.journal)
    }
}

const BLOCK: usize = 128;

/// What a snapshot sees of a block whose file is removed and trimmed: what it was, or that the
/// snapshot has ended.
fn snapshot_sees(checkpoints: bool) -> core::result::Result<Vec<u8>, Box<dyn Error>> {
    let world = world(1 << 18, BLOCK as u32, 400);
    let journal = Arc::new(journal(&world));
    let files =
        BlockFiles::format(Arc::new(Negligent { journal: Arc::clone(&journal), checkpoints }))?;
    files.create("a")?.write_at(0, &[7; 4 * BLOCK])?;
    journal.checkpoint()?;
    let is_of_the_file = |block: &u64| {
        let mut image = [0; BLOCK];
        journal.read(BlockNumber(*block), &mut image).is_ok_and(|()| image == [7; BLOCK])
    };
    let block = (0..400).find(is_of_the_file).ok_or("the file lies somewhere")?;
    let snapshot = journal.snapshot()?;
    files.remove("a")?;
    files.trim(&mut Forgets::new(world.disk(0)))?;
    let mut image = vec![0; BLOCK];
    match snapshot.read(BlockNumber(block), &mut image) {
        Ok(()) => Ok(image),
        // It has said that it does not know.
        Err(nvm_journal::Error::SnapshotTooOld) => Ok(vec![7; BLOCK]),
        Err(error) => Err(error.into()),
    }
}

#[test]
fn snapshots_end_before_the_disk_forgets() -> core::result::Result<(), Box<dyn Error>> {
    assert_eq!(snapshot_sees(true)?, [7; BLOCK]);
    assert_ne!(snapshot_sees(false)?, [7; BLOCK], "without a checkpoint nothing notices");
    Ok(())
}

/// The length of a growing disk, in blocks, behind a trim, an open of what a killed process has
/// left, and a checkpoint. It is given with the length right behind the trim.
fn blocks_behind(checkpoints: bool) -> core::result::Result<(u64, u64), Box<dyn Error>> {
    let name = format!("block-files-trims-{}-{checkpoints}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let size = BlockSize::DEFAULT;
    let world = world(4 << 20, size.bytes() as u32, 1);
    let settings = any_options(FullBlock, NoHook).lanes(1);
    let disk = FileDiskOptions::new().growing(1000).create(&path, size, 0)?;
    let media = || (DynPmem::new(world.pmem()), DynDisk::new(disk.clone()));
    let (nvm, below) = media();
    let journal = Arc::new(Journal::format(nvm, below, &settings)?);
    let files =
        BlockFiles::format(Arc::new(Negligent { journal: Arc::clone(&journal), checkpoints }))?;
    files.create("a")?.write_at(0, &vec![b'a'; 40 * size.bytes()])?;
    files.create("b")?.write_at(0, &vec![b'b'; 40 * size.bytes()])?;
    journal.checkpoint()?;
    files.remove("b")?;
    files.trim(&mut disk.clone())?;
    let blocks = || Ok::<_, Box<dyn Error>>(disk.file_len()? / size.bytes() as u64);
    let trimmed = blocks()?;
    drop((files, journal));
    let (nvm, below) = media();
    let journal = Journal::open(nvm, below, &settings)?;
    journal.checkpoint()?;
    let after = blocks()?;
    std::fs::remove_file(path)?;
    Ok((trimmed, after))
}

#[test]
fn no_open_takes_back_what_was_given_to_the_disk() -> core::result::Result<(), Box<dyn Error>> {
    let (trimmed, after) = blocks_behind(true)?;
    assert!(after <= trimmed, "{trimmed} blocks, and then {after}");
    let (trimmed, after) = blocks_behind(false)?;
    assert!(after > trimmed, "without a checkpoint nothing notices: {trimmed} blocks, {after}");
    Ok(())
}
