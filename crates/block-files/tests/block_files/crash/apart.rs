//! Journals that commit some blocks of a transaction in one of their own: bugs to be found.

use block_files::Store;
use journal_core::check::crc64;
use lab::erased::DynJournal;
use nvm_journal::policy::{Change, Update};
use nvm_journal::{
    BlockNumber, BlockSize, CheckpointReport, Committed, Durability, Error, Operation, Stats,
    Totals,
};

/// Which blocks of a transaction go apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apart {
    /// No bug.
    Nothing,
    /// The heads of files, with their lengths, go behind all others.
    Heads,
    /// The list of files goes before all others, so that it names a file which is not there yet.
    Lists,
    /// The last block of the store goes behind all others: the length of one file.
    LastBlock,
}

/// A journal with such a bug.
#[derive(Debug)]
pub(crate) struct Torn {
    pub(crate) journal: DynJournal,
    pub(crate) apart: Apart,
}

/// What a block of the directory is: its ninth byte, if its checksum fits.
fn kind_of(operation: &Operation<'_>) -> Option<u8> {
    let Operation::Update(Update { block, change: Change::Image(image), .. }) = operation else {
        return None;
    };
    let check = crc64(block.raw(), image.get(8..)?).to_le_bytes();
    (image.len() >= 128 && image[..8] == check).then_some(image[8])
}

impl Torn {
    fn goes_apart(&self, operation: &Operation<'_>) -> bool {
        match self.apart {
            Apart::Nothing => false,
            Apart::Heads => kind_of(operation) == Some(3),
            Apart::Lists => kind_of(operation) == Some(2),
            Apart::LastBlock => operation.block().raw() + 1 == Store::block_count(&self.journal),
        }
    }
}

impl Store for Torn {
    fn block_size(&self) -> BlockSize {
        Store::block_size(&self.journal)
    }

    fn block_count(&self) -> u64 {
        Store::block_count(&self.journal)
    }

    fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        Store::read_at(&self.journal, block, at, into)
    }

    fn read_run(&self, first: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        Store::read_run(&self.journal, first, into)
    }

    fn commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let (apart, rest): (Vec<_>, Vec<_>) =
            operations.iter().copied().partition(|operation| self.goes_apart(operation));
        let parts = if self.apart == Apart::Lists { [apart, rest] } else { [rest, apart] };
        let mut committed = None;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            committed = Store::commit(&self.journal, part, durability)?;
        }
        Ok(committed)
    }

    fn sync(&self) -> Result<(), Error> {
        Store::sync(&self.journal)
    }

    fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        Store::checkpoint(&self.journal)
    }

    fn close(&self) -> Result<(), Error> {
        Store::close(&self.journal)
    }

    fn stats(&self) -> Result<Stats, Error> {
        Store::stats(&self.journal)
    }

    fn totals(&self) -> Result<Totals, Error> {
        Store::totals(&self.journal)
    }
}
