//! CRC-64/NVME on 64-bit x86 by carry-less multiplication.
//!
//! The bytes of a message are the coefficients of a polynomial over one bit, the first bit the
//! highest. Its check is the remainder of the message, times x^64, divided by P. (P is the
//! polynomial of degree 64 that [`POLYNOMIAL`] writes down.) Start and end values only add to it.
//!
//! Remainders stay the same when a part is replaced by another with the same remainder. So 16 bytes
//! that stand `d` bits before other bytes may be *folded* onto them: multiplied by x^d, kept short
//! by taking x^d modulo P. Everything is folded onto the last 16 bytes, as many places at a time as
//! the registers hold. The division is then one of 128 bits, by two multiplications (Barrett).
//!
//! Bits are reflected: bit 0 of a register is its highest coefficient. The product of two reflected
//! 64-bit factors comes out one place too low, which reads as one factor x too many; the constants
//! have one less.
//!
//! Assembly and not intrinsics: those for wide registers are newer than the oldest compiler of this
//! crate, and it inlines into callers built for older processors.

use core::arch::asm;
use core::arch::x86_64::{__m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch};

use journal_core::{LINE_BYTES, check};

/// P without x^64, reflected.
const POLYNOMIAL: u64 = 0x9A6C_9329_AC4B_C9B5;

/// x^`exponent` modulo P, reflected.
const fn power(exponent: usize) -> u64 {
    // x^0 is the last bit.
    let mut value = 1_u64 << 63;
    let mut times = 0;
    while times < exponent {
        value = (value >> 1) ^ (POLYNOMIAL & (value & 1).wrapping_neg());
        times += 1;
    }
    value
}

/// What folds 16 bytes by `bits`: the factor of their first 8 bytes (64 places further), and that
/// of the others.
const fn fold_by(bits: usize) -> [u64; 2] {
    if bits == 0 {
        // The product has one x too many, so this is 1/x: (P + 1) / x, since P is 0 here.
        return [power(63), (POLYNOMIAL << 1) | 1];
    }
    [power(bits + 63), power(bits - 1)]
}

/// How many bytes one multiplication moves a difference on: any number below this.
const MOVED_BYTES: usize = 256;

/// x^(8 n - 65) for each `n` below [`MOVED_BYTES`], and x^(8 [`MOVED_BYTES`] n - 65). A product has
/// one x too many, and its remainder is that times x^64.
static MOVES: [[u64; MOVED_BYTES]; 2] = {
    let mut moves = [[0; MOVED_BYTES]; 2];
    // 1 / x^65.
    let mut inverse = 1_u64 << 63;
    let mut times = 0;
    while times < 65 {
        let is_odd = inverse >> 63 == 1;
        inverse = if is_odd { ((inverse ^ POLYNOMIAL) << 1) | 1 } else { inverse << 1 };
        times += 1;
    }
    let steps = [power(8), power(8 * MOVED_BYTES)];
    let mut table = 0;
    while table < 2 {
        moves[table][0] = inverse;
        let mut index = 1;
        while index < MOVED_BYTES {
            moves[table][index] = check::multiply(moves[table][index - 1], steps[table]);
            index += 1;
        }
        table += 1;
    }
    moves
};

/// For registers of 256 bits: `fold_by` 1024, 896 and so on down to 0 bits. The last two are also
/// what folds the two parts of a register onto the place of its last one.
static FOLDS_256: [[u64; 2]; 9] = {
    let mut folds = [[0; 2]; 9];
    let mut index = 0;
    while index < 9 {
        folds[index] = fold_by((8 - index) * 128);
        index += 1;
    }
    folds
};

/// For registers of 512 bits: what folds the 16 parts of four registers onto the place of the last
/// one, times x^64; `fold_by` 512 and 2048; and [`BARRETT`].
static FOLDS_512: [[u64; 2]; 19] = {
    let mut folds = [[0; 2]; 19];
    let mut index = 0;
    while index < 16 {
        folds[index] = fold_by((15 - index) * 128 + 64);
        index += 1;
    }
    folds[16] = BY_512;
    folds[17] = fold_by(2048);
    folds[18] = BARRETT;
    folds
};

