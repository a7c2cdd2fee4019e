//! Persistent memory as a disk: blocks are copied there, and a sync is a fence.

use core::marker::PhantomData;

use journal_core::block_device::check_request;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceErrorKind, DeviceFacts,
    DeviceOperation, MediumError, MediumErrorKind, Offset, Overwrite, Pmem, WORD_BYTES,
};

/// A region of persistent memory as a device of blocks: an NVM that is used as a disk is.
///
/// A fence completes what its own thread wrote, so the disk stays with its thread. A killed process
/// may have left bytes in the caches that nobody flushed: the first sync flushes the whole region.
#[derive(Debug)]
pub struct PmemDisk<P> {
    pmem: P,
    block_size: BlockSize,
    block_count: u64,
    /// Whether a sync of this handle has made durable what was there before it.
    owns_all: bool,
    /// Neither `Send` nor `Sync`.
    thread_bound: PhantomData<*const ()>,
}

impl<P: Pmem> PmemDisk<P> {
    /// A disk of all the whole blocks that the region has.
    #[must_use]
    pub fn new(pmem: P, block_size: BlockSize) -> Self {
        let block_count = pmem.len().checked_div(block_size.bytes() as u64).unwrap_or_default();
        Self { pmem, block_size, block_count, owns_all: false, thread_bound: PhantomData }
    }

    /// The region itself.
    pub fn into_inner(self) -> P {
        self.pmem
    }

    fn place(
        &self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<Offset, DeviceError> {
        let geometry = (self.block_size, self.block_count);
        let _blocks = check_request(operation, geometry, first, bytes)?;
        // Inside the region, so it does not overflow.
        Ok(Offset(first.raw().saturating_mul(self.block_size.bytes() as u64)))
    }
}

/// What a failed medium means to the caller of a device.
fn failed(operation: DeviceOperation, error: MediumError, block: BlockNumber) -> DeviceError {
    let os = match error.kind {
        MediumErrorKind::FenceFailed { os } => os,
        _ => None,
    };
    DeviceError::new(operation, DeviceErrorKind::Io { os }, block)
}

impl<P: Pmem> BlockDevice for PmemDisk<P> {
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
        let read = self.pmem.read_into(at, into);
        read.map_err(|error| failed(DeviceOperation::Read, error, first))
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let at = self.place(DeviceOperation::Write, first, from.len())?;
        if from.len() < self.pmem.facts().stream_from_bytes {
            self.pmem.store(at, from);
            self.pmem.flush(at, from.len());
        } else {
            self.pmem.stream(at, from);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        if !self.owns_all {
            self.pmem.flush(Offset(0), usize::try_from(self.pmem.len()).unwrap_or(usize::MAX));
            self.owns_all = true;
        }
        let fenced = self.pmem.fence();
        fenced.map_err(|error| failed(DeviceOperation::Sync, error, BlockNumber(0)))
    }
}
