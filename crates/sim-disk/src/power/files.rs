//! The closed form of files: which content and which length a power loss may leave.
//!
//! A file is what is certainly durable of it, and the calls since. A crash decides two things:
//!
//! - which *past* the length has. Lengths become durable in their order, and each cut divides it:
//!   with the first `n` cuts durable, what lay behind them is gone, and the length is one that the
//!   file had between cut `n` and the next. Inside a past the file only grows;
//! - which bytes arrived. Each unit (a sector, or a page) is a cell: its pieces of the calls are
//!   there or not, in any subset, the later on top. Torn by byte, each byte is a piece.
//!
//! The two are independent inside a past, except that nothing exists behind the length.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use journal_core::units::WORD_BYTES;

use crate::media::file::{FILE_PAGE_BYTES, FileImage, TornBy, Unwritten};
use crate::media::image::{Medium, fingerprint, fingerprint_of_file};
use crate::media::model::{Defect, Rules};
use crate::media::rng::{Rng, mix};

const PAGE: u64 = FILE_PAGE_BYTES as u64;
const WORD: u64 = WORD_BYTES as u64;

/// Contents of a unit beyond which they are sampled.
const CONTENTS_MAX: usize = 256;
/// How many prefixes, how many suffixes and how many random subsets such a sample has, about.
const SAMPLE_OF_EACH: usize = 16;
/// Lengths of one past beyond which they are sampled.
const LENGTHS_MAX: usize = 256;
/// Bytes by which a write makes a file longer, up to which each length between is tried where
/// writes are torn by byte.
const LENGTHS_BY_BYTE_MAX: u64 = 64;

static ZEROES: [u8; FILE_PAGE_BYTES] = [0; FILE_PAGE_BYTES];

/// A call that is not certainly durable.
#[derive(Clone, Debug)]
struct FileCall {
    order: u64,
    /// Whether a failed sync was for it: then no later sync covers it.
    is_orphan: bool,
    what: Change,
}

#[derive(Clone, Debug)]
enum Change {
    Write { at: u64, bytes: Arc<[u8]> },
    SetLen(u64),
}

/// The calls on a file that are not certainly durable, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingFile {
    calls: Vec<FileCall>,
}

/// Something that a crash decides about a file; its contents, the durable one first and the newest
/// last.
#[derive(Debug)]
pub(crate) struct FileCell {
    pub(crate) medium: Medium,
    pub(crate) at: u64,
    pub(crate) contents: Vec<Vec<u8>>,
    /// The content without the last call.
    pub(crate) previous: Vec<u8>,
    pub(crate) last_order: u64,
    pub(crate) is_sample: bool,
}

/// One past of a file's length: what is durable in it, and what the crash decides on top of that.
#[derive(Debug)]
pub(crate) struct FilePast {
    /// The durable file, if it is not the one of the weather.
    pub(crate) durable: Option<FileImage>,
    pub(crate) cells: Vec<FileCell>,
}

/// Part of a call, in one unit.
#[derive(Clone, Copy)]
struct Part<'a> {
    order: u64,
    at: u64,
    bytes: &'a [u8],
    is_write: bool,
}

impl Part<'_> {
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

impl PendingFile {
    pub(crate) fn write(&mut self, order: u64, at: u64, bytes: &[u8]) {
        let what = Change::Write { at, bytes: bytes.into() };
        self.calls.push(FileCall { order, is_orphan: false, what });
    }

    pub(crate) fn set_len(&mut self, order: u64, len: u64) {
        self.calls.push(FileCall { order, is_orphan: false, what: Change::SetLen(len) });
    }

    /// A failed sync: no later one covers the writes so far. Lengths that were set lie in the file
    /// system's own log, which the next sync writes.
    pub(crate) fn abandon(&mut self) {
        for call in &mut self.calls {
            call.is_orphan |= matches!(call.what, Change::Write { .. });
        }
    }

    /// A failed sync whose pages are gone: its writes never happened.
    pub(crate) fn drop_writes(&mut self) {
        self.calls.retain(|call| call.is_orphan || matches!(call.what, Change::SetLen(_)));
    }

