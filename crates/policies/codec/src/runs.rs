//! Runs of bytes: each behind its place and its length.
//!
//! A run is two little-endian numbers of 16 bits, its place in the block and its length less one,
//! and its bytes. Runs ascend and do not overlap. They carry new bytes as they are, so that they
//! may meet an image that already has them.

use core::cmp::min;

use journal_core::WORD_BYTES;
use journal_core::policy::{ApplyError, Encoder, NoRoom, Patch, Prefix};

use crate::bytes::{Sink, chunk_at, common_back, common_front, low_bits, u64_at, word_at};
use crate::compare::changed::Changed;

/// Bytes before those of a run.
pub const RUN_BYTES: usize = 4;

/// Appends a run for each patch that is not empty.
///
/// # Errors
/// [`NoRoom`]; some runs may have been put.
pub fn put<'a>(
    patches: impl IntoIterator<Item = Patch<'a>>,
    out: &mut Encoder<'_>,
) -> Result<(), NoRoom> {
    for patch in patches {
        if patch.bytes.is_empty() {
            continue;
        }
        let [at @ .., _, _, _, _] = prefix_of(&patch).ok_or(NoRoom)?.word().to_le_bytes();
        out.put(&at)?;
        out.put(patch.bytes)?;
    }
    Ok(())
}

