//! The third port: what to write for an update, and how to read it back.
//!
//! A policy decides, per changed block, where the new content goes and in which form. It never
//! sees a flush or a fence; the core frames, orders and checks whatever the policy says.
//!
//! # What a policy author must keep
//!
//! 1. `apply(old, what place encoded for old -> new) == new`, for every pair of images.
//! 2. [`Policy::apply`] is total: any payload bytes give a result, never a panic, a hang or a write
//!    outside the block. A checksum was verified before, yet media lie.
//! 3. Both are deterministic and read nothing but their arguments: no clock, no I/O, no state.
//! 4. Payloads may meet an image that already has them. Let consecutive updates lead from image to
//!    image, v0 to vn. Applied in order to any image vk, the payloads from any one on that begins
//!    at vk or earlier give vn. (The home of a block may be newer than the frames that a crash, or
//!    a checkpoint that frees only some lanes, leaves behind.) Runs of bytes and whole objects keep
//!    that; a difference to the old image does not, unless it says which images it lies between.
//!
//! A crash may therefore do to a policy what it may do to a pure function: nothing.

use core::fmt;
use core::num::NonZeroU32;

use crate::units::BlockNumber;

/// The number of a policy, kept in the superblock: a journal is opened with the policy that wrote
/// it or not at all. Numbers below 256 are this project's; choose yours above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId(pub u32);

impl fmt::Display for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy {}", self.0)
    }
}

/// What a block holds, as far as the store says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Structure of the store: directories, indexes, allocation.
    Metadata,
    /// Contents of the store.
    Data,
}

/// Whether the block was live before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It was: its old content has to survive until the new one is durable.
    Overwrite,
    /// It was not (never written, or discarded): nothing of it has to survive.
    Append,
}

/// Bytes that change inside a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch<'a> {
    /// Where in the block they begin.
    pub at: u32,
    /// The new bytes.
    pub bytes: &'a [u8],
}

/// A range of a block's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Where in the block it begins.
    pub at: u32,
    /// How many bytes it has.
    pub len: u32,
}

impl Span {
    /// Where in the block it ends.
    #[must_use]
    pub const fn end(&self) -> u64 {
        (self.at as u64).saturating_add(self.len as u64)
    }
}

/// The new content, in the form the store gave it.
///
/// Ranges and patches ascend inside the block, none of them is empty, and no two overlap; they may
/// touch. Without any nothing changes, and nothing is logged. They say that the rest stays, so they
/// are for live blocks: what a discarded block holds is undefined, and it is written whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change<'a> {
    /// The whole new image.
    Image(&'a [u8]),
    /// The whole new image, which outside of these ranges is as the old one. Inside it may be.
    Ranges {
        /// The image.
        image: &'a [u8],
        /// Where it differs.
        ranges: &'a [Span],
    },
    /// Only what changes; the rest is as in the old image, which is not at hand. Not every policy
    /// can log that.
    Patches(&'a [Patch<'a>]),
}

impl<'a> Change<'a> {
    /// The whole new image, where it is at hand.
    #[must_use]
    pub const fn image(&self) -> Option<&'a [u8]> {
        match self {
            Self::Image(image) | Self::Ranges { image, .. } => Some(image),
            Self::Patches(_) => None,
        }
    }

    /// Whether it says by itself that nothing changes.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        match self {
            Self::Image(_) => false,
            Self::Ranges { ranges, .. } => ranges.is_empty(),
            Self::Patches(patches) => patches.is_empty(),
        }
    }

    /// What changes, ascending: of an image all of it.
    pub fn pieces(&self) -> impl Iterator<Item = Patch<'a>> + Clone + use<'a> {
        let change = *self;
        let count = match change {
            Self::Image(_) => 1,
            Self::Ranges { ranges, .. } => ranges.len(),
            Self::Patches(patches) => patches.len(),
        };
        (0..count).filter_map(move |index| change.piece(index))
    }

    /// One of the pieces; `None` where a range does not lie in the image.
    fn piece(&self, index: usize) -> Option<Patch<'a>> {
        match self {
            Self::Image(bytes) => Some(Patch { at: 0, bytes }),
            Self::Ranges { image, ranges } => {
                let span = ranges.get(index)?;
                let end = usize::try_from(span.end()).ok()?;
                Some(Patch { at: span.at, bytes: image.get(span.at as usize..end)? })
            }
            Self::Patches(patches) => patches.get(index).copied(),
        }
    }

    /// The first piece that is empty, out of order or not inside a block of this length.
    pub(crate) fn first_bad_piece(&self, block_bytes: usize) -> Option<Span> {
        let span = |index: usize| match self {
            Self::Image(_) => None,
            Self::Ranges { ranges, .. } => ranges.get(index).copied(),
            Self::Patches(patches) => patches.get(index).map(|patch| Span {
                at: patch.at,
                len: u32::try_from(patch.bytes.len()).unwrap_or(u32::MAX),
            }),
        };
        let mut free_from = 0;
        (0..).map_while(span).find(|span| {
            let is_good =
                span.len > 0 && u64::from(span.at) >= free_from && span.end() <= block_bytes as u64;
            free_from = span.end();
            !is_good
        })
    }
}

