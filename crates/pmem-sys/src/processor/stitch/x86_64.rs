//! Lines that are put together, checked and streamed without lying in memory in between
//! ([`journal_core::Stitched`] says why).
//!
//! Guarantees: the bytes are those of [`Stitched::each_checked_line`]. Nothing is read that is not
//! of the pieces, except masked, which does not fault. A [`Stitcher`] exists only if this processor
//! has the instructions. What a crash may do is what it may do to lines that are streamed.
//!
//! The start is loaded word by word (C1). What the body has of a line is loaded as if it went on
//! before and behind, with a mask of what it has. Each line is folded onto the next one;
//! `kernels/x86_64.rs` says how a check is computed.

use core::arch::asm;

use journal_core::policy::Prefix;
use journal_core::{LINE_BYTES, Piece, Seeds, Stitched, WORD_BYTES};

use crate::processor::kernels::LINE_FOLDS;

/// This processor has VPCLMULQDQ, BMI2, and AVX-512F, BW and VL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stitcher(());

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

/// A line of the start, in zmm16, where it was stored by words.
macro_rules! line_of_words {
    () => {
        concat!(
            "vmovq xmm16, qword ptr [{start}]\n",
            "vmovhps xmm16, xmm16, qword ptr [{start} + 8]\n",
            "vmovq xmm17, qword ptr [{start} + 16]\n",
            "vmovhps xmm17, xmm17, qword ptr [{start} + 24]\n",
            "vinserti32x4 zmm16, zmm16, xmm17, 1\n",
            "vmovq xmm17, qword ptr [{start} + 32]\n",
            "vmovhps xmm17, xmm17, qword ptr [{start} + 40]\n",
            "vinserti32x4 zmm16, zmm16, xmm17, 2\n",
            "vmovq xmm17, qword ptr [{start} + 48]\n",
            "vmovhps xmm17, xmm17, qword ptr [{start} + 56]\n",
            "vinserti32x4 zmm16, zmm16, xmm17, 3\n",
        )
    };
}

/// What has been folded so far, in zmm18, folded onto the line in zmm16.
macro_rules! folded {
    () => {
        concat!(
            "vpclmulqdq zmm19, zmm18, zmm20, 0x00\n",
            "vpclmulqdq zmm18, zmm18, zmm20, 0x11\n",
            "vpternlogq zmm18, zmm19, zmm16, 0x96\n",
        )
    };
}

/// Loads what folding takes; makes the first line, in zmm16, with its check where a flag says so,
/// and begins to fold.
macro_rules! first_line {
    ($flag:literal) => {
        concat!(
            "vbroadcasti32x4 zmm20, xmmword ptr [rip + {folds} + 144]\n",
            "vmovdqu64 xmm21, xmmword ptr [rip + {folds} + 128]\n",
            line_of_words!(),
            // Its check: four parts of one place, times x^64, and the division.
            "vmovq xmm17, {line}\n",
            "vpxorq zmm18, zmm16, zmm17\n",
            "vpclmulqdq zmm19, zmm18, zmmword ptr [rip + {folds} + 64], 0x00\n",
            "vpclmulqdq zmm18, zmm18, zmmword ptr [rip + {folds} + 64], 0x11\n",
            "vpxorq zmm18, zmm18, zmm19\n",
            divided!(),
            // What is left of it, and all of its bits the other way; the lower half, if at all.
            "vpternlogq xmm18, xmm19, xmm19, 0xc3\n",
            $flag,
            "vpord zmm16 {{k1}}, zmm16, zmm18\n",
            "vmovq xmm17, {sum}\n",
            "vpxorq zmm18, zmm16, zmm17\n",
            "vmovntdq zmmword ptr [{to}], zmm16\n",
        )
    };
}

/// Streams the last line, which is in zmm16, with the check of all behind it. What is to be times
/// x^64 is so with the last word, which is zero there.
macro_rules! last_line {
    () => {
        concat!(
            "vpclmulqdq zmm19, zmm18, zmmword ptr [rip + {folds}], 0x00\n",
            "vpclmulqdq zmm18, zmm18, zmmword ptr [rip + {folds}], 0x11\n",
            "vpxorq zmm18, zmm18, zmm19\n",
            divided!(),
            "vpternlogq xmm18, xmm19, xmm19, 0xc3\n",
            "vmovq {sum}, xmm18\n",
            "mov {line:e}, 128\n",
            "kmovd k1, {line:e}\n",
            "vpbroadcastq zmm16 {{k1}}, {sum}\n",
            "vmovntdq zmmword ptr [{to}], zmm16\n",
        )
    };
}

