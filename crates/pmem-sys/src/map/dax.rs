//! A file on persistent memory, mapped without a cache between: `MAP_SYNC`.
//!
//! Guarantees: with `MAP_SYNC` the kernel makes the file's layout durable before it lets a page be
//! written. So flushed lines are found after a crash. The kernel refuses the flag where it cannot
//! do that. A crash loses what was stored and not flushed and fenced, word by word.

use core::ffi::c_void;
use std::fs::File;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A `MAP_SYNC` mapping.
#[derive(Debug)]
pub(crate) struct DaxMapping {
    base: *mut c_void,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; this type alone unmaps it, once.
unsafe impl Send for DaxMapping {}
// SAFETY: through a shared reference only the address and the length can be had.
unsafe impl Sync for DaxMapping {}

impl DaxMapping {
    /// Maps the first `len` bytes (not zero) of `file`.
    pub(crate) fn new(file: &File, len: usize) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // `MAP_SHARED` alone would ignore the flag it does not know; this one refuses it.
        let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced.
        let base = unsafe { mmap(core::ptr::null_mut(), len, access, flags, file, 0) }?;
        Ok(Self { base, len })
    }

    /// Whether this error of [`new`](Self::new) means that the medium (or a kernel from before
    /// 4.15) has no `MAP_SYNC`, and nothing worse.
    pub(crate) fn is_refusal(errno: Errno) -> bool {
        matches!(errno, Errno::OPNOTSUPP | Errno::INVAL)
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.cast()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for DaxMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nobody keeps an address longer than the
        // mapping. Failure would leave it mapped, which harms nothing.
        let _ = unsafe { munmap(self.base, self.len) };
    }
}
