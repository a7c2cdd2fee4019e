//! The blocks of the directory: how each is made, and how each is checked and read.
//!
//! All numbers are little-endian. Every block begins with a checksum of the rest of it, whose seed
//! is the block's own number: a block that lies at another block's place is no valid one.
//!
//! | kind | at | what |
//! |---|---|---|
//! | all | 0 | checksum, 8 bytes |
//! | all | 8 | kind, 1 byte |
//! | all | 9 | length of the name, 1 byte (a head), else zero |
//! | all | 10 | number of extents, 2 bytes (a head, a further node), else zero |
//! | all | 16 | length of the file, 8 bytes (a head), else zero |
//! | all | 24 | the next block of the same chain, 8 bytes; zero: none |
//! | the header | 32 | magic, version, block size, number of blocks: 8, 4, 4 and 8 bytes |
//! | a list | 32 | slots of 8 bytes: the block of a file's head; zero: free |
//! | a head | 32 | the name, in room for the longest; then extents |
//! | a further node | 32 | extents of 24 bytes: block of the file, block of the store, count |

use journal_core::check::crc64;

use crate::error::{Damage, DamageKind, Error};

/// The block of the header.
pub(crate) const HEADER: u64 = 0;
/// The first block of the list of files.
pub(crate) const FIRST_LIST: u64 = 1;
/// The smallest block that the format has room in.
pub(crate) const BLOCK_BYTES_MIN: usize = 128;
/// The longest file: the system's own files are no longer.
pub(crate) const LEN_MAX: u64 = i64::MAX as u64;

const MAGIC: [u8; 8] = *b"NVJFILES";
const VERSION: u32 = 1;
const FRONT_BYTES: usize = 32;
const EXTENT_BYTES: usize = 24;

/// What a block of the directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Header,
    List,
    Head,
    More,
}

impl Kind {
    const fn raw(self) -> u8 {
        match self {
            Self::Header => 1,
            Self::List => 2,
            Self::Head => 3,
            Self::More => 4,
        }
    }
}

/// Consecutive blocks of a file that are consecutive blocks of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first block, of the file.
    pub(crate) file: u64,
    /// The first block, of the store.
    pub(crate) store: u64,
    /// How many there are.
    pub(crate) count: u64,
}

/// What the size of a store's blocks makes of the format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) block_bytes: usize,
    pub(crate) blocks: u64,
}

/// A node of a file as the medium has it.
#[derive(Debug)]
pub(crate) struct NodeRead {
    /// Name and length, in a head.
    pub(crate) head: Option<(String, u64)>,
    pub(crate) next: Option<u64>,
    pub(crate) runs: Vec<Run>,
}

fn bytes_at<const N: usize>(image: &[u8], at: usize) -> [u8; N] {
    let bytes = image.get(at..).and_then(|rest| rest.first_chunk::<N>());
    bytes.copied().unwrap_or([0; N])
}

fn word_at(image: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(image, at))
}

fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    let end = at.saturating_add(bytes.len());
    if let Some(place) = image.get_mut(at..end) {
        place.copy_from_slice(bytes);
    }
}

fn check_of(block: u64, image: &[u8]) -> u64 {
    crc64(block, image.get(8..).unwrap_or_default())
}

impl Layout {
    pub(crate) fn new(block_bytes: usize, blocks: u64) -> Result<Self, Error> {
        if block_bytes < BLOCK_BYTES_MIN || blocks <= FIRST_LIST {
            return Err(Error::StoreTooSmall { block_bytes, blocks });
        }
        Ok(Self { block_bytes, blocks })
    }

    /// A block's length as a number of bytes in a file.
    pub(crate) const fn block(&self) -> u64 {
        self.block_bytes as u64
    }

    /// The most bytes that a name has.
    pub(crate) const fn name_max(&self) -> usize {
        let quarter = self.block_bytes / 4;
        if quarter < 255 { quarter } else { 255 }
    }

    /// The room of the longest name, in words.
    const fn name_room(&self) -> usize {
        self.name_max().next_multiple_of(8)
    }

    pub(crate) const fn slots(&self) -> usize {
        self.block_bytes.saturating_sub(FRONT_BYTES) / 8
    }

    /// How many extents a node has room for.
    pub(crate) const fn runs(&self, is_head: bool) -> usize {
        let name = if is_head { self.name_room() } else { 0 };
        self.block_bytes.saturating_sub(FRONT_BYTES).saturating_sub(name) / EXTENT_BYTES
    }

    pub(crate) fn check_name(&self, name: &str) -> Result<(), Error> {
        let (bytes, most) = (name.len(), self.name_max());
        if bytes == 0 || bytes > most || name.as_bytes().contains(&0) {
            return Err(Error::BadName { bytes, most });
        }
        Ok(())
    }

    fn image(&self, kind: Kind, next: Option<u64>) -> Vec<u8> {
        let mut image = vec![0; self.block_bytes];
        put(&mut image, 8, &[kind.raw()]);
        put(&mut image, 24, &next.unwrap_or(0).to_le_bytes());
        image
    }

    pub(crate) fn header(&self) -> Vec<u8> {
        let mut image = self.image(Kind::Header, None);
        put(&mut image, 32, &MAGIC);
        put(&mut image, 40, &VERSION.to_le_bytes());
        put(&mut image, 44, &(self.block_bytes as u32).to_le_bytes());
        put(&mut image, 48, &self.blocks.to_le_bytes());
        sealed(HEADER, image)
    }

    pub(crate) fn list(&self, block: u64, next: Option<u64>, slots: &[u64]) -> Vec<u8> {
        let mut image = self.image(Kind::List, next);
        for (at, slot) in (FRONT_BYTES..).step_by(8).zip(slots) {
            put(&mut image, at, &slot.to_le_bytes());
        }
        sealed(block, image)
    }

