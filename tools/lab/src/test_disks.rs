//! Simulated disks with a will of their own: one that is shorter than it is, and one that forgets
//! what is discarded.

use nvm_journal::ports::{BlockDevice, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation};
use nvm_journal::{BlockNumber, BlockSize};
use sim_disk::SimDisk;

/// The first blocks of a disk. It panics when others are asked for.
#[derive(Clone)]
pub struct First(pub SimDisk, pub u64);

impl First {
    fn check(&self, first: BlockNumber, bytes: usize) {
        let end = first.raw() + (bytes / self.block_size().bytes()) as u64;
        assert!(end <= self.1, "block {} of {}", end - 1, self.1);
    }
}

impl BlockDevice for First {
    fn facts(&self) -> DeviceFacts {
        self.0.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.0.block_size()
    }

    fn block_count(&self) -> u64 {
        self.1
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        self.check(first, into.len());
        self.0.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.check(first, from.len());
        self.0.write(first, from)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.0.sync()
    }
}

/// A disk whose discarded blocks are zero.
#[derive(Clone)]
pub struct Forgets {
    pub disk: SimDisk,
    /// Whether syncs fail.
    pub fails: bool,
}

impl Forgets {
    pub fn new(disk: SimDisk) -> Self {
        Self { disk, fails: false }
    }
}

impl BlockDevice for Forgets {
    fn facts(&self) -> DeviceFacts {
        self.disk.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.disk.block_size()
    }

    fn block_count(&self) -> u64 {
        self.disk.block_count()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        self.disk.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.disk.write(first, from)
    }

    fn discard(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        let bytes = blocks as usize * self.block_size().bytes();
        self.disk.write(first, &vec![0; bytes])
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        if self.fails {
            let kind = DeviceErrorKind::Io { os: None };
            return Err(DeviceError::new(DeviceOperation::Sync, kind, BlockNumber(0)));
        }
        self.disk.sync()
    }
}
