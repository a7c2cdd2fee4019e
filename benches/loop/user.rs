//! The user: which blocks, which bytes, and how they are written.

use std::sync::Arc;
use std::time::Duration;

use bench_kit::samples::noise;
use journal_core::policy::Policy;
use journal_core::{BlockDevice as _, BlockNumber, BlockSize, Durability, Offset, Operation};
use lab::bench::media::{Aligned, BLOCK, MemoryDisk, warm};
use lab::bench::timed;
use nvm_journal::policy::{Change, Patch, Update};
use nvm_journal::{Journal, On, Options, Region, Transaction};

/// Bytes of a journal's memory.
pub(crate) const NVM_BYTES: u64 = 64 << 20;
/// Frames of a journal's index.
const INDEX_FRAMES: usize = 1 << 18;
/// Bytes of a patch.
pub(crate) const PATCH_BYTES: usize = 64;
/// Updates that a batch begins with and that are not timed: other cases have had the caches.
pub(crate) const WARM_UP: u64 = 512;
/// A deferring loop calls `sync` behind this many commits.
pub(crate) const DEFERRED: u64 = 16;

/// What an update changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Patch,
    ThreePatches,
    ReadAndThreePatches,
    Image,
    EightImages,
}

impl Case {
    pub(crate) const ALL: [Self; 5] = [
        Self::Patch,
        Self::ThreePatches,
        Self::ReadAndThreePatches,
        Self::Image,
        Self::EightImages,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Patch => "1 patch of 64 B",
            Self::ThreePatches => "3 patches, 3 blocks",
            Self::ReadAndThreePatches => "read 8 B and patch, 3 blocks",
            Self::Image => "1 image of 4 KiB",
            Self::EightImages => "8 images, neighbours",
        }
    }

    pub(crate) const fn blocks(self) -> u64 {
        match self {
            Self::Patch | Self::Image => 1,
            Self::ThreePatches | Self::ReadAndThreePatches => 3,
            Self::EightImages => 8,
        }
    }

    pub(crate) const fn has_images(self) -> bool {
        matches!(self, Self::Image | Self::EightImages)
    }
}

/// How an update is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Begin,
    Transact,
    OneCall,
    Deferred,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Begin, Self::Transact, Self::OneCall, Self::Deferred];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin, commit",
            Self::Transact => "transact",
            Self::OneCall => "one call",
            Self::Deferred => "deferred, sync/16",
        }
    }
}

/// Random numbers, quick ones.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    #[inline]
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// A working set, and memory of the user's from which it is written.
#[derive(Clone)]
pub(crate) struct User {
    first: u64,
    set: u64,
    bytes: Arc<Aligned>,
    random: Random,
}

impl User {
    /// Of `set` blocks, a power of two, from `first` on.
    pub(crate) fn new(first: u64, set: u64) -> Self {
        let pages = set.min(1024) as usize + 8;
        let bytes = Arc::new(noise(first + 1, pages * BLOCK).into());
        Self { first, set, bytes, random: Random::new(0x5DEE_CE66 + first) }
    }

    /// The blocks of the next update, and where in them and in the user's memory it takes place.
    #[inline]
    pub(crate) fn draw(&mut self, case: Case) -> Drawn<'_> {
        let mut blocks = [0; 8];
        let neighbours = case == Case::EightImages;
        let mut number = (self.random.next() >> 13) & (self.set - 1);
        for (at, block) in blocks.iter_mut().enumerate().take(case.blocks() as usize) {
            *block = if neighbours { (number & !7) + at as u64 } else { number };
            // Another block than those before.
            number = (number + 1 + (self.random.next() >> 13) % (self.set / 4)) & (self.set - 1);
        }
        blocks.iter_mut().for_each(|block| *block += self.first);
        let drawn = self.random.next() >> 20;
        let page = (drawn % (self.bytes.len() / BLOCK - 8) as u64) as usize;
        let at = (drawn >> 20) as usize % (BLOCK / PATCH_BYTES) * PATCH_BYTES;
        Drawn { blocks, count: case.blocks() as usize, at, bytes: &self.bytes[page * BLOCK..] }
    }
}

/// One update.
pub(crate) struct Drawn<'u> {
    blocks: [u64; 8],
    count: usize,
    pub(crate) at: usize,
    bytes: &'u [u8],
}

impl<'u> Drawn<'u> {
    /// Each block, with its new image.
    #[inline]
    pub(crate) fn images(&self) -> impl Iterator<Item = (BlockNumber, &'u [u8])> {
        let images = self.bytes.chunks_exact(BLOCK);
        self.blocks[..self.count].iter().map(|block| BlockNumber(*block)).zip(images)
    }

    /// Each block, with the bytes that are patched into it.
    #[inline]
    pub(crate) fn patches(&self) -> impl Iterator<Item = (BlockNumber, &'u [u8])> {
        self.images().map(|(block, image)| (block, &image[..PATCH_BYTES]))
    }
}

/// A journal on plain memory and a disk in memory.
pub(crate) type Door<L> = Journal<L, On<Region, MemoryDisk>>;

/// Opens a journal of two lanes whose cache has `cached` blocks. Its memory was touched before.
pub(crate) fn open<L>(policy: L, nvm_bytes: u64, set: u64, cached: u64) -> Door<L>
where
    L: Policy + Clone + Send + Sync + 'static,
{
    open_with_lanes(policy, nvm_bytes, set, cached, 2)
}

pub(crate) fn open_with_lanes<L>(
    policy: L,
    nvm_bytes: u64,
    set: u64,
    cached: u64,
    lanes: u16,
) -> Door<L>
where
    L: Policy + Clone + Send + Sync + 'static,
{
    open_on(options(policy, set, cached).lanes(lanes), nvm_bytes, disk_of(set))
}

