//! Every schedule around [`Turn`]: threads that commit in one lane, as `Shared::finish` does, and
//! leave it to each other to fence.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use journal_core::units::Sequence;
use loom::thread;

use super::*;
use crate::threads::durable_to::Reach;
use crate::threads::explored::{Word, explore, is_caught};
use crate::threads::sync::thread::Patience;

struct Lane {
    turn: Turn<State>,
    reach: Reach,
    /// Records below are in the medium for good.
    fenced_to: Word,
}

struct State {
    next: u64,
    group: Group,
}

impl Lane {
    fn new() -> Arc<Self> {
        let turn = Turn::new(State { next: 1, group: Group::default() }, None);
        let lane = Self { turn, reach: Reach::new(Sequence(1)), fenced_to: Word::new() };
        Arc::new(lane)
    }

    fn fence(&self, state: &mut State) {
        self.fenced_to.write(state.next);
        state.group.end();
        self.reach.publish(Sequence(state.next), false);
    }

    /// Stores a record, and makes sure that it becomes durable.
    fn store(&self, mut state: StoreLockGuard<'_, State>) -> Result<(), Poisoned> {
        let waits = self.turn.is_busy() && state.group.has_room();
        let sequence = Sequence(state.next);
        state.next += 1;
        if waits {
            state.group.leave();
            drop(state);
            self.wait(sequence)?;
        } else {
            self.fence(&mut state);
            drop(state);
        }
        assert!(self.fenced_to.read() > sequence.raw(), "returned before it was durable");
        Ok(())
    }

    fn wait(&self, sequence: Sequence) -> Result<(), Poisoned> {
        let mut patience = Patience::default();
        while !self.reach.is_durable(sequence) {
            if patience.is_long() && self.turn.is_poisoned() {
                return Err(Poisoned);
            }
            patience.pause();
        }
        Ok(())
    }
}

/// What a thread does with a lane.
type Call = fn(&Lane);

fn commit(lane: &Lane) {
    let state = lane.turn.take_to_commit().expect("nobody panics");
    lane.store(state).expect("nobody panics");
}

/// Takes the lane to commit, finds no room there, and lets it go.
fn give_up(lane: &Lane) {
    let mut state = lane.turn.take_to_commit().expect("nobody panics");
    if state.group.is_awaited() {
        lane.fence(&mut state);
    }
}

fn panic_inside(lane: &Lane) {
    let panics = || {
        let _state = lane.turn.take_to_commit();
        resume_unwind(Box::new("on purpose"));
    };
    let panicked: Result<(), _> = catch_unwind(AssertUnwindSafe(panics));
    assert!(panicked.is_err());
}

fn commit_if_nobody_panicked(lane: &Lane) {
    if let Ok(state) = lane.turn.take_to_commit() {
        // Where the group's last has panicked, that is the answer.
        let _ = lane.store(state);
    }
}

/// Lets each thread do these, one after the other; the first ones by the thread that looks on.
fn runs(threads: &[&[Call]]) {
    let lane = Lane::new();
    let running = threads[1..].iter().map(|calls| {
        let (lane, calls) = (Arc::clone(&lane), calls.to_vec());
        thread::spawn(move || calls.iter().for_each(|call| call(&lane)))
    });
    let running: Vec<_> = running.collect();
    threads[0].iter().for_each(|call| call(&lane));
    running.into_iter().for_each(|thread| thread.join().expect("does not panic"));
    assert!(!lane.turn.is_busy(), "somebody still waits");
}

#[test]
fn two_threads_that_commit_twice_are_durable_when_they_return() {
    explore(Some(3), || runs(&[&[commit, commit], &[commit, commit]]));
}

#[test]
fn three_threads_that_commit_are_durable_when_they_return() {
    // Two of them may wait at once, and yield to each other again and again.
    explore(Some(1), || runs(&[&[commit], &[commit], &[commit]]));
}

#[test]
fn who_gives_up_fences_what_it_was_left() {
    explore(Some(3), || runs(&[&[commit, commit], &[give_up, give_up]]));
    explore(Some(1), || runs(&[&[commit], &[commit], &[give_up]]));
}

#[test]
fn who_waits_is_told_of_a_panic() {
    explore(None, || runs(&[&[commit_if_nobody_panicked], &[panic_inside]]));
}

#[test]
fn steps_in_another_order_are_caught() {
    let count_back_late: Call = |lane| {
        lane.turn.committers.fetch_add(1, Ordering::Relaxed);
        let state = lane.turn.take().expect("nobody panics");
        let stored = lane.store(state);
        lane.turn.committers.fetch_sub(1, Ordering::Relaxed);
        stored.expect("nobody panics");
    };
    assert!(is_caught(Some(3), move || runs(&[&[commit, commit], &[count_back_late]])));
    let give_up_silently: Call = |lane| drop(lane.turn.take_to_commit());
    assert!(is_caught(Some(3), move || runs(&[&[commit], &[give_up_silently]])));
    let publish_before_the_fence: Call = |lane| {
        let mut state = lane.turn.take_to_commit().expect("nobody panics");
        state.next += 1;
        lane.reach.publish(Sequence(state.next), false);
        lane.fence(&mut state);
    };
    assert!(is_caught(Some(3), move || runs(&[&[commit], &[publish_before_the_fence]])));
    let return_at_once: Call = |lane| {
        let mut state = lane.turn.take_to_commit().expect("nobody panics");
        let sequence = state.next;
        state.next += 1;
        if lane.turn.is_busy() {
            state.group.leave();
        } else {
            lane.fence(&mut state);
        }
        drop(state);
        assert!(lane.fenced_to.read() > sequence, "returned before it was durable");
    };
    assert!(is_caught(Some(3), move || runs(&[&[return_at_once], &[commit]])));
}
