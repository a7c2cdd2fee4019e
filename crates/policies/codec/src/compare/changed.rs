//! Which words of a block are new, as a bit for each.
//!
//! This is found once, by comparing both images or from what a store says that it wrote. It tells
//! how long the [runs](crate::runs) and the [bitmap](crate::bitmap) would be before either is
//! written. Both are written from it.

use core::cmp::min;
use core::fmt;

use journal_core::policy::Span;
use journal_core::{Kernels, WORD_BYTES};

use crate::bytes::{low_bits, word_at};
use crate::unit::Unit;

/// The longest block.
pub const BLOCK_BYTES_MAX: usize = 64 << 10;

const WORDS_PER_NUMBER: usize = 64;
const NUMBERS_MAX: usize = number_count(BLOCK_BYTES_MAX);
/// Of units that are longer than a word there are half as many.
const UNITS_MAX: usize = NUMBERS_MAX / 2;

/// The words of a block that are new; the last word may be a short one. 1 KiB.
#[derive(Clone)]
pub struct Changed {
    mask: [u64; NUMBERS_MAX],
    block_bytes: usize,
}

impl Changed {
    /// No new words yet, in a block of this length; `None` where it is longer than
    /// [`BLOCK_BYTES_MAX`].
    #[must_use]
    pub const fn none(block_bytes: usize) -> Option<Self> {
        if block_bytes > BLOCK_BYTES_MAX {
            return None;
        }
        Some(Self { mask: [0; NUMBERS_MAX], block_bytes })
    }

    /// The words in which the images differ; `None` where they differ in length, or are too long.
    #[must_use]
    #[inline]
    pub fn between(kernels: &impl Kernels, old: &[u8], new: &[u8]) -> Option<Self> {
        if old.len() != new.len() || new.len() > BLOCK_BYTES_MAX {
            return None;
        }
        let mut changed = Self::none(new.len())?;
        kernels.changed_words(old, new, changed.mask.get_mut(..number_count(new.len()))?);
        Some(changed)
    }

    /// Counts every word that has a byte in the span, as far as the block has any.
    pub fn mark(&mut self, span: Span) {
        let end = min(span.end(), self.block_bytes as u64) as usize;
        if span.at as usize >= end {
            return;
        }
        let (mut word, end) = (span.at as usize / WORD_BYTES, end.div_ceil(WORD_BYTES));
        while word < end {
            let bit = word % WORDS_PER_NUMBER;
            let count = min(WORDS_PER_NUMBER.wrapping_sub(bit), end.saturating_sub(word));
            if let Some(number) = self.mask.get_mut(word / WORDS_PER_NUMBER) {
                *number |= low_bits(count) << bit;
            }
            word = word.saturating_add(count);
        }
    }

