//! Any persistent memory, as one type.

use core::fmt;
use std::sync::Arc;

use journal_core::{
    MediumError, Offset, Pmem, PmemFacts, PmemRead, PmemShare, PmemSplit, Seeds, Stitched,
};

/// A memory that can be split and read from other threads, whichever type it has.
trait Memory: Pmem + Send + Sync {
    fn split(self: Box<Self>, at: Offset) -> Result<(DynPmem, DynPmem), MediumError>;
    fn shared(&self) -> DynReader;
}

impl<P: PmemSplit + PmemShare<Reader: 'static> + Send + Sync + 'static> Memory for P {
    fn split(self: Box<Self>, at: Offset) -> Result<(DynPmem, DynPmem), MediumError> {
        let (low, high) = self.split_at(at)?;
        Ok((DynPmem::new(low), DynPmem::new(high)))
    }

    fn shared(&self) -> DynReader {
        DynReader(Arc::new(self.reader()))
    }
}

/// Persistent memory behind a pointer.
pub struct DynPmem(Box<dyn Memory>);

impl DynPmem {
    pub fn new(pmem: impl PmemSplit + PmemShare<Reader: 'static> + Send + Sync + 'static) -> Self {
        Self(Box::new(pmem))
    }
}

impl fmt::Debug for DynPmem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynPmem of {} bytes", self.0.len())
    }
}

impl PmemRead for DynPmem {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.0.read_into(at, into)
    }

    fn prefetch(&self, at: Offset, len: usize) {
        self.0.prefetch(at, len);
    }
}

impl Pmem for DynPmem {
    fn facts(&self) -> PmemFacts {
        self.0.facts()
    }

    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        self.0.bytes(at, len)
    }

    fn store(&mut self, at: Offset, bytes: &[u8]) {
        self.0.store(at, bytes);
    }

    fn store_u64(&mut self, at: Offset, value: u64) {
        self.0.store_u64(at, value);
    }

    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        self.0.stream(at, bytes);
    }

    fn stream_checked(&mut self, at: Offset, stitched: &Stitched<'_>, seeds: Seeds) -> u64 {
        self.0.stream_checked(at, stitched, seeds)
    }

    fn flush(&mut self, at: Offset, len: usize) {
        self.0.flush(at, len);
    }

    fn fence(&mut self) -> Result<(), MediumError> {
        self.0.fence()
    }
}

impl PmemSplit for DynPmem {
    fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError> {
        self.0.split(at)
    }
}

impl PmemShare for DynPmem {
    type Reader = DynReader;

    fn reader(&self) -> DynReader {
        self.0.shared()
    }
}

/// A reader of such memory; clones share it.
#[derive(Clone)]
pub struct DynReader(Arc<dyn PmemRead + Send + Sync>);

impl fmt::Debug for DynReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynReader of {} bytes", self.0.len())
    }
}

impl PmemRead for DynReader {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.0.read_into(at, into)
    }

    fn prefetch(&self, at: Offset, len: usize) {
        self.0.prefetch(at, len);
    }
}
