use bench_kit::samples;
use policy_codec::lzo;

use super::*;

/// Inputs of all kinds and lengths, and XOR pages.
fn inputs() -> Vec<Vec<u8>> {
    let mut inputs = samples::inputs();
    assert!(samples::LENGTHS.contains(&(64 << 10)));
    for len in 0..520 {
        let seed = len as u64 + 1;
        inputs.push(samples::noise(seed, len));
        inputs.push(samples::text(seed, len));
        inputs.push(samples::sparse(seed, len, len / 64 + 1));
    }
    for (seed, words) in (1..).zip([1, 2, 5, 26, 51, 128, 300, 512].into_iter().cycle().take(400)) {
        inputs.push(samples::sparse(seed, 4096, words));
    }
    inputs
}

fn encoded_here(input: &[u8], table: &mut LzoTable) -> Vec<u8> {
    let mut out = vec![0; lzo::bound(input.len())];
    let len = encode(input, table, &mut out).expect("the bound is one");
    out.truncate(len);
    out
}

fn encoded_there(input: &[u8], table: &mut lzo::LzoTable) -> Vec<u8> {
    let mut out = vec![0; lzo::bound(input.len())];
    let len = lzo::encode(input, table, &mut out).expect("the bound is one");
    out.truncate(len);
    out
}

#[test]
fn each_reads_what_the_other_wrote() {
    let mut here = LzoTable::new().expect("a library built for this machine");
    let (inputs, mut there) = (inputs(), lzo::LzoTable::new());
    assert!(inputs.len() > 2000);
    for input in &inputs {
        let mut output = vec![0xEE; input.len()];
        let read = decode(&encoded_there(input, &mut there), &mut output);
        assert!(read == Ok(()) && output == *input, "{read:?} here, {} bytes", input.len());
        output.fill(0xEE);
        let read = lzo::decode(&encoded_here(input, &mut here), &mut output);
        assert!(read == Ok(()) && output == *input, "{read:?} there, {} bytes", input.len());
    }
}

/// An empty input is the end alone, in both.
#[test]
fn both_write_the_same_of_nothing() {
    let mut here = LzoTable::new().expect("a library built for this machine");
    assert_eq!(encoded_here(&[], &mut here), [17, 0, 0]);
    assert_eq!(encoded_there(&[], &mut lzo::LzoTable::new()), [17, 0, 0]);
    assert_eq!(decode(&[17, 0, 0], &mut []), Ok(()));
}

#[test]
fn both_refuse_other_lengths_and_streams_that_break_off() {
    let mut table = lzo::LzoTable::new();
    for input in inputs().into_iter().filter(|input| (1..400).contains(&input.len())) {
        let stream = encoded_there(&input, &mut table);
        for codec in [decode, lzo::decode] {
            let into = |len: usize| codec(&stream, &mut vec![0; len]);
            assert!(matches!(into(input.len() - 1), Err(DecodeError::TooLong { .. })));
            let made = input.len();
            assert_eq!(into(made + 1), Err(DecodeError::TooShort { made }));
            let cut = codec(&stream[..stream.len() - 1], &mut vec![0; input.len()]);
            assert!(matches!(cut, Err(DecodeError::CutOff { .. })));
            let longer = [&stream[..], &[0]].concat();
            let trailing = codec(&longer, &mut vec![0; input.len()]);
            assert!(matches!(trailing, Err(DecodeError::Trailing { .. })));
        }
    }
}
