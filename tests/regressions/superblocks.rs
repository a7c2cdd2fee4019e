//! Superblocks: rot in one, content that looks like another journal's, and formats cut short.

use full_block::FullBlock;
use journal_core::check::crc64;
use journal_core::policy::{Change, Update};
use journal_core::superblock::{SuperblockError, superblock_bytes};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, BlockSize, Buffers, DeviceFacts, Durability, Geometry, Journal, NoHook, On,
    OpenError, Operation, Overwrite, PortableKernels, Protocol, Rule,
};
use lab::erased::{DynHook, DynPolicy};
use nvm_journal::AnyPolicy;
use sim_disk::{DiskImage, Image, Medium, Model, Mutator, SimDisk, SimPmem, World};

const BLOCK: usize = 512;
const BLOCKS: u64 = 64;

fn geometry(unit_bytes: u32) -> Geometry {
    Geometry {
        block_size: BlockSize::new(BLOCK as u32).expect("a block size"),
        lanes: 1,
        lane_bytes: 4096,
        shield_blocks: 0,
        unit_bytes,
        protocol: Protocol::OneFence,
        lane_slots: 0,
        lane_log_blocks: 0,
        segment_blocks: 0,
    }
}

fn blank() -> World {
    let facts = DeviceFacts::new(BLOCK as u32, Overwrite::NeverInPlace);
    let block_size = BlockSize::new(BLOCK as u32).expect("a block size");
    let disk = DiskImage::blank(block_size, BLOCKS, facts);
    World::boot(Image::blank(1 << 14).with_disk(disk), Model::Torn8)
}

type Opened<'m> = Journal<'m, DynPolicy, On<SimPmem, SimDisk, DynHook>>;

