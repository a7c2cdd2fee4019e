//! Looking at a journal without touching it.
//!
//! An examination reads what an open would read and comes to the same verdict, by the same code. It
//! borrows the medium, so it cannot store, flush or fence. The epoch stays what it is, and nothing
//! that a killed process left behind is called durable. Two examinations of one image say the same.
//!
//! It counts what slots are seen to be, as [`examine_slots`](crate::scan::examine_slots()) tells
//! it, but comes to its verdict by rings only. Without memory for an index it cannot tell which
//! slots count. An open may still end a lane earlier for a torn slot (R10), or refuse rotten slots
//! and entries.
//!
//! **Crash**: nothing happens here that one could interrupt.

use crate::format::geometry::{Geometry, Protocol};
use crate::format::identity::Identity;
use crate::index::frame::FrameAt;
use crate::order::source::SpanView;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::PolicyId;
use crate::scan::decide::Row;
use crate::scan::error::OpenError;
use crate::scan::examine_slots::{Sights, SlotSights};
use crate::scan::reader::{IndexError, Reader};
use crate::scan::verdict::{End, Recovery};
use crate::scan::{intent, lanes};
use crate::space::part::{front_bytes_max, record_front_bytes_max};
use crate::space::ring::RingOf;
use crate::space::superblocks::{CopyOf, Superblock, load};
use crate::units::{BlockSize, Epoch, Generation, LANES_MAX, LaneNumber, Offset, Sequence};

/// Bytes of scratch memory that are enough to examine any journal. One of smaller blocks takes
/// less: as many as [`Needs::front_bytes`](crate::Needs::front_bytes) says.
pub const EXAMINE_BYTES_MAX: usize = front_bytes_max(&Geometry {
    block_size: BlockSize::MAX,
    lanes: 1,
    lane_bytes: 0,
    shield_blocks: 0,
    unit_bytes: 0,
    protocol: Protocol::OneFence,
    lane_slots: 0,
    lane_log_blocks: 0,
    segment_blocks: 0,
});

/// What one copy of the superblock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyState {
    /// Whole. Of two whole copies the one of the higher generation counts.
    Whole {
        /// Its generation.
        generation: Generation,
    },
    /// It begins as a superblock does, and is not whole or not readable.
    Torn,
    /// Something else is there.
    Foreign,
}

/// What a lane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneExamination {
    /// Lane offset of its first live record.
    pub head: u64,
    /// Lane offset behind its last whole record.
    pub tail: u64,
    /// The sequence that comes next there.
    pub next_sequence: Sequence,
    /// Whole records that count.
    pub records: u64,
    /// Of them, those stored since the open before. An open would make them durable.
    pub found: u64,
    /// The row of the recovery table by which the lane ends.
    pub row: Row,
    /// Whether later records of the same epoch lie behind the end.
    pub records_behind: bool,
    /// Its slots.
    pub slots: SlotSights,
    /// Its blocks of the disk-side log.
    pub log_blocks: SlotSights,
}

/// What the shield area holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IntentExamination {
    /// The number of its batch.
    pub batch: u64,
    /// How many images it holds.
    pub blocks: u16,
    /// Whether an open would write them home again: its checkpoint did not end.
    pub believed: bool,
}

/// What there is in a span.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Examination {
    /// The journal's shape.
    pub geometry: Geometry,
    /// Which policy wrote it.
    pub policy: PolicyId,
    /// Blocks of the device that it belongs to.
    pub device_blocks: u64,
    /// The epoch of the superblock that counts.
    pub epoch: Epoch,
    /// Its generation.
    pub generation: Generation,
    /// The two copies of the superblock, with the offsets where they begin.
    pub copies: [(Offset, CopyState); 2],
    /// The intent in the shield area, if there is a whole one.
    pub intent: Option<IntentExamination>,
    /// What an open would find or say. Whether policy, device and memory given to it fit is not in
    /// here, nor what slots and their entries make of it.
    pub verdict: Result<Recovery, OpenError>,
    lanes: [LaneExamination; LANES_MAX as usize],
}

impl Examination {
    /// Every lane.
    #[must_use]
    pub fn lanes(&self) -> &[LaneExamination] {
        self.lanes.get(..usize::from(self.geometry.lanes)).unwrap_or_default()
    }
}

impl LaneExamination {
    const EMPTY: Self = Self {
        head: 0,
        tail: 0,
        next_sequence: Sequence(0),
        records: 0,
        found: 0,
        row: Row::Tail,
        records_behind: false,
        slots: SlotSights::NONE,
        log_blocks: SlotSights::NONE,
    };

    fn of(end: &End) -> Self {
        Self {
            head: end.start.head,
            tail: end.walked.tail,
            next_sequence: end.walked.next_sequence,
            records: end.walked.records,
            found: end.found(),
            row: end.row,
            records_behind: end.walked.records_behind,
            ..Self::EMPTY
        }
    }
}

