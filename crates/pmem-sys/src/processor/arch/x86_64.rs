//! 64-bit x86: `clwb`, `clflushopt`, `clflush`, streaming stores, `sfence`.
//!
//! What a crash may do: a store is lost until its line was flushed and this thread's next fence
//! completed; a streamed line until this thread's next fence. `clwb`, `clflushopt` and streaming
//! stores are ordered with nothing but that fence (and, flushes, with earlier stores to their own
//! line). So the fence is real on *every* method: a processor with nothing better than `clflush`
//! still has streaming stores, which only a fence completes.
//!
//! `clflush` is ordered with stores on Intel. AMD's manual orders it by `mfence` alone, before and
//! after; so on anything but Intel it is wrapped in `mfence`.
//!
//! No assembly here is `nomem` or `readonly` where it writes, flushes or fences. Each block is then
//! a barrier to the compiler as well, and keeps the order of this file.

use core::arch::asm;
use core::arch::x86_64::CpuidResult;
use core::arch::x86_64::{__cpuid_count, __m128i, _mm_loadu_si128, _mm_storeu_si128};

use journal_core::{LINE_BYTES, WORD_BYTES};

use crate::processor::choices::{Choices, FlushMethod, StreamMethod};
use crate::processor::stitch::Stitcher;

/// Bytes of the widest access of ordinary loads and stores. Aligned, the machine makes it whole or
/// in two words, never less.
const PAIR_BYTES: usize = 2 * WORD_BYTES;

/// What a method carries besides its choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct X86Details {
    /// `mfence` instead of `sfence`, and before a flush: the flush is a `clflush` that nothing
    /// else orders.
    full_fence: bool,
}

/// A leaf of CPUID, sub-leaf 0.
fn leaf(number: u32) -> CpuidResult {
    // SAFETY: every 64-bit x86 has CPUID, and it touches no memory.
    #[allow(unused_unsafe, reason = "it is an unsafe function on the oldest supported compiler")]
    unsafe {
        __cpuid_count(number, 0)
    }
}

/// What this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct X86Cpu {
    intel: bool,
    amd: bool,
    clflush: bool,
    clflushopt: bool,
    clwb: bool,
    movdir64b: bool,
    avx2: bool,
    avx512: bool,
    stitches: bool,
}

impl X86Cpu {
    pub(crate) fn detect() -> Self {
        let basic = leaf(0);
        let features = if basic.eax >= 1 { leaf(1).edx } else { 0 };
        let (more, extended) = if basic.eax >= 7 {
            let features = leaf(7);
            (features.ebx, features.ecx)
        } else {
            (0, 0)
        };
        Self {
            // The operating system must save the wide registers too; std asks for both.
            avx2: std::arch::is_x86_feature_detected!("avx2"),
            avx512: std::arch::is_x86_feature_detected!("avx512f"),
            stitches: Stitcher::detect().is_some(),
            ..Self::from_leaves([basic.ebx, basic.edx, basic.ecx], features, more, extended)
        }
    }

    /// Reads the bits that std does not know: vendor from leaf 0, EDX of leaf 1, EBX and ECX of
    /// leaf 7.
    fn from_leaves(vendor: [u32; 3], features: u32, more: u32, extended: u32) -> Self {
        let bit = |word: u32, number: u32| word & (1 << number) != 0;
        let name = vendor.map(u32::to_le_bytes);
        Self {
            intel: name.concat() == b"GenuineIntel",
            amd: name.concat() == b"AuthenticAMD",
            clflush: bit(features, 19),
            clflushopt: bit(more, 23),
            clwb: bit(more, 24),
            movdir64b: bit(extended, 28),
            avx2: false,
            avx512: false,
            stitches: false,
        }
    }

    pub(crate) fn flushes(self) -> impl Iterator<Item = FlushMethod> {
        [
            (self.clwb, FlushMethod::Clwb),
            (self.clflushopt, FlushMethod::ClflushOpt),
            (self.clflush, FlushMethod::Clflush),
        ]
        .into_iter()
        .filter_map(|(had, method)| had.then_some(method))
    }

    /// Widest first: from one to 64 lines the two widest were equal on what was measured, above
    /// them the wider wins.
    pub(crate) fn streams(self) -> impl Iterator<Item = StreamMethod> {
        [
            (self.avx512, StreamMethod::Avx512),
            (self.avx2, StreamMethod::Avx2),
            (true, StreamMethod::Sse2),
            (true, StreamMethod::Movnti),
            (self.movdir64b, StreamMethod::Movdir64b),
        ]
        .into_iter()
        .filter_map(|(had, method)| had.then_some(method))
    }

