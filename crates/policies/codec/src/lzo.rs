//! LZO1X: streams that every decoder of that format reads.
//!
//! Guarantees: [`decode`] undoes [`encode`] for every input of any length. Both take as many steps
//! as input and output have bytes, whatever those are, and touch nothing but the buffers they are
//! given. The stream depends on the input alone, not on what a table held before.
//!
//! # The format
//!
//! A stream is instructions. Each makes a copy, or takes bytes from the stream as they are,
//! *literals*. A copy is of `length` bytes from `distance` bytes before the end of what was made so
//! far. These may overlap with what is being made. A copy carries in two bits `S` how many
//! literals, 0 to 3, follow it directly.
//!
//! | first byte | then | is |
//! |---|---|---|
//! | `0000LLLL` behind no literals | | 3 + `L` literals; `L` = 0 is 15 and *more* |
//! | `0000DDSS` behind 1 to 3 literals | `H` | a copy of 2; distance `H` x 4 + `D` + 1 |
//! | `0000DDSS` behind more literals | `H` | a copy of 3; distance `H` x 4 + `D` + 2049 |
//! | `0001HLLL` | *more*, `DDDDDDSS` `D` | a copy of 2 + `L`; distance 16384 + `H` x 16384 + `D` |
//! | `001LLLLL` | *more*, `DDDDDDSS` `D` | a copy of 2 + `L`; distance `D` + 1 |
//! | `01LDDDSS` | `H` | a copy of 3 + `L`; distance `H` x 8 + `D` + 1 |
//! | `1LLDDDSS` | `H` | a copy of 5 + `L`; distance `H` x 8 + `D` + 1 |
//!
//! Where all bits of `L` are zero in the first, fourth and fifth row, they stand for their highest
//! value, and *more* is added. That is 255 for each zero byte that follows, and the byte behind
//! those. Two bytes `D` are little-endian. A stream may begin with a byte from 18 on, which is 17
//! more than the literals behind it. It ends with `17 0 0`, a copy from distance 16384 that is
//! none.
//!
//! This encoder makes no copies of 2 or 3 bytes. An empty input is the end alone.

mod decode;
mod encode;
mod limits;
#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::{LzoTable, encode, encode_once};

/// How many bytes a stream has at most, of an input of `input_bytes`.
#[must_use]
pub const fn bound(input_bytes: usize) -> usize {
    // All literals: what begins them, one byte more for each 255, and the end.
    input_bytes.saturating_add(input_bytes / 255).saturating_add(16)
}
