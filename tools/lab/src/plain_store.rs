//! Blocks in memory as a store of files, without a journal: for what looks at the files alone.

use std::sync::{Mutex, MutexGuard, PoisonError};

use block_files::Store;
use journal_core::check::crc64;
use nvm_journal::policy::{Change, Update};
use nvm_journal::{
    BlockNumber, BlockSize, CheckpointReport, Committed, Durability, Error, Operation, Stats,
    Totals,
};

/// The size of its blocks.
pub const BLOCK_BYTES: usize = 128;

/// Blocks in memory.
#[derive(Debug)]
pub struct Plain(Mutex<Vec<u8>>);

/// Gives every block the checksum that a block of the directory has.
pub fn seal(content: &mut [u8]) {
    for (number, block) in (0..).zip(content.chunks_mut(BLOCK_BYTES)) {
        let check = crc64(number, block.get(8..).unwrap_or_default());
        if let Some(place) = block.get_mut(..8) {
            place.copy_from_slice(&check.to_le_bytes());
        }
    }
}

impl Plain {
    /// A store of these blocks.
    #[must_use]
    pub const fn new(content: Vec<u8>) -> Self {
        Self(Mutex::new(content))
    }

    fn content(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All its bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.content().clone()
    }
}

impl Store for Plain {
    fn block_size(&self) -> BlockSize {
        BlockSize::new(BLOCK_BYTES as u32).expect("a size of blocks")
    }

    fn block_count(&self) -> u64 {
        (self.content().len() / BLOCK_BYTES) as u64
    }

    fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        let content = self.content();
        let start = usize::try_from(block.raw()).ok().and_then(|raw| raw.checked_mul(BLOCK_BYTES));
        let from = start.and_then(|start| content.get(start..start + BLOCK_BYTES));
        let from = from.ok_or(Error::OutOfDevice { block })?;
        let bytes = into.len();
        let from = from.get(at..).and_then(|rest| rest.get(..bytes));
        into.copy_from_slice(from.ok_or(Error::OutOfBlock { block, at, bytes })?);
        Ok(())
    }

    fn read_run(&self, first: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        for (number, image) in (first.raw()..).zip(into.chunks_mut(BLOCK_BYTES)) {
            self.read_at(BlockNumber(number), 0, image)?;
        }
        Ok(())
    }

    fn commit(
        &self,
        operations: &[Operation<'_>],
        _durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let mut content = self.content();
        for operation in operations {
            let Operation::Update(Update { block, change: Change::Image(image), .. }) = operation
            else {
                panic!("files write images: {operation:?}")
            };
            let start = block.raw() as usize * BLOCK_BYTES;
            let place = content.get_mut(start..start + BLOCK_BYTES);
            place.ok_or(Error::OutOfDevice { block: *block })?.copy_from_slice(image);
        }
        Ok(None)
    }

    fn sync(&self) -> Result<(), Error> {
        Ok(())
    }

    fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        Ok(CheckpointReport::default())
    }

    fn close(&self) -> Result<(), Error> {
        Ok(())
    }

    fn stats(&self) -> Result<Stats, Error> {
        Ok(Stats::default())
    }

    fn totals(&self) -> Result<Totals, Error> {
        Ok(Totals::default())
    }
}
