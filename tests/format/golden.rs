//! Golden journals: made by this version, compared byte by byte with what is kept in `golden/`,
//! and read by both readers.
//!
//! What is kept of a released format version never changes: old journals must stay readable. What
//! is written may change while the format stays, say when a checkpoint writes the superblock less
//! often; then the new journal is kept beside the old one.

use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::path::Path;

use journal_core::superblock::SuperblockError;
use journal_core::{BlockNumber, DeviceFacts, OpenError, Overwrite};
use sim_disk::{DiskImage, Fault, FaultKind, Image, Model, Operation, World};

use lab::second_reader::layout::{BOOK, Layout};
use lab::second_reader::reader::{Content, Found, Part, Refusal};
use lab::second_reader::versions::State;
use lab::second_reader::{Act, Block, Kind, Shape, Truth, What, contents, counting};

/// A journal that shows one thing after the other.
struct Golden {
    name: &'static str,
    kept: &'static str,
    shape: fn() -> Shape,
    acts: fn() -> Vec<Act>,
}

impl Golden {
    const fn new(name: &'static str, kept: &'static str, acts: fn() -> Vec<Act>) -> Self {
        Self { name, kept, shape, acts }
    }

    /// One with slots.
    const fn slotted(name: &'static str, kept: &'static str, acts: fn() -> Vec<Act>) -> Self {
        Self { name, kept, shape: slotted, acts }
    }

    fn image(&self) -> Image {
        image_of((self.shape)(), self.kept)
    }
}

const GOLDEN: [Golden; 9] = [
    Golden::new("v2-formatted", include_str!("golden/v2-formatted.hex"), Vec::new),
    Golden::new("v2-records", include_str!("golden/v2-records.hex"), records),
    Golden::new("v2-wrapped", include_str!("golden/v2-wrapped.hex"), wrapped),
    Golden::new("v2-intent", include_str!("golden/v2-intent.hex"), intent),
    Golden::new("v2-copied", include_str!("golden/v2-copied.hex"), copied),
    Golden::new("v2-notes", include_str!("golden/v2-notes.hex"), notes),
    Golden { shape: logged, ..Golden::new("v2-log", include_str!("golden/v2-log.hex"), log) },
    Golden::slotted("v2-slots", include_str!("golden/v2-slots.hex"), slots),
    Golden::slotted("v2-torn-slot", include_str!("golden/v2-torn-slot.hex"), torn_slot),
];

fn shape() -> Shape {
    Shape { id: *b"a golden journal", ..Shape::new(Kind::Words, 2) }
}

fn slotted() -> Shape {
    Shape { id: *b"a golden journal", lane_slots: 3, ..Shape::new(Kind::Delta, 2) }
}

/// Versions in slots of both lanes, one rewritten, some folded, with their frames and without, one
/// given back; an append, and patches on a slot.
fn slots() -> Vec<Act> {
    vec![
        Act::Commit(0, vec![(0, What::Fill(0x10)), (1, What::Fill(0x20))]),
        Act::Fold,
        Act::Commit(0, vec![(0, What::Touch(0x11))]),
        Act::Garbage,
        // It keeps what comes next in the lane.
        Act::Commit(1, vec![(5, What::Patch(0x60))]),
        Act::Commit(1, vec![(3, What::Fill(0x40))]),
        Act::Commit(1, vec![(3, What::Touch(0x41))]),
        Act::Commit(1, vec![(3, What::Touch(0x42))]),
        Act::Fold,
        Act::Commit(1, vec![(2, What::Append(0x30))]),
        Act::Commit(0, vec![(0, What::Patch(0x12)), (4, What::Fill(0x50))]),
    ]
}

fn logged() -> Shape {
    Shape { id: *b"a golden journal", lane_log_blocks: 4, ..Shape::new(Kind::Logged, 2) }
}

/// Blocks in the disk-side log, folded and not, some of them superseded, one given back, and a
/// change on top of one.
fn log() -> Vec<Act> {
    vec![
        Act::Commit(0, vec![(0, What::Fill(0x10)), (1, What::Fill(0x20))]),
        Act::Commit(1, vec![(2, What::Fill(0x30))]),
        Act::Fold,
        Act::Commit(0, vec![(0, What::Fill(0x11)), (3, What::Touch(0x40))]),
        Act::Garbage,
        Act::Commit(1, vec![(2, What::Touch(0x31)), (5, What::Fill(0x50))]),
    ]
}

