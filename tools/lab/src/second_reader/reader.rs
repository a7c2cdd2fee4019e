//! A second reader of the on-media format, written from FORMAT.md and in its order. It shares no
//! code with the crate, computes its checks bit by bit, and takes offsets from the document.

use core::ops::Range;
use std::collections::BTreeSet;

use sim_disk::Image;

use super::blocks::BLOCK_BYTES;
use super::layout::{BOOK, little_endian};
pub use super::parts::*;
use super::versions::{Area, Entry, State, Versions, names_slot_of};

/// Everything in a span that was accepted.
#[derive(Clone, Debug)]
pub struct Found {
    pub head: Vec<u8>,
    /// Where both copies of the superblock begin.
    pub copies: [u64; 2],
    pub copy_bytes: u64,
    pub is_closed: bool,
    pub shield: u64,
    pub lanes: Vec<Lane>,
    pub area: Area,
    pub entries: Vec<Entry>,
    pub versions: Versions,
    /// The believed intent.
    pub intent: Option<Part>,
    pub blocks: Vec<Content>,
    /// The newest note.
    pub note: Option<[u64; 2]>,
}

/// `?` of what has to be valid, in what may be refused.
macro_rules! valid {
    ($what:expr) => {
        match $what {
            Some(what) => what,
            None => return Ok(None),
        }
    };
}

/// Section 4: a ring of bytes.
struct Ring<'a> {
    medium: &'a Medium<'a>,
    start: u64,
    bytes: u64,
}

impl Ring<'_> {
    /// `None` if there are fewer than `len`.
    fn read(&self, at: u64, len: u64) -> Result<Option<Vec<u8>>, Refusal> {
        if len > self.bytes {
            return Ok(None);
        }
        let place = at % self.bytes;
        let first = len.min(self.bytes - place);
        let piece = |at, len| if len == 0 { Some(&[][..]) } else { self.medium.read(at, len) };
        let pieces = piece(self.start + place, first).zip(piece(self.start, len - first));
        pieces.map(|(first, second)| Some([first, second].concat())).ok_or(Refusal::Missing)
    }
}

/// Section 3: the whole copy at a place, head and notes; `Err(true)` for a foreign one.
fn copy(medium: &Medium<'_>, at: u64) -> Result<Result<Vec<u8>, bool>, Refusal> {
    let head_bytes = BOOK.head.len() as u64;
    let Some(head) = medium.read(at, head_bytes) else { return Ok(Err(false)) };
    if &head[..8] != b"nvmjrnl\0" {
        return Ok(Err(true));
    }
    let field = |name| BOOK.head.number(head, name);
    if !(1..=BOOK.lanes_max).contains(&field("lanes")) {
        return Ok(Err(false));
    }
    let content_bytes = head_bytes + field("lanes") * BOOK.mark.len() as u64;
    let Some(copy) = medium.read(at, content_bytes + 8) else { return Ok(Err(false)) };
    let (content, check) = copy.split_at(copy.len() - 8);
    if crc64(0, content) != little_endian(check) {
        return Ok(Err(false));
    }
    if field("version") != BOOK.version {
        return Err(Refusal::Version(field("version") as u32));
    }
    let known = BOOK.tail_pointer | BOOK.slots | BOOK.disk_log | BOOK.notes;
    let unknown = field("incompatible") & !known;
    if unknown != 0 {
        return Err(Refusal::Features(unknown));
    }
    let mut copy_bytes = content_bytes + 8;
    let mut kept_stamp = 0;
    if field("incompatible") & BOOK.notes != 0 {
        let kept_bytes = BOOK.kept_note.len() as u64;
        let Some(kept) = medium.read(at + copy_bytes, kept_bytes) else { return Ok(Err(false)) };
        let body = &kept[..BOOK.kept_note.field("check").at];
        if crc64(little_endian(check), body) != BOOK.kept_note.number(kept, "check") {
            return Ok(Err(false));
        }
        kept_stamp = BOOK.kept_note.number(kept, "stamp");
        copy_bytes += kept_bytes;
    }
    let (block, line) = (field("block_bytes"), BOOK.line as u64);
    let unit_least = copy_bytes.next_multiple_of(line);
    let can_be = block.is_power_of_two()
        && (64..=65536).contains(&block)
        && field("lane_bytes") % line == 0
        && field("lane_bytes") >= 128 + block
        && (field("incompatible") & BOOK.tail_pointer == 0
            || field("lane_bytes") <= 64 * ((1 << 40) - 1))
        && field("unit_bytes") % line == 0
        && (unit_least..=BOOK.unit_bytes_max).contains(&field("unit_bytes"))
        && field("shield_blocks") <= BOOK.shield_blocks_max
        && (field("lane_slots") + field("lane_log_blocks")) * field("lanes") <= BOOK.slots_max
        && (field("lane_slots") > 0) == (field("incompatible") & BOOK.slots != 0)
        && (field("lane_log_blocks") > 0) == (field("incompatible") & BOOK.disk_log != 0)
        && (field("segment_blocks") > 0) == (field("lane_log_blocks") > 0)
        && field("lane_log_blocks")
            .checked_rem(field("segment_blocks"))
            .is_none_or(|rest| rest == 0)
        && span_bytes(content).is_some()
        && counters_are_sane(content)
        && kept_stamp <= field("stamp_floor");
    if can_be { Ok(Ok(content.to_vec())) } else { Err(Refusal::Geometry) }
}

