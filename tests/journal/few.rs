//! A few operations in one call, which take a way of their own where all is free.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, mpsc};

use journal_core::{
    BlockSize, Hook, MediumError, MediumErrorKind, NoHook, Offset, Pmem, PmemRead, PmemShare as _,
    Site,
};
use lab::erased::any_options;
use nvm_journal::policy::{Change, Patch, Update};
use nvm_journal::{
    Adaptive, AnyPolicy, CompressedDelta, Durability, Error, FileDisk, FullBlock, Journal,
    ObjectLog, Operation, Options, Transaction,
};

use crate::claims::Dice;
use crate::policies::Homeward;
use crate::use_it::{BLOCK, Files, any_memory, block, memory};

const SPAN: u64 = 2 << 20;

/// Ends the process: a panic would wait for threads that wait for ever.
#[allow(clippy::print_stderr, reason = "nothing else says why")]
fn end(why: &str) -> ! {
    eprintln!("{why}: somebody waits for ever, or has failed");
    std::process::abort()
}

fn bytes_of(reader: &impl PmemRead) -> Vec<u8> {
    let mut bytes = vec![0; SPAN as usize];
    reader.read_into(Offset(0), &mut bytes).expect("reads");
    bytes
}

fn image(id: u64, at: u64) -> Vec<u8> {
    let mut image = vec![(id % 251) as u8; BLOCK];
    image[..8].copy_from_slice(&id.to_le_bytes());
    image[8..16].copy_from_slice(&at.to_le_bytes());
    image
}

struct Done {
    id: u64,
    from: u64,
    to: u64,
    blocks: Vec<u64>,
}

fn stress(
    name: &str,
    options: &Options<AnyPolicy>,
    threads: u64,
    rounds: u64,
    blocks: u64,
    most: u64,
    mix: [u64; 3],
) {
    // 1. A journal, and a log of what each thread has done.
    let files = Files::new(name);
    let disk = files.disk();
    let region = memory(SPAN);
    let reader = region.reader();
    let journal = Journal::format(region, disk.clone(), options).expect("formats");
    let clock = AtomicU64::new(1);
    let log = Mutex::new(Vec::new());
    let (done, ends) = mpsc::channel::<()>();
    // 2. Each thread commits random sets of blocks, in all ways.
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (journal, clock, log, done) = (&journal, &clock, &log, done.clone());
            scope.spawn(move || {
                let mut dice = Dice(thread << 40 | 77);
                for _ in 0..rounds {
                    let count = 2 + dice.below(most - 1);
                    let mut set: Vec<u64> = (0..count).map(|_| dice.below(blocks)).collect();
                    set.sort_unstable();
                    set.dedup();
                    let from = clock.fetch_add(1, Ordering::SeqCst);
                    let id = from;
                    let images: Vec<_> = set.iter().map(|at| image(id, *at)).collect();
                    let operations: Vec<_> = set
                        .iter()
                        .zip(&images)
                        .map(|(at, image)| Operation::write(block(*at), image))
                        .collect();
                    let kind = dice.below(100);
                    if kind < mix[0] {
                        journal.commit(&operations, Durability::Deferred).expect("gets through");
                    } else if kind < mix[1] {
                        journal
                            .transact_gathered(|tx| {
                                for (at, image) in set.iter().zip(&images) {
                                    tx.write(block(*at), image)?;
                                }
                                Ok::<_, Error>(())
                            })
                            .expect("gathers");
                    } else if kind < mix[2] {
                        journal
                            .transact(|tx| {
                                for (at, image) in set.iter().zip(&images).rev() {
                                    tx.write(block(*at), image)?;
                                }
                                Ok::<_, Error>(())
                            })
                            .expect("transacts");
                    } else {
                        journal.commit(&operations, Durability::Durable).expect("gets through");
                    }
                    let to = clock.fetch_add(1, Ordering::SeqCst);
                    log.lock().expect("nobody panics").push(Done { id, from, to, blocks: set });
                    if dice.below(60) == 0 {
                        journal.checkpoint().expect("writes home");
                    }
                    let _ = done.send(());
                }
            });
        }
        for _ in 0..threads * rounds {
            if ends.recv_timeout(Duration::from_secs(60)).is_err() {
                end(name);
            }
        }
    });
    // 3. Each block holds one whole image.
    journal.sync().expect("syncs");
    let mut found = BTreeMap::new();
    let mut into = vec![0; BLOCK];
    for number in 0..blocks {
        journal.read(block(number), &mut into).expect("reads");
        let id = u64::from_le_bytes(into[..8].try_into().expect("eight"));
        if id != 0 {
            assert_eq!(into, image(id, number), "{name}: block {number} is mixed");
        }
        found.insert(number, id);
    }
    // 4. The last writers fit one order of all transactions.
    // Edges: the last writer of a block comes behind all its other writers; and real time.
    let log = log.into_inner().expect("nobody panics");
    let by: HashMap<u64, &Done> = log.iter().map(|done| (done.id, done)).collect();
    let last: Vec<u64> = {
        let mut last: Vec<_> = found.values().copied().filter(|id| *id != 0).collect();
        last.sort_unstable();
        last.dedup();
        last
    };
    for done in &log {
        for at in &done.blocks {
            let winner = found[at];
            assert!(winner != 0, "{name}: {at} was written");
            assert!(by[&winner].blocks.contains(at));
            assert!(
                by[&winner].to > done.from,
                "{name}: block {at}: {winner} ended before {} began",
                done.id
            );
        }
    }
    let before = |a: &Done, b: &Done| {
        a.id != b.id && (a.to < b.from || a.blocks.iter().any(|at| found[at] == b.id))
    };
    // A cycle among those that are last somewhere.
    let mut left: Vec<u64> = last;
    while !left.is_empty() {
        let free = left.iter().position(|b| left.iter().all(|a| !before(by[a], by[b])));
        let free = free.unwrap_or_else(|| panic!("{name}: no order of {left:?}"));
        left.remove(free);
    }
    // 5. An open finds the same.
    drop(journal);
    let mut region = memory(SPAN);
    region.store(Offset(0), &bytes_of(&reader));
    let journal = Journal::open(region, disk, options).expect("opens");
    for (number, id) in &found {
        journal.read(block(*number), &mut into).expect("reads");
        let again = u64::from_le_bytes(into[..8].try_into().expect("eight"));
        assert_eq!(again, *id, "{name}: block {number} after an open");
    }
}

