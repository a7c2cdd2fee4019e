//! What a transaction changes, gathered in memory until it is committed.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use journal_core::{BlockNumber, BlockSize};

use crate::error::Error;

/// What happens to a block.
#[derive(Clone, Debug)]
pub(crate) enum Staged {
    /// Its image goes into the ring, in every mode but [`Mode::None`](crate::Mode::None).
    Logged(Box<[u8]>),
    /// Its image goes where the mode sends data.
    Data(Box<[u8]>),
    /// It is free.
    Discarded,
}

/// Changes that become durable by one commit. Begun by
/// [`BlockJournal::begin`](crate::BlockJournal::begin); dropped, it leaves nothing behind.
///
/// The last call about a block counts. A block that was metadata once in a transaction, or was
/// discarded in it, is logged as metadata is.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub(crate) id: u64,
    pub(crate) block_size: BlockSize,
    pub(crate) home_blocks: u64,
    /// A quarter of the ring.
    pub(crate) quarter: u64,
    staged: BTreeMap<u64, Staged>,
    /// Blocks in the order of their first call.
    order: Vec<u64>,
}

impl Transaction {
    pub(crate) const fn new(id: u64, block_size: BlockSize, home_blocks: u64, ring: u64) -> Self {
        let quarter = ring / 4;
        Self { id, block_size, home_blocks, quarter, staged: BTreeMap::new(), order: Vec::new() }
    }

    /// Makes `content` the content of a block of metadata.
    ///
    /// # Errors
    /// `OutOfRange`, `WrongLength`; nothing has changed then.
    pub fn metadata(&mut self, block: BlockNumber, content: &[u8]) -> Result<(), Error> {
        self.check(block, content)?;
        self.stage(block, Staged::Logged(content.into()));
        Ok(())
    }

    /// Makes `content` the content of a block of data.
    ///
    /// # Errors
    /// As for [`metadata`](Self::metadata).
    pub fn data(&mut self, block: BlockNumber, content: &[u8]) -> Result<(), Error> {
        self.check(block, content)?;
        let is_data = matches!(self.staged.get(&block.raw()), None | Some(Staged::Data(_)));
        let content = content.into();
        self.stage(block, if is_data { Staged::Data(content) } else { Staged::Logged(content) });
        Ok(())
    }

    /// Frees a block. Its content is of no interest from now on; no replay writes an older image
    /// over what it is used for next.
    ///
    /// # Errors
    /// `OutOfRange`; nothing has changed then.
    pub fn discard(&mut self, block: BlockNumber) -> Result<(), Error> {
        if block.raw() >= self.home_blocks {
            return Err(Error::OutOfRange(block));
        }
        self.stage(block, Staged::Discarded);
        Ok(())
    }

    /// What this transaction makes of a block, if it writes it.
    #[must_use]
    pub fn content(&self, block: BlockNumber) -> Option<&[u8]> {
        match self.staged.get(&block.raw())? {
            Staged::Logged(content) | Staged::Data(content) => Some(content),
            Staged::Discarded => None,
        }
    }

    /// How many blocks it writes or discards.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.staged.len()
    }

    /// Whether nothing was asked of it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    /// Whether it changes as many blocks as a quarter of the ring has: it had better be committed.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.staged.len() as u64 >= self.quarter
    }

    fn check(&self, block: BlockNumber, content: &[u8]) -> Result<(), Error> {
        if content.len() != self.block_size.bytes() {
            return Err(Error::WrongLength(content.len()));
        }
        if block.raw() < self.home_blocks { Ok(()) } else { Err(Error::OutOfRange(block)) }
    }

    fn stage(&mut self, block: BlockNumber, what: Staged) {
        if self.staged.insert(block.raw(), what).is_none() {
            self.order.push(block.raw());
        }
    }

    /// What happens to each block, in the order of the first calls.
    pub(crate) fn into_changes(mut self) -> impl Iterator<Item = (u64, Staged)> {
        let order = core::mem::take(&mut self.order);
        order.into_iter().filter_map(move |block| Some((block, self.staged.remove(&block)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(transaction: Transaction) -> Vec<(u64, &'static str)> {
        let changes = transaction.into_changes().map(|(block, change)| match change {
            Staged::Logged(_) => (block, "logged"),
            Staged::Data(_) => (block, "data"),
            Staged::Discarded => (block, "discarded"),
        });
        changes.collect()
    }

    #[test]
    fn the_last_call_counts_and_what_was_metadata_is_logged() -> Result<(), Error> {
        let mut transaction = Transaction::new(0, BlockSize::MIN, 4, 16);
        let (old, new) = ([1; 64], [2; 64]);
        transaction.data(BlockNumber(3), &old)?;
        transaction.metadata(BlockNumber(1), &old)?;
        transaction.data(BlockNumber(1), &new)?;
        transaction.discard(BlockNumber(2))?;
        assert!(!transaction.is_full());
        transaction.discard(BlockNumber(0))?;
        transaction.data(BlockNumber(0), &new)?;
        assert_eq!(transaction.content(BlockNumber(1)), Some(&new[..]));
        assert_eq!(transaction.content(BlockNumber(2)), None);
        assert!(transaction.is_full());
        let expected = [(3, "data"), (1, "logged"), (2, "discarded"), (0, "logged")];
        assert_eq!(kinds(transaction), expected);
        Ok(())
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut transaction = Transaction::new(0, BlockSize::MIN, 4, 16);
        let block = BlockNumber(4);
        assert_eq!(transaction.data(block, &[0; 64]), Err(Error::OutOfRange(block)));
        assert_eq!(transaction.discard(block), Err(Error::OutOfRange(block)));
        let short = transaction.metadata(BlockNumber(0), &[0; 63]);
        assert_eq!(short, Err(Error::WrongLength(63)));
        assert!(transaction.is_empty());
    }
}
