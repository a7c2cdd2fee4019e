//! What a journal calls, counted: one of the calls panics.

use core::sync::atomic::{AtomicU32, Ordering};
use std::panic::resume_unwind;
use std::sync::Arc;

use journal_core::policy::{
    ApplyError, Change, Encoder, Patch, Placement, Policy, PolicyId, Prefix, Update,
};
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, Hook, MediumError, Offset, Pmem,
    Site,
};
use sim_disk::SimDisk;

pub(crate) const BLOCK: usize = 64;

/// Counts calls of the memory, the device and the policy of one journal; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fuse(Arc<AtomicU32>);

impl Fuse {
    /// The call panics that comes after `calls` others.
    pub(crate) fn light(&self, calls: u32) {
        self.0.store(calls, Ordering::SeqCst);
    }

    /// No call panics any more; returns whether one would have.
    pub(crate) fn put_out(&self) -> bool {
        self.0.swap(0, Ordering::SeqCst) > 0
    }

    fn burn(&self) {
        let left = self.0.load(Ordering::SeqCst);
        self.0.store(left.saturating_sub(1), Ordering::SeqCst);
        if left == 1 {
            resume_unwind(Box::new("on purpose"));
        }
    }

    pub(crate) fn device(&self, disk: SimDisk) -> Fused {
        Fused { disk, fuse: self.clone(), call: None }
    }

    pub(crate) fn policy(&self, logs: Logs) -> Ways {
        Ways { fuse: self.clone(), logs }
    }
}

impl Hook for Fuse {
    fn store<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.burn();
        pmem.store(at, bytes);
    }

    fn store_u64<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, value: u64) {
        self.burn();
        pmem.store_u64(at, value);
    }

    fn flush<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, len: usize) {
        self.burn();
        pmem.flush(at, len);
    }

    fn stream<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.burn();
        pmem.stream(at, bytes);
    }

    fn write_piece<P: Pmem>(
        &mut self,
        _site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        _whole_bytes: u64,
    ) {
        self.burn();
        pmem.stream(at, bytes);
    }

    fn fence<P: Pmem>(&mut self, _site: Site, pmem: &mut P) -> Result<(), MediumError> {
        self.burn();
        pmem.fence()
    }
}

/// A device whose calls count.
#[derive(Clone)]
pub(crate) struct Fused {
    disk: SimDisk,
    fuse: Fuse,
    /// Made before each read.
    call: Option<Call>,
}

type Call = Arc<dyn Fn(BlockNumber) + Send + Sync>;

impl Fused {
    /// This fuse, which also calls back before each read.
    pub(crate) fn calling(self, call: impl Fn(BlockNumber) + Send + Sync + 'static) -> Self {
        Self { call: Some(Arc::new(call)), ..self }
    }
}

impl BlockDevice for Fused {
    fn facts(&self) -> DeviceFacts {
        self.disk.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.disk.block_size()
    }

    fn block_count(&self) -> u64 {
        self.disk.block_count()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        if let Some(call) = &self.call {
            call(first);
        }
        self.fuse.burn();
        self.disk.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.fuse.burn();
        self.disk.write(first, from)
    }

    fn write_vectored(&mut self, first: BlockNumber, from: &[&[u8]]) -> Result<(), DeviceError> {
        self.fuse.burn();
        self.disk.write_vectored(first, from)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.fuse.burn();
        self.disk.sync()
    }
}

/// What a policy logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logs {
    /// Whole images, and says so: it is not asked.
    Images,
    /// Each image in the way that its last byte says.
    AsSaid,
}

/// A policy whose calls count.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    fuse: Fuse,
    logs: Logs,
}

/// What is logged of a block that changes in its first bytes and in its last.
pub(crate) const FIRST: usize = 16;

/// What the last byte is of a block of which the first are given as a patch.
pub(crate) const PATCH: u8 = 5;

impl Policy for Ways {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E5B)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        self.fuse.burn();
        let mut encode = |how: u8, first: &[u8]| {
            let encoded = out.put(&[how]).and_then(|()| out.put(first));
            encoded.map_or(Placement::Image, |()| Placement::Encoded)
        };
        let Some([first @ .., how]) = update.change.image() else {
            let Change::Patches([patch]) = update.change else { return Placement::Image };
            return encode(PATCH, patch.bytes);
        };
        match how {
            _ if self.logs == Logs::Images => Placement::Image,
            1 => encode(*how, &first[..FIRST]),
            2 => Placement::Slot,
            3 => Placement::DiskLog,
            4 => Placement::Home,
            _ => Placement::Image,
        }
    }

    fn prefix_of(&self, _patches: &[Patch<'_>], _at: usize) -> Option<Prefix> {
        self.fuse.burn();
        Some(Prefix::new(PATCH.into(), 1))
    }

    fn logs_images(&self) -> bool {
        self.logs == Logs::Images
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        self.fuse.burn();
        let malformed = ApplyError::Malformed { at: payload.len() };
        let (Some((how, first)), Some((last, rest))) =
            (payload.split_first(), block.split_last_mut())
        else {
            return Err(malformed);
        };
        *last = *how;
        let place = rest.get_mut(..FIRST).filter(|place| place.len() == first.len());
        place.ok_or(malformed)?.copy_from_slice(first);
        Ok(())
    }

    fn rewrite_slot(&self, _older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        self.fuse.burn();
        rewrite(Patch { at: 0, bytes: newer });
    }

    fn wants_slots(&self) -> bool {
        true
    }

    fn wants_log(&self) -> bool {
        true
    }
}
