//! What once went wrong on whole media, told without a crash explorer: each test is named for what
//! it showed.

mod append_beside_checkpoint;
mod homes;
mod media;
mod options;
mod room;
mod superblocks;
mod threads;

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU32, Ordering};
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Arc;

use byte_delta::ByteDelta;
use full_block::FullBlock;
use journal_core::Buffers;
use journal_core::check::crc64;
use journal_core::policy::{
    ApplyError, Change, Class, Encoder, Placement, Policy, PolicyId, Update,
};
use journal_core::superblock::FORMAT_VERSION;
use journal_core::units::LaneNumber;
use journal_core::{
    Batched, BlockNumber, BlockSize, CommitError, DeviceFacts, Durability, Entry, Geometry,
    Journal, JournalError, JournalMemory, LaneMemory, Needs, NoHook, Node, On, OpenError,
    Operation, Overwrite, PortableKernels, Protocol,
};
use lab::erased::{DynHook, DynPolicy};
use sim_disk::FaultKind::Error;
use sim_disk::{DiskImage, Fault, Image, Medium, Model, SimDisk, SimPmem, World};

type Opened<'m> = Journal<'m, DynPolicy, On<SimPmem, SimDisk, DynHook>>;

const BLOCK: usize = 64;
const BLOCKS: u64 = 64;

fn geometry() -> Geometry {
    Geometry {
        block_size: BlockSize::new(BLOCK as u32).expect("a block size"),
        lanes: 2,
        lane_bytes: 4096,
        shield_blocks: 2,
        unit_bytes: 256,
        protocol: Protocol::OneFence,
        lane_slots: 0,
        lane_log_blocks: 0,
        segment_blocks: 0,
    }
}

/// Media for this geometry, with nothing on them.
fn blank(geometry: &Geometry) -> World {
    blank_on(geometry, Overwrite::NeverInPlace)
}

fn blank_on(geometry: &Geometry, overwrite: Overwrite) -> World {
    let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
    let facts = DeviceFacts::new(32, overwrite);
    let disk = DiskImage::blank(geometry.block_size, BLOCKS, facts);
    World::boot(Image::blank(span).with_disk(disk), Model::Torn8)
}

fn format(world: &World, geometry: &Geometry, id: u8, policy: &impl Policy) {
    let kernels = PortableKernels;
    journal_core::format(world.pmem(), NoHook, &kernels, geometry, [id; 16], policy, BLOCKS)
        .expect("formats");
}

/// Opens the journal of a world for some calls.
fn on(
    world: &World,
    geometry: &Geometry,
    policy: impl Policy + Clone + Send + Sync + 'static,
    calls: impl FnOnce(Opened<'_>),
) {
    let mut buffers = Buffers::new(geometry, 64, 2);
    calls(open(world, policy, buffers.borrow()).expect("opens"));
}

/// Opens the journal of a world in this memory.
fn open<'m>(
    world: &World,
    policy: impl Policy + Clone + Send + Sync + 'static,
    memory: JournalMemory<'m, SimPmem, DynHook>,
) -> Result<Opened<'m>, OpenError> {
    let (pmem, disk, policy) = (world.pmem(), world.disk(0), DynPolicy::new(policy));
    Journal::open(pmem, disk, policy, DynHook::default(), PortableKernels, memory)
}

fn commit(journal: &mut Opened<'_>, lane: u16, block: u64, byte: u8) {
    let image = [byte; BLOCK];
    let update = Update::new(BlockNumber(block), Change::Image(&image));
    let operations = [Operation::Update(update)];
    journal.commit(LaneNumber(lane), &operations, Durability::Durable).expect("commits");
}

fn read(journal: &mut Opened<'_>, block: u64) -> [u8; BLOCK] {
    let mut content = [0; BLOCK];
    journal.read(BlockNumber(block), &mut content).expect("reads");
    content
}

