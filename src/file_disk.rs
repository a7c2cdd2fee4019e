//! A file as the block device.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use journal_core::block_device::check_request;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts,
    DeviceOperation, Overwrite,
};

/// A file, or a block device's special file, read and written in blocks.
///
/// Clones are handles to the same file; they may be used from several threads at once.
#[derive(Clone, Debug)]
pub struct FileDisk {
    file: Arc<File>,
    block_size: BlockSize,
    block_count: u64,
    facts: DeviceFacts,
}

impl FileDisk {
    /// Creates a file of so many blocks, all zero, which must not exist yet.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: impl AsRef<Path>, block_size: BlockSize, blocks: u64) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        let bytes = blocks.checked_mul(block_size.bytes() as u64);
        file.set_len(bytes.ok_or(io::ErrorKind::InvalidInput)?)?;
        file.sync_all()?;
        Self::from_file(file, block_size)
    }

    /// Opens a file; what is behind its last whole block is not touched.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(path: impl AsRef<Path>, block_size: BlockSize) -> io::Result<Self> {
        Self::from_file(File::options().read(true).write(true).open(path)?, block_size)
    }

    /// Takes an open file.
    ///
    /// # Errors
    /// Those of the file system, when it is asked for its length.
    pub fn from_file(file: File, block_size: BlockSize) -> io::Result<Self> {
        use std::io::Seek as _;
        // A special file's metadata has no length; its end can be found.
        let bytes = (&file).seek(io::SeekFrom::End(0))?;
        let block_count = bytes / block_size.bytes() as u64;
        // Sectors of 512 bytes are what disks promise least; a torn sector may be garbage.
        let facts = DeviceFacts::new(512, Overwrite::MayLeaveGarbage);
        Ok(Self { file: Arc::new(file), block_size, block_count, facts })
    }

    /// States what the device below does in a power loss, where more is known than the default:
    /// that an overwrite torn by it may leave garbage in sectors of 512 bytes.
    #[must_use]
    pub fn with_facts(mut self, facts: DeviceFacts) -> Self {
        self.facts = facts;
        self
    }

    fn check(
        &self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<u64, DeviceError> {
        check_request(operation, (self.block_size, self.block_count), first, bytes)?;
        Ok(first.raw() * self.block_size.bytes() as u64)
    }
}

fn failed(operation: DeviceOperation, block: BlockNumber) -> impl FnOnce(io::Error) -> DeviceError {
    move |error| {
        DeviceError::new(operation, DeviceErrorKind::Io { os: error.raw_os_error() }, block)
    }
}

impl BlockDevice for FileDisk {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn block_count(&self) -> u64 {
        self.block_count
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let at = self.check(DeviceOperation::Read, first, into.len())?;
        self.file.read_exact_at(into, at).map_err(failed(DeviceOperation::Read, first))
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let at = self.check(DeviceOperation::Write, first, from.len())?;
        self.file.write_all_at(from, at).map_err(failed(DeviceOperation::Write, first))
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.file.sync_data().map_err(failed(DeviceOperation::Sync, BlockNumber(0)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A disk of a few blocks of zeroes, for tests that need one and do not look.
    #[derive(Clone, Debug)]
    pub(crate) struct TinyDisk {
        blocks: u64,
    }

    impl TinyDisk {
        pub(crate) const fn new(blocks: u64) -> Self {
            Self { blocks }
        }
    }

    impl BlockDevice for TinyDisk {
        fn facts(&self) -> DeviceFacts {
            DeviceFacts::cautious()
        }

        fn block_size(&self) -> BlockSize {
            BlockSize::MIN
        }

        fn block_count(&self) -> u64 {
            self.blocks
        }

        fn read(&mut self, _first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
            into.fill(0);
            Ok(())
        }

        fn write(&mut self, _first: BlockNumber, _from: &[u8]) -> Result<(), DeviceError> {
            Ok(())
        }

        fn sync(&mut self) -> Result<(), DeviceError> {
            Ok(())
        }
    }
}
