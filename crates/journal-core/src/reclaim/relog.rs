//! Giving space back without the disk: re-logging.
//!
//! A lane's head stays in front of the first frame that is still needed. A block that is written
//! once and then rests pins everything behind it, however often that was overwritten since. Its
//! content is *copied* to the lane's tail instead of home, and the head passes it.
//!
//! 1. From the head on, record by record, it works out what would have to be copied for the head to
//!    pass, and what that would free. It takes the stretch that gains most, and ends where none
//!    does.
//! 2. Everything that can be read is made durable: only durable content is copied.
//! 3. One copy record at the tail; one fence.
//! 4. The heads advance as they do after a checkpoint.
//!
//! A copy is no version. It is made of a block's newest content, carries the stamp of the newest
//! frame, and sorts directly behind it. So a later transaction, in whatever lane, lies on top of
//! both. The copy is whole, even where the content is a chain of encoded changes. The chain, and
//! the home beneath it, is then needed no more.
//!
//! A discard is not copied where nothing older can outlive it. It is let go of, as a checkpoint
//! does: the block then has what lies at home ([`let_go_of_discard`]).
//!
//! **Crash** before the fence: the record is torn or whole, and what it copies is still there.
//! After it, and before the superblock: both are there, with the same content. After that: the
//! copy alone is.

use zerocopy::IntoBytes as _;

use crate::commit::batched::Batched;
use crate::common::Common;
use crate::format::front::{Extent, Front, extent};
use crate::format::geometry::Geometry;
use crate::format::record::{
    FRAME_BYTES, FRAMES_PER_PART, Form, FrameHeader, HeaderFields, RecordHeader, RecordKind,
    STAMP_BYTES, evidence_check,
};
use crate::format::slot_entry::NAMED_SLOT_BYTES;
use crate::home::content::ContentView;
use crate::home::error::JournalError;
use crate::home::report::CheckpointReport;
use crate::home::{Home, HomeScratch, Lanes};
use crate::index::frame::{FrameAt, NO_BOUNDS};
use crate::index::{Index, IndexMemory, Indexes};
use crate::order::ordered::{Hook, InFlight};
use crate::order::rule::Rule;
use crate::ports::block_device::BlockDevice;
use crate::ports::error::MediumErrorKind;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::Policy;
use crate::scan::reader::{IndexError, Reader, each_frame_of_front};
use crate::space::lane::{Goes, InLane, Lane, Names};
use crate::space::part::record_front;
use crate::units::{BlockNumber, LINE_BYTES, LaneNumber, Sequence, Stamp};

crate::sites! {
    pub(crate) mod site {
        IMAGE: Write = "relog.image";
        FRONT: Write = "relog.front";
        FENCE: Fence = "relog.fence";
    }
}

/// The most that one call copies, as a part of the ring.
const SHARE_OF_RING: u64 = 4;

/// What a re-logging did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RelogReport {
    /// Blocks whose content was copied.
    pub frames: u64,
    /// Bytes of the lane that the copies took.
    pub copied_bytes: u64,
    /// Bytes of the lanes that became free.
    pub freed_bytes: u64,
    /// Fences that took.
    pub fences: u64,
}

/// What is to be copied so that the head can pass a stretch of its lane.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// How many blocks of the batch.
    copies: usize,
    /// What their record takes.
    bytes: u64,
    /// What becomes free.
    freed: u64,
}

impl Plan {
    const fn gain(&self) -> u64 {
        self.freed.saturating_sub(self.bytes)
    }
}

/// The copies of a plan that is being made.
struct Copies<'a> {
    batch: &'a mut [Batched],
    count: usize,
    images: usize,
    names: Names,
    /// How many there may be.
    most: usize,
}

/// What a frame means to a head that wants to pass it.
enum Need {
    /// Nothing: newer content is elsewhere, or home.
    None,
    /// The block has to be copied first.
    Copy { newest: FrameAt, is_discarded: bool },
    /// The block is home, and an older frame of it in another lane would hide that; or it cannot
    /// be read.
    Stays,
}

