//! What a crash left: scan, revoke, replay.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use journal_core::check::crc64;
use journal_core::{BlockDevice, BlockNumber, NoHook};

use crate::config::Config;
use crate::engine::journal::{BATCH, BlockJournal, behind, ring_block, write_home};
use crate::error::{Damage, Error, FormatError, OpenError};
use crate::hook::{ProtocolHook, Rule, site};
use crate::medium::format::format;
use crate::medium::layout::{self, Header, Kind, TAG_ESCAPED};
use crate::medium::superblock::{SUPERBLOCKS, Superblock};
use crate::stats::{Recovered, Stats};

/// An image of a committed transaction.
#[derive(Clone, Copy, Debug)]
struct Found {
    sequence: u64,
    home: u64,
    position: u64,
    is_escaped: bool,
}

/// What a transaction, or all of them, hold.
#[derive(Debug, Default)]
struct Contents {
    images: Vec<Found>,
    /// Each revoked block, and the newest transaction that revoked it.
    revoked: BTreeMap<u64, u64>,
}

impl Contents {
    fn append(&mut self, mut more: Self) {
        self.images.append(&mut more.images);
        // Later transactions come later: theirs are the higher sequences.
        self.revoked.append(&mut more.revoked);
    }
}

/// Why the transaction at a position does not count.
enum Unusable {
    /// It has no end: the log ends before it.
    Absent,
    Broken(OpenError),
}

impl From<journal_core::DeviceError> for Unusable {
    fn from(error: journal_core::DeviceError) -> Self {
        Self::Broken(error.into())
    }
}

impl<J: BlockDevice, D: BlockDevice> BlockJournal<J, D> {
    /// Makes an empty journal on `journal`, for a store whose blocks are on `home`. The store's
    /// blocks stay as they are; whatever journal was there is gone.
    ///
    /// **Crash**: there is no journal, or a whole one.
    ///
    /// # Errors
    /// Devices that do not suit each other, or that fail.
    pub fn format(journal: &mut J, home: &D, config: Config) -> Result<(), FormatError> {
        format(journal, home, config)
    }

    /// Opens a journal on whatever the devices hold. What was committed is home when this returns,
    /// and durable.
    ///
    /// # Errors
    /// Devices that fail, and damage that no crash explains. Nothing was written home then, unless
    /// a device failed.
    pub fn open(journal: J, home: D, config: Config) -> Result<(Self, Recovered), OpenError> {
        Self::open_with_hook(journal, home, config, NoHook)
    }
}

impl<J: BlockDevice, D: BlockDevice, H: ProtocolHook> BlockJournal<J, D, H> {
    /// As [`open`](BlockJournal::open), with every write and sync through a hook.
    ///
    /// # Errors
    /// As for [`open`](BlockJournal::open).
    pub fn open_with_hook(
        mut journal: J,
        home: D,
        config: Config,
        hook: H,
    ) -> Result<(Self, Recovered), OpenError> {
        let found = Superblock::load(&mut journal, &home)?;
        let mut opened = Self::new(journal, home, hook, config, found);
        let recovered = opened.recover()?;
        opened.stats = Stats::default();
        Ok((opened, recovered))
    }

    fn recover(&mut self) -> Result<Recovered, OpenError> {
        let mut report = Recovered { was_closed: self.superblock.closed, ..Recovered::default() };
        let mut end = self.superblock.sequence;
        let mut found = Contents::default();
        if !report.was_closed {
            found = self.scan(&mut report)?;
            end = end.checked_add(report.transactions).ok_or(OpenError::Exhausted)?;
        }
        // A killed process may have left all that was read in the device's cache. Nothing is
        // written over any of it, nor built on it, before it is durable.
        let found_written = self.journal.write(site::SUPERBLOCK, BlockNumber(0), &[])?;
        let _durable = self.journal.sync(site::FOUND_SYNC, found_written)?;
        self.replay(&found, &mut report)?;
        // No block of a torn transaction has the sequence of one to come.
        self.next = end.checked_add(1).ok_or(OpenError::Exhausted)?;
        // Both copies: where one rots, the other does not say that the journal is closed.
        for _copy in 0..SUPERBLOCKS {
            self.store_superblock(self.next, 0, false).map_err(|error| match error {
                Error::Device(error) => OpenError::Device(error),
                _ => OpenError::Exhausted,
            })?;
        }
        Ok(report)
    }

    /// Finds all committed transactions, and what they hold.
    fn scan(&mut self, report: &mut Recovered) -> Result<Contents, OpenError> {
        let mut all = Contents::default();
        let (mut position, mut walked) = (u64::from(self.superblock.tail), 0_u64);
        let mut sequence = self.superblock.sequence;
        loop {
            let left = self.ring_blocks().saturating_sub(walked);
            match self.transaction_at(position, sequence, left, report) {
                Ok((contents, blocks)) => {
                    all.append(contents);
                    walked = walked.saturating_add(blocks);
                    position = self.position_behind(position, blocks);
                    report.transactions = report.transactions.saturating_add(1);
                    sequence = sequence.checked_add(1).ok_or(OpenError::Exhausted)?;
                }
                Err(Unusable::Broken(error)) => return Err(error),
                Err(Unusable::Absent) => break,
            }
        }
        if self.config.looks_behind && self.keeps_to(Rule::LooksBehind) {
            let left = self.ring_blocks().saturating_sub(walked);
            self.look_behind(position, sequence, left, report)?;
        }
        Ok(all)
    }

