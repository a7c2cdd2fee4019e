//! Checks of bytes beside memory that must not be read: what is loaded by wide registers is masked
//! before it, and never goes beyond it.
#![cfg(all(target_os = "linux", not(miri)))]

use core::ptr;

use journal_core::policy::Prefix;
use journal_core::{Kernels as _, Offset, Piece, Pmem as _, PmemRead as _, Seeds, Stitched, check};
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

/// Lines that are put together read nothing beside their pieces. What is streamed is what copying
/// them together gives, and so is its check.
#[test]
fn stitched_lines_read_nothing_but_their_pieces() {
    let [starts, bodies] = [guarded(), guarded()];
    for (at, (start, body)) in starts.iter_mut().zip(bodies.iter_mut()).enumerate() {
        (*start, *body) = ((at * at / 7) as u8, (at * 5 + 3) as u8);
    }
    // Where the first line has a check of its own.
    for at in [0, 8, 16].into_iter().chain((64..=128).map(|start_bytes| PAGE - start_bytes)) {
        starts[at..][..4].fill(0);
    }
    let mut region = Region::anonymous(PAGE as u64).expect("memory");
    for body_at in 64..=Stitched::START_BYTES_MAX {
        let start_bytes = body_at.next_multiple_of(8);
        for len in (0..330).chain([512, 1021]) {
            let ends = [(0, 0), (PAGE - start_bytes, PAGE - len), (8 * (len % 3), len % 61)];
            for (start_at, at) in ends {
                let (start, body) = (&starts[start_at..][..start_bytes], &bodies[at..][..len]);
                let stitched = Stitched::new(start, body_at, body).expect("is one");
                let seeds = Seeds { line: (len % 2 == 0).then_some(5), all: 7 };
                let mut known = Vec::new();
                let check = stitched.each_checked_line(seeds, |_, line| known.extend(line));
                let (to, bytes) = (Offset(64 * (len as u64 % 3)), stitched.bytes());
                region.store(Offset(0), &[0xEE; PAGE]);
                assert_eq!(region.stream_checked(to, &stitched, seeds), check);
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

/// Several pieces behind a start, of all lengths that a line and its neighbours have.
#[test]
fn stitched_pieces_are_read_and_nothing_beside_them() {
    let [starts, bodies] = [guarded(), guarded()];
    for (at, (start, body)) in starts.iter_mut().zip(bodies.iter_mut()).enumerate() {
        (*start, *body) = ((at * at / 7) as u8, (at * 5 + 3) as u8);
    }
    let mut region = Region::anonymous(PAGE as u64).expect("memory");
    let mut seed = 1_u64;
    let mut below = |limit: usize| {
        seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (seed >> 33) as usize % limit
    };
    let try_one = |region: &mut Region, start: &[u8], pieces: &[Piece<'_>], round: usize| {
        let stitched = Stitched::of_pieces(start, pieces).expect("is one");
        let seeds = Seeds { line: (round % 2 == 0).then_some(5), all: round as u64 };
        let mut known = Vec::new();
        let check = stitched.each_checked_line(seeds, |_, line| known.extend(line));
        let (to, bytes) = (Offset(64 * (round as u64 % 3)), stitched.bytes());
        region.store(Offset(0), &[0xEE; PAGE]);
        assert_eq!(region.stream_checked(to, &stitched, seeds), check, "{round}");
        region.fence().expect("fences");
        let mut found = [0; PAGE];
        region.read_into(Offset(0), &mut found).expect("reads");
        let (before, rest) = found.split_at(to.raw() as usize);
        assert_eq!(rest[..bytes], known, "{round}");
        let beside = [before, &rest[bytes..]].concat();
        assert!(beside.iter().all(|byte| *byte == 0xEE), "{round}");
    };
    let starts_of = |words: usize, at_end: bool| {
        let at = if at_end { PAGE - 8 * words } else { 8 };
        at..at + 8 * words
    };
    for words in 8..=33 {
        starts[starts_of(words, true)][..4].fill(0);
    }
    starts[8..12].fill(0);
    // 1. Behind starts of all lengths nothing, or one piece without a prefix.
    let mut round = 0;
    for words in 8..=200 {
        let start = starts_of(words, true);
        starts[start.clone()][..4].fill(0);
        for len in [0, 0, 1, 55, 56, 57, 64, 300] {
            let piece = [Piece { prefix: Prefix::NONE, bytes: &bodies[PAGE - len..] }];
            let pieces = if len == 0 { &[] } else { &piece[..] };
            try_one(&mut region, &starts[start.clone()], pieces, round);
            round += 1;
        }
    }
    // 2. One piece, of every length at every place, between two short ones.
    let mut round = 0;
    for words in 8..=17 {
        for prefix in 0..=Prefix::BYTES_MAX {
            for len in (0..140).chain([255, 256, 1021]) {
                let part = |len: usize, at_end: bool| {
                    let at = if at_end { PAGE - len } else { 3 };
                    &bodies[at..at + len]
                };
                let around = round % 5;
                let pieces = [
                    Piece { prefix: Prefix::new(0x0102, around.min(2)), bytes: part(around, true) },
                    Piece {
                        prefix: Prefix::new(u64::MAX / 3, prefix),
                        bytes: part(len, round % 2 == 0),
                    },
                    Piece { prefix: Prefix::NONE, bytes: part(around / 2, false) },
                ];
                try_one(&mut region, &starts[starts_of(words, true)], &pieces, round);
                round += 1;
            }
        }
    }
    // 3. Random pieces, in random numbers.
    for round in 0..20_000 {
        let words = 8 + below(26);
        let pieces: Vec<_> = (0..below(17))
            .map(|_| {
                let len = [below(9), below(70), below(140)][below(3)];
                let at = if below(2) == 0 { PAGE - len } else { below(PAGE - len) };
                let word = (below(1 << 30) as u64) << 30 | below(1 << 30) as u64;
                Piece {
                    prefix: Prefix::new(word, below(Prefix::BYTES_MAX + 1)),
                    bytes: &bodies[at..][..len],
                }
            })
            .collect();
        try_one(&mut region, &starts[starts_of(words, round % 3 != 0)], &pieces, round);
    }
}
