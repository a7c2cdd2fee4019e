//! A shield of more blocks than a record in a lane has frames: one sync for all of them, and none
//! is lost however home is torn.

use journal_core::parts::{Found, Index, LentMemory, OpenMemory};
use journal_core::policy::{Change, Patch, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, BlockSize, Buffers, CheckpointReport, DeviceFacts, Durability, Entry, Geometry,
    Journal, LaneMemory, Needs, NoHook, Node, On, OpenError, Operation, Overwrite, PortableKernels,
    Protocol, Rule, Scope,
};
use object_log::ObjectLog;
use sim_disk::{
    DiskImage, Explorer, Image, Mark, Model, Mutator, Scenario, SimDisk, SimPmem, World,
};

type Opened<'m> = Journal<'m, ObjectLog, On<SimPmem, SimDisk, Mutator>>;

const BLOCK: usize = 64;
const BLOCKS: u64 = 150;
/// The front of an intent of this many blocks is longer than that of any record.
const SHIELDED: u32 = 140;

/// Writes all blocks in part, and then home, twice.
#[derive(Clone)]
struct WideShield {
    mutator: Mutator,
}

fn geometry() -> Geometry {
    Geometry {
        block_size: BlockSize::new(BLOCK as u32).expect("a block size"),
        lanes: 1,
        lane_bytes: 64 << 10,
        shield_blocks: SHIELDED,
        unit_bytes: 256,
        protocol: Protocol::OneFence,
        lane_slots: 0,
        lane_log_blocks: 0,
        segment_blocks: 0,
    }
}

/// What a block holds after `round` rounds: each leaves a byte of its own behind.
fn content(round: u8, block: u64) -> [u8; BLOCK] {
    let mut content = [0; BLOCK];
    for round in 1..=round {
        content[usize::from(round) * 8] = round * 16 + block as u8 % 16;
    }
    content
}

impl WideShield {
    fn new(mutator: Mutator) -> Self {
        Self { mutator }
    }

    /// Opens the journal, with memory for batches of all blocks.
    fn with<R>(
        &self,
        world: &World,
        call: impl FnOnce(&mut Opened<'_>) -> Result<R, String>,
    ) -> Result<R, String> {
        let mut buffers = Buffers::new(&geometry(), 512, BLOCKS as usize);
        let (pmem, disk, hook) = (world.pmem(), world.disk(0), self.mutator.clone());
        let policy = ObjectLog::new();
        let opened = Journal::open(pmem, disk, policy, hook, PortableKernels, buffers.borrow());
        call(&mut opened.map_err(|error| error.to_string())?)
    }
}

impl Scenario for WideShield {
    fn name(&self) -> String {
        format!("a shield of {SHIELDED} blocks")
    }

    fn start(&self) -> Image {
        let geometry = geometry();
        let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
        let facts = DeviceFacts::new(32, Overwrite::MayLeaveGarbage);
        let disk = DiskImage::blank(geometry.block_size, BLOCKS, facts);
        let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
        let (kernels, hook) = (PortableKernels, self.mutator.clone());
        let (policy, id) = (ObjectLog::new(), [1; 16]);
        journal_core::format(world.pmem(), hook, &kernels, &geometry, id, &policy, BLOCKS)
            .expect("formats");
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        self.with(world, |journal| {
            for round in 1..=2_u8 {
                world.called(round.into());
                let at = u32::from(round) * 8;
                let bytes: Vec<_> =
                    (0..BLOCKS).map(|block| [content(round, block)[at as usize]]).collect();
                let patches: Vec<_> = bytes.iter().map(|bytes| [Patch { at, bytes }]).collect();
                let operations: Vec<_> = (0..)
                    .zip(&patches)
                    .map(|(block, patches)| {
                        let change = Change::Patches(patches);
                        Operation::Update(Update::new(BlockNumber(block), change))
                    })
                    .collect();
                journal
                    .commit(LaneNumber(0), &operations, Durability::Durable)
                    .map_err(|error| error.to_string())?;
                world.returned(round.into());
                let report = journal.checkpoint().map_err(|error| error.to_string())?;
                if (report.blocks, report.shielded, report.batches) != (BLOCKS, BLOCKS, 2) {
                    return Err(format!("{report:?}"));
                }
            }
            Ok(())
        })
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let history = world.history();
        let durable = history.iter().filter(|mark| matches!(mark, Mark::Returned(_))).count();
        let called = history.iter().filter(|mark| matches!(mark, Mark::Called(_))).count();
        self.with(world, |journal| {
            let mut found = Vec::new();
            for block in 0..BLOCKS {
                let mut content = [0; BLOCK];
                journal
                    .read(BlockNumber(block), &mut content)
                    .map_err(|error| format!("block {block}: {error}"))?;
                found.push(content);
            }
            let is_after = |round: &usize| {
                (0..).zip(&found).all(|(block, found)| *found == content(*round as u8, block))
            };
            let round = (durable..=called).find(is_after);
            let round = round.ok_or_else(|| format!("neither {durable} nor {called} rounds"))?;
            world.recovered(round as u64);
            Ok(())
        })
    }
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 6).with_random_per_point(32)
}

