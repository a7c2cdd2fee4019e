//! The new image of a block as copies from the old one, from wherever in it, and new bytes.
//!
//! What changes inside a database page is moved about more than it is replaced, which neither runs
//! nor an XOR can see. Here the old image is a dictionary. Bytes that it has anywhere are copied
//! from there, and bytes that the new image has already are copied too.
//!
//! Guarantees: [`decode`] with the old image undoes [`encode`], for any two images of one length up
//! to 64 KiB. They take as many steps as images and delta have bytes (a search looks at two places
//! for each). They touch nothing but the buffers they are given. The delta depends on the images
//! alone. Decoding is not in place: it needs the old image whole, beside the room for the new one;
//! [`apply`] makes a copy of it.
//!
//! A delta is against one old image and nonsense against any other, the new one among them. The
//! caller that logs it says which images it lies between.
//!
//! # The format
//!
//! A delta is commands. Each makes a copy and then takes new bytes. A copy is from `distance` bytes
//! before, with the old image standing directly before the new one. So a distance of a block's
//! length is the same place of the old image. A copy may overlap with what it makes. Three
//! distances are remembered, the last one first: at the start those of the same place, of the byte
//! before, and of the word before.
//!
//! The first byte of a command is `DDNNNLLL`:
//!
//! | bits | are |
//! |---|---|
//! | `DD` | which distance: 0 to 2 a remembered one, 3 the last and a *number*, the difference |
//! | `NNN` | how many new bytes; 7 is 7 and a *number* |
//! | `LLL`, `DD` = 0 | the length of the copy by 256, and a byte follows; 7: 1792 and a *number* |
//! | `LLL`, otherwise | the length of the copy less 4; 7 is 7 and a *number* |
//!
//! Behind it stand the distance, the rest of the length, the rest of the count, as far as there are
//! any, and the new bytes. A *number* has 7 bits a byte, the lowest first; the highest bit says
//! that another byte follows, of at most three. A difference of distances is doubled, and that of a
//! smaller one turned over (-1 is 1, 1 is 2). The distance that was used becomes the first that is
//! remembered; a new one drops the last.
//!
//! Behind the last command the block is copied from the last distance to its end. So a block with
//! nothing new has no commands, and one with four new bytes in the middle takes six bytes.

mod decode;
mod distances;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{apply, decode};
pub use encode::{MovesTable, encode};

/// How many bytes a delta has at most, of blocks of `block_bytes`.
#[must_use]
pub const fn bound(block_bytes: usize) -> usize {
    // A copy takes no more than it saves, except for the longer count of many new bytes before it.
    block_bytes.saturating_add(block_bytes / 128).saturating_add(16)
}
