//! The port [`journal_core::Kernels`], by instructions of this processor.
//!
//! Guarantees: the same results to the bit on every machine, for every length and alignment; and a
//! [`NativeKernels`] exists only if this processor has the instructions it uses. It is looked for
//! when a value is made, and remembered in it: nothing is global. A crash does not come into it.
//!
//! | processor | CRC-64/NVME by |
//! |---|---|
//! | x86-64 with VPCLMULQDQ and AVX-512F | carry-less multiplication, four pairs at a time |
//! | x86-64 with VPCLMULQDQ and AVX2 | the same, two pairs at a time |
//! | x86-64 with PCLMULQDQ (2010 and later) | the same, one pair at a time |
//! | every other, 64-bit Arm among them, and Miri | the tables of the core |
//!
//! | processor | the words that differ, by |
//! |---|---|
//! | x86-64 with AVX-512F | comparing eight at a time |
//! | x86-64 with AVX2 | comparing four at a time |
//! | every other, and Miri | the core, one at a time |

use core::fmt;

use journal_core::{Kernels, check};

#[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
mod changed;
#[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
mod x86_64;
#[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
pub(crate) use x86_64::LINE_FOLDS;

/// The kernels of this processor.
///
/// ```
/// use journal_core::Kernels;
/// use pmem_sys::NativeKernels;
///
/// let kernels = NativeKernels::detect();
/// assert_eq!(kernels.crc64(0, b"123456789"), 0xAE8B_1486_0A79_9888);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeKernels {
    crc64: Crc64,
    changed: Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crc64 {
    Portable,
    #[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
    Folding(x86_64::Folding),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    Portable,
    #[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
    Comparing(changed::Comparing),
}

impl NativeKernels {
    const PORTABLE: Self = Self { crc64: Crc64::Portable, changed: Changed::Portable };

    /// The fastest that this processor has.
    #[must_use]
    pub fn detect() -> Self {
        Self::supported().next().unwrap_or(Self::PORTABLE)
    }

    /// Everything that this processor has, the fastest first, for measurements and tests: each way
    /// of each computation at least once. The last one is portable code.
    pub fn supported() -> impl Iterator<Item = Self> {
        let crc64 = [Crc64::Portable].into_iter();
        let changed = [Changed::Portable].into_iter();
        #[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
        let (crc64, changed) = (
            x86_64::Folding::supported().map(Crc64::Folding).chain(crc64),
            changed::Comparing::supported().map(Changed::Comparing).chain(changed),
        );
        let (mut crc64, mut changed) = (crc64, changed);
        core::iter::from_fn(move || match (crc64.next(), changed.next()) {
            (None, None) => None,
            (crc64, changed) => Some(Self {
                crc64: crc64.unwrap_or(Crc64::Portable),
                changed: changed.unwrap_or(Changed::Portable),
            }),
        })
    }

    /// How it finds the words that differ, in a word or two; the check is what `Display` names.
    #[must_use]
    pub fn changed_words_by(&self) -> &'static str {
        match self.changed {
            Changed::Portable => "portable",
            #[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
            Changed::Comparing(comparing) => comparing.name(),
        }
    }
}

impl Kernels for NativeKernels {
    #[inline]
    fn crc64(&self, seed: u64, bytes: &[u8]) -> u64 {
        match self.crc64 {
            Crc64::Portable => check::crc64(seed, bytes),
            #[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
            Crc64::Folding(folding) => folding.crc64(seed, bytes),
        }
    }

    #[inline]
    fn crc64_of_stored(&self, seed: u64, bytes: &[u8]) -> u64 {
        match self.crc64 {
            Crc64::Portable => check::crc64(seed, bytes),
            #[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
            Crc64::Folding(folding) => folding.crc64_of_stored(seed, bytes),
        }
    }

