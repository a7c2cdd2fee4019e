//! Every schedule around [`Reach`]: a holder of the lane that says how far it is, and readers.

use std::sync::Arc;

use loom::thread;
use pmem_sys::StoreLock;

use super::*;
use crate::threads::explored::{Word, each_order_is_needed, explore, is_caught};

const FIRST: Sequence = Sequence(1);
const NEXT: Sequence = Sequence(2);

/// A lane with one record to come.
struct Lane {
    reach: Reach,
    content: Word,
    /// Whether the record is durable, and what the version before it lies in.
    is_fenced: Word,
    older: Word,
}

impl Lane {
    fn new() -> Arc<Self> {
        let reach = Reach::new(FIRST);
        let (content, is_fenced, older) = (Word::new(), Word::new(), Word::new());
        Arc::new(Self { reach, content, is_fenced, older })
    }

    fn holder(self: &Arc<Self>, does: fn(&Self)) -> thread::JoinHandle<()> {
        let lane = Arc::clone(self);
        thread::spawn(move || does(&lane))
    }

    fn store(&self) {
        self.content.write(7);
    }

    fn fence(&self) {
        self.is_fenced.write(1);
    }

    /// Checks DR1 and DR2, for any thread that looks.
    fn check(&self) {
        if self.reach.is_durable(FIRST) {
            assert_eq!(self.is_fenced.read(), 1, "said to be durable, and is not");
            assert!(self.reach.is_readable(FIRST), "durable and not readable");
        }
        if self.reach.is_readable(FIRST) {
            assert_eq!(self.content.read(), 7, "said to be there, and is not");
        }
    }

    /// Checks DR3, for a thread that builds on what it reads.
    fn check_deferred(&self) {
        self.check();
        if self.reach.is_readable(FIRST) && !self.reach.has_deferred() {
            assert!(self.reach.is_durable(FIRST), "nobody would make it durable");
        }
    }
}

fn commit(lane: &Lane) {
    lane.store();
    lane.fence();
    lane.reach.publish(NEXT, false);
}

fn commits(does: fn(&Lane)) {
    let lane = Lane::new();
    let holder = lane.holder(does);
    lane.check();
    holder.join().expect("does not panic");
    assert!(lane.reach.is_durable(FIRST));
}

fn defer_and_fence(lane: &Lane) {
    lane.store();
    lane.reach.publish_deferred(NEXT);
    lane.fence();
    lane.reach.publish(NEXT, false);
}

fn defers(does: fn(&Lane)) {
    let lane = Lane::new();
    let holder = lane.holder(does);
    lane.check_deferred();
    holder.join().expect("does not panic");
    assert!(lane.reach.is_durable(FIRST) && !lane.reach.has_deferred());
}

/// One thread commits. Another writes the slot of the older version again once the newer one is
/// durable, and with the share in hand, as the journal has it. A third one reads.
fn writes_the_older_slot(does: fn(&Lane)) {
    let lane = Lane::new();
    let share = Arc::new(StoreLock::new(()));
    let holder = lane.holder(does);
    let (its, its_share) = (Arc::clone(&lane), Arc::clone(&share));
    let writer = thread::spawn(move || {
        let held = its_share.lock().expect("nobody panics");
        let is_stale = its.reach.is_durable(FIRST);
        drop(held);
        if is_stale {
            its.older.write(9);
        }
    });
    let held = share.lock().expect("nobody panics");
    if !lane.reach.is_readable(FIRST) {
        assert_eq!(lane.older.read(), 0, "copied from a slot that is being written");
    }
    drop(held);
    holder.join().expect("does not panic");
    writer.join().expect("does not panic");
}

#[test]
fn what_may_be_read_is_there_and_what_is_durable_was_fenced() {
    explore(None, || commits(commit));
}

#[test]
fn who_reads_what_was_deferred_knows_that_something_was() {
    explore(None, || defers(defer_and_fence));
}

#[test]
fn nobody_copies_from_a_slot_that_is_written_again() {
    explore(Some(3), || writes_the_older_slot(commit));
}

#[test]
fn steps_in_another_order_are_caught() {
    let before_the_fence = |lane: &Lane| {
        lane.store();
        lane.reach.publish(NEXT, false);
        lane.fence();
    };
    assert!(is_caught(None, move || commits(before_the_fence)));
    let before_the_content = |lane: &Lane| {
        lane.reach.publish_deferred(NEXT);
        lane.store();
        lane.fence();
        lane.reach.publish(NEXT, false);
    };
    assert!(is_caught(None, move || defers(before_the_content)));
    let durable_first = |lane: &Lane| {
        lane.store();
        lane.fence();
        lane.reach.say_durable(NEXT);
        lane.reach.let_read(NEXT);
    };
    assert!(is_caught(None, move || commits(durable_first)));
    assert!(is_caught(Some(3), move || writes_the_older_slot(durable_first)));
    let readable_before_it_is_said_to_be_deferred = |lane: &Lane| {
        lane.store();
        lane.reach.let_read(NEXT);
        lane.reach.say_deferred(true);
        lane.fence();
        lane.reach.publish(NEXT, false);
    };
    assert!(is_caught(None, move || defers(readable_before_it_is_said_to_be_deferred)));
    let nothing_deferred_before_it_is_durable = |lane: &Lane| {
        lane.store();
        lane.reach.publish_deferred(NEXT);
        lane.fence();
        lane.reach.say_deferred(false);
        lane.reach.publish(NEXT, false);
    };
    assert!(is_caught(None, move || defers(nothing_deferred_before_it_is_durable)));
}

#[test]
fn every_order_is_needed() {
    each_order_is_needed("durable_to.rs", None, &[|| commits(commit), || defers(defer_and_fence)]);
}
