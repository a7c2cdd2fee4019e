//! Writing a trace, and a small one of our own making.
//!
//! The writer takes what it is given and checks nothing, so that tests can make traces with every
//! fault that the reader has to find.

use journal_core::BlockSize;
use sim_disk::Rng;

use crate::trace::envelope::pack;
use crate::trace::{MAGIC, State, VERSION, class, flag, tag};

/// The bytes of a trace that is being made.
#[derive(Clone, Debug)]
pub struct TraceWriter {
    pub content: Vec<u8>,
    transactions: u64,
    writes: u64,
}

impl TraceWriter {
    pub fn new(name: &str, block_size: BlockSize, device_blocks: u64) -> Self {
        let mut content = MAGIC.to_vec();
        content.extend(VERSION.to_le_bytes());
        let bytes = u32::try_from(block_size.bytes()).expect("a block size");
        content.extend(bytes.to_le_bytes());
        content.extend(device_blocks.to_le_bytes());
        content.extend(u16::try_from(name.len()).expect("a short name").to_le_bytes());
        content.extend(name.as_bytes());
        Self { content, transactions: 0, writes: 0 }
    }

    /// What a block holds before the first transaction; zeroes where there is no image.
    pub fn base(&mut self, block: u64, image: Option<&[u8]>) {
        self.content.push(if image.is_some() { tag::BASE } else { tag::ZERO_BASE });
        self.content.extend(block.to_le_bytes());
        self.content.extend(image.unwrap_or_default());
    }

    pub fn begin(&mut self, number: u64) {
        self.content.push(tag::BEGIN);
        self.content.extend(number.to_le_bytes());
    }

    /// The size of objects is what the class has.
    pub fn write(&mut self, block: u64, class: u8, flags: u8, image: &[u8]) {
        self.content.push(tag::WRITE);
        self.content.extend(block.to_le_bytes());
        self.content.push(class);
        self.content.extend(class::object_bytes(class).to_le_bytes());
        self.content.push(flags);
        self.content.extend(image);
        self.writes += 1;
    }

    pub fn commit(&mut self, number: u64) {
        self.content.push(tag::COMMIT);
        self.content.extend(number.to_le_bytes());
        self.transactions += 1;
    }

    /// The last record, with the counts and the sum of what was written.
    pub fn end(&mut self) {
        self.end_with(self.transactions, self.writes, 0);
    }

    /// The last record with other counts, and bits of the sum turned over.
    pub fn end_with(&mut self, transactions: u64, writes: u64, wrong: u32) {
        self.content.push(tag::END);
        self.content.extend(transactions.to_le_bytes());
        self.content.extend(writes.to_le_bytes());
        let sum = crc32fast::hash(&self.content) ^ wrong;
        self.content.extend(sum.to_le_bytes());
    }

    /// The file.
    pub fn into_file(self) -> Vec<u8> {
        pack(&self.content)
    }
}

/// The blocks of the sample: where each kind begins.
mod place {
    pub(super) const SUPERBLOCK: u64 = 0;
    pub(super) const DESCRIPTORS: u64 = 1;
    pub(super) const BITMAP: u64 = 2;
    pub(super) const INODES: u64 = 4;
    pub(super) const INODE_BLOCKS: u64 = 3;
    pub(super) const DIRECTORY: u64 = 8;
    pub(super) const FILES: u64 = 16;
    pub(super) const PAGE: u64 = 40;
    pub(super) const DEVICE: u64 = 64;
}

const SAMPLE_BLOCK: BlockSize = match BlockSize::new(512) {
    Some(size) => size,
    None => BlockSize::MIN,
};

const SAMPLE_TRANSACTIONS: u64 = 30;
/// A file block that was freed before the trace began, and holds what it held.
const STALE: u64 = place::FILES + 3;

/// A made-up file system at work: files grow, inodes and directories change a little, a bitmap and
/// a superblock are written unchanged now and then, and a page of a database moves its bytes.
pub struct Sample {
    rng: Rng,
    state: State,
    allocated: Vec<u64>,
    writer: TraceWriter,
}

