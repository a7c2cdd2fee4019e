//! Payloads that say which two images they lie between.
//!
//! What is encoded against an old image makes sense on that image alone. A journal may show it
//! another one: a home that is newer than the payload. That happens where a checkpoint has written
//! the home and a crash has left the payload there. So each payload begins with the checks of the
//! image before it and of the one after. On any image other than the one before, a payload does
//! nothing. At the end the second check of the newest payload tells whether all of it came out
//! right.
//!
//! | bytes | is |
//! |---|---|
//! | 1 | the form of the rest: the policy's own |
//! | 4 | the low half of `crc64(0, the image before)` |
//! | 4 | the same of the image after |
//! | the rest | what leads from one to the other |
//!
//! B1. Take payloads of which each begins where the one before ends, and any image that one of them
//!     begins with, or that the last one leads to. Applied to that image in their order, they give
//!     what the last one leads to.
//! B2. A base that is none of these images is found by [`check`], except for one in 2^32.

use journal_core::Kernels;
use journal_core::policy::{ApplyError, Encoder, NoRoom, Patch};

use crate::bytes::chunk_at;

/// Bytes in front of what is encoded.
pub const HEADER_BYTES: usize = 9;

/// What a payload begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    /// The form of the rest.
    pub form: u8,
    before: [u8; 4],
    after: [u8; 4],
}

fn check_of(kernels: &impl Kernels, image: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = kernels.crc64(0, image).to_le_bytes();
    [a, b, c, d]
}

impl Between {
    /// Leads from one image to another, in some form.
    #[must_use]
    pub fn new(kernels: &impl Kernels, form: u8, old: &[u8], new: &[u8]) -> Self {
        Self { form, before: check_of(kernels, old), after: check_of(kernels, new) }
    }

    /// Leads from one image to that with these patches, which ascend and do not overlap. The second
    /// image need not be there. Where the check of the first one is known, nothing of it is looked
    /// at but what the patches replace. `None` where a patch does not lie in the block.
    #[must_use]
    pub fn of_patches(
        kernels: &impl Kernels,
        form: u8,
        (old, old_check): (&[u8], Option<u64>),
        patches: &[Patch<'_>],
    ) -> Option<Self> {
        if let Some(before) = old_check {
            let after = patches.iter().try_fold(before, |check, patch| {
                let start = patch.at as usize;
                let end = start.checked_add(patch.bytes.len())?;
                let behind = old.len().checked_sub(end)?;
                let replaced = old.get(start..end)?;
                Some(kernels.crc64_of_patched(check, replaced, patch.bytes, behind))
            });
            return after.map(|after| Self::of_checks(form, before, after));
        }
        let (mut before, mut after, mut at) = (0, 0, 0_usize);
        for patch in patches {
            let start = patch.at as usize;
            let same = old.get(at..start)?;
            at = start.checked_add(patch.bytes.len())?;
            let replaced = old.get(start..at)?;
            after = if after == before {
                before = kernels.crc64(before, same);
                before
            } else {
                before = kernels.crc64(before, same);
                kernels.crc64(after, same)
            };
            before = kernels.crc64(before, replaced);
            after = kernels.crc64(after, patch.bytes);
        }
        let rest = old.get(at..)?;
        Some(Self::of_checks(form, kernels.crc64(before, rest), kernels.crc64(after, rest)))
    }

    const fn of_checks(form: u8, before: u64, after: u64) -> Self {
        let ([a, b, c, d, ..], [e, f, g, h, ..]) = (before.to_le_bytes(), after.to_le_bytes());
        Self { form, before: [a, b, c, d], after: [e, f, g, h] }
    }

    /// Begins a payload.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn put(&self, out: &mut Encoder<'_>) -> Result<(), NoRoom> {
        let ([a, b, c, d], [e, f, g, h]) = (self.before, self.after);
        out.put(&[self.form, a, b, c, d, e, f, g, h])
    }

    /// Takes a payload apart.
    ///
    /// # Errors
    /// `Malformed`, where it is too short.
    pub fn split(payload: &[u8]) -> Result<(Self, &[u8]), ApplyError> {
        let header: Option<&[u8; HEADER_BYTES]> = chunk_at(payload, 0);
        let [form, a, b, c, d, e, f, g, h] =
            *header.ok_or(ApplyError::Malformed { at: payload.len() })?;
        let between = Self { form, before: [a, b, c, d], after: [e, f, g, h] };
        Ok((between, payload.get(HEADER_BYTES..).unwrap_or_default()))
    }

    /// Whether it begins with this image.
    #[must_use]
    pub fn begins_with(&self, kernels: &impl Kernels, image: &[u8]) -> bool {
        check_of(kernels, image) == self.before
    }

    /// Whether it leads to this image.
    #[must_use]
    pub fn leads_to(&self, kernels: &impl Kernels, image: &[u8]) -> bool {
        check_of(kernels, image) == self.after
    }
}

/// Applies a payload to a block: decodes what stands behind its header, or leaves a block as it is
/// that it does not begin with.
///
/// # Errors
/// What `decode` says, `Malformed` where there is no header, and `WrongBase` where it is not led to
/// what it should be. The block then holds anything.
pub fn apply(
    kernels: &impl Kernels,
    payload: &[u8],
    block: &mut [u8],
    decode: impl FnOnce(u8, &[u8], &mut [u8]) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    let (between, data) = Between::split(payload)?;
    if !between.begins_with(kernels, block) {
        return Ok(());
    }
    decode(between.form, data, block)?;
    if between.leads_to(kernels, block) { Ok(()) } else { Err(ApplyError::WrongBase) }
}

