//! What the programs run on: a hook that also calls back, a device that can be watched in the
//! middle of a write, and a policy whose frames lie on top of older content.

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use byte_delta::{Appends, ByteDelta, Settings};
use journal_core::policy::{
    ApplyError, Change, Encoder, Patch, Placement, Policy, PolicyId, Prefix, Thresholds, Update,
};
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, Hook, MediumError, Offset, Pmem,
    Rule, Site,
};
use nvm_journal::{CompressedDelta, Lcow, ObjectLog, TwoLevel};
use policy_codec::bitmap::Unit;
use sim_disk::{Mutator, SimDisk};

use crate::pending;

type Call<T> = Arc<dyn Fn(T) + Send + Sync>;

/// What is called when something is about to happen; clones share it.
struct Watched<T>(Arc<Mutex<Option<Call<T>>>>);

impl<T> Watched<T> {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }

    fn set(&self, call: Option<Call<T>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }

    fn tell(&self, what: T) {
        // Not under the lock: what is called may come here again.
        let call = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(call) = call {
            call(what);
        }
    }
}

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

/// The mutating hook, which says before each step that it comes.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) mutator: Mutator,
    watched: Watched<Site>,
}

impl Probe {
    pub(crate) fn new(mutator: Mutator) -> Self {
        Self { mutator, watched: Watched::new() }
    }

    /// From now on `call` is called before every step, by the thread that makes it.
    pub(crate) fn watch(&self, call: impl Fn(Site) + Send + Sync + 'static) {
        self.watched.set(Some(Arc::new(call)));
    }

    /// Ends that.
    pub(crate) fn look_away(&self) {
        self.watched.set(None);
    }
}

impl Hook for Probe {
    fn keeps(&self, rule: Rule) -> bool {
        pending::asked(rule);
        self.mutator.keeps(rule)
    }

    fn store<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        pending::stored(site, bytes);
        self.watched.tell(site);
        self.mutator.store(site, pmem, at, bytes);
    }

    fn store_u64<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, value: u64) {
        self.watched.tell(site);
        self.mutator.store_u64(site, pmem, at, value);
    }

    fn flush<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, len: usize) {
        self.watched.tell(site);
        self.mutator.flush(site, pmem, at, len);
    }

    fn stream<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        pending::stored(site, bytes);
        self.watched.tell(site);
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
        pending::stored(site, bytes);
        self.watched.tell(site);
        self.mutator.write_piece(site, pmem, at, bytes, whole_bytes);
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        self.watched.tell(site);
        self.mutator.fence(site, pmem)
    }

    fn disk_write<D: BlockDevice>(
        &mut self,
        site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        self.watched.tell(site);
        self.mutator.disk_write(site, device, first, from)
    }

    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        self.watched.tell(site);
        self.mutator.disk_sync(site, device)
    }
}

/// A simulated disk. Watched, it leaves garbage in a block before it writes it, and says so.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    disk: SimDisk,
    watched: Watched<BlockNumber>,
    reads: Watched<BlockNumber>,
    reads_to_come: Watched<BlockNumber>,
}

impl Device {
    pub(crate) fn new(disk: SimDisk) -> Self {
        let (watched, reads) = (Watched::new(), Watched::new());
        Self { disk, watched, reads, reads_to_come: Watched::new() }
    }

    /// From now on `call` is called behind every read, before its caller has it.
    pub(crate) fn watch_reads(&self, call: impl Fn(BlockNumber) + Send + Sync + 'static) {
        self.reads.set(Some(Arc::new(call)));
    }

    /// From now on `call` is called before every read.
    pub(crate) fn watch_before_reads(&self, call: impl Fn(BlockNumber) + Send + Sync + 'static) {
        self.reads_to_come.set(Some(Arc::new(call)));
    }

    /// From now on `call` is called in the middle of every write.
    pub(crate) fn watch(&self, call: impl Fn(BlockNumber) + Send + Sync + 'static) {
        self.watched.set(Some(Arc::new(call)));
    }

    pub(crate) fn look_away(&self) {
        self.watched.set(None);
        self.reads.set(None);
        self.reads_to_come.set(None);
    }

    fn is_watched(&self) -> bool {
        self.watched.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl BlockDevice for Device {
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
        self.reads_to_come.tell(first);
        self.disk.read(first, into)?;
        self.reads.tell(first);
        Ok(())
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        if self.is_watched() {
            let garbage = vec![0xA5; from.len()];
            self.disk.write(first, &garbage)?;
            self.watched.tell(first);
        }
        self.disk.write(first, from)
    }

    fn discard(&mut self, first: BlockNumber, blocks: u64) -> Result<(), DeviceError> {
        self.write_zeroes(first, blocks)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.disk.sync()
    }
}

/// Bytes of a block's first half, as [`Logged::Halves`] logs it.
pub(crate) const HALF_BYTES: usize = 16;

/// The policies of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logged {
    /// Whole images.
    Whole,
    /// Where the lowest bit of the second word is set, and what differs was said, only the first
    /// two words: it means that the rest is as before, to which the writer that sets it sees.
    Halves,
    /// Whole images, as if they were something else: they take all the room there is for that.
    Stuffed,
    /// Versions in slots; what is said to be appended too, since these programs say it of blocks
    /// that are live.
    Versions,
    /// Versions in slots, and what is appended goes home.
    Appending,
    /// Versions in slots, and patches as they are. What is appended goes home.
    Patches,
    /// Data in slots, which is where it stays.
    Cached,
    /// What differs from the old image, which the journal keeps; whole blocks in the disk-side log.
    Compressed,
    /// The words that differ; what differs much in the disk-side log.
    Levels,
    /// Whole images, in the disk-side log.
    Far,
    /// The objects that differ from what is kept of the block.
    Compared,
}

