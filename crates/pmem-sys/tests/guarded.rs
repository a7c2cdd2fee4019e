//! Checks of bytes beside memory that must not be read: what is loaded by wide registers is masked
//! before it, and never goes beyond it.
#![cfg(all(target_os = "linux", not(miri)))]

use core::ptr;

use journal_core::{Gathered, Kernels as _, Offset, Pmem as _, PmemRead as _, Seeds, check};
use pmem_sys::{NativeKernels, Region};

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

/// The same of lines that are put together: what is streamed is what copying it together is, and so
/// is its check.
#[test]
fn gathered_lines_read_nothing_but_their_pieces() {
    let [heads, bodies] = [guarded(), guarded()];
    for (at, (head, body)) in heads.iter_mut().zip(bodies.iter_mut()).enumerate() {
        (*head, *body) = ((at * at / 7) as u8, (at * 5 + 3) as u8);
    }
    // Where the first line has a check of its own.
    for at in [0, 8, 16].into_iter().chain((64..=128).map(|head_bytes| PAGE - head_bytes)) {
        heads[at..][..4].fill(0);
    }
    let mut region = Region::anonymous(PAGE as u64).expect("memory");
    for body_at in 64..=Gathered::HEAD_BYTES_MAX {
        let head_bytes = body_at.next_multiple_of(8);
        for len in (0..330).chain([512, 1021]) {
            let ends = [(0, 0), (PAGE - head_bytes, PAGE - len), (8 * (len % 3), len % 61)];
            for (head_at, at) in ends {
                let (head, body) = (&heads[head_at..][..head_bytes], &bodies[at..][..len]);
                let gathered = Gathered::new(head, body_at, body).expect("is one");
                let seeds = Seeds { line: (len % 2 == 0).then_some(5), all: 7 };
                let mut known = Vec::new();
                let check = gathered.each_checked_line(seeds, |_, line| known.extend(line));
                let (to, bytes) = (Offset(64 * (len as u64 % 3)), gathered.bytes());
                region.store(Offset(0), &[0xEE; PAGE]);
                assert_eq!(region.stream_checked(to, &gathered, seeds), check);
                region.fence().expect("fences");
                let mut found = [0; PAGE];
                region.read_into(Offset(0), &mut found).expect("reads");
                let (before, rest) = found.split_at(to.raw() as usize);
                assert_eq!(rest[..bytes], known, "{body_at}, {len}");
                let beside = [before, &rest[bytes..]].concat();
                assert!(beside.iter().all(|byte| *byte == 0xEE), "{body_at}, {len}");
            }
        }
    }
}
