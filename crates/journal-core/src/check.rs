//! Checksums over on-media bytes.
//!
//! CRC-32 (the IEEE polynomial) guards short headers. With the crate feature `std` the processor's
//! carry-less multiply is found at run time; without it a table is used, about 30 times slower.

/// The CRC-32 of `bytes`, continuing from `seed` (the check of what came before, or zero).
///
/// ```
/// use journal_core::check::crc32;
/// assert_eq!(crc32(0, b"123456789"), 0xCBF4_3926);
/// assert_eq!(crc32(crc32(0, b"1234"), b"56789"), 0xCBF4_3926);
/// ```
#[must_use]
#[inline]
pub fn crc32(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}
