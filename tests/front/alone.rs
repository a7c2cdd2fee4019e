//! One operation alone, which goes by a way of its own.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use journal_core::policy::{Change, Patch, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockSize, Gathered, Geometry, Hook, NoHook, Offset, OpenError, Pmem, PmemRead, PmemShare as _,
    Seeds, Site, format,
};
use nvm_journal::{
    Buffers, Durability, Error, Journal, NativeKernels, ObjectLog, Operation, Options, Region,
};
use pmem_sys::{Method, StreamMethod};
use sim_disk::{Image, Model, World};

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

/// What is left of images, discards and changes of all lengths, in lanes that are gone around some
/// times; the medium puts lines together itself or is given them.
fn left_of_all_kinds(mut region: Region, name: &str) -> Vec<u8> {
    let files = Files::new(name);
    let reader = region.reader();
    let options = Options::new().policy(ObjectLog::new()).lanes(2);
    let geometry = options.plan(SPAN_BYTES, BlockSize::DEFAULT).expect("has room").geometry;
    let (kernels, policy) = (NativeKernels::detect(), ObjectLog::new());
    format(&mut region, NoHook, &kernels, &geometry, [7; 16], &policy, BLOCKS).expect("formats");
    let journal = Journal::open(region, files.disk(), &options).expect("opens");
    let content: Vec<u8> = (0..2 * BLOCK).map(|at| (at * at / 11) as u8).collect();
    for turn in 0..3_000_usize {
        let (number, len) = (block(turn as u64 % 7), 1 + turn * 37 % 1_400);
        let patches = [Patch { at: (turn % 900) as u32, bytes: &content[turn % 64..][..len] }];
        let operation = match turn % 5 {
            0 => Operation::write(number, &content[turn % 64..][..BLOCK]),
            1 if turn % 3 == 0 => Operation::Discard(number),
            _ => Operation::Update(Update::new(number, Change::Patches(&patches))),
        };
        // In another lane, with a name, while somebody has the first.
        let first = (turn % 11 == 0).then(|| journal.begin().expect("begins"));
        let is_deferred = turn % 11 == 1;
        let durability = if is_deferred { Durability::Deferred } else { Durability::Durable };
        journal.commit(&[operation], durability).expect("commits");
        drop(first);
        if turn % 300 == 299 {
            journal.checkpoint().expect("makes room");
        }
    }
    // Several, most of whose fronts are longer than what goes by the shortest way.
    for turn in 0..400_usize {
        let count = [2, 3, 4, 5, 8, 15, 16, 17, 40, 70][turn % 10];
        let first = turn as u64 % (BLOCKS - count);
        let old = &content[turn % 64..][..BLOCK];
        let mut new = old.to_vec();
        (300..300 + turn).for_each(|at| new[at] = !new[at]);
        let patch = [Patch { at: 9, bytes: &content[turn % 64..][..1 + turn % 300] }];
        let operations: Vec<_> = (0..count)
            .map(|at| {
                let number = block(first + at);
                let mut found = Update::new(number, Change::Image(&new));
                found.old = Some(old);
                // Half of them are images alone.
                match (turn as u64 + at) % 8 {
                    kind if kind < 4 || turn % 2 == 0 => Operation::write(number, &new),
                    4 => Operation::Discard(number),
                    5 => Operation::Update(found),
                    _ => Operation::Update(Update::new(number, Change::Patches(&patch))),
                }
            })
            .collect();
        let first = (turn % 7 == 0).then(|| journal.begin().expect("begins"));
        journal.commit(&operations, Durability::Durable).expect("commits");
        drop(first);
        if turn % 20 == 19 {
            journal.checkpoint().expect("makes room");
        }
    }
    journal.sync().expect("syncs");
    bytes_of(&reader)
}

#[test]
fn lines_that_a_medium_puts_together_are_those_that_it_is_given() {
    let own = memory(SPAN_BYTES);
    let method = own.map_facts().method;
    let mut given = memory(SPAN_BYTES).with_stream_from_bytes(64);
    // Where there is one way to stream, no medium puts anything together.
    let is_other = |stream: &StreamMethod| *stream != method.stream();
    if let Some(stream) = StreamMethod::supported().find(is_other) {
        let method = Method::new(method.flush(), stream).expect("is had");
        given.set_method(method).expect("flushes");
    }
    assert!(!given.facts().gathers);
    let (own, given) = (left_of_all_kinds(own, "put"), left_of_all_kinds(given, "given"));
    let differs = own.chunks(64).zip(given.chunks(64)).position(|(own, given)| own != given);
    assert_eq!(differs, None, "the line");
}

/// Counts the records that a medium is given in pieces.
#[derive(Clone, Debug, Default)]
struct Pieces(Arc<AtomicU32>);

impl Hook for Pieces {
    fn gathers(&self) -> bool {
        true
    }

    fn write_checked<P: Pmem>(
        &mut self,
        _site: Site,
        pmem: &mut P,
        at: Offset,
        gathered: &Gathered<'_>,
        seeds: Seeds,
    ) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        pmem.stream_checked(at, gathered, seeds)
    }
}

/// What one thread streams no other one's fence completes, and a deferred record is another's to
/// fence.
#[test]
fn what_is_deferred_is_stored_and_not_put_together_by_the_medium() {
    let (pieces, files) = (Pieces::default(), Files::new("alone-deferred"));
    let options = options().hook(pieces.clone());
    let media = World::boot(Image::blank(SPAN_BYTES as usize), Model::Torn8);
    let pmem = media.pmem().with_gathers(true);
    let journal = Journal::format(pmem, files.disk(), &options).expect("formats");
    for (durability, expected) in [(Durability::Deferred, 0), (Durability::Durable, 2)] {
        operations(|image, change| {
            for operation in [image, change] {
                journal.commit(&[operation], durability).expect("commits");
            }
        });
        assert_eq!(pieces.0.load(Ordering::Relaxed), expected, "{durability:?}");
        journal.sync().expect("syncs");
    }
}
