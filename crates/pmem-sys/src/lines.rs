//! From a byte range to the lines (or pages) it touches: the one place where that is computed.
//!
//! Guarantees: every unit that holds at least one byte of the range is in the run, exactly once,
//! and no other. An empty range touches nothing. Nothing overflows, not at the last byte of the
//! address space either.
//!
//! A crash cannot harm it: it is arithmetic. A mistake here is silent loss, since a line that is
//! not flushed is lost by a power loss and by nothing else.

use journal_core::LINE_BYTES;

/// A run of equal, aligned units (lines or pages).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Position of the first unit, a multiple of the unit.
    pub start: usize,
    /// How many units follow each other from there.
    pub count: usize,
}

/// The units of `unit` bytes (a power of two) that `len` bytes at `at` touch.
///
/// A range that runs past the end of the address space does not exist; it is cut off there.
#[inline]
#[must_use]
pub const fn touched(at: usize, len: usize, unit: usize) -> Run {
    debug_assert!(unit.is_power_of_two(), "units are powers of two");
    let in_unit = at & (unit - 1);
    let start = at - in_unit;
    if len == 0 {
        return Run { start, count: 0 };
    }
    // The last byte, not the end: the end of a range at the top of memory is not representable.
    let last = at.saturating_add(len - 1);
    // `last - start` is divided, not `last` rounded up: rounding up may overflow as well.
    Run { start, count: (last - start) / unit + 1 }
}

/// The lines that `len` bytes at `at` touch.
#[inline]
#[must_use]
pub const fn lines(at: usize, len: usize) -> Run {
    touched(at, len, LINE_BYTES)
}

// Code without anything unsafe, which Miri need not see.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Rule = fn(usize, usize, usize) -> Run;

    /// Looks at one byte after the other, the way nobody would compute it in earnest.
    fn naive(at: usize, len: usize, unit: usize) -> BTreeSet<usize> {
        (0..len).filter_map(|i| at.checked_add(i)).map(|byte| byte / unit).collect()
    }

    fn agrees(rule: Rule, at: usize, len: usize, unit: usize) -> bool {
        let run = rule(at, len, unit);
        let expected = naive(at, len, unit);
        run.start % unit == 0
            && run.count == expected.len()
            && (0..run.count).all(|i| expected.contains(&(run.start / unit + i)))
    }

    fn agrees_everywhere(rule: Rule) -> bool {
        (0..130).all(|at| (0..200).all(|len| agrees(rule, at, len, 64)))
    }

    #[test]
    fn every_small_range_touches_what_its_bytes_touch() {
        assert!(agrees_everywhere(touched));
    }

    /// The check has teeth: the mistakes that others shipped are seen by it.
    #[test]
    fn known_mistakes_are_noticed() {
        let misses_the_last_line: Rule =
            |at, len, unit| Run { start: at & !(unit - 1), count: len.div_ceil(unit) };
        let takes_one_too_many: Rule = |at, len, unit| Run {
            start: at & !(unit - 1),
            count: (at + len) / unit - at / unit + 1,
        };
        let starts_at_the_byte: Rule =
            |at, len, unit| Run { start: at, count: touched(at, len, unit).count };
        let flushes_an_empty_range: Rule = |at, len, unit| Run {
            count: touched(at, len.max(1), unit).count,
            ..touched(at, len, unit)
        };
        for wrong in
            [misses_the_last_line, takes_one_too_many, starts_at_the_byte, flushes_an_empty_range]
        {
            assert!(!agrees_everywhere(wrong));
        }
    }

    #[test]
    fn the_end_of_the_address_space_is_reached_and_not_passed() {
        assert_eq!(lines(usize::MAX, 1), Run { start: usize::MAX - 63, count: 1 });
        assert_eq!(lines(usize::MAX - 64, 65), Run { start: usize::MAX - 127, count: 2 });
        assert_eq!(lines(usize::MAX - 1, 100), Run { start: usize::MAX - 63, count: 1 });
        assert_eq!(lines(0, usize::MAX).count, usize::MAX / 64 + 1);
        assert_eq!(lines(usize::MAX, 0).count, 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 2000,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_range_touches_what_its_bytes_touch(
            at in prop_oneof![0usize..1 << 20, (usize::MAX - (1 << 14))..=usize::MAX],
            len in 0usize..1 << 13,
            shift in 3u32..13,
        ) {
            prop_assert!(agrees(touched, at, len, 1 << shift));
        }
    }
}
