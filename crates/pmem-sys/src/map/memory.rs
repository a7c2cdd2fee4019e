//! Plain memory in the place of persistent memory.
//!
//! Guarantees: aligned to a page, zero at first. A crash of any kind, a killed process included,
//! loses all of it; everything else behaves, and costs, as on line-granular memory.

use memmap2::{MmapMut, MmapRaw};

/// Maps `len` bytes.
pub(crate) fn map(len: usize) -> std::io::Result<MmapRaw> {
    MmapMut::map_anon(len).map(MmapRaw::from)
}
