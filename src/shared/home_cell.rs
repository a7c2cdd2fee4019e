//! The home of blocks and the memory of upkeeps, each behind a lock that is taken for one step.
//!
//! A checkpoint takes both anew for each of its steps, and holds nothing between two steps: each
//! begins with a look at what there is. So no thread waits for a whole checkpoint:
//!
//! - A transaction that needs room takes the upkeep between two steps, and makes its room itself.
//! - An append whose block a batch has takes what writes home between two steps. Other appends do
//!   not need it ([`appends`]).
//!
//! IT1. Threads that come first ([`InTurn::lock_first`]) have their turns in the order in which
//!     they asked. Every other thread waits behind all that had asked when it came.

pub(crate) mod appends;
pub(crate) mod one_sync;

use core::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use journal_core::parts::{Home, Left, Listed, WEAR_PARTS, WaitingLeft};
use journal_core::units::Stamp;
use journal_core::{Batched, BlockDevice, BlockNumber, Geometry, Hook, Needs, Pmem, Scope};

use crate::shared::home_cell::one_sync::DiskOf;
use crate::threads::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};

/// The fewest and the most frames in the list of a checkpoint in steps, and which part of all
/// frames it has in between. None has room for more than the index. One pass over the index makes a
/// list.
const LISTED: (usize, usize) = (1 << 12, 1 << 15);
const LISTED_PART: usize = 8;

/// A checkpoint that was ended behind a batch, so that another one can go on with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) scope: Scope,
    /// Which of the blocks that were found are not written yet.
    pub(crate) listed: WaitingLeft,
    /// How many blocks were still to be written.
    pub(crate) left: u64,
}

/// The memory that an upkeep works in: a checkpoint, or what frees room in memory.
pub(crate) struct UpkeepCell {
    pub(crate) batch: Vec<Batched>,
    pub(crate) front: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) blocks: Vec<u8>,
    /// Blocks that are found and not written yet.
    pub(crate) waiting: Vec<BlockNumber>,
    /// The last checkpoint, if it was ended behind a batch.
    pub(crate) cut: Option<Cut>,
    /// The frames nearest to the heads, and which of them are left.
    pub(crate) oldest: Vec<Listed>,
    pub(crate) left: Left,
    /// The frames behind the oldest, as far as they were found.
    pub(crate) coming: Vec<Listed>,
    pub(crate) left_of_coming: Left,
    /// Blocks in slots, those that were changed longest ago, and which of them are left.
    pub(crate) in_slots: Vec<Listed>,
    pub(crate) left_in_slots: Left,
    /// Pinned blocks that are evicted next, with their stamps, the first ones last.
    pub(crate) to_evict: Vec<(Stamp, BlockNumber)>,
    /// The number of the node, of all the indexes, from which on superseded versions are looked
    /// for.
    pub(crate) next_node: usize,
    /// How far the lanes could be read, and how many appends had ended, when everything was tried
    /// to make room, and nothing came free. Until one of both goes on, nothing will come free.
    pub(crate) in_vain: Option<u64>,
    /// How many frames the index has room for.
    frames_max: usize,
}

impl UpkeepCell {
    /// For batches of this many blocks, writes of this many, and an index with room for this many
    /// frames.
    pub(crate) fn new(
        geometry: &Geometry,
        (batch, written): (usize, usize),
        frames_max: usize,
    ) -> Self {
        let needs = Needs::of(geometry, 1);
        Self {
            batch: vec![Batched::EMPTY; batch],
            front: vec![0; needs.front_bytes],
            payload: vec![0; needs.encoded_bytes],
            blocks: vec![0; written * geometry.block_size.bytes()],
            waiting: Vec::new(),
            cut: None,
            oldest: Vec::new(),
            left: Left::NONE,
            coming: Vec::new(),
            left_of_coming: Left::NONE,
            in_slots: Vec::new(),
            left_in_slots: Left::NONE,
            to_evict: Vec::new(),
            next_node: 0,
            in_vain: None,
            frames_max,
        }
    }

    /// The memory for the list of blocks in slots. A list of a part of the index has less of it.
    pub(crate) const fn slots_listed(all_slots: bool) -> usize {
        if all_slots { usize::MAX } else { LISTED.0 }
    }

    /// Makes the lists larger, where the index has `frames` frames. `all_slots` says whether one of
    /// blocks in slots is to be of the whole index.
    pub(crate) fn see_to_lists(&mut self, frames: usize, has_slots: bool, all_slots: bool) {
        let (least, most) = LISTED;
        let wanted = (frames / LISTED_PART).clamp(least, most).min(self.frames_max);
        if self.oldest.len() < wanted {
            self.oldest.resize(wanted, Listed::EMPTY);
            self.coming.resize(wanted, Listed::EMPTY);
        }
        let of_slots = if all_slots { wanted } else { least.min(self.frames_max) };
        if has_slots && self.in_slots.len() < of_slots {
            self.in_slots.resize(of_slots, Listed::EMPTY);
        }
    }
}