    /// From how many bytes on streaming is taken to be cheaper, before anybody measures.
    ///
    /// On Zen 4 that is from the first whole line (0.6 of store and flush, up to 64 lines). On
    /// Emerald Rapids streaming takes 1.2 of that for one line and 1.06 for three, and less from
    /// the fifth on. That stands for all others. On a later Intel Xeon it takes 0.9 for one. But no
    /// record is one line. Where what is streamed is put together in registers, that saves more
    /// ([`Stitcher`]).
    pub(crate) fn stream_from_bytes(self) -> usize {
        if self.amd || self.stitches { LINE_BYTES } else { 4 * LINE_BYTES + 1 }
    }

    pub(crate) fn details(self, flush: FlushMethod) -> X86Details {
        X86Details { full_fence: flush == FlushMethod::Clflush && !self.intel }
    }
}

#[inline]
pub(in crate::processor) unsafe fn store_word(to: *mut u8, value: u64) {
    // SAFETY: the caller gives an aligned word that may be written.
    unsafe {
        asm!("mov qword ptr [{to}], {value}", to = in(reg) to, value = in(reg) value,
            options(nostack, preserves_flags));
    }
}

#[inline]
pub(in crate::processor) unsafe fn load_word(from: *const u8) -> u64 {
    let value: u64;
    // SAFETY: the caller gives an aligned word that may be read.
    unsafe {
        asm!("mov {value}, qword ptr [{from}]", from = in(reg) from, value = out(reg) value,
            options(nostack, preserves_flags, readonly));
    }
    value
}

/// Stores one aligned pair of words.
#[inline]
unsafe fn store_pair(to: *mut u8, value: __m128i) {
    // SAFETY: the caller gives 16 aligned bytes that may be written.
    unsafe {
        asm!("movdqu xmmword ptr [{to}], {value}", to = in(reg) to, value = in(xmm_reg) value,
            options(nostack, preserves_flags));
    }
}

/// Loads one aligned pair of words.
#[inline]
unsafe fn load_pair(from: *const u8) -> __m128i {
    let value: __m128i;
    // SAFETY: the caller gives 16 aligned bytes that may be read.
    unsafe {
        asm!("movdqu {value}, xmmword ptr [{from}]",
            from = in(reg) from, value = out(xmm_reg) value,
            options(nostack, preserves_flags, readonly));
    }
    value
}

#[inline]
pub(in crate::processor) unsafe fn store_words(mut to: *mut u8, mut from: &[u8]) {
    debug_assert!(to.addr() % WORD_BYTES == 0 && from.len() % WORD_BYTES == 0);
    if to.addr() % PAIR_BYTES != 0 {
        if let Some((word, rest)) = from.split_first_chunk() {
            // SAFETY: the first word of the caller's range.
            unsafe { store_word(to, u64::from_le_bytes(*word)) };
            (to, from) = (to.wrapping_add(WORD_BYTES), rest);
        }
    }
    while let Some((pair, rest)) = from.split_first_chunk::<PAIR_BYTES>() {
        // SAFETY: `pair` is 16 readable bytes.
        let value = unsafe { _mm_loadu_si128(pair.as_ptr().cast()) };
        // SAFETY: the next 16 bytes of the caller's range, aligned by the step above.
        unsafe { store_pair(to, value) };
        (to, from) = (to.wrapping_add(PAIR_BYTES), rest);
    }
    if let Some((word, _)) = from.split_first_chunk() {
        // SAFETY: the last word of the caller's range.
        unsafe { store_word(to, u64::from_le_bytes(*word)) };
    }
}

#[inline]
pub(in crate::processor) unsafe fn load_words(mut from: *const u8, into: &mut [u8]) {
    debug_assert!(from.addr() % WORD_BYTES == 0 && into.len() % WORD_BYTES == 0);
    let odd_word = if from.addr() % PAIR_BYTES == 0 { 0 } else { WORD_BYTES.min(into.len()) };
    let (first, rest) = into.split_at_mut(odd_word);
    if let Some(word) = first.first_chunk_mut() {
        // SAFETY: the first word of the caller's range.
        *word = unsafe { load_word(from) }.to_le_bytes();
        from = from.wrapping_add(WORD_BYTES);
    }
    let mut pairs = rest.chunks_exact_mut(PAIR_BYTES);
    for pair in &mut pairs {
        // SAFETY: the next 16 bytes of the caller's range, aligned by the step above.
        let value = unsafe { load_pair(from) };
        // SAFETY: `pair` is 16 writable bytes.
        unsafe { _mm_storeu_si128(pair.as_mut_ptr().cast(), value) };
        from = from.wrapping_add(PAIR_BYTES);
    }
    if let Some(word) = pairs.into_remainder().first_chunk_mut() {
        // SAFETY: the last word of the caller's range.
        *word = unsafe { load_word(from) }.to_le_bytes();
    }
}