fn counters_are_sane(copy: &[u8]) -> bool {
    let (head, notes) = copy.split_at(BOOK.head.len());
    let counters = ["generation", "epoch", "stamp_floor", "shield_floor"];
    let mut counters = counters.into_iter().map(|name| BOOK.head.number(head, name));
    counters.all(|counter| counter < 1 << 62)
        && notes.chunks(BOOK.mark.len()).all(|note| {
            let field = |name| BOOK.mark.number(note, name);
            let counters = ["head", "head_sequence", "epoch_first", "durable_to"];
            counters.into_iter().all(|name| field(name) < 1 << 62)
                && field("head") % 64 == 0
                && field("head_sequence") > 0
        })
}

/// The front of an intent of as many images as there can be.
fn intent_front_bytes(head: &[u8]) -> u64 {
    let blocks = BOOK.head.number(head, "shield_blocks");
    (64 + 24 * blocks + 8).next_multiple_of(BOOK.line as u64)
}

pub fn shield_bytes(head: &[u8]) -> u64 {
    let blocks = BOOK.head.number(head, "shield_blocks");
    let images = blocks * BOOK.head.number(head, "block_bytes");
    if blocks == 0 { 0 } else { images + intent_front_bytes(head) }
}

/// The longest front in a lane, or in the shield area.
fn front_max(head: &[u8], lane: u64) -> u64 {
    let block_bytes = BOOK.head.number(head, "block_bytes");
    let of_record = (2632 + 2 * block_bytes).next_multiple_of(BOOK.line as u64);
    if lane == 255 { of_record.max(intent_front_bytes(head)) } else { of_record }
}

/// The tail words, a line for each lane, where the feature is on.
fn tails_bytes(head: &[u8]) -> u64 {
    let field = |name| BOOK.head.number(head, name);
    let is_on = field("incompatible") & BOOK.tail_pointer != 0;
    if is_on { BOOK.line as u64 * field("lanes") } else { 0 }
}

pub fn span_bytes(head: &[u8]) -> Option<u64> {
    let field = |name| BOOK.head.number(head, name);
    let lanes = field("lanes").checked_mul(field("lane_bytes"))?;
    lanes.checked_add(lanes_at(head))?.checked_add(Area::bytes(head)?)
}

/// Where the first lane begins.
pub fn lanes_at(head: &[u8]) -> u64 {
    2 * BOOK.head.number(head, "unit_bytes") + shield_bytes(head) + tails_bytes(head)
}