fn need_of(index: &Index<impl IndexMemory>, frame: &FrameAt) -> Need {
    let Some(newest) = index.newest(frame.block) else { return Need::None };
    let is_it = |found: &FrameAt| {
        (found.lane, found.sequence, found.payload) == (frame.lane, frame.sequence, frame.payload)
    };
    let mut next = Some(newest);
    while let Some(id) = next {
        let found = index.frame(id);
        next = index.older(id);
        if is_it(&found) {
            // What its entry says too, the ring need not keep.
            if found.folded {
                return Need::None;
            }
            if !index.is_home(newest) {
                if index.is_unreadable(frame.block) {
                    return Need::Stays;
                }
                let newest = index.frame(newest);
                return Need::Copy { newest, is_discarded: newest.form == Form::Discard };
            }
            let mut older = core::iter::successors(next, |id| index.older(*id));
            let hides = older.any(|older| index.frame(older).lane != frame.lane);
            return if hides { Need::Stays } else { Need::None };
        }
        if found.form != Form::Encoded {
            break;
        }
    }
    Need::None
}

/// Lets go of a block whose newest frame is a discard that need not be copied: the heads may pass
/// it then. Whether that is so. The caller keeps others from writing the block, and knows that the
/// discard is durable if `is_durable` says so.
///
/// Two things speak against it. What lies at home may change when the power goes. Or an older frame
/// is in another lane, or is an entry's: it would stay when the head has passed the discard.
pub fn let_go_of_discard(
    index: &mut Index<impl IndexMemory>,
    block: BlockNumber,
    is_durable: impl Fn(&FrameAt) -> bool,
) -> bool {
    let Some(newest) = index.newest(block) else { return false };
    let frame = index.frame(newest);
    if frame.form != Form::Discard || !is_durable(&frame) {
        return false;
    }
    if index.is_suspect(block) || index.is_leaving(block) {
        return false;
    }
    let mut older = core::iter::successors(index.older(newest), |id| index.older(*id));
    let outlives = |older: &FrameAt| older.lane != frame.lane || older.folded;
    if older.any(|id| outlives(&index.frame(id))) {
        return false;
    }
    index.set_home(block, frame.stamp);
    true
}

impl Copies<'_> {
    /// Takes in what has to be copied for a head to pass this frame; `false` if it cannot.
    fn take_in(&mut self, index: &Index<impl IndexMemory>, frame: &FrameAt) -> bool {
        let known = self.batch.get(..self.count).unwrap_or_default();
        if known.iter().any(|batched| batched.block == frame.block) {
            return true;
        }
        let (newest, discarded) = match need_of(index, frame) {
            Need::None => return true,
            Need::Stays => return false,
            Need::Copy { newest, is_discarded } => (newest, is_discarded),
        };
        if self.count >= self.most.min(index.free_frames()) {
            return false;
        }
        let Some(to) = self.batch.get_mut(self.count) else { return false };
        let (block, stamp) = (newest.block, newest.stamp.raw());
        *to = Batched { block, stamp, discarded, ..Batched::EMPTY };
        self.count = self.count.saturating_add(1);
        self.images = self.images.saturating_add(usize::from(!discarded));
        // Blocks of one owner are overwritten by nobody else: what is newest is durable by the
        // time the copy names it.
        if newest.lane != frame.lane {
            self.names.name(newest.lane, newest.sequence);
        }
        true
    }
}

fn extent_of(geometry: &Geometry, names: &Names, frames: usize, images: usize) -> Option<Extent> {
    let stamps = frames.saturating_mul(STAMP_BYTES);
    extent(geometry, names.count(), frames, stamps, images)
}

