//! Blocks' newest committed contents in ordinary memory. Readers that read a block again use them,
//! and so do writers by a policy that is to see what a block held.
//!
//! Each share of the index has a part of the cache, behind the same lock. So the index tells what
//! the cache holds:
//!
//! CA1. Content is kept with the stamp of the frame that it is up to, or as it is home. It counts
//!     only where that frame is the newest that may be read, or where there is no frame any more.
//! CA2. When a frame enters the index, what is kept of its block does not count any more, until the
//!     committer has patched it or kept new content. So the content that counts when frames are
//!     forgotten is the one that they led to.
//! CA3. Blocks that have frames in the lanes stay as long as an eviction finds others among those
//!     it looks at, because they cost most to read. Where they are *pinned*, they always stay. A
//!     share of the index then has no room for more frames than its cache has for blocks; or CA5
//!     holds.
//! CA4. The check of an image is kept from when a policy has asked for it. A patch moves it on by
//!     what the patch changes. Any other content comes without a check.
//! CA5. Where evicted blocks go to the disk-side log, only those are pinned whose newest content
//!     lies in persistent memory. They are counted, and are never more than the cache has room for.
//!     A pinned block that a transaction changes counts twice until that ends.

pub(crate) mod clean;
pub(crate) mod kept;
mod kept_table;
pub(crate) mod last_use;

use journal_core::BlockNumber;
use journal_core::policy::Patch;
use journal_core::units::Stamp;
use pmem_sys::copy_block;

use self::kept::Kept;
use self::kept_table::KeptTable;
use crate::staging::pages::{Page, page_of};

/// How many blocks an eviction looks at in each of its rounds.
const LOOKED_AT_MAX: usize = 64;

/// A table of more entries than this lies in no near cache: with those of the other shares it is
/// megabytes.
const NEAR_ENTRIES_MAX: usize = 512;

/// How often something was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// Which blocks always stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pins {
    /// No block does.
    #[default]
    None,
    /// Those stay that have frames.
    Framed,
    /// Those stay whose newest content lies in persistent memory (CA5).
    InMemory,
}

/// The part of one share.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    blocks_max: usize,
    /// Which blocks always stay.
    pub(crate) pins: Pins,
    /// How many blocks are pinned, where that is counted, or some more: it is not seen when frames
    /// leave the index.
    pinned: usize,
    kept: KeptTable,
    /// How many of the kept entries are stale.
    stale: usize,
    /// Where the last eviction has looked last; it goes round all entries of the table.
    hand: usize,
    pub(crate) asked: Asked,
}

impl Cache {
    /// Makes a cache for `blocks_max` blocks at most; none if that is zero.
    pub(crate) fn new(blocks_max: usize, pins: Pins) -> Option<Box<Self>> {
        (blocks_max > 0).then(|| Box::new(Self { blocks_max, pins, ..Self::default() }))
    }

    /// Makes room for as many blocks as there may be frames, if these are pinned.
    pub(crate) fn make_room_for(&mut self, frames: usize) {
        if self.pins == Pins::Framed {
            self.blocks_max = self.blocks_max.max(frames);
        }
    }

    /// The most blocks that can be pinned.
    pub(crate) const fn pinned_max(&self) -> usize {
        match self.pins {
            Pins::InMemory => self.blocks_max,
            Pins::None | Pins::Framed => usize::MAX,
        }
    }

    /// Whether there is no room for `count` more pinned blocks, as far as is known. `counted` says
    /// how many there are, if it is asked.
    pub(crate) fn lacks_pins(&mut self, count: usize, counted: impl FnOnce() -> usize) -> bool {
        let most = self.pinned_max();
        if self.pinned.saturating_add(count) <= most {
            return false;
        }
        self.pinned = counted();
        self.pinned.saturating_add(count) > most
    }

    /// Notes that the newest frame of a block is another one: whether it pinned the block, and
    /// whether it does.
    pub(crate) const fn note_pin(&mut self, was: bool, is: bool) {
        match (was, is) {
            (false, true) => self.pinned = self.pinned.saturating_add(1),
            (true, false) => self.pinned = self.pinned.saturating_sub(1),
            _ => {}
        }
    }