#[test]
fn what_several_threads_write_in_one_call_each_is_in_some_order_and_found_again() {
    let all = [[0, 0, 0], [25, 25, 25], [25, 50, 75], [0, 40, 40], [10, 20, 40]];
    let mut number = 0;
    for policy in [AnyPolicy::ALL[0], AnyPolicy::from(ObjectLog::new())] {
        for mix in all {
            for (lanes, frames, blocks, most) in [
                (1, 4096, 64, 6),
                (3, 4096, 64, 4),
                (4, 48, 60, 18),
                (2, 20, 24, 10),
                (4, 128, 200, 16),
            ] {
                number += 1;
                let background = number % 2 == 0;
                let options = Options::new()
                    .policy(policy)
                    .lanes(lanes)
                    .lane_bytes(160 << 10)
                    .shield_blocks(4)
                    .index_frames(frames)
                    .background_checkpoint(background)
                    .buffer_bytes(32 * BLOCK)
                    .batch_blocks(16);
                let options =
                    if number % 3 == 0 { options.cache_bytes(BLOCK * 16) } else { options };
                stress(&format!("few-{number}"), &options, 4, 120, blocks, most, mix);
            }
        }
    }
}

/// The policy is shown what each block held, as it is when the call has the block.
#[test]
fn what_several_threads_write_over_what_they_see_is_in_some_order_and_found_again() {
    let policies = [AnyPolicy::from(CompressedDelta::new()), AnyPolicy::from(Adaptive::new())];
    for (at, policy) in policies.into_iter().enumerate() {
        for (mix, cached) in [([0, 0, 0], 16), ([10, 20, 40], 64), ([25, 50, 75], 0)] {
            let options = Options::new()
                .policy(policy)
                .lanes(2)
                .shield_blocks(8)
                .lane_log_blocks(32)
                .segment_blocks(8)
                .background_checkpoint(cached == 16)
                .cache_bytes(BLOCK * cached);
            stress(&format!("few-olds-{at}-{cached}"), &options, 4, 120, 24, 5, mix);
        }
    }
}

