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
//! 3. [`Policy::place`] and [`Policy::apply`] are deterministic and read nothing but their
//!    arguments: no clock, no I/O, no state.
//! 4. Payloads may meet an image that already has them. Let consecutive updates lead from image to
//!    image, v0 to vn. Take any image vk, and any payload that begins at vk or earlier. That one
//!    and all later ones, applied to vk in order, give vn. (A crash may leave frames that are older
//!    than the home of their block. So may a checkpoint that frees only some lanes.) Runs of bytes
//!    and whole objects keep that. A difference to the old image keeps it only if it says which
//!    images it lies between, and leaves others as they are. [`Policy::check`] must then also
//!    refuse what it does not lead to.
//!
//! A crash may therefore do to a policy what it may do to a pure function: nothing.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::units::{BlockNumber, WORD_BYTES};

pub use crate::ports::change::{Change, Patch, Span};

/// The number of a policy, kept in the superblock: a journal is opened with the policy that wrote
/// it or not at all. Numbers below 256 are this project's; choose yours from 256 on.
///
/// | number | policy |
/// |---|---|
/// | 1 | `full-block` |
/// | 2 | `byte-delta` |
/// | 3 | `object-log` |
/// | 4 | `lcow` |
/// | 5 | `compressed-delta` |
/// | 6 | `two-level` |
/// | 7 | `adaptive` |
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

/// One block's update, as the store asked for it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
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
    /// How many blocks of data its transaction writes that are like it, itself among them: blocks
    /// that it appends, or blocks that it overwrites and gives whole. Zero where that is not known,
    /// as where the policy does not [count them](Policy::counts_alike).
    pub alike: u32,
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
            alike: 0,
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
    /// Into the disk-side log; into the record where the log has no block free.
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

    /// Appends what `fill` puts at the start of the room that is left, which is as many bytes as it
    /// says, and says so too.
    ///
    /// # Errors
    /// [`NoRoom`], with nothing appended, where `fill` says so or says more than there is room for.
    pub fn put_with(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, NoRoom>,
    ) -> Result<usize, NoRoom> {
        let count = fill(self.room.get_mut(self.used..).ok_or(NoRoom)?)?;
        let end = self.used.checked_add(count).filter(|end| *end <= self.room.len());
        self.used = end.ok_or(NoRoom)?;
        Ok(count)
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

/// A few bytes, which some others follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Prefix {
    /// The bytes, and in the last byte of the word how many they are.
    word: u64,
}

impl Prefix {
    /// No bytes.
    pub const NONE: Self = Self { word: 0 };

    /// The most there are.
    pub const BYTES_MAX: usize = WORD_BYTES - 1;

    const COUNT_AT: u32 = u64::BITS - u8::BITS;

    /// The first `bytes` bytes of a word, little-endian.
    ///
    /// # Panics
    /// Where they are more than [`BYTES_MAX`](Self::BYTES_MAX).
    #[inline(always)]
    #[must_use]
    pub const fn new(word: u64, bytes: usize) -> Self {
        assert!(bytes <= Self::BYTES_MAX, "a prefix has no room for as many");
        let others = u64::BITS.wrapping_sub(u8::BITS.wrapping_mul(bytes as u32));
        let word = if bytes == 0 { 0 } else { word & u64::MAX.wrapping_shr(others) };
        Self { word: word | (bytes as u64) << Self::COUNT_AT }
    }

    /// The prefix with one more byte in front.
    ///
    /// # Panics
    /// The prefix has as many bytes as it can have.
    #[inline(always)]
    #[must_use]
    pub const fn behind(self, first: u8) -> Self {
        let bytes = self.bytes().saturating_add(1);
        Self::new(self.word() << u8::BITS | first as u64, bytes)
    }

    /// The bytes, as a word that is zero behind them.
    #[inline(always)]
    #[must_use]
    pub const fn word(self) -> u64 {
        self.word & u64::MAX >> u8::BITS
    }

    /// How many they are.
    #[inline(always)]
    #[must_use]
    pub const fn bytes(self) -> usize {
        (self.word >> Self::COUNT_AT) as usize
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

/// When a policy wants space reclaimed: fractions, in 256ths, of the ring or the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Thresholds {
    /// Reclaim inside the memory from this fraction on.
    pub reclaim_at: u8,
    /// Write home from this fraction on, when reclaiming did not get below it.
    pub checkpoint_at: u8,
    /// Where room in the ring is reclaimed by copies, the share of what comes free that they may
    /// take, in 256ths.
    pub copied: u8,
}

impl Thresholds {
    /// Thresholds at these two fractions. Copies take at most half of what comes free: so a byte
    /// that a commit stores is copied once at most, on average.
    #[must_use]
    pub const fn new(reclaim_at: u8, checkpoint_at: u8) -> Self {
        Self { reclaim_at, checkpoint_at, copied: 128 }
    }