/// Section 3, "Reading it": the copy that counts, and where both are.
fn superblock(medium: &Medium<'_>) -> Result<(Vec<u8>, u64), Refusal> {
    let unit = |copy: &[u8]| BOOK.head.number(copy, "unit_bytes");
    let generation = |copy: &[u8]| BOOK.head.number(copy, "generation");
    if medium.read(0, 8).is_some_and(|magic| magic == b"nvmjvoid") {
        return Err(Refusal::Unfinished);
    }
    match copy(medium, 0)? {
        Ok(first) => match copy(medium, unit(&first))? {
            Ok(second) if generation(&second) > generation(&first) => Ok((second, unit(&first))),
            _ => Ok((first.clone(), unit(&first))),
        },
        Err(foreign) => {
            // What a torn copy says of the place of its twin is likely, and no more.
            let torn = medium.read(0, BOOK.head.len() as u64).filter(|_| !foreign);
            if let Some(torn) = torn {
                let (at, id) = (unit(torn), BOOK.head.field("journal_id").at);
                let is_twin =
                    |second: &[u8]| unit(second) == at && second[id..id + 16] == torn[id..id + 16];
                // What is no twin is content, and nothing that it says refuses the journal.
                let second = medium.read(at, BOOK.head.len() as u64).filter(|it| is_twin(it));
                let second = second.map(|_| copy(medium, at)).transpose()?;
                if let Some(Ok(second)) = second {
                    return Ok((second, at));
                }
            }
            let last = BOOK.unit_bytes_max.min(medium.bytes.len() as u64);
            for at in (BOOK.line as u64..=last).step_by(BOOK.line) {
                if let Ok(second) = copy(medium, at)? {
                    if unit(&second) == at {
                        return Ok((second, at));
                    }
                }
            }
            Err(if foreign { Refusal::NotAJournal } else { Refusal::Corrupt })
        }
    }
}

/// Section 3: the kept note of the copy that counts, and its stamp.
fn kept_note(medium: &Medium<'_>, counts: &[u8], second: u64) -> Option<(u64, [u64; 2])> {
    if BOOK.head.number(counts, "incompatible") & BOOK.notes == 0 {
        return None;
    }
    let is_it = |at: &u64| matches!(copy(medium, *at), Ok(Ok(copy)) if copy == counts);
    let at = [0, second].into_iter().find(is_it).expect("was read");
    let kept = medium.read(at + counts.len() as u64 + 8, BOOK.kept_note.len() as u64);
    let kept = kept.expect("was read");
    let stamp = BOOK.kept_note.number(kept, "stamp");
    (stamp > 0).then(|| (stamp, words(&kept[BOOK.kept_note.field("note").at..][..16])))
}

/// Two words.
fn words(bytes: &[u8]) -> [u64; 2] {
    [little_endian(&bytes[..8]), little_endian(&bytes[8..])]
}

/// Section 5: the newest note, given the kept one.
fn newest_note(kept: Option<(u64, [u64; 2])>, lanes: &[Lane]) -> Option<[u64; 2]> {
    let mut newest = kept;
    for part in lanes.iter().flat_map(|lane| &lane.records).flat_map(|record| &record.parts) {
        let (stamp, note) = (part.header.field("stamp"), part.header.note);
        if note.is_some() && newest.is_none_or(|(known, _)| known < stamp) {
            newest = note.map(|note| (stamp, note));
        }
    }
    newest.map(|(_, note)| note)
}

/// Section 5: what parts of one lane, or of the shield, are read with.
struct Parts<'a> {
    ring: Ring<'a>,
    id: Vec<u8>,
    /// What headers say of the lane.
    lane: u64,
    block_bytes: u64,
    /// The longest front.
    front_max: u64,
    /// Blocks of the store.
    blocks: u64,
    /// Numbers of the slots that frames may name, and of blocks of the log.
    slots: Range<u64>,
    log: Range<u64>,
}