    /// Makes durable what no failed sync was for; how the image's fingerprint changes.
    pub(crate) fn sync(&mut self, number: u16, durable: &mut FileImage) -> u128 {
        let certain = || self.calls.iter().filter(|call| !call.is_orphan);
        let cuts = certain().any(|call| matches!(call.what, Change::SetLen(_)));
        let pages: BTreeSet<u64> = certain().flat_map(FileCall::pages).collect();
        let sum = |file: &FileImage| {
            if cuts {
                return fingerprint_of_file(number, file);
            }
            let length = file.len().to_le_bytes();
            let length = fingerprint(Medium::FileLength(number), 0, &length);
            pages.iter().fold(length, |sum, page| {
                let content = file.part(page * PAGE, FILE_PAGE_BYTES);
                sum ^ fingerprint(Medium::File(number), page * PAGE, &content)
            })
        };
        let before = sum(durable);
        let mut left = Vec::new();
        for call in core::mem::take(&mut self.calls) {
            match &call.what {
                _ if call.is_orphan => left.push(call),
                Change::Write { at, bytes } => {
                    durable.write(*at, bytes);
                    left = without(left, *at, at + bytes.len() as u64);
                }
                Change::SetLen(len) => {
                    durable.set_len(*len);
                    left = without(left, *len, u64::MAX);
                }
            }
        }
        self.calls = left;
        before ^ sum(durable)
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.calls.is_empty()
    }

    /// How many of the calls cut the file.
    pub(crate) fn cuts(&self, durable: &FileImage) -> usize {
        let mut visible = durable.len();
        let cuts = self.calls.iter().filter(|call| {
            let before = visible;
            visible = call.length_after(before);
            visible < before
        });
        cuts.count()
    }

    /// The past in which the first `kept` cuts are durable.
    pub(crate) fn past(
        &self,
        number: u16,
        durable: &FileImage,
        rules: Rules,
        kept: usize,
    ) -> FilePast {
        let by_page = rules.has(Defect::FileIsTornAtPages);
        let torn_by = if by_page { TornBy::Page } else { durable.facts().torn_by };
        let mut base: Option<FileImage> = None;
        let mut growth = Growth::of(durable.len());
        let mut parts: Vec<Part<'_>> = Vec::new();
        let (mut visible, mut cuts) = (durable.len(), 0);
        for call in &self.calls {
            let before = visible;
            visible = call.length_after(before);
            cuts += usize::from(visible < before);
            match &call.what {
                Change::Write { at, bytes } => {
                    let part = Part { order: call.order, at: *at, bytes, is_write: true };
                    if cuts <= kept {
                        growth.by_write(&part, torn_by);
                    }
                    parts.push(part);
                }
                Change::SetLen(len) if visible < before && cuts <= kept => {
                    base.get_or_insert_with(|| durable.clone()).set_len(*len);
                    growth = Growth::of(*len);
                    if rules.has(Defect::FileCutsAreForgotten) {
                        continue;
                    }
                    cut(&mut parts, *len);
                }
                Change::SetLen(len) if visible < before => {
                    // The tail of the page is zeroed in place, before the length changes.
                    let tail = (len.next_multiple_of(PAGE) - len) as usize;
                    let (order, bytes) = (call.order, &ZEROES[..tail]);
                    parts.push(Part { order, at: *len, bytes, is_write: false });
                }
                Change::SetLen(len) if cuts <= kept => growth.to(*len, call.order),
                Change::SetLen(_) => {}
            }
        }
        // Behind a cut that is not durable, writes make the file no longer.
        cut(&mut parts, growth.longest());
        let mut cells: Vec<FileCell> = growth.cell(number).into_iter().collect();
        let below = base.as_ref().unwrap_or(durable);
        for (unit, parts) in by_unit(&parts, torn_by) {
            cells.push(unit_cell(number, below, torn_by, unit, &parts));
        }
        FilePast { durable: base, cells }
    }
}

/// Leaves out what lies from `len` on.
fn cut(parts: &mut Vec<Part<'_>>, len: u64) {
    parts.retain_mut(|part| {
        let left = usize::try_from(len.saturating_sub(part.at)).unwrap_or(usize::MAX);
        part.bytes = &part.bytes[..left.min(part.bytes.len())];
        left > 0
    });
}

impl FileCall {
    fn length_after(&self, len: u64) -> u64 {
        match &self.what {
            Change::Write { at, bytes } => len.max(at + bytes.len() as u64),
            Change::SetLen(len) => *len,
        }
    }

    /// The pages that it writes to.
    fn pages(&self) -> core::ops::Range<u64> {
        match &self.what {
            Change::Write { at, bytes } => at / PAGE..(at + bytes.len() as u64).div_ceil(PAGE),
            Change::SetLen(_) => 0..0,
        }
    }
}

