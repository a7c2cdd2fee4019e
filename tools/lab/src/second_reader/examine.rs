//! Opens and examines a journal on any media, and holds what is said of it against the second
//! reader.

use core::panic::AssertUnwindSafe;
use std::collections::BTreeSet;
use std::panic::catch_unwind;

use journal_core::parts::FrameAt;
use journal_core::units::LaneNumber;
use journal_core::{
    EXAMINE_BYTES_MAX, Examination, LINE_BYTES, MediumErrorKind, OpenError, PortableKernels,
    Recovery, Row, SlotSights, examine_frames,
};
use sim_disk::{Image, Model, Operation, World};

use crate::second_reader::forge::seal_copy;
use crate::second_reader::layout::BOOK;
use crate::second_reader::reader::{Content, Found, Medium, Refusal, content_check, mark_of_close};
use crate::second_reader::versions::State;
use crate::second_reader::{BLOCK_BYTES, Shape, contents, refusal};

/// What opening said, and what it cost.
#[derive(Debug)]
pub struct Outcome {
    pub opened: Result<Vec<Content>, OpenError>,
    pub recovery: Option<Recovery>,
    pub world: World,
    pub reads: u64,
    /// Whether a superblock that says that the journal is closed kept readers from evidence behind
    /// the records that the journal would be refused for.
    is_hidden: bool,
}

/// Opens and reads everything. Panics are findings, with the case that they belong to.
pub fn open(shape: &Shape, image: Image) -> Result<Outcome, String> {
    let span_lines = (image.pmem().len() / LINE_BYTES) as u64;
    let world = World::boot(image, Model::Torn8);
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let (mut reads, mut recovery) = (None, None);
        let opened = shape.with(&world, |journal| {
            reads = Some(world.operations().of(Operation::MemoryRead));
            recovery = Some(*journal.recovery());
            contents(journal)
        });
        let reads = reads.unwrap_or_else(|| world.operations().of(Operation::MemoryRead));
        (opened, recovery, reads)
    }));
    let Ok((opened, recovery, reads)) = opened else { return Err("panicked".into()) };
    let reads_max = reads_max(span_lines);
    if reads > reads_max {
        return Err(format!("{reads} reads of {span_lines} lines, at most {reads_max}"));
    }
    Ok(Outcome { opened, recovery, world, reads, is_hidden: false })
}

/// What an examination says. It makes nothing happen, and ends as soon as an opening.
fn look(image: Image) -> Result<Result<Examination, OpenError>, String> {
    let span_lines = (image.pmem().len() / LINE_BYTES) as u64;
    let world = World::boot(image, Model::Torn8);
    let examined = catch_unwind(AssertUnwindSafe(|| {
        let mut scratch = vec![0; EXAMINE_BYTES_MAX];
        journal_core::examine(&world.pmem(), &PortableKernels, &mut scratch)
    }));
    let Ok(examined) = examined else { return Err("panicked when it was examined".into()) };
    let operations = world.operations();
    let reads = operations.of(Operation::MemoryRead);
    if reads != operations.all() || !world.tape().is_empty() || reads > reads_max(span_lines) {
        return Err(format!("an examination made {operations:?} and {:?}", world.tape().counts()));
    }
    if let Ok(examination) = &examined {
        look_at_frames(&world, examination)?;
    }
    Ok(examined)
}

/// Lists the frames of all lanes. They are those of the records that count.
fn look_at_frames(world: &World, examination: &Examination) -> Result<(), String> {
    let mut scratch = vec![0; EXAMINE_BYTES_MAX];
    for (number, lane) in (0..).zip(examination.lanes()) {
        let (mut sequences, mut strays) = (BTreeSet::new(), 0);
        let each = |frame: &FrameAt| {
            sequences.insert(frame.sequence);
            let is_there = (lane.head..lane.tail).contains(&frame.record);
            let counts = frame.sequence < lane.next_sequence && frame.lane == LaneNumber(number);
            strays += u64::from(!is_there || !counts);
        };
        let (pmem, kernels) = (world.pmem(), PortableKernels);
        let list = || {
            let lane = LaneNumber(number);
            examine_frames(&pmem, &kernels, &mut scratch, examination, lane, each)
        };
        let listed = catch_unwind(AssertUnwindSafe(list));
        let Ok(listed) = listed else { return Err("panicked when frames were listed".into()) };
        let is_right = strays == 0 && sequences.len() as u64 <= lane.records;
        if !is_right || (examination.verdict.is_ok() && listed.is_err()) {
            return Err(format!("lane {number}: {listed:?}, {strays} strays, {sequences:?}"));
        }
    }
    Ok(())
}