/// A disk of twice the blocks of a set, all of which were written.
pub(crate) fn disk_of(set: u64) -> MemoryDisk {
    let mut disk = MemoryDisk::new(BlockSize::DEFAULT, 2 * set.max(1024));
    for block in 0..disk.block_count() {
        disk.write(BlockNumber(block), &noise(block, BLOCK)).expect("writes");
    }
    disk
}

/// The options of a journal of two lanes whose cache has `cached` blocks.
pub(crate) fn options<L: Policy>(policy: L, set: u64, cached: u64) -> Options<L> {
    Options::new()
        .policy(policy)
        .index_frames(INDEX_FRAMES.max(10 * set as usize))
        .index_at_once(true)
        .lanes(2)
        .cache_bytes(cached as usize * BLOCK)
}

/// Opens a journal on memory that was touched before, and reads each block of the disk once.
pub(crate) fn open_on<L>(options: Options<L>, nvm_bytes: u64, disk: MemoryDisk) -> Door<L>
where
    L: Policy + Clone + Send + Sync + 'static,
{
    let blocks = disk.block_count();
    let journal = Journal::format(warm(nvm_bytes), disk, &options).expect("formats");
    let mut image = vec![0; BLOCK];
    for block in 0..blocks {
        journal.read(BlockNumber(block), &mut image).expect("reads");
    }
    journal
}

/// Writes an update in a transaction.
#[inline]
fn write<L: Policy>(
    tx: &mut Transaction<'_, L, On<Region, MemoryDisk>>,
    case: Case,
    update: &Drawn<'_>,
) -> Result<(), nvm_journal::Error> {
    if case.has_images() {
        return update.images().try_for_each(|(block, image)| tx.write(block, image));
    }
    for (block, bytes) in update.patches() {
        if case == Case::ReadAndThreePatches {
            let mut sum = [0; 8];
            tx.read_at(block, update.at, &mut sum)?;
            std::hint::black_box(sum);
        }
        tx.write_at(block, update.at, bytes)?;
    }
    Ok(())
}

/// Commits one update; `turn` counts them.
#[inline]
pub(crate) fn commit<L>(journal: &Door<L>, case: Case, way: Way, update: &Drawn<'_>, turn: u64)
where
    L: Policy + Clone + Send + Sync + 'static,
{
    let done = match way {
        Way::Begin | Way::Deferred => journal.begin().and_then(|mut tx| {
            write(&mut tx, case, update)?;
            if way == Way::Begin { tx.commit() } else { tx.commit_deferred() }.map(drop)?;
            if way == Way::Deferred && turn % DEFERRED == DEFERRED - 1 {
                journal.sync()?;
            }
            Ok(())
        }),
        Way::Transact => journal.transact(|tx| write(tx, case, update)),
        Way::OneCall => commit_in_one_call(journal, case, update),
    };
    done.expect("there is room");
}

#[inline]
fn commit_in_one_call<L>(
    journal: &Door<L>,
    case: Case,
    update: &Drawn<'_>,
) -> Result<(), nvm_journal::Error>
where
    L: Policy + Clone + Send + Sync + 'static,
{
    let nothing = || Operation::Discard(BlockNumber(0));
    let (mut operations, mut patches) = ([const { None }; 8], [const { None }; 8]);
    let at = update.at as u32;
    for (place, (_, bytes)) in patches.iter_mut().zip(update.patches()) {
        *place = Some([Patch { at, bytes }]);
    }
    for (nth, (block, image)) in update.images().enumerate() {
        let change = match (case.has_images(), &patches[nth]) {
            (false, Some(patch)) => Change::Patches(patch),
            _ => Change::Image(image),
        };
        operations[nth] = Some(Operation::Update(Update::new(block, change)));
    }
    let mut operations = operations.map(|operation| operation.unwrap_or_else(nothing));
    let operations = &mut operations[..update.count];
    operations.sort_unstable_by_key(Operation::block);
    journal.commit(operations, Durability::Durable).map(drop)
}

/// Writes home what lies in the journal if `count` more updates might not fit beside it.
pub(crate) fn make_room<L>(journal: &Door<L>, case: Case, count: u64)
where
    L: Policy + Clone + Send + Sync + 'static,
{
    let stats = journal.stats().expect("counts");
    let (total, geometry) = (stats.total(), journal.geometry());
    let frames = count * case.blocks();
    let bytes = frames * (BLOCK as u64 + 256);
    let lanes = u64::from(geometry.lanes);
    let is_short = |free: u32, all: u32| {
        let all = lanes * u64::from(all);
        u64::from(free) < frames.min(all / 2)
    };
    // One thread stores in one lane.
    if total.used_bytes + bytes > geometry.lane_bytes / 2
        || stats.frames as u64 + frames > INDEX_FRAMES as u64 / 4
        || is_short(total.free_slots, geometry.lane_slots)
        || is_short(total.free_log_blocks, geometry.lane_log_blocks)
    {
        journal.checkpoint().expect("empties");
    }
}

/// The time of `count` updates. Room was made before.
pub(crate) fn batch<L>(
    journal: &Door<L>,
    user: &mut User,
    case: Case,
    way: Way,
    count: u64,
) -> Duration
where
    L: Policy + Clone + Send + Sync + 'static,
{
    make_room(journal, case, count + WARM_UP);
    let mut one = |turn| {
        let update = user.draw(case);
        commit(journal, case, way, &update, turn);
    };
    (0..WARM_UP).for_each(&mut one);
    timed(count, one)
}

/// Where in memory of `bytes` bytes something of `len` bytes is put next.
pub(crate) const fn random_place(random: &mut Random, bytes: u64, len: u64) -> Offset {
    Offset((random.next() >> 11) % (bytes / len) * len)
}
