//! The on-media format: FORMAT.md against the structures, and golden journals of every version.

#![forbid(unsafe_code)]

mod book;
mod closed;
mod golden;
mod versions;
