//! The front door of the journal in persistent memory as an engine.

use journal_core::{BlockNumber, Policy};
use nvm_journal::{Error, Hint, Journal, Machine, Transaction};

use crate::engines::engine::{Counts, Engine, Failure, Update};

/// A journal whose running transaction gathers updates.
pub struct NvmEngine<L: Policy, M: Machine> {
    journal: Journal<L, M>,
}

impl<L: Policy, M: Machine> NvmEngine<L, M> {
    /// Takes a journal that was formatted or opened.
    pub fn new(journal: Journal<L, M>) -> Self {
        Self { journal }
    }

    /// The journal, for what only it knows.
    pub fn journal(&self) -> &Journal<L, M> {
        &self.journal
    }
}

fn apply<L: Policy, M: Machine>(
    running: &mut Transaction<'_, L, M>,
    update: &Update<'_>,
) -> Result<(), Error> {
    match *update {
        Update::Metadata { block, image, object_bytes } => {
            running.write_with(block, Hint::METADATA.of_objects(object_bytes), image)
        }
        Update::Overwrite { block, image } => running.write(block, image),
        Update::Append { block, image } => running.append(block, image),
        Update::Discard { block } => running.discard(block),
    }
}

impl<L: Policy, M: Machine> Engine for NvmEngine<L, M> {
    fn name(&self) -> String {
        "nvm-journal".to_owned()
    }

    fn update(&mut self, updates: &[Update<'_>]) -> Result<(), Failure> {
        self.journal.transact_gathered(|running| {
            updates.iter().try_for_each(|update| apply(running, update))
        })?;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        Ok(self.journal.sync()?)
    }

    fn read(&mut self, block: BlockNumber, into: &mut [u8]) -> Result<(), Failure> {
        Ok(self.journal.read(block, into)?)
    }

    fn checkpoint(&mut self) -> Result<(), Failure> {
        self.journal.checkpoint()?;
        Ok(())
    }

    fn counts(&self) -> Result<Counts, Failure> {
        let stats = self.journal.stats()?;
        Ok(Counts {
            commits: stats.gathered.commits,
            journal_bytes: stats.total().bytes,
            checkpoints: stats.checkpoints,
            stalls: None,
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.journal.close()?)
    }
}
