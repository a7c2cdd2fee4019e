//! Changes to a journal with all checks made right again, so that readers go deep.

use super::layout::{BOOK, Field, Layout, little_endian};
use super::reader::{
    Found, Part, Record, crc64, lanes_at, record_seed, shield_bytes, small_check, span_bytes,
};
use super::versions::{Area, State, entry_check};

/// A ring in the bytes of a span.
pub struct RingMut<'a> {
    pub span: &'a mut [u8],
    pub start: usize,
    pub bytes: usize,
}

impl RingMut<'_> {
    fn place(&self, at: u64) -> usize {
        self.start + (at % self.bytes as u64) as usize
    }

    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        (0..len as u64).map(|byte| self.span[self.place(at.wrapping_add(byte))]).collect()
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        for (byte, offset) in bytes.iter().zip(0..) {
            let place = self.place(at.wrapping_add(offset));
            self.span[place] = *byte;
        }
    }

    /// Puts a number into a field of the structure at a lane offset.
    pub fn put(&mut self, at: u64, field: &Field, value: u64) {
        self.write(at + field.at as u64, &value.to_le_bytes()[..field.len.min(8)]);
    }

    /// Makes the small check at a lane offset right, if its names fit.
    pub fn seal_small(&mut self, at: u64, id: &[u8]) {
        let names = BOOK.header.number(&self.read(at, 64), "names") as usize;
        if 64 + 16 * names <= self.bytes {
            let check = small_check(id, &self.read(at, 64 + 16 * names));
            self.put(at, BOOK.header.field("check"), check);
        }
    }

    /// Makes a small check another one.
    pub fn turn_small_check(&mut self, at: u64) {
        let check = BOOK.header.number(&self.read(at, 64), "check");
        self.put(at, BOOK.header.field("check"), check ^ 1);
    }

    /// Makes the checks of the part at a lane offset right, as far as its lengths can be; returns
    /// the large one.
    pub fn seal_part(&mut self, at: u64, id: &[u8], seed: u64) -> u64 {
        self.seal_small(at, id);
        self.seal_large(at, seed)
    }

    /// Makes the large check alone right.
    pub fn seal_large(&mut self, at: u64, seed: u64) -> u64 {
        let Some([front, images]) = self.lengths(at) else { return seed };
        let body = self.read(at, front - 8);
        let image_bytes = self.read(at + front as u64, images);
        let check = crc64(crc64(seed, &image_bytes), &body);
        self.write(at + front as u64 - 8, &check.to_le_bytes());
        check
    }

    /// Bytes of the front of the part at a lane offset, and of its images, if there is room for
    /// them.
    fn lengths(&self, at: u64) -> Option<[usize; 2]> {
        let line = self.read(at, 64);
        let field = |name| BOOK.header.number(&line, name) as usize;
        let (names, frames, kind) = (field("names"), field("frames"), field("kind") as u64);
        let evidence_bytes = 64 + 16 * names;
        let lists = evidence_bytes + 16 * frames;
        if lists + 8 > self.bytes {
            return None;
        }
        let lists_bytes = self.read(at, lists);
        let (mut encoded, mut images) = (0, 0);
        for frame in lists_bytes[evidence_bytes..].chunks(16) {
            let len = BOOK.frame.number(frame, "len") as usize;
            match BOOK.frame.number(frame, "form") {
                form if form == BOOK.image => images += 64,
                form if [BOOK.encoded, BOOK.slot, BOOK.log].contains(&form) => encoded += len,
                _ => {}
            }
        }
        encoded += if [BOOK.intent, BOOK.copy].contains(&kind) { 8 * frames } else { 0 };
        let front = (lists + encoded + 8).next_multiple_of(64);
        (front + images <= self.bytes).then_some([front, images])
    }

    /// Seals whatever parts stand one behind the other from a lane offset on, a lane long.
    fn seal_from(&mut self, head: u64, id: &[u8]) {
        let (mut at, mut seed) = (head, record_seed(id));
        let bytes = self.bytes as u64;
        let left = |at: u64| bytes.checked_sub(at.wrapping_sub(head)).filter(|left| *left >= 64);
        while let Some(left) = left(at) {
            let line = self.read(at, 64);
            let field = |name| BOOK.header.number(&line, name);
            let (lines, is_last) = (field("lines"), field("flags") & 1 == 1);
            self.seal_small(at, id);
            // The large one of what reaches around would be written over what stands at the head.
            let reaches_head = self.lengths(at).is_some_and(|[front, _]| front as u64 > left);
            let check = if reaches_head { seed } else { self.seal_large(at, seed) };
            seed = if is_last { record_seed(id) } else { check };
            at = at.wrapping_add(64 * lines.max(1));
        }
    }

    /// Seals all parts of a record.
    pub fn seal(&mut self, record: &Record, id: &[u8]) {
        let mut seed = record_seed(id);
        for part in &record.parts {
            seed = self.seal_part(part.at, id, seed);
        }
    }
}

