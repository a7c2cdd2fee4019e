//! A share of the index.

use journal_core::parts::Index;
use journal_core::{BlockNumber, LINE_BYTES};
use pmem_sys::StoreLock;

use crate::shared::cache::Cache;
use crate::shared::index_memory::IndexParts;
use crate::threads::block_locks::Claims;

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

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<StoreLock<Share>>() <= 2 * LINE_BYTES || cfg!(any(loom, shuttle)));

impl Share {
    pub(crate) fn new(index: Index<IndexParts>, cached_blocks: usize) -> Self {
        let cache = Cache::new(cached_blocks);
        Self { index, reserved: 0, cache, claims: Claims::default() }
    }

    /// Keeps a block's content up to its newest frame, or as it is home.
    pub(crate) fn keep(&mut self, block: BlockNumber, image: &[u8]) {
        let Self { index, cache: Some(cache), .. } = self else { return };
        let newest = index.newest(block).map(|newest| index.frame(newest).stamp);
        cache.keep(block, newest, image, |block| index.newest(block).is_some());
    }

    /// Whether there is room for another frame, beside those that are reserved.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.index.free_frames() > self.reserved
    }
}
