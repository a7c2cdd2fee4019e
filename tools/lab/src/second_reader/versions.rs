//! Section 7 of FORMAT.md and what section 8 makes of it: slots, their entries, and which versions
//! of blocks count. A part of the second reader.

use core::ops::Range;
use std::collections::BTreeMap;

use journal_core::BlockNumber;
use sim_disk::Image;

use super::blocks::{BLOCK_BYTES, BLOCKS};
use super::layout::{BOOK, little_endian};
use super::parts::{
    Apply, Content, Frame, Lane, Medium, Part, Record, Refusal, content_check, crc64, entry_seed,
};

/// Where slots and entries lie in a span.
#[derive(Clone, Copy, Debug, Default)]
pub struct Area {
    entries: u64,
    slots: u64,
    /// How many places each lane has, and how many of them are slots.
    pub each: u64,
    each_slots: u64,
    lanes: u64,
    /// Blocks of the store: behind them is the log.
    blocks: u64,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Void,
    Whole,
    Torn,
}

/// An entry that was found.
#[derive(Clone, Debug)]
pub struct Entry {
    pub slot: u64,
    /// Where it begins in the span.
    pub at: u64,
    pub bytes: Vec<u8>,
    pub state: State,
    /// Whether it is that of a block of the log.
    is_logged: bool,
}

impl Entry {
    pub fn field(&self, name: &str) -> u64 {
        BOOK.entry.number(&self.bytes, name)
    }
}

/// The check that an entry has to have.
pub fn entry_check(id: &[u8], slot: u64, bytes: &[u8]) -> u64 {
    let check = crc64(entry_seed(id, slot), &bytes[..24]);
    if check == 0 { u64::MAX } else { check }
}

impl Area {
    /// Behind the lanes, which end at `start`.
    pub fn of(head: &[u8], start: u64) -> Self {
        let field = |name| BOOK.head.number(head, name);
        let (lanes, blocks) = (field("lanes"), field("device_blocks"));
        let each_slots = field("lane_slots");
        let each = each_slots + field("lane_log_blocks");
        let area = Self { entries: start, slots: start, each, each_slots, lanes, blocks };
        Self { slots: start + lanes * area.entries_bytes(), ..area }
    }

    fn entries_bytes(&self) -> u64 {
        (BOOK.entry.len() as u64 * self.each).next_multiple_of(BOOK.line as u64)
    }

    /// Bytes of all entries and slots of such a journal.
    pub fn bytes(head: &[u8]) -> Option<u64> {
        let field = |name| BOOK.head.number(head, name);
        let each = field("lane_slots") + field("lane_log_blocks");
        let area = Self { each, ..Self::default() };
        let slots = field("lane_slots").checked_mul(field("block_bytes"))?;
        field("lanes").checked_mul(slots.checked_add(area.entries_bytes())?)
    }

    /// The numbers of a lane's slots, and of its blocks of the log.
    pub fn of_lane(&self, lane: u64) -> [Range<u64>; 2] {
        let first = lane * self.each;
        let log = first + self.each_slots;
        [first..log, log..first + self.each]
    }

    /// The device's block that a number stands for, if it is one of the log.
    pub fn log_at(&self, slot: u64) -> Option<u64> {
        let (lane, index) = (slot / self.each, slot % self.each);
        let log_blocks = self.each - self.each_slots;
        let index = index.checked_sub(self.each_slots)?;
        Some(self.blocks + lane * log_blocks + index)
    }

    pub fn entry_at(&self, slot: u64) -> u64 {
        let (lane, index) = (slot / self.each, slot % self.each);
        self.entries + lane * self.entries_bytes() + index * BOOK.entry.len() as u64
    }

    /// Where a slot begins.
    pub fn slot_at(&self, slot: u64) -> u64 {
        let (lane, index) = (slot / self.each, slot % self.each);
        self.slots + (lane * self.each_slots + index) * BLOCK_BYTES as u64
    }

    /// The slot that a place in the span belongs to.
    pub fn slot_of(&self, place: u64) -> Option<u64> {
        let at = place.checked_sub(self.slots)? / BLOCK_BYTES as u64;
        let lane = at.checked_div(self.each_slots)?;
        (lane < self.lanes).then_some(lane * self.each + at % self.each_slots)
    }

    fn content<'m>(&self, medium: &'m Medium<'_>, slot: u64) -> Option<&'m [u8]> {
        medium.read(self.slot_at(slot), BLOCK_BYTES as u64)
    }

