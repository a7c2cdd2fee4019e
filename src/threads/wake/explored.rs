//! Every schedule around [`Bell`]: threads that take room and ask for more, and the one that is to
//! make it.

use std::sync::Arc;

use loom::thread;

use super::*;
use crate::threads::explored::{each_order_is_needed, explore, is_caught};
use crate::threads::free_space::Unreserved;
use crate::threads::sync::thread::park_timeout;

struct Room {
    bell: Bell,
    left: Unreserved,
}

type Asks = fn(&Bell);
type WasAsked = fn(&Room) -> Option<u64>;

/// What is left, if the thread was asked to look.
fn look(room: &Room) -> Option<u64> {
    room.bell.was_asked().then(|| room.left.left())
}

/// Each of some threads takes a piece and asks; the worker's work is done when it was asked and has
/// found nothing left.
fn asks(askers: u64, ask: Asks, look: WasAsked) {
    let room = Arc::new(Room { bell: Bell::new(false), left: Unreserved::new(askers) });
    let its = Arc::clone(&room);
    let worker = thread::spawn(move || {
        loop {
            match look(&its) {
                Some(0) => break,
                Some(_) => {}
                None => park_timeout(core::time::Duration::ZERO),
            }
        }
    });
    room.bell.belongs_to(worker.thread());
    let take = move |room: &Room| {
        room.left.take(1, 0).expect("one for each");
        ask(&room.bell);
    };
    let others = (1..askers).map(|_| {
        let room = Arc::clone(&room);
        thread::spawn(move || take(&room))
    });
    let others: Vec<_> = others.collect();
    take(&room);
    others.into_iter().for_each(|thread| thread.join().expect("does not panic"));
    worker.join().expect("does not panic");
}

#[test]
fn who_asks_is_heard() {
    explore(None, || asks(1, Bell::ask, look));
    explore(None, || asks(2, Bell::ask, look));
    explore(Some(2), || asks(3, Bell::ask, look));
}

#[test]
fn steps_in_another_order_are_caught() {
    let wakes_first: Asks = |bell| {
        bell.wake();
        bell.asked.swap(true, Ordering::Release);
    };
    assert!(is_caught(None, move || asks(1, wakes_first, look)));
    let forgets_what_comes_meanwhile: WasAsked = |room| {
        let asked = room.bell.asked.load(Ordering::Acquire);
        let left = room.left.left();
        room.bell.asked.store(false, Ordering::Release);
        asked.then_some(left)
    };
    assert!(is_caught(None, move || asks(2, Bell::ask, forgets_what_comes_meanwhile)));
    let looks_before_it_hears: WasAsked = |room| {
        let left = room.left.left();
        room.bell.was_asked().then_some(left)
    };
    assert!(is_caught(None, move || asks(1, Bell::ask, looks_before_it_hears)));
    let wakes_nobody: Asks = |bell| {
        bell.asked.swap(true, Ordering::Release);
    };
    assert!(is_caught(None, move || asks(1, wakes_nobody, look)));
}

#[test]
fn every_order_is_needed() {
    each_order_is_needed("wake.rs", None, &[|| asks(2, Bell::ask, look)]);
}
