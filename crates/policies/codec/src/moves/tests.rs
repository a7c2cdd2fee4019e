extern crate std;
use std::vec;
use std::vec::Vec;

use journal_core::policy::{ApplyError, NoRoom};
use proptest::prelude::*;

use super::*;
use crate::DecodeError;
use bench_kit::samples;

fn encoded(old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = vec![0; bound(new.len())];
    let len = encode(old, new, &mut MovesTable::new(), &mut out).expect("the bound is one");
    out.truncate(len);
    out
}

fn decoded(delta: &[u8], old: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut new = vec![0xEE; old.len()];
    decode(delta, old, &mut new).map(|()| new)
}

/// Two images that have much in common, in each of the ways in which blocks change.
fn pairs() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    for (seed, len) in (1..).zip(samples::LENGTHS) {
        for kind in [samples::noise, samples::text] {
            let old = kind(seed, len);
            pairs.push((old.clone(), old.clone()));
            pairs.push((old.clone(), kind(!seed, len)));
            pairs.push((vec![0; len], old.clone()));
            pairs.push((old.clone(), vec![0; len]));
            for words in [1, len / 160, len / 32] {
                let xor = samples::sparse(seed, len, words);
                pairs.push((old.clone(), old.iter().zip(&xor).map(|(a, b)| a ^ b).collect()));
            }
            // Something is put in, something is taken out, two parts change places.
            let (third, few) = (len / 3, (len / 50).min(40));
            let put = [&old[..third], &kind(!seed, few), &old[third..len - few]].concat();
            pairs.push((old.clone(), put));
            let rest = kind(seed ^ 0xFF, few);
            let taken = [&old[..third], &old[third + few..], &rest].concat();
            pairs.push((old.clone(), taken));
            pairs.push((old.clone(), [&old[len - third..], &old[..len - third]].concat()));
            // Bytes that differ by one, everywhere.
            pairs.push((old.clone(), old.iter().map(|byte| byte.wrapping_add(1)).collect()));
        }
    }
    pairs
}

#[test]
fn what_was_encoded_is_decoded() {
    let mut table = MovesTable::new();
    for (old, new) in pairs() {
        let delta = encoded(&old, &new);
        assert!(decoded(&delta, &old).is_ok_and(|made| made == new), "{} bytes", new.len());
        let mut block = old.clone();
        assert_eq!(apply(&delta, &mut block), Ok(()));
        assert!(block == new);
        // A used table makes the same delta, and room for it is enough.
        let mut exact = vec![0; delta.len()];
        assert_eq!(encode(&old, &new, &mut table, &mut exact), Ok(delta.len()));
        assert!(exact == delta);
        assert_eq!(delta.is_empty(), old == new);
        if let Some(less) = delta.len().checked_sub(1) {
            assert_eq!(encode(&old, &new, &mut table, &mut exact[..less]), Err(NoRoom));
        }
    }
}

#[test]
fn what_a_table_held_before_changes_nothing() {
    for (seed, [one, other]) in (1..).zip((1..50).map(samples::of_other_steps)) {
        let old = samples::noise(!seed, one.len());
        let mut table = MovesTable::new();
        let pairs = [(&old, &one), (&old, &other), (&old, &one), (&one, &old), (&other, &old)];
        for (old, new) in pairs {
            let mut out = vec![0; bound(new.len())];
            let len = encode(old, new, &mut table, &mut out).expect("the bound is one");
            assert!(out[..len] == encoded(old, new));
        }
    }
}

#[test]
fn deltas_are_as_short_as_what_they_say() {
    let old = samples::noise(5, 4096);
    let mut new = old.clone();
    new[1500..1504].copy_from_slice(b"news");
    assert_eq!(encoded(&old, &new), [0b0010_0101, 0xDC, b'n', b'e', b'w', b's']);
    // Everything behind twenty bytes moves on by them.
    let news = samples::noise(6, 20);
    let moved = [&old[..1000], &news, &old[1000..4076]].concat();
    let delta = encoded(&old, &moved);
    assert_eq!(delta.len(), 3 + 20 + 2, "{delta:?}");
    // Back again.
    let delta = encoded(&moved, &[&old[..4076], &news].concat());
    assert!(delta.len() <= 2 + 4 + 3, "{delta:?}");
    // One byte all over, from no place of the old image.
    assert!(encoded(&old, &[7; 4096]).len() <= 12);
}

