//! Edges of space: what just fits, what just does not, and journals that are always full.

use core::sync::atomic::{AtomicU64, Ordering};

use journal_core::{BlockNumber, Durability, Operation};
use nvm_journal::{Error, Journal};
use sim_disk::{Model, Mutator, Scenario as _, World};

use crate::guards::within;
use crate::probe::{Device, Logged, Probe};
use crate::program::{Front, Program, media, read_block};
use lab::oracle::{BLOCKS, Change, content_of};

fn open(program: &Program, index_frames: usize, background: bool) -> Front {
    let world = World::boot(program.start(), Model::Torn8);
    let options = program.options(Probe::new(Mutator::new())).index_frames(index_frames);
    let options = options.background_checkpoint(background);
    let (pmem, disk) = media(&world, Device::new(world.disk(0)));
    Journal::open(pmem, disk, &options).expect("opens")
}

/// Writes blocks from 0 on until one is refused, commits the others, and says what refused it.
fn fill(journal: &Front, number: u64) -> (usize, Option<Error>) {
    let mut tx = journal.begin().expect("begins");
    let content = |block| content_of(number, block, Change::Write);
    let mut refused = None;
    let mut blocks = 0;
    while blocks < BLOCKS && refused.is_none() {
        match tx.write(BlockNumber(blocks as u64), &content(blocks)) {
            Ok(()) => blocks += 1,
            Err(error) => refused = Some(error),
        }
    }
    // The transaction is as it was, and may change again what it has.
    tx.write(BlockNumber(0), &content(0)).expect("is in it");
    tx.commit().expect("cannot fail for space");
    for block in 0..blocks {
        assert_eq!(read_block(journal, block), Ok(content(block)));
    }
    (blocks, refused)
}

#[test]
fn a_transaction_as_large_as_a_lane_fits_and_one_block_more_does_not() {
    for logs in [Logged::Whole, Logged::Stuffed] {
        for lanes in [1, 2, 3] {
            let with = |lane_bytes| Program { lane_bytes, ..Program::new(logs, lanes, Vec::new()) };
            // The front door's own bound says what the next block takes.
            let mut lane_bytes = 10 * 64;
            for _ in 0..3 {
                let journal = open(&with(lane_bytes), 64, false);
                let (blocks, refused) = fill(&journal, 1);
                let Some(Error::TooLarge { needed, capacity }) = refused else {
                    panic!("{blocks} blocks in {lane_bytes} bytes, then {refused:?}")
                };
                assert_eq!(capacity, lane_bytes);
                assert!(needed > capacity);
                for number in 2..6 {
                    // Full as it is, it makes room by itself.
                    assert_eq!(fill(&journal, number).0, blocks);
                }
                let exact = open(&with(needed), 64, false);
                assert_eq!(fill(&exact, 1).0, blocks + 1, "exactly {needed} bytes");
                assert_eq!(fill(&exact, 2).0, blocks + 1, "and once more");
                assert_eq!(fill(&open(&with(needed - 64), 64, false), 1).0, blocks);
                lane_bytes = needed;
            }
        }
    }
}

#[test]
fn what_is_refused_changes_nothing_when_it_is_all_there_is() {
    let program = Program { lane_bytes: 4 * 64, ..Program::new(Logged::Whole, 1, Vec::new()) };
    let journal = open(&program, 64, false);
    let before = journal.stats().expect("counts");
    for _ in 0..20 {
        let mut tx = journal.begin().expect("begins");
        let refused = tx.write(BlockNumber(0), &[1; 64]);
        if refused.is_ok() {
            let refused = tx.write(BlockNumber(1), &[1; 64]);
            assert!(matches!(refused, Err(Error::TooLarge { capacity: 256, .. })), "{refused:?}");
            assert_eq!(tx.discard(BlockNumber(2)), refused);
        } else {
            assert!(matches!(refused, Err(Error::TooLarge { capacity: 256, .. })), "{refused:?}");
        }
    }
    assert_eq!(journal.stats().expect("counts"), before);
    assert_eq!(read_block(&journal, 0), Ok([0; 64]));
}

#[test]
fn an_index_that_is_full_makes_room_and_says_what_it_never_has() {
    let program = Program { lane_bytes: 64 * 64, ..Program::new(Logged::Halves, 2, Vec::new()) };
    let journal = open(&program, 4, false);
    for number in 1..20 {
        let (blocks, refused) = fill(&journal, number);
        assert_eq!((blocks, refused), (4, Some(Error::TooManyBlocks { blocks: 5 })));
    }
    // What another one has reserved may come free: that is a conflict, and no end.
    let mut holder = journal.begin().expect("begins");
    for block in 0..3 {
        holder.write(BlockNumber(block), &[9; 64]).expect("has room");
    }
    let mut other = journal.begin().expect("begins");
    other.write(BlockNumber(4), &[8; 64]).expect("the last one");
    let conflict = other.write(BlockNumber(5), &[8; 64]);
    assert_eq!(conflict, Err(Error::Conflict { block: BlockNumber(5) }));
    drop(other);
    holder.write(BlockNumber(3), &[9; 64]).expect("is free again");
    holder.commit().expect("commits");
}