    #[inline]
    fn crc64_moved_on(&self, difference: u64, zeroes: usize) -> u64 {
        match self.crc64 {
            Crc64::Portable => check::crc64_moved_on(difference, zeroes),
            #[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
            Crc64::Folding(folding) => folding.moved_on(difference, zeroes),
        }
    }

    #[inline]
    fn changed_words(&self, older: &[u8], newer: &[u8], mask: &mut [u64]) {
        match self.changed {
            Changed::Portable => check::changed_words(older, newer, mask),
            #[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
            Changed::Comparing(comparing) => comparing.changed_words(older, newer, mask),
        }
    }

    #[inline]
    fn prefetch(&self, bytes: &[u8]) {
        #[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
        x86_64::prefetch(bytes);
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, portable)))))]
        let _ = bytes;
    }

    #[inline]
    fn prefetch_line(&self, at: *const u8) {
        prefetch_line(at);
    }
}

/// Begins to bring the line at an address into the caches, which is not read.
#[inline]
pub(crate) fn prefetch_line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
    x86_64::prefetch_line(at);
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, portable)))))]
    let _ = at;
}

impl fmt::Display for NativeKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self.crc64 {
            Crc64::Portable => "portable",
            #[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
            Crc64::Folding(folding) => folding.name(),
        })
    }
}