impl<P: Pmem, D: BlockDevice, H: Hook> Home<P, D, H> {
    /// Copies what pins the head of a lane to its tail, where that gains space, and lets the heads
    /// pass. Nobody commits meanwhile.
    pub(crate) fn relog<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        lane: LaneNumber,
    ) -> Result<RelogReport, JournalError> {
        let mut report = RelogReport::default();
        loop {
            let plan = lanes.with(lane, |at| {
                plan(
                    common,
                    at.lane,
                    indexes,
                    scratch,
                    (Goes::ByPolicy, u8::MAX, at.lane.free_bytes()),
                )
            })??;
            let Some(plan) = plan else { return Ok(report) };
            // Without a block that turns out not to be readable the plan is another one.
            if self.relog_as(common, lanes, indexes, scratch, (lane, plan), &mut report)? {
                return Ok(report);
            }
        }
    }

    /// Does as planned; whether it could, since every block could be read.
    fn relog_as<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        (lane, plan): (LaneNumber, Plan),
        report: &mut RelogReport,
    ) -> Result<bool, JournalError> {
        let mut stamp = Stamp(0);
        for number in (0..common.geometry.lanes).map(LaneNumber) {
            lanes.with(number, |InLane { lane, .. }| {
                let fences = if lane.has_deferred() { lane.fences() } else { 0 };
                report.fences = report.fences.saturating_add(fences);
                stamp = stamp.max(lane.last_stamp);
            })?;
        }
        if plan.copies > 0 {
            if self.keeps(Rule::DurableIsCopied) {
                self.make_durable(common, lanes)?;
            }
            let copies = let_go(indexes, scratch.batch, plan.copies);
            let plan = Plan { copies, ..plan };
            // Above everything that there is: what is inserted in the order of the records' stamps
            // comes behind what it copies.
            let stamp = Stamp(stamp.raw().saturating_add(1));
            let copying = Copying { lane, plan, stamp };
            let tail = lanes.with(lane, |InLane { lane, .. }| lane.tail)?;
            if copies > 0 && !self.copy(common, lanes, indexes, scratch, copying)? {
                return Ok(false);
            }
            let copied = lanes.with(lane, |InLane { lane, .. }| lane.tail)?;
            if self.keeps(Rule::StampFloor) {
                // And below everything that there will be, whether or not a head moves. A copy is
                // of the newest when its turn comes, or it does not count.
                for number in (0..common.geometry.lanes).map(LaneNumber) {
                    lanes.with(number, |InLane { lane, .. }| {
                        lane.last_stamp = lane.last_stamp.max(stamp);
                    })?;
                }
            }
            report.frames = copies as u64;
            report.copied_bytes = copied.saturating_sub(tail);
            let fences = lanes.with(lane, |InLane { lane, .. }| lane.fences())?;
            let fences = if copies > 0 { fences } else { 0 };
            report.fences = report.fences.saturating_add(fences);
        }
        let mut passed = CheckpointReport::default();
        let _ = self.let_heads_pass(common, lanes, indexes, scratch, false, &mut passed)?;
        report.freed_bytes = passed.freed_bytes;
        let superblocks = if passed.freed_bytes > 0 { 2 } else { 0 };
        report.fences = report.fences.saturating_add(superblocks);
        Ok(true)
    }

    /// Stores the copy record, makes it durable, and puts its frames into the index; whether every
    /// block could be read. If one could not, nothing of it counts.
    fn copy<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        copying: Copying,
    ) -> Result<bool, JournalError> {
        let Copying { lane: number, plan, .. } = copying;
        let (kernels, block_bytes) = (&common.kernels, common.block_bytes());
        let batch = scratch.batch.get(..plan.copies).unwrap_or_default();
        let mut names = Names::NONE;
        for batched in batch {
            let newest = indexes.of(batched.block, |index| {
                index.newest(batched.block).map(|newest| index.frame(newest))
            });
            if let Some(newest) = newest.filter(|newest| newest.lane != number) {
                names.name(newest.lane, newest.sequence);
            }
        }
        let own_stamp = self.keeps(Rule::CopiedStamp);
        let built = lanes.with(number, |InLane { lane, .. }| {
            build_front(common, lane, batch, &names, &copying, own_stamp, scratch.front)
        })?;
        let Some(Extent { front, total }) = built else { unreachable!("the plan fits") };
        let (mut check, position) =
            lanes.with(number, |InLane { lane, .. }| (lane.identity.seeds.record, lane.tail))?;
        let mut in_flight: Option<InFlight> = None;
        let mut image_at = position.saturating_add(front as u64);
        for at in 0..plan.copies {
            let Some(batched) = scratch.batch.get(at).filter(|batched| !batched.discarded) else {
                continue;
            };
            let block = batched.block;
            let Some(image) = scratch.blocks.get_mut(..block_bytes) else { continue };
            let view = ContentView { common, lanes: &*lanes, bounds: &NO_BOUNDS };
            match self.content(&view, indexes, block, scratch.payload, image) {
                Err(error) if error.is_of_its_block() => {
                    indexes.of(block, |index| index.set_unreadable(block, self.last_attempt()));
                    return Ok(false);
                }
                read => read?,
            }
            check = kernels.crc64(check, image);
            let stored = lanes.with(number, |InLane { lane, .. }| {
                lane.ring_mut().write(site::IMAGE, image_at, &*image)
            })?;
            in_flight = Some(match in_flight {
                Some(before) => before.and(stored),
                None => stored,
            });
            image_at = image_at.saturating_add(block_bytes as u64);
        }
        let bytes = scratch.front.get_mut(..front).unwrap_or_default();
        if let Some((body, to)) = bytes.split_last_chunk_mut() {
            *to = kernels.crc64(check, body).to_le_bytes();
        }
        let bytes = &*bytes;
        lanes.with(number, |InLane { lane, .. }| {
            let stored = lane.ring_mut().write_piece(site::FRONT, position, bytes, total);
            let in_flight = match in_flight {
                Some(images) => images.and(stored),
                None => stored,
            };
            lane.end_copy(in_flight, total, copying.stamp)
        })??;
        let mut copied = scratch.batch.iter();
        let geometry = &common.geometry;
        let Some(front) = Front::parse(geometry, bytes) else {
            unreachable!("it was put together a moment ago");
        };
        let inserted = each_frame_of_front(geometry, number, position, position, &front, |frame| {
            let stamp = Stamp(copied.next().map_or(0, |batched| batched.stamp));
            let frame = FrameAt { stamp, ..frame };
            indexes.of(frame.block, |index| index.insert(frame)).map(drop)
        });
        assert_eq!(inserted, Ok(()), "room for all frames was seen to");
        Ok(true)
    }
}

