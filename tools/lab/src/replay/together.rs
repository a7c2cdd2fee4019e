//! Several traces at once: a thread commits each of them, all into one journal.
//!
//! The transactions of one trace follow each other, since nearly each one writes a block that the
//! one before has written. So each thread has a trace of its own, on blocks of its own. A further
//! thread makes room meanwhile. What the threads wrote is compared with what each trace says:
//! through the journal at the end, and on the disk once everything is home. How the threads meet is
//! left to chance, so nothing else is counted.

use std::io::Read;
use std::thread;

use journal_core::{BlockNumber, Durability};
use nvm_journal::Region;

use crate::erased::{DynDisk, DynJournal, DynPmem, any_options};
use crate::replay::media::PlainDisk;
use crate::replay::policies::Known;
use crate::replay::run::{ReplayError, Room, operations};
use crate::trace::{State, Trace};

/// What threads did together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Together {
    pub threads: u64,
    pub transactions: u64,
    pub updates: u64,
}

/// A trace, and the block of the device at which its blocks begin.
struct Part<'t, R: Read> {
    trace: &'t mut Trace<R>,
    first: u64,
}

impl<R: Read> Part<'_, R> {
    /// Commits all of the trace. Returns how many transactions and updates those are.
    fn commit(&mut self, journal: &DynJournal) -> Result<(u64, u64), ReplayError> {
        let (mut transactions, mut updates) = (0, 0);
        while self.trace.advance().map_err(ReplayError::Trace)? {
            let transaction = self.trace.transaction();
            let error = |error| ReplayError::Commit { transaction: transaction.number, error };
            let operations = operations(&transaction.writes, self.trace.state(), self.first);
            let _ = journal.commit(&operations, Durability::Durable).map_err(error)?;
            transactions += 1;
            updates += transaction.writes.len() as u64;
        }
        Ok((transactions, updates))
    }

    /// Whether the journal reads what the trace ends with.
    fn check(&self, journal: &DynJournal) -> Result<(), ReplayError> {
        let mut found = vec![0; self.trace.header().block_size.bytes()];
        for (block, image) in self.trace.state() {
            let block = BlockNumber(self.first + block);
            journal.read(block, &mut found).map_err(ReplayError::Journal)?;
            if *found != **image {
                return Err(ReplayError::Wrong { block });
            }
        }
        Ok(())
    }

    /// Adds the blocks of the trace, as they are now, to those of the device.
    fn put_into(&self, state: &mut State) {
        let blocks = self.trace.state().iter();
        state.extend(blocks.map(|(block, image)| (self.first + block, image.clone())));
    }
}

/// Replays traces of one block size under a policy, each by a thread.
pub fn together<R: Read + Send>(
    traces: &mut [Trace<R>],
    known: &Known,
    room: &Room,
) -> Result<Together, ReplayError> {
    let threads = traces.len();
    let Some(block_size) = traces.first().map(|trace| trace.header().block_size) else {
        return Ok(Together::default());
    };
    let mut blocks = 0;
    let parts = traces.iter_mut().map(|trace| {
        let first = blocks;
        blocks += trace.header().device_blocks;
        Part { trace, first }
    });
    let mut parts: Vec<_> = parts.collect();
    let mut state = State::new();
    parts.iter().for_each(|part| part.put_into(&mut state));
    let lanes = u16::try_from(threads).unwrap_or(u16::MAX);
    let log_blocks = if known.has_log() { u64::from(room.log_blocks) * threads as u64 } else { 0 };
    let disk = PlainDisk::new(block_size, blocks + log_blocks, &state);
    let mut options = any_options((known.policy)(), journal_core::NoHook)
        .lanes(lanes)
        .relogs(true)
        .index_frames(room.index_frames)
        .background_checkpoint(true);
    if known.has_log() {
        options = options.lane_log_blocks(room.log_blocks).segment_blocks(room.segment_blocks);
    }
    let region = Region::anonymous(room.nvm_bytes * threads as u64).map_err(ReplayError::Region)?;
    let (nvm, on_disk) = (DynPmem::new(region), DynDisk::new(disk.clone()));
    let journal = DynJournal::format(nvm, on_disk, &options).map_err(ReplayError::Format)?;
    let journal_ref = &journal;
    let counts = thread::scope(|scope| {
        let commits = parts.iter_mut().map(|part| scope.spawn(move || part.commit(journal_ref)));
        let commits: Vec<_> = commits.collect();
        let counts = commits.into_iter().map(|thread| thread.join().expect("a replay panicked"));
        counts.collect::<Result<Vec<_>, _>>()
    })?;
    parts.iter().try_for_each(|part| part.check(&journal))?;
    journal.close().map_err(ReplayError::Journal)?;
    parts.iter().for_each(|part| part.put_into(&mut state));
    if let Some(block) = disk.differs_from(&state) {
        return Err(ReplayError::Wrong { block });
    }
    let mut together = Together { threads: threads as u64, ..Together::default() };
    for (transactions, updates) in counts {
        together.transactions += transactions;
        together.updates += updates;
    }
    Ok(together)
}
