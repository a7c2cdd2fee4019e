//! The codec of `minilzo-rs` behind the signatures of `policy_codec::lzo`, for users who want
//! exactly that implementation and accept its licence: whatever links this crate is under the GPL,
//! version 3 or later. Its tests let each of the two codecs read what the other wrote.
//!
//! Only the decoder that checks is called, never the one that does not. It says nothing of the
//! length it made, so a stream is decoded a second time, with room for one byte less, to tell one
//! that is too short. Both ways allocate.

#![forbid(unsafe_code)]

use core::fmt;

use journal_core::policy::NoRoom;
use minilzo_rs::{Error, LZO};
use policy_codec::DecodeError;

#[cfg(test)]
mod tests;

/// The working memory of the encoder.
pub struct LzoTable {
    lzo: LZO,
}

impl LzoTable {
    /// Working memory; `None` where the library finds itself built wrongly.
    #[must_use]
    pub fn new() -> Option<Self> {
        LZO::init().ok().map(|lzo| Self { lzo })
    }
}

impl fmt::Debug for LzoTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LzoTable").finish_non_exhaustive()
    }
}

/// Writes `input` as a stream into `out`, and says how many bytes that is.
///
/// # Errors
/// [`NoRoom`], for room or because the library has no memory.
pub fn encode(input: &[u8], table: &mut LzoTable, out: &mut [u8]) -> Result<usize, NoRoom> {
    let stream = table.lzo.compress(input).map_err(|_| NoRoom)?;
    out.get_mut(..stream.len()).ok_or(NoRoom)?.copy_from_slice(&stream);
    Ok(stream.len())
}

/// Reads `stream` into `out`, all of which it has to fill.
///
/// # Errors
/// [`DecodeError`]. The library does not say where in the stream, so that places are the start;
/// nor how much a stream made that is too short, so that it is the most it can be.
pub fn decode(stream: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    let lzo = LZO::init().map_err(|_| DecodeError::Unknown { at: 0 })?;
    let output = lzo.decompress_safe(stream, out.len()).map_err(|error| error_of(&error))?;
    let output = output.get(..out.len()).ok_or(DecodeError::TooShort { made: output.len() })?;
    if let Some(less) = out.len().checked_sub(1) {
        if lzo.decompress_safe(stream, less).is_ok() {
            return Err(DecodeError::TooShort { made: less });
        }
    }
    out.copy_from_slice(output);
    Ok(())
}

fn error_of(error: &Error) -> DecodeError {
    match error {
        Error::InputOverrun | Error::EOFNotFound => DecodeError::CutOff { at: 0 },
        Error::OutputOverrun => DecodeError::TooLong { at: 0 },
        Error::LookbehindOverrun => DecodeError::NoSource { at: 0 },
        Error::InputNotConsumed => DecodeError::Trailing { at: 0 },
        _ => DecodeError::Unknown { at: 0 },
    }
}