/// Lets go of the discards of a batch that need not be copied. The others come first then; returns
/// how many they are. All of them are durable.
fn let_go(indexes: &mut impl Indexes, batch: &mut [Batched], count: usize) -> usize {
    let mut left = 0_usize;
    for at in 0..count {
        let Some(batched) = batch.get(at).copied() else { break };
        let block = batched.block;
        if batched.discarded && indexes.of(block, |index| let_go_of_discard(index, block, |_| true))
        {
            continue;
        }
        if let Some(to) = batch.get_mut(left) {
            *to = batched;
            left = left.saturating_add(1);
        }
    }
    left
}

/// What keeps the head of a lane back.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// How many blocks that is. The batch has them, in no order.
    pub blocks: usize,
    /// Bytes that come free once their content is elsewhere.
    pub bytes: u64,
}

/// Finds what has to be stored anew so that the head of a lane can go on: as many blocks as a batch
/// has at most. With [`Goes::IntoRecord`] it is what gains the most. Copies then take `room` bytes
/// at most, and the share `copied` of what comes free, in 256ths. With [`Goes::ToSlots`] the
/// content leaves the ring. `None` where nothing comes free.
///
/// Others commit meanwhile, so each block is to be looked at again once it is locked.
///
/// # Errors
/// The medium's.
pub fn kept_at_head<L: Policy, K: Kernels, P: Pmem, H: Hook>(
    common: &Common<L, K>,
    lane: &Lane<P, H>,
    indexes: &mut impl Indexes,
    scratch: &mut HomeScratch<'_>,
    (goes, copied, room): (Goes, u8, u64),
) -> Result<Option<Kept>, JournalError> {
    let plan = plan(common, lane, indexes, scratch, (goes, copied, room))?;
    Ok(plan.map(|plan| Kept { blocks: plan.copies, bytes: plan.freed }))
}

/// A plan on its way into a lane.
#[derive(Clone, Copy, Debug)]
struct Copying {
    lane: LaneNumber,
    plan: Plan,
    /// Of the copy record.
    stamp: Stamp,
}

