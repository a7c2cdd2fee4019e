//! Images go home, and the ring gets its space back.

use alloc::vec::Vec;

use journal_core::{BlockDevice, BlockNumber};

use crate::engine::commit::joined;
use crate::engine::journal::{BlockJournal, Image, write_home};
use crate::error::Error;
use crate::hook::{ProtocolHook, Rule, site};

/// In which order blocks go home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// In the order in which they were logged.
    Logging,
    /// By their numbers, so that an arm passes over the disk once.
    Sweep,
}

impl<J: BlockDevice, D: BlockDevice, H: ProtocolHook> BlockJournal<J, D, H> {
    /// Writes everything home that the ring holds, in the order of the blocks. The ring is empty
    /// then.
    ///
    /// # Errors
    /// The device's: the journal has failed.
    pub fn checkpoint(&mut self) -> Result<(), Error> {
        self.guarded(|journal| journal.checkpoint_oldest(journal.live.len(), Order::Sweep))
    }

    /// Writes everything home, notes that the ring is empty, and gives the devices back.
    ///
    /// # Errors
    /// The device's. What was committed is as safe as after a crash.
    pub fn close(mut self) -> Result<(J, D), Error> {
        self.checkpoint()?;
        self.sync()?;
        let (next, head) = (self.next, self.head);
        self.guarded(|journal| journal.store_superblock(next, head, true))?;
        Ok((self.journal.into_inner(), self.home.into_inner()))
    }

    /// Has the oldest transactions go home, one after the other, while less than a quarter of the
    /// ring is free, or less than `needed` blocks. A commit does so itself. A host whose callers
    /// stand still meanwhile, beside a commit in the background, calls this before it.
    ///
    /// # Errors
    /// `TooLarge`. The device's: the journal has failed.
    pub fn make_room(&mut self, needed: u64) -> Result<(), Error> {
        self.guarded(|journal| journal.free_room(needed))
    }

    /// Writes home the committed images of the blocks that `goes` chooses, in the order of the
    /// blocks, as a host does with what is old. There is no sync, and no space comes back: a later
    /// checkpoint finds these images written, syncs, and moves the tail.
    ///
    /// # Errors
    /// The device's: the journal has failed.
    pub fn write_back(&mut self, goes: impl Fn(BlockNumber) -> bool) -> Result<(), Error> {
        self.guarded(|journal| {
            let chosen =
                |(block, image): &(&u64, &Image)| !image.is_home && goes(BlockNumber(**block));
            let images = journal.images.iter().filter(chosen);
            let homes: Vec<(u64, &[u8])> =
                images.map(|(block, image)| (*block, &*image.content)).collect();
            let written = write_home(&mut journal.home, site::HOME, &homes)?;
            let blocks: Vec<u64> = homes.iter().map(|(block, _)| *block).collect();
            let count = blocks.len() as u64;
            journal.stats.home_blocks = journal.stats.home_blocks.saturating_add(count);
            for block in blocks {
                if let Some(image) = journal.images.get_mut(&block) {
                    image.is_home = true;
                }
            }
            journal.written_back = joined(journal.written_back.take(), written);
            Ok(())
        })
    }

    pub(crate) fn free_room(&mut self, needed: u64) -> Result<(), Error> {
        let ring = self.ring_blocks();
        if needed > ring {
            return Err(Error::TooLarge { needed, ring });
        }
        let wanted = needed.max(ring / 4);
        if self.free_blocks() >= wanted || !self.keeps_to(Rule::SpaceChecked) {
            return Ok(());
        }
        self.stats.stalls = self.stats.stalls.saturating_add(1);
        while self.free_blocks() < wanted && !self.live.is_empty() {
            self.checkpoint_oldest(1, Order::Logging)?;
        }
        Ok(())
    }

    /// Has the `count` oldest transactions go home: one sync for their blocks, then one write of
    /// the tail.
    fn checkpoint_oldest(&mut self, count: usize, order: Order) -> Result<(), Error> {
        let oldest: Vec<_> = self.live.iter().take(count).collect();
        let Some(newest) = oldest.last() else { return Ok(()) };
        let (until, mut freed) = (newest.sequence, 0_u64);
        // 1. Their blocks that no newer transaction has.
        let mut homes = Vec::new();
        for transaction in oldest {
            freed = freed.saturating_add(transaction.blocks);
            for block in &transaction.logged {
                let image = self.images.get(block);
                let image = image.filter(|image| image.sequence == transaction.sequence);
                if let Some(image) = image.filter(|image| !image.is_home) {
                    homes.push((*block, &*image.content));
                }
            }
        }
        if order == Order::Sweep {
            homes.sort_unstable_by_key(|(block, _)| *block);
        }
        let written = write_home(&mut self.home, site::HOME, &homes)?;
        self.stats.home_blocks = self.stats.home_blocks.saturating_add(homes.len() as u64);
        // 2. A sync, also of what was written back before.
        let written = joined(written, self.written_back.take());
        if let Some(written) = written {
            let written = match self.unsynced.take() {
                Some(data) => written.and(data),
                None => written,
            };
            self.sync_home(site::HOME_SYNC, written)?;
        }
        for transaction in self.live.iter().take(count) {
            for block in &transaction.logged {
                if self.images.get(block).is_some_and(|image| image.sequence <= until) {
                    self.images.remove(block);
                }
            }
        }
        // 3. The tail moves. The space is used again only once that is durable.
        let tail = self.position_behind(u64::from(self.superblock.tail), freed);
        self.store_superblock(until.saturating_add(1), tail, false)?;
        self.used = self.used.saturating_sub(freed);
        let count = count.min(self.live.len());
        drop(self.live.drain(..count));
        self.stats.checkpoints = self.stats.checkpoints.saturating_add(count as u64);
        Ok(())
    }
}
