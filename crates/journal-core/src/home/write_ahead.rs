//! Writes to the device that come before the record that tells of them: appends, which go home at
//! once, and blocks for the disk-side log.
//!
//! Nobody needs the old content of a block that is not live. So its new content may overwrite it in
//! place, and the record then says that this was done. Nor does anybody need what is in a block of
//! the log that can be taken. There the record says which block it is, and carries the check of its
//! content.
//!
//! A checkpoint may run meanwhile: it writes home other blocks, through another handle.
//!
//! A1. A block that goes home is not live, durably: never written, or discarded by a durable
//!     record. One of the log that is taken was given back ([`crate::space::segments`]).
//! A2. From [`Versions::begins_append`] on nobody else writes this home. Until the sync, nobody
//!     else writes the log block. The home is not suspect from then on, so no checkpoint writes
//!     zeroes there; nor does one write what is older there ([`crate::home::search`]).
//! A3. The sync comes before the record is stored.
//! A4. An intent of a batch before, with an older version, is not repeated over it.
//! A5. While the home is unsynced, a durable discard in the lanes marks the block not live, and no
//!     head passes it ([`Lanes::passing`]). If there is none that stays, one is stored before the
//!     home is written. A process that finds the discard builds nothing on that home, which
//!     may look as if it had been synced.
//!
//! **Crash** before the record is durable: the block is not live, and its home holds anything. Or
//! the block of the log is free, and holds anything.

use crate::commit::batched::Batched;
use crate::commit::operation::{Operation, Operations};
use crate::commit::prepared::{Content, NoVersions, Scratch, Versions};
use crate::common::Common;
use crate::format::record::{FRAMES_PER_PART, Form};
use crate::home::Lanes;
use crate::home::error::JournalError;
use crate::index::{Index, IndexMemory};
use crate::order::ordered::{Durable, Hook, OrderedDevice, Pace, Unsynced};
use crate::order::rule::Rule;
use crate::order::site::Site;
use crate::ports::block_device::BlockDevice;
use crate::ports::error::DeviceError;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::{Encoder, Placement, Policy};
use crate::space::lane::{InLane, Names};
use crate::space::part::{Encoded, FrameIn, Part};
use crate::units::{BlockNumber, LaneNumber, SlotNumber, Stamp};

crate::sites! {
    pub(crate) mod site {
        /// A crash before the record's fence leaves a block that is not live, with any content.
        WRITE: DiskWrite = "append.write";
        /// A crash after leaves it with this content, live once the record is durable.
        SYNC: DiskSync = "append.sync";
        /// A crash before the record's fence leaves a block of the log that is free.
        LOG: DiskWrite = "log.write";
        LOG_SYNC: DiskSync = "log.sync";
    }
}

/// Blocks that one write takes at most.
const RUN_BLOCKS: usize = 16;

/// Neighbours on their way to the device.
struct Run<'a> {
    first: BlockNumber,
    images: [&'a [u8]; RUN_BLOCKS],
    count: usize,
}

impl<'a> Run<'a> {
    const EMPTY: Self = Self { first: BlockNumber(0), images: [&[]; RUN_BLOCKS], count: 0 };

    /// Whether the block continues the run.
    fn continues(&self, block: BlockNumber) -> bool {
        let next = self.first.raw().checked_add(self.count as u64);
        self.count > 0 && self.count < RUN_BLOCKS && next == Some(block.raw())
    }

    fn add(&mut self, block: BlockNumber, image: &'a [u8]) {
        if self.count == 0 {
            self.first = block;
        }
        if let Some(to) = self.images.get_mut(self.count) {
            *to = image;
            self.count = self.count.saturating_add(1);
        }
    }
}

/// Blocks that are discarded by one record.
struct GivenUp {
    frames: [FrameIn; FRAMES_PER_PART],
    count: usize,
}

impl GivenUp {
    const NONE: Self = Self { frames: [FrameIn::EMPTY; FRAMES_PER_PART], count: 0 };

