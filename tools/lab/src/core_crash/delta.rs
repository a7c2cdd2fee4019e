//! Policies for tests: an update that changes one word of a block is encoded as that word, anything
//! else is a whole image, in the record or in the disk-side log.

use compressed_delta::CompressedDelta;
use journal_core::WORD_BYTES;
use journal_core::policy::{ApplyError, Encoder, Kind, Placement, Policy, PolicyId, Update};
use sim_disk::rng::mix;

#[derive(Clone, Copy, Debug)]
pub struct Words;

/// Bytes of one encoded word: its index in the block, and its content.
const ENCODED: usize = 2 + WORD_BYTES;

impl Policy for Words {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E57)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let (Some(new), Some(old)) = (update.change.image(), update.old) else {
            return Placement::Image;
        };
        let words = (0_u16..).zip(new.chunks(WORD_BYTES).zip(old.chunks(WORD_BYTES)));
        let changed = words.filter(|(_, (new, old))| new != old);
        if changed.clone().count() > 1 {
            return Placement::Image;
        }
        for (index, (new, _)) in changed {
            let encoded = out.put(&index.to_le_bytes()).and_then(|()| out.put(new));
            if encoded.is_err() {
                return Placement::Image;
            }
        }
        if new == old { Placement::Unchanged } else { Placement::Encoded }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        let words = payload.chunks_exact(ENCODED);
        if !words.remainder().is_empty() {
            return Err(ApplyError::Malformed { at: payload.len() });
        }
        for (at, word) in (0..).step_by(ENCODED).zip(words) {
            let index = usize::from(u16::from_le_bytes([word[0], word[1]]));
            let place = block.get_mut(index * WORD_BYTES..(index + 1) * WORD_BYTES);
            place.ok_or(ApplyError::OutOfBlock { at })?.copy_from_slice(&word[2..]);
        }
        Ok(())
    }
}

/// The policy of words, with whole images in the disk-side log.
#[derive(Clone, Copy, Debug)]
pub struct Logged;

impl Policy for Logged {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E58)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        match Words.place(update, out) {
            Placement::Image => Placement::DiskLog,
            other => other,
        }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        Words.apply(payload, block)
    }

    fn wants_log(&self) -> bool {
        true
    }

    fn keeps_in_slots(&self) -> bool {
        true
    }
}

/// Each of the ways there are, by what the new image is: differences that make sense on one image
/// only, whole images in slots, in the disk-side log, in the record and at home.
#[derive(Clone, Copy, Debug)]
pub struct Mixed;

impl Policy for Mixed {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E5A)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let Some(new) = update.change.image() else { return Placement::Image };
        let sum = new.iter().fold(0_u64, |sum, byte| mix(sum ^ u64::from(*byte)));
        match sum % 8 {
            0..=2 if update.old.is_some() => CompressedDelta::new().place(update, out),
            3 if update.kind == Kind::Append => Placement::Home,
            4 => Placement::Image,
            5 | 6 => Placement::Slot,
            _ => Placement::DiskLog,
        }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        CompressedDelta::new().apply(payload, block)
    }

    fn check(&self, payload: &[u8], block: &[u8]) -> Result<(), ApplyError> {
        CompressedDelta::new().check(payload, block)
    }

    fn wants_slots(&self) -> bool {
        true
    }

    fn wants_log(&self) -> bool {
        true
    }

    fn keeps_in_slots(&self) -> bool {
        true
    }

    fn bypasses_when_full(&self) -> bool {
        true
    }
}
