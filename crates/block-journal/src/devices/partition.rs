//! A part of a device as a device: the journal and the homes on one disk.

use journal_core::block_device::check_request;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation,
};

/// Some consecutive blocks of a device. A sync of it syncs the whole device.
#[derive(Clone, Debug)]
pub struct Partition<D> {
    device: D,
    first: u64,
    count: u64,
}

impl<D: BlockDevice> Partition<D> {
    /// The `count` blocks of `device` from `first` on; `None` where it has not that many.
    #[must_use]
    pub fn new(device: D, first: BlockNumber, count: u64) -> Option<Self> {
        let first = first.raw();
        let fits = first.checked_add(count)? <= device.block_count();
        fits.then_some(Self { device, first, count })
    }

    /// The device itself.
    pub fn into_inner(self) -> D {
        self.device
    }

    fn place(
        &self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<BlockNumber, DeviceError> {
        let geometry = (self.device.block_size(), self.count);
        let _blocks = check_request(operation, geometry, first, bytes)?;
        first.checked_add(self.first).ok_or(DeviceError::new(
            operation,
            DeviceErrorKind::OutOfRange,
            first,
        ))
    }
}

impl<D: BlockDevice> BlockDevice for Partition<D> {
    fn facts(&self) -> DeviceFacts {
        self.device.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.device.block_size()
    }

    fn block_count(&self) -> u64 {
        self.count
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let first = self.place(DeviceOperation::Read, first, into.len())?;
        self.device.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let first = self.place(DeviceOperation::Write, first, from.len())?;
        self.device.write(first, from)
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        let bytes = from.iter().fold(0_usize, |bytes, part| bytes.saturating_add(part.len()));
        let first = self.place(DeviceOperation::Write, first, bytes)?;
        self.device.write_vectored(first, from)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.device.sync()
    }
}