    /// How long the block is.
    #[must_use]
    pub const fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Whether no word is new.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.numbers().iter().all(|number| *number == 0)
    }

    /// How many words are new.
    #[must_use]
    pub fn word_count(&self) -> usize {
        self.numbers().iter().map(|number| ones(*number)).sum()
    }

    /// How many runs of new words there are.
    #[must_use]
    pub fn run_count(&self) -> usize {
        let mut before = 0;
        let mut count = 0_usize;
        for number in self.numbers() {
            let firsts = number & !((number << 1) | before);
            count = count.saturating_add(ones(firsts));
            before = number >> 63;
        }
        count
    }

    /// How many units have a new word.
    #[must_use]
    pub fn unit_count(&self, unit: Unit) -> usize {
        let (words, numbers) = (unit.words(), self.numbers());
        if words > WORDS_PER_NUMBER {
            let units = numbers.chunks(words / WORDS_PER_NUMBER);
            return units.filter(|unit| unit.iter().any(|number| *number != 0)).count();
        }
        let firsts = unit_firsts(words);
        // Of most numbers no word is new.
        let some = numbers.iter().filter(|number| **number != 0);
        some.map(|number| ones(gathered(*number, words) & firsts)).sum()
    }

    /// How many bits differ between two images in these words. With images of this block's length
    /// and all words in which they differ, all that do.
    #[must_use]
    pub fn bit_count(&self, old: &[u8], new: &[u8]) -> u64 {
        let mut count = 0_u64;
        for_each_bit(self.numbers(), |word| {
            let at = word.wrapping_mul(WORD_BYTES);
            let differing = word_at(old, at) ^ word_at(new, at);
            count = count.saturating_add(u64::from(differing.count_ones()));
            Some(())
        });
        count
    }

    /// The runs of new words in bytes of the block, ascending, none touching the next. The last may
    /// end with a short word.
    pub fn runs(&self) -> Spans<'_> {
        Spans { runs: self.word_runs(), block_bytes: self.block_bytes }
    }

    /// The runs as the first of their words and how many they are.
    #[inline]
    pub(crate) fn word_runs(&self) -> Runs<'_> {
        Runs::new(self.numbers())
    }

    #[inline]
    pub(crate) fn numbers(&self) -> &[u64] {
        self.mask.get(..number_count(self.block_bytes)).unwrap_or_default()
    }

    /// A bit for each unit that has a new word, if need be in `room`.
    #[inline]
    pub(crate) fn units<'a>(&'a self, unit: Unit, room: &'a mut [u64; UNITS_MAX]) -> &'a [u64] {
        let words = unit.words();
        let numbers = self.numbers();
        if words == 1 {
            return numbers;
        }
        let count = unit.count_in(self.block_bytes);
        // A number has several units, or a unit several numbers.
        let shift = u32::try_from(words).unwrap_or(u64::BITS);
        if let Some(per_number) = WORDS_PER_NUMBER.checked_div(words).filter(|per| *per > 0) {
            for (index, number) in numbers.iter().enumerate() {
                if *number == 0 {
                    continue;
                }
                let mut left = *number;
                let mut bits = 0_u64;
                for at in 0..per_number {
                    bits |= u64::from(left & low_bits(words) != 0) << at;
                    left = left.checked_shr(shift).unwrap_or(0);
                }
                let first = index.wrapping_mul(per_number);
                if let Some(into) = room.get_mut(first / WORDS_PER_NUMBER) {
                    *into |= bits << (first % WORDS_PER_NUMBER);
                }
            }
        } else {
            let units = numbers.chunks((words / WORDS_PER_NUMBER).max(1));
            for (at, numbers) in units.enumerate() {
                let bit = u64::from(numbers.iter().any(|number| *number != 0));
                if let Some(into) = room.get_mut(at / WORDS_PER_NUMBER) {
                    *into |= bit << (at % WORDS_PER_NUMBER);
                }
            }
        }
        room.get(..count.div_ceil(WORDS_PER_NUMBER)).unwrap_or_default()
    }
}

/// How many bits are set. Of most numbers none is, and counting takes a dozen instructions where a
/// processor is not known to have one for it.
#[inline]
const fn ones(number: u64) -> usize {
    if number == 0 { 0 } else { number.count_ones() as usize }
}

/// The bits of the first words of units, each of `words` words: a power of two up to a number's.
const fn unit_firsts(words: usize) -> u64 {
    match u64::MAX.checked_div(low_bits(words)) {
        Some(firsts) => firsts,
        None => 0,
    }
}

/// With the bit of each first word set if that of any word of its unit is.
fn gathered(number: u64, words: usize) -> u64 {
    let (mut all, mut shift) = (number, 1);
    while shift < words {
        all |= all >> shift;
        shift = shift.wrapping_mul(2);
    }
    all
}

/// Room for the bits of any unit that is longer than a word.
pub(crate) const NO_UNITS: [u64; UNITS_MAX] = [0; UNITS_MAX];

/// Calls with the number of each bit that is set, ascending, until there is no answer.
#[inline]
pub(crate) fn for_each_bit(
    numbers: &[u64],
    mut call: impl FnMut(usize) -> Option<()>,
) -> Option<()> {
    let mut from = 0_usize;
    for number in numbers {
        let mut left = *number;
        while left != 0 {
            call(from.wrapping_add(left.trailing_zeros() as usize))?;
            left &= left.wrapping_sub(1);
        }
        from = from.wrapping_add(WORDS_PER_NUMBER);
    }
    Some(())
}

impl fmt::Debug for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.runs()).finish()
    }
}

/// How many numbers of 64 words each the words of a block take.
#[must_use]
pub const fn number_count(block_bytes: usize) -> usize {
    block_bytes.div_ceil(WORD_BYTES * WORDS_PER_NUMBER)
}

/// The runs of words in which two images differ, found in the caller's memory of [`number_count`]
/// numbers or more. The memory of a [`Changed`] takes as long to clear as images of 4 KiB take to
/// compare. `None` where the memory is less, or [`Changed::between`] has no answer.
#[must_use]
#[inline]
pub fn spans_between<'m>(
    kernels: &impl Kernels,
    [old, new]: [&[u8]; 2],
    memory: &'m mut [u64],
) -> Option<Spans<'m>> {
    if old.len() != new.len() || new.len() > BLOCK_BYTES_MAX {
        return None;
    }
    let mask = memory.get_mut(..number_count(new.len()))?;
    kernels.changed_words(old, new, mask);
    Some(Spans { runs: Runs::new(mask), block_bytes: new.len() })
}

