//! An open journal: its state, and what commits, checkpoints and recovery share.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use journal_core::order::{OrderedDevice, Unsynced};
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceOperation, Hook, NoHook, Site,
};

use crate::config::{Config, Mode};
use crate::error::Error;
use crate::hook::{ProtocolHook, Rule, site};
use crate::medium::superblock::{SUPERBLOCKS, Superblock};
use crate::stats::Stats;
use crate::transaction::Transaction;

/// Most blocks that go home in one batch.
pub(crate) const BATCH: usize = 64;

/// A block journal over the homes of a store, with one owner.
#[derive(Debug)]
pub struct BlockJournal<J, D, H = NoHook> {
    pub(crate) journal: OrderedDevice<J, H>,
    pub(crate) home: OrderedDevice<D, H>,
    pub(crate) hook: H,
    pub(crate) config: Config,
    /// The superblock as it was last written.
    pub(crate) superblock: Superblock,
    /// Where in the ring the next transaction begins.
    pub(crate) head: u64,
    /// Blocks of the ring from the tail to the head.
    pub(crate) used: u64,
    /// The sequence of the next transaction.
    pub(crate) next: u64,
    /// The transactions in the ring, oldest first.
    pub(crate) live: VecDeque<Live>,
    /// The newest committed image of each block that is not home.
    pub(crate) images: BTreeMap<u64, Image>,
    /// Data that went home without a sync so far.
    pub(crate) unsynced: Option<Unsynced>,
    /// Images that were written back without a sync so far.
    pub(crate) written_back: Option<Unsynced>,
    pub(crate) failed: bool,
    pub(crate) stats: Stats,
}

/// A transaction in the ring.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) sequence: u64,
    /// Its blocks in the ring, the commit block among them.
    pub(crate) blocks: u64,
    /// The homes of its images, in the order of their logging.
    pub(crate) logged: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct Image {
    /// The transaction that logged it.
    pub(crate) sequence: u64,
    pub(crate) content: Box<[u8]>,
    /// Whether it was written back already. No sync has made that durable.
    pub(crate) is_home: bool,
}

impl<J: BlockDevice, D: BlockDevice, H: ProtocolHook> BlockJournal<J, D, H> {
    /// A journal with an empty ring, of which nothing is written yet.
    pub(crate) fn new(journal: J, home: D, hook: H, config: Config, found: Superblock) -> Self {
        Self {
            journal: OrderedDevice::with_hook(journal, hook.clone()),
            home: OrderedDevice::with_hook(home, hook.clone()),
            hook,
            config,
            superblock: found,
            head: 0,
            used: 0,
            next: found.sequence,
            live: VecDeque::new(),
            images: BTreeMap::new(),
            unsynced: None,
            written_back: None,
            failed: false,
            stats: Stats::default(),
        }
    }

    /// Begins a transaction. Any number of them may be begun; each is one until it is committed.
    #[must_use]
    pub fn begin(&self) -> Transaction {
        let Superblock { id, block_size, home_blocks, .. } = self.superblock;
        Transaction::new(id, block_size, home_blocks, self.ring_blocks())
    }

    /// Reads what was committed of a block.
    ///
    /// # Errors
    /// `OutOfRange`, `WrongLength`, `Failed`, and the device's.
    pub fn read(&mut self, block: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        if into.len() != self.block_size().bytes() {
            return Err(Error::WrongLength(into.len()));
        }
        if block.raw() >= self.superblock.home_blocks {
            return Err(Error::OutOfRange(block));
        }
        self.guarded(|journal| {
            match journal.images.get(&block.raw()) {
                Some(image) => into.copy_from_slice(&image.content),
                None => journal.home.read(block, into)?,
            }
            Ok(())
        })
    }