/// Writers that together want more than there is, again and again.
fn crowd(program: Program, index_frames: usize, background: bool) {
    within(60, move || {
        let (threads, rounds) = (4, 150);
        let journal = open(&program, index_frames, background);
        let numbers = AtomicU64::new(1);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (journal, numbers) = (&journal, &numbers);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let number = numbers.fetch_add(1, Ordering::Relaxed);
                        let first = thread + round;
                        let committed = journal.transact(|tx| {
                            // In any order, so that they meet.
                            for step in 0..1 + (thread + round) % 3 {
                                let block = (first + step * (1 + round % 2 * 4)) % BLOCKS;
                                let content = content_of(number, block, Change::Write);
                                tx.write(BlockNumber(block as u64), &content)?;
                            }
                            Ok::<_, Error>(())
                        });
                        committed.expect("gets through");
                    }
                });
            }
        });
        let stats = journal.stats().expect("counts");
        assert_eq!(stats.total().commits, (threads * rounds) as u64);
        assert!(stats.checkpoints > 0, "{stats:?}");
        journal.close().expect("closes");
    });
}

#[test]
fn writers_of_a_journal_that_is_always_full_get_through() {
    for background in [false, true] {
        for lanes in [1, 2] {
            crowd(Program::new(Logged::Halves, lanes, Vec::new()), 64, background);
        }
    }
}

/// Blocks go to the log and come back from there, while others are in the records.
#[test]
fn writers_of_a_log_that_is_always_full_get_through() {
    for background in [false, true] {
        for logs in [Logged::Levels, Logged::Compressed] {
            for (lanes, lane_bytes, index_frames) in [(1, 10, 64), (2, 64, 64), (2, 64, 4)] {
                let program = Program::new(logs, lanes, Vec::new());
                let program = Program { lane_bytes: lane_bytes * 64, ..program };
                mixed_crowd(program, index_frames, background);
            }
        }
    }
}

/// Writers of whole blocks, of words, and in one call, and readers.
fn mixed_crowd(program: Program, index_frames: usize, background: bool) {
    within(60, move || {
        let (threads, rounds) = (4, 100);
        let journal = open(&program, index_frames, background);
        let numbers = AtomicU64::new(1);
        let writers = AtomicU64::new(threads as u64);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (journal, numbers, writers) = (&journal, &numbers, &writers);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let number = numbers.fetch_add(1, Ordering::Relaxed);
                        let block = (thread + round) % BLOCKS;
                        let content = content_of(number, block, Change::Write);
                        let place = BlockNumber(block as u64);
                        let committed = match (thread + round * 7) % 4 {
                            0 => {
                                let operations = [Operation::write(place, &content)];
                                journal.commit(&operations, Durability::Durable).map(drop)
                            }
                            1 => journal.transact(|tx| tx.write_at(place, 0, &content[..8])),
                            2 => journal.transact_gathered(|tx| tx.write(place, &content)),
                            _ => journal.transact(|tx| {
                                let other = BlockNumber((block as u64 + 1) % BLOCKS as u64);
                                tx.write(place, &content)?;
                                tx.discard(other)?;
                                tx.write(other, &content)
                            }),
                        };
                        committed.expect("gets through");
                    }
                    writers.fetch_sub(1, Ordering::Relaxed);
                });
            }
            scope.spawn(|| {
                while writers.load(Ordering::Relaxed) > 0 {
                    for block in 0..BLOCKS {
                        read_block(&journal, block).expect("reads");
                    }
                }
            });
        });
        journal.sync().expect("commits what is gathered");
        journal.checkpoint().expect("empties");
        let stats = journal.stats().expect("counts");
        assert_eq!(stats.frames, 0, "{stats:?}");
        for lane in &stats.lanes {
            // Behind the open segment's begin nothing is taken before it is full.
            assert!(lane.free_log_blocks >= stats.lane_log_blocks - 2, "{stats:?}");
            assert_eq!(lane.used_bytes, 0, "{stats:?}");
        }
        journal.close().expect("closes");
    });
}

#[test]
fn writers_of_an_index_that_is_always_full_get_through() {
    for background in [false, true] {
        let program = Program::new(Logged::Whole, 2, Vec::new());
        crowd(Program { lane_bytes: 64 * 64, ..program }, 4, background);
    }
}

/// What another thread has taken in hand of it while room was made comes back.
#[test]
fn an_empty_lane_has_room_for_what_needs_all_of_it() {
    use crate::guards::Stage;
    let with = |lane_bytes| Program { lane_bytes, ..Program::new(Logged::Whole, 3, Vec::new()) };
    let needed = 512;
    let program = with(needed);
    let world = World::boot(program.start(), Model::Torn8);
    let stage = Stage::open(&program, &world).expect("opens");
    let image = content_of(1, 0, Change::Write);
    let one = |journal: &Front, block: u64| {
        let write = [Operation::write(BlockNumber(block), &image)];
        journal.commit(&write, Durability::Durable).expect("commits").expect("is logged").lane
    };
    // Something to be written home, in lane 0.
    assert_eq!(one(&stage.journal, 0).raw(), 0);
    stage.at_first("checkpoint.sync", |stage| {
        let journal = stage.journal.clone();
        std::thread::spawn(move || {
            let _held = [journal.begin().expect("begins"), journal.begin().expect("begins")];
            let image = [3; 64];
            let write = [Operation::write(BlockNumber(5), &image)];
            let done = journal.commit(&write, Durability::Durable).expect("commits");
            assert_eq!(done.expect("is logged").lane.raw(), 0);
        })
        .join()
        .expect("commits beside");
    });
    let images: Vec<_> = (0..5).map(|at| content_of(2, at, Change::Write)).collect();
    let all = images.iter().zip(0..).map(|(image, at)| Operation::write(BlockNumber(at), image));
    let done = stage.journal.commit(&all.collect::<Vec<_>>(), Durability::Durable);
    assert!(done.expect("commits").is_some());
    let checkpoints = stage.journal.stats().expect("counts").checkpoints;
    assert!(checkpoints <= 2, "{checkpoints} checkpoints");
}
