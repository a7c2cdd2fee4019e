//! A small disk in persistent memory.

use alloc::sync::Arc;
use std::sync::{Mutex, PoisonError};

use journal_core::WORD_BYTES;
use journal_core::block_device::check_request;
use nvm_journal::ports::{
    BlockDevice, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation, MediumError,
    MediumErrorKind, Offset, Overwrite, Pmem, PmemRead,
};
use nvm_journal::{BlockNumber, BlockSize};

/// A span of persistent memory as a disk of a few blocks: the place for what belongs to a store and
/// not into the file that its disk is. [`Joined`](nvm_journal::Joined) puts it behind that file.
///
/// Clones are handles to the same disk. Each write is durable on return, so a sync has nothing to
/// do: a fence makes durable only what its own thread wrote. So the disk is for blocks that are
/// seldom written.
#[derive(Debug)]
pub struct SpanDisk<P> {
    pmem: Arc<Mutex<P>>,
    block_size: BlockSize,
    block_count: u64,
}

impl<P> Clone for SpanDisk<P> {
    fn clone(&self) -> Self {
        Self { pmem: Arc::clone(&self.pmem), ..*self }
    }
}

impl<P: Pmem> SpanDisk<P> {
    /// A disk of all the whole blocks that the span has.
    ///
    /// What a killed process has left in the caches becomes durable here.
    ///
    /// # Errors
    /// The medium's.
    pub fn new(mut pmem: P, block_size: BlockSize) -> Result<Self, MediumError> {
        let block_count = pmem.len().checked_div(block_size.bytes() as u64).unwrap_or_default();
        pmem.flush(Offset(0), usize::try_from(pmem.len()).unwrap_or(usize::MAX));
        pmem.fence()?;
        Ok(Self { pmem: Arc::new(Mutex::new(pmem)), block_size, block_count })
    }

    fn place(
        &self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<Offset, DeviceError> {
        let _blocks = check_request(operation, (self.block_size, self.block_count), first, bytes)?;
        // Inside the span, so it does not overflow.
        Ok(Offset(first.raw().saturating_mul(self.block_size.bytes() as u64)))
    }
}

/// What a failed medium means to the caller of a device.
fn failed(
    operation: DeviceOperation,
    block: BlockNumber,
) -> impl FnOnce(MediumError) -> DeviceError {
    move |error| {
        let os = match error.kind {
            MediumErrorKind::FenceFailed { os } => os,
            _ => None,
        };
        DeviceError::new(operation, DeviceErrorKind::Io { os }, block)
    }
}

impl<P: Pmem> BlockDevice for SpanDisk<P> {
    /// Words that are written whole or not at all.
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::new(WORD_BYTES as u32, Overwrite::OldOrNew)
    }

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn block_count(&self) -> u64 {
        self.block_count
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let at = self.place(DeviceOperation::Read, first, into.len())?;
        let pmem = self.pmem.lock().unwrap_or_else(PoisonError::into_inner);
        PmemRead::read_into(&*pmem, at, into).map_err(failed(DeviceOperation::Read, first))
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let at = self.place(DeviceOperation::Write, first, from.len())?;
        let mut pmem = self.pmem.lock().unwrap_or_else(PoisonError::into_inner);
        pmem.store(at, from);
        pmem.flush(at, from.len());
        pmem.fence().map_err(failed(DeviceOperation::Write, first))
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}
