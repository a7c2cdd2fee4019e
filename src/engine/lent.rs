//! Old images that are lent to the policy: it sees the page that the cache keeps, and no copy.
//!
//! L1. An image is lent under the lock of its share of the index, for as long as the policy is
//!     asked. It is what is committed: the transaction has the block, so that no other one changes
//!     it.
//! L2. A page may be evicted between a write and the commit. The transaction then ends its loans:
//!     it keeps copies, and makes images of what was patched.
//! L3. A policy that is asked twice must see the same. So loans end as well where a record has
//!     several parts, or where something goes to the disk before it.
//!     Where the policy may send data elsewhere, a call with all operations at hand lends nothing.
//! L4. Nothing is lent where anything is gathered, since that is newer than what is kept.

use journal_core::parts::{Goes, Lead, Operations, Prepared};
use journal_core::policy::Policy;
use journal_core::{BlockNumber, CommitError, Durability, Kernels as _, Rule};

use crate::engine::commit::Recorded;
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::cache::kept::Kept;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::shared::share::Share;
use crate::staging::pages::Page;
use crate::staging::seat::Seat;
use crate::staging::work::Work;

impl<L, M: Machine> Shared<L, M> {
    /// Calls with the committed image of a block that the caller has locked, where the cache has
    /// it. The share of the index stays locked meanwhile, so that no eviction takes the image.
    ///
    /// Nothing is lent of a block that is to be logged whole: a new image ends what is wrong with
    /// the block, or cuts off its long chain of frames.
    pub(crate) fn with_kept<R>(
        &self,
        block: BlockNumber,
        call: impl FnOnce(Option<&[u8]>) -> R,
    ) -> R {
        self.with_kept_page(block, |kept| call(kept.map(|kept| kept.image())))
    }

    /// Like [`with_kept`](Self::with_kept). Where that is asked for, and the policy uses it, the
    /// image comes with its check.
    pub(crate) fn with_kept_and_check<R>(
        &self,
        block: BlockNumber,
        with_check: bool,
        call: impl FnOnce(Option<(&[u8], Option<u64>)>) -> R,
    ) -> R {
        self.with_kept_page(block, |kept| match kept {
            Some(kept) if with_check && self.keeps_checks => {
                let (image, check) = kept.with_check(|image| self.common.kernels.crc64(0, image));
                call(Some((image, Some(check))))
            }
            kept => call(kept.map(|kept| (kept.image(), None))),
        })
    }

    fn with_kept_page<R>(
        &self,
        block: BlockNumber,
        call: impl FnOnce(Option<&mut Kept>) -> R,
    ) -> R {
        if !self.caches {
            return call(None);
        }
        let Ok(mut share) = self.lock_share(block) else { return call(None) };
        let kept = self.lent_of(&mut share, block);
        let is_there = kept.is_some();
        let result = call(kept);
        if let (true, Some(cache)) = (is_there, &mut share.cache) {
            cache.asked.hits += 1;
        }
        result
    }

    /// Takes the page that [`with_kept`](Self::with_kept) would lend, for another one. The caller
    /// makes it the block's new content, and the cache gets it back when that is committed. Until
    /// then readers build the content anew.
    pub(crate) fn take_kept(&self, block: BlockNumber, page: &mut Page) -> bool {
        // What is pinned stays for readers.
        if !self.caches || self.pins {
            return false;
        }
        let Ok(mut share) = self.lock_share(block) else { return false };
        if self.lent_of(&mut share, block).is_none() {
            return false;
        }
        let newest = self.newest_readable(&share, block);
        let newest = newest.map(|newest| share.index.frame(newest).stamp);
        share.cache.as_mut().is_some_and(|cache| cache.take(block, newest, page))
    }

