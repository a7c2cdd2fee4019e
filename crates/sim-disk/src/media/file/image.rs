//! The content of a simulated file: sparse, so that its length costs nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest that a file can be, as on Linux.
pub const FILE_LEN_MAX: u64 = i64::MAX as u64;

/// Bytes of a page of the page cache. Pages never written are zero and take no memory.
pub const FILE_PAGE_BYTES: usize = 4096;

const PAGE: u64 = FILE_PAGE_BYTES as u64;

/// Bytes of a write that a power loss keeps or loses as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TornBy {
    /// Each byte by itself: weaker than any hardware.
    Byte,
    /// The bytes of a write that lie in one sector of 512: true of every disk.
    #[default]
    Sector,
    /// The bytes of a write that lie in one page of 4096.
    Page,
}

impl TornBy {
    /// How many bytes lie between two places at which a write can be torn.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Sector => 512,
            Self::Page => FILE_PAGE_BYTES,
        }
    }
}

/// What a crash leaves where a write made the file longer and its bytes did not arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unwritten {
    /// Zeroes.
    #[default]
    Zeroes,
    /// Zeroes or garbage, sector by sector: what the blocks held before they were the file's.
    Garbage,
}

/// What a crash may do to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FileFacts {
    /// Where a write can be torn.
    pub torn_by: TornBy,
    /// What lies where bytes did not arrive.
    pub unwritten: Unwritten,
}

impl FileFacts {
    /// The facts with these values.
    #[must_use]
    pub const fn new(torn_by: TornBy, unwritten: Unwritten) -> Self {
        Self { torn_by, unwritten }
    }

    /// The weakest file: torn by byte, with garbage.
    #[must_use]
    pub const fn cautious() -> Self {
        Self::new(TornBy::Byte, Unwritten::Garbage)
    }
}

/// The content of one simulated file. Bytes behind its length do not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileImage {
    facts: FileFacts,
    len: u64,
    pages: BTreeMap<u64, Arc<[u8]>>,
}

impl FileImage {
    /// A file of no bytes.
    #[must_use]
    pub const fn empty(facts: FileFacts) -> Self {
        Self { facts, len: 0, pages: BTreeMap::new() }
    }

    /// A file of these bytes.
    #[must_use]
    pub fn with_content(facts: FileFacts, content: &[u8]) -> Self {
        let mut file = Self::empty(facts);
        file.write(0, content);
        file
    }

    /// What a crash may do to it.
    #[must_use]
    pub const fn facts(&self) -> FileFacts {
        self.facts
    }

    /// How long it is.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads from `at` on: as many bytes as `into` takes and the file has, and how many they were.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> usize {
        let left = self.len.saturating_sub(at);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        self.fill(at, &mut into[..count]);
        count
    }

    /// Reads a range, with zeroes for what lies behind the end.
    pub(crate) fn fill(&self, at: u64, into: &mut [u8]) {
        into.fill(0);
        if into.is_empty() {
            return;
        }
        let last = at.saturating_add(into.len() as u64 - 1);
        for (number, content) in self.pages.range(at / PAGE..=last / PAGE) {
            let page = number * PAGE;
            let (from, to) = (at.max(page), last.min(page + (PAGE - 1)));
            let count = (to - from + 1) as usize;
            let (there, here) = ((from - page) as usize, (from - at) as usize);
            into[here..here + count].copy_from_slice(&content[there..there + count]);
        }
    }

    /// A range, with zeroes for what lies behind the end.
    pub(crate) fn part(&self, at: u64, len: usize) -> Vec<u8> {
        let mut part = vec![0; len];
        self.fill(at, &mut part);
        part
    }

    /// Sets the length: bytes behind it are gone, and new ones are zero.
    ///
    /// # Panics
    /// When `len` passes [`FILE_LEN_MAX`].
    pub fn set_len(&mut self, len: u64) {
        assert!(len <= FILE_LEN_MAX, "a file of {len} bytes");
        if len < self.len {
            let inside = (len % PAGE) as usize;
            drop(self.pages.split_off(&len.div_ceil(PAGE)));
            if let Some(last) = self.pages.get_mut(&(len / PAGE)) {
                let mut content = last.to_vec();
                content[inside..].fill(0);
                *last = content.into();
            }
        }
        self.len = len;
    }

    /// Writes bytes, and makes the file longer where they need it.
    ///
    /// # Panics
    /// When the range passes [`FILE_LEN_MAX`].
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = at.saturating_add(bytes.len() as u64);
        self.set_len(self.len.max(end));
        self.patch(at, bytes);
    }

    /// Writes what of `bytes` lies inside the file.
    pub(crate) fn patch(&mut self, at: u64, bytes: &[u8]) {
        let left = usize::try_from(self.len.saturating_sub(at)).unwrap_or(usize::MAX);
        let (mut at, mut rest) = (at, &bytes[..left.min(bytes.len())]);
        while !rest.is_empty() {
            let inside = (at % PAGE) as usize;
            let (here, behind) = rest.split_at(rest.len().min(FILE_PAGE_BYTES - inside));
            let known = self.pages.get(&(at / PAGE));
            let mut content = known.map_or_else(|| vec![0; FILE_PAGE_BYTES], |page| page.to_vec());
            content[inside..inside + here.len()].copy_from_slice(here);
            self.pages.insert(at / PAGE, content.into());
            at += here.len() as u64;
            rest = behind;
        }
    }

    /// The pages that were written, with the place of each.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pages.iter().map(|(number, content)| (number * PAGE, &**content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_the_end_is_gone_for_good() {
        let mut file = FileImage::with_content(FileFacts::default(), &[7; 5000]);
        file.set_len(4097);
        file.set_len(3);
        file.set_len(5000);
        let mut content = vec![1; 6000];
        assert_eq!(file.read_at(0, &mut content), 5000);
        assert_eq!(&content[..4], &[7, 7, 7, 0]);
        assert!(content[4..5000].iter().all(|byte| *byte == 0));
        assert_eq!(file.read_at(4999, &mut content), 1);
        assert_eq!(file.read_at(5000, &mut content), 0);
        assert_eq!(file.read_at(u64::MAX, &mut content), 0);
    }

    #[test]
    fn a_length_costs_nothing() {
        let mut file = FileImage::empty(FileFacts::default());
        file.set_len(FILE_LEN_MAX);
        file.write(FILE_LEN_MAX - 5000, &[9; 5000]);
        assert_eq!((file.len(), file.pages().count()), (FILE_LEN_MAX, 2));
        assert_eq!(file.part(FILE_LEN_MAX - 5001, 3), [0, 9, 9]);
        file.set_len(1 << 40);
        assert_eq!(file.pages().count(), 0);
    }

    #[test]
    fn a_patch_ends_where_the_file_ends() {
        let mut file = FileImage::empty(FileFacts::default());
        file.set_len(10);
        file.patch(8, &[1; 8]);
        file.patch(30, &[1; 8]);
        file.set_len(100);
        assert_eq!(file.part(7, 5), [0, 1, 1, 0, 0]);
    }
}
