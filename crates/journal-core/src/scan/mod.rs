//! The scan of what a crash has left: it walks the lanes, and the recovery table decides.

pub(crate) mod decide;
pub(crate) mod error;
pub(crate) mod examine;
pub(crate) mod examine_slots;
pub(crate) mod intent;
pub(crate) mod lanes;
pub(crate) mod reader;
pub(crate) mod verdict;
pub(crate) mod walk;
