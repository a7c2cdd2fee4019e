//! The payloads, as FORMAT.md has them: the one place that knows their bytes.
//!
//! Guarantees: what is put here is applied again to the same content, from any image that has the
//! rest of it. Both forms carry new bytes as they are, so that they may meet an image that already
//! has them. Any bytes can be applied, and none of them writes outside the block.

use core::iter::repeat_n;

use journal_core::policy::{ApplyError, Encoder, NoRoom, Patch, Prefix, Span};

use crate::changed::{Changed, Runs, Size};

/// The first byte: runs of bytes follow, each behind its place.
const RUNS: u8 = 1;
/// The first byte: a map of the objects that follow.
const MAP: u8 = 2;

/// What a payload has beyond the bytes of the objects in it, at most. Patches take
/// 4 bytes for each run instead.
pub const OVERHEAD_MAX: usize = 24;

/// Bytes before those of a run: its place and its length less one.
const RUN_BYTES: usize = 4;

/// Bytes before a map: the form, the size of an object, the length of the map.
const MAP_HEAD_BYTES: usize = 4;

/// What runs take, beyond the bytes of the objects.
const fn runs_overhead(runs: usize) -> usize {
    runs.saturating_mul(RUN_BYTES).saturating_add(1)
}

/// Bytes of a map in which this is the last object.
const fn map_bytes(last: usize) -> usize {
    (last / 8).saturating_add(1)
}

/// What a map takes, beyond the bytes of the objects.
const fn map_overhead(last: usize) -> usize {
    map_bytes(last).saturating_add(MAP_HEAD_BYTES)
}

/// Puts the objects of an image that changed into an encoder that is empty, as runs, and says what
/// they are. `None`, after something may have been put, where
///
/// - a map takes less, or both take too much;
/// - there is too much of the objects, or they are no shorter than the image;
/// - they lie where no run can.
#[inline]
pub(crate) fn put_runs(
    runs: Runs<'_, '_, impl Iterator<Item = Span> + Clone>,
    image: &[u8],
    is_too_much: impl Fn(&Size) -> bool,
    out: &mut Encoder<'_>,
) -> Option<Size> {
    let changed = runs.changed;
    let last = changed.object_at(image.len().saturating_sub(1));
    let most = OVERHEAD_MAX.min(map_overhead(last));
    let mut size = Size::default();
    out.put(&[RUNS]).ok()?;
    for run in runs {
        let place = changed.bytes_of(&run, image.len());
        let (at, bytes) = (place.start, image.get(place)?);
        size.add(&run, bytes.len());
        if runs_overhead(size.runs) > most || is_too_much(&size) {
            return None;
        }
        put_place(at, bytes.len(), out).ok()?;
        out.put(bytes).ok()?;
    }
    (has_runs(&size) && out.as_bytes().len() < image.len()).then_some(size)
}

/// Whether runs of them take less than a map does, and not too much.
pub(crate) const fn has_runs(size: &Size) -> bool {
    let runs = runs_overhead(size.runs);
    runs <= OVERHEAD_MAX && runs <= map_overhead(size.last)
}

/// Whether a map of them does not take too much.
pub(crate) const fn has_map(size: &Size) -> bool {
    map_overhead(size.last) <= OVERHEAD_MAX
}

/// Puts the objects of an image that changed behind a map of them.
///
/// # Errors
/// [`NoRoom`], also where the map takes too much; something may have been put.
pub(crate) fn put_map(
    changed: &Changed<'_, impl Iterator<Item = Span> + Clone>,
    size: &Size,
    image: &[u8],
    out: &mut Encoder<'_>,
) -> Result<(), NoRoom> {
    let map_bytes = map_bytes(size.last);
    let unit = u16::try_from(changed.unit.get()).map_err(|_| NoRoom)?;
    let bytes = u8::try_from(map_bytes).map_err(|_| NoRoom)?;
    out.put(&[MAP])?;
    out.put(&unit.to_le_bytes())?;
    out.put(&[bytes])?;
    let mut map = [0_u8; OVERHEAD_MAX];
    for index in changed.objects() {
        let bit = 1_u8.checked_shl((index % 8) as u32).unwrap_or(0);
        *map.get_mut(index / 8).ok_or(NoRoom)? |= bit;
    }
    out.put(map.get(..map_bytes).ok_or(NoRoom)?)?;
    for run in changed.runs() {
        let place = changed.bytes_of(&run, image.len());
        out.put(image.get(place).ok_or(NoRoom)?)?;
    }
    Ok(())
}

fn put_place(at: usize, bytes: usize, out: &mut Encoder<'_>) -> Result<(), NoRoom> {
    // Two words, stored as one.
    out.put(&place(at, bytes).ok_or(NoRoom)?.to_le_bytes())
}

/// Where a run is, and its length less one.
fn place(at: usize, bytes: usize) -> Option<u32> {
    let half = |value: usize| u16::try_from(value).map(u32::from).ok();
    Some(half(bytes.checked_sub(1)?)? << 16 | half(at)?)
}

