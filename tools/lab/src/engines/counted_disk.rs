//! A disk that counts what it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use journal_core::{BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts};

/// What a disk was asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    pub reads: u64,
    pub blocks_read: u64,
    /// Calls, each of neighbouring blocks.
    pub writes: u64,
    pub blocks_written: u64,
    pub syncs: u64,
}

#[derive(Debug, Default)]
struct Counters {
    reads: AtomicU64,
    blocks_read: AtomicU64,
    writes: AtomicU64,
    blocks_written: AtomicU64,
    syncs: AtomicU64,
}

/// A disk in front of another one; clones count together.
#[derive(Clone, Debug)]
pub struct CountedDisk<D> {
    disk: D,
    counters: Arc<Counters>,
}

impl<D: BlockDevice> CountedDisk<D> {
    pub fn new(disk: D) -> Self {
        Self { disk, counters: Arc::default() }
    }

    /// Of all clones together.
    pub fn counts(&self) -> DiskCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { reads, blocks_read, writes, blocks_written, syncs } = &*self.counters;
        DiskCounts {
            reads: of(reads),
            blocks_read: of(blocks_read),
            writes: of(writes),
            blocks_written: of(blocks_written),
            syncs: of(syncs),
        }
    }

    fn blocks(&self, bytes: usize) -> u64 {
        (bytes / self.disk.block_size().bytes()) as u64
    }
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl<D: BlockDevice> BlockDevice for CountedDisk<D> {
    fn facts(&self) -> DeviceFacts {
        self.disk.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.disk.block_size()
    }

    fn block_count(&self) -> u64 {
        self.disk.block_count()
    }

    fn may_resize(&self) -> bool {
        self.disk.may_resize()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        add(&self.counters.reads, 1);
        add(&self.counters.blocks_read, self.blocks(into.len()));
        self.disk.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        add(&self.counters.writes, 1);
        add(&self.counters.blocks_written, self.blocks(from.len()));
        self.disk.write(first, from)
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        let bytes = from.iter().map(|part| part.len()).sum();
        // A call that writes nothing is none.
        if bytes > 0 {
            add(&self.counters.writes, 1);
            add(&self.counters.blocks_written, self.blocks(bytes));
        }
        self.disk.write_vectored(first, from)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        add(&self.counters.syncs, 1);
        self.disk.sync()
    }
}
