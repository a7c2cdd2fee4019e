//! What a store may do in its lives, made at random.

use proptest::prelude::*;
use sim_disk::{Model, Operation};

use journal_core::Overwrite;
use journal_core::Protocol;

use crate::lives::{Breaks, End as Ends, Life};
use lab::oracle::{BLOCKS, End};

/// Blocks of a transaction at most.
const BLOCKS_MAX: usize = 4;
/// A transaction of this many blocks has room in the shortest lane.
pub(super) const FITS: usize = 3;

/// What becomes of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Make {
    Write,
    /// A new content of what is not live; what is live is discarded, for the next time.
    Append,
    /// Some bytes at some place.
    Touch {
        at: u8,
        bytes: u8,
    },
    Discard,
    Read,
    /// Bytes of the journal's own memory: a number says which.
    Copy(u16),
}

/// A block of a transaction, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edit {
    pub(crate) block: usize,
    pub(crate) make: Make,
}

/// A transaction.
#[derive(Clone, Debug)]
pub(crate) struct Tx {
    /// Ascending by block.
    pub(crate) edits: Vec<Edit>,
    /// Whether it goes through them from the last one on.
    pub(crate) descends: bool,
    pub(crate) end: End,
    /// Whether it is one call, where it can be.
    pub(crate) at_once: bool,
    /// How many others are begun before, and do nothing: it goes through another lane.
    pub(crate) beside: usize,
}

impl Default for Tx {
    /// A durable one of nothing.
    fn default() -> Self {
        Self { edits: Vec::new(), descends: false, end: End::Durable, at_once: false, beside: 0 }
    }
}

/// Threads that run at once.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    pub(crate) writers: Vec<Vec<Tx>>,
    /// What a thread beside them does: it syncs, or it checkpoints.
    pub(crate) syncs: Vec<bool>,
    /// Whether transactions may be single calls; else they may be gathered.
    pub(crate) at_once: bool,
}

/// How a journal is opened. All of it may be another time something else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) index_frames: Option<usize>,
    pub(crate) batch: usize,
    /// Blocks that the running transaction gathers.
    pub(crate) buffer: usize,
    /// Blocks of the cache.
    pub(crate) cache: Option<usize>,
    pub(crate) background: bool,
    pub(crate) drain_on_open: bool,
    pub(crate) keep_on_close: bool,
    /// Whether lines are streamed, and put together from pieces.
    pub(crate) streams: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            index_frames: None,
            batch: 2,
            buffer: 64,
            cache: None,
            background: false,
            drain_on_open: false,
            keep_on_close: false,
            streams: false,
        }
    }
}

/// How a journal is formatted.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Its number among the seven.
    pub(crate) policy: usize,
    pub(crate) lanes: u16,
    pub(crate) lane_lines: u64,
    pub(crate) lane_slots: u32,
    pub(crate) lane_segments: u32,
    pub(crate) shield_blocks: u32,
    pub(crate) unit_bytes: u32,
    pub(crate) protocol: Protocol,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Transact(Tx),
    Crowd(Crowd),
    Sync,
    Checkpoint,
    /// This many milliseconds pass.
    Tick(u8),
    /// Drops the journal and opens it.
    Reopen(Settings),
    /// Closes it and opens it.
    Close(Settings),
    /// Closes it, formats another one over it, and opens that unless the process ends there.
    Format {
        shape: Shape,
        ends: bool,
    },
}

/// What holds for all lives of a case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) shape: Shape,
    /// What the disk writes at once: half a block, or all of it.
    pub(crate) at_once_bytes: u32,
    pub(crate) overwrite: Overwrite,
    pub(crate) model: Model,
    pub(crate) lives: Vec<Life<Act>>,
}

