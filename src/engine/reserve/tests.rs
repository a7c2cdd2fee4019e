//! Which thread waits for a block, and whose turn it is then.

use core::time::Duration;

use object_log::ObjectLog;
use pmem_sys::Region;
use sim_disk::Mutator;

use super::*;
use crate::engine::commit::at_once::Sees;
use crate::machine::tests::{TinyDisk, TinyMachine};
use crate::policy::{Change, Patch, Update};
use crate::shared::levels::Stage;
use crate::{AnyPolicy, BlockSize, Durability, FullBlock, Journal, Operation, Options};

const BLOCK: usize = journal_core::BlockSize::MIN.bytes();

type TinyJournal = Journal<AnyPolicy, TinyMachine>;

fn options() -> Options<AnyPolicy, Mutator> {
    Options::new().policy(FullBlock.into()).hook(Mutator::new())
}

/// One thread has a block, and another comes and waits for it. When the first has given it back, it
/// goes on to write the block. By then it is the other's turn, which may be asleep. Returns whose
/// content is there at the end.
fn the_next_is_who_has_waited(write_again: impl Fn(&TinyJournal, &[u8])) -> u8 {
    let nvm = Region::anonymous(1 << 20).expect("there is memory");
    let journal: TinyJournal =
        Journal::format(nvm, TinyDisk::new(64), &options()).expect("formats");
    // The other one will sit where many transactions were, so that by itself it is younger than
    // any of this thread's.
    std::thread::scope(|scope| {
        let one = || journal.transact(|tx| tx.write(BlockNumber(9), &[9; BLOCK]));
        scope.spawn(move || (0..100).for_each(|_| one().expect("commits")));
    });
    let mut first = journal.begin().expect("begins");
    first.write(BlockNumber(5), &[1; BLOCK]).expect("fits");
    std::thread::scope(|scope| {
        let second = Operation::write(BlockNumber(5), &[2; BLOCK]);
        let journal = &journal;
        scope.spawn(move || journal.commit(&[second], Durability::Durable).expect("gets through"));
        let shared = journal.shared();
        let is_claimed = || {
            let share = shared.lock_share(BlockNumber(5)).expect("is not poisoned");
            share.claims.older(BlockNumber(5), Age(u64::MAX)).is_some()
        };
        while !is_claimed() {
            std::thread::yield_now();
        }
        // Enough time for the waiting thread to nap.
        std::thread::sleep(Duration::from_millis(20));
        first.commit().expect("commits");
        write_again(journal, &[3; BLOCK]);
    });
    let mut content = [0; BLOCK];
    journal.read(BlockNumber(5), &mut content).expect("reads");
    content[0]
}

#[test]
fn who_has_waited_for_a_block_has_it_before_those_that_come_later() {
    for _ in 0..5 {
        let last = the_next_is_who_has_waited(|journal, image| {
            let again = Operation::write(BlockNumber(5), image);
            journal.commit(&[again], Durability::Durable).expect("waits for its turn");
        });
        assert_eq!(last, 3, "alone");
        let last = the_next_is_who_has_waited(|journal, image| {
            journal.transact(|tx| tx.write(BlockNumber(5), image)).expect("waits for its turn");
        });
        assert_eq!(last, 3, "staged");
        let last = the_next_is_who_has_waited(|journal, image| {
            // It holds one that is its own, and gives up for the other.
            let both = [4, 5].map(|number| Operation::write(BlockNumber(number), image));
            journal.commit(&both, Durability::Durable).expect("waits for its turn");
        });
        assert_eq!(last, 3, "several");
    }
}

