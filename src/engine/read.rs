//! Reading a block's newest committed content, beside writers and a checkpoint. What was read is
//! kept for the next reader.
//!
//! The payloads in the lanes are copied under the lock of the block's share of the index, which
//! keeps them from being forgotten meanwhile. The device is read without any lock. If the share has
//! changed by then, or the block is just being written home, the content may be a mixture, and is
//! read again.

mod clean;

use journal_core::parts::{
    FrameAt, NodeId, Operations, apply_frames, build_from_lanes, is_read_from_memory,
};
use journal_core::policy::{Change, Kind, Policy, Update};
use journal_core::record::Form;
use journal_core::{
    BlockDevice, BlockNumber, Committed, JournalError, Kernels as _, Operation, Rule,
};

use pmem_sys::StoreLockGuard;

use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::gathering::Stored;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::shared::lending::LanesOf;
use crate::shared::share::Share;
use crate::staging::old_images::is_image_alone;
use crate::staging::seat::{Reading, Seat};
use crate::staging::staged::Staged;
use crate::staging::work::Work;
use crate::threads::sync::Ordering;
use crate::threads::sync::thread::Patience;

/// The most blocks that are read from the device in one call.
const RUN_READ: usize = 64;

/// How often a reader looks again for what a committer is about to keep: some milliseconds.
const KEPT_SOON: u32 = 1 << 8;

/// How often the device is read without a lock; after that, with one.
const TRIES: u32 = 16;

/// What of a transaction is kept for readers when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// Patches and images.
    All,
    /// Patches. The caller keeps the images.
    Patches,
}

impl<L, M: Machine> Shared<L, M> {
    /// The newest frame of a block that may be read. At most one frame may not: that of the
    /// transaction that holds the block.
    pub(super) fn newest_readable(&self, share: &Share, block: BlockNumber) -> Option<NodeId> {
        self.readable_from(share, share.index.newest(block))
    }

    /// The first frame of a block's chain that may be read, from this one on.
    #[inline]
    pub(super) fn readable_from(&self, share: &Share, newest: Option<NodeId>) -> Option<NodeId> {
        let mut next = newest;
        while let Some(id) = next {
            if self.is_readable(&share.index.frame(id)) {
                return Some(id);
            }
            next = share.index.older(id);
        }
        None
    }

    /// Whether a frame may be read.
    #[inline]
    fn is_readable(&self, frame: &FrameAt) -> bool {
        self.lane(frame.lane).reach.is_readable(frame.sequence)
    }
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Reads what is committed; `into` is one block long. Returns whether the block is live, as far
    /// as the lanes say. Where a discard is the block's newest frame, the content may still change,
    /// although no thread writes it.
    pub(crate) fn read(
        &self,
        reading: Reading<'_, DiskOf<M>>,
        block: BlockNumber,
        into: &mut [u8],
    ) -> Result<bool, Error> {
        self.check_not_failed()?;
        if let Some(is_live) = self.read_gathered(block, into)? {
            return Ok(is_live);
        }
        let Reading { device, payload } = reading;
        let mut patience = Patience::default();
        let mut tries = 0;
        loop {
            let mut share = self.lock_share(block)?;
            self.prefetch_entry(&share, block);
            let newest = self.newest_readable(&share, block);
            if self.caches && self.look_up(&mut share, block, newest, 0, into) {
                self.note_use(&share, newest);
                return Ok(true);
            }
            if self.is_about_to_be_kept(&share, block, &patience)
                || self.may_lose_discard(&share, newest)
            {
                drop(share);
                self.check_not_failed()?;
                patience.pause();
                continue;
            }
            if let Some(cache) = &mut share.cache {
                cache.asked.misses += 1;
            }
            if newest.is_none() && self.read_clean(&share, block, into) {
                return Ok(true);
            }
            let Some(below) = self.build_from_lanes(&share, block, newest, payload, into)? else {
                return Ok(self.note_read(&mut share, block, newest, into));
            };
            if below == block && share.index.is_leaving(block) {
                // Waits until the batch is home. That is not long, and only for content that lies
                // on top of home.
                drop(share);
                self.check_not_failed()?;
                patience.pause();
                continue;
            }
            let changes = share.index.changes();
            let kept = (tries >= TRIES).then_some(share);
            device.read(below, into).map_err(Error::Device)?;
            let mut share = match kept {
                Some(share) => share,
                None => self.lock_share(block)?,
            };
            if share.index.changes() == changes {
                self.apply_frames(&share, newest, payload, into)?;
                let is_live = self.note_read(&mut share, block, newest, into);
                drop(share);
                if newest.is_none() {
                    self.keep_clean(block, into, changes)?;
                }
                return Ok(is_live);
            }
            tries += 1;
        }
    }

