//! The hook of a process whose threads mark their calls.
//!
//! A call that locks its blocks by itself is marked when the first byte of its record is about to
//! be stored: then all its locks are held, and nothing refuses it any more.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;

use journal_core::{
    BlockDevice, BlockNumber, DeviceError, Hook, MediumError, Offset, Pmem, Rule, Site, SiteKind,
};
use sim_disk::{Mutator, World};

use lab::oracle::{BLOCKS, Change};

/// Where the first byte of a record is stored.
const RECORD: [&str; 4] = ["commit.image", "commit.front", "deferred.image", "deferred.front"];

/// A call that its thread is about to make.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) label: u64,
    pub(super) changes: Vec<(usize, Change)>,
}

thread_local! {
    static PENDING: Cell<Option<Pending>> = const { Cell::new(None) };
}

/// Which blocks a process has discarded, as of the calls that are marked.
#[derive(Debug, Default)]
pub(super) struct Known([AtomicBool; BLOCKS]);

impl Known {
    /// Whether a block is not live. It stays so for a caller that has locked it.
    pub(super) fn is_given_up(&self, block: usize) -> bool {
        self.0[block].load(Ordering::Acquire)
    }

    /// Notes a call, under the locks of its blocks.
    pub(super) fn note(&self, changes: &[(usize, Change)]) {
        for (block, change) in changes.iter().filter(|(_, change)| *change != Change::Read) {
            self.0[*block].store(*change == Change::Discard, Ordering::Release);
        }
    }
}

/// What ends a case that does not end by itself; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch(Arc<AtomicBool>);

impl Watch {
    /// From now on every step of persistence panics.
    pub(super) fn end(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The mutating hook, which marks calls.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    mutator: Mutator,
    world: World,
    known: Arc<Known>,
    watch: Watch,
    /// Whether other threads are let in at each fence.
    yields: Arc<AtomicBool>,
}

impl Marks {
    pub(super) fn new(mutator: Mutator, world: World, known: Arc<Known>, watch: Watch) -> Self {
        Self { mutator, world, known, watch, yields: Arc::default() }
    }

    /// This thread marks a call when it stores its record.
    pub(super) fn await_record(pending: Pending) {
        PENDING.set(Some(pending));
    }

    /// Ends that; returns whether the call was marked.
    pub(super) fn is_marked() -> bool {
        PENDING.take().is_none()
    }

    pub(super) fn yields(&self, on: bool) {
        self.yields.store(on, Ordering::Release);
    }

    fn pass(&self, site: Site) {
        assert!(!self.watch.has_ended(), "the case has taken too long");
        if RECORD.contains(&site.name) {
            if let Some(pending) = PENDING.take() {
                self.known.note(&pending.changes);
                self.world.called(pending.label);
            }
        }
        if site.kind == SiteKind::Fence && self.yields.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

impl Hook for Marks {
    fn keeps(&self, rule: Rule) -> bool {
        self.mutator.keeps(rule)
    }

    fn store<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.pass(site);
        self.mutator.store(site, pmem, at, bytes);
    }

    fn store_u64<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, value: u64) {
        self.pass(site);
        self.mutator.store_u64(site, pmem, at, value);
    }

    fn flush<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, len: usize) {
        self.pass(site);
        self.mutator.flush(site, pmem, at, len);
    }

    fn stream<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.pass(site);
        self.mutator.stream(site, pmem, at, bytes);
    }

    fn stitches(&self) -> bool {
        self.mutator.stitches()
    }

    fn write_piece<P: Pmem>(
        &mut self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        whole_bytes: u64,
    ) {
        self.pass(site);
        self.mutator.write_piece(site, pmem, at, bytes, whole_bytes);
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        self.pass(site);
        self.mutator.fence(site, pmem)
    }

    fn disk_write<D: BlockDevice>(
        &mut self,
        site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        self.pass(site);
        self.mutator.disk_write(site, device, first, from)
    }

    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        self.pass(site);
        self.mutator.disk_sync(site, device)
    }
}
