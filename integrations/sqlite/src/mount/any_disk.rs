//! One type for the disks of all unit tests, so that the engine is compiled once for them.

use std::sync::{Arc, Mutex, MutexGuard};

use nvm_journal::ports::{BlockDevice, DeviceError, DeviceFacts};
use nvm_journal::{BlockNumber, BlockSize};

/// A handle to a disk of any type.
#[derive(Clone)]
pub(crate) struct AnyDisk(Arc<Mutex<dyn BlockDevice + Send>>);

impl AnyDisk {
    pub(crate) fn new(disk: impl BlockDevice + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(disk)))
    }

    fn disk(&self) -> MutexGuard<'_, dyn BlockDevice + Send + 'static> {
        self.0.lock().expect("nobody panicked")
    }
}

impl BlockDevice for AnyDisk {
    fn facts(&self) -> DeviceFacts {
        self.disk().facts()
    }

    fn block_size(&self) -> BlockSize {
        self.disk().block_size()
    }

    fn block_count(&self) -> u64 {
        self.disk().block_count()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        self.disk().read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.disk().write(first, from)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.disk().sync()
    }
}
