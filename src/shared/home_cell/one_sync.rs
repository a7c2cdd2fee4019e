//! One sync of the device at a time, and none behind one that has failed.
//!
//! A device that has lost writes may say so to one sync alone, and then say that all is well. What
//! it has lost may have been written by another handle. That one's sync would acknowledge it.
//!
//! OS1. The handles of a journal sync the device one at a time.
//! OS2. Behind a sync that has failed, or panicked, every sync of every handle fails.

use std::sync::{Arc, PoisonError};

use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation,
};

use crate::threads::sync::Mutex;

/// The device of a journal's machine, as its threads have it.
pub(crate) type DiskOf<M> = OneSync<<M as journal_core::Machine>::Disk>;

/// A handle of the device.
#[derive(Clone, Debug)]
pub(crate) struct OneSync<D> {
    device: D,
    /// How a sync has failed, if one has.
    failed: Arc<Mutex<Option<DeviceError>>>,
}

impl<D> OneSync<D> {
    pub(crate) fn new(device: D) -> Self {
        Self { device, failed: Arc::new(Mutex::new(None)) }
    }

    /// While what this returns is there, no handle syncs the device.
    #[cfg(test)]
    pub(crate) fn hold_syncs(&self) -> impl Drop {
        self.failed.lock().expect("no panic")
    }
}

impl<D: BlockDevice> BlockDevice for OneSync<D> {
    fn facts(&self) -> DeviceFacts {
        self.device.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.device.block_size()
    }

    fn block_count(&self) -> u64 {
        self.device.block_count()
    }

    fn may_resize(&self) -> bool {
        self.device.may_resize()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.device.write(first, from)
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        self.device.write_vectored(first, from)
    }

    fn discard(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        self.device.discard(first, blocks)
    }

    fn write_zeroes(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        self.device.write_zeroes(first, blocks)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = *failed {
            return Err(error);
        }
        // What is left if it panics.
        let kind = DeviceErrorKind::Io { os: None };
        *failed = Some(DeviceError::new(DeviceOperation::Sync, kind, BlockNumber(0)));
        let synced = self.device.sync();
        *failed = synced.err();
        synced
    }
}
