//! A run of a store's blocks as a store.

use alloc::sync::Arc;

use nvm_journal::{
    BlockNumber, BlockSize, CheckpointReport, Committed, Durability, Error, Operation, Stats,
    Totals,
};

use crate::store::Store;

/// A run of the blocks of a store, as a store of its own: so one journal holds a
/// [`OneFile`](crate::OneFile) and [`BlockFiles`](crate::BlockFiles) beside it.
///
/// The journal is one for all parts. A sync, a checkpoint or a close of one part is a sync, a
/// checkpoint or a close of all, and counts are those of the journal. An error names blocks of the
/// store, except `OutOfDevice` for what lies outside of the part.
#[derive(Debug)]
pub struct Part {
    store: Arc<dyn Store>,
    first: u64,
    count: u64,
}

impl Part {
    /// The `count` blocks from `first` on.
    ///
    /// # Errors
    /// `OutOfDevice` where the store ends before.
    pub fn new(store: Arc<dyn Store>, first: u64, count: u64) -> Result<Self, Error> {
        if first.checked_add(count).is_none_or(|end| end > store.block_count()) {
            return Err(Error::OutOfDevice { block: BlockNumber(first) });
        }
        Ok(Self { store, first, count })
    }

    /// Where `count` blocks from `block` on are in the store.
    fn place(&self, block: BlockNumber, count: u64) -> Result<BlockNumber, Error> {
        let end = block.raw().checked_add(count).filter(|end| *end <= self.count);
        let place = end.and_then(|_| self.first.checked_add(block.raw()));
        place.map(BlockNumber).ok_or(Error::OutOfDevice { block })
    }
}

impl Store for Part {
    fn block_size(&self) -> BlockSize {
        self.store.block_size()
    }

    fn block_count(&self) -> u64 {
        self.count
    }

    fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        self.store.read_at(self.place(block, 1)?, at, into)
    }

    fn read_run(&self, first: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        let count = into.len().div_ceil(self.block_size().bytes());
        let place = self.place(first, count as u64)?;
        self.store.read_run(place, into)
    }

    fn commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let moved = operations.iter().map(|one| Ok(one.on(self.place(one.block(), 1)?)));
        self.store.commit(&moved.collect::<Result<Vec<_>, Error>>()?, durability)
    }

    fn sync(&self) -> Result<(), Error> {
        self.store.sync()
    }

    fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        self.store.checkpoint()
    }

    fn close(&self) -> Result<(), Error> {
        self.store.close()
    }

    fn stats(&self) -> Result<Stats, Error> {
        self.store.stats()
    }

    fn totals(&self) -> Result<Totals, Error> {
        self.store.totals()
    }
}
