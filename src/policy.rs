//! For authors of policies: [`Policy`], and the types that it is made of.
//!
//! A policy says how an update of a block is logged, and how a logged payload is applied to a
//! block. It has no say in what survives a crash. The example `custom_policy` is a whole one.
//!
//! ```
//! use nvm_journal::policy::{ApplyError, Encoder, Placement, Policy, PolicyId, Update};
//!
//! /// Logs every update as the block's whole image.
//! #[derive(Clone)]
//! struct Whole;
//!
//! impl Policy for Whole {
//!     fn id(&self) -> PolicyId {
//!         PolicyId(1_000)
//!     }
//!
//!     fn place(&self, _: &Update<'_>, _: &mut Encoder<'_>) -> Placement {
//!         Placement::Image
//!     }
//!
//!     fn apply(&self, _: &[u8], _: &mut [u8]) -> Result<(), ApplyError> {
//!         Err(ApplyError::Malformed { at: 0 })
//!     }
//! }
//!
//! let options = nvm_journal::Options::new().policy(Whole);
//! # drop(options);
//! ```

#[doc(inline)]
pub use journal_core::policy::{
    ApplyError, Change, Class, Encoder, Kind, Pacing, Patch, Placement, Policy, PolicyId, Prefix,
    Span, Thresholds, Update,
};
