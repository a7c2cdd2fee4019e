//! Everything that a policy of the journal is tried with.

pub(super) mod check;
pub(super) mod faults;
pub(super) mod full;
pub(super) mod laws;
pub(super) mod rot;