impl Parts<'_> {
    /// One whose small check is right.
    fn header(&self, at: u64) -> Result<Option<Header>, Refusal> {
        let header = valid!(self.any_header(at)?);
        Ok(self.is_evidence(&header).then_some(header))
    }

    fn is_evidence(&self, header: &Header) -> bool {
        small_check(&self.id, &header.bytes) == header.field("check")
    }

    fn any_header(&self, at: u64) -> Result<Option<Header>, Refusal> {
        let line = valid!(self.ring.read(at, BOOK.line as u64)?);
        let field = |name| BOOK.header.number(&line, name);
        let is_here = field("position") == at && field("lane") == self.lane;
        if !is_here || field("names") > BOOK.lanes_max {
            return Ok(None);
        }
        let counters = ["position", "sequence", "epoch", "generation", "watermark", "stamp"];
        if counters.into_iter().any(|name| field(name) >= 1 << 61) {
            return Ok(None);
        }
        let name_bytes = BOOK.name.len();
        let bytes = valid!(self.ring.read(at, 64 + field("names") * name_bytes as u64)?);
        let mut entries: Vec<&[u8]> = bytes[64..].chunks(name_bytes).collect();
        let note = if field("flags") & 2 == 0 { None } else { entries.pop().map(words) };
        let names = entries
            .iter()
            .map(|name| (BOOK.name.number(name, "lane"), BOOK.name.number(name, "sequence")));
        Ok(Some(Header { names: names.collect(), note, bytes }))
    }

    /// The length of the front is what the images leave of the part.
    fn front_bytes(&self, descriptors: &[u8], total: u64) -> Option<u64> {
        let frames = descriptors.chunks(BOOK.frame.len());
        let images = frames.filter(|frame| BOOK.frame.number(frame, "form") == BOOK.image).count();
        let front = total.checked_sub(images as u64 * self.block_bytes)?;
        (front <= self.front_max).then_some(front)
    }

    fn part(&self, at: u64, seed: u64, end: u64) -> Result<Option<Part>, Refusal> {
        let header = valid!(self.any_header(at)?);
        let (kind, total) = (header.field("kind"), 64 * header.field("lines"));
        if !self.is_evidence(&header) && self.ring.read(at, total).is_err() {
            return Ok(None);
        }
        let is_intent = kind == BOOK.intent;
        let is_copy = kind == BOOK.copy;
        let is_known = [BOOK.commit, BOOK.intent, BOOK.copy].contains(&kind);
        if !is_known || total > self.ring.bytes {
            return Ok(None);
        }
        let count = header.field("frames");
        let lists = header.bytes.len() as u64 + count * BOOK.frame.len() as u64;
        if lists > total.min(self.front_max) {
            return Ok(None);
        }
        let descriptors = valid!(self.ring.read(at, lists)?).split_off(header.bytes.len());
        let front = valid!(self.front_bytes(&descriptors, total).filter(|front| *front > lists));
        let front_bytes = valid!(self.ring.read(at, front)?);
        let (mut encoded, mut images) = (0, 0);
        let mut of_device = true;
        for frame in descriptors.chunks(BOOK.frame.len()) {
            of_device &= BOOK.frame.number(frame, "block") < self.blocks;
            let (form, len) = (BOOK.frame.number(frame, "form"), BOOK.frame.number(frame, "len"));
            match form {
                _ if form == BOOK.image && len == self.block_bytes => images += len,
                _ if is_intent => return Ok(None),
                _ if form == BOOK.discard && len == 0 => {}
                _ if is_copy => return Ok(None),
                _ if form == BOOK.encoded && len <= self.block_bytes => encoded += len,
                _ if (form == BOOK.slot || form == BOOK.log)
                    && len == BOOK.named_slot.len() as u64 =>
                {
                    let names = &front_bytes[lists as usize..];
                    let payload = names.get(encoded as usize..).unwrap_or_default();
                    let numbers = if form == BOOK.slot { &self.slots } else { &self.log };
                    of_device &= names_slot_of(numbers, payload);
                    encoded += len;
                }
                _ if form == BOOK.home && len == 0 => {}
                _ => return Ok(None),
            }
        }
        if is_intent || is_copy {
            encoded += 8 * count;
        }
        let is_as_computed = (lists + encoded + 8).next_multiple_of(BOOK.line as u64) == front;
        if !is_as_computed || !of_device || valid!(at.checked_add(total)) > end {
            return Ok(None);
        }
        let stamps = if is_intent || is_copy { count as usize } else { 0 };
        let stamps = front_bytes[lists as usize..].chunks(8).take(stamps);
        let stamps: Vec<u64> = stamps.map(little_endian).collect();
        let can_be = |stamp: &u64| (1..header.field("stamp")).contains(stamp);
        if is_copy && !stamps.iter().all(can_be) {
            return Ok(None);
        }
        let image_bytes = valid!(self.ring.read(valid!(at.checked_add(front)), images)?);
        let (body, check) = front_bytes.split_at(front_bytes.len() - 8);
        let check = little_endian(check);
        if crc64(crc64(seed, &image_bytes), body) != check {
            return Ok(None);
        }
        let (mut payloads, mut images) = (&body[lists as usize..], &image_bytes[..]);
        let frames = descriptors.chunks(BOOK.frame.len()).map(|frame| {
            let field = |name| BOOK.frame.number(frame, name);
            let from = if field("form") == BOOK.image { &mut images } else { &mut payloads };
            let (payload, rest) = from.split_at(field("len") as usize);
            *from = rest;
            let payload = payload.to_vec();
            Frame { block: field("block"), form: field("form"), payload }
        });
        let frames = frames.collect();
        Ok(Some(Part { at, total, front, header, frames, stamps, check }))
    }

    fn record(&self, at: u64, sequence: u64, end: u64) -> Result<Option<Record>, Refusal> {
        let (mut at, mut seed, mut parts) = (at, record_seed(&self.id), Vec::<Part>::new());
        loop {
            let part = valid!(self.part(at, seed, end)?);
            let first = &parts.first().unwrap_or(&part).header;
            let same = |name| part.header.field(name) == first.field(name);
            let is_last = part.header.field("flags") & 1 == 1;
            let kind = part.header.field("kind");
            let belongs = kind != BOOK.intent
                && (kind != BOOK.copy || (parts.is_empty() && is_last))
                && part.header.field("sequence") == sequence
                && part.header.field("part") == parts.len() as u64 % (1 << 16)
                && same("epoch")
                && same("stamp");
            if !belongs {
                return Ok(None);
            }
            (at, seed) = (at + part.total, part.check);
            parts.push(part);
            if is_last {
                return Ok(Some(Record { parts }));
            }
        }
    }
}

