//! A transaction that is prepared: how large it is, and what it is stored with.

use crate::commit::batched::Batched;
use crate::commit::operation::Operation;
use crate::format::front::extent;
use crate::format::geometry::Geometry;
use crate::format::record::{FRAMES_PER_PART, NAME_BYTES};
use crate::index::frame::{FrameAt, Full};
use crate::ports::policy::{Class, Kind, Update};
use crate::space::lane::{Ends, Goes, Names};
use crate::space::part::FrameIn;
use crate::units::{BlockNumber, LINE_BYTES, SlotNumber};

/// What of a frame is known only when its record is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Later {
    Nothing,
    /// Its slot: that of an older version, or one that holds nothing.
    Slot {
        older: Option<SlotNumber>,
    },
    /// Its block of the disk-side log, as an index into [`Scratch::logged`].
    Logged(u32),
}

/// What an owner knows of a block's versions, for the placements that depend on it. The answers
/// stay the same from preparing a transaction until it is stored.
pub trait Versions {
    /// The slot of an older version of the block in this lane, which nothing needs any more: the
    /// version has a durable whole successor.
    fn older_slot(&mut self, block: BlockNumber) -> Option<SlotNumber>;

    /// Whether the block is not live, durably, and nobody writes it home at this moment.
    fn may_go_home(&mut self, block: BlockNumber) -> bool;

    /// Notes that the block is about to be written home, which it may be: nobody else writes the
    /// home from then on. Returns whether a lane has a frame of it that stays until the home is
    /// synced.
    fn begins_append(&mut self, _block: BlockNumber) -> bool {
        false
    }

    /// Calls with the committed image of a block, where it lies, and with its check if that is
    /// asked for and known. `None` where there is no image at hand any more. The call must not ask
    /// about versions.
    fn with_old<R>(
        &mut self,
        _block: BlockNumber,
        _with_check: bool,
        call: impl FnOnce(Option<(&[u8], Option<u64>)>) -> R,
    ) -> R {
        call(None)
    }

    /// Notes that the block's home is written and synced before anybody else writes home.
    fn gone_home(&mut self, _block: BlockNumber) {}

    /// Whether a slot belongs to the lane that is committed through.
    fn is_own(&self, slot: SlotNumber) -> bool;

    /// Whether [`take_in`](Self::take_in) may wait for stores that stream. If so, it is called
    /// before anything streams.
    fn takes_in_first(&self) -> bool {
        false
    }

    /// Takes in a frame that is being stored. What is done with it must not show before the
    /// record is durable, or readable where it is deferred.
    ///
    /// # Errors
    /// [`Full`], when there is no room; but that was seen to.
    fn take_in(&mut self, frame: FrameAt) -> Result<(), Full>;
}

/// Nothing is known: no slots, and no appends to home.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoVersions;

impl Versions for NoVersions {
    fn older_slot(&mut self, _block: BlockNumber) -> Option<SlotNumber> {
        None
    }

    fn may_go_home(&mut self, _block: BlockNumber) -> bool {
        false
    }

    fn is_own(&self, _slot: SlotNumber) -> bool {
        false
    }

    fn take_in(&mut self, _frame: FrameAt) -> Result<(), Full> {
        Ok(())
    }
}

/// How many blocks of data a transaction writes, of each kind that a policy may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alike {
    appended: u32,
    /// Those that are given whole.
    overwritten: u32,
}

impl Alike {
    /// Nothing was counted.
    pub(crate) const UNKNOWN: Self = Self { appended: 0, overwritten: 0 };

    pub(super) fn add(&mut self, operation: &Operation<'_>) {
        let Operation::Update(update) = operation else { return };
        if let Some(count) = self.count_of(update) {
            *count = count.saturating_add(1);
        }
    }

    const fn count_of(&mut self, update: &Update<'_>) -> Option<&mut u32> {
        match (update.class, update.kind, update.change.image()) {
            (Class::Data, Kind::Append, _) => Some(&mut self.appended),
            (Class::Data, Kind::Overwrite, Some(_)) => Some(&mut self.overwritten),
            _ => None,
        }
    }

    /// How many there are like this update, if any was counted.
    #[inline(always)]
    pub(crate) fn of(mut self, update: &Update<'_>) -> Option<u32> {
        if self == Self::UNKNOWN { None } else { self.count_of(update).copied() }
    }

    /// Tells an update how many there are like it, if any was counted.
    pub(crate) fn tell(self, update: &mut Update<'_>) {
        if let Some(alike) = self.of(update) {
            update.alike = alike;
        }
    }
}

