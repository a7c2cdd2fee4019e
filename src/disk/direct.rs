//! Reading and writing past the cache: buffers that lie as direct I/O wants them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// The alignment of buffers in memory: every file system accepts it.
pub(super) const ALIGN: usize = 4096;

/// Bytes that go through the buffer at once; a multiple of every block size.
const CHUNK_BYTES: usize = 1 << 20;

/// Whether direct I/O can take a buffer as it is. Its length is a whole number of blocks.
pub(super) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().align_offset(ALIGN) == 0
}

/// A buffer that direct I/O takes. It stands in for callers' buffers that direct I/O does not take.
///
/// Each handle has its own; it is made when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Bounce {
    memory: Vec<u8>,
}

impl Clone for Bounce {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Bounce {
    /// Lends `len` aligned bytes.
    fn bytes(&mut self, len: usize) -> &mut [u8] {
        if self.memory.len() < len + ALIGN {
            self.memory = vec![0; len + ALIGN];
        }
        let start = self.memory.as_ptr().align_offset(ALIGN);
        &mut self.memory[start..][..len]
    }

    pub(super) fn read(&mut self, file: &File, into: &mut [u8], mut at: u64) -> io::Result<()> {
        for chunk in into.chunks_mut(CHUNK_BYTES) {
            let bytes = self.bytes(chunk.len());
            file.read_exact_at(bytes, at)?;
            chunk.copy_from_slice(bytes);
            at += chunk.len() as u64;
        }
        Ok(())
    }

    pub(super) fn write(&mut self, file: &File, from: &[&[u8]], mut at: u64) -> io::Result<()> {
        let mut left: usize = from.iter().map(|part| part.len()).sum();
        let (mut parts, mut part) = (from.iter(), &[][..]);
        while left > 0 {
            let bytes = self.bytes(left.min(CHUNK_BYTES));
            let mut filled = 0;
            while filled < bytes.len() {
                if part.is_empty() {
                    part = parts.next().expect("the parts are as long as they were counted");
                    continue;
                }
                let (copied, rest) = part.split_at(part.len().min(bytes.len() - filled));
                bytes[filled..][..copied.len()].copy_from_slice(copied);
                filled += copied.len();
                part = rest;
            }
            file.write_all_at(bytes, at)?;
            at += filled as u64;
            left -= filled;
        }
        Ok(())
    }
}