/// Two transactions are open at the same time, and their blocks have one word in the table of
/// locks. Neither waits, and neither is told of the other. One that waited for the other would wait
/// for its own thread, and be told.
#[test]
fn transactions_whose_blocks_share_a_word_do_not_meet() {
    let nvm = Region::anonymous(4 << 20).expect("there is memory");
    let disk = TinyDisk::new(1 << 20);
    let options = options().lanes(1);
    let journal: TinyJournal = Journal::format(nvm, disk, &options).expect("formats");
    let shared = journal.shared();
    let one = BlockNumber(5);
    let shares = |block: &BlockNumber| shared.blocks.stripe(*block) == shared.blocks.stripe(one);
    let others: Vec<_> = (6..1 << 20).map(BlockNumber).filter(shares).take(3).collect();
    let [other, third, fourth] = others[..] else { panic!("some share its word: {others:?}") };
    let (ones, twos) = ([1; BLOCK], [2; BLOCK]);
    let commit = |block, image: &[u8]| {
        journal.commit(&[Operation::write(block, image)], Durability::Durable).expect("commits")
    };
    for older_first in [true, false] {
        let mut first = journal.begin().expect("begins");
        let mut second = journal.begin().expect("begins");
        let (a, b) =
            if older_first { (&mut first, &mut second) } else { (&mut second, &mut first) };
        a.write(one, &ones).expect("has its block");
        b.write(other, &twos).expect("has its block");
        // Each takes one more, behind those of the other.
        b.write(third, &ones).expect("has its block");
        a.write(fourth, &twos).expect("has its block");
        // Commits in one call, alone and several.
        commit(BlockNumber(4), &ones);
        let both = [one, other].map(|block| {
            let told = journal.commit(&[Operation::write(block, &ones)], Durability::Durable);
            (block, told)
        });
        assert!(both.iter().all(|(at, told)| *told == Err(Error::Conflict { block: *at })));
        second.commit().expect("commits");
        first.commit().expect("commits");
        for (block, byte) in [(one, 1), (other, 2), (third, 1), (fourth, 2)] {
            let mut content = [0; BLOCK];
            journal.read(block, &mut content).expect("reads");
            assert_eq!(content, [byte; BLOCK], "{block:?}");
            commit(block, &[9; BLOCK]);
        }
    }
    // One transaction has blocks of one word, and gives all of them back.
    journal
        .transact(|tx| others.iter().try_for_each(|block| tx.write(*block, &ones)))
        .expect("fits");
    let mut dropped = journal.begin().expect("begins");
    others.iter().for_each(|block| dropped.write(*block, &twos).expect("has it"));
    drop(dropped);
    for block in others {
        assert_eq!(shared.blocks.holder_of(block), None);
        commit(block, &twos);
    }
}

fn tiny_journal() -> TinyJournal {
    let nvm = Region::anonymous(1 << 20).expect("there is memory");
    let options = options().lanes(1);
    Journal::format(nvm, TinyDisk::new(64), &options).expect("formats")
}

/// Nothing was committed since the last checkpoint that freed nothing, so none can free anything.
#[test]
fn a_checkpoint_that_frees_nothing_is_not_repeated() {
    let journal = tiny_journal();
    let shared = journal.shared();
    let made_for_ten = || {
        let before = shared.done().checkpoints;
        (0..10).for_each(|_| shared.make_room(None, |_| false).expect("goes home"));
        shared.done().checkpoints - before
    };
    assert_eq!([made_for_ten(), made_for_ten()], [1, 0]);
    let image = [1; BLOCK];
    for durability in [Durability::Durable, Durability::Deferred] {
        let write = [Operation::write(BlockNumber(5), &image)];
        journal.commit(&write, durability).expect("commits");
        assert_eq!([made_for_ten(), made_for_ten()], [2, 0], "one frees it");
    }
    // Where there was room already, nothing was tried.
    journal.commit(&[Operation::write(BlockNumber(5), &image)], Durability::Durable).expect("fits");
    shared.make_room(None, |_| true).expect("there is room");
    assert_eq!(made_for_ten(), 2);
}

/// The ring is long, and the index has few frames. The thread in the background makes room for
/// frames before there is none, and once.
#[test]
fn the_thread_in_the_background_makes_room_for_frames() {
    let nvm = Region::anonymous(1 << 20).expect("there is memory");
    let options = options().lanes(1).index_frames(63).background_checkpoint(true);
    let journal: TinyJournal = Journal::format(nvm, TinyDisk::new(256), &options).expect("formats");
    let shared = journal.shared();
    let share = || shared.lock_share(BlockNumber(0)).expect("is not poisoned");
    assert_eq!((shared.shares.len(), share().index.capacity()), (1, 63));
    // Frames that are only reserved do not come free by a checkpoint.
    let mut large = journal.begin().expect("begins");
    (0..60).for_each(|number| large.write(BlockNumber(number), &[1; BLOCK]).expect("fits"));
    assert!(!shared.is_short_beside(Stage::WriteHome, None) && !shared.bell.was_asked());
    large.abort();
    let write = |number| journal.transact(|tx| tx.write(BlockNumber(number), &[1; BLOCK]));
    (0..60).for_each(|number| write(number).expect("commits"));
    let is_made =
        || shared.done().checkpoints > 0 && !shared.is_short_beside(Stage::WriteHome, None);
    let begun = std::time::Instant::now();
    while !is_made() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it makes no room");
        std::thread::yield_now();
    }
    let made = shared.done().checkpoints;
    (0..8).for_each(|number| write(number).expect("commits"));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(shared.done().checkpoints, made, "there is room");
}

