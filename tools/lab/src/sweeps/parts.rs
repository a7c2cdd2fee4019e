//! What the sweeps share: a device in memory, random numbers, and the form of a result.

use std::sync::{Arc, Mutex, PoisonError};

use journal_core::{BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, Overwrite};

use crate::plot::Plot;

pub const BLOCK: usize = 4096;
pub const BLOCKS: u64 = 1 << 12;

/// A device in memory.
#[derive(Clone, Debug)]
pub struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(vec![0; BLOCKS as usize * BLOCK])))
    }

    fn at<R>(&self, first: BlockNumber, len: usize, call: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        call(&mut content[first.raw() as usize * BLOCK..][..len])
    }
}

impl BlockDevice for Kept {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew)
    }

    fn block_size(&self) -> BlockSize {
        BlockSize::DEFAULT
    }

    fn block_count(&self) -> u64 {
        BLOCKS
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        self.at(first, into.len(), |content| into.copy_from_slice(content));
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.at(first, from.len(), |content| content.copy_from_slice(from));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Random numbers, alike in every run.
pub struct Numbers(u64);

impl Numbers {
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(0x9E37_79B9_7F4A_7C15))
    }

    pub const fn below(&mut self, end: u64) -> u64 {
        // Xorshift: any generator will do.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What one sweep has to show.
pub struct Sweep {
    pub page: String,
    pub plots: Vec<(&'static str, Plot)>,
}
