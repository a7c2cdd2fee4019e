extern crate std;
use std::vec;
use std::vec::Vec;

use journal_core::policy::NoRoom;
use proptest::prelude::*;

use super::limits::END;
use super::*;
use crate::DecodeError;
use bench_kit::samples;

fn encoded(input: &[u8]) -> Vec<u8> {
    let mut out = vec![0; bound(input.len())];
    let len = encode(input, &mut LzoTable::new(), &mut out).expect("the bound is one");
    out.truncate(len);
    out
}

fn decoded(stream: &[u8], len: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = vec![0xEE; len];
    decode(stream, &mut out).map(|()| out)
}

#[test]
fn what_was_encoded_is_decoded() {
    let mut table = LzoTable::new();
    for input in samples::inputs() {
        let stream = encoded(&input);
        assert!(decoded(&stream, input.len()).is_ok_and(|output| output == input));
        // A used table makes the same stream, and room for it is enough.
        let mut exact = vec![0; stream.len()];
        assert_eq!(encode(&input, &mut table, &mut exact), Ok(stream.len()));
        assert!(exact == stream);
        exact.fill(0);
        assert_eq!(encode_once(&input, &mut exact), Ok(stream.len()));
        assert!(exact == stream);
        let less = stream.len() - 1;
        assert_eq!(encode(&input, &mut table, &mut exact[..less]), Err(NoRoom));
    }
}

#[test]
fn what_a_table_held_before_changes_nothing() {
    for [one, other] in (1..50).map(samples::of_other_steps) {
        let mut table = LzoTable::new();
        for input in [&one, &other, &one] {
            let mut out = vec![0; bound(input.len())];
            let len = encode(input, &mut table, &mut out).expect("the bound is one");
            assert!(out[..len] == encoded(input));
        }
    }
}

#[test]
fn output_of_another_length_is_refused() {
    for input in samples::inputs().into_iter().filter(|input| input.len() < 5000) {
        let stream = encoded(&input);
        let longer = decoded(&stream, input.len() + 1);
        assert_eq!(longer, Err(DecodeError::TooShort { made: input.len() }));
        if let Some(less) = input.len().checked_sub(1) {
            let shorter = decoded(&stream, less);
            assert!(matches!(shorter, Err(DecodeError::TooLong { .. })), "{shorter:?}");
        }
        let trailing = [&stream[..], &[0]].concat();
        let refused = Err(DecodeError::Trailing { at: stream.len() });
        assert_eq!(decoded(&trailing, input.len()), refused);
        for at in 0..stream.len().min(300) {
            assert_eq!(decoded(&stream[..at], input.len()), Err(DecodeError::CutOff { at }));
        }
    }
}

#[test]
fn every_single_change_of_a_small_stream_gives_a_result() {
    for input in samples::inputs().into_iter().filter(|input| input.len() < 300) {
        let stream = encoded(&input);
        for at in 0..stream.len() {
            let mut changed = stream.clone();
            for byte in 0..=255 {
                changed[at] = byte;
                for len in [input.len(), input.len() + 1, 4096] {
                    let _ = decoded(&changed, len);
                }
            }
        }
    }
}