/// One block's update, as the store asked for it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Update<'a> {
    /// Which block.
    pub block: BlockNumber,
    /// What it holds.
    pub class: Class,
    /// Whether it was live before.
    pub kind: Kind,
    /// The committed image it replaces, where it is at hand. Looking at it costs time when it is
    /// not in a cache.
    pub old: Option<&'a [u8]>,
    /// What changes.
    pub change: Change<'a>,
    /// The size of the store's objects in this block (an inode, a row), where it has any.
    pub object_bytes: Option<NonZeroU32>,
}

impl<'a> Update<'a> {
    /// An overwrite of `block` with data, nothing else known.
    #[must_use]
    pub const fn new(block: BlockNumber, change: Change<'a>) -> Self {
        Self {
            block,
            class: Class::Data,
            kind: Kind::Overwrite,
            old: None,
            change,
            object_bytes: None,
        }
    }
}

/// Where a block's new content goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// The change is empty: nothing is logged.
    Unchanged,
    /// Into the record, as the whole new image, straight from the store's buffer.
    Image,
    /// Into the record, as the bytes the policy put into the [`Encoder`].
    Encoded,
    /// Into a slot of its own.
    Slot,
    /// Into the disk-side log.
    DiskLog,
    /// Home, before the record: allowed for appends only.
    Home,
}

/// Room for a policy's encoded form: a bounded buffer that refuses what does not fit.
#[derive(Debug)]
pub struct Encoder<'a> {
    room: &'a mut [u8],
    used: usize,
}

impl<'a> Encoder<'a> {
    /// An empty encoder over `room`.
    #[must_use]
    pub const fn new(room: &'a mut [u8]) -> Self {
        Self { room, used: 0 }
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`NoRoom`], with nothing appended. A policy then chooses another form.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        let end = self.used.checked_add(bytes.len()).ok_or(NoRoom)?;
        self.room.get_mut(self.used..end).ok_or(NoRoom)?.copy_from_slice(bytes);
        self.used = end;
        Ok(())
    }

    /// Forgets everything appended, to try another form.
    pub const fn clear(&mut self) {
        self.used = 0;
    }

    /// Bytes that still fit.
    #[must_use]
    pub const fn room_left(&self) -> usize {
        self.room.len().saturating_sub(self.used)
    }

    /// What was appended.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.room.get(..self.used).unwrap_or_default()
    }
}

/// An encoded form does not fit the room it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the encoded form does not fit")
    }
}

impl core::error::Error for NoRoom {}

/// A payload that is not what [`Policy::place`] would have encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// The payload breaks off or carries too much; the position of the offending byte.
    Malformed {
        /// Where in the payload.
        at: usize,
    },
    /// The payload would write outside the block.
    OutOfBlock {
        /// Where in the payload.
        at: usize,
    },
    /// The block is not the image that the payload was made against.
    WrongBase,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { at } => write!(f, "malformed payload at byte {at}"),
            Self::OutOfBlock { at } => write!(f, "payload writes outside the block at byte {at}"),
            Self::WrongBase => f.write_str("payload was made against another image"),
        }
    }
}

impl core::error::Error for ApplyError {}

/// When a policy wants space reclaimed. Shares are in 256ths of the ring or the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thresholds {
    /// Reclaim inside the memory from this share on.
    pub reclaim_at: u8,
    /// Write home from this share on, when reclaiming did not get below it.
    pub checkpoint_at: u8,
}

impl Thresholds {
    /// These thresholds.
    #[must_use]
    pub const fn new(reclaim_at: u8, checkpoint_at: u8) -> Self {
        Self { reclaim_at, checkpoint_at }
    }
}