/// The second copy of a journal with small media units lies where the first copy of a later one
/// with larger units has nothing: when that first copy is lost, it must not be taken for the twin.
#[test]
fn an_earlier_journals_superblock_is_not_found_in_place_of_a_lost_one() {
    let (older, newer) = (geometry(), Geometry { unit_bytes: 1024, ..geometry() });
    let world = blank(&newer);
    format(&world, &older, 1, &FullBlock);
    on(&world, &older, FullBlock, |mut journal| commit(&mut journal, 0, 0, 1));
    format(&world, &newer, 2, &FullBlock);
    on(&world, &newer, FullBlock, |mut journal| commit(&mut journal, 0, 0, 5));
    // In the magic, in the geometry, and behind both.
    for at in [0, 20, 65, 100] {
        let mut image = world.visible();
        image.flip_bit(Medium::Pmem, at, 1);
        let world = World::boot(image, Model::Torn8);
        on(&world, &newer, FullBlock, |mut journal| assert_eq!(read(&mut journal, 0), [5; BLOCK]));
    }
}

/// A crash cut the format short, so that the older copy is still there.
#[test]
fn a_torn_first_superblock_still_says_where_its_twin_is() {
    let (older, newer) = (geometry(), Geometry { unit_bytes: 1024, ..geometry() });
    let world = blank(&newer);
    format(&world, &older, 1, &FullBlock);
    let stale = world.visible().pmem()[256..512].to_vec();
    format(&world, &newer, 2, &FullBlock);
    on(&world, &newer, FullBlock, |mut journal| commit(&mut journal, 0, 0, 5));
    let mut image = world.visible();
    image.pmem_mut()[256..512].copy_from_slice(&stale);
    image.flip_bit(Medium::Pmem, 100, 1);
    let world = World::boot(image, Model::Torn8);
    on(&world, &newer, FullBlock, |mut journal| assert_eq!(read(&mut journal, 0), [5; BLOCK]));
}

/// A media unit so large that the second superblock would not be looked for where it is.
#[test]
fn units_beyond_the_search_are_refused() {
    let largest = Geometry { unit_bytes: 1 << 21, ..geometry() };
    let world = blank(&largest);
    format(&world, &largest, 1, &FullBlock);
    let mut image = world.visible();
    image.flip_bit(Medium::Pmem, 56, 1);
    let world = World::boot(image, Model::Torn8);
    on(&world, &largest, FullBlock, |mut journal| assert_eq!(read(&mut journal, 0), [0; BLOCK]));
    assert!(Geometry { unit_bytes: (1 << 21) + 64, ..geometry() }.check().is_err());
}

/// Encodes every update as its whole image: as large as an encoding may be.
#[derive(Clone, Copy)]
struct Whole;

impl Policy for Whole {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E59)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        match update.change {
            Change::Image(image) if out.put(image).is_ok() => Placement::Encoded,
            _ => Placement::Image,
        }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        let malformed = ApplyError::Malformed { at: payload.len() };
        block.get_mut(..payload.len()).ok_or(malformed)?.copy_from_slice(payload);
        Ok(())
    }
}

/// Memory may be larger than needed. What is written with more of it is read with less.
#[test]
fn records_do_not_depend_on_how_much_memory_their_writer_had() {
    let geometry = Geometry {
        block_size: BlockSize::new(1024).expect("a block size"),
        lane_bytes: 1 << 16,
        ..geometry()
    };
    let world = blank(&geometry);
    format(&world, &geometry, 1, &Whole);
    let image = [9; 1024];
    for (front_times, encoded_times) in [(1, 8), (8, 8)] {
        let needs = Needs::of(&geometry, 64);
        let mut lanes: Vec<_> = (0..needs.lanes).map(|_| LaneMemory::EMPTY).collect();
        let mut entries = vec![Entry::EMPTY; needs.entries];
        let mut nodes = vec![Node::EMPTY; needs.nodes];
        let mut batch = vec![Batched::EMPTY; needs.batch];
        let mut front = vec![0; front_times * needs.front_bytes];
        let mut encoded = vec![0; encoded_times * needs.encoded_bytes];
        let mut blocks = vec![0; needs.blocks_bytes];
        let memory = JournalMemory {
            lanes: &mut lanes,
            entries: &mut entries,
            nodes: &mut nodes,
            batch: &mut batch,
            front: &mut front,
            encoded: &mut encoded,
            blocks: &mut blocks,
            slots: &mut [],
        };
        let journal = open(&world, Whole, memory);
        let update = |block| Update::new(BlockNumber(block), Change::Image(&image));
        let operations: Vec<_> = (0..16).map(|block| Operation::Update(update(block))).collect();
        let committed =
            journal.expect("opens").commit(LaneNumber(0), &operations, Durability::Durable);
        committed.expect("commits");
    }
    on(&world, &geometry, Whole, |journal| assert_eq!(journal.recovery().records, 2));
}