/// Runs of new words in bytes of a block, ascending, none touching the next.
#[derive(Clone, Debug)]
pub struct Spans<'a> {
    runs: Runs<'a>,
    block_bytes: usize,
}

impl Iterator for Spans<'_> {
    type Item = Span;

    #[inline]
    fn next(&mut self) -> Option<Span> {
        let (first, count) = self.runs.next()?;
        let at = first.wrapping_mul(WORD_BYTES);
        let len = min(count.wrapping_mul(WORD_BYTES), self.block_bytes.saturating_sub(at));
        // Not above 64 KiB, both.
        Some(Span { at: u32::try_from(at).ok()?, len: u32::try_from(len).ok()? })
    }
}

/// Where the search for runs is.
#[derive(Clone, Debug)]
pub(crate) struct Runs<'a> {
    numbers: &'a [u64],
    index: usize,
    /// The bits of the number at `index` that no run had yet.
    left: u64,
}

impl<'a> Runs<'a> {
    #[inline]
    fn new(numbers: &'a [u64]) -> Self {
        Self { numbers, index: 0, left: numbers.first().copied().unwrap_or(0) }
    }
}

impl Iterator for Runs<'_> {
    type Item = (usize, usize);

    /// The first word of the next run, and how many it has.
    #[inline]
    fn next(&mut self) -> Option<(usize, usize)> {
        while self.left == 0 {
            self.index = self.index.wrapping_add(1);
            self.left = *self.numbers.get(self.index)?;
        }
        let bit = self.left.trailing_zeros();
        let first = self.index.wrapping_mul(WORDS_PER_NUMBER).wrapping_add(bit as usize);
        // One more at its lowest bit turns a run over, up to the zero behind it.
        let turned = self.left.wrapping_add(self.left & self.left.wrapping_neg());
        let mut end = (turned & !self.left).trailing_zeros();
        self.left &= turned;
        let mut total = end.wrapping_sub(bit) as usize;
        // One that reaches the end of its number goes on in the next.
        while end == u64::BITS {
            let next = self.numbers.get(self.index.wrapping_add(1)).copied().unwrap_or(0);
            end = next.trailing_ones();
            if end == 0 {
                break;
            }
            self.index = self.index.wrapping_add(1);
            self.left = next & !low_bits(end as usize);
            total = total.wrapping_add(end as usize);
        }
        Some((first, total))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use journal_core::PortableKernels;
    use proptest::prelude::*;

    use super::*;
    use bench_kit::samples;

    /// The new words, found one by one.
    fn by_hand(old: &[u8], new: &[u8]) -> Vec<bool> {
        old.chunks(8).zip(new.chunks(8)).map(|(old, new)| old != new).collect()
    }

    fn check(old: &[u8], new: &[u8]) {
        let changed = Changed::between(&PortableKernels, old, new).expect("a block's length");
        let expected = by_hand(old, new);
        let mut found = vec![false; expected.len()];
        let walked = for_each_bit(changed.numbers(), |word| {
            found[word] = true;
            Some(())
        });
        assert_eq!(walked, Some(()));
        assert_eq!(found, expected);
        assert_eq!(changed.word_count(), expected.iter().filter(|is| **is).count());
        assert_eq!(changed.is_nothing(), old == new);
        let bits = old.iter().zip(new).map(|(old, new)| (old ^ new).count_ones()).sum::<u32>();
        assert_eq!(changed.bit_count(old, new), u64::from(bits));

        let (mut in_runs, mut free_from) = (vec![false; old.len()], 0);
        for run in changed.runs() {
            assert!(run.len > 0 && (free_from == 0 || u64::from(run.at) > free_from));
            assert!(run.at % 8 == 0);
            free_from = run.end();
            in_runs[run.at as usize..run.end() as usize].fill(true);
        }
        for (at, is_in) in in_runs.iter().enumerate() {
            assert_eq!(*is_in, expected[at / 8], "byte {at}");
        }
        assert_eq!(changed.run_count(), changed.runs().count());

        for unit in [8, 16, 64, 128, 512, 1024, 32768].map(Unit::new) {
            let unit = unit.expect("a power of two");
            let changes = |(old, new)| old != new;
            let bytes = unit.bytes();
            let count = old.chunks(bytes).zip(new.chunks(bytes)).filter(|pair| changes(*pair));
            assert_eq!(changed.unit_count(unit), count.count(), "{bytes}");
        }

        // What is said to have been written gives the same words.
        let mut marked = Changed::none(new.len()).expect("a block's length");
        changed.runs().for_each(|run| {
            marked.mark(Span { at: run.at + run.len - 1, len: 1 });
            marked.mark(Span { at: run.at, len: run.len });
        });
        assert_eq!(marked.numbers(), changed.numbers());
    }

    #[test]
    fn new_words_are_found_in_blocks_of_every_length() {
        for (seed, len) in (1..).zip(samples::LENGTHS) {
            let old = samples::noise(seed, len);
            check(&old, &old);
            check(&old, &samples::noise(!seed, len));
            for words in [1, len / 100, len / 24, len / 10] {
                let xor = samples::sparse(seed, len, words);
                check(&old, &old.iter().zip(&xor).map(|(old, xor)| old ^ xor).collect::<Vec<_>>());
            }
            let mut last = old.clone();
            last.iter_mut().rev().take(1).for_each(|last| *last ^= 1);
            check(&old, &last);
        }
    }

    #[test]
    fn blocks_that_are_too_long_or_of_two_lengths_are_refused() {
        assert!(Changed::none(BLOCK_BYTES_MAX).is_some());
        assert!(Changed::none(BLOCK_BYTES_MAX + 1).is_none());
        assert!(Changed::between(&PortableKernels, &[0; 8], &[0; 9]).is_none());
        let spans = |old: &[u8], new: &[u8], numbers: usize| {
            let mut memory = vec![u64::MAX; numbers];
            let spans = spans_between(&PortableKernels, [old, new], &mut memory)?;
            Some(spans.collect::<Vec<_>>())
        };
        let (old, mut new) = ([0; 513], [0; 513]);
        (new[9], new[512]) = (1, 1);
        let found = [Span { at: 8, len: 8 }, Span { at: 512, len: 1 }];
        assert_eq!(spans(&old, &new, 2).as_deref(), Some(&found[..]));
        assert_eq!(spans(&old, &new, 9).as_deref(), Some(&found[..]));
        assert_eq!(spans(&old, &new, 1), None, "as many words as a number has, and one");
        assert_eq!(spans(&old, &new[1..], 2), None);
        let long = vec![0; BLOCK_BYTES_MAX + 1];
        assert_eq!(spans(&long, &long, 2000), None);
        let long = vec![0; BLOCK_BYTES_MAX + 1];
        assert!(Changed::between(&PortableKernels, &long, &long).is_none());
    }

    proptest! {
        #[test]
        fn any_pair_of_images_is_told_apart(
            old in prop::collection::vec(0_u8..2, 0..1500),
            dense: bool,
            flips in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let mut new: Vec<u8> = match dense {
                true => old.iter().map(|byte| byte ^ 1).collect(),
                false => old.clone(),
            };
            for flip in flips.iter().filter(|_| !old.is_empty()) {
                let at = flip.index(old.len()) / 8 * 8;
                new.iter_mut().skip(at).take(8).for_each(|byte| *byte ^= 1);
            }
            check(&old, &new);
        }

        #[test]
        fn spans_mark_each_word_that_they_touch(
            spans in prop::collection::vec((0_u32..900, 0_u32..300), 0..6),
            len in 0_usize..800,
        ) {
            let mut changed = Changed::none(len).expect("a block's length");
            let mut expected = vec![false; len.div_ceil(8)];
            for (at, span_len) in spans {
                changed.mark(Span { at, len: span_len });
                for byte in (at..at + span_len).filter(|byte| (*byte as usize) < len) {
                    expected[byte as usize / 8] = true;
                }
            }
            let mut found = vec![false; expected.len()];
            for_each_bit(changed.numbers(), |word| {
                found[word] = true;
                Some(())
            });
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn spans_outside_of_the_block_mark_nothing() {
        let mut changed = Changed::none(64).expect("a block's length");
        changed.mark(Span { at: u32::MAX, len: u32::MAX });
        changed.mark(Span { at: 64, len: 1 });
        changed.mark(Span { at: 8, len: 0 });
        assert!(changed.is_nothing());
        let mut short = Changed::none(57).expect("a block's length");
        short.mark(Span { at: 57, len: 1 });
        assert!(short.is_nothing(), "behind the end, in the last word");
        changed.mark(Span { at: 63, len: u32::MAX });
        assert!(changed.runs().eq([Span { at: 56, len: 8 }]));
    }
}