    /// Takes in a block; whether there is no room for another one.
    fn add(&mut self, block: BlockNumber) -> bool {
        if let Some(to) = self.frames.get_mut(self.count) {
            *to = FrameIn { block, form: Form::Discard, ..FrameIn::EMPTY };
            self.count = self.count.saturating_add(1);
        }
        self.count == FRAMES_PER_PART
    }
}

impl<L: Policy, K: Kernels> Common<L, K> {
    /// Begins the appends of a transaction, and discards those blocks of which no frame is sure to
    /// stay (A5), if that `gives_up`. It does so through the lane that they are committed through,
    /// and returns how many bytes of that lane it took. The lane's head must not pass its end of
    /// now before the homes are synced.
    ///
    /// The index is not told: the frame that says that a block is at home comes behind its discard,
    /// in the same lane.
    ///
    /// # Errors
    /// The medium's.
    #[cold]
    pub fn discard_before_append<P: Pmem, H: Hook>(
        &self,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        (lane, gives_up): (LaneNumber, bool),
        content: &Content<'_, impl Operations + ?Sized>,
        scratch: &mut Scratch<'_>,
        versions: &mut impl Versions,
    ) -> Result<u64, JournalError> {
        let Content { operations, prepared, .. } = *content;
        if prepared.appends == 0 {
            return Ok(0);
        }
        let alike = self.alike(operations);
        let (mut given_up, mut bytes) = (GivenUp::NONE, 0_u64);
        for at in 0..operations.count() {
            let Operation::Update(mut update) = operations.operation(at) else { continue };
            alike.tell(&mut update);
            let room = scratch.front.get_mut(..self.block_bytes()).unwrap_or_default();
            let placement = self.placement(&update, None, &mut Encoder::new(room), prepared.goes());
            let block = update.block;
            let goes_home = placement == Placement::Home && versions.may_go_home(block);
            let is_known = !goes_home || versions.begins_append(block);
            if !is_known && gives_up && given_up.add(block) {
                let stored = self.store_discards(lanes, lane, &given_up, scratch.front)?;
                (given_up.count, bytes) = (0, bytes.saturating_add(stored));
            }
        }
        if given_up.count > 0 {
            let stored = self.store_discards(lanes, lane, &given_up, scratch.front)?;
            bytes = bytes.saturating_add(stored);
        }
        Ok(bytes)
    }

    /// Stores a record of discards, and makes it durable.
    fn store_discards<P: Pmem, H: Hook>(
        &self,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        lane: LaneNumber,
        given_up: &GivenUp,
        front: &mut [u8],
    ) -> Result<u64, JournalError> {
        let part = Part {
            frame_count: given_up.count,
            frames: given_up.frames.iter().take(given_up.count).map(|frame| (*frame, &[][..])),
            encoded: Encoded::Whole(&[]),
            image_count: 0,
            names: &Names::NONE,
            last: true,
        };
        lanes.with(lane, |InLane { lane, states }| {
            let stamp = Stamp(lane.last_stamp.raw().saturating_add(1));
            let mut open = lane.begin(stamp, Pace::AtOnce);
            self.store_part_and_take_in(lane, &mut open, &part, front, &mut NoVersions);
            let bytes = open.bytes();
            let _ = lane.close_and_fence(open, states, false).map_err(JournalError::Medium)?;
            Ok(bytes)
        })?
    }
}

