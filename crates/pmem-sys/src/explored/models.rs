//! Models of hand-offs, which say what is promised. Loom tries every schedule of a few threads and
//! every order that memory may show, as far as it sees that they differ.
//!
//! Of each atomic loom remembers the last access alone. Where a thread loads what it is about to
//! store, loom may not try the schedules in which another thread's load came between. So a thread
//! that only looks lets others run first ([`let_others_run`]). And no model is believed that has
//! not caught a mistake.
//!
//! `LOOM_MAX_PREEMPTIONS` says how many preemptions there may be, in place of what models ask for.

use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::orders::{self, Weakened};

/// It panics where a promise is broken.
pub type Model = fn();

/// Explores all schedules of a model, or those with at most `preemptions` preemptions. Returns how
/// many executions these were.
///
/// # Panics
/// If the model does in one of them, or a thread waits for ever.
pub fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) -> u64 {
    let executions = Arc::new(AtomicU64::new(0));
    let its = Arc::clone(&executions);
    builder(preemptions).check(move || {
        its.fetch_add(1, Ordering::Relaxed);
        model();
    });
    executions.load(Ordering::Relaxed)
}

/// Lets all other threads run as far as they can, in the first schedule that is tried. Not by a
/// yield: after a yield loom shows nothing any more that is old.
pub fn let_others_run() {
    let idle = loom::thread::spawn(|| {});
    idle.join().expect("does nothing");
}

/// Whether some schedule of a model breaks a promise, or never ends.
pub fn is_caught(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore(preemptions, model))).is_err()
}

/// Weakens each order in turn that these models meet in a file, and requires that one of them
/// notices. Returns how many orders these were.
///
/// # Panics
/// If no model notices one, or none is met there.
pub fn each_order_is_needed(file: &str, preemptions: Option<usize>, models: &[Model]) -> usize {
    let models = || models.iter().copied();
    for model in models() {
        explore(preemptions, model);
    }
    let mut orders = orders::seen();
    orders.retain(|order| order.place.file().ends_with(file));
    assert!(!orders.is_empty(), "no order is met in {file}");
    let is_needed = |order: &Weakened| {
        orders::weaken(Some(*order));
        let is_needed = models().any(|model| is_caught(preemptions, model));
        orders::weaken(None);
        is_needed
    };
    let spare: Vec<_> = orders.iter().filter(|order| !is_needed(order)).collect();
    assert!(spare.is_empty(), "nothing notices without them: {spare:#?}");
    orders.len()
}

fn builder(preemptions: Option<usize>) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    // What the variable says is there already.
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    // A wait that has no end comes to it.
    builder.max_branches = 10_000;
    builder
}