/// Short copies from far and wide, between new bytes: what costs most and saves least.
#[test]
fn no_delta_is_longer_than_the_bound() {
    for (seed, len) in (1..).zip([40, 300, 4096, 16384, 65536]) {
        let (old, news) = (samples::noise(seed, len), samples::noise(!seed, len));
        let places = samples::noise(seed ^ 0xABC, 2 * len);
        for (new_bytes, copied) in [(7, 4), (1, 4), (7, 5), (140, 4), (8, 6), (3, 5), (300, 7)] {
            let mut new = Vec::new();
            for (place, news) in places.chunks_exact(2).zip(news.chunks(new_bytes).cycle()) {
                let place = usize::from(u16::from_le_bytes([place[0], place[1]]));
                // Only every fourth place of the old image is looked up.
                let from = place % len / 4 * 4;
                new.extend(news);
                new.extend(old.iter().skip(from).take(copied));
            }
            new.truncate(len);
            let delta = encoded(&old, &new);
            assert!(decoded(&delta, &old).is_ok_and(|made| made == new));
        }
    }
}

/// By hand from the table of the format.
#[test]
fn every_command_of_the_format_is_read() {
    let old: Vec<u8> = (0..=255).chain(0..=255).collect();
    let check = |delta: &[u8], expected: &[&[u8]]| {
        let made = decoded(delta, &old).expect("every command is known");
        let expected = expected.concat();
        assert_eq!(made[..expected.len()], expected, "{delta:?}");
        made
    };
    assert_eq!(check(&[], &[]), old);
    // Two bytes the same, one new; then as before.
    assert_eq!(check(&[0b0000_1000, 2, 9], &[&[0, 1, 9]])[3..], old[3..]);
    // Nothing, and seven and nine new bytes.
    check(&[0b0011_1000, 0, 0, 1, 1, 1, 1, 1, 1, 1], &[&[1; 7], &old[7..]]);
    check(&[&[0b0011_1000, 0, 2][..], &[1; 9]].concat(), &[&[1; 9], &old[9..]]);
    // One new byte, and from the byte before: four, ten, eleven and 139.
    let run = |rest: &[u8]| [&[0b0000_1000, 0, 5][..], rest].concat();
    check(&run(&[0b0100_1000, 6]), &[&[5; 5], &[6], &[6; 3]]);
    check(&run(&[0b0100_1110, 6]), &[&[5; 11], &[6]]);
    check(&run(&[0b0100_1111, 0, 6]), &[&[5; 12], &[6]]);
    check(&run(&[0b0100_1111, 0x80, 1, 6]), &[&[5; 140], &[6]]);
    // And back to the same place.
    check(&run(&[0b0100_1000, 6, 0b0100_0000]), &[&[5; 5], &[6], &old[6..]]);
    // From the word before.
    let eight = [0b0011_1000, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0b1000_1000, 9];
    check(&eight, &[&[1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 9]]);
    // Behind which the same place is the second distance, and the byte before the third.
    check(
        &[&eight[..], &[0b0100_0000]].concat(),
        &[&[1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 9], &old[13..]],
    );
    check(
        &[&eight[..], &[0b1000_0000]].concat(),
        &[&[1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 9], &[9; 9]],
    );
    // From 20 places further on in the old image, and from 20 before, to the end.
    // Behind the old image stands the new one.
    let made = decoded(&[0b1100_1000, 39, 1], &old).expect("a source");
    assert_eq!(made, [&old[20..24], &[1], &old[25..], &old[20..24], &[1], &old[25..40]].concat());
    let made = decoded(&[0b0000_0000, 100, 0b1100_0000, 40], &old).expect("a source");
    assert_eq!(made, [&old[..100], &old[80..492]].concat());
    // From the last seven bytes of the old image on, and from its last one.
    let made = decoded(&[0b1101_0101, 0xF1, 0x07, 1, 2], &old).expect("a source");
    assert_eq!(made[..13], [&old[505..], &old[505..507], &[1, 2], &old[505 + 4..507 + 4]].concat());
    assert_eq!(decoded(&[0b0100_0000], &old), Ok(vec![255; 512]));
    // A length of 1792 and more.
    let (old, mut new) = (samples::noise(9, 4096), samples::noise(9, 4096));
    new[1792] = !new[1792];
    let delta = [0b0000_1111, 0, new[1792]];
    assert!(decoded(&delta, &old) == Ok(new));
}

