//! Virtual time: what drives take, and what the queue in front of them never does.

#![forbid(unsafe_code)]

mod background;
mod bandwidth;
mod figures;
mod life;
mod memory;
mod promises;
mod sources;
