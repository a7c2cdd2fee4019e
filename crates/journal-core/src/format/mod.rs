//! What lies on the medium, byte by byte.

pub mod geometry;
pub(crate) mod identity;
pub mod record;
