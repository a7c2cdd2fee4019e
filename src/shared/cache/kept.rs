//! What is kept of one block.

use journal_core::BlockNumber;
use journal_core::units::Stamp;

use crate::staging::pages::Page;

/// What is kept of a block. It is one line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Kept {
    pub(super) image: Page,
    pub(super) block: BlockNumber,
    /// The stamp of the frame that it is up to; zero for content that is home.
    pub(super) stamp: Stamp,
    /// The stamp of the first frame that it is not up to, where it is stale. Then it is memory for
    /// the next content of the block, which mostly comes at once.
    pub(super) missing: Stamp,
    /// The check of the image, `crc64(0, image)`, where it is known (CA4).
    pub(super) check: u64,
    pub(super) is_checked: bool,
    pub(super) is_stale: bool,
    /// Whether it was read since the hand came by.
    pub(super) is_used: bool,
}

impl Kept {
    pub(super) fn new(block: BlockNumber, stamp: Stamp, image: Page) -> Self {
        let missing = Stamp(0);
        let (is_checked, is_stale, is_used) = (false, false, false);
        Self { image, block, stamp, missing, check: 0, is_checked, is_stale, is_used }
    }

    /// Whether it counts, where this is the stamp of the newest frame that may be read (CA1).
    #[inline]
    pub(super) fn counts(&self, newest: Option<Stamp>) -> bool {
        !self.is_stale && newest.is_none_or(|newest| newest == self.stamp)
    }

    #[inline]
    pub(crate) fn image(&self) -> &[u8] {
        &self.image
    }

    /// The image with its check, which `check_of` computes where it is not known.
    pub(crate) fn with_check(&mut self, check_of: impl Fn(&[u8]) -> u64) -> (&[u8], u64) {
        if !self.is_checked {
            (self.check, self.is_checked) = (check_of(&self.image), true);
        }
        debug_assert_eq!(self.check, check_of(&self.image), "CA4");
        (&self.image, self.check)
    }
}