    /// Whether a block was used since this was asked last.
    pub(crate) fn was_used(&mut self, block: BlockNumber) -> bool {
        self.kept.find_mut(block).is_some_and(|kept| core::mem::take(&mut kept.is_used))
    }

    /// Whether a block was used since then.
    pub(crate) fn is_used(&self, block: BlockNumber) -> bool {
        self.kept.find(block).is_some_and(|kept| kept.is_used)
    }

    pub(crate) fn blocks(&self) -> usize {
        self.kept.len() - self.stale
    }

    /// Whether its table is so small that it is mostly in a near cache of the processor.
    #[inline]
    pub(crate) fn is_near(&self) -> bool {
        self.kept.count() <= NEAR_ENTRIES_MAX
    }

    /// Finds the kept content of a block. `newest` is the stamp of its newest frame that may be
    /// read, if it has one (CA1).
    pub(crate) fn look_up(&mut self, block: BlockNumber, newest: Option<Stamp>) -> Option<&[u8]> {
        let Self { kept, asked, .. } = self;
        let found = find_in(kept, block, newest)?;
        asked.hits += 1;
        Some(&found.image)
    }

    /// Finds content like [`look_up`](Self::look_up), which is not counted.
    pub(crate) fn find(&mut self, block: BlockNumber, newest: Option<Stamp>) -> Option<&mut Kept> {
        find_in(&mut self.kept, block, newest)
    }

    /// Takes the content that [`look_up`](Self::look_up) finds, and leaves another page for what
    /// the block will hold. Until that comes, nothing is kept of the block.
    pub(crate) fn take(
        &mut self,
        block: BlockNumber,
        newest: Option<Stamp>,
        page: &mut Page,
    ) -> bool {
        let found = self.kept.find_mut(block).filter(|kept| kept.counts(newest));
        let Some(kept) = found else { return false };
        self.asked.hits += 1;
        core::mem::swap(&mut kept.image, page);
        // No frame has this stamp, so that no patches are put on what is there now.
        (kept.is_checked, kept.is_stale, kept.missing) = (false, true, Stamp(0));
        self.stale += 1;
        true
    }

    /// Finds whatever is there of a block, of whichever frame. A test asks for it that breaks the
    /// rule [`ComparedWithCommitted`](journal_core::Rule::ComparedWithCommitted).
    #[cold]
    pub(crate) fn find_any(&mut self, block: BlockNumber) -> Option<&mut Kept> {
        self.kept.find_mut(block)
    }

    /// Keeps content up to a frame, which is the newest of its block. Without a frame it is as it
    /// is home.
    pub(crate) fn keep(
        &mut self,
        block: BlockNumber,
        newest: Option<Stamp>,
        image: &[u8],
        has_frames: impl Fn(BlockNumber) -> bool,
    ) {
        if let Some(kept) = self.fresh(block, newest) {
            copy_block(kept, image);
            return;
        }
        let free = self.make_room(&has_frames);
        if free.is_none() && self.is_full() && !has_frames(block) {
            return;
        }
        let mut copy = free.unwrap_or_else(|| page_of(image.len()));
        copy_block(&mut copy, image);
        self.add(block, newest, copy);
    }

    /// Keeps what a page holds, like [`keep`](Self::keep), and leaves another page for it.
    pub(crate) fn keep_page(
        &mut self,
        block: BlockNumber,
        newest: Option<Stamp>,
        page: &mut Page,
        has_frames: impl Fn(BlockNumber) -> bool,
    ) {
        if let Some(kept) = self.fresh(block, newest) {
            core::mem::swap(kept, page);
            return;
        }
        let free = self.make_room(&has_frames);
        if free.is_none() && self.is_full() && !has_frames(block) {
            return;
        }
        let other = free.unwrap_or_else(|| page_of(page.len()));
        let image = core::mem::replace(page, other);
        self.add(block, newest, image);
    }

