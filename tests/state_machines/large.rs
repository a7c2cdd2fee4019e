//! The machine over both doors in the size of real journals: blocks of 4 KiB, some MiB of memory,
//! and workloads that go round its rings, slots and log many times.
//!
//! Each life of a journal goes through one door or the other, which share its format. It ends with
//! a power loss: at some points of its tape the images of a sample are opened and judged (nothing,
//! everything, each place alone, all but each, prefixes, suffixes, calls undone, random ones), and
//! the journal goes on with one of them.

use std::sync::Arc;

use journal_core::policy::Policy;
use journal_core::units::BlockSize;
use journal_core::{DeviceFacts, Geometry, NoHook, Overwrite, PortableKernels, Protocol};
use nvm_journal::AnyPolicy;
use proptest::prelude::*;
use sim_disk::rng::mix;
use sim_disk::{CrashPoint, CrashPoints, DiskImage, Image, Mark, Model, Mutator, Rng, World};

use crate::doors::{Door, Edit, Given, enter};
use crate::ledger::{Cell, Ledger};
use crate::lives::guarded;
use crate::policies::{comparing, default, for_each_comparing_policy, for_each_policy};
use crate::run::{Sample, holds};

pub(crate) const BLOCK_BYTES: usize = 4096;
const BLOCKS: usize = 160;
/// Half of all edits are to this number of blocks.
const HOT: usize = 16;

/// How the new content of a block differs from the old one.
#[derive(Clone, Copy, Debug)]
enum Make {
    /// Some bytes at some place.
    Range { at: u16, bytes: u16 },
    /// A few words here and there.
    Sparse,
    /// Everything.
    Fresh,
    /// Everything, and most of it alike.
    Plain,
    /// Nothing.
    Same,
    /// It is discarded.
    Discard,
}

/// One step.
#[derive(Clone, Debug)]
enum Op {
    Commit {
        edits: Vec<(u16, Make)>,
        deferred: bool,
    },
    Sync,
    Checkpoint,
    /// One of the ways in which the core makes room.
    Tidy(u8),
    Reopen,
}

#[derive(Clone, Debug)]
pub(crate) struct Life {
    /// Through the front door; else as the owner of the core.
    front: bool,
    ops: Vec<Op>,
    /// How many events before the end of the tape the power goes, beside the end itself.
    back: u32,
    /// With which of the images the next life goes on.
    image: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct Shape {
    lanes: u16,
    lane_bytes: u64,
    lane_slots: u32,
    lane_segments: u32,
    tears: bool,
}

fn op() -> impl Strategy<Value = Op> {
    let make = prop_oneof![
        4 => (0..4096_u16, 1..300_u16).prop_map(|(at, bytes)| Make::Range { at, bytes }),
        2 => Just(Make::Sparse),
        2 => Just(Make::Fresh),
        1 => Just(Make::Plain),
        1 => Just(Make::Same),
        1 => Just(Make::Discard),
    ];
    let block = prop_oneof![1 => 0..HOT as u16, 1 => 0..BLOCKS as u16];
    let edits = prop::collection::btree_map(block, make, 1..4);
    let edits = edits.prop_map(|edits| edits.into_iter().collect());
    prop_oneof![
        40 => (edits, prop::bool::weighted(0.2))
            .prop_map(|(edits, deferred)| Op::Commit { edits, deferred }),
        2 => Just(Op::Sync),
        1 => Just(Op::Checkpoint),
        4 => (0..7_u8).prop_map(Op::Tidy),
        1 => Just(Op::Reopen),
    ]
}

/// A journal, and its lives.
pub(crate) type Case = (Shape, Vec<Life>);

/// What a case came to: the media at the end, and the images that were judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    media: Image,
    images: u64,
}

/// At most `ops` steps in each of `lives` lives.
pub(crate) fn case(ops: usize, lives: usize) -> impl Strategy<Value = Case> {
    let shape = (1..3_u16, 80..200_u64, 16..48_u32, 2..6_u32, any::<bool>());
    let shape = shape.prop_map(|(lanes, blocks, lane_slots, lane_segments, tears)| Shape {
        lanes,
        lane_bytes: blocks * (BLOCK_BYTES + 128) as u64,
        lane_slots,
        lane_segments,
        tears,
    });
    let ops = prop::collection::vec(op(), ops / 2..=ops);
    let life = (any::<bool>(), ops, 0..4_000_u32, any::<u16>())
        .prop_map(|(front, ops, back, image)| Life { front, ops, back, image });
    (shape, prop::collection::vec(life, lives))
}

/// A journal, and what it should hold.
struct Large<'a> {
    policy: AnyPolicy,
    shape: &'a Shape,
    mutator: Mutator,
    ledger: Ledger,
    images: u64,
}

impl<'a> Large<'a> {
    fn new(policy: AnyPolicy, shape: &'a Shape, mutator: Mutator) -> Self {
        Self { policy, shape, mutator, ledger: Ledger::new(BLOCKS, BLOCK_BYTES), images: 0 }
    }