impl Default for Thresholds {
    /// Both at three quarters.
    fn default() -> Self {
        Self::new(192, 192)
    }
}

/// A journaling policy: two pure functions and a few choices.
pub trait Policy {
    /// Its number in the superblock.
    fn id(&self) -> PolicyId;

    /// Decides where the update goes, and encodes it into `out` where the answer is
    /// [`Placement::Encoded`]. For every other answer `out` is ignored. It has room for one block.
    ///
    /// Changes that say themselves that nothing changes are not asked about. An image cannot be
    /// logged where there is none ([`Change::image`]): whoever answers with
    /// [`Placement::Image`] then cannot log the update, which is refused.
    ///
    /// Must not look at [`Update::old`] unless it needs to.
    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement;

    /// Turns the image that an encoded payload was made against into the image that it encodes.
    ///
    /// # Errors
    /// Any [`ApplyError`]; `block` then holds anything.
    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError>;

    /// The bytes to write into a slot that still holds `older`, an earlier version of the block,
    /// so that it becomes `newer`: calls `rewrite` with ascending ranges without overlap. The
    /// default rewrites the whole slot.
    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        let _ = older;
        rewrite(Patch { at: 0, bytes: newer });
    }

    /// When this policy wants space reclaimed.
    fn thresholds(&self) -> Thresholds {
        Thresholds::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_say_what_changes() {
        fn pieces<'a>(change: &Change<'a>) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
            change.pieces().map(|piece| (piece.at, piece.bytes))
        }
        let image = b"abcdefgh";
        let ranges = [Span { at: 1, len: 2 }, Span { at: 3, len: 1 }, Span { at: 7, len: 1 }];
        let change = Change::Ranges { image, ranges: &ranges };
        assert!(pieces(&change).eq([(1, &b"bc"[..]), (3, b"d"), (7, b"h")]));
        assert_eq!((change.image(), change.is_nothing()), (Some(&image[..]), false));
        assert!(pieces(&Change::Image(image)).eq([(0, &image[..])]));
        let patches = [Patch { at: 2, bytes: b"xy" }];
        let patched = Change::Patches(&patches);
        assert!(pieces(&patched).eq([(2, &b"xy"[..])]) && patched.image().is_none());
        let nothing = [Change::Patches(&[]), Change::Ranges { image, ranges: &[] }];
        assert!(nothing.iter().all(|change| change.is_nothing() && pieces(change).count() == 0));
    }

    #[test]
    fn pieces_ascend_inside_the_block() {
        let span = |at, len| Span { at, len };
        let bad = |ranges: &[Span]| Change::Ranges { image: &[0; 8], ranges }.first_bad_piece(8);
        assert_eq!(bad(&[span(0, 2), span(2, 1), span(5, 3)]), None, "they may touch");
        assert_eq!(bad(&[span(0, 8)]), None);
        assert_eq!(bad(&[span(0, 9)]), Some(span(0, 9)));
        assert_eq!(bad(&[span(1, 2), span(8, 1)]), Some(span(8, 1)));
        assert_eq!(bad(&[span(1, u32::MAX)]), Some(span(1, u32::MAX)));
        assert_eq!(bad(&[span(3, 1), span(3, 1)]), Some(span(3, 1)));
        assert_eq!(bad(&[span(3, 1), span(2, 1)]), Some(span(2, 1)));
        assert_eq!(bad(&[span(3, 0)]), Some(span(3, 0)));
        let patches = [Patch { at: 1, bytes: &[0; 3] }, Patch { at: 3, bytes: &[0; 2] }];
        assert_eq!(Change::Patches(&patches).first_bad_piece(8), Some(span(3, 2)));
        assert_eq!(Change::Patches(&patches[..1]).first_bad_piece(4), None);
        assert_eq!(Change::Patches(&patches[..1]).first_bad_piece(3), Some(span(1, 3)));
    }

    #[test]
    fn an_encoder_refuses_what_does_not_fit_and_keeps_the_rest() {
        let mut room = [0; 5];
        let mut out = Encoder::new(&mut room);
        assert_eq!(out.put(b"abc"), Ok(()));
        assert_eq!(out.put(b"def"), Err(NoRoom));
        assert_eq!(out.as_bytes(), b"abc");
        assert_eq!(out.put(b"de"), Ok(()));
        assert_eq!((out.as_bytes(), out.room_left()), (&b"abcde"[..], 0));
        out.clear();
        assert_eq!((out.as_bytes(), out.room_left()), (&b""[..], 5));
    }
}
