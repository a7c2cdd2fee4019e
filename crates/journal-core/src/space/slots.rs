//! Slots: room for a block each, beside the rings, where versions of blocks are kept and rewritten.
//!
//! Each lane has slots of its own, which only its writer writes. A frame in the ring says which
//! slot holds a block's new content, and the content's check; one fence makes both durable. So that
//! the ring can go on, a frame is *folded*: the slot's *entry*, beside the slots, says the same as
//! the frame did.
//!
//! S1. The newest durable version of a block is never touched. A slot is written only if it holds
//!     nothing, or a version that has a durable whole successor.
//! S2. An entry is rewritten only while a live frame in the ring covers its slot, and is voided by
//!     one word.
//! S3. A slot is free for other blocks when no entry names it and no frame needs it, durably.
//!
//! **Crash**: a slot that was being written holds anything; the record that names it then is torn
//! as well, or its content's check says so. An entry that was being written is void or torn. The
//! frame that it was made of is still there, and an open voids what is torn.

use zerocopy::IntoBytes;

use crate::format::geometry::Geometry;
use crate::format::identity::CheckSeeds;
use crate::format::slot_entry::{ENTRY_BYTES, FoundEntry, SlotEntry};
use crate::order::ordered::{Dirty, Durable, Hook, InFlight, Ordered, Pace};
use crate::order::rule::Rule;
use crate::ports::error::MediumError;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::{Pmem, PmemRead, PmemShare};
use crate::ports::policy::{Patch, Policy};
use crate::space::segments::Segments;
use crate::space::slot_state::{NONE, SlotState};
use crate::space::stored::{Stored, WEAR_PARTS, Wear};
use crate::units::{BlockNumber, LINE_BYTES, LaneNumber, Offset, SlotNumber, Stamp, WORD_BYTES};

crate::sites! {
    pub(crate) mod site {
        /// A whole image, before the record that names it.
        IMAGE: Write = "slot.image";
        /// Bytes of an older version that become the new one.
        REWRITE: Store = "slot.rewrite";
        REWRITE_FLUSH: Flush = "slot.rewrite.flush";
        DEFERRED: Store = "slot.deferred";
        DEFERRED_FLUSH: Flush = "slot.deferred.flush";
        /// What was read from the device. No crash leaves anything of it that counts.
        CLEAN: Store = "slot.clean";
        /// Bytes of an active version, which no record names yet.
        SPILLED: Store = "slot.spilled";
        SPILLED_FLUSH: Flush = "slot.spilled.flush";
        SPILLED_FENCE: Fence = "slot.spilled.fence";
        /// A crash before the fence leaves the entry void, torn or whole.
        ENTRY: Write = "slot.entry";
        ENTRY_FENCE: Fence = "slot.entry.fence";
        /// A crash after leaves the entry as it was, or void.
        VOID: Store = "slot.void";
        VOID_FLUSH: Flush = "slot.void.flush";
        VOID_FENCE: Fence = "slot.void.fence";
        FOUND: Flush = "slot.found";
        /// A new journal's entries.
        FIRST: Write = "slot.first";
        FIRST_FENCE: Fence = "slot.first.fence";
    }
}

/// The slots of one lane.
#[derive(Debug)]
pub(crate) struct Slots<P, H> {
    entries: Ordered<P, H>,
    data: Ordered<P, H>,
    /// The number of the first one.
    first: u32,
    count: u32,
    block_bytes: usize,
    free: u32,
    free_count: u32,
    /// The first one that waits to be flushed.
    dirty: u32,
    /// The lane's blocks in the disk-side log, which are numbered behind its slots.
    segments: Segments,
    log_blocks: u32,
    stored: Stored,
    /// Of the entries, and of the slots.
    wear: [Wear; 2],
}

