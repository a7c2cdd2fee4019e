//! Runs of bytes: each behind its place and its length.
//!
//! A run is two little-endian numbers of 16 bits, its place in the block and its length less one,
//! and its bytes. Runs ascend and do not overlap. They carry new bytes as they are, so that they
//! may meet an image that already has them.

use journal_core::policy::{ApplyError, Encoder, NoRoom, Patch};

/// Bytes before those of a run.
pub const RUN_BYTES: usize = 4;

/// Appends a run for each patch that is not empty.
///
/// # Errors
/// [`NoRoom`]; some runs may have been put.
pub fn put<'a>(
    patches: impl IntoIterator<Item = Patch<'a>>,
    out: &mut Encoder<'_>,
) -> Result<(), NoRoom> {
    for patch in patches {
        let Some(last) = patch.bytes.len().checked_sub(1) else { continue };
        let at = u16::try_from(patch.at).map_err(|_| NoRoom)?;
        let last = u16::try_from(last).map_err(|_| NoRoom)?;
        out.put(&at.to_le_bytes())?;
        out.put(&last.to_le_bytes())?;
        out.put(patch.bytes)?;
    }
    Ok(())
}

/// Writes runs into a block.
///
/// # Errors
/// `Malformed` where a run breaks off or does not ascend, `OutOfBlock`. The block then holds
/// anything.
pub fn apply(payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
    let (mut rest, mut free_from) = (payload, 0_usize);
    while !rest.is_empty() {
        let at = payload.len().saturating_sub(rest.len());
        let malformed = ApplyError::Malformed { at };
        let (head, behind) = rest.split_first_chunk::<RUN_BYTES>().ok_or(malformed)?;
        let [place, place_high, last, last_high] = *head;
        let start = usize::from(u16::from_le_bytes([place, place_high]));
        let bytes = usize::from(u16::from_le_bytes([last, last_high])).saturating_add(1);
        if start < free_from {
            return Err(malformed);
        }
        free_from = start.saturating_add(bytes);
        let into = block.get_mut(start..free_from).ok_or(ApplyError::OutOfBlock { at })?;
        let (bytes, behind) = behind.split_at_checked(bytes).ok_or(malformed)?;
        into.copy_from_slice(bytes);
        rest = behind;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_is_applied(
            old in prop::collection::vec(any::<u8>(), 256),
            lens in prop::collection::vec((0_usize..40, 0_usize..40), 0..6),
        ) {
            let mut new = old.clone();
            let (mut at, mut places) = (0, Vec::new());
            for (gap, len) in lens {
                at += gap;
                if at + len > new.len() {
                    break;
                }
                new[at..at + len].iter_mut().for_each(|byte| *byte = byte.wrapping_add(7));
                places.push((at, len));
                at += len;
            }
            let patches: Vec<Patch<'_>> = places
                .iter()
                .map(|(at, len)| Patch { at: *at as u32, bytes: &new[*at..at + len] })
                .collect();
            let mut room = vec![0; 512];
            let mut out = Encoder::new(&mut room);
            prop_assert_eq!(put(patches, &mut out), Ok(()));
            let mut block = old;
            prop_assert_eq!(apply(out.as_bytes(), &mut block), Ok(()));
            prop_assert_eq!(&block, &new);
            // Once more changes nothing.
            prop_assert_eq!(apply(out.as_bytes(), &mut block), Ok(()));
            prop_assert_eq!(block, new);
        }

        #[test]
        fn any_bytes_are_applied_or_refused(
            payload in prop::collection::vec(any::<u8>(), 0..64),
            len in 0_usize..128,
        ) {
            let _ = apply(&payload, &mut vec![0; len]);
        }
    }

    #[test]
    fn runs_that_overlap_break_off_or_leave_the_block_are_refused() {
        let apply_to_8 = |payload: &[u8]| apply(payload, &mut [0; 8]);
        assert_eq!(
            apply_to_8(&[0, 0, 1, 0, 9, 9, 1, 0, 0, 0, 9]),
            Err(ApplyError::Malformed { at: 6 })
        );
        assert_eq!(apply_to_8(&[0, 0, 1, 0, 9]), Err(ApplyError::Malformed { at: 0 }));
        assert_eq!(apply_to_8(&[0, 0]), Err(ApplyError::Malformed { at: 0 }));
        assert_eq!(apply_to_8(&[7, 0, 1, 0, 9, 9]), Err(ApplyError::OutOfBlock { at: 0 }));
        assert_eq!(apply_to_8(&[]), Ok(()));
    }
}
