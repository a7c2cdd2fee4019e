//! Random programs over six words of three lines, and the packed states they lead to.
//!
//! Two of the words lie at the end of a line and the next one at the start of the following line,
//! so that a store can cross a word and a line. A word is divided into three segments (bytes 0..3,
//! 3..6 and 6..8), which are the smallest thing stored: enough for partial stores that overlap in
//! every way. A segment's value is a number below eight, repeated in each of its bytes; eighteen
//! segments of three bits make the content of the span a number of 54 bits.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashSet;

use sim_disk::{Event, FlushKind, Image, Mark, Rng, Tape, Thread};

pub(crate) const LINES: usize = 3;
pub(crate) const SEGMENTS_PER_WORD: usize = 3;
pub(crate) const SEGMENTS_PER_LINE: usize = 6;
/// Where the words lie; the first three are adjacent, and so are the last three.
const WORD_AT: [u64; 6] = [48, 56, 64, 120, 128, 136];
const SEGMENT_AT: [u64; 3] = [0, 3, 6];
const SEGMENT_BYTES: [u64; 3] = [3, 3, 2];
const LINE_BYTES: u64 = 64;
const SEGMENT_BITS: usize = 3;
/// Marks passed are kept above the content of the span.
pub(crate) const MARKS_SHIFT: usize = 54;

/// The content of the span, and in the top bits which marks were passed.
pub(crate) type Packed = u64;

/// A set of packed states.
pub(crate) type States = HashSet<Packed, BuildHasherDefault<Mixer>>;

/// A quick hash for packed states; nobody attacks a test.
#[derive(Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64((value >> 64) as u64);
        self.write_u64(value as u64);
    }
}

/// Adjacent segments stored by one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: usize,
    pub(crate) count: usize,
}

impl Range {
    pub(crate) const fn word(word: usize) -> Self {
        Self { first: word * SEGMENTS_PER_WORD, count: SEGMENTS_PER_WORD }
    }

    pub(crate) const fn line(self) -> usize {
        self.first / SEGMENTS_PER_LINE
    }

    pub(crate) fn at(self) -> u64 {
        WORD_AT[self.first / SEGMENTS_PER_WORD] + SEGMENT_AT[self.first % SEGMENTS_PER_WORD]
    }

    pub(crate) fn bytes(self, value: u64) -> Box<[u8]> {
        let segments = self.first..self.first + self.count;
        let len: u64 = segments.map(|segment| SEGMENT_BYTES[segment % SEGMENTS_PER_WORD]).sum();
        vec![value as u8; len as usize].into()
    }

    /// All bits of these segments.
    pub(crate) const fn mask(self) -> Packed {
        ((1 << (self.count * SEGMENT_BITS)) - 1) << (self.first * SEGMENT_BITS)
    }

    /// The segments, each of which holds `value`.
    pub(crate) fn filled(self, value: u64) -> Packed {
        let segments = self.first..self.first + self.count;
        segments.fold(0, |sum, segment| sum | value << (segment * SEGMENT_BITS))
    }

    /// The parts that lie in one word each.
    pub(crate) fn words(self) -> impl Iterator<Item = Self> {
        let end = self.first + self.count;
        let words = self.first / SEGMENTS_PER_WORD..=(end - 1) / SEGMENTS_PER_WORD;
        words.map(move |word| {
            let first = self.first.max(word * SEGMENTS_PER_WORD);
            Self { first, count: end.min((word + 1) * SEGMENTS_PER_WORD) - first }
        })
    }
}

/// What a thread may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Store(Range, u64),
    Stream(Range, u64),
    Flush(usize, FlushKind),
    Fence,
    FenceFailed,
    /// Of a whole word.
    Exchange(usize, u64),
    OrderStores,
    Mark(u64),
    Killed,
}

impl Op {
    pub(crate) fn event(self) -> Event {
        match self {
            Self::Store(range, value) => Event::Store { at: range.at(), bytes: range.bytes(value) },
            Self::Stream(range, value) => {
                Event::Stream { at: range.at(), bytes: range.bytes(value) }
            }
            Self::Flush(line, kind) => Event::Flush { line: line as u64 * LINE_BYTES, kind },
            Self::Fence => Event::Fence,
            Self::FenceFailed => Event::FenceFailed,
            Self::Exchange(word, value) => {
                Event::Exchange { at: WORD_AT[word], value: u64::from_le_bytes([value as u8; 8]) }
            }
            Self::OrderStores => Event::OrderStores,
            Self::Mark(label) => Event::Mark(Mark::Returned(label)),
            Self::Killed => Event::Mark(Mark::Killed),
        }
    }
}

/// Operations of one or two threads. The order among the threads matters only where a test says
/// that the program is a schedule.
pub(crate) type Program = Vec<(usize, Op)>;

pub(crate) fn tape(program: &[(usize, Op)]) -> Tape {
    let mut tape = Tape::new();
    for (thread, op) in program {
        tape.push(Thread(*thread as u16), op.event());
    }
    tape
}

pub(crate) fn blank() -> Image {
    Image::blank(LINES * LINE_BYTES as usize)
}

/// The bits of one word's content.
///
/// # Panics
/// When a segment is torn, which no model allows.
pub(crate) fn pack_word(at: u64, content: &[u8]) -> (Packed, Packed) {
    let word = WORD_AT.iter().position(|known| *known == at).expect("a word in use");
    let mut packed = 0;
    for segment in 0..SEGMENTS_PER_WORD {
        let first = SEGMENT_AT[segment] as usize;
        let bytes = &content[first..first + SEGMENT_BYTES[segment] as usize];
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "torn segment at {at}: {content:?}");
        packed |= u64::from(bytes[0]) << ((word * SEGMENTS_PER_WORD + segment) * SEGMENT_BITS);
    }
    (packed, Range::word(word).mask())
}

