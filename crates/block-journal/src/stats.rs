//! What a journal has done, in numbers that comparisons use.

/// Counts since the open, recovery not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Transactions that were committed.
    pub commits: u64,
    /// Descriptor blocks written to the ring.
    pub descriptor_blocks: u64,
    /// Images written to the ring.
    pub image_blocks: u64,
    /// Of those, images that were escaped.
    pub escaped_blocks: u64,
    /// Of the images, data that went into the ring because the ring still held the block.
    pub data_blocks_logged: u64,
    /// Revoke blocks written to the ring.
    pub revoke_blocks: u64,
    /// Commit blocks written to the ring.
    pub commit_blocks: u64,
    /// Writes of the superblock.
    pub superblock_writes: u64,
    /// Blocks of data that a commit wrote home.
    pub data_blocks: u64,
    /// Blocks that checkpoints wrote home.
    pub home_blocks: u64,
    /// Syncs of the journal's device.
    pub journal_syncs: u64,
    /// Syncs of the store's device.
    pub home_syncs: u64,
    /// Transactions whose space came back.
    pub checkpoints: u64,
    /// Commits that stood still until there was room.
    pub stalls: u64,
}

impl Stats {
    /// Blocks written to the journal's device.
    #[must_use]
    pub const fn journal_blocks(&self) -> u64 {
        let ring = self.descriptor_blocks.saturating_add(self.image_blocks);
        let ring = ring.saturating_add(self.revoke_blocks).saturating_add(self.commit_blocks);
        ring.saturating_add(self.superblock_writes)
    }

    /// Blocks written to the store's device.
    #[must_use]
    pub const fn store_blocks(&self) -> u64 {
        self.data_blocks.saturating_add(self.home_blocks)
    }

    /// Syncs of both devices.
    #[must_use]
    pub const fn syncs(&self) -> u64 {
        self.journal_syncs.saturating_add(self.home_syncs)
    }
}

/// What an open found in the ring, and did with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Whether the journal had been closed: nothing was looked for.
    pub was_closed: bool,
    /// Committed transactions.
    pub transactions: u64,
    /// Images written home.
    pub replayed: u64,
    /// Images left out, because a later transaction revoked their blocks.
    pub revoked: u64,
    /// Blocks of the ring that were read.
    pub blocks_read: u64,
}
