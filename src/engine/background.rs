//! The thread that makes room while others commit.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use journal_core::policy::Policy;
use journal_core::{BlockDevice, Hook, PmemShare};

use crate::error::Error;
use crate::shared::SharedBy;
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
    pub(crate) fn start<L, P, D, H>(shared: &Arc<SharedBy<L, P, D, H>>) -> Result<Self, Error>
    where
        L: Policy + Send + Sync + 'static,
        P: PmemShare + Send + 'static,
        P::Reader: 'static,
        D: BlockDevice + Clone + Send + 'static,
        H: Hook + Send + Sync + 'static,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let (its, stops) = (Arc::clone(shared), Arc::clone(&stop));
        let work = move |its: &SharedBy<L, P, D, H>| {
            let begun = Instant::now();
            while !stops.load(Ordering::Acquire) && !its.has_failed() {
                // A failure makes the journal fail, which tells every caller.
                let _ = its.tick(begun.elapsed());
                if its.bell.was_asked() {
                    let _ = its.make_room(|| !its.is_short_of_bytes());
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
