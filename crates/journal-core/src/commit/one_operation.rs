//! A transaction of one operation, by the shortest way. Only one frame is kept of it, and what is
//! encoded stays where the policy has put it until it is stored.
//!
//! Every other transaction goes through [`crate::commit::store`], which would store the same bytes.
//!
//! All of it, and what it calls in [`crate::space::part`], is inlined at any price (C2): a call
//! spills some ten registers.

use crate::commit::operation::Operation;
use crate::common::Common;
use crate::format::front::{Extent, extent};
use crate::format::record::{FRAME_BYTES, Form, Name, names_end};
use crate::index::frame::FrameAt;
use crate::index::{Index, IndexMemory, Lead};
use crate::order::ordered::Hook;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::{Change, Encoder, Placement, Policy, Prefix, Update};
use crate::ports::stitched::Piece;
use crate::space::lane::{Goes, Lane, Names, OpenRecord};
use crate::space::part::{FrameIn, LentPayload, Lists, put_words};
use crate::units::{BlockNumber, LaneNumber, Stamp};

/// What a transaction of one operation logs. What the policy has encoded lies in the memory that it
/// was made with, until it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Sole<'a> {
    pub(crate) frame: FrameIn,
    /// What the payload begins with, where that is few bytes that lie nowhere.
    pub(crate) prefix: Prefix,
    /// An image, or what comes behind the prefix: empty where the payload was encoded, or is none.
    pub(crate) lent: &'a [u8],
    /// The record of another lane that it overwrites.
    pub(crate) named: Option<Name>,
}

/// All of a transaction, where that is one operation: how it is found out what it logs, and stored.
pub trait Alone<'a, L, K>: Sized {
    /// What an operation becomes, for which something may be encoded. `None` where it is nothing of
    /// this kind.
    fn of(common: &Common<L, K>, operation: &Operation<'a>, encoded: &mut [u8]) -> Option<Self>;

    /// What is known of it.
    fn sole(&self) -> &Sole<'a>;

    /// What is known of it, to be changed.
    fn sole_mut(&mut self) -> &mut Sole<'a>;

    /// Stores its record, for which there is room, and returns its frame. The front is made in any
    /// memory, and what is encoded lies in that which it was made with.
    fn store<P: Pmem, H: Hook>(
        &self,
        common: &Common<L, K>,
        lane: &mut Lane<P, H>,
        open: &mut OpenRecord,
        front: &mut [u8],
        encoded: &[u8],
    ) -> FrameAt;
}

impl<'a, L: Policy, K: Kernels> Alone<'a, L, K> for Sole<'a> {
    #[inline(always)]
    fn of(common: &Common<L, K>, operation: &Operation<'a>, encoded: &mut [u8]) -> Option<Self> {
        common.sole(operation, encoded)
    }

    #[inline(always)]
    fn sole(&self) -> &Self {
        self
    }

    #[inline(always)]
    fn sole_mut(&mut self) -> &mut Self {
        self
    }

    #[inline(always)]
    fn store<P: Pmem, H: Hook>(
        &self,
        common: &Common<L, K>,
        lane: &mut Lane<P, H>,
        open: &mut OpenRecord,
        front: &mut [u8],
        encoded: &[u8],
    ) -> FrameAt {
        common.store_sole(lane, open, self, front, encoded)
    }
}

impl<'a> Sole<'a> {
    #[inline(always)]
    fn new(block: BlockNumber, form: Form, len: usize, (prefix, lent): (Prefix, &'a [u8])) -> Self {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let frame = FrameIn { block, len, form, operation: 0 };
        Self { frame, prefix, lent, named: None }
    }
}

impl Sole<'_> {
    /// The block that it changes.
    #[inline]
    #[must_use]
    pub const fn block(&self) -> BlockNumber {
        self.frame.block
    }

    /// Notes which frame of its block is the newest, if a commit through this lane has to name it.
    /// Returns the stamp that its own must be above, beside those of the lane.
    #[inline(always)]
    pub fn overwrite(
        &mut self,
        index: &Index<impl IndexMemory>,
        lead: Option<Lead>,
        lane: LaneNumber,
    ) -> Stamp {
        let newest = lead.and_then(|lead| index.overwritten_by(lead, lane));
        self.named = newest.map(|newest| Name::new(newest.lane, newest.sequence));
        newest.map_or(Stamp(0), |newest| newest.stamp)
    }

    /// Names the record of another lane that it overwrites, where that is known already.
    #[inline(always)]
    pub fn name(&mut self, known: &Names) {
        self.named = known.each().next();
    }

    pub(crate) const fn names(&self) -> usize {
        if self.named.is_some() { 1 } else { 0 }
    }

    /// Bytes of payload that lie in the front, and images behind it.
    const fn payload(&self) -> (usize, usize) {
        match self.frame.form {
            Form::Image => (0, 1),
            _ => (self.frame.len as usize, 0),
        }
    }
}

