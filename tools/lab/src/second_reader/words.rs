//! A policy for tests: an update that changes at most three words of a block is encoded as those
//! words, anything else is a whole image.
//!
//! Golden journals hold what it encodes, so it stays as it is.

use journal_core::WORD_BYTES;
use journal_core::policy::{ApplyError, Change, Encoder, Placement, Policy, PolicyId, Update};

#[derive(Clone, Copy, Debug)]
pub struct Words;

/// Bytes of one encoded word: its index in the block, and its content.
const ENCODED: usize = 2 + WORD_BYTES;

const WORDS_MAX: usize = 3;

impl Policy for Words {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E57)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let (Change::Image(new), Some(old)) = (update.change, update.old) else {
            return Placement::Image;
        };
        let words = (0_u16..).zip(new.chunks(WORD_BYTES).zip(old.chunks(WORD_BYTES)));
        let changed = words.filter(|(_, (new, old))| new != old);
        match changed.clone().count() {
            0 => return Placement::Unchanged,
            1..=WORDS_MAX => {}
            _ => return Placement::Image,
        }
        for (index, (new, _)) in changed {
            let encoded = out.put(&index.to_le_bytes()).and_then(|()| out.put(new));
            if encoded.is_err() {
                return Placement::Image;
            }
        }
        Placement::Encoded
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
