//! The hook that counts what a journal writes, from the bytes that go out.
//!
//! Of commits it takes the records apart as FORMAT.md has them (sections 4 and 5), so that the
//! figures are those of what was written and not of what the policy meant. What commits write to
//! slots is counted beside the records. What the upkeep copies to make room is a record too, but
//! no transaction's: it is counted apart, and so are entries of slots, written and voided, and
//! everything else (superblocks, intents). Of the disk, what goes to its log is counted here; all
//! that it is asked to do, it counts itself ([`crate::replay::media`]).
//!
//! One thread calls the journal, and says where a call ends ([`Counter::end_call`]): then it is
//! known which record is the call's own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal_core::units::LINE_BYTES;
use journal_core::{BlockDevice, BlockNumber, DeviceError, Hook, MediumError, Offset, Pmem, Site};

use crate::bounds::Place;
use crate::replay::media::DiskCounts;

/// What was written to persistent memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub bytes: u64,
    /// Lines that were flushed or streamed.
    pub lines: u64,
    pub fences: u64,
}

impl core::ops::AddAssign for Written {
    fn add_assign(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.lines += more.lines;
        self.fences += more.fences;
    }
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
    /// What the upkeep copied to make room, as records: in the ring, in slots, and the names of
    /// what it moved to the disk-side log.
    pub moves: Written,
    /// The rest.
    pub upkeep: Written,
}

