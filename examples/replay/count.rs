//! The hook that counts what a journal writes, from the bytes that go out.
//!
//! Of commits it takes the records apart as FORMAT.md has them (sections 4 and 5), so that the
//! figures are those of what was written and not of what the policy meant. Everything else that is
//! written (superblocks, intents, copies within the lanes) is counted apart, as upkeep.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use journal_core::units::LINE_BYTES;
use journal_core::{Hook, MediumError, Offset, Pmem, Site};

/// What was written to persistent memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    /// Lines that were flushed or streamed.
    pub(crate) lines: u64,
    pub(crate) fences: u64,
}

/// What commits wrote, taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Records {
    pub(crate) images: u64,
    pub(crate) encoded: u64,
    pub(crate) discards: u64,
    /// Bytes of images and encoded changes.
    pub(crate) payload: u64,
    /// Bytes of headers, names, frames and checks.
    pub(crate) headers: u64,
    /// Bytes up to the ends of lines.
    pub(crate) padding: u64,
}

#[derive(Debug, Default)]
struct Table {
    commits: Cell<Written>,
    upkeep: Cell<Written>,
    records: Cell<Records>,
    /// Fronts that were written and not yet taken apart.
    fronts: RefCell<Vec<u8>>,
    block_bytes: usize,
}

/// Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    table: Rc<Table>,
}

mod at {
    //! Offsets of FORMAT.md: in a record's header, and in a frame's.
    pub(super) const LINES: usize = 8;
    pub(super) const FRAMES: usize = 12;
    pub(super) const NAMES: usize = 14;
    pub(super) const HEADER_BYTES: usize = 64;
    pub(super) const NAME_BYTES: usize = 16;
    pub(super) const FRAME_BYTES: usize = 16;
    pub(super) const CHECK_BYTES: usize = 8;
    pub(super) const FRAME_LEN: usize = 8;
    pub(super) const FRAME_FORM: usize = 12;
}

/// The forms of frames.
mod form {
    pub(super) const IMAGE: u8 = 1;
    pub(super) const ENCODED: u8 = 2;
}

fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

impl Records {
    /// Takes the first front apart; returns its length, or `None` where it is not all there.
    fn add_front(&mut self, front: &[u8], block_bytes: usize) -> Option<usize> {
        let lines = number(front, at::LINES, 4)?;
        let frames = number(front, at::FRAMES, 2)? as usize;
        let names = number(front, at::NAMES, 2)? as usize;
        let lists = at::HEADER_BYTES + names * at::NAME_BYTES;
        let mut added = *self;
        let (mut images, mut encoded) = (0, 0);
        for frame in 0..frames {
            let frame = lists + frame * at::FRAME_BYTES;
            match number(front, frame + at::FRAME_FORM, 1)? as u8 {
                form::IMAGE => images += 1,
                form::ENCODED => {
                    encoded += number(front, frame + at::FRAME_LEN, 4)?;
                    added.encoded += 1;
                }
                _ => added.discards += 1,
            }
        }
        let image_bytes = images * block_bytes as u64;
        let front_bytes = lines * LINE_BYTES as u64 - image_bytes;
        let headers = (lists + frames * at::FRAME_BYTES + at::CHECK_BYTES) as u64;
        added.images += images;
        added.payload += image_bytes + encoded;
        added.headers += headers;
        added.padding += front_bytes - headers - encoded;
        let front_bytes = front_bytes as usize;
        if front.len() < front_bytes {
            return None;
        }
        *self = added;
        Some(front_bytes)
    }

    pub(crate) const fn frames(&self) -> u64 {
        self.images + self.encoded + self.discards
    }
}

/// Changes what a cell holds.
fn update<T: Copy>(cell: &Cell<T>, change: impl FnOnce(&mut T)) {
    let mut value = cell.get();
    change(&mut value);
    cell.set(value);
}

fn lines(at: Offset, len: usize) -> u64 {
    let line = LINE_BYTES as u64;
    if len == 0 { 0 } else { (at.raw() + len as u64).div_ceil(line) - at.raw() / line }
}

