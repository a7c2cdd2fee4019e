//! Changes of less than a block: objects, deltas, and many of them with one fence.

use core::num::NonZeroU32;
use std::cell::RefCell;
use std::hint::black_box;
use std::time::Duration;

use journal_core::policy::{Change, Patch, Policy, Update};
use journal_core::{BlockDevice, BlockNumber, BlockSize, Durability, Operation, Protocol};
use nvm_journal::{Adaptive, CompressedDelta, Error, FullBlock, ObjectLog};
use pmem_sys::NativeKernels;

use crate::owner::{Owner, whole_block};
use crate::{BLOCKS, NOWHERE};
use lab::bench::media::{Aligned, BLOCK, Bare, MemoryDisk, warm};
use lab::bench::work::{
    Front, LANE_BYTES, commit_at_once, commit_change, front, image, leaked, make_room, record_bytes,
};
use lab::bench::{Table, timed};

/// The bytes of an object somewhere in a block.
fn object(images: &[u8], turn: u64, bytes: usize) -> [Patch<'_>; 1] {
    [Patch { at: 512, bytes: &image(images, turn)[..bytes] }]
}

fn bare_commits(
    images: &[u8],
    bare: &'static RefCell<Bare>,
    bytes: usize,
) -> impl FnMut(u64) -> Duration {
    move |count| {
        let mut bare = bare.borrow_mut();
        timed(count, |turn| {
            bare.commit(core::iter::once(&image(images, turn)[..bytes]), bytes);
        })
    }
}

/// Durable commits of objects by the front door.
fn at_once(
    images: &[u8],
    journal: &'static Front<ObjectLog>,
    bytes: usize,
) -> impl FnMut(u64) -> Duration {
    move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| {
            let change = Change::Patches(&object(images, turn, bytes));
            commit_change(journal, turn % BLOCKS, change, Durability::Durable);
        })
    }
}

/// Durable commits of objects by the core.
fn by_owner<D: BlockDevice + 'static>(
    images: &[u8],
    owner: &'static RefCell<Owner<ObjectLog, D>>,
    bytes: usize,
) -> impl FnMut(u64) -> Duration {
    move |count| {
        let mut owner = owner.borrow_mut();
        owner.make_room(count);
        timed(count, |turn| {
            let change = Change::Patches(&object(images, turn, bytes));
            owner.commit(Update::new(BlockNumber(turn % BLOCKS), change), Durability::Durable);
        })
    }
}

pub(crate) fn objects(images: &[u8]) -> Table<'_> {
    let mut table = Table::new("durable objects that the store names, one thread, object-log");
    let bare: &_ = leaked(RefCell::new(Bare::new(warm(LANE_BYTES))));
    let journal: &_ = leaked(front(ObjectLog::new(), NOWHERE, 1));
    let owner: &_ = leaked(RefCell::new(Owner::new(ObjectLog::new(), Protocol::OneFence, NOWHERE)));
    for bytes in [64, 256, 1024] {
        let versus = format!("{bytes:>4} B, limit");
        table.row(versus.clone(), &versus, 1, None, bare_commits(images, bare, bytes));
        let mut one = at_once(images, journal, bytes);
        let record = bare_commits(images, bare, record_bytes(journal, || one(1)));
        table.row(format!("{bytes:>4} B, its record alone"), &versus, 1, None, record);
        let name = format!("{bytes:>4} B, front door, in one call");
        table.row(name, &versus, 1, None, at_once(images, journal, bytes));
        let name = format!("{bytes:>4} B, core, one owner");
        table.row(name, &versus, 1, None, by_owner(images, owner, bytes));
    }
    table
}

/// Where four runs of 34 bytes lie in a block.
const RUNS: [usize; 4] = [100, 1100, 2100, 3100];
const RUN_BYTES: usize = 34;

/// Bytes of an object, where a policy compares objects: three of them cover a run.
const OBJECT_OF_RUNS: u32 = 16;

fn patches(images: &[u8], turn: u64) -> [Patch<'_>; 4] {
    RUNS.map(|at| Patch { at: at as u32, bytes: &image(images, turn)[at..at + RUN_BYTES] })
}

/// Two images that differ in those runs.
fn pair(images: &[u8]) -> [Aligned; 2] {
    let [old, mut new]: [Aligned; 2] = [(); 2].map(|()| images[..BLOCK].to_vec().into());
    for at in RUNS {
        new[at..at + RUN_BYTES].iter_mut().for_each(|byte| *byte = !*byte);
    }
    [old, new]
}

