//! The front of a part, which its images follow: its sizes, and how it is taken apart.

use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

use crate::format::geometry::Geometry;
use crate::format::record::{
    CHECK_BYTES, FRAME_BYTES, Form, FrameHeader, HEADER_BYTES, NAME_BYTES, RecordHeader,
    RecordKind, STAMP_BYTES,
};
use crate::format::slot_entry::{NAMED_SLOT_BYTES, NamedSlot};
use crate::units::{BlockNumber, LINE_BYTES, Stamp};

/// The sizes of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes of the front: whole lines.
    pub(crate) front: usize,
    /// Bytes of all of it: whole lines.
    pub(crate) total: u64,
}

impl Extent {
    /// The bytes of all of it in lines, as a header says it.
    pub(crate) fn lines(&self) -> u32 {
        let lines = self.total.checked_div(LINE_BYTES as u64).unwrap_or(0);
        u32::try_from(lines).unwrap_or(u32::MAX)
    }
}

/// The sizes of a part with the given numbers of names, frames, bytes of encoded payload and
/// images; `None` when a header could not say them.
#[inline(always)]
pub(crate) fn extent(
    geometry: &Geometry,
    names: usize,
    frames: usize,
    encoded: usize,
    images: usize,
) -> Option<Extent> {
    if names | frames | images > usize::from(u16::MAX) || encoded as u64 > u64::from(u32::MAX) {
        return None;
    }
    // So none of these comes near the end of its type, nor their lines near that of a header.
    let lists = (names as u64).wrapping_mul(NAME_BYTES as u64);
    let lists = lists.wrapping_add((frames as u64).wrapping_mul(FRAME_BYTES as u64));
    let front =
        lists.wrapping_add((HEADER_BYTES + CHECK_BYTES) as u64).wrapping_add(encoded as u64);
    let front = front.next_multiple_of(LINE_BYTES as u64);
    let images = (images as u64).wrapping_mul(geometry.block_size.bytes() as u64);
    let total = images.wrapping_add(front);
    Some(Extent { front: usize::try_from(front).ok()?, total })
}

/// A front whose check was found right, or is about to be computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front<'a> {
    pub(crate) header: &'a RecordHeader,
    pub(crate) frames: &'a [FrameHeader],
    /// Everything between the descriptors and the check.
    pub(crate) encoded: &'a [u8],
    /// All bytes of the front.
    pub(crate) bytes: &'a [u8],
    /// Whether some frame is in a slot, or in the disk-side log.
    pub(crate) has_slots: bool,
    /// The highest of the frames' blocks.
    pub(crate) highest_block: u64,
}

/// One frame of a front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) block: BlockNumber,
    pub(crate) form: Form,
    pub(crate) len: u32,
    /// Where the payload begins, counted from the part's position.
    pub(crate) offset: u64,
}

impl<'a> Front<'a> {
    /// Takes the front apart that these bytes begin with. `None` when it contradicts itself or the
    /// geometry.
    #[inline(always)]
    pub(crate) fn parse(geometry: &Geometry, bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = RecordHeader::ref_from_prefix(bytes).ok()?;
        let rest = rest.get(header.names_bytes()..)?;
        let count = usize::from(header.frames.get());
        let (frames, rest) = <[FrameHeader]>::ref_from_prefix_with_elems(rest, count).ok()?;
        let block_bytes = geometry.block_size.bytes();
        let kind = header.record_kind();
        let (mut encoded, mut images, mut has_slots) = (0_usize, 0_usize, false);
        let mut highest_block = 0;
        for frame in frames {
            highest_block = frame.block.get().max(highest_block);
            let len = frame.len.get() as usize;
            match Form::from_byte(frame.form) {
                Some(Form::Image) if len == block_bytes => images = images.saturating_add(1),
                // Only images can be repeated.
                _ if kind == Some(RecordKind::Intent) => return None,
                Some(Form::Discard) if len == 0 => {}
                // A copy stands for itself.
                _ if kind == Some(RecordKind::Copy) => return None,
                Some(Form::Encoded) if len <= block_bytes => encoded = encoded.saturating_add(len),
                Some(Form::Slot | Form::Log) if len == NAMED_SLOT_BYTES => {
                    encoded = encoded.saturating_add(len);
                    has_slots = true;
                }
                Some(Form::Home) if len == 0 => {}
                _ => return None,
            }
        }
        if kind.is_some_and(RecordKind::has_stamps) {
            encoded = encoded.saturating_add(count.saturating_mul(STAMP_BYTES));
        }
        let names = usize::from(header.names);
        let extent = extent(geometry, names, count, encoded, images)?;
        let behind = extent.front.checked_sub(header.lists_bytes())?;
        let encoded = rest.get(..behind.checked_sub(CHECK_BYTES)?)?;
        let bytes = bytes.get(..extent.front)?;
        let front = Self { header, frames, encoded, bytes, has_slots, highest_block };
        // What is copied is older than its copy, so that a record's stamp is above all of its own.
        let is_older = |stamp: u64| stamp != 0 && stamp < header.stamp.get();
        let is_right = extent.total == header.total_bytes()
            && (kind != Some(RecordKind::Copy) || front.copied_stamps().all(is_older));
        is_right.then_some(front)
    }

    /// The stamps of what the frames are copies of, in their order.
    pub(crate) fn copied_stamps(&self) -> impl Iterator<Item = u64> + use<'a> {
        let stamps = self.encoded.chunks_exact(STAMP_BYTES).take(self.frames.len());
        stamps.filter_map(|bytes| U64::read_from_bytes(bytes).ok()).map(U64::get)
    }

    /// The stamps that the frames count under, in their order.
    pub(crate) fn stamps(&self) -> impl Iterator<Item = Stamp> + use<'a> {
        let is_copy = self.header.record_kind() == Some(RecordKind::Copy);
        let copied = self.copied_stamps().take(if is_copy { usize::MAX } else { 0 });
        let own = if is_copy { 0 } else { self.frames.len() };
        let own = core::iter::repeat_n(self.header.stamp.get(), own);
        copied.chain(own).map(Stamp)
    }

    /// The frames, with the offsets of their payloads.
    pub(crate) fn frames(&self, geometry: &Geometry) -> impl Iterator<Item = Frame> + use<'a> {
        let block_bytes = geometry.block_size.bytes() as u64;
        let lists = self.header.lists_bytes();
        let front = lists.saturating_add(self.encoded.len()).saturating_add(CHECK_BYTES) as u64;
        let mut encoded_at = lists as u64;
        let mut image_at = front;
        self.frames.iter().filter_map(move |frame| {
            let form = Form::from_byte(frame.form)?;
            let len = frame.len.get();
            let next = match form {
                Form::Image => &mut image_at,
                _ => &mut encoded_at,
            };
            let offset = *next;
            let step = if form == Form::Image { block_bytes } else { u64::from(len) };
            *next = next.saturating_add(step);
            Some(Frame { block: BlockNumber(frame.block.get()), form, len, offset })
        })
    }
}

impl Frame {
    /// What a frame of [`Form::Slot`] or [`Form::Log`] says, in a front of these bytes.
    pub(crate) fn slot(&self, front: &[u8]) -> Option<NamedSlot> {
        if !matches!(self.form, Form::Slot | Form::Log) {
            return None;
        }
        let start = usize::try_from(self.offset).ok()?;
        NamedSlot::read_from_prefix(front.get(start..)?).ok().map(|(slot, _)| slot)
    }
}
