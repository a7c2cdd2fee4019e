//! How the hand-offs of the front door are explored: every schedule of a few threads and every
//! order that memory may show, `RUSTFLAGS="--cfg loom" cargo test -p nvm-journal --release --lib`.
//!
//! Each hand-off has models beside its source, which say what it promises; models of the same with
//! a step got wrong, which have to be caught; and one test that makes each order of its atomics
//! weaker in turn, which has to be caught as well. So nothing is stronger than it needs to be, and
//! no promise is kept by chance.

use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pmem_sys::explored::orders::{self, Weakened};

use crate::sync;

/// What a model is: it panics where a promise is broken.
pub(crate) type Model = fn();

/// Explores all schedules of a model, or those with no more preemptions than that.
pub(crate) fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let (executions, counts) = (Arc::new(AtomicU64::new(0)), Preemptions(preemptions));
    let its = Arc::clone(&executions);
    builder(preemptions).check(move || {
        its.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{} executions, {counts}", executions.load(Ordering::Relaxed));
}

/// Whether some schedule of a model breaks a promise, or never ends.
pub(crate) fn is_caught(
    preemptions: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) -> bool {
    let explored = || builder(preemptions).check(model);
    catch_unwind(AssertUnwindSafe(explored)).is_err()
}

/// Weakens each order in turn that these models meet in a file, and requires that one of them
/// notices.
pub(crate) fn each_order_is_needed(file: &str, preemptions: Option<usize>, models: &[Model]) {
    let models = || models.iter().copied();
    models().for_each(|model| builder(preemptions).check(model));
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
    println!("{} orders of {file} weakened, all noticed", orders.len());
}

fn builder(preemptions: Option<usize>) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    // A wait that has no end comes to it.
    builder.max_branches = 10_000;
    builder
}

struct Preemptions(Option<usize>);

impl core::fmt::Display for Preemptions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(most) => write!(f, "up to {most} preemptions"),
            None => write!(f, "any preemptions"),
        }
    }
}

/// A word of a medium. Nothing orders it but what is said elsewhere; and what is streamed is
/// certain to be seen by others only when its thread has fenced.
#[derive(Debug)]
pub(crate) struct Word(sync::AtomicU64);

impl Word {
    pub(crate) fn new() -> Self {
        Self(sync::AtomicU64::new(0))
    }

    /// Streams a value, and fences.
    pub(crate) fn write(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
