//! Whole blocks: every update is logged as the block's new image, as JBD2 does.
//!
//! It has whole images, transactions and checkpoints, as a block journal has. Instead of a
//! descriptor block and a commit block, one checked record and one fence commit a transaction.
//!
//! - **Costs** a block and 16 bytes per update in persistent memory, and per record a header line
//!   and a check. One block of 4 KiB takes 66 lines. No memory beside the index.
//! - **Choose it** when most of a block changes with every update, or when nothing is known of what
//!   changed. Or choose it as the baseline that the other policies are measured against.
//!
//! An update that leaves the block as it was is not logged, where the store gives the old image.
//! [`Settings::compares`] adds: where the journal keeps the old one in ordinary memory. By default
//! it never asks for one, since a baseline logs what it is given.

#![no_std]
#![forbid(unsafe_code)]

use journal_core::policy::{ApplyError, Encoder, Placement, Policy, PolicyId, Update};

/// Settings of the policy, each with its default. None of it is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    compares: bool,
}

impl Settings {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { compares: false }
    }

    /// Whether an image is compared with the old one, where the journal keeps that in ordinary
    /// memory. If the two are the same, nothing is logged. The comparison ends with the first byte
    /// that differs. Off.
    #[must_use]
    pub const fn compares(mut self, compares: bool) -> Self {
        self.compares = compares;
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

/// The policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullBlock {
    settings: Settings,
}

/// The policy with its default settings.
#[allow(non_upper_case_globals, reason = "a policy without settings is named like its type")]
pub const FullBlock: FullBlock = FullBlock::new();

impl FullBlock {
    /// Its number in the superblock.
    pub const ID: PolicyId = PolicyId(1);

    /// The policy with its default settings.
    #[must_use]
    pub const fn new() -> Self {
        Self::with(Settings::new())
    }

    /// The policy with these settings.
    #[must_use]
    pub const fn with(settings: Settings) -> Self {
        Self { settings }
    }

    /// What it was made with.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
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

    fn wants_cached_old(&self) -> bool {
        self.settings.compares
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
    fn it_asks_for_old_images_that_are_kept_if_it_is_set() {
        let compares = FullBlock::with(Settings::new().compares(true));
        assert!(compares.wants_cached_old() && !compares.wants_old());
        assert!(!FullBlock.wants_cached_old() && !FullBlock.settings().compares);
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