    /// The memory of a block that something is kept of, for content up to this frame.
    fn fresh(&mut self, block: BlockNumber, newest: Option<Stamp>) -> Option<&mut Page> {
        let kept = self.kept.find_mut(block)?;
        kept.stamp = newest.unwrap_or(Stamp(0));
        self.stale -= usize::from(kept.is_stale);
        (kept.is_checked, kept.is_stale) = (false, false);
        Some(&mut kept.image)
    }

    fn add(&mut self, block: BlockNumber, newest: Option<Stamp>, image: Page) {
        let kept = Kept::new(block, newest.unwrap_or(Stamp(0)), image);
        self.kept.add(kept, self.blocks_max);
    }

    /// Forgets what a block held: a frame of it enters the index, with this stamp (CA2).
    pub(crate) fn forget(&mut self, block: BlockNumber, stamp: Stamp) {
        if let Some(kept) = self.kept.find_mut(block).filter(|kept| !kept.is_stale) {
            (kept.is_stale, kept.missing) = (true, stamp);
            self.stale += 1;
        }
    }

    /// Brings what is kept of a block up to the frame with this stamp, which has these patches.
    /// Returns whether it could: what is kept has to be up to the frame below that one.
    ///
    /// `check_of_patched` says what the check of an image becomes by a patch, of which the old and
    /// the new bytes are given, and how many bytes follow them.
    #[inline(always)]
    pub(crate) fn patch<'p>(
        &mut self,
        block: BlockNumber,
        stamp: Stamp,
        patches: impl Iterator<Item = Patch<'p>>,
        check_of_patched: impl Fn(u64, (&[u8], &[u8]), usize) -> u64,
    ) -> bool {
        let Some(kept) = self.kept.find_mut(block) else { return false };
        if !kept.is_stale || kept.missing != stamp {
            return false;
        }
        for Patch { at, bytes } in patches {
            let (start, end) = (at as usize, at as usize + bytes.len());
            let behind = kept.image.len() - end;
            let old = &mut kept.image[start..end];
            if kept.is_checked {
                kept.check = check_of_patched(kept.check, (old, bytes), behind);
            }
            old.copy_from_slice(bytes);
        }
        (kept.stamp, kept.is_stale) = (stamp, false);
        self.stale -= 1;
        true
    }

    /// The line where a block is looked for first.
    #[inline]
    pub(crate) fn line_of(&self, block: BlockNumber) -> Option<*const u8> {
        self.kept.line_of(block)
    }

    /// Finds the kept content of a block, up to this frame, for no use that would keep it longer.
    pub(crate) fn look_at(&self, block: BlockNumber, newest: Stamp) -> Option<&[u8]> {
        Some(self.kept.find(block).filter(|kept| kept.counts(Some(newest)))?.image())
    }

    /// What is kept of a block, which may be stale.
    #[inline]
    pub(crate) fn image_of(&self, block: BlockNumber) -> Option<&[u8]> {
        Some(self.kept.find(block)?.image())
    }

    /// Makes room for one block, and returns memory that came free.
    fn make_room(&mut self, has_frames: impl Fn(BlockNumber) -> bool) -> Option<Page> {
        self.is_full().then(|| self.evict(has_frames)).flatten()
    }

    /// Whether there is room for one more only where an eviction makes some.
    fn is_full(&self) -> bool {
        self.kept.len() >= self.blocks_max
    }

    /// Evicts one block, in up to three rounds (CA3). Returns its memory.
    ///
    /// 1. It looks for a block that is stale, or that was not read lately and has no frames in the
    ///    lanes.
    /// 2. It looks for any block that has no frames.
    /// 3. It takes the first that comes, unless blocks are pinned.
    fn evict(&mut self, has_frames: impl Fn(BlockNumber) -> bool) -> Option<Page> {
        let pins = self.pins != Pins::None;
        // What says when a counted block was used last is for those that evict it (CA5).
        let skips = self.pins == Pins::InMemory;
        let looked_at = if pins { usize::MAX } else { LOOKED_AT_MAX };
        for round in 0..if pins { 2 } else { 3 } {
            let mut looks = looked_at;
            for _ in 0..self.kept.count() {
                self.hand = if self.hand + 1 < self.kept.count() { self.hand + 1 } else { 0 };
                let Some(kept) = self.kept.entry_at(self.hand) else { continue };
                if skips && has_frames(kept.block) && !kept.is_stale {
                    continue;
                }
                let was_used = core::mem::take(&mut kept.is_used);
                let (block, is_stale) = (kept.block, kept.is_stale);
                let goes = match round {
                    0 => is_stale || (!was_used && !has_frames(block)),
                    1 => !has_frames(block),
                    _ => true,
                };
                if goes {
                    self.stale -= usize::from(is_stale);
                    return self.kept.remove(self.hand).map(|kept| kept.image);
                }
                looks -= 1;
                if looks == 0 {
                    break;
                }
            }
        }
        None
    }
}

