//! The block journal as an engine.

use block_journal::{BlockJournal, Config, Error, Stats, Transaction};
use journal_core::{BlockDevice, BlockNumber};

use crate::engines::engine::{Counts, Engine, Failure, Update};

/// A block journal and its running transaction.
#[derive(Debug)]
pub struct BlockEngine<J, D> {
    journal: BlockJournal<J, D>,
    running: Transaction,
}

impl<J: BlockDevice, D: BlockDevice> BlockEngine<J, D> {
    /// Makes an empty journal and opens it.
    ///
    /// # Errors
    /// Devices that do not suit each other, or that fail.
    pub fn format(mut journal: J, home: D, config: Config) -> Result<Self, Failure> {
        BlockJournal::format(&mut journal, &home, config)?;
        Self::open(journal, home, config)
    }

    /// Opens what is there.
    ///
    /// # Errors
    /// Those of the journal.
    pub fn open(journal: J, home: D, config: Config) -> Result<Self, Failure> {
        let (journal, _) = BlockJournal::open(journal, home, config)?;
        let running = journal.begin();
        Ok(Self { journal, running })
    }

    fn block_bytes(&self) -> usize {
        self.journal.block_size().bytes()
    }

    /// What the journal counted.
    pub fn stats(&self) -> Stats {
        self.journal.stats()
    }
}

/// The block of an update, and its image if it has one.
fn parts<'a>(update: &Update<'a>) -> (BlockNumber, Option<&'a [u8]>) {
    match *update {
        Update::Metadata { block, image, .. }
        | Update::Overwrite { block, image }
        | Update::Append { block, image } => (block, Some(image)),
        Update::Discard { block } => (block, None),
    }
}

fn apply(running: &mut Transaction, update: &Update<'_>) -> Result<(), Error> {
    match *update {
        Update::Metadata { block, image, .. } => running.metadata(block, image),
        Update::Overwrite { block, image } | Update::Append { block, image } => {
            running.data(block, image)
        }
        Update::Discard { block } => running.discard(block),
    }
}

impl<J: BlockDevice, D: BlockDevice> Engine for BlockEngine<J, D> {
    fn name(&self) -> String {
        format!("block journal, {:?}", self.journal.mode()).to_lowercase()
    }

    fn update(&mut self, updates: &[Update<'_>]) -> Result<(), Failure> {
        if self.running.is_full() {
            self.commit()?;
        }
        // All of them or none: nothing is staged before all were looked at.
        for (block, image) in updates.iter().map(parts) {
            if let Some(image) = image.filter(|image| image.len() != self.block_bytes()) {
                return Err(Error::WrongLength(image.len()).into());
            }
            if block.raw() >= self.journal.block_count() {
                return Err(Error::OutOfRange(block).into());
            }
        }
        for update in updates {
            apply(&mut self.running, update)?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        if self.running.is_empty() {
            return Ok(());
        }
        let next = self.journal.begin();
        let running = core::mem::replace(&mut self.running, next);
        Ok(self.journal.commit(running)?)
    }

    fn read(&mut self, block: BlockNumber, into: &mut [u8]) -> Result<(), Failure> {
        match self.running.content(block) {
            Some(content) if content.len() == into.len() => into.copy_from_slice(content),
            _ => self.journal.read(block, into)?,
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Failure> {
        Ok(self.journal.checkpoint()?)
    }

    fn counts(&self) -> Result<Counts, Failure> {
        let stats = self.journal.stats();
        let ring_blocks = stats.journal_blocks() - stats.superblock_writes;
        Ok(Counts {
            commits: stats.commits,
            journal_bytes: ring_blocks * self.block_bytes() as u64,
            checkpoints: stats.checkpoints,
            stalls: Some(stats.stalls),
        })
    }

    fn close(mut self: Box<Self>) -> Result<(), Failure> {
        self.commit()?;
        self.journal.close()?;
        Ok(())
    }
}