#[inline]
pub(in crate::processor) unsafe fn flush_lines(
    choices: Choices<X86Details>,
    first: *mut u8,
    count: usize,
) {
    if choices.details.full_fence {
        full_fence();
    }
    let lines = (0..count).map(|line| first.wrapping_add(line * LINE_BYTES));
    match choices.flush {
        FlushMethod::Clwb => lines.for_each(|line| {
            // SAFETY: the line is mapped and the processor has the instruction: the caller's
            // promises.
            unsafe {
                asm!("clwb [{0}]", in(reg) line, options(nostack, preserves_flags));
            }
        }),
        FlushMethod::ClflushOpt => lines.for_each(|line| {
            // SAFETY: as above.
            unsafe {
                asm!("clflushopt [{0}]", in(reg) line, options(nostack, preserves_flags));
            }
        }),
        FlushMethod::Nothing => {}
        // `Clflush`; the methods of other processors cannot be had on this one.
        _ => lines.for_each(|line| {
            // SAFETY: as above.
            unsafe {
                asm!("clflush [{0}]", in(reg) line, options(nostack, preserves_flags));
            }
        }),
    }
}

#[inline]
pub(in crate::processor) fn fence(choices: Choices<X86Details>) {
    if choices.details.full_fence {
        full_fence();
    } else {
        // SAFETY: `sfence` touches no memory of ours.
        unsafe {
            asm!("sfence", options(nostack, preserves_flags));
        }
    }
}

#[inline]
fn full_fence() {
    // SAFETY: `mfence` touches no memory of ours.
    unsafe {
        asm!("mfence", options(nostack, preserves_flags));
    }
}

#[inline]
pub(in crate::processor) unsafe fn stream_lines(
    choices: Choices<X86Details>,
    to: *mut u8,
    from: &[u8],
) {
    debug_assert!(to.addr() % LINE_BYTES == 0 && from.len() % LINE_BYTES == 0);
    let count = from.len() / LINE_BYTES;
    if count == 0 {
        return;
    }
    let from = from.as_ptr();
    match choices.stream {
        // SAFETY: `count` is not zero, the rest is the caller's promise.
        StreamMethod::Avx512 => unsafe { stream_avx512(to, from, count) },
        // SAFETY: as above.
        StreamMethod::Avx2 => unsafe { stream_avx2(to, from, count) },
        // SAFETY: as above.
        StreamMethod::Movdir64b => unsafe { stream_movdir64b(to, from, count) },
        // SAFETY: as above.
        StreamMethod::Movnti => unsafe { stream_movnti(to, from, count) },
        // `Sse2`; the methods of other processors cannot be had on this one.
        // SAFETY: as above.
        _ => unsafe { stream_sse2(to, from, count) },
    }
}

// Each loop below runs `count` (not zero) times over one line. Registers are named in the text,
// because the compiler offers wide ones only to functions that cannot be inlined into callers
// built for an older processor.

#[inline]
unsafe fn stream_avx512(to: *mut u8, from: *const u8, count: usize) {
    // zmm16 and above have no narrow alias that older code uses: no `vzeroupper` is owed.
    // SAFETY: `count` lines are readable at `from`, writable and aligned at `to`; the processor
    // has the instructions: the caller's promises.
    unsafe {
        asm!(
            "2:",
            "vmovdqu64 zmm16, zmmword ptr [{from}]",
            "vmovntdq zmmword ptr [{to}], zmm16",
            "add {from}, 64",
            "add {to}, 64",
            "dec {count}",
            "jnz 2b",
            from = inout(reg) from => _, to = inout(reg) to => _, count = inout(reg) count => _,
            out("zmm16") _,
            options(nostack),
        );
    }
}

#[inline]
unsafe fn stream_avx2(to: *mut u8, from: *const u8, count: usize) {
    // `vzeroupper` clears the upper half of every low register, so all of them are clobbered.
    // SAFETY: as in `stream_avx512`.
    unsafe {
        asm!(
            "2:",
            "vmovdqu ymm0, ymmword ptr [{from}]",
            "vmovdqu ymm1, ymmword ptr [{from} + 32]",
            "vmovntdq ymmword ptr [{to}], ymm0",
            "vmovntdq ymmword ptr [{to} + 32], ymm1",
            "add {from}, 64",
            "add {to}, 64",
            "dec {count}",
            "jnz 2b",
            "vzeroupper",
            from = inout(reg) from => _, to = inout(reg) to => _, count = inout(reg) count => _,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
            out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack),
        );
    }
}