#[test]
fn a_few_come_behind_what_was_gathered_before() {
    let files = Files::new("few-gathered");
    let journal = Journal::format(memory(SPAN), files.disk(), &Options::new()).expect("formats");
    journal.transact_gathered(|tx| tx.write(block(2), &[1; BLOCK])).expect("gathers");
    let two = [2; BLOCK];
    let both = [Operation::write(block(1), &two), Operation::write(block(2), &two)];
    journal.commit(&both, Durability::Durable).expect("commits");
    journal.sync().expect("syncs");
    let mut found = [0; BLOCK];
    for at in [1, 2] {
        journal.read(block(at), &mut found).expect("reads");
        assert_eq!(found, two);
    }
    // They were given back.
    journal.commit(&both, Durability::Durable).expect("commits");
}

/// A journal whose index has room for four frames.
fn with_four_frames(name: &str) -> (Files, Journal) {
    let files = Files::new(name);
    let options = Options::new().index_frames(4);
    let journal = Journal::format(memory(SPAN), files.disk(), &options).expect("formats");
    (files, journal)
}

/// A transaction that has reserved two of them.
fn with_two_reserved(journal: &Journal) -> Transaction<'_> {
    let mut tx = journal.begin().expect("begins");
    for at in [10, 11] {
        tx.write(block(at), &[1; BLOCK]).expect("fits");
    }
    tx
}

/// What others have reserved in the index stays theirs.
#[test]
fn a_few_leave_the_room_in_the_index_that_others_have_reserved() {
    let (_files, journal) = with_four_frames("few-room");
    let ones = [1; BLOCK];
    let tx = with_two_reserved(&journal);
    // Two are left, and then none, but for what a checkpoint frees.
    for at in [[1, 2], [3, 4], [5, 6]] {
        let both = at.map(|at| Operation::write(block(at), &ones));
        journal.commit(&both, Durability::Durable).expect("makes room");
    }
    tx.commit().expect("has reserved it");
}

#[test]
fn a_few_that_a_policy_sends_home_go_there() {
    let files = Files::new("few-homeward");
    let options = any_options(Homeward, NoHook).lanes(2).lane_slots(0);
    let journal = Journal::format(any_memory(4 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    let ones = [1; BLOCK];
    let both = [Operation::write(block(1), &ones), Operation::write(block(2), &ones)];
    journal.commit(&both, Durability::Durable).expect("commits");
    assert_eq!(journal.stats().expect("counts").total().appended_home, 2);
}

/// There are fewer locks than blocks: one that is of several blocks of a call is given back once.
#[test]
fn a_few_whose_blocks_share_locks_give_each_back_once() {
    let files = Files::new("few-shared-locks");
    let runs = 1 << 13;
    let disk = FileDisk::create(&files.0, BlockSize::DEFAULT, runs * 8).expect("a new file");
    let journal = Journal::format(memory(SPAN), disk, &Options::new()).expect("formats");
    let mut dice = Dice(5);
    for _ in 0..200 {
        // In each run the same one, so that blocks of runs that share locks share one.
        let mut blocks: Vec<_> = (0..16).map(|_| dice.below(runs) * 8).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let operations: Vec<_> = blocks.into_iter().map(block).map(Operation::Discard).collect();
        journal.commit(&operations, Durability::Durable).expect("commits");
    }
}

#[test]
fn a_few_go_by_the_lane_of_their_kind() {
    let files = Files::new("few-lane-of-their-kind");
    let options = Options::new().policy(AnyPolicy::from(ObjectLog::new())).lanes(2);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let first = journal.begin().expect("begins");
    let patches = [Patch { at: 0, bytes: &[1; 64] }];
    let lane_of = |durability| {
        let patch = |number| Update::new(block(number), Change::Patches(&patches));
        let both = [1, 2].map(|number| Operation::Update(patch(number)));
        journal.commit(&both, durability).expect("commits").expect("was logged").lane.raw()
    };
    let (durable, deferred) = (Durability::Durable, Durability::Deferred);
    let ends = [durable, deferred, deferred, deferred, durable, durable];
    assert_eq!(ends.map(lane_of), [1, 1, 0, 0, 0, 1]);
    drop(first);
}

/// An image stays in the lane. The first read fetches it from there, and keeps it.
#[test]
fn one_and_a_few_are_fetched_once_by_readers() {
    let files = Files::new("few-kept");
    let options = Options::new().cache_bytes(BLOCK * 64);
    let journal = Journal::format(memory(SPAN), files.disk(), &options).expect("formats");
    let ones = [1; BLOCK];
    let three = [1, 2, 3].map(|number| Operation::write(block(number), &ones));
    journal.commit(&three[..2], Durability::Durable).expect("commits");
    journal.commit(&three[2..], Durability::Durable).expect("commits");
    let asked = || {
        let cached = journal.stats().expect("counts").cached;
        (cached.hits, cached.misses)
    };
    let mut found = [0; BLOCK];
    for expected in [(0, 3), (3, 3)] {
        for at in [1, 2, 3] {
            journal.read(block(at), &mut found).expect("reads");
            assert_eq!(found, ones);
        }
        assert_eq!(asked(), expected);
    }
}

/// Calls back before each front and fence of a record.
#[derive(Clone)]
struct Calls(Arc<dyn Fn(&'static str) -> bool + Send + Sync>);

impl core::fmt::Debug for Calls {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Calls")
    }
}

impl Hook for Calls {
    fn store<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        (self.0)(site.name);
        pmem.store(at, bytes);
    }

    fn write_piece<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8], _: u64) {
        (self.0)(site.name);
        pmem.store(at, bytes);
        pmem.flush(at, bytes.len());
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        match (self.0)(site.name) {
            true => Err(MediumError::new(MediumErrorKind::Stuck, Offset(0), 0)),
            false => pmem.fence(),
        }
    }
}

