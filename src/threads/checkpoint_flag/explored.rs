//! Every schedule around [`UnderWay`]: a thread that makes a record durable, one that forgets what
//! the record covers, and checkpoints.

use std::sync::Arc;

use journal_core::units::Sequence;
use loom::thread;
use pmem_sys::StoreLock;

use super::*;
use crate::threads::durable_to::Reach;
use crate::threads::explored::{Word, explore, is_caught, let_others_run};
use crate::threads::lane_turn::Turn;

const FIRST: Sequence = Sequence(1);
const NEXT: Sequence = Sequence(2);

/// A lane with one record to come, and a frame in a share of the index which that covers.
struct Journal {
    writes_home: UnderWay,
    /// The sequence that comes next.
    lane: Turn<Sequence>,
    reach: Reach,
    /// Like `reach`, except that nothing is ordered by it.
    hint: Word,
    /// Whether the frame is there.
    share: StoreLock<bool>,
}

impl Journal {
    /// Makes the record durable, which is to be said with the lane in hand.
    fn store(&self) {
        *self.lane.take_to_commit().expect("nobody panics") = NEXT;
    }

    /// How far the lane is for a checkpoint.
    fn durable_bound(&self) -> Sequence {
        *self.lane.take().expect("nobody panics")
    }

    /// Forgets the frame, if that may be.
    fn forget_if(&self, may_be: impl FnOnce() -> bool) {
        let mut share = self.share.lock().expect("nobody panics");
        if may_be() {
            *share = false;
        }
    }

    /// Builds blocks from what lies below a bound.
    fn build(&self, bound: Sequence) {
        let is_there = *self.share.lock().expect("nobody panics");
        assert!(is_there || FIRST < bound, "neither the frame nor what covers it counts");
    }
}

/// What a thread does.
type Does = fn(&Journal);

fn commit(journal: &Journal) {
    let mut next = journal.lane.take_to_commit().expect("nobody panics");
    *next = NEXT;
    journal.reach.publish(NEXT, false);
}

fn forget(journal: &Journal) {
    journal.forget_if(|| journal.writes_home.all_find(|| journal.reach.is_durable(FIRST)));
}

fn checkpoint(journal: &Journal) {
    journal.writes_home.begin();
    journal.build(journal.durable_bound());
    journal.writes_home.end();
}

fn checkpoint_twice(journal: &Journal) {
    checkpoint(journal);
    checkpoint(journal);
}

fn meets(commits: Does, forgets: Does, checkpoints: Does) {
    let journal = Arc::new(Journal {
        writes_home: UnderWay::new(),
        lane: Turn::new(FIRST, None),
        reach: Reach::new(FIRST),
        hint: Word::new(),
        share: StoreLock::new(true),
    });
    let others = [commits, checkpoints].map(|does| {
        let journal = Arc::clone(&journal);
        thread::spawn(move || does(&journal))
    });
    let_others_run();
    forgets(&journal);
    others.into_iter().for_each(|thread| thread.join().expect("does not panic"));
    // A thread that comes later finds that no checkpoint is under way.
    forget(&journal);
    let is_there = *journal.share.lock().expect("nobody panics");
    assert!(!is_there || !journal.reach.is_durable(FIRST), "it is never forgotten");
}

#[test]
fn a_checkpoint_finds_what_it_goes_by() {
    explore(Some(3), || meets(commit, forget, checkpoint));
    explore(Some(2), || meets(commit, forget, checkpoint_twice));
}

#[test]
fn steps_in_another_order_are_caught() {
    let looks_first: Does = |journal| {
        let bound = journal.durable_bound();
        journal.writes_home.begin();
        journal.build(bound);
        journal.writes_home.end();
    };
    assert!(is_caught(Some(3), move || meets(commit, forget, looks_first)));
    let ends_too_soon: Does = |journal| {
        journal.writes_home.begin();
        let bound = journal.durable_bound();
        journal.writes_home.end();
        journal.build(bound);
    };
    assert!(is_caught(Some(3), move || meets(commit, forget, ends_too_soon)));
    let never_ends: Does = |journal| {
        journal.writes_home.begin();
        journal.build(journal.durable_bound());
    };
    assert!(is_caught(Some(3), move || meets(commit, forget, never_ends)));
}

#[test]
fn who_forgets_asks_both_and_in_this_order() {
    let asks_for_no_checkpoint: Does =
        |journal| journal.forget_if(|| journal.reach.is_durable(FIRST));
    assert!(is_caught(Some(3), move || meets(commit, asks_for_no_checkpoint, checkpoint)));
    let asks_for_a_checkpoint_alone: Does =
        |journal| journal.forget_if(|| journal.writes_home.all_find(|| true));
    assert!(is_caught(Some(3), move || meets(commit, asks_for_a_checkpoint_alone, checkpoint)));
    let asks_for_a_checkpoint_first: Does = |journal| {
        let is_over = journal.writes_home.all_find(|| true);
        journal.forget_if(|| is_over && journal.reach.is_durable(FIRST));
    };
    assert!(is_caught(Some(3), move || meets(commit, asks_for_a_checkpoint_first, checkpoint)));
}

#[test]
fn what_says_that_it_is_durable_orders() {
    let hints: Does = |journal| {
        journal.store();
        journal.hint.write(NEXT.raw());
        journal.reach.publish(NEXT, false);
    };
    let takes_the_hint: Does = |journal| {
        let is_durable = || FIRST.raw() < journal.hint.read();
        journal.forget_if(|| journal.writes_home.all_find(is_durable));
    };
    assert!(is_caught(Some(3), move || meets(hints, takes_the_hint, checkpoint)));
    let has_no_lane: Does = |journal| {
        journal.reach.publish(NEXT, false);
        journal.store();
    };
    assert!(is_caught(Some(3), move || meets(has_no_lane, forget, checkpoint)));
}
