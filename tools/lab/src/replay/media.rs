//! Media for counting: plain memory in the place of persistent memory and of the disk.
//!
//! They keep what they are given and forget it with the process; no crash happens to them.

use core::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use journal_core::block_device::check_request;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, DeviceOperation, Granularity,
    LINE_BYTES, MediumError, MediumErrorKind, Offset, Pmem, PmemFacts, PmemRead, PmemSplit,
};

use crate::trace::{Image, State};

/// A region of memory. Panics on ranges outside it, as the port says.
#[derive(Debug)]
pub struct PlainNvm {
    content: Vec<u8>,
}

impl PlainNvm {
    pub fn new(bytes: usize) -> Self {
        Self { content: vec![0; bytes] }
    }

    fn range(&self, at: Offset, len: usize) -> Option<core::ops::Range<usize>> {
        let start = usize::try_from(at.raw()).ok()?;
        let end = start.checked_add(len)?;
        (end <= self.content.len()).then_some(start..end)
    }
}

impl PmemRead for PlainNvm {
    fn len(&self) -> u64 {
        self.content.len() as u64
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        into.copy_from_slice(self.bytes(at, into.len())?);
        Ok(())
    }
}

impl Pmem for PlainNvm {
    fn facts(&self) -> PmemFacts {
        PmemFacts::new(Granularity::Line)
    }

    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        let range = self.range(at, len);
        let outside = MediumError::new(MediumErrorKind::OutOfRange, at, len);
        range.map(|range| &self.content[range]).ok_or(outside)
    }

    fn store(&mut self, at: Offset, bytes: &[u8]) {
        let range = self.range(at, bytes.len()).expect("inside the region");
        self.content[range].copy_from_slice(bytes);
    }

    fn store_u64(&mut self, at: Offset, value: u64) {
        self.store(at, &value.to_le_bytes());
    }

    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        self.store(at, bytes);
    }

    fn flush(&mut self, at: Offset, len: usize) {
        assert!(self.range(at, len).is_some(), "inside the region");
    }

    fn fence(&mut self) -> Result<(), MediumError> {
        Ok(())
    }
}

impl PmemSplit for PlainNvm {
    fn split_at(mut self, at: Offset) -> Result<(Self, Self), MediumError> {
        let Some(range) = self.range(at, 0).filter(|range| range.start % LINE_BYTES == 0) else {
            return Err(MediumError::new(MediumErrorKind::OutOfRange, at, 0));
        };
        let content = self.content.split_off(range.start);
        Ok((self, Self { content }))
    }
}

/// What a disk was asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Writes of neighbouring blocks.
    pub runs: u64,
    pub blocks: u64,
    pub syncs: u64,
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
    shared: Rc<RefCell<Blocks>>,
}

impl PlainDisk {
    /// A disk that holds the blocks of a state, and zeroes elsewhere.
    pub fn new(block_size: BlockSize, block_count: u64, state: &State) -> Self {
        let images = state.iter().map(|(block, image)| (*block, Image::clone(image))).collect();
        let shared = Rc::new(RefCell::new(Blocks { images, counts: DiskCounts::default() }));
        Self { block_size, block_count, shared }
    }

    pub fn counts(&self) -> DiskCounts {
        self.shared.borrow().counts
    }

    /// The first block of a state that the disk does not hold.
    pub fn differs_from(&self, state: &State) -> Option<BlockNumber> {
        let blocks = self.shared.borrow();
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
        let shared = self.shared.borrow();
        for (block, into) in blocks.zip(into.chunks_mut(self.block_size.bytes())) {
            match shared.images.get(&block) {
                Some(image) => into.copy_from_slice(image),
                None => into.fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let blocks = self.blocks(DeviceOperation::Write, first, from.len())?;
        let mut shared = self.shared.borrow_mut();
        shared.counts.runs += 1;
        for (block, from) in blocks.zip(from.chunks(self.block_size.bytes())) {
            shared.images.insert(block, from.into());
            shared.counts.blocks += 1;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.shared.borrow_mut().counts.syncs += 1;
        Ok(())
    }
}