/// Commits that give both images, of `blocks` blocks in turn. The policy finds what differs. A
/// policy that logs objects is told how long they are.
fn diffs<L: Policy + 'static>(
    images: &[u8],
    policy: L,
    object_bytes: Option<NonZeroU32>,
    blocks: usize,
) -> impl FnMut(u64) -> Duration + use<L> {
    let disk = MemoryDisk::new(BlockSize::DEFAULT, blocks as u64);
    let mut owner = Owner::new(policy, Protocol::OneFence, disk);
    // Each block has a pair of images of its own.
    let pairs: Vec<_> = (0..blocks).map(|_| pair(images)).collect();
    for (block, [old, _]) in pairs.iter().enumerate() {
        let whole = Update::new(BlockNumber(block as u64), Change::Image(old));
        owner.commit(whole, Durability::Durable);
    }
    let mut turn = 0;
    move |count| {
        owner.make_room(count);
        timed(count, |_| {
            let (block, pass) = (turn % blocks, turn / blocks);
            let [old, new] = [pass % 2, (pass + 1) % 2].map(|which| &pairs[block][which]);
            let change = Change::Image(new);
            let mut update = Update::new(BlockNumber(block as u64), change);
            (update.old, update.object_bytes) = (Some(&old[..]), object_bytes);
            owner.commit(update, Durability::Durable);
            turn += 1;
        })
    }
}

/// Like `diffs`, by the front door, which keeps old images in its cache.
fn cached_diffs<L>(images: &[u8], policy: L, blocks: u64) -> impl FnMut(u64) -> Duration + use<L>
where
    L: Policy + Clone + Send + Sync + 'static,
{
    let disk = MemoryDisk::new(BlockSize::DEFAULT, 4 * BLOCKS);
    let journal = front(policy, disk, 1);
    let pair = pair(images);
    // The first commit of a block meets new memory, and is not measured.
    for block in 0..blocks {
        commit_change(&journal, block, Change::Image(&pair[1]), Durability::Durable);
    }
    let mut turn = 0;
    move |count| {
        make_room(&journal, count, 1);
        timed(count, |_| {
            let image = &pair[(turn / blocks) as usize % 2];
            commit_change(&journal, turn % blocks, Change::Image(image), Durability::Durable);
            turn += 1;
        })
    }
}

pub(crate) fn deltas(images: &[u8]) -> Table<'_> {
    let title = "four runs of 34 bytes in a block (to limit: to the commit of the whole block)";
    let mut table = Table::new(title);
    let bare: &_ = leaked(RefCell::new(Bare::new(warm(LANE_BYTES))));
    let (whole, owned) = ("4 KiB, front door, in one call", "4 KiB, core, one owner");
    let journal: &_ = leaked(front(FullBlock, NOWHERE, 1));
    table.row(whole, whole, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| commit_at_once(journal, images, turn % BLOCKS))
    });
    table.row(owned, owned, 1, None, whole_block(images, FullBlock, Protocol::OneFence));
    table.row("3 lines, limit", whole, 1, None, bare_commits(images, bare, 192));
    let journal: &_ = leaked(front(ObjectLog::new(), NOWHERE, 1));
    table.row("named, object-log, front door", whole, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| {
            let change = Change::Patches(&patches(images, turn));
            commit_change(journal, turn % BLOCKS, change, Durability::Durable);
        })
    });
    let mut owner = Owner::new(ObjectLog::new(), Protocol::OneFence, NOWHERE);
    table.row("named, object-log, core", owned, 1, None, move |count| {
        owner.make_room(count);
        timed(count, |turn| {
            let change = Change::Patches(&patches(images, turn));
            owner.commit(Update::new(BlockNumber(turn % BLOCKS), change), Durability::Durable);
        })
    });
    let native = NativeKernels::detect();
    let compressed = CompressedDelta::new().kernels(native);
    let adaptive = Adaptive::new().kernels(native);
    let objects = ObjectLog::new().kernels(native);
    let object = NonZeroU32::new(OBJECT_OF_RUNS);
    for (pairs, what) in [(1, "found in a hot pair"), (128, "found in 128 pairs (1 MiB)")] {
        let name = format!("{what}, object-log (16 B), core");
        table.row(name, owned, 1, None, diffs(images, objects, object, pairs));
        let name = format!("{what}, compressed-delta, core");
        table.row(name, owned, 1, None, diffs(images, compressed, None, pairs));
        let name = format!("{what}, adaptive, core");
        table.row(name, owned, 1, None, diffs(images, adaptive, None, pairs));
    }
    let name = "found in 128 cached, compressed-delta, front door";
    table.row(name, whole, 1, None, cached_diffs(images, compressed, 128));
    let name = "found in 128 cached, adaptive, front door";
    table.row(name, whole, 1, None, cached_diffs(images, adaptive, 128));
    table
}

