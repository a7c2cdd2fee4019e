//! A journal without its type parameters: what a store on top of one needs of it.

use core::fmt;

use nvm_journal::policy::Policy;
use nvm_journal::{
    BlockNumber, BlockSize, CheckpointReport, Committed, Durability, Error, Journal, Machine,
    Operation, Stats, Totals,
};

/// An open journal, whatever its policy, memory and disk are.
///
/// Every [`Journal`] of an operating system is one. Code that takes an `Arc<dyn Store>` has no type
/// parameter for it. What is durable after which call is as the journal says it; each call costs
/// one indirect jump more.
pub trait Store: fmt::Debug + Send + Sync {
    /// The size of every block.
    fn block_size(&self) -> BlockSize;

    /// How many blocks there are.
    fn block_count(&self) -> u64;

    /// Reads the newest committed bytes of a block, from `at` on.
    ///
    /// # Errors
    /// Those of [`Journal::read_at`].
    fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error>;

    /// Reads whole blocks, one behind the other, beginning with `first`. A commit in between may be
    /// seen in some of them. Neighbours that are home are read in one call of the disk.
    ///
    /// # Errors
    /// Those of [`Journal::read_run`].
    fn read_run(&self, first: BlockNumber, into: &mut [u8]) -> Result<(), Error>;

    /// Commits operations, which ascend by block, as one transaction.
    ///
    /// # Errors
    /// Those of [`Journal::commit`].
    fn commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error>;

    /// Makes everything durable that was committed before.
    ///
    /// # Errors
    /// Those of [`Journal::sync`].
    fn sync(&self) -> Result<(), Error>;

    /// Writes everything home that was committed before.
    ///
    /// # Errors
    /// Those of [`Journal::checkpoint`].
    fn checkpoint(&self) -> Result<CheckpointReport, Error>;

    /// Ends the journal in good order: everything is home. Files on it answer an error from then
    /// on. A [`Journal`] itself would go on, and ends for good when it is dropped.
    ///
    /// # Errors
    /// Those of [`Journal::checkpoint`], and `Unreadable` where a block cannot be read.
    fn close(&self) -> Result<(), Error>;

    /// What the journal has done so far.
    ///
    /// # Errors
    /// Those of [`Journal::stats`].
    fn stats(&self) -> Result<Stats, Error>;

    /// The counts that a program watches. They wait for no reader of blocks, so a loop may ask.
    ///
    /// # Errors
    /// Those of [`Journal::totals`].
    fn totals(&self) -> Result<Totals, Error>;
}

impl<L: Policy + Clone + Send + Sync + 'static, M: Machine> Store for Journal<L, M> {
    fn block_size(&self) -> BlockSize {
        self.geometry().block_size
    }

    fn block_count(&self) -> u64 {
        Self::block_count(self)
    }

    fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        Self::read_at(self, block, at, into)
    }

    fn read_run(&self, first: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        if into.is_empty() { Ok(()) } else { Self::read_run(self, first, into) }
    }

    fn commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        Self::commit(self, operations, durability)
    }

    fn sync(&self) -> Result<(), Error> {
        Self::sync(self)
    }

    fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        Self::checkpoint(self)
    }

    fn close(&self) -> Result<(), Error> {
        Self::sync(self)?;
        if Self::checkpoint(self)?.unreadable == 0 {
            return Ok(());
        }
        let left = self.unreadable()?.first().copied();
        left.map_or(Ok(()), |block| Err(Error::Unreadable { block }))
    }

    fn stats(&self) -> Result<Stats, Error> {
        Self::stats(self)
    }

    fn totals(&self) -> Result<Totals, Error> {
        Self::totals(self)
    }
}
