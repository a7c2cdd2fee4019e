//! Encodings that policies share: below them, so that none has to import another.
//!
//! Every decoder is total: any bytes give a result or an [`ApplyError`], in as many steps as
//! payload and block have bytes, and nothing is written outside the block.
//!
//! [`ApplyError`]: journal_core::policy::ApplyError

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use journal_core::policy::{Change, Encoder, Placement, Update};

pub mod between;
pub mod bitmap;
mod bytes;
pub mod changed;
pub mod deltas;
pub mod differ;
mod error;
pub mod lzo;
pub mod moves;
pub mod runs;
#[cfg(test)]
mod samples;
pub mod scratch;
pub mod xor;

pub use changed::Changed;
pub use error::DecodeError;

/// What policies that log whole versions answer alike; `None` where it is theirs to choose, and an
/// image is at hand.
///
/// Patches alone go into the record as [runs](runs::put). An image that is the old one is not
/// logged; only where it was given whole is it compared, since ranges say what differs.
#[must_use]
pub fn common_answer(update: &Update<'_>, out: &mut Encoder<'_>) -> Option<Placement> {
    let Some(image) = update.change.image() else {
        let put = runs::put(update.change.pieces(), out);
        // Without an image there is no other form: the core refuses the update.
        return Some(if put.is_ok() { Placement::Encoded } else { Placement::Image });
    };
    let is_given_whole = matches!(update.change, Change::Image(_));
    let is_same = is_given_whole && update.old.is_some_and(|old| old == image);
    is_same.then_some(Placement::Unchanged)
}