    /// Reads the transaction that should be at a position: what it holds, and how many blocks it
    /// has, of `left` at most.
    fn transaction_at(
        &mut self,
        start: u64,
        sequence: u64,
        left: u64,
        report: &mut Recovered,
    ) -> Result<(Contents, u64), Unusable> {
        let broken = |damage| Unusable::Broken(OpenError::Damaged { sequence, damage });
        let seed = self.superblock.id;
        let mut contents = Contents::default();
        let (mut blocks, mut check) = (0_u64, seed);
        let mut block = vec![0; self.block_size().bytes()];
        while blocks < left {
            let position = self.position_behind(start, blocks);
            self.read_ring(position, &mut block, report)?;
            let header = layout::header(&block, seed).ok_or(Unusable::Absent)?;
            if header.sequence != sequence && self.keeps_to(Rule::SequenceChecked) {
                return Err(Unusable::Absent);
            }
            if header.kind == Kind::Commit {
                let fields = layout::commit_fields(&block).ok_or(Unusable::Absent)?;
                let is_right = u64::from(fields.blocks) == blocks && fields.check == check;
                if !is_right && self.keeps_to(Rule::CommitChecked) {
                    return Err(broken(Damage::Content));
                }
                return Ok((contents, blocks.saturating_add(1)));
            }
            blocks = blocks.saturating_add(1);
            check = crc64(check, &block);
            match header.kind {
                Kind::Revoke => {
                    let revoked = layout::revoked(&block).ok_or_else(|| broken(Damage::Revoke))?;
                    contents.revoked.extend(revoked.into_iter().map(|home| (home, sequence)));
                }
                Kind::Descriptor => {
                    let tags = layout::tags(&block).ok_or_else(|| broken(Damage::Descriptor))?;
                    for tag in tags {
                        if tag.block >= self.block_count() {
                            return Err(broken(Damage::Home(BlockNumber(tag.block))));
                        }
                        if blocks >= left {
                            return Err(Unusable::Absent);
                        }
                        let position = self.position_behind(start, blocks);
                        self.read_ring(position, &mut block, report)?;
                        let is_escaped = tag.flags & TAG_ESCAPED != 0;
                        let image = Found { sequence, home: tag.block, position, is_escaped };
                        contents.images.push(image);
                        blocks = blocks.saturating_add(1);
                        check = crc64(check, &block);
                    }
                }
                Kind::Superblock | Kind::Commit => return Err(Unusable::Absent),
            }
        }
        Err(Unusable::Absent)
    }

    /// Searches the rest of the ring for a proof that transaction `sequence` was committed: its
    /// commit block, or any block of a later one.
    fn look_behind(
        &mut self,
        start: u64,
        sequence: u64,
        blocks: u64,
        report: &mut Recovered,
    ) -> Result<(), OpenError> {
        let seed = self.superblock.id;
        let mut block = vec![0; self.block_size().bytes()];
        for offset in 0..blocks {
            self.read_ring(self.position_behind(start, offset), &mut block, report)?;
            let proves = |header: Header| {
                let is_commit = header.sequence == sequence && header.kind == Kind::Commit;
                is_commit || header.sequence > sequence
            };
            if layout::header(&block, seed).is_some_and(proves) {
                return Err(OpenError::Damaged { sequence, damage: Damage::Hidden });
            }
        }
        Ok(())
    }

    /// Writes home what was found, older transactions first, and syncs.
    fn replay(&mut self, found: &Contents, report: &mut Recovered) -> Result<(), OpenError> {
        let mut images: Vec<&Found> = found.images.iter().collect();
        if !self.keeps_to(Rule::ReplayedInOrder) {
            images.reverse();
        }
        let honours = self.keeps_to(Rule::RevokesHonoured);
        images.retain(|image| {
            let by = found.revoked.get(&image.home);
            let is_revoked = honours && by.is_some_and(|by| *by >= image.sequence);
            report.revoked = report.revoked.saturating_add(u64::from(is_revoked));
            !is_revoked
        });
        // Of what a killed process wrote home, the cache may hold some too: what this open shows
        // does not vanish after it.
        let mut written = self.home.write(site::REPLAY, BlockNumber(0), &[])?;
        for batch in images.chunks(BATCH) {
            let mut contents = Vec::with_capacity(batch.len());
            for image in batch {
                let mut content = vec![0; self.block_size().bytes()];
                self.read_ring(image.position, &mut content, report)?;
                if image.is_escaped && self.keeps_to(Rule::EscapeUndone) {
                    layout::put(&mut content, 0, &layout::MAGIC);
                }
                contents.push((image.home, content));
            }
            let blocks: Vec<_> =
                contents.iter().map(|(home, content)| (*home, &**content)).collect();
            if let Some(more) = write_home(&mut self.home, site::REPLAY, &blocks)? {
                written = written.and(more);
            }
            report.replayed = report.replayed.saturating_add(batch.len() as u64);
        }
        let _durable = self.home.sync(site::REPLAY_SYNC, written)?;
        Ok(())
    }

    fn read_ring(
        &mut self,
        position: u64,
        into: &mut [u8],
        report: &mut Recovered,
    ) -> Result<(), journal_core::DeviceError> {
        let position = behind(position, 0, self.ring_blocks());
        self.journal.read(ring_block(position), into)?;
        report.blocks_read = report.blocks_read.saturating_add(1);
        Ok(())
    }
}