    /// Whether heads may just be passing the discard that a block's changes are built on. What is
    /// read now may be something else later.
    #[inline]
    fn may_lose_discard(&self, share: &Share, newest: Option<NodeId>) -> bool {
        self.heads_pass.load(Ordering::Acquire)
            && newest.is_some_and(|newest| share.index.is_on_discard(newest))
            && self.keeps(Rule::ShownZerosStay)
    }

    /// Whether a reader need only wait to find a block's content in ordinary memory: the block is
    /// pinned, and another thread is committing it. That is not long, and the reader does not rely
    /// on it.
    fn is_about_to_be_kept(&self, share: &Share, block: BlockNumber, waited: &Patience) -> bool {
        let Some(newest) = share.index.newest(block).filter(|_| self.pins) else { return false };
        let newest = share.index.frame(newest);
        // What lies in the disk-side log is read there.
        if self.is_readable(&newest) && !is_read_from_memory(newest.form) {
            return false;
        }
        let holder = self.blocks.holder_of(block);
        holder.is_some_and(|holder| !self.seats.is_own(holder)) && waited.rounds() < KEPT_SOON
    }

    /// Copies what is gathered of a block; returns whether the block is live then, or `None` where
    /// nothing is.
    #[inline]
    fn read_gathered(&self, block: BlockNumber, into: &mut [u8]) -> Result<Option<bool>, Error> {
        let read = self.gathering.read(block, into, |lane, active, stored, into| {
            self.lane(lane).reader.read_slot(active.slot(), into)?;
            // Behind its record the slot may have been given back already. Then the journal has
            // the block.
            Ok(stored == Stored::Not || self.common.is_content_of(active, into))
        });
        read.map_err(Error::Medium)
    }

    /// Reads neighbouring blocks, each as [`read`](Self::read) does. Those of which nothing is in
    /// the lanes are read from the device together.
    pub(crate) fn read_run(
        &self,
        mut reading: Reading<'_, DiskOf<M>>,
        first: BlockNumber,
        into: &mut [u8],
    ) -> Result<(), Error> {
        let block_bytes = self.common.block_bytes();
        let block_at = |at: usize| BlockNumber(first.raw() + at as u64);
        let mut at = 0;
        while at * block_bytes < into.len() {
            let behind = (into.len() / block_bytes).min(at + RUN_READ);
            let mut before = Vec::new();
            for next in at..behind {
                let Some(changes) = self.is_home_alone(block_at(next))? else { break };
                before.push(changes);
            }
            let count = before.len().max(1);
            let run = &mut into[at * block_bytes..][..count * block_bytes];
            if count > 1 {
                reading.device.read(block_at(at), run).map_err(Error::Device)?;
            }
            for (next, image) in run.chunks_exact_mut(block_bytes).enumerate() {
                let block = block_at(at + next);
                // Something may have come meanwhile.
                let is_as_before = count > 1 && self.is_home_alone(block)? == Some(before[next]);
                if !is_as_before {
                    self.read(reading.again(), block, image)?;
                }
            }
            at += count;
        }
        Ok(())
    }

