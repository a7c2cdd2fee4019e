//! Checks of bytes beside memory that must not be read: what is loaded by wide registers is masked
//! before it, and never goes beyond it.
#![cfg(all(target_os = "linux", not(miri)))]

use core::ptr;

use journal_core::{Kernels as _, check};
use pmem_sys::NativeKernels;

const PAGE: usize = 4096;

/// A page between two that cannot be read, until the program ends.
fn guarded() -> &'static mut [u8] {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever there is room.
    let first = unsafe { libc::mmap(ptr::null_mut(), 3 * PAGE, protection, flags, -1, 0) };
    assert_ne!(first, libc::MAP_FAILED);
    let first = first.cast::<u8>();
    for page in [0, 2].map(|page| first.wrapping_add(page * PAGE)) {
        // SAFETY: a page of the mapping, in which nobody has anything yet.
        let done = unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_NONE) };
        assert_eq!(done, 0);
    }
    // SAFETY: the page between, which can be read and written, and is given out once.
    unsafe { core::slice::from_raw_parts_mut(first.wrapping_add(PAGE), PAGE) }
}

#[test]
fn checks_read_nothing_before_or_behind_their_bytes() {
    let bytes = guarded();
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (at * at / 7) as u8;
    }
    let bytes = &*bytes;
    for kernels in NativeKernels::supported() {
        // Each length up to some rounds of the widest loop, from each place in a line.
        for len in 0..900 {
            for off in [0, 1, 8, 13, 32, 56, 63] {
                let behind = &bytes[off..off + len];
                let before = &bytes[PAGE - off - len..PAGE - off];
                for part in [behind, before] {
                    let known = check::crc64(len as u64, part);
                    assert_eq!(kernels.crc64(len as u64, part), known, "{kernels}, {len}, {off}");
                    let stored = kernels.crc64_of_stored(len as u64, part);
                    assert_eq!(stored, known, "{kernels}, {len}, {off}, just stored");
                }
            }
        }
        let all = check::crc64(1, bytes);
        assert_eq!((kernels.crc64(1, bytes), kernels.crc64_of_stored(1, bytes)), (all, all));
    }
}