/// A record that is whole, and a slot that it names which is not.
fn torn_slot() -> Vec<Act> {
    vec![
        Act::Commit(0, vec![(0, What::Fill(0x10))]),
        Act::Commit(0, vec![(0, What::Touch(0x11))]),
        Act::Commit(0, vec![(0, What::Touch(0x12)), (1, What::Patch(0x21))]),
        Act::TornSlot,
    ]
}

/// The note of each lane, with a name and without; a kept note, and one that is newer.
fn notes() -> Vec<Act> {
    vec![
        Act::Commit(0, vec![(0, What::Fill(0x10))]),
        Act::Noted(1, vec![(1, What::Fill(0x20))], [0x0102_0304_0506_0708, 0x4000]),
        Act::Checkpoint,
        Act::Noted(0, vec![(0, What::Touch(0x11))], [u64::MAX, 0x5000]),
        Act::Noted(1, vec![(0, What::Fill(0x12)), (1, What::Touch(0x21))], [3, 0x6000]),
        Act::Commit(0, vec![(2, What::Fill(0x30))]),
    ]
}

/// Every kind of frame and record that is written: an image, an encoded change, a name, a deferred
/// record, one in two parts, a discard.
fn records() -> Vec<Act> {
    let touched = (3..8).map(|block| (block, What::Touch(0x30 + block as u8))).collect();
    vec![
        Act::Commit(0, vec![(0, What::Fill(0x10))]),
        Act::Commit(0, vec![(0, What::Touch(0x11))]),
        Act::Commit(1, vec![(0, What::Touch(0x12)), (1, What::Fill(0x20))]),
        Act::Defer(1, vec![(2, What::Fill(0x21))]),
        Act::Sync,
        Act::Commit(0, touched),
        Act::Commit(0, vec![(2, What::Discard)]),
    ]
}

/// After a checkpoint: a record over the end of a ring, and one of the next epoch.
fn wrapped() -> Vec<Act> {
    let mut acts = records();
    acts.extend([
        Act::Checkpoint,
        Act::Commit(0, vec![(4, What::Fill(0x40)), (5, What::Fill(0x50))]),
        Act::Reopen,
        Act::Commit(1, vec![(4, What::Touch(0x41))]),
    ]);
    acts
}

/// Copies of a chain over both lanes and of a discard, and a change on top of the first. The
/// discard is copied because something older of its block is in the other lane.
fn copied() -> Vec<Act> {
    vec![
        Act::Commit(1, vec![(3, What::Fill(0x30))]),
        Act::Commit(0, vec![(0, What::Fill(0x10))]),
        Act::Commit(1, vec![(0, What::Touch(0x11))]),
        Act::Commit(0, vec![(3, What::Discard)]),
        Act::Commit(0, vec![(2, What::Fill(0x20))]),
        Act::Commit(0, vec![(2, What::Fill(0x21))]),
        Act::Relog(0),
        Act::Commit(1, vec![(0, What::Touch(0x12))]),
    ]
}

/// In the middle of a checkpoint that overwrites what only the device has whole.
fn intent() -> Vec<Act> {
    let mut acts = wrapped();
    acts.extend([
        Act::Commit(1, vec![(0, What::Touch(0x60)), (7, What::Touch(0x61))]),
        Act::FailedCheckpoint,
    ]);
    acts
}

