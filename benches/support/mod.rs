//! What the benches share: rounds and tables, latencies, media, and the work that they do.

// Each bench uses a part of it.
#![allow(dead_code, reason = "shared by several benches")]

pub(crate) mod counted;
pub(crate) mod latency;
pub(crate) mod media;
mod rounds;
pub(crate) mod work;

pub(crate) use rounds::*;
