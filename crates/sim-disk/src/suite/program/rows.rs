//! Which rows of the recovery table an exploration has reached.

use core::sync::atomic::{AtomicU64, Ordering};

use journal_core::Row;

/// How often each row of the recovery table was reached.
#[derive(Debug, Default)]
pub struct Rows {
    hits: [AtomicU64; Row::ALL.len()],
    behind: AtomicU64,
}

impl Rows {
    pub(in crate::suite) fn hit(&self, row: Row, times: u64) {
        self.hits[row as usize].fetch_add(times, Ordering::Relaxed);
    }

    pub(in crate::suite) fn behind(&self, lanes: u16) {
        self.behind.fetch_add(u64::from(lanes), Ordering::Relaxed);
    }

    /// How many lanes were found with records of their epoch behind their end.
    #[must_use]
    pub fn lanes_with_records_behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }

    /// Each row, and how often it was reached.
    #[must_use]
    pub fn counts(&self) -> [(Row, u64); Row::ALL.len()] {
        Row::ALL.map(|row| (row, self.hits[row as usize].load(Ordering::Relaxed)))
    }
}
