//! Many operations in one call: their blocks are taken run by run, and whole images go out as they
//! are.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, mpsc};

use journal_core::policy::{
    ApplyError, Change, Encoder, Pacing, Patch, Placement, Policy, PolicyId, Prefix, Thresholds,
    Update,
};
use journal_core::units::LaneNumber;
use journal_core::{NoHook, Offset, OpenError, Pmem as _, PmemRead, PmemShare as _, format};
use lab::erased::{DynJournal, DynPolicy, any_options};
use nvm_journal::{
    AnyPolicy, BlockSize, Durability, Error, FullBlock, Journal, ObjectLog, Operation, Options,
};
use pmem_sys::NativeKernels;

use crate::claims::Dice;
use crate::use_it::{BLOCK, BLOCKS, Files, any_memory, block, memory};

const SPAN: u64 = 4 << 20;

/// As another policy, but asked about everything that is logged; or about what it says that it
/// need not be, counting how often it was asked for that.
#[derive(Clone, Debug)]
pub(crate) struct Asked<L> {
    policy: L,
    prefixes: Option<Arc<AtomicU64>>,
}

impl<L> Asked<L> {
    pub(crate) const fn about_all(policy: L) -> Self {
        Self { policy, prefixes: None }
    }

    pub(crate) fn for_prefixes(policy: L, count: &Arc<AtomicU64>) -> Self {
        Self { policy, prefixes: Some(Arc::clone(count)) }
    }
}

impl<L: Policy> Policy for Asked<L> {
    fn id(&self) -> PolicyId {
        self.policy.id()
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        self.policy.place(update, out)
    }

    fn prefix_of(&self, patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
        self.prefixes.as_ref()?.fetch_add(1, Ordering::Relaxed);
        self.policy.prefix_of(patches, at)
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        self.policy.apply(payload, block)
    }

    fn wants_slots(&self) -> bool {
        self.policy.wants_slots()
    }

    fn keeps_in_slots(&self) -> bool {
        self.policy.keeps_in_slots()
    }

    fn wants_log(&self) -> bool {
        self.policy.wants_log()
    }

    fn wants_old(&self) -> bool {
        self.policy.wants_old()
    }

    fn wants_cached_old(&self) -> bool {
        self.policy.wants_cached_old()
    }

    fn bypasses_when_full(&self) -> bool {
        self.policy.bypasses_when_full()
    }

    fn thresholds(&self) -> Thresholds {
        self.policy.thresholds()
    }

    fn pacing(&self) -> Pacing {
        self.policy.pacing()
    }

    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        self.policy.rewrite_slot(older, newer, rewrite);
    }
}

fn bytes_of(reader: &impl PmemRead) -> Vec<u8> {
    let mut bytes = vec![0; SPAN as usize];
    reader.read_into(Offset(0), &mut bytes).expect("reads");
    bytes
}

fn images(numbers: &[u64], seed: u64) -> Vec<Vec<u8>> {
    let image = |number: &u64| {
        let mut image = vec![(number * 31 + seed) as u8; BLOCK];
        image[..8].copy_from_slice(&number.to_le_bytes());
        image[8..16].copy_from_slice(&seed.to_le_bytes());
        image
    };
    numbers.iter().map(image).collect()
}

fn writes<'i>(numbers: &[u64], images: &'i [Vec<u8>]) -> Vec<Operation<'i>> {
    let both = numbers.iter().zip(images);
    both.map(|(number, image)| Operation::write(block(*number), image)).collect()
}

/// Blocks side by side, with gaps or alone.
fn numbers(dice: &mut Dice) -> Vec<u64> {
    let count = [1, 2, 7, 16, 17, 40, 64, 65, 100, 130][dice.below(10) as usize];
    let step = 1 + dice.below((BLOCKS - 1) / count);
    let first = dice.below(BLOCKS - step * (count - 1));
    (0..count).map(|at| first + at * step).collect()
}

/// What a journal has of them.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    pub(crate) count: u16,
    pub(crate) bytes: u64,
    pub(crate) slots: u32,
}

/// Two that are long.
pub(crate) const TWO: Lanes = Lanes { count: 2, bytes: 1 << 20, slots: 0 };

