//! Whole blocks: every update is logged as the block's new image, as JBD2 does.
//!
//! - **Costs** a block and 16 bytes per update in persistent memory, and per record a header line
//!   and a check. One block of 4 KiB takes 66 lines. No memory beside the index.
//! - **Choose it** when most of a block changes with every update, or when nothing is known of what
//!   changed. Or choose it as the baseline that the other policies are measured against.
//!
//! An update that leaves the block as it was is not logged, where the store gives the old image. It
//! never asks for one, and has no setting for that: a baseline logs what it is given.

#![no_std]
#![forbid(unsafe_code)]

use journal_core::policy::{ApplyError, Encoder, Placement, Policy, PolicyId, Update};

/// The policy. It has no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullBlock;

impl FullBlock {
    /// Its number in the superblock.
    pub const ID: PolicyId = PolicyId(1);
}

impl Policy for FullBlock {
    fn id(&self) -> PolicyId {
        Self::ID
    }

    fn place(&self, update: &Update<'_>, _out: &mut Encoder<'_>) -> Placement {
        let is_same = update.old.is_some() && update.change.image() == update.old;
        if is_same || update.change.is_nothing() { Placement::Unchanged } else { Placement::Image }
    }

    fn logs_images(&self) -> bool {
        true
    }

    fn logs_whole_blocks(&self) -> bool {
        true
    }

    fn apply(&self, _payload: &[u8], _block: &mut [u8]) -> Result<(), ApplyError> {
        // It encodes nothing, so there is nothing that it could have encoded.
        Err(ApplyError::Malformed { at: 0 })
    }
}

#[cfg(test)]
mod tests {
    use journal_core::BlockNumber;
    use journal_core::policy::{Change, Patch, Span};

    use super::*;

    #[test]
    fn an_update_that_changes_nothing_is_not_logged() {
        let place = |old| {
            let mut update = Update::new(BlockNumber(0), Change::Image(&[1; 64]));
            update.old = old;
            FullBlock.place(&update, &mut Encoder::new(&mut []))
        };
        assert_eq!(place(None), Placement::Image);
        assert_eq!(place(Some(&[2; 64])), Placement::Image);
        assert_eq!(place(Some(&[1; 64])), Placement::Unchanged);
    }

    #[test]
    fn ranges_are_logged_as_the_image_they_come_with() {
        let place = |change| {
            let update = Update::new(BlockNumber(0), change);
            FullBlock.place(&update, &mut Encoder::new(&mut []))
        };
        let image = &[1; 64];
        let ranges = [Span { at: 3, len: 4 }];
        assert_eq!(place(Change::Ranges { image, ranges: &ranges }), Placement::Image);
        assert_eq!(place(Change::Ranges { image, ranges: &[] }), Placement::Unchanged);
        // The core refuses that: there is no image.
        let patches = [Patch { at: 3, bytes: &[1; 4] }];
        assert_eq!(place(Change::Patches(&patches)), Placement::Image);
    }
}
