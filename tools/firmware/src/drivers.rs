//! Drivers for both media, over plain arrays: the ports ask for nothing that firmware lacks.

use core::sync::atomic::{Ordering, fence};

use journal_core::block_device::check_request;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, DeviceOperation, Granularity,
    LINE_BYTES, MediumError, MediumErrorKind, Offset, Pmem, PmemFacts, PmemRead, PmemSplit,
};

/// FRAM that is mapped into the address space and not cached.
#[derive(Debug)]
pub struct Fram<'f>(&'f mut [u8]);

impl<'f> Fram<'f> {
    /// The whole chip.
    pub const fn new(bytes: &'f mut [u8]) -> Self {
        Self(bytes)
    }
}

impl PmemRead for Fram<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        into.copy_from_slice(self.bytes(at, into.len())?);
        Ok(())
    }
}

impl Pmem for Fram<'_> {
    fn facts(&self) -> PmemFacts {
        PmemFacts::new(Granularity::Store)
    }

    /// A medium told the journal where to look, so `at` may be outside.
    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        let rest = usize::try_from(at.raw()).ok().and_then(|start| self.0.get(start..));
        let outside = MediumError::new(MediumErrorKind::OutOfRange, at, len);
        rest.and_then(|rest| rest.get(..len)).ok_or(outside)
    }

    /// The journal computed where to store: outside is a bug, and panics.
    fn store(&mut self, at: Offset, bytes: &[u8]) {
        self.0[at.raw() as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// On the bus this has to be one transfer that power loss does not cut in two.
    fn store_u64(&mut self, at: Offset, value: u64) {
        assert!(at.raw() % 8 == 0, "a word is aligned");
        self.store(at, &value.to_le_bytes());
    }

    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        self.store(at, bytes);
    }

    /// There is no cache to flush, only a range to be right about.
    fn flush(&mut self, at: Offset, len: usize) {
        assert!(self.bytes(at, len).is_ok(), "a flush stays inside");
    }

    /// Here stores only have to stay in order. A chip also waits until its bus is idle: on a
    /// Cortex-M that is a DSB.
    fn fence(&mut self) -> Result<(), MediumError> {
        fence(Ordering::SeqCst);
        Ok(())
    }
}

impl PmemSplit for Fram<'_> {
    fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError> {
        let outside = MediumError::new(MediumErrorKind::OutOfRange, at, 0);
        let middle = usize::try_from(at.raw()).ok().filter(|at| at % LINE_BYTES == 0);
        let parts = middle.and_then(|middle| self.0.split_at_mut_checked(middle));
        parts.map(|(first, second)| (Self(first), Self(second))).ok_or(outside)
    }
}

/// A memory card. It promises nothing about a write that a power loss interrupts.
#[derive(Debug)]
pub struct Card<'c> {
    bytes: &'c mut [u8],
    block: BlockSize,
}

impl<'c> Card<'c> {
    /// A card of whole blocks.
    pub const fn new(bytes: &'c mut [u8], block: BlockSize) -> Self {
        Self { bytes, block }
    }

    /// The bytes of a request.
    fn range(
        &mut self,
        operation: DeviceOperation,
        first: BlockNumber,
        len: usize,
    ) -> Result<&mut [u8], DeviceError> {
        check_request(operation, (self.block, self.block_count()), first, len)?;
        Ok(&mut self.bytes[first.raw() as usize * self.block.bytes()..][..len])
    }
}

impl BlockDevice for Card<'_> {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::cautious()
    }

    fn block_size(&self) -> BlockSize {
        self.block
    }

    fn block_count(&self) -> u64 {
        (self.bytes.len() / self.block.bytes()) as u64
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        into.copy_from_slice(self.range(DeviceOperation::Read, first, into.len())?);
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.range(DeviceOperation::Write, first, from.len())?.copy_from_slice(from);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}