/// A streamed transaction has as many parts as it takes, more than the number of a part can say.
#[test]
fn a_transaction_of_more_parts_than_sixteen_bits_count_is_there_after_an_open() {
    const PARTS: u64 = (1 << 16) + 10;
    let geometry = Geometry { lanes: 1, lane_bytes: 192 * (PARTS + 1), ..geometry() };
    let world = blank(&geometry);
    format(&world, &geometry, 1, &FullBlock);
    let image = [9; BLOCK];
    let with = |calls: &mut dyn FnMut(Opened<'_>)| {
        let mut buffers = Buffers::new(&geometry, 1 << 17, 2);
        calls(open(&world, FullBlock, buffers.borrow()).expect("opens"));
    };
    with(&mut |mut journal| {
        let mut streamed = journal.begin(LaneNumber(0), geometry.lane_bytes).expect("fits");
        for part in 0..PARTS {
            let update = Update::new(BlockNumber(part % BLOCKS), Change::Image(&image));
            streamed.write(&[Operation::Update(update)]).expect("was reserved");
        }
        streamed.commit().expect("commits");
    });
    with(&mut |mut journal| assert_eq!(read(&mut journal, 0), image));
}

/// What looks like the second record of the first lane, at 128. Its check is right.
fn forged_header(id: u8, generation: u64, stamp: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    header[4] = 1; // A commit,
    header[8..12].copy_from_slice(&3_u32.to_le_bytes()); // of three lines
    header[12] = 1; // and one frame,
    header[16..24].copy_from_slice(&128_u64.to_le_bytes()); // where the image will lie.
    header[24] = 2;
    header[40..48].copy_from_slice(&generation.to_le_bytes());
    header[56..].copy_from_slice(&stamp.to_le_bytes());
    let journal = crc64(crc64(0, &[id; 16]), &FORMAT_VERSION.to_le_bytes());
    let check = crc64(crc64(journal, &1_u32.to_le_bytes()), &header);
    header[..4].copy_from_slice(&check.to_le_bytes()[..4]);
    header
}

/// A forged header, left behind a torn record, is evidence at most: whatever stamp it claims, later
/// transactions keep their order and their place.
#[test]
fn a_stamp_in_a_payload_orders_nothing() {
    const ID: u8 = 1;
    let world = blank(&geometry());
    format(&world, &geometry(), ID, &FullBlock);
    // A journal that was closed, as a format leaves it, is not searched for evidence.
    on(&world, &geometry(), FullBlock, |_| {});
    let with = |header: &[u8; BLOCK]| {
        let lane = 2 * 256 + usize::try_from(geometry().shield_bytes()).expect("small");
        let mut image = world.visible();
        image.pmem_mut()[lane + 128..lane + 192].copy_from_slice(header);
        World::boot(image, Model::Torn8)
    };
    // What it says of the superblock counts. So it is looked at, unless it is another journal's.
    for (id, counts) in [(ID, true), (ID + 1, false)] {
        let world = with(&forged_header(id, 1 << 40, 7));
        let mut buffers = Buffers::new(&geometry(), 64, 2);
        let opened = open(&world, FullBlock, buffers.borrow());
        let is_lost = matches!(opened.map(drop), Err(OpenError::SuperblockLost { .. }));
        assert_eq!(is_lost, counts, "of journal {id}");
    }
    for stamp in [1_u64 << 60, (1 << 61) - 1, u64::MAX - 1, u64::MAX] {
        let world = with(&forged_header(ID, 0, stamp));
        on(&world, &geometry(), FullBlock, |mut journal| {
            commit(&mut journal, 1, 0, 5);
            commit(&mut journal, 1, 1, 5);
            commit(&mut journal, 0, 0, 6);
            journal.checkpoint().expect("checkpoints");
            commit(&mut journal, 1, 0, 7);
            commit(&mut journal, 0, 0, 8);
            assert_eq!(read(&mut journal, 0), [8; BLOCK]);
        });
        on(&world, &geometry(), FullBlock, |mut journal| {
            assert_eq!(read(&mut journal, 0), [8; BLOCK], "{stamp:#x}");
            journal.checkpoint().expect("checkpoints");
            assert_eq!(read(&mut journal, 0), [8; BLOCK], "{stamp:#x}");
        });
    }
}