#[test]
fn what_is_no_delta_is_refused() {
    let old = [7; 64];
    let refused = |delta: &[u8]| decoded(delta, &old).expect_err("it is no delta");
    assert_eq!(refused(&[0]), DecodeError::CutOff { at: 1 });
    assert_eq!(refused(&[0b0000_1000, 2]), DecodeError::CutOff { at: 2 });
    assert_eq!(refused(&[0, 65]), DecodeError::TooLong { at: 0 });
    assert_eq!(refused(&[0b0000_1000, 64, 1]), DecodeError::TooLong { at: 0 });
    assert_eq!(refused(&[0, 64, 0, 1]), DecodeError::TooLong { at: 2 });
    // From before the old image, and from nowhere.
    assert_eq!(refused(&[0b1100_0000, 2]), DecodeError::NoSource { at: 0 });
    assert_eq!(refused(&[0b1100_0000, 127]), DecodeError::NoSource { at: 0 });
    assert_eq!(refused(&[0b1100_0000, 129, 1]), DecodeError::NoSource { at: 0 });
    assert_eq!(refused(&[0b1100_0000, 0x80, 0x80, 0x80]), DecodeError::Unknown { at: 1 });
    assert_eq!(decode(&[], &old, &mut [0; 63]), Err(DecodeError::Lengths));
    let long = vec![0; (64 << 10) + 1];
    assert_eq!(apply(&[], &mut long.clone()), Err(ApplyError::OutOfBlock { at: 0 }));
    let mut table = MovesTable::new();
    assert_eq!(encode(&long, &long, &mut table, &mut [0; 9]), Err(NoRoom));
    assert_eq!(encode(&[0; 8], &[0; 9], &mut table, &mut [0; 99]), Err(NoRoom));
}

#[test]
fn every_change_and_truncation_of_a_small_delta_gives_a_result() {
    for (old, new) in pairs().into_iter().filter(|(old, _)| (1..300).contains(&old.len())) {
        let delta = encoded(&old, &new);
        for at in 0..delta.len().min(40) {
            // One that breaks off between commands is a shorter delta.
            let _ = decoded(&delta[..at], &old);
            let mut changed = delta.clone();
            for byte in 0..=255 {
                changed[at] = byte;
                let _ = decoded(&changed, &old);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_pair_of_images_comes_back(
        old in prop::collection::vec(0_u8..3, 0..600),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..30, 0_u8..3), 0..9),
    ) {
        let mut new = old.clone();
        for (at, count, what) in edits {
            let at = at.index(new.len() + 1);
            let end = (at + count).min(new.len());
            match what {
                0 => drop(new.splice(at..end, [])),
                1 => drop(new.splice(at..at, vec![9; count])),
                _ => new[at..end].iter_mut().for_each(|byte| *byte ^= 1),
            }
        }
        new.resize(old.len(), 5);
        prop_assert_eq!(decoded(&encoded(&old, &new), &old), Ok(new));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        delta in prop::collection::vec(any::<u8>(), 0..100),
        old in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = decoded(&delta, &old);
    }
}