pub(crate) fn pack(image: &Image) -> Packed {
    let words = WORD_AT.iter().map(|at| {
        let first = *at as usize;
        pack_word(*at, &image.pmem()[first..first + 8]).0
    });
    words.fold(0, |sum, word| sum | word)
}

/// What random programs are made of: a weight for each kind of operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    pub(crate) threads: usize,
    pub(crate) ops_max: usize,
    pub(crate) store: u64,
    pub(crate) stream: u64,
    pub(crate) weak: u64,
    pub(crate) strong: u64,
    pub(crate) fence: u64,
    pub(crate) fence_failed: u64,
    pub(crate) exchange: u64,
    pub(crate) order_stores: u64,
    pub(crate) mark: u64,
    pub(crate) killed: u64,
    /// Of a hundred stores, how many are of two words.
    pub(crate) long: u64,
    /// Of a hundred others, how many are of any few segments.
    pub(crate) partial: u64,
}

impl Mix {
    pub(crate) const ONE_THREAD: Self = Self {
        threads: 1,
        ops_max: 8,
        store: 40,
        stream: 14,
        weak: 16,
        strong: 6,
        fence: 14,
        fence_failed: 0,
        exchange: 6,
        order_stores: 0,
        mark: 5,
        killed: 0,
        long: 10,
        partial: 25,
    };

    pub(crate) fn program(&self, rng: &mut Rng) -> Program {
        let ops = 1 + rng.index(self.ops_max);
        let lines = 1 + rng.index(LINES);
        let mut marks = 0;
        let op = |_| {
            let thread = rng.index(self.threads);
            let mut op = self.op(rng, lines);
            if let Op::Mark(label) = &mut op {
                *label = marks;
                marks += 1;
            }
            (thread, op)
        };
        (0..ops).map(op).collect()
    }

    fn op(&self, rng: &mut Rng, lines: usize) -> Op {
        // Zero is what was there at first: storing it again must not confuse anyone.
        let value = if rng.chance(1, 12) { 0 } else { 1 + rng.below(7) };
        let word = rng.index(2 * lines);
        let line = rng.index(lines);
        let mut kinds = [
            (self.store, Op::Store(self.range(rng, lines), value)),
            (self.stream, Op::Stream(self.range(rng, lines), value)),
            (self.weak, Op::Flush(line, FlushKind::Weak)),
            (self.strong, Op::Flush(line, FlushKind::Strong)),
            (self.fence, Op::Fence),
            (self.fence_failed, Op::FenceFailed),
            (self.exchange, Op::Exchange(word, value)),
            (self.order_stores, Op::OrderStores),
            (self.mark, Op::Mark(0)),
            (self.killed, Op::Killed),
        ]
        .into_iter();
        let sum: u64 = kinds.clone().map(|(weight, _)| weight).sum();
        let mut chosen = rng.below(sum);
        let found = kinds.find(|(weight, _)| {
            let hit = chosen < *weight;
            chosen = chosen.wrapping_sub(*weight);
            hit
        });
        found.expect("the weights cover the range").1
    }

    fn range(&self, rng: &mut Rng, lines: usize) -> Range {
        let word = Range::word(rng.index(2 * lines));
        // Stay inside the run of adjacent words.
        let run_end = if word.first < 9 { 9 } else { 18 }.min(lines * SEGMENTS_PER_LINE);
        if rng.chance(self.long, 100) {
            return Range { first: word.first, count: 6.min(run_end - word.first) };
        }
        if rng.chance(self.partial, 100) {
            let first = word.first + rng.index(SEGMENTS_PER_WORD);
            return Range { first, count: (1 + rng.index(3)).min(run_end - first) };
        }
        word
    }
}

/// Drops operations as long as `differs` still holds.
pub(crate) fn shrink(mut program: Program, differs: impl Fn(&Program) -> bool) -> Program {
    let mut index = 0;
    while index < program.len() {
        let mut smaller = program.clone();
        smaller.remove(index);
        if differs(&smaller) {
            program = smaller;
            index = 0;
        } else {
            index += 1;
        }
    }
    program
}

/// A state for people: the words' segments, low bytes first, and the marks passed.
pub(crate) fn show(state: Packed) -> String {
    let words = (0..WORD_AT.len()).map(|word| {
        let digits = (0..SEGMENTS_PER_WORD).map(|segment| {
            let bit = (word * SEGMENTS_PER_WORD + segment) * SEGMENT_BITS;
            char::from(b'0' + (state >> bit & 7) as u8)
        });
        digits.collect::<String>()
    });
    let words: Vec<String> = words.collect();
    let lines: Vec<String> = words.chunks(2).map(|line| line.join(" ")).collect();
    format!("[{}] marks {:#b}", lines.join(" | "), state >> MARKS_SHIFT)
}

/// All that is needed to understand a difference.
pub(crate) fn report(seed: u64, program: &Program, expected: &States, found: &States) -> String {
    let list = |states: &States, without: &States| {
        let mut states: Vec<String> =
            states.difference(without).map(|state| format!("  {}\n", show(*state))).collect();
        states.sort();
        states.concat()
    };
    let ops: String =
        program.iter().map(|(thread, op)| format!("  thread {thread}: {op:?}\n")).collect();
    format!(
        "seed {seed}\n{ops}reachable, but not in the closed form:\n{}in the closed form, but not \
         reachable:\n{}",
        list(expected, found),
        list(found, expected),
    )
}
