//! A share of the index.

use journal_core::parts::{
    FrameAt, Index, NodeId, each_in_memory, is_read_from_memory, stamp_in_memory,
};
use journal_core::record::Form;
use journal_core::units::Stamp;
use journal_core::{BlockNumber, Committed, LINE_BYTES};
use pmem_sys::StoreLock;

use crate::shared::cache::{Cache, Pins};
use crate::shared::index_memory::IndexParts;
use crate::staging::pages::Page;
use crate::threads::block_locks::Claims;

/// A block that is patched has its chain of frames cut off where it has this many, once frames are
/// short.
const CHAIN_FRAMES: u8 = 16;

/// A share is low on frames where fewer are left than its capacity divided by this.
const LOW_PART: usize = 32;

/// How many frames commits may take while a checkpoint writes one block home: it takes about as
/// long as some commits of one patch each, where the device is as fast as memory.
const FRAMES_WHILE_HOME: usize = 3;

/// One share of the index. With its lock it is two cache lines, since the next share that a commit
/// takes is seldom in the caches.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) index: Index<IndexParts>,
    /// Frames that transactions have reserved room for.
    pub(crate) reserved: usize,
    pub(crate) cache: Option<Box<Cache>>,
    /// Claims of transactions that wait for its blocks.
    pub(crate) claims: Claims,
}

/// Whether a cache keeps a block as long as it has others.
fn stays(index: &Index<IndexParts>, block: BlockNumber, pins: Pins) -> bool {
    match pins {
        Pins::InMemory => stamp_in_memory(index, block).is_some(),
        Pins::None | Pins::Framed => index.newest(block).is_some(),
    }
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<StoreLock<Share>>() <= 2 * LINE_BYTES || cfg!(any(loom, shuttle)));

impl Share {
    pub(crate) fn new(index: Index<IndexParts>, cached_blocks: usize, pins: Pins) -> Self {
        let cache = Cache::new(cached_blocks, pins);
        Self { index, reserved: 0, cache, claims: Claims::default() }
    }