/// Appends runs of the bytes in which patches differ from an old image. Bytes that are the same
/// stay inside of a run as long as there are fewer of them than the next run's head would take.
///
/// # Errors
/// [`NoRoom`]; some runs may have been put. Also where a patch does not lie in the image.
pub fn put_differing(
    old: &[u8],
    patches: &[Patch<'_>],
    out: &mut Encoder<'_>,
) -> Result<(), NoRoom> {
    for patch in patches {
        let start = patch.at as usize;
        let end = start.checked_add(patch.bytes.len()).ok_or(NoRoom)?;
        let (mut old, mut new) = (old.get(start..end).ok_or(NoRoom)?, patch.bytes);
        let mut at = start;
        loop {
            let same = common_front(old, new);
            let rest = (old.get(same..), new.get(same..));
            let (Some(old_rest), Some(new_rest)) = rest else { break };
            if new_rest.is_empty() {
                break;
            }
            at = at.wrapping_add(same);
            let count = differing_front(old_rest, new_rest);
            let (Some(run), Ok(place)) = (new_rest.get(..count), u32::try_from(at)) else {
                return Err(NoRoom);
            };
            put([Patch { at: place, bytes: run }], out)?;
            at = at.wrapping_add(count);
            (old, new) = match (old_rest.get(count..), new_rest.get(count..)) {
                (Some(old), Some(new)) => (old, new),
                _ => break,
            };
        }
    }
    Ok(())
}

/// How many bytes differ at the front of two slices whose first bytes do. Words that are the same
/// end them.
fn differing_front(old: &[u8], new: &[u8]) -> usize {
    let mut at = 0_usize;
    // 1. Whole words, up to one that is the same.
    while let (Some(this), Some(that)) = (u64_at(old, at), u64_at(new, at)) {
        if this == that {
            break;
        }
        at = at.wrapping_add(WORD_BYTES);
    }
    let ended = u64_at(old, at).is_some();
    let end = if ended { at } else { min(old.len(), new.len()) };
    // 2. Bytes that are the same at the end belong to no run.
    let all = (old.get(..end).unwrap_or_default(), new.get(..end).unwrap_or_default());
    end.saturating_sub(common_back(all.0, all.1, WORD_BYTES.wrapping_mul(2)))
}

/// What the run of a patch begins with, before the bytes of the patch.
#[inline(always)]
#[must_use]
pub fn prefix_of(patch: &Patch<'_>) -> Option<Prefix> {
    let at = u16::try_from(patch.at).ok()?;
    let last = u16::try_from(patch.bytes.len().checked_sub(1)?).ok()?;
    Some(Prefix::new(u64::from(last) << u16::BITS | u64::from(at), RUN_BYTES))
}

/// How many bytes [`encode`] writes at most.
#[must_use]
pub fn bound(changed: &Changed) -> usize {
    let words = changed.word_count().saturating_mul(WORD_BYTES);
    changed.run_count().saturating_mul(RUN_BYTES).saturating_add(words)
}

/// Writes a run of `new` for each run of new words into `out`, and says how many bytes that is.
/// With the old image at hand, runs begin and end with bytes that differ, not with whole words.
///
/// # Errors
/// [`NoRoom`]; `out` then holds anything. Also where `new` is not as long as the block.
pub fn encode(
    changed: &Changed,
    old: Option<&[u8]>,
    new: &[u8],
    out: &mut [u8],
) -> Result<usize, NoRoom> {
    if new.len() != changed.block_bytes() {
        return Err(NoRoom);
    }
    match old {
        Some(old) => encode_by(changed, |at| word_at(old, at) ^ word_at(new, at), new, out),
        None => encode_by(changed, |_| u64::MAX, new, out),
    }
}

/// As [`encode`]; `differing` says which bits of the word at a place are new.
#[inline]
fn encode_by(
    changed: &Changed,
    differing: impl Fn(usize) -> u64,
    new: &[u8],
    out: &mut [u8],
) -> Result<usize, NoRoom> {
    // Where nothing differs after all, the whole word is as good as none.
    let differing = |at: usize| match differing(at) {
        0 => u64::MAX,
        bits => bits,
    };
    let mut sink = Sink::new(out);
    for (first, count) in changed.word_runs() {
        let word = first.wrapping_mul(WORD_BYTES);
        let starts = differing(word);
        let front = starts.trailing_zeros() / 8;
        let at = word.wrapping_add(front as usize);
        if let Some(value) = u64_at(new, word).filter(|_| count == 1) {
            // Most are one word, which is put together with what stands before it.
            let last = 7_u32.wrapping_sub(front).wrapping_sub(starts.leading_zeros() / 8);
            let head = at as u64 | (u64::from(last) << 16);
            let bytes = value.checked_shr(front.wrapping_mul(8)).unwrap_or(0);
            let run = u128::from(head) | (u128::from(bytes) << (8 * RUN_BYTES));
            let len = RUN_BYTES.wrapping_add(last as usize).wrapping_add(1);
            if sink.put_front(run.to_le_bytes(), len).is_ok() {
                continue;
            }
        }
        let last = word.wrapping_add(count.wrapping_sub(1).wrapping_mul(WORD_BYTES));
        let kept = WORD_BYTES.wrapping_sub((differing(last).leading_zeros() / 8) as usize);
        let end = min(last.wrapping_add(kept), new.len());
        // A place in a block is below 64 KiB, and so is the last of its bytes.
        let place = u16::try_from(at).map_err(|_| NoRoom)?.to_le_bytes();
        let count = end.wrapping_sub(at);
        let last = u16::try_from(count.wrapping_sub(1)).map_err(|_| NoRoom)?.to_le_bytes();
        sink.put([place[0], place[1], last[0], last[1]])?;
        sink.put_from(new, at, count)?;
    }
    Ok(sink.used())
}

/// Writes runs into a block.
///
/// # Errors
/// `Malformed` where a run breaks off or does not ascend, `OutOfBlock`. The block then holds
/// anything.
pub fn apply(payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
    let (mut at, mut free_from) = (0_usize, 0_usize);
    while at < payload.len() {
        let malformed = ApplyError::Malformed { at };
        let [place, place_high, last, last_high] = *chunk_at(payload, at).ok_or(malformed)?;
        let start = usize::from(u16::from_le_bytes([place, place_high]));
        let bytes = usize::from(u16::from_le_bytes([last, last_high])).wrapping_add(1);
        let end = start.wrapping_add(bytes);
        if start < free_from {
            return Err(malformed);
        }
        if end > block.len() {
            return Err(ApplyError::OutOfBlock { at });
        }
        let from = at.wrapping_add(RUN_BYTES);
        free_from = end;
        // Most are a word. Where the next one begins is then foretold and not waited for.
        if bytes == WORD_BYTES {
            let word = chunk_at::<WORD_BYTES>(payload, from).ok_or(malformed)?;
            *block.get_mut(start..).and_then(|into| into.first_chunk_mut()).ok_or(malformed)? =
                *word;
            at = from.wrapping_add(WORD_BYTES);
        } else {
            copy_run(payload, from, block, start, bytes).ok_or(malformed)?;
            at = from.wrapping_add(bytes);
        }
    }
    Ok(())
}

/// Copies a run from one place to another; `None` if either side is shorter than the run.
#[inline]
fn copy_run(payload: &[u8], from: usize, block: &mut [u8], to: usize, bytes: usize) -> Option<()> {
    let into = block.get_mut(to..)?;
    // Most runs are short: for them a word is put together instead of copying `bytes` bytes.
    if bytes <= WORD_BYTES {
        if let (Some(new), Some(old)) = (u64_at(payload, from), into.first_chunk_mut()) {
            let mask = low_bits(bytes.wrapping_mul(8));
            *old = ((new & mask) | (u64::from_le_bytes(*old) & !mask)).to_le_bytes();
            return Some(());
        }
    }
    into.get_mut(..bytes)?.copy_from_slice(payload.get(from..)?.get(..bytes)?);
    Some(())
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

    fn check(old: &[u8], new: &[u8]) {
        let changed = Changed::between(&PortableKernels, old, new).expect("a block's length");
        let most = bound(&changed);
        for shown in [None, Some(old)] {
            let mut out = vec![0xEE; most];
            let len = encode(&changed, shown, new, &mut out).expect("the bound is one");
            let mut exact = vec![0xEE; len];
            assert_eq!(encode(&changed, shown, new, &mut exact), Ok(len));
            assert!(exact == out[..len]);
            if let Some(less) = len.checked_sub(1) {
                assert_eq!(encode(&changed, shown, new, &mut out[..less]), Err(NoRoom));
            }
            let mut block = old.to_vec();
            for _ in 0..2 {
                assert_eq!(apply(&exact, &mut block), Ok(()));
                assert!(block == new, "{} bytes", new.len());
            }
            // What is shown makes it shorter, and every run begins and ends with new bytes.
            let mut rest = &exact[..];
            while let Some((head, behind)) = rest.split_first_chunk::<RUN_BYTES>() {
                let at = usize::from(u16::from_le_bytes([head[0], head[1]]));
                let last = at + usize::from(u16::from_le_bytes([head[2], head[3]]));
                let differs = |at: usize| old[at] != new[at];
                assert!(shown.is_none() || (differs(at) && differs(last)));
                rest = &behind[last - at + 1..];
            }
        }
    }

    #[test]
    fn what_was_encoded_is_applied() {
        for (seed, len) in (1..).zip(samples::LENGTHS) {
            let old = samples::noise(seed, len);
            check(&old, &old);
            check(&old, &samples::noise(!seed, len));
            for words in [1, len / 160, len / 32, len / 10] {
                let mut xor = samples::sparse(seed, len, words);
                check(&old, &old.iter().zip(&xor).map(|(old, xor)| old ^ xor).collect::<Vec<_>>());
                // Single bytes.
                xor.iter_mut().enumerate().for_each(|(at, xor)| *xor &= u8::from(at % 7 == 3));
                check(&old, &old.iter().zip(&xor).map(|(old, xor)| old ^ xor).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn runs_of_what_is_marked_without_need_are_encoded_too() {
        let (old, mut new) = ([7; 100], [7; 100]);
        new[50] = 8;
        let mut changed = Changed::none(100).expect("a block's length");
        changed.mark(journal_core::policy::Span { at: 10, len: 90 });
        for shown in [None, Some(&old[..])] {
            let mut out = [0; 200];
            let len = encode(&changed, shown, &new, &mut out).expect("room");
            let mut block = old;
            assert_eq!(apply(&out[..len], &mut block), Ok(()));
            assert_eq!(block, new);
        }
        assert_eq!(encode(&changed, None, &new[1..], &mut [0; 200]), Err(NoRoom));
        // A single word in which nothing is new.
        let mut changed = Changed::none(100).expect("a block's length");
        changed.mark(journal_core::policy::Span { at: 8, len: 8 });
        assert_eq!(encode(&changed, Some(&old), &old, &mut [0; 12]), Ok(12));
    }

    proptest! {
        #[test]
        fn what_was_put_is_applied(
            old in prop::collection::vec(any::<u8>(), 256),
            lens in prop::collection::vec((0_usize..40, 0_usize..40), 0..6),
        ) {
            let mut new = old.clone();
            let (mut at, mut places) = (0, Vec::new());
            for (gap, len) in lens {
                at += gap;
                if at + len > new.len() {
                    break;
                }
                new[at..at + len].iter_mut().for_each(|byte| *byte = byte.wrapping_add(7));
                places.push((at, len));
                at += len;
            }
            let patches: Vec<Patch<'_>> = places
                .iter()
                .map(|(at, len)| Patch { at: *at as u32, bytes: &new[*at..at + len] })
                .collect();
            let mut room = vec![0; 512];
            let mut out = Encoder::new(&mut room);
            prop_assert_eq!(put(patches, &mut out), Ok(()));
            let mut block = old;
            prop_assert_eq!(apply(out.as_bytes(), &mut block), Ok(()));
            prop_assert_eq!(&block, &new);
            // Once more changes nothing.
            prop_assert_eq!(apply(out.as_bytes(), &mut block), Ok(()));
            prop_assert_eq!(block, new);
        }

        #[test]
        fn any_bytes_are_applied_or_refused(
            payload in prop::collection::vec(any::<u8>(), 0..64),
            len in 0_usize..128,
        ) {
            let _ = apply(&payload, &mut vec![0; len]);
        }
    }

    #[test]
    fn runs_that_overlap_break_off_or_leave_the_block_are_refused() {
        let apply_to_8 = |payload: &[u8]| apply(payload, &mut [0; 8]);
        assert_eq!(
            apply_to_8(&[0, 0, 1, 0, 9, 9, 1, 0, 0, 0, 9]),
            Err(ApplyError::Malformed { at: 6 })
        );
        assert_eq!(apply_to_8(&[0, 0, 1, 0, 9]), Err(ApplyError::Malformed { at: 0 }));
        assert_eq!(apply_to_8(&[0, 0]), Err(ApplyError::Malformed { at: 0 }));
        assert_eq!(apply_to_8(&[7, 0, 1, 0, 9, 9]), Err(ApplyError::OutOfBlock { at: 0 }));
        assert_eq!(apply_to_8(&[]), Ok(()));
    }
}