/// Makes the check of a copy of the superblock right.
pub fn seal_copy(span: &mut [u8], at: usize) {
    let lanes = BOOK.head.number(&span[at..], "lanes") as usize;
    let len = BOOK.head.len() + lanes * BOOK.mark.len();
    if let Some(copy) = span.get_mut(at..at + len + 8) {
        let check = crc64(0, &copy[..len]);
        copy[len..].copy_from_slice(&check.to_le_bytes());
    }
}

/// A number in a journal.
#[derive(Clone, Debug)]
pub enum Target {
    /// In both copies of the superblock, or in one.
    Superblock {
        copies: Vec<usize>,
        at: usize,
        field: Field,
    },
    /// In a part of a record.
    Record {
        lane: usize,
        record: usize,
        at: u64,
        field: Field,
    },
    Intent {
        at: u64,
        field: Field,
    },
    /// In the entry of a slot.
    Entry {
        slot: u64,
        at: usize,
        field: Field,
    },
}

/// Every number that there is.
pub fn targets(found: &Found) -> Vec<Target> {
    let mut targets = Vec::new();
    let copies = found.copies.map(|copy| copy as usize);
    for copies in [copies.to_vec(), copies[..1].to_vec(), copies[1..].to_vec()] {
        let mut add = |at: usize, layout: &Layout| {
            targets.extend(layout.fields.iter().map(|field| Target::Superblock {
                copies: copies.clone(),
                at,
                field: field.clone(),
            }));
        };
        add(0, &BOOK.head);
        (0..found.lanes.len()).for_each(|lane| add(128 + 32 * lane, &BOOK.mark));
    }
    for (lane, records) in found.lanes.iter().enumerate() {
        for (record, parts) in records.records.iter().enumerate() {
            for part in &parts.parts {
                let fields = fields_of(part);
                targets.extend(fields.into_iter().map(|(at, field)| {
                    let at = part.at + at as u64;
                    Target::Record { lane, record, at, field }
                }));
            }
        }
    }
    if let Some(part) = &found.intent {
        let fields = fields_of(part);
        let fields = fields.into_iter();
        targets.extend(fields.map(|(at, field)| Target::Intent { at: at as u64, field }));
    }
    for entry in &found.entries {
        let (slot, at) = (entry.slot, entry.at as usize);
        // Of what is void there is nothing to be made right.
        let fields = BOOK.entry.fields.iter().filter(|_| entry.state != State::Void);
        targets.extend(fields.map(|field| Target::Entry { slot, at, field: field.clone() }));
    }
    targets
}

/// The fields of a part's front, with the places of their structures.
fn fields_of(part: &Part) -> Vec<(usize, Field)> {
    let (names, frames) = (part.header.names.len(), part.frames.len());
    let header = [(0, &BOOK.header)];
    let names_at = (0..names).map(|name| (64 + 16 * name, &BOOK.name));
    let frames_at = (0..frames).map(|frame| (64 + 16 * names + 16 * frame, &BOOK.frame));
    let structures = header.into_iter().chain(names_at).chain(frames_at);
    let fields = structures
        .flat_map(|(at, layout)| layout.fields.iter().map(move |field| (at, field.clone())));
    let stamps = (0..part.stamps.len()).map(|stamp| {
        let field = Field { name: "stamp of a frame".into(), at: 0, len: 8 };
        (64 + 16 * names + 16 * frames + 8 * stamp, field)
    });
    let mut at = 64 + 16 * names + 16 * frames;
    let mut slots = Vec::new();
    for frame in &part.frames {
        if [BOOK.slot, BOOK.log].contains(&frame.form) {
            let fields = BOOK.named_slot.fields.iter().cloned();
            slots.extend(fields.map(|field| (at, field)));
        }
        at += if frame.form == BOOK.image { 0 } else { frame.payload.len() };
    }
    fields.chain(stamps).chain(slots).collect()
}