pub(super) fn shape(policies: Vec<usize>) -> impl Strategy<Value = Shape> {
    let lines = prop::sample::select(vec![10_u64, 12, 13, 16, 24, 64]);
    let units = prop::sample::select(vec![256_u32, 512]);
    let tails = prop::bool::weighted(0.1);
    let policy = prop::sample::select(policies);
    let layout = (policy, 1..4_u16, lines, 1..7_u32, 1..4_u32, 0..4_u32, units, tails);
    layout.prop_map(|(policy, lanes, lane_lines, slots, segments, shield, unit_bytes, tails)| {
        let protocol = if tails { Protocol::TailPointer } else { Protocol::OneFence };
        let (lane_slots, lane_segments, shield_blocks) = (slots, segments, shield);
        Shape {
            policy,
            lanes,
            lane_lines,
            lane_slots,
            lane_segments,
            shield_blocks,
            unit_bytes,
            protocol,
        }
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let frames = prop::sample::select(vec![None, Some(8), Some(16), Some(40), Some(256)]);
    let cache = prop::sample::select(vec![None, Some(0), Some(1), Some(4), Some(64)]);
    let batch = prop::sample::select(vec![1_usize, 2, 64]);
    let buffer = prop::sample::select(vec![0_usize, 2, 64]);
    let flags = [0.15, 0.25, 0.5, 0.5].map(prop::bool::weighted);
    (frames, cache, batch, buffer, flags).prop_map(|(index_frames, cache, batch, buffer, flags)| {
        let [background, drain_on_open, keep_on_close, streams] = flags;
        Settings {
            index_frames,
            batch,
            buffer,
            cache,
            background,
            drain_on_open,
            keep_on_close,
            streams,
        }
    })
}

fn make() -> impl Strategy<Value = Make> {
    prop_oneof![
        3 => Just(Make::Write),
        2 => Just(Make::Append),
        4 => (0..60_u8, 1..24_u8).prop_map(|(at, bytes)| Make::Touch { at, bytes }),
        2 => Just(Make::Discard),
        2 => Just(Make::Read),
        4 => any::<u16>().prop_map(Make::Copy),
    ]
}

/// One is hot.
fn block() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), 0..BLOCKS]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Durable),
        2 => Just(End::Deferred),
        2 => Just(End::Gathered),
        1 => Just(End::Abort),
    ]
}

fn tx() -> impl Strategy<Value = Tx> {
    let edits = prop::collection::btree_map(block(), make(), 1..=BLOCKS_MAX);
    let edits = edits.prop_map(|edits| {
        let edits = edits.into_iter().map(|(block, make)| Edit { block, make });
        edits.collect::<Vec<_>>()
    });
    let flags = (prop::bool::weighted(0.3), prop::bool::weighted(0.3), 0..3_usize);
    (edits, flags, end()).prop_map(|(edits, (descends, at_once, beside), end)| Tx {
        edits,
        descends,
        end,
        at_once,
        beside,
    })
}

fn crowd() -> impl Strategy<Value = Crowd> {
    let writer = prop::collection::vec(tx(), 1..6);
    let writers = prop::collection::vec(writer, 2..=5);
    let syncs = prop::collection::vec(prop::bool::weighted(0.3), 0..6);
    (writers, syncs, any::<bool>()).prop_map(|(writers, syncs, at_once)| Crowd {
        writers,
        syncs,
        at_once,
    })
}

fn one(block: usize, make: Make, end: End, at_once: bool) -> Act {
    let edits = vec![Edit { block, make }];
    Act::Transact(Tx { edits, end, at_once, ..Tx::default() })
}

/// A block is given up, which the journal may forget, and then some bytes of it change.
fn lets_go() -> impl Strategy<Value = Vec<Act>> {
    (block(), 0..40_u8, any::<bool>()).prop_map(|(block, at, at_once)| {
        let discard = one(block, Make::Discard, End::Durable, false);
        let touch = one(block, Make::Touch { at, bytes: 8 }, End::Durable, at_once);
        vec![discard, Act::Checkpoint, touch]
    })
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let single = |act| vec![act];
    let steps = prop_oneof![
        14 => tx().prop_map(Act::Transact).prop_map(single),
        2 => crowd().prop_map(Act::Crowd).prop_map(single),
        1 => Just(Act::Sync).prop_map(single),
        3 => Just(Act::Checkpoint).prop_map(single),
        1 => (0..60_u8).prop_map(Act::Tick).prop_map(single),
        1 => settings().prop_map(Act::Reopen).prop_map(single),
        1 => settings().prop_map(Act::Close).prop_map(single),
        1 => format().prop_map(single),
        2 => lets_go(),
    ];
    let begins = prop::option::weighted(0.8, settings().prop_map(Act::Reopen));
    (begins, prop::collection::vec(steps, 0..8)).prop_map(|(begins, steps)| {
        let steps = steps.into_iter().flatten();
        begins.into_iter().chain(steps).collect()
    })
}

fn format() -> impl Strategy<Value = Act> {
    let shape = shape((0..7).collect());
    (shape, any::<bool>()).prop_map(|(shape, ends)| Act::Format { shape, ends })
}

fn breaks() -> impl Strategy<Value = Option<Breaks>> {
    let any_call = (prop::sample::select(&Operation::MEMORY_AND_DISKS[..]), 0..40_u8);
    let early = prop::sample::select(vec![Operation::DiskSync, Operation::DiskWrite]);
    let calls = prop_oneof![any_call, (early, 0..6_u8)];
    let breaks = (calls, any::<bool>()).prop_map(|((operation, index), for_ever)| Breaks {
        operation,
        index,
        for_ever,
    });
    prop::option::weighted(0.3, breaks)
}