impl<P: Pmem, H: Hook> Slots<P, H> {
    /// The slots of a lane, none of them free yet.
    pub(crate) fn new(
        entries: Ordered<P, H>,
        data: Ordered<P, H>,
        lane: LaneNumber,
        geometry: &Geometry,
    ) -> Self {
        let wear = [geometry.entries_bytes(), geometry.slots_bytes()].map(Wear::of);
        Self {
            entries,
            data,
            first: u32::try_from(geometry.lane_slots_and_log().saturating_mul(lane.raw().into()))
                .unwrap_or(NONE),
            count: geometry.lane_slots,
            block_bytes: geometry.block_size.bytes(),
            free: NONE,
            free_count: 0,
            dirty: NONE,
            segments: Segments::new(geometry),
            log_blocks: geometry.lane_log_blocks,
            stored: Stored::NOTHING,
            wear,
        }
    }

    /// What was stored in slots and their entries.
    pub(crate) const fn stored(&self) -> Stored {
        self.stored
    }

    /// The lines of each part that were stored: of the entries, and of the slots.
    pub(crate) fn wear(&self) -> [[u64; WEAR_PARTS]; 2] {
        self.wear.map(|wear| wear.parts())
    }

    /// Counts a store into a slot.
    fn note_stored(&mut self, at: Offset, bytes: usize) {
        let [_, slots] = &mut self.wear;
        slots.add(at, bytes);
        self.stored.add(at, bytes);
    }

    /// Counts a store into an entry.
    fn note_entry(&mut self, at: Offset, bytes: usize) {
        let [entries, _] = &mut self.wear;
        entries.add(at, bytes);
        self.stored.add(at, bytes);
    }

