//! Every schedule around [`Unreserved`]: threads that take room in one lane, use it, and free it.

use std::sync::Arc;

use loom::thread;

use super::*;
use crate::threads::explored::{explore, is_caught};

const CAPACITY: u64 = 5;

struct Lane {
    unreserved: Unreserved,
    used: AtomicU64,
}

type Takes = fn(&Unreserved, u64) -> bool;
type Frees = fn(&Lane, u64);

fn take(unreserved: &Unreserved, count: u64) -> bool {
    unreserved.take(count, 1).is_some()
}

fn free(lane: &Lane, count: u64) {
    lane.used.fetch_sub(count, Ordering::Relaxed);
    lane.unreserved.give(count);
}

impl Lane {
    /// Takes some, uses it, and frees it again.
    fn use_some(&self, count: u64, takes: Takes, frees: Frees) {
        if takes(&self.unreserved, count) {
            let used = self.used.fetch_add(count, Ordering::Relaxed) + count;
            assert!(used < CAPACITY, "one piece is kept, and was given out");
            frees(self, count);
        }
    }
}

fn uses(counts: &'static [u64], takes: Takes, frees: Frees) {
    let lane = Lane { unreserved: Unreserved::new(CAPACITY), used: AtomicU64::new(0) };
    let lane = Arc::new(lane);
    let others = counts[1..].iter().map(|count| {
        let lane = Arc::clone(&lane);
        thread::spawn(move || lane.use_some(*count, takes, frees))
    });
    let others: Vec<_> = others.collect();
    lane.use_some(counts[0], takes, frees);
    others.into_iter().for_each(|thread| thread.join().expect("does not panic"));
    assert_eq!(lane.unreserved.left(), CAPACITY, "nothing is lost and nothing is made");
}

#[test]
fn no_more_is_promised_than_there_is() {
    explore(None, || uses(&[3, 2], take, free));
    explore(Some(3), || uses(&[2, 2, 1], take, free));
}

#[test]
fn steps_in_another_order_are_caught() {
    let not_at_once: Takes = |unreserved, count| {
        let left = unreserved.left();
        let is_there = left > count;
        if is_there {
            unreserved.0.store(left - count, Ordering::Relaxed);
        }
        is_there
    };
    assert!(is_caught(None, move || uses(&[3, 2], not_at_once, free)));
    let counted_before_it_is_free: Frees = |lane, count| {
        lane.unreserved.give(count);
        lane.used.fetch_sub(count, Ordering::Relaxed);
    };
    assert!(is_caught(None, move || uses(&[3, 2], take, counted_before_it_is_free)));
}
