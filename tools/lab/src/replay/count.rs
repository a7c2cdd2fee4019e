//! The hook that counts what a journal writes, from the bytes that go out.
//!
//! Of commits it takes the records apart as FORMAT.md has them (sections 4 and 5), so that the
//! figures are those of what was written and not of what the policy meant. What commits write to
//! slots is counted beside the records; entries of slots, written and voided, and everything else
//! (superblocks, intents, copies within the lanes) each apart. Of the disk, what goes to its log is
//! counted here; all that it is asked to do, it counts itself ([`crate::replay::media`]).

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use journal_core::units::LINE_BYTES;
use journal_core::{BlockDevice, BlockNumber, DeviceError, Hook, MediumError, Offset, Pmem, Site};

use crate::replay::media::DiskCounts;

/// What was written to persistent memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub bytes: u64,
    /// Lines that were flushed or streamed.
    pub lines: u64,
    pub fences: u64,
}

/// The records of commits, taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    pub images: u64,
    pub encoded: u64,
    pub discards: u64,
    /// Frames whose content is in a slot.
    pub slots: u64,
    /// Frames whose content is home.
    pub home: u64,
    /// Frames whose content is in the disk-side log.
    pub logged: u64,
    /// Bytes of images and encoded changes.
    pub payload: u64,
    /// Bytes of headers, names, frames, what they say of slots, and checks.
    pub headers: u64,
    /// Bytes up to the ends of lines.
    pub padding: u64,
}

/// What was written to persistent memory, by what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Records of commits.
    pub records: Written,
    /// Versions that commits put into slots.
    pub slots: Written,
    /// Of them, those that were written whole.
    pub whole_slots: u64,
    /// Entries of slots: written, and voided.
    pub entries: Written,
    pub voids: Written,
    /// The rest.
    pub upkeep: Written,
}

impl Account {
    /// Where a site of this name belongs.
    fn of(&mut self, name: &str) -> &mut Written {
        match name {
            "slot.image" | "slot.rewrite" | "slot.rewrite.flush" => &mut self.slots,
            _ if name.starts_with("slot.spilled") => &mut self.slots,
            "slot.void" | "slot.void.flush" | "slot.void.fence" => &mut self.voids,
            _ if name.starts_with("commit.") => &mut self.records,
            _ if name.starts_with("slot.entry") => &mut self.entries,
            _ => &mut self.upkeep,
        }
    }

    /// What commits wrote.
    pub const fn commits(&self) -> Written {
        Written {
            bytes: self.records.bytes + self.slots.bytes,
            lines: self.records.lines + self.slots.lines,
            fences: self.records.fences + self.slots.fences,
        }
    }
}

/// Where the content of a committed block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the record, or home: whole.
    Elsewhere,
    /// In the record, as far as it differs: a number of bytes, of which this is the first.
    Encoded {
        first: u8,
        bytes: u64,
    },
    Slot,
    Log,
}

/// A frame of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed {
    pub block: u64,
    pub place: Place,
}

#[derive(Debug, Default)]
struct Table {
    account: Cell<Account>,
    records: Cell<Records>,
    /// Fronts that were written and not yet taken apart.
    fronts: RefCell<Vec<u8>>,
    /// Frames of records, until somebody takes them.
    framed: RefCell<Vec<Framed>>,
    /// Blocks that a checkpoint wrote home, likewise.
    homed: RefCell<Vec<u64>>,
    /// The disk-side log: what commits wrote there.
    log: Cell<DiskCounts>,
    block_bytes: usize,
}

/// Clones count together.
#[derive(Clone, Debug)]
pub struct Counter {
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
    pub(super) const FRAME_BLOCK: usize = 0;
    pub(super) const FRAME_LEN: usize = 8;
    pub(super) const FRAME_FORM: usize = 12;
}

/// The forms of frames.
mod form {
    pub(super) const IMAGE: u8 = 1;
    pub(super) const ENCODED: u8 = 2;
    pub(super) const DISCARD: u8 = 3;
    pub(super) const SLOT: u8 = 4;
    pub(super) const HOME: u8 = 5;
    pub(super) const LOG: u8 = 6;
}

fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

impl Records {
    /// Takes the first front apart, and says where each block is; returns its length, or `None`
    /// where it is not all there.
    fn add_front(
        &mut self,
        front: &[u8],
        block_bytes: usize,
        framed: &mut Vec<Framed>,
    ) -> Option<usize> {
        let lines = number(front, at::LINES, 4)?;
        let frames = number(front, at::FRAMES, 2)? as usize;
        let names = number(front, at::NAMES, 2)? as usize;
        let lists = at::HEADER_BYTES + names * at::NAME_BYTES;
        let mut added = *self;
        let (mut images, mut encoded, mut named) = (0, 0, 0);
        let known = framed.len();
        let payloads = lists + frames * at::FRAME_BYTES;
        for frame in 0..frames {
            let frame = lists + frame * at::FRAME_BYTES;
            let payload = payloads + (encoded + named) as usize;
            let Some((block, len, form)) = frame_at(front, frame) else {
                framed.truncate(known);
                return None;
            };
            let place = match form {
                form::ENCODED => {
                    let first = front.get(payload).copied().unwrap_or_default();
                    Place::Encoded { first, bytes: len }
                }
                form::SLOT => Place::Slot,
                form::LOG => Place::Log,
                _ => Place::Elsewhere,
            };
            framed.push(Framed { block, place });
            match form {
                form::IMAGE => images += 1,
                form::ENCODED => {
                    encoded += len;
                    added.encoded += 1;
                }
                form::DISCARD => added.discards += 1,
                form::SLOT => {
                    named += len;
                    added.slots += 1;
                }
                form::LOG => {
                    named += len;
                    added.logged += 1;
                }
                form::HOME => added.home += 1,
                // Nobody has defined it: the account then does not come out even.
                _ => {}
            }
        }
        let image_bytes = images * block_bytes as u64;
        let front_bytes = lines * LINE_BYTES as u64 - image_bytes;
        let headers = (payloads + at::CHECK_BYTES) as u64 + named;
        added.images += images;
        added.payload += image_bytes + encoded;
        added.headers += headers;
        added.padding += front_bytes - headers - encoded;
        let front_bytes = front_bytes as usize;
        if front.len() < front_bytes {
            framed.truncate(known);
            return None;
        }
        *self = added;
        Some(front_bytes)
    }

    pub const fn frames(&self) -> u64 {
        self.images + self.encoded + self.discards + self.slots + self.home + self.logged
    }
}

/// Block, length and form of the frame that begins at a place.
fn frame_at(front: &[u8], at: usize) -> Option<(u64, u64, u8)> {
    let block = number(front, at + at::FRAME_BLOCK, 8)?;
    let len = number(front, at + at::FRAME_LEN, 4)?;
    Some((block, len, number(front, at + at::FRAME_FORM, 1)? as u8))
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
    pub fn new(block_bytes: usize) -> Self {
        Self { table: Rc::new(Table { block_bytes, ..Table::default() }) }
    }

    /// What was written, by what it is for.
    pub fn account(&self) -> Account {
        self.table.account.get()
    }

    /// The records of commits, taken apart.
    pub fn records(&self) -> Records {
        self.table.records.get()
    }

    /// The frames of the records since the last time, in their order.
    pub fn take_framed(&self) -> Vec<Framed> {
        self.table.framed.take()
    }

    /// The blocks that checkpoints wrote home since the last time.
    pub fn take_homed(&self) -> Vec<u64> {
        self.table.homed.take()
    }

    /// What commits wrote to the disk-side log.
    pub fn log(&self) -> DiskCounts {
        self.table.log.get()
    }

    fn add(&self, site: Site, add: impl FnOnce(&mut Written)) {
        update(&self.table.account, |account| add(account.of(site.name)));
    }

    fn see_front(&self, bytes: &[u8]) {
        let mut fronts = self.table.fronts.borrow_mut();
        let mut framed = self.table.framed.borrow_mut();
        fronts.extend_from_slice(bytes);
        // A front that wraps comes in two pieces.
        let mut records = self.table.records.get();
        let block_bytes = self.table.block_bytes;
        while let Some(used) = records.add_front(&fronts, block_bytes, &mut framed) {
            fronts.drain(..used);
        }
        self.table.records.set(records);
    }
}