/// Where a patch ends in its block.
const fn end_of(patch: &Patch<'_>) -> usize {
    (patch.at as usize).saturating_add(patch.bytes.len())
}

/// Patches that touch become one run, of which this one is the first: where it is, and its length
/// less one. `others` come next.
#[inline(always)]
fn run(first: &Patch<'_>, others: &[Patch<'_>]) -> Option<u32> {
    let mut end = end_of(first);
    for next in others {
        if next.at as usize != end {
            break;
        }
        end = end_of(next);
    }
    let at = first.at as usize;
    place(at, end.saturating_sub(at))
}

/// What is put before the bytes of one of some patches, which ascend.
#[inline(always)]
pub(crate) fn prefix_of(patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
    let (before, rest) = patches.split_at_checked(at)?;
    let (patch, others) = rest.split_first()?;
    let Some(last) = before.last() else {
        return Some(Prefix::new(run(patch, others)?.into(), RUN_BYTES).behind(RUNS));
    };
    if end_of(last) == patch.at as usize {
        return Some(Prefix::NONE);
    }
    Some(Prefix::new(run(patch, others)?.into(), RUN_BYTES))
}

/// Puts patches, ascending; those that touch become one run.
#[inline(always)]
pub(crate) fn put_patches(patches: &[Patch<'_>], out: &mut Encoder<'_>) -> Result<(), NoRoom> {
    for (at, patch) in patches.iter().enumerate() {
        let prefix = prefix_of(patches, at).ok_or(NoRoom)?;
        let word = prefix.word().to_le_bytes();
        out.put(word.get(..prefix.bytes()).unwrap_or_default())?;
        out.put(patch.bytes)?;
    }
    Ok(())
}

/// A payload under way.
struct Reader<'p> {
    payload: &'p [u8],
    at: usize,
}

impl<'p> Reader<'p> {
    fn take(&mut self, bytes: usize) -> Result<&'p [u8], ApplyError> {
        let end = self.at.saturating_add(bytes);
        let malformed = ApplyError::Malformed { at: self.at };
        let taken = self.payload.get(self.at..end).ok_or(malformed)?;
        self.at = end;
        Ok(taken)
    }

    fn take_byte(&mut self) -> Result<u8, ApplyError> {
        let malformed = ApplyError::Malformed { at: self.at };
        self.take(1)?.first().copied().ok_or(malformed)
    }

    fn take_number(&mut self) -> Result<usize, ApplyError> {
        let (low, high) = (self.take_byte()?, self.take_byte()?);
        Ok(usize::from(u16::from_le_bytes([low, high])))
    }

    const fn is_at_end(&self) -> bool {
        self.at >= self.payload.len()
    }
}

/// Writes what a payload says into a block. Takes no more steps than both have bytes.
pub(crate) fn apply(payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
    let mut reader = Reader { payload, at: 0 };
    match reader.take_byte()? {
        RUNS => apply_runs(&mut reader, block),
        MAP => apply_map(&mut reader, block),
        _ => Err(ApplyError::Malformed { at: 0 }),
    }
}

fn apply_runs(reader: &mut Reader<'_>, block: &mut [u8]) -> Result<(), ApplyError> {
    let mut free_from = 0;
    loop {
        let place = reader.at;
        let (at, bytes) = (reader.take_number()?, reader.take_number()?.saturating_add(1));
        if at < free_from {
            return Err(ApplyError::Malformed { at: place });
        }
        free_from = at.saturating_add(bytes);
        let into = block.get_mut(at..free_from).ok_or(ApplyError::OutOfBlock { at: place })?;
        into.copy_from_slice(reader.take(bytes)?);
        if reader.is_at_end() {
            return Ok(());
        }
    }
}

fn apply_map(reader: &mut Reader<'_>, block: &mut [u8]) -> Result<(), ApplyError> {
    let (head, unit) = (reader.at, reader.take_number()?);
    let map_bytes = usize::from(reader.take_byte()?);
    let map_at = reader.at;
    let map = reader.take(map_bytes)?;
    // The last byte of a map has the last object: a map that ends in zeroes was not put here.
    if unit == 0 || map.last().is_none_or(|last| *last == 0) {
        return Err(ApplyError::Malformed { at: head });
    }
    let bits = map.iter().flat_map(|byte| repeat_n(*byte, 8).zip(0_u32..));
    for (index, (byte, bit)) in bits.enumerate() {
        if byte.checked_shr(bit).unwrap_or(0) & 1 == 0 {
            continue;
        }
        let start = index.saturating_mul(unit);
        let end = start.saturating_add(unit).min(block.len());
        let outside = ApplyError::OutOfBlock { at: map_at.saturating_add(index / 8) };
        let into = block.get_mut(start..end).filter(|into| !into.is_empty()).ok_or(outside)?;
        let bytes = reader.take(into.len())?;
        into.copy_from_slice(bytes);
    }
    if reader.is_at_end() { Ok(()) } else { Err(ApplyError::Malformed { at: reader.at }) }
}
