//! Programs on a tiny journal, and the oracle that judges what they leave.

pub(super) mod habits;
pub(super) mod images;
pub(super) mod memory;
pub mod oracle;
pub(super) mod plan;
#[expect(clippy::module_inception, reason = "it holds the type of that name")]
pub(super) mod program;
pub(super) mod rows;
pub(super) mod step;
mod take_step;
