//! Lines that are put together, checked and streamed without lying in memory in between
//! ([`journal_core::Gathered`] says why).
//!
//! Guarantees: the bytes are those of [`Gathered::each_checked_line`]; of the pieces nothing is
//! read that is not of them, but masked, which does not fault; a [`Gather`] exists only if this
//! processor has the instructions. What a crash may do is what it may do to lines that are
//! streamed.
//!
//! The head is loaded word by word, since it was stored like that a moment ago. What the body has
//! of a line is loaded as if it went on before and behind, with a mask of what it has. Each line is
//! folded onto the next one; `kernels/x86_64.rs` says how a check is computed.

use core::arch::asm;

use journal_core::{Gathered, LINE_BYTES, Seeds, WORD_BYTES};

use crate::kernels::GATHERED;

/// This processor has VPCLMULQDQ, BMI2, and AVX-512F, BW and VL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gather(());

/// The four parts of zmm18, all of one place, divided: what is left is the sum of xmm18 and xmm19.
macro_rules! divided {
    () => {
        concat!(
            "vextracti64x4 ymm19, zmm18, 1\n",
            "vpxorq ymm18, ymm18, ymm19\n",
            "vextracti32x4 xmm19, ymm18, 1\n",
            "vpxorq xmm18, xmm18, xmm19\n",
            "vpclmulqdq xmm19, xmm18, xmm21, 0x00\n",
            "vpclmulqdq xmm17, xmm19, xmm21, 0x10\n",
            "vpxorq xmm18, xmm18, xmm17\n",
            "vpsrldq xmm18, xmm18, 8\n",
        )
    };
}

impl Gather {
    pub(crate) fn detect() -> Option<Self> {
        let has = std::arch::is_x86_feature_detected!("vpclmulqdq")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512vl");
        has.then_some(Self(()))
    }

    /// Whether it can do these: not where the body begins in the first line.
    #[inline]
    pub(crate) fn can(gathered: &Gathered<'_>) -> bool {
        gathered.body_at() >= LINE_BYTES
    }

    /// Streams lines that are put together, with their checks; returns that of all.
    ///
    /// # Safety
    /// `to` is aligned to a line, and all of the lines may be written there. It
    /// [can](Self::can) do them.
    #[inline(always)]
    pub(crate) unsafe fn stream(self, to: *mut u8, gathered: &Gathered<'_>, seeds: Seeds) -> u64 {
        let (head, body) = (gathered.head(), gathered.body());
        // Where there is no body nothing is loaded of it; the address is one all the same.
        let from = if body.is_empty() { head.as_ptr() } else { body.as_ptr() };
        let (line, has_line) = seeds.line.map_or((0, 0), |seed| (!seed, HAS_LINE));
        // Less than half of all addresses are of a piece.
        let shape = (gathered.body_at() - LINE_BYTES) | has_line;
        // SAFETY: the lines of `gathered`, which is what these say; the rest is the caller's
        // promise, and the processor has the instructions, or there were no `self`.
        unsafe { stream(to, head.as_ptr(), from, body.len(), !seeds.all, line, shape) }
    }
}

/// In a shape: that the first line has a check of its own.
const HAS_LINE: usize = 1 << 8;

/// In the place of how many lines the body has all of: the second line is the last one.
const SHORT: usize = usize::MAX;

