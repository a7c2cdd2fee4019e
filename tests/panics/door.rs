//! The journal of many threads, by one of them; and that nobody waits for what never ends.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock, Weak, mpsc};

use journal_core::Durability::{Deferred, Durable};
use journal_core::{BlockNumber, Durability};
use lab::erased::{DynDisk, DynJournal, DynPmem, any_options};
use nvm_journal::Error;
use sim_disk::World;

use crate::fuse::{BLOCK, FIRST, Fuse, Logs, PATCH};
use crate::{
    APPENDED, BLOCKS, Changes, ENCODED, End, HOME, IMAGE, LOG, SLOT, Truth, changed, formatted,
    is_one_of, left_of, with_operations, worst_of,
};

type Opened = DynJournal;

/// What the journal does while something panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// In one call.
    Commit(Changes, Durability),
    /// As a transaction.
    Transact(Changes, Durability),
    /// And made durable.
    Gather(Changes),
    /// A number of commits in turn of a block each, more than there is room for.
    Fill(u64),
    Settle,
    Checkpoint,
    Read,
}

use Act::{Checkpoint, Commit, Fill, Gather, Read, Settle, Transact};

/// More than are committed without waiting, of several runs.
const MANY: Changes = &[
    (0, IMAGE),
    (1, IMAGE),
    (2, IMAGE),
    (3, IMAGE),
    (4, IMAGE),
    (5, IMAGE),
    (6, IMAGE),
    (7, IMAGE),
    (8, IMAGE),
    (9, IMAGE),
    (10, IMAGE),
    (12, IMAGE),
    (13, IMAGE),
    (14, IMAGE),
    (15, IMAGE),
];

const OF_EACH: Changes =
    &[(0, IMAGE), (1, ENCODED), (2, SLOT), (3, LOG), (8, IMAGE), (APPENDED, HOME)];

const ACTS: [Act; 20] = [
    Commit(&[(0, IMAGE)], Durable),
    Commit(&[(1, ENCODED)], Durable),
    Commit(&[(1, PATCH)], Durable),
    Commit(&[(0, PATCH), (1, PATCH), (7, PATCH)], Durable),
    Commit(&[(0, IMAGE), (9, IMAGE)], Durable),
    Commit(&[(2, SLOT)], Durable),
    Commit(&[(3, LOG)], Durable),
    Commit(&[(4, IMAGE)], Deferred),
    Commit(OF_EACH, Durable),
    Commit(OF_EACH, Deferred),
    Commit(MANY, Durable),
    Transact(&[(0, IMAGE)], Durable),
    Transact(&[(1, PATCH), (9, IMAGE)], Durable),
    Transact(&[(2, IMAGE), (4, IMAGE)], Deferred),
    Gather(&[(0, IMAGE), (1, IMAGE)]),
    Gather(&[(4, IMAGE)]),
    Fill(60),
    Settle,
    Checkpoint,
    Read,
];

impl Act {
    const fn changes(self) -> Changes {
        match self {
            Commit(changes, _) | Transact(changes, _) | Gather(changes) => changes,
            _ => &[],
        }
    }

    /// What the blocks may hold once it has begun.
    fn may_lead_to(self, truth: &Truth) -> Vec<Truth> {
        let mut all = vec![*truth];
        match self {
            Fill(count) => {
                for number in 0..count {
                    let before = *all.last().expect("has one");
                    all.push(changed(&before, &[(number % 8, IMAGE)]));
                }
            }
            _ => all.push(changed(truth, self.changes())),
        }
        all
    }
}

fn open(world: &World, fuse: &Fuse, logs: Logs) -> Opened {
    let options = any_options(fuse.policy(logs), fuse.clone());
    let options = options.index_frames(256).keep_on_close(true);
    let device = DynDisk::new(fuse.device(world.disk(0)));
    Opened::open(DynPmem::new(world.pmem()), device, &options).expect("opens")
}

fn commit(
    journal: &Opened,
    changes: &[(u64, u8)],
    durability: Durability,
    truth: &Truth,
) -> Result<(), Error> {
    with_operations(truth, changes, |operations| journal.commit(operations, durability).map(drop))
}

fn transact(
    journal: &Opened,
    changes: &[(u64, u8)],
    durability: Durability,
    truth: &Truth,
) -> Result<(), Error> {
    let after = changed(truth, changes);
    let body = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
        changes.iter().try_for_each(|(block, how)| {
            let image = &after[*block as usize];
            match *how {
                PATCH => {
                    tx.write_at(BlockNumber(*block), 0, &image[..FIRST])?;
                    tx.write_at(BlockNumber(*block), BLOCK - 1, &image[BLOCK - 1..])
                }
                _ => tx.write(BlockNumber(*block), image),
            }
        })
    };
    match durability {
        Durable => journal.transact(body),
        Deferred => journal.transact_deferred(body),
    }
}

