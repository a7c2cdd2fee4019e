//! A run of a store's blocks as a store.

use alloc::sync::Arc;

use nvm_journal::ports::{DeviceError, DeviceErrorKind, DeviceOperation};
use nvm_journal::{
    BlockNumber, BlockSize, CheckpointReport, Committed, Durability, Error, Operation, Stats,
    Totals,
};

use crate::store::Store;

/// A run of the blocks of a store, as a store of its own: so one journal holds a
/// [`OneFile`](crate::OneFile) and [`BlockFiles`](crate::BlockFiles) beside it.
///
/// The journal is one for all parts. A sync, a checkpoint or a close of one part is a sync, a
/// checkpoint or a close of all, and counts are those of the journal.
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
    /// `OutOfRange` in `Device` where the store ends before.
    pub fn new(store: Arc<dyn Store>, first: u64, count: u64) -> Result<Self, Error> {
        if first.checked_add(count).is_none_or(|end| end > store.block_count()) {
            return Err(outside(DeviceOperation::Read, BlockNumber(first)));
        }
        Ok(Self { store, first, count })
    }

    /// Where `count` blocks from `block` on are in the store.
    fn place(
        &self,
        operation: DeviceOperation,
        block: BlockNumber,
        count: u64,
    ) -> Result<BlockNumber, Error> {
        let end = block.raw().checked_add(count).filter(|end| *end <= self.count);
        let place = end.and_then(|_| self.first.checked_add(block.raw()));
        place.map(BlockNumber).ok_or_else(|| outside(operation, block))
    }

    fn moved<'b>(&self, operation: &Operation<'b>) -> Result<Operation<'b>, Error> {
        let block = self.place(DeviceOperation::Write, operation.block(), 1)?;
        Ok(match operation {
            Operation::Update(update) => {
                let mut update = *update;
                update.block = block;
                Operation::Update(update)
            }
            Operation::Discard(_) => Operation::Discard(block),
            Operation::Active(_, active) => Operation::Active(block, active),
        })
    }
}

/// Behind the end of a part may be blocks of another one.
const fn outside(operation: DeviceOperation, block: BlockNumber) -> Error {
    Error::Device(DeviceError::new(operation, DeviceErrorKind::OutOfRange, block))
}

impl Store for Part {
    fn block_size(&self) -> BlockSize {
        self.store.block_size()
    }

    fn block_count(&self) -> u64 {
        self.count
    }

    fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        self.store.read_at(self.place(DeviceOperation::Read, block, 1)?, at, into)
    }

    fn read_run(&self, first: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        let count = into.len().div_ceil(self.block_size().bytes());
        let place = self.place(DeviceOperation::Read, first, count as u64)?;
        self.store.read_run(place, into)
    }

    fn commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let moved: Result<Vec<_>, _> = operations.iter().map(|one| self.moved(one)).collect();
        self.store.commit(&moved?, durability)
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
