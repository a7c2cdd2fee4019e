//! One operation alone, which goes by a way of its own.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use journal_core::policy::{Change, Patch, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockDevice, BlockSize, Buffers, Geometry, Hook, NoHook, Offset, OpenError, Pmem, PmemRead,
    PmemShare, PmemSplit, Policy, Seeds, Site, Stitched, format,
};
use lab::erased::{DynDisk, DynPmem, any_options};
use nvm_journal::{AnyPolicy, Durability, Error, FileDisk, Journal, ObjectLog, Operation, Options};
use pmem_sys::{Method, NativeKernels, StreamMethod};
use sim_disk::{Image, Model, World};

use crate::use_it::{BLOCK, BLOCKS, Files, block, memory};

const SPAN_BYTES: u64 = 1 << 20;
/// With room for what every policy wants beside lanes.
const ALL_BYTES: u64 = 4 << 20;
const PATCH: Patch<'_> = Patch { at: 100, bytes: b"new, and as long as two names of records" };

fn options() -> Options<AnyPolicy> {
    Options::new().policy(AnyPolicy::from(ObjectLog::new())).lanes(2).shield_blocks(1)
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
    bytes_of(&reader, SPAN_BYTES)
}

/// What one owner leaves that has put the change into the second lane.
fn left_by_one() -> Vec<u8> {
    let files = Files::new("alone-owner");
    let mut region = memory(SPAN_BYTES);
    let reader = region.reader();
    let (kernels, geometry) = (NativeKernels::detect(), geometry());
    let policy = AnyPolicy::from(ObjectLog::new());
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
    bytes_of(&reader, SPAN_BYTES)
}