#[test]
fn a_wide_shield_survives_every_crash() {
    let report = explorer().explore(&WideShield::new(Mutator::new()));
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.images > 1_000, "{report}");
}

#[test]
fn a_wide_shield_is_needed() {
    let broken = explorer().explore(&WideShield::new(Mutator::without(&[Rule::ShieldFirst])));
    assert!(broken.is_err(), "no block is shielded, and nothing notices");
}

/// An intent that is needed, and memory one byte too short to read its front: the open says so, and
/// does not take the intent for none.
#[test]
fn an_open_with_too_little_memory_for_an_intent_is_refused() {
    let scenario = WideShield::new(Mutator::new());
    let world = World::boot(scenario.start(), Model::Torn8);
    let batch = |journal: &mut Opened<'_>| {
        for block in 0..u64::from(SHIELDED) {
            let patches = [Patch { at: 8, bytes: &[7] }];
            let update = Update::new(BlockNumber(block), Change::Patches(&patches));
            let committed =
                journal.commit(LaneNumber(0), &[Operation::Update(update)], Durability::Durable);
            committed.map_err(|error| error.to_string())?;
        }
        let mut report = CheckpointReport::default();
        let written = journal.checkpoint_batch(Scope::All, &mut report);
        written.map_err(|error| error.to_string())
    };
    assert_eq!(scenario.with(&world, batch), Ok(true));
    let mut image = world.visible();
    // The overwrite of a block was torn.
    image.disk_mut(0).set_block(BlockNumber(5), &[0xEE; BLOCK]);
    let needs = Needs::of(&geometry(), 512);
    assert!(needs.front_bytes > needs.record_front_bytes);
    for bytes in [needs.front_bytes, needs.front_bytes - 1, needs.record_front_bytes] {
        let world = World::boot(image.clone(), Model::Torn8);
        let found = Found::load(world.pmem(), NoHook, &PortableKernels).expect("is a journal");
        let mut lanes: Vec<_> = (0..needs.lanes).map(|_| LaneMemory::EMPTY).collect();
        let (mut front, mut block) = (vec![0; bytes], vec![0; needs.blocks_bytes]);
        let (lanes, front) = (&mut lanes[..], &mut front[..]);
        let memory = OpenMemory { lanes, front, block: &mut block, slots: &mut [] };
        let (mut entries, mut nodes) = (vec![Entry::EMPTY; 2048], vec![Node::EMPTY; 1024]);
        let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        let policy = ObjectLog::new();
        let opened = found.open(world.disk(0), policy, PortableKernels, memory, &mut index);
        let home = world.visible().disk(0).block(BlockNumber(5)).to_vec();
        if bytes == needs.front_bytes {
            assert!(opened.is_ok() && home[8] == 7, "the intent is repeated: {home:?}");
        } else {
            let said = opened.map(drop).expect_err("it is too short");
            let (given, needed) = (bytes, needs.front_bytes);
            assert_eq!(said, OpenError::MemoryTooShort { slice: "front bytes", given, needed });
        }
    }
}
