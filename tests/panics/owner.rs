//! The journal with one owner.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use journal_core::Buffers;
use journal_core::Durability::{Deferred, Durable};
use journal_core::parts::{Common, InLane};
use journal_core::policy::{Change, Span};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, CheckpointReport, CommitError, Durability, Journal, JournalError, On, Operation,
    PortableKernels, Scope,
};
use sim_disk::{SimPmem, World};

use crate::fuse::{BLOCK, Fuse, Fused, Logs, PATCH, Ways};
use crate::{
    APPENDED, BLOCKS, Changes, ENCODED, End, HOME, IMAGE, LOG, SLOT, Truth, changed, formatted,
    geometry, is_one_of, left_of, with_operations, worst_of,
};

type Opened<'m> = Journal<'m, Ways, On<SimPmem, Fused, Fuse>>;

/// What the journal does while something panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Commit(Changes, Durability),
    Stream,
    Sync,
    Checkpoint,
    Batch,
    LetHeadsPass,
    Rings,
    Evict,
    CleanLog,
    Fold,
    Garbage,
    Relog,
    MoveToLog,
    Read,
}

use Act::{
    Batch, Checkpoint, CleanLog, Commit, Evict, Fold, Garbage, LetHeadsPass, MoveToLog, Read,
    Relog, Rings, Stream, Sync,
};

const ACTS: [Act; 21] = [
    Commit(&[(0, IMAGE)], Durable),
    Commit(&[(1, ENCODED)], Durable),
    Commit(&[(0, IMAGE), (1, ENCODED), (2, SLOT), (3, LOG), (APPENDED, HOME)], Durable),
    Commit(&[(0, ENCODED), (4, IMAGE)], Deferred),
    Commit(&[(4, IMAGE), (5, IMAGE), (6, IMAGE)], Durable),
    Stream,
    Sync,
    Checkpoint,
    Batch,
    LetHeadsPass,
    Rings,
    Evict,
    CleanLog,
    Fold,
    Garbage,
    Relog,
    MoveToLog,
    Read,
    Commit(&[(2, SLOT)], Durable),
    Commit(&[(1, PATCH)], Durable),
    Commit(&[(0, PATCH), (1, PATCH), (7, PATCH)], Durable),
];

impl Act {
    /// Which blocks change, and how each is logged.
    const fn changes(self) -> Changes {
        match self {
            Commit(changes, _) => changes,
            Stream => &[(4, IMAGE), (5, IMAGE), (7, IMAGE)],
            _ => &[],
        }
    }

    /// Whether it only looks, or begins with what only looks.
    fn may_go_on(self) -> bool {
        matches!(self, Read | Stream | Commit(..))
    }
}

fn on<R>(world: &World, fuse: &Fuse, logs: Logs, calls: impl FnOnce(&mut Opened<'_>) -> R) -> R {
    let mut buffers = Buffers::new(&geometry(logs), 96, 2);
    let (pmem, disk) = (world.pmem(), fuse.device(world.disk(0)));
    let (policy, hook) = (fuse.policy(logs), fuse.clone());
    let journal = Journal::open(pmem, disk, policy, hook, PortableKernels, buffers.borrow());
    calls(&mut journal.expect("opens"))
}

/// Commits changes of some blocks, each logged in its way.
fn commit(
    journal: &mut Opened<'_>,
    lane: u16,
    changes: &[(u64, u8)],
    durability: Durability,
    truth: &Truth,
) -> Result<(), CommitError> {
    with_operations(truth, changes, |operations| {
        journal.commit(LaneNumber(lane), operations, durability).map(drop)
    })
}

/// A journal in which each call has something to do: what of it is durable, and what there is.
fn set_up(journal: &mut Opened<'_>) -> [Truth; 2] {
    let mut truth = [[0; BLOCK]; BLOCKS as usize];
    let mut write = |journal: &mut Opened<'_>, lane, changes: &[(u64, u8)], durability| {
        commit(journal, lane, changes, durability, &truth).expect("commits");
        truth = changed(&truth, changes);
    };
    write(journal, 0, &[(0, IMAGE), (1, IMAGE), (7, IMAGE)], Durable);
    write(journal, 1, &[(2, SLOT), (3, LOG), (8, LOG)], Durable);
    journal.checkpoint().expect("checkpoints");
    // What rests at the head of a lane, and what is written again and again behind it.
    write(journal, 0, &[(9, IMAGE)], Durable);
    for _ in 0..3 {
        write(journal, 0, &[(0, IMAGE)], Durable);
        write(journal, 1, &[(2, SLOT), (10, SLOT)], Durable);
        write(journal, 1, &[(3, LOG)], Durable);
    }
    write(journal, 0, &[(1, ENCODED), (8, LOG), (12, LOG), (13, LOG)], Durable);
    write(journal, 1, &[(1, ENCODED), (7, ENCODED)], Durable);
    write(journal, 1, &[(14, HOME)], Durable);
    let deferred = [(1, ENCODED), (4, IMAGE)];
    commit(journal, 1, &deferred, Deferred, &truth).expect("commits");
    [truth, changed(&truth, &deferred)]
}

