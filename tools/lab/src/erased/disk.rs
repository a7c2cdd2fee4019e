//! Any block device, as one type.

use core::fmt;

use journal_core::{BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts};

/// A device that can be cloned, whichever type it has.
trait Device: BlockDevice + Send {
    fn cloned(&self) -> Box<dyn Device>;
}

impl<D: BlockDevice + Clone + Send + 'static> Device for D {
    fn cloned(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

/// A block device behind a pointer. A clone of it holds a clone of that device.
pub struct DynDisk(Box<dyn Device>);

impl DynDisk {
    pub fn new(disk: impl BlockDevice + Clone + Send + 'static) -> Self {
        Self(Box::new(disk))
    }
}

impl Clone for DynDisk {
    fn clone(&self) -> Self {
        Self(self.0.cloned())
    }
}

impl fmt::Debug for DynDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynDisk of {} blocks", self.0.block_count())
    }
}

impl BlockDevice for DynDisk {
    fn facts(&self) -> DeviceFacts {
        self.0.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.0.block_size()
    }

    fn block_count(&self) -> u64 {
        self.0.block_count()
    }

    fn may_resize(&self) -> bool {
        self.0.may_resize()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.0.write(first, from)
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        self.0.write_vectored(first, from)
    }

    fn discard(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        self.0.discard(first, blocks)
    }

    fn write_zeroes(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        self.0.write_zeroes(first, blocks)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.0.sync()
    }
}