/// Whether an examination foretells what opening says.
fn foretells(examined: &Result<Examination, OpenError>, outcome: &Outcome) -> Result<(), String> {
    let verdict = examined.as_ref().map_or_else(|error| Err(*error), |found| found.verdict);
    let is_of_slots = |error| examined.as_ref().is_ok_and(|found| is_of_slots(error, found));
    let right = match (&outcome.opened, verdict) {
        // What it is opened with may not fit; an examination does not know of that.
        (
            Err(
                OpenError::WrongPolicy { .. }
                | OpenError::WrongDevice { .. }
                | OpenError::MemoryTooShort { .. },
            ),
            _,
        ) => !matches!(examined, Err(OpenError::Superblock(_) | OpenError::Geometry(_))),
        // An examination looks at neither slots nor entries.
        (Err(error), Ok(_)) if is_of_slots(error) => true,
        (Ok(_), Ok(_)) if outcome.recovery.is_some_and(|found| found.torn_slots > 0) => true,
        (Err(error), Err(foretold)) => *error == foretold,
        (Ok(_), Ok(foretold)) => outcome.recovery == Some(foretold),
        _ => false,
    };
    if right { Ok(()) } else { Err(format!("{verdict:?} foretold, and {:?}", outcome.opened)) }
}

/// Whether an error says something of slots or entries, which are where the medium says: its
/// geometry may be another than that of the journal it once was.
fn is_of_slots(error: &OpenError, examination: &Examination) -> bool {
    let geometry = &examination.geometry;
    let has_slots = geometry.lane_slots_and_log() > 0;
    match error {
        OpenError::RottenSlot { .. } | OpenError::RottenEntry { .. } => true,
        // By an entry's stamp.
        OpenError::Exhausted => has_slots,
        OpenError::Rot { row, .. } => *row == Row::RottenSlot,
        OpenError::Medium(error) => has_slots && error.at >= geometry.slot_entries(),
        _ => false,
    }
}

/// A line is looked at a bounded number of times.
pub const fn reads_max(span_lines: u64) -> u64 {
    12 * span_lines + 16
}

/// Whether what opening said is what the second reader says.
pub fn agree(
    by_the_book: &Result<Found, Refusal>,
    opened: &Result<Vec<Content>, OpenError>,
) -> Result<(), String> {
    match (by_the_book, opened) {
        (Ok(found), Ok(blocks)) => agree_on_blocks(&found.blocks, blocks),
        (Err(expected), Err(error)) if refusal(error) == Some(*expected) => Ok(()),
        // Of a slot that rots and another one that is missing either may be found first.
        (Err(Refusal::RottenSlot), Err(error)) if refusal(error) == Some(Refusal::Missing) => {
            Ok(())
        }
        (Ok(_), opened) => Err(format!("accepted by the book, and {opened:?}")),
        (Err(refusal), opened) => Err(format!("by the book {refusal:?}, and {opened:?}")),
    }
}

/// Whether what was seen of slots is what the second reader sees of them. Where it refuses the
/// journal: whether all were looked at, and what it is refused for was seen.
fn agree_on_slots(
    examination: &Examination,
    by_the_book: &Result<Found, Refusal>,
    medium: &Medium<'_>,
) -> Result<(), String> {
    let seen = examination.lanes().iter().flat_map(|lane| [lane.slots, lane.log_blocks].map(list));
    let seen: Vec<[u32; 6]> = seen.collect();
    let geometry = &examination.geometry;
    let each = [geometry.lane_slots, geometry.lane_log_blocks];
    let mut all = seen.iter().zip(each.iter().cycle());
    let is_all = all.all(|(seen, each)| seen.iter().sum::<u32>() == *each);
    let some = |what: usize| seen.iter().any(|seen| seen[what] > 0);
    let agrees = match by_the_book {
        Ok(found) => seen == sights_by_the_book(found, medium),
        Err(Refusal::RottenSlot) => some(CHANGED),
        Err(Refusal::RottenEntry { .. }) => some(TORN) || some(ROTTEN),
        Err(_) => true,
    };
    if is_all && agrees { Ok(()) } else { Err(format!("{seen:?} seen, and {by_the_book:?}")) }
}

/// How many are whole, and so on.
fn list(seen: SlotSights) -> [u32; 6] {
    [seen.whole, seen.changed, seen.void, seen.torn, seen.rotten, seen.missing]
}
/// Where they stand there.
const WHOLE: usize = 0;
const CHANGED: usize = 1;
const VOID: usize = 2;
const TORN: usize = 3;
const ROTTEN: usize = 4;
const MISSING: usize = 5;

/// What the reader by the book sees of each lane's slots, and of its blocks of the log, in a
/// journal that is accepted: no entry is missing there.
fn sights_by_the_book(found: &Found, medium: &Medium<'_>) -> Vec<[u32; 6]> {
    // The medium's own: it may be another one than that of the journal it once was.
    let id = &found.head[BOOK.head.field("journal_id").at..][..16];
    let mut seen = vec![[0; 6]; 2 * found.lanes.len()];
    for entry in &found.entries {
        let is_logged = found.area.log_at(entry.slot).is_some();
        let content = medium.read(found.area.slot_at(entry.slot), BLOCK_BYTES as u64);
        let what = match (entry.state, content) {
            (State::Void, _) => VOID,
            (State::Torn, _) => TORN,
            (State::Whole, _) if is_logged => WHOLE,
            (State::Whole, None) => MISSING,
            (State::Whole, Some(content)) => {
                let is_as_said = content_check(id, entry.slot, content) == entry.field("content");
                if is_as_said { WHOLE } else { CHANGED }
            }
        };
        let lane = (entry.slot / found.area.each) as usize;
        seen[2 * lane + usize::from(is_logged)][what] += 1;
    }
    seen
}

