//! Both media as plain arrays: the ports ask for nothing that such a program lacks.

use journal_core::block_device::check_request;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, DeviceOperation, Granularity,
    MediumError, MediumErrorKind, Offset, Overwrite, Pmem, PmemFacts, PmemRead,
};

pub(crate) const BLOCK_BYTES: usize = 64;
const BLOCKS: usize = 4;
const MEMORY_BYTES: usize = 512;

/// Memory that forgets everything anyway, so that its fence has nothing to do.
pub(crate) struct Memory {
    bytes: [u8; MEMORY_BYTES],
}

impl Memory {
    pub(crate) const fn blank() -> Self {
        Self { bytes: [0; MEMORY_BYTES] }
    }

    fn start(at: Offset) -> usize {
        usize::try_from(at.raw()).unwrap_or(usize::MAX)
    }
}

impl PmemRead for Memory {
    fn len(&self) -> u64 {
        MEMORY_BYTES as u64
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        into.copy_from_slice(self.bytes(at, into.len())?);
        Ok(())
    }
}

impl Pmem for Memory {
    fn facts(&self) -> PmemFacts {
        PmemFacts::new(Granularity::Store)
    }

    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        let rest = self.bytes.get(Self::start(at)..).and_then(|rest| rest.get(..len));
        rest.ok_or(MediumError::new(MediumErrorKind::OutOfRange, at, len))
    }

    fn store(&mut self, at: Offset, bytes: &[u8]) {
        self.bytes[Self::start(at)..][..bytes.len()].copy_from_slice(bytes);
    }

    fn store_u64(&mut self, at: Offset, value: u64) {
        assert_eq!(at.raw() % 8, 0, "a word is aligned");
        self.store(at, &value.to_le_bytes());
    }

    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        self.store(at, bytes);
    }

    fn flush(&mut self, at: Offset, len: usize) {
        assert!(self.bytes(at, len).is_ok(), "a flush stays inside");
    }

    fn fence(&mut self) -> Result<(), MediumError> {
        Ok(())
    }
}

pub(crate) struct Disk {
    blocks: [[u8; BLOCK_BYTES]; BLOCKS],
}

impl Disk {
    pub(crate) const fn blank() -> Self {
        Self { blocks: [[0; BLOCK_BYTES]; BLOCKS] }
    }

    /// The blocks of a request, from `first` to the end of the disk.
    fn from(
        &mut self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<&mut [[u8; BLOCK_BYTES]], DeviceError> {
        let geometry = (self.block_size(), self.block_count());
        check_request(operation, geometry, first, bytes)?;
        let first = usize::try_from(first.raw()).unwrap_or(usize::MAX);
        Ok(self.blocks.get_mut(first..).unwrap_or_default())
    }
}

impl BlockDevice for Disk {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::new(BLOCK_BYTES as u32, Overwrite::OldOrNew)
    }

    fn block_size(&self) -> BlockSize {
        BlockSize::MIN
    }

    fn block_count(&self) -> u64 {
        BLOCKS as u64
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let blocks = self.from(DeviceOperation::Read, first, into.len())?;
        for (to, block) in into.chunks_exact_mut(BLOCK_BYTES).zip(blocks) {
            to.copy_from_slice(block);
        }
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let blocks = self.from(DeviceOperation::Write, first, from.len())?;
        for (content, block) in from.chunks_exact(BLOCK_BYTES).zip(blocks) {
            block.copy_from_slice(content);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}