/// Makes a golden journal anew.
fn make(golden: &Golden) -> (Image, Truth) {
    let (shape, acts) = ((golden.shape)(), (golden.acts)());
    if let [before @ .., last, Act::TornSlot] = &acts[..] {
        let (_, truth) = shape.made_by(before);
        let mut image = shape.made_by(&[before, core::slice::from_ref(last)].concat()).0;
        let found = shape.read_by_the_book(&image).expect("is a journal");
        let newest = found.versions.0[&0].last().and_then(|version| version.slot);
        let (slot, _) = newest.expect("is in a slot");
        // As a crash leaves it that comes after the first of two words.
        let word = found.area.slot_at(slot) as usize + 40;
        image.pmem_mut()[word..word + 8].copy_from_slice(&counting(0x10)[40..48]);
        return (image, truth);
    }
    let world = World::boot(shape.format(), Model::Torn8);
    let mut truth = Truth::default();
    if acts.is_empty() {
        return (world.visible(), truth);
    }
    let fails = acts.last() == Some(&Act::FailedCheckpoint);
    if fails {
        let (_, before) = acts.split_last().expect("has acts");
        let whole = World::boot(shape.format(), Model::Torn8);
        shape.drive(&whole, before, &mut Truth::default());
        let syncs = whole.operations().of(Operation::DiskSync);
        world.inject(Fault::on(Operation::DiskSync, syncs, FaultKind::Error));
    }
    shape.drive(&world, &acts, &mut truth);
    (world.visible(), truth)
}

/// Media as text: a line of the span or a block of the device per row, what is zero left out.
fn text_of(image: &Image) -> String {
    let mut text = String::new();
    let mut row = |name: &str, number: usize, bytes: &[u8]| {
        if bytes.iter().any(|byte| *byte != 0) {
            let hex: Vec<String> = bytes
                .chunks(8)
                .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect())
                .collect();
            let (front, back) = hex.split_at(4);
            writeln!(text, "{name} {number:5} {}", front.join(" ")).expect("room");
            writeln!(text, "{:width$} {}", "", back.join(" "), width = name.len() + 6)
                .expect("room");
        }
    };
    for (number, line) in image.pmem().chunks(64).enumerate() {
        row("span", number * 64, line);
    }
    for number in 0..image.disk(0).block_count() {
        let block = image.disk(0).block(BlockNumber(number));
        row("block", usize::try_from(number).expect("few"), &block);
    }
    text
}

/// The media that a text describes.
fn image_of(shape: Shape, text: &str) -> Image {
    let mut span = vec![0; shape.span_bytes()];
    let facts = DeviceFacts::new(32, Overwrite::MayLeaveGarbage);
    let mut disk = DiskImage::blank(shape.geometry().block_size, shape.disk_blocks(), facts);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for row in lines.chunks(2) {
        let mut cells = row.iter().flat_map(|line| line.split_whitespace());
        let name = cells.next().expect("a name");
        let number: usize = cells.next().and_then(|cell| cell.parse().ok()).expect("a number");
        let digits: String = cells.collect();
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits");
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        let bytes: Block = bytes.try_into().expect("64 bytes");
        match name {
            "span" => span[number..number + 64].copy_from_slice(&bytes),
            _ => disk.set_block(BlockNumber(number as u64), &bytes),
        }
    }
    Image::from_pmem(span).with_disk(disk)
}

/// What a byte of the span belongs to.
fn describe(shape: Shape, image: &Image, at: usize) -> String {
    let Ok(found) = shape.read_by_the_book(image) else { return "no journal".into() };
    let named = |layout: &Layout, at: usize| layout.name_at(at).to_owned();
    for copy in found.copies.map(|copy| copy as usize) {
        let inside = at.wrapping_sub(copy);
        if inside < BOOK.head.len() {
            return format!("superblock at {copy}: {}", named(&BOOK.head, inside));
        }
        if inside < found.copy_bytes as usize - 8 {
            let (note, at) = ((inside - BOOK.head.len()) / 32, (inside - BOOK.head.len()) % 32);
            return format!("superblock at {copy}: lane {note}: {}", named(&BOOK.mark, at));
        }
        if inside < found.copy_bytes as usize {
            return format!("superblock at {copy}: check");
        }
    }
    if let Some(part) = &found.intent {
        let inside = (at as u64).wrapping_sub(found.shield);
        if inside < part.total {
            return format!("intent: {}", describe_part(part, inside));
        }
    }
    describe_in_lanes(&found, at as u64)
}