/// A journal in which each call has something to do: what of it is durable, and what there is.
fn set_up(journal: &Opened) -> [Truth; 2] {
    let mut truth = [[0; BLOCK]; BLOCKS as usize];
    let mut write = |changes: &[(u64, u8)]| {
        commit(journal, changes, Durable, &truth).expect("commits");
        truth = changed(&truth, changes);
    };
    write(&[(0, IMAGE), (1, IMAGE), (7, IMAGE)]);
    write(&[(2, SLOT), (3, LOG), (8, LOG)]);
    journal.checkpoint().expect("checkpoints");
    for _ in 0..2 {
        write(&[(0, IMAGE)]);
        write(&[(2, SLOT), (10, SLOT)]);
        write(&[(3, LOG)]);
    }
    write(&[(1, ENCODED), (7, ENCODED)]);
    write(&[(14, HOME)]);
    let deferred = [(1, ENCODED), (4, IMAGE)];
    commit(journal, &deferred, Deferred, &truth).expect("commits");
    [truth, changed(&truth, &deferred)]
}

fn contents(journal: &Opened) -> Vec<[u8; BLOCK]> {
    let read = |number| {
        let mut block = [0; BLOCK];
        journal.read(BlockNumber(number), &mut block).expect("reads");
        block
    };
    (0..BLOCKS).map(read).collect()
}

fn perform(journal: &Opened, act: Act, truth: &Truth) -> Result<(), Error> {
    match act {
        Commit(changes, durability) => commit(journal, changes, durability, truth),
        Transact(changes, durability) => transact(journal, changes, durability, truth),
        Gather(changes) => {
            let after = changed(truth, changes);
            let write = |block: u64| {
                let image = &after[block as usize];
                journal.transact_gathered(|tx| tx.write(BlockNumber(block), image))
            };
            changes.iter().try_for_each(|(block, _)| write(*block))?;
            journal.sync()
        }
        Fill(_) => act.may_lead_to(truth).iter().zip(0..).skip(1).try_for_each(|(after, at)| {
            let number = (at - 1) % 8;
            let image = &after[number as usize];
            journal.transact(|tx| tx.write(BlockNumber(number), image))
        }),
        Settle => journal.sync(),
        Checkpoint => journal.checkpoint().map(drop),
        Read => {
            assert_eq!(contents(journal), truth[..]);
            Ok(())
        }
    }
}

/// Opens what is left of a journal, in which the blocks hold one of these.
fn assert_left(world: &World, logs: Logs, may_be: &[Truth], label: &str) {
    let journal = open(world, &Fuse::default(), logs);
    let found = contents(&journal);
    assert!(is_one_of(&found, may_be), "{label}");
    journal.checkpoint().expect("nothing fails");
    assert_eq!(contents(&journal), found, "{label}");
}

/// The call that comes first after a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Somebody who looks at all blocks.
    Looks,
    /// A thread that writes all of them, and waits for those that are locked.
    Writes,
}

/// Lets the call number `at` of what an act calls panic.
fn panic_at(logs: Logs, act: Act, next: Next, at: u32) -> End {
    let (world, fuse) = (formatted(logs), Fuse::default());
    let label = format!("{logs:?}, {act:?}, {next:?}, {at}");
    let journal = open(&world, &fuse, logs);
    let [durable, truth] = set_up(&journal);
    fuse.light(at);
    let done = catch_unwind(AssertUnwindSafe(|| perform(&journal, act, &truth)));
    let is_burnt = !fuse.put_out();
    assert_eq!(done.is_err(), is_burnt, "{label}");
    let may_be = act.may_lead_to(&truth);
    if let Ok(done) = done {
        done.expect("nothing fails");
        assert_eq!(contents(&journal), *may_be.last().expect("has one"), "{label}");
        return End::Done;
    }
    let all: Vec<_> = (0..BLOCKS).map(|block| (block, IMAGE)).collect();
    // Some of it may be met only now: who panics with a part of the index in hand poisons that.
    let met = match next {
        Next::Looks => {
            let mut block = [0; BLOCK];
            (0..BLOCKS).try_for_each(|number| journal.read(BlockNumber(number), &mut block))
        }
        Next::Writes => std::thread::scope(|scope| {
            let write = || commit(&journal, &all, Durable, &truth);
            scope.spawn(write).join().expect("does not panic")
        }),
    };
    let is_overwritten = next == Next::Writes && met.is_ok();
    let settled = met.and_then(|()| journal.sync());
    assert_eq!(settled.err(), journal.failure(), "{label}");
    if settled == Err(Error::Failed) {
        assert_refuses(&journal, &truth);
        assert_left(&left_of(&world), logs, &may_be, &label);
        assert_left(&worst_of(&world), logs, &[&[durable], &may_be[..]].concat(), &label);
        return End::Refused;
    }
    // Whatever it had taken is free again.
    let found: Truth = contents(&journal).try_into().expect("all of them");
    match (act, is_overwritten) {
        (_, true) => assert_eq!(found, changed(&truth, &all), "{label}"),
        (Fill(_), false) => assert!(is_one_of(&found, &may_be), "{label}"),
        _ => assert!(is_one_of(&found, &[truth]), "{label}"),
    }
    assert_left(&worst_of(&world), logs, &[found], &label);
    commit(&journal, &all, Durable, &found).expect("goes on");
    assert_left(&worst_of(&world), logs, &[changed(&found, &all)], &label);
    journal.checkpoint().expect("goes on");
    End::WentOn
}