impl<D: BlockDevice, H: Hook> OrderedDevice<D, H> {
    /// Writes to the device what the policy places there, and syncs it (A3). `scratch` is as the
    /// preparing has left it; which blocks of the log were taken is kept there. `take` takes one
    /// more; there are as many as were prepared for.
    ///
    /// # Errors
    /// The device's, and those of `take`, which takes a block of the log. Nothing is stored yet.
    pub fn write_ahead<L: Policy, K: Kernels, E: From<DeviceError>>(
        &mut self,
        common: &Common<L, K>,
        content: &Content<'_, impl Operations + ?Sized>,
        scratch: &mut Scratch<'_>,
        versions: &mut impl Versions,
        mut take: impl FnMut() -> Result<Option<SlotNumber>, E>,
    ) -> Result<Option<Durable<()>>, E> {
        let Content { operations, prepared, .. } = *content;
        let alike = common.alike(operations);
        // Not where the encoded payloads are.
        let room = scratch.front.get_mut(..common.block_bytes()).unwrap_or_default();
        let mut left = usize::try_from(prepared.log_blocks).unwrap_or(usize::MAX);
        let mut logged = scratch.logged.iter_mut();
        let mut unsynced: Option<Unsynced> = None;
        let (mut appends, mut log) = (Run::EMPTY, Run::EMPTY);
        for at in 0..operations.count() {
            let Operation::Update(mut update) = operations.operation(at) else { continue };
            alike.tell(&mut update);
            // As it was when the transaction was prepared.
            let mut encoder = Encoder::new(room);
            let placement = common.placement(&update, None, &mut encoder, prepared.goes());
            let block = update.block;
            let Some(image) = update.change.image() else { continue };
            let placement = match placement {
                Placement::Home if versions.may_go_home(block) => Placement::Home,
                Placement::Home | Placement::Slot
                    if common.logs_instead(&update, prepared.goes()) =>
                {
                    Placement::DiskLog
                }
                Placement::Home => continue,
                placement => placement,
            };
            match placement {
                Placement::Home => {
                    // Before the sync, without which the journal has failed.
                    if self.keeps(Rule::AppendsMakeSure) {
                        versions.gone_home(block);
                    }
                    self.put(site::WRITE, &mut appends, block, image, &mut unsynced)?;
                }
                Placement::DiskLog if left > 0 => {
                    left = left.saturating_sub(1);
                    let Some((slot, noted)) = take()?.zip(logged.next()) else {
                        unreachable!("as many are free as were when it was prepared")
                    };
                    let content = common.kernels.crc64(common.seeds.content(slot), image);
                    *noted = Batched::logged(slot, content);
                    let Some(lies_at) = common.where_logged(slot) else { continue };
                    self.put(site::LOG, &mut log, lies_at, image, &mut unsynced)?;
                }
                _ => {}
            }
        }
        self.write_run(site::WRITE, &mut appends, &mut unsynced)?;
        self.write_run(site::LOG, &mut log, &mut unsynced)?;
        let Some(unsynced) = unsynced else { return Ok(None) };
        let site = if prepared.log_blocks > 0 { site::LOG_SYNC } else { site::SYNC };
        Ok(Some(self.sync(site, unsynced)?))
    }

    #[inline]
    fn put<'a>(
        &mut self,
        site: Site,
        run: &mut Run<'a>,
        block: BlockNumber,
        image: &'a [u8],
        unsynced: &mut Option<Unsynced>,
    ) -> Result<(), DeviceError> {
        if !run.continues(block) {
            self.write_run(site, run, unsynced)?;
        }
        run.add(block, image);
        Ok(())
    }

    #[inline]
    fn write_run(
        &mut self,
        site: Site,
        run: &mut Run<'_>,
        unsynced: &mut Option<Unsynced>,
    ) -> Result<(), DeviceError> {
        let images = run.images.get(..run.count).unwrap_or_default();
        if !images.is_empty() {
            let written = self.write(site, run.first, images)?;
            *unsynced = Some(match unsynced.take() {
                Some(before) => before.and(written),
                None => written,
            });
        }
        *run = Run::EMPTY;
        Ok(())
    }
}

impl<M: IndexMemory> Index<M> {
    /// Whether a version of a block above this stamp is at home, by a record that says so.
    pub(crate) fn was_appended_home(&self, block: BlockNumber, stamp: Stamp) -> bool {
        let chain = core::iter::successors(self.newest(block), |id| self.older(*id));
        let mut frames = chain.map(|id| self.frame(id));
        frames.any(|frame| frame.form == Form::Home && frame.stamp > stamp)
    }
}
