//! What writes home, behind two locks: one for a whole upkeep, and one for each step of it.
//!
//! Appended blocks go home in the middle of a commit, which must not wait for a whole checkpoint.
//! So a checkpoint takes what writes home anew for each batch, and appends that have asked for it
//! by then go first ([`HomeCell::lock_for_step`]). Nothing of a checkpoint is held between two of
//! its batches: each begins with a look at what there is.

use journal_core::parts::Home;
use journal_core::{Batched, BlockDevice, BlockNumber, Geometry, Hook, Needs, Pmem};

use crate::machine::Machine;
use crate::threads::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};

/// The memory that an upkeep works in: a checkpoint, or what frees room in memory.
pub(crate) struct UpkeepCell {
    pub(crate) batch: Vec<Batched>,
    pub(crate) front: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) blocks: Vec<u8>,
    /// Blocks that are found and not written yet.
    pub(crate) waiting: Vec<BlockNumber>,
    /// How far the lanes could be read when everything was tried to make room, and nothing came
    /// free. Until the lanes go on, nothing will come free.
    pub(crate) in_vain: Option<u64>,
}

impl UpkeepCell {
    /// For batches of this many blocks, and writes of this many.
    pub(crate) fn new(geometry: &Geometry, (batch, written): (usize, usize)) -> Self {
        let needs = Needs::of(geometry, 1);
        Self {
            batch: vec![Batched::EMPTY; batch],
            front: vec![0; needs.front_bytes],
            payload: vec![0; needs.encoded_bytes],
            blocks: vec![0; written * geometry.block_size.bytes()],
            waiting: Vec::new(),
            in_vain: None,
        }
    }
}

/// What writes home: taken for one step of an upkeep, or for the appends of a commit.
pub(crate) struct HomeCell<M: Machine> {
    inside: Mutex<Inside<M>>,
    /// Commits that have asked for it.
    asked: AtomicU64,
    /// Wakes a step that waits for them.
    is_served: Condvar,
    /// Bytes and lines stored in the shield area, and in the superblocks.
    stored: [AtomicU64; 4],
}

struct Inside<M: Machine> {
    home: Home<M::Pmem, M::Disk, M::Hook>,
    /// Commits that had asked for it, and are through.
    served: u64,
}

/// A thread has panicked with what writes home in hand.
pub(crate) struct Poisoned;

impl<M: Machine> HomeCell<M> {
    pub(crate) fn new(home: Home<M::Pmem, M::Disk, M::Hook>) -> Self {
        let stored = stored_of(&home).map(AtomicU64::new);
        let inside = Mutex::new(Inside { home, served: 0 });
        Self { inside, asked: AtomicU64::new(0), is_served: Condvar::new(), stored }
    }

    /// Takes it for a step of an upkeep, behind all commits that have asked for it.
    pub(crate) fn lock_for_step(&self) -> Result<HeldHome<'_, M>, Poisoned> {
        let asked = self.asked.load(Ordering::Relaxed);
        let mut inside = self.inside.lock().map_err(|_| Poisoned)?;
        while inside.served < asked {
            inside = self.is_served.wait(inside).map_err(|_| Poisoned)?;
        }
        Ok(HeldHome { inside, serves: None, stored: &self.stored })
    }

    /// What was stored in the shield area and in the superblocks, when it was last given back. No
    /// lock is taken.
    pub(crate) fn stored(&self) -> [u64; 4] {
        self.stored.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Takes it for a commit.
    pub(crate) fn lock_for_commit(&self) -> Result<HeldHome<'_, M>, Poisoned> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let inside = self.inside.lock().map_err(|_| Poisoned)?;
        Ok(HeldHome { inside, serves: Some(&self.is_served), stored: &self.stored })
    }
}

/// What writes home, in hand.
pub(crate) struct HeldHome<'c, M: Machine> {
    inside: MutexGuard<'c, Inside<M>>,
    /// Whom the commit that has it lets go on afterwards.
    serves: Option<&'c Condvar>,
    stored: &'c [AtomicU64; 4],
}

impl<M: Machine> HeldHome<'_, M> {
    pub(crate) fn home(&mut self) -> &mut Home<M::Pmem, M::Disk, M::Hook> {
        &mut self.inside.home
    }
}

/// Bytes and lines stored in the shield area, and in the superblocks.
fn stored_of<P: Pmem, D: BlockDevice, H: Hook>(home: &Home<P, D, H>) -> [u64; 4] {
    let (shield, superblocks) = (home.stored_shield(), home.stored_superblocks());
    [shield.bytes, shield.lines, superblocks.bytes, superblocks.lines]
}

impl<M: Machine> Drop for HeldHome<'_, M> {
    fn drop(&mut self) {
        for (count, now) in self.stored.iter().zip(stored_of(&self.inside.home)) {
            count.store(now, Ordering::Relaxed);
        }
        if let Some(is_served) = self.serves {
            self.inside.served += 1;
            is_served.notify_all();
        }
    }
}
