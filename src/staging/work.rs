//! The memory that one transaction works in.

use core::time::Duration;
use std::time::Instant;

use journal_core::parts::{Decided, Names, Scratch};
use journal_core::units::{LaneNumber, SlotNumber, Stamp};
use journal_core::{Batched, BlockNumber, Durability, Geometry, Needs};
use pmem_sys::StoreLockGuard;

use crate::threads::block_locks::Stripe;

/// Room that a transaction needs at one time, to go further than it has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wants {
    /// Bytes of a lane, any lane.
    pub(crate) bytes: u64,
    /// In shares of the index, each share once.
    pub(crate) shares: Vec<WantedInShare>,
}

/// What is wanted in the share of the index that has this block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedInShare {
    pub(crate) block: BlockNumber,
    pub(crate) frames: usize,
    /// Blocks that may have to be pinned.
    pub(crate) pins: usize,
}

/// What a transaction holds, and the memory where it is prepared. The blocks of a few operations in
/// one call are not here.
#[derive(Debug)]
pub(crate) struct Work {
    front: Vec<u8>,
    pub(super) encoded: Vec<u8>,
    decided: Box<Decided>,
    /// The lane of the transaction under way.
    pub(crate) lane: LaneNumber,
    /// The words of its blocks in the table of locks.
    pub(crate) held: Vec<Stripe>,
    /// Its blocks that are locked beside that table.
    pub(crate) held_beside: Vec<BlockNumber>,
    pub(crate) names: Names,
    /// A stamp at or above those of everything that is overwritten and lies in other lanes.
    pub(crate) overwritten: Stamp,
    /// Bytes of the lane that are reserved.
    pub(crate) reserved_bytes: u64,
    /// Slots of the lane that are reserved.
    pub(crate) reserved_slots: u32,
    /// Blocks of the disk-side log that the transaction has reserved and not taken yet.
    pub(crate) reserved_log: u32,
    /// Whether the bytes that are reserved suffice only if data goes to the disk-side log.
    pub(crate) bypasses: bool,
    /// Whether its frames are taken in before it is stored. A share of its blocks was taken by an
    /// exchange, and so will be again.
    pub(crate) takes_in_first: bool,
    /// When the transaction waits no longer, if it may not wait for ever.
    pub(crate) until: Option<Instant>,
    /// Whether the transaction has touched a block that was gathered and not committed.
    pub(crate) on_gathered: bool,
    /// Whether all old images that were to be lent to the policy were there.
    pub(crate) is_lent_all: bool,
    /// A call of as many operations as this was prepared on loans in vain, mostly since its record
    /// has several parts, and the policy is asked again (L3). Others as long copy at once.
    pub(crate) copies_from: usize,
    /// Whether a record was left unfenced here since the last durable commit.
    pub(crate) defers: bool,
    /// Whether the lane has no room, and will have none: the next transaction takes another.
    pub(crate) leaves_lane: bool,
    /// Room that the transaction was short of, in all its tries.
    pub(crate) wants: Option<Box<Wants>>,
    /// Whether the transaction gave up for want of room.
    pub(crate) is_short: bool,
    /// Whether long chains of frames go on: images of all its blocks would take too much of a lane.
    pub(crate) keeps_chains: bool,
    /// Room in the index for frames that is reserved for the transaction, beside that of its
    /// operations: how much, in the share of a block.
    pub(crate) granted_frames: Vec<(BlockNumber, usize)>,
    answers: Vec<Answer>,
    /// What the transaction has written to the disk-side log, with room for one of each operation.
    logged: Vec<Batched>,
}

