//! What one bit of a bitmap stands for.

use journal_core::WORD_BYTES;

/// How many bytes a bit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The bytes are two to this power.
    power: u32,
}

impl Unit {
    /// A word, 8 bytes.
    pub const WORD: Self = Self { power: 3 };

    /// 128 bytes: 32 bits for 4 KiB.
    pub const SUB_BLOCK: Self = Self { power: 7 };

    /// A unit of `bytes` bytes: a power of two from 8 to 32,768.
    #[must_use]
    pub const fn new(bytes: usize) -> Option<Self> {
        if bytes < WORD_BYTES || bytes > 1 << 15 || !bytes.is_power_of_two() {
            return None;
        }
        Some(Self { power: bytes.ilog2() })
    }

    /// How many bytes it has.
    #[must_use]
    pub const fn bytes(self) -> usize {
        1 << self.power
    }

    /// How many words it has.
    #[must_use]
    pub const fn words(self) -> usize {
        self.bytes() / WORD_BYTES
    }

    /// How many of it a block has, a shorter one at the end counted.
    #[must_use]
    pub const fn count_in(self, block_bytes: usize) -> usize {
        block_bytes.div_ceil(self.bytes())
    }

    /// How many bytes of bits a block has.
    #[must_use]
    pub const fn bitmap_bytes(self, block_bytes: usize) -> usize {
        self.count_in(block_bytes).div_ceil(8)
    }
}
