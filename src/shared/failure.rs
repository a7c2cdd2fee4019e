//! Failing is for ever: whether a journal has failed, and why.

use std::sync::{Arc, PoisonError};

use crate::error::Error;
use crate::threads::sync::{AtomicBool, Mutex, Ordering};
use crate::threads::waiting::Waiting;
use crate::threads::watchers::Watchers;

/// After a failed fence, write or sync, nothing goes on. Nor does it after a panic that may have
/// left something half done.
#[derive(Debug)]
pub(crate) struct Failure {
    has_come: AtomicBool,
    /// The first cause that is known.
    cause: Mutex<Option<Error>>,
    /// The sleepers, which learn of a failure by being woken.
    waiting: Arc<Waiting>,
    /// For each lane, the watchers that would be told that something is durable.
    watchers: Box<[Arc<Watchers>]>,
}

impl Failure {
    pub(crate) fn none(waiting: Arc<Waiting>, watchers: Box<[Arc<Watchers>]>) -> Self {
        Self { has_come: AtomicBool::new(false), cause: Mutex::new(None), waiting, watchers }
    }

    #[inline]
    pub(crate) fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Relaxed)
    }

    /// Makes the journal fail: from now on every call is refused. The caller that gets the error
    /// notes the cause.
    #[cold]
    pub(crate) fn come(&self) {
        self.has_come.store(true, Ordering::Release);
        self.waiting.wake_all();
        self.watchers.iter().for_each(|watchers| watchers.end_all());
    }

    /// Like [`come`](Self::come), for a caller that gets the error. It notes the error, unless the
    /// call was only refused.
    #[cold]
    pub(crate) fn come_of(&self, error: Error) {
        if error != Error::Failed {
            self.note(error);
        }
        self.come();
    }

    /// Like [`come`](Self::come), after a panic, of which nothing else is known.
    #[cold]
    pub(crate) fn come_of_a_panic(&self) {
        self.note(Error::Failed);
        self.come();
    }

    fn note(&self, error: Error) {
        let mut cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(feature = "tracing")]
        if cause.is_none() {
            tracing::error!(%error, "journal failed");
        }
        cause.get_or_insert(error);
    }

    /// The cause, as far as it is noted: `Failed` where it is not.
    pub(crate) fn cause(&self) -> Option<Error> {
        // This flag first: a thread that fails with a cause has noted it before.
        let has_come = self.has_come();
        let noted = *self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        has_come.then(|| noted.unwrap_or(Error::Failed))
    }

    /// A guard: dropped by a panic, in a policy, a device, or an assertion, it makes the journal
    /// fail.
    #[inline]
    pub(crate) const fn guard(&self) -> PanicGuard<'_> {
        PanicGuard(self)
    }
}

/// Ended when nothing has panicked; dropped only by a panic.
pub(crate) struct PanicGuard<'f>(&'f Failure);

impl PanicGuard<'_> {
    #[inline(always)]
    pub(crate) const fn end(self) {
        core::mem::forget(self);
    }
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        self.0.come_of_a_panic();
    }
}
