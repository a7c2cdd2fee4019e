//! Where the bytes are: a mapping of a file (direct or through the page cache) or plain memory.
//!
//! Guarantees: the address and length of a [`Mapping`] do not change while it lives. The address is
//! aligned to a page, and all of it may be read and written. What a crash leaves is said in each
//! file.

use memmap2::MmapRaw;

use crate::map::dax::DaxMapping;

pub(crate) mod dax;
pub(crate) mod error;
pub(crate) mod facts;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod page_cache;
pub(crate) mod pages;
pub(crate) mod sysfs;
pub(crate) mod zeroes;

/// A mapped range of memory; unmapped when dropped.
#[derive(Debug)]
pub(crate) enum Mapping {
    /// Through the page cache, or anonymous.
    Ordinary(MmapRaw),
    /// Directly on persistent memory.
    Direct(DaxMapping),
}

impl Mapping {
    pub(crate) fn base(&self) -> *mut u8 {
        match self {
            Self::Ordinary(map) => map.as_mut_ptr(),
            Self::Direct(map) => map.base(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ordinary(map) => map.len(),
            Self::Direct(map) => map.len(),
        }
    }
}
