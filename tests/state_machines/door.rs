//! The machine over the front door: several transactions open at once, in one thread.
//!
//! What it promises is judged by the oracle of the front door's own crash tests: of six blocks of
//! 64 bytes a set of transactions that is closed under dependency and has all that was
//! acknowledged.

use core::time::Duration;

use journal_core::policy::{Pacing, Policy, Thresholds};
use journal_core::units::BlockSize;
use journal_core::{
    Buffers, DeviceFacts, Durability, Geometry, NoHook, Overwrite, PortableKernels, Protocol,
};
use lab::erased::{AnyMachine, DynHook, DynJournal, DynPolicy, any_options, of_world};
use nvm_journal::{AnyPolicy, Options};
use proptest::prelude::*;
use sim_disk::suite::Habits;
use sim_disk::{DiskImage, Image, Model, Mutator, World};

use crate::lives::{Life, Machine, Process, lives, run};
use crate::policies::{comparing, for_each_comparing_policy, for_each_policy, tiny};
use crate::run::{Sample, holds};
use crate::session::{Session, read_all};
use lab::oracle::{BLOCK_BYTES, BLOCKS, Change, End, judge, sync_label};

use Change::{Append, Discard, Read, Touch, Write};

pub(crate) type Journal = DynJournal;
pub(crate) type Transaction<'j> = nvm_journal::Transaction<'j, DynPolicy, AnyMachine>;
pub(crate) type Snapshot<'j> = nvm_journal::Snapshot<'j, DynPolicy, AnyMachine>;

/// Transactions that are open at once, at most.
pub(crate) const SEATS: usize = 3;
/// A transaction of this number of blocks has room in the shortest lane.
pub(crate) const FITS: usize = 3;

/// The changes of a transaction, each block once.
pub(crate) type Changes = Vec<(usize, Change)>;

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// A transaction from begin to end.
    Transact(Changes, End),
    /// One in one call, of what needs no old content.
    AtOnce(Changes, Durability),
    /// Begins one, unless this seat has one, and changes a block in it.
    Stage(usize, (usize, Change)),
    /// Ends the one of this seat.
    Finish(usize, End),
    Sync,
    Checkpoint,
    /// Empties the rings.
    CheckpointRings,
    /// A number of milliseconds pass.
    Tick(u8),
    /// Begins a snapshot, and ends the one before. Behind each step it shows the state that it
    /// began with, or says that it has ended.
    Snapshot,
}

/// A journal of little room.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    lanes: u16,
    lane_bytes: u64,
    lane_slots: u32,
    lane_segments: u32,
    batch: usize,
    /// Blocks that the running transaction gathers.
    buffer: usize,
    /// Slots that may hold what was read.
    clean_slots: u32,
    /// Whether logged blocks stay in the cache.
    pins: bool,
    /// Says of every other transaction's blocks that they hold structure.
    pub(crate) metadata: bool,
    drain_on_open: bool,
    keep_on_close: bool,
    pub(crate) upkeep: Upkeep,
    overwrite: Overwrite,
    model: Model,
}

/// How room is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upkeep {
    /// From which fractions of a lane on, if not as the policy wishes.
    thresholds: Option<(u8, u8)>,
    pub(crate) in_commits: bool,
    relogs: bool,
    /// After how many changes a block is logged whole; zero: however many there are.
    whole_after: u8,
}

fn upkeep() -> impl Strategy<Value = Upkeep> {
    let pairs = vec![(40, 200), (96, 255), (255, 96), (100, 100), (0, 255)];
    let thresholds = prop::option::of(prop::sample::select(pairs));
    let whole_after = prop::sample::select(vec![0, 0, 1, 3]);
    (thresholds, any::<bool>(), prop::bool::weighted(0.3), whole_after).prop_map(
        |(thresholds, in_commits, relogs, whole_after)| Upkeep {
            thresholds,
            in_commits,
            relogs,
            whole_after,
        },
    )
}