#[inline]
unsafe fn stream_sse2(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: as in `stream_avx512`.
    unsafe {
        asm!(
            "2:",
            "movdqu {a}, xmmword ptr [{from}]",
            "movdqu {b}, xmmword ptr [{from} + 16]",
            "movdqu {c}, xmmword ptr [{from} + 32]",
            "movdqu {d}, xmmword ptr [{from} + 48]",
            "movntdq xmmword ptr [{to}], {a}",
            "movntdq xmmword ptr [{to} + 16], {b}",
            "movntdq xmmword ptr [{to} + 32], {c}",
            "movntdq xmmword ptr [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "dec {count}",
            "jnz 2b",
            from = inout(reg) from => _, to = inout(reg) to => _, count = inout(reg) count => _,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

#[inline]
unsafe fn stream_movnti(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: as in `stream_avx512`; eight words to a line.
    unsafe {
        asm!(
            "2:",
            "mov {word}, qword ptr [{from}]",
            "movnti qword ptr [{to}], {word}",
            "add {from}, 8",
            "add {to}, 8",
            "dec {count}",
            "jnz 2b",
            from = inout(reg) from => _, to = inout(reg) to => _,
            count = inout(reg) count * (LINE_BYTES / WORD_BYTES) => _,
            word = out(reg) _,
            options(nostack),
        );
    }
}

#[inline]
unsafe fn stream_movdir64b(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: as in `stream_avx512`.
    unsafe {
        asm!(
            "2:",
            "movdir64b {to}, zmmword ptr [{from}]",
            "add {from}, 64",
            "add {to}, 64",
            "dec {count}",
            "jnz 2b",
            from = inout(reg) from => _, to = inout(reg) to => _, count = inout(reg) count => _,
            options(nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::method::Method;

    const INTEL: [u32; 3] = [0x756e_6547, 0x4965_6e69, 0x6c65_746e];
    const AMD: [u32; 3] = [0x6874_7541, 0x6974_6e65, 0x444d_4163];

    fn flushes(cpu: X86Cpu) -> Vec<FlushMethod> {
        cpu.flushes().collect()
    }

    #[test]
    fn the_bits_of_cpuid_are_read() {
        let old = X86Cpu::from_leaves(INTEL, 1 << 19, 0, 0);
        assert_eq!(flushes(old), [FlushMethod::Clflush]);
        assert_eq!(old.streams().collect::<Vec<_>>(), [StreamMethod::Sse2, StreamMethod::Movnti]);
        let middle = X86Cpu::from_leaves(INTEL, 1 << 19, 1 << 23, 0);
        assert_eq!(flushes(middle), [FlushMethod::ClflushOpt, FlushMethod::Clflush]);
        let new = X86Cpu::from_leaves(INTEL, 1 << 19, 1 << 23 | 1 << 24, 1 << 28);
        assert_eq!(flushes(new)[0], FlushMethod::Clwb);
        assert!(new.streams().any(|had| had == StreamMethod::Movdir64b));
        assert_eq!(flushes(X86Cpu::from_leaves(INTEL, 0, 0, 0)), []);
    }

    /// A processor with nothing but `clflush` still needs a fence, and outside Intel a full one.
    #[test]
    fn clflush_is_fenced_fully_outside_intel() {
        let intel = X86Cpu::from_leaves(INTEL, 1 << 19, 0, 0);
        let amd = X86Cpu::from_leaves(AMD, 1 << 19, 1 << 23, 0);
        assert!(!intel.details(FlushMethod::Clflush).full_fence);
        assert!(amd.details(FlushMethod::Clflush).full_fence);
        assert!(!amd.details(FlushMethod::ClflushOpt).full_fence);
    }

    #[test]
    fn the_default_threshold_is_by_maker_and_by_what_stitches() {
        assert_eq!(X86Cpu::from_leaves(AMD, 0, 0, 0).stream_from_bytes(), 64);
        let intel = X86Cpu::from_leaves(INTEL, 0, 0, 0);
        assert_eq!(intel.stream_from_bytes(), 257);
        assert_eq!(X86Cpu { stitches: true, ..intel }.stream_from_bytes(), 64);
        assert_eq!(X86Cpu::from_leaves([0; 3], 0, 0, 0).stream_from_bytes(), 257);
    }

    #[test]
    fn a_processor_that_can_flush_nothing_is_said_to_flush_nothing() {
        let method = Method::best_of(X86Cpu::from_leaves(AMD, 0, 0, 0));
        assert_eq!(method.flush(), FlushMethod::Nothing);
    }
}
