//! One operation alone, which goes by a way of its own.

use journal_core::policy::{Change, Patch, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockSize, Geometry, NoHook, Offset, OpenError, Pmem as _, PmemRead, PmemShare as _, format,
};
use nvm_journal::{
    Buffers, Durability, Error, Journal, NativeKernels, ObjectLog, Operation, Options,
};

use crate::use_it::{BLOCK, BLOCKS, Files, block, memory};

const SPAN_BYTES: u64 = 1 << 20;
const PATCH: Patch<'_> = Patch { at: 100, bytes: b"new, and as long as two names of records" };

fn options() -> Options<ObjectLog> {
    Options::new().policy(ObjectLog::new()).lanes(2).shield_blocks(0)
}

fn geometry() -> Geometry {
    options().plan(SPAN_BYTES, BlockSize::DEFAULT).expect("has room").geometry
}

/// A block's first image, and what changes of it.
fn operations(call: impl FnOnce(Operation<'_>, Operation<'_>)) {
    let change = Change::Patches(&[PATCH]);
    call(Operation::write(block(1), &[1; BLOCK]), Operation::Update(Update::new(block(1), change)));
}

/// What the front door leaves that has put the change into the second lane.
fn left_by_threads() -> Vec<u8> {
    let files = Files::new("alone-threads");
    let region = memory(SPAN_BYTES);
    let reader = region.reader();
    let journal = Journal::format(region, files.disk(), &options()).expect("formats");
    operations(|image, change| {
        let lane_of = |operation| {
            let committed = journal.commit(&[operation], Durability::Durable);
            committed.expect("commits").expect("was logged").lane.raw()
        };
        assert_eq!(lane_of(image), 0);
        // Has the first lane for its own.
        let first = journal.begin().expect("begins");
        assert_eq!(lane_of(change), 1);
        drop(first);
    });
    bytes_of(&reader)
}

/// The same by one owner.
fn left_by_one() -> Vec<u8> {
    let files = Files::new("alone-owner");
    let mut region = memory(SPAN_BYTES);
    let reader = region.reader();
    let (kernels, policy, geometry) = (NativeKernels::detect(), ObjectLog::new(), geometry());
    format(&mut region, NoHook, &kernels, &geometry, [7; 16], &policy, BLOCKS).expect("formats");
    let mut buffers = Buffers::new(&geometry, 64, 8);
    let (disk, memory) = (files.disk(), buffers.borrow());
    let opened = journal_core::Journal::open(region, disk, policy, NoHook, kernels, memory);
    let mut journal = opened.expect("opens");
    operations(|image, change| {
        for (lane, operation) in [(0, image), (1, change)] {
            journal.commit(LaneNumber(lane), &[operation], Durability::Durable).expect("fits");
        }
    });
    bytes_of(&reader)
}

fn bytes_of(reader: &impl PmemRead) -> Vec<u8> {
    let mut bytes = vec![0; SPAN_BYTES as usize];
    reader.read_into(Offset(0), &mut bytes).expect("reads");
    bytes
}

#[test]
fn what_a_change_builds_on_in_another_lane_is_named_and_the_change_is_whole() {
    for left in [left_by_threads(), left_by_one()] {
        let files = Files::new("alone-found");
        let open = |bytes: &[u8]| {
            let mut region = memory(SPAN_BYTES);
            region.store(Offset(0), bytes);
            Journal::open(region, files.disk(), &options())
        };
        let journal = open(&left).expect("opens");
        let mut found = [0; BLOCK];
        journal.read(block(1), &mut found).expect("reads");
        let mut expected = [1; BLOCK];
        expected[PATCH.at as usize..][..PATCH.bytes.len()].copy_from_slice(PATCH.bytes);
        assert_eq!(found, expected);
        drop(journal);
        // Without its name the image would only be one that was never stored.
        let mut rotten = left.clone();
        rotten[geometry().lane(LaneNumber(0)).raw() as usize..][..64].fill(0);
        match open(&rotten) {
            Err(Error::Open(OpenError::Rot { lane, .. })) => assert_eq!(lane.raw(), 0),
            opened => panic!("{:?}", opened.map(drop)),
        }
    }
}