impl Stitcher {
    pub(crate) fn detect() -> Option<Self> {
        let has = std::arch::is_x86_feature_detected!("vpclmulqdq")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512vl");
        (has && pieces_are_known()).then_some(Self(()))
    }

    /// Whether it can do these: not where the body begins in the first line, nor where it is behind
    /// a start longer than [`Stitched::START_BYTES_MAX`].
    #[inline]
    pub(crate) fn can(stitched: &Stitched<'_>) -> bool {
        stitched.body_at() >= LINE_BYTES && (!is_long(stitched) || stitched.body().is_empty())
    }

    /// Streams lines that are put together, with their checks; returns that of all.
    ///
    /// # Safety
    /// `to` is aligned to a line, and all of the lines may be written there. It
    /// [can](Self::can) do them.
    #[inline(always)]
    pub(crate) unsafe fn stream(self, to: *mut u8, stitched: &Stitched<'_>, seeds: Seeds) -> u64 {
        let (start, body) = (stitched.start(), stitched.body());
        if !stitched.pieces().is_empty() || is_long(stitched) {
            let line = seeds.line.map(|seed| !seed);
            // SAFETY: as below, and `detect` has seen how a piece lies in memory.
            return unsafe { stream_pieces(to, start, stitched.pieces(), !seeds.all, line) };
        }
        // Where there is no body, nothing is loaded of it. The address is one all the same, where
        // nobody stores (C1).
        let none = (&raw const LINE_FOLDS).cast::<u8>().wrapping_add(LINE_BYTES);
        let from = if body.is_empty() { none } else { body.as_ptr() };
        let (line, has_line) = seeds.line.map_or((0, 0), |seed| (!seed, HAS_LINE));
        // Less than half of all addresses are of a piece.
        let shape = (stitched.body_at() - LINE_BYTES) | has_line;
        // SAFETY: the lines of `stitched`, which is what these say; the rest is the caller's
        // promise, and the processor has the instructions, or there were no `self`.
        unsafe { stream(to, start.as_ptr(), from, body.len(), !seeds.all, line, shape) }
    }
}

/// Whether the start is longer than what goes by one line and masks.
#[inline(always)]
fn is_long(stitched: &Stitched<'_>) -> bool {
    stitched.body_at() > Stitched::START_BYTES_MAX
}

/// In a shape: that the first line has a check of its own.
const HAS_LINE: usize = 1 << 8;

/// In the place of how many lines the body has all of: the second line is the last one.
const SHORT: usize = usize::MAX;

