//! Failing is for ever: whether a journal has failed, and why.

use std::sync::PoisonError;

use crate::error::Error;
use crate::sync::{AtomicBool, Mutex, Ordering};

/// After a failed fence, write or sync, and after a panic that may have left something half done,
/// nothing goes on.
#[derive(Debug)]
pub(crate) struct Failure {
    has_come: AtomicBool,
    /// The first that is known.
    cause: Mutex<Option<Error>>,
}

impl Failure {
    pub(crate) fn none() -> Self {
        Self { has_come: AtomicBool::new(false), cause: Mutex::new(None) }
    }

    #[inline]
    pub(crate) fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Relaxed)
    }

    /// From now on everybody is refused. Why is noted by whoever knows it, or it is a panic.
    #[cold]
    pub(crate) fn come(&self) {
        self.has_come.store(true, Ordering::Release);
    }

    /// The same of who knows why. One that was only refused does not.
    #[cold]
    pub(crate) fn come_of(&self, error: Error) {
        if error != Error::Failed {
            self.cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        self.come();
    }

    /// Why, as far as it is known: `Failed` where it is not.
    pub(crate) fn cause(&self) -> Option<Error> {
        let noted = *self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        noted.or_else(|| self.has_come().then_some(Error::Failed))
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
        self.0.come();
    }
}