    fn geometry(&self) -> Geometry {
        let Shape { lanes, lane_bytes, lane_slots, lane_segments, .. } = *self.shape;
        let has_log = self.policy.wants_log();
        Geometry {
            block_size: BlockSize::DEFAULT,
            lanes,
            lane_bytes,
            shield_blocks: 8,
            unit_bytes: 4096,
            protocol: Protocol::OneFence,
            lane_slots: if self.policy.wants_slots() { lane_slots } else { 0 },
            lane_log_blocks: if has_log { 8 * lane_segments } else { 0 },
            segment_blocks: if has_log { 8 } else { 0 },
        }
    }

    fn start(&self) -> Image {
        let geometry = self.geometry();
        let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
        let overwrite = [Overwrite::OldOrNew, Overwrite::MayLeaveGarbage];
        let facts = DeviceFacts::new(512, overwrite[usize::from(self.shape.tears)]);
        let disk_blocks = BLOCKS as u64 + geometry.log_blocks();
        let disk = DiskImage::blank(geometry.block_size, disk_blocks, facts);
        let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
        let (id, policy, blocks) = (*b"sixteen bytes id", &self.policy, BLOCKS as u64);
        journal_core::format(world.pmem(), NoHook, &PortableKernels, &geometry, id, policy, blocks)
            .expect("formats");
        world.visible()
    }

    fn enter<R>(
        &self,
        world: &World,
        front: bool,
        then: impl FnOnce(&mut dyn Door) -> Result<R, String>,
    ) -> Result<R, String> {
        let (policy, geometry) = (self.policy, self.geometry());
        let given = Given { front, ..Given::PLENTY };
        enter(world, given, policy, &geometry, self.mutator.clone(), then)
    }

    /// Takes the steps of a life, and marks in the world what was promised when.
    fn live(&mut self, world: &World, life: &Life) -> Result<(), String> {
        let mut left = life.ops.iter();
        let mut is_open = true;
        while is_open {
            let mut steps = Steps { world, ledger: self.ledger.clone(), given_up: [false; BLOCKS] };
            is_open = self.enter(world, life.front, |door| {
                for op in left.by_ref() {
                    if matches!(op, Op::Reopen) {
                        return Ok(true);
                    }
                    steps.take(door, op).map_err(|error| format!("{op:?}: {error}"))?;
                }
                door.audit()?;
                (0..BLOCKS).try_for_each(|block| steps.look(door, block))?;
                Ok(false)
            })?;
            self.ledger = steps.ledger;
        }
        Ok(())
    }

    /// Opens an image, and returns what it shows, and after how many calls it is so.
    fn look(
        &mut self,
        image: Image,
        marks: &[Mark],
        front: bool,
    ) -> Result<(usize, Vec<Vec<u8>>), String> {
        self.images += 1;
        let world = World::boot(image, Model::Torn8);
        let called = |upto: usize| {
            marks[..upto].iter().filter(|mark| matches!(mark, Mark::Called(_))).count()
        };
        let returned = marks.iter().rposition(|mark| matches!(mark, Mark::Returned(_)));
        let (least, most) = (called(returned.unwrap_or(0)), called(marks.len()));
        self.enter(&world, front, |door| {
            let found = read_all(door)?;
            match self.ledger.judge(least, most, &found) {
                Some(calls) => Ok((calls, found)),
                None => Err(format!("no state after {least} to {most} calls is what is found")),
            }
        })
    }

    /// The power goes, before the end of the tape and at its end.
    fn lose_power(&mut self, world: &World, life: &Life) -> Result<World, String> {
        let (start, tape) = (world.start(), world.tape());
        let back = (life.back as usize).min(tape.len());
        let mut rng = Rng::new(life.image.into());
        let mut last = None;
        for position in [tape.len() - back / 8, tape.len() - back] {
            let point = CrashPoints::new(&start, &tape, Model::Torn8, position).next();
            let point = point.ok_or("a tape ends with a crash point")?;
            let sample = point.choices(IMAGES_MAX, RANDOM, &mut rng);
            let choices: Vec<Vec<usize>> = sample.take(SAMPLE_MAX).collect();
            let looked_at = choices.iter().step_by(choices.len().div_ceil(LOOKED_AT));
            for (number, choice) in looked_at.enumerate() {
                self.look(point.image(choice), point.marks(), number % 2 == 0)
                    .map_err(|error| format!("lost at {position} of {}: {error}", tape.len()))?;
            }
            last = Some((point, choices));
        }
        let (point, choices): (CrashPoint, _) = last.ok_or("there is a point")?;
        let image = point.image(&choices[usize::from(life.image) % choices.len()]);
        let (calls, found) = self.look(image.clone(), point.marks(), life.front)?;
        self.ledger = self.ledger.reborn(calls, &found);
        Ok(World::boot(image, Model::Torn8))
    }
}

/// Images of a crash point: as for small ones, of which some are looked at.
const IMAGES_MAX: u64 = 64;
const RANDOM: u32 = 20;
const SAMPLE_MAX: usize = 400;
const LOOKED_AT: usize = 16;