/// Examines the journal in `pmem`, whatever state a crash or rot left it in.
///
/// `scratch` holds one front of a record, see [`EXAMINE_BYTES_MAX`].
///
/// # Errors
/// `Superblock` and `Geometry` where there is nothing to examine, `MemoryTooShort`, and `Medium`. A
/// journal that would not open for what is in its lanes is no error here; the verdict says so.
pub fn examine(
    pmem: &impl Pmem,
    kernels: &impl Kernels,
    scratch: &mut [u8],
) -> Result<Examination, OpenError> {
    // 1. The superblock, and whether the medium can hold its journal.
    let whole = SpanView::of(&pmem);
    let (_, superblock) = load(&whole, kernels)?;
    let geometry = superblock.geometry()?;
    geometry.check_fits(pmem.len()).map_err(OpenError::Geometry)?;
    // No more than an open has: a front that is longer would be read here, and not there.
    let (given, needed) = (scratch.len(), front_bytes_max(&geometry));
    let Some(scratch) = scratch.get_mut(..needed) else {
        return Err(OpenError::MemoryTooShort { slice: "scratch bytes", given, needed });
    };
    let identity = Identity::of(&superblock.header, kernels);
    let device_blocks = superblock.header.device_blocks.get();
    // 2. The lanes are walked.
    let lanes = (0..geometry.lanes).map(LaneNumber);
    let (records, _) = scratch.split_at_mut(record_front_bytes_max(&geometry));
    let mut scanned =
        lanes::scan_lanes(&whole, &superblock, &geometry, &identity, lanes, kernels, records)?;
    // 3. The newest note, if records may have some.
    let mut noted = superblock.noted;
    if superblock.has_notes() {
        for (number, (start, walked)) in (0..geometry.lanes).zip(scanned.lanes()) {
            let lane = LaneNumber(number);
            let ring = RingOf::new(whole.part(geometry.lane(lane), geometry.lane_bytes));
            let (ring, geometry, identity) = (&ring, &geometry, &identity);
            let scratch = &mut *records;
            let reader =
                Reader { ring, lane, geometry, identity, kernels, scratch, all: None, lap: 0 };
            noted = reader.newest_note(start.head, walked.tail, noted)?;
        }
    }
    let note = noted.map(|(_, note)| note);
    // 4. The intent in the shield area.
    let mut intent = None;
    if geometry.shield_blocks > 0 {
        let area = RingOf::new(whole.part(geometry.shield(), geometry.shield_bytes()));
        let found = intent::load(&area, &geometry, &identity, device_blocks, kernels, scratch)?;
        intent = found.map(|(header, _)| IntentExamination {
            batch: header.sequence.get(),
            blocks: header.frames.get(),
            believed: scanned.take_intent(&header, &superblock, |_| true),
        });
    }
    // 5. Each lane: where it ends, and what its slots are seen to be.
    let mut lanes = [LaneExamination::EMPTY; LANES_MAX as usize];
    for (lane, end) in lanes.iter_mut().zip(scanned.ends(&superblock, |_| true)) {
        *lane = LaneExamination::of(&end);
    }
    let sights = Sights {
        whole: &whole,
        geometry: &geometry,
        kernels,
        seeds: identity.seeds,
        device_blocks,
    };
    for (number, lane) in (0..geometry.lanes).zip(&mut lanes) {
        sights.of_lane(LaneNumber(number), |_, is_logged, sight| match is_logged {
            false => lane.slots.count(sight),
            true => lane.log_blocks.count(sight),
        })?;
    }
    // 6. Both superblock copies.
    let mut copies = [Offset(0), geometry.second_superblock()].map(|at| (at, CopyState::Torn));
    for (at, state) in &mut copies {
        *state = match Superblock::decode(&whole, *at, kernels)? {
            CopyOf::Whole(copy) => CopyState::Whole { generation: copy.generation() },
            CopyOf::Torn => CopyState::Torn,
            CopyOf::Foreign => CopyState::Foreign,
        };
    }
    Ok(Examination {
        policy: PolicyId(superblock.header.policy.get()),
        device_blocks,
        epoch: superblock.epoch(),
        generation: superblock.generation(),
        copies,
        intent,
        verdict: scanned.judge(&superblock, |_| true).map(|found| Recovery { note, ..found }),
        lanes,
        geometry,
    })
}

/// Calls with every frame of the records that count in a lane, as an [examination](examine()) has
/// found them: the oldest record first, and the frames of each in their order.
///
/// `scratch` is as long as that of the examination. The memory may have changed since. What is not
/// a record any more is an error, and what is another one is told as it is.
///
/// # Errors
/// Those of [`examine`], and `Medium` where a record is not there.
pub fn examine_frames(
    pmem: &impl Pmem,
    kernels: &impl Kernels,
    scratch: &mut [u8],
    examination: &Examination,
    lane: LaneNumber,
    mut each: impl FnMut(&FrameAt),
) -> Result<(), OpenError> {
    let whole = SpanView::of(&pmem);
    let (_, superblock) = load(&whole, kernels)?;
    let geometry = superblock.geometry()?;
    geometry.check_fits(pmem.len()).map_err(OpenError::Geometry)?;
    let Some(seen) = examination.lanes().get(usize::from(lane.raw())) else { return Ok(()) };
    if lane.raw() >= geometry.lanes {
        return Ok(());
    }
    let (given, needed) = (scratch.len(), record_front_bytes_max(&geometry));
    let Some(scratch) = scratch.get_mut(..needed) else {
        return Err(OpenError::MemoryTooShort { slice: "scratch bytes", given, needed });
    };
    let identity = &Identity::of(&superblock.header, kernels);
    let ring = &RingOf::new(whole.part(geometry.lane(lane), geometry.lane_bytes));
    let geometry = &geometry;
    let mut reader = Reader { ring, lane, geometry, identity, kernels, scratch, all: None, lap: 0 };
    let mut at = seen.head;
    while at < seen.tail {
        let told = reader.each_frame(at, &mut |frame| {
            each(&frame);
            Ok(())
        });
        at = match told {
            Ok(next) => next,
            Err(IndexError::Medium(error)) => return Err(error.into()),
            // The call above never says that it is full.
            Err(IndexError::Full) => return Ok(()),
        };
    }
    Ok(())
}