impl<L: Policy, K: Kernels> Common<L, K> {
    /// What a one-operation transaction logs. `None` if that needs slots or older versions, or
    /// nothing can be logged: then [`prepare`](Self::prepare) says what becomes of it.
    #[inline(always)]
    fn sole<'a>(&self, operation: &Operation<'a>, encoded: &mut [u8]) -> Option<Sole<'a>> {
        if self.geometry.lane_slots_and_log() > 0 {
            return None;
        }
        let (mut prefix, block) = (Prefix::NONE, operation.block());
        let (form, len, lent): (_, _, &[u8]) = match operation {
            Operation::Update(update) => {
                let Some((before, bytes)) = self.prefixed(&update.change) else {
                    return self.sole_placed(update, None, update.change.image(), encoded);
                };
                prefix = before;
                (Form::Encoded, before.bytes().saturating_add(bytes.len()), bytes)
            }
            Operation::Discard(_) => (Form::Discard, 0, &[]),
            Operation::Active(..) => return None,
        };
        Some(Sole::new(block, form, len, (prefix, lent)))
    }

    /// Like [`Alone::of`], for an update whose old image is lent, with its check if that is known.
    /// `None` as well where nothing changes.
    #[inline]
    pub fn sole_on<'a>(
        &self,
        update: &Update<'a>,
        (old, check): (&[u8], Option<u64>),
        encoded: &mut [u8],
    ) -> Option<Sole<'a>> {
        if self.geometry.lane_slots_and_log() > 0 {
            return None;
        }
        let on_old = Update { old: Some(old), ..*update };
        self.sole_placed(&on_old, check, update.change.image(), encoded)
    }

    /// What an update becomes by the policy's answer. Its image is given, if it has one.
    #[inline(always)]
    fn sole_placed<'a>(
        &self,
        update: &Update<'_>,
        old_check: Option<u64>,
        image: Option<&'a [u8]>,
        encoded: &mut [u8],
    ) -> Option<Sole<'a>> {
        // A policy always has a whole block of room.
        let mut encoder = Encoder::new(encoded.get_mut(..self.block_bytes())?);
        let (form, len, lent): (_, _, &[u8]) =
            match self.placement(update, old_check, &mut encoder, Goes::ByPolicy) {
                Placement::Encoded => (Form::Encoded, encoder.as_bytes().len(), &[]),
                Placement::Image => {
                    let image = image?;
                    (Form::Image, image.len(), image)
                }
                _ => return None,
            };
        Some(Sole::new(update.block, form, len, (Prefix::NONE, lent)))
    }

    /// For a single patch: the policy's prefix, and the patch's bytes. `None` if it is no single
    /// patch, or the policy says no prefix.
    #[inline(always)]
    fn prefixed<'a>(&self, change: &Change<'a>) -> Option<(Prefix, &'a [u8])> {
        let Change::Patches(patches @ [_]) = *change else { return None };
        let Piece { prefix, bytes } = self.piece(patches, 0)?;
        Some((prefix, bytes))
    }

    #[inline(always)]
    pub(crate) fn sole_extent(&self, sole: &Sole<'_>, names: usize) -> Extent {
        let (encoded, images) = sole.payload();
        let extent = extent(&self.geometry, names, 1, encoded, images);
        let Some(extent) = extent else { unreachable!("any frame fits a record of its own") };
        extent
    }

    /// Bytes that its record takes.
    #[inline]
    #[must_use]
    pub fn sole_bytes(&self, sole: &Sole<'_>) -> u64 {
        self.sole_extent(sole, sole.names()).total
    }

    /// Like [`sole_bytes`](Self::sole_bytes), where it is not known yet which frame it overwrites:
    /// that may be one of another lane.
    #[inline]
    #[must_use]
    pub fn sole_bytes_max(&self, sole: &Sole<'_>) -> u64 {
        self.sole_extent(sole, usize::from(self.geometry.lanes > 1)).total
    }

    /// Its frame, as storing its record next will return it.
    #[inline]
    #[must_use]
    pub fn sole_frame<P: Pmem, H: Hook>(
        &self,
        sole: &Sole<'_>,
        lane: &Lane<P, H>,
        open: &OpenRecord,
    ) -> FrameAt {
        let behind = match sole.frame.form {
            Form::Image => self.sole_extent(sole, sole.names()).front,
            _ => names_end(sole.names()).saturating_add(FRAME_BYTES),
        };
        lane.frame_at(open, sole.frame, open.position().saturating_add(behind as u64))
    }

    /// Stores its record, for which there is room, and returns its frame.
    #[inline(always)]
    fn store_sole<P: Pmem, H: Hook>(
        &self,
        lane: &mut Lane<P, H>,
        open: &mut OpenRecord,
        sole: &Sole<'_>,
        front: &mut [u8],
        encoded: &[u8],
    ) -> FrameAt {
        let Sole { frame, prefix, lent, named } = *sole;
        let extent = self.sole_extent(sole, sole.names());
        lane.check_fits(open, &extent);
        let mut end = frame.put(front, names_end(sole.names()));
        let mut check = open.check;
        let mut payload = open.position().saturating_add(end as u64);
        let mut behind = lent;
        if frame.form == Form::Image {
            payload = open.position().saturating_add(extent.front as u64);
            check = lane.store_image(open, payload, lent, check, &self.kernels);
            behind = &[];
        } else if lent.is_empty() {
            behind = encoded.get(..frame.len as usize).unwrap_or_default();
        } else {
            put_words(front, end, [prefix.word()]);
            end = end.saturating_add(prefix.bytes());
        }
        let (name_count, lent) = (sole.names(), LentPayload::Bytes(behind));
        let (names, note) = (named, None);
        let lists = Lists { frame_count: 1, name_count, names, note, last: true, end, lent };
        lane.store_front(open, &extent, lists, check, &self.kernels, front);
        lane.frame_at(open, frame, payload)
    }
}