    /// Whether a block's content is what is home, as far as the lanes say. If so, returns how often
    /// its share of the index has changed, for a second look.
    fn is_home_alone(&self, block: BlockNumber) -> Result<Option<u64>, Error> {
        self.check_not_failed()?;
        if self.gathering.has_any() && self.gathering.has(block) {
            return Ok(None);
        }
        let share = self.lock_share(block)?;
        let is_alone = share.index.newest(block).is_none();
        Ok(is_alone.then(|| share.index.changes()))
    }

    /// Reads bytes of what the cache keeps of a block. Returns whether it keeps anything.
    pub(crate) fn read_kept(
        &self,
        block: BlockNumber,
        at: usize,
        into: &mut [u8],
    ) -> Result<bool, Error> {
        self.check_not_failed()?;
        if !self.caches {
            return Ok(false);
        }
        let share = self.lock_share(block)?;
        self.prefetch_entry(&share, block);
        self.read_kept_of(share, block, at, into)
    }

    /// Reads like [`read_kept`](Self::read_kept), with the block's share in hand.
    #[inline]
    pub(crate) fn read_kept_of(
        &self,
        mut share: StoreLockGuard<'_, Share>,
        block: BlockNumber,
        at: usize,
        into: &mut [u8],
    ) -> Result<bool, Error> {
        self.check_not_failed()?;
        if !self.caches || self.gathering.has_any() {
            return Ok(false);
        }
        let newest = self.newest_readable(&share, block);
        let is_there = self.look_up(&mut share, block, newest, at, into);
        if is_there {
            self.note_use(&share, newest);
        }
        Ok(is_there)
    }

    /// Keeps the committed image of a block that a transaction has and writes anew, for a policy
    /// that uses it. Only a live block has one; a block that cannot be read has none.
    pub(crate) fn keep_old(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        block: BlockNumber,
        kind: Kind,
    ) -> Result<(), Error> {
        if kind == Kind::Append {
            return Ok(());
        }
        if self.is_logged_whole(&seat.work, block)? {
            return Ok(());
        }
        let (reading, olds) = seat.for_reading_olds();
        // The block is locked, and its frame is reserved, but nothing staged says so yet.
        match self.fail_on_panic(|| olds.keep(block, |into| self.read(reading, block, into))) {
            Err(Error::Failed) => Err(Error::Failed),
            _ => Ok(()),
        }
    }

    /// Whether a block is to be logged whole: a new image ends what is wrong with the block, or
    /// cuts off its long chain of frames. What a cache has of it is nothing to build on.
    fn is_logged_whole(&self, work: &Work, block: BlockNumber) -> Result<bool, Error> {
        let mut share = self.lock_share(block)?;
        Ok(self.is_whole_in(&mut share, work, block))
    }

    fn is_whole_in(&self, share: &mut Share, work: &Work, block: BlockNumber) -> bool {
        share.index.is_unreadable(block)
            || !work.keeps_chains && share.ends_chain_of(block, self.whole_after)
    }

    /// Whether the policy compares images with those that are kept, and any are.
    #[inline]
    pub(crate) fn compares_cached(&self) -> bool {
        self.common.policy.wants_cached_old() && self.caches
    }

    /// Whether the next writer of a block looks for its last image.
    pub(crate) fn keeps_images(&self) -> bool {
        self.pins
            || self.common.policy.wants_old()
            || self.common.policy.wants_cached_old()
            || self.patch_bytes_on_old() > 0
    }

    /// Keeps the committed image like [`keep_old`](Self::keep_old), if it lies in ordinary memory.
    /// Nothing is read for it.
    pub(crate) fn keep_cached_old(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        block: BlockNumber,
        kind: Kind,
    ) -> Result<(), Error> {
        if kind == Kind::Append {
            return Ok(());
        }
        self.check_not_failed()?;
        // Where it cannot be read, there is none to compare with.
        let Seat { work, staged, .. } = seat;
        match staged.olds.keep(block, |into| self.read_cached(work, block, into)) {
            Err(Error::Failed) => Err(Error::Failed),
            _ => Ok(()),
        }
    }

