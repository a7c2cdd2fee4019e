//! The words in which two images differ, on 64-bit x86, a line of eight at a time.
//!
//! A line gives one byte of the mask, whose numbers are little-endian here.

use core::arch::asm;

use journal_core::check;

const LINE_BYTES: usize = 64;
/// The lines that one number of a mask speaks of.
const GROUP_LINES: usize = 8;

/// How many bits a loop compares at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompareWidth {
    /// AVX2.
    Bits256,
    /// AVX-512F.
    Bits512,
}

/// A way to compare that this processor has; there are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparing {
    width: CompareWidth,
}

impl Comparing {
    /// The fastest first.
    pub(super) fn supported() -> impl Iterator<Item = Self> {
        let widths = [
            (std::arch::is_x86_feature_detected!("avx512f"), CompareWidth::Bits512),
            (std::arch::is_x86_feature_detected!("avx2"), CompareWidth::Bits256),
        ];
        widths.into_iter().filter_map(|(had, width)| had.then_some(Self { width }))
    }

    pub(super) fn name(self) -> &'static str {
        match self.width {
            CompareWidth::Bits256 => "avx2",
            CompareWidth::Bits512 => "avx512f",
        }
    }

    pub(super) fn changed_words(self, older: &[u8], newer: &[u8], mask: &mut [u64]) {
        let len = older.len().min(newer.len()).min(mask.len() * GROUP_LINES * LINE_BYTES);
        let (older, newer) = (&older[..len], &newer[..len]);
        let lines = len / LINE_BYTES;
        mask[lines / GROUP_LINES..].fill(0);
        if lines > 0 {
            // SAFETY: both images have `lines` lines, and the mask a byte for each; the width is
            // that of this processor, or there were no `self`.
            unsafe { changed_lines(self.width, older, newer, lines, mask) }
        }
        let (older_rest, newer_rest) = (&older[lines * LINE_BYTES..], &newer[lines * LINE_BYTES..]);
        if !older_rest.is_empty() {
            let mut rest = [0];
            check::changed_words(older_rest, newer_rest, &mut rest);
            mask[lines / GROUP_LINES] |= rest[0] << (lines % GROUP_LINES * 8);
        }
    }
}

/// Writes a byte of the mask for each line.
///
/// # Safety
/// `lines` is not zero, and both images have that many lines. The mask has as many bytes. The
/// processor has the instructions of the width.
#[inline]
unsafe fn changed_lines(
    width: CompareWidth,
    older: &[u8],
    newer: &[u8],
    lines: usize,
    mask: &mut [u64],
) {
    let (older, newer, mask) = (older.as_ptr(), newer.as_ptr(), mask.as_mut_ptr());
    match width {
        // zmm16 has no narrow alias that older code uses: no `vzeroupper` is owed. The bits of
        // eight lines are put together before they are stored (C1). SAFETY: reads `lines` times 64
        // bytes of each image and writes `lines` bytes of the mask, by the caller's promise, which
        // is for the instructions too.
        CompareWidth::Bits512 => unsafe {
            asm!(
                // 1. Eight lines at a time, whose 64 bits are stored as one word.
                "cmp {lines}, 8",
                "jb 3f",
                "2:",
                "vmovdqu64 zmm16, zmmword ptr [{older}]",
                "vmovdqu64 zmm17, zmmword ptr [{older} + 64]",
                "vmovdqu64 zmm18, zmmword ptr [{older} + 128]",
                "vmovdqu64 zmm19, zmmword ptr [{older} + 192]",
                "vpcmpneqq k1, zmm16, zmmword ptr [{newer}]",
                "vpcmpneqq k2, zmm17, zmmword ptr [{newer} + 64]",
                "vpcmpneqq k3, zmm18, zmmword ptr [{newer} + 128]",
                "vpcmpneqq k4, zmm19, zmmword ptr [{newer} + 192]",
                "kunpckbw k1, k2, k1",
                "kunpckbw k3, k4, k3",
                "kmovw {bits:e}, k1",
                "kmovw {high:e}, k3",
                "shl {high:e}, 16",
                "or {bits:e}, {high:e}",
                "vmovdqu64 zmm16, zmmword ptr [{older} + 256]",
                "vmovdqu64 zmm17, zmmword ptr [{older} + 320]",
                "vmovdqu64 zmm18, zmmword ptr [{older} + 384]",
                "vmovdqu64 zmm19, zmmword ptr [{older} + 448]",
                "vpcmpneqq k1, zmm16, zmmword ptr [{newer} + 256]",
                "vpcmpneqq k2, zmm17, zmmword ptr [{newer} + 320]",
                "vpcmpneqq k3, zmm18, zmmword ptr [{newer} + 384]",
                "vpcmpneqq k4, zmm19, zmmword ptr [{newer} + 448]",
                "kunpckbw k1, k2, k1",
                "kunpckbw k3, k4, k3",
                "kmovw {high:e}, k1",
                "shl {high:r}, 32",
                "or {bits:r}, {high:r}",
                "kmovw {high:e}, k3",
                "shl {high:r}, 48",
                "or {bits:r}, {high:r}",
                "mov qword ptr [{mask}], {bits:r}",
                "add {older}, 512",
                "add {newer}, 512",
                "add {mask}, 8",
                "sub {lines}, 8",
                "cmp {lines}, 8",
                "jae 2b",
                // 2. The lines that are left, one at a time.
                "3:",
                "test {lines}, {lines}",
                "jz 5f",
                "4:",
                "vmovdqu64 zmm16, zmmword ptr [{older}]",
                "vpcmpneqq k1, zmm16, zmmword ptr [{newer}]",
                "kmovw {bits:e}, k1",
                "mov byte ptr [{mask}], {bits:l}",
                "add {older}, 64",
                "add {newer}, 64",
                "inc {mask}",
                "dec {lines}",
                "jnz 4b",
                "5:",
                older = inout(reg) older => _,
                newer = inout(reg) newer => _,
                mask = inout(reg) mask => _,
                lines = inout(reg) lines => _,
                bits = out(reg) _,
                high = out(reg) _,
                out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
                out("k1") _, out("k2") _, out("k3") _, out("k4") _,
                options(nostack),
            );
        },
        // `vzeroupper` clears the upper half of every low register, so all of them are clobbered.
        // SAFETY: as above. What is written has the bits of the words that are alike, turned over.
        CompareWidth::Bits256 => unsafe {
            asm!(
                "2:",
                "vmovdqu ymm0, ymmword ptr [{older}]",
                "vmovdqu ymm1, ymmword ptr [{older} + 32]",
                "vpcmpeqq ymm0, ymm0, ymmword ptr [{newer}]",
                "vpcmpeqq ymm1, ymm1, ymmword ptr [{newer} + 32]",
                "vmovmskpd {bits:e}, ymm0",
                "vmovmskpd {high:e}, ymm1",
                "shl {high:e}, 4",
                "or {bits:e}, {high:e}",
                "not {bits:e}",
                "mov byte ptr [{mask}], {bits:l}",
                "add {older}, 64",
                "add {newer}, 64",
                "inc {mask}",
                "dec {lines}",
                "jnz 2b",
                "vzeroupper",
                older = inout(reg) older => _,
                newer = inout(reg) newer => _,
                mask = inout(reg) mask => _,
                lines = inout(reg) lines => _,
                bits = out(reg) _,
                high = out(reg) _,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
                out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
                out("xmm15") _,
                options(nostack),
            );
        },
    }
}