/// Whether a block is what its newest payload leads to (B2).
///
/// # Errors
/// `WrongBase` where it is not, and `Malformed` where there is no header.
pub fn check(kernels: &impl Kernels, payload: &[u8], block: &[u8]) -> Result<(), ApplyError> {
    let (between, _) = Between::split(payload)?;
    if between.leads_to(kernels, block) { Ok(()) } else { Err(ApplyError::WrongBase) }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use core::cell::Cell;
    use std::vec::Vec;

    use journal_core::PortableKernels;

    use super::*;
    use crate::xor;
    use bench_kit::samples;

    const LEN: usize = 64;

    fn payload(old: &[u8], new: &[u8]) -> Vec<u8> {
        let mut room = [0; LEN + HEADER_BYTES];
        let mut out = Encoder::new(&mut room);
        Between::new(&PortableKernels, 7, old, new).put(&mut out).expect("there is room");
        let mut both = [0; LEN];
        xor::into(old, new, &mut both).expect("of one length");
        out.put(&both).expect("there is room");
        out.as_bytes().to_vec()
    }

    fn applied(payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        apply(&PortableKernels, payload, block, |form, data, block| {
            assert_eq!(form, 7);
            Ok(xor::in_place(block, data)?)
        })
    }

    #[test]
    fn payloads_lead_from_any_image_between_them_to_the_last() {
        let mut images: Vec<_> = (0..6).map(|seed| samples::noise(seed, LEN)).collect();
        // An image comes back: which of both it is meant to be makes no difference.
        images[4] = images[1].clone();
        let payloads: Vec<_> = images.windows(2).map(|pair| payload(&pair[0], &pair[1])).collect();
        for first in 0..payloads.len() {
            for base in &images[first..] {
                let mut block = base.clone();
                for payload in &payloads[first..] {
                    applied(payload, &mut block).expect("applies");
                }
                assert_eq!(block, images[5]);
                let last = payloads.last().expect("there are some");
                assert_eq!(check(&PortableKernels, last, &block), Ok(()));
            }
        }
    }

    #[test]
    fn patches_lead_where_their_image_does() {
        let old = samples::noise(1, LEN);
        let all = [(0, 4), (4, 3), (20, 9), (63, 1)];
        for count in 0..=all.len() {
            let mut new = old.clone();
            let bytes: Vec<_> = all.iter().map(|(at, len)| samples::noise(*at, *len)).collect();
            let patches = all.iter().zip(&bytes).take(count);
            let patches: Vec<_> = patches
                .map(|((at, _), bytes)| Patch { at: *at as u32, bytes: bytes.as_slice() })
                .collect();
            for patch in &patches {
                new[patch.at as usize..][..patch.bytes.len()].copy_from_slice(patch.bytes);
            }
            let counting = Counting { bytes: Cell::new(0) };
            let patched: usize = patches.iter().map(|patch| patch.bytes.len()).sum();
            // Both images up to the end, from the first patch on; or what is replaced, and by what.
            let all = if count == 0 { 2 * LEN } else { 2 * LEN - patches[0].at as usize };
            let check = PortableKernels.crc64(0, &old);
            for (known, looked_at) in [(None, all), (Some(check), 2 * patched)] {
                counting.bytes.set(0);
                let found = Between::of_patches(&counting, 7, (&old, known), &patches);
                assert_eq!(found, Some(Between::new(&PortableKernels, 7, &old, &new)));
                assert_eq!(counting.bytes.get(), looked_at, "{count} patches, {known:?}");
            }
        }
        for (at, known) in [63, 64, u32::MAX].into_iter().flat_map(|at| [(at, None), (at, Some(1))])
        {
            let patches = [Patch { at, bytes: &[1, 2] }];
            assert_eq!(Between::of_patches(&PortableKernels, 7, (&old, known), &patches), None);
        }
    }

    /// Counts the bytes whose check is computed.
    struct Counting {
        bytes: Cell<usize>,
    }

    impl Kernels for Counting {
        fn crc64(&self, seed: u64, bytes: &[u8]) -> u64 {
            self.bytes.set(self.bytes.get() + bytes.len());
            PortableKernels.crc64(seed, bytes)
        }
    }

    #[test]
    fn another_base_is_noticed() {
        let images: Vec<_> = (0..3).map(|seed| samples::noise(seed, LEN)).collect();
        let payloads = [payload(&images[0], &images[1]), payload(&images[1], &images[2])];
        // What a torn write leaves.
        let mut torn = images[2].clone();
        torn[..32].copy_from_slice(&images[0][..32]);
        let mut block = torn.clone();
        for payload in &payloads {
            applied(payload, &mut block).expect("is left alone");
        }
        assert_eq!(block, torn);
        let wrong = Err(ApplyError::WrongBase);
        assert_eq!(check(&PortableKernels, &payloads[1], &block), wrong);
        // And so is what does not lead to where it says.
        let mut bad = payloads[0].clone();
        *bad.last_mut().expect("is not empty") ^= 1;
        assert_eq!(applied(&bad, &mut images[0].clone()), wrong);
        for len in 0..HEADER_BYTES {
            let malformed = Err(ApplyError::Malformed { at: len });
            assert_eq!(applied(&bad[..len], &mut block), malformed);
            assert_eq!(check(&PortableKernels, &bad[..len], &block), malformed);
        }
    }
}
