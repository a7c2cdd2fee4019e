use policy_codec::DecodeError;

use super::*;

/// Inputs of all kinds and lengths, and XOR pages.
fn inputs() -> Vec<Vec<u8>> {
    let mut inputs = samples::inputs();
    // Each length up to a few lines.
    for len in 0..520 {
        let seed = len as u64 + 1;
        inputs.push(samples::noise(seed, len));
        inputs.push(samples::text(seed, len));
        inputs.push(samples::sparse(seed, len, len / 64 + 1));
    }
    for words in [1, 2, 5, 26, 51, 128, 300, 512] {
        inputs.extend(pages(words));
    }
    for (seed, len) in (1..).zip((1000..66_000).step_by(977)) {
        inputs.push(samples::text(seed, len));
        inputs.push(samples::sparse(seed, len, len / 100));
        inputs.push(samples::sparse(seed, len, len / 1000));
    }
    inputs
}

fn encoded(input: &[u8], table: &mut LzoTable) -> Vec<u8> {
    let mut out = vec![0; lzo::bound(input.len())];
    let len = lzo::encode(input, table, &mut out).expect("the bound is one");
    out.truncate(len);
    out
}

#[test]
fn each_reads_what_the_other_wrote() {
    let (inputs, mut table) = (inputs(), LzoTable::new());
    assert!(inputs.len() > 2000);
    for input in &inputs {
        let mut output = vec![0xEE; input.len()];
        let theirs = lzo1x::decompress(&encoded(input, &mut table), &mut output);
        assert!(theirs == Ok(()) && output == *input, "they read {} bytes", input.len());
        for level in [1, 3, 4] {
            let stream = lzo1x::compress(input, CompressLevel::new(level));
            output.fill(0xEE);
            let ours = lzo::decode(&stream, &mut output);
            assert!(ours == Ok(()) && output == *input, "{ours:?}, {} bytes", input.len());
        }
    }
}

/// The slow levels write every kind of instruction.
#[test]
fn streams_of_the_slowest_level_are_read() {
    let inputs = inputs().into_iter().filter(|input| input.len() < 5000).step_by(7);
    let mut count = 0;
    for input in inputs {
        for level in [8, 13] {
            let stream = lzo1x::compress(&input, CompressLevel::new(level));
            let mut output = vec![0xEE; input.len()];
            assert_eq!(lzo::decode(&stream, &mut output), Ok(()));
            assert!(output == input, "{} bytes at level {level}", input.len());
            count += 1;
        }
    }
    assert!(count > 500);
}

/// What the other refuses, this one refuses, and the other way round; and what both read is the
/// same. Only an end with other bits set than ends have is read there and not here.
#[test]
fn both_refuse_the_same() {
    let (mut table, mut refused, mut read) = (LzoTable::new(), 0, 0);
    for (seed, input) in (1_u64..).zip(inputs().into_iter().filter(|input| input.len() < 600)) {
        let stream = encoded(&input, &mut table);
        let noise = samples::noise(seed, 24);
        for change in noise.chunks_exact(3) {
            let mut changed = stream.clone();
            let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
            changed[at] = change[2];
            let (mut ours, mut theirs) = (vec![0; input.len()], vec![0; input.len()]);
            let our_result = lzo::decode(&changed, &mut ours);
            let their_result = lzo1x::decompress(&changed, &mut theirs);
            let is_odd_end = matches!(our_result, Err(DecodeError::Unknown { .. }));
            if our_result.is_ok() != their_result.is_ok() && !is_odd_end {
                panic!("{our_result:?} {their_result:?}: {changed:?} into {}", input.len());
            }
            match our_result {
                Ok(()) => read += 1,
                Err(_) => refused += 1,
            }
            assert!(our_result.is_err() || ours == theirs);
        }
    }
    assert!(refused > 1000 && read > 1000, "{refused} refused, {read} read");
}

#[test]
fn streams_are_not_more_than_a_twentieth_longer() {
    let mut table = LzoTable::new();
    for words in [1, 5, 26, 51, 128, 256] {
        let ours: usize = pages(words).iter().map(|page| encoded(page, &mut table).len()).sum();
        for level in LEVELS {
            let theirs = pages(words)
                .iter()
                .map(|page| lzo1x::compress(page, CompressLevel::new(level)).len())
                .sum::<usize>();
            println!("{words} words: {ours} bytes, by lzo1x at level {level} {theirs}");
            assert!(ours * 20 <= theirs * 21, "{words} words: {ours} bytes and {theirs}");
        }
    }
    for kind in [samples::text, samples::noise] {
        let inputs: Vec<Vec<u8>> = (1..33).map(|seed| kind(seed, PAGE_BYTES)).collect();
        let ours: usize = inputs.iter().map(|input| encoded(input, &mut table).len()).sum();
        let level = CompressLevel::default();
        let theirs: usize = inputs.iter().map(|input| lzo1x::compress(input, level).len()).sum();
        println!("{ours} bytes, by lzo1x {theirs}");
        assert!(ours * 20 <= theirs * 21, "{ours} bytes and {theirs}");
    }
}
