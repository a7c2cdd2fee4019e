//! Threads that use a journal at once, each with transactions of its own.

use std::thread;

use super::Journal;
use super::acts::{Crowd, Tx};
use super::process::{Store, Wrong, read};
use lab::oracle::{BLOCKS, End, judge_seen, shown_label};

impl Store<'_> {
    /// Runs all threads to their ends.
    pub(super) fn crowd(&self, journal: &Journal, crowd: &Crowd) -> Result<(), Wrong> {
        if crowd.at_once {
            // A call that meets what is gathered commits that first, in its own thread.
            self.covers(|| journal.sync())?;
        }
        self.hook.yields(true);
        let result = thread::scope(|scope| {
            let writers = crowd.writers.iter().enumerate().map(|(writer, txs)| {
                scope.spawn(move || self.write(journal, writer, txs, crowd.at_once))
            });
            let mut threads: Vec<_> = writers.collect();
            threads.push(scope.spawn(|| self.keep(journal, &crowd.syncs)));
            let ended: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
            let panicked = || Wrong::Told("a thread has panicked".into());
            ended.into_iter().try_for_each(|ended| ended.unwrap_or_else(|_| Err(panicked())))
        });
        self.hook.yields(false);
        result
    }

    /// A thread that writes, and looks at a block after each transaction.
    fn write(
        &self,
        journal: &Journal,
        writer: usize,
        txs: &[Tx],
        at_once: bool,
    ) -> Result<(), Wrong> {
        for (count, tx) in txs.iter().enumerate() {
            let end = match tx.end {
                End::Gathered if at_once => End::Durable,
                end => end,
            };
            let tx = Tx { at_once: tx.at_once && at_once, end, ..tx.clone() };
            self.transact(journal, &tx, true).map_err(|wrong| match wrong {
                Wrong::Told(told) => Wrong::Told(format!("writer {writer}: {told}")),
                wrong => wrong,
            })?;
            self.see(journal, (writer + count) % BLOCKS)?;
        }
        Ok(())
    }

    /// Reads a block that others may be writing.
    fn see(&self, journal: &Journal, block: usize) -> Result<(), Wrong> {
        let found = read(journal, block)?;
        let seen = judge_seen(self.world, block, &found, &self.outside.copies);
        if let Some(number) = seen.map_err(Wrong::Told)? {
            self.world.returned(shown_label(number));
        }
        Ok(())
    }

    /// A thread that makes all durable, or brings it home.
    fn keep(&self, journal: &Journal, syncs: &[bool]) -> Result<(), Wrong> {
        for (count, syncs) in (1_u64..).zip(syncs) {
            // No other call has this id.
            let id = count << 16 | self.world.history().len() as u64;
            match syncs {
                true => self.covering(id, || journal.sync())?,
                false => self.covering(id, || journal.checkpoint().map(drop))?,
            }
            thread::yield_now();
        }
        Ok(())
    }
}
