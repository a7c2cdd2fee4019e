//! What a stop of the tour works with, and what it finds.

use std::path::PathBuf;

use nvm_journal::{BlockSize, FileDisk, FileDiskError, MapError, MapOptions, Region};

use crate::tour::work::DISK_BLOCKS;

const NVM_BYTES: u64 = 32 << 20;

/// Where the persistent memory and the disk are.
pub struct Place {
    pub(super) folder: PathBuf,
    pub(super) nvm: PathBuf,
    pub(super) disk: PathBuf,
}

impl Place {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { nvm: folder.join("tour.nvm"), disk: folder.join("tour.disk"), folder }
    }

    pub(super) fn create_nvm(&self) -> Result<Region, MapError> {
        MapOptions::new().create(&self.nvm, NVM_BYTES)
    }

    pub(super) fn open_nvm(&self) -> Result<Region, MapError> {
        MapOptions::new().open(&self.nvm)
    }

    pub(super) fn create_disk(&self) -> Result<FileDisk, FileDiskError> {
        FileDisk::create(&self.disk, BlockSize::DEFAULT, DISK_BLOCKS)
    }

    pub(super) fn open_disk(&self) -> Result<FileDisk, FileDiskError> {
        FileDisk::open(&self.disk, BlockSize::DEFAULT)
    }
}

/// What a stop has found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// Transactions acknowledged as durable.
    pub(super) acknowledged: u64,
    /// Of them, those that are not there.
    pub(super) lost: u64,
    /// Transactions that were not acknowledged and are there.
    pub(super) found: u64,
    /// Transactions that are there and cannot be.
    pub(super) invented: u64,
    /// Blocks that hold anything but what the transactions that are there made of them.
    pub(super) wrong_blocks: u64,
    pub(super) kills: u64,
    /// Kills that hit a record while it was being stored.
    pub(super) unfinished: u64,
}

impl Verdict {
    pub(super) fn is_bad(&self) -> bool {
        self.lost + self.invented + self.wrong_blocks > 0
    }
}
