//! Failing is for ever: whether a journal has failed, and why.

use std::sync::{Arc, PoisonError};

use crate::error::Error;
use crate::threads::sync::{AtomicBool, Mutex, Ordering};
use crate::threads::waiting::Waiting;

/// After a failed fence, write or sync, and after a panic that may have left something half done,
/// nothing goes on.
#[derive(Debug)]
pub(crate) struct Failure {
    has_come: AtomicBool,
    /// The first that is known.
    cause: Mutex<Option<Error>>,
    /// Those who sleep, and are told by being woken.
    waiting: Arc<Waiting>,
}

impl Failure {
    pub(crate) fn none(waiting: Arc<Waiting>) -> Self {
        Self { has_come: AtomicBool::new(false), cause: Mutex::new(None), waiting }
    }

    #[inline]
    pub(crate) fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Relaxed)
    }

    /// From now on everybody is refused. Why is noted by who will be told.
    #[cold]
    pub(crate) fn come(&self) {
        self.has_come.store(true, Ordering::Release);
        self.waiting.wake_all();
    }

    /// The same of who is told why. One that was only refused is not.
    #[cold]
    pub(crate) fn come_of(&self, error: Error) {
        if error != Error::Failed {
            self.note(error);
        }
        self.come();
    }

    /// The same of a panic, of which nothing else is known.
    #[cold]
    pub(crate) fn come_of_a_panic(&self) {
        self.note(Error::Failed);
        self.come();
    }

    fn note(&self, error: Error) {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Why, as far as it is noted: `Failed` where it is not.
    pub(crate) fn cause(&self) -> Option<Error> {
        // First this: who comes with a cause has noted it before.
        let has_come = self.has_come();
        let noted = *self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        has_come.then(|| noted.unwrap_or(Error::Failed))
    }

    /// Makes the journal fail when what it watches panics, in a policy, a device, or an assertion.
    #[inline]
    pub(crate) const fn watch(&self) -> Watch<'_> {
        Watch(self)
    }
}

/// Ended when nothing has panicked; dropped only by a panic.
pub(crate) struct Watch<'f>(&'f Failure);

impl Watch<'_> {
    #[inline(always)]
    pub(crate) const fn end(self) {
        core::mem::forget(self);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.come_of_a_panic();
    }
}