/// Objects of a group, and their bytes.
const GROUP: u64 = 16;
const OBJECT: usize = 256;

/// The operations of a transaction of a whole group.
fn together(images: &[u8], turn: u64, call: impl FnOnce(&[Operation<'_>])) {
    let patches: [_; GROUP as usize] =
        core::array::from_fn(|at| object(images, turn + at as u64, OBJECT));
    let operations: [_; GROUP as usize] = core::array::from_fn(|at| {
        let block = BlockNumber(turn * GROUP % BLOCKS + at as u64);
        Operation::Update(Update::new(block, Change::Patches(&patches[at])))
    });
    call(&operations);
}

pub(crate) fn groups(images: &[u8]) -> Table<'_> {
    let mut table =
        Table::new("16 objects of 256 bytes with one fence, object-log; time per object");
    let bare: &_ = leaked(RefCell::new(Bare::new(warm(LANE_BYTES))));
    let journal: &_ = leaked(front(ObjectLog::new(), NOWHERE, 1));
    let owner: &_ = leaked(RefCell::new(Owner::new(ObjectLog::new(), Protocol::OneFence, NOWHERE)));
    let (single, limit) = ("a fence for each, limit", "a fence for 16, limit");
    table.row(single, single, 1, None, bare_commits(images, bare, OBJECT));
    table.row("a fence for each, front door", single, 1, None, at_once(images, journal, OBJECT));
    table.row("a fence for each, core, one owner", single, 1, None, {
        by_owner(images, owner, OBJECT)
    });
    table.row(limit, limit, GROUP, None, move |count| {
        let mut bare = bare.borrow_mut();
        timed(count, |turn| {
            let pieces = (0..GROUP).map(|at| &image(images, turn + at)[..OBJECT]);
            bare.commit(pieces, GROUP as usize * OBJECT);
        })
    });
    table.row("one transaction, core", limit, GROUP, None, move |count| {
        let mut owner = owner.borrow_mut();
        owner.make_room(count * GROUP);
        timed(count, |turn| {
            together(images, turn, |operations| owner.commit_all(operations, Durability::Durable));
        })
    });
    table.row("one transaction, front door", limit, GROUP, None, move |count| {
        make_room(journal, count * GROUP, 1);
        timed(count, |turn| {
            together(images, turn, |operations| {
                black_box(journal.commit(operations, Durability::Durable).is_ok());
            });
        })
    });
    // The fence of the last one covers all.
    let durability = |at| if at + 1 < GROUP { Durability::Deferred } else { Durability::Durable };
    table.row("15 deferred, 1 durable, core", limit, GROUP, None, move |count| {
        let mut owner = owner.borrow_mut();
        owner.make_room(count * GROUP);
        timed(count * GROUP, |turn| {
            let change = Change::Patches(&object(images, turn, OBJECT));
            let update = Update::new(BlockNumber(turn % BLOCKS), change);
            owner.commit(update, durability(turn % GROUP));
        })
    });
    table.row("15 deferred, 1 durable, front door", limit, GROUP, None, move |count| {
        make_room(journal, count * GROUP, 1);
        timed(count * GROUP, |turn| {
            let change = Change::Patches(&object(images, turn, OBJECT));
            commit_change(journal, turn % BLOCKS, change, durability(turn % GROUP));
        })
    });
    table.row("gathered, and a sync, front door", limit, GROUP, None, move |count| {
        make_room(journal, count * GROUP, 1);
        timed(count, |turn| {
            for block in (turn * GROUP..).take(GROUP as usize) {
                let [Patch { at, bytes }] = object(images, block, OBJECT);
                let block = BlockNumber(block % BLOCKS);
                let gathered: Result<_, Error> =
                    journal.transact_gathered(|tx| tx.write_at(block, at as usize, bytes));
                gathered.expect("gathers");
            }
            journal.sync().expect("syncs");
        })
    });
    table
}
