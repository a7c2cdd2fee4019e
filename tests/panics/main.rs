//! What is left of a journal when what it calls panics: its memory, its device or its policy, at
//! each call in turn that stores, fences, writes, reads the device, places or applies, whatever the
//! journal is doing.
//!
//! Either nothing had begun, and it goes on; or it refuses to. What was acknowledged is there in
//! both cases, and what was not is there as a whole or not at all.

mod door;
mod fuse;
mod owner;

use journal_core::policy::{Change, Kind, Patch, Update};
use journal_core::{
    BlockNumber, BlockSize, DeviceFacts, Geometry, Operation, Overwrite, PortableKernels, Protocol,
};
use sim_disk::{CrashPoints, DiskImage, Image, Model, World};

use fuse::{BLOCK, FIRST, Fuse, Logs, PATCH};

const BLOCKS: u64 = 16;

/// What each block has to show.
type Truth = [[u8; BLOCK]; BLOCKS as usize];

/// Blocks that change, and how each is logged.
type Changes = &'static [(u64, u8)];

/// In the record, whole or in part; in a slot; in the disk-side log; at home.
const IMAGE: u8 = 0;
const ENCODED: u8 = 1;
const SLOT: u8 = 2;
const LOG: u8 = 3;
const HOME: u8 = 4;

/// The block that is not live when a panic comes.
const APPENDED: u64 = 11;

fn geometry(logs: Logs) -> Geometry {
    let (lane_slots, lane_log_blocks, segment_blocks) = match logs {
        Logs::Images => (0, 0, 0),
        Logs::AsSaid => (6, 8, 2),
    };
    Geometry {
        block_size: BlockSize::new(BLOCK as u32).expect("a block size"),
        lanes: 2,
        lane_bytes: 8192,
        shield_blocks: 2,
        unit_bytes: 256,
        protocol: Protocol::OneFence,
        lane_slots,
        lane_log_blocks,
        segment_blocks,
    }
}

/// A journal that was just formatted.
fn formatted(logs: Logs) -> World {
    let geometry = geometry(logs);
    let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
    let facts = DeviceFacts::new(32, Overwrite::MayLeaveGarbage);
    let blocks = BLOCKS + geometry.log_blocks();
    let disk = DiskImage::blank(geometry.block_size, blocks, facts);
    let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
    let (fuse, kernels) = (Fuse::default(), PortableKernels);
    let policy = fuse.policy(logs);
    journal_core::format(world.pmem(), fuse, &kernels, &geometry, [7; 16], &policy, BLOCKS)
        .expect("formats");
    world
}

/// What came of a call that was to panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// There is no such call.
    Done,
    WentOn,
    Refused,
}

/// The next content of a block, of which a policy can tell how it is to be logged.
fn next_of(old: &[u8; BLOCK], how: u8) -> [u8; BLOCK] {
    let mut new = *old;
    let changed = if matches!(how, ENCODED | PATCH) { FIRST } else { BLOCK };
    new[..changed].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(3).wrapping_add(how + 41));
    new[BLOCK - 1] = how;
    new
}

/// What all blocks hold when some have changed.
fn changed(truth: &Truth, changes: &[(u64, u8)]) -> Truth {
    let mut after = *truth;
    for (block, how) in changes {
        after[*block as usize] = next_of(&truth[*block as usize], *how);
    }
    after
}

/// The operations that lead from one truth to the next, each logged in its way.
fn with_operations<R>(
    before: &Truth,
    changes: &[(u64, u8)],
    call: impl FnOnce(&[Operation<'_>]) -> R,
) -> R {
    let after = changed(before, changes);
    let patches = after.each_ref().map(|image| [Patch { at: 0, bytes: &image[..FIRST] }]);
    let operation = |(block, how): &(u64, u8)| {
        let at = *block as usize;
        let change = match *how {
            PATCH => Change::Patches(&patches[at]),
            _ => Change::Image(&after[at]),
        };
        let mut update = Update::new(BlockNumber(*block), change);
        update.old = Some(&before[at]);
        update.kind = if *how == HOME { Kind::Append } else { Kind::Overwrite };
        Operation::Update(update)
    };
    call(&changes.iter().map(operation).collect::<Vec<_>>())
}

/// What is left when nothing survives but what is durable.
fn worst_of(world: &World) -> World {
    let tape = world.tape();
    let points = CrashPoints::new(&world.start(), &tape, world.rules(), tape.len());
    let end = points.last().expect("has an end");
    World::boot(end.image(&vec![0; end.cells().len()]), Model::Torn8)
}

/// What is left when only the process is gone.
fn left_of(world: &World) -> World {
    World::boot(world.visible(), Model::Torn8)
}

/// Whether blocks hold what one of these says. What is not live has nothing to show, and goes home
/// before its record.
fn is_one_of(found: &[[u8; BLOCK]], may_be: &[Truth]) -> bool {
    may_be.iter().any(|truth| {
        let mut truth = *truth;
        truth[APPENDED as usize] = found[APPENDED as usize];
        found == truth
    })
}
