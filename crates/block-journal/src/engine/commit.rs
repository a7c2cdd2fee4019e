//! A transaction becomes durable.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

use journal_core::order::Unsynced;
use journal_core::{BlockDevice, check::crc64};

use crate::config::{JournalDevice, Mode};
use crate::engine::journal::{BlockJournal, Image, Live, write_home};
use crate::error::Error;
use crate::hook::{ProtocolHook, Rule, site};
use crate::medium::layout::{self, CommitFields, TAG_ESCAPED, Tag};
use crate::transaction::{Staged, Transaction};

type Content = (u64, Box<[u8]>);

/// Where each change of a transaction goes.
#[derive(Default)]
struct Sorted {
    /// Into the ring.
    logged: Vec<Content>,
    /// Home.
    data: Vec<Content>,
    revoked: Vec<u64>,
    /// How many of the logged ones are data whose blocks the ring holds.
    held: u64,
}

/// The blocks of a transaction in the ring, the commit block not among them.
#[derive(Default)]
struct Record<'a> {
    blocks: Vec<Cow<'a, [u8]>>,
    revoke_blocks: u64,
    descriptor_blocks: u64,
    escaped_blocks: u64,
}

impl<J: BlockDevice, D: BlockDevice, H: ProtocolHook> BlockJournal<J, D, H> {
    /// Commits a transaction. When this returns, what the [`Mode`] logs of it is durable, and so is
    /// its data, but in [`Mode::Writeback`].
    ///
    /// Where less than a quarter of the ring is free, or less than the transaction needs, the
    /// oldest transactions go home first.
    ///
    /// # Errors
    /// `TooLarge`, `Foreign` and `Exhausted`: nothing has changed. The device's: the journal has
    /// failed, and an open will find the transaction committed or not.
    pub fn commit(&mut self, transaction: Transaction) -> Result<(), Error> {
        let ours = (self.superblock.id, self.block_size(), self.block_count());
        if (transaction.id, transaction.block_size, transaction.home_blocks) != ours {
            return Err(Error::Foreign);
        }
        self.guarded(|journal| match journal.config.mode {
            Mode::None => journal.write_through(transaction),
            _ => journal.log(transaction),
        })?;
        self.stats.commits = self.stats.commits.saturating_add(1);
        Ok(())
    }

    /// Without a journal: everything goes home, and is synced.
    fn write_through(&mut self, transaction: Transaction) -> Result<(), Error> {
        let contents: Vec<Content> = transaction
            .into_changes()
            .filter_map(|(block, change)| match change {
                Staged::Logged(content) | Staged::Data(content) => Some((block, content)),
                Staged::Discarded => None,
            })
            .collect();
        let blocks: Vec<_> = contents.iter().map(|(block, content)| (*block, &**content)).collect();
        if let Some(written) = write_home(&mut self.home, site::THROUGH, &blocks)? {
            self.stats.data_blocks = self.stats.data_blocks.saturating_add(blocks.len() as u64);
            self.sync_home(site::THROUGH_SYNC, written)?;
        }
        Ok(())
    }

    fn log(&mut self, transaction: Transaction) -> Result<(), Error> {
        let sequence = self.next;
        let after = sequence.checked_add(1).ok_or(Error::Exhausted)?;
        let Sorted { logged, data, revoked, held } = self.sort(transaction);
        let record = self.record(&logged, &revoked, sequence);
        // 1. Room, while callers stand still.
        let blocks = (record.blocks.len() as u64).saturating_add(1);
        if !record.blocks.is_empty() {
            self.free_room(blocks)?;
        }
        // 2. Data goes home.
        let written = self.write_data(&data)?;
        if record.blocks.is_empty() {
            return self.finish_data(written);
        }
        let mut unsynced_here = None;
        match self.config.journal_device {
            _ if self.config.mode != Mode::Ordered => {
                self.unsynced = joined(self.unsynced.take(), written);
            }
            JournalDevice::SameDevice => unsynced_here = written,
            JournalDevice::OwnDevice => self.finish_data(written)?,
        }
        // 3. Revoke blocks, descriptors and images; one sync for them all.
        let parts: Vec<&[u8]> = record.blocks.iter().map(|block| &**block).collect();
        let check = parts.iter().fold(self.superblock.id, |check, block| crc64(check, block));
        let images = self.write_ring(site::IMAGES, self.head, &parts)?;
        let images = joined(unsynced_here, Some(images));
        if let Some(images) = images {
            self.sync_journal(site::IMAGES_SYNC, images)?;
        }
        // 4. The commit block, and its sync: the transaction is durable.
        let fields = CommitFields { blocks: u32::try_from(parts.len()).unwrap_or(u32::MAX), check };
        let block_bytes = self.block_size().bytes();
        let commit = layout::commit(fields, block_bytes, sequence, self.superblock.id);
        let position = self.position_behind(self.head, parts.len() as u64);
        let commit = self.write_ring(site::COMMIT, position, &[&commit])?;
        self.sync_journal(site::COMMIT_SYNC, commit)?;
        self.count(&record, logged.len() as u64, held);
        // 5. Memory follows.
        self.next = after;
        self.head = self.position_behind(position, 1);
        self.used = self.used.saturating_add(blocks);
        for block in &revoked {
            self.images.remove(block);
        }
        drop(record);
        let homes = logged.iter().map(|(block, _)| *block).collect();
        self.live.push_back(Live { sequence, blocks, logged: homes });
        for (block, content) in logged {
            self.images.insert(block, Image { sequence, content, is_home: false });
        }
        Ok(())
    }