/// What calls leave, of which a function makes the operations, with other lanes' records named,
/// deferred or durable, and now and then a checkpoint.
pub(crate) fn left_by(
    policy: impl Policy + Clone + Send + Sync + 'static,
    name: &str,
    lanes: Lanes,
    calls: u64,
    mut make: impl FnMut(&mut Dice, u64, &mut dyn FnMut(&[Operation<'_>])),
) -> Vec<Vec<u8>> {
    let files = Files::new(name);
    let disk = files.any_disk();
    let policy = DynPolicy::new(policy);
    // What goes to the disk is no part of what is compared.
    let options = any_options(policy.clone(), NoHook).lanes(lanes.count).lane_bytes(lanes.bytes);
    // A larger index takes more steps to go through, and heads go on elsewhere.
    let options = options.lane_log_blocks(0).lane_slots(lanes.slots).index_frames(4096);
    let geometry = options.plan(SPAN, BlockSize::DEFAULT).expect("has room").geometry;
    let mut region = any_memory(SPAN);
    let reader = region.reader();
    let kernels = NativeKernels::detect();
    format(&mut region, NoHook, &kernels, &geometry, [7; 16], &policy, BLOCKS).expect("formats");
    let journal = Journal::open(region, disk.clone(), &options).expect("opens");
    let mut dice = Dice(3);
    let mut left = Vec::new();
    for round in 0..calls {
        let durability = match dice.below(4) {
            0 => Durability::Deferred,
            _ => Durability::Durable,
        };
        // Somebody has the first lane.
        let first = (dice.below(3) == 0).then(|| journal.begin().expect("begins"));
        make(&mut dice, round, &mut |operations| match journal.commit(operations, durability) {
            Ok(_) => operations.iter().for_each(|one| holds(&journal, one, name, round)),
            Err(Error::TooLarge { .. } | Error::TooManyBlocks { .. }) if lanes.bytes < 1 << 20 => {}
            Err(error) => panic!("{name}, round {round}: {error}"),
        });
        drop(first);
        if dice.below(10) == 0 {
            journal.checkpoint().expect("goes home");
        }
        if round % 10 == 9 {
            journal.sync().expect("syncs");
            left.push(bytes_of(&reader));
        }
    }
    let contents = |journal: &DynJournal| {
        let mut all = vec![0; BLOCKS as usize * BLOCK];
        for (number, into) in (0..).zip(all.chunks_mut(BLOCK)) {
            journal.read(block(number), into).expect("reads");
        }
        all
    };
    let before = contents(&journal);
    drop(journal);
    // As behind a crash.
    let mut region = any_memory(SPAN);
    region.store(Offset(0), left.last().expect("some"));
    let journal = Journal::open(region, disk, &options).expect("opens again");
    assert!(contents(&journal) == before, "{name}");
    left
}

/// A block has what it was given last.
fn holds(journal: &DynJournal, operation: &Operation<'_>, name: &str, round: u64) {
    let Operation::Update(update) = operation else { return };
    let mut found = vec![0; BLOCK];
    journal.read(update.block, &mut found).expect("reads");
    let is_there = match update.change {
        Change::Patches(patches) => patches
            .iter()
            .all(|patch| found[patch.at as usize..][..patch.bytes.len()] == *patch.bytes),
        _ => Some(&found[..]) == update.change.image(),
    };
    assert!(is_there, "{name}, round {round}, {}", update.block);
}

/// Where two policies have left something else first: after how many calls, and at which byte.
pub(crate) fn first_difference(one: &[Vec<u8>], other: &[Vec<u8>]) -> Option<(usize, usize)> {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).enumerate().find_map(|(at, (one, other))| {
        let byte = one.iter().zip(other).position(|(one, other)| one != other)?;
        Some((10 * (at + 1), byte))
    })
}

/// Calls of all sizes, in parts of 64 blocks.
fn of_images(dice: &mut Dice, round: u64, commit: &mut dyn FnMut(&[Operation<'_>])) {
    let numbers = numbers(dice);
    let images = images(&numbers, round);
    let mut operations = writes(&numbers, &images);
    if dice.below(5) == 0 {
        let at = dice.below(operations.len() as u64) as usize;
        operations[at] = Operation::Discard(operations[at].block());
    }
    commit(&operations);
}

#[test]
fn images_are_logged_by_the_byte_as_where_the_policy_is_asked() {
    let asked = left_by(Asked::about_all(FullBlock), "many-asked", TWO, 120, of_images);
    let not = left_by(FullBlock, "many-not-asked", TWO, 120, of_images);
    assert_eq!(first_difference(&asked, &not), None);
}

/// Two runs and a part of a third.
const SOME: [u64; 20] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];

fn commit_some(journal: &Journal, seed: u64) -> Result<(), Error> {
    let images = images(&SOME, seed);
    journal.commit(&writes(&SOME, &images), Durability::Durable).map(drop)
}

fn holds_some(journal: &Journal, seed: u64) {
    let mut found = vec![0; BLOCK];
    for (number, image) in SOME.iter().zip(images(&SOME, seed)) {
        journal.read(block(*number), &mut found).expect("reads");
        assert!(found == image, "block {number}");
    }
}

#[test]
fn a_run_of_which_another_thread_has_one_block_is_waited_for() {
    let files = Files::new("many-waits");
    let journal = Journal::format(memory(SPAN), files.disk(), &Options::new()).expect("formats");
    for held in [0, 3, 7, 8, 19] {
        let mut tx = journal.begin().expect("begins");
        tx.write(block(held), &[9; BLOCK]).expect("fits");
        let (done, ends) = mpsc::channel();
        std::thread::scope(|scope| {
            let journal = &journal;
            scope.spawn(move || {
                commit_some(journal, held).expect("gets through");
                done.send(()).expect("somebody waits");
            });
            let early = ends.recv_timeout(Duration::from_millis(20));
            assert!(early.is_err(), "block {held} was not waited for");
            tx.commit().expect("commits");
            ends.recv_timeout(Duration::from_secs(60)).expect("goes on");
        });
        holds_some(&journal, held);
    }
}

/// What was taken before the block that is not to be had is given back: blocks, and room in the
/// index, of which there is as much as two calls take.
#[test]
fn a_run_that_is_refused_is_given_back() {
    let files = Files::new("many-refused");
    let options = Options::new().index_frames(40);
    let journal = Journal::format(memory(SPAN), files.disk(), &options).expect("formats");
    for round in 0..100 {
        let held = SOME[round as usize % SOME.len()];
        let mut tx = journal.begin().expect("begins");
        tx.write(block(held), &[9; BLOCK]).expect("fits");
        let refused = commit_some(&journal, round);
        assert_eq!(refused, Err(Error::Conflict { block: block(held) }));
        drop(tx);
        if round % 10 == 0 {
            commit_some(&journal, round).expect("all of it is free");
            holds_some(&journal, round);
        }
    }
}

#[test]
fn a_run_of_which_one_block_was_gathered_comes_behind_that() {
    let files = Files::new("many-gathered");
    let journal = Journal::format(memory(SPAN), files.disk(), &Options::new()).expect("formats");
    for gathered in [0, 3, 7, 8, 19] {
        journal.transact_gathered(|tx| tx.write(block(gathered), &[9; BLOCK])).expect("gathers");
        commit_some(&journal, gathered).expect("commits");
        journal.sync().expect("syncs");
        holds_some(&journal, gathered);
        assert_eq!(journal.stats().expect("counts").gathered.waiting, 0);
        // Nor has it any block or room left.
        commit_some(&journal, 99).expect("commits");
        holds_some(&journal, 99);
    }
}

/// What others have reserved in the index stays theirs.
#[test]
fn many_leave_the_room_in_the_index_that_others_have_reserved() {
    let files = Files::new("many-room");
    let options = Options::new().index_frames(32);
    let journal = Journal::format(memory(SPAN), files.disk(), &options).expect("formats");
    let mut tx = journal.begin().expect("begins");
    for number in 30..40 {
        tx.write(block(number), &[1; BLOCK]).expect("fits");
    }
    for round in 0..20 {
        commit_some(&journal, round).expect("makes room");
        holds_some(&journal, round);
    }
    tx.commit().expect("has reserved it");
    for number in 30..40 {
        let mut found = [0; BLOCK];
        journal.read(block(number), &mut found).expect("reads");
        assert_eq!(found, [1; BLOCK]);
    }
}

/// Not only of the first one, nor of those that are side by side with it.
#[test]
fn whatever_one_of_them_builds_on_in_another_lane_is_named() {
    let patch = Patch { at: 100, bytes: b"new" };
    let change = Change::Patches(&[patch]);
    let options =
        Options::new().policy(AnyPolicy::from(ObjectLog::new())).lanes(2).shield_blocks(1);
    let geometry = options.plan(SPAN, BlockSize::DEFAULT).expect("has room").geometry;
    for (count, last) in [(2, 1), (20, 1), (20, 7), (20, 8), (20, 19)] {
        let files = Files::new("many-names");
        let (region, disk) = (memory(SPAN), files.disk());
        let reader = region.reader();
        let journal = Journal::format(region, disk.clone(), &options).expect("formats");
        let ones = [1; BLOCK];
        // Several, so that their stamps are above those of the other lane.
        for _ in 0..5 {
            let one = [Operation::write(block(last), &ones)];
            let committed = journal.commit(&one, Durability::Durable).expect("commits");
            assert_eq!(committed.expect("was logged").lane, LaneNumber(0));
        }
        let first = journal.begin().expect("begins");
        let changes: Vec<_> = (0..count)
            .map(|number| Operation::Update(Update::new(block(number), change)))
            .collect();
        let committed = journal.commit(&changes, Durability::Durable).expect("commits");
        let committed = committed.expect("was logged");
        assert_eq!(committed.lane, LaneNumber(1));
        assert!(committed.stamp.raw() > 5, "{count}, {last}: {committed:?}");
        drop(first);
        drop(journal);
        let left = bytes_of(&reader);
        let open = |bytes: &[u8]| {
            let mut region = memory(SPAN);
            region.store(Offset(0), bytes);
            Journal::open(region, disk.clone(), &options)
        };
        let journal = open(&left).expect("opens");
        let mut found = [0; BLOCK];
        journal.read(block(last), &mut found).expect("reads");
        assert_eq!((&found[100..103], found[99]), (patch.bytes, 1));
        drop(journal);
        let mut rotten = left;
        let lane = geometry.lane(LaneNumber(0)).raw() as usize;
        rotten[lane..][..geometry.lane_bytes as usize].fill(0);
        match open(&rotten) {
            Err(Error::Open(OpenError::Rot { lane, .. })) => assert_eq!(lane.raw(), 0),
            opened => panic!("{count}, {last}: {:?}", opened.map(drop)),
        }
    }
}

/// A name is in the first part of a record alone: 67 blocks are two parts, of which the second one
/// would be a line longer with one.
#[test]
fn a_record_of_several_parts_takes_no_more_than_it_says() {
    let bytes = 67 * BLOCK as u64 + 1152 + 128;
    for (lane_bytes, fits) in [(bytes, true), (bytes - 64, false)] {
        let files = Files::new("many-exact");
        let options = Options::new().lanes(2).lane_bytes(lane_bytes);
        let journal = Journal::format(memory(SPAN), files.disk(), &options).expect("formats");
        let numbers: Vec<_> = (0..67).collect();
        let images = images(&numbers, 1);
        let one = &writes(&numbers, &images)[5..6];
        let committed = journal.commit(one, Durability::Durable).expect("commits");
        assert_eq!(committed.expect("was logged").lane, LaneNumber(0));
        let first = journal.begin().expect("begins");
        match journal.commit(&writes(&numbers, &images), Durability::Durable) {
            Ok(committed) => {
                assert_eq!(committed.expect("was logged").lane, LaneNumber(1));
                assert!(fits);
            }
            Err(Error::TooLarge { needed, capacity }) => {
                assert_eq!((needed, capacity), (bytes, lane_bytes));
                assert!(!fits);
            }
            Err(error) => panic!("{error}"),
        }
        drop(first);
    }
}