    /// Every entry, in the order of their slots.
    pub fn entries(&self, medium: &Medium<'_>, id: &[u8]) -> Result<Vec<Entry>, Refusal> {
        let entry = |slot| {
            let at = self.entry_at(slot);
            let bytes = medium.read(at, BOOK.entry.len() as u64).ok_or(Refusal::Missing)?.to_vec();
            let state = match BOOK.entry.number(&bytes, "check") {
                0 => State::Void,
                check if check == entry_check(id, slot, &bytes) => State::Whole,
                _ => State::Torn,
            };
            let is_logged = self.log_at(slot).is_some();
            let entry = Entry { slot, at, bytes, state, is_logged };
            let stamps = 1..1 << 61;
            let can_be =
                entry.field("block") < self.blocks && stamps.contains(&entry.field("stamp"));
            let is_rot = state == State::Whole && !can_be;
            if is_rot { Err(Refusal::RottenEntry { slot }) } else { Ok(entry) }
        };
        (0..self.lanes * self.each).map(entry).collect()
    }
}

/// A version of a block.
#[derive(Clone, Debug)]
pub struct Version {
    pub stamp: u64,
    /// The lane of its frame, and the sequence there; none where only an entry is left.
    pub record: Option<(usize, u64)>,
    /// The slot that it names, and the check of what is there.
    pub slot: Option<(u64, u64)>,
    pub is_folded: bool,
    form: u64,
    payload: Vec<u8>,
}

impl Version {
    fn of_frame(frame: &Frame, stamp: u64, lane: usize, sequence: u64) -> Self {
        let field = |name| BOOK.named_slot.number(&frame.payload, name);
        let is_named = frame.form == BOOK.slot || frame.form == BOOK.log;
        let slot = is_named.then(|| (field("slot"), field("content")));
        let (form, payload) = (frame.form, frame.payload.clone());
        Self { stamp, record: Some((lane, sequence)), slot, is_folded: false, form, payload }
    }

    fn of_entry(entry: &Entry) -> Self {
        let form = if entry.is_logged { BOOK.log } else { BOOK.slot };
        Self {
            stamp: entry.field("stamp"),
            record: None,
            slot: Some((entry.slot, entry.field("content"))),
            is_folded: true,
            form,
            payload: Vec::new(),
        }
    }
}

/// The versions of each block, the newest last.
#[derive(Clone, Debug, Default)]
pub struct Versions(pub BTreeMap<u64, Vec<Version>>);

impl Versions {
    pub fn of(lanes: &[Lane], entries: &[Entry]) -> Self {
        let mut whole: Vec<&Entry> =
            entries.iter().filter(|entry| entry.state == State::Whole).collect();
        whole.sort_by_key(|entry| entry.field("stamp"));
        let mut entries = whole.into_iter().peekable();
        let mut records: Vec<(usize, &Record)> = Vec::new();
        for (number, lane) in lanes.iter().enumerate() {
            records.extend(lane.records.iter().map(|record| (number, record)));
        }
        records.sort_by_key(|(_, record)| record.field("stamp"));
        let mut versions = Self::default();
        for (lane, record) in records {
            while let Some(entry) =
                entries.next_if(|entry| entry.field("stamp") <= record.field("stamp"))
            {
                versions.add(entry.field("block"), Version::of_entry(entry));
            }
            for part in &record.parts {
                let own = core::iter::repeat(part.header.field("stamp"));
                let stamps = part.stamps.iter().copied().chain(own);
                for (stamp, frame) in stamps.zip(&part.frames) {
                    let sequence = record.field("sequence");
                    versions.add(frame.block, Version::of_frame(frame, stamp, lane, sequence));
                }
            }
        }
        entries.for_each(|entry| versions.add(entry.field("block"), Version::of_entry(entry)));
        versions
    }

    fn add(&mut self, block: u64, version: Version) {
        let versions = self.0.entry(block).or_default();
        match versions.last_mut() {
            // A copy of what is not the newest.
            Some(newest) if newest.stamp > version.stamp => {}
            Some(newest)
                if newest.is_folded
                    && newest.stamp == version.stamp
                    && version.slot.is_some_and(|(slot, _)| newest.slot.unwrap().0 == slot) =>
            {
                newest.record = version.record;
            }
            // Its own frame is still to come.
            Some(newest)
                if newest.is_folded
                    && newest.stamp == version.stamp
                    && newest.record.is_none()
                    && version.record.is_some() =>
            {
                versions.insert(versions.len() - 1, version);
            }
            _ => versions.push(version),
        }
    }