/// Streams a start and a body that go by registers (C2). The function saves no register itself, so
/// it has no more than nine for the assembly. A shape is how much of the second line the start has,
/// and [`HAS_LINE`]. `sum` and `line` are what checks begin with.
///
/// # Safety
/// The processor has VPCLMULQDQ, BMI2, and AVX-512F, BW and VL. There is one line of the start, and
/// as much more, in whole words, as the shape says, at most another. There is the body; where it is
/// empty, any address will do. `to` is aligned to a line, and as many may be written there as all
/// of it takes.
#[inline(never)]
unsafe fn stream(
    to: *mut u8,
    start: *const u8,
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
    // SAFETY: reads whole words of the start, of the body what the masks have the bits of, and
    // `LINE_FOLDS`, 160 bytes. It writes the lines one after the other. The first two always; the
    // second one is the last one if it is short. Then `full` lines that the body has wholly, and
    // one with the rest. Then one more if that leaves no room for the check. That is as many as
    // there are. The processor has the instructions: the caller's promise.
    unsafe {
        asm!(
            // 1. The first line.
            first_line!("mov {line:e}, {shape:e}\nshr {line:e}, 8\nkmovd k1, {line:e}\n"),
            // 2. The second line: word by word of the start, and what the body has of it.
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
            "add {start}, 8",
            "vpbroadcastq zmm16 {{k1}}, qword ptr [{start} + 56]",
            "kaddd k1, k1, k1",
            "dec {shape:e}",
            "jnz 2b",
            "3:",
            "vmovdqu8 zmm16 {{k2}} {{z}}, zmm16",
            "vmovdqu8 zmm16 {{k3}}, zmmword ptr [{body}]",
            "add {to}, 64",
            folded!(),
            // 3. The lines that the body has wholly.
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
            folded!(),
            "dec {full}",
            "jnz 4b",
            "5:",
            // 4. The rest of the body.
            // What is masked out is not read; but where all of it is, that takes long.
            "vpxorq zmm16, zmm16, zmm16",
            "test {rest}, {rest}",
            "jz 6f",
            "mov {line}, -1",
            "bzhi {line}, {line}, {rest}",
            "kmovq k1, {line}",
            "vmovdqu8 zmm16 {{k1}} {{z}}, zmmword ptr [{body}]",
            "6:",
            folded!(),
            // 5. One line more, if that leaves no room for the check.
            "cmp {rest}, 56",
            "jbe 8f",
            "vmovntdq zmmword ptr [{to}], zmm16",
            "add {to}, 64",
            "vpxorq zmm16, zmm16, zmm16",
            "vpclmulqdq zmm19, zmm18, zmm20, 0x00",
            "vpclmulqdq zmm18, zmm18, zmm20, 0x11",
            "vpxorq zmm18, zmm18, zmm19",
            // 6. The last line. It is in zmm16 and not written, the sum of all in zmm18.
            "8:",
            last_line!(),
            folds = sym LINE_FOLDS,
            start = inout(reg) start => _,
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

/// Bytes from one piece to the next, of which the first word is the prefix.
const PIECE_BYTES: usize = 24;

/// Whether in a piece the address of its bytes comes behind the prefix, and then their number:
/// nobody promises how a slice is told of.
fn pieces_are_known() -> bool {
    const { assert!(size_of::<Piece<'_>>() == PIECE_BYTES) };
    let piece = Piece { prefix: Prefix::new(7, 5), bytes: b"piece" };
    // SAFETY: as many bytes, all of which are numbers or an address, and the words are only looked
    // at.
    let words: [usize; PIECE_BYTES / WORD_BYTES] = unsafe { core::mem::transmute(piece) };
    words == [5 << 56 | 7, piece.bytes.as_ptr().addr(), piece.bytes.len()]
}

/// Streams a start and pieces behind it; `sum` is what the check of all begins with, `line` what
/// that of the first line does where there is one. Returns the check of all.
///
/// In zmm16 is the line that is being made, of which `pos` bytes are there.
///
/// # Safety
/// The processor has VPCLMULQDQ, BMI2, and AVX-512F, BW and VL. The start is whole words, and at
/// least a line; the pieces are as [`pieces_are_known`] knows them. `to`
/// is aligned to a line, and as many lines may be written there as all of it takes.
#[inline(never)]
unsafe fn stream_pieces(
    to: *mut u8,
    start: &[u8],
    pieces: &[Piece<'_>],
    sum: u64,
    line: Option<u64>,
) -> u64 {
    let check: u64;
    // zmm16 and above have no narrow alias that older code uses: no `vzeroupper` is owed.
    // SAFETY: reads whole words of the start, `LINE_FOLDS`, the pieces, and of their bytes whole
    // lines or what the masks have the bits of. It writes the lines one after the other: the first
    // one, those that the start has wholly, and each that is full. Then it writes one or two with
    // what is left and the check. That is as many as there are. The processor has the instructions:
    // the caller's promise.
    unsafe {
        asm!(
            // 1. The first line.
            first_line!("kmovd k1, {pos:e}\n"),
            "add {to}, 64",
            // 2. The lines of which the start has all.
            "sub {left}, 64",
            "2:",
            "cmp {left}, 64",
            "jb 3f",
            "add {start}, 64",
            line_of_words!(),
            folded!(),
            "vmovntdq zmmword ptr [{to}], zmm16",
            "add {to}, 64",
            "sub {left}, 64",
            "jmp 2b",
            // 3. What it has of the next one.
            "3:",
            "vpxorq zmm16, zmm16, zmm16",
            "mov {pos}, {left}",
            "test {left}, {left}",
            "jz 5f",
            "kxnord k1, k1, k1",
            "kshiftrd k1, k1, 31",
            "4:",
            "add {start}, 8",
            "vpbroadcastq zmm16 {{k1}}, qword ptr [{start} + 56]",
            "kaddd k1, k1, k1",
            "sub {left}, 8",
            "jnz 4b",
            // 4. The next piece: its prefix, by words of the line.
            "5:",
            "cmp {piece}, {end}",
            "je 9f",
            "mov {start}, qword ptr [{piece}]",
            "mov {from}, qword ptr [{piece} + 8]",
            "mov {len}, qword ptr [{piece} + 16]",
            "add {piece}, 24",
            "mov {sum}, {start}",
            "shr {sum}, 56",
            "jz 6f",
            "shl {start}, 8",
            "shr {start}, 8",
            "lea {left:e}, [{pos} * 8]",
            "and {left:e}, 56",
            "shlx {line}, {start}, {left}",
            "xor {left:e}, 63",
            "shr {start}",
            "shrx {start}, {start}, {left}",
            "mov {left:e}, {pos:e}",
            "shr {left:e}, 3",
            "bts {bit:e}, {left:e}",
            "kmovd k1, {bit:e}",
            "btr {bit:e}, {left:e}",
            "vpbroadcastq zmm17, {line}",
            "vporq zmm16 {{k1}}, zmm16, zmm17",
            "kaddd k1, k1, k1",
            "vpbroadcastq zmm17, {start}",
            "vporq zmm16 {{k1}}, zmm16, zmm17",
            "add {pos}, {sum}",
            "cmp {pos}, 64",
            "jb 6f",
            folded!(),
            "vmovntdq zmmword ptr [{to}], zmm16",
            "add {to}, 64",
            "sub {pos}, 64",
            "vmovq xmm16, {start}",
            // 5. Its bytes: what the line has room for.
            "6:",
            "test {len}, {len}",
            "jz 5b",
            "lea {start}, [{pos} + {len}]",
            "mov {left:e}, 64",
            "cmp {start}, {left}",
            "cmova {start}, {left}",
            "mov {line}, -1",
            "bzhi {sum}, {line}, {pos}",
            "bzhi {line}, {line}, {start}",
            "xor {line}, {sum}",
            "kmovq k2, {line}",
            "sub {from}, {pos}",
            "vmovdqu8 zmm16 {{k2}}, zmmword ptr [{from}]",
            "add {from}, {start}",
            "sub {start}, {pos}",
            "sub {len}, {start}",
            "add {pos}, {start}",
            "cmp {pos}, 64",
            "jb 5b",
            folded!(),
            "vmovntdq zmmword ptr [{to}], zmm16",
            "add {to}, 64",
            // 6. Whole lines, and the rest.
            "7:",
            "cmp {len}, 64",
            "jb 8f",
            "vmovdqu64 zmm16, zmmword ptr [{from}]",
            "add {from}, 64",
            folded!(),
            "vmovntdq zmmword ptr [{to}], zmm16",
            "add {to}, 64",
            "sub {len}, 64",
            "jmp 7b",
            "8:",
            "vpxorq zmm16, zmm16, zmm16",
            "mov {pos}, {len}",
            "test {len}, {len}",
            "jz 5b",
            "mov {line}, -1",
            "bzhi {line}, {line}, {len}",
            "kmovq k2, {line}",
            "vmovdqu8 zmm16 {{k2}} {{z}}, zmmword ptr [{from}]",
            "jmp 5b",
            // 7. What is left, and one more if that leaves no room for the check.
            "9:",
            folded!(),
            "cmp {pos}, 56",
            "jbe 22f",
            "vmovntdq zmmword ptr [{to}], zmm16",
            "add {to}, 64",
            "vpxorq zmm16, zmm16, zmm16",
            folded!(),
            "22:",
            last_line!(),
            folds = sym LINE_FOLDS,
            to = inout(reg) to => _,
            start = inout(reg) start.as_ptr() => _,
            left = inout(reg) start.len() => _,
            piece = inout(reg) pieces.as_ptr() => _,
            end = in(reg) pieces.as_ptr_range().end,
            pos = inout(reg) u64::from(line.is_some()) => _,
            from = out(reg) _,
            len = out(reg) _,
            bit = inout(reg) 0_u64 => _,
            sum = inout(reg) sum => check,
            line = inout(reg) line.unwrap_or(0) => _,
            out("k1") _, out("k2") _,
            out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _, out("zmm20") _,
            out("zmm21") _,
            options(nostack),
        );
    }
    check
}
