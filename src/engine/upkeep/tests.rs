//! What a tick does for one batch, and what it does once; what thresholds count, and stops.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use journal_core::parts::{HomeScratch, Index, Indexes, Waiting, WaitingLeft, share_of};
use journal_core::{
    BlockDevice as _, BlockNumber, Offset, Operation, Pmem, PmemRead as _, PmemShare as _, Scope,
    Site,
};
use pmem_sys::Region;
use sim_disk::Mutator;

use crate::engine::upkeep::checkpoint::{Task, WAITING_MAX};
use crate::engine::upkeep::move_to_log::{Newest, Takes};
use crate::error::Error;
use crate::machine::On;
use crate::machine::tests::{TinyDisk, TinyMachine};
use crate::policy::{Change, Patch, Thresholds, Update};
use crate::ports::Hook;
use crate::shared::Shared;
use crate::shared::home_cell::UpkeepCell;
use crate::shared::index_memory::IndexParts;
use crate::shared::index_memory::looks::LOOKS;
use crate::shared::lending::{LanesOf, SharesOf};
use crate::{
    AnyPolicy, CheckpointReport, Durability, FullBlock, Journal, Lcow, ObjectLog, Options, TwoLevel,
};

const SLOTS: u64 = 20_000;

/// A quarter of the slots is given back, by hundreds of batches. They share the passes through the
/// index: one for each list, and some before and behind all batches.
#[test]
#[cfg_attr(miri, ignore = "many blocks")]
fn batches_of_a_tick_share_a_pass_through_the_index() {
    let disk = TinyDisk::new(SLOTS);
    let block_bytes = journal_core::BlockSize::MIN.bytes();
    let options = Options::new().policy(AnyPolicy::from(Lcow::new())).hook(Mutator::new());
    let options = options.lanes(1).lane_bytes(8 << 20).lane_slots(SLOTS as u32).batch_blocks(16);
    let options = options.index_frames(2 * SLOTS as usize).thresholds(Thresholds::new(64, 192));
    let nvm = Region::anonymous((16 << 20) + SLOTS * 2 * block_bytes as u64).expect("memory");
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk, &options).expect("a journal");
    for number in 0..SLOTS - 1 {
        let image = vec![number as u8 | 1; block_bytes];
        journal.transact(|tx| tx.write(BlockNumber(number), &image)).expect("commits");
    }
    let before = LOOKS.get();
    journal.tick(Duration::from_secs(1)).expect("ticks");
    let looks = LOOKS.get() - before;
    let stats = journal.stats().expect("counts");
    let free = u64::from(stats.total().free_slots);
    assert!((SLOTS / 4..SLOTS / 3).contains(&free), "{free} free slots: {stats}");
    assert!(stats.checkpointed.batches > 200, "{stats}");
    // The blocks that were written first have gone home.
    let mut found = vec![0; block_bytes];
    for number in (0..SLOTS - 1).step_by(111) {
        journal.read(BlockNumber(number), &mut found).expect("reads");
        assert_eq!(found[0], number as u8 | 1);
    }
    assert!(looks < 300 * SLOTS, "{} looks for each slot", looks / SLOTS);
}

/// A list has room for few of the blocks that are not home, the lowest. What was written first are
/// the highest, and they go home all the same, and no others.
#[test]
#[cfg_attr(miri, ignore = "many blocks")]
fn the_oldest_blocks_go_home_however_short_the_list_is() {
    let blocks = 20 * WAITING_MAX as u64;
    let disk = TinyDisk::new(blocks);
    let block_bytes = journal_core::BlockSize::MIN.bytes() as u64;
    let lane_bytes = blocks * 2 * (block_bytes + 64);
    let options = Options::new().policy(AnyPolicy::from(FullBlock)).hook(Mutator::new()).lanes(1);
    let options = options.lane_bytes(lane_bytes).thresholds(Thresholds::new(96, 96));
    let (nvm, mut home) = (Region::anonymous(2 * lane_bytes).expect("memory"), disk.clone());
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk, &options).expect("a journal");
    let image = vec![7; block_bytes as usize];
    for number in (1..blocks).rev() {
        journal.transact(|tx| tx.write(BlockNumber(number), &image)).expect("commits");
    }
    journal.tick(Duration::from_secs(1)).expect("ticks");
    let stats = journal.stats().expect("counts");
    let share = blocks / 2..blocks * 3 / 4;
    assert!(share.contains(&stats.checkpointed.blocks), "{stats}");
    // They follow each other up to the last one.
    let first = blocks - stats.checkpointed.blocks;
    for number in 1..blocks {
        let mut found = vec![1; image.len()];
        home.read(BlockNumber(number), &mut found).expect("reads");
        assert_eq!(found == image, number >= first, "block {number}: {stats}");
    }
}