/// Puts a value where a target says; the checks are made right by [`seal`].
pub fn put(span: &mut [u8], found: &Found, target: &Target, change: &dyn Fn(u64) -> u64) {
    match target {
        Target::Superblock { copies, at, field } => {
            for copy in copies {
                let len = field.len.min(8);
                let place = &mut span[copy + at + field.at..][..len];
                let value = change(little_endian(place));
                place.copy_from_slice(&value.to_le_bytes()[..len]);
            }
        }
        Target::Record { lane, at, field, .. } => {
            let lane = &found.lanes[*lane];
            let (start, bytes) = (lane.start as usize, lane.bytes as usize);
            let mut ring = RingMut { span, start, bytes };
            let value = ring.read(at + field.at as u64, field.len.min(8));
            ring.put(*at, field, change(little_endian(&value)));
        }
        Target::Intent { at, field } => {
            let mut ring = shield(span, found);
            let value = ring.read(at + field.at as u64, field.len.min(8));
            ring.put(*at, field, change(little_endian(&value)));
        }
        Target::Entry { at, field, .. } => {
            let place = &mut span[at + field.at..][..field.len];
            let value = change(little_endian(place));
            place.copy_from_slice(&value.to_le_bytes()[..field.len]);
        }
    }
}

fn shield<'a>(span: &'a mut [u8], found: &Found) -> RingMut<'a> {
    let start = found.shield as usize;
    RingMut { span, start, bytes: found.lanes[0].start as usize - start }
}

/// Makes the checks of everything that a target is part of right.
pub fn seal(span: &mut [u8], found: &Found, target: &Target) {
    let id = found.head[BOOK.head.field("journal_id").at..][..16].to_vec();
    match target {
        Target::Superblock { copies, .. } => {
            copies.iter().for_each(|copy| seal_copy(span, *copy));
        }
        Target::Record { lane, record, .. } => {
            let lane = &found.lanes[*lane];
            let (start, bytes) = (lane.start as usize, lane.bytes as usize);
            RingMut { span, start, bytes }.seal(&lane.records[*record], &id);
        }
        Target::Intent { .. } => {
            let _ = shield(span, found).seal_part(0, &id, record_seed(&id));
        }
        // A check that was forged stays: the entry is torn then, or void.
        Target::Entry { slot, at, field } if field.name != "check" => {
            seal_entry(&mut span[*at..*at + BOOK.entry.len()], &id, *slot);
        }
        Target::Entry { .. } => {}
    }
}

fn seal_entry(entry: &mut [u8], id: &[u8], slot: u64) {
    let check = entry_check(id, slot, entry);
    entry[24..].copy_from_slice(&check.to_le_bytes());
}

/// Makes the checks of everything right that a span holds, going by what it says itself: of both
/// copies of the superblock, of what begins where a record has to, and of entries that are not
/// void. Bytes that nobody wrote are read deeper then than checks let anybody.
pub fn seal_span(span: &mut [u8]) {
    let head_bytes = BOOK.head.len();
    let Some(head) = span.get(..head_bytes).map(<[u8]>::to_vec) else { return };
    seal_copy(span, 0);
    let field = |name| BOOK.head.number(&head, name);
    let (lanes, unit) = (field("lanes"), field("unit_bytes"));
    let notes_end = head_bytes as u64 + lanes * BOOK.mark.len() as u64;
    let can_be = (1..=BOOK.lanes_max).contains(&lanes)
        && unit >= notes_end + 8
        && field("block_bytes") <= 65536
        && field("shield_blocks") <= BOOK.shield_blocks_max
        && span_bytes(&head).is_some_and(|bytes| bytes <= span.len() as u64);
    if !can_be {
        return;
    }
    seal_copy(span, unit as usize);
    let notes = span[head_bytes..notes_end as usize].chunks(BOOK.mark.len());
    let heads: Vec<u64> = notes.map(|note| BOOK.mark.number(note, "head")).collect();
    let id = head[BOOK.head.field("journal_id").at..][..16].to_vec();
    let (shield, lane_bytes) = (shield_bytes(&head) as usize, field("lane_bytes") as usize);
    if shield > 0 {
        let start = 2 * unit as usize;
        RingMut { span, start, bytes: shield }.seal_part(0, &id, record_seed(&id));
    }
    let start = lanes_at(&head) as usize;
    for (lane, at) in heads.into_iter().enumerate().filter(|(_, at)| *at < 1 << 62) {
        let start = start + lane * lane_bytes;
        RingMut { span, start, bytes: lane_bytes }.seal_from(at, &id);
    }
    let area = Area::of(&head, (start + lanes as usize * lane_bytes) as u64);
    for slot in 0..lanes * area.each {
        let at = area.entry_at(slot) as usize;
        let entry = &mut span[at..at + BOOK.entry.len()];
        if BOOK.entry.number(entry, "check") != 0 {
            seal_entry(entry, &id, slot);
        }
    }
}