impl Account {
    /// Where a site of this name belongs, if it is not of a record.
    fn of(&mut self, name: &str) -> &mut Written {
        match name {
            "slot.void" | "slot.void.flush" | "slot.void.fence" => &mut self.voids,
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

/// A frame of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed {
    pub block: u64,
    pub place: Place,
}

/// A record of a commit, and what belongs to it.
#[derive(Debug, Default)]
struct Record {
    written: Written,
    slots: Written,
    /// The slots that were written whole.
    whole: Vec<u64>,
    parts: Records,
    framed: Vec<Framed>,
    log: DiskCounts,
}

impl Record {
    /// Whether it only says that blocks hold nothing: it comes before appends that go home.
    const fn discards_alone(&self) -> bool {
        self.parts.discards > 0 && self.parts.discards == self.parts.frames()
    }
}

#[derive(Debug, Default)]
struct Counted {
    account: Account,
    placed: Records,
    /// What commits wrote to the disk-side log.
    log: DiskCounts,
    /// What the upkeep wrote there.
    moved: DiskCounts,
    /// The record that is being stored, and those that are durable since the last call ended.
    open: Record,
    durable: Vec<Record>,
    /// Fronts of the open record.
    fronts: Vec<u8>,
    block_bytes: usize,
}

/// Clones count together.
#[derive(Clone, Debug)]
pub struct Counter {
    table: Arc<Mutex<Counted>>,
}

mod at {
    //! Offsets of FORMAT.md: in a record's header, in a frame's, and in what names a slot.
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
    pub(super) const SLOT_NUMBER: usize = 8;
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
        whole: &[u64],
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
                form::SLOT => {
                    let number = number(front, payload + at::SLOT_NUMBER, 4).unwrap_or_default();
                    Place::Slot { number, is_whole: whole.contains(&number) }
                }
                form::LOG => Place::Log,
                form::HOME => Place::Home,
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

impl core::ops::AddAssign for Records {
    fn add_assign(&mut self, more: Self) {
        self.images += more.images;
        self.encoded += more.encoded;
        self.discards += more.discards;
        self.slots += more.slots;
        self.home += more.home;
        self.logged += more.logged;
        self.payload += more.payload;
        self.headers += more.headers;
        self.padding += more.padding;
    }
}

/// Block, length and form of the frame that begins at a place.
fn frame_at(front: &[u8], at: usize) -> Option<(u64, u64, u8)> {
    let block = number(front, at + at::FRAME_BLOCK, 8)?;
    let len = number(front, at + at::FRAME_LEN, 4)?;
    Some((block, len, number(front, at + at::FRAME_FORM, 1)? as u8))
}

fn lines(at: Offset, len: usize) -> u64 {
    let line = LINE_BYTES as u64;
    if len == 0 { 0 } else { (at.raw() + len as u64).div_ceil(line) - at.raw() / line }
}

/// What a call of the journal stored.
#[derive(Debug, Default)]
pub struct Stored {
    /// The frames of its own record, in their order.
    pub framed: Vec<Framed>,
    /// Bytes of the records that the upkeep made in it.
    pub moved_bytes: u64,
}

impl Counted {
    fn add(&mut self, site: Site, add: impl FnOnce(&mut Written)) {
        add(match site.name {
            "slot.image" | "slot.rewrite" | "slot.rewrite.flush" => &mut self.open.slots,
            name if name.starts_with("slot.spilled") => &mut self.open.slots,
            name if name.starts_with("commit.") => &mut self.open.written,
            name => self.account.of(name),
        });
    }

    /// The open record is durable: it is taken apart.
    fn close_record(&mut self) {
        let mut record = core::mem::take(&mut self.open);
        let mut fronts = core::mem::take(&mut self.fronts);
        let mut left = &fronts[..];
        while let Some(used) =
            record.parts.add_front(left, self.block_bytes, &record.whole, &mut record.framed)
        {
            left = &left[used..];
        }
        fronts.drain(..fronts.len() - left.len());
        self.fronts = fronts;
        self.durable.push(record);
    }

    /// A call has ended. Of the records that became durable in it the last is its own, if it has
    /// one: the upkeep makes room before.
    fn end_call(&mut self, has_record: bool) -> Stored {
        let mut stored = Stored::default();
        let records = core::mem::take(&mut self.durable);
        let count = records.len();
        for (at, record) in records.into_iter().enumerate() {
            let Account { records, slots, moves, whole_slots, .. } = &mut self.account;
            if has_record && (at + 1 == count || record.discards_alone()) {
                *records += record.written;
                *slots += record.slots;
                *whole_slots += record.whole.len() as u64;
                self.placed += record.parts;
                self.log += record.log;
                stored.framed.extend(record.framed);
            } else {
                stored.moved_bytes += record.written.bytes;
                *moves += record.written;
                *moves += record.slots;
                self.moved += record.log;
            }
        }
        stored
    }
}

impl Counter {
    pub fn new(block_bytes: usize) -> Self {
        let table = Counted { block_bytes, ..Counted::default() };
        Self { table: Arc::new(Mutex::new(table)) }
    }

    fn table(&self) -> MutexGuard<'_, Counted> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was written, by what it is for, up to the end of the last call.
    pub fn account(&self) -> Account {
        self.table().account
    }

    /// The records of commits, taken apart.
    pub fn records(&self) -> Records {
        self.table().placed
    }

    /// Ends a call of the journal. `has_record` says whether it has committed a record of its own.
    pub fn end_call(&self, has_record: bool) -> Stored {
        self.table().end_call(has_record)
    }

    /// What commits wrote to the disk-side log, and what the upkeep moved there.
    pub fn log(&self) -> [DiskCounts; 2] {
        let table = self.table();
        [table.log, table.moved]
    }
}

impl Hook for Counter {
    fn store<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.table().add(site, |written| written.bytes += bytes.len() as u64);
        pmem.store(at, bytes);
    }

    fn store_u64<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, value: u64) {
        self.table().add(site, |written| written.bytes += 8);
        pmem.store_u64(at, value);
    }

    fn flush<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, len: usize) {
        self.table().add(site, |written| written.lines += lines(at, len));
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
        let mut table = self.table();
        table.add(site, |written| {
            written.bytes += bytes.len() as u64;
            written.lines += lines(at, bytes.len());
        });
        match site.name {
            "commit.front" => table.fronts.extend_from_slice(bytes),
            "slot.image" => {
                let slot = at.raw() / table.block_bytes as u64;
                table.open.whole.push(slot);
            }
            _ => {}
        }
        drop(table);
        pmem.stream(at, bytes);
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        let mut table = self.table();
        table.add(site, |written| written.fences += 1);
        if site.name == "commit.fence" {
            table.close_record();
        }
        drop(table);
        pmem.fence()
    }