/// Calls without what lies in a range.
fn without(calls: Vec<FileCall>, from: u64, to: u64) -> Vec<FileCall> {
    let mut left = Vec::with_capacity(calls.len());
    for call in calls {
        let Change::Write { at, bytes } = &call.what else {
            left.push(call);
            continue;
        };
        let end = at + bytes.len() as u64;
        for (from, to) in [(*at, end.min(from)), ((*at).max(to), end)] {
            if from < to {
                let bytes = bytes[(from - at) as usize..(to - at) as usize].into();
                left.push(FileCall { what: Change::Write { at: from, bytes }, ..call });
            }
        }
    }
    left
}

/// The lengths of one past, each longer than the one before, with the order of its call.
struct Growth {
    from: u64,
    lengths: Vec<(u64, u64)>,
    is_sample: bool,
}

impl Growth {
    const fn of(from: u64) -> Self {
        Self { from, lengths: Vec::new(), is_sample: false }
    }

    fn longest(&self) -> u64 {
        self.lengths.last().map_or(self.from, |(len, _)| *len)
    }

    fn to(&mut self, len: u64, order: u64) {
        if len > self.longest() {
            self.lengths.push((len, order));
        }
    }

    /// A write may have become part of the file up to any place where it can be torn.
    fn by_write(&mut self, part: &Part<'_>, torn_by: TornBy) {
        let (first, end) = (self.longest().max(part.at), part.end());
        let mut step = torn_by.bytes() as u64;
        if torn_by == TornBy::Byte && end.saturating_sub(first) > LENGTHS_BY_BYTE_MAX {
            self.to(first + 1, part.order);
            self.is_sample = true;
            step = TornBy::Sector.bytes() as u64;
        }
        let mut next = (first + 1).next_multiple_of(step);
        while next < end {
            self.to(next, part.order);
            next += step;
        }
        self.to(end, part.order);
    }

    fn cell(mut self, number: u16) -> Option<FileCell> {
        let (newest, last_order) = *self.lengths.last()?;
        let before = self.lengths.iter().rev().find(|(_, order)| *order < last_order);
        let previous = before.map_or(self.from, |(len, _)| *len);
        if self.lengths.len() > LENGTHS_MAX {
            self.is_sample = true;
            let stride = self.lengths.len().div_ceil(LENGTHS_MAX);
            self.lengths = self.lengths.into_iter().step_by(stride).collect();
        }
        let lengths = self.lengths.iter().map(|(len, _)| *len);
        let all = core::iter::once(self.from).chain(lengths).chain([newest]);
        Some(FileCell {
            medium: Medium::FileLength(number),
            at: 0,
            contents: all.map(|len| len.to_le_bytes().to_vec()).collect(),
            previous: previous.to_le_bytes().to_vec(),
            last_order,
            is_sample: self.is_sample,
        })
    }
}

/// What a crash takes as one cell: the bytes of a sector are independent, and still one cell.
const fn unit_bytes(torn_by: TornBy) -> u64 {
    match torn_by {
        TornBy::Byte | TornBy::Sector => TornBy::Sector.bytes() as u64,
        TornBy::Page => PAGE,
    }
}

/// The parts of each unit, in order.
fn by_unit<'a>(parts: &[Part<'a>], torn_by: TornBy) -> BTreeMap<u64, Vec<Part<'a>>> {
    let unit_bytes = unit_bytes(torn_by);
    let mut units: BTreeMap<u64, Vec<Part<'a>>> = BTreeMap::new();
    for part in parts {
        let mut rest = *part;
        while !rest.bytes.is_empty() {
            let unit = rest.at / unit_bytes;
            let here = ((unit + 1) * unit_bytes - rest.at).min(rest.bytes.len() as u64) as usize;
            let (bytes, behind) = rest.bytes.split_at(here);
            units.entry(unit).or_default().push(Part { bytes, ..rest });
            rest = Part { at: rest.at + here as u64, bytes: behind, ..rest };
        }
    }
    units
}