fn describe_in_lanes(found: &Found, at: u64) -> String {
    for (number, lane) in found.lanes.iter().enumerate() {
        let inside = at.wrapping_sub(lane.start);
        if inside >= lane.bytes {
            continue;
        }
        for record in &lane.records {
            for (index, part) in record.parts.iter().enumerate() {
                let inside = (inside + lane.bytes - part.at % lane.bytes) % lane.bytes;
                if inside < part.total {
                    let sequence = record.field("sequence");
                    let what = describe_part(part, inside);
                    return format!("lane {number}: sequence {sequence}, part {index}: {what}");
                }
            }
        }
        return format!("lane {number}: no live record");
    }
    for entry in &found.entries {
        let inside = (at as usize).wrapping_sub(entry.at as usize);
        if inside < BOOK.entry.len() {
            return format!("entry of slot {}: {}", entry.slot, BOOK.entry.name_at(inside));
        }
    }
    found.area.slot_of(at).map_or("nothing".into(), |slot| format!("slot {slot}"))
}

fn describe_part(part: &Part, inside: u64) -> String {
    let at = inside as usize;
    let names_to = part.header.bytes.len();
    let frames_to = names_to + part.frames.len() * BOOK.frame.len();
    match at {
        _ if at < 64 => BOOK.header.name_at(at).into(),
        _ if at < names_to => format!("name: {}", BOOK.name.name_at(at % 16)),
        _ if at < frames_to => {
            let frame = (at - names_to) / 16;
            format!("frame {frame}: {}", BOOK.frame.name_at(at % 16))
        }
        _ if inside < part.front - 8 => "payloads".into(),
        _ if inside < part.front => "check".into(),
        _ => format!("image {}", (inside - part.front) / 64),
    }
}

/// Where media differ from those that are kept; empty if they do not.
fn differences(shape: Shape, kept: &Image, made: &Image) -> Vec<String> {
    let mut found = Vec::new();
    let differ = |(kept, made): (&u8, &u8)| kept != made;
    let pairs = kept.pmem().iter().zip(made.pmem());
    for (at, pair) in pairs.enumerate().filter(|(_, pair)| differ(*pair)) {
        let (was, is) = pair;
        let what = describe(shape, kept, at);
        if !found.iter().any(|known: &String| known.ends_with(&what)) {
            found.push(format!("span {at}: {was:02x} kept, {is:02x} made: {what}"));
        }
    }
    for number in (0..shape.disk_blocks()).map(BlockNumber) {
        if kept.disk(0).block(number) != made.disk(0).block(number) {
            found.push(format!("{number} of the device"));
        }
    }
    found
}

#[test]
fn what_is_written_is_what_was_kept() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut drift = String::new();
    for golden in &GOLDEN {
        let (made, _) = make(golden);
        let fresh = folder.join(format!("{}.hex", golden.name));
        std::fs::write(&fresh, text_of(&made)).expect("writes");
        let found = differences((golden.shape)(), &golden.image(), &made);
        if !found.is_empty() {
            writeln!(drift, "{}, see {}:", golden.name, fresh.display()).expect("room");
            found.iter().take(12).for_each(|line| writeln!(drift, "  {line}").expect("room"));
        }
    }
    assert!(drift.is_empty(), "the bytes written have changed:\n{drift}");
}

#[test]
fn a_changed_byte_is_named() {
    let golden = &GOLDEN[1];
    let kept = golden.image();
    for (at, what) in [
        (80, "superblock at 0: generation"),
        (256 + 128 + 32 + 8, "superblock at 256: lane 1: head_sequence"),
        (768 + 24, "lane 0: sequence 1, part 0: sequence"),
        (768 + 1024 + 64, "lane 1: sequence 1, part 0: name: lane"),
        (768 + 128, "lane 0: sequence 1, part 0: image 0"),
        (768 + 192 + 127, "lane 0: sequence 2, part 0: check"),
        (768 + 1000, "lane 0: no live record"),
    ] {
        let mut image = kept.clone();
        image.pmem_mut()[at] ^= 0x80;
        let found = differences(shape(), &kept, &image);
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with(what), "{found:?}: {what}");
    }
    let mut image = kept.clone();
    image.disk_mut(0).set_block(BlockNumber(5), &counting(1));
    assert_eq!(differences(shape(), &kept, &image).len(), 1);
    assert_eq!(image_of(shape(), &text_of(&image)), image);
}