/// A line that cannot be read is no torn tail: what it held may have been acknowledged.
#[test]
fn poison_in_the_last_record_is_an_error() {
    let world = blank(&geometry());
    format(&world, &geometry(), 1, &FullBlock);
    on(&world, &geometry(), FullBlock, |mut journal| commit(&mut journal, 0, 0, 5));
    let lane = 2 * 256 + geometry().shield_bytes();
    for line in 0..8 {
        let mut image = world.visible();
        image.poison(lane + line * 64);
        let world = World::boot(image, Model::Torn8);
        let mut buffers = Buffers::new(&geometry(), 64, 2);
        let opened = open(&world, FullBlock, buffers.borrow());
        // Three lines of the record, and the line where the next one would begin.
        match opened {
            Err(OpenError::Medium(_)) if line < 4 => {}
            Ok(mut journal) if line >= 4 => assert_eq!(read(&mut journal, 0), [5; BLOCK]),
            Err(error) => panic!("line {line}: {error}"),
            Ok(_) => panic!("line {line}: opened"),
        }
    }
}

/// A streamed transaction that is forgotten, not dropped, is one that never was. Nobody has fenced
/// what it streamed, so nothing is stored in its place before the journal is opened again.
#[test]
fn a_forgotten_stream_is_one_that_never_was() {
    let world = blank(&geometry());
    format(&world, &geometry(), 1, &FullBlock);
    on(&world, &geometry(), FullBlock, |mut journal| {
        let image = [9; BLOCK];
        let mut streamed = journal.begin(LaneNumber(0), 1024).expect("fits");
        let update = Update::new(BlockNumber(1), Change::Image(&image));
        streamed.write(&[Operation::Update(update)]).expect("was reserved");
        core::mem::forget(streamed);
        let next = journal.commit(LaneNumber(0), &[Operation::Update(update)], Durability::Durable);
        assert_eq!(next, Err(CommitError::Failed));
        assert_eq!(journal.sync(), Err(JournalError::Failed));
    });
    on(&world, &geometry(), FullBlock, |mut journal| {
        assert_eq!(read(&mut journal, 1), [0; BLOCK]);
        commit(&mut journal, 0, 0, 5);
    });
    on(&world, &geometry(), FullBlock, |mut journal| assert_eq!(read(&mut journal, 0), [5; BLOCK]));
}

/// What ends a streamed transaction lets the journal go on: given up, empty, or durable.
#[test]
fn a_journal_goes_on_behind_a_stream_that_has_ended() {
    let world = blank(&geometry());
    format(&world, &geometry(), 1, &FullBlock);
    on(&world, &geometry(), FullBlock, |mut journal| {
        let image = [9; BLOCK];
        let operations = [Operation::Update(Update::new(BlockNumber(1), Change::Image(&image)))];
        let mut given_up = journal.begin(LaneNumber(0), 1024).expect("fits");
        given_up.write(&operations).expect("was reserved");
        given_up.abort();
        let empty = journal.begin(LaneNumber(0), 1024).expect("fits");
        assert_eq!(empty.commit(), Err(CommitError::Unchanged));
        let mut whole = journal.begin(LaneNumber(0), 1024).expect("fits");
        whole.write(&operations).expect("was reserved");
        whole.commit().expect("stores");
        commit(&mut journal, 0, 0, 5);
    });
    on(&world, &geometry(), FullBlock, |mut journal| {
        assert_eq!((read(&mut journal, 0), read(&mut journal, 1)), ([5; BLOCK], [9; BLOCK]));
    });
}

/// A device that tears, deltas, and a geometry without a shield: a checkpoint cannot do what it
/// promises, and says so.
#[test]
fn a_checkpoint_that_needs_a_shield_and_has_none_says_so() {
    let geometry = Geometry { shield_blocks: 0, ..geometry() };
    let world = blank_on(&geometry, Overwrite::MayLeaveGarbage);
    format(&world, &geometry, 1, &Whole);
    on(&world, &geometry, Whole, |mut journal| {
        commit(&mut journal, 0, 3, 5);
        let checkpoint = journal.checkpoint();
        assert_eq!(checkpoint, Err(JournalError::NoShield { block: BlockNumber(3) }));
        assert_eq!(read(&mut journal, 3), [5; BLOCK]);
    });
}