/// What preparing has decided about the operations of one part; kept from commit to commit.
#[derive(Clone, Copy, Debug)]
pub struct Decided {
    pub(super) frames: [FrameIn; FRAMES_PER_PART],
    pub(super) later: [Later; FRAMES_PER_PART],
    pub(super) count: usize,
    /// Bytes of payload that lie in the front.
    pub(super) encoded: usize,
    pub(super) images: usize,
    pub(super) appends: usize,
    /// Of the whole transaction.
    pub(super) alike: Alike,
    /// Whether something of some of them is known only later.
    pub(super) some_later: bool,
}

impl Decided {
    /// No frame is decided yet.
    pub const EMPTY: Self = Self {
        frames: [FrameIn::EMPTY; FRAMES_PER_PART],
        later: [Later::Nothing; FRAMES_PER_PART],
        count: 0,
        encoded: 0,
        images: 0,
        appends: 0,
        alike: Alike::UNKNOWN,
        some_later: false,
    };
}

/// Memory in which one transaction at a time is prepared.
#[derive(Debug)]
pub struct Scratch<'m> {
    /// Where fronts of records are built.
    pub front: &'m mut [u8],
    /// Where encoded payloads lie until they are stored.
    pub encoded: &'m mut [u8],
    /// What preparing has decided.
    pub decided: &'m mut Decided,
    /// For each block written to the disk-side log: where it lies, and its check.
    pub logged: &'m mut [Batched],
}

/// How large a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Bytes that its record takes, and at most what is stored before it.
    pub bytes: u64,
    /// Frames in it.
    pub frames: usize,
    /// Slots that hold nothing and will be taken.
    pub new_slots: u32,
    /// Blocks that have to be in the disk-side log before it is stored.
    pub log_blocks: u32,
    /// Where images go.
    pub(super) goes: Goes,
    /// Blocks that have to be home before it is stored.
    pub appends: usize,
    pub(crate) parts: usize,
    /// Whether the scratch memory holds all of it.
    pub(super) at_hand: bool,
    /// What it consists of.
    pub(crate) of: Of,
}

/// What a transaction consists of, as far as that says how it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Of anything: scratch memory holds what the policy said of it.
    Any,
    /// Of images alone, and scratch memory holds nothing of it.
    Images,
    /// Of patches alone, one piece each ([`crate::commit::patches`]), and scratch memory holds
    /// nothing of it.
    Pieces,
}

impl Prepared {
    /// What nothing takes.
    pub(crate) const NOTHING: Self = Self {
        bytes: 0,
        frames: 0,
        new_slots: 0,
        log_blocks: 0,
        goes: Goes::ByPolicy,
        appends: 0,
        parts: 0,
        at_hand: false,
        of: Of::Any,
    };

    /// What pieces of `bytes` take in all, each of which is one frame.
    #[inline]
    pub(crate) const fn of_pieces(bytes: u64, frames: usize) -> Self {
        Self { bytes, frames, parts: 1, of: Of::Pieces, ..Self::NOTHING }
    }

    /// Whether something has to be on the device before it is stored.
    #[inline]
    #[must_use]
    pub const fn is_ahead(&self) -> bool {
        self.appends > 0 || self.log_blocks > 0
    }

    /// Whether its record has one part.
    #[inline]
    #[must_use]
    pub const fn is_one_part(&self) -> bool {
        self.parts == 1 && (self.at_hand || !matches!(self.of, Of::Any))
    }

    /// Upper bound of the record's bytes, if it must name a record in every other lane. For a
    /// transaction that was prepared without names.
    #[inline]
    #[must_use]
    pub const fn bytes_max(&self, geometry: &Geometry) -> u64 {
        let names = (geometry.lanes as usize).saturating_sub(1).saturating_mul(NAME_BYTES);
        self.bytes.saturating_add(names.next_multiple_of(LINE_BYTES) as u64)
    }

    pub(crate) const fn goes(&self) -> Goes {
        self.goes
    }
}

/// A prepared transaction, to be stored.
#[derive(Debug)]
pub struct Content<'a, O: ?Sized> {
    /// What it does.
    pub operations: &'a O,
    /// The records of other lanes that it overwrites.
    pub names: &'a Names,
    /// What preparing it has said.
    pub prepared: &'a Prepared,
    /// Whether the record ends with it.
    pub ends: Ends,
}

/// Bytes that the discards of the given number of blocks take, when those are about to go home.
pub(crate) fn discards_bytes(geometry: &Geometry, blocks: usize) -> u64 {
    let record = |frames| extent(geometry, 0, frames, 0, 0).map_or(0, |extent| extent.total);
    let whole = (blocks / FRAMES_PER_PART) as u64;
    let rest = blocks % FRAMES_PER_PART;
    let last = if rest > 0 { record(rest) } else { 0 };
    whole.saturating_mul(record(FRAMES_PER_PART)).saturating_add(last)
}
