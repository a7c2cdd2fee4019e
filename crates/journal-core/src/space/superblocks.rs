//! The superblock: what recovery believes before it has read a single record.
//!
//! Two copies lie in separate media units, each with a generation and a check. Every open and every
//! head advance writes both, the older or invalid one first, each fenced. Only after the second
//! fence may the new epoch and the freed space be used.
//!
//! **Crash**: one copy may be torn at any time, then the other one is whole. The newer valid copy
//! counts. If a record names a generation newer than any valid copy, the newest copy was lost. That
//! is an error: no older head is taken on trust.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use crate::format::geometry::{Geometry, GeometryError, Protocol, UNIT_BYTES_MAX};
use crate::format::record::Note;
use crate::format::superblock::{
    CHECK_BYTES, DISK_LOG, FORMAT_VERSION, KeptNote, LaneMark, MAGIC, NOTES, SLOTS,
    SuperblockHeader, TAIL_POINTER, VOID_MAGIC, superblock_bytes,
};
use crate::order::ordered::{Durable, Hook, Ordered};
use crate::order::rule::Rule;
use crate::order::source::Source;
use crate::ports::error::{MediumError, MediumErrorKind};
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::PolicyId;
use crate::space::stored::Stored;
use crate::units::{
    BlockSize, Epoch, Generation, LANES_MAX, LINE_BYTES, Offset, Sequence, Stamp, WORD_BYTES,
};

/// The incompatible features that this version knows.
const KNOWN_FEATURES: u64 = TAIL_POINTER | SLOTS | DISK_LOG | NOTES;

crate::sites! {
    pub(crate) mod site {
        COPY: Write = "superblock.copy";
        COPY_FENCE: Fence = "superblock.copy.fence";
        /// A crash before or after leaves what there was.
        FORGOTTEN: Flush = "superblock.forgotten";
        /// A crash before leaves the older journal, one after none.
        VOID: Write = "superblock.void";
        VOID_FENCE: Fence = "superblock.void.fence";
        /// A crash before or after leaves no journal. Where the first line is lost as well, one
        /// before may leave the older journal, whole.
        FORGET: Write = "superblock.forget";
        FORGET_FENCE: Fence = "superblock.forget.fence";
    }
}

/// No counter of a superblock gets here. It is twice the end of the records' counters, because a
/// counter here may be one above the highest of theirs, and so equal to that end.
const SUPERBLOCK_COUNTER_END: u64 = 2 * crate::format::record::COUNTER_END;

/// The incompatible features of a geometry.
const fn features(geometry: &Geometry) -> u64 {
    let of_protocol = match geometry.protocol {
        Protocol::OneFence => 0,
        Protocol::TailPointer => TAIL_POINTER,
    };
    let of_slots = if geometry.lane_slots > 0 { SLOTS } else { 0 };
    let of_log = if geometry.lane_log_blocks > 0 { DISK_LOG } else { 0 };
    of_protocol | of_slots | of_log
}

const SUPERBLOCK_BYTES_MAX: usize =
    superblock_bytes(LANES_MAX).saturating_add(size_of::<KeptNote>());

/// A superblock in memory.
#[derive(Clone, Debug)]
pub struct Superblock {
    /// The fixed part.
    pub header: SuperblockHeader,
    marks: [LaneMark; LANES_MAX as usize],
    /// The newest note of a record, and the stamp of that. Kept only with the feature [`NOTES`].
    pub(crate) noted: Option<(Stamp, Note)>,
}

/// Why an image holds no usable superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SuperblockError {
    /// Neither copy begins with the magic: this is no journal.
    NotAJournal,
    /// Neither copy is whole.
    Corrupt,
    /// A format was begun here and not finished: there is no journal, and what was here before is
    /// gone. Format again.
    Unfinished,
    /// The format is a later one.
    Version {
        /// Which.
        found: u32,
    },
    /// The journal uses features that this version does not know.
    Features {
        /// The unknown ones.
        unknown: u64,
    },
    /// A valid check over a geometry that cannot be, or that does not fit the span.
    Geometry,
    /// The medium.
    Medium(MediumError),
}

impl From<MediumError> for SuperblockError {
    fn from(error: MediumError) -> Self {
        Self::Medium(error)
    }
}

