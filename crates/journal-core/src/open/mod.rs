//! From a verdict to an open journal.

pub(crate) mod cut;
pub(crate) mod format;
pub(crate) mod found;
pub(crate) mod index_records;
pub(crate) mod notes;
pub(crate) mod torn_slots;