    /// The numbers of its slots, and then those of its blocks in the disk-side log.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = SlotNumber> + use<P, H> {
        let count = self.count.saturating_add(self.log_blocks);
        (self.first..self.first.saturating_add(count)).map(SlotNumber)
    }

    /// Which of the lane's blocks in the disk-side log a number stands for, if it is one.
    pub(crate) fn log_block(&self, slot: SlotNumber) -> Option<u32> {
        slot.raw().saturating_sub(self.first).checked_sub(self.count)
    }

    fn numbered(&self, log_block: u32) -> SlotNumber {
        SlotNumber(self.first.saturating_add(self.count).saturating_add(log_block))
    }

    /// The states of the blocks in the disk-side log.
    fn log_states<'s>(&self, states: &'s mut [SlotState]) -> &'s mut [SlotState] {
        states.get_mut(self.count as usize..).unwrap_or_default()
    }

    /// Blocks of the disk-side log that can be taken.
    pub(crate) const fn free_log_blocks(&self) -> u32 {
        self.segments.free_blocks()
    }

    /// Whether what is known of the disk-side log agrees with itself.
    pub(crate) fn log_is_right(&self, states: &[SlotState]) -> bool {
        self.segments.is_right(states.get(self.count as usize..).unwrap_or_default())
    }

    /// Takes the next block of the disk-side log.
    pub(crate) fn take_log_block(&mut self, states: &mut [SlotState]) -> Option<SlotNumber> {
        let states = self.log_states(states);
        let block = self.segments.take(states)?;
        Some(self.numbered(block))
    }

    /// The cheapest full segment after `behind`, as (used, first, end).
    pub(crate) fn cheapest_segment(
        &self,
        states: &[SlotState],
        behind: Option<(u64, SlotNumber)>,
    ) -> Option<(u64, SlotNumber, SlotNumber)> {
        let states = states.get(self.count as usize..).unwrap_or_default();
        let segments = self.segments.full(states);
        let costs = segments.map(|segment| {
            (segment.used, self.numbered(segment.first), self.numbered(segment.end))
        });
        let is_behind =
            |(used, first): (u64, SlotNumber)| behind.is_none_or(|at| (used, first) > at);
        costs.filter(|(used, first, _)| is_behind((*used, *first))).min()
    }

    /// Which slots and blocks of the disk-side log are free is known.
    pub(crate) fn begin_segments(&mut self, states: &mut [SlotState]) {
        let states = self.log_states(states);
        self.segments.begin(states);
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.data.keeps(rule)
    }

    pub(crate) const fn free_count(&self) -> u32 {
        self.free_count
    }

    /// Its number among the lane's slots.
    pub(crate) fn index(&self, slot: SlotNumber) -> usize {
        slot.raw().saturating_sub(self.first) as usize
    }

    fn offset_of(&self, slot: SlotNumber, at: usize) -> Offset {
        let start = (self.index(slot) as u64).saturating_mul(self.block_bytes as u64);
        Offset(start.saturating_add(at as u64))
    }

    fn entry_offset(&self, slot: SlotNumber) -> Offset {
        Offset((self.index(slot) as u64).saturating_mul(ENTRY_BYTES as u64))
    }

    fn state<'s>(
        &self,
        states: &'s mut [SlotState],
        slot: SlotNumber,
    ) -> Option<&'s mut SlotState> {
        states.get_mut(self.index(slot))
    }

    pub(crate) fn is_free(&self, states: &[SlotState], slot: SlotNumber) -> bool {
        states.get(self.index(slot)).is_some_and(|state| state.is_free)
    }

    /// How many slots are on the list of the free ones.
    pub(crate) fn listed_free(&self, states: &[SlotState]) -> u32 {
        let next = |slot: &u32| {
            let state = states.get(self.index(SlotNumber(*slot)))?;
            Some(state.next).filter(|next| *next != NONE)
        };
        let first = Some(self.free).filter(|first| *first != NONE);
        let listed = core::iter::successors(first, next);
        let most = self.count.saturating_add(1) as usize;
        u32::try_from(listed.take(most).count()).unwrap_or(u32::MAX)
    }

    /// Takes a slot that holds nothing.
    pub(crate) fn take(&mut self, states: &mut [SlotState]) -> Option<SlotNumber> {
        let slot = SlotNumber(self.free);
        let state = self.state(states, slot).filter(|_| slot.raw() != NONE)?;
        state.is_free = false;
        self.free = core::mem::replace(&mut state.next, NONE);
        self.free_count = self.free_count.saturating_sub(1);
        Some(slot)
    }

    /// Takes a slot off the list of those that wait to be flushed: nobody needs what it holds.
    fn forget_dirty(&mut self, states: &mut [SlotState], slot: SlotNumber) {
        let Some(state) = self.state(states, slot).filter(|state| state.dirty.1 > 0) else {
            return;
        };
        let next = core::mem::replace(&mut state.next, NONE);
        state.dirty = (0, 0);
        // Not all of it is durable: the next one there begins anew.
        state.written_whole = false;
        if self.dirty == slot.raw() {
            self.dirty = next;
            return;
        }
        let mut before = SlotNumber(self.dirty);
        while let Some(state) = self.state(states, before) {
            if state.next == slot.raw() {
                state.next = next;
                return;
            }
            before = SlotNumber(state.next);
        }
    }

    /// Gives a slot back: nothing needs what it holds. Once: media that lie name one twice.
    pub(crate) fn give(&mut self, states: &mut [SlotState], slot: SlotNumber) {
        if let Some(block) = self.log_block(slot) {
            let states = self.log_states(states);
            return self.segments.give(states, block);
        }
        let free = self.free;
        self.forget_dirty(states, slot);
        let Some(state) = self.state(states, slot).filter(|state| !state.is_free) else { return };
        *state = SlotState { next: free, is_free: true, ..*state };
        self.free = slot.raw();
        self.free_count = self.free_count.saturating_add(1);
    }

    /// Writes a whole image.
    pub(crate) fn write(
        &mut self,
        states: &mut [SlotState],
        slot: SlotNumber,
        image: &[u8],
        pace: Pace,
    ) -> Option<InFlight> {
        let at = self.offset_of(slot, 0);
        if let Some(state) = self.state(states, slot) {
            state.written_whole = true;
        }
        self.note_stored(at, image.len());
        match pace {
            Pace::AtOnce => Some(self.data.write(site::IMAGE, at, image)),
            Pace::Deferred => {
                let Dirty { .. } = self.data.store(site::DEFERRED, at, image);
                self.note_dirty(states, slot, 0, image.len());
                None
            }
        }
    }

    /// How many bytes [`rewrite`](Self::rewrite) will write, as far as a sample tells.
    pub(crate) fn bytes_to_rewrite(
        &self,
        states: &[SlotState],
        rewrite: &Rewrite<'_, impl Policy>,
    ) -> u64 {
        let Rewrite { slot, image, policy } = *rewrite;
        let all = self.block_bytes as u64;
        let state = states.get(self.index(slot));
        let is_written_whole = state.is_some_and(|state| state.written_whole);
        let Some(samples) = self.samples(slot, image).filter(|_| is_written_whole) else {
            return all;
        };
        // A policy that writes what is there already writes all.
        let mut writes_all = false;
        policy.rewrite_slot(image, image, &mut |_| writes_all = true);
        if writes_all {
            return all;
        }
        // A single one may be a header.
        let differing = samples.filter(|differs| *differs).skip(1).count();
        (self.block_bytes / SAMPLED_WORDS).saturating_mul(differing) as u64
    }

    /// In which words of a sample a newer version differs from what a slot holds. `None` where that
    /// cannot be read, or is short.
    fn samples(&self, slot: SlotNumber, image: &[u8]) -> Option<impl Iterator<Item = bool>> {
        let older = self.data.bytes(self.offset_of(slot, 0), self.block_bytes).ok()?;
        samples(older, image)
    }

    /// Turns the older version in a slot into the newer one; a copy of the older one is made in
    /// `scratch`. Writes the bytes that the policy says, or all where the older one cannot be read,
    /// or may not be durable as it is. Each line is flushed once.
    pub(crate) fn rewrite(
        &mut self,
        states: &mut [SlotState],
        rewrite: Rewrite<'_, impl Policy>,
        scratch: &mut [u8],
        pace: Pace,
    ) -> Option<InFlight> {
        let Rewrite { slot, image, policy } = rewrite;
        // There is hardly a line that would stay as it is.
        if self.samples(slot, image).is_some_and(|mut samples| samples.all(|differs| differs)) {
            return self.write(states, slot, image, pace);
        }
        let older = scratch.get_mut(..self.block_bytes).unwrap_or_default();
        let is_written_whole = self.state(states, slot).is_some_and(|state| state.written_whole)
            || !self.data.keeps(Rule::SlotsWrittenWhole);
        if !is_written_whole || self.data.read_into(self.offset_of(slot, 0), older).is_err() {
            return self.write(states, slot, image, pace);
        }
        let mut in_flight: Option<InFlight> = None;
        // The bytes stored last, in whole lines: they may go on in the patch that comes next.
        let mut lines: (usize, usize) = (0, 0);
        let mut all: (usize, usize) = (usize::MAX, 0);
        policy.rewrite_slot(older, image, &mut |Patch { at, bytes }| {
            let (from, to) = (at as usize, (at as usize).saturating_add(bytes.len()));
            if bytes.is_empty() || to > self.block_bytes {
                debug_assert!(bytes.is_empty(), "a policy writes inside the block");
                return;
            }
            all = (all.0.min(from), all.1.max(to));
            let offset = self.offset_of(slot, from);
            self.note_stored(offset, bytes.len());
            if pace == Pace::AtOnce && bytes.len() == self.block_bytes {
                in_flight = Some(self.data.write(site::IMAGE, offset, bytes));
                return;
            }
            if pace == Pace::Deferred {
                let Dirty { .. } = self.data.store(site::DEFERRED, offset, bytes);
                return;
            }
            let first = from.checked_div(LINE_BYTES).unwrap_or(0).saturating_mul(LINE_BYTES);
            if first > lines.1 {
                Self::flush_lines(&mut self.data, slot_start(offset, from), lines, &mut in_flight);
                lines = (first, first);
            }
            let Dirty { .. } = self.data.store(site::REWRITE, offset, bytes);
            lines.1 = lines.1.max(to.next_multiple_of(LINE_BYTES));
        });
        match pace {
            Pace::AtOnce => {
                let start = self.offset_of(slot, 0);
                Self::flush_lines(&mut self.data, start, lines, &mut in_flight);
            }
            Pace::Deferred if all.1 > 0 => {
                self.note_dirty(states, slot, all.0, all.1);
            }
            Pace::Deferred => {}
        }
        in_flight
    }

    fn flush_lines(
        data: &mut Ordered<P, H>,
        start: Offset,
        lines: (usize, usize),
        in_flight: &mut Option<InFlight>,
    ) {
        let (from, to) = lines;
        if to > from {
            let at = Offset(start.raw().saturating_add(from as u64));
            let flushed = data.flush_found(site::REWRITE_FLUSH, at, to.saturating_sub(from));
            InFlight::join(in_flight, flushed);
        }
    }

    /// Stores pieces of an image in a slot that no record names yet; they are flushed with the
    /// record that will.
    pub(crate) fn patch<'b>(
        &mut self,
        states: &mut [SlotState],
        slot: SlotNumber,
        pieces: impl Iterator<Item = Patch<'b>>,
    ) {
        for Patch { at, bytes } in pieces {
            let (from, to) = (at as usize, (at as usize).saturating_add(bytes.len()));
            if !bytes.is_empty() && to <= self.block_bytes {
                let offset = self.offset_of(slot, from);
                self.note_stored(offset, bytes.len());
                let Dirty { .. } = self.data.store(site::DEFERRED, offset, bytes);
                self.note_dirty(states, slot, from, to);
            }
        }
    }

    /// Stores an image in a slot that no record names, nor will. Nothing makes it durable.
    pub(crate) fn fill(&mut self, states: &mut [SlotState], slot: SlotNumber, image: &[u8]) {
        if image.len() != self.block_bytes {
            debug_assert!(false, "a slot holds a block");
            return;
        }
        if let Some(state) = self.state(states, slot) {
            state.written_whole = false;
        }
        self.note_stored(self.offset_of(slot, 0), image.len());
        let Dirty { .. } = self.data.store(site::CLEAN, self.offset_of(slot, 0), image);
    }

    /// Stores pieces of an image in a slot that no record names yet, and flushes their lines.
    pub(crate) fn patch_at_once<'b>(
        &mut self,
        slot: SlotNumber,
        pieces: impl Iterator<Item = Patch<'b>>,
    ) -> Option<InFlight> {
        let mut in_flight = None;
        for Patch { at, bytes } in pieces {
            let (from, to) = (at as usize, (at as usize).saturating_add(bytes.len()));
            if !bytes.is_empty() && to <= self.block_bytes {
                self.note_stored(self.offset_of(slot, from), bytes.len());
                let stored = self.data.store(site::SPILLED, self.offset_of(slot, from), bytes);
                InFlight::join(&mut in_flight, self.data.flush(site::SPILLED_FLUSH, stored));
            }
        }
        in_flight
    }

    /// Makes spilled content durable. No record depends on that before one names it.
    pub(crate) fn fence_spilled(
        &mut self,
        in_flight: InFlight,
    ) -> Result<Durable<()>, MediumError> {
        self.data.fence(site::SPILLED_FENCE, in_flight)
    }

    /// Puts a slot on the list of those that wait to be flushed.
    fn note_dirty(&mut self, states: &mut [SlotState], slot: SlotNumber, from: usize, to: usize) {
        let (from, to) = (from as u32, to as u32);
        let dirty = self.dirty;
        let Some(state) = self.state(states, slot) else { return };
        if state.dirty.1 > 0 {
            state.dirty = (state.dirty.0.min(from), state.dirty.1.max(to));
            return;
        }
        state.dirty = (from, to);
        state.next = dirty;
        self.dirty = slot.raw();
    }

    /// Flushes what was written for deferred records.
    pub(crate) fn flush_dirty(&mut self, states: &mut [SlotState]) -> Option<InFlight> {
        let mut in_flight = None;
        while self.dirty != NONE {
            let slot = SlotNumber(self.dirty);
            let Some(state) = self.state(states, slot) else { break };
            let (from, to) = core::mem::take(&mut state.dirty);
            self.dirty = core::mem::replace(&mut state.next, NONE);
            let len = to.saturating_sub(from) as usize;
            let at = self.offset_of(slot, from as usize);
            let flushed = self.data.flush_found(site::DEFERRED_FLUSH, at, len);
            InFlight::join(&mut in_flight, flushed);
        }
        in_flight
    }

    /// Flushes a whole slot that a process which is no more may have written.
    pub(crate) fn flush_found(&mut self, slot: SlotNumber) -> InFlight {
        self.data.flush_found(site::FOUND, self.offset_of(slot, 0), self.block_bytes)
    }

    /// Flushes all entries, whole or void, that a process which is no more may have written.
    pub(crate) fn flush_entries_found(&mut self) -> InFlight {
        let len = usize::try_from(self.entries.len()).unwrap_or(usize::MAX);
        self.entries.flush_found(site::FOUND, Offset(0), len)
    }

    /// Copies what a slot holds.
    pub(crate) fn read(&self, slot: SlotNumber, into: &mut [u8]) -> Result<(), MediumError> {
        self.data.read_into(self.offset_of(slot, 0), into)
    }

    /// The check of what a slot holds.
    pub(crate) fn content(
        &self,
        slot: SlotNumber,
        kernels: &impl Kernels,
        seeds: CheckSeeds,
    ) -> Result<u64, MediumError> {
        let bytes = self.data.bytes(self.offset_of(slot, 0), self.block_bytes)?;
        Ok(kernels.crc64(seeds.content(slot), bytes))
    }

    /// Reads an entry. Poison is an error: nothing tells whether a frame says the same.
    pub(crate) fn entry(
        &self,
        slot: SlotNumber,
        kernels: &impl Kernels,
        seeds: CheckSeeds,
    ) -> Result<FoundEntry, MediumError> {
        let mut entry = SlotEntry::new(BlockNumber(0), Stamp(0), 0);
        self.entries.read_into(self.entry_offset(slot), entry.as_mut_bytes())?;
        Ok(entry.found(kernels, seeds.entry(slot)))
    }

    /// Writes an entry (S2); a fence makes it durable.
    pub(crate) fn write_entry(
        &mut self,
        slot: SlotNumber,
        folded: &Folded,
        kernels: &impl Kernels,
        seeds: CheckSeeds,
    ) -> InFlight {
        let Folded { block, stamp, content } = *folded;
        let mut entry = SlotEntry::new(block, stamp, content);
        entry.check = entry.right_check(kernels, seeds.entry(slot)).into();
        let offset = self.entry_offset(slot);
        self.note_entry(offset, ENTRY_BYTES);
        self.entries.write(site::ENTRY, offset, entry.as_bytes())
    }

    /// Voids an entry, by one word; a fence makes it durable.
    pub(crate) fn void_entry(&mut self, slot: SlotNumber) -> InFlight {
        let word = ENTRY_BYTES.saturating_sub(WORD_BYTES) as u64;
        let at = Offset(self.entry_offset(slot).raw().saturating_add(word));
        self.note_entry(at, WORD_BYTES);
        let void = self.entries.store_u64(site::VOID, at, 0);
        self.entries.flush(site::VOID_FLUSH, void)
    }

    /// Makes what is in flight durable: entries written.
    pub(crate) fn fence_entries(
        &mut self,
        in_flight: InFlight,
    ) -> Result<Durable<()>, MediumError> {
        self.entries.fence(site::ENTRY_FENCE, in_flight)
    }

    /// Makes what is in flight durable: entries voided.
    pub(crate) fn fence_voids(&mut self, in_flight: InFlight) -> Result<Durable<()>, MediumError> {
        self.entries.fence(site::VOID_FENCE, in_flight)
    }
}

