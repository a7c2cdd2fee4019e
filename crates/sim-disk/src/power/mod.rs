//! What a power loss may leave of media, tried image by image.

pub mod crash;
pub mod explore;
pub mod generate;
mod memo;
pub mod mutants;
pub mod report;
mod weather;