/// Steps are taken before the share has no frame left (IS4), whichever way commits go.
#[test]
fn steps_free_frames_before_there_is_none() {
    type Way = fn(&TinyJournal, u64);
    let ways: [(&str, Way); 3] = [
        ("a transaction", |journal, number| {
            journal.transact(|tx| tx.write(BlockNumber(number), &[1; BLOCK])).expect("commits");
        }),
        ("one call", |journal, number| {
            let write = [Operation::write(BlockNumber(number), &[1; BLOCK])];
            journal.commit(&write, Durability::Durable).expect("commits");
        }),
        ("a run", |journal, number| {
            let write = |at| Operation::write(BlockNumber(number + at), &[1; BLOCK]);
            let run: [_; 8] = core::array::from_fn(|at| write(at as u64));
            journal.commit(&run, Durability::Durable).expect("commits");
        }),
    ];
    for (name, commit) in ways {
        let nvm = Region::anonymous(32 << 20).expect("there is memory");
        // A share is low on some dozens of frames: enough for a run.
        let options = options().lanes(1).index_frames(1 << 16);
        let journal: TinyJournal =
            Journal::format(nvm, TinyDisk::new(1 << 20), &options).expect("formats");
        let shared = journal.shared();
        for number in (0..1 << 20).step_by(8) {
            commit(&journal, number);
            let share = shared.lock_share(BlockNumber(number)).expect("is not poisoned");
            assert!(share.index.free_frames() > 0, "{name}: none is left at block {number}");
            if shared.done().stops.for_frames > 100 {
                break;
            }
        }
        assert!(shared.done().stops.for_frames > 0, "{name}: no step was taken");
    }
}

/// One of the blocks has frames that are short. All blocks as whole images would not fit a lane.
#[test]
fn patches_that_fit_are_committed_whether_or_not_a_chain_is_to_end() {
    let nvm = Region::anonymous(1 << 20).expect("there is memory");
    let options = options().policy(ObjectLog::new().into());
    let options = options.lanes(1).lane_bytes(40 << 10).index_frames(63);
    let disk = TinyDisk::of(BlockSize::DEFAULT, 64);
    let journal: TinyJournal = Journal::format(nvm, disk, &options).expect("formats");
    let shared = journal.shared();
    let patch = [Patch { at: 0, bytes: &[1; 8] }];
    let update =
        |block| Operation::Update(Update::new(BlockNumber(block), Change::Patches(&patch)));
    for _ in 0..50 {
        journal.commit(&[update(0)], Durability::Durable).expect("commits");
    }
    assert!(
        shared
            .lock_share(BlockNumber(0))
            .expect("is not poisoned")
            .ends_chain_of(BlockNumber(0), 0)
    );
    let many: Vec<_> = (0..10).map(update).collect();
    // What is gathered keeps commits from the shortest ways.
    journal.transact_gathered(|tx| tx.write_at(BlockNumber(50), 0, &[1; 8])).expect("is gathered");
    assert!(shared.ends_any_chain(&many[..2], Sees::Operations), "few fit as images");
    journal.commit(&many, Durability::Durable).expect("fits as patches");
}