/// Words of two versions that are looked at before all of the older one is read.
const SAMPLED_WORDS: usize = 16;

/// How much further into its part of a block each sampled word lies than the one before. An odd
/// number of words, so that all places in a line take turns.
const STAGGER_BYTES: usize = 5 * WORD_BYTES;

/// In which words of a sample two versions differ. `None` for short ones.
fn samples(older: &[u8], newer: &[u8]) -> Option<impl Iterator<Item = bool>> {
    let step = newer.len() / SAMPLED_WORDS;
    if step < LINE_BYTES || older.len() != newer.len() {
        return None;
    }
    let word = |image: &[u8], at: usize| image.get(at..)?.first_chunk::<WORD_BYTES>().copied();
    // Staggered: in objects of one size, each is another field.
    let all = (0..SAMPLED_WORDS).map(move |sample| {
        let apart = sample.saturating_mul(STAGGER_BYTES).checked_rem(step).unwrap_or(0);
        sample.saturating_mul(step).saturating_add(apart)
    });
    Some(all.map(move |at| word(older, at) != word(newer, at)))
}

/// Where a slot begins, from an offset in it.
fn slot_start(offset: Offset, at: usize) -> Offset {
    Offset(offset.raw().saturating_sub(at as u64))
}

/// A slot to be rewritten.
pub(crate) struct Rewrite<'a, L> {
    pub(crate) slot: SlotNumber,
    pub(crate) image: &'a [u8],
    pub(crate) policy: &'a L,
}