/// Section 7: what headers prove.
struct Evidence {
    epoch: u64,
    generation: u64,
    /// The highest of what must not come near the end of what can be.
    counter: u64,
    covered_to: Vec<u64>,
}

impl Evidence {
    fn take(&mut self, lane: usize, header: &Header) {
        self.epoch = self.epoch.max(header.field("epoch"));
        self.generation = self.generation.max(header.field("generation"));
        self.cover(lane, header.field("watermark"));
        for (named, sequence) in &header.names {
            self.cover(*named as usize, sequence.saturating_add(1));
        }
    }

    fn cover(&mut self, lane: usize, to: u64) {
        if let Some(known) = self.covered_to.get_mut(lane) {
            *known = to.max(*known);
        }
    }
}

/// How a lane ends, in the words of the table.
struct End {
    sequence: u64,
    /// Of the tail word: it cannot be, or the lane ends below it.
    contradicts_word: bool,
    whole_older: bool,
    below_mark: bool,
}

impl End {
    /// The lane ends earlier than the walk: a slot is torn.
    fn end_before(&mut self, sequence: u64, has_word: bool, note: &[u8]) {
        let below_mark = sequence < BOOK.mark.number(note, "epoch_first");
        *self = Self { sequence, contradicts_word: has_word, whole_older: false, below_mark };
    }
}

/// Section 3: what says in a superblock of this generation that the journal is closed.
pub fn mark_of_close(generation: u64) -> u64 {
    (generation & u64::from(u32::MAX)) ^ 0x6473_6C63
}

