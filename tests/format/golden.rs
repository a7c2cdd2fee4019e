//! Golden journals: made by this version, compared byte by byte with what is kept in `golden/`,
//! and read by both readers.
//!
//! What is kept of a released format version never changes: old journals must stay readable. What
//! is written may change while the format stays, say when a checkpoint writes the superblock less
//! often; then the new journal is kept beside the old one.

use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::path::Path;

use journal_core::{BlockNumber, DeviceFacts, Overwrite};
use sim_disk::{DiskImage, Fault, FaultKind, Image, Model, Operation, World};

use crate::support::layout::{BOOK, Layout};
use crate::support::reader::{Content, Found, Part};
use crate::support::{Act, BLOCKS, Block, Kind, Shape, Truth, What, contents, counting};

/// A journal that shows one thing after the other.
struct Golden {
    name: &'static str,
    kept: &'static str,
    acts: fn() -> Vec<Act>,
}

const GOLDEN: [Golden; 5] = [
    Golden { name: "v1-formatted", kept: include_str!("golden/v1-formatted.hex"), acts: Vec::new },
    Golden { name: "v1-records", kept: include_str!("golden/v1-records.hex"), acts: records },
    Golden { name: "v1-wrapped", kept: include_str!("golden/v1-wrapped.hex"), acts: wrapped },
    Golden { name: "v1-intent", kept: include_str!("golden/v1-intent.hex"), acts: intent },
    Golden { name: "v1-copied", kept: include_str!("golden/v1-copied.hex"), acts: copied },
];

fn shape() -> Shape {
    Shape { id: *b"a golden journal", ..Shape::new(Kind::Words, 2) }
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

/// Copies of a chain over both lanes and of a discard, and a change on top of the first.
fn copied() -> Vec<Act> {
    vec![
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
    let world = World::boot(shape().format(), Model::Torn8);
    let acts = (golden.acts)();
    let mut truth = Truth::default();
    if acts.is_empty() {
        return (world.visible(), truth);
    }
    let fails = acts.last() == Some(&Act::FailedCheckpoint);
    if fails {
        let (_, before) = acts.split_last().expect("has acts");
        let whole = World::boot(shape().format(), Model::Torn8);
        shape().drive(&whole, before, &mut Truth::default());
        let syncs = whole.operations().of(Operation::DiskSync);
        world.inject(Fault::on(Operation::DiskSync, syncs, FaultKind::Error));
    }
    shape().drive(&world, &acts, &mut truth);
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
    for number in 0..BLOCKS {
        let block = image.disk(0).block(BlockNumber(number));
        row("block", usize::try_from(number).expect("few"), &block);
    }
    text
}

/// The media that a text describes.
fn image_of(text: &str) -> Image {
    let shape = shape();
    let mut span = vec![0; shape.span_bytes()];
    let facts = DeviceFacts::new(32, Overwrite::MayLeaveGarbage);
    let mut disk = DiskImage::blank(shape.geometry().block_size, BLOCKS, facts);
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
fn describe(image: &Image, at: usize) -> String {
    let Ok(found) = shape().read_by_the_book(image) else { return "no journal".into() };
    let named = |layout: &Layout, at: usize| layout.name_at(at).to_owned();
    for copy in found.copies.map(|copy| copy as usize) {
        let inside = at.wrapping_sub(copy);
        if inside < BOOK.head.len() {
            return format!("superblock at {copy}: {}", named(&BOOK.head, inside));
        }
        if inside < found.copy_bytes as usize - 8 {
            let (note, at) = ((inside - BOOK.head.len()) / 32, (inside - BOOK.head.len()) % 32);
            return format!("superblock at {copy}: lane {note}: {}", named(&BOOK.note, at));
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
    "nothing".into()
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
fn differences(kept: &Image, made: &Image) -> Vec<String> {
    let mut found = Vec::new();
    let differ = |(kept, made): (&u8, &u8)| kept != made;
    let pairs = kept.pmem().iter().zip(made.pmem());
    for (at, pair) in pairs.enumerate().filter(|(_, pair)| differ(*pair)) {
        let (was, is) = pair;
        let what = describe(kept, at);
        if !found.iter().any(|known: &String| known.ends_with(&what)) {
            found.push(format!("span {at}: {was:02x} kept, {is:02x} made: {what}"));
        }
    }
    for number in (0..BLOCKS).map(BlockNumber) {
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
        let found = differences(&image_of(golden.kept), &made);
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
    let kept = image_of(golden.kept);
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
        let found = differences(&kept, &image);
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with(what), "{found:?}: {what}");
    }
    let mut image = kept.clone();
    image.disk_mut(0).set_block(BlockNumber(5), &counting(1));
    assert_eq!(differences(&kept, &image).len(), 1);
    assert_eq!(image_of(&text_of(&image)), image);
}

#[test]
fn kept_journals_show_their_blocks() {
    for golden in &GOLDEN {
        let (_, truth) = make(golden);
        let image = image_of(golden.kept);
        let by_the_book = shape().read_by_the_book(&image).expect("is a journal").blocks;
        let world = World::boot(image, Model::Torn8);
        let opened = shape().with(&world, contents).expect("opens");
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
            let found = shape().read_by_the_book(&image_of(golden.kept));
            (golden.name, found.expect("is a journal"))
        })
        .collect();
    assert!(found["v1-formatted"].lanes.iter().all(|lane| lane.records.is_empty()));

    let lanes = &found["v1-records"].lanes;
    let records: Vec<_> = lanes.iter().flat_map(|lane| &lane.records).collect();
    let forms = records.iter().flat_map(|record| &record.parts).flat_map(|part| &part.frames);
    let forms: std::collections::BTreeSet<u64> = forms.map(|frame| frame.form).collect();
    assert_eq!(forms, [BOOK.image, BOOK.encoded, BOOK.discard].into());
    let parts: Vec<usize> = lanes[0].records.iter().map(|record| record.parts.len()).collect();
    assert_eq!(parts, [1, 1, 2, 1]);
    let names = |lane: usize, record: usize| &lanes[lane].records[record].parts[0].header.names;
    assert_eq!((names(1, 0), names(0, 3)), (&vec![(0, 2)], &vec![(1, 2)]));

    let found_wrapped = &found["v1-wrapped"];
    let (lane, record) = (&found_wrapped.lanes[0], &found_wrapped.lanes[0].records[0]);
    let place = record.parts[0].at % lane.bytes;
    assert!(place + record.parts[0].total > lane.bytes, "wraps round");
    let epochs = found_wrapped.lanes.iter().map(|lane| lane.records[0].field("epoch"));
    assert_eq!(epochs.collect::<Vec<_>>(), [1, 2]);

    let intent = found["v1-intent"].intent.as_ref().expect("an intent");
    let blocks: Vec<u64> = intent.frames.iter().map(|frame| frame.block).collect();
    assert_eq!(blocks, [0, 7]);
    assert!(intent.stamps.iter().all(|stamp| *stamp > 0) && intent.stamps.len() == 2);

    let lane = &found["v1-copied"].lanes[0];
    let mut copies = lane.records.iter().filter(|record| record.field("kind") == BOOK.copy);
    let copy = &copies.next_back().expect("a copy").parts[0];
    let blocks: Vec<u64> = copy.frames.iter().map(|frame| frame.block).collect();
    assert_eq!((blocks, copy.header.names.len()), (vec![0, 3], 1));
    assert!(copy.stamps.iter().all(|stamp| *stamp < copy.header.field("stamp")));
}