/// For what is stitched line by line: what folds the parts of a line onto the last one; the same,
/// times x^64; [`BARRETT`]; and `fold_by` 512.
pub(crate) static LINE_FOLDS: [[u64; 2]; 10] = [
    BY_384,
    BY_256,
    BY_128,
    fold_by(0),
    fold_by(448),
    fold_by(320),
    fold_by(192),
    fold_by(64),
    BARRETT,
    BY_512,
];

const BY_128: [u64; 2] = fold_by(128);
const BY_256: [u64; 2] = fold_by(256);
const BY_384: [u64; 2] = fold_by(384);
const BY_512: [u64; 2] = fold_by(512);

/// The quotient x^128 / P and P itself, each of 65 bits of which the lowest (reflected: the last)
/// is left out. The place that this frees undoes the shift of the product, and is the term x^64.
const BARRETT: [u64; 2] = [(quotient().reverse_bits() << 1) | 1, (POLYNOMIAL << 1) | 1];

/// x^128 divided by P, without its term x^64, not reflected.
const fn quotient() -> u64 {
    let polynomial = POLYNOMIAL.reverse_bits();
    // Behind the first step, which took the term x^64.
    let mut rest = polynomial;
    let mut quotient = 0;
    let mut bit = 0;
    while bit < 64 {
        let top = rest >> 63;
        quotient = (quotient << 1) | top;
        rest = (rest << 1) ^ (polynomial & top.wrapping_neg());
        bit += 1;
    }
    quotient
}

/// Indexes for `pshufb`, 16 of them at a time. From the middle down they move bytes to higher
/// places, from the middle up to lower places; what comes in is zero.
static SHIFTS: [u8; 48] = {
    let mut shifts = [0x80; 48];
    let mut index = 0;
    while index < 16 {
        shifts[16 + index] = index as u8;
        index += 1;
    }
    shifts
};

/// 16 of these, from place `n` on, keep the last `n` bytes.
static KEEPS: [u8; 32] = {
    let mut keeps = [0; 32];
    let mut index = 16;
    while index < 32 {
        keeps[index] = 0xFF;
        index += 1;
    }
    keeps
};

/// How far apart the accumulators of the loop of 256 bits are.
const GROUP_256_BYTES: usize = 4 * 32;
/// From this many bytes on, bytes that were just stored are loaded by lines as others are. Most of
/// them are of a payload, which was copied by as much.
const STORED_WIDE_FROM_BYTES: usize = 192;