fn walk(
    parts: &Parts<'_>,
    lane: usize,
    note: &[u8],
    word: Option<u64>,
    (epoch, is_closed): (u64, bool),
    evidence: &mut Evidence,
) -> Result<(Vec<Record>, End), Refusal> {
    let field = |name| BOOK.mark.number(note, name);
    let (mut at, mut sequence) = (field("head"), field("head_sequence"));
    let end = at.saturating_add(parts.ring.bytes);
    // Before the first opening the words are not there.
    let word_end = word.map(|word| match epoch {
        0 => Some(at),
        _ => end_of_lane(&parts.id, parts.lane, word, at, parts.ring.bytes),
    });
    let can_be = word_end != Some(None);
    let limit = word_end.map_or(end, |end| end.unwrap_or(at));
    let (mut records, mut stamp, mut whole_older) = (Vec::<Record>::new(), 0, false);
    evidence.cover(lane, field("epoch_first"));
    evidence.cover(lane, field("durable_to"));
    while at < limit {
        let Some(record) = parts.record(at, sequence, limit)? else { break };
        if sequence >= field("epoch_first") && record.field("epoch") != epoch {
            whole_older = true;
            break;
        }
        if record.field("stamp") <= stamp {
            break;
        }
        record.parts.iter().for_each(|part| evidence.take(lane, &part.header));
        stamp = record.field("stamp");
        (at, sequence) = (record.end(), sequence.saturating_add(1));
        records.push(record);
    }
    let contradicts_word = !can_be || (word.is_some() && at < limit);
    evidence.counter = evidence.counter.max(stamp).max(at).max(sequence);
    let end = if is_closed { end.min(at + BOOK.line as u64) } else { end };
    while at < end {
        // What is missing here was not acknowledged: nothing is behind the end of a lane.
        if let Ok(Some(header)) = parts.header(at) {
            evidence.take(lane, &header);
        }
        at = at.saturating_add(BOOK.line as u64);
    }
    let below_mark = sequence < field("epoch_first");
    Ok((records, End { sequence, contradicts_word, whole_older, below_mark }))
}