/// A commit reads back what it stored, to index it. Where that fails it fails, as one whose fence
/// did: it is never acknowledged and then not there.
#[test]
fn a_commit_whose_record_cannot_be_read_back_is_not_acknowledged() {
    let mut failed = 0;
    for later in 0..8 {
        for streams in [false, true] {
            let world = blank(&geometry());
            format(&world, &geometry(), 1, &FullBlock);
            let mut acknowledged = false;
            on(&world, &geometry(), FullBlock, |mut journal| {
                let reads = world.operations().of(sim_disk::Operation::MemoryRead);
                let fails = Fault::on(sim_disk::Operation::MemoryRead, reads + later, Error);
                world.inject(fails);
                let image = [5; BLOCK];
                let update = Update::new(BlockNumber(0), Change::Image(&image));
                let operations = [Operation::Update(update)];
                let result = if streams {
                    let mut streamed = journal.begin(LaneNumber(0), 512).expect("fits");
                    streamed.write(&operations).expect("was reserved");
                    streamed.commit()
                } else {
                    journal.commit(LaneNumber(0), &operations, Durability::Durable)
                };
                acknowledged = result.is_ok();
                if !acknowledged {
                    failed += 1;
                    let refused = journal.read(BlockNumber(0), &mut [0; BLOCK]);
                    assert_eq!(refused, Err(JournalError::Failed));
                }
            });
            // The fault may not have struck yet.
            let world = World::boot(world.visible(), Model::Torn8);
            on(&world, &geometry(), FullBlock, |mut journal| {
                let content = read(&mut journal, 0);
                assert!(content == [5; BLOCK] || !acknowledged);
            });
        }
    }
    // Each part is read in two steps, its header first.
    assert!(failed >= 4, "{failed}");
}

/// The most frames that a part has, all of them in slots, and names of all other lanes: such a
/// front is longer than one of images or of payloads alone.
#[test]
fn a_part_of_slots_that_names_every_lane_fits() {
    let geometry = Geometry { lanes: 32, unit_bytes: 1216, lane_slots: 64, ..geometry() };
    let world = blank(&geometry);
    format(&world, &geometry, 1, &ByteDelta::new());
    let images: Vec<[u8; BLOCK]> = (0..64).map(|byte| [byte; BLOCK]).collect();
    let operations: Vec<Operation<'_>> = (0..)
        .map(BlockNumber)
        .zip(&images)
        .map(|(at, image)| Operation::write(at, image))
        .collect();
    let mut buffers = Buffers::new(&geometry, 128, 2);
    let mut with = |world: &World, calls: &mut dyn FnMut(&mut Opened<'_>)| {
        let journal = open(world, ByteDelta::new(), buffers.borrow());
        calls(&mut journal.expect("opens"));
    };
    with(&world, &mut |journal| {
        for lane in 1..32 {
            commit(journal, lane, lane.into(), 0xFF);
        }
        journal.commit(LaneNumber(0), &operations, Durability::Durable).expect("commits");
    });
    let world = World::boot(world.visible(), Model::Torn8);
    with(&world, &mut |journal| {
        assert!((0..64).all(|block| read(journal, block) == [block as u8; BLOCK]));
    });
}

/// What is metadata is a delta that needs the old content, as far as a journal can know.
#[derive(Clone)]
struct MetadataEncoded;

impl Policy for MetadataEncoded {
    fn id(&self) -> PolicyId {
        PolicyId(1001)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        match update.class {
            Class::Metadata => Whole.place(update, out),
            Class::Data => Placement::Image,
        }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        Whole.apply(payload, block)
    }
}

