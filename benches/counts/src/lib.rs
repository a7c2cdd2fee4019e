//! What is counted: the hot paths of a journal on plain memory. All that a path needs is made ready
//! before.
//!
//! Valgrind offers fewer instructions than the processor has: no `clwb`, and no AVX-512. The
//! journal detects that, and uses what is left. So counts under valgrind are not those of the
//! machine itself.

#![forbid(unsafe_code)]

use std::hint::black_box;

use journal_core::policy::{Change, Patch, Policy, Update};
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, Durability, EXAMINE_BYTES_MAX,
    Operation, Overwrite, PmemRead as _, PmemShare as _, examine,
};
use nvm_journal::{CompressedDelta, FullBlock, Journal, ObjectLog, On, Options, Region};
use pmem_sys::NativeKernels;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;
const SPAN_BYTES: u64 = 4 << 20;
const OBJECT_BYTES: usize = 256;
/// Records of a journal that is scanned.
pub const RECORDS: u64 = 100;

/// A device that throws away what is written, and reads as zeroes.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere;

impl BlockDevice for Nowhere {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew)
    }

    fn block_size(&self) -> BlockSize {
        BlockSize::DEFAULT
    }

    fn block_count(&self) -> u64 {
        4 * BLOCKS
    }

    fn read(&mut self, _first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        into.fill(0);
        Ok(())
    }

    fn write(&mut self, _first: BlockNumber, _from: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A journal and an image.
pub struct Ready<L> {
    journal: Journal<L, On<Region, Nowhere>>,
    image: Vec<u8>,
}

impl<L: Policy + Clone + Send + Sync + 'static> Ready<L> {
    /// Every block was written once, one in steps, and one was read since. So nothing is done
    /// for the first time, and what is read is kept.
    fn new(policy: L) -> Self {
        let options =
            Options::new().policy(policy).lanes(1).lane_log_blocks(0).cache_bytes(1 << 20);
        let region = Region::anonymous(SPAN_BYTES).expect("memory");
        let journal = Journal::format(region, Nowhere, &options).expect("formats");
        let image: Vec<u8> = (0..BLOCK).map(|at| (at * 7) as u8).collect();
        let mut ready = Self { journal, image };
        (0..BLOCKS).for_each(|block| ready.commit(block));
        let mut content = [0; BLOCK];
        ready.journal.transact(|tx| tx.write(BlockNumber(8), &ready.image)).expect("commits");
        ready.journal.read(BlockNumber(7), &mut content).expect("reads");
        ready.image[1000..1000 + OBJECT_BYTES].iter_mut().for_each(|byte| *byte = !*byte);
        ready
    }

    fn commit(&self, block: u64) {
        self.change(block, Change::Image(&self.image));
    }

    fn change(&self, block: u64, change: Change<'_>) {
        let operations = [Operation::Update(Update::new(BlockNumber(block), change))];
        let committed = self.journal.commit(&operations, Durability::Durable);
        black_box(committed.expect("commits"));
    }
}

/// A journal of whole blocks.
#[must_use]
pub fn blocks() -> Ready<FullBlock> {
    Ready::new(FullBlock)
}

/// A journal of objects.
#[must_use]
pub fn objects() -> Ready<ObjectLog> {
    Ready::new(ObjectLog::new())
}

/// A journal of compressed differences.
#[must_use]
pub fn deltas() -> Ready<CompressedDelta<NativeKernels>> {
    Ready::new(CompressedDelta::new().kernels(NativeKernels::detect()))
}

/// A durable commit of a block of 4 KiB in one call.
#[must_use]
pub fn commit_block(ready: Ready<FullBlock>) -> Ready<FullBlock> {
    ready.commit(7);
    ready
}

/// A durable commit of neighbours in one call, at most as many as the journal has blocks.
#[must_use]
pub fn commit_neighbours(ready: Ready<FullBlock>, count: usize) -> Ready<FullBlock> {
    let image = &ready.image[..];
    let all: [_; BLOCKS as usize] =
        core::array::from_fn(|at| Operation::write(BlockNumber(at as u64), image));
    let committed = ready.journal.commit(&all[..count], Durability::Durable);
    black_box(committed.expect("commits"));
    ready
}

/// A durable commit of one block in steps: begin, write, commit.
#[must_use]
pub fn commit_staged(ready: Ready<FullBlock>) -> Ready<FullBlock> {
    let mut tx = ready.journal.begin().expect("begins");
    tx.write(BlockNumber(7), &ready.image).expect("fits");
    black_box(tx.commit().expect("commits"));
    ready
}

/// A durable commit of an object that the store names, in one call.
#[must_use]
pub fn commit_object(ready: Ready<ObjectLog>) -> Ready<ObjectLog> {
    let patch = [Patch { at: 1000, bytes: &ready.image[1000..1000 + OBJECT_BYTES] }];
    ready.change(7, Change::Patches(&patch));
    ready
}

/// A durable commit of a block that differs in 256 bytes. The policy finds them.
#[must_use]
pub fn commit_delta(
    ready: Ready<CompressedDelta<NativeKernels>>,
) -> Ready<CompressedDelta<NativeKernels>> {
    ready.commit(7);
    ready
}

/// A read of a block whose content is kept in ordinary memory.
#[must_use]
pub fn read_cached(ready: Ready<FullBlock>) -> Ready<FullBlock> {
    let mut content = [0; BLOCK];
    ready.journal.read(BlockNumber(7), &mut content).expect("reads");
    black_box(&content);
    ready
}

/// What a crash has left on the medium.
pub struct Left {
    region: Region,
    scratch: Vec<u8>,
}

fn left<L: Policy + Clone + Send + Sync + 'static>(
    policy: L,
    commit: impl Fn(&Ready<L>, u64),
) -> Left {
    let options = Options::new().policy(policy).lanes(1).lane_log_blocks(0);
    let region = Region::anonymous(SPAN_BYTES).expect("memory");
    let reader = region.reader();
    let journal = Journal::format(region, Nowhere, &options).expect("formats");
    let ready = Ready { journal, image: vec![1; BLOCK] };
    (0..RECORDS).for_each(|turn| commit(&ready, turn % BLOCKS));
    drop(ready);
    let mut bytes = vec![0; SPAN_BYTES as usize];
    reader.read_into(journal_core::Offset(0), &mut bytes).expect("reads");
    let mut region = Region::anonymous(SPAN_BYTES).expect("memory");
    journal_core::Pmem::store(&mut region, journal_core::Offset(0), &bytes);
    Left { region, scratch: vec![0; EXAMINE_BYTES_MAX] }
}

/// A journal of a hundred blocks of 4 KiB.
#[must_use]
pub fn left_blocks() -> Left {
    left(FullBlock, |ready, block| ready.commit(block))
}

/// A journal of a hundred objects of 256 bytes.
#[must_use]
pub fn left_objects() -> Left {
    left(ObjectLog::new(), |ready, block| {
        let patch = [Patch { at: 0, bytes: &ready.image[..OBJECT_BYTES] }];
        ready.change(block, Change::Patches(&patch));
    })
}

/// The scan of a recovery. It verifies every record, and looks at each line behind the last one.
#[must_use]
pub fn scan(mut left: Left) -> Left {
    let found = examine(&left.region, &NativeKernels::detect(), &mut left.scratch);
    assert_eq!(found.expect("examines").lanes()[0].records, RECORDS);
    left
}