fn pair(numbers: [u64; 2], image: &[u8]) -> [Operation<'_>; 2] {
    numbers.map(|number| Operation::write(block(number), image))
}

/// The fence of the lane's holder fails while a few wait for it.
#[test]
fn a_few_that_wait_for_a_lane_are_refused_when_its_fence_fails() {
    let files = Files::new("few-fails");
    let (comes, has_come) = mpsc::channel();
    let comes = Mutex::new(comes);
    let armed = Arc::new(AtomicU64::new(0));
    let its = Arc::clone(&armed);
    let hook = Calls(Arc::new(move |site| {
        if site != "commit.fence" || its.swap(0, Ordering::SeqCst) == 0 {
            return false;
        }
        comes.lock().expect("nobody panics").send(()).expect("is awaited");
        std::thread::sleep(Duration::from_millis(100));
        true
    }));
    let options = any_options(FullBlock, hook).lanes(1);
    let journal = Journal::format(any_memory(SPAN), files.any_disk(), &options).expect("formats");
    armed.store(1, Ordering::SeqCst);
    let ones = [1; BLOCK];
    std::thread::scope(|scope| {
        let first = scope.spawn(|| journal.commit(&pair([1, 2], &ones), Durability::Durable));
        has_come.recv().expect("comes");
        let second = journal.commit(&pair([3, 4], &ones), Durability::Durable);
        assert_eq!(second, Err(Error::Failed));
        assert!(matches!(first.join().expect("does not panic"), Err(Error::Medium(_))));
    });
}

/// Whoever's own fence fails is told what the medium says, once; afterwards nothing goes on.
#[test]
fn the_first_that_fails_is_told_why() {
    for count in [1, 2] {
        let files = Files::new(&format!("few-told-{count}"));
        let armed = Arc::new(AtomicU64::new(0));
        let its = Arc::clone(&armed);
        let fails = move |site| site == "commit.fence" && its.swap(0, Ordering::SeqCst) != 0;
        let options = any_options(FullBlock, Calls(Arc::new(fails))).lanes(1);
        let journal = Journal::format(any_memory(SPAN), files.any_disk(), &options);
        let journal = journal.expect("formats");
        armed.store(1, Ordering::SeqCst);
        let ones = [1; BLOCK];
        let both = pair([1, 2], &ones);
        let commit = || journal.commit(&both[..count], Durability::Durable);
        let told = commit();
        assert!(matches!(told, Err(Error::Medium(_))), "{count}: {told:?}");
        assert_eq!(commit(), Err(Error::Failed));
    }
}