    /// The newest whole version of each block that has one.
    fn newest_whole(&self) -> impl Iterator<Item = &Version> {
        let newest = |versions: &'_ Vec<Version>| {
            versions.iter().rposition(|version| version.form != BOOK.encoded)
        };
        self.0.values().filter_map(move |versions| newest(versions).map(|at| &versions[at]))
    }

    /// Ends a lane before a record.
    fn end_before(&mut self, lane: usize, sequence: u64) {
        let goes = |record: Option<(usize, u64)>| {
            record.is_some_and(|(of, number)| of == lane && number >= sequence)
        };
        for versions in self.0.values_mut() {
            versions.retain(|version| version.is_folded || !goes(version.record));
            for version in versions.iter_mut().filter(|version| goes(version.record)) {
                version.record = None;
            }
        }
    }

    /// Drops what names torn slots; returns before which sequences lanes end for that.
    pub fn resolve(
        &mut self,
        medium: &Medium<'_>,
        area: &Area,
        id: &[u8],
    ) -> Result<BTreeMap<usize, u64>, Refusal> {
        let mut ends = BTreeMap::new();
        loop {
            let mut missing = false;
            let mut torn = None;
            for version in self.newest_whole() {
                let Some((slot, check)) = version.slot else { continue };
                if version.form == BOOK.log {
                    continue;
                }
                let Some(content) = area.content(medium, slot) else {
                    missing = true;
                    continue;
                };
                if content_check(id, slot, content) == check {
                    continue;
                }
                if version.is_folded {
                    return Err(Refusal::RottenSlot);
                }
                torn = version.record;
            }
            let Some((lane, sequence)) = torn else {
                return if missing { Err(Refusal::Missing) } else { Ok(ends) };
            };
            self.end_before(lane, sequence);
            ends.insert(lane, sequence);
        }
    }

    /// Whether some version names a slot.
    pub fn name(&self, slot: u64) -> bool {
        self.0.values().flatten().any(|version| version.slot.is_some_and(|(of, _)| of == slot))
    }

    /// The content of every block: the device's, the intent's on top, then the versions.
    pub fn contents(
        &self,
        intent: Option<&Part>,
        image: &Image,
        area: &Area,
        id: &[u8],
        apply: Apply<'_>,
    ) -> Vec<Content> {
        let home = |block| {
            let content = image.disk(0).block(BlockNumber(block));
            let frames = intent.map_or(&[][..], |part| &part.frames);
            let repeated = frames.iter().rev().find(|frame| frame.block == block);
            let content = repeated.map_or(&content[..], |frame| &frame.payload);
            Content::Is(content.try_into().expect("a block"))
        };
        let content = |block| {
            let versions = self.0.get(&block).map_or(&[][..], |versions| versions);
            versions.iter().fold(home(block), |before, version| match (version.form, before) {
                (form, _) if form == BOOK.image => {
                    Content::Is(version.payload[..].try_into().expect("a block"))
                }
                (form, _) if form == BOOK.discard => Content::Undefined,
                (form, _) if form == BOOK.home => home(block),
                (form, _) if form == BOOK.slot => {
                    let (slot, _) = version.slot.expect("names one");
                    let at = usize::try_from(area.slot_at(slot)).expect("in the span");
                    let bytes = &image.pmem()[at..at + BLOCK_BYTES];
                    Content::Is(bytes.try_into().expect("a block"))
                }
                (form, _) if form == BOOK.log => {
                    let (slot, check) = version.slot.expect("names one");
                    let place = BlockNumber(area.log_at(slot).expect("is of the log"));
                    let bytes = image.disk(0).block(place);
                    match content_check(id, slot, &bytes) == check {
                        true => Content::Is(bytes[..].try_into().expect("a block")),
                        false => Content::Unreadable,
                    }
                }
                (_, Content::Is(mut block)) => {
                    let applies = apply(&version.payload, &mut block);
                    if applies { Content::Is(block) } else { Content::Unreadable }
                }
                (_, other) => other,
            })
        };
        (0..area.blocks.min(BLOCKS)).map(content).collect()
    }
}

/// Whether a payload names a slot of this lane.
pub fn names_slot_of(slots: &Range<u64>, payload: &[u8]) -> bool {
    let field = BOOK.named_slot.field("slot");
    payload
        .get(field.at..field.at + field.len)
        .is_some_and(|number| slots.contains(&little_endian(number)))
}