impl Sample {
    /// The file, the same each time.
    pub fn file() -> Vec<u8> {
        let writer = TraceWriter::new("sample", SAMPLE_BLOCK, place::DEVICE);
        let mut sample =
            Self { rng: Rng::new(1), state: State::new(), allocated: Vec::new(), writer };
        sample.bases();
        for number in 1..=SAMPLE_TRANSACTIONS {
            // Numbers may have gaps.
            sample.transaction(number * 2 + number / 7);
        }
        sample.writer.end();
        sample.writer.into_file()
    }

    /// Text that begins somewhere in a line, which packs well.
    fn text(&mut self, bytes: usize) -> Vec<u8> {
        let line = b"A journal of the store: all of a transaction's blocks, or none of them.\n";
        let first = self.rng.index(line.len());
        line.iter().copied().cycle().skip(first).take(bytes).collect()
    }

    fn bases(&mut self) {
        let written = [place::SUPERBLOCK, place::DESCRIPTORS, place::DIRECTORY, STALE, place::PAGE];
        for block in 0..place::DEVICE {
            let is_file = (place::FILES..place::PAGE).contains(&block);
            if !is_file && block > place::DIRECTORY && block != place::PAGE {
                continue;
            }
            let image = if written.contains(&block) {
                self.text(SAMPLE_BLOCK.bytes())
            } else {
                vec![0; SAMPLE_BLOCK.bytes()]
            };
            self.writer.base(block, written.contains(&block).then_some(&image[..]));
            self.state.insert(block, image.into());
            if !is_file {
                self.allocated.push(block);
            }
        }
    }

    fn transaction(&mut self, number: u64) {
        self.writer.begin(number);
        // In no order: a file system has none either.
        if self.rng.chance(3, 4) {
            let inode = self.rng.below(place::INODE_BLOCKS);
            let at = self.rng.index(2) * 256;
            self.change(place::INODES + inode, class::INODES, at + 8, 12);
            self.change(place::DESCRIPTORS, class::GROUP_DESCRIPTORS, at, 4);
        }
        if self.rng.chance(1, 2) {
            let any = place::FILES + self.rng.below(place::PAGE - place::FILES);
            let takes_freed = number > 20 && !self.allocated.contains(&STALE);
            let block = if takes_freed { STALE } else { any };
            let len = [64, 300, 512][self.rng.index(3)];
            self.change(block, class::FILE_DATA, 512 - len, len);
            self.change(place::BITMAP, 3, (block / 8) as usize, 1);
        }
        if self.rng.chance(1, 3) {
            self.change(place::DIRECTORY, 6, 300, 24);
        }
        if self.rng.chance(1, 4) {
            self.shift_page();
        }
        // Always something; often nothing new.
        let len = usize::from(self.rng.chance(1, 3)) * 2;
        self.change(place::SUPERBLOCK, 1, 100, len);
        self.writer.commit(number);
    }

    /// Puts other bytes into a block.
    fn change(&mut self, block: u64, class: u8, at: usize, len: usize) {
        let mut image = self.state[&block].to_vec();
        let bytes = self.text(len);
        image[at..at + len].copy_from_slice(&bytes);
        self.write(block, class, image);
    }

    /// Moves what is in the page by some bytes, as a cell that grows does.
    fn shift_page(&mut self) {
        let mut image = self.state[&place::PAGE].to_vec();
        let by = 1 + self.rng.index(40);
        image[200..].rotate_right(by);
        let bytes = self.text(by);
        image[200..200 + by].copy_from_slice(&bytes);
        self.write(place::PAGE, 17, image);
    }

    fn write(&mut self, block: u64, class: u8, image: Vec<u8>) {
        let is_new = !self.allocated.contains(&block);
        let is_file = (place::FILES..place::PAGE).contains(&block);
        let mut flags = if is_file { flag::NEW_IN_TRACE } else { 0 };
        if is_new {
            flags |= flag::NEW;
            self.allocated.push(block);
        }
        if *image == *self.state[&block] {
            flags |= flag::SAME;
        }
        self.writer.write(block, class, flags, &image);
        self.state.insert(block, image.into());
    }
}