fn shape() -> impl Strategy<Value = Shape> {
    let disk = vec![Overwrite::OldOrNew, Overwrite::MayLeaveGarbage];
    let layout = (
        1..4_u16,
        prop::sample::select(vec![10 * 64_u64, 24 * 64, 64 * 64]),
        1..6_u32,
        1..4_u32,
        1..3_usize,
        prop::sample::select(vec![1_usize, 2, 64]),
        0..4_u32,
    );
    let flags =
        (any::<bool>(), prop::bool::weighted(0.2), any::<bool>(), prop::bool::weighted(0.2));
    let media =
        (prop::sample::select(disk), prop::sample::select(vec![Model::Torn8, Model::X86Line]));
    (layout, flags, upkeep(), media).prop_map(|(layout, flags, upkeep, (overwrite, model))| {
        let (lanes, lane_bytes, lane_slots, lane_segments, batch, buffer, clean_slots) = layout;
        let (metadata, drain_on_open, keep_on_close, pins) = flags;
        Shape {
            lanes,
            lane_bytes,
            lane_slots,
            lane_segments,
            batch,
            buffer,
            clean_slots,
            pins,
            metadata,
            drain_on_open,
            keep_on_close,
            upkeep,
            overwrite,
            model,
        }
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop::sample::select(vec![Write, Touch, Touch, Read, Append, Discard])
}

/// One is hot.
fn block() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), 0..BLOCKS]
}

fn changes(blocks_max: usize) -> impl Strategy<Value = Changes> {
    prop::collection::btree_map(block(), change(), 1..=blocks_max)
        .prop_map(|changes| changes.into_iter().collect())
}

fn act() -> impl Strategy<Value = Act> {
    let ends = || {
        prop_oneof![
            3 => Just(End::Durable),
            2 => Just(End::Deferred),
            2 => Just(End::Gathered),
            1 => Just(End::Abort),
        ]
    };
    let at_once = prop_oneof![Just(Durability::Durable), Just(Durability::Deferred)];
    let transact = |blocks_max| {
        (changes(blocks_max), ends()).prop_map(|(changes, end)| Act::Transact(changes, end))
    };
    let seat = || 0..SEATS;
    prop_oneof![
        8 => transact(FITS),
        // One that may be too large.
        1 => transact(BLOCKS),
        2 => (changes(FITS), at_once).prop_map(|(changes, how)| Act::AtOnce(changes, how)),
        6 => (seat(), block(), change())
            .prop_map(|(seat, block, change)| Act::Stage(seat, (block, change))),
        4 => (seat(), ends()).prop_map(|(seat, end)| Act::Finish(seat, end)),
        1 => Just(Act::Sync),
        2 => Just(Act::Checkpoint),
        1 => Just(Act::CheckpointRings),
        1 => (0..60_u8).prop_map(Act::Tick),
        1 => Just(Act::Snapshot),
    ]
}

/// A journal, and its lives.
pub(crate) fn case() -> impl Strategy<Value = (Shape, Vec<Life<Act>>)> {
    (shape(), lives(act, 16))
}

/// A journal behind the front door under test.
#[derive(Debug)]
pub(crate) struct Front {
    policy: AnyPolicy,
    pub(crate) shape: Shape,
    /// Whether the policy logs changes of which it does not know the rest of the block.
    pub(crate) takes_patches: bool,
    mutator: Mutator,
}

impl Front {
    pub(crate) fn new(policy: AnyPolicy, shape: &Shape, mutator: Mutator) -> Self {
        let takes_patches = Habits::of(&policy).takes_patches;
        Self { policy, shape: shape.clone(), takes_patches, mutator }
    }

    fn geometry(&self) -> Geometry {
        let Shape { lanes, lane_bytes, lane_slots, lane_segments, .. } = self.shape;
        let has_log = self.policy.wants_log();
        Geometry {
            block_size: BlockSize::new(BLOCK_BYTES as u32).expect("a block size"),
            lanes,
            lane_bytes,
            shield_blocks: if self.policy.logs_images() { 0 } else { 2 },
            unit_bytes: 256,
            protocol: Protocol::OneFence,
            lane_slots: if self.policy.wants_slots() { lane_slots } else { 0 },
            lane_log_blocks: if has_log { 2 * lane_segments } else { 0 },
            segment_blocks: if has_log { 2 } else { 0 },
        }
    }

