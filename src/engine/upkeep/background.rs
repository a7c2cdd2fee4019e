//! The thread that makes room while others commit.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use journal_core::policy::Policy;

use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::threads::sync::thread::{self, JoinHandle};
use crate::threads::sync::{AtomicBool, Ordering};

/// How long a checkpointing thread sleeps at most before it looks around.
const CHECKPOINTER_NAP: Duration = Duration::from_millis(100);

/// The thread that writes home in the background.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    pub(crate) thread: JoinHandle<()>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Checkpointer {
    pub(crate) fn start<L: Policy + Send + Sync + 'static, M: Machine>(
        shared: &Arc<Shared<L, M>>,
    ) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let (its, stops) = (Arc::clone(shared), Arc::clone(&stop));
        let work = move |its: &Shared<L, M>| {
            let begun = Instant::now();
            while !stops.load(Ordering::Acquire) && !its.has_failed() {
                // A failure makes the journal fail, which tells every caller.
                let _ = its.tick(begun.elapsed());
                if its.bell.was_asked() {
                    let _ = its.make_room_ahead(|stage| !its.is_short(stage));
                } else {
                    thread::park_timeout(CHECKPOINTER_NAP);
                }
            }
        };
        // Other threads rely on this one: where it panics, everything else fails.
        let run = move || its.watched(|| work(&its));
        let thread = thread::Builder::new().name("nvmj-home".into()).spawn(run);
        let thread = thread.map_err(|error| Error::NoThread { os: error.raw_os_error() })?;
        shared.bell.belongs_to(thread.thread());
        Ok(Self { thread, stop })
    }
}
