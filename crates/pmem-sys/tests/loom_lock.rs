//! Every interleaving of a few threads over [`pmem_sys::StoreLock`], as far as loom can tell them
//! apart: `RUSTFLAGS="--cfg loom" cargo test -p nvm-journal-pmem-sys --release --test loom_lock`.
//! Built otherwise, this file is empty.
//!
//! loom watches the cell inside the lock: an access that is not ordered after the one before, by
//! what the lock's own atomics order, fails.

#![cfg(loom)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use loom::sync::Arc;
use loom::thread;
use pmem_sys::explored::models::{Model, each_order_is_needed, explore, let_others_run};
use pmem_sys::{FarFence, StoreLock};

/// Some preemptions are enough for every known kind of mistake, and keep the number finite. Only
/// one thread may wait at a time: loom would let two of them yield to each other forever.
const PREEMPTIONS: Option<usize> = Some(6);

/// Twice each, so that a thread that waited competes with one that has just given the lock back.
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
    // The thread that joined is alone: the counts are back where they began.
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

/// A lock that favours this thread, which has taken it as often as that takes: twice in a row.
fn favouring() -> Arc<StoreLock<u32>> {
    let lock = Arc::new(StoreLock::favouring(0, FarFence::register()));
    (0..2).for_each(|_| drop(lock.lock().expect("nobody panics")));
    lock
}

/// The favoured thread takes the lock `OWN` times beside another one. That may have to withdraw the
/// favour, and the favoured one may get it again.
fn favoured_beside_another<const OWN: u32, const OTHERS: u32>() {
    let lock = favouring();
    let other = Arc::clone(&lock);
    let thread = thread::spawn(move || {
        for _ in 0..OTHERS {
            *other.lock().expect("nobody panics") += 1;
        }
    });
    for _ in 0..OWN {
        *lock.lock().expect("nobody panics") += 1;
    }
    thread.join().expect("it does not panic");
    assert_eq!(lock.waiters(), 0);
    let guard = lock.try_lock().expect("nobody panics").expect("nobody is owed it");
    assert_eq!(*guard, OWN + OTHERS);
}

/// Tries to take the lock `times` times. Returns how often the lock was free.
fn try_it(lock: &StoreLock<u32>, times: u32) -> u32 {
    let taken = (0..times).filter_map(|_| lock.try_lock().expect("nobody panics"));
    taken.map(|mut value| *value += 1).count() as u32
}

/// The favoured thread and two others try to take the lock, each the given number of times.
fn favoured_beside_two_that_try<const OWN: u32, const SECOND: u32, const THIRD: u32>() {
    three_that_try(favouring(), [OWN, SECOND, THIRD]);
}

/// The others have begun when the first one is favoured, in the middle of it.
fn favoured_too_late() {
    let lock = Arc::new(StoreLock::favouring(0, FarFence::register()));
    three_that_try(lock, [3, 1, 1]);
}

/// One has had the lock, as the last one before another is favoured.
fn favoured_behind_another() {
    let lock = Arc::new(StoreLock::favouring(0, FarFence::register()));
    let got = try_it(&lock, 1);
    let other = Arc::clone(&lock);
    let thread = thread::spawn(move || try_it(&other, 3));
    let_others_run();
    let got = got + try_it(&lock, 1) + thread.join().expect("it does not panic");
    assert_eq!(*lock.lock().expect("nobody panics"), got);
}

/// The favour was withdrawn while it was made use of, which two others find out, and the one that
/// is favoured again.
fn favoured_again() {
    let lock = favouring();
    let guard = lock.try_lock().expect("nobody panics").expect("it is free");
    let other = Arc::clone(&lock);
    assert_eq!(thread::spawn(move || try_it(&other, 1)).join().expect("does not panic"), 0);
    drop(guard);
    three_that_try(lock, [2, 1, 1]);
}

fn three_that_try(lock: Arc<StoreLock<u32>>, times: [u32; 3]) {
    let [own, others @ ..] = times;
    let others = others.into_iter().filter(|times| *times > 0);
    let begin = |times| {
        let lock = Arc::clone(&lock);
        thread::spawn(move || try_it(&lock, times))
    };
    let threads: Vec<_> = others.map(begin).collect();
    let mut got = try_it(&lock, own);
    for thread in threads {
        got += thread.join().expect("it does not panic");
    }
    assert_eq!(*lock.lock().expect("nobody panics"), got);
}

#[test]
fn who_is_favoured_excludes_another_and_is_excluded() {
    let models = [favoured_beside_another::<2, 1>, favoured_beside_another::<1, 2>];
    let preemptions = Some(3);
    for model in models {
        println!("{} executions, preemptions: {preemptions:?}", explore(preemptions, model));
    }
}

#[test]
fn who_is_favoured_excludes_two_that_try() {
    let models: [(Model, usize); 5] = [
        (favoured_behind_another, 3),
        (favoured_beside_two_that_try::<1, 1, 1>, 2),
        // Beside one that has seen the withdrawal before.
        (favoured_again, 2),
        // One that might be favoured, beside the late store of the one that was.
        (favoured_beside_two_that_try::<1, 3, 1>, 2),
        (favoured_too_late, 2),
    ];
    for (model, preemptions) in models {
        let executions = explore(Some(preemptions), model);
        println!("{executions} executions, preemptions: {preemptions}");
    }
}

/// The favoured thread panics while it has the lock, and another one waits for it: nobody has it
/// again.
fn favoured_that_panics() {
    let lock = favouring();
    let other = Arc::clone(&lock);
    let thread = thread::spawn(move || other.lock().map(|mut value| *value += 1).is_ok());
    let panics = || {
        let _guard = lock.lock().expect("nobody panicked before");
        resume_unwind(Box::new(()));
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    let _was_first = thread.join().expect("it does not panic");
    assert!(lock.is_poisoned() && lock.lock().is_err());
}

/// The thread that has the lock, by favour or by the exchange behind which it is favoured, tries
/// again.
fn favoured_that_tries_again<const BEFORE: u32>() {
    let lock = Arc::new(StoreLock::favouring(0, FarFence::register()));
    (0..BEFORE).for_each(|_| drop(lock.lock().expect("nobody panics")));
    let other = Arc::clone(&lock);
    let thread = thread::spawn(move || try_it(&other, 1));
    let mut got = 0;
    if let Some(mut value) = lock.try_lock().expect("nobody panics") {
        *value += 1;
        got += 1;
        (0..2).for_each(|_| assert!(lock.try_lock().expect("nobody panics").is_none()));
    }
    got += thread.join().expect("it does not panic");
    assert_eq!(*lock.lock().expect("nobody panics"), got);
}

#[test]
fn a_panic_of_who_is_favoured_is_told_and_nobody_has_the_lock_twice() {
    let models: [Model; 3] =
        [favoured_that_panics, favoured_that_tries_again::<1>, favoured_that_tries_again::<2>];
    for model in models {
        println!("{} executions, preemptions: 2", explore(Some(2), model));
    }
}

#[test]
fn every_order_of_favour_is_needed() {
    let models = [
        favoured_beside_another::<2, 1>,
        favoured_behind_another,
        favoured_too_late,
        favoured_again,
    ];
    let orders = each_order_is_needed("favour.rs", Some(2), &models);
    println!("{orders} orders");
}
