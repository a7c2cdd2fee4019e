//! How the hand-offs of the front door are explored: every schedule of a few threads and every
//! order that memory may show.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p nvm-journal --release --lib explored`
//!
//! Each hand-off has models beside its source:
//!
//! - Some say what the hand-off promises.
//! - Some have a step wrong; the exploration has to catch each of them.
//! - One test makes each order of its atomics weaker in turn, which has to be caught as well.
//!
//! So nothing is stronger than it needs to be, and no promise is kept by chance.

use pmem_sys::explored::models::{self, Model};

use crate::threads::sync::{AtomicU64, Ordering};

pub(crate) use models::{is_caught, let_others_run};

/// Explores all schedules of a model, or those with no more preemptions than that.
pub(crate) fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let executions = models::explore(preemptions, model);
    println!("{executions} executions, preemptions: {preemptions:?}");
}

/// Requires of each order in a file that one of these models notices when it is weaker.
pub(crate) fn each_order_is_needed(file: &str, preemptions: Option<usize>, models: &[Model]) {
    let orders = models::each_order_is_needed(file, preemptions, models);
    println!("{orders} orders of {file} weakened, all noticed");
}

/// A word of a medium. Nothing orders it except what is said elsewhere. Other threads are certain
/// to see what is streamed only once its thread has fenced.
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Streams a value, and fences.
    pub(crate) fn write(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