/// A few panic in their fence. A thread that comes for their blocks by another lane is told.
#[test]
fn a_few_that_panic_keep_nobody_waiting_for_their_blocks() {
    let files = Files::new("few-panics");
    let armed = Arc::new(AtomicU64::new(0));
    let its = Arc::clone(&armed);
    let hook = Calls(Arc::new(move |site| {
        if site == "commit.fence" && its.swap(0, Ordering::SeqCst) != 0 {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        false
    }));
    let options = any_options(FullBlock, hook).lanes(2);
    let journal = Journal::format(any_memory(SPAN), files.any_disk(), &options).expect("formats");
    let journal = Arc::new(journal);
    armed.store(1, Ordering::SeqCst);
    let panics = Arc::clone(&journal);
    std::thread::spawn(move || panics.commit(&pair([1, 2], &[1; BLOCK]), Durability::Durable))
        .join()
        .expect_err("panics");
    let (done, ends) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = journal.commit(&pair([9, 10], &[1; BLOCK]), Durability::Durable);
        done.send(journal.commit(&pair([1, 2], &[1; BLOCK]), Durability::Durable))
            .expect("is awaited");
    });
    let told = ends.recv_timeout(Duration::from_secs(10)).expect("nobody waits for ever");
    assert_eq!(told, Err(Error::Failed));
}

/// A few whose lane is left to them find a block taken: what was left to them is fenced. Returns
/// whether it was.
fn a_few_give_up(round: u64) -> bool {
    let files = Files::new(&format!("few-give-up-{round}"));
    let (fronts, opened) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
    let (its, is_open) = (Arc::clone(&fronts), Arc::clone(&opened));
    let hook = Calls(Arc::new(move |site: &'static str| {
        if site == "commit.fence" || site.ends_with("image") {
            let mut fronts = its.lock().expect("nobody panics");
            fronts.push(site);
            let first = fronts.len() == 1;
            drop(fronts);
            while first && is_open.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
        }
        false
    }));
    let options = any_options(FullBlock, hook).lanes(1);
    let journal = Journal::format(any_memory(SPAN), files.any_disk(), &options).expect("formats");
    let mut holder = journal.begin().expect("begins");
    holder.write(block(8), &[2; BLOCK]).expect("is free");
    fronts.lock().expect("nobody panics").clear();
    let (done, ends) = mpsc::channel();
    std::thread::scope(|scope| {
        let journal = &journal;
        let start = |numbers: [u64; 2]| {
            let done = done.clone();
            scope.spawn(move || {
                journal.commit(&pair(numbers, &[1; BLOCK]), Durability::Durable).expect("commits");
                done.send(numbers[0]).expect("is awaited");
            });
        };
        start([1, 2]);
        while fronts.lock().expect("nobody panics").is_empty() {
            std::thread::yield_now();
        }
        start([3, 4]);
        start([7, 8]);
        std::thread::sleep(Duration::from_millis(50));
        opened.store(1, Ordering::SeqCst);
        for _ in 0..2 {
            if ends.recv_timeout(Duration::from_secs(10)).is_err() {
                end("what was left to them was not fenced");
            }
        }
        let was_left = fronts.lock().expect("nobody panics").contains(&"deferred.image");
        holder.commit().expect("commits");
        assert_eq!(ends.recv_timeout(Duration::from_secs(10)), Ok(7));
        was_left
    })
}

#[test]
fn a_few_that_give_up_fence_what_was_left_to_them() {
    assert!((0..20).any(a_few_give_up), "the last is never the few");
}

/// Of a share with room for three, two of them reserved, two operations do not take two.
#[test]
fn a_few_need_room_for_all_of_them() {
    let (_files, journal) = with_four_frames("few-room-for-all");
    let ones = [1; BLOCK];
    let tx = with_two_reserved(&journal);
    journal.commit(&[Operation::write(block(20), &ones)], Durability::Durable).expect("fits");
    journal.commit(&pair([1, 2], &ones), Durability::Durable).expect("makes room");
    tx.commit().expect("has reserved it");
}

