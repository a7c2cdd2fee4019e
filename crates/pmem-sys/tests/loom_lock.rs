//! Every interleaving of a few threads over [`pmem_sys::StoreLock`], as far as loom can tell them
//! apart: `RUSTFLAGS="--cfg loom" cargo test -p nvm-journal-pmem-sys --release --test loom_lock`.
//! Built otherwise, this file is empty.
//!
//! loom watches the cell inside the lock: an access that is not ordered after the one before, by
//! what the lock's own atomics order, fails.

#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use pmem_sys::StoreLock;
use pmem_sys::explored::models::{each_order_is_needed, explore};

/// Some preemptions are enough for every known kind of mistake, and keep the number finite. Only
/// one thread may wait at a time: loom would let two of them yield to each other forever.
const PREEMPTIONS: Option<usize> = Some(6);

/// Twice each, so that who waited competes with who has just given the lock back.
fn two_that_count() {
    let lock = Arc::new(StoreLock::new(0_u32));
    let other = Arc::clone(&lock);
    let twice = |lock: &StoreLock<u32>| {
        for _ in 0..2 {
            *lock.lock().expect("nobody panics") += 1;
        }
    };
    let thread = thread::spawn(move || twice(&other));
    twice(&lock);
    thread.join().expect("it does not panic");
    // Who joined is alone: the counts are back where they began.
    assert_eq!(lock.waiters(), 0);
    let guard = lock.try_lock().expect("nobody panics").expect("nobody is owed it");
    assert_eq!(*guard, 4);
}

#[test]
fn two_threads_exclude_each_other_and_publish() {
    println!("{} executions, preemptions: {PREEMPTIONS:?}", explore(PREEMPTIONS, two_that_count));
}

#[test]
fn three_threads_that_try_never_get_in_beside_a_holder() {
    let executions = explore(PREEMPTIONS, || {
        let lock = Arc::new(StoreLock::new(0_u32));
        let try_it = |lock: &StoreLock<u32>| match lock.try_lock().expect("nobody panics") {
            Some(mut value) => {
                *value += 1;
                1
            }
            None => 0,
        };
        let spawn = || {
            let lock = Arc::clone(&lock);
            thread::spawn(move || try_it(&lock))
        };
        let threads = [spawn(), spawn()];
        let mut got: u32 = try_it(&lock);
        for thread in threads {
            got += thread.join().expect("it does not panic");
        }
        assert!(got >= 1, "somebody was first");
        assert_eq!(*lock.lock().expect("nobody panics"), got);
    });
    println!("{executions} executions, preemptions: {PREEMPTIONS:?}");
}

#[test]
fn both_orders_of_the_lock_are_needed() {
    let orders = each_order_is_needed("store_lock.rs", Some(2), &[two_that_count]);
    assert_eq!(orders, 2, "who takes it acquires, who gives it back releases");
}
