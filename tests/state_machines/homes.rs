//! The machine of homes: blocks are discarded and changed as they are shown, calls of the disk fail
//! or are cut off by a kill, and each process has other options than the one before.
//!
//! What a block holds that is not live is nobody's business, until it is changed: from then on it
//! is what was shown, with the change. The other machines write such a block whole, and so never
//! build on what is home. Each process comes through one of both doors.

use core::cell::{Cell as Counter, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use journal_core::policy::Policy;
use journal_core::units::BlockSize;
use journal_core::{DeviceFacts, Geometry, NoHook, Overwrite, PortableKernels, Protocol, Rule};
use nvm_journal::AnyPolicy;
use proptest::prelude::*;
use sim_disk::rng::mix;
use sim_disk::{DiskImage, Image, Mark, Model, Mutator, World};

use crate::doors::{Door, Edit, Given, enter};
use crate::ledger::{Cell, Changes};
use crate::lives::{Breaks, End, Life, Machine, Process, run};
use crate::policies::{for_each_policy, tiny};
use crate::run::{Sample, counterexample, holds};

const BLOCK_BYTES: usize = 64;
const BLOCKS: usize = 3;
/// The one that is not live at first.
const NEW: usize = 2;

/// What becomes of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Make {
    /// All of it is new.
    Whole,
    /// All of it is new, and it is said that it was not live.
    Append,
    /// A word of it is new, and the rest is as it is shown.
    Touch(u8),
    Discard,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Commit(Vec<(usize, Make)>, bool),
    Sync,
    Checkpoint,
    Tidy(u8),
    /// The first one of a process says what it opens the journal with.
    Given(Given),
}

fn act() -> impl Strategy<Value = Act> {
    let make = prop_oneof![
        2 => Just(Make::Whole),
        1 => Just(Make::Append),
        3 => (0..8_u8).prop_map(Make::Touch),
        2 => Just(Make::Discard),
    ];
    let block = prop_oneof![2 => Just(0), 2 => Just(NEW), 1 => 0..BLOCKS];
    let edits = prop::collection::btree_map(block, make, 1..3);
    let edits = edits.prop_map(|edits| edits.into_iter().collect());
    let frames = prop::sample::select(vec![4_usize, 9, 64, 1000]);
    let cached = prop::sample::select(vec![0_usize, 1, 1 << 10, 1 << 16]);
    let given = (any::<bool>(), frames, 1..4_usize, cached);
    let given = given.prop_map(|(front, frames, batch_blocks, cache_bytes)| {
        Act::Given(Given { front, frames, batch_blocks, cache_bytes })
    });
    prop_oneof![
        10 => (edits, prop::bool::weighted(0.2)).prop_map(|(it, defers)| Act::Commit(it, defers)),
        1 => Just(Act::Sync),
        4 => Just(Act::Checkpoint),
        2 => (0..7_u8).prop_map(Act::Tidy),
        2 => given,
    ]
}

/// What the blocks may hold.
type State = Vec<Cell>;

/// A journal, and all that it was ever told.
struct Homes {
    policy: AnyPolicy,
    lanes: u16,
    mutator: Mutator,
    /// By the labels of their marks: what lies behind a kill is not told any more.
    calls: RefCell<BTreeMap<u64, Changes>>,
    /// What opens have shown, by their digests.
    shown: RefCell<BTreeMap<u64, Vec<Vec<u8>>>>,
    next: Counter<u64>,
}

/// The label of a return that makes all calls so far durable.
const SYNCED: u64 = 0;

fn admits(state: &State, found: &[Vec<u8>]) -> bool {
    let admits = |(cell, found): (&Cell, &Vec<u8>)| cell.as_ref().is_none_or(|it| **it == **found);
    state.iter().zip(found).all(admits)
}

fn digest(found: &[Vec<u8>]) -> u64 {
    found.iter().flatten().fold(1, |sum, byte| mix(sum ^ mix(u64::from(*byte) + 1)))
}