/// There is no shield, and the disk may tear a block. Those that stay are in nobody's way.
#[test]
fn a_block_that_stays_needs_no_shield() {
    let disk = TinyDisk::new(256);
    let options = Options::new().policy(AnyPolicy::from(FullBlock)).hook(Mutator::new()).lanes(1);
    let options = options.lane_bytes(32 << 10).shield_blocks(0);
    let nvm = Region::anonymous(1 << 20).expect("memory");
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk, &options).expect("a journal");
    for number in 0..140 {
        let image = vec![7; journal_core::BlockSize::MIN.bytes()];
        journal.transact(|tx| tx.write(BlockNumber(number), &image)).expect("commits");
    }
    let (shared, mut stays) = (journal.shared(), None);
    let made = shared.with_upkeep(|cell| shared.checkpoint_oldest(cell, &mut stays));
    assert_eq!((made, stays), (Ok(()), None));
    let stats = journal.stats().expect("counts");
    assert!(stats.checkpointed.blocks > 0 && stats.blocks > 0, "{stats}");
}

/// A discard that is home keeps the head, since its block was changed last of all. That block goes
/// home with what was committed longest ago.
#[test]
#[cfg_attr(miri, ignore = "many blocks")]
fn a_changed_discard_goes_home_with_the_oldest() {
    let disk = TinyDisk::of(journal_core::BlockSize::DEFAULT, 256);
    let policy = AnyPolicy::from(ObjectLog::new());
    let options = Options::new().policy(policy).hook(Mutator::new()).lanes(1);
    let options =
        options.lane_bytes(336 << 10).batch_blocks(1).thresholds(Thresholds::new(128, 255));
    let nvm = Region::anonymous(2 << 20).expect("memory");
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk, &options).expect("a journal");
    let image = vec![7; journal_core::BlockSize::DEFAULT.bytes()];
    let write = |number| {
        journal.transact(|tx| tx.write(BlockNumber(number), &image)).expect("commits");
    };
    write(0);
    journal.checkpoint().expect("writes home");
    // A block before it is not home, so the discard stays.
    write(100);
    journal.transact(|tx| tx.discard(BlockNumber(0))).expect("commits");
    journal.checkpoint_steps(|_, _| ControlFlow::Break(())).expect("comes to the discard");
    (110..180).for_each(write);
    let patches = [Patch { at: 0, bytes: &[2; 64] }];
    let change = Operation::Update(Update::new(BlockNumber(0), Change::Patches(&patches)));
    journal.commit(&[change], Durability::Durable).expect("commits");
    let (shared, before) = (journal.shared(), journal.stats().expect("counts"));
    shared.with_upkeep(|cell| shared.checkpoint_oldest(cell, &mut None)).expect("writes home");
    let stats = journal.stats().expect("counts");
    let freed = stats.checkpointed.freed_bytes - before.checkpointed.freed_bytes;
    let blocks = stats.checkpointed.blocks - before.checkpointed.blocks;
    assert!(freed > 64 << 10 && blocks < 60, "{freed} bytes of {blocks} blocks: {stats}");
    let mut found = image.clone();
    journal.read(BlockNumber(0), &mut found).expect("reads");
    assert_eq!(found[..64], [2; 64]);
}