/// Undefined content may be anything.
pub fn agree_on_blocks(expected: &[Content], blocks: &[Content]) -> Result<(), String> {
    for (number, (expected, block)) in expected.iter().zip(blocks).enumerate() {
        if expected != block && *expected != Content::Undefined {
            return Err(format!("block {number} is {block:?}, not {expected:?}"));
        }
    }
    Ok(())
}

/// Opens and compares; what is refused is left alone, and what is accepted goes on.
pub fn examine(shape: &Shape, image: &Image) -> Result<Outcome, String> {
    examine_without(shape, image, &BTreeSet::new())
}

/// Opens and compares, with poisoned lines.
pub fn examine_without(
    shape: &Shape,
    image: &Image,
    poisoned: &BTreeSet<usize>,
) -> Result<Outcome, String> {
    let mut damaged = image.clone();
    poisoned.iter().for_each(|line| damaged.poison(*line as u64));
    let examined = look(damaged.clone())?;
    let mut outcome = open(shape, damaged)?;
    foretells(&examined, &outcome)?;
    let by_the_book = shape.read_without(image, poisoned);
    if let Ok(examination) = &examined {
        let medium = Medium { bytes: image.pmem(), poisoned };
        agree_on_slots(examination, &by_the_book, &medium)?;
    }
    agree(&by_the_book, &outcome.opened)?;
    outcome.is_hidden = by_the_book.is_ok_and(|found| {
        let refusal = || shape.read_without(&reopened(image, &found), poisoned).map(drop);
        found.is_closed && matches!(refusal(), Err(Refusal::SuperblockLost | Refusal::Rot { .. }))
    });
    if outcome.opened.is_err() && outcome.world.visible().pmem() != image.pmem() {
        return Err("refused, and the span was changed".into());
    }
    Ok(outcome)
}

/// The journal that was found, not closed.
fn reopened(image: &Image, found: &Found) -> Image {
    let mut image = image.clone();
    let another = mark_of_close(BOOK.head.number(&found.head, "generation")) ^ 1;
    for copy in found.copies.map(|copy| copy as usize) {
        let field = BOOK.head.field("closed");
        let place = &mut image.pmem_mut()[copy + field.at..][..field.len];
        place.copy_from_slice(&another.to_le_bytes()[..field.len]);
        seal_copy(image.pmem_mut(), copy);
    }
    image
}

/// A journal that was opened shows the same after a checkpoint and another opening. Nothing but a
/// device that lacks a block, or a payload that does not apply, may be in the way of that; and
/// evidence that was not read while the journal was closed, if a second reader finds it too.
pub fn go_on(shape: &Shape, outcome: &Outcome) -> Result<(), String> {
    let Ok(before) = &outcome.opened else { return Ok(()) };
    let world = &outcome.world;
    let left = outcome.is_hidden.then(|| world.visible());
    let checkpointed = catch_unwind(AssertUnwindSafe(|| {
        shape.with(world, |journal| journal.checkpoint().is_ok())
    }));
    match checkpointed {
        Err(_) => return Err("panicked in a checkpoint".into()),
        Ok(Err(error)) => {
            let by_the_book = left.map(|left| shape.read_by_the_book(&left).map(drop));
            let expected = by_the_book.and_then(Result::err);
            let is_known = expected.is_some() && refusal(&error) == expected;
            return if is_known { Ok(()) } else { Err(format!("opened once, and then {error}")) };
        }
        Ok(Ok(false)) => return Ok(()),
        Ok(Ok(true)) => {}
    }
    let after = shape.with(world, contents).map_err(|error| error.to_string())?;
    for (number, (before, after)) in before.iter().zip(&after).enumerate() {
        // Discarded blocks read as zero only while the journal knows of it.
        let was_zero = *before == Content::Is([0; 64]);
        if before != after && !was_zero {
            return Err(format!("block {number} was {before:?}, and then {after:?}"));
        }
    }
    Ok(())
}

/// Whether an error is the medium's own.
pub fn is_transient(error: &OpenError) -> bool {
    use journal_core::superblock::SuperblockError;
    let kind = match error {
        OpenError::Medium(error) | OpenError::Superblock(SuperblockError::Medium(error)) => {
            error.kind
        }
        _ => return false,
    };
    kind == MediumErrorKind::Transient
}

/// Collects what went wrong, with the cases that it belongs to.
#[derive(Default)]
pub struct Findings {
    pub cases: u64,
    found: Vec<String>,
}

impl Findings {
    pub fn note(&mut self, result: Result<(), String>, case: impl FnOnce() -> String) {
        self.cases += 1;
        if let Err(what) = result {
            if self.found.len() < 20 {
                self.found.push(format!("{}: {what}", case()));
            }
        }
    }

    pub fn check(&self, cases_least: u64) {
        assert!(self.found.is_empty(), "of {} cases:\n{}", self.cases, self.found.join("\n"));
        assert!(self.cases >= cases_least, "only {} cases", self.cases);
    }
}
