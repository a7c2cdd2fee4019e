//! The order of persistence as types: `Dirty`, `InFlight`, `Durable`.

pub(crate) mod ordered;
pub(crate) mod rule;
pub(crate) mod site;
pub(crate) mod source;

pub use ordered::*;
