//! Plain memory that counts what is written to it.

use std::sync::{Arc, Mutex};

use journal_core::{
    LINE_BYTES, MediumError, Offset, Pmem, PmemFacts, PmemRead, PmemShare, PmemSplit,
};
use nvm_journal::Region;

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Bytes that were stored or streamed.
    pub bytes: u64,
    /// Lines that were flushed or streamed.
    pub lines: u64,
    pub fences: u64,
}

/// What was written by one part of the memory. It is added to the total when the part is dropped.
struct Tally {
    own: Counts,
    all: Arc<Mutex<Counts>>,
}

impl Tally {
    const fn new(all: Arc<Mutex<Counts>>) -> Self {
        Self { own: Counts { bytes: 0, lines: 0, fences: 0 }, all }
    }

    const fn add_lines(&mut self, at: Offset, len: usize) {
        let (line, start) = (LINE_BYTES as u64, at.raw());
        if len > 0 {
            self.own.lines += (start + len as u64 - 1) / line - start / line + 1;
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let mut all = self.all.lock().expect("no thread panics");
        all.bytes += self.own.bytes;
        all.lines += self.own.lines;
        all.fences += self.own.fences;
    }
}

/// A region, or a part of one, that counts its calls.
pub struct Counted {
    region: Region,
    tally: Tally,
}

impl Counted {
    /// The counts are complete when all parts are dropped.
    pub fn new(region: Region, all: &Arc<Mutex<Counts>>) -> Self {
        Self { region, tally: Tally::new(Arc::clone(all)) }
    }
}

impl PmemRead for Counted {
    #[inline]
    fn len(&self) -> u64 {
        self.region.len()
    }

    #[inline]
    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        self.region.read_into(at, into)
    }
}

impl Pmem for Counted {
    #[inline]
    fn facts(&self) -> PmemFacts {
        self.region.facts()
    }

    #[inline]
    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        self.region.bytes(at, len)
    }

    #[inline]
    fn store(&mut self, at: Offset, bytes: &[u8]) {
        self.tally.own.bytes += bytes.len() as u64;
        self.region.store(at, bytes);
    }

    #[inline]
    fn store_u64(&mut self, at: Offset, value: u64) {
        self.tally.own.bytes += size_of::<u64>() as u64;
        self.region.store_u64(at, value);
    }

    #[inline]
    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        self.tally.own.bytes += bytes.len() as u64;
        self.tally.add_lines(at, bytes.len());
        self.region.stream(at, bytes);
    }

    #[inline]
    fn flush(&mut self, at: Offset, len: usize) {
        self.tally.add_lines(at, len);
        self.region.flush(at, len);
    }

    #[inline]
    fn fence(&mut self) -> Result<(), MediumError> {
        self.tally.own.fences += 1;
        self.region.fence()
    }
}

impl PmemSplit for Counted {
    fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError> {
        let Self { region, tally } = self;
        let behind = Tally::new(Arc::clone(&tally.all));
        let (first, second) = region.split_at(at)?;
        Ok((Self { region: first, tally }, Self { region: second, tally: behind }))
    }
}

impl PmemShare for Counted {
    type Reader = <Region as PmemShare>::Reader;

    fn reader(&self) -> Self::Reader {
        self.region.reader()
    }
}