/// Where a lane has no more in hand than what a record takes, its names are counted.
#[test]
fn a_few_have_their_names_in_hand() {
    let files = Files::new("few-names-in-hand");
    let options = Options::new().lanes(2).lane_bytes(64 << 10).shield_blocks(0);
    let journal = Journal::format(memory(SPAN), files.disk(), &options).expect("formats");
    let ones = [1; BLOCK];
    let three = [1, 2, 3].map(|number| Operation::write(block(number), &ones));
    let lane = || {
        journal
            .commit(&three, Durability::Durable)
            .expect("commits")
            .expect("was logged")
            .lane
            .raw()
    };
    assert_eq!(lane(), 0);
    let first = journal.begin().expect("begins");
    assert_eq!(lane(), 1);
    drop(first);
}

#[test]
fn a_few_hold_nothing_behind_their_commit() {
    let files = Files::new("few-hold-nothing");
    let journal = Journal::format(memory(SPAN), files.disk(), &Options::new()).expect("formats");
    let ones = [1; BLOCK];
    journal.commit(&pair([1, 2], &ones), Durability::Durable).expect("commits");
    let (mut first, mut second) =
        (journal.begin().expect("begins"), journal.begin().expect("begins"));
    second.write(block(1), &ones).expect("is free");
    first.write(block(3), &ones).expect("is free");
    first.commit().expect("commits");
    let mut third = journal.begin().expect("begins");
    assert_eq!(third.write(block(1), &ones), Err(Error::Conflict { block: block(1) }));
    drop(second);
    drop(third);
}

/// Room that a transaction of the same thread has reserved will not come free by waiting.
#[test]
fn who_has_reserved_all_room_itself_is_told() {
    let (_files, journal) = with_four_frames("few-own-room");
    let ones = [1; BLOCK];
    let tx = with_two_reserved(&journal);
    let three = [1, 2, 3].map(|number| Operation::write(block(number), &ones));
    let told = journal.commit(&three, Durability::Durable);
    assert!(matches!(told, Err(Error::Conflict { .. })), "{told:?}");
    let told = journal.transact(|tx| (1..=3).try_for_each(|at| tx.write(block(at), &ones)));
    assert!(matches!(told, Err(Error::Conflict { .. })), "{told:?}");
    tx.commit().expect("has reserved it");
    journal.commit(&three, Durability::Durable).expect("fits");
}

#[test]
fn a_commit_says_which_lane_it_went_into() {
    let lanes = 3;
    let options = Options::new().policy(FullBlock).lanes(lanes);
    let files = Files::new("few-says-lane");
    let journal: Journal =
        Journal::format(memory(8 << 20), files.disk(), &options).expect("formats");
    let commits = || {
        let stats = journal.stats().expect("goes on");
        stats.lanes.iter().map(|lane| lane.commits).collect::<Vec<_>>()
    };
    let one = image(1, 1);
    let mut seen = [[false; 3]; 3];
    // As many open transactions take as many seats, each of which has another favourite lane.
    for open in 0..usize::from(lanes) {
        let _others: Vec<_> = (0..open).map(|_| journal.begin().expect("begins")).collect();
        for count in 0..3_u64 {
            let before = commits();
            let operations: Vec<_> =
                (0..count).map(|at| Operation::write(block(at), &one)).collect();
            let committed = if operations.is_empty() {
                let mut tx = journal.begin().expect("begins");
                tx.write(block(9), &one).expect("fits");
                tx.commit().expect("commits")
            } else {
                journal.commit(&operations, Durability::Durable).expect("commits")
            };
            let said = usize::from(committed.expect("logs something").lane.raw());
            let after = commits();
            for (lane, (before, after)) in before.iter().zip(&after).enumerate() {
                assert_eq!(after - before, u64::from(lane == said), "lane {lane}, said {said}");
            }
            seen[count as usize][said] = true;
        }
    }
    assert_eq!(seen, [[true; 3]; 3], "each way, staged, one and a few, into each lane");
}
