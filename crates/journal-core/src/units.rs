//! One type per kind of number, so that an offset is never taken for a block.
//!
//! All are plain integers underneath (`Copy`, ordered, no cost). Arithmetic goes through checked
//! methods: numbers that come from a medium may be anything.

use core::fmt;

/// The most lanes a journal can have.
pub const LANES_MAX: u16 = 32;

/// Bytes of a *word*: the unit that survives a power loss whole or not at all.
pub const WORD_BYTES: usize = 8;

/// Bytes of a *line*: the unit that a flush writes back.
pub const LINE_BYTES: usize = 64;

/// Defines a newtype over an unsigned integer with the conversions that every unit has.
macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($inner:ty), $show:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The bare number.
            #[inline]
            #[must_use]
            pub const fn raw(self) -> $inner {
                self.0
            }

            /// This plus `more`, or `None` past the end of the type.
            #[inline]
            #[must_use]
            pub const fn checked_add(self, more: $inner) -> Option<Self> {
                match self.0.checked_add(more) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($show, "{}"), self.0)
            }
        }
    };
}

unit! {
    /// A byte position inside one region of persistent memory, from the region's start.
    Offset(u64), "+"
}
unit! {
    /// A block of the store: the unit of the block device, counted from zero.
    BlockNumber(u64), "block "
}
unit! {
    /// A block-sized place in persistent memory.
    SlotNumber(u32), "slot "
}
unit! {
    /// A lane: one ring with one writer at a time.
    LaneNumber(u16), "lane "
}
unit! {
    /// The number of a record inside its lane; never skipped.
    Sequence(u64), "seq "
}
unit! {
    /// Raised durably at every open: what an open has shown absent never comes back.
    Epoch(u64), "epoch "
}
unit! {
    /// Orders versions of one block across lanes: the highest wins.
    Stamp(u64), "stamp "
}
unit! {
    /// Raised with every superblock write.
    Generation(u64), "generation "
}

/// The size of a block: a power of two from 64 bytes to 64 KiB.
///
/// Stores use 512 bytes to 64 KiB; the sizes below exist so that crash tests can enumerate every
/// state of a whole journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BlockSize(u32);

impl BlockSize {
    /// The smallest size that can be expressed.
    pub const MIN: Self = Self(64);
    /// 4 KiB, the default of every option that takes a block size.
    pub const DEFAULT: Self = Self(4096);
    /// The largest size that can be expressed.
    pub const MAX: Self = Self(65536);

    /// Takes a size in bytes; `None` unless it is a power of two from 64 to 65536.
    #[must_use]
    pub const fn new(bytes: u32) -> Option<Self> {
        if bytes.is_power_of_two() && bytes >= Self::MIN.0 && bytes <= Self::MAX.0 {
            Some(Self(bytes))
        } else {
            None
        }
    }

    /// The size in bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }
}

impl Default for BlockSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes_are_powers_of_two_in_range() {
        for good in [64, 512, 4096, 65536] {
            assert_eq!(BlockSize::new(good).map(BlockSize::bytes), Some(good as usize));
        }
        for bad in [0, 1, 32, 63, 65, 4095, 4097, 65535, 131_072, u32::MAX] {
            assert_eq!(BlockSize::new(bad), None);
        }
    }

    #[test]
    fn additions_stop_at_the_end_of_the_type() {
        assert_eq!(Offset(7).checked_add(1), Some(Offset(8)));
        assert_eq!(Offset(u64::MAX).checked_add(1), None);
        assert_eq!(SlotNumber(u32::MAX).checked_add(1), None);
    }
}