fn find_in(kept: &mut KeptTable, block: BlockNumber, newest: Option<Stamp>) -> Option<&mut Kept> {
    let kept = kept.find_mut(block).filter(|kept| kept.counts(newest))?;
    kept.is_used = true;
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_with(byte: u8) -> Page {
        let mut page = page_of(4);
        page.fill(byte);
        page
    }

    fn keep(cache: &mut Cache, block: u64, stamp: u64, logged: &[u64]) {
        let stamp = (stamp > 0).then_some(Stamp(stamp));
        let has_frames = |block: BlockNumber| logged.contains(&block.raw());
        cache.keep(BlockNumber(block), stamp, &[block as u8; 4], has_frames);
    }

    fn moved(check: u64, (old, new): (&[u8], &[u8]), behind: usize) -> u64 {
        use journal_core::Kernels as _;
        journal_core::PortableKernels.crc64_of_patched(check, old, new, behind)
    }

    fn has(cache: &mut Cache, block: u64, newest: Option<u64>) -> bool {
        let found = cache.look_up(BlockNumber(block), newest.map(Stamp));
        found.inspect(|image| assert_eq!(**image, [block as u8; 4])).is_some()
    }

    #[test]
    fn what_is_kept_counts_up_to_its_frame_and_when_that_has_gone() {
        let mut cache = Cache::new(4, Pins::None).expect("of some");
        keep(&mut cache, 1, 7, &[]);
        assert!(has(&mut cache, 1, Some(7)) && has(&mut cache, 1, None));
        assert!(!has(&mut cache, 1, Some(6)) && !has(&mut cache, 1, Some(8)));
        // As it is home: a frame that is there by now has it not.
        keep(&mut cache, 2, 0, &[]);
        assert!(has(&mut cache, 2, None) && !has(&mut cache, 2, Some(1)));
        cache.forget(BlockNumber(1), Stamp(8));
        assert!(!has(&mut cache, 1, None));
        assert_eq!(cache.asked, Asked { hits: 3, misses: 0 });
        assert!(Cache::new(0, Pins::None).is_none());
    }

    #[test]
    fn what_is_kept_follows_patches_of_the_next_frame_and_of_no_other() {
        let mut cache = Cache::new(4, Pins::None).expect("of some");
        let patch = |cache: &mut Cache, stamp, bytes| {
            cache.patch(BlockNumber(1), Stamp(stamp), [Patch { at: 1, bytes }].into_iter(), moved);
        };
        keep(&mut cache, 1, 7, &[]);
        patch(&mut cache, 8, &[9]);
        assert!(has(&mut cache, 1, Some(7)), "no frame has come");
        cache.forget(BlockNumber(1), Stamp(8));
        patch(&mut cache, 8, &[9]);
        let found = cache.look_up(BlockNumber(1), Some(Stamp(8))).map(<[u8]>::to_vec);
        assert_eq!(found, Some(vec![1, 9, 1, 1]));
        cache.forget(BlockNumber(1), Stamp(9));
        cache.forget(BlockNumber(1), Stamp(10));
        patch(&mut cache, 10, &[9]);
        assert!(cache.look_up(BlockNumber(1), Some(Stamp(10))).is_none(), "it lacks a frame");
        assert_eq!(cache.blocks(), 0);
    }

    #[test]
    fn what_is_taken_is_not_there_until_new_content_comes() {
        let mut cache = Cache::new(4, Pins::None).expect("of some");
        keep(&mut cache, 1, 7, &[]);
        let mut page = page_with(9);
        assert!(!cache.take(BlockNumber(1), Some(Stamp(8)), &mut page) && *page == [9; 4]);
        assert!(cache.take(BlockNumber(1), Some(Stamp(7)), &mut page) && *page == [1; 4]);
        assert!(!has(&mut cache, 1, Some(7)) && !has(&mut cache, 1, None) && cache.blocks() == 0);
        assert!(!cache.take(BlockNumber(1), None, &mut page));
        cache.patch(BlockNumber(1), Stamp(8), [Patch { at: 1, bytes: &[9] }].into_iter(), moved);
        assert!(!has(&mut cache, 1, Some(Stamp(8).raw())));
        cache.forget(BlockNumber(1), Stamp(8));
        cache.keep_page(BlockNumber(1), Some(Stamp(8)), &mut page, |_| false);
        assert!(has(&mut cache, 1, Some(8)));
        assert_eq!((cache.blocks(), cache.kept.len()), (1, 1));
    }

    /// CA4: the check is computed once, and from then on it is moved on, until other content comes.
    #[test]
    fn a_check_is_kept_with_its_image_and_moved_on_by_patches() {
        use core::cell::Cell;
        use journal_core::{Kernels as _, PortableKernels};

        let computed = Cell::new(0);
        let check_of = |image: &[u8]| {
            computed.set(computed.get() + 1);
            PortableKernels.crc64(0, image)
        };
        let mut cache = Cache::new(4, Pins::None).expect("of some");
        let mut content = vec![1; 4];
        // A look-up computes it once more in a build that checks itself.
        let looks = 1 + u32::from(cfg!(debug_assertions));
        let look = |cache: &mut Cache, stamp: u64, content: &[u8], computes: bool| {
            computed.set(0);
            let kept = cache.find(BlockNumber(1), Some(Stamp(stamp))).expect("is there");
            let (image, check) = kept.with_check(check_of);
            assert_eq!((image, check), (content, PortableKernels.crc64(0, content)));
            assert_eq!(computed.get(), if computes { looks } else { looks - 1 });
        };
        keep(&mut cache, 1, 1, &[]);
        look(&mut cache, 1, &content, true);
        look(&mut cache, 1, &content, false);
        for (stamp, at, byte) in [(2, 0, 7), (3, 3, 8), (4, 1, 9)] {
            cache.forget(BlockNumber(1), Stamp(stamp));
            let bytes = &[byte];
            let patch = [Patch { at, bytes }].into_iter();
            cache.patch(BlockNumber(1), Stamp(stamp), patch, moved);
            content[at as usize] = byte;
            look(&mut cache, stamp, &content, false);
        }
        // Other content: a copy, a page, and a page that was taken and comes back.
        cache.forget(BlockNumber(1), Stamp(5));
        keep(&mut cache, 1, 5, &[]);
        look(&mut cache, 5, &[1; 4], true);
        let mut page = page_with(2);
        cache.forget(BlockNumber(1), Stamp(6));
        cache.keep_page(BlockNumber(1), Some(Stamp(6)), &mut page, |_| true);
        look(&mut cache, 6, &[2; 4], true);
        assert!(cache.take(BlockNumber(1), Some(Stamp(6)), &mut page));
        page.fill(3);
        cache.keep_page(BlockNumber(1), Some(Stamp(7)), &mut page, |_| true);
        look(&mut cache, 7, &[3; 4], true);
    }

    #[test]
    fn blocks_with_frames_stay_as_long_as_there_are_others() {
        let mut cache = Cache::new(4, Pins::None).expect("of some");
        let logged = [1, 3];
        for block in 0..4 {
            keep(&mut cache, block, 0, &logged);
        }
        for block in 10..20 {
            assert!(has(&mut cache, 1, None) && has(&mut cache, 3, None), "before {block}");
            keep(&mut cache, block, 0, &logged);
            assert_eq!(cache.blocks(), 4);
            assert!(has(&mut cache, block, None));
        }
        // All of them: then some go all the same.
        for block in 20..30 {
            keep(&mut cache, block, 0, &(0..30).collect::<Vec<_>>());
            assert_eq!(cache.blocks(), 4);
            assert!(has(&mut cache, block, None));
        }
    }

    #[test]
    fn pinned_blocks_stay_and_what_finds_no_room_beside_them_is_not_kept() {
        let mut cache = Cache::new(4, Pins::Framed).expect("of some");
        let logged = [1, 2, 3, 4];
        for block in [9, 1, 2, 3] {
            keep(&mut cache, block, 0, &logged);
        }
        keep(&mut cache, 4, 0, &logged);
        assert!(!has(&mut cache, 9, None), "it made room");
        (20..30).for_each(|block| keep(&mut cache, block, 0, &logged));
        let mut page = page_with(30);
        cache.keep_page(BlockNumber(30), None, &mut page, |block| block.raw() < 5);
        assert_eq!((cache.blocks(), &page[..]), (4, &[30; 4][..]));
        assert!(logged.iter().all(|block| has(&mut cache, *block, None)));
        cache.make_room_for(5);
        keep(&mut cache, 9, 0, &logged);
        assert!(has(&mut cache, 9, None));
    }

    /// CA5: what is counted is looked at again where it says that there is no room.
    #[test]
    fn pinned_blocks_are_counted_and_counted_anew_before_room_is_short() {
        let mut cache = Cache::new(4, Pins::InMemory).expect("of some");
        (0..4).for_each(|_| cache.note_pin(false, true));
        cache.note_pin(true, true);
        assert!(cache.lacks_pins(1, || 4), "there are as many");
        assert!(!cache.lacks_pins(2, || 2), "two have left the index");
        cache.note_pin(true, false);
        assert!(!cache.lacks_pins(3, || unreachable!("is known")));
        assert!(cache.lacks_pins(4, || 1));
        cache.make_room_for(100);
        assert_eq!(cache.pinned_max(), 4, "frames are no measure");
        let mut cache = Cache::new(4, Pins::Framed).expect("of some");
        (0..9).for_each(|_| cache.note_pin(false, true));
        assert!(!cache.lacks_pins(9, || 9), "frames are the measure");
    }

    #[test]
    fn what_is_read_again_and_again_stays() {
        let mut cache = Cache::new(8, Pins::None).expect("of some");
        for block in 0..200 {
            keep(&mut cache, block, 0, &[]);
            keep(&mut cache, 1000, 0, &[]);
            assert!(has(&mut cache, 1000, None));
            assert_eq!(cache.kept.len(), cache.blocks());
        }
    }

    /// Forgets and keeps a block like each commit of it does.
    #[test]
    fn a_block_that_is_forgotten_and_kept_again_takes_no_more_memory() {
        let mut cache = Cache::new(4, Pins::None).expect("of some");
        for turn in 1..1000 {
            keep(&mut cache, turn % 3, turn, &[0, 1, 2]);
            cache.forget(BlockNumber(turn % 3), Stamp(turn + 1));
            assert!(!has(&mut cache, turn % 3, Some(turn)) && !has(&mut cache, turn % 3, None));
            keep(&mut cache, turn % 3, turn + 1, &[0, 1, 2]);
            assert!(has(&mut cache, turn % 3, Some(turn + 1)));
            assert!(cache.kept.len() <= 3 && cache.kept.len() == cache.blocks());
        }
    }

    /// A block that is forgotten and not kept again has its entry until another block needs it.
    #[test]
    fn what_is_stale_goes_first() {
        let mut cache = Cache::new(4, Pins::None).expect("of some");
        for block in 0..4 {
            keep(&mut cache, block, 7, &[]);
        }
        cache.forget(BlockNumber(2), Stamp(8));
        cache.forget(BlockNumber(2), Stamp(9));
        assert_eq!(cache.blocks(), 3);
        keep(&mut cache, 9, 8, &[0, 1, 2, 3, 9]);
        assert_eq!((cache.blocks(), cache.kept.len()), (4, 4));
        for block in [0, 1, 3] {
            assert!(has(&mut cache, block, Some(7)), "{block}");
        }
        assert!(!has(&mut cache, 2, Some(7)) && has(&mut cache, 9, Some(8)));
    }
}
