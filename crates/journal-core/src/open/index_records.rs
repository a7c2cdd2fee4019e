//! The frames of accepted records, on their way into the index.
//!
//! Lanes are merged by stamp, and what slots' entries say with them. A pass goes through all of
//! them once. There are three passes at most, and one more that counts: it tells an owner whose
//! memory is too small how much is enough.
//!
//! **Crash**: nothing is written.

use crate::index::frame::FrameAt;
use crate::index::{Index, Indexes};
use crate::open::found::Opening;
use crate::order::ordered::Hook;
use crate::order::rule::Rule;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::PmemSplit;
use crate::scan::error::OpenError;
use crate::scan::reader::{IndexError, Reader};
use crate::space::part::record_front;
use crate::space::superblocks::Superblock;
use crate::units::{BlockNumber, LANES_MAX, LaneNumber, Sequence, SlotNumber, Stamp};

/// Reads a lane with what an opening has.
macro_rules! reader {
    ($opening:expr, $lane:expr) => {
        Reader {
            ring: $lane.ring(),
            lane: $lane.number,
            geometry: $opening.geometry,
            identity: $opening.identity,
            kernels: $opening.kernels,
            scratch: record_front(&mut *$opening.front, $opening.geometry),
            all: None,
            lap: 0,
        }
    };
}

/// Frames are counted only where the index stays too small for them.
const FULL: OpenError = OpenError::IndexFull { frames_needed: 0 };

