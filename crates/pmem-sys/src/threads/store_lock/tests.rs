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
    assert!(!lock.head.is_overdue());
    assert_eq!(lock.into_inner(), (3 * turns, 3 * turns));
}

#[test]
fn a_guard_is_one_word_and_says_how_the_lock_was_taken() {
    assert_eq!(size_of::<Option<StoreLockGuard<'_, u8>>>(), size_of::<usize>());
    // With a value that is aligned less, and with one that is more.
    fn check<T: Default + PartialEq + core::fmt::Debug>(value: T) {
        let lock = StoreLock::new(T::default());
        *lock.lock().expect("nobody panics") = value;
        for how in [How::EXCHANGE, How::FAVOUR] {
            for how in [how, how.unwinding()] {
                let guard = core::mem::ManuallyDrop::new(StoreLockGuard::of(&lock, how));
                assert_eq!(guard.how(), how);
                assert_ne!(**guard, T::default());
            }
        }
        assert_ne!(lock.into_inner(), T::default());
    }
    check(3_u8);
    check(5_u128);
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
        while !lock.head.is_overdue() {
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

/// While a waiter is owed the lock, newcomers stand back although it is free.
#[test]
fn newcomers_stand_back_for_the_overdue() {
    let lock = StoreLock::new(());
    let owed = lock.head.become_it();
    assert!(lock.try_lock().expect("nobody panicked").is_some());
    owed.set_overdue();
    assert!(lock.try_lock().expect("nobody panicked").is_none());
    drop(owed);
    assert!(lock.try_lock().expect("nobody panicked").is_some());
}

/// Of all that wait for a lock one looks again and again, and the others sleep. Each of them has it
/// in the end.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn of_many_waiters_one_looks() {
    const THREADS: usize = 40;
    /// How often a thread was given a processor because it was ready.
    fn switches() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("there is one");
        let said = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        said.expect("is said").trim().parse().expect("a number")
    }
    let lock = StoreLock::new(Vec::new());
    let guard = lock.lock().expect("nobody panics");
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let before = switches();
                let mut all = lock.lock().expect("nobody panics");
                all.push(switches() - before);
            });
        }
        while lock.waiters() < THREADS {
            thread::yield_now();
        }
        // Several hundred naps.
        thread::sleep(core::time::Duration::from_millis(200));
        drop(guard);
    });
    let mut all = lock.into_inner();
    all.sort_unstable();
    assert_eq!(all.len(), THREADS);
    // The first head has napped all the time. Another one may have, in its turn.
    assert!(all[THREADS - 3] < 100, "{all:?}");
    assert!(all[THREADS - 1] > 100, "{all:?}");
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

/// A lock that favours this thread, where the system has far fences; and whether it has.
fn favouring<T>(value: T) -> (StoreLock<T>, bool) {
    let far = FarFence::register();
    let lock = StoreLock::favouring(value, far);
    for _ in 0..100 {
        drop(lock.lock().expect("nobody panics"));
    }
    (lock, far.is_some())
}

#[test]
fn who_takes_a_lock_again_and_again_is_favoured_until_another_comes() {
    let (lock, is_had) = favouring(0);
    assert_eq!(lock.lock().expect("nobody panics").is_by_favour(), is_had);
    let other = || {
        let mut guard = lock.lock().expect("nobody panics");
        *guard += 1;
        guard.is_by_favour()
    };
    let others = |times| {
        thread::scope(|scope| {
            let others = scope.spawn(|| (0..times).filter(|_| other()).count());
            others.join().expect("does not panic")
        })
    };
    assert_eq!(others(1), 0);
    let mut guard = lock.lock().expect("nobody panics");
    assert!(!guard.is_by_favour());
    *guard += 1;
    drop(guard);
    // Again, and no other one ever.
    let times = if cfg!(miri) { 20 } else { 10_000 };
    assert_eq!(others(times), 0);
    let again = (0..times).filter(|_| lock.lock().expect("nobody panics").is_by_favour()).count();
    assert_eq!(again > 0, is_had);
    assert_eq!(lock.into_inner(), 2 + times);
}