fn bytes_of(reader: &impl PmemRead, bytes: u64) -> Vec<u8> {
    let mut bytes = vec![0; bytes as usize];
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

/// In which form a block's change is committed.
#[derive(Clone, Copy)]
enum Form {
    /// Its image alone.
    Image,
    /// No image: the block is discarded.
    Discard,
    /// Two images, for the policy to find what differs.
    Images,
    /// What changes alone.
    Patch,
}

/// A block's change, which `new` has then.
fn changed<'a>(
    form: Form,
    number: u64,
    (old, new): (&'a [u8], &'a mut [u8]),
    patch: &'a [Patch<'a>; 1],
    image: &[u8],
) -> Operation<'a> {
    match form {
        Form::Image => new.copy_from_slice(image),
        Form::Discard => new.fill(0),
        Form::Images | Form::Patch => {
            let [Patch { at, bytes }] = *patch;
            new[at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }
    let number = block(number);
    match form {
        Form::Image => Operation::write(number, new),
        Form::Discard => Operation::Discard(number),
        Form::Images => {
            let mut update = Update::new(number, Change::Image(new));
            update.old = Some(old);
            Operation::Update(update)
        }
        Form::Patch => Operation::Update(Update::new(number, Change::Patches(patch))),
    }
}

/// What is left of images, discards and changes of all lengths, in lanes that are gone around some
/// times; the medium puts lines together itself or is given them.
fn left_of_all_kinds<L, P, D, H>(
    mut pmem: P,
    disk_of: impl FnOnce(FileDisk) -> D,
    options: Options<L, H>,
    policy: AnyPolicy,
    name: &str,
) -> Vec<u8>
where
    L: Policy + Clone + Send + Sync + 'static,
    P: PmemSplit + PmemShare + Send + Sync + 'static,
    D: BlockDevice + Clone + Send + 'static,
    H: Hook + Clone + Send + Sync + 'static,
{
    // 1. A journal of two lanes, with the same id each time.
    let files = Files::new(name);
    let reader = pmem.reader();
    let options = options.lanes(2).lane_bytes(400 << 10);
    let geometry = options.plan(pmem.len(), BlockSize::DEFAULT).expect("has room").geometry;
    let kernels = NativeKernels::detect();
    format(&mut pmem, NoHook, &kernels, &geometry, [7; 16], &policy, BLOCKS).expect("formats");
    let blocks = BLOCKS + geometry.log_blocks();
    let _ = std::fs::remove_file(&files.0);
    let disk = FileDisk::create(&files.0, BlockSize::DEFAULT, blocks).expect("a new file");
    let journal = Journal::open(pmem, disk_of(disk), &options).expect("opens");
    // Nobody knows what a discarded block holds until it is written whole. And not every policy can
    // log what changes alone.
    let takes_patches = matches!(
        policy,
        AnyPolicy::ByteDelta(_)
            | AnyPolicy::ObjectLog(_)
            | AnyPolicy::Lcow(_)
            | AnyPolicy::TwoLevel(_)
    );
    let next = |form, is_known: &mut bool| {
        let form = match form {
            Form::Images | Form::Patch if !*is_known => Form::Image,
            Form::Patch if !takes_patches => Form::Images,
            form => form,
        };
        *is_known = !matches!(form, Form::Discard);
        form
    };
    let content: Vec<u8> = (0..2 * BLOCK).map(|at| (at * at / 11) as u8).collect();
    let mut blocks = vec![vec![0; BLOCK]; BLOCKS as usize];
    let mut known = [true; BLOCKS as usize];
    // 2. Transactions of one operation.
    for turn in 0..3_000_usize {
        let (content, number, len) = (&content[turn % 64..], turn % 7, 1 + turn * 37 % 1_400);
        let patch = [Patch { at: (turn % 900) as u32, bytes: &content[..len] }];
        let form = match turn % 5 {
            0 => Form::Image,
            1 if turn % 3 == 0 => Form::Discard,
            2 => Form::Images,
            _ => Form::Patch,
        };
        let form = next(form, &mut known[number]);
        let old = blocks[number].clone();
        let images = (&old[..], &mut blocks[number][..]);
        let operation = changed(form, number as u64, images, &patch, &content[..BLOCK]);
        // In another lane, with a name, while somebody has the first.
        let first = (turn % 11 == 0).then(|| journal.begin().expect("begins"));
        let is_deferred = turn % 11 == 1;
        let durability = if is_deferred { Durability::Deferred } else { Durability::Durable };
        journal.commit(&[operation], durability).expect("commits");
        drop(first);
        if turn % 50 == 49 {
            journal.checkpoint().expect("makes room");
        }
    }
    // 3. Transactions of several operations. Most have fronts too long for the shortest way.
    for turn in 0..400_usize {
        let count = [2, 3, 4, 5, 8, 15, 16, 17, 40, 70][turn % 10];
        let first = turn % (BLOCKS as usize - count);
        let content = &content[turn % 64..];
        let patch = [Patch { at: 9, bytes: &content[..1 + turn % 300] }];
        let olds = blocks[first..][..count].to_vec();
        let images = olds.iter().zip(&mut blocks[first..]);
        let operations: Vec<_> = (first..)
            .zip(images)
            .map(|(number, (old, new))| {
                // Half of them are images alone.
                let form = match (turn + number - first) % 8 {
                    kind if kind < 4 || turn % 2 == 0 => Form::Image,
                    4 => Form::Discard,
                    5 => Form::Images,
                    _ => Form::Patch,
                };
                let form = next(form, &mut known[number]);
                changed(form, number as u64, (old, new), &patch, &content[..BLOCK])
            })
            .collect();
        let first = (turn % 7 == 0).then(|| journal.begin().expect("begins"));
        journal.commit(&operations, Durability::Durable).expect("commits");
        drop(first);
        if turn % 20 == 19 {
            journal.checkpoint().expect("makes room");
        }
    }
    // 4. Every block that is known reads as expected.
    journal.sync().expect("syncs");
    for (number, expected) in (0..).zip(&blocks).filter(|(number, _)| known[*number as usize]) {
        let mut found = [0; BLOCK];
        journal.read(block(number), &mut found).expect("reads");
        assert_eq!(found[..], expected[..], "{name}, block {number}");
    }
    bytes_of(&reader, ALL_BYTES)
}

/// Fails with the first line that two ways left otherwise.
fn assert_same(one: &[u8], other: &[u8], policy: &AnyPolicy) {
    let differs = one.chunks(64).zip(other.chunks(64)).position(|(one, other)| one != other);
    assert_eq!(differs, None, "the line, of {policy:?}");
}

#[test]
fn lines_that_a_medium_puts_together_are_those_that_it_is_given() {
    for &policy in AnyPolicy::ALL {
        let own = memory(ALL_BYTES);
        let method = own.map_facts().method;
        let mut given = memory(ALL_BYTES).with_stream_from_bytes(64);
        // Where there is one way to stream, no medium puts anything together.
        let is_other = |stream: &StreamMethod| *stream != method.stream();
        if let Some(stream) = StreamMethod::supported().find(is_other) {
            let method = Method::new(method.flush(), stream).expect("is had");
            given.set_method(method).expect("flushes");
        }
        assert!(!given.facts().stitches);
        let left = |pmem, name| {
            let options = Options::new().policy(policy);
            left_of_all_kinds(pmem, |disk| disk, options, policy, name)
        };
        assert_same(&left(own, "put"), &left(given, "given"), &policy);
    }
}

/// Lines on memory that has no such instructions, and so on every machine.
#[test]
fn lines_that_a_simulated_medium_puts_together_are_those_that_it_is_given() {
    for &policy in AnyPolicy::ALL {
        let left = [true, false].map(|stitches| {
            let media = World::boot(Image::blank(ALL_BYTES as usize), Model::Torn8);
            let name = if stitches { "simulated-put" } else { "simulated-given" };
            let pmem = DynPmem::new(media.pmem().with_stitches(stitches));
            let options = any_options(policy, NoHook);
            left_of_all_kinds(pmem, DynDisk::new, options, policy, name)
        });
        assert_same(&left[0], &left[1], &policy);
    }
}

/// Counts the records that a medium is given in pieces.
#[derive(Clone, Debug, Default)]
struct Pieces(Arc<AtomicU32>);

impl Hook for Pieces {
    fn stitches(&self) -> bool {
        true
    }

    fn write_checked<P: Pmem>(
        &mut self,
        _site: Site,
        pmem: &mut P,
        at: Offset,
        stitched: &Stitched<'_>,
        seeds: Seeds,
    ) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        pmem.stream_checked(at, stitched, seeds)
    }
}

/// What one thread streams no other one's fence completes, and a deferred record is another's to
/// fence. Only a long one is not: it is streamed, and fenced at once.
#[test]
fn what_is_deferred_is_stored_and_not_put_together_by_the_medium() {
    let (pieces, files) = (Pieces::default(), Files::new("alone-deferred"));
    let options = any_options(ObjectLog::new(), pieces.clone()).lanes(2).shield_blocks(1);
    let media = World::boot(Image::blank(SPAN_BYTES as usize), Model::Torn8);
    let pmem = DynPmem::new(media.pmem().with_stitches(true));
    let journal = Journal::format(pmem, files.any_disk(), &options).expect("formats");
    for (durability, expected) in [(Durability::Deferred, 1), (Durability::Durable, 3)] {
        operations(|image, change| {
            for operation in [image, change] {
                journal.commit(&[operation], durability).expect("commits");
            }
        });
        assert_eq!(pieces.0.load(Ordering::Relaxed), expected, "{durability:?}");
        journal.sync().expect("syncs");
    }
}