impl core::fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotAJournal => f.write_str("no journal here: neither superblock has the magic"),
            Self::Corrupt => f.write_str("neither superblock copy is whole"),
            Self::Unfinished => f.write_str("a format was begun here and not finished"),
            Self::Version { found } => {
                write!(f, "on-media format {found}, this version knows {FORMAT_VERSION}")
            }
            Self::Features { unknown } => write!(f, "unknown incompatible features {unknown:#x}"),
            Self::Geometry => {
                f.write_str("the superblock's geometry is impossible, or larger than the span")
            }
            Self::Medium(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SuperblockError {}

impl Superblock {
    /// The superblock of an empty journal.
    #[must_use]
    pub fn new(
        geometry: &Geometry,
        journal_id: [u8; 16],
        policy: PolicyId,
        device_blocks: u64,
    ) -> Self {
        let header = SuperblockHeader {
            magic: MAGIC,
            version: FORMAT_VERSION.into(),
            block_bytes: u32::try_from(geometry.block_size.bytes()).unwrap_or(0).into(),
            compatible: 0.into(),
            incompatible: features(geometry).into(),
            journal_id,
            lane_bytes: geometry.lane_bytes.into(),
            policy: policy.0.into(),
            shield_blocks: geometry.shield_blocks.into(),
            unit_bytes: geometry.unit_bytes.into(),
            lanes: geometry.lanes.into(),
            reserved: 0.into(),
            device_blocks: device_blocks.into(),
            generation: 0.into(),
            epoch: 0.into(),
            stamp_floor: 0.into(),
            shield_floor: 0.into(),
            lane_slots: geometry.lane_slots.into(),
            lane_log_blocks: geometry.lane_log_blocks.into(),
            segment_blocks: geometry.segment_blocks.into(),
            closed: mark_of_close(Generation(0)).into(),
        };
        // Sequences begin at 1, so that a header of zeroes is never the expected one.
        let mark = LaneMark {
            head: 0.into(),
            head_sequence: 1.into(),
            epoch_first: 1.into(),
            durable_to: 1.into(),
        };
        Self { header, marks: [mark; LANES_MAX as usize], noted: None }
    }

    /// What it says of each lane.
    #[must_use]
    pub fn marks(&self) -> &[LaneMark] {
        self.marks.get(..usize::from(self.header.lanes.get())).unwrap_or_default()
    }

    /// What it says of each lane, to be changed.
    pub fn marks_mut(&mut self) -> &mut [LaneMark] {
        self.marks.get_mut(..usize::from(self.header.lanes.get())).unwrap_or_default()
    }

    /// Whether records may have notes.
    #[must_use]
    pub const fn has_notes(&self) -> bool {
        self.header.incompatible.get() & NOTES != 0
    }

    /// From now on records may have notes.
    pub(crate) fn begin_notes(&mut self) -> Result<(), GeometryError> {
        let (lanes, bytes) = (self.header.lanes.get(), self.header.unit_bytes.get());
        let least = bytes_with(lanes, true).next_multiple_of(LINE_BYTES);
        let least = u32::try_from(least).unwrap_or(u32::MAX);
        if bytes < least {
            return Err(GeometryError::UnitBytes { bytes, least });
        }
        self.header.incompatible = (self.header.incompatible.get() | NOTES).into();
        Ok(())
    }

    /// Bytes of each of its copies.
    pub(crate) const fn bytes(&self) -> usize {
        bytes_with(self.header.lanes.get(), self.has_notes())
    }

    /// Its generation.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        Generation(self.header.generation.get())
    }

    /// Its epoch.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        Epoch(self.header.epoch.get())
    }

    /// At or above every stamp dropped.
    #[must_use]
    pub const fn stamp_floor(&self) -> Stamp {
        Stamp(self.header.stamp_floor.get())
    }

    /// Whether it was written when the last record of each lane was durable, and nothing was
    /// stored behind that since. A writer that knows nothing of it raises the generation.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.header.closed.get() == mark_of_close(self.generation())
    }

    /// Says whether that is so; behind the last change of the generation.
    pub(crate) fn set_closed(&mut self, is_so: bool) {
        let mark = mark_of_close(self.generation());
        self.header.closed = if is_so { mark } else { u32::from(mark == 0) }.into();
    }

    /// The geometry it describes.
    ///
    /// # Errors
    /// `Geometry` when there can be no such one.
    pub fn geometry(&self) -> Result<Geometry, SuperblockError> {
        let geometry = Geometry {
            block_size: BlockSize::new(self.header.block_bytes.get())
                .ok_or(SuperblockError::Geometry)?,
            lanes: self.header.lanes.get(),
            lane_bytes: self.header.lane_bytes.get(),
            shield_blocks: self.header.shield_blocks.get(),
            unit_bytes: self.header.unit_bytes.get(),
            protocol: match self.header.incompatible.get() & TAIL_POINTER {
                0 => Protocol::OneFence,
                _ => Protocol::TailPointer,
            },
            lane_slots: self.header.lane_slots.get(),
            lane_log_blocks: self.header.lane_log_blocks.get(),
            segment_blocks: self.header.segment_blocks.get(),
        };
        if features(&geometry) != self.header.incompatible.get() & !NOTES {
            return Err(SuperblockError::Geometry);
        }
        geometry.check().map_err(|_| SuperblockError::Geometry)?;
        Ok(geometry)
    }

    /// Heads lie on lines, and no counter comes near the end of its type: what counts up from them
    /// never has to look.
    fn check_counters(&self) -> Result<(), SuperblockError> {
        let header = &self.header;
        let of_header = [header.generation, header.epoch, header.stamp_floor, header.shield_floor];
        let of_lanes = self
            .marks()
            .iter()
            .flat_map(|mark| [mark.head, mark.head_sequence, mark.epoch_first, mark.durable_to]);
        let in_range = |counter: U64| counter.get() < SUPERBLOCK_COUNTER_END;
        let starts = |mark: &LaneMark| {
            mark.head.get().checked_rem(LINE_BYTES as u64) == Some(0)
                && mark.head_sequence.get() > 0
        };
        let sane =
            of_header.into_iter().chain(of_lanes).all(in_range) && self.marks().iter().all(starts);
        let is_of_the_past = self.noted.is_none_or(|(stamp, _)| stamp <= self.stamp_floor());
        if sane && is_of_the_past { Ok(()) } else { Err(SuperblockError::Geometry) }
    }

    fn encode<'b>(
        &self,
        kernels: &impl Kernels,
        into: &'b mut [u8; SUPERBLOCK_BYTES_MAX],
    ) -> &'b [u8] {
        let len = superblock_bytes(self.header.lanes.get());
        let marks = self.marks().iter().map(|mark| mark.as_bytes());
        let mut at = 0_usize;
        for part in core::iter::once(self.header.as_bytes()).chain(marks) {
            let end = at.saturating_add(part.len());
            if let Some(to) = into.get_mut(at..end) {
                to.copy_from_slice(part);
            }
            at = end;
        }
        let check = kernels.crc64(0, into.get(..at).unwrap_or_default());
        if let Some(to) = into.get_mut(at..len) {
            to.copy_from_slice(&check.to_le_bytes());
        }
        if !self.has_notes() {
            return into.get(..len).unwrap_or_default();
        }
        let (stamp, note) = self.noted.unwrap_or_default();
        let mut kept =
            KeptNote { stamp: stamp.raw().into(), note: note.map(U64::from), check: U64::ZERO };
        kept.check = kept.right_check(check, kernels).into();
        if let Some(to) = into.get_mut(len..self.bytes()) {
            to.copy_from_slice(kept.as_bytes());
        }
        into.get(..self.bytes()).unwrap_or_default()
    }

    /// Reads one copy.
    pub(crate) fn decode(
        pmem: &impl Source,
        at: Offset,
        kernels: &impl Kernels,
    ) -> Result<CopyOf, SuperblockError> {
        let fixed = size_of::<SuperblockHeader>();
        let Some(bytes) = readable(pmem.bytes(at, fixed))? else { return Ok(CopyOf::Torn) };
        let Ok(header) = SuperblockHeader::read_from_bytes(bytes) else { return Ok(CopyOf::Torn) };
        if header.magic != MAGIC {
            return Ok(CopyOf::Foreign);
        }
        let lanes = header.lanes.get();
        if lanes == 0 || lanes > LANES_MAX {
            return Ok(CopyOf::Torn);
        }
        let len = superblock_bytes(lanes);
        let Some(bytes) = readable(pmem.bytes(at, len))? else { return Ok(CopyOf::Torn) };
        let Some((content, check)) = bytes.split_last_chunk::<CHECK_BYTES>() else {
            return Ok(CopyOf::Torn);
        };
        let check = u64::from_le_bytes(*check);
        if kernels.crc64(0, content) != check {
            return Ok(CopyOf::Torn);
        }
        if header.version.get() != FORMAT_VERSION {
            return Err(SuperblockError::Version { found: header.version.get() });
        }
        let unknown = header.incompatible.get() & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(SuperblockError::Features { unknown });
        }
        let marks = [LaneMark::default(); LANES_MAX as usize];
        let mut superblock = Self { header, marks, noted: None };
        if superblock.has_notes() {
            let behind = Offset(at.raw().saturating_add(len as u64));
            let Some(kept) = readable(pmem.bytes(behind, size_of::<KeptNote>()))? else {
                return Ok(CopyOf::Torn);
            };
            let kept = KeptNote::read_from_bytes(kept).ok();
            let kept = kept.filter(|kept| kept.right_check(check, kernels) == kept.check.get());
            let Some(KeptNote { stamp, note, .. }) = kept else { return Ok(CopyOf::Torn) };
            let noted = (Stamp(stamp.get()), note.map(U64::get));
            superblock.noted = Some(noted).filter(|(stamp, _)| stamp.raw() > 0);
        }
        let parts = content.get(fixed..).unwrap_or_default().chunks_exact(size_of::<LaneMark>());
        for (mark, part) in superblock.marks.iter_mut().zip(parts) {
            *mark = LaneMark::read_from_bytes(part).unwrap_or_default();
        }
        superblock.geometry()?;
        if superblock.has_notes() {
            superblock.begin_notes().map_err(|_| SuperblockError::Geometry)?;
        }
        superblock.check_counters()?;
        Ok(CopyOf::Whole(superblock))
    }
}

