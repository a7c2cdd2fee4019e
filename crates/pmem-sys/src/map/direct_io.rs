//! A file on a plain disk: its content in plain memory, written past the page cache.
//!
//! Guarantees: the memory begins as a copy of the file. A fence writes the pages that were flushed,
//! and returns when the disk says that they are durable: one run with one write that the disk
//! completes only then (`RWF_DSYNC`), several runs with a sync behind them all.
//!
//! A write takes its bytes from a copy. Other threads may store into the same page meanwhile, and a
//! file system that keeps checksums of its content must not see it change.
//!
//! **Crash**: a killed process loses what it has not fenced, as it does in a power loss. Of pages
//! that were on their way, the disk has old or new content, word by word.

use core::sync::atomic::{AtomicBool, Ordering};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{MmapMut, MmapRaw};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fdatasync};
use rustix::io::{Errno, IoSlice, ReadWriteFlags, pwritev2, retry_on_intr};

use crate::lines::Run;
use crate::map::pages::{PAGE_BYTES, Syncer};
use crate::processor::method::Method;
use crate::processor::write;

/// Bytes that one write takes at most.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies the first `len` bytes of `file` to memory. From then on the file is read and written past
/// the page cache.
pub(crate) fn load(file: &File, len: usize) -> io::Result<MmapRaw> {
    let flags = fcntl_getfl(file)?;
    fcntl_setfl(file, flags | OFlags::DIRECT)?;
    let mut memory = MmapMut::map_anon(len)?;
    for (number, chunk) in memory.chunks_mut(CHUNK_BYTES).enumerate() {
        file.read_exact_at(chunk, (number * CHUNK_BYTES) as u64)?;
    }
    Ok(MmapRaw::from(memory))
}

/// Writes runs of `memory` to the same places of `file`.
pub(crate) fn syncer(file: File, memory: Arc<MmapRaw>, method: Method) -> io::Result<Syncer> {
    let copy = Mutex::new(MmapMut::map_anon(CHUNK_BYTES.min(memory.len()))?);
    let writer = Writer { file, memory, method, knows_dsync: AtomicBool::new(true) };
    Ok(Box::new(move |runs| {
        // It is a buffer: nothing of it counts from one call to the next.
        let mut copy = copy.lock().unwrap_or_else(PoisonError::into_inner);
        writer.write_back(runs, &mut copy)
    }))
}

struct Writer {
    file: File,
    memory: Arc<MmapRaw>,
    method: Method,
    /// Whether the file takes writes that are durable when they return.
    knows_dsync: AtomicBool,
}

impl Writer {
    fn write_back(&self, runs: &[Run], copy: &mut [u8]) -> Result<(), Errno> {
        if let [run] = runs {
            let bytes = run.count * PAGE_BYTES;
            if bytes <= copy.len() && self.knows_dsync.load(Ordering::Relaxed) {
                match self.write(run.start, &mut copy[..bytes], ReadWriteFlags::DSYNC) {
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                        self.knows_dsync.store(false, Ordering::Relaxed);
                    }
                    written => return written,
                }
            }
        }
        for run in runs {
            let end = run.start + run.count * PAGE_BYTES;
            for at in (run.start..end).step_by(copy.len()) {
                let bytes = copy.len().min(end - at);
                self.write(at, &mut copy[..bytes], ReadWriteFlags::empty())?;
            }
        }
        retry_on_intr(|| fdatasync(&self.file))
    }

    /// Writes the bytes at `at`, as many as `copy` has.
    fn write(&self, at: usize, copy: &mut [u8], how: ReadWriteFlags) -> Result<(), Errno> {
        let inside = at.checked_add(copy.len()).is_some_and(|end| end <= self.memory.len());
        assert!(inside, "pages of the span are written back");
        let from = self.memory.as_mut_ptr().wrapping_add(at);
        // SAFETY: checked to lie in the mapping, which `self.memory` keeps. It begins at a page, is
        // written by regions alone, which use `Instructions`, and `copy` is a mapping of its own.
        unsafe { write::read(self.method, from, copy) };
        let mut written = 0;
        while written < copy.len() {
            let rest = [IoSlice::new(&copy[written..])];
            let offset = (at + written) as u64;
            match retry_on_intr(|| pwritev2(&self.file, &rest, offset, how))? {
                0 => return Err(Errno::IO),
                more => written += more,
            }
        }
        Ok(())
    }
}