impl Counter {
    pub(crate) fn new(block_bytes: usize) -> Self {
        Self { table: Rc::new(Table { block_bytes, ..Table::default() }) }
    }

    /// What commits wrote.
    pub(crate) fn commits(&self) -> Written {
        self.table.commits.get()
    }

    /// What everything else wrote.
    pub(crate) fn upkeep(&self) -> Written {
        self.table.upkeep.get()
    }

    /// What commits wrote, taken apart.
    pub(crate) fn records(&self) -> Records {
        self.table.records.get()
    }

    fn of(&self, site: Site) -> &Cell<Written> {
        if site.name.starts_with("commit.") { &self.table.commits } else { &self.table.upkeep }
    }

    fn see_front(&self, bytes: &[u8]) {
        let mut fronts = self.table.fronts.borrow_mut();
        fronts.extend_from_slice(bytes);
        // A front that wraps comes in two pieces.
        let mut records = self.table.records.get();
        while let Some(used) = records.add_front(&fronts, self.table.block_bytes) {
            fronts.drain(..used);
        }
        self.table.records.set(records);
    }
}

impl Hook for Counter {
    fn store<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        update(self.of(site), |written| written.bytes += bytes.len() as u64);
        pmem.store(at, bytes);
    }

    fn store_u64<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, value: u64) {
        update(self.of(site), |written| written.bytes += 8);
        pmem.store_u64(at, value);
    }

    fn flush<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, len: usize) {
        update(self.of(site), |written| written.lines += lines(at, len));
        pmem.flush(at, len);
    }

    fn stream<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.write_piece(site, pmem, at, bytes, bytes.len() as u64);
    }

    fn write_piece<P: Pmem>(
        &mut self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        _whole_bytes: u64,
    ) {
        update(self.of(site), |written| {
            written.bytes += bytes.len() as u64;
            written.lines += lines(at, bytes.len());
        });
        if site.name == "commit.front" {
            self.see_front(bytes);
        }
        pmem.stream(at, bytes);
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        update(self.of(site), |written| written.fences += 1);
        pmem.fence()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A front with a name, an image, an encoded change of 100 bytes and a discard.
    fn front() -> Vec<u8> {
        let (lists, block) = (64 + 16 + 3 * 16, 64);
        let bytes = (lists + 100 + 8_usize).next_multiple_of(64);
        let mut front = vec![0; bytes];
        front[at::LINES] = ((bytes + block) / 64) as u8;
        front[at::FRAMES] = 3;
        front[at::NAMES] = 1;
        for (frame, (form, len)) in [(1, 64), (2, 100), (3, 0)].into_iter().enumerate() {
            front[80 + frame * 16 + at::FRAME_FORM] = form;
            front[80 + frame * 16 + at::FRAME_LEN] = len;
        }
        front
    }

    #[test]
    fn fronts_are_taken_apart_however_they_come() {
        let once = Records {
            images: 1,
            encoded: 1,
            discards: 1,
            payload: 164,
            headers: 64 + 16 + 3 * 16 + 8,
            padding: 256 - 136 - 100,
        };
        let front = front();
        let twice = [&front[..], &front].concat();
        for cut in 0..=twice.len() {
            let counter = Counter::new(64);
            counter.see_front(&twice[..cut]);
            let expected = [Records::default(), once][usize::from(cut >= front.len())];
            if cut < twice.len() {
                assert_eq!(counter.records(), expected, "{cut} bytes");
            }
            counter.see_front(&twice[cut..]);
            let Records { images, payload, headers, padding, .. } = counter.records();
            assert_eq!((images, payload), (2, 2 * once.payload));
            assert_eq!((headers, padding), (2 * once.headers, 2 * once.padding));
        }
    }

    #[test]
    fn lines_are_counted_where_they_are_touched() {
        assert_eq!(lines(Offset(0), 0), 0);
        assert_eq!(lines(Offset(63), 1), 1);
        assert_eq!(lines(Offset(63), 2), 2);
        assert_eq!(lines(Offset(64), 128), 2);
        assert_eq!(lines(Offset(65), 128), 3);
    }
}