    /// Lets copies take another share, in 256ths, of what comes free.
    #[must_use]
    pub const fn with_copied(self, copied: u8) -> Self {
        Self { copied, ..self }
    }
}

impl Default for Thresholds {
    /// Each of the two at three quarters.
    fn default() -> Self {
        Self::new(192, 192)
    }
}

/// How a policy wants a *running transaction* paced: one that takes in what several callers write,
/// and commits for all of them. It commits late enough to be worth it and early enough to lose
/// little.
///
/// It is a wish, which the owner of such a transaction obeys; nothing here reads a clock. A commit
/// that was asked for waits for none of this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pacing {
    /// The longest time from its first change to its commit. Without, it commits only when asked.
    pub commit_after: Option<Duration>,
    /// It commits before it names more objects than this, as [`Policy::objects_in`] counts them;
    /// without, it may name any number.
    pub objects_max: Option<NonZeroU32>,
    /// The longest time from one checkpoint to the next. Without, a checkpoint comes only for room
    /// and when asked.
    pub checkpoint_after: Option<Duration>,
}

impl Pacing {
    /// No wish at all.
    pub const NONE: Self = Self { commit_after: None, objects_max: None, checkpoint_after: None };

    /// This wish.
    #[must_use]
    pub const fn new(
        commit_after: Option<Duration>,
        objects_max: Option<NonZeroU32>,
        checkpoint_after: Option<Duration>,
    ) -> Self {
        Self { commit_after, objects_max, checkpoint_after }
    }
}

/// A journaling policy: its number, `place` and `apply`. Everything else has a default. All but
/// `set_batches` are pure.
pub trait Policy {
    /// Its number in the superblock.
    fn id(&self) -> PolicyId;

    /// Decides where the update goes, and encodes it into `out` where the answer is
    /// [`Placement::Encoded`]. For every other answer `out` is ignored. It has room for one block.
    ///
    /// Changes that say themselves that nothing changes are not asked about. An image cannot be
    /// logged where there is none ([`Change::image`]). A policy that answers with
    /// [`Placement::Image`] then cannot log the update, which is refused.
    ///
    /// Must not look at [`Update::old`] unless it needs to.
    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement;

    /// What it encodes before the bytes of the patch number `at`, where the patches are all that is
    /// known of a change. `None` unless it encodes each patch as a few bytes and then those of the
    /// patch, one patch after the other. That is to be what [`place`](Self::place) does where all
    /// of it has room. A caller that is told so need not copy the patches to have them encoded.
    /// `at` is below their number.
    fn prefix_of(&self, patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
        let _ = (patches, at);
        None
    }

    /// Whether it logs every patch as it came, and so needs no image of a block of which only
    /// patches are known. Then none is made. [`prefix_of`](Self::prefix_of) says what the policy
    /// puts before each patch. The patches do not overlap, and have half the bytes of a block at
    /// most. There is one for each 16 bytes of a block at most, and never more than 16.
    fn logs_patches(&self) -> bool {
        false
    }

    /// How many bytes of patches of a block it takes where the [old image](Update::old) is given,
    /// and so needs no new image. It then answers with [`Placement::Encoded`], or
    /// [`Placement::Unchanged`]. A journal that keeps blocks in ordinary memory asks it, and lends
    /// it the block that is kept. Zero: it needs the new image. Their number is limited as that of
    /// patches that are [logged as they come](Self::logs_patches).
    fn patch_bytes_on_old(&self, block_bytes: usize) -> usize {
        let _ = block_bytes;
        0
    }

    /// Whether it uses the check of an old image, `crc64(0, old)`, where a change is patches. A
    /// journal that keeps blocks in ordinary memory then keeps the check of each beside it, and
    /// calls [`place_on`](Self::place_on) with what it lends.
    fn wants_old_check(&self) -> bool {
        false
    }

    /// Like [`place`](Self::place), where the check of the [old image](Update::old) is known. The
    /// answer is that of `place`, and so is what is encoded.
    fn place_on(&self, update: &Update<'_>, old_check: u64, out: &mut Encoder<'_>) -> Placement {
        let _ = old_check;
        self.place(update, out)
    }

    /// Whether it logs every image as it is where the old one is not given: it is not asked to
    /// place those.
    fn logs_images(&self) -> bool {
        false
    }

    /// Whether whatever it logs of a block is whole: an image, a slot, never what changes alone. A
    /// checkpoint then needs no shield on any device.
    fn logs_whole_blocks(&self) -> bool {
        false
    }

