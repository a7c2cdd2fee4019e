//! Room for one block, for as long as a call takes.
//!
//! A policy has the block that it changes and nothing else; what is decoded against an image cannot
//! be decoded over it. The room is on the stack: of the smallest of a few sizes that hold the
//! block, and only of that one.

/// The longest block there is room for.
pub const BYTES_MAX: usize = 64 << 10;

/// Calls `work` with `len` bytes of zeros; `None` where that is more than [`BYTES_MAX`].
pub fn with<R>(len: usize, work: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
    match len {
        0..=0x200 => sized::<0x200, R>(len, work),
        0x201..=0x1000 => sized::<0x1000, R>(len, work),
        0x1001..=0x4000 => sized::<0x4000, R>(len, work),
        0x4001..=BYTES_MAX => sized::<BYTES_MAX, R>(len, work),
        _ => None,
    }
}

/// Never inlined: the caller's stack would have to hold all of the sizes.
#[inline(never)]
fn sized<const N: usize, R>(len: usize, work: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
    let mut room = [0; N];
    room.get_mut(..len).map(work)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;

    use super::*;

    #[test]
    fn every_length_of_a_block_has_room() {
        for len in [0, 1, 511, 512, 513, 4096, 4097, 16384, 16385, 65535, 65536] {
            let is_zero = with(len, |room| *room == vec![0; len]);
            assert_eq!(is_zero, Some(true), "{len} bytes");
        }
        assert_eq!(with(BYTES_MAX + 1, |_| ()), None);
    }
}
