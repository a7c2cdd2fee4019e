//! The disk-side log, and payloads that lie between images, behind the front door.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use journal_core::{BlockNumber, Durability, Operation};
use nvm_journal::{Error, Journal};
use sim_disk::{CrashPoints, Model, Mutator, Rules, Scenario as _, Tape, World};

use crate::guards::{A_WHILE, within};
use crate::probe::{Device, Logged, Probe};
use crate::program::{Front, Program, media, read_block};
use lab::oracle::{BLOCKS, Change, content_of};

use Change::Write;

const BLOCK: BlockNumber = BlockNumber(0);

/// What is discarded keeps no frame, and a checkpoint writes nothing home for it. What is home then
/// may have been written by a process that was killed before its sync: nobody may build on it.
#[test]
fn nothing_is_built_on_a_home_that_was_never_synced() {
    for logs in [Logged::Compressed, Logged::Levels] {
        let lane_bytes = 64 * 64;
        let program = Program { lane_bytes, lane_segments: 0, ..Program::new(logs, 1, vec![]) };
        let world = World::boot(program.start(), Model::Torn8);
        let journal = program.open(&world).expect("opens");
        let contents: Vec<_> = (1..4).map(|number| content_of(number, 0, Write)).collect();
        let write = |journal: &Front, image: &[u8]| {
            let mut tx = journal.begin().expect("begins");
            tx.write(BLOCK, image).expect("writes");
            tx.commit().expect("commits");
        };
        write(&journal, &contents[0]);
        journal.checkpoint().expect("writes home");
        write(&journal, &contents[1]);
        journal.checkpoint().expect("writes home");
        drop(journal);
        let (start, tape) = (world.start(), world.tape());
        for position in 0..tape.len() {
            let world = World::killed(&start, Model::Torn8, &tape, position, vec![]);
            let Ok(journal) = program.open(&world) else { panic!("opens") };
            let mut tx = journal.begin().expect("begins");
            tx.discard(BLOCK).expect("discards");
            tx.commit().expect("commits");
            journal.checkpoint().expect("forgets it");
            let mut new = read_block(&journal, 0).expect("reads");
            new[..8].copy_from_slice(&contents[2][..8]);
            write(&journal, &new);
            assert_eq!(read_block(&journal, 0), Ok(new));
            drop(journal);
            let tape = world.tape();
            let rules = Rules::from(Model::Torn8);
            let points = CrashPoints::new(&world.start(), &tape, rules, tape.len());
            let point = points.last().expect("there is one");
            let nothing = vec![0; point.cells().len()];
            let world =
                World::killed(&point.image(&nothing), Model::Torn8, &Tape::new(), 0, vec![]);
            let journal = program.open(&world).expect("opens");
            assert_eq!(read_block(&journal, 0), Ok(new), "{logs:?}, killed at {position}");
        }
    }
}

/// A commit that finds no room for its frame takes nothing along.
#[test]
fn a_commit_that_has_to_wait_for_room_loses_no_block_of_the_log() {
    within(60, || {
        let program = Program { lane_bytes: 64 * 64, ..Program::new(Logged::Far, 1, vec![]) };
        let world = World::boot(program.start(), Model::Torn8);
        let probe = Probe::new(Mutator::new());
        let options = program.options(probe.clone()).index_frames(1);
        let (pmem, disk) = media(&world, Device::new(world.disk(0)));
        let journal = Journal::open(pmem, disk, &options);
        let journal = journal.expect("opens");
        let free = |journal: &Front| {
            journal.stats().expect("counts").lanes.iter().map(|lane| lane.free_log_blocks).sum()
        };
        let before: u32 = free(&journal);
        let mut holder = journal.begin().expect("begins");
        let mut held = 0;
        while held < BLOCKS - 1
            && holder.write(BlockNumber(held as u64), &content_of(1, held, Write)).is_ok()
        {
            held += 1;
        }
        assert!(held < BLOCKS - 1, "the index is full");
        let image = content_of(2, BLOCKS - 1, Write);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let block = BlockNumber(BLOCKS as u64 - 1);
                journal.commit(&[Operation::write(block, &image)], Durability::Durable)
            });
            while journal.stats().expect("counts").waiting_for_room == 0 && !other.is_finished() {
                std::thread::yield_now();
            }
            drop(holder);
            other.join().expect("does not panic").expect("commits");
        });
        assert_eq!(free(&journal), before - 1, "one block is in the log");
    });
}

