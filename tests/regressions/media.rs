//! A disk in ordinary memory, for threads: nothing of it is ever lost.

use std::sync::{Arc, Mutex, MutexGuard};

use journal_core::{BlockDevice, DeviceError, DeviceFacts};
use nvm_journal::{BlockNumber, BlockSize};

pub(crate) const BLOCK: usize = BlockSize::DEFAULT.bytes();

/// Each clone of it is a handle of the same disk.
#[derive(Clone, Debug)]
pub(crate) struct MemoryDisk(Arc<Mutex<Vec<u8>>>);

impl MemoryDisk {
    pub(crate) fn new(blocks: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![0; blocks * BLOCK])))
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("nobody panics")
    }
}

fn start(first: BlockNumber) -> usize {
    usize::try_from(first.raw()).expect("small") * BLOCK
}

impl BlockDevice for MemoryDisk {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::cautious()
    }

    fn block_size(&self) -> BlockSize {
        BlockSize::DEFAULT
    }

    fn block_count(&self) -> u64 {
        (self.bytes().len() / BLOCK) as u64
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        into.copy_from_slice(&self.bytes()[start(first)..][..into.len()]);
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.bytes()[start(first)..][..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}
