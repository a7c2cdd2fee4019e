//! Inputs of all kinds for the tests of all codecs; the same each time.

use std::vec;
use std::vec::Vec;

/// Bytes without a pattern.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(step).collect()
}

/// Words of a small language.
pub fn text(seed: u64, len: usize) -> Vec<u8> {
    const WORDS: [&[u8]; 8] =
        [b"the ", b"journal ", b"of ", b"a block ", b"is ", b"kept ", b"in ", b"memory. "];
    let words = noise(seed, len).into_iter().map(|byte| WORDS[usize::from(byte % 8)]);
    let mut bytes: Vec<u8> = words.flatten().copied().collect();
    bytes.truncate(len);
    bytes
}

/// Zeros, except for `words` words at places without a pattern.
pub fn sparse(seed: u64, len: usize, words: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let (places, values) = (noise(seed, words * 4), noise(!seed, words * 8));
    for (place, value) in places.chunks_exact(4).zip(values.chunks_exact(8)) {
        let place = u32::from_le_bytes(place.try_into().expect("four bytes")) as usize;
        if let Some(at) = place.checked_rem(len / 8) {
            bytes[at * 8..at * 8 + 8].copy_from_slice(value);
        }
    }
    bytes
}

/// Two inputs of one length that a search goes through in other steps. So each leaves places in a
/// table that the other, with the same bytes there, would not have put there itself.
pub fn of_other_steps(seed: u64) -> [Vec<u8>; 2] {
    let bytes = noise(seed, 600);
    let one = [&bytes[..], &bytes[100..500]].concat();
    let mut other = one.clone();
    other[..39].fill(0);
    [one, other]
}

/// Lengths around everything that a codec may count by.
pub const LENGTHS: [usize; 44] = [
    0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 18, 19, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129,
    238, 239, 255, 256, 273, 274, 512, 1000, 1021, 1022, 2045, 2046, 4093, 4095, 4096, 4100, 8190,
    16384, 65536,
];

/// Inputs of each kind and length, and some long ones.
pub fn inputs() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for (seed, len) in (1..).zip(LENGTHS.into_iter().chain([200_000])) {
        inputs.push(vec![0; len]);
        inputs.push(noise(seed, len));
        inputs.push(text(seed, len));
        inputs.push(sparse(seed, len, 1));
        inputs.push(sparse(seed, len, len / 160));
        inputs.push(sparse(seed, len, len / 32));
        // Something, long nothing, and the same again: distances of every kind.
        let (front, back) = (noise(seed, len / 16), noise(seed, len / 16));
        let middle = len - front.len() - back.len();
        inputs.push([front, noise(!seed, middle), back].concat());
    }
    inputs
}