/// A reader that takes its time is shown what was there, or what is there, and no error.
#[test]
fn a_slow_reader_is_not_told_of_rot_where_a_segment_was_used_again() {
    within(60, || {
        let program = Program { lane_bytes: 64 * 64, ..Program::new(Logged::Levels, 1, vec![]) };
        let world = World::boot(program.start(), Model::Torn8);
        let (probe, device) = (Probe::new(Mutator::new()), Device::new(world.disk(0)));
        // Blocks have shares of their own.
        let options = program.options(probe.clone()).index_frames(1 << 16);
        let (pmem, disk) = media(&world, device.clone());
        let journal = Journal::open(pmem, disk, &options).expect("opens");
        let journal = Arc::new(journal);
        let write = |block: usize, image: &[u8]| {
            let mut tx = journal.begin().expect("begins");
            tx.write(BlockNumber(block as u64), image).expect("writes");
            tx.commit().expect("commits");
        };
        // A word of it, which is in no log and keeps the lane's head where it is.
        let mut small = [0; 64];
        small[0] = 1;
        write(5, &small);
        write(0, &content_of(1, 0, Write));
        write(1, &content_of(2, 1, Write));
        // The reader begins while the next version is stored and not durable: it is to see the one
        // before. By the time it has read it, that is given back and something else is there.
        let turn = Arc::new(AtomicU32::new(0));
        let at = Arc::clone(&turn);
        device.watch_before_reads(move |place| {
            let is_log = place.raw() >= BLOCKS as u64;
            let is_reader = std::thread::current().name() == Some("reader");
            if is_log && is_reader && at.load(Ordering::Acquire) == 1 {
                at.store(2, Ordering::Release);
                while at.load(Ordering::Acquire) < 3 {
                    std::thread::yield_now();
                }
                at.store(4, Ordering::Release);
            }
        });
        let reader = Arc::new(Mutex::new(None));
        let (kept, at, shared) = (Arc::clone(&reader), Arc::clone(&turn), Arc::clone(&journal));
        probe.watch(move |site| {
            if site.name != "commit.fence" || at.load(Ordering::Acquire) > 0 {
                return;
            }
            at.store(1, Ordering::Release);
            let thread = std::thread::Builder::new().name("reader".into());
            let journal = Arc::clone(&shared);
            let thread = thread.spawn(move || read_block(&journal, 0));
            *kept.lock().expect("nobody panics") = Some(thread.expect("starts"));
            while at.load(Ordering::Acquire) < 2 {
                std::thread::yield_now();
            }
        });
        write(0, &content_of(3, 0, Write));
        probe.look_away();
        // The log is full, and then its first segment is used again.
        write(1, &content_of(4, 1, Write));
        write(2, &content_of(5, 2, Write));
        write(3, &content_of(6, 3, Write));
        turn.store(3, Ordering::Release);
        let reader = reader.lock().expect("nobody panics").take().expect("was started");
        let found = reader.join().expect("does not panic");
        assert_eq!(found, Ok(content_of(3, 0, Write)), "{:?}", journal.stats());
    });
}

/// Rot in the log is an error of its block.
#[test]
fn rot_in_the_log_does_not_end_the_journal() {
    let program = Program { lane_bytes: 64 * 64, ..Program::new(Logged::Levels, 1, vec![]) };
    let world = World::boot(program.start(), Model::Torn8);
    let journal = program.open(&world).expect("opens");
    for block in 0..2 {
        let mut tx = journal.begin().expect("begins");
        tx.write(BlockNumber(block), &content_of(1, block as usize, Write)).expect("writes");
        tx.commit().expect("commits");
    }
    drop(journal);
    let mut image = world.visible();
    let first = BlockNumber(BLOCKS as u64);
    let mut rotten = image.disk(0).block(first);
    rotten[9] ^= 1;
    image.disk_mut(0).set_block(first, &rotten);
    let world = World::boot(image, Model::Torn8);
    let journal = program.open(&world).expect("opens");
    let is_rotten = |error: &Error| matches!(error, Error::RottenLog { block: BLOCK, .. });
    assert!(is_rotten(&read_block(&journal, 0).expect_err("it has rotted")));
    assert_eq!(read_block(&journal, 1), Ok(content_of(1, 1, Write)));
    // It can be written anew.
    let mut tx = journal.begin().expect("begins");
    let written = tx.write(BLOCK, &content_of(2, 0, Write));
    assert_eq!(written, Ok(()));
    tx.commit().expect("commits");
    assert_eq!(read_block(&journal, 0), Ok(content_of(2, 0, Write)));
}