/// What becomes of a block by a call of this number, as it is shown now.
fn edit(
    door: &mut dyn Door,
    (block, make): (usize, Make),
    label: u64,
    is_given_up: bool,
) -> Result<Edit, String> {
    let fresh = mix(label << 8 | block as u64).to_le_bytes();
    let mut new = fresh.repeat(BLOCK_BYTES / 8);
    let (mut old, mut range) = (None, None);
    if let Make::Touch(word) = make {
        let at = usize::from(word) * 8;
        door.read(block, &mut new)?;
        old = Some(new.as_slice().into());
        new[at..at + 8].copy_from_slice(&fresh);
        range = Some(at..at + 8);
    }
    let new = (!matches!(make, Make::Discard)).then(|| new.into());
    let appends = is_given_up && matches!(make, Make::Append);
    Ok(Edit { block, old, new, range, alone: label % 2 == 0, appends })
}

/// The first bytes of each block.
fn in_short(blocks: &[Option<&[u8]>]) -> String {
    let word = |block: &Option<&[u8]>| match block {
        Some(block) => format!("{:02x?}", &block[..4]),
        None => "anything".into(),
    };
    blocks.iter().map(word).collect::<Vec<_>>().join(" ")
}

impl Homes {
    fn new(policy: AnyPolicy, lanes: u16, mutator: Mutator) -> Self {
        let (calls, shown, next) = (RefCell::default(), RefCell::default(), Counter::new(1));
        Self { policy, lanes, mutator, calls, shown, next }
    }

    fn geometry(&self) -> Geometry {
        let has_log = self.policy.wants_log();
        Geometry {
            block_size: BlockSize::new(BLOCK_BYTES as u32).expect("a block size"),
            lanes: self.lanes,
            lane_bytes: 6 * 192,
            shield_blocks: 2,
            unit_bytes: 256,
            protocol: Protocol::OneFence,
            lane_slots: if self.policy.wants_slots() { 6 } else { 0 },
            lane_log_blocks: if has_log { 6 } else { 0 },
            segment_blocks: if has_log { 2 } else { 0 },
        }
    }

    /// The states that the history allows now: after some prefix of the calls of each life.
    fn allowed(&self, history: &[Mark]) -> Vec<State> {
        let (calls, shown) = (self.calls.borrow(), self.shown.borrow());
        let zeroes: Arc<[u8]> = vec![0; BLOCK_BYTES].into();
        // Of each life that may have been: its states so far, and how many of them are promised.
        let mut first = vec![Some(zeroes); BLOCKS];
        first[NEW] = None;
        let mut all = vec![(vec![first], 0)];
        for mark in history {
            match mark {
                Mark::Called(label) => {
                    for (states, _) in &mut all {
                        let mut next = states.last().cloned().unwrap_or_default();
                        for (block, cell) in calls.get(label).into_iter().flatten() {
                            next[*block].clone_from(cell);
                        }
                        states.push(next);
                    }
                }
                Mark::Returned(_) => {
                    all.iter_mut().for_each(|(states, promised)| *promised = states.len() - 1);
                }
                Mark::PowerLost | Mark::Killed => {
                    let left = all.into_iter().flat_map(|(states, promised)| {
                        states.into_iter().skip(promised).map(|state| (vec![state], 0))
                    });
                    all = left.collect();
                }
                Mark::Recovered(digest) => {
                    let found = &shown[digest];
                    all.retain(|(states, _)| states.last().is_some_and(|it| admits(it, found)));
                }
            }
        }
        all.into_iter().filter_map(|(states, _)| states.last().cloned()).collect()
    }