    /// Copies the committed image of a live block that the caller has locked, if ordinary memory
    /// has it.
    fn read_cached(&self, work: &Work, block: BlockNumber, into: &mut [u8]) -> Result<bool, Error> {
        if let Some(is_live) = self.read_gathered(block, into)? {
            return Ok(is_live);
        }
        let mut share = self.lock_share(block)?;
        if self.is_whole_in(&mut share, work, block) {
            return Ok(false);
        }
        if !self.keeps(Rule::ComparedWithCommitted) {
            let found = share.cache.as_mut().and_then(|cache| cache.find_any(block));
            return Ok(found.map(|kept| into.copy_from_slice(kept.image())).is_some());
        }
        let newest = self.newest_readable(&share, block);
        let is_there = self.look_up(&mut share, block, newest, 0, into);
        if let (false, Some(cache)) = (is_there, &mut share.cache) {
            cache.asked.misses += 1;
        }
        Ok(is_there)
    }

    /// Notes that a block was read, whose content is in a slot.
    #[inline]
    fn note_use(&self, share: &Share, newest: Option<NodeId>) {
        if !self.uses.is_kept() {
            return;
        }
        let mut next = newest;
        while let Some(id) = next {
            let frame = share.index.frame(id);
            if let Some(slot) = frame.slot() {
                return self.uses.note_read(slot.raw());
            }
            next = if frame.is_whole() { None } else { share.index.older(id) };
        }
    }

    /// Copies bytes of what the cache keeps of a block, from `at` on. Returns whether it keeps
    /// anything, which it does only for live blocks.
    fn look_up(
        &self,
        share: &mut Share,
        block: BlockNumber,
        newest: Option<NodeId>,
        at: usize,
        into: &mut [u8],
    ) -> bool {
        let newest = newest.map(|newest| share.index.frame(newest).stamp);
        let found = share.cache.as_mut().and_then(|cache| cache.look_up(block, newest));
        found.map(|image| pmem_sys::copy_block(into, &image[at..][..into.len()])).is_some()
    }

    /// Notes that a block was read, and keeps its content where other readers may look for it.
    /// Returns whether the block is live.
    fn note_read(
        &self,
        share: &mut Share,
        block: BlockNumber,
        newest: Option<NodeId>,
        image: &[u8],
    ) -> bool {
        let is_live = newest.is_none_or(|id| share.index.frame(id).form != Form::Discard);
        self.note_use(share, newest);
        // Do not cache if a newer, not yet readable frame exists. Kept content is forgotten when
        // such a frame comes, and not when the frame may be read.
        if self.caches && is_live && share.index.newest(block) == newest {
            share.keep(block, image);
        }
        is_live
    }

    /// Builds a block's content, if the lanes alone have all of it. If not, returns which block of
    /// the device lies below it.
    fn build_from_lanes(
        &self,
        share: &Share,
        block: BlockNumber,
        newest: Option<NodeId>,
        payload: &mut [u8],
        into: &mut [u8],
    ) -> Result<Option<BlockNumber>, Error> {
        let (lanes, of) = (&LanesOf(self), (block, newest));
        build_from_lanes(&self.common, &share.index, of, lanes, payload, into).map_err(not_built)
    }

    /// Builds a block's content on what lies below.
    pub(super) fn apply_frames(
        &self,
        share: &Share,
        newest: Option<NodeId>,
        payload: &mut [u8],
        into: &mut [u8],
    ) -> Result<(), Error> {
        let Some(newest) = newest else { return Ok(()) };
        let lanes = &LanesOf(self);
        apply_frames(&self.common, &share.index, newest, lanes, payload, into).map_err(not_built)
    }

