//! Encodings that policies share: below them, so that none has to import another.
//!
//! | form | says of a block | meets an image that has it already |
//! |---|---|---|
//! | [`runs`] | where bytes are new, and they | yes |
//! | [`bitmap`] | which words or sub-blocks are new, and they | yes |
//! | [`lzo`] of an [`xor`] | how old and new image differ, compressed | no |
//! | [`moves`] | which bytes of the old image are where now, and new ones | no |
//!
//! The first two are written from a [`Changed`], which also tells beforehand how long each would
//! be, and how many bits differ. `Changed` has the [`Kernels`] of its caller find the words that
//! differ. A form in the last two rows means something against one image only. The caller that logs
//! it says which, and checks that before the form is applied.
//!
//! Guarantees, of every form: what was encoded makes the new image of the old one. A decoder is
//! total: any bytes give a result or a typed error. It takes as many steps as payload and block
//! have bytes, and writes nothing outside the block. An encoder is bounded likewise, and writes
//! into the room it is given. Where that is too small it says so as soon as it knows, so that
//! another form can be tried. What an encoder makes depends on its arguments alone, and not on what
//! a table held before. Nothing here allocates. A crash does to a form what it does to any pure
//! function: nothing.
//!
//! ```
//! use journal_core::PortableKernels;
//! use policy_codec::{Changed, moves, runs};
//!
//! let (old, mut new) = ([7; 4096], [7; 4096]);
//! new[100..104].copy_from_slice(b"news");
//! let changed = Changed::between(&PortableKernels, &old, &new).expect("two of one length");
//!
//! let mut payload = [0; 4096];
//! let len = runs::encode(&changed, Some(&old), &new, &mut payload)?;
//! assert_eq!(payload[..len], *b"\x64\x00\x03\x00news");
//! let mut block = old;
//! runs::apply(&payload[..len], &mut block)?;
//! assert_eq!(block, new);
//!
//! let len = moves::encode(&old, &new, &mut moves::MovesTable::new(), &mut payload)?;
//! assert_eq!(len, 6);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! [`Kernels`]: journal_core::Kernels

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

pub mod bitmap;
mod bytes;
mod compare;
pub mod deltas;
mod error;
pub mod lzo;
pub mod moves;
pub mod runs;
pub mod scratch;
mod unit;
pub mod xor;

pub use compare::changed::Changed;
pub use compare::{between, changed, differ};
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
