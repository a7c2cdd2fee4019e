//! Every form in which a payload can say what leads from one image of a block to the next. A header
//! before it says which images those are ([`crate::compare::between`]).
//!
//! A policy says which forms it wants tried; the shortest is kept. A caller that applies a payload
//! need not know which policy made it.

use journal_core::policy::{ApplyError, Encoder, NoRoom, Patch};
use journal_core::{Kernels, WORD_BYTES};

use crate::bitmap::{self, Unit};
use crate::bytes::word_at;
use crate::compare::between::{self, Between, HEADER_BYTES};
use crate::compare::changed::Changed;
use crate::lzo;
use crate::moves::{self, MovesTable};
use crate::{runs, scratch, xor};

/// How a payload says what differs; its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Form {
    /// Runs of new bytes.
    Runs = 1,
    /// A bitmap of words, and new words.
    Words = 2,
    /// The XOR of both images, as an LZO1X stream.
    Xor = 3,
    /// The complement of that, where nearly all bits differ.
    Complement = 4,
    /// Copies from the old image, and new bytes.
    Moves = 5,
    /// A bitmap of sub-blocks of 128 bytes, and new ones.
    SubBlocks = 6,
}

/// Words of two images that a sample looks at.
pub const SAMPLED_WORDS: usize = 16;

/// How far from a bound, in 256ths, the share of the sampled bits must be to tell.
const SAMPLE_MARGIN: u64 = 32;

/// Calls with what differs in each word of a sample, which lies all over a block. It ends when the
/// answer is `false`. There is no sample of images that differ in length, or are short.
fn sample(old: &[u8], new: &[u8], mut call: impl FnMut(u64) -> bool) {
    let step = (new.len() / SAMPLED_WORDS / WORD_BYTES).saturating_mul(WORD_BYTES);
    if step == 0 || old.len() != new.len() {
        return;
    }
    for word in 0..SAMPLED_WORDS {
        let at = word.wrapping_mul(step);
        if !call(word_at(old, at) ^ word_at(new, at)) {
            return;
        }
    }
}

/// In how many words of a sample of two images they differ: as many as `most`, or fewer. Images
/// that are the same in the first few words are not looked at any further.
#[must_use]
pub fn sampled_words(old: &[u8], new: &[u8], most: usize) -> usize {
    let (mut differing, mut seen) = (0_usize, 0_usize);
    sample(old, new, |bits| {
        differing = differing.saturating_add(usize::from(bits != 0));
        seen = seen.saturating_add(1);
        differing < most && (differing > 0 || seen < SAMPLED_WORDS / 4)
    });
    differing
}

/// Whether the bits of a sample of two images say that the share of all that differ is surely in
/// `bounds`, in 256ths. Then nothing else need be compared. A sample that does not tell says no.
#[must_use]
pub fn is_hopeless(old: &[u8], new: &[u8], bounds: core::ops::RangeInclusive<u8>) -> bool {
    let (mut bits, mut differing, mut seen) = (0_u64, 0_usize, 0_usize);
    sample(old, new, |word| {
        bits = bits.saturating_add(word.count_ones().into());
        differing = differing.saturating_add(usize::from(word != 0));
        seen = seen.saturating_add(1);
        // Nearly all words are to differ.
        seen.saturating_sub(differing) <= 1
    });
    let share = bits.saturating_mul(256).div_ceil(SAMPLED_WORDS.wrapping_mul(64) as u64);
    let (first, last) = (u64::from(*bounds.start()), u64::from(*bounds.end()));
    let is_inside =
        share >= first.saturating_add(SAMPLE_MARGIN) && share.saturating_add(SAMPLE_MARGIN) <= last;
    seen == SAMPLED_WORDS && is_inside
}

/// Bytes of a sample that says whether a coder finds anything to save.
const SAMPLED_BYTES: usize = 64;

/// How many of them are unlike, at least, where they are random: on average 57 are.
const UNLIKE_BYTES: u32 = 48;

/// Whether the XOR of two images looks random where they differ, so that no coder makes it shorter.
/// A sample of the runs that differ says so: random bytes are hardly ever the same.
#[must_use]
pub fn xor_is_random(images: &Images<'_>) -> bool {
    let bytes = images.changed.runs().flat_map(|run| {
        let start = run.at as usize;
        let range = start..start.saturating_add(run.len as usize);
        let old = images.old.get(range.clone()).unwrap_or_default();
        let new = images.new.get(range).unwrap_or_default();
        old.iter().zip(new).map(|(old, new)| old ^ new)
    });
    let lengths = images.changed.runs().map(|run| run.len as usize);
    let all = lengths.fold(0, usize::saturating_add);
    let step = (all / SAMPLED_BYTES).max(1);
    let (mut seen, mut sampled) = ([0_u64; 4], 0_usize);
    for byte in bytes.step_by(step).take(SAMPLED_BYTES) {
        let [word, bit] = [usize::from(byte / 64), usize::from(byte % 64)];
        if let Some(word) = seen.get_mut(word) {
            *word |= 1 << bit;
        }
        sampled = sampled.saturating_add(1);
    }
    let kinds: u32 = seen.iter().map(|word| word.count_ones()).sum();
    sampled == SAMPLED_BYTES && kinds >= UNLIKE_BYTES
}

