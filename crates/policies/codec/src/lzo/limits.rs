//! What the copies of a stream reach, and how it ends.

/// The instruction that ends a stream.
pub(super) const END: [u8; 3] = [17, 0, 0];

/// The longest distance of a copy whose two bytes of distance hold all of it.
pub(super) const NEAR_MAX: usize = 0x4000;
/// The longest distance of a copy that begins with `01` or `1`.
pub(super) const SHORT_DISTANCE_MAX: usize = 0x800;
/// The longest such copy.
pub(super) const SHORT_LENGTH_MAX: usize = 8;
/// The longest distance of all.
pub(super) const DISTANCE_MAX: usize = 0xBFFF;
