//! Copies of blocks between ordinary buffers.
//!
//! A C library may copy a few kilobytes by one instruction (`rep movsb`). Some processors take some
//! twenty times as long for it where the destination lies 1 to 31 bytes behind the source, modulo
//! 4,096. Buffers that an allocator hands out often lie so. Pieces that are short enough are copied
//! by ordinary loads and stores, wherever they lie.

/// The longest piece that every known C library copies by ordinary loads and stores.
const PIECE_BYTES: usize = 2048;

/// Copies a block, or several.
///
/// # Panics
/// Where the two are not equally long.
#[inline]
pub fn copy_block(into: &mut [u8], from: &[u8]) {
    assert_eq!(into.len(), from.len(), "as long as what is copied");
    for (into, from) in into.chunks_mut(PIECE_BYTES).zip(from.chunks(PIECE_BYTES)) {
        into.copy_from_slice(from);
    }
}

/// Appends a copy of a block, or of several.
#[inline]
pub fn append_block(to: &mut Vec<u8>, from: &[u8]) {
    to.reserve(from.len());
    from.chunks(PIECE_BYTES).for_each(|piece| to.extend_from_slice(piece));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_any_length_are_the_bytes() {
        let longest = if cfg!(miri) { 2 * PIECE_BYTES + 3 } else { 65_536 };
        for len in [0, 1, 512, PIECE_BYTES, PIECE_BYTES + 1, longest] {
            let from: Vec<_> = (0..len).map(|at| (at % 251) as u8).collect();
            let mut into = vec![0; len];
            copy_block(&mut into, &from);
            let mut appended = vec![7];
            append_block(&mut appended, &from);
            assert!(into == from && appended[1..] == from, "{len}");
        }
    }
}
