//! Where two images of a block differ, word by word.

use journal_core::policy::Patch;
use journal_core::{LINE_BYTES, WORD_BYTES};

/// Calls with runs of words that differ, as patches of the newer image; ascending, none touching
/// the next. The last word may be a short one. Images of different length differ everywhere.
pub fn words(older: &[u8], newer: &[u8], mut call: impl FnMut(Patch<'_>)) {
    if older.len() != newer.len() {
        call(Patch { at: 0, bytes: newer });
        return;
    }
    let mut run: Option<(usize, usize)> = None;
    let mut at = 0_usize;
    for (older_line, newer_line) in older.chunks(LINE_BYTES).zip(newer.chunks(LINE_BYTES)) {
        // Most lines are the same: they are looked at as a whole.
        if older_line != newer_line {
            let words = older_line.chunks(WORD_BYTES).zip(newer_line.chunks(WORD_BYTES));
            let mut place = at;
            for (older_word, newer_word) in words {
                let end = place.saturating_add(newer_word.len());
                if older_word != newer_word {
                    run = Some(match run {
                        Some((start, behind)) if behind == place => (start, end),
                        Some(done) => {
                            emit(newer, done, &mut call);
                            (place, end)
                        }
                        None => (place, end),
                    });
                }
                place = end;
            }
        }
        at = at.saturating_add(newer_line.len());
    }
    if let Some(done) = run {
        emit(newer, done, &mut call);
    }
}

fn emit(newer: &[u8], (start, end): (usize, usize), call: &mut impl FnMut(Patch<'_>)) {
    let bytes = newer.get(start..end).unwrap_or_default();
    call(Patch { at: u32::try_from(start).unwrap_or(u32::MAX), bytes });
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_patches_make_the_older_image_the_newer_one_and_hold_no_word_that_is_the_same(
            older in prop::collection::vec(0_u8..3, 0..300),
            flips in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut newer = older.clone();
            for flip in flips.iter().filter(|_| !older.is_empty()) {
                newer[flip.index(older.len())] ^= 1;
            }
            let (mut made, mut behind) = (older.clone(), None);
            words(&older, &newer, |Patch { at, bytes }| {
                let at = at as usize;
                assert!(at % WORD_BYTES == 0 && behind.is_none_or(|behind| behind < at));
                behind = Some(at + bytes.len());
                let words = bytes.chunks(WORD_BYTES).zip(older[at..].chunks(WORD_BYTES));
                assert!(words.clone().all(|(new, old)| new != &old[..new.len()]));
                made[at..at + bytes.len()].copy_from_slice(bytes);
            });
            prop_assert_eq!(made, newer);
        }
    }

    #[test]
    fn images_of_different_length_differ_everywhere() {
        let mut patches = Vec::new();
        words(&[1; 8], &[1; 16], |patch| patches.push((patch.at, patch.bytes.len())));
        assert_eq!(patches, [(0, 16)]);
    }
}