/// Payloads that are not worth the search for a shorter one.
pub const SHORT_BYTES: usize = 16;

/// The old and the new image of an update, and where they differ.
#[derive(Clone, Copy, Debug)]
pub struct Images<'a> {
    /// The committed one.
    pub old: &'a [u8],
    /// The new one, as long.
    pub new: &'a [u8],
    /// Every word in which they differ.
    pub changed: &'a Changed,
}

impl Form {
    /// All forms.
    pub const ALL: [Self; 6] =
        [Self::Runs, Self::Words, Self::Xor, Self::Complement, Self::Moves, Self::SubBlocks];

    /// The form of a payload, by its first byte.
    #[must_use]
    pub fn of(payload: &[u8]) -> Option<Self> {
        let first = payload.first()?;
        Self::ALL.into_iter().find(|form| *form as u8 == *first)
    }

    /// How many bytes it takes at most behind the header, where that is known without encoding.
    #[must_use]
    pub fn bound(self, changed: &Changed) -> Option<usize> {
        match self {
            Self::Runs => Some(runs::bound(changed)),
            Self::Words => Some(bitmap::bound(changed, Unit::WORD)),
            Self::SubBlocks => Some(bitmap::bound(changed, Unit::SUB_BLOCK)),
            Self::Xor | Self::Complement | Self::Moves => None,
        }
    }

    fn encode(self, images: &Images<'_>, out: &mut [u8]) -> Result<usize, NoRoom> {
        let Images { old, new, changed } = *images;
        match self {
            Self::Runs => runs::encode(changed, Some(old), new, out),
            Self::Words => bitmap::encode(changed, Unit::WORD, new, out),
            Self::SubBlocks => bitmap::encode(changed, Unit::SUB_BLOCK, new, out),
            Self::Moves => moves::encode(old, new, &mut MovesTable::new(), out),
            Self::Xor | Self::Complement => {
                let encoded = scratch::with(new.len(), |both| {
                    // Where nothing differs it is zero, as the room is.
                    for run in changed.runs() {
                        let range = run.at as usize..run.at.saturating_add(run.len) as usize;
                        let parts = (old.get(range.clone()), new.get(range.clone()));
                        let ((Some(old), Some(new)), Some(both)) = (parts, both.get_mut(range))
                        else {
                            return Err(NoRoom);
                        };
                        xor::into(old, new, both).map_err(|_| NoRoom)?;
                    }
                    if self == Self::Complement {
                        complement(both);
                    }
                    lzo::encode_once(both, out)
                });
                encoded.unwrap_or(Err(NoRoom))
            }
        }
    }

    fn decode(self, data: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        match self {
            Self::Runs => runs::apply(data, block),
            Self::Words => Ok(bitmap::apply(data, Unit::WORD, block)?),
            Self::SubBlocks => Ok(bitmap::apply(data, Unit::SUB_BLOCK, block)?),
            Self::Moves => moves::apply(data, block),
            Self::Xor | Self::Complement => {
                let decoded = scratch::with(block.len(), |both| {
                    lzo::decode(data, both)?;
                    if self == Self::Complement {
                        complement(both);
                    }
                    Ok(xor::in_place(block, both)?)
                });
                decoded.unwrap_or(Err(ApplyError::WrongBase))
            }
        }
    }
}

