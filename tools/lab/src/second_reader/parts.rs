//! What the second reader finds in a span, piece by piece, and the checks over it.

use core::fmt;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::blocks::Block;
use super::layout::BOOK;

/// What a block shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Is(Block),
    /// Discarded, and not written since.
    Undefined,
    /// A payload does not apply.
    Unreadable,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Where tests make a difference.
            Self::Is(block) => write!(f, "{:02x}{:02x}{:02x}", block[0], block[3], block[40]),
            Self::Undefined => f.write_str("?"),
            Self::Unreadable => f.write_str("unreadable"),
        }
    }
}

/// Why there is no journal to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    NotAJournal,
    Corrupt,
    Unfinished,
    Version(u32),
    Features(u64),
    Geometry,
    /// It belongs to another policy or device, or has more lanes than there is room for.
    Partners,
    Rot {
        lane: u16,
        sequence: u64,
    },
    SuperblockLost,
    Exhausted,
    /// An entry that cannot be, or that is torn and of no frame.
    RottenEntry {
        slot: u64,
    },
    /// The slot of a folded version.
    RottenSlot,
    /// A line is missing that may have been acknowledged.
    Missing,
}

/// What the journal is opened with.
pub struct Partners {
    pub policy: u32,
    pub lanes_max: u16,
    pub slots_max: u64,
    pub blocks: u64,
}

/// A frame of a part that was found valid.
#[derive(Clone, Debug)]
pub struct Frame {
    pub block: u64,
    pub form: u64,
    pub payload: Vec<u8>,
}

/// A valid header, with its names and its note.
#[derive(Clone, Debug)]
pub struct Header {
    pub bytes: Vec<u8>,
    pub names: Vec<(u64, u64)>,
    pub note: Option<[u64; 2]>,
}

impl Header {
    pub fn field(&self, name: &str) -> u64 {
        BOOK.header.number(&self.bytes, name)
    }
}

#[derive(Clone, Debug)]
pub struct Part {
    pub at: u64,
    pub total: u64,
    pub front: u64,
    pub header: Header,
    pub frames: Vec<Frame>,
    pub stamps: Vec<u64>,
    pub check: u64,
}

#[derive(Clone, Debug)]
pub struct Record {
    pub parts: Vec<Part>,
}

impl Record {
    pub fn field(&self, name: &str) -> u64 {
        self.parts[0].header.field(name)
    }

    pub fn end(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.at + part.total)
    }
}

#[derive(Clone, Debug)]
pub struct Lane {
    /// Where it begins in the span.
    pub start: u64,
    pub bytes: u64,
    pub note: Vec<u8>,
    pub records: Vec<Record>,
}

static TABLE: LazyLock<[u64; 256]> =
    LazyLock::new(|| table(0xAD93_D235_94C9_3659_u64.reverse_bits()));

/// The check of each byte, bit by bit.
fn table(polynomial: u64) -> [u64; 256] {
    core::array::from_fn(|byte| {
        (0..8).fold(byte as u64, |sum, _| (sum >> 1) ^ (polynomial & (sum & 1).wrapping_neg()))
    })
}

pub fn crc64(seed: u64, bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum >> 8) ^ TABLE[usize::from(sum as u8 ^ byte)];
    !bytes.iter().fold(!seed, step)
}

/// The small check of a header with its names.
pub fn small_check(id: &[u8], evidence: &[u8]) -> u64 {
    let check = BOOK.header.field("check");
    let mut evidence = evidence.to_vec();
    evidence[check.at..check.at + check.len].fill(0);
    crc64(record_seed(id), &evidence) & u64::from(u32::MAX)
}

/// Section 1: `C(kind)`.
fn seed(id: &[u8], kind: u64) -> u64 {
    let number = |number: u64| u32::try_from(number).expect("small").to_le_bytes();
    crc64(0, &[id, &number(BOOK.version), &number(kind)].concat())
}

/// Of headers, and of the first parts of records and intents.
pub fn record_seed(id: &[u8]) -> u64 {
    seed(id, BOOK.record_check)
}

/// The check of the first 24 bytes of an entry.
pub fn entry_seed(id: &[u8], slot: u64) -> u64 {
    seed(id, BOOK.entry_check) ^ slot
}

/// The check of what a slot holds, or a block of the log.
pub fn content_check(id: &[u8], slot: u64, content: &[u8]) -> u64 {
    crc64(seed(id, BOOK.content_check) ^ slot, content)
}

/// Section 4: the word that says where a lane ends.
pub fn tail_word(id: &[u8], lane: u64, to: u64) -> u64 {
    let check = crc64(seed(id, BOOK.tail_word_check) ^ lane, &to.to_le_bytes());
    ((to / BOOK.line as u64) % (1 << 40)) | (check << 40)
}

/// Where a lane ends by its word.
pub fn end_of_lane(id: &[u8], lane: u64, word: u64, head: u64, bytes: u64) -> Option<u64> {
    let ends = (head..=head.saturating_add(bytes)).step_by(BOOK.line);
    ends.into_iter().find(|end| tail_word(id, lane, *end) == word)
}

/// Bytes that may be missing.
pub struct Medium<'a> {
    pub bytes: &'a [u8],
    pub poisoned: &'a BTreeSet<usize>,
}

impl Medium<'_> {
    pub fn read(&self, at: u64, len: u64) -> Option<&[u8]> {
        let end = at.checked_add(len).filter(|end| *end <= self.bytes.len() as u64)?;
        let (at, end) = (usize::try_from(at).ok()?, usize::try_from(end).ok()?);
        let mut lines = self.poisoned.range(at / BOOK.line * BOOK.line..end);
        lines.next().is_none().then(|| &self.bytes[at..end])
    }
}

/// What a policy makes of a payload; `false` if nothing.
pub type Apply<'a> = &'a dyn Fn(&[u8], &mut [u8]) -> bool;