/// Whatever it is asked for.
fn assert_refuses(journal: &Opened, truth: &Truth) {
    let failed = Err(Error::Failed);
    assert_eq!(journal.checkpoint().map(drop), failed);
    assert_eq!(journal.sync(), failed);
    assert_eq!(journal.read(BlockNumber(0), &mut [0; BLOCK]), failed);
    for durability in [Durable, Deferred] {
        assert_eq!(commit(journal, &[(0, IMAGE)], durability, truth), failed);
        assert_eq!(commit(journal, MANY, durability, truth), failed);
        assert_eq!(transact(journal, &[(5, IMAGE)], durability, truth), failed);
    }
    assert_eq!(journal.begin().map(drop), failed);
}

/// Runs a test, and says so when it never ends.
fn within(seconds: u64, test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    let waited = is_done.recv_timeout(Duration::from_secs(seconds));
    assert_ne!(waited, Err(mpsc::RecvTimeoutError::Timeout), "somebody waits for ever");
    thread.join().unwrap_or_else(|panic| resume_unwind(panic));
}

#[test]
fn a_panic_at_any_call_loses_nothing_and_keeps_nobody_waiting() {
    let nexts = [Next::Looks, Next::Writes];
    let all = ACTS.iter().flat_map(|act| [(Logs::AsSaid, *act), (Logs::Images, *act)]);
    for ((logs, act), next) in all.flat_map(|each| nexts.map(|next| (each, next))) {
        within(60, move || {
            let ends = (1..).map(|at| panic_at(logs, act, next, at));
            let ends = ends.take_while(|end| *end != End::Done);
            let calls = ends.filter(|end| *end == End::Refused || act == Read).count();
            assert!(calls > 0, "{logs:?}, {act:?}: {calls} calls");
        });
    }
}

/// A thread that builds a block for home looks twice at its part of the index: for what it is built
/// on, and for the changes. A reader that panics in between takes that part away, and nothing is
/// built.
#[test]
fn what_is_built_without_its_changes_goes_nowhere() {
    let (world, fuse) = (formatted(Logs::AsSaid), Fuse::default());
    let (shared, is_armed) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
    let call = {
        let (shared, is_armed, fuse) = (Arc::clone(&shared), Arc::clone(&is_armed), fuse.clone());
        move |first: BlockNumber| {
            if first.0 < BLOCKS || !is_armed.swap(false, Ordering::SeqCst) {
                return;
            }
            let journal: Arc<Opened> = shared.get().and_then(Weak::upgrade).expect("is open");
            fuse.light(1);
            let read = move || journal.read(BlockNumber(5), &mut [0; BLOCK]);
            std::thread::spawn(read).join().expect_err("panics");
        }
    };
    let device = fuse.device(world.disk(0)).calling(call);
    let options = any_options(fuse.policy(Logs::AsSaid), fuse.clone()).batch_blocks(1);
    let (pmem, disk) = (DynPmem::new(world.pmem()), DynDisk::new(device));
    let journal = Opened::open(pmem, disk, &options).expect("opens");
    let journal: Arc<Opened> = Arc::new(journal);
    shared.set(Arc::downgrade(&journal)).expect("is set once");
    let mut truth = [[0; BLOCK]; BLOCKS as usize];
    for changes in [[(3, LOG), (5, IMAGE)], [(3, ENCODED), (5, ENCODED)]] {
        with_operations(&truth, &changes, |all| journal.commit(all, Durable)).expect("commits");
        truth = changed(&truth, &changes);
    }
    is_armed.store(true, Ordering::SeqCst);
    assert_eq!(journal.checkpoint().map(drop), Err(Error::Failed));
    assert!(!is_armed.load(Ordering::SeqCst), "it is built on what lies in the log");
    let home = world.visible().disk(0).block(BlockNumber(3));
    assert!(home == [0; BLOCK], "something else went home");
    drop(journal);
    assert_left(&left_of(&world), Logs::AsSaid, &[truth], "what was interrupted");
}
