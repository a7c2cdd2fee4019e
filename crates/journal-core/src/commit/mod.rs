//! Operations become a record: prepared, so that everything fits, and stored.

pub(crate) mod active;
pub(crate) mod batched;
pub(crate) mod error;
pub(crate) mod one_operation;
pub(crate) mod operation;
pub(crate) mod patches;
pub(crate) mod prefetch;
pub(crate) mod prepared;
pub(crate) mod store;