    /// Keeps the old images of the blocks that a transaction writes anew.
    pub(super) fn keep_olds(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        operations: &[Operation<'_>],
    ) -> Result<(), Error> {
        operations.iter().try_for_each(|operation| match operation {
            Operation::Update(update) if update.change.image().is_some() => {
                self.keep_old(seat, update.block, update.kind)
            }
            _ => Ok(()),
        })
    }

    /// Keeps those old images that lie in ordinary memory, of blocks that can be compared.
    pub(super) fn keep_cached_olds(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        operations: &[Operation<'_>],
    ) -> Result<(), Error> {
        operations.iter().try_for_each(|operation| match operation {
            Operation::Update(update) if is_image_alone(update) => {
                self.keep_cached_old(seat, update.block, update.kind)
            }
            _ => Ok(()),
        })
    }

    /// Brings what is kept of a transaction's blocks up to it.
    ///
    /// What is kept of a block is patched, where patches or ranges of it were logged. A whole image
    /// is kept if the next writer of the block looks for it: the policy uses old images, or those
    /// that are kept, or the image was built for patches. Any other image lies in the lane, from
    /// where the next reader fetches it.
    #[inline(never)]
    pub(super) fn keep_committed<O: Operations + ?Sized>(
        &self,
        operations: &O,
        keeps: Keeps,
        committed: &Committed,
    ) {
        let keeps_images = self.keeps_images();
        for at in 0..operations.count() {
            operations.with(at, |operation| {
                let Operation::Update(update) = operation else { return };
                let image = match update.change {
                    Change::Patches(_) => None,
                    Change::Ranges { image, .. } if keeps == Keeps::All => Some(image),
                    Change::Image(image) if keeps == Keeps::All && keeps_images => Some(image),
                    _ => return,
                };
                let Ok(mut share) = self.lock_share(update.block) else { return };
                match image {
                    Some(image) => self.keep_image(&mut share, update, image, committed),
                    None => _ = self.patch_kept(&mut share, update, committed),
                }
            });
        }
    }

    /// Patches what is kept of a block. Returns whether it could.
    #[inline(always)]
    fn patch_kept(&self, share: &mut Share, update: &Update<'_>, committed: &Committed) -> bool {
        let Some(cache) = &mut share.cache else { return false };
        let moved_on = |check, (old, new): (&[u8], &[u8]), behind| {
            self.common.kernels.crc64_of_patched(check, old, new, behind)
        };
        cache.patch(update.block, committed.stamp, update.change.pieces(), moved_on)
    }

    /// Keeps the image of a block, or patches what is kept of it where ranges of it were logged. It
    /// is a function of its own, so that it takes no register that patches need.
    #[cold]
    fn keep_image(
        &self,
        share: &mut Share,
        update: &Update<'_>,
        image: &[u8],
        committed: &Committed,
    ) {
        let block = update.block;
        let is_whole = matches!(update.change, Change::Image(_))
            // What is kept is as it would be read from the lane.
            || share.newest_form_of(block, committed) != Some(Form::Encoded);
        // What is pinned is always kept.
        if is_whole || (!self.patch_kept(share, update, committed) && self.pins) {
            share.keep_newest(block, image, committed);
        }
    }

    /// Keeps images of a staged transaction, like [`keep_committed`](Self::keep_committed). The
    /// transaction's pages become the cache's. Its blocks may be another transaction's by now.
    #[cold]
    pub(crate) fn keep_pages(&self, staged: &mut Staged, committed: &Committed) {
        let keeps_images = self.keeps_images();
        staged.each_page(|block, is_built, page| {
            if !is_built && !keeps_images {
                return;
            }
            let Ok(mut share) = self.lock_share(block) else { return };
            if share.newest_form_of(block, committed).is_some() {
                share.keep_page(block, page);
            }
        });
    }
}

/// Why a block's content was not built.
fn not_built(error: JournalError) -> Error {
    match error {
        JournalError::Apply { block, error } => Error::Apply { block, error },
        JournalError::Medium(error) => Error::Medium(error),
        JournalError::RottenLog { block, lies_at } => Error::RottenLog { block, lies_at },
        _ => Error::Failed,
    }
}