/// What writes home: taken for one step of an upkeep.
pub(crate) type HomeCell<M> =
    InTurn<Home<<M as journal_core::Machine>::Pmem, DiskOf<M>, <M as journal_core::Machine>::Hook>>;

/// What is counted of something that one thread has at a time: four numbers, and one for each part
/// of a region.
pub(crate) type Counted = [u64; 4 + WEAR_PARTS];

/// Bytes and lines stored in the shield area, and in the superblocks; and the lines of each part of
/// the shield area.
pub(crate) fn stored_of<P: Pmem, D: BlockDevice, H: Hook>(home: &Home<P, D, H>) -> Counted {
    let (shield, superblocks) = (home.stored_shield(), home.stored_superblocks());
    let mut counted = [0; 4 + WEAR_PARTS];
    let (first, wear) = counted.split_at_mut(4);
    first.copy_from_slice(&[shield.bytes, shield.lines, superblocks.bytes, superblocks.lines]);
    wear.copy_from_slice(&home.shield_wear());
    counted
}

/// Something that one thread has at a time, where some threads come before others (IT1).
pub(crate) struct InTurn<T> {
    inside: Mutex<Inside<T>>,
    /// Threads that have asked to come first.
    asked: AtomicU64,
    /// The first of them: these are through, or came before the one that has it in hand.
    let_first: AtomicU64,
    /// Wakes those that wait for them.
    is_served: Condvar,
    /// What it had stored when it was last given back, and what says so.
    stored: [AtomicU64; 4 + WEAR_PARTS],
    stored_of: fn(&T) -> Counted,
}

struct Inside<T> {
    it: T,
    /// Threads that had asked to come first, and are through.
    served: u64,
}

/// A thread has panicked with it in hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Poisoned;

impl<T> InTurn<T> {
    pub(crate) fn new(it: T, stored_of: fn(&T) -> Counted) -> Self {
        let stored = stored_of(&it).map(AtomicU64::new);
        let inside = Mutex::new(Inside { it, served: 0 });
        let [asked, let_first] = [0, 0].map(AtomicU64::new);
        Self { inside, asked, let_first, is_served: Condvar::new(), stored, stored_of }
    }

    /// What it had stored when it was last given back. No lock is taken.
    pub(crate) fn stored(&self) -> Counted {
        self.stored.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Takes it, behind all threads that have asked to come first.
    pub(crate) fn lock_behind(&self) -> Result<Held<'_, T>, Poisoned> {
        let asked = self.asked();
        let inside = Some(self.lock_after(asked)?);
        self.let_first.store(asked, Ordering::Relaxed);
        Ok(Held { of: self, inside, is_first: false })
    }

    /// Takes it, before all threads that have not asked to come first.
    pub(crate) fn lock_first(&self) -> Result<Held<'_, T>, Poisoned> {
        let before = self.asked.fetch_add(1, Ordering::Relaxed);
        let inside = Some(self.lock_after(before)?);
        self.let_first.store(before + 1, Ordering::Relaxed);
        Ok(Held { of: self, inside, is_first: true })
    }

    /// How many threads have asked to come first.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether a thread has asked to come first since the one that has it in hand took it, or last
    /// let others go first. For that thread.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.asked() > self.let_first.load(Ordering::Relaxed)
    }

    fn lock_after(&self, others: u64) -> Result<MutexGuard<'_, Inside<T>>, Poisoned> {
        let mut inside = self.inside.lock().map_err(|_| Poisoned)?;
        while inside.served < others {
            inside = self.is_served.wait(inside).map_err(|_| Poisoned)?;
        }
        Ok(inside)
    }
}

/// What [`InTurn`] guards, in the hand of one thread.
pub(crate) struct Held<'c, T> {
    of: &'c InTurn<T>,
    /// `None` only while it is handed on.
    inside: Option<MutexGuard<'c, Inside<T>>>,
    is_first: bool,
}

impl<T> Held<'_, T> {
    /// Lets the threads go first that have asked to. It is in hand again afterwards, even where one
    /// of them has panicked.
    pub(crate) fn let_others_first(&mut self) -> Result<(), Poisoned> {
        let asked = self.of.asked();
        let served = self.inside.as_ref().map_or(0, |inside| inside.served);
        if served + u64::from(self.is_first) >= asked {
            return Ok(());
        }
        self.give_back();
        match self.of.lock_after(asked) {
            Ok(inside) => {
                self.of.let_first.store(asked, Ordering::Relaxed);
                self.inside = Some(inside);
                Ok(())
            }
            Err(poisoned) => {
                let left = self.of.inside.lock().unwrap_or_else(PoisonError::into_inner);
                self.inside = Some(left);
                Err(poisoned)
            }
        }
    }

    fn give_back(&mut self) {
        let Some(mut inside) = self.inside.take() else { return };
        for (count, now) in self.of.stored.iter().zip((self.of.stored_of)(&inside.it)) {
            count.store(now, Ordering::Relaxed);
        }
        if core::mem::take(&mut self.is_first) {
            inside.served += 1;
            self.of.is_served.notify_all();
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inside.as_ref().expect("in hand").it
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inside.as_mut().expect("in hand").it
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.give_back();
    }
}
