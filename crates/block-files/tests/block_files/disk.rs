//! A simulated disk that forgets what is discarded, or fails.

use nvm_journal::ports::{BlockDevice, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation};
use nvm_journal::{BlockNumber, BlockSize};
use sim_disk::SimDisk;

/// The first blocks of a disk.
#[derive(Clone)]
pub(crate) struct First(pub(crate) SimDisk, pub(crate) u64);

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
        self.0.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.0.write(first, from)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.0.sync()
    }
}

/// A disk whose discarded blocks are zero.
pub(crate) struct Forgets {
    pub(crate) disk: SimDisk,
    /// Whether syncs fail.
    pub(crate) fails: bool,
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