/// Sub-blocks of a word.
const LEVELS: TwoLevel = TwoLevel::with(two_level::Settings::new().sub_block(Unit::WORD));

/// Objects of two words. Images are compared with those that are kept.
const OBJECTS: object_log::Settings = object_log::Settings::new().object_bytes(16).compares(true);

fn objects() -> ObjectLog {
    ObjectLog::with(OBJECTS).expect("settings that can be")
}

/// Everything in slots, and patches as images.
const VERSIONS: ByteDelta =
    ByteDelta::with(Settings::new().appends(Appends::Slots).logs_patches(false));

impl Logged {
    /// How many slots each lane has: fewer than there are blocks.
    pub(crate) fn lane_slots(self) -> u32 {
        if self.wants_slots() { 4 } else { 0 }
    }

    /// How many segments each lane has in the disk-side log.
    pub(crate) fn lane_segments(self) -> u32 {
        if self.wants_log() { 2 } else { 0 }
    }
}

impl Policy for Logged {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E58 + *self as u32)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        update.change.image().inspect(|image| pending::placed(image));
        match self {
            Self::Versions => return VERSIONS.place(update, out),
            Self::Appending | Self::Patches => return ByteDelta::new().place(update, out),
            Self::Cached => return Lcow::new().place(update, out),
            Self::Compressed => return CompressedDelta::new().place(update, out),
            Self::Levels => return LEVELS.place(update, out),
            Self::Far => return Placement::DiskLog,
            Self::Compared => return objects().place(update, out),
            Self::Whole | Self::Halves | Self::Stuffed => {}
        }
        let Some(image) = update.change.image() else { return Placement::Image };
        let is_given_whole = matches!(update.change, Change::Image(_));
        let payload = match self {
            Self::Halves if image[8] & 1 == 1 && !is_given_whole => &image[..HALF_BYTES],
            Self::Stuffed => image,
            _ => return Placement::Image,
        };
        if out.put(payload).is_err() { Placement::Image } else { Placement::Encoded }
    }

    fn prefix_of(&self, patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
        match self {
            Self::Cached => Lcow::new().prefix_of(patches, at),
            Self::Levels => LEVELS.prefix_of(patches, at),
            Self::Patches => ByteDelta::new().prefix_of(patches, at),
            _ => None,
        }
    }

    fn logs_patches(&self) -> bool {
        matches!(self, Self::Cached | Self::Levels | Self::Patches)
    }

    fn patch_bytes_on_old(&self, block_bytes: usize) -> usize {
        match self {
            // So that half a block may be patched on an old image that the policy is lent.
            Self::Compressed => block_bytes / 2,
            _ => 0,
        }
    }

    fn logs_images(&self) -> bool {
        *self == Self::Whole
    }

    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        VERSIONS.rewrite_slot(older, newer, rewrite);
    }

    fn wants_slots(&self) -> bool {
        matches!(self, Self::Versions | Self::Appending | Self::Patches | Self::Cached)
    }

    fn wants_log(&self) -> bool {
        matches!(self, Self::Compressed | Self::Levels | Self::Far)
    }

    fn wants_old(&self) -> bool {
        matches!(self, Self::Compressed | Self::Levels)
    }

    fn wants_cached_old(&self) -> bool {
        *self == Self::Compared
    }

    fn check(&self, payload: &[u8], block: &[u8]) -> Result<(), ApplyError> {
        match self {
            Self::Compressed => CompressedDelta::new().check(payload, block),
            _ => Ok(()),
        }
    }

    fn keeps_in_slots(&self) -> bool {
        *self == Self::Cached || self.wants_log()
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        match self {
            Self::Compressed => return CompressedDelta::new().apply(payload, block),
            Self::Cached => return Lcow::new().apply(payload, block),
            Self::Patches => return ByteDelta::new().apply(payload, block),
            Self::Levels => return LEVELS.apply(payload, block),
            Self::Compared => return objects().apply(payload, block),
            _ => {}
        }
        let into = block.get_mut(..payload.len());
        into.ok_or(ApplyError::OutOfBlock { at: 0 })?.copy_from_slice(payload);
        Ok(())
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds::new(128, 128)
    }
}
