//! The order of persistence as types: `Dirty`, `InFlight`, `Durable`.

pub mod hook;
pub(crate) mod ordered;

pub use ordered::*;
