//! Atomics of which a test can weaken one use, to see that a model notices. Every use is known by
//! its place in the source, so that none has to be listed.

use core::cell::RefCell;
use core::panic::Location;
use std::collections::BTreeSet;

use super::Ordering;
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// One use of an order, made weaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weakened {
    /// Where the atomic is used.
    pub place: &'static Location<'static>,
    /// What is left of the order, as far as it has two sides: whether it acquires.
    pub acquires: bool,
    /// Whether it releases.
    pub releases: bool,
}

#[derive(Default)]
struct Watch {
    weakened: Option<Weakened>,
    seen: BTreeSet<Weakened>,
}

std::thread_local! {
    /// All threads of a model are one thread of the system, and other tests run in others.
    static WATCH: RefCell<Watch> = RefCell::default();
}

/// Weakens one use from now on, or none, in this thread of the system.
pub fn weaken(weakened: Option<Weakened>) {
    WATCH.with_borrow_mut(|watch| watch.weakened = weakened);
}

/// Every use that could have been weakened, of what has run in this thread of the system.
#[must_use]
pub fn seen() -> Vec<Weakened> {
    WATCH.with_borrow(|watch| watch.seen.iter().copied().collect())
}

#[track_caller]
fn here(order: Ordering) -> Ordering {
    let place = Location::caller();
    let (acquires, releases) = match order {
        Acquire => (true, false),
        Release => (false, true),
        AcqRel => (true, true),
        _ => return order,
    };
    WATCH.with_borrow_mut(|watch| {
        for (acquires, releases) in [(false, releases), (acquires, false)] {
            if (acquires, releases) != (order == Acquire, order == Release) {
                watch.seen.insert(Weakened { place, acquires, releases });
            }
        }
        match watch.weakened.filter(|weakened| weakened.place == place) {
            Some(Weakened { acquires: true, .. }) => Acquire,
            Some(Weakened { releases: true, .. }) => Release,
            Some(_) => Relaxed,
            None => order,
        }
    })
}

macro_rules! atomic {
    ($name:ident, $value:ty $(, $arithmetic:ident)*) => {
        /// loom's, which can be weakened.
        #[derive(Debug)]
        pub struct $name(loom::sync::atomic::$name);

        #[allow(missing_docs, reason = "as in core")]
        impl $name {
            #[must_use]
            pub fn new(value: $value) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(here(order))
            }

            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, here(order));
            }

            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, here(order))
            }

            /// # Errors
            /// Another value than the one that was expected.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(current, new, here(success), here(failure))
            }

            $(#[track_caller]
            pub fn $arithmetic(&self, value: $value, order: Ordering) -> $value {
                self.0.$arithmetic(value, here(order))
            })*

            /// # Errors
            /// The value that was not to be changed.
            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.0.fetch_update(here(set), here(fetch), change)
            }
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicU32, u32, fetch_add, fetch_sub);
atomic!(AtomicU64, u64, fetch_add, fetch_sub, fetch_max);
atomic!(AtomicUsize, usize, fetch_add, fetch_sub);