    /// Whether it wants to know of a block of data how many its transaction has that are like it
    /// ([`Update::alike`]): those that go to the disk share a sync.
    fn counts_alike(&self) -> bool {
        false
    }

    /// Tells a policy that weighs deltas against whole blocks what a delta may cost later, before
    /// it is asked to place anything. Between two syncs of the disk, a checkpoint writes this
    /// number of blocks home, of which at most `shielded` go through the shield. Where `shielded`
    /// is zero none does, since the device never tears a block.
    fn set_batches(&mut self, blocks: u32, shielded: u32) {
        let _ = (blocks, shielded);
    }

    /// Turns the image that an encoded payload was made against into the image that it encodes.
    ///
    /// # Errors
    /// Any [`ApplyError`]; `block` then holds anything.
    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError>;

    /// Whether a block is what its newest payload leads to: asked once all of them are applied. It
    /// is for payloads that may meet an image which they were not made against, and then leave it
    /// as it is (rule 4). Somebody has to notice an image that none of them was made against.
    ///
    /// # Errors
    /// [`ApplyError::WrongBase`].
    fn check(&self, payload: &[u8], block: &[u8]) -> Result<(), ApplyError> {
        let _ = (payload, block);
        Ok(())
    }

    /// The bytes to write into a slot that still holds `older`, an earlier version of the block, so
    /// that it becomes `newer`. Calls `rewrite` with ascending ranges without overlap. The default
    /// rewrites the whole slot.
    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        let _ = older;
        rewrite(Patch { at: 0, bytes: newer });
    }

    /// Whether it makes use of slots: a journal is laid out with some for it, where nobody says
    /// otherwise.
    fn wants_slots(&self) -> bool {
        false
    }

    /// Whether it makes use of the disk-side log. A journal is laid out with one for it only where
    /// its options ask for that.
    fn wants_log(&self) -> bool {
        false
    }

    /// Whether it makes use of [`Update::old`]. A journal that keeps transactions for its callers
    /// then reads the committed image of each block that they write. A journal that is handed
    /// operations takes what they bring.
    fn wants_old(&self) -> bool {
        false
    }

    /// Whether it makes use of [`Update::old`] where that costs no read. A journal that keeps
    /// blocks in ordinary memory then shows it the committed image of a block that is written
    /// whole, if that image is kept. It shows nothing else, and reads nothing for it. Where a
    /// policy [wants old images](Self::wants_old) of all blocks, this adds nothing.
    fn wants_cached_old(&self) -> bool {
        false
    }

    /// Whether [`place`](Self::place) answers [`Placement::Home`] for each whole image of appended
    /// data, whatever else is said of it. A running transaction then reserves no room for such an
    /// image where the journal knows nothing of its block: nothing keeps it from going home.
    fn sends_appends_home(&self) -> bool {
        false
    }

    /// Whether data goes to the disk-side log, whatever [`place`](Self::place) says, when its lane
    /// has no room for the record, and would have room like that. Metadata stays, and so does what
    /// changes nothing.
    fn bypasses_when_full(&self) -> bool {
        false
    }

    /// Whether slots, or the disk-side log, are where content lives: a checkpoint then writes home
    /// only what the rings would have to keep. When slots run short, blocks in slots go home, those
    /// used longest ago first. When the log runs short, its segments with the fewest blocks left
    /// are emptied.
    fn keeps_in_slots(&self) -> bool {
        false
    }

    /// When this policy wants space reclaimed.
    fn thresholds(&self) -> Thresholds {
        Thresholds::default()
    }

    /// How this policy wants a running transaction paced. The default has no wish.
    fn pacing(&self) -> Pacing {
        Pacing::NONE
    }

    /// How many objects a running transaction has to name for this update, for
    /// [`Pacing::objects_max`]. Where a block is written more than once it is asked about all that
    /// changed there. The default names blocks.
    fn objects_in(&self, update: &Update<'_>) -> u32 {
        u32::from(!update.change.is_nothing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(out.put(b"ab"), Ok(()));
        let filled = out.put_with(|room| {
            assert_eq!(room.len(), 3);
            room[..2].copy_from_slice(b"cd");
            Ok(2)
        });
        assert_eq!((filled, out.as_bytes()), (Ok(2), &b"abcd"[..]));
        assert_eq!(out.put_with(|_| Err(NoRoom)), Err(NoRoom));
        assert_eq!(out.put_with(|_| Ok(2)), Err(NoRoom));
        assert_eq!(out.put_with(|_| Ok(usize::MAX)), Err(NoRoom));
        assert_eq!(out.as_bytes(), b"abcd");
    }
}