/// Those who have left their fence to a commit that finds no room for its frame need not wait until
/// it has some.
#[test]
fn nobody_waits_for_the_room_of_another_one() {
    // Whether somebody left it to that one; the machine may have kept it from coming in time.
    let left = (0..20).filter(|_| within(60, is_left_to_one_without_room)).count();
    assert!(left > 0, "each had a fence of its own");
}

fn is_left_to_one_without_room() -> bool {
    let program = Program { lane_bytes: 64 * 64, ..Program::new(Logged::Whole, 1, vec![]) };
    let world = World::boot(program.start(), Model::Torn8);
    let (probe, device) = (Probe::new(Mutator::new()), Device::new(world.disk(0)));
    let options = program.options(probe.clone()).index_frames(3);
    let (pmem, disk) = media(&world, device.clone());
    let journal = Journal::open(pmem, disk, &options).expect("opens");
    let journal = Arc::new(journal);
    let write = |journal: &Front, block: usize| {
        let image = content_of(1, block, Write);
        let operations = [Operation::write(BlockNumber(block as u64), &image)];
        journal.commit(&operations, Durability::Durable).expect("commits");
    };
    write(&journal, 0);
    // A checkpoint that takes its time: nobody else makes room.
    let turn = Arc::new(AtomicU32::new(0));
    let at = Arc::clone(&turn);
    device.watch(move |_| {
        if at.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            while at.load(Ordering::Acquire) < 2 {
                std::thread::yield_now();
            }
        }
    });
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| journal.checkpoint());
        while turn.load(Ordering::Acquire) < 1 {
            std::thread::yield_now();
        }
        let (shared, was_there) = (Arc::clone(&journal), AtomicU32::new(0));
        let others = Arc::new(Mutex::new(Vec::new()));
        // While the first one holds the lane, two others begin to wait for it: one that there is
        // room for, and one that there is none for.
        let (left, of_others) = (Arc::new(AtomicU32::new(0)), Arc::clone(&others));
        let noted = Arc::clone(&left);
        probe.watch(move |site| {
            noted.fetch_add(u32::from(site.name == "deferred.flush"), Ordering::AcqRel);
            if site.name.ends_with(".image") && was_there.fetch_add(1, Ordering::AcqRel) == 0 {
                for block in [2, 3] {
                    let journal = Arc::clone(&shared);
                    let thread = std::thread::spawn(move || write(&journal, block));
                    of_others.lock().expect("nobody panics").push(thread);
                    std::thread::sleep(A_WHILE / 3);
                }
            }
        });
        scope.spawn(|| write(&journal, 1)).join().expect("does not panic");
        let others = core::mem::take(&mut *others.lock().expect("nobody panics"));
        let has_ended = || others.iter().any(|other| other.is_finished());
        // One of them ends, while the checkpoint does not.
        for _ in 0..100 {
            if !has_ended() {
                std::thread::sleep(A_WHILE);
            }
        }
        let has_ended = has_ended();
        let total = journal.stats().expect("counts").total();
        turn.store(2, Ordering::Release);
        probe.look_away();
        for other in others {
            other.join().expect("does not panic");
        }
        checkpoint.join().expect("does not panic").expect("writes home");
        assert!(has_ended, "it waits for the other one's room: {total:?}");
        left.load(Ordering::Acquire) > 0
    })
}

/// Others may have written the block since the caller read it.
#[test]
fn an_old_image_that_a_caller_brings_is_not_relied_on() {
    for logs in [Logged::Compressed, Logged::Levels] {
        let program = Program { lane_bytes: 64 * 64, ..Program::new(logs, 1, vec![]) };
        let world = World::boot(program.start(), Model::Torn8);
        let journal = program.open(&world).expect("opens");
        let images = [0, 1, 2, 3].map(|byte| {
            let mut image = [0; 64];
            image[8 * usize::from(byte)] = byte;
            image
        });
        for (old, new) in [(0, 1), (1, 2), (1, 3)] {
            let mut operation = Operation::write(BLOCK, &images[new]);
            if let Operation::Update(update) = &mut operation {
                update.old = Some(&images[old]);
            }
            journal.commit(&[operation], Durability::Durable).expect("commits");
            assert_eq!(read_block(&journal, 0), Ok(images[new]), "{logs:?}");
        }
        journal.checkpoint().expect("writes home");
    }
}