fn complement(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

/// Puts a payload into an encoder that is empty.
///
/// # Errors
/// [`NoRoom`]; what the encoder holds then is to be cleared.
pub fn put(
    kernels: &impl Kernels,
    form: Form,
    images: &Images<'_>,
    out: &mut Encoder<'_>,
) -> Result<(), NoRoom> {
    Between::new(kernels, form as u8, images.old, images.new).put(out)?;
    out.put_with(|room| form.encode(images, room)).map(drop)
}

/// Puts a payload of what patches change in an image into an encoder that is empty. The new image
/// need not be there; the payload is as one of [`Form::Runs`]. The image comes with its check,
/// `crc64(0, old)`, where that is known. Says whether the patches change anything: otherwise the
/// encoder is to be cleared.
///
/// # Errors
/// [`NoRoom`], also where a patch does not lie in the image; the encoder is to be cleared.
pub fn put_patches(
    kernels: &impl Kernels,
    (old, old_check): (&[u8], Option<u64>),
    patches: &[Patch<'_>],
    out: &mut Encoder<'_>,
) -> Result<bool, NoRoom> {
    let is_same = |patch: &Patch<'_>| {
        let start = patch.at as usize;
        let replaced = old.get(start..start.saturating_add(patch.bytes.len()));
        replaced.is_some_and(|replaced| replaced == patch.bytes)
    };
    if patches.iter().all(is_same) {
        return Ok(false);
    }
    let form = Form::Runs as u8;
    let between = Between::of_patches(kernels, form, (old, old_check), patches).ok_or(NoRoom)?;
    between.put(out)?;
    runs::put_differing(old, patches, out)?;
    Ok(true)
}

/// Puts a payload of another form in the place of the one that an encoder holds, if it is shorter;
/// says whether it is.
pub fn put_if_shorter(form: Form, images: &Images<'_>, out: &mut Encoder<'_>) -> bool {
    let Some(longest) = out.as_bytes().len().checked_sub(HEADER_BYTES.saturating_add(1)) else {
        return false;
    };
    let header = out.as_bytes().first_chunk().copied();
    let Some([_, header @ ..]): Option<[u8; HEADER_BYTES]> = header else { return false };
    let put = scratch::with(longest, |room| {
        let bytes = form.encode(images, room)?;
        let encoded = room.get(..bytes).ok_or(NoRoom)?;
        out.clear();
        out.put(&[form as u8])?;
        out.put(&header)?;
        out.put(encoded)
    });
    matches!(put, Some(Ok(())))
}

/// Puts the shortest payload of these forms into an encoder that is empty. Those behind one that is
/// no longer than [`SHORT_BYTES`] are not tried.
///
/// # Errors
/// [`NoRoom`] for all of them; what the encoder holds then is to be cleared.
pub fn put_shortest(
    kernels: &impl Kernels,
    forms: &[Form],
    images: &Images<'_>,
    out: &mut Encoder<'_>,
) -> Result<(), NoRoom> {
    let mut is_put = false;
    for form in forms {
        if is_put && out.as_bytes().len() <= SHORT_BYTES {
            break;
        }
        if is_put {
            put_if_shorter(*form, images, out);
            continue;
        }
        out.clear();
        is_put = put(kernels, *form, images, out).is_ok();
    }
    if is_put { Ok(()) } else { Err(NoRoom) }
}

/// Applies a payload to a block, or leaves a block as it is that the payload does not begin with.
///
/// # Errors
/// `Malformed`, `OutOfBlock`, `WrongBase`. The block then holds anything.
pub fn apply(kernels: &impl Kernels, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
    let form = Form::of(payload).ok_or(ApplyError::Malformed { at: 0 });
    between::apply(kernels, payload, block, |_, data, block| form?.decode(data, block))
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

    const KERNELS: &PortableKernels = &PortableKernels;

    fn with_images<R>(old: &[u8], new: &[u8], call: impl FnOnce(&Images<'_>) -> R) -> R {
        let changed = Changed::between(KERNELS, old, new).expect("a block");
        call(&Images { old, new, changed: &changed })
    }

    fn payload(form: Form, old: &[u8], new: &[u8]) -> Vec<u8> {
        let mut room = vec![0; 2 * new.len() + 64];
        let mut out = Encoder::new(&mut room);
        with_images(old, new, |images| put(KERNELS, form, images, &mut out)).expect("has room");
        out.as_bytes().to_vec()
    }

    #[test]
    fn every_form_leads_to_the_new_image() {
        for len in [64, 200, 4096] {
            let (old, other) = (samples::noise(1, len), samples::noise(2, len));
            let mut near = old.clone();
            near[len / 2] ^= 1;
            for new in [&near, &other, &old] {
                for form in Form::ALL {
                    let payload = payload(form, &old, new);
                    assert_eq!(Form::of(&payload), Some(form));
                    let mut block = old.clone();
                    assert_eq!(apply(KERNELS, &payload, &mut block), Ok(()), "{form:?}");
                    assert_eq!(&block, new, "{form:?}");
                    let bound = with_images(&old, new, |images| form.bound(images.changed));
                    assert!(bound.is_none_or(|bound| payload.len() <= HEADER_BYTES + bound));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn patches_on_an_old_image_lead_to_the_new_one(
            places in prop::collection::btree_map(0_usize..24, (0_usize..=16, any::<u64>()), 0..8),
        ) {
            // Of few values, so that many bytes stay as they are.
            let few = |seed, len| -> Vec<u8> {
                samples::noise(seed, len).iter().map(|byte| byte & 1).collect()
            };
            let old = few(1, 24 * 16 + 5);
            let mut new = old.clone();
            let bytes: Vec<_> = places
                .iter()
                .map(|(at, (len, seed))| (at * 16, few(*seed, *len)))
                .collect();
            let patches: Vec<_> = bytes
                .iter()
                .filter(|(_, bytes)| !bytes.is_empty())
                .map(|(at, bytes)| Patch { at: *at as u32, bytes })
                .collect();
            for patch in &patches {
                new[patch.at as usize..][..patch.bytes.len()].copy_from_slice(patch.bytes);
            }
            let mut room = vec![0; 1024];
            let mut out = Encoder::new(&mut room);
            let put = put_patches(KERNELS, (&old, None), &patches, &mut out);
            prop_assert_eq!(put, Ok(new != old));
            let mut room = vec![0; 1024];
            let mut by_check = Encoder::new(&mut room);
            let known = (old.as_slice(), Some(KERNELS.crc64(0, &old)));
            prop_assert_eq!(put_patches(KERNELS, known, &patches, &mut by_check), put);
            prop_assert_eq!(by_check.as_bytes(), out.as_bytes());
            if new != old {
                let mut block = old.clone();
                prop_assert_eq!(apply(KERNELS, out.as_bytes(), &mut block), Ok(()));
                prop_assert!(block == new);
                let run = |patch: &Patch<'_>| runs::RUN_BYTES + patch.bytes.len();
                let runs: usize = patches.iter().map(run).sum();
                prop_assert!(out.as_bytes().len() <= HEADER_BYTES + runs);
            }
        }
    }

    #[test]
    fn only_what_is_shorter_is_kept() {
        // All bytes are moved by one.
        let old = samples::noise(3, 512);
        let mut new = old.clone();
        new.rotate_right(1);
        let mut room = [0; 1024];
        let mut out = Encoder::new(&mut room);
        with_images(&old, &new, |images| {
            put(KERNELS, Form::Runs, images, &mut out).expect("has room");
            let runs = out.as_bytes().to_vec();
            assert!(!put_if_shorter(Form::Xor, images, &mut out));
            assert_eq!(out.as_bytes(), runs);
            assert!(put_if_shorter(Form::Moves, images, &mut out));
            assert!(out.as_bytes().len() < 32 && Form::of(out.as_bytes()) == Some(Form::Moves));
            assert!(!put_if_shorter(Form::Moves, images, &mut out), "as short is not shorter");
        });
        let mut block = old.clone();
        assert_eq!(apply(KERNELS, out.as_bytes(), &mut block), Ok(()));
        assert_eq!(block, new);
        out.clear();
        with_images(&old, &new, |images| {
            assert!(!put_if_shorter(Form::Moves, images, &mut out), "there is nothing");
        });
    }

    #[test]
    fn a_sample_says_where_no_coder_saves_anything() {
        let old = samples::noise(1, 4096);
        let is_random = |new: &[u8]| with_images(&old, new, xor_is_random);
        let mut new = old.clone();
        new[1000..1410].copy_from_slice(&samples::noise(2, 410));
        assert!(is_random(&new));
        // One bit of each byte, bytes that were zero, and a change too short to tell.
        let bits: Vec<u8> = old.iter().map(|byte| byte ^ 1).collect();
        assert!(!is_random(&bits));
        let mut text = old.clone();
        text.iter_mut().zip(b"a line of text, ".iter().cycle()).for_each(|(at, byte)| *at ^= byte);
        assert!(!is_random(&text));
        let mut short = old.clone();
        short[8..40].copy_from_slice(&samples::noise(3, 32));
        assert!(!is_random(&short));
        assert!(!is_random(&old));
    }

    proptest! {
        #[test]
        fn any_payload_gives_a_result(
            form in 0_u8..9,
            data in prop::collection::vec(any::<u8>(), 0..300),
            seed in any::<u8>(),
        ) {
            // One that the block is the base of, so that it is looked at.
            let mut block = vec![seed; 256];
            let mut payload = self::payload(Form::Runs, &block, &samples::noise(4, 256));
            payload.truncate(HEADER_BYTES);
            payload[0] = form;
            payload.extend(data);
            let applied = apply(KERNELS, &payload, &mut block);
            prop_assert!(applied.is_err() || block == samples::noise(4, 256));
            prop_assert_eq!(block.len(), 256);
        }
    }
}
