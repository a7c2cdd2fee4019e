//! The blocks of the small journals.

pub const BLOCK_BYTES: usize = 64;
pub type Block = [u8; BLOCK_BYTES];

/// Blocks of the store.
pub const BLOCKS: u64 = 8;

/// Bytes that count up.
pub fn counting(first: u8) -> Block {
    let mut block = [0; BLOCK_BYTES];
    for (byte, value) in block.iter_mut().zip(0_u8..) {
        *byte = value.wrapping_mul(5).wrapping_add(first);
    }
    block
}