#[test]
fn kept_journals_show_their_blocks() {
    for golden in &GOLDEN {
        let (_, truth) = make(golden);
        let (shape, image) = ((golden.shape)(), golden.image());
        let found = shape.read_by_the_book(&image).expect("is a journal");
        let (by_the_book, note) = (found.blocks, found.note);
        let world = World::boot(image, Model::Torn8);
        let opened = shape.with(&world, |journal| (contents(journal), journal.recovery().note));
        let (opened, opened_note) = opened.expect("opens");
        assert_eq!(opened_note, note, "{}", golden.name);
        for (number, expected) in truth.0.iter().enumerate() {
            let Some(expected) = expected else { continue };
            let expected = Content::Is(*expected);
            assert_eq!(by_the_book[number], expected, "{}: block {number}", golden.name);
            assert_eq!(opened[number], expected, "{}: block {number}", golden.name);
        }
    }
}

/// What each golden journal is kept for.
#[test]
fn kept_journals_hold_what_they_are_for() {
    let found: BTreeMap<&str, Found> = GOLDEN
        .iter()
        .map(|golden| {
            let found = (golden.shape)().read_by_the_book(&golden.image());
            (golden.name, found.expect("is a journal"))
        })
        .collect();
    assert!(found["v2-formatted"].lanes.iter().all(|lane| lane.records.is_empty()));

    let lanes = &found["v2-records"].lanes;
    let records: Vec<_> = lanes.iter().flat_map(|lane| &lane.records).collect();
    let forms = records.iter().flat_map(|record| &record.parts).flat_map(|part| &part.frames);
    let forms: std::collections::BTreeSet<u64> = forms.map(|frame| frame.form).collect();
    assert_eq!(forms, [BOOK.image, BOOK.encoded, BOOK.discard].into());
    let parts: Vec<usize> = lanes[0].records.iter().map(|record| record.parts.len()).collect();
    assert_eq!(parts, [1, 1, 2, 1]);
    let names = |lane: usize, record: usize| &lanes[lane].records[record].parts[0].header.names;
    assert_eq!((names(1, 0), names(0, 3)), (&vec![(0, 2)], &vec![(1, 2)]));

    let found_wrapped = &found["v2-wrapped"];
    let (lane, record) = (&found_wrapped.lanes[0], &found_wrapped.lanes[0].records[0]);
    let place = record.parts[0].at % lane.bytes;
    assert!(place + record.parts[0].total > lane.bytes, "wraps round");
    let epochs = found_wrapped.lanes.iter().map(|lane| lane.records[0].field("epoch"));
    assert_eq!(epochs.collect::<Vec<_>>(), [1, 2]);

    let intent = found["v2-intent"].intent.as_ref().expect("an intent");
    let blocks: Vec<u64> = intent.frames.iter().map(|frame| frame.block).collect();
    assert_eq!(blocks, [0, 7]);
    assert!(intent.stamps.iter().all(|stamp| *stamp > 0) && intent.stamps.len() == 2);

    let lane = &found["v2-copied"].lanes[0];
    let mut copies = lane.records.iter().filter(|record| record.field("kind") == BOOK.copy);
    let copy = &copies.next_back().expect("a copy").parts[0];
    let blocks: Vec<u64> = copy.frames.iter().map(|frame| frame.block).collect();
    assert_eq!((blocks, copy.header.names.len()), (vec![0, 3], 1));
    assert!(copy.stamps.iter().all(|stamp| *stamp < copy.header.field("stamp")));
}

/// What the golden journal with notes is kept for.
#[test]
fn kept_notes_are_what_they_are_for() {
    let golden = GOLDEN.iter().find(|golden| golden.name == "v2-notes").expect("is kept");
    let found = shape().read_by_the_book(&golden.image()).expect("is a journal");
    assert_eq!(found.note, Some([3, 0x6000]));
    assert_eq!(BOOK.head.number(&found.head, "incompatible"), BOOK.notes);
    // The first note is in no lane any more.
    let parts = found.lanes.iter().flat_map(|lane| &lane.records).map(|record| &record.parts[0]);
    let noted: Vec<_> = parts.map(|part| (part.header.note, part.header.names.len())).collect();
    assert_eq!(noted, [(Some([u64::MAX, 0x5000]), 0), (None, 0), (Some([3, 0x6000]), 1)]);
    let kept = 128 + 2 * 32 + 8;
    let stamp = BOOK.kept_note.number(&golden.image().pmem()[kept..], "stamp");
    assert_eq!(stamp, 2);
}