impl<P: PmemSplit, H: Hook, K: Kernels> Opening<'_, P, H, K> {
    /// Puts the frames of all accepted records, and what slots' entries say, into the index. There
    /// may be too little room for frames of which some may be missing there. It then starts again
    /// without those, and with more room if it is to be had.
    pub(super) fn build(
        &mut self,
        indexes: &mut impl Indexes,
        superblock: &Superblock,
    ) -> Result<(), OpenError> {
        let indexed = match self.geometry.lane_slots_and_log() {
            0 => self.build_twice(indexes, superblock),
            _ => self.index_all(indexes, superblock, Pass::Grows),
        };
        match indexed {
            // The owner that gives the memory is told how much it needs.
            Err(OpenError::IndexFull { .. }) => {
                let frames_needed = self.index_all(indexes, superblock, Pass::Counts)?;
                Err(OpenError::IndexFull { frames_needed })
            }
            indexed => indexed.map(drop),
        }
    }

    fn build_twice(
        &mut self,
        indexes: &mut impl Indexes,
        superblock: &Superblock,
    ) -> Result<usize, OpenError> {
        match self.index_all(indexes, superblock, Pass::Only) {
            Err(OpenError::IndexFull { .. }) => {}
            indexed => return indexed,
        }
        indexes.each(Index::clear);
        self.index_all(indexes, superblock, Pass::Covers)?;
        indexes.each(Index::keep_covers);
        self.index_all(indexes, superblock, Pass::Covered)
    }

    /// Goes through all frames in the order of their stamps, so that each becomes the newest of
    /// its block. Returns how many there are.
    fn index_all(
        &mut self,
        indexes: &mut impl Indexes,
        superblock: &Superblock,
        pass: Pass,
    ) -> Result<usize, OpenError> {
        let mut frames = 0_usize;
        let mut cursors = [None; LANES_MAX as usize];
        for (cursor, (start, walked)) in cursors.iter_mut().zip(self.scanned.lanes()) {
            *cursor = Some(Cursor { position: start.head, tail: walked.tail, stamp: None });
        }
        let mut entries = self.list_entries(superblock.header.device_blocks.get())?;
        loop {
            let mut lowest: Option<(usize, Stamp)> = None;
            for (number, cursor) in cursors.iter_mut().enumerate() {
                let Some(cursor) = cursor else { continue };
                if cursor.stamp.is_none() && cursor.position < cursor.tail {
                    cursor.stamp = Some(self.stamp_at(number, cursor.position)?);
                }
                let Some(stamp) = cursor.stamp else { continue };
                if lowest.is_none_or(|(_, known)| stamp < known) {
                    lowest = Some((number, stamp));
                }
            }
            // Of one stamp the entry comes first: the frame that it was made of joins it.
            let stamp = lowest.map(|(_, stamp)| stamp);
            if self.index_entry(indexes, &mut entries, stamp, pass)? {
                frames = frames.saturating_add(1);
                continue;
            }
            let Some((number, _)) = lowest else { return Ok(frames) };
            if let Some(Some(cursor)) = cursors.get_mut(number) {
                let at = cursor.position;
                cursor.position = self.index_record(indexes, number, at, pass, &mut frames)?;
                cursor.stamp = None;
            }
        }
    }

    /// How many entries each lane has; they are listed.
    fn list_entries(&mut self, device_blocks: u64) -> Result<Entries, OpenError> {
        let mut entries = [(0, 0); LANES_MAX as usize];
        if self.geometry.lane_slots_and_log() == 0 {
            return Ok(entries);
        }
        let (kernels, seeds) = (self.kernels, self.identity.seeds);
        for (number, (_, count)) in (0..self.geometry.lanes).zip(&mut entries) {
            let lane = LaneNumber(number);
            let mut slots = self.slots();
            *count = slots.list_entries(lane, kernels, seeds, device_blocks)?;
            let highest = slots.listed(lane, count.saturating_sub(1)).filter(|_| *count > 0);
            if let Some((highest, _)) = highest {
                self.scanned.evidence.stamp = self.scanned.evidence.stamp.max(highest);
            }
        }
        Ok(entries)
    }

    /// Indexes the entry of the lowest stamp, unless a record's is lower.
    fn index_entry(
        &mut self,
        indexes: &mut impl Indexes,
        entries: &mut Entries,
        record: Option<Stamp>,
        pass: Pass,
    ) -> Result<bool, OpenError> {
        let mut lowest: Option<(usize, Stamp, SlotNumber)> = None;
        for (number, (next, count)) in (0..self.geometry.lanes).zip(entries.iter()) {
            if next >= count {
                continue;
            }
            let listed = self.slots().listed(LaneNumber(number), *next);
            let Some((stamp, slot)) = listed else { continue };
            if lowest.is_none_or(|(_, known, _)| stamp < known) {
                lowest = Some((usize::from(number), stamp, slot));
            }
        }
        let lowest = lowest.filter(|(_, stamp, _)| record.is_none_or(|record| *stamp <= record));
        let Some((number, _, slot)) = lowest else { return Ok(false) };
        if let Some((next, _)) = entries.get_mut(number) {
            *next = next.saturating_add(1);
        }
        let (kernels, seeds) = (self.kernels, self.identity.seeds);
        let Some(entry) = self.slots().entry(slot, kernels, seeds)? else { return Ok(true) };
        if pass == Pass::Counts {
            return Ok(true);
        }
        if pass.grows() && self.keeps(Rule::IndexGrows) {
            make_room(indexes, entry.block);
        }
        let inserted = indexes.of(entry.block, |index| index.insert_found(entry));
        inserted.map(|_| true).map_err(|_| FULL)
    }

    fn stamp_at(&mut self, number: usize, position: u64) -> Result<Stamp, OpenError> {
        let lane = self.lanes.get(number).and_then(|lane| lane.0.as_ref());
        let Some(lane) = lane else { return Ok(Stamp(u64::MAX)) };
        let reader = reader!(self, lane);
        let header = reader.placed_at(position);
        // It was there a moment ago.
        let header = header.and_then(|header| header.ok_or_else(|| reader.gone(position)));
        let header = header.map_err(|error| error.of_whole(self.geometry.lane(lane.number)))?;
        Ok(Stamp(header.stamp.get()))
    }

    /// Indexes the record at lane offset `record`. Returns where the next one begins.
    fn index_record(
        &mut self,
        indexes: &mut impl Indexes,
        number: usize,
        record: u64,
        pass: Pass,
        frames: &mut usize,
    ) -> Result<u64, OpenError> {
        let lane = self.lanes.get(number).and_then(|lane| lane.0.as_ref());
        let Some(lane) = lane else { return Ok(u64::MAX) };
        // A copy is made of the newest, so that nothing lies above it yet. One that is not was
        // forged, and looking for where it goes could take a pass over the chain for each of them.
        let (has_slots_or_log, of_each_lane) =
            (self.geometry.lane_slots_and_log() > 0, self.keeps(Rule::OneOfEachLane));
        let grows = pass.grows() && self.keeps(Rule::IndexGrows);
        // What counts is durable by the time that the journal is open.
        let insert = |index: &mut Index<_>, frame: FrameAt| {
            if has_slots_or_log {
                return index.insert_found(frame).map(drop);
            }
            index.insert_over(&frame, of_each_lane, |_| true)
        };
        let insert_newest = |index: &mut Index<_>, frame: FrameAt| {
            let Some(id) = index.newest(frame.block) else { return insert(index, frame) };
            let newest = index.frame(id);
            if newest.stamp > frame.stamp {
                return Ok(());
            }
            if !newest.folded || newest.stamp != frame.stamp {
                return insert(index, frame);
            }
            if newest.slot() == frame.slot() {
                index.set_in_ring(id, &frame);
                return Ok(());
            }
            // The record has the block more than once, and the entry was made of a later frame.
            let is_to_come = newest.sequence == Sequence(0);
            if is_to_come { index.insert_behind(id, frame) } else { insert(index, frame) }
        };
        let take_in = |index: &mut Index<_>, frame: FrameAt| match pass {
            Pass::Only | Pass::Grows => insert_newest(index, frame),
            Pass::Covers => index.note_cover(frame),
            Pass::Covered if index.insert_before_cover(frame)? => insert_newest(index, frame),
            Pass::Covered | Pass::Counts => Ok(()),
        };
        let mut insert = |frame: FrameAt| {
            *frames = frames.saturating_add(1);
            if grows {
                make_room(indexes, frame.block);
            }
            indexes.of(frame.block, |index| take_in(index, frame))
        };
        reader!(self, lane).each_frame(record, &mut insert).map_err(|error| match error {
            IndexError::Full => FULL,
            IndexError::Medium(error) => {
                OpenError::Medium(error.of_whole(self.geometry.lane(lane.number)))
            }
        })
    }
}

/// Of each lane, how many entries are indexed, and how many there are.
type Entries = [(usize, usize); LANES_MAX as usize];

/// What is done with the frames of all records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Into the index with them.
    Only,
    /// Into the index; where there is too little room, more is asked for. So it is in the two
    /// passes below.
    Grows,
    /// Of each block, the last whole one is found.
    Covers,
    /// Into the index, except for what is covered.
    Covered,
    /// The frames are counted.
    Counts,
}

/// Frames that one more may take the room of for a moment.
const FRAMES_AT_ONCE: usize = 2;

impl Pass {
    /// Whether the indexes are asked for more room.
    const fn grows(self) -> bool {
        matches!(self, Self::Grows | Self::Covers | Self::Covered)
    }
}

/// Sees to it, if that can be, that there is room for a frame of this block. Where there is none,
/// what is taken in next says so.
fn make_room(indexes: &mut impl Indexes, block: BlockNumber) {
    if indexes.of(block, |index| index.free_frames() < FRAMES_AT_ONCE) {
        let _ = indexes.grow(block);
    }
}

/// How far a lane's records are indexed.
#[derive(Clone, Copy)]
struct Cursor {
    position: u64,
    tail: u64,
    /// Of the record at `position`.
    stamp: Option<Stamp>,
}