fn perform(journal: &mut Opened<'_>, act: Act, truth: &Truth) -> Result<(), JournalError> {
    let lane = LaneNumber(0);
    match act {
        Commit(changes, durability) => {
            commit(journal, 0, changes, durability, truth).expect("there is room");
        }
        Stream => {
            let after = changed(truth, act.changes());
            let mut streamed = journal.begin(lane, 1024).expect("there is room");
            for (block, _) in act.changes() {
                let operations = [Operation::write(BlockNumber(*block), &after[*block as usize])];
                streamed.write(&operations).expect("was reserved");
            }
            streamed.commit().expect("commits");
        }
        Sync => journal.sync()?,
        Checkpoint => drop(journal.checkpoint()?),
        Batch => drop(journal.checkpoint_batch(Scope::All, &mut CheckpointReport::default())?),
        LetHeadsPass => journal.let_heads_pass(&mut CheckpointReport::default())?,
        Rings => drop(journal.checkpoint_rings()?),
        Evict => drop(journal.evict()?),
        CleanLog => drop(journal.clean_log()?),
        Fold => drop(journal.fold()?),
        Garbage => drop(journal.collect_garbage()?),
        Relog => drop(journal.relog(lane)?),
        MoveToLog => assert!(journal.move_to_log(lane)? > 0),
        Read => assert_eq!(contents(journal), truth[..]),
    }
    Ok(())
}

fn contents(journal: &mut Opened<'_>) -> Vec<[u8; BLOCK]> {
    let read = |number| {
        let mut block = [0; BLOCK];
        journal.read(BlockNumber(number), &mut block).expect("reads");
        block
    };
    (0..BLOCKS).map(read).collect()
}

/// Opens what is left of a journal, in which the blocks hold one of these.
fn assert_left(world: &World, logs: Logs, may_be: &[Truth], label: &str) {
    on(world, &Fuse::default(), logs, |journal| {
        let found = contents(journal);
        assert!(is_one_of(&found, may_be), "{label}");
        journal.checkpoint().expect("nothing fails");
        assert_eq!(contents(journal), found, "{label}");
    });
}

/// Lets the call number `at` of what an act calls panic.
fn panic_at(logs: Logs, act: Act, at: u32) -> End {
    let (world, fuse) = (formatted(logs), Fuse::default());
    let label = format!("{logs:?}, {act:?}, {at}");
    on(&world, &fuse, logs, |journal| {
        let [durable, truth] = set_up(journal);
        if act == LetHeadsPass {
            let mut report = CheckpointReport::default();
            while journal.checkpoint_batch(Scope::All, &mut report).expect("goes home") {}
        }
        fuse.light(at);
        let done = catch_unwind(AssertUnwindSafe(|| perform(journal, act, &truth)));
        let is_burnt = !fuse.put_out();
        assert_eq!(done.is_err(), is_burnt, "{label}");
        let after = changed(&truth, act.changes());
        if let Ok(done) = done {
            done.expect("nothing fails");
            assert_eq!(contents(journal), after[..], "{label}");
            return End::Done;
        }
        let settled = journal.sync();
        // The process is gone, what it has done is not; or that is gone too, but for what has to
        // be durable.
        if settled == Err(JournalError::Failed) {
            assert_refuses(journal, &truth);
            assert_left(&left_of(&world), logs, &[truth, after], &label);
            assert_left(&worst_of(&world), logs, &[durable, truth, after], &label);
            return End::Refused;
        }
        assert!(act.may_go_on(), "{label}");
        assert_eq!(contents(journal), truth[..], "{label}");
        assert_left(&worst_of(&world), logs, &[truth], &label);
        journal.audit().expect("nothing is lost of slots and of the log");
        let changes = [(1, ENCODED), (15, IMAGE)];
        commit(journal, 0, &changes, Durable, &truth).expect("goes on");
        assert_left(&worst_of(&world), logs, &[changed(&truth, &changes)], &label);
        journal.checkpoint().expect("goes on");
        End::WentOn
    })
}

