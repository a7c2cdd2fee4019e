//! What a power loss may leave of media, tried image by image.

mod cell;
pub mod crash;
pub mod explore;
mod files;
pub mod generate;
mod memo;
pub mod mutants;
pub mod report;
mod weather;
