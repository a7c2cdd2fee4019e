//! The journal: one owner, `&mut self`, no locks.
//!
//! What is durable when:
//!
//! | after | survives every crash |
//! |---|---|
//! | a commit that is [`Durability::Durable`] | the transaction, and all before it in its lane |
//! | a commit that is [`Durability::Deferred`] | nothing yet; readable at once |
//! | [`Journal::sync`] | every transaction committed so far |
//! | [`Journal::checkpoint`] | the same, and the device alone holds it |
//!
//! A transaction that was not acknowledged as durable is after a crash wholly there or not at all.
//! After a failed fence, write or sync the journal refuses to go on: the outcome of what was under
//! way is unknown until it is opened again.

use crate::block_device::BlockDevice;
use crate::check::{Kernels, PortableKernels};
use crate::error::MediumError;
use crate::errors::{CommitError, JournalError};
use crate::geometry::Geometry;
use crate::hook::{Hook, NoHook, Rule};
use crate::index::{Index, NodeId};
use crate::lane::{FrameIn, Identity, Lane, Names, OpenRecord, Pace, Part, Payload, part_extent};
use crate::memory::{Batched, LaneSlot};
use crate::order::OrderedDevice;
use crate::pmem::Pmem;
use crate::policy::{Change, Encoder, Placement, Policy, Update};
use crate::record::{Extent, FRAMES_PER_PART, Form};
use crate::recover::Recovery;
use crate::scan::{IndexError, Reader};
use crate::shield::Shield;
use crate::superblock::{Superblock, Superblocks};
use crate::units::{BlockNumber, LaneNumber, Sequence, Stamp};

/// One block's share of a transaction.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// New content.
    Update(Update<'a>),
    /// The block is not live any more: its content is undefined until it is written again.
    Discard(BlockNumber),
}

impl Operation<'_> {
    const fn block(&self) -> BlockNumber {
        match self {
            Self::Update(update) => update.block,
            Self::Discard(block) => *block,
        }
    }
}

/// When a commit is to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// When it returns: one fence.
    Durable,
    /// At the next [`Journal::sync`], or durable commit in the same lane. A crash before may lose
    /// it, and everything behind it in its lane.
    Deferred,
}

/// Which transaction it was: unique in the journal's life as long as it is not formatted anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Committed {
    /// The lane it went into.
    pub lane: LaneNumber,
    /// Its sequence there.
    pub sequence: Sequence,
    /// Its place in the order of versions.
    pub stamp: Stamp,
}

/// An open journal.
#[derive(Debug)]
pub struct Journal<'m, P, D, L, H = NoHook, K = PortableKernels> {
    pub(crate) superblocks: Superblocks<P, H>,
    pub(crate) superblock: Superblock,
    /// `None` where the geometry has no shield.
    pub(crate) shield: Option<Shield<P, H>>,
    pub(crate) lanes: &'m mut [LaneSlot<P, H>],
    pub(crate) device: OrderedDevice<D, H>,
    pub(crate) policy: L,
    pub(crate) kernels: K,
    pub(crate) geometry: Geometry,
    pub(crate) identity: Identity,
    pub(crate) index: Index<'m>,
    pub(crate) batch: &'m mut [Batched],
    pub(crate) front: &'m mut [u8],
    pub(crate) encoded: &'m mut [u8],
    pub(crate) blocks: &'m mut [u8],
    pub(crate) recovery: Recovery,
    pub(crate) failed: bool,
}

/// What the last part that is stored ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The record.
    Record,
    /// Nothing yet: more parts follow.
    Nothing,
}

/// Where a placed update's payload is.
#[derive(Clone, Copy, Debug)]
enum Placed {
    Image,
    Encoded { start: usize, end: usize },
    Discard,
}

/// The frames of one part, before they are stored.
#[derive(Debug)]
struct Chunk {
    placed: [(usize, Placed); FRAMES_PER_PART],
    len: usize,
}

