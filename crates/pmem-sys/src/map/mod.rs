//! Where the bytes are: a mapping of a file (direct or through the page cache), a copy of a file,
//! or plain memory.
//!
//! Guarantees: the address and length of a [`Mapping`] do not change while it lives. The address is
//! aligned to a page, and all of it may be read and written. What a crash leaves is said in each
//! file.

use core::sync::atomic::{AtomicU8, Ordering};

use std::sync::Arc;

use memmap2::MmapRaw;
use rustix::io::Errno;
use rustix::mm::Advice;

use crate::map::dax::DaxMapping;
use crate::map::pages::PAGE_BYTES;

pub(crate) mod dax;
pub(crate) mod direct_io;
pub(crate) mod error;
pub(crate) mod facts;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod page_cache;
pub(crate) mod pages;
pub(crate) mod sysfs;
pub(crate) mod zeroes;

/// A mapped range of memory; unmapped when dropped.
#[derive(Debug)]
pub(crate) enum Mapping {
    /// Through the page cache, or anonymous.
    Ordinary(MmapRaw),
    /// Directly on persistent memory.
    Direct(DaxMapping),
    /// A copy of a file, which what writes it back has too.
    Copied(Arc<MmapRaw>),
}

impl Mapping {
    pub(crate) fn base(&self) -> *mut u8 {
        match self {
            Self::Ordinary(map) => map.as_mut_ptr(),
            Self::Direct(map) => map.base(),
            Self::Copied(map) => map.as_mut_ptr(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ordinary(map) => map.len(),
            Self::Direct(map) => map.len(),
            Self::Copied(map) => map.len(),
        }
    }

    /// Has the system map every page now, for writing, so that no store has to wait for that.
    pub(crate) fn prefault(&self) -> Result<(), Errno> {
        let (base, len) = (self.base(), self.len());
        // SAFETY: all of it is mapped, and no byte of it changes.
        let populated =
            unsafe { rustix::mm::madvise(base.cast(), len, Advice::LinuxPopulateWrite) };
        match populated {
            // A kernel before 5.14 does not know the call.
            Err(Errno::INVAL) => {
                for at in (0..len).step_by(PAGE_BYTES) {
                    // SAFETY: `at` lies in the mapping.
                    let byte = unsafe { base.add(at) };
                    // SAFETY: the byte is mapped, and no other thread has the mapping yet.
                    let byte = unsafe { AtomicU8::from_ptr(byte) };
                    byte.fetch_or(0, Ordering::Relaxed);
                }
                Ok(())
            }
            populated => populated,
        }
    }
}
