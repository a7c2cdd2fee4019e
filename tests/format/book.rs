//! FORMAT.md's tables against the structures of the crate.

use core::mem::{offset_of, size_of};

use journal_core::geometry::{LANES_MAX, SHIELD_BLOCKS_MAX, SLOTS_MAX, UNIT_BYTES_MAX};
use journal_core::record::{Form, FrameHeader, Name, RECORD_LINES_MIN, RecordHeader, RecordKind};
use journal_core::slot::{NamedSlot, SlotEntry};
use journal_core::superblock::{
    DISK_LOG, FORMAT_VERSION, KeptNote, LaneMark, MAGIC, NOTES, SLOTS, SuperblockHeader,
    TAIL_POINTER, superblock_bytes,
};
use journal_core::{LINE_BYTES, Protocol, WORD_BYTES};

use lab::second_reader::layout::{FORMAT, Field, Layout, layout, table, value};
use lab::second_reader::{Kind, Shape, reader};

/// A structure's fields as the compiler places them. It does not compile unless all are named.
macro_rules! fields {
    ($structure:ident { $($field:ident),+ $(,)? }) => {{
        let starts = [$((stringify!($field), offset_of!($structure, $field))),+];
        let ends = starts.iter().skip(1).map(|(_, at)| *at).chain([size_of::<$structure>()]);
        let fields = starts.iter().zip(ends);
        let all = |value: $structure| { let $structure { $($field: _),+ } = value; };
        let _ = all;
        Layout {
            fields: fields
                .map(|((name, at), end)| Field { name: (*name).into(), at: *at, len: end - at })
                .collect(),
        }
    }};
}