/// A running transaction has reserved so much that too little is left, and will give it back.
/// Commits do not ask for the upkeep again and again, and the thread behind them does nothing.
#[test]
fn what_a_running_transaction_has_reserved_asks_for_nothing() {
    let disk = TinyDisk::of(journal_core::BlockSize::DEFAULT, 512);
    let policy = TwoLevel::with(TwoLevel::new().settings().compares(false));
    let options = Options::new().policy(AnyPolicy::from(policy)).hook(Mutator::new()).lanes(1);
    let options = options.lane_bytes(64 << 10).lane_log_blocks(128).segment_blocks(4);
    let options = options.thresholds(Thresholds::new(128, 255)).upkeep_in_commits(true);
    let nvm = Region::anonymous(1 << 20).expect("memory");
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk, &options).expect("a journal");
    let shared = journal.shared();
    let left = || shared.lanes[0].unreserved.left();
    let reclaims_at = shared.levels.asks_below_bytes();
    let patch = |number| journal.transact(|tx| tx.write_at(BlockNumber(number), 8, b"patch"));
    for number in 0..6 {
        let gathered =
            journal.transact_gathered(|tx| tx.write_at(BlockNumber(100 + number), 9, b"x"));
        gathered.expect("gathers");
    }
    while left() >= reclaims_at {
        patch(1).expect("commits");
    }
    patch(1).expect("commits, and looks");
    let before = shared.done();
    for _ in 0..3 {
        patch(1).expect("commits");
        assert!(shared.levels.asks_below_bytes() <= left(), "the next one asks again");
        shared.keep_room_behind().expect("there is room");
        journal.tick(Duration::ZERO).expect("there is room");
    }
    let after = shared.done();
    assert_eq!((after.freed(), after.stops.in_commits), (before.freed(), before.stops.in_commits));
    assert_eq!(after.freed(), (0, 0, 0));
    // Behind it the threshold is where it was.
    journal.sync().expect("commits");
    assert!(shared.levels.asks_below_bytes() == reclaims_at && left() >= reclaims_at);
}

/// A copy has a block. A transaction waits for it, and that is counted as a stop.
#[test]
fn a_wait_for_a_block_that_is_copied_is_a_stop() {
    let disk = TinyDisk::of(journal_core::BlockSize::DEFAULT, 64);
    let options = Options::new().policy(AnyPolicy::from(Lcow::new())).hook(Mutator::new());
    let nvm = Region::anonymous(1 << 20).expect("memory");
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk, &options.lanes(1)).expect("a journal");
    let (shared, block, mut image) = (journal.shared(), BlockNumber(5), vec![7; 4096]);
    journal.transact(|tx| tx.write(block, &image)).expect("commits");
    assert_eq!(journal.stats().expect("counts").stops(), 0);
    let mut seat = shared.seats.sit();
    let age = seat.last_age();
    let taken = shared.take_to_move(&mut seat, age, block, &mut image, Takes::Discards);
    assert_eq!(taken.expect("reads"), Some(Newest::Content));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| journal.transact(|tx| tx.write_at(block, 9, b"patch")));
        while !shared.waiting.now_asleep().may_want(shared.blocks.stripe(block)) {
            std::thread::yield_now();
        }
        shared.abort(&mut seat.work, &[Operation::write(block, &image)][..]);
        writer.join().expect("ends").expect("commits");
    });
    let stats = journal.stats().expect("counts");
    assert_eq!((stats.stops_for_moved, stats.stops()), (1, 1), "{stats}");
    assert_eq!(stats.longest_stop_for_moved, stats.longest_stop);
}

/// Says that the first entry of a slot is about to be written, and waits.
#[derive(Clone, Debug, Default)]
struct AtEntry {
    reached: Arc<AtomicBool>,
    goes_on: Arc<AtomicBool>,
}

impl Hook for AtEntry {
    fn write<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        if site.name == "slot.entry" && !self.reached.swap(true, Ordering::Release) {
            while !self.goes_on.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        self.write_piece(site, pmem, at, bytes, bytes.len() as u64);
    }
}