/// Recovery of media with missing lines.
pub fn recover(
    image: &Image,
    poisoned: &BTreeSet<usize>,
    partners: &Partners,
    apply: Apply<'_>,
) -> Result<Found, Refusal> {
    // 1. The superblock is read, and suits its partners.
    let medium = &Medium { bytes: image.pmem(), poisoned };
    let (copy, second) = superblock(medium)?;
    let (head, notes) = copy.split_at(BOOK.head.len());
    let field = |name| BOOK.head.number(head, name);
    if span_bytes(head).is_none_or(|needed| needed > medium.bytes.len() as u64) {
        return Err(Refusal::Geometry);
    }
    let given = (partners.policy.into(), BLOCK_BYTES as u64, partners.blocks);
    let device_blocks =
        field("device_blocks").saturating_add(field("lanes") * field("lane_log_blocks"));
    let places = field("lane_slots") + field("lane_log_blocks");
    if (field("policy"), field("block_bytes"), device_blocks) != given
        || field("lanes") > partners.lanes_max.into()
        || field("lanes") * places > partners.slots_max
    {
        return Err(Refusal::Partners);
    }
    // 2. The lanes are walked, each from its head to its end.
    let id = &head[BOOK.head.field("journal_id").at..][..16];
    let shield = 2 * field("unit_bytes");
    let behind = lanes_at(head);
    let area = Area::of(head, behind + field("lanes") * field("lane_bytes"));
    let parts_of = |lane, start, bytes, [slots, log]: [Range<u64>; 2]| Parts {
        lane,
        ring: Ring { medium, start, bytes },
        id: id.to_vec(),
        block_bytes: field("block_bytes"),
        front_max: front_max(head, lane),
        blocks: field("device_blocks"),
        slots,
        log,
    };
    let is_closed = field("closed") == mark_of_close(field("generation"));
    let mut evidence = Evidence {
        epoch: 0,
        generation: 0,
        counter: ["generation", "epoch", "stamp_floor", "shield_floor"]
            .map(field)
            .into_iter()
            .max()
            .unwrap_or(0),
        covered_to: vec![0; usize::try_from(field("lanes")).expect("few")],
    };
    let (mut lanes, mut ends) = (Vec::new(), Vec::new());
    for (number, note) in notes.chunks(BOOK.mark.len()).enumerate() {
        let bytes = field("lane_bytes");
        let tails = shield + shield_bytes(head);
        let start = behind + number as u64 * bytes;
        let word = (tails_bytes(head) > 0).then(|| medium.read(tails + 64 * number as u64, 8));
        let word = word.map(|word| word.map(little_endian).ok_or(Refusal::Missing)).transpose()?;
        let parts = parts_of(number as u64, start, bytes, area.of_lane(number as u64));
        let (records, end) =
            walk(&parts, number, note, word, (field("epoch"), is_closed), &mut evidence)?;
        lanes.push(Lane { start, bytes, note: note.to_vec(), records });
        ends.push(end);
    }
    // 3. The intent in the shield area is read, and counts in its own epoch alone.
    let bytes = shield_bytes(head);
    let parts = parts_of(255, shield, bytes, [0..0, 0..0]);
    let found = if bytes > 0 { parts.part(0, record_seed(id), bytes)? } else { None };
    let intent = found.filter(|part| part.header.field("kind") == BOOK.intent);
    if let Some(intent) = &intent {
        evidence.epoch = evidence.epoch.max(intent.header.field("epoch"));
        evidence.generation = evidence.generation.max(intent.header.field("generation"));
    }
    let intent = intent.filter(|part| {
        part.header.field("sequence") >= field("shield_floor")
            && part.header.field("epoch") == field("epoch")
    });
    let batch = intent.as_ref().map_or(0, |part| part.header.field("sequence"));
    evidence.counter = evidence.counter.max(batch);
    // 4. Nothing that was durable is missing; otherwise the journal is refused.
    decide(&evidence, &ends, (field("generation"), field("epoch")))?;
    // 5. Slot entries are read. A record that names a torn slot ends its lane.
    let entries = area.entries(medium, id)?;
    let stamps = entries.iter().filter(|entry| entry.state == State::Whole);
    let stamp = stamps.map(|entry| entry.field("stamp")).max();
    evidence.counter = evidence.counter.max(stamp.unwrap_or(0));
    let mut versions = Versions::of(&lanes, &entries);
    for (lane, sequence) in versions.resolve(medium, &area, id)? {
        lanes[lane].records.retain(|record| record.field("sequence") < sequence);
        ends[lane].end_before(sequence, tails_bytes(head) > 0, &lanes[lane].note);
    }
    decide(&evidence, &ends, (field("generation"), field("epoch")))?;
    let mut torn = entries.iter().filter(|entry| entry.state == State::Torn);
    if let Some(Entry { slot, .. }) = torn.find(|entry| !versions.name(entry.slot)) {
        return Err(Refusal::RottenEntry { slot: *slot });
    }
    // 6. Each block's content is made of its versions.
    let blocks = versions.contents(intent.as_ref(), image, &area, id, apply);
    let note = newest_note(kept_note(medium, &copy, second), &lanes);
    let copy_bytes = copy.len() as u64 + 8;
    let (head, copies) = (head.to_vec(), [0, second]);
    Ok(Found {
        head,
        copies,
        copy_bytes,
        is_closed,
        shield,
        lanes,
        area,
        entries,
        versions,
        intent,
        blocks,
        note,
    })
}

fn decide(evidence: &Evidence, ends: &[End], superblock: (u64, u64)) -> Result<(), Refusal> {
    if evidence.generation > superblock.0 || evidence.epoch > superblock.1 {
        return Err(Refusal::SuperblockLost);
    }
    for ((lane, end), covered_to) in (0_u16..).zip(ends).zip(&evidence.covered_to) {
        let covered = end.sequence < *covered_to || end.contradicts_word;
        if covered || (end.below_mark && !end.whole_older) {
            return Err(Refusal::Rot { lane, sequence: end.sequence });
        }
    }
    if evidence.counter >= 1 << 60 { Err(Refusal::Exhausted) } else { Ok(()) }
}