/// By hand from the table of the format, each row of it, and both ends of each number.
#[test]
fn every_instruction_of_the_format_is_read() {
    let check = |stream: &[&[u8]], expected: &[u8]| {
        let stream = [&stream.concat()[..], &END].concat();
        let output = decoded(&stream, expected.len()).expect("every instruction is known");
        assert!(output == expected, "{} bytes", expected.len());
    };
    check(&[], b"");
    // A first byte of 18 on, and 0 as a first byte.
    check(&[&[18], b"a"], b"a");
    check(&[&[21], b"abcd"], b"abcd");
    check(&[&[1], b"abcd"], b"abcd");
    check(&[&[0, 1], &[b'x'; 19]], &[b'x'; 19]);
    check(&[&[0, 0, 7], &[b'x'; 280]], &[b'x'; 280]);
    // A copy of 2 behind three literals, with a literal behind it.
    check(&[&[20], b"abc", &[0b0000_1001, 0], b"z"], b"abcabz");
    // A copy of 3 behind many, from 2049 and from 3072.
    let many: Vec<u8> = (0..3072_u32).map(|at| (at * at / 7) as u8).collect();
    let literals = [&[0][..], &[0; 11], &[249], &many].concat();
    check(&[&literals, &[0, 0]], &[&many, &many[1023..1026]].concat());
    check(&[&literals, &[0b0000_1110, 255], b"yz"], &[&many[..], &many[..3], b"yz"].concat());
    // Copies of 3 and 4, of 5 and 8, from 1 and from 2048.
    check(&[&[18], b"a", &[0b0100_0000, 0]], b"aaaa");
    check(&[&literals, &[0b0111_1100, 255]], &[&many, &many[1024..1028]].concat());
    check(&[&[18], b"a", &[0b1000_0000, 0]], b"aaaaaa");
    let copied = [&many[..], &many[1024..1032], b"q"].concat();
    check(&[&literals, &[0b1111_1101, 255], b"q"], &copied);
    // Copies of 3, 33, 34 and 288 + 255.
    check(&[&[18], b"a", &[0b0010_0001, 0, 0]], b"aaaa");
    check(&[&[18], b"a", &[0b0011_1111, 0, 0]], &[b'a'; 34]);
    check(&[&[18], b"a", &[0b0010_0000, 1, 0, 0]], &[b'a'; 35]);
    check(&[&[18], b"a", &[0b0010_0000, 0, 255, 0, 0]], &[b'a'; 544]);
    // The same from 16,384, and from there on by the other kind.
    let run = |count: usize| vec![b'a'; count];
    let zeros = |stands_for: usize| {
        // One literal, 33, and what is more, of which the last byte is not zero.
        let before_last = stands_for - 35;
        let last = (before_last % 255 + 1) as u8;
        [&[18, b'a', 0b0010_0000][..], &vec![0; before_last / 255], &[last, 0, 0]].concat()
    };
    check(&[&zeros(16384), &[0b0010_0001, 0xFC, 0xFF]], &run(16384 + 3));
    check(&[&zeros(16385), &[0b0001_0001, 4, 0]], &run(16385 + 3));
    check(&[&zeros(49151), &[0b0001_1000, 1, 0xFC, 0xFF]], &run(49151 + 10));
    let source = |at| Err(DecodeError::NoSource { at });
    let near = [&zeros(16383)[..], &[0b0010_0001, 0xFC, 0xFF], &END].concat();
    assert_eq!(decoded(&near, 16386), source(near.len() - 6));
    let far = [&zeros(49150)[..], &[0b0001_1000, 1, 0xFC, 0xFF], &END].concat();
    assert_eq!(decoded(&far, 49160), source(far.len() - 7));
}

#[test]
fn what_is_no_stream_is_refused() {
    assert_eq!(decoded(&[], 0), Err(DecodeError::CutOff { at: 0 }));
    assert_eq!(decoded(&[17, 4, 0], 9), Err(DecodeError::NoSource { at: 0 }));
    assert_eq!(decoded(&[17, 1, 0], 0), Err(DecodeError::Unknown { at: 0 }));
    assert_eq!(decoded(&[18, 9, 18, 0, 0], 1), Err(DecodeError::Unknown { at: 2 }));
    // A length that goes on and on.
    let endless = vec![0; 100_000];
    assert_eq!(decoded(&endless, 10), Err(DecodeError::CutOff { at: 100_000 }));
    let enormous = [&endless[..], &[1]].concat();
    assert!(decoded(&enormous, 10).is_err());
    assert_eq!(decoded(&[19, 9], 1), Err(DecodeError::CutOff { at: 2 }));
    assert_eq!(decoded(&[19, 9, 9, 17, 0, 0], 1), Err(DecodeError::TooLong { at: 0 }));
}

#[test]
fn no_stream_is_longer_than_the_bound() {
    // Nothing in it repeats.
    for input in [samples::noise(1, 3), samples::noise(2, 4096), samples::noise(3, 70_000)] {
        assert!(encoded(&input).len() > input.len());
    }
}

proptest! {
    #[test]
    fn any_input_comes_back(input in prop::collection::vec(0_u8..4, 0..2000)) {
        let stream = encoded(&input);
        prop_assert_eq!(decoded(&stream, input.len()), Ok(input));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        stream in prop::collection::vec(any::<u8>(), 0..200),
        len in 0_usize..600,
    ) {
        let _ = decoded(&stream, len);
    }
}
