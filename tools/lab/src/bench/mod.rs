//! What the benches share: rounds and tables, latencies, media, and the work that they do.

pub mod counted;
pub mod latency;
pub mod media;
pub mod work;

pub use bench_kit::rounds::*;