    fn options(&self) -> Options<DynPolicy, DynHook> {
        let after = |milliseconds| Some(Duration::from_millis(milliseconds));
        let Upkeep { thresholds, in_commits, relogs, whole_after } = self.shape.upkeep;
        let options = any_options(self.policy, self.mutator.clone());
        let options = match thresholds {
            Some((first, second)) => options.thresholds(Thresholds::new(first, second)),
            None => options,
        };
        options
            .upkeep_in_commits(in_commits)
            .relogs(relogs)
            .whole_after(whole_after)
            .index_frames(64)
            .batch_blocks(self.shape.batch)
            .buffer_bytes(self.shape.buffer * BLOCK_BYTES)
            .cache_bytes(if self.shape.pins { 24 } else { 4 } * BLOCK_BYTES)
            .pins_logged(self.shape.pins)
            .clean_slots(self.shape.clean_slots)
            .pacing(Pacing::new(after(20), None, after(100)))
            .drain_on_open(self.shape.drain_on_open)
            .keep_on_close(self.shape.keep_on_close)
    }

    /// What the owner of the core finds in what this journal leaves: what it knows of slots and
    /// free space agrees with itself.
    fn audit(&self, world: &World) -> Result<(), String> {
        let world = World::boot(world.visible(), self.shape.model);
        let mut buffers = Buffers::new(&self.geometry(), 64, 2);
        let (pmem, disk, kernels) = (world.pmem(), world.disk(0), PortableKernels);
        let opened = journal_core::Journal::open(
            pmem,
            disk,
            self.policy,
            Mutator::new(),
            kernels,
            buffers.borrow(),
        );
        let mut journal = opened.map_err(|error| format!("the core opens: {error}"))?;
        journal.audit().map_err(|error| format!("the core audits: {error}"))
    }
}

impl Machine for Front {
    type Act = Act;
    /// All is in the world's history.
    type Memory = ();

    fn start(&self) -> Image {
        let geometry = self.geometry();
        let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
        let facts = DeviceFacts::new(32, self.shape.overwrite);
        let disk_blocks = BLOCKS as u64 + geometry.log_blocks();
        let disk = DiskImage::blank(geometry.block_size, disk_blocks, facts);
        let world = World::boot(Image::blank(span).with_disk(disk), self.shape.model);
        let (id, policy, blocks) = (*b"sixteen bytes id", &self.policy, BLOCKS as u64);
        journal_core::format(world.pmem(), NoHook, &PortableKernels, &geometry, id, policy, blocks)
            .expect("formats");
        world.visible()
    }

    fn model(&self) -> Model {
        self.shape.model
    }

    fn live(&self, process: &Process<'_, Act>, (): &mut ()) -> Result<(), String> {
        let world = process.world;
        let (pmem, disk) = of_world(world);
        let opened = Journal::open(pmem, disk, &self.options());
        let journal = match opened {
            Err(_) if process.has_failed() => return Ok(()),
            opened => opened.map_err(|error| format!("open: {error}"))?,
        };
        match read_all(&journal) {
            Err(_) if process.has_failed() => return Ok(()),
            found => {
                let found = found.map_err(|error| format!("read: {error}"))?;
                world.recovered(judge(world, &found)?);
            }
        }
        Session::new(self, process, &journal).run()?;
        if process.closes {
            let label = sync_label(world.history().len() as u64);
            world.called(label);
            let closed = journal.close();
            if !process.has_failed() {
                closed.map_err(|error| format!("close: {error}"))?;
                world.returned(label);
            }
        } else {
            drop(journal);
        }
        if process.fails.is_some() { Ok(()) } else { self.audit(world) }
    }

    fn three_more(&self) -> Vec<Act> {
        let one = |change| Act::Transact(vec![(2, change)], End::Durable);
        vec![one(Write), Act::Checkpoint, one(Touch)]
    }
}

fn check_policy(policy: AnyPolicy) {
    let sample = Sample { cases: 200, share: 1, source: file!() };
    holds(&sample, &case(), |(shape, lives)| {
        run(&Front::new(policy, shape, Mutator::new()), lives).map(drop)
    });
}

fn check(name: &str) {
    check_policy(tiny(name));
}

fn check_comparing(name: &str) {
    check_policy(comparing(name, 16));
}

for_each_policy!(check);
for_each_comparing_policy!(check_comparing);