/// A fold has written the entry of a version, and has not noted it. Meanwhile others write the
/// block again and again, in the version's slot too. The version stays in the index, because the
/// entry has to be voided when the block is home.
#[test]
fn no_version_is_forgotten_while_its_entry_is_written() {
    const BYTES: u64 = 4 << 20;
    const BLOCKS: u64 = 1 << 16;
    let hook = AtEntry::default();
    let disk = TinyDisk::of(journal_core::BlockSize::DEFAULT, BLOCKS);
    let options = Options::new().policy(AnyPolicy::from(Lcow::new())).lanes(1).lane_slots(64);
    let options = options.hook(hook.clone());
    let nvm = Region::anonymous(BYTES).expect("memory");
    let reader = nvm.reader();
    let journal: Journal<AnyPolicy, On<Region, TinyDisk, AtEntry>> =
        Journal::format(nvm, disk.clone(), &options).expect("a journal");
    let shared = journal.shared();
    let shares = shared.shares.len();
    let in_share = |share| (0..BLOCKS).map(BlockNumber).find(|at| share_of(*at, shares) == share);
    let first = in_share(0).expect("some are in each");
    let last = in_share(shares - 1).expect("some are in each");
    assert!(first != last, "there are several shares");
    let write = |block, byte| {
        journal.transact(|tx| tx.write(block, &[byte; 4096])).expect("commits");
    };
    for (block, byte) in [(first, 1), (first, 2), (last, 1)] {
        write(block, byte);
    }
    std::thread::scope(|scope| {
        let fold = scope.spawn(|| {
            let mut cell = shared.upkeep.lock_first().expect("free");
            shared.fold_rings(&mut cell).expect("folds")
        });
        while !hook.reached.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        // It looks for the next version there, behind the first entry.
        let share = shared.shares[shares - 1].lock().expect("free");
        hook.goes_on.store(true, Ordering::Release);
        for byte in 3..8 {
            write(first, byte);
        }
        drop(share);
        assert_eq!(fold.join().expect("no panic").folded, 2);
    });
    for _ in 0..2 {
        journal.checkpoint().expect("writes home");
    }
    assert_eq!(journal.stats().expect("counts").frames, 0);
    let mut bytes = vec![0; BYTES as usize];
    drop(journal);
    reader.read_into(Offset(0), &mut bytes).expect("reads");
    let mut nvm = Region::anonymous(BYTES).expect("memory");
    nvm.store(Offset(0), &bytes);
    let journal: Journal<AnyPolicy, On<Region, TinyDisk, AtEntry>> =
        Journal::open(nvm, disk, &options).expect("opens");
    assert_eq!(journal.stats().expect("counts").blocks, 0, "no entry is left");
    let mut found = [0; 4096];
    journal.read(first, &mut found).expect("reads");
    assert_eq!(found, [7; 4096]);
}

/// Another thread asks for the upkeep again and again. So lists are made in parts, and heads pass
/// in steps. All goes home that is to go home, and the heads come as far as they are to come.
#[test]
#[cfg_attr(miri, ignore = "many blocks")]
fn a_checkpoint_that_others_wait_for_does_all_the_same() {
    for (is_whole, lanes) in [(true, 1), (true, 2), (false, 1)] {
        let blocks = 30 * WAITING_MAX as u64;
        let disk = TinyDisk::new(blocks);
        let block_bytes = journal_core::BlockSize::MIN.bytes() as u64;
        let options = Options::new().policy(AnyPolicy::from(FullBlock)).hook(Mutator::new());
        let lane_bytes = blocks * 2 * (block_bytes + 64);
        let options = options.lanes(lanes).lane_bytes(lane_bytes);
        let options = options.thresholds(Thresholds::new(96, 96));
        let (nvm, mut home) = (Region::anonymous(4 * lane_bytes).expect("memory"), disk.clone());
        let journal: Journal<AnyPolicy, TinyMachine> =
            Journal::format(nvm, disk, &options).expect("a journal");
        let image = vec![7; block_bytes as usize];
        for number in 0..blocks {
            journal.transact(|tx| tx.write(BlockNumber(number), &image)).expect("commits");
        }
        let (shared, ended, turns) = (journal.shared(), AtomicBool::new(false), AtomicU64::new(0));
        let ended_with = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    drop(shared.upkeep.lock_first());
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
            let made = shared.with_upkeep(|cell| {
                while !shared.upkeep.is_asked_for() {
                    std::thread::yield_now();
                }
                let all = &mut |_: &_, _| ControlFlow::Continue(());
                match is_whole {
                    true => shared.checkpoint_in(cell, Task::whole(Scope::All), all).map(drop),
                    false => shared.checkpoint_oldest(cell, &mut None),
                }
            });
            ended.store(true, Ordering::Relaxed);
            made
        });
        ended_with.expect("writes home");
        let stats = journal.stats().expect("counts");
        let had_turns = turns.load(Ordering::Relaxed);
        assert!(had_turns > 0, "nobody had a turn");
        let home_to = if is_whole { blocks } else { stats.checkpointed.blocks };
        assert!(is_whole || (blocks / 2..blocks * 3 / 4).contains(&home_to), "{stats}");
        for number in 0..blocks {
            let mut found = vec![1; image.len()];
            home.read(BlockNumber(number), &mut found).expect("reads");
            assert_eq!(found == image, number < home_to, "block {number}: {stats}");
        }
        let used = stats.total().used_bytes;
        let left = lane_bytes - used;
        assert!(if is_whole { used == 0 } else { left >= shared.levels.left_behind_checkpoint() });
    }
}