fn unit_cell(
    number: u16,
    below: &FileImage,
    torn_by: TornBy,
    unit: u64,
    parts: &[Part<'_>],
) -> FileCell {
    let unit_bytes = unit_bytes(torn_by);
    let (start, end) = (unit * unit_bytes, (unit + 1) * unit_bytes);
    let mut from = parts.iter().map(|part| part.at).min().unwrap_or(start);
    let mut to = parts.iter().map(Part::end).max().unwrap_or(end);
    // Blocks that a write has made part of the file.
    let fresh = start.max(below.len());
    let is_fresh = parts.iter().any(|part| part.is_write && part.end() > fresh);
    let leaves_garbage = is_fresh && below.facts().unwritten == Unwritten::Garbage;
    if leaves_garbage {
        (from, to) = (from.min(fresh), end);
    }
    let (from, to) = (from / WORD * WORD, to.next_multiple_of(WORD));
    let durable = below.part(from, (to - from) as usize);
    let pieces: Vec<Part<'_>> = match torn_by {
        TornBy::Byte => changed_bytes(&durable, from, parts),
        _ => parts.to_vec(),
    };
    let last_order = parts.last().map_or(0, |part| part.order);
    let earlier = pieces.iter().filter(|piece| piece.order < last_order);
    let previous = earlier.fold(durable.clone(), |content, piece| laid(content, from, piece));
    let newest = pieces.iter().fold(durable.clone(), |content, piece| laid(content, from, piece));
    let places: BTreeSet<u64> = pieces.iter().map(|piece| piece.at).collect();
    // Torn by byte, each place has two values and more.
    let are_many = torn_by == TornBy::Byte && places.len() > CONTENTS_MAX.ilog2() as usize;
    let all = if are_many { None } else { every_content(&durable, from, &pieces) };
    let is_sample = all.is_none();
    let mut contents = all.unwrap_or_else(|| sample(&durable, from, &pieces));
    if leaves_garbage {
        let mut garbage = durable;
        for (byte, at) in garbage.iter_mut().zip(from..) {
            if at >= fresh {
                *byte = mix(!at) as u8;
            }
        }
        contents.push(garbage);
    }
    contents.push(newest);
    let medium = Medium::File(number);
    FileCell { medium, at: from, contents, previous, last_order, is_sample }
}

/// The bytes of all parts, one by one, without those that nothing changes.
fn changed_bytes<'a>(durable: &[u8], from: u64, parts: &[Part<'a>]) -> Vec<Part<'a>> {
    let bytes = parts.iter().flat_map(|part| {
        let bytes = part.bytes.chunks(1).zip(part.at..);
        bytes.map(move |(bytes, at)| Part { at, bytes, ..*part })
    });
    let bytes: Vec<Part<'a>> = bytes.collect();
    let mut is_changed = vec![false; durable.len()];
    for byte in &bytes {
        let inside = (byte.at - from) as usize;
        is_changed[inside] |= byte.bytes[0] != durable[inside];
    }
    bytes.into_iter().filter(|byte| is_changed[(byte.at - from) as usize]).collect()
}

/// A content from the place `from` on, with a piece laid over it.
fn laid(mut content: Vec<u8>, from: u64, piece: &Part<'_>) -> Vec<u8> {
    let inside = (piece.at - from) as usize;
    content[inside..inside + piece.bytes.len()].copy_from_slice(piece.bytes);
    content
}

/// The contents that all subsets of the pieces lead to, unless they are many.
fn every_content(durable: &[u8], from: u64, pieces: &[Part<'_>]) -> Option<Vec<Vec<u8>>> {
    let mut contents = vec![durable.to_vec()];
    let mut known: HashSet<Vec<u8>> = contents.iter().cloned().collect();
    for piece in pieces {
        for index in 0..contents.len() {
            let content = laid(contents[index].clone(), from, piece);
            if known.insert(content.clone()) {
                contents.push(content);
            }
        }
        if contents.len() > CONTENTS_MAX {
            return None;
        }
    }
    Some(contents)
}

/// The contents of some subsets: nothing, prefixes, suffixes, single pieces and random ones.
fn sample(durable: &[u8], from: u64, pieces: &[Part<'_>]) -> Vec<Vec<u8>> {
    let content = |keep: &mut dyn FnMut(usize) -> bool| {
        let kept = pieces.iter().enumerate().filter(|(index, _)| keep(*index));
        kept.fold(durable.to_vec(), |content, (_, piece)| laid(content, from, piece))
    };
    let mut contents = vec![durable.to_vec()];
    // After every call, and at some places inside them.
    let stride = pieces.len().div_ceil(SAMPLE_OF_EACH).max(1);
    let ends = pieces.windows(2).enumerate().filter(|(_, pair)| pair[0].order < pair[1].order);
    let ends = ends.map(|(index, _)| index + 1).take(SAMPLE_OF_EACH);
    let places: BTreeSet<usize> = ends.chain((1..pieces.len()).step_by(stride)).collect();
    for place in places {
        contents.push(content(&mut |index| index < place));
        contents.push(content(&mut |index| index >= place));
        contents.push(content(&mut |index| index == place));
        contents.push(content(&mut |index| index != place));
    }
    let mut rng = Rng::new(mix(from) ^ pieces.len() as u64);
    for _ in 0..SAMPLE_OF_EACH {
        let of_8 = 1 + rng.below(7);
        contents.push(content(&mut |_| rng.chance(of_8, 8)));
    }
    contents
}
