//! Where a staged image differs from the committed one: a few ranges, or all of it.
//!
//! Ranges that are near become one. When there are too many, the two that are nearest do. So ranges
//! may cover more than what was written, never less.

use journal_core::WORD_BYTES;
use journal_core::policy::Span;

/// The most ranges of a block.
const SPANS_MAX: usize = 8;

/// Ranges with fewer bytes than this between them become one: to keep them apart would cost a
/// policy as much.
const GAP_MIN: u64 = WORD_BYTES as u64;

/// The ranges of a block that may differ, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    /// Anywhere.
    Whole,
    /// In these only.
    Spans(Spans),
}

/// A few ranges, ascending, with gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    spans: [Span; SPANS_MAX],
    count: usize,
}

const fn span(at: u64, end: u64) -> Span {
    // A block has at most 64 KiB.
    Span { at: at as u32, len: (end - at) as u32 }
}

impl Touched {
    /// An empty set: nothing differs so far.
    pub(crate) fn nothing() -> Self {
        Self::Spans(Spans::default())
    }

    /// The ranges that differ in either of two sets.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let mut both = *self;
        match other {
            Self::Whole => return Self::Whole,
            Self::Spans(spans) => {
                for span in spans.as_slice() {
                    both.touch(span.at as usize, span.len as usize);
                }
            }
        }
        both
    }

    /// Adds bytes that differ too.
    pub(crate) fn touch(&mut self, at: usize, bytes: usize) {
        if let Self::Spans(spans) = self {
            if bytes > 0 {
                spans.add(span(at as u64, (at + bytes) as u64));
            }
        }
    }
}

impl Spans {
    pub(crate) fn as_slice(&self) -> &[Span] {
        &self.spans[..self.count]
    }

    fn add(&mut self, new: Span) {
        let (mut at, mut end) = (u64::from(new.at), new.end());
        let mut kept = [Span::default(); SPANS_MAX + 1];
        let (mut count, mut to) = (0, 0);
        for known in self.as_slice() {
            if known.end() + GAP_MIN <= at {
                to = count + 1;
            } else if end + GAP_MIN > u64::from(known.at) {
                (at, end) = (at.min(known.at.into()), end.max(known.end()));
                continue;
            }
            kept[count] = *known;
            count += 1;
        }
        kept.copy_within(to..count, to + 1);
        kept[to] = span(at, end);
        self.keep(kept, count + 1);
    }

    /// Keeps these ranges, if need be with the two nearest as one.
    fn keep(&mut self, mut spans: [Span; SPANS_MAX + 1], count: usize) {
        self.count = count.min(SPANS_MAX);
        if count > SPANS_MAX {
            let gap = |first: &usize| u64::from(spans[*first + 1].at) - spans[*first].end();
            let first = (0..SPANS_MAX).min_by_key(gap).expect("there are several");
            spans[first] = span(spans[first].at.into(), spans[first + 1].end());
            spans.copy_within(first + 2.., first + 1);
        }
        self.spans.copy_from_slice(&spans[..SPANS_MAX]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn touched(writes: &[(usize, usize)]) -> Vec<(u32, u32)> {
        let mut touched = Touched::nothing();
        writes.iter().for_each(|(at, bytes)| touched.touch(*at, *bytes));
        let Touched::Spans(spans) = touched else { return Vec::new() };
        spans.as_slice().iter().map(|span| (span.at, span.len)).collect()
    }

    #[test]
    fn near_ranges_become_one_and_far_ones_do_not() {
        assert_eq!(touched(&[]), []);
        assert_eq!(touched(&[(5, 0)]), []);
        assert_eq!(touched(&[(100, 4), (10, 4)]), [(10, 4), (100, 4)]);
        assert_eq!(touched(&[(10, 4), (14, 4)]), [(10, 8)]);
        assert_eq!(touched(&[(10, 4), (21, 4)]), [(10, 15)], "7 bytes between them");
        assert_eq!(touched(&[(10, 4), (22, 4)]), [(10, 4), (22, 4)], "8 bytes between them");
        assert_eq!(touched(&[(21, 4), (10, 4)]), [(10, 15)]);
        assert_eq!(touched(&[(22, 4), (10, 4)]), [(10, 4), (22, 4)]);
        assert_eq!(touched(&[(0, 4), (50, 4), (100, 4), (2, 100)]), [(0, 104)]);
        assert_eq!(touched(&[(0, 4), (50, 4), (100, 4), (51, 2)]), [(0, 4), (50, 4), (100, 4)]);
    }

    #[test]
    fn of_too_many_ranges_the_nearest_become_one() {
        let eight: Vec<_> = (0..8).map(|index| (index * 100, 10)).collect();
        assert_eq!(touched(&eight).len(), 8);
        let last = touched(&[&eight[..], &[(750, 4)]].concat());
        assert_eq!((last.len(), last[7]), (8, (700, 54)));
        let first = touched(&[&eight[..], &[(60, 4)]].concat());
        assert_eq!((first.len(), first[0], first[1]), (8, (0, 10), (60, 50)));
        let behind = touched(&[&eight[..], &[(5_000, 1)]].concat());
        assert_eq!((behind.len(), behind[0], behind[7]), (8, (0, 110), (5_000, 1)));
    }

    proptest! {
        #[test]
        fn what_was_written_is_covered_in_order_with_gaps(
            writes in prop::collection::vec((0_usize..4000, 0_usize..96), 0..40),
        ) {
            let spans = touched(&writes);
            for (at, bytes) in &writes {
                let covers = |(from, len): &(u32, u32)| {
                    *from as usize <= *at && at + bytes <= (from + len) as usize
                };
                prop_assert!(*bytes == 0 || spans.iter().any(covers), "{at}, {bytes}: {spans:?}");
            }
            for pair in spans.windows(2) {
                prop_assert!(u64::from(pair[0].0 + pair[0].1) + GAP_MIN <= u64::from(pair[1].0));
            }
            prop_assert!(spans.len() <= SPANS_MAX && spans.iter().all(|span| span.1 > 0));
            // Nothing before the first byte written, and nothing behind the last.
            let written = writes.iter().filter(|(_, bytes)| *bytes > 0);
            let first = written.clone().map(|(at, _)| *at as u32).min();
            let last = written.map(|(at, bytes)| (at + bytes) as u32).max();
            prop_assert_eq!(spans.first().map(|span| span.0), first);
            prop_assert_eq!(spans.last().map(|span| span.0 + span.1), last);
        }
    }
}