/// Whatever it is asked for.
fn assert_refuses(journal: &mut Opened<'_>, truth: &Truth) {
    let (lane, failed) = (LaneNumber(0), JournalError::Failed);
    assert_eq!(journal.checkpoint(), Err(failed));
    assert_eq!(journal.fold(), Err(failed));
    assert_eq!(journal.relog(lane).map(drop), Err(failed));
    assert_eq!(journal.move_to_log(lane), Err(failed));
    assert_eq!(journal.read(BlockNumber(0), &mut [0; BLOCK]), Err(failed));
    commit(journal, 0, &[(0, IMAGE)], Durable, truth).expect_err("refuses");
    commit(journal, 1, &[(0, IMAGE), (1, IMAGE)], Deferred, truth).expect_err("refuses");
    assert!(journal.begin(lane, 256).is_err());
}

/// A block of which a part was changed in its slot is no longer what the check of the rest says.
#[test]
fn what_is_active_and_half_changed_is_not_taken_in() {
    let (old, mut new) = ([1; BLOCK], [1; BLOCK]);
    let ranges = [Span { at: 0, len: 8 }, Span { at: 32, len: 8 }];
    ranges.iter().for_each(|range| new[range.at as usize..][..range.len as usize].fill(2));
    let change = Change::Ranges { image: &new, ranges: &ranges };
    let (block, lane) = (BlockNumber(5), LaneNumber(0));
    let mut calls = 0;
    for at in 1..10 {
        let (world, fuse) = (formatted(Logs::AsSaid), Fuse::default());
        let is_acknowledged = on(&world, &fuse, Logs::AsSaid, |journal| {
            let activate = |lane: &mut InLane<'_, _, _>, common: &Common<_, _>| {
                lane.activate(common, &old).expect("there are slots")
            };
            let mut active = journal.with_active(lane, activate).expect("a lane");
            fuse.light(at);
            let done = catch_unwind(AssertUnwindSafe(|| {
                journal.with_active(lane, |lane, common| {
                    lane.update_active(common, &mut active, &change);
                })
            }));
            calls += usize::from(done.is_err());
            fuse.put_out();
            journal.commit(lane, &[Operation::Active(block, &active)], Durable).is_ok()
        });
        on(&worst_of(&world), &Fuse::default(), Logs::AsSaid, |journal| {
            let expected = if is_acknowledged { new } else { [0; BLOCK] };
            assert_eq!(contents(journal)[5], expected, "{at}");
        });
    }
    assert!(calls > 1, "{calls}");
}

#[test]
fn a_panic_at_any_call_loses_nothing_and_shows_nothing_half_done() {
    let all = ACTS.map(|act| (Logs::AsSaid, act));
    // What goes another way where the policy need not be asked.
    let commits = all.iter().filter(|(_, act)| !act.changes().is_empty());
    for (logs, act) in commits.map(|(_, act)| (Logs::Images, *act)).chain(all) {
        let ends = (1..).map(|at| panic_at(logs, act, at)).take_while(|end| *end != End::Done);
        let calls = ends.filter(|end| *end == End::Refused || act == Read).count();
        assert!(calls > 1, "{logs:?}, {act:?}: {calls} calls");
    }
}