#[test]
fn a_lock_is_not_had_twice_by_who_is_favoured() {
    let (lock, is_had) = favouring(0);
    let guard = lock.lock().expect("nobody panics");
    assert_eq!(guard.is_by_favour(), is_had);
    assert!(lock.try_lock().expect("nobody panicked").is_none());
    let others = || lock.try_lock().expect("nobody panicked").is_none();
    assert!(thread::scope(|scope| scope.spawn(others).join().expect("does not panic")));
    drop(guard);
    assert!(lock.try_lock().expect("nobody panicked").is_some());
    // Nor while it has it from before it was favoured.
    let lock = StoreLock::favouring(0, FarFence::register());
    for _ in 0..100 {
        let guard = lock.lock().expect("nobody panics");
        assert!(lock.try_lock().expect("nobody panicked").is_none());
        drop(guard);
    }
}

#[test]
fn by_favour_alone_a_lock_is_had_by_who_is_favoured_and_by_nobody_else() {
    let (lock, is_had) = favouring(0);
    let guard = lock.try_lock_by_favour();
    assert_eq!(guard.is_some(), is_had);
    assert!(lock.try_lock_by_favour().is_none(), "not twice");
    drop(guard);
    // Another thread does not have it, and withdraws nothing.
    thread::scope(|scope| {
        scope.spawn(|| assert!(lock.try_lock_by_favour().is_none()));
    });
    assert_eq!(lock.lock().expect("nobody panics").is_by_favour(), is_had);
    assert_eq!(lock.try_lock_by_favour().is_some(), is_had);
    // Nor does a thread that has it by an exchange.
    let lock = StoreLock::favouring(0, FarFence::register());
    let _guard = lock.lock().expect("nobody panics");
    assert!(lock.try_lock_by_favour().is_none());
}

#[test]
fn a_panic_of_who_is_favoured_is_told_to_everybody() {
    let (lock, is_had) = favouring(7);
    let panicked = catch_unwind(|| {
        let mut guard = lock.lock().expect("nobody panicked before");
        assert_eq!(guard.is_by_favour(), is_had);
        *guard = 8;
        panic_quietly();
    });
    assert!(panicked.is_err() && lock.is_poisoned());
    let lock = &lock;
    let is_told = || lock.lock().map(drop) == Err(Poisoned);
    assert!(thread::scope(|scope| scope.spawn(is_told).join().expect("does not panic")));
    assert!(is_told() && lock.try_lock().map(drop) == Err(Poisoned));
}

/// One that is favoured most of the time, and others that come again and again, some of them only
/// once in their lives: they may have the number of one that was before.
#[test]
fn favour_is_given_and_withdrawn_and_holders_exclude_each_other() {
    let turns = if cfg!(miri) { 20 } else { 100_000 };
    let (lock, _) = favouring((0_u64, 0_u64));
    let turn = |lock: &StoreLock<(u64, u64)>| {
        let mut pair = lock.lock().expect("nobody panics");
        assert_eq!(pair.0, pair.1);
        pair.0 += 1;
        core::hint::spin_loop();
        pair.1 += 1;
    };
    let done = AtomicBool::new(false);
    let others = thread::scope(|scope| {
        let comes = || {
            let mut others = 0;
            while !done.load(Ordering::Relaxed) {
                turn(&lock);
                thread::yield_now();
                let once = scope.spawn(|| (0..40).for_each(|_| turn(&lock)));
                once.join().expect("does not panic");
                others += 41;
            }
            others
        };
        let others = scope.spawn(comes);
        for _ in 0..turns {
            turn(&lock);
        }
        done.store(true, Ordering::Relaxed);
        others.join().expect("does not panic")
    });
    assert_eq!(lock.into_inner(), (turns + others, turns + others));
}

/// As in a process that forbids itself system calls when it has begun.
#[test]
fn a_lock_that_cannot_be_withdrawn_is_nobodys_any_more() {
    let (lock, is_had) = favouring(0);
    let refused = || {
        crate::threads::far_fence::IS_REFUSED.set(true);
        lock.lock().map(drop)
    };
    let told = thread::scope(|scope| scope.spawn(refused).join().expect("does not panic"));
    let expected = if is_had { Err(Poisoned) } else { Ok(()) };
    assert_eq!([told, lock.lock().map(drop)], [expected, expected]);
    let others = || lock.try_lock().map(drop);
    let told = thread::scope(|scope| scope.spawn(others).join().expect("does not panic"));
    assert_eq!((told, lock.is_poisoned()), (expected, is_had));
}