    /// What [`with_kept`](Self::with_kept) lends of a block of this share.
    pub(crate) fn lent_of<'s>(
        &self,
        share: &'s mut Share,
        block: BlockNumber,
    ) -> Option<&'s mut Kept> {
        if !self.caches {
            return None;
        }
        let lead = share.index.lead(block);
        self.lent_by(share, block, lead)
    }

    /// Like [`lent_of`](Self::lent_of), where the block was looked up in the index.
    pub(crate) fn lent_by<'s>(
        &self,
        share: &'s mut Share,
        block: BlockNumber,
        lead: Option<Lead>,
    ) -> Option<&'s mut Kept> {
        let is_unreadable = lead.is_some_and(|lead| lead.is_unreadable());
        let mut is_whole = || is_unreadable || share.ends_chain_of(block, self.whole_after);
        if !self.caches || self.gathering.has_any() || is_whole() {
            return None;
        }
        let newest = self.readable_from(share, lead.map(|lead| lead.newest()));
        let newest = newest.map(|newest| share.index.frame(newest).stamp);
        let cache = share.cache.as_mut()?;
        if !self.keeps(Rule::ComparedWithCommitted) {
            return cache.find_any(block);
        }
        cache.find(block, newest)
    }
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// How many bytes of patches of a block the policy takes on an old image that it is lent.
    pub(crate) fn patch_bytes_on_old(&self) -> usize {
        self.common.policy.patch_bytes_on_old(self.common.block_bytes())
    }

    /// How many bytes of patches a block may have that has no image.
    pub(crate) fn patch_bytes_max(&self) -> usize {
        let logs_patches = self.common.policy.logs_patches();
        if logs_patches { usize::MAX } else { self.patch_bytes_on_old() }
    }

    /// Makes the image of a block that has nothing but patches in this transaction.
    #[cold]
    pub(crate) fn build_image(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        block: BlockNumber,
    ) -> Result<(), Error> {
        if !seat.staged.is_patched(block) {
            return Ok(());
        }
        let (reading, spare) = seat.for_reading_spare();
        let is_live = self.read(reading, block, spare)?;
        if is_live && self.common.policy.wants_old() {
            seat.staged.keep_spare_as_old(block);
        }
        seat.staged.build_image(block);
        Ok(())
    }

    /// Keeps the committed images that were lent until now, and makes images of what is patched.
    #[cold]
    pub(crate) fn end_loans(&self, seat: &mut Seat<DiskOf<M>>) -> Result<(), Error> {
        for (block, kind) in seat.staged.end_loans() {
            if seat.staged.is_patched(block) {
                self.build_image(seat, block)?;
            } else if self.common.policy.wants_old() {
                self.keep_old(seat, block, kind)?;
            } else {
                self.keep_cached_old(seat, block, kind)?;
            }
        }
        Ok(())
    }

    /// Whether what is committed of a block that the caller has locked can be lent to the policy.
    pub(crate) fn lends_old(&self, block: BlockNumber) -> bool {
        self.caches
            && self
                .lock_share(block)
                .is_ok_and(|mut share| self.lent_of(&mut share, block).is_some())
    }

    /// Whether bytes of a block that the caller has locked are these already, as far as the cache
    /// says.
    pub(crate) fn has_kept(&self, block: BlockNumber, at: usize, bytes: &[u8]) -> bool {
        self.with_kept(block, |kept| kept.is_some_and(|kept| kept[at..][..bytes.len()] == *bytes))
    }

    /// Commits a staged transaction to which old images are lent, like
    /// [`commit_ready`](Self::commit_ready).
    #[inline]
    pub(crate) fn commit_on_loans(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        durability: Durability,
        error: &mut Option<Error>,
    ) -> Option<Recorded> {
        let Seat { staged, work, .. } = &mut *seat;
        let recorded = staged.ready(|ready| self.commit_lent(work, ready, durability, error));
        if recorded.is_some() || error.is_some() {
            return recorded;
        }
        match self.prepare_lent(seat) {
            Ok(prepared) => {
                let Seat { staged, work, .. } = &mut *seat;
                staged.ready(|ready| self.commit_ready(work, ready, prepared, durability, error))
            }
            Err(one) => {
                *error = Some(one);
                None
            }
        }
    }

    /// Prepares a staged transaction to which old images are lent. `None` where its loans had to
    /// end. After an error the transaction is over.
    fn prepare_lent(
        &self,
        seat: &mut Seat<DiskOf<M>>,
    ) -> Result<Option<Result<Prepared, CommitError>>, Error> {
        let Seat { staged, work, .. } = &mut *seat;
        // A policy that bypasses may be asked twice, and images have to be there (L3).
        let prepared = match work.bypasses {
            true => None,
            false => staged.ready(|operations| self.prepare_on_loans(work, operations)),
        };
        if prepared.is_none() {
            if let Err(error) = self.end_loans(seat) {
                self.abort(&mut seat.work, &seat.staged);
                return Err(error);
            }
        }
        Ok(prepared)
    }

    /// Prepares a transaction whose old images are lent to the policy. `None` where they are not
    /// all there any more (L2), or where the policy will be asked again (L3).
    #[inline]
    pub(super) fn prepare_on_loans<O: Operations + ?Sized>(
        &self,
        work: &mut Work,
        operations: &O,
    ) -> Option<Result<Prepared, CommitError>> {
        work.is_lent_all = true;
        let prepared = self.prepare_and_reserve(work, operations, Goes::ByPolicy);
        let is_asked_once =
            prepared.as_ref().is_ok_and(|prepared| !prepared.is_ahead() && prepared.is_one_part());
        let is_known = is_asked_once || prepared == Err(CommitError::Unchanged);
        if work.is_lent_all && is_known {
            return Some(prepared);
        }
        self.unreserve_slots_and_log(work);
        None
    }
}