#[inline]
fn load(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: 16 readable bytes; the load asks for no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
fn pair(words: &[u64; 2]) -> __m128i {
    // SAFETY: 16 readable bytes; the load asks for no alignment.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

/// 16 bytes of a table from `at` on.
#[inline]
fn window<const LEN: usize>(table: &'static [u8; LEN], at: usize) -> __m128i {
    table.get(at..).and_then(|from| from.first_chunk()).map_or_else(|| pair(&[0; 2]), load)
}

/// Loads the two halves one by one. Short messages were often stored a moment ago, word by word,
/// and a load that needs two stores waits until both have left the processor.
#[inline]
fn load_halves(bytes: &[u8; 16]) -> __m128i {
    let value: __m128i;
    // SAFETY: reads the 16 bytes; every 64-bit x86 has the instructions.
    unsafe {
        asm!(
            "movq {value}, qword ptr [{from}]",
            "movhps {value}, qword ptr [{from} + 8]",
            from = in(reg) bytes.as_ptr(),
            value = out(xmm_reg) value,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    value
}

#[inline]
fn load_four(bytes: &[u8; 64]) -> [__m128i; 4] {
    core::array::from_fn(|index| {
        let part = bytes.get(16 * index..).and_then(|from| from.first_chunk());
        part.map_or_else(|| pair(&[0; 2]), load_halves)
    })
}

/// Begins to load the line at an address.
#[inline]
pub(super) fn prefetch_line(at: *const u8) {
    // SAFETY: a hint, without effect except on the caches; it does not even fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// Begins to load the lines of these bytes.
#[inline]
pub(super) fn prefetch(bytes: &[u8]) {
    let begin = |line: &[u8]| prefetch_line(line.as_ptr());
    // Eight at a time: nearly all of it is whole blocks, and the counting would cost more.
    let mut eights = bytes.chunks_exact(8 * LINE_BYTES);
    for eight in &mut eights {
        eight.chunks_exact(LINE_BYTES).for_each(begin);
    }
    eights.remainder().chunks(LINE_BYTES).for_each(begin);
}

/// `value` with `sum` added to its first 8 bytes.
#[inline]
fn begin(mut value: __m128i, sum: u64) -> __m128i {
    // SAFETY: registers only, and every 64-bit x86 has the instructions.
    unsafe {
        asm!(
            "movq {wide}, {sum}",
            "pxor {value}, {wide}",
            sum = in(reg) sum, value = inout(xmm_reg) value, wide = out(xmm_reg) _,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    value
}

/// This processor has PCLMULQDQ and SSSE3: the methods may use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Multiplier(());

impl Multiplier {
    fn detect() -> Option<Self> {
        let has = std::arch::is_x86_feature_detected!("pclmulqdq")
            && std::arch::is_x86_feature_detected!("ssse3");
        has.then_some(Self(()))
    }

    /// `value` folded onto `onto`, by the distance of `factors`.
    #[inline]
    fn fold(self, mut value: __m128i, factors: __m128i, onto: __m128i) -> __m128i {
        // SAFETY: registers only; the processor has the instructions, or there were no `self`.
        unsafe {
            asm!(
                "movdqa {high}, {value}",
                "pclmulqdq {value}, {factors}, 0x00",
                "pclmulqdq {high}, {factors}, 0x11",
                "pxor {value}, {onto}",
                "pxor {value}, {high}",
                value = inout(xmm_reg) value,
                factors = in(xmm_reg) factors,
                onto = in(xmm_reg) onto,
                high = out(xmm_reg) _,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        value
    }

    /// The product of two polynomials by P, times x^65.
    #[inline]
    fn multiply(self, a: u64, b: u64) -> u64 {
        let nothing = pair(&[0; 2]);
        self.remainder(self.fold(pair(&[a, 0]), pair(&[b, 0]), nothing))
    }

    /// The remainder of the 16 bytes `value`, times x^64, by P.
    #[inline]
    fn remainder(self, value: __m128i) -> u64 {
        let sum: u64;
        // First the upper half is folded by 64 bits more than the lower one needs, which leaves 128
        // bits A x^64 + B. The quotient by P is Q = A (x^128 / P) / x^64, and the remainder is what
        // Q P and B have below x^64.
        // SAFETY: registers only; the processor has the instructions, or there were no `self`.
        unsafe {
            asm!(
                "movdqa {ab}, {value}",
                "pclmulqdq {value}, {factor}, 0x00",
                "psrldq {ab}, 8",
                "pxor {ab}, {value}",
                "movdqa {value}, {ab}",
                "pclmulqdq {value}, {barrett}, 0x00",
                "movdqa {q}, {value}",
                "pclmulqdq {value}, {barrett}, 0x10",
                "pxor {ab}, {value}",
                "psrldq {ab}, 8",
                "pxor {ab}, {q}",
                "movq {sum}, {ab}",
                sum = lateout(reg) sum,
                value = inout(xmm_reg) value => _,
                factor = in(xmm_reg) pair(&[const { power(127) }, 0]),
                barrett = in(xmm_reg) pair(&BARRETT),
                ab = out(xmm_reg) _,
                q = out(xmm_reg) _,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sum
    }

    /// `value`, and `count` (1 to 15) bytes behind it that are the last of `end`, folded onto the
    /// last 16 bytes of both.
    #[inline]
    fn append(self, value: __m128i, end: &[u8; 16], count: usize) -> __m128i {
        let (mut front, mut onto) = (value, value);
        // SAFETY: registers only; the processor has the instructions, or there were no `self`.
        unsafe {
            asm!(
                "pshufb {front}, {up}",
                "pshufb {onto}, {down}",
                "pand {end}, {keep}",
                "pxor {onto}, {end}",
                front = inout(xmm_reg) front,
                onto = inout(xmm_reg) onto,
                end = inout(xmm_reg) load_halves(end) => _,
                up = in(xmm_reg) window(&SHIFTS, count),
                down = in(xmm_reg) window(&SHIFTS, 16 + count),
                keep = in(xmm_reg) window(&KEEPS, count),
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        self.fold(front, pair(&BY_128), onto)
    }

    /// The first `bytes`, a multiple of 64, folded onto the last 16 of them.
    #[inline]
    fn absorb_128(self, sum: u64, first: &[u8; 64], mut rest: &[u8]) -> __m128i {
        let [mut a, mut b, mut c, mut d] = load_four(first);
        a = begin(a, sum);
        let by_512 = pair(&BY_512);
        while let Some((chunk, more)) = rest.split_first_chunk() {
            let [e, f, g, h] = load_four(chunk);
            (a, b) = (self.fold(a, by_512, e), self.fold(b, by_512, f));
            (c, d) = (self.fold(c, by_512, g), self.fold(d, by_512, h));
            rest = more;
        }
        let ab = self.fold(a, pair(&BY_384), self.fold(b, pair(&BY_256), d));
        self.fold(c, pair(&BY_128), ab)
    }
}

/// How many bits a loop multiplies at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FoldWidth {
    Bits128,
    /// VPCLMULQDQ and AVX2.
    Bits256,
    /// VPCLMULQDQ and AVX-512F, BW and VL.
    Bits512,
}

/// A way to compute the check that this processor has; there are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Folding {
    multiplier: Multiplier,
    width: FoldWidth,
}

impl Folding {
    /// The fastest first.
    pub(super) fn supported() -> impl Iterator<Item = Self> {
        let wide = std::arch::is_x86_feature_detected!("vpclmulqdq");
        let widest = std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512vl");
        let widths = [
            (wide && widest, FoldWidth::Bits512),
            (wide && std::arch::is_x86_feature_detected!("avx2"), FoldWidth::Bits256),
            (true, FoldWidth::Bits128),
        ];
        Multiplier::detect().into_iter().flat_map(move |multiplier| {
            let had = widths.into_iter().filter_map(|(had, width)| had.then_some(width));
            had.map(move |width| Self { multiplier, width })
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self.width {
            FoldWidth::Bits128 => "pclmulqdq",
            FoldWidth::Bits256 => "vpclmulqdq, 256 bits",
            FoldWidth::Bits512 => "vpclmulqdq, 512 bits",
        }
    }

    #[inline]
    pub(super) fn crc64(self, seed: u64, bytes: &[u8]) -> u64 {
        self.crc64_wide_from(1, seed, bytes)
    }

    #[inline]
    pub(super) fn crc64_of_stored(self, seed: u64, bytes: &[u8]) -> u64 {
        self.crc64_wide_from(STORED_WIDE_FROM_BYTES, seed, bytes)
    }

    /// What a difference of two checks becomes behind some bytes that are zero.
    #[inline]
    pub(super) fn moved_on(self, difference: u64, zeroes: usize) -> u64 {
        let [few, many] = &MOVES;
        let (Some(few), Some(many)) =
            (few.get(zeroes % MOVED_BYTES), many.get(zeroes / MOVED_BYTES))
        else {
            return check::crc64_moved_on(difference, zeroes);
        };
        let moved = self.multiplier.multiply(difference, *few);
        self.multiplier.multiply(moved, *many)
    }

    /// Computes the check as wide as can be from `wide_from` bytes on; `wide_from` is at least one.
    #[inline]
    fn crc64_wide_from(self, wide_from: usize, seed: u64, bytes: &[u8]) -> u64 {
        if self.width != FoldWidth::Bits512 || bytes.len() < wide_from || bytes.len() % 8 > 0 {
            return self.crc64_by_steps(seed, bytes);
        }
        // SAFETY: there are bytes, of whole words, and the width is that of this processor, or
        // there were no `self`.
        !unsafe { remainder_512(!seed, bytes) }
    }

    #[inline(never)]
    fn crc64_by_steps(self, seed: u64, bytes: &[u8]) -> u64 {
        let Some(end) = bytes.last_chunk() else {
            // Below 16 bytes there is nothing to fold.
            return check::crc64(seed, bytes);
        };
        let by = self.multiplier;
        let (mut value, mut rest) = self.absorb(!seed, bytes);
        while let Some((chunk, more)) = rest.split_first_chunk() {
            value = by.fold(value, pair(&BY_128), load_halves(chunk));
            rest = more;
        }
        if !rest.is_empty() {
            value = by.append(value, end, rest.len());
        }
        !by.remainder(value)
    }

    /// Folds as many of the bytes (at least 16) as come in whole steps, and says which are left.
    #[inline]
    fn absorb(self, sum: u64, bytes: &[u8]) -> (__m128i, &[u8]) {
        match self.width {
            // Not that of `Bits512`: fronts that were just stored are narrow, and odd lengths rare.
            FoldWidth::Bits256 if bytes.len() >= GROUP_256_BYTES => {
                let (front, rest) = bytes.split_at(bytes.len() / 32 * 32);
                // SAFETY: `front` is a multiple of 32 bytes and not shorter than a group, and the
                // width is that of this processor, or there were no `self`.
                (unsafe { absorb_256(sum, front) }, rest)
            }
            _ => match (bytes.split_first_chunk(), bytes.split_first_chunk()) {
                (Some((first, more)), _) => {
                    let (middle, rest) = more.split_at(more.len() / 64 * 64);
                    (self.multiplier.absorb_128(sum, first, middle), rest)
                }
                (None, Some((first, rest))) => (begin(load_halves(first), sum), rest),
                (None, None) => (begin(pair(&[0; 2]), sum), bytes),
            },
        }
    }
}

/// The remainder of all of `bytes`, times x^64, with `sum` added to the first 8.
///
/// # Safety
/// The processor has VPCLMULQDQ and AVX-512F, BW and VL. `bytes` is a multiple of 8, and not zero.
#[inline(never)]
unsafe fn remainder_512(sum: u64, bytes: &[u8]) -> u64 {
    // Zeroes in front of a message change nothing. So the first line, where it is a short one, is
    // loaded as if it began before `bytes`, without the words that are not of it.
    let lines = bytes.len().div_ceil(LINE_BYTES);
    let before = lines * LINE_BYTES - bytes.len();
    let from = bytes.as_ptr().wrapping_sub(before);
    let first_word = 1_u32 << (before / 8);
    let words = first_word.wrapping_neg();
    let (groups, single) = (lines / 4, lines % 4);
    let remainder: u64;
    // zmm16 and above have no narrow alias that older code uses: no `vzeroupper` is owed. A low
    // register would owe one even for 16 bytes written by these instructions. One that had the
    // result made the SSE code behind it 130 ns slower (Intel, with AMX).
    // SAFETY: reads `bytes`: the words of the first line that `words` has the bits of, and then
    // whole lines. Those words are all that `bytes` has of the first line. It reads `FOLDS_512`
    // too: its last three entries are 256, 272 and 288 bytes behind its start. Of its first sixteen
    // entries the last four lines of a message take four each. The processor has the instructions:
    // the caller's promise.
    unsafe {
        asm!(
            // 1. The first line, with the sum added.
            "kmovd k1, {words:e}",
            "kmovd k2, {first_word:e}",
            "vmovdqu64 zmm17 {{k1}}{{z}}, zmmword ptr [{from}]",
            "vpbroadcastq zmm16 {{k2}}{{z}}, {sum}",
            "vpxorq zmm16, zmm16, zmm17",
            "test {groups}, {groups}",
            "jz 6f",
            // 2. Line by line, until groups of four are left, of which this is the first one's
            //    first.
            "test {single}, {single}",
            "jz 3f",
            "vbroadcasti32x4 zmm20, xmmword ptr [{folds} + 256]",
            "2:",
            "vpclmulqdq zmm21, zmm16, zmm20, 0x00",
            "vpclmulqdq zmm16, zmm16, zmm20, 0x11",
            "vpternlogq zmm16, zmm21, zmmword ptr [{from} + 64], 0x96",
            "add {from}, 64",
            "dec {single}",
            "jnz 2b",
            // 3. Group by group: each is folded onto the next.
            "3:",
            "vmovdqu64 zmm17, zmmword ptr [{from} + 64]",
            "vmovdqu64 zmm18, zmmword ptr [{from} + 128]",
            "vmovdqu64 zmm19, zmmword ptr [{from} + 192]",
            "dec {groups}",
            "jz 5f",
            "vbroadcasti32x4 zmm20, xmmword ptr [{folds} + 272]",
            "4:",
            "add {from}, 256",
            "vpclmulqdq zmm21, zmm16, zmm20, 0x00",
            "vpclmulqdq zmm16, zmm16, zmm20, 0x11",
            "vpclmulqdq zmm22, zmm17, zmm20, 0x00",
            "vpclmulqdq zmm17, zmm17, zmm20, 0x11",
            "vpclmulqdq zmm23, zmm18, zmm20, 0x00",
            "vpclmulqdq zmm18, zmm18, zmm20, 0x11",
            "vpclmulqdq zmm24, zmm19, zmm20, 0x00",
            "vpclmulqdq zmm19, zmm19, zmm20, 0x11",
            "vpternlogq zmm16, zmm21, zmmword ptr [{from}], 0x96",
            "vpternlogq zmm17, zmm22, zmmword ptr [{from} + 64], 0x96",
            "vpternlogq zmm18, zmm23, zmmword ptr [{from} + 128], 0x96",
            "vpternlogq zmm19, zmm24, zmmword ptr [{from} + 192], 0x96",
            "dec {groups}",
            "jnz 4b",
            // 4. The four lines of the last group become one.
            "5:",
            "vpclmulqdq zmm21, zmm16, zmmword ptr [{folds}], 0x00",
            "vpclmulqdq zmm16, zmm16, zmmword ptr [{folds}], 0x11",
            "vpclmulqdq zmm22, zmm17, zmmword ptr [{folds} + 64], 0x00",
            "vpclmulqdq zmm17, zmm17, zmmword ptr [{folds} + 64], 0x11",
            "vpclmulqdq zmm23, zmm18, zmmword ptr [{folds} + 128], 0x00",
            "vpclmulqdq zmm18, zmm18, zmmword ptr [{folds} + 128], 0x11",
            "vpclmulqdq zmm24, zmm19, zmmword ptr [{folds} + 192], 0x00",
            "vpclmulqdq zmm19, zmm19, zmmword ptr [{folds} + 192], 0x11",
            "vpternlogq zmm16, zmm21, zmm17, 0x96",
            "vpternlogq zmm22, zmm23, zmm18, 0x96",
            "vpternlogq zmm16, zmm24, zmm19, 0x96",
            "vpxorq zmm17, zmm16, zmm22",
            "jmp 8f",
            // 5. Less than four lines.
            "6:",
            "vpxorq zmm17, zmm17, zmm17",
            "7:",
            "vpclmulqdq zmm21, zmm16, zmmword ptr [{of_line}], 0x00",
            "vpclmulqdq zmm16, zmm16, zmmword ptr [{of_line}], 0x11",
            "vpternlogq zmm17, zmm16, zmm21, 0x96",
            "dec {single}",
            "jz 8f",
            "add {from}, 64",
            "add {of_line}, 64",
            "vmovdqu64 zmm16, zmmword ptr [{from}]",
            "jmp 7b",
            // 6. The four parts are of one place: 128 bits A x^64 + B. The quotient by P is Q =
            // A (x^128 / P) / x^64, and the remainder is what Q P and B have below x^64.
            "8:",
            "vextracti64x4 ymm16, zmm17, 1",
            "vpxorq ymm17, ymm17, ymm16",
            "vextracti32x4 xmm16, ymm17, 1",
            "vpxorq xmm17, xmm17, xmm16",
            "vpclmulqdq xmm16, xmm17, xmmword ptr [{folds} + 288], 0x00",
            "vpclmulqdq xmm18, xmm16, xmmword ptr [{folds} + 288], 0x10",
            "vpxorq xmm17, xmm17, xmm18",
            "vpsrldq xmm17, xmm17, 8",
            "vpxorq xmm17, xmm17, xmm16",
            "vmovq {sum}, xmm17",
            sum = inout(reg) sum => remainder,
            from = inout(reg) from => _,
            words = in(reg) words,
            first_word = in(reg) first_word,
            folds = in(reg) FOLDS_512.as_ptr(),
            of_line = inout(reg) FOLDS_512.as_ptr().wrapping_add(16 - 4 * single) => _,
            groups = inout(reg) groups => _,
            single = inout(reg) single => _,
            out("k1") _, out("k2") _,
            out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _, out("zmm20") _,
            out("zmm21") _, out("zmm22") _, out("zmm23") _, out("zmm24") _,
            options(pure, readonly, nostack),
        );
    }
    remainder
}

/// `bytes` folded onto the last 16 of them.
///
/// # Safety
/// The processor has VPCLMULQDQ and AVX2. `bytes` is a multiple of 32 and at least four of it.
#[inline]
unsafe fn absorb_256(sum: u64, bytes: &[u8]) -> __m128i {
    let state: __m128i;
    let groups = bytes.len() / GROUP_256_BYTES;
    let halves = bytes.len() % GROUP_256_BYTES / 32;
    // `vzeroupper` clears the upper half of every low register, so all of them are clobbered.
    // SAFETY: reads the groups and then the half lines of `bytes`, and constants of `FOLDS_256`.
    // Their offsets are those of the distances 1024 (0), 768, 512, 256, and 128 and 0 in one. The
    // processor has the instructions: the caller's promise.
    unsafe {
        asm!(
            // 1. The first group, with the sum added to its first 8 bytes.
            "vmovq xmm0, {sum}",
            "vpxor ymm0, ymm0, ymmword ptr [{from}]",
            "vmovdqu ymm1, ymmword ptr [{from} + 32]",
            "vmovdqu ymm2, ymmword ptr [{from} + 64]",
            "vmovdqu ymm3, ymmword ptr [{from} + 96]",
            "vbroadcasti128 ymm4, xmmword ptr [{folds}]",
            "add {from}, 128",
            "dec {groups}",
            "jz 3f",
            // 2. Further groups: each is folded onto the next.
            "2:",
            "vpclmulqdq ymm5, ymm0, ymm4, 0x00",
            "vpclmulqdq ymm0, ymm0, ymm4, 0x11",
            "vpclmulqdq ymm6, ymm1, ymm4, 0x00",
            "vpclmulqdq ymm1, ymm1, ymm4, 0x11",
            "vpclmulqdq ymm7, ymm2, ymm4, 0x00",
            "vpclmulqdq ymm2, ymm2, ymm4, 0x11",
            "vpclmulqdq ymm8, ymm3, ymm4, 0x00",
            "vpclmulqdq ymm3, ymm3, ymm4, 0x11",
            "vpxor ymm5, ymm5, ymmword ptr [{from}]",
            "vpxor ymm6, ymm6, ymmword ptr [{from} + 32]",
            "vpxor ymm7, ymm7, ymmword ptr [{from} + 64]",
            "vpxor ymm8, ymm8, ymmword ptr [{from} + 96]",
            "vpxor ymm0, ymm0, ymm5",
            "vpxor ymm1, ymm1, ymm6",
            "vpxor ymm2, ymm2, ymm7",
            "vpxor ymm3, ymm3, ymm8",
            "add {from}, 128",
            "dec {groups}",
            "jnz 2b",
            // 3. The four parts of the last group become one.
            "3:",
            "vbroadcasti128 ymm5, xmmword ptr [{folds} + 32]",
            "vbroadcasti128 ymm6, xmmword ptr [{folds} + 64]",
            "vbroadcasti128 ymm4, xmmword ptr [{folds} + 96]",
            "vpclmulqdq ymm7, ymm0, ymm5, 0x00",
            "vpclmulqdq ymm0, ymm0, ymm5, 0x11",
            "vpclmulqdq ymm8, ymm1, ymm6, 0x00",
            "vpclmulqdq ymm1, ymm1, ymm6, 0x11",
            "vpclmulqdq ymm9, ymm2, ymm4, 0x00",
            "vpclmulqdq ymm2, ymm2, ymm4, 0x11",
            "vpxor ymm0, ymm0, ymm7",
            "vpxor ymm1, ymm1, ymm8",
            "vpxor ymm2, ymm2, ymm9",
            "vpxor ymm3, ymm3, ymm0",
            "vpxor ymm1, ymm1, ymm2",
            "vpxor ymm0, ymm1, ymm3",
            // 4. Half lines that are left.
            "test {halves}, {halves}",
            "jz 5f",
            "4:",
            "vpclmulqdq ymm1, ymm0, ymm4, 0x00",
            "vpclmulqdq ymm0, ymm0, ymm4, 0x11",
            "vpxor ymm1, ymm1, ymmword ptr [{from}]",
            "vpxor ymm0, ymm0, ymm1",
            "add {from}, 32",
            "dec {halves}",
            "jnz 4b",
            // 5. The two halves become one, of 128 bits.
            "5:",
            "vmovdqu ymm4, ymmword ptr [{folds} + 112]",
            "vpclmulqdq ymm1, ymm0, ymm4, 0x00",
            "vpclmulqdq ymm0, ymm0, ymm4, 0x11",
            "vpxor ymm0, ymm0, ymm1",
            "vextracti128 xmm1, ymm0, 1",
            "vpxor xmm0, xmm0, xmm1",
            "vzeroupper",
            sum = in(reg) sum,
            from = inout(reg) bytes.as_ptr() => _,
            folds = in(reg) FOLDS_256.as_ptr(),
            groups = inout(reg) groups => _,
            halves = inout(reg) halves => _,
            out("xmm0") state, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
            out("xmm15") _,
            options(nostack, readonly),
        );
    }
    state
}
