//! Policies whose settings ask for the fewest bytes, where pages change in a few places.

use nvm_journal::{Adaptive, TwoLevel, Wish};
use policy_codec::bitmap::Unit;

/// Sub-blocks that are not much larger than what changes of a page of SQLite.
const SMALL: Unit = Unit::new(16).expect("a power of two");

/// Two levels, with sub-blocks of 16 bytes.
#[must_use]
pub fn two_level() -> TwoLevel {
    TwoLevel::with(two_level::Settings::new().sub_block(SMALL))
}

/// The adaptive policy, which counts bytes and not time.
#[must_use]
pub fn adaptive() -> Adaptive {
    Adaptive::with(adaptive::Settings::new().wish(Wish::Wear))
}