/// Bytes of a kept note before its check.
const KEPT_NOTE_CONTENT: usize = size_of::<KeptNote>() - CHECK_BYTES;

impl KeptNote {
    /// What its check has to be, behind a superblock with this check.
    fn right_check(&self, superblock: u64, kernels: &impl Kernels) -> u64 {
        let (content, _) = self.as_bytes().split_at(KEPT_NOTE_CONTENT);
        kernels.crc64(superblock, content)
    }
}

/// Bytes of a copy, with the note that may be behind its check.
const fn bytes_with(lanes: u16, has_notes: bool) -> usize {
    let kept = if has_notes { size_of::<KeptNote>() } else { 0 };
    superblock_bytes(lanes).saturating_add(kept)
}

/// What a close puts into the superblock of a generation. Not the generation alone, so that no
/// other number is taken for it by chance.
const fn mark_of_close(generation: Generation) -> u32 {
    (generation.raw() & u32::MAX as u64) as u32 ^ u32::from_le_bytes(*b"clsd")
}

/// What one copy is.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is nowhere to box it, and it lives shortly")]
pub(crate) enum CopyOf {
    /// A superblock.
    Whole(Superblock),
    /// A journal's, and not whole or not readable.
    Torn,
    /// Something else.
    Foreign,
}

/// Poison, and the end of a span, take a copy; any other error says nothing about its content.
fn readable(read: Result<&[u8], MediumError>) -> Result<Option<&[u8]>, MediumError> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind {
            MediumErrorKind::Poisoned | MediumErrorKind::OutOfRange => Ok(None),
            _ => Err(error),
        },
    }
}