fn on<R>(
    world: &World,
    geometry: &Geometry,
    mutator: Mutator,
    calls: impl FnOnce(&mut Opened<'_>) -> R,
) -> Result<R, OpenError> {
    let mut buffers = Buffers::new(geometry, 64, 2);
    let (pmem, disk) = (world.pmem(), world.disk(0));
    let (policy, hook) = (DynPolicy::new(FullBlock), DynHook::new(mutator));
    Journal::open(pmem, disk, policy, hook, PortableKernels, buffers.borrow())
        .map(|mut journal| calls(&mut journal))
}

fn format(world: &World, geometry: &Geometry, id: u8) {
    let pmem = world.pmem();
    journal_core::format(pmem, NoHook, &PortableKernels, geometry, [id; 16], &FullBlock, BLOCKS)
        .expect("formats");
}

fn commit(journal: &mut Opened<'_>, block: u64, image: &[u8; BLOCK]) {
    let operation = Operation::Update(Update::new(BlockNumber(block), Change::Image(image)));
    journal.commit(LaneNumber(0), &[operation], Durability::Durable).expect("commits");
}

/// The second superblock of another journal, which lies at 768 there.
fn of_another_journal() -> Vec<u8> {
    let other = blank();
    format(&other, &geometry(768), 9);
    other.visible().pmem()[768..1024].to_vec()
}

/// A journal with a block that holds a copy at 768, and one that holds fives. One bit of its first
/// superblock has rotted.
fn with_copy_and_rot(copied: &[u8]) -> Image {
    let world = blank();
    format(&world, &geometry(256), 1);
    on(&world, &geometry(256), Mutator::new(), |journal| {
        // The record is at 512, its image from 640 on: so that the copy lies at 768.
        let mut image = [0; BLOCK];
        image[128..384].copy_from_slice(copied);
        commit(journal, 0, &image);
        commit(journal, 1, &[5; BLOCK]);
    })
    .expect("opens");
    let mut image = world.visible();
    assert_eq!(&image.pmem()[768..1024], copied);
    // `unit_bytes`, 256: one bit turns it into 768.
    image.flip_bit(Medium::Pmem, 65, 1);
    image
}

/// What the second block holds.
fn second_block(image: &Image, mutator: Mutator) -> Result<[u8; BLOCK], OpenError> {
    let world = World::boot(image.clone(), Model::Torn8);
    on(&world, &geometry(256), mutator, |journal| {
        let mut content = [0; BLOCK];
        journal.read(BlockNumber(1), &mut content).map(|()| content).expect("reads")
    })
}

#[test]
fn one_bit_of_rot_does_not_make_content_the_superblock() {
    let image = with_copy_and_rot(&of_another_journal());
    assert_eq!(second_block(&image, Mutator::new()), Ok([5; BLOCK]), "the other copy counts");
    let without = second_block(&image, Mutator::without(&[Rule::TwinsAlike]));
    assert_eq!(without, Ok([0; BLOCK]), "the rule is off: content is the superblock");
}

/// A copy of a journal that this version does not open is content as well. That journal is of
/// another format, has unknown features, or has a geometry that cannot be.
#[test]
fn one_bit_of_rot_does_not_make_content_a_reason_to_refuse() {
    use SuperblockError::{Features, Geometry, Version};
    // Where the field lies, and what it is.
    let fields = [
        (8, 1, Version { found: 1 }),
        (8, 3, Version { found: 3 }),
        (24, 1 << 31, Features { unknown: 1 << 31 }),
        (12, 65, Geometry),
        (64, 64, Geometry),
    ];
    for (at, value, reason) in fields {
        let mut copied = of_another_journal();
        copied[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        let check_at = superblock_bytes(1) - 8;
        let check = crc64(0, &copied[..check_at]);
        copied[check_at..check_at + 8].copy_from_slice(&check.to_le_bytes());
        let image = with_copy_and_rot(&copied);
        assert_eq!(second_block(&image, Mutator::new()), Ok([5; BLOCK]), "{reason}");
        let without = second_block(&image, Mutator::without(&[Rule::TwinsAlike]));
        assert_eq!(without, Err(OpenError::Superblock(reason)), "the rule is off");
    }
}

/// `slot::void_all` and what forgets the second superblock are in flight together.
#[test]
fn a_format_cut_short_and_a_lost_first_line_leave_no_half_journal() {
    use sim_disk::{CrashPoints, Rng};
    let lcow = *AnyPolicy::ALL.iter().find(|policy| policy.name() == "lcow").expect("there is");
    let geometry = Geometry { lane_slots: 8, ..geometry(256) };
    let format = |world: &World, id: u8| {
        let (pmem, kernels) = (world.pmem(), PortableKernels);
        journal_core::format(pmem, NoHook, &kernels, &geometry, [id; 16], &lcow, BLOCKS)
            .expect("formats");
    };
    let shows = |world: &World, folds: bool| -> Result<Vec<u8>, OpenError> {
        let mut buffers = Buffers::new(&geometry, 64, 2);
        let (pmem, disk) = (world.pmem(), world.disk(0));
        let (policy, memory) = (DynPolicy::new(lcow), buffers.borrow());
        let hook = DynHook::default();
        let opened = Journal::open(pmem, disk, policy, hook, PortableKernels, memory);
        let mut journal = opened?;
        if folds {
            for block in 0..4 {
                let image = [1 + block as u8; BLOCK];
                let update = Update::new(BlockNumber(block), Change::Image(&image));
                let operation = Operation::Update(update);
                journal.commit(LaneNumber(0), &[operation], Durability::Durable).expect("commits");
            }
            let _ = journal.fold().expect("folds");
        }
        let mut show = |block| {
            let mut content = [0; BLOCK];
            journal.read(BlockNumber(block), &mut content).map_or(255, |()| content[0])
        };
        Ok((0..4).map(&mut show).collect())
    };
    let world = blank();
    format(&world, 1);
    let expected = shows(&world, true).expect("opens");
    assert_eq!(expected, [1, 2, 3, 4]);
    let world = World::boot(world.visible(), Model::Torn8);
    format(&world, 2);
    let (start, tape) = (world.start(), world.tape());
    let (mut old, mut new, mut none, mut half) = (0, 0, 0, Vec::new());
    for (at, point) in CrashPoints::new(&start, &tape, Model::Torn8, 0).enumerate() {
        for choice in point.choices(1 << 6, 64, &mut Rng::new(7)) {
            let mut image = point.image(&choice);
            image.poison(0);
            match shows(&World::boot(image, Model::Torn8), false) {
                Err(_) => none += 1,
                Ok(found) if found == expected => old += 1,
                Ok(found) if found == [0; 4] => new += 1,
                Ok(found) => half.push((at, found)),
            }
        }
    }
    assert!(old > 0 && none > 0 && new > 0, "{old} old, {new} new, {none} none");
    assert!(half.is_empty(), "{expected:?}: {:?}", &half[..half.len().min(3)]);
}