fn ends() -> impl Strategy<Value = Ends> {
    prop_oneof![
        2 => Just(Ends::Drop),
        1 => Just(Ends::Close),
        1 => (0..400_u16).prop_map(|back| Ends::Kill { back }),
        1 => (0..20_u16).prop_map(|back| Ends::Kill { back }),
        5 => (0..60_u16, any::<u16>()).prop_map(|(back, image)| Ends::PowerLoss { back, image }),
    ]
}

fn life(acts: Vec<Act>, breaks: Option<Breaks>, end: Ends) -> Life<Act> {
    Life { acts, breaks, end }
}

fn any_life() -> impl Strategy<Value = Vec<Life<Act>>> {
    (acts(), breaks(), ends()).prop_map(|(acts, breaks, end)| vec![life(acts, breaks, end)])
}

/// A life that ends with blocks on their way home, or where they were appended, in vain; and one
/// that makes something of what it is shown there.
fn in_vain() -> impl Strategy<Value = Vec<Life<Act>>> {
    let begins = || prop::option::weighted(0.5, settings().prop_map(Act::Reopen));
    let fails = (prop::bool::weighted(0.7), 0..3_u8, any::<bool>());
    let then = (lets_go(), any::<bool>(), 0..40_u8, any::<bool>());
    let end = (0..6_u16, any::<u16>()).prop_map(|(back, image)| Ends::PowerLoss { back, image });
    ((begins(), begins()), (block(), any::<bool>()), fails, then, end).prop_map(
        |(begins, (block, appends), (fails, index, for_ever), then, end)| {
            let (lets_go, goes, at, at_once) = then;
            let durable = |make| one(block, make, End::Durable, false);
            let early = match appends {
                // The first one discards it.
                true => vec![durable(Make::Append), Act::Checkpoint, durable(Make::Append)],
                false => vec![durable(Make::Write), Act::Checkpoint],
            };
            let late = [durable(Make::Write), Act::Checkpoint];
            let touch = one(block, Make::Touch { at, bytes: 8 }, End::Durable, at_once);
            let next = if goes { lets_go } else { vec![touch] };
            let fault = Breaks { operation: Operation::DiskSync, index, for_ever };
            let (breaks, ends) = match fails {
                true => (Some(fault), Ends::Drop),
                false => (None, Ends::Kill { back: u16::from(index) * 4 + u16::from(at) / 8 }),
            };
            let (first, second) = begins;
            let acts = first.into_iter().chain(early).chain(late).collect();
            let next = second.into_iter().chain(next).collect();
            vec![life(acts, breaks, ends), life(next, None, end)]
        },
    )
}

/// A life that ends while copies of the journal's memory are stored.
fn ends_in_copies() -> impl Strategy<Value = Vec<Life<Act>>> {
    let copies = (any::<u16>(), 1..=BLOCKS_MAX, 0..BLOCKS, any::<bool>(), 0..3_usize);
    let end = prop_oneof![
        (0..16_u16).prop_map(|back| Ends::Kill { back }),
        (0..12_u16, any::<u16>()).prop_map(|(back, image)| Ends::PowerLoss { back, image }),
    ];
    (acts(), copies, end).prop_map(|(mut acts, (which, count, first, defers, beside), end)| {
        let blocks = (0..count).map(|at| (first + at) % BLOCKS);
        let edits = blocks.map(|block| Edit { block, make: Make::Copy(which) });
        let mut edits: Vec<Edit> = edits.collect();
        edits.sort_by_key(|edit| edit.block);
        let ends = if defers { End::Deferred } else { End::Durable };
        let tx = Tx { edits, end: ends, beside, ..Tx::default() };
        acts.push(Act::Transact(tx));
        vec![life(acts, None, end)]
    })
}

/// Lives of a journal that is formatted first with the policy of this number.
pub(crate) fn case(policy: usize) -> impl Strategy<Value = Case> {
    let lives = prop_oneof![4 => any_life(), 1 => in_vain(), 1 => ends_in_copies()];
    let lives = prop::collection::vec(lives, 1..6);
    let lives = lives.prop_map(|lives| lives.into_iter().flatten().collect());
    let disk = prop::sample::select(vec![Overwrite::OldOrNew, Overwrite::MayLeaveGarbage]);
    let disk = (prop::sample::select(vec![32_u32, 64]), disk);
    let model = prop::sample::select(vec![Model::Torn8, Model::X86Line]);
    (shape(vec![policy]), disk, model, lives).prop_map(|(shape, disk, model, lives)| {
        let (at_once_bytes, overwrite) = disk;
        Case { shape, at_once_bytes, overwrite, model, lives }
    })
}