    fn check(&self, door: &mut dyn Door, allowed: &[State]) -> Result<Vec<Vec<u8>>, String> {
        let read = |block| {
            let mut content = vec![0; BLOCK_BYTES];
            door.read(block, &mut content).map(|()| content)
        };
        let found = (0..BLOCKS).map(read).collect::<Result<Vec<_>, _>>()?;
        match allowed.iter().any(|state| admits(state, &found)) {
            true => Ok(found),
            false => {
                let shown: Vec<_> = found.iter().map(|block| Some(&block[..])).collect();
                let states = allowed.iter().map(|state| {
                    let state: Vec<_> = state.iter().map(Option::as_deref).collect();
                    in_short(&state)
                });
                let states = states.collect::<Vec<_>>().join(", or ");
                Err(format!("{} is shown, and not {states}", in_short(&shown)))
            }
        }
    }

    fn commit(
        &self,
        world: &World,
        door: &mut dyn Door,
        makes: &[(usize, Make)],
        defers: bool,
        given_up: &mut [bool; BLOCKS],
    ) -> Result<(), String> {
        let label = self.next.replace(self.next.get() + 1);
        let known = self.allowed(&world.history());
        let is_known = |block: usize| known.iter().all(|state| state[block].is_some());
        world.called(label);
        // What is not live may show something else behind a checkpoint that makes room.
        let mut tries = 0..3;
        let (edits, is_durable) = loop {
            let made = |(block, make): &(usize, Make)| {
                edit(door, (*block, *make), label, given_up[*block])
            };
            let edits = makes.iter().map(made).collect::<Result<Vec<_>, _>>()?;
            let told = edits.iter().map(|Edit { block, new, range, .. }| {
                let is_sure = range.is_none() || is_known(*block);
                (*block, new.clone().filter(|_| is_sure))
            });
            self.calls.borrow_mut().insert(label, told.collect());
            match door.try_commit(&edits, defers)? {
                Some(is_durable) => break (edits, is_durable),
                None => tries.next().ok_or("a checkpoint makes no room")?,
            };
        };
        let mut changes = Vec::new();
        for ((_, make), Edit { block, new, range, .. }) in makes.iter().zip(edits) {
            given_up[block] = new.is_none();
            let mut new = new;
            if let (Make::Touch(_), Some(range), false) = (make, range, is_known(block)) {
                let mut found = vec![0; BLOCK_BYTES];
                door.read(block, &mut found)?;
                let touched = new.as_ref().map(|new| new[range.clone()].to_vec());
                if touched.as_deref() != Some(&found[range]) {
                    return Err(format!("block {block} is not what it was made"));
                }
                new = Some(found.into());
            }
            changes.push((block, new));
        }
        self.calls.borrow_mut().insert(label, changes);
        if is_durable {
            world.returned(label);
        }
        Ok(())
    }

    fn take(
        &self,
        world: &World,
        door: &mut dyn Door,
        act: &Act,
        given_up: &mut [bool; BLOCKS],
    ) -> Result<(), String> {
        match act {
            Act::Commit(makes, defers) => self.commit(world, door, makes, *defers, given_up)?,
            Act::Sync => door.sync().map(|()| world.returned(SYNCED))?,
            Act::Checkpoint => door.checkpoint().map(|()| world.returned(SYNCED))?,
            Act::Tidy(way) if *way < 1 || self.geometry().lane_slots_and_log() > 0 => {
                door.tidy(*way)?;
            }
            Act::Tidy(_) | Act::Given(_) => {}
        }
        self.check(door, &self.allowed(&world.history())).map(drop)
    }
}

impl Machine for Homes {
    type Act = Act;
    type Memory = ();

    fn start(&self) -> Image {
        let geometry = self.geometry();
        let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
        let facts = DeviceFacts::new(32, Overwrite::OldOrNew);
        let disk_blocks = BLOCKS as u64 + geometry.log_blocks();
        let disk = DiskImage::blank(geometry.block_size, disk_blocks, facts);
        let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
        let (id, policy, blocks) = (*b"sixteen bytes id", &self.policy, BLOCKS as u64);
        journal_core::format(world.pmem(), NoHook, &PortableKernels, &geometry, id, policy, blocks)
            .expect("formats");
        world.visible()
    }