impl<P, D, L, H, K> Journal<'_, P, D, L, H, K>
where
    P: Pmem,
    D: BlockDevice,
    L: Policy,
    H: Hook,
    K: Kernels,
{
    /// The geometry it was formatted with.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What recovery found when this journal was opened.
    #[must_use]
    pub const fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Commits a transaction through `lane`. The operations ascend by block, each block once.
    ///
    /// # Errors
    /// Before anything is stored: an operation that cannot be, or too little space (a checkpoint
    /// makes some). After that only `Medium`: the outcome is unknown, the journal refuses to go on.
    pub fn commit(
        &mut self,
        lane: LaneNumber,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Committed, CommitError> {
        if self.failed {
            return Err(CommitError::Failed);
        }
        self.validate(lane, operations)?;
        let names = self.names(lane, operations);
        let (bytes, frames) = self.measure(operations, &names)?;
        self.check_space(lane, bytes, frames)?;
        self.settle_other_lanes(lane)?;
        let stamp = self.next_stamp(lane, operations);
        let result = self.store(lane, operations, &names, stamp, durability);
        if matches!(result, Err(CommitError::Medium(_))) {
            self.fail();
        }
        result
    }

    /// Refuses to go on.
    pub(crate) fn fail(&mut self) {
        self.failed |= self.keeps(Rule::Sticky);
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.device.keeps(rule)
    }

    pub(crate) fn validate(
        &self,
        lane: LaneNumber,
        operations: &[Operation<'_>],
    ) -> Result<(), CommitError> {
        if usize::from(lane.raw()) >= self.lanes.len() {
            return Err(CommitError::NoSuchLane { lane });
        }
        if operations.is_empty() {
            return Err(CommitError::Empty);
        }
        let mut last = None;
        for operation in operations {
            let block = operation.block();
            if block.raw() >= self.superblock.head.device_blocks.get() {
                return Err(CommitError::OutOfDevice { block });
            }
            if last.is_some_and(|last| last >= block) {
                return Err(CommitError::NotAscending { block });
            }
            last = Some(block);
            if let Operation::Update(Update { change: Change::Image(image), .. }) = operation {
                if image.len() != self.geometry.block_size.bytes() {
                    return Err(CommitError::WrongLength { block, bytes: image.len() });
                }
            }
        }
        Ok(())
    }

    /// The records of other lanes that hold the newest frames of these blocks.
    pub(crate) fn names(&self, lane: LaneNumber, operations: &[Operation<'_>]) -> Names {
        let mut names = [Sequence(0); crate::geometry::LANES_MAX as usize];
        for operation in operations {
            let Some(newest) = self.index.newest(operation.block()) else { continue };
            let frame = self.index.frame(newest);
            if let Some(name) = names.get_mut(usize::from(frame.lane.raw())) {
                if frame.lane != lane {
                    *name = (*name).max(frame.sequence);
                }
            }
        }
        names
    }

    /// One more than every stamp that this transaction overwrites, and than its lane's.
    fn next_stamp(&self, lane: LaneNumber, operations: &[Operation<'_>]) -> Stamp {
        let overwritten = operations.iter().filter_map(|operation| {
            self.index.newest(operation.block()).map(|newest| self.index.frame(newest).stamp)
        });
        let of_lane = self.lane(lane).last_stamp.max(self.superblock.stamp_floor());
        let overwritten = overwritten.filter(|_| self.keeps(Rule::StampAbove));
        let highest = overwritten.fold(of_lane, Stamp::max);
        Stamp(highest.raw().saturating_add(1))
    }

    pub(crate) fn lane(&self, lane: LaneNumber) -> &Lane<P, H> {
        match self.lanes.get(usize::from(lane.raw())) {
            Some(LaneSlot(Some(lane))) => lane,
            _ => unreachable!("an open journal has all its lanes"),
        }
    }

    pub(crate) fn lane_mut(&mut self, lane: LaneNumber) -> &mut Lane<P, H> {
        lane_of(self.lanes, lane)
    }

    /// Asks the policy for as many of the operations as fit into one part, from `first` on. Their
    /// encoded payloads are left in `self.encoded`.
    fn place_chunk(
        &mut self,
        operations: &[Operation<'_>],
        first: usize,
    ) -> Result<(Chunk, usize), CommitError> {
        let mut chunk = Chunk { placed: [(0, Placed::Discard); FRAMES_PER_PART], len: 0 };
        let block_bytes = self.geometry.block_size.bytes();
        let mut used = 0_usize;
        let mut next = first;
        while let Some(operation) = operations.get(next) {
            let Some(place) = chunk.placed.get_mut(chunk.len) else { break };
            let placed = match operation {
                Operation::Discard(_) => Some(Placed::Discard),
                Operation::Update(update) => {
                    // A policy always has a whole block of room: its choice must not depend on
                    // the update's neighbours.
                    let room = used..used.saturating_add(block_bytes);
                    let Some(room) = self.encoded.get_mut(room) else { break };
                    let mut encoder = Encoder::new(room);
                    match self.policy.place(update, &mut encoder) {
                        Placement::Unchanged => None,
                        Placement::Encoded => {
                            let start = used;
                            used = used.saturating_add(encoder.as_bytes().len());
                            Some(Placed::Encoded { start, end: used })
                        }
                        Placement::Image if matches!(update.change, Change::Image(_)) => {
                            Some(Placed::Image)
                        }
                        placement => {
                            let block = update.block;
                            return Err(CommitError::CannotPlace { block, placement });
                        }
                    }
                }
            };
            if let Some(placed) = placed {
                *place = (next, placed);
                chunk.len = chunk.len.saturating_add(1);
            }
            next = next.saturating_add(1);
        }
        Ok((chunk, next))
    }

    /// Bytes of all parts, and how many frames they have.
    pub(crate) fn measure(
        &mut self,
        operations: &[Operation<'_>],
        names: &Names,
    ) -> Result<(u64, usize), CommitError> {
        let (mut bytes, mut count, mut next, mut part_names) = (0_u64, 0_usize, 0, *names);
        while next < operations.len() {
            let (chunk, behind) = self.place_chunk(operations, next)?;
            let mut frames = [NO_FRAME; FRAMES_PER_PART];
            let frames = chunk.frames(operations, self.encoded, &mut frames);
            let extent = part_extent(&self.geometry, frames, &part_names);
            let Some(Extent { total, .. }) = extent else { return Err(CommitError::TooManyFrames) };
            if !frames.is_empty() {
                bytes = bytes.saturating_add(total);
                count = count.saturating_add(frames.len());
                part_names = NO_NAMES;
            }
            next = behind;
        }
        if count == 0 {
            return Err(CommitError::Unchanged);
        }
        Ok((bytes, count))
    }

    pub(crate) fn check_space(
        &self,
        lane: LaneNumber,
        bytes: u64,
        frames: usize,
    ) -> Result<(), CommitError> {
        let ring = self.lane(lane).ring().bytes();
        if bytes > ring {
            return Err(CommitError::TooLarge { needed: bytes, capacity: ring });
        }
        let free = self.lane(lane).free_bytes();
        if bytes > free {
            return Err(CommitError::NoSpace { needed: bytes, free });
        }
        let free = self.index.nodes_free().min(self.index.entries_free());
        if frames > free {
            return Err(CommitError::IndexFull { needed: frames, free });
        }
        Ok(())
    }

    /// Deferred records of other lanes are readable, so this transaction may depend on them: they
    /// are durable before any of it is stored.
    pub(crate) fn settle_other_lanes(&mut self, lane: LaneNumber) -> Result<(), CommitError> {
        if !self.keeps(Rule::DeferredFirst) {
            return Ok(());
        }
        for number in 0..self.geometry.lanes {
            if LaneNumber(number) != lane {
                self.settle_lane(LaneNumber(number)).map_err(CommitError::Medium)?;
            }
        }
        Ok(())
    }

    fn settle_lane(&mut self, lane: LaneNumber) -> Result<(), MediumError> {
        let lane = self.lane_mut(lane);
        let Some(in_flight) = lane.flush_all_deferred() else { return Ok(()) };
        let result = lane.fence(in_flight).map(drop);
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// Stores the record, and makes it durable if that is asked for.
    fn store(
        &mut self,
        lane: LaneNumber,
        operations: &[Operation<'_>],
        names: &Names,
        stamp: Stamp,
        durability: Durability,
    ) -> Result<Committed, CommitError> {
        let pace = match durability {
            Durability::Durable => Pace::AtOnce,
            Durability::Deferred => Pace::Deferred,
        };
        let start = self.lane(lane).tail;
        let sequence = self.lane(lane).next_sequence;
        let mut open = self.lane(lane).begin(stamp, pace, &self.identity);
        if let Err(error) = self.store_parts(lane, operations, names, &mut open, Ends::Record) {
            self.abandon(lane, &open);
            return Err(error);
        }
        self.index_record(lane, start).map_err(CommitError::Medium)?;
        let lane_at = self.lane_mut(lane);
        if let Some(in_flight) = lane_at.close(open) {
            let durable = lane_at.fence(in_flight).map_err(CommitError::Medium)?;
            debug_assert_eq!(*durable.what(), sequence);
        }
        Ok(Committed { lane, sequence, stamp })
    }

    /// Stores operations in as many parts as they take.
    pub(crate) fn store_parts(
        &mut self,
        lane: LaneNumber,
        operations: &[Operation<'_>],
        names: &Names,
        open: &mut OpenRecord,
        ends: Ends,
    ) -> Result<(), CommitError> {
        let (mut next, mut part_names) = (0, *names);
        while next < operations.len() {
            let (chunk, behind) = self.place_chunk(operations, next)?;
            let mut frames = [NO_FRAME; FRAMES_PER_PART];
            let frames = chunk.frames(operations, self.encoded, &mut frames);
            next = behind;
            if frames.is_empty() {
                continue;
            }
            let last = ends == Ends::Record
                && !operations.get(next..).unwrap_or_default().iter().any(|rest| {
                    // What follows may turn out to be unchanged, which the policy alone knows.
                    self.is_logged(rest)
                });
            let part = Part { frames, names: &part_names, last };
            let (identity, geometry) = (&self.identity, &self.geometry);
            let lane_at = lane_of(self.lanes, lane);
            lane_at.store_part(open, &part, identity, geometry, &self.kernels, self.front);
            part_names = NO_NAMES;
        }
        Ok(())
    }

    /// Stores one part.
    pub(crate) fn store_part(&mut self, lane: LaneNumber, open: &mut OpenRecord, part: &Part<'_>) {
        let (identity, geometry) = (&self.identity, &self.geometry);
        let lane_at = lane_of(self.lanes, lane);
        lane_at.store_part(open, part, identity, geometry, &self.kernels, self.front);
    }

    /// Puts the frames of the record that was stored at `start` into the index.
    ///
    /// # Errors
    /// The medium's: the record is stored, and its outcome unknown.
    pub(crate) fn index_record(&mut self, lane: LaneNumber, start: u64) -> Result<(), MediumError> {
        let ring = match self.lanes.get(usize::from(lane.raw())) {
            Some(LaneSlot(Some(lane))) => lane.ring(),
            _ => unreachable!("an open journal has all its lanes"),
        };
        let mut reader = Reader {
            ring,
            lane,
            geometry: &self.geometry,
            identity: &self.identity,
            kernels: &self.kernels,
            scratch: &mut *self.front,
        };
        reader.index_record(&mut self.index, start).map(drop).map_err(|error| match error {
            IndexError::Medium(error) => error,
            IndexError::Full => unreachable!("the room was checked"),
        })
    }

    /// Forgets a record whose last part is not stored.
    pub(crate) fn abandon(&mut self, lane: LaneNumber, open: &OpenRecord) {
        lane_of(self.lanes, lane).abandon(open);
    }

    /// Whether an operation leads to a frame.
    fn is_logged(&self, operation: &Operation<'_>) -> bool {
        let Operation::Update(update) = operation else { return true };
        // No room: a policy says `Unchanged` without it.
        let mut encoder = Encoder::new(&mut []);
        self.policy.place(update, &mut encoder) != Placement::Unchanged
    }

    /// Makes every transaction committed so far durable.
    ///
    /// # Errors
    /// The medium's; the journal then refuses to go on.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.settle_all_lanes()
    }

    pub(crate) fn settle_all_lanes(&mut self) -> Result<(), JournalError> {
        if self.failed {
            return Err(JournalError::Failed);
        }
        for lane in 0..self.geometry.lanes {
            self.settle_lane(LaneNumber(lane)).map_err(JournalError::Medium)?;
        }
        Ok(())
    }

    /// Reads a block's newest committed content, from the lanes and from home.
    ///
    /// # Errors
    /// The medium's or the device's, or a payload that does not apply.
    pub fn read(&mut self, block: BlockNumber, into: &mut [u8]) -> Result<(), JournalError> {
        if self.failed {
            return Err(JournalError::Failed);
        }
        if block.raw() >= self.superblock.head.device_blocks.get()
            || into.len() != self.geometry.block_size.bytes()
        {
            return Err(JournalError::BadRequest { block, bytes: into.len() });
        }
        self.content(block, into)
    }

    /// The newest content: the newest whole placement, and everything newer on top of it.
    pub(crate) fn content(
        &mut self,
        block: BlockNumber,
        into: &mut [u8],
    ) -> Result<(), JournalError> {
        let mut base = self.index.newest(block);
        let mut oldest = base;
        while let Some(id) = base {
            oldest = base;
            if self.index.frame(id).form != Form::Encoded {
                break;
            }
            base = self.index.older(id);
        }
        if base.is_none() {
            self.device.read(block, into).map_err(JournalError::Device)?;
        }
        let mut next = oldest;
        while let Some(id) = next {
            self.apply(id, into)?;
            next = self.index.newer(id);
        }
        Ok(())
    }

    fn apply(&mut self, id: NodeId, into: &mut [u8]) -> Result<(), JournalError> {
        let frame = self.index.frame(id);
        let ring = match self.lanes.get(usize::from(frame.lane.raw())) {
            Some(LaneSlot(Some(lane))) => lane.ring(),
            _ => unreachable!("the index names lanes of this journal"),
        };
        match frame.form {
            Form::Discard => into.fill(0),
            Form::Image => ring.read(frame.payload, into).map_err(JournalError::Medium)?,
            Form::Encoded => {
                let payload = self.encoded.get_mut(..frame.len as usize);
                let Some(payload) = payload else { unreachable!("fits: it was made there") };
                ring.read(frame.payload, payload).map_err(JournalError::Medium)?;
                self.policy
                    .apply(payload, into)
                    .map_err(|error| JournalError::Apply { block: frame.block, error })?;
            }
        }
        Ok(())
    }
}

/// A lane of an open journal, leaving the rest of it free to be borrowed.
fn lane_of<P, H>(lanes: &mut [LaneSlot<P, H>], lane: LaneNumber) -> &mut Lane<P, H> {
    match lanes.get_mut(usize::from(lane.raw())) {
        Some(LaneSlot(Some(lane))) => lane,
        _ => unreachable!("an open journal has all its lanes"),
    }
}

const NO_FRAME: FrameIn<'static> = FrameIn { block: BlockNumber(0), payload: Payload::Discard };
const NO_NAMES: Names = [Sequence(0); crate::geometry::LANES_MAX as usize];

impl Chunk {
    /// The frames, with their payloads where the operations and the encoder left them.
    fn frames<'a, 'f>(
        &self,
        operations: &[Operation<'a>],
        encoded: &'a [u8],
        into: &'f mut [FrameIn<'a>; FRAMES_PER_PART],
    ) -> &'f [FrameIn<'a>] {
        for (frame, (index, placed)) in into.iter_mut().zip(self.placed).take(self.len) {
            let Some(operation) = operations.get(index) else { continue };
            let payload = match (placed, operation) {
                (Placed::Encoded { start, end }, _) => {
                    Payload::Encoded(encoded.get(start..end).unwrap_or_default())
                }
                (Placed::Image, Operation::Update(Update { change: Change::Image(image), .. })) => {
                    Payload::Image(image)
                }
                _ => Payload::Discard,
            };
            *frame = FrameIn { block: operation.block(), payload };
        }
        into.get(..self.len).unwrap_or_default()
    }
}
