//! What benches run on: plain memory that was touched, devices without a disk, and temporary
//! folders.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use journal_core::block_device::check_request;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, DeviceOperation, Offset,
    Overwrite, Pmem as _, PmemRead,
};
use nvm_journal::Region;

/// Bytes of a block, unless a bench says otherwise.
pub const BLOCK: usize = 4096;

/// Bytes that begin at a page, like those of block caches and direct I/O. Elsewhere most wide loads
/// touch two cache lines.
pub struct Aligned {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl FromIterator<u8> for Aligned {
    fn from_iter<T: IntoIterator<Item = u8>>(bytes: T) -> Self {
        bytes.into_iter().collect::<Vec<u8>>().into()
    }
}

impl From<Vec<u8>> for Aligned {
    fn from(content: Vec<u8>) -> Self {
        let len = content.len();
        let mut bytes = vec![0; len + BLOCK];
        let from = bytes.as_ptr().align_offset(BLOCK);
        bytes[from..from + len].copy_from_slice(&content);
        Self { bytes, from, len }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..][..self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..][..self.len]
    }
}

/// Memory whose every page was touched.
pub fn warm(bytes: u64) -> Region {
    let mut region = Region::anonymous(bytes).expect("memory");
    for at in (0..region.len()).step_by(BLOCK) {
        region.store(Offset(at), &[1; 64]);
    }
    region
}

/// Bytes of the pieces in which memory is copied.
const PIECE: usize = 1 << 20;

/// All bytes of the memory.
pub fn copy_of(reader: &impl PmemRead) -> Vec<u8> {
    let mut bytes = vec![0; reader.len() as usize];
    for (at, piece) in (0..).step_by(PIECE).zip(bytes.chunks_mut(PIECE)) {
        reader.read_into(Offset(at), piece).expect("reads");
    }
    bytes
}

/// Memory with these bytes in it.
pub fn memory_with(bytes: &[u8]) -> Region {
    let mut region = Region::anonymous(bytes.len() as u64).expect("memory");
    for (at, piece) in (0..).step_by(PIECE).zip(bytes.chunks(PIECE)) {
        region.store(Offset(at), piece);
    }
    region
}

/// Reads every word.
pub fn sum(bytes: &[u8]) -> u64 {
    let mut sums = [0_u64; 8];
    for line in bytes.chunks_exact(64) {
        for (sum, word) in sums.iter_mut().zip(line.chunks_exact(8)) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            *sum = sum.wrapping_add(word);
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

/// The bare medium, written round and round by stores or streams, and fences. Two threads' media
/// share no line.
#[repr(align(128))]
pub struct Bare {
    pub region: Region,
    next: u64,
    stream_from: usize,
}

impl Bare {
    pub fn new(region: Region) -> Self {
        let stream_from = region.facts().stream_from_bytes;
        Self { region, next: 0, stream_from }
    }

    /// Makes pieces durable, one after the other, with one fence.
    #[inline]
    pub fn commit<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>, bytes: usize) {
        self.put(pieces, bytes);
        self.fence();
    }

    /// Like `commit`, without the fence. `bytes` decides whether the pieces are streamed.
    #[inline]
    pub fn put<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>, bytes: usize) {
        if self.next + bytes as u64 > self.region.len() {
            self.next = 0;
        }
        for piece in pieces {
            let at = Offset(self.next);
            if bytes >= self.stream_from {
                self.region.stream(at, piece);
            } else {
                self.region.store(at, piece);
                self.region.flush(at, piece.len());
            }
            self.next += piece.len() as u64;
        }
    }

    #[inline]
    pub fn fence(&mut self) {
        self.region.fence().expect("it does not fail");
    }
}

/// A device that throws away what is written, and reads as zeroes.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere {
    pub blocks: u64,
}

impl BlockDevice for Nowhere {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew)
    }

    fn block_size(&self) -> BlockSize {
        BlockSize::DEFAULT
    }

    fn block_count(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, _first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        into.fill(0);
        Ok(())
    }

    fn write(&mut self, _first: BlockNumber, _from: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A device in memory, which all its clones share. A block that was never written takes no memory.
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    block_size: BlockSize,
    blocks: Arc<[Mutex<Vec<u8>>]>,
}

impl MemoryDisk {
    pub fn new(block_size: BlockSize, blocks: u64) -> Self {
        Self { block_size, blocks: (0..blocks).map(|_| Mutex::default()).collect() }
    }

    fn each(
        &self,
        operation: DeviceOperation,
        first: BlockNumber,
        bytes: usize,
    ) -> Result<impl Iterator<Item = &Mutex<Vec<u8>>>, DeviceError> {
        let geometry = (self.block_size, self.block_count());
        let count = check_request(operation, geometry, first, bytes)?;
        Ok(self.blocks[first.raw() as usize..][..count as usize].iter())
    }
}

impl BlockDevice for MemoryDisk {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::new(self.block_size.bytes() as u32, Overwrite::OldOrNew)
    }

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn block_count(&self) -> u64 {
        self.blocks.len() as u64
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let blocks = self.each(DeviceOperation::Read, first, into.len())?;
        for (block, into) in blocks.zip(into.chunks_mut(self.block_size.bytes())) {
            let block = block.lock().expect("no thread panics");
            if block.is_empty() {
                into.fill(0);
            } else {
                into.copy_from_slice(&block);
            }
        }
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let blocks = self.each(DeviceOperation::Write, first, from.len())?;
        for (block, from) in blocks.zip(from.chunks(self.block_size.bytes())) {
            let mut block = block.lock().expect("no thread panics");
            block.clear();
            block.extend_from_slice(from);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A folder for files, which is removed when this is dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder where the system keeps temporary files; `TMPDIR` says where that is.
    pub fn new(name: &str) -> Self {
        Self::below(&std::env::temp_dir(), name)
    }

    /// A new folder inside another.
    pub fn below(folder: &Path, name: &str) -> Self {
        let path = folder.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    #[allow(clippy::print_stderr, reason = "a drop returns no error")]
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}
