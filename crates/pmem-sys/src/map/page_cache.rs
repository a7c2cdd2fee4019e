//! A file through the kernel's page cache, made durable by `msync`.
//!
//! Guarantees: any file on any file system; stores are visible to every process at once and durable
//! once `msync` of their pages returned. A killed process loses nothing. A power loss leaves, of
//! pages that were not synced, old or new content word by word.

use std::fs::File;

use memmap2::{MmapOptions, MmapRaw};
use rustix::io::Errno;
use rustix::mm::{MsyncFlags, msync};

use crate::lines::touched;
use crate::map::pages::{PAGE_BYTES, Syncer};

/// What Linux calls the file system tmpfs (`TMPFS_MAGIC`).
const TMPFS: u64 = 0x0102_1994;

/// Maps the first `len` bytes of `file`.
pub(crate) fn map(file: &File, len: usize) -> std::io::Result<MmapRaw> {
    MmapOptions::new().len(len).map_raw(file)
}

/// Whether a file lies in a file system that has no other place for it than memory (tmpfs): to
/// write its pages back does nothing.
pub(crate) fn is_in_memory(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type as u64 == TMPFS)
}

/// The address of a mapping, for the kernel alone: nothing is read or written through it.
struct Base(*mut u8);

// SAFETY: it is a number that is handed to the kernel.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

/// Writes back runs of the mapping at `base`, of `len` bytes, widened to the machine's pages.
/// Made for a mapping that outlives it; beyond its life, calls fail and do no harm.
pub(crate) fn syncer(base: *mut u8, len: usize) -> Syncer {
    let page_bytes = rustix::param::page_size();
    let base = Base(base);
    Box::new(move |runs| {
        let mut runs = runs.iter();
        runs.try_for_each(|run| sync(&base, len, page_bytes, run.start, run.count * PAGE_BYTES))
    })
}

fn sync(base: &Base, len: usize, page_bytes: usize, at: usize, range: usize) -> Result<(), Errno> {
    let run = touched(at, range.min(len.saturating_sub(at)), page_bytes);
    if run.count == 0 {
        return Ok(());
    }
    let start = base.0.wrapping_add(run.start).cast();
    // SAFETY: the kernel checks the range, and `MS_SYNC` changes no content.
    unsafe { msync(start, run.count * page_bytes, MsyncFlags::SYNC) }
}
