//! The XOR of two images: zero where they are alike.
//!
//! Images of different length have none: nothing is written then, and the answer says so. Applied
//! to one of its two images an XOR gives the other, and to any other image nonsense. The caller
//! that logs it says which images it lies between.

use core::cmp::min;

use crate::error::DecodeError;

/// Writes the XOR of both images into `out`.
///
/// # Errors
/// [`DecodeError::Lengths`] where the three differ in length.
pub fn into(one: &[u8], other: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    if one.len() != other.len() || one.len() != out.len() {
        return Err(DecodeError::Lengths);
    }
    for ((this, that), out) in one.iter().zip(other).zip(out) {
        *out = this ^ that;
    }
    Ok(())
}

/// Turns `image` into its XOR with `other`.
///
/// # Errors
/// [`DecodeError::Lengths`] where the two differ in length.
pub fn in_place(image: &mut [u8], other: &[u8]) -> Result<(), DecodeError> {
    if image.len() != other.len() {
        return Err(DecodeError::Lengths);
    }
    for (this, that) in image.iter_mut().zip(other) {
        *this ^= that;
    }
    Ok(())
}

/// How many bits differ; where the images differ in length, every bit of what one has more.
#[must_use]
pub fn changed_bits(one: &[u8], other: &[u8]) -> u64 {
    let len = min(one.len(), other.len());
    let (this, that) = (one.get(..len), other.get(..len));
    let (this, that) = (this.unwrap_or_default(), that.unwrap_or_default());
    let mut count = 0_u64;
    let (words, other_words) = (this.chunks_exact(8), that.chunks_exact(8));
    let rest = words.remainder().iter().zip(other_words.remainder());
    for (this, that) in words.zip(other_words) {
        let differing = word(this) ^ word(that);
        count = count.wrapping_add(u64::from(differing.count_ones()));
    }
    for (this, that) in rest {
        count = count.wrapping_add(u64::from((this ^ that).count_ones()));
    }
    let longer = one.len().abs_diff(other.len()) as u64;
    count.saturating_add(longer.saturating_mul(8))
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use bench_kit::samples;

    #[test]
    fn an_xor_leads_from_each_image_to_the_other() {
        for len in samples::LENGTHS {
            let (one, other) = (samples::noise(1, len), samples::noise(2, len));
            let mut both = vec![0xEE; len];
            assert_eq!(into(&one, &other, &mut both), Ok(()));
            assert!(
                both.iter()
                    .zip(&one)
                    .zip(&other)
                    .all(|((both, one), other)| { *both == one ^ other })
            );
            let (mut to_other, mut to_one) = (one.clone(), other.clone());
            assert_eq!(in_place(&mut to_other, &both), Ok(()));
            assert_eq!(in_place(&mut to_one, &both), Ok(()));
            assert!(to_one == one && to_other == other);
            let bits: u32 = both.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(changed_bits(&one, &other), u64::from(bits));
            assert_eq!(changed_bits(&one, &one), 0);
            let inverse: Vec<u8> = one.iter().map(|byte| !byte).collect();
            assert_eq!(changed_bits(&one, &inverse), len as u64 * 8);
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        let lengths = Err(DecodeError::Lengths);
        let mut out = [7; 8];
        assert_eq!(into(&[0; 8], &[0; 9], &mut out), lengths);
        assert_eq!(into(&[0; 9], &[0; 9], &mut out), lengths);
        assert_eq!(in_place(&mut out, &[0; 7]), lengths);
        assert_eq!(out, [7; 8]);
        assert_eq!(changed_bits(&[1; 8], &[1; 10]), 16);
    }
}
