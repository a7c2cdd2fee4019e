//! Where two images differ.

pub mod between;
pub mod changed;
pub mod differ;
