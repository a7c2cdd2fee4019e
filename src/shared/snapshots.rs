//! Snapshots that are open: what they see is neither forgotten nor overwritten.
//!
//! SN1. A snapshot sees the records with stamps up to its own, and no others. Its stamp is at or
//!      above those of all records that were stored when it began. All later ones are above it:
//!      it takes all lanes, and each is told so before it is given back. A transaction that has
//!      read another one is stored behind it. So none is seen without those that it builds on.
//! SN2. From before the first lane is looked at, no commit forgets a frame, takes an older slot or
//!      writes an append over a discarded block, for as long as a snapshot is kept.
//! SN3. Everything else that removes frames, or writes home, is an upkeep. It ends all snapshots
//!      before it begins. A reader looks behind its read whether its snapshot was ended: then what
//!      it has read counts for nothing.
//!
//! So a snapshot takes no memory of its own. What it costs is room in the rings and in the index
//! that does not come free meanwhile, and it ends where that room is needed.

use journal_core::units::Stamp;

use crate::threads::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};

/// The snapshots of a journal.
#[derive(Debug)]
pub(crate) struct Snapshots {
    /// How many are open and were not ended.
    kept: AtomicUsize,
    /// Snapshots with lower numbers than this were ended.
    ended_below: AtomicU64,
    begun: Mutex<Begun>,
}

#[derive(Debug, Default)]
struct Begun {
    /// The number of the next one.
    next: u64,
    /// How many an upkeep has ended.
    ended: u64,
}

/// One snapshot.
#[derive(Debug)]
pub(crate) struct Opened {
    number: u64,
    /// The highest stamp that it sees.
    pub(crate) stamp: Stamp,
}

impl Snapshots {
    pub(crate) fn none() -> Self {
        Self {
            kept: AtomicUsize::new(0),
            ended_below: AtomicU64::new(0),
            begun: Mutex::new(Begun::default()),
        }
    }

    /// Keeps what a snapshot sees that begins now (SN2). No upkeep runs meanwhile.
    pub(crate) fn open(&self) -> Opened {
        let mut begun = self.lock();
        let number = begun.next;
        begun.next += 1;
        self.kept.fetch_add(1, Ordering::SeqCst);
        Opened { number, stamp: Stamp(0) }
    }

    /// Whether any is kept.
    #[inline(always)]
    pub(crate) fn are_kept(&self) -> bool {
        // Pairs with the swap in `end_all`.
        self.kept.load(Ordering::Acquire) > 0
    }

    /// Whether an upkeep has ended one.
    pub(crate) fn is_ended(&self, opened: &Opened) -> bool {
        opened.number < self.ended_below.load(Ordering::Acquire)
    }

    /// Ends all of them, before an upkeep removes or overwrites anything (SN3).
    pub(crate) fn end_all(&self) {
        if !self.are_kept() {
            return;
        }
        let mut begun = self.lock();
        // In this order: a commit that finds none kept forgets what they see, and a reader that
        // finds it forgotten has to find its snapshot ended.
        self.ended_below.store(begun.next, Ordering::Release);
        begun.ended += self.kept.swap(0, Ordering::SeqCst) as u64;
    }

    /// Lets go what one has kept.
    pub(crate) fn close(&self, opened: &Opened) {
        let _begun = self.lock();
        if !self.is_ended(opened) {
            self.kept.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// How many are kept now, and how many an upkeep has ended so far.
    pub(crate) fn counts(&self) -> (usize, u64) {
        let begun = self.lock();
        (self.kept.load(Ordering::Relaxed), begun.ended)
    }

    fn lock(&self) -> crate::threads::sync::MutexGuard<'_, Begun> {
        // Nothing panics with it in hand.
        self.begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