    fn disk_write<D: BlockDevice>(
        &mut self,
        site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        if site.name == "log.write" {
            let bytes: usize = from.iter().map(|bytes| bytes.len()).sum();
            let mut table = self.table();
            let blocks = (bytes / table.block_bytes) as u64;
            table.open.log += DiskCounts { runs: 1, blocks, syncs: 0 };
        }
        device.write_vectored(first, from)
    }

    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        if site.name == "log.sync" {
            self.table().open.log += DiskCounts { runs: 0, blocks: 0, syncs: 1 };
        }
        device.sync()
    }
}

#[cfg(test)]
mod tests {
    use pmem_sys::Region;

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
        front[lists + 100 + at::SLOT_NUMBER] = 5;
        let frames = [(1, 64), (2, 100), (3, 0), (4, 16), (5, 0), (6, 16), (2, 1)];
        for (frame, (form, len)) in frames.into_iter().enumerate() {
            let at = 80 + frame * 16;
            front[at + at::FRAME_BLOCK] = frame as u8;
            front[at + at::FRAME_FORM] = form;
            front[at + at::FRAME_LEN] = len;
        }
        front
    }

    const ONCE: Records = Records {
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

    fn site(name: &str) -> Site {
        let all = journal_core::SITES.iter().copied().flatten();
        *all.into_iter().find(|site| site.name == name).expect("a site")
    }

    /// Stores a record as a journal does.
    fn record(counter: &mut Counter, pieces: &[&[u8]], whole: Option<u64>) {
        let mut region = Region::anonymous(1 << 16).expect("memory");
        if let Some(slot) = whole {
            counter.write_piece(site("slot.image"), &mut region, Offset(slot * 64), &[1; 64], 64);
        }
        for piece in pieces {
            counter.write_piece(site("commit.front"), &mut region, Offset(64), piece, 0);
        }
        counter.fence(site("commit.fence"), &mut region).expect("fenced");
    }

    #[test]
    fn fronts_are_taken_apart_however_they_come() {
        let front = front();
        let slot = |is_whole| Place::Slot { number: 5, is_whole };
        for (cut, whole) in (0..=front.len()).zip([None, Some(5), Some(6)].into_iter().cycle()) {
            let mut counter = Counter::new(64);
            record(&mut counter, &[&front[..cut], &front[cut..]], whole);
            let stored = counter.end_call(true);
            assert_eq!(counter.records(), ONCE, "{cut} bytes");
            let places = [
                Place::Elsewhere,
                Place::Encoded { first: 7, bytes: 100 },
                Place::Elsewhere,
                slot(whole == Some(5)),
                Place::Home,
                Place::Log,
                Place::Encoded { first: 9, bytes: 1 },
            ];
            let framed = (0..7).zip(places).map(|(block, place)| Framed { block, place });
            assert_eq!(stored.framed, framed.collect::<Vec<_>>(), "{cut} bytes");
        }
    }

    #[test]
    fn the_last_record_of_a_call_is_its_own() {
        let (front, mut counter) = (front(), Counter::new(64));
        record(&mut counter, &[&front], Some(1));
        record(&mut counter, &[&front], None);
        let stored = counter.end_call(true);
        assert_eq!((stored.framed.len(), stored.moved_bytes), (7, front.len() as u64));
        let Account { records, moves, whole_slots, .. } = counter.account();
        assert_eq!((records.bytes, whole_slots), (front.len() as u64, 0));
        // Of the first one, what it put into a slot as well.
        assert_eq!((moves.bytes, moves.fences), (front.len() as u64 + 64, 1));
        record(&mut counter, &[&front], None);
        assert_eq!(counter.end_call(false).framed, []);
        assert_eq!(counter.records(), ONCE);
    }

    #[test]
    fn sites_are_counted_where_they_belong() {
        let mut table = Counted::default();
        for site in journal_core::SITES.iter().copied().flatten() {
            table.add(*site, |written| written.bytes += 1);
        }
        let Counted { account: Account { entries, voids, upkeep, .. }, open, .. } = table;
        let counts = [open.written, open.slots, entries, voids].map(|written| written.bytes);
        assert_eq!(counts, [3, 6, 2, 3]);
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