/// The same of pieces that go by registers: what a caller stores for it has to wait in line with
/// everything else; and it saves none itself, so that it has no more than nine for the assembly. A
/// shape is how much of the second line the head has, and [`HAS_LINE`]; `sum` and `line` are what
/// checks begin with.
///
/// # Safety The processor has VPCLMULQDQ, BMI2, and AVX-512F, BW and VL. There is one line of the
/// head, and as much more, in whole words, as the shape says, at most another; and there is the
/// body, but where it is empty: then any address will do. `to` is aligned to a line, and as many
/// may be written there as all of it takes.
#[inline(never)]
unsafe fn stream(
    to: *mut u8,
    head: *const u8,
    body: *const u8,
    body_bytes: usize,
    sum: u64,
    line: u64,
    shape: usize,
) -> u64 {
    let begins = shape % HAS_LINE;
    let ends = (begins + body_bytes).min(LINE_BYTES);
    let left = begins + body_bytes - ends;
    let is_short = left == 0 && ends + WORD_BYTES <= LINE_BYTES;
    let (full, rest) = (if is_short { SHORT } else { left / LINE_BYTES }, left % LINE_BYTES);
    let check: u64;
    // zmm16 and above have no narrow alias that older code uses: no `vzeroupper` is owed.
    // SAFETY: reads whole words of the head, of the body what the masks have the bits of, and
    // `GATHERED`, 160 bytes; writes the lines one after the other. The first two always; the second
    // one is the last one if it is short; `full` that the body has wholly; one with the rest; and
    // one more if that leaves no room for the check: as many as there are. The processor has the
    // instructions: the caller's promise.
    unsafe {
        asm!(
            "vbroadcasti32x4 zmm20, xmmword ptr [rip + {folds} + 144]",
            "vmovdqu64 xmm21, xmmword ptr [rip + {folds} + 128]",
            // The first line.
            "vmovq xmm16, qword ptr [{head}]",
            "vmovhps xmm16, xmm16, qword ptr [{head} + 8]",
            "vmovq xmm17, qword ptr [{head} + 16]",
            "vmovhps xmm17, xmm17, qword ptr [{head} + 24]",
            "vinserti32x4 zmm16, zmm16, xmm17, 1",
            "vmovq xmm17, qword ptr [{head} + 32]",
            "vmovhps xmm17, xmm17, qword ptr [{head} + 40]",
            "vinserti32x4 zmm16, zmm16, xmm17, 2",
            "vmovq xmm17, qword ptr [{head} + 48]",
            "vmovhps xmm17, xmm17, qword ptr [{head} + 56]",
            "vinserti32x4 zmm16, zmm16, xmm17, 3",
            // Its check: four parts of one place, times x^64, and the division.
            "vmovq xmm17, {line}",
            "vpxorq zmm18, zmm16, zmm17",
            "vpclmulqdq zmm19, zmm18, zmmword ptr [rip + {folds} + 64], 0x00",
            "vpclmulqdq zmm18, zmm18, zmmword ptr [rip + {folds} + 64], 0x11",
            "vpxorq zmm18, zmm18, zmm19",
            divided!(),
            // What is left of it, and all of its bits the other way; the lower half, if at all.
            "vpternlogq xmm18, xmm19, xmm19, 0xc3",
            "mov {line:e}, {shape:e}",
            "shr {line:e}, 8",
            "kmovd k1, {line:e}",
            "vpord zmm16 {{k1}}, zmm16, zmm18",
            "vmovq xmm17, {sum}",
            "vpxorq zmm18, zmm16, zmm17",
            "vmovntdq zmmword ptr [{to}], zmm16",
            // The second line: word by word of the head, and what the body has of it.
            "movzx {shape:e}, {shape:l}",
            "sub {body}, {shape}",
            "mov {line}, -1",
            "bzhi {sum}, {line}, {shape}",
            "bzhi {line}, {line}, {ends}",
            "xor {line}, {sum}",
            "kmovq k3, {line}",
            "kmovq k2, {sum}",
            "vpxorq zmm16, zmm16, zmm16",
            "add {shape:e}, 7",
            "shr {shape:e}, 3",
            "jz 3f",
            "kxnord k1, k1, k1",
            "kshiftrd k1, k1, 31",
            "2:",
            "add {head}, 8",
            "vpbroadcastq zmm16 {{k1}}, qword ptr [{head} + 56]",
            "kaddd k1, k1, k1",
            "dec {shape:e}",
            "jnz 2b",
            "3:",
            "vmovdqu8 zmm16 {{k2}} {{z}}, zmm16",
            "vmovdqu8 zmm16 {{k3}}, zmmword ptr [{body}]",
            "add {to}, 64",
            "vpclmulqdq zmm19, zmm18, zmm20, 0x00",
            "vpclmulqdq zmm18, zmm18, zmm20, 0x11",
            "vpternlogq zmm18, zmm19, zmm16, 0x96",
            "test {full}, {full}",
            "js 8f",
            "vmovntdq zmmword ptr [{to}], zmm16",
            "add {to}, 64",
            "add {body}, 64",
            "test {full}, {full}",
            "jz 5f",
            "4:",
            "vmovdqu64 zmm16, zmmword ptr [{body}]",
            "add {body}, 64",
            "vmovntdq zmmword ptr [{to}], zmm16",
            "add {to}, 64",
            "vpclmulqdq zmm19, zmm18, zmm20, 0x00",
            "vpclmulqdq zmm18, zmm18, zmm20, 0x11",
            "vpternlogq zmm18, zmm19, zmm16, 0x96",
            "dec {full}",
            "jnz 4b",
            "5:",
            // What is masked out is not read; but where all of it is, that takes long.
            "vpxorq zmm16, zmm16, zmm16",
            "test {rest}, {rest}",
            "jz 6f",
            "mov {line}, -1",
            "bzhi {line}, {line}, {rest}",
            "kmovq k1, {line}",
            "vmovdqu8 zmm16 {{k1}} {{z}}, zmmword ptr [{body}]",
            "6:",
            "vpclmulqdq zmm19, zmm18, zmm20, 0x00",
            "vpclmulqdq zmm18, zmm18, zmm20, 0x11",
            "vpternlogq zmm18, zmm19, zmm16, 0x96",
            "cmp {rest}, 56",
            "jbe 8f",
            "vmovntdq zmmword ptr [{to}], zmm16",
            "add {to}, 64",
            "vpxorq zmm16, zmm16, zmm16",
            "vpclmulqdq zmm19, zmm18, zmm20, 0x00",
            "vpclmulqdq zmm18, zmm18, zmm20, 0x11",
            "vpxorq zmm18, zmm18, zmm19",
            // The last one is in zmm16 and not written, the sum of all in zmm18. What is to be
            // times x^64 is so with the last word, which is zero here.
            "8:",
            "vpclmulqdq zmm19, zmm18, zmmword ptr [rip + {folds}], 0x00",
            "vpclmulqdq zmm18, zmm18, zmmword ptr [rip + {folds}], 0x11",
            "vpxorq zmm18, zmm18, zmm19",
            divided!(),
            "vpternlogq xmm18, xmm19, xmm19, 0xc3",
            "vmovq {sum}, xmm18",
            "mov {line:e}, 128",
            "kmovd k1, {line:e}",
            "vpbroadcastq zmm16 {{k1}}, {sum}",
            "vmovntdq zmmword ptr [{to}], zmm16",
            folds = sym GATHERED,
            head = inout(reg) head => _,
            body = inout(reg) body => _,
            ends = in(reg) ends,
            full = inout(reg) full => _,
            rest = in(reg) rest,
            shape = inout(reg_abcd) shape => _,
            to = inout(reg) to => _,
            sum = inout(reg) sum => check,
            line = inout(reg) line => _,
            out("k1") _, out("k2") _, out("k3") _,
            out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _, out("zmm20") _,
            out("zmm21") _,
            options(nostack),
        );
    }
    check
}
