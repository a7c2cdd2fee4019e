//! Syncs of a file by handles that share its description: each handle is told of each failure.
//!
//! The kernel reports a failed write-back once for each description, to the next sync that ends,
//! and forgets it. A handle whose own writes are lost may sync behind another one, and be told that
//! all is well. So failures are counted beside the file:
//!
//! FD1. One sync runs at a time.
//! FD2. A sync fails if any sync of the file has failed since the same handle's last one.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// What a handle knows of the syncs of its file. A clone is told of what fails from then on.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    failures: Arc<Mutex<Failures>>,
    /// How many of them this handle was told of, or came after.
    told: u64,
}

#[derive(Debug, Default)]
struct Failures {
    count: u64,
    /// The system's number of the last one, where it has one.
    last: Option<i32>,
}

impl Syncs {
    /// Runs a sync.
    pub(super) fn run(&mut self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let synced = failures.note(sync);
        if synced.is_ok() && failures.count > self.told {
            self.told = failures.count;
            let last = failures.last.map(io::Error::from_raw_os_error);
            return Err(last.unwrap_or_else(|| io::ErrorKind::Other.into()));
        }
        self.told = failures.count;
        synced
    }

    /// Runs a sync that says nothing of this handle's own writes.
    pub(super) fn run_beside(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).note(sync)
    }
}

impl Failures {
    fn note(&mut self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        sync().inspect_err(|error| (self.count, self.last) = (self.count + 1, error.raw_os_error()))
    }
}

impl Clone for Syncs {
    fn clone(&self) -> Self {
        let told = self.failures.lock().unwrap_or_else(PoisonError::into_inner).count;
        Self { failures: Arc::clone(&self.failures), told }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_handle_is_told_once_of_what_failed_for_another() {
        let fails = || Err(io::Error::from_raw_os_error(5));
        let code = |synced: io::Result<()>| synced.map_err(|error| error.raw_os_error());
        let mut journals = Syncs::default();
        let mut others = journals.clone();
        assert_eq!(code(journals.run(|| Ok(()))), Ok(()));
        // The kernel has told the other one, and tells this one that all is well.
        assert_eq!(code(others.run(fails)), Err(Some(5)));
        assert_eq!(code(journals.run(|| Ok(()))), Err(Some(5)));
        assert_eq!(code(journals.run(|| Ok(()))), Ok(()));
        assert_eq!(code(others.run(|| Ok(()))), Ok(()));
        assert_eq!(code(others.run_beside(fails)), Err(Some(5)));
        assert_eq!(code(journals.clone().run(|| Ok(()))), Ok(()), "it comes behind the failure");
        assert_eq!(code(journals.run(|| Ok(()))), Err(Some(5)));
    }

    /// While a sync runs that is to fail, no other one ends.
    #[test]
    fn no_sync_ends_beside_one_that_fails() {
        let mut first = Syncs::default();
        let mut second = first.clone();
        let (begun, has_begun) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let failing = scope.spawn(move || {
                first.run(|| {
                    begun.send(()).expect("it is awaited");
                    std::thread::sleep(core::time::Duration::from_millis(20));
                    Err(io::ErrorKind::Other.into())
                })
            });
            has_begun.recv().expect("it begins");
            assert!(second.run(|| Ok(())).is_err());
            assert!(failing.join().expect("no panic").is_err());
        });
    }
}