/// Whether some blocks need the shield, one and all of them, and how many: neighbours go home
/// together, although there are more than a batch holds, in whatever order they were committed.
#[test]
fn neighbours_go_home_together_in_batches_that_do_not_hold_all_of_them() {
    for shielded in [0, 3, 1] {
        let geometry = Geometry { lane_bytes: 64 << 10, shield_blocks: 4, ..geometry() };
        let world = blank_on(&geometry, Overwrite::MayLeaveGarbage);
        format(&world, &geometry, 1, &MetadataEncoded);
        let mut buffers = Buffers::new(&geometry, 256, 16).run_blocks(16, &geometry);
        let opened = open(&world, MetadataEncoded, buffers.borrow());
        let mut journal = opened.expect("opens");
        for at in 0..48_u64 {
            // All of them, here and there.
            let block = at * 29 % 48;
            let image = [block as u8 + 1; BLOCK];
            let mut update = Update::new(BlockNumber(block), Change::Image(&image));
            let needs_shield = shielded > 0 && block % shielded == 0;
            update.class = if needs_shield { Class::Metadata } else { Class::Data };
            let operations = [Operation::Update(update)];
            journal.commit(LaneNumber(0), &operations, Durability::Durable).expect("commits");
        }
        let report = journal.checkpoint().expect("there is a shield");
        let needing = 48_u64.checked_div(shielded).unwrap_or(0);
        assert_eq!((report.blocks, report.shielded), (48, needing));
        // Each batch but the last is half full at least, or the shield is.
        assert!(report.batches <= needing / 4 + 48 / 8 + 1, "{report:?}");
        assert_eq!(report.writes, report.batches, "{report:?}");
        for block in 0..48 {
            assert_eq!(
                *world.visible().disk(0).block(BlockNumber(block)),
                [block as u8 + 1; BLOCK]
            );
        }
    }
}

/// Encodes every update as its whole image, and panics at one of its calls.
#[derive(Clone, Default)]
struct WholePanics(Arc<AtomicU32>);

impl Policy for WholePanics {
    fn id(&self) -> PolicyId {
        Whole.id()
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            resume_unwind(Box::new("on purpose"));
        }
        Whole.place(update, out)
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        Whole.apply(payload, block)
    }
}

/// A policy is asked again between the parts of a record. Where it panics then, some of them are
/// stored, and in the index: the journal has failed, and what they changed is never to be seen.
#[test]
fn what_a_panic_cut_short_is_not_there() {
    let image = [7; BLOCK];
    let update = |block| Operation::Update(Update::new(BlockNumber(block), Change::Image(&image)));
    let many: Vec<_> = (0..10).map(update).collect();
    let (mut refused, mut went_on) = (0, 0);
    for (at, is_streamed) in (1..40).flat_map(|at| [(at, false), (at, true)]) {
        let world = blank(&geometry());
        format(&world, &geometry(), 1, &Whole);
        let policy = WholePanics::default();
        let calls = Arc::clone(&policy.0);
        let mut is_there = false;
        on(&world, &geometry(), policy, |mut journal| {
            commit(&mut journal, 1, 0, 3);
            let (panicked, failed) = if is_streamed {
                let mut streamed = journal.begin(LaneNumber(0), 3072).expect("fits");
                streamed.write(&[update(20)]).expect("was reserved");
                calls.store(at, Ordering::Relaxed);
                let panicked = catch_unwind(AssertUnwindSafe(|| streamed.write(&many))).is_err();
                calls.store(0, Ordering::Relaxed);
                (panicked, streamed.commit().is_err())
            } else {
                calls.store(at, Ordering::Relaxed);
                let commit = || journal.commit(LaneNumber(0), &many, Durability::Durable);
                let panicked = catch_unwind(AssertUnwindSafe(commit)).is_err();
                calls.store(0, Ordering::Relaxed);
                (panicked, journal.sync().is_err())
            };
            is_there = !panicked;
            if failed {
                refused += 1;
                assert_eq!(journal.checkpoint(), Err(JournalError::Failed));
            } else {
                went_on += usize::from(panicked);
                commit(&mut journal, 0, 30, 5);
                journal.checkpoint().expect("has room");
            }
        });
        on(&world, &geometry(), Whole, |mut journal| {
            for block in 0..10 {
                let before = if block == 0 { [3; BLOCK] } else { [0; BLOCK] };
                let expected = if is_there { image } else { before };
                assert_eq!(read(&mut journal, block), expected, "{at}, {is_streamed}, {block}");
            }
        });
    }
    assert!(refused > 0 && went_on > 0, "{refused}, {went_on}");
}