/// The two superblock copies on the medium.
#[derive(Debug)]
pub(crate) struct Superblocks<P, H> {
    pmem: Ordered<P, H>,
    /// Where the copies begin; the one to be written first comes first.
    offsets: [Offset; 2],
    stored: Stored,
}

impl<P: Pmem, H: Hook> Superblocks<P, H> {
    /// The copies at these offsets; the one to be written first comes first.
    pub(crate) const fn new(pmem: Ordered<P, H>, offsets: [Offset; 2]) -> Self {
        Self { pmem, offsets, stored: Stored::NOTHING }
    }

    /// What was stored in the two copies.
    pub(crate) const fn stored(&self) -> Stored {
        self.stored
    }

    pub(crate) fn pmem_mut(&mut self) -> &mut Ordered<P, H> {
        &mut self.pmem
    }

    /// Where the copy lies that [`load`] accepted.
    pub(crate) const fn accepted(&self) -> Offset {
        let [_, newer] = self.offsets;
        newer
    }

    /// Writes both copies, the older or invalid one first, each fenced.
    ///
    /// What may begin with the new generation begins when this returns.
    pub(crate) fn store(
        &mut self,
        superblock: &Superblock,
        kernels: &impl Kernels,
    ) -> Result<Durable<Generation>, MediumError> {
        let mut buffer = [0; SUPERBLOCK_BYTES_MAX];
        let bytes = superblock.encode(kernels, &mut buffer);
        let [older, newer] = self.offsets;
        let generation = superblock.generation();
        self.stored.add(older, bytes.len());
        let copy = self.pmem.write(site::COPY, older, bytes).carrying(generation);
        let first = self.pmem.fence(site::COPY_FENCE, copy)?;
        if !self.pmem.keeps(Rule::BothCopies) {
            return Ok(first);
        }
        self.stored.add(newer, bytes.len());
        let copy = self.pmem.write(site::COPY, newer, bytes).carrying(generation);
        self.pmem.fence(site::COPY_FENCE, copy)
    }
}

