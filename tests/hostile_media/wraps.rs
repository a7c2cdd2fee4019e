//! A record across the end of its lane: the end falls behind each of its lines, and each of them
//! may be missing.

use std::collections::BTreeSet;

use journal_core::units::LaneNumber;
use journal_core::{MediumErrorKind, OpenError};
use sim_disk::Image;

use lab::second_reader::examine::{Findings, examine, examine_without, go_on};
use lab::second_reader::forge::{RingMut, seal_copy};
use lab::second_reader::layout::BOOK;
use lab::second_reader::reader::record_seed;
use lab::second_reader::{Kind, Shape};

/// What the record is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    Whole,
    /// Its large check is wrong.
    Torn,
    /// Its header is valid, and one of its frames is of no form: what is in it is known to be
    /// nothing before its images are looked at.
    NoPart,
}

const WORTHS: [Worth; 3] = [Worth::Whole, Worth::Torn, Worth::NoPart];

/// The header, two lines of names, two of frames, one of payloads and the check, and three images.
const LINES: u64 = 9;
const FRONT_LINES: u64 = 6;
const NAMES: u64 = 8;
const FRAMES_AT: u64 = 64 + 16 * NAMES;
const PAYLOADS_AT: u64 = FRAMES_AT + 16 * 8;

const fn shape() -> Shape {
    Shape::new(Kind::Words, 2)
}

/// A journal of one record in lane 0, which has `before_end` lines before the lane's end. Its
/// last name is of the other lane's record of this number.
fn forged(before_end: u64, worth: Worth, named: u64) -> Image {
    let shape = shape();
    let mut image = shape.format();
    let span = image.pmem_mut();
    let at = shape.lane_bytes - 64 * before_end;
    let head = BOOK.mark.field("head");
    for copy in [0, shape.unit_bytes as usize] {
        let place = copy + BOOK.head.len() + head.at;
        span[place..place + head.len].copy_from_slice(&at.to_le_bytes());
        seal_copy(span, copy);
    }
    let start = shape.geometry().lane(LaneNumber(0)).raw() as usize;
    let mut ring = RingMut { span, start, bytes: shape.lane_bytes as usize };
    let lists = [("lines", LINES), ("frames", 8), ("names", NAMES)];
    let place = [("position", at), ("sequence", 1), ("stamp", 1)];
    let kind = [("kind", BOOK.commit), ("flags", 1)];
    for (name, value) in lists.into_iter().chain(place).chain(kind) {
        ring.put(at, BOOK.header.field(name), value);
    }
    // The others are of a record of this lane that never was.
    for (name, value) in [("lane", 1), ("sequence", named)] {
        ring.put(at + FRAMES_AT - 16, BOOK.name.field(name), value);
    }
    let unknown = if worth == Worth::NoPart { 0xEE } else { BOOK.discard };
    let forms = [
        (BOOK.encoded, 10),
        (BOOK.image, 64),
        (BOOK.discard, 0),
        (BOOK.discard, 0),
        (BOOK.image, 64),
        (BOOK.encoded, 10),
        (BOOK.image, 64),
        (unknown, 0),
    ];
    for (block, (form, len)) in (0..).zip(forms) {
        for (name, value) in [("block", block), ("form", form), ("len", len)] {
            ring.put(at + FRAMES_AT + 16 * block, BOOK.frame.field(name), value);
        }
    }
    for (number, word) in [(0, 3), (1, 5)] {
        ring.write(at + PAYLOADS_AT + 10 * number, &[word, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
    for line in FRONT_LINES..LINES {
        ring.write(at + 64 * line, &[0x10 + line as u8; 64]);
    }
    ring.seal_part(at, &shape.id, record_seed(&shape.id));
    if worth == Worth::Torn {
        ring.write(at + 64 * FRONT_LINES - 8, &[0xEE; 8]);
    }
    image
}

/// Where in the span a line of the record is.
fn place(before_end: u64, line: u64) -> usize {
    let shape = shape();
    let at = shape.lane_bytes - 64 * before_end + 64 * line;
    (shape.geometry().lane(LaneNumber(0)).raw() + at % shape.lane_bytes) as usize
}

#[test]
fn a_record_is_read_wherever_the_end_of_its_lane_falls() {
    let mut findings = Findings::default();
    for before_end in 0..=LINES {
        for worth in WORTHS {
            let image = forged(before_end, worth, 0);
            let found = shape().read_by_the_book(&image).expect("is a journal");
            assert_eq!(found.lanes[0].records.len(), usize::from(worth == Worth::Whole));
            let result = examine(&shape(), &image).and_then(|outcome| {
                outcome.opened.as_ref().map_err(ToString::to_string)?;
                go_on(&shape(), &outcome)
            });
            findings.note(result, || format!("{before_end} lines, {worth:?}"));
        }
    }
    findings.check(30);
}

/// A lane's first record that a name says was durable is not there.
#[test]
fn a_name_counts_wherever_the_end_of_its_lane_falls() {
    for before_end in 0..=LINES {
        for worth in WORTHS {
            let outcome = examine(&shape(), &forged(before_end, worth, 1)).expect("agree");
            let is_rot = matches!(outcome.opened, Err(OpenError::Rot { lane: LaneNumber(1), .. }));
            assert!(is_rot, "{before_end} lines, {worth:?}: {:?}", outcome.opened);
        }
    }
}

/// What is behind the last record that counts may have been acknowledged: a line of it that is
/// missing is an error, unless it is known to be nothing without that line.
#[test]
fn a_missing_line_is_an_error_where_it_may_matter() {
    let mut findings = Findings::default();
    for before_end in 0..=LINES {
        for worth in WORTHS {
            let image = forged(before_end, worth, 0);
            for line in 0..LINES {
                let matters = worth != Worth::NoPart || line < FRONT_LINES;
                let missing = BTreeSet::from([place(before_end, line)]);
                let result = examine_without(&shape(), &image, &missing).and_then(|outcome| {
                    let opened = outcome.opened.map(drop);
                    let fits = match opened {
                        Err(OpenError::Medium(error)) => {
                            matters && error.kind == MediumErrorKind::Poisoned
                        }
                        Ok(()) => !matters,
                        Err(_) => false,
                    };
                    if fits { Ok(()) } else { Err(format!("{opened:?}")) }
                });
                let case = || format!("{before_end} lines, {worth:?}, without line {line}");
                findings.note(result, case);
            }
        }
    }
    findings.check(270);
}
