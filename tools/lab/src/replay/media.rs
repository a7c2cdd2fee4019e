//! A disk for counting, in plain memory. It keeps what it is given and forgets it with the process;
//! no crash happens to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal_core::block_device::check_request;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, DeviceOperation,
};

use crate::trace::{Image, State};

/// What a disk was asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Writes of neighbouring blocks.
    pub runs: u64,
    pub blocks: u64,
    pub syncs: u64,
}

impl core::ops::AddAssign for DiskCounts {
    fn add_assign(&mut self, more: Self) {
        self.runs += more.runs;
        self.blocks += more.blocks;
        self.syncs += more.syncs;
    }
}

impl core::ops::Sub for DiskCounts {
    type Output = Self;

    fn sub(self, less: Self) -> Self {
        Self {
            runs: self.runs - less.runs,
            blocks: self.blocks - less.blocks,
            syncs: self.syncs - less.syncs,
        }
    }
}

#[derive(Debug)]
struct Blocks {
    images: HashMap<u64, Image>,
    counts: DiskCounts,
}

/// A disk in memory; clones are the same disk. It says of itself what is true of every disk, that
/// an overwrite may tear.
#[derive(Clone, Debug)]
pub struct PlainDisk {
    block_size: BlockSize,
    block_count: u64,
    shared: Arc<Mutex<Blocks>>,
}

impl PlainDisk {
    /// A disk that holds the blocks of a state, and zeroes elsewhere.
    pub fn new(block_size: BlockSize, block_count: u64, state: &State) -> Self {
        let images = state.iter().map(|(block, image)| (*block, Image::clone(image))).collect();
        let shared = Arc::new(Mutex::new(Blocks { images, counts: DiskCounts::default() }));
        Self { block_size, block_count, shared }
    }

    fn shared(&self) -> MutexGuard<'_, Blocks> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn counts(&self) -> DiskCounts {
        self.shared().counts
    }

    /// The first block of a state that the disk does not hold.
    pub fn differs_from(&self, state: &State) -> Option<BlockNumber> {
        let blocks = self.shared();
        let differs = |(block, image): &(&u64, &Image)| blocks.images.get(block) != Some(*image);
        state.iter().find(differs).map(|(block, _)| BlockNumber(*block))
    }

    fn blocks(
        &self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<core::ops::Range<u64>, DeviceError> {
        let geometry = (self.block_size, self.block_count);
        let count = check_request(operation, geometry, first, bytes)?;
        Ok(first.raw()..first.raw() + count)
    }
}

impl BlockDevice for PlainDisk {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::cautious()
    }

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn block_count(&self) -> u64 {
        self.block_count
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let blocks = self.blocks(DeviceOperation::Read, first, into.len())?;
        let shared = self.shared();
        for (block, into) in blocks.zip(into.chunks_mut(self.block_size.bytes())) {
            match shared.images.get(&block) {
                Some(image) => into.copy_from_slice(image),
                None => into.fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.write_vectored(first, &[from])
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        let bytes = from.iter().map(|part| part.len()).sum();
        let mut blocks = self.blocks(DeviceOperation::Write, first, bytes)?;
        let block_bytes = self.block_size.bytes();
        let mut shared = self.shared();
        shared.counts.runs += 1;
        for image in from.iter().flat_map(|part| part.chunks(block_bytes)) {
            let Some(block) = blocks.next() else { break };
            shared.images.insert(block, image.into());
            shared.counts.blocks += 1;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.shared().counts.syncs += 1;
        Ok(())
    }
}