/// No copy begins in the last of the lines that are flushed.
const TWO_LINES: u64 = 2 * LINE_BYTES as u64;

/// Makes whatever journal is in a span void, so that a new one can be built there.
///
/// 1. One word, which a crash does not tear: before it there is the older journal, and after it
///    [none](SuperblockError::Unfinished).
/// 2. The rest of the first copy's first line is zeroed, and the first line of whatever a reader
///    could take for a second copy. So no older copy is whole again when a magic comes back, or
///    when the first line is lost.
///
/// **Crash** before the first fence: the older journal, or none. Afterwards: none. Only if the
/// first line is lost before the second fence, the older journal may be found, whole.
pub(crate) fn void_all<P: Pmem, H: Hook>(pmem: &mut Ordered<P, H>) -> Result<(), MediumError> {
    // A killed process may have zeroed copies, which a power loss would bring back.
    let end = u64::from(UNIT_BYTES_MAX).saturating_add(TWO_LINES).min(pmem.len());
    let len = usize::try_from(end).unwrap_or(usize::MAX).saturating_sub(LINE_BYTES);
    let mut void = pmem.flush_found(site::FORGOTTEN, Offset(LINE_BYTES as u64), len);
    if pmem.keeps(Rule::VoidedFirst) {
        // A line that cannot be read is stored whole, so that it can be read again.
        let is_there = readable(pmem.bytes(Offset(0), LINE_BYTES))?.is_some();
        let mut line = [0; LINE_BYTES];
        line.iter_mut().zip(VOID_MAGIC).for_each(|(to, byte)| *to = byte);
        let len = if is_there { WORD_BYTES } else { LINE_BYTES };
        void = void.and(pmem.write(site::VOID, Offset(0), line.get(..len).unwrap_or_default()));
    }
    let _ = pmem.fence(site::VOID_FENCE, void)?;
    let rest = [0; LINE_BYTES - WORD_BYTES];
    let mut forgotten = pmem.write(site::FORGET, Offset(WORD_BYTES as u64), &rest);
    for at in second_places(pmem) {
        if is_magic(pmem, at)? {
            forgotten = forgotten.and(pmem.write(site::FORGET, at, &[0; LINE_BYTES]));
        }
    }
    let _ = pmem.fence(site::FORGET_FENCE, forgotten)?;
    Ok(())
}

/// The newer valid copy of the journal in `pmem`. Its second copy begins at an offset that only the
/// first one knows. Where the first copy is torn, the offset that it still names is tried: a crash
/// in the middle of a rewrite changes no word of the geometry. After that, every multiple of the
/// line is tried.
///
/// Returns the offsets of both copies, the older or invalid one first.
pub(crate) fn load(
    pmem: &impl Source,
    kernels: &impl Kernels,
) -> Result<([Offset; 2], Superblock), SuperblockError> {
    let magic = readable(pmem.bytes(Offset(0), VOID_MAGIC.len()))?;
    if magic.is_some_and(|magic| magic == VOID_MAGIC) {
        return Err(SuperblockError::Unfinished);
    }
    let first = Superblock::decode(pmem, Offset(0), kernels)?;
    let second_at = match &first {
        CopyOf::Whole(superblock) => superblock.geometry()?.second_superblock(),
        _ => match hinted_second(pmem, kernels)? {
            Some(second_at) => second_at,
            None => find_second(pmem, kernels)?.unwrap_or(Offset(0)),
        },
    };
    let second = if second_at == Offset(0) {
        None
    } else {
        match Superblock::decode(pmem, second_at, kernels)? {
            CopyOf::Whole(superblock) => Some(superblock),
            _ => None,
        }
    };
    match (first, second) {
        (CopyOf::Whole(a), Some(b)) if b.generation() > a.generation() => {
            Ok(([Offset(0), second_at], b))
        }
        (CopyOf::Whole(a), _) => Ok(([second_at, Offset(0)], a)),
        (_, Some(b)) => Ok(([Offset(0), second_at], b)),
        (CopyOf::Foreign, None) => Err(SuperblockError::NotAJournal),
        (CopyOf::Torn, None) => Err(SuperblockError::Corrupt),
    }
}

