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

pub mod differ;
pub mod runs;