    fn model(&self) -> Model {
        Model::Torn8
    }

    fn live(&self, process: &Process<'_, Act>, _memory: &mut ()) -> Result<(), String> {
        let given = process.acts.iter().find_map(|act| match act {
            Act::Given(given) => Some(*given),
            _ => None,
        });
        let given = given.unwrap_or(Given { front: true, ..Given::PLENTY });
        let (world, geometry) = (process.world, self.geometry());
        let history = world.history();
        let told = [Act::Sync];
        let last = told.iter().filter(|_| process.closes);
        let entered = enter(world, given, self.policy, &geometry, self.mutator.clone(), |door| {
            let calls = self.calls.borrow();
            let changes = history.iter().filter_map(|mark| match mark {
                Mark::Called(label) => calls.get(label),
                _ => None,
            });
            let mut given_up = [false; BLOCKS];
            given_up[NEW] = !changes.flatten().any(|(block, _)| *block == NEW);
            drop(calls);
            let found = self.check(door, &self.allowed(&world.history()))?;
            let shown = digest(&found);
            self.shown.borrow_mut().insert(shown, found);
            world.recovered(shown);
            process.acts.iter().chain(last).try_for_each(|act| {
                let taken = self.take(world, door, act, &mut given_up);
                taken.map_err(|error| format!("{act:?}: {error}"))
            })
        });
        // What failed may have left anything; what comes next is judged.
        if process.has_failed() { Ok(()) } else { entered }
    }

    fn three_more(&self) -> Vec<Act> {
        let commit = |block, make| Act::Commit(vec![(block, make)], false);
        let touch = |block| commit(block, Make::Touch(3));
        let given = Act::Given(Given { front: self.lanes > 1, ..Given::PLENTY });
        let discard = commit(0, Make::Discard);
        vec![given, discard, Act::Checkpoint, touch(0), touch(NEW), touch(1)]
    }
}

/// Lives in which little is done, and much of that in vain.
fn lives() -> impl Strategy<Value = Vec<Life<Act>>> {
    let breaks = prop::option::weighted(0.4, (0..4_u8).prop_map(Breaks::sync));
    let end = prop_oneof![
        1 => Just(End::Drop),
        1 => Just(End::Close),
        3 => (0..60_u16).prop_map(|back| End::Kill { back }),
        2 => (0..4_u16, any::<u16>()).prop_map(|(back, image)| End::PowerLoss { back, image }),
    ];
    let life = (prop::collection::vec(act(), 0..8), breaks, end);
    let life = life.prop_map(|(acts, breaks, end)| Life { acts, breaks, end });
    prop::collection::vec(life, 1..5)
}

fn case() -> impl Strategy<Value = (u16, Vec<Life<Act>>)> {
    (1..3_u16, lives())
}

fn survives(
    name: &str,
    off: &[Rule],
    (lanes, lives): &(u16, Vec<Life<Act>>),
) -> Result<(), String> {
    run(&Homes::new(tiny(name), *lanes, Mutator::without(off)), lives).map(drop)
}

fn check(name: &str) {
    let sample = Sample { cases: 200, share: 1, source: file!() };
    holds(&sample, &case(), |case| survives(name, &[], case));
}

for_each_policy!(check);

/// Lives find out by themselves where a rule is not kept.
#[test]
fn what_the_rules_are_for_is_found() {
    let found = |name: &str, rule: Rule, cases: u32| {
        let found = counterexample(cases, 0, &case(), |case| survives(name, &[rule], case));
        assert!(found.is_some(), "{rule:?} is off under {name}, and nothing notices");
    };
    found("object-log", Rule::HomesMadeSure, 4_000);
    found("compressed-delta", Rule::HomesMadeSure, 4_000);
    found("byte-delta", Rule::AppendsGivenUp, 4_000);
}