    /// A node of a file; a head with its name and length.
    pub(crate) fn node(
        &self,
        block: u64,
        head: Option<(&str, u64)>,
        next: Option<u64>,
        runs: impl Iterator<Item = Run>,
    ) -> Vec<u8> {
        let kind = if head.is_some() { Kind::Head } else { Kind::More };
        let mut image = self.image(kind, next);
        let mut at = FRONT_BYTES;
        if let Some((name, len)) = head {
            put(&mut image, 9, &[name.len() as u8]);
            put(&mut image, 16, &len.to_le_bytes());
            put(&mut image, FRONT_BYTES, name.as_bytes());
            at = at.saturating_add(self.name_room());
        }
        let mut count = 0_u16;
        for run in runs {
            for word in [run.file, run.store, run.count] {
                put(&mut image, at, &word.to_le_bytes());
                at = at.saturating_add(8);
            }
            count = count.saturating_add(1);
        }
        put(&mut image, 10, &count.to_le_bytes());
        sealed(block, image)
    }

    /// Checks what every block of the directory has; returns the next block of its chain.
    fn open(&self, block: u64, image: &[u8], kind: Kind) -> Result<Option<u64>, Damage> {
        if word_at(image, 0) != check_of(block, image) {
            return Err(Damage::new(block, DamageKind::Check));
        }
        let [found] = bytes_at(image, 8);
        if found != kind.raw() {
            return Err(Damage::new(block, DamageKind::Kind(found)));
        }
        let next = word_at(image, 24);
        (next != 0).then(|| self.check_block(block, next)).transpose()
    }

    /// Checks that the store has a block that another one names.
    fn check_block(&self, by: u64, named: u64) -> Result<u64, Damage> {
        let is_there = named > FIRST_LIST && named < self.blocks;
        let kind = DamageKind::OutOfStore(nvm_journal::BlockNumber(named));
        if is_there { Ok(named) } else { Err(Damage::new(by, kind)) }
    }

    pub(crate) fn read_header(&self, image: &[u8]) -> Result<(), Error> {
        if bytes_at(image, 32) != MAGIC {
            return Err(Error::NotFormatted);
        }
        let damaged = |kind| Err(Error::Damaged(Damage::new(HEADER, kind)));
        let _next = self.open(HEADER, image, Kind::Header).map_err(Error::Damaged)?;
        let version = u32::from_le_bytes(bytes_at(image, 40));
        if version != VERSION {
            return damaged(DamageKind::Version(version));
        }
        let block_bytes = u32::from_le_bytes(bytes_at(image, 44));
        if block_bytes as usize != self.block_bytes {
            return damaged(DamageKind::OtherStore);
        }
        let (found, given) = (word_at(image, 48), self.blocks);
        if found != given {
            return Err(Error::OtherSize { found, given });
        }
        Ok(())
    }

    pub(crate) fn read_list(
        &self,
        block: u64,
        image: &[u8],
    ) -> Result<(Option<u64>, Vec<u64>), Damage> {
        let next = self.open(block, image, Kind::List)?;
        let places = (FRONT_BYTES..).step_by(8).take(self.slots());
        let slot = |at| match word_at(image, at) {
            0 => Ok(0),
            head => self.check_block(block, head),
        };
        Ok((next, places.map(slot).collect::<Result<_, _>>()?))
    }

    pub(crate) fn read_node(
        &self,
        block: u64,
        image: &[u8],
        is_head: bool,
    ) -> Result<NodeRead, Damage> {
        let kind = if is_head { Kind::Head } else { Kind::More };
        let next = self.open(block, image, kind)?;
        let damaged = |kind| Err(Damage::new(block, kind));
        let (mut head, mut at) = (None, FRONT_BYTES);
        if is_head {
            let [bytes] = bytes_at(image, 9);
            let end = FRONT_BYTES.saturating_add(usize::from(bytes));
            let name = image.get(FRONT_BYTES..end).unwrap_or_default();
            let name = core::str::from_utf8(name).ok().map(str::to_owned);
            let Some(name) = name.filter(|name| self.check_name(name).is_ok()) else {
                return damaged(DamageKind::Name);
            };
            let len = word_at(image, 16);
            if len > LEN_MAX {
                return damaged(DamageKind::Length(len));
            }
            head = Some((name, len));
            at = at.saturating_add(self.name_room());
        }
        let count = usize::from(u16::from_le_bytes(bytes_at(image, 10)));
        if count > self.runs(is_head) {
            return damaged(DamageKind::Count(count as u64));
        }
        let mut runs = Vec::with_capacity(count);
        for at in (at..).step_by(EXTENT_BYTES).take(count) {
            let word = |word: usize| word_at(image, at.saturating_add(word.saturating_mul(8)));
            let run = Run { file: word(0), store: word(1), count: word(2) };
            let last = run.count.checked_sub(1).and_then(|more| run.store.checked_add(more));
            let Some(last) = last else {
                return damaged(DamageKind::Count(run.count));
            };
            self.check_block(block, run.store)?;
            self.check_block(block, last)?;
            if run.file.checked_add(run.count).is_none_or(|end| end > LEN_MAX) {
                return damaged(DamageKind::BehindEnd { file_block: run.file });
            }
            runs.push(run);
        }
        Ok(NodeRead { head, next, runs })
    }
}

fn sealed(block: u64, mut image: Vec<u8>) -> Vec<u8> {
    let check = check_of(block, &image);
    put(&mut image, 0, &check.to_le_bytes());
    image
}