    /// Whether entries of its cache are mostly in a near cache of the processor.
    #[inline]
    pub(crate) fn keeps_near(&self) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.is_near())
    }

    /// Keeps a block's content up to its newest frame, or as it is home.
    pub(crate) fn keep(&mut self, block: BlockNumber, image: &[u8]) {
        let Self { index, cache: Some(cache), .. } = self else { return };
        let newest = index.newest(block).map(|newest| index.frame(newest).stamp);
        let pins = cache.pins;
        cache.keep(block, newest, image, |block| stays(index, block, pins));
    }

    /// Keeps content like [`keep`](Self::keep), and takes its page for another one.
    pub(crate) fn keep_page(&mut self, block: BlockNumber, page: &mut Page) {
        let Self { index, cache: Some(cache), .. } = self else { return };
        let newest = index.newest(block).map(|newest| index.frame(newest).stamp);
        let pins = cache.pins;
        cache.keep_page(block, newest, page, |block| stays(index, block, pins));
    }

    /// Whether the newest content of a block lies in persistent memory.
    pub(crate) fn is_in_memory(&self, block: BlockNumber) -> bool {
        self.stamp_in_memory(block).is_some()
    }

    /// When the newest content of a block was committed, if it lies in persistent memory.
    pub(crate) fn stamp_in_memory(&self, block: BlockNumber) -> Option<Stamp> {
        stamp_in_memory(&self.index, block)
    }

    /// Whether the cache has noted that a block was used, since an eviction has listed it.
    pub(crate) fn is_used(&self, block: BlockNumber) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.is_used(block))
    }

    /// What the cache keeps of a block, if that is up to this frame.
    pub(crate) fn kept_up_to(&self, block: BlockNumber, newest: NodeId) -> Option<&[u8]> {
        self.cache.as_ref()?.look_at(block, self.index.frame(newest).stamp)
    }

    /// Whether a checkpoint has found that a block cannot be read.
    pub(crate) fn is_unreadable(&self, block: BlockNumber) -> bool {
        self.index.is_unreadable(block)
    }

    /// How many blocks have their newest content in persistent memory.
    pub(crate) fn in_memory(&self) -> usize {
        each_in_memory(&self.index).count()
    }

    /// Whether there is no room to pin `count` blocks more, beside those that may be pinned by what
    /// is reserved (CA5).
    pub(crate) fn lacks_pins(&mut self, count: usize) -> bool {
        let Self { index, reserved, cache: Some(cache), .. } = self else { return false };
        cache.lacks_pins(reserved.saturating_add(count), || each_in_memory(index).count())
    }

    /// The most frames of blocks that transactions can have reserved at a time.
    pub(crate) fn reserved_max(&self) -> usize {
        let pinned = self.cache.as_ref().map_or(usize::MAX, |cache| cache.pinned_max());
        self.index.capacity().min(pinned)
    }

    /// Notes that a frame is to become the newest of its block, if pinned blocks are counted.
    #[inline(always)]
    pub(crate) fn note_pin(&mut self, counts: bool, newest: &FrameAt) {
        if counts {
            self.count_pin(newest);
        }
    }

    #[cold]
    fn count_pin(&mut self, newest: &FrameAt) {
        let was = self.is_in_memory(newest.block);
        if let Some(cache) = &mut self.cache {
            cache.note_pin(was, is_read_from_memory(newest.form));
        }
    }

    /// Appends the pinned blocks, each with when its content was written. Those that were used
    /// since this was asked last come behind the others.
    pub(crate) fn list_pinned(&mut self, listed: &mut Vec<(bool, Stamp, BlockNumber)>) {
        let Self { index, cache: Some(cache), .. } = self else { return };
        listed.extend(
            each_in_memory(index).map(|(stamp, block)| (cache.was_used(block), stamp, block)),
        );
    }

    /// The form of a block's newest frame, if that is of this transaction. An update that changes
    /// nothing has no frame. A transaction in another lane may have the same stamp.
    pub(crate) fn newest_form_of(&self, block: BlockNumber, committed: &Committed) -> Option<Form> {
        let newest = self.index.frame(self.index.newest(block)?);
        let is_of_it = (newest.stamp, newest.lane) == (committed.stamp, committed.lane);
        is_of_it.then_some(newest.form)
    }

    /// Keeps what this transaction has made of a block, if that has a frame.
    pub(crate) fn keep_newest(&mut self, block: BlockNumber, image: &[u8], committed: &Committed) {
        if self.newest_form_of(block, committed).is_some() {
            self.keep(block, image);
        }
    }

    /// Whether a block has a long chain of frames. Then the block's next change is logged as a
    /// whole image, and the older frames are forgotten. A chain is long at `longest` frames, unless
    /// that is zero; where the share is short of frames, it is so at fewer.
    pub(crate) fn ends_chain_of(&mut self, block: BlockNumber, longest: u8) -> bool {
        let Self { index, reserved, .. } = self;
        let is_short = index.free_frames().saturating_sub(*reserved) < index.capacity() / 4;
        let least = match (longest, is_short) {
            (0, false) => return false,
            (0, true) => CHAIN_FRAMES,
            (longest, false) => longest,
            (longest, true) => longest.min(CHAIN_FRAMES),
        };
        index.has_chain_of(block, least)
    }

    /// Whether an eighth of its frames is left, or less, and a checkpoint would free half of them
    /// or more. It frees none that is only reserved.
    #[inline]
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.has_left(self.index.capacity() / 8)
    }

    /// Whether commits may fill it while a checkpoint writes its blocks home. It has an eighth to a
    /// quarter of its frames left then, or less.
    #[inline]
    pub(crate) fn is_filling(&self) -> bool {
        let capacity = self.index.capacity();
        let filled = self.index.blocks().saturating_mul(FRAMES_WHILE_HOME);
        self.has_left(filled.clamp(capacity / 8, capacity / 4))
    }

    #[inline(always)]
    fn has_left(&self, frames: usize) -> bool {
        let Self { index, reserved, .. } = self;
        index.free_frames().saturating_sub(*reserved) <= frames
            && index.frames() >= index.capacity() / 2
    }

    /// Whether it is nearly full, and moves to the log free at least as much as is left then. What
    /// is moved keeps one frame, so that a block with a single one frees none.
    #[inline]
    pub(crate) fn is_freed_by_moves(&self) -> bool {
        let Self { index, .. } = self;
        self.is_nearly_full()
            && index.frames().saturating_sub(index.blocks()) >= index.capacity() / 8
    }

    /// Whether it has so few frames left that a transaction frees some, which need not be its own.
    #[inline]
    pub(crate) fn is_low(&self) -> bool {
        let Self { index, reserved, .. } = self;
        index.free_frames().saturating_sub(*reserved) < index.capacity() / LOW_PART
    }

    /// Whether there is room for another frame, beside those that are reserved.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.index.free_frames() > self.reserved
    }
}