impl Hook for Counter {
    fn store<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.add(site, |written| written.bytes += bytes.len() as u64);
        pmem.store(at, bytes);
    }

    fn store_u64<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, value: u64) {
        self.add(site, |written| written.bytes += 8);
        pmem.store_u64(at, value);
    }

    fn flush<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, len: usize) {
        self.add(site, |written| written.lines += lines(at, len));
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
        self.add(site, |written| {
            written.bytes += bytes.len() as u64;
            written.lines += lines(at, bytes.len());
        });
        match site.name {
            "commit.front" => self.see_front(bytes),
            "slot.image" => update(&self.table.account, |account| account.whole_slots += 1),
            _ => {}
        }
        pmem.stream(at, bytes);
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        self.add(site, |written| written.fences += 1);
        pmem.fence()
    }

    fn disk_write<D: BlockDevice>(
        &mut self,
        site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        let bytes: usize = from.iter().map(|bytes| bytes.len()).sum();
        let blocks = (bytes / self.table.block_bytes) as u64;
        match site.name {
            "checkpoint.home" => {
                self.table.homed.borrow_mut().extend(first.raw()..first.raw() + blocks);
            }
            "log.write" => update(&self.table.log, |log| {
                log.runs += 1;
                log.blocks += blocks;
            }),
            _ => {}
        }
        device.write_vectored(first, from)
    }

    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        if site.name == "log.sync" {
            update(&self.table.log, |log| log.syncs += 1);
        }
        device.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A front with a name, an image, an encoded change of 100 bytes, a discard, a slot, a block
    /// that is home, one in the disk-side log, and an encoded change of one byte.
    fn front() -> Vec<u8> {
        let (lists, block) = (64 + 16 + 7 * 16, 64);
        let encoded = 100 + 16 + 16 + 1;
        let bytes = (lists + encoded + 8_usize).next_multiple_of(64);
        let mut front = vec![0; bytes];
        front[at::LINES] = ((bytes + block) / 64) as u8;
        front[at::FRAMES] = 7;
        front[at::NAMES] = 1;
        (front[lists], front[lists + encoded - 1]) = (7, 9);
        let frames = [(1, 64), (2, 100), (3, 0), (4, 16), (5, 0), (6, 16), (2, 1)];
        for (frame, (form, len)) in frames.into_iter().enumerate() {
            let at = 80 + frame * 16;
            front[at + at::FRAME_BLOCK] = frame as u8;
            front[at + at::FRAME_FORM] = form;
            front[at + at::FRAME_LEN] = len;
        }
        front
    }

    #[test]
    fn fronts_are_taken_apart_however_they_come() {
        let once = Records {
            images: 1,
            encoded: 2,
            discards: 1,
            slots: 1,
            home: 1,
            logged: 1,
            payload: 165,
            headers: 64 + 16 + 7 * 16 + 2 * 16 + 8,
            padding: 384 - 232 - 101,
        };
        assert_eq!(once.frames(), 7);
        let places = [
            Place::Elsewhere,
            Place::Encoded { first: 7, bytes: 100 },
            Place::Elsewhere,
            Place::Slot,
            Place::Elsewhere,
            Place::Log,
            Place::Encoded { first: 9, bytes: 1 },
        ];
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
            let framed = (0..7).zip(places).map(|(block, place)| Framed { block, place });
            let framed: Vec<_> = framed.collect();
            assert_eq!(counter.take_framed(), framed.repeat(2), "{cut} bytes");
            assert_eq!(counter.take_framed(), []);
        }
    }

    #[test]
    fn sites_are_counted_where_they_belong() {
        let mut account = Account::default();
        for site in journal_core::SITES.iter().copied().flatten() {
            account.of(site.name).bytes += 1;
        }
        let Account { records, slots, entries, voids, upkeep, .. } = account;
        assert_eq!([records, slots, entries, voids].map(|written| written.bytes), [3, 6, 2, 3]);
        assert!(upkeep.bytes > 10);
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