// Under Miri all kernels are portable code, which is safe.
#[cfg(all(test, not(miri)))]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Of random inputs.
    const LEN_MAX: usize = 5000;

    /// Bytes without a pattern that a wrong fold could keep.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let step = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        (0..len).map(step).collect()
    }

    #[test]
    fn the_check_value_of_the_standard_comes_out() {
        for kernels in NativeKernels::supported() {
            assert_eq!(kernels.crc64(0, b"123456789"), 0xAE8B_1486_0A79_9888, "{kernels}");
        }
    }

    /// From the specification of NVMe: the check of 4096 bytes of zeros, of ones, counting up and
    /// counting down.
    #[test]
    fn the_blocks_of_the_standard_come_out() {
        let block = |byte: fn(usize) -> u8| (0..4096).map(byte).collect::<Vec<_>>();
        let known = [
            (block(|_| 0), 0x6482_D367_EB22_B64E_u64),
            (block(|_| 0xFF), 0xC0DD_BA73_02EC_A3AC),
            (block(|at| at.to_le_bytes()[0]), 0x3E72_9F5F_6750_449C),
            (block(|at| !at.to_le_bytes()[0]), 0x9A2D_F64B_8E9E_517E),
        ];
        for kernels in NativeKernels::supported() {
            for (bytes, sum) in &known {
                assert_eq!(kernels.crc64(0, bytes), *sum, "{kernels}");
            }
        }
    }

    /// Each length up to several rounds of the widest loop, so each number of rounds and each rest.
    #[test]
    fn every_length_gives_what_portable_code_gives() {
        let len_max = 1500;
        let bytes = noise(len_max + 3);
        for kernels in NativeKernels::supported() {
            for len in 0..=len_max {
                for start in [0, 1, 3] {
                    let part = &bytes[start..][..len];
                    let seed = (len as u64).wrapping_mul(0x0123_4567_89AB_CDEF);
                    let known = check::crc64(seed, part);
                    assert_eq!(kernels.crc64(seed, part), known, "{kernels}, {len} from {start}");
                    let stored = kernels.crc64_of_stored(seed, part);
                    assert_eq!(stored, known, "{kernels}, {len} from {start}, just stored");
                }
            }
        }
    }

    /// The trap of checksums: a detection that is compiled out, and nobody notices.
    #[cfg(all(target_arch = "x86_64", not(portable)))]
    #[test]
    fn what_the_processor_has_is_used() {
        let names: Vec<_> = NativeKernels::supported().map(|has| has.to_string()).collect();
        let has = |name: &str| names.iter().any(|known| known == name);
        let multiplies = std::arch::is_x86_feature_detected!("pclmulqdq");
        let wide = std::arch::is_x86_feature_detected!("vpclmulqdq");
        let registers = std::arch::is_x86_feature_detected!("avx512f");
        let widest = registers
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512vl");
        assert_eq!(has("pclmulqdq"), multiplies);
        assert_eq!(has("vpclmulqdq, 256 bits"), wide);
        assert_eq!(has("vpclmulqdq, 512 bits"), wide && widest);
        assert_eq!(names.last().map(String::as_str), Some("portable"));
        assert_eq!(names.first(), Some(&NativeKernels::detect().to_string()));
        let ways: Vec<_> =
            NativeKernels::supported().map(|kernels| kernels.changed_words_by()).collect();
        assert_eq!(ways.contains(&"avx512f"), registers);
        assert_eq!(ways.contains(&"avx2"), std::arch::is_x86_feature_detected!("avx2"));
        assert_eq!(ways.last(), Some(&"portable"));
        assert_eq!(ways.first(), Some(&NativeKernels::detect().changed_words_by()));
    }

    /// Each length up to several groups, with masks that are as long, longer and shorter.
    #[test]
    fn words_that_differ_are_those_that_portable_code_finds() {
        let len_max = 1700;
        let older = noise(len_max + 8);
        for kernels in NativeKernels::supported() {
            for len in 0..=len_max {
                let (older, mut newer) = (&older[len % 8..][..len], older[len % 8..].to_vec());
                // Ever more of them, and not always the first byte of a word.
                for change in 0..len / 8 {
                    newer[(change * change * 7 + change) % len] ^= 0x10;
                }
                let newer = &newer[..len.max(3) - len % 3];
                for groups in [len / 512, len / 512 + 1, len / 512 + 2] {
                    let (mut mask, mut known) = ([!0; 6], [!0; 6]);
                    kernels.changed_words(older, newer, &mut mask[..groups]);
                    check::changed_words(older, newer, &mut known[..groups]);
                    let by = kernels.changed_words_by();
                    assert_eq!(mask, known, "{by}, {len}, {groups} numbers");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_what_portable_code_gives(
            seed: u64,
            bytes in vec(any::<u8>(), 0..LEN_MAX),
            start: prop::sample::Index,
        ) {
            let part = &bytes[start.index(bytes.len() + 1).min(64)..];
            for kernels in NativeKernels::supported() {
                let sum = kernels.crc64(seed, part);
                prop_assert_eq!(sum, check::crc64(seed, part), "{}", kernels);
            }
        }

        #[test]
        fn a_difference_is_moved_on_as_by_portable_code(
            difference: u64,
            zeroes in 0_usize..2 << 16,
            bytes in vec(any::<u8>(), 1..LEN_MAX),
            from: prop::sample::Index,
            to: prop::sample::Index,
        ) {
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            let part = from.min(to)..from.max(to);
            let mut patched = bytes.clone();
            patched[part.clone()].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(3) ^ 0x55);
            let (old, new) = (&bytes[part.clone()], &patched[part.clone()]);
            let (check, behind) = (check::crc64(0, &bytes), bytes.len() - part.end);
            for kernels in NativeKernels::supported() {
                let moved = kernels.crc64_moved_on(difference, zeroes);
                prop_assert_eq!(moved, check::crc64_moved_on(difference, zeroes), "{}", kernels);
                let found = kernels.crc64_of_patched(check, old, new, behind);
                prop_assert_eq!(found, check::crc64(0, &patched), "{}", kernels);
            }
        }

        #[test]
        fn a_check_continues(
            seed: u64,
            bytes in vec(any::<u8>(), 0..LEN_MAX),
            at: prop::sample::Index,
        ) {
            let (front, back) = bytes.split_at(at.index(bytes.len() + 1));
            for kernels in NativeKernels::supported() {
                let halves = kernels.crc64(kernels.crc64(seed, front), back);
                prop_assert_eq!(halves, kernels.crc64(seed, &bytes), "{}", kernels);
            }
        }
    }
}