/// What an entry is to say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folded {
    pub(crate) block: BlockNumber,
    pub(crate) stamp: Stamp,
    pub(crate) content: u64,
}

/// Makes all entries of a new journal void.
pub(crate) fn void_all<P: Pmem, H: Hook>(
    whole: &mut Ordered<P, H>,
    geometry: &Geometry,
) -> Result<(), MediumError> {
    let mut at = geometry.slot_entries().raw();
    let end = geometry.first_slot().raw();
    let mut in_flight = None;
    while at < end {
        let voided = whole.write(site::FIRST, Offset(at), &[0; LINE_BYTES]);
        InFlight::join(&mut in_flight, voided);
        at = at.saturating_add(LINE_BYTES as u64);
    }
    if let Some(in_flight) = in_flight {
        let Durable { .. } = whole.fence(site::FIRST_FENCE, in_flight)?;
    }
    Ok(())
}

/// Reads slots beside their writer.
#[derive(Clone, Debug)]
pub(crate) struct SlotReader<R> {
    data: R,
    first: u32,
    block_bytes: usize,
}

impl<P: PmemShare, H> Slots<P, H> {
    pub(crate) fn reader(&self) -> SlotReader<P::Reader> {
        SlotReader { data: self.data.reader(), first: self.first, block_bytes: self.block_bytes }
    }
}

impl<R: PmemRead> SlotReader<R> {
    pub(crate) fn read(&self, slot: SlotNumber, into: &mut [u8]) -> Result<(), MediumError> {
        self.data.read_into(self.offset_of(slot), into)
    }

    /// Begins to bring the first bytes of a slot into the caches.
    pub(super) fn prefetch(&self, slot: SlotNumber, most_bytes: usize) {
        self.data.prefetch(self.offset_of(slot), self.block_bytes.min(most_bytes));
    }

    fn offset_of(&self, slot: SlotNumber) -> Offset {
        let index = u64::from(slot.raw().saturating_sub(self.first));
        Offset(index.saturating_mul(self.block_bytes as u64))
    }
}