    /// Makes data durable that a commit sent home without a sync, as
    /// [`Mode::Writeback`] does.
    ///
    /// # Errors
    /// The device's.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.guarded(|journal| match journal.unsynced.take() {
            Some(written) => journal.sync_home(site::DATA_SYNC, written),
            None => Ok(()),
        })
    }

    /// What was done since the open.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// The mode that it was opened in.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.config.mode
    }

    /// The size of a block.
    #[must_use]
    pub const fn block_size(&self) -> BlockSize {
        self.superblock.block_size
    }

    /// How many blocks the store has.
    #[must_use]
    pub const fn block_count(&self) -> u64 {
        self.superblock.home_blocks
    }

    /// How many blocks the ring has.
    #[must_use]
    pub fn ring_blocks(&self) -> u64 {
        u64::from(self.superblock.ring_blocks)
    }

    /// How many blocks of the ring are free.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.ring_blocks().saturating_sub(self.used)
    }

    pub(crate) fn keeps_to(&self, rule: Rule) -> bool {
        self.hook.keeps_to(rule)
    }

    /// After a failed write or sync nothing is done any more.
    pub(crate) fn guarded<R>(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        let result = call(self);
        if let Err(Error::Device(error)) = &result {
            let is_read = error.operation == DeviceOperation::Read;
            self.failed = !is_read && self.keeps_to(Rule::Sticky);
        }
        result
    }

    /// Writes blocks into the ring from a position on, and round its end.
    pub(crate) fn write_ring(
        &mut self,
        site: Site,
        position: u64,
        blocks: &[&[u8]],
    ) -> Result<Unsynced, Error> {
        let to_end = self.ring_blocks().saturating_sub(position);
        let to_end = usize::try_from(to_end).unwrap_or(usize::MAX).min(blocks.len());
        let (before_end, from_start) = blocks.split_at(to_end);
        let mut written = self.journal.write(site, ring_block(position), before_end)?;
        if !from_start.is_empty() {
            written = written.and(self.journal.write(site, ring_block(0), from_start)?);
        }
        Ok(written)
    }

    /// The position that lies `blocks` behind another.
    pub(crate) fn position_behind(&self, position: u64, blocks: u64) -> u64 {
        behind(position, blocks, self.ring_blocks())
    }

    /// Writes the superblock with this tail, durably.
    pub(crate) fn store_superblock(
        &mut self,
        sequence: u64,
        tail: u64,
        closed: bool,
    ) -> Result<(), Error> {
        let generation = self.superblock.generation.checked_add(1).ok_or(Error::Exhausted)?;
        let tail = u32::try_from(tail).unwrap_or_default();
        let next = Superblock { generation, sequence, tail, closed, ..self.superblock };
        let written = self.journal.write(site::SUPERBLOCK, next.copy(), &[&next.encode()])?;
        self.stats.superblock_writes = self.stats.superblock_writes.saturating_add(1);
        self.sync_journal(site::SUPERBLOCK_SYNC, written)?;
        self.superblock = next;
        Ok(())
    }

    pub(crate) fn sync_journal(&mut self, site: Site, written: Unsynced) -> Result<(), Error> {
        let _durable = self.journal.sync(site, written)?;
        self.stats.journal_syncs = self.stats.journal_syncs.saturating_add(1);
        Ok(())
    }

    pub(crate) fn sync_home(&mut self, site: Site, written: Unsynced) -> Result<(), Error> {
        let _durable = self.home.sync(site, written)?;
        self.stats.home_syncs = self.stats.home_syncs.saturating_add(1);
        Ok(())
    }
}

/// Where a position of the ring lies on the device.
pub(crate) const fn ring_block(position: u64) -> BlockNumber {
    BlockNumber(SUPERBLOCKS.saturating_add(position))
}

/// The position that lies `blocks` behind another, in a ring of `ring` blocks.
pub(crate) fn behind(position: u64, blocks: u64, ring: u64) -> u64 {
    position.saturating_add(blocks).checked_rem(ring).unwrap_or_default()
}

/// Writes blocks home in the order given; neighbours that follow each other in one call.
pub(crate) fn write_home<D: BlockDevice, H: Hook>(
    home: &mut OrderedDevice<D, H>,
    site: Site,
    blocks: &[(u64, &[u8])],
) -> Result<Option<Unsynced>, DeviceError> {
    let mut written: Option<Unsynced> = None;
    let neighbours =
        |left: &(u64, &[u8]), right: &(u64, &[u8])| left.0.checked_add(1) == Some(right.0);
    for batch in blocks.chunks(BATCH) {
        for run in batch.chunk_by(neighbours) {
            let Some((first, _)) = run.first() else { continue };
            let contents: Vec<&[u8]> = run.iter().map(|(_, content)| *content).collect();
            let more = home.write(site, BlockNumber(*first), &contents)?;
            written = Some(match written {
                Some(written) => written.and(more),
                None => more,
            });
        }
    }
    Ok(written)
}