/// What the golden journal with a disk-side log is kept for.
#[test]
fn a_kept_log_holds_what_it_is_for() {
    let golden = GOLDEN.iter().find(|golden| golden.name == "v2-log").expect("is kept");
    let log = logged().read_by_the_book(&golden.image()).expect("is a journal");
    let records = log.lanes.iter().flat_map(|lane| &lane.records);
    let forms = records.flat_map(|record| &record.parts).flat_map(|part| &part.frames);
    let forms: std::collections::BTreeSet<u64> = forms.map(|frame| frame.form).collect();
    assert_eq!(forms, [BOOK.log, BOOK.encoded].into());
    let states = |state| log.entries.iter().filter(|entry| entry.state == state).count();
    assert_eq!((states(State::Whole), log.entries.len()), (2, 8));
    let [.., below, touched] = &log.versions.0[&2][..] else { panic!("a change on the log") };
    assert!(below.is_folded && below.slot.is_some() && touched.slot.is_none());
    // The whole of it lies behind the store's blocks, and says so in the first superblock.
    assert_eq!(BOOK.head.number(&log.head, "lane_log_blocks"), 4);
    assert_eq!(log.area.log_at(4), Some(8 + 4));
}

/// What the golden journals with slots are kept for.
#[test]
fn kept_slots_hold_what_they_are_for() {
    let found = |name: &str| {
        let golden = GOLDEN.iter().find(|golden| golden.name == name).expect("is kept");
        slotted().read_by_the_book(&golden.image()).expect("is a journal")
    };
    let slots = found("v2-slots");
    let records = slots.lanes.iter().flat_map(|lane| &lane.records);
    let forms = records.flat_map(|record| &record.parts).flat_map(|part| &part.frames);
    let forms: std::collections::BTreeSet<u64> = forms.map(|frame| frame.form).collect();
    // What was appended home was discarded first.
    assert_eq!(forms, [BOOK.slot, BOOK.encoded, BOOK.home, BOOK.discard].into());
    let versions = || slots.versions.0.values().flatten();
    let folded = |is_in_lane| {
        let folded = versions().filter(|version| version.is_folded);
        folded.filter(|version| version.record.is_some() == is_in_lane).count()
    };
    assert!(folded(true) > 0 && folded(false) > 0, "with a frame, and without");
    // It was written, and then voided by its last word.
    let is_given_back = |bytes: &[u8]| bytes[..24] != [0; 24] && bytes[24..] == [0; 8];
    let mut void = slots.entries.iter().filter(|entry| entry.state == State::Void);
    assert!(void.any(|entry| is_given_back(&entry.bytes)));
    // The older one of two names the slot too.
    let named: Vec<u64> =
        versions().filter_map(|version| version.slot).map(|slot| slot.0).collect();
    assert!((0..6).any(|slot| named.iter().filter(|named| **named == slot).count() == 2));
    let [.., below, patch] = &slots.versions.0[&0][..] else { panic!("a patch on a slot") };
    assert!(below.slot.is_some() && patch.slot.is_none());

    let torn = found("v2-torn-slot");
    let lane = &torn.lanes[0];
    let end = lane.start + lane.records.last().map_or(0, |record| record.end());
    let golden = GOLDEN.last().expect("is kept").image();
    let behind = &golden.pmem()[end as usize..];
    assert_eq!((lane.records.len(), BOOK.header.number(behind, "sequence")), (2, 3));
}

/// A journal of format 1, which nobody reads any more: refused by its version, and left alone.
#[test]
fn a_journal_of_an_earlier_format_is_refused() {
    let image = image_of(shape(), include_str!("golden/v1-records.hex"));
    assert_eq!(shape().read_by_the_book(&image).unwrap_err(), Refusal::Version(1));
    let world = World::boot(image.clone(), Model::Torn8);
    let error = shape().with(&world, |_| ()).expect_err("is refused");
    assert_eq!(error, OpenError::Superblock(SuperblockError::Version { found: 1 }));
    assert!(world.visible() == image && world.tape().is_empty());
}
