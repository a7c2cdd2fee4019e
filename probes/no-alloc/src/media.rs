//! The media as plain arrays: the ports ask for nothing that such a program lacks.

use journal_core::block_device::check_request;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, DeviceOperation, Granularity,
    LINE_BYTES, MediumError, MediumErrorKind, Offset, Pmem, PmemFacts, PmemRead, PmemSplit,
};

pub(crate) const BLOCK_BYTES: usize = BlockSize::MIN.bytes();
pub(crate) const BLOCKS: u64 = 8;

/// Memory that forgets everything anyway, so that its fence has nothing to do.
#[derive(Debug)]
pub(crate) struct Region<'a> {
    bytes: &'a mut [u8],
}

impl<'a> Region<'a> {
    pub(crate) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes }
    }
}

fn start(at: Offset) -> usize {
    usize::try_from(at.raw()).unwrap_or(usize::MAX)
}

impl PmemRead for Region<'_> {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        into.copy_from_slice(self.bytes(at, into.len())?);
        Ok(())
    }
}

impl Pmem for Region<'_> {
    fn facts(&self) -> PmemFacts {
        PmemFacts::new(Granularity::Store)
    }

    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        let rest = self.bytes.get(start(at)..).and_then(|rest| rest.get(..len));
        rest.ok_or(MediumError::new(MediumErrorKind::OutOfRange, at, len))
    }

    fn store(&mut self, at: Offset, bytes: &[u8]) {
        self.bytes[start(at)..][..bytes.len()].copy_from_slice(bytes);
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

impl PmemSplit for Region<'_> {
    fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError> {
        let outside = MediumError::new(MediumErrorKind::OutOfRange, at, 0);
        let middle = Some(start(at)).filter(|at| at % LINE_BYTES == 0);
        let parts = middle.and_then(|middle| self.bytes.split_at_mut_checked(middle));
        parts.map(|(first, second)| (Self::new(first), Self::new(second))).ok_or(outside)
    }
}

/// A disk that might do anything when its power fails, so that the shield is needed.
#[derive(Debug)]
pub(crate) struct Disk {
    blocks: [[u8; BLOCK_BYTES]; BLOCKS as usize],
}

impl Disk {
    pub(crate) const fn blank() -> Self {
        Self { blocks: [[0; BLOCK_BYTES]; BLOCKS as usize] }
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
        DeviceFacts::cautious()
    }

    fn block_size(&self) -> BlockSize {
        BlockSize::MIN
    }

    fn block_count(&self) -> u64 {
        BLOCKS
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
