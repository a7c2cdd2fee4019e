//! Memory for images of blocks, a page for each.
//!
//! A page can be exchanged for another one. So an image goes on to the cache without a copy.

use pmem_sys::{Taken, Zeroes};

/// Pages of more than these bytes are given back when a transaction ends.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Memory of one block. It begins at a line, as the block does on the device. So a few bytes of it
/// lie in no more lines than they have to: with a large cache each line is a miss.
pub(crate) type Page = Zeroes<u8>;

/// A page of zeroes.
pub(crate) fn page_of(bytes: usize) -> Page {
    Zeroes::parts(1, bytes, Taken::AsUsed).pop().unwrap_or(Zeroes::EMPTY)
}

/// The images of a transaction, and pages for more.
#[derive(Debug)]
pub(crate) struct Pages {
    /// The pages in use, and behind them spare pages.
    pages: Vec<Page>,
    used: usize,
    block_bytes: usize,
}

impl Pages {
    pub(crate) const fn new(block_bytes: usize) -> Self {
        Self { pages: Vec::new(), used: 0, block_bytes }
    }

    /// Takes all images away; some of the pages stay.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        let kept = KEPT_BYTES_MAX / self.block_bytes.max(1);
        if self.pages.len() > kept {
            self.pages.truncate(kept);
            self.pages.shrink_to_fit();
        }
    }

    /// A page that is not in use, of any content. It is the same one until it is used.
    #[inline]
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        self.spare_page()
    }

    /// The page itself, which may be exchanged.
    #[inline]
    pub(crate) fn spare_page(&mut self) -> &mut Page {
        if self.used == self.pages.len() {
            self.pages.push(page_of(self.block_bytes));
        }
        &mut self.pages[self.used]
    }

    /// Uses the spare page; returns its number.
    pub(crate) fn use_spare(&mut self) -> usize {
        self.spare();
        self.used += 1;
        self.used - 1
    }

    /// Exchanges two pages that are in use.
    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        self.pages.swap(a, b);
    }

    /// Goes on with the first `used` pages in use, and keeps the others as spare ones.
    pub(crate) fn truncate(&mut self, used: usize) {
        self.used = self.used.min(used);
    }

    pub(crate) fn image(&self, at: usize) -> &[u8] {
        &self.pages[at]
    }

    pub(crate) fn page(&mut self, at: usize) -> &mut Page {
        &mut self.pages[at]
    }
}

#[cfg(test)]
mod tests {
    use journal_core::LINE_BYTES;

    use super::*;

    #[test]
    fn a_spare_page_stays_until_it_is_used_and_pages_are_kept_to_a_limit() {
        let mut pages = Pages::new(1 << 20);
        assert_eq!(pages.spare().as_ptr().addr() % LINE_BYTES, 0);
        pages.spare().fill(7);
        assert_eq!(pages.spare()[0], 7);
        assert_eq!(pages.use_spare(), 0);
        pages.spare().fill(8);
        assert_eq!(pages.use_spare(), 1);
        assert_eq!((pages.image(0)[1], pages.image(1)[1]), (7, 8));
        for _ in 0..6 {
            pages.use_spare();
        }
        pages.clear();
        assert_eq!((pages.used, pages.pages.len()), (0, 4));
    }
}