/// While an older transaction waits for room, a younger one that has none waits behind it, in
/// whichever way it commits.
#[test]
fn no_younger_transaction_takes_room_before_an_older_one_that_waits() {
    type Way = fn(&TinyJournal);
    let image = &[1; BLOCK];
    let ways: [Way; 4] = [
        |journal| {
            let write = [Operation::write(BlockNumber(5), &[1; BLOCK])];
            journal.commit(&write, Durability::Durable).map(drop).expect("commits");
        },
        |journal| {
            let write = |number| Operation::write(BlockNumber(number), &[1; BLOCK]);
            journal.commit(&[write(5), write(6)], Durability::Durable).map(drop).expect("commits");
        },
        |journal| journal.transact(|tx| tx.write(BlockNumber(5), &[1; BLOCK])).expect("commits"),
        // It may not wait with the block that it has read, and begins again.
        |journal| {
            let body = |tx: &mut crate::Transaction<'_, _, _>| {
                tx.read(BlockNumber(7), &mut [0; BLOCK])?;
                tx.write_at(BlockNumber(5), 3, &[2; 8])
            };
            journal.transact_gathered(body).expect("is gathered");
        },
    ];
    for way in ways {
        let journal = tiny_journal();
        journal
            .commit(&[Operation::write(BlockNumber(1), image)], Durability::Durable)
            .expect("fits");
        let waiting = &journal.shared().waiting;
        std::thread::scope(|scope| {
            let wait = waiting.wait_for_room(Age(1));
            let thread = scope.spawn(|| way(&journal));
            while waiting.waiters_for_room() < 2 {
                assert!(!thread.is_finished(), "it has not waited");
                std::thread::yield_now();
            }
            assert_eq!(journal.stats().expect("counts").total().commits, 1);
            drop(wait);
        });
        assert_eq!(waiting.waiters_for_room(), 0);
    }
}

/// One transaction is idle, and one that needs its room waits for it. Small ones go on (N5).
#[test]
fn small_transactions_go_on_beside_an_idle_one_and_a_large_one() {
    let nvm = Region::anonymous(1 << 20).expect("there is memory");
    let options = options().lanes(1).lane_bytes(16 * 4352);
    let journal: TinyJournal =
        Journal::format(nvm, TinyDisk::new(1024), &options).expect("formats");
    let mut idle = journal.begin().expect("begins");
    idle.write(BlockNumber(900), &[1; BLOCK]).expect("fits");
    let small = std::thread::scope(|scope| {
        let large = |tx: &mut crate::Transaction<'_, _, _>| {
            // As many as a lane has room for.
            let mut blocks = (0..600).map(BlockNumber);
            blocks.try_for_each(|block| match tx.write(block, &[1; BLOCK]) {
                Err(crate::Error::TooLarge { .. }) => Ok(()),
                other => other,
            })
        };
        let journal = &journal;
        scope.spawn(move || journal.transact(large).map_err(drop));
        let mut rounds = 0;
        while journal.shared().waiting.waiters_for_room() < 1 && rounds < 2000 {
            std::thread::sleep(Duration::from_millis(1));
            rounds += 1;
        }
        assert!(rounds < 2000, "the large one waits");
        let small = scope.spawn(move || {
            let write = [Operation::write(BlockNumber(700), &[1; BLOCK])];
            journal.commit(&write, Durability::Durable).map(drop)
        });
        std::thread::sleep(Duration::from_secs(3));
        let is_done = small.is_finished();
        drop(idle);
        is_done
    });
    assert!(small, "a small one waits for ever behind one that waits for an idle one");
}

/// A thread with another transaction open goes on with a small one, after it has waited for a while
/// behind an older one, whichever call it writes by.
#[test]
fn a_small_one_beside_another_of_its_thread_goes_on_whichever_way_it_writes() {
    type Tx<'j> = crate::Transaction<'j, AnyPolicy, TinyMachine>;
    type Body = fn(&mut Tx<'_>) -> Result<(), crate::Error>;
    let bodies: [(&str, Body); 3] = [
        ("write", |tx| tx.write(BlockNumber(5), &[2; BLOCK])),
        ("write_at", |tx| tx.write_at(BlockNumber(5), 3, &[2; 8])),
        ("read, then write", |tx| {
            tx.read(BlockNumber(5), &mut [0; BLOCK])?;
            tx.write(BlockNumber(5), &[2; BLOCK])
        }),
    ];
    let mut results = Vec::new();
    for (name, body) in bodies {
        let journal = tiny_journal();
        let wait = journal.shared().waiting.wait_for_room(Age(1));
        let mut outer = journal.begin().expect("begins");
        outer.read(BlockNumber(40), &mut [0; BLOCK]).expect("reads");
        results.push((name, journal.transact(body)));
        drop((outer, wait));
    }
    assert!(results.iter().all(|(_, result)| result.is_ok()), "{results:?}");
}