fn structures() -> [(&'static str, Layout); 8] {
    [
        (
            "SuperblockHeader",
            fields!(SuperblockHeader {
                magic,
                version,
                block_bytes,
                compatible,
                incompatible,
                journal_id,
                lane_bytes,
                policy,
                shield_blocks,
                unit_bytes,
                lanes,
                reserved,
                device_blocks,
                generation,
                epoch,
                stamp_floor,
                shield_floor,
                lane_slots,
                lane_log_blocks,
                segment_blocks,
                closed,
            }),
        ),
        ("LaneMark", fields!(LaneMark { head, head_sequence, epoch_first, durable_to })),
        ("KeptNote", fields!(KeptNote { stamp, note, check })),
        (
            "RecordHeader",
            fields!(RecordHeader {
                check,
                kind,
                flags,
                part,
                lines,
                frames,
                names,
                lane,
                position,
                sequence,
                epoch,
                generation,
                watermark,
                stamp,
            }),
        ),
        ("Name", fields!(Name { lane, reserved, sequence })),
        ("FrameHeader", fields!(FrameHeader { block, len, form, reserved })),
        ("NamedSlot", fields!(NamedSlot { content, slot, reserved })),
        ("SlotEntry", fields!(SlotEntry { block, stamp, content, check })),
    ]
}

/// Where a document and the structures differ.
fn differences(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (name, structure) in structures() {
        let written = layout(document, name);
        if written != structure {
            let pairs = written.fields.iter().zip(&structure.fields);
            let first = pairs.clone().find(|(written, is)| written != is);
            found.push(format!("{name}: {first:?} of {} fields", written.fields.len()));
        }
    }
    for (heading, name, is) in [
        ("## 1. Conventions", "FORMAT_VERSION", u64::from(FORMAT_VERSION)),
        ("## 1. Conventions", "WORD_BYTES", WORD_BYTES as u64),
        ("## 1. Conventions", "LINE_BYTES", LINE_BYTES as u64),
        ("## 1. Conventions", "LANES_MAX", u64::from(LANES_MAX)),
        ("## 1. Conventions", "RECORD_LINES_MIN", RECORD_LINES_MIN as u64),
        ("## 1. Conventions", "UNIT_BYTES_MAX", u64::from(UNIT_BYTES_MAX)),
        ("## 1. Conventions", "SLOTS_MAX", u64::from(SLOTS_MAX)),
        ("## 1. Conventions", "SHIELD_BLOCKS_MAX", u64::from(SHIELD_BLOCKS_MAX)),
        ("### Forms", "Image", Form::Image as u64),
        ("### Forms", "Encoded", Form::Encoded as u64),
        ("### Forms", "Discard", Form::Discard as u64),
        ("### Forms", "Slot", Form::Slot as u64),
        ("### Forms", "Home", Form::Home as u64),
        ("### Forms", "Log", Form::Log as u64),
        ("### Kinds", "Commit", RecordKind::Commit as u64),
        ("### Kinds", "Intent", RecordKind::Intent as u64),
        ("### Features", "TAIL_POINTER", TAIL_POINTER),
        ("### Features", "SLOTS", SLOTS),
        ("### Features", "DISK_LOG", DISK_LOG),
        ("### Features", "NOTES", NOTES),
        ("### Kinds", "Copy", RecordKind::Copy as u64),
    ] {
        let written = value(document, heading, name);
        if written != is {
            found.push(format!("{name}: {written}, and is {is}"));
        }
    }
    found
}

#[test]
fn the_document_describes_the_structures() {
    assert_eq!(differences(FORMAT), Vec::<String>::new());
    assert_eq!(table(FORMAT, "### Forms").len(), 6);
    assert_eq!(table(FORMAT, "### Features").len(), 4);
    assert_eq!(table(FORMAT, "### Kinds").len(), 3);
    assert_eq!(&MAGIC, b"nvmjrnl\0");
}

#[test]
fn a_document_that_is_wrong_is_found() {
    for (right, wrong) in [
        ("| 8 | 4 | `version` |", "| 8 | 8 | `version` |"),
        ("| 16 | 8 | `epoch_first` |", "| 16 | 8 | `first` |"),
        ("| 4 | 1 | `kind` |", "| 5 | 1 | `kind` |"),
        ("| `Discard` | 3 |", "| `Discard` | 4 |"),
        ("| 112 | 4 | `lane_slots` |", "| 112 | 8 | `lane_slots` |"),
        ("| 8 | 4 | `slot` |", "| 12 | 4 | `slot` |"),
        ("| 16 | 8 | `content` |", "| 16 | 8 | `seal` |"),
        ("| `SLOTS` | 2 |", "| `SLOTS` | 4 |"),
        ("| `DISK_LOG` | 4 |", "| `DISK_LOG` | 16 |"),
        ("| `NOTES` | 8 |", "| `NOTES` | 16 |"),
        ("| 8 | 16 | `note` |", "| 8 | 8 | `note` |"),
        ("| `Log` | 6 |", "| `Log` | 7 |"),
        ("| `LANES_MAX` | 32 |", "| `LANES_MAX` | 64 |"),
    ] {
        let document = FORMAT.replace(right, wrong);
        assert_ne!(document, FORMAT, "{right}");
        assert_eq!(differences(&document).len(), 1, "{wrong}");
    }
    let without: Vec<&str> =
        FORMAT.lines().filter(|line| !line.contains("`watermark` |")).collect();
    assert_eq!(differences(&without.join("\n")).len(), 1);
}

#[test]
fn the_document_is_plain() {
    for (line, number) in FORMAT.lines().zip(1..) {
        assert!(line.is_ascii() && line.len() <= 100, "FORMAT.md:{number}");
    }
}

#[test]
fn lengths_are_what_the_document_says() {
    for lanes in [1, 2, 7, LANES_MAX] {
        assert_eq!(superblock_bytes(lanes), 128 + 32 * usize::from(lanes) + 8);
    }
    for blocks in [0, 1, 2, 5, 64] {
        let mut shape = Shape::new(Kind::Words, 1);
        shape.shield_blocks = blocks;
        let front = (64 + 24 * u64::from(blocks) + 8).next_multiple_of(64);
        let bytes = if blocks == 0 { 0 } else { 64 * u64::from(blocks) + front };
        assert_eq!(shape.geometry().shield_bytes(), bytes);
        assert_eq!(shape.span_bytes() as u64, 2 * 256 + bytes + 1024);
        shape.protocol = Protocol::TailPointer;
        assert_eq!(shape.span_bytes() as u64, 2 * 256 + bytes + 64 + 1024);
    }
    for (slots, entries) in [(0, 0), (1, 64), (2, 64), (3, 128), (100, 3200)] {
        let shape = Shape { lane_slots: slots, ..Shape::new(Kind::Delta, 2) };
        let without = Shape { lane_slots: 0, ..shape }.span_bytes();
        let behind = 2 * (entries + 64 * slots as usize);
        assert_eq!(shape.span_bytes(), without + behind);
        let logged = Shape { lane_log_blocks: slots, ..shape };
        let entries = (2 * 32 * slots as usize).next_multiple_of(64);
        assert_eq!(logged.span_bytes(), without + 2 * (entries + 64 * slots as usize));
    }
}

#[test]
fn checks_are_what_the_document_says() {
    let (digits, rest) = (b"123456789", b"and more");
    assert_eq!(reader::crc64(0, digits), 0xAE8B_1486_0A79_9888);
    let both = [&digits[..], rest].concat();
    assert_eq!(reader::crc64(reader::crc64(0, digits), rest), reader::crc64(0, &both));
}