/// The second copy, if it is where the torn first one says, and of the same journal. Content may be
/// a copy of another journal's superblock, of this format or another. So what lies there is no
/// reason to refuse the journal before it is known to be the twin.
fn hinted_second(
    pmem: &impl Source,
    kernels: &impl Kernels,
) -> Result<Option<Offset>, SuperblockError> {
    let Some(torn) = header_at(pmem, Offset(0))? else { return Ok(None) };
    let at = Offset(u64::from(torn.unit_bytes.get()));
    let Some(second) = header_at(pmem, at)? else { return Ok(None) };
    let is_twin = second.unit_bytes == torn.unit_bytes && second.journal_id == torn.journal_id;
    if !is_twin && pmem.keeps(Rule::TwinsAlike) {
        return Ok(None);
    }
    Ok(second_at(pmem, at, kernels)?.map(|_| at))
}

/// What lies here, whole or not, if it begins with the magic.
fn header_at(pmem: &impl Source, at: Offset) -> Result<Option<SuperblockHeader>, SuperblockError> {
    let bytes = readable(pmem.bytes(at, size_of::<SuperblockHeader>()))?;
    let header = bytes.and_then(|bytes| SuperblockHeader::read_from_bytes(bytes).ok());
    Ok(header.filter(|header| header.magic == MAGIC))
}

/// The places where a media unit could end. They are bounded, so that the search is short on a
/// large span that is no journal.
fn second_places<S: Source>(pmem: &S) -> impl Iterator<Item = Offset> + use<S> {
    let end = pmem.len().min(u64::from(UNIT_BYTES_MAX));
    let lines = end.checked_div(LINE_BYTES as u64).unwrap_or(0);
    (1..=lines).map(|line| Offset(line.saturating_mul(LINE_BYTES as u64)))
}

/// Looks for a second copy at the places where a media unit could end.
fn find_second(
    pmem: &impl Source,
    kernels: &impl Kernels,
) -> Result<Option<Offset>, SuperblockError> {
    for at in second_places(pmem) {
        if second_at(pmem, at, kernels)?.is_some() {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Whether a copy begins here, whole or not.
fn is_magic(pmem: &impl Source, at: Offset) -> Result<bool, MediumError> {
    Ok(readable(pmem.bytes(at, MAGIC.len()))?.is_some_and(|magic| magic == MAGIC))
}

/// The superblock that lies here, if it says of itself that it is a second copy.
fn second_at(
    pmem: &impl Source,
    at: Offset,
    kernels: &impl Kernels,
) -> Result<Option<Superblock>, SuperblockError> {
    let CopyOf::Whole(superblock) = Superblock::decode(pmem, at, kernels)? else { return Ok(None) };
    let is_second = superblock.geometry()?.second_superblock() == at;
    Ok(is_second.then_some(superblock))
}

/// Where a lane begins to scan: its note in words of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneStart {
    pub(crate) head: u64,
    pub(crate) head_sequence: Sequence,
    pub(crate) epoch_first: Sequence,
    pub(crate) durable_to: Sequence,
    /// Whether nothing was stored behind the last durable record.
    pub(crate) is_closed: bool,
}

impl From<&LaneMark> for LaneStart {
    fn from(mark: &LaneMark) -> Self {
        Self {
            head: mark.head.get(),
            head_sequence: Sequence(mark.head_sequence.get()),
            epoch_first: Sequence(mark.epoch_first.get()),
            durable_to: Sequence(mark.durable_to.get()),
            is_closed: false,
        }
    }
}