/// Finds the stretch at the head of a lane that gains the most when what it holds is copied. The
/// batch holds its blocks, and maybe others behind them. The lane's owner copies whenever that
/// gains anything ([`Goes::ByPolicy`]).
fn plan<L: Policy, K: Kernels, P: Pmem, H: Hook>(
    common: &Common<L, K>,
    lane: &Lane<P, H>,
    indexes: &mut impl Indexes,
    scratch: &mut HomeScratch<'_>,
    (goes, copied, room): (Goes, u8, u64),
) -> Result<Option<Plan>, JournalError> {
    // The owner's copy is one part.
    let is_owners = goes == Goes::ByPolicy;
    let geometry = &common.geometry;
    let share = lane.capacity_bytes().checked_div(SHARE_OF_RING).unwrap_or(0);
    let limit = room.min(share);
    let mut reader = Reader {
        ring: lane.ring(),
        lane: lane.number(),
        geometry,
        identity: &lane.identity,
        kernels: &common.kernels,
        scratch: record_front(&mut *scratch.front, geometry),
        all: None,
        lap: 0,
    };
    let batch = &mut *scratch.batch;
    let most = if is_owners { FRAMES_PER_PART } else { batch.len() };
    let mut copies = Copies { batch, count: 0, images: 0, names: Names::NONE, most };
    let mut best: Option<Plan> = None;
    let mut at = lane.head;
    while at < lane.tail {
        let mut fits = true;
        let walked = reader.each_frame(at, &mut |frame| {
            fits &= indexes.of(frame.block, |index| copies.take_in(index, &frame));
            Ok(())
        });
        at = match walked {
            Ok(behind) => behind,
            // What it holds cannot be told any more: nothing is copied from there on.
            Err(IndexError::Medium(error)) if error.kind == MediumErrorKind::Poisoned => break,
            Err(IndexError::Medium(error)) => return Err(JournalError::Medium(error)),
            Err(IndexError::Full) => unreachable!("nothing is added"),
        };
        let extent = extent_of(geometry, &copies.names, copies.count, copies.images);
        let bytes = match (copies.count, extent) {
            (0, _) => 0,
            (count, _) if !is_owners => {
                let images = if goes == Goes::ToSlots { 0 } else { copies.images };
                bytes_of_parts(geometry, count, images)
            }
            (_, Some(extent)) => extent.total,
            (_, None) => u64::MAX,
        };
        let fits_front = |extent: Extent| extent.front <= reader.scratch.len();
        let front_fits = !is_owners || extent.is_some_and(fits_front);
        if !fits || !front_fits || bytes > limit {
            break;
        }
        let plan = Plan { copies: copies.count, bytes, freed: at.saturating_sub(lane.head) };
        let may_copy = plan.freed.saturating_mul(copied.into()) >> 8;
        let is_dear = goes == Goes::IntoRecord && plan.bytes > may_copy;
        if !is_dear && plan.gain() > best.map_or(0, |best| best.gain()) {
            best = Some(plan);
        }
    }
    Ok(best)
}

/// Bytes that a transaction of copies takes at most: its images, and for each frame what describes
/// it, and names its slot.
fn bytes_of_parts(geometry: &Geometry, frames: usize, images: usize) -> u64 {
    let parts = frames.div_ceil(FRAMES_PER_PART).saturating_mul(3 * LINE_BYTES);
    let described = frames.saturating_mul(FRAME_BYTES.saturating_add(NAMED_SLOT_BYTES));
    let images = images.saturating_mul(geometry.block_size.bytes());
    parts.saturating_add(described).saturating_add(images) as u64
}