/// Gives the shares of the index one at a time, as if others waited for the upkeep. Before the
/// first one it calls something, once.
struct OneByOne<'s, F> {
    shared: &'s Shared<AnyPolicy, TinyMachine>,
    before: Option<F>,
}

impl<F: FnOnce()> Indexes for OneByOne<'_, F> {
    type Memory = IndexParts;

    fn of<R>(&mut self, block: BlockNumber, call: impl FnOnce(&mut Index<IndexParts>) -> R) -> R {
        SharesOf(self.shared).of(block, call)
    }

    fn each(&mut self, call: impl FnMut(&mut Index<IndexParts>)) {
        SharesOf(self.shared).each(call);
    }

    fn some(&mut self, from: &mut usize, mut call: impl FnMut(&mut Index<IndexParts>)) -> bool {
        if let Some(before) = self.before.take() {
            before();
        }
        call(&mut self.shared.shares[*from].lock().expect("free").index);
        *from += 1;
        *from == self.shared.shares.len()
    }
}

/// Writes the next batch of a checkpoint home, by a list that may be in the making. Returns whether
/// there is more to do.
fn next_batch(
    shared: &Shared<AnyPolicy, TinyMachine>,
    cell: &mut UpkeepCell,
    indexes: &mut impl Indexes<Memory = IndexParts>,
    (memory, left): (&mut [BlockNumber], &mut WaitingLeft),
    report: &mut CheckpointReport,
) -> Result<bool, Error> {
    let UpkeepCell { batch, front, payload, blocks, .. } = cell;
    let waiting = Waiting::again(memory, *left);
    let mut scratch = HomeScratch { batch, front, payload, blocks, waiting };
    let (common, lanes) = (&shared.common, &mut LanesOf(shared));
    let mut home = shared.lock_home()?;
    let goes_on =
        home.checkpoint_batch(common, lanes, indexes, &mut scratch, Scope::All, report)?;
    *left = scratch.waiting.left();
    Ok(goes_on)
}

/// A list is made in parts. Its first part leaves a block out that was discarded since the
/// checkpoint looked up which records are durable. The next list has the block.
#[test]
fn a_block_that_the_first_part_of_a_list_leaves_out_goes_home() {
    let disk = TinyDisk::new(1024);
    let options = Options::new().policy(AnyPolicy::from(FullBlock)).hook(Mutator::new()).lanes(1);
    let options = options.lane_bytes(32 << 10).index_frames(256).cache_bytes(0);
    let nvm = Region::anonymous(1 << 20).expect("memory");
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk, &options).expect("a journal");
    let (shared, image) = (journal.shared(), vec![7; journal_core::BlockSize::MIN.bytes()]);
    let count = shared.shares.len();
    let in_share = |share| (0..1024).map(BlockNumber).find(|at| share_of(*at, count) == share);
    let [first, last] = [0, count - 1].map(|share| in_share(share).expect("some are in each"));
    assert!(first != last, "there are several shares");
    for block in [first, last] {
        journal.transact(|tx| tx.write(block, &image)).expect("commits");
    }
    let before = || journal.transact(|tx| tx.discard(first)).expect("commits");
    let mut indexes = OneByOne { shared, before: Some(before) };
    let (mut memory, mut left) = (vec![BlockNumber(0); 8], WaitingLeft::default());
    let (mut report, mut batches) = (CheckpointReport::default(), 0);
    let passed = shared.with_upkeep(|cell| {
        // As a whole checkpoint does it.
        while batches == 0 || !left.is_all_taken() {
            batches += 1;
            next_batch(shared, cell, &mut indexes, (&mut memory[..], &mut left), &mut report)?;
        }
        shared.let_heads_pass(cell, &mut report)
    });
    assert_eq!(passed, Ok(true));
    assert!(batches > count, "{batches} batches");
    let stats = journal.stats().expect("counts");
    assert_eq!((stats.blocks, stats.total().used_bytes), (0, 0), "{stats}");
}

