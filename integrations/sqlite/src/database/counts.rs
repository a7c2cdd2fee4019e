//! What a VFS has done for one database, for those that have to prove it.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// What a VFS has done for one database since it was mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Batches that became one durable transaction each.
    pub commits: u64,
    /// Pages in them.
    pub pages: u64,
    /// Batches that did not fit, so that SQLite wrote a rollback journal.
    pub fallbacks: u64,
    /// Pages written outside of batches.
    pub loose_pages: u64,
    /// Syncs that had something to make durable.
    pub syncs: u64,
    /// Calls of the host for the database's rollback journal or its WAL: opens, deletes, questions
    /// whether there is one.
    pub host_calls: u64,
    /// Rollback journals and WALs that were opened.
    pub host_files: u64,
    /// Syncs of a rollback journal that SQLite left out, behind a batch that did not fit.
    pub journal_syncs: u64,
    /// Reads of the database.
    pub reads: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commits, pages, fallbacks, loose_pages, syncs, host_calls, host_files, .. } =
            self;
        write!(
            f,
            "{commits} commits of {pages} pages; {fallbacks} did not fit; {loose_pages} pages \
             loose, {syncs} syncs; {host_calls} calls of the host for {host_files} journals; {} \
             reads",
            self.reads
        )
    }
}

/// One number that threads count up.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The numbers of one database.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) commits: Count,
    pub(crate) pages: Count,
    pub(crate) fallbacks: Count,
    pub(crate) loose_pages: Count,
    pub(crate) syncs: Count,
    pub(crate) host_calls: Count,
    pub(crate) host_files: Count,
    pub(crate) journal_syncs: Count,
    pub(crate) reads: Count,
}

impl Counting {
    pub(crate) fn now(&self) -> Counts {
        Counts {
            commits: self.commits.now(),
            pages: self.pages.now(),
            fallbacks: self.fallbacks.now(),
            loose_pages: self.loose_pages.now(),
            syncs: self.syncs.now(),
            host_calls: self.host_calls.now(),
            host_files: self.host_files.now(),
            journal_syncs: self.journal_syncs.now(),
            reads: self.reads.now(),
        }
    }
}