/// Builds the front of a copy record in `scratch`, all but its large check.
fn build_front<L: Policy, K: Kernels, P: Pmem, H: Hook>(
    common: &Common<L, K>,
    lane: &Lane<P, H>,
    batch: &[Batched],
    names: &Names,
    copying: &Copying,
    own_stamps: bool,
    scratch: &mut [u8],
) -> Option<Extent> {
    let images = batch.iter().filter(|batched| !batched.discarded).count();
    let extent = extent_of(&common.geometry, names, batch.len(), images)?;
    debug_assert!(extent.total <= copying.plan.bytes, "as it was planned");
    let front = scratch.get_mut(..extent.front)?;
    front.fill(0);
    let header = RecordHeader::of(&HeaderFields {
        kind: RecordKind::Copy,
        part: 0,
        is_last: true,
        is_noted: false,
        lines: extent.lines(),
        frames: batch.len(),
        names: names.count(),
        lane: lane.number,
        position: lane.tail,
        sequence: lane.next_sequence,
        durable_to: lane.durable_to,
        stamp: copying.stamp,
        identity: &lane.identity,
    });
    let mut at = 0_usize;
    let mut put = |bytes: &[u8]| {
        let end = at.saturating_add(bytes.len());
        if let Some(to) = front.get_mut(at..end) {
            to.copy_from_slice(bytes);
        }
        at = end;
    };
    put(header.as_bytes());
    names.each().for_each(|name| put(name.as_bytes()));
    for batched in batch {
        let (form, len) = if batched.discarded {
            (Form::Discard, 0)
        } else {
            (Form::Image, common.block_bytes())
        };
        let frame = FrameHeader {
            block: batched.block.raw().into(),
            len: u32::try_from(len).ok()?.into(),
            form: form as u8,
            reserved: [0; 3],
        };
        put(frame.as_bytes());
    }
    for batched in batch {
        let fresh = copying.stamp.raw().saturating_sub(1);
        let stamp = if own_stamps { batched.stamp } else { fresh };
        put(&stamp.to_le_bytes());
    }
    let evidence = front.get(..header.evidence_bytes()).unwrap_or_default();
    let check = evidence_check(&common.kernels, lane.identity.seeds.record, evidence);
    if let Some(to) = front.first_chunk_mut::<4>() {
        *to = check.to_le_bytes();
    }
    Some(extent)
}

impl<P: Pmem, H: Hook> Lane<P, H> {
    /// The copy record at the tail is stored: one fence, and it is durable. Two where the lane has
    /// a tail word, as for any record.
    fn end_copy(
        &mut self,
        in_flight: InFlight,
        bytes: u64,
        stamp: Stamp,
    ) -> Result<(), JournalError> {
        let sequence = self.next_sequence;
        self.tail = self.tail.saturating_add(bytes);
        self.flushed_to = self.tail;
        self.last_stamp = self.last_stamp.max(stamp);
        self.next_sequence = Sequence(sequence.raw().saturating_add(1));
        let fenced = self.ring_mut().region.fence(site::FENCE, in_flight.carrying(sequence));
        let mut durable = fenced.map_err(JournalError::Medium)?;
        let to = self.flushed_to;
        if let Some(word) = self.tail_word_mut() {
            durable = word.advance(durable, to).map_err(JournalError::Medium)?;
        }
        self.durable_to = Sequence(durable.what().raw().saturating_add(1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;

    use super::*;
    use crate::index::{Entry, LentMemory, Node};

    const BLOCK: BlockNumber = BlockNumber(1);

    fn frame(lane: u16, form: Form, stamp: u64) -> FrameAt {
        FrameAt {
            block: BLOCK,
            stamp: Stamp(stamp),
            lane: LaneNumber(lane),
            sequence: Sequence(stamp),
            record: 64 * stamp,
            payload: 64 * stamp,
            len: 0,
            form,
            folded: false,
        }
    }

    #[test]
    fn a_discard_is_let_go_of_where_nothing_older_outlives_it() {
        let discard = frame(0, Form::Discard, 3);
        let entry = FrameAt { folded: true, ..frame(0, Form::Slot, 1) };
        let cases = [
            (true, vec![discard]),
            (true, vec![frame(0, Form::Image, 1), frame(0, Form::Encoded, 2), discard]),
            (false, vec![frame(1, Form::Image, 1), frame(0, Form::Image, 2), discard]),
            (false, vec![entry, discard]),
            (false, vec![discard, frame(0, Form::Image, 4)]),
            (false, vec![]),
        ];
        for (goes, frames) in cases {
            for (is_suspect, is_durable) in [(false, true), (true, true), (false, false)] {
                let mut entries = vec![Entry::EMPTY; 3];
                let mut nodes = vec![Node::EMPTY; 4];
                let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
                for frame in &frames {
                    index.insert(*frame).expect("there is room");
                }
                if is_suspect {
                    index.suspect_homes();
                }
                let goes = goes && is_durable && !is_suspect;
                let went = let_go_of_discard(&mut index, BLOCK, |_| is_durable);
                assert_eq!(went, goes, "{frames:?}, suspect: {is_suspect}, durable: {is_durable}");
                assert_eq!(index.newest(BLOCK).is_some_and(|id| index.is_home(id)), goes);
            }
        }
    }
}
