//! The envelope of a trace file: one zstd frame, with its content size and its checksum.
//!
//! The header is read here before the decoder sees it, because it says how much memory decoding may
//! take: a window up to 64 MiB, content up to 1 GiB. What exceeds that is refused unread.

use std::io::{self, Read};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// The largest window that a file may ask for.
pub const WINDOW_BYTES_MAX: u64 = 64 << 20;

/// The most that a file may hold. The longest trace known is an eighth of it.
pub const CONTENT_BYTES_MAX: u64 = 1 << 30;

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// Magic, descriptor, window, dictionary, content size.
const HEADER_BYTES_MAX: usize = 4 + 1 + 1 + 4 + 8;

/// What is wrong with an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadEnvelope {
    /// It does not begin like one.
    NotZstd,
    /// It breaks off in its header.
    Short,
    /// The header uses what nobody has defined yet.
    Reserved,
    /// It wants a dictionary.
    Dictionary,
    /// It does not say how long its content is.
    NoContentSize,
    /// Its content could not be checked.
    NoChecksum,
    /// It wants a larger window than is given.
    Window { bytes: u64 },
    /// It holds more than is read.
    Content { bytes: u64 },
    /// Its blocks cannot be decoded, or break off.
    Blocks,
    /// It holds less than it says, or more.
    WrongContentSize { said: u64 },
    /// The checksum is that of another content.
    WrongChecksum,
    /// Something follows it.
    Behind,
    /// The file cannot be read.
    Io(io::ErrorKind),
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EnvelopeHeader {
    /// Its own length.
    bytes: usize,
    content_bytes: u64,
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

impl EnvelopeHeader {
    fn parse(bytes: &[u8]) -> Result<Self, BadEnvelope> {
        if !bytes.starts_with(&MAGIC) {
            return Err(BadEnvelope::NotZstd);
        }
        let descriptor = *bytes.get(4).ok_or(BadEnvelope::Short)?;
        let single_segment = descriptor & 0x20 != 0;
        if descriptor & 0x08 != 0 {
            return Err(BadEnvelope::Reserved);
        }
        if descriptor & 3 != 0 {
            return Err(BadEnvelope::Dictionary);
        }
        if descriptor & 0x04 == 0 {
            return Err(BadEnvelope::NoChecksum);
        }
        let size_bytes = match (descriptor >> 6, single_segment) {
            (0, false) => return Err(BadEnvelope::NoContentSize),
            (0, true) => 1,
            (log, _) => 1 << log,
        };
        let at = if single_segment { 5 } else { 6 };
        let size = bytes.get(at..at + size_bytes).ok_or(BadEnvelope::Short)?;
        // The two-byte form begins where the one-byte form ends.
        let content_bytes =
            little_endian(size).saturating_add(if size_bytes == 2 { 256 } else { 0 });
        let window = match bytes.get(5).filter(|_| !single_segment) {
            Some(window) => {
                let base = 1_u64 << (10 + (window >> 3));
                base + base / 8 * u64::from(window & 7)
            }
            None => content_bytes,
        };
        if content_bytes > CONTENT_BYTES_MAX {
            return Err(BadEnvelope::Content { bytes: content_bytes });
        }
        if window > WINDOW_BYTES_MAX {
            return Err(BadEnvelope::Window { bytes: window });
        }
        Ok(Self { bytes: at + size_bytes, content_bytes })
    }
}

type Source<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// The content of an envelope, as it is decoded.
pub struct Envelope<R: Read> {
    decoder: StreamingDecoder<Source<R>, ruzstd::decoding::FrameDecoder>,
    said: u64,
    found: u64,
}

impl<R: Read> Envelope<R> {
    pub fn open(mut source: R) -> Result<Self, BadEnvelope> {
        let mut begin = Vec::with_capacity(HEADER_BYTES_MAX);
        let read = source.by_ref().take(HEADER_BYTES_MAX as u64).read_to_end(&mut begin);
        read.map_err(|error| BadEnvelope::Io(error.kind()))?;
        let header = EnvelopeHeader::parse(&begin)?;
        let source = io::Cursor::new(begin).chain(source);
        let decoder = StreamingDecoder::new_with_max_window_size(source, WINDOW_BYTES_MAX);
        let decoder = decoder.map_err(|_| BadEnvelope::Blocks)?;
        Ok(Self { decoder, said: header.content_bytes, found: 0 })
    }

    /// How long the content is said to be.
    pub const fn content_bytes(&self) -> u64 {
        self.said
    }

    /// Reads some of the content; nothing at its end.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, BadEnvelope> {
        let read = self.decoder.read(into).map_err(|_| BadEnvelope::Blocks)?;
        self.found += read as u64;
        if self.found > self.said {
            return Err(BadEnvelope::WrongContentSize { said: self.said });
        }
        Ok(read)
    }

    /// Checks what can be checked only behind the content.
    pub fn finish(mut self) -> Result<(), BadEnvelope> {
        if self.read(&mut [0])? != 0 || self.found != self.said {
            return Err(BadEnvelope::WrongContentSize { said: self.said });
        }
        let (said, found) = {
            let decoder = &self.decoder.decoder;
            (decoder.get_checksum_from_data(), decoder.get_calculated_checksum())
        };
        if said.is_none() || said != found {
            return Err(BadEnvelope::WrongChecksum);
        }
        match self.decoder.get_mut().read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(BadEnvelope::Behind),
            Err(error) => Err(BadEnvelope::Io(error.kind())),
        }
    }
}

/// Packs content into an envelope.
///
/// The encoder leaves the content size out; the header is written anew, with it.
pub fn pack(content: &[u8]) -> Vec<u8> {
    let packed = compress_to_vec(content, CompressionLevel::Fastest);
    let (descriptor, window) = (packed[4], packed[5]);
    assert_eq!(descriptor, 0x04, "a window, a checksum, no content size");
    let size = u32::try_from(content.len()).expect("a short trace");
    let mut envelope = MAGIC.to_vec();
    envelope.extend([descriptor | 2 << 6, window]);
    envelope.extend(size.to_le_bytes());
    envelope.extend(&packed[6..]);
    envelope
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_sizes_come_in_four_forms() {
        let parse = |descriptor: u8, rest: &[u8]| {
            EnvelopeHeader::parse(&[&MAGIC[..], &[descriptor | 4], rest].concat())
        };
        let header = |bytes, content_bytes| Ok(EnvelopeHeader { bytes, content_bytes });
        assert_eq!(parse(0x20, &[255]), header(6, 255));
        assert_eq!(parse(0x40, &[0, 1, 1]), header(8, 257 + 256));
        assert_eq!(parse(0x60, &[1, 1]), header(7, 257 + 256));
        assert_eq!(parse(0x80, &[0, 1, 0, 1, 0]), header(10, 65_537));
        assert_eq!(parse(0xC0, &[0, 1, 0, 1, 0, 0, 0, 0, 0]), header(14, 65_537));
        assert_eq!(parse(0xC0, &[0, 1, 0, 1, 0, 0, 0, 0]), Err(BadEnvelope::Short));
        // One segment is a window as long as the content.
        let bytes = WINDOW_BYTES_MAX + 1;
        let size = u32::try_from(bytes).expect("some megabytes").to_le_bytes();
        assert_eq!(parse(0xA0, &size), Err(BadEnvelope::Window { bytes }));
    }
}
