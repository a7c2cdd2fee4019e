use core::panic::AssertUnwindSafe;
use core::sync::atomic::AtomicBool;
use std::panic::{catch_unwind, resume_unwind};
use std::thread;

use super::*;

/// Panics without a message on the test's output.
fn panic_quietly() -> ! {
    resume_unwind(Box::new(()))
}

#[test]
fn holders_exclude_each_other_and_see_what_the_last_one_did() {
    let turns = if cfg!(miri) { 20 } else { 20_000 };
    // Two values that agree whenever nobody holds the lock.
    let lock = StoreLock::new((0_u64, 0_u64));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..turns {
                    let mut pair = lock.lock().expect("nobody panics");
                    assert_eq!(pair.0, pair.1);
                    pair.0 += 1;
                    core::hint::spin_loop();
                    pair.1 += 1;
                }
            });
        }
    });
    assert_eq!(lock.waiters(), 0);
    assert_eq!(lock.overdue.load(Ordering::Relaxed), 0);
    assert_eq!(lock.into_inner(), (3 * turns, 3 * turns));
}

#[test]
fn a_held_lock_is_not_had_twice() {
    let mut lock = StoreLock::new(1);
    let mut guard = lock.try_lock().expect("nobody panicked").expect("it is free");
    *guard += 1;
    assert!(lock.try_lock().expect("nobody panicked").is_none());
    drop(guard);
    *lock.inner_mut() += 1;
    assert_eq!(*lock.lock().expect("nobody panicked"), 3);
}

#[test]
fn those_who_wait_are_counted_and_the_holder_is_not() {
    let lock = StoreLock::new(());
    let guard = lock.lock().expect("nobody panics");
    assert_eq!(lock.waiters(), 0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| drop(lock.lock().expect("nobody panics")));
        }
        while lock.waiters() < 2 {
            thread::yield_now();
        }
        drop(guard);
    });
    assert_eq!(lock.waiters(), 0);
}

#[test]
fn a_panic_inside_is_told_to_everybody() {
    let lock = StoreLock::new(7);
    let panicked = catch_unwind(|| {
        let mut guard = lock.lock().expect("nobody panicked before");
        *guard = 8;
        panic_quietly();
    });
    assert!(panicked.is_err());
    assert!(lock.is_poisoned());
    assert_eq!(lock.lock().map(drop), Err(Poisoned));
    assert_eq!(lock.try_lock().map(drop), Err(Poisoned));
    assert_eq!(lock.into_inner(), 8);
}

/// The panic comes while others wait, and while one of them is owed the lock.
#[test]
fn a_panic_inside_does_not_leave_others_waiting() {
    let lock = StoreLock::new(());
    let guard = lock.lock().expect("nobody panicked before");
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..2).map(|_| scope.spawn(|| lock.lock().map(drop))).collect();
        while lock.overdue.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        assert!(lock.try_lock().expect("nobody panicked").is_none());
        let held = AssertUnwindSafe(guard);
        let panicked = catch_unwind(|| {
            let _held = held;
            panic_quietly();
        });
        assert!(panicked.is_err());
        for waiter in waiters {
            assert_eq!(waiter.join().expect("it does not panic"), Err(Poisoned));
        }
    });
    assert_eq!(lock.lock().map(drop), Err(Poisoned));
}

/// Locking in a destructor that runs because of a panic elsewhere is nobody's fault.
#[test]
fn a_panic_outside_does_not_poison() {
    struct LocksLast<'a>(&'a StoreLock<u8>, &'a AtomicBool);
    impl Drop for LocksLast<'_> {
        fn drop(&mut self) {
            *self.0.lock().expect("nobody panicked inside") += 1;
            self.1.store(thread::panicking(), Ordering::Relaxed);
        }
    }
    let (lock, unwound) = (StoreLock::new(0), AtomicBool::new(false));
    let panicked = catch_unwind(|| {
        let _last = LocksLast(&lock, &unwound);
        panic_quietly();
    });
    assert!(panicked.is_err() && unwound.into_inner());
    assert_eq!(*lock.lock().expect("nobody panicked inside"), 1);
}

/// While somebody is owed the lock, newcomers stand back although it is free; who waits long enough
/// is owed it too.
#[test]
fn newcomers_stand_back_for_the_overdue() {
    let lock = StoreLock::new(());
    let owed = Counted::new(&lock.overdue);
    assert!(lock.try_lock().expect("nobody panicked").is_none());
    drop(lock.lock().expect("nobody panicked"));
    drop(owed);
    assert!(lock.try_lock().expect("nobody panicked").is_some());
}

#[test]
fn naps_are_bounded_and_end_in_being_overdue() {
    let naps: Vec<_> = (0..OVERDUE_AFTER_NAPS + 2)
        .map(|nap| Patience { looks: Patience::AWAKE + nap })
        .map(|patience| (patience.nap(), patience.is_over()))
        .collect();
    let (patient, over) = naps.split_at(OVERDUE_AFTER_NAPS as usize);
    assert!(patient.is_sorted() && patient.iter().all(|(_, over)| !over));
    assert_eq!(patient.first().map(|nap| nap.0), Some(NAP_MIN));
    assert_eq!(patient.last().map(|nap| nap.0), Some(WAKE_DELAY_MAX));
    assert_eq!(over, [(NAP_MIN, true); 2]);
    assert_eq!(Patience { looks: u32::MAX }.nap(), NAP_MIN);
}

#[test]
fn a_lock_shows_its_state_without_waiting() {
    let lock = StoreLock::new(5);
    let guard = lock.lock().expect("nobody panicked");
    assert_eq!(format!("{lock:?}"), "StoreLock { held: true, poisoned: false, waiters: 0, .. }");
    assert_eq!(format!("{guard:?}"), "5");
}
