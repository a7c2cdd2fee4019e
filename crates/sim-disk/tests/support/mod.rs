//! What the differential tests share: random programs, their packed states, and the closed form's
//! answer for a tape.

pub(crate) mod closed;
pub(crate) mod program;
pub(crate) mod replay;
pub(crate) mod schedules;