fn read_all(door: &mut dyn Door) -> Result<Vec<Vec<u8>>, String> {
    let read = |block| {
        let mut content = vec![0; BLOCK_BYTES];
        door.read(block, &mut content).map(|()| content)
    };
    (0..BLOCKS).map(read).collect()
}

/// A process.
struct Steps<'a> {
    world: &'a World,
    ledger: Ledger,
    /// What this process knows not to be live.
    given_up: [bool; BLOCKS],
}

impl Steps<'_> {
    fn take(&mut self, door: &mut dyn Door, op: &Op) -> Result<(), String> {
        match op {
            Op::Commit { edits, deferred } => self.commit(door, edits, *deferred),
            Op::Sync => door.sync().map(|()| self.world.returned(0)),
            Op::Checkpoint => door.checkpoint().map(|()| self.world.returned(0)),
            Op::Tidy(way) => door.tidy(*way),
            Op::Reopen => unreachable!("handled by the caller"),
        }
    }

    fn commit(
        &mut self,
        door: &mut dyn Door,
        edits: &[(u16, Make)],
        deferred: bool,
    ) -> Result<(), String> {
        let number = self.ledger.called() as u64 + 1;
        let edits = edits.iter().map(|(block, make)| self.edit((*block).into(), *make, number));
        let edits: Vec<Edit> = edits.collect();
        self.ledger.call(edits.iter().map(|edit| (edit.block, edit.new.clone())).collect());
        self.world.called(number);
        if door.commit(&edits, deferred)? {
            self.world.returned(number);
        }
        for Edit { block, new, .. } in &edits {
            self.given_up[*block] = new.is_none();
        }
        edits.iter().try_for_each(|edit| self.look(door, edit.block))
    }

    /// What is read of a block against the model.
    fn look(&self, door: &mut dyn Door, block: usize) -> Result<(), String> {
        let mut found = vec![0; BLOCK_BYTES];
        door.read(block, &mut found)?;
        match self.ledger.newest(block) {
            Some(known) if **known != *found => Err(format!("block {block} is not as it was left")),
            _ => Ok(()),
        }
    }

    /// What is not known is written whole, or appended where it was discarded.
    fn edit(&self, block: usize, make: Make, number: u64) -> Edit {
        let old = self.ledger.newest(block).clone();
        let seed = mix(number << 16 | block as u64);
        let mut range = None;
        let new: Cell = match (make, &old) {
            (Make::Discard, _) => None,
            (Make::Range { at, bytes }, Some(old)) => {
                let (at, mut new) = (usize::from(at), old.to_vec());
                let end = (at + usize::from(bytes)).min(BLOCK_BYTES);
                fill(&mut new[at..end], seed);
                range = Some(at..end);
                Some(new.into())
            }
            (Make::Sparse, Some(old)) => {
                let (mut new, mut rng) = (old.to_vec(), Rng::new(seed));
                for _ in 0..1 + rng.index(6) {
                    let at = 8 * rng.index(BLOCK_BYTES / 8);
                    fill(&mut new[at..at + 8], rng.next_u64());
                }
                Some(new.into())
            }
            (Make::Same, Some(old)) => Some(Arc::clone(old)),
            (Make::Plain, _) => {
                let mut new = vec![seed as u8; BLOCK_BYTES];
                fill(&mut new[..64], seed);
                Some(new.into())
            }
            _ => {
                let mut new = vec![0; BLOCK_BYTES];
                fill(&mut new, seed);
                Some(new.into())
            }
        };
        let appends = self.given_up[block] && new.is_some();
        Edit { block, appends, old, new, range, alone: false }
    }
}

fn fill(bytes: &mut [u8], seed: u64) {
    for (word, number) in bytes.chunks_mut(8).zip(0..) {
        let random = mix(seed ^ mix(number)).to_le_bytes();
        word.copy_from_slice(&random[..word.len()]);
    }
}

/// Lives through a case.
pub(crate) fn run(
    policy: AnyPolicy,
    mutator: Mutator,
    (shape, lives): &Case,
) -> Result<Ended, String> {
    let mut large = Large::new(policy, shape, mutator);
    let mut world = World::boot(large.start(), Model::Torn8);
    for (number, life) in lives.iter().enumerate() {
        let ended = guarded(|| {
            large.live(&world, life)?;
            large.lose_power(&world, life)
        });
        world = ended.map_err(|error| format!("life {number}: {error}"))?;
    }
    Ok(Ended { media: world.visible(), images: large.images })
}

/// Steps of a life, and lives of a case: some thousand steps.
const OPS: usize = 800;
const LIVES: usize = 4;

fn check_policy(policy: AnyPolicy) {
    // Each is as long as many of the others.
    let sample = Sample { cases: 1, share: 64, source: file!() };
    holds(&sample, &case(OPS, LIVES), |case| run(policy, Mutator::new(), case).map(drop));
}

fn check(name: &str) {
    check_policy(default(name));
}

fn check_comparing(name: &str) {
    check_policy(comparing(name, 256));
}

for_each_policy!(check);
for_each_comparing_policy!(check_comparing);