    fn sort(&self, transaction: Transaction) -> Sorted {
        let mut sorted = Sorted::default();
        for (block, change) in transaction.into_changes() {
            let is_held = self.images.contains_key(&block);
            match change {
                Staged::Logged(content) => sorted.logged.push((block, content)),
                Staged::Data(content) if self.config.mode == Mode::Data => {
                    sorted.logged.push((block, content));
                }
                // A replay or a checkpoint would write the image over it.
                Staged::Data(content) if is_held && self.keeps_to(Rule::HeldDataLogged) => {
                    sorted.held = sorted.held.saturating_add(1);
                    sorted.logged.push((block, content));
                }
                Staged::Data(content) => sorted.data.push((block, content)),
                Staged::Discarded if is_held => sorted.revoked.push(block),
                Staged::Discarded => {}
            }
        }
        sorted
    }

    /// The blocks of a transaction, in the order of the ring.
    fn record<'a>(&self, logged: &'a [Content], revoked: &[u64], sequence: u64) -> Record<'a> {
        let (seed, block_bytes) = (self.superblock.id, self.block_size().bytes());
        let mut record = Record::default();
        if self.keeps_to(Rule::RevokesWritten) {
            for some in revoked.chunks(layout::revokes_per_block(block_bytes).max(1)) {
                let block = layout::revoke(some, block_bytes, sequence, seed);
                record.blocks.push(Cow::Owned(block.into_vec()));
                record.revoke_blocks = record.revoke_blocks.saturating_add(1);
            }
        }
        let escapes = self.keeps_to(Rule::Escapes);
        for some in logged.chunks(layout::tags_per_block(block_bytes).max(1)) {
            let mut tags = Vec::with_capacity(some.len());
            let mut images = Vec::with_capacity(some.len());
            for (block, content) in some {
                let is_escaped = escapes && layout::begins_with_magic(content);
                let flags = if is_escaped { TAG_ESCAPED } else { 0 };
                tags.push(Tag { block: *block, flags });
                let mut image = Cow::Borrowed(&**content);
                if is_escaped {
                    layout::put(image.to_mut(), 0, &[0; layout::MAGIC.len()]);
                    record.escaped_blocks = record.escaped_blocks.saturating_add(1);
                }
                images.push(image);
            }
            let descriptor = layout::descriptor(&tags, block_bytes, sequence, seed);
            record.blocks.push(Cow::Owned(descriptor.into_vec()));
            record.blocks.append(&mut images);
            record.descriptor_blocks = record.descriptor_blocks.saturating_add(1);
        }
        record
    }

    fn write_data(&mut self, data: &[Content]) -> Result<Option<Unsynced>, Error> {
        let blocks: Vec<_> = data.iter().map(|(block, content)| (*block, &**content)).collect();
        let written = write_home(&mut self.home, site::DATA, &blocks)?;
        self.stats.data_blocks = self.stats.data_blocks.saturating_add(blocks.len() as u64);
        Ok(written)
    }

    /// Data is durable now, where the mode says so.
    fn finish_data(&mut self, written: Option<Unsynced>) -> Result<(), Error> {
        match written {
            Some(written) if self.config.mode == Mode::Ordered => {
                self.sync_home(site::DATA_SYNC, written)
            }
            written => {
                self.unsynced = joined(self.unsynced.take(), written);
                Ok(())
            }
        }
    }

    fn count(&mut self, record: &Record<'_>, images: u64, held: u64) {
        let stats = &mut self.stats;
        let add = |count: &mut u64, more: u64| *count = count.saturating_add(more);
        add(&mut stats.image_blocks, images);
        add(&mut stats.data_blocks_logged, held);
        add(&mut stats.escaped_blocks, record.escaped_blocks);
        add(&mut stats.descriptor_blocks, record.descriptor_blocks);
        add(&mut stats.revoke_blocks, record.revoke_blocks);
        add(&mut stats.commit_blocks, 1);
    }
}

/// What one sync of one device covers.
pub(crate) fn joined(one: Option<Unsynced>, other: Option<Unsynced>) -> Option<Unsynced> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}