/// Where there is no shield, a block that needs none may be committed while a list is made. It goes
/// home by the next list, and is no error.
#[test]
fn a_block_that_comes_behind_the_list_lacks_no_shield() {
    let options = Options::new().policy(AnyPolicy::from(FullBlock)).hook(Mutator::new()).lanes(1);
    let options = options.lane_bytes(32 << 10).index_frames(256).cache_bytes(0).shield_blocks(0);
    let nvm = Region::anonymous(1 << 20).expect("memory");
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, TinyDisk::new(1024), &options).expect("a journal");
    let (shared, image) = (journal.shared(), vec![7; journal_core::BlockSize::MIN.bytes()]);
    let count = shared.shares.len();
    let in_share = |share| (0..1024).map(BlockNumber).find(|at| share_of(*at, count) == share);
    let first = in_share(0).expect("the first share has some");
    let mut indexes = OneByOne { shared, before: None::<fn()> };
    let (mut memory, mut left) = (vec![BlockNumber(0); 8], WaitingLeft::default());
    let (mut report, mut batches, mut goes_on) = (CheckpointReport::default(), 0, true);
    let made = shared.with_upkeep(|cell| {
        while goes_on {
            batches += 1;
            let list = (&mut memory[..], &mut left);
            goes_on = next_batch(shared, cell, &mut indexes, list, &mut report)?;
            if batches == 1 {
                journal.transact(|tx| tx.write(first, &image))?;
            }
        }
        Ok::<_, Error>(())
    });
    assert_eq!(made, Ok(()));
    assert!(batches > count, "{batches} batches");
    assert_eq!(report.blocks, 1);
}

/// A journal was formatted for a device that tears nothing. Here it has no shield, and a block that
/// needs one stays. The checkpoint says so, although others write again what it has written home:
/// it never finds an empty list.
#[test]
fn a_block_that_lacks_a_shield_is_told_of_though_others_commit() {
    const BYTES: usize = 1 << 20;
    let (disk, block_bytes) = (TinyDisk::new(64), journal_core::BlockSize::MIN.bytes());
    let options = Options::new().policy(AnyPolicy::from(ObjectLog::new())).hook(Mutator::new());
    let options = options.lanes(1).lane_bytes(32 << 10).shield_blocks(0);
    let nvm = Region::anonymous(BYTES as u64).expect("memory");
    let reader = nvm.reader();
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::format(nvm, disk.clone().atomic(), &options).expect("a journal");
    let (patched, image) = (BlockNumber(3), vec![7; block_bytes]);
    journal.transact(|tx| tx.write_at(patched, 8, b"patch")).expect("commits");
    drop(journal);
    let mut bytes = vec![0; BYTES];
    reader.read_into(Offset(0), &mut bytes).expect("reads");
    let mut nvm = Region::anonymous(BYTES as u64).expect("memory");
    nvm.store(Offset(0), &bytes);
    let journal: Journal<AnyPolicy, TinyMachine> =
        Journal::open(nvm, disk, &options).expect("opens");
    let write = || journal.transact(|tx| tx.write(BlockNumber(9), &image)).expect("commits");
    write();
    let (shared, mut batches) = (journal.shared(), 0);
    let ended = shared.with_upkeep(|cell| {
        shared.checkpoint_in(cell, Task::whole(Scope::All), &mut |_, _| {
            batches += 1;
            write();
            ControlFlow::Continue(())
        })
    });
    let stays = ended.expect("writes home").stays;
    assert_eq!((stays, batches), (Some(Error::NoShield { block: patched }), 1));
}