impl Work {
    pub(crate) fn new(lane: LaneNumber, geometry: &Geometry) -> Self {
        let needs = Needs::of(geometry, 1);
        Self {
            front: vec![0; needs.record_front_bytes],
            encoded: vec![0; needs.encoded_bytes],
            decided: Box::new(Decided::EMPTY),
            lane,
            held: Vec::new(),
            held_beside: Vec::new(),
            names: Names::NONE,
            overwritten: Stamp(0),
            reserved_bytes: 0,
            reserved_slots: 0,
            reserved_log: 0,
            bypasses: false,
            logged: Vec::new(),
            takes_in_first: false,
            until: None,
            on_gathered: false,
            is_lent_all: true,
            copies_from: usize::MAX,
            defers: false,
            leaves_lane: false,
            wants: None,
            is_short: false,
            keeps_chains: false,
            granted_frames: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// The records to name, the memory to prepare in, and what is known of versions.
    pub(crate) fn for_preparing(&mut self) -> (&Names, Scratch<'_>, &mut Vec<Answer>) {
        let scratch = Scratch {
            front: &mut self.front,
            encoded: &mut self.encoded,
            decided: &mut self.decided,
            logged: &mut self.logged,
        };
        (&self.names, scratch, &mut self.answers)
    }

    /// The memory where the front of a record is made, and where its content is encoded.
    #[inline(always)]
    pub(crate) fn for_one(&mut self) -> (&mut [u8], &mut [u8]) {
        (&mut self.front, &mut self.encoded)
    }

    /// Slots of older versions that are held.
    pub(crate) fn held_slots(&self) -> impl Iterator<Item = (BlockNumber, SlotNumber)> + '_ {
        self.answers.iter().filter_map(Answer::held)
    }

    /// Makes room for what this number of operations writes to the disk-side log.
    pub(crate) fn make_room_to_log(&mut self, operations: usize) {
        if self.logged.len() < operations {
            self.logged.resize(operations, Batched::EMPTY);
        }
    }

    /// Whether the transaction has blocks.
    #[inline]
    pub(crate) fn has_blocks(&self) -> bool {
        !self.held.is_empty() || !self.held_beside.is_empty()
    }

    /// Whether the transaction has one block, and no more.
    #[inline]
    pub(crate) fn has_one_block(&self) -> bool {
        self.held.len() + self.held_beside.len() == 1
    }

    /// Whether the transaction has room that others may wait for. The frames of its operations do
    /// not count.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.reserved_bytes > 0 || !self.granted_frames.is_empty()
    }

    /// How long the transaction may wait yet: `None` for ever, and zero not at all.
    pub(crate) fn may_wait(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Whether the transaction may not wait any longer.
    #[cold]
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.may_wait() == Some(Duration::ZERO)
    }

    /// Begins a new transaction: what another one was short of does not matter to it.
    #[inline]
    pub(crate) fn forget_wants(&mut self) {
        if self.wants.is_some() || self.is_short {
            (self.wants, self.is_short) = (None, false);
        }
    }

    /// Notes how a share of its blocks was taken.
    #[inline]
    pub(crate) fn note_if_by_exchange<T>(&mut self, share: &StoreLockGuard<'_, T>) {
        if !share.is_by_favour() {
            self.takes_in_first = true;
        }
    }

    /// Notes that a commit begins. The store is mostly saved: stores behind a fence wait for it.
    #[inline(always)]
    pub(crate) fn begins_to_commit(&mut self, durability: Durability) {
        if durability == Durability::Durable && self.defers {
            self.defers = false;
        }
    }

    /// Forgets everything: the transaction holds nothing any more.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.held_beside.clear();
        self.names.clear();
        self.overwritten = Stamp(0);
        self.reserved_bytes = 0;
        (self.takes_in_first, self.on_gathered, self.bypasses) = (false, false, false);
        self.answers.clear();
    }
}

/// What was found out about one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) block: BlockNumber,
    pub(crate) older_slot: Option<Option<SlotNumber>>,
    pub(crate) may_go_home: Option<bool>,
}

impl Answer {
    /// The slot of an older version that is held, and the block it belongs to.
    pub(crate) fn held(&self) -> Option<(BlockNumber, SlotNumber)> {
        self.older_slot.flatten().map(|slot| (self.block, slot))
    }
}
