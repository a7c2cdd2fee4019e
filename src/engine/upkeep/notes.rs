//! When records begin to have notes (NT1).

use journal_core::JournalError;
use journal_core::policy::Policy;

use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::lending::LanesOf;
use crate::threads::sync::Ordering;

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Makes sure that records may have notes (NT1).
    #[inline]
    pub(crate) fn see_to_notes(&self) -> Result<(), Error> {
        if self.notes.has_begun.load(Ordering::Acquire) { Ok(()) } else { self.begin_notes() }
    }

    #[cold]
    fn begin_notes(&self) -> Result<(), Error> {
        self.check_not_failed()?;
        self.fail_on_panic(|| {
            let mut home = self.home.lock_first().map_err(|_| self.poisoned())?;
            match home.begin_notes(&self.common, &mut LanesOf(self)) {
                Ok(()) => {
                    self.notes.has_begun.store(true, Ordering::Release);
                    Ok(())
                }
                Err(error @ JournalError::Geometry(_)) => Err(error.into()),
                Err(error) => {
                    self.fail_of(error.into());
                    Err(error.into())
                }
            }
        })
    }
}
