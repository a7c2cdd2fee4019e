//! The content of all media at one instant: what a power loss leaves and a boot finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use journal_core::units::{BlockNumber, BlockSize, LINE_BYTES, WORD_BYTES};
use journal_core::{DeviceFacts, Overwrite};

use crate::media::file::image::{FileFacts, FileImage};
use crate::media::rng::mix;

/// Which medium of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Medium {
    /// The span of persistent memory.
    Pmem,
    /// A disk, by number.
    Disk(u16),
    /// The bytes of a file, by number.
    File(u16),
    /// The length of a file, by number: one word.
    FileLength(u16),
}

/// The content of one simulated disk. Blocks never written are zero and take no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskImage {
    pub(crate) block_size: BlockSize,
    pub(crate) block_count: u64,
    pub(crate) facts: DeviceFacts,
    blocks: BTreeMap<u64, Arc<[u8]>>,
    /// Blocks that cannot be read until they are written again.
    pub(crate) bad: BTreeSet<u64>,
}

impl DiskImage {
    /// A disk of zeroes.
    ///
    /// # Panics
    /// When the atomic unit is neither a divisor nor a multiple of the block, or not a multiple of
    /// the word. There is no such device.
    #[must_use]
    pub fn blank(block_size: BlockSize, block_count: u64, facts: DeviceFacts) -> Self {
        let unit = facts.atomic_unit_bytes as usize;
        assert!(
            unit > 0
                && unit % WORD_BYTES == 0
                && (block_size.bytes() % unit == 0 || unit % block_size.bytes() == 0),
            "atomic unit of {unit} bytes does not fit blocks of {block_size}",
        );
        Self { block_size, block_count, facts, blocks: BTreeMap::new(), bad: BTreeSet::new() }
    }

    /// The size of every block.
    #[must_use]
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// How many blocks there are.
    #[must_use]
    pub const fn block_count(&self) -> u64 {
        self.block_count
    }

    /// What the device says of itself.
    #[must_use]
    pub const fn facts(&self) -> DeviceFacts {
        self.facts
    }

    /// Bytes that a power loss keeps or loses as one.
    pub(crate) fn unit_bytes(&self) -> usize {
        match self.facts.overwrite {
            Overwrite::NeverInPlace => self.block_size.bytes(),
            _ => self.block_size.bytes().min(self.facts.atomic_unit_bytes as usize),
        }
    }

    /// The content of a block.
    ///
    /// # Panics
    /// When the disk has no such block.
    #[must_use]
    pub fn block(&self, block: BlockNumber) -> Vec<u8> {
        let mut content = vec![0; self.block_size.bytes()];
        self.read(block, &mut content);
        content
    }

    /// Puts content into a block.
    ///
    /// # Panics
    /// When the disk has no such block, or `content` is not a block long.
    pub fn set_block(&mut self, block: BlockNumber, content: &[u8]) {
        assert!(block.raw() < self.block_count, "{block} outside a disk of {}", self.block_count);
        assert_eq!(content.len(), self.block_size.bytes(), "content is one block");
        self.blocks.insert(block.raw(), content.into());
    }

    /// A latent error: reading the block fails until it is written again.
    ///
    /// # Panics
    /// When the disk has no such block.
    pub fn spoil(&mut self, block: BlockNumber) {
        assert!(block.raw() < self.block_count, "{block} outside a disk of {}", self.block_count);
        self.bad.insert(block.raw());
    }

    pub(crate) fn read(&self, block: BlockNumber, into: &mut [u8]) {
        assert!(block.raw() < self.block_count, "{block} outside a disk of {}", self.block_count);
        match self.blocks.get(&block.raw()) {
            Some(content) => into.copy_from_slice(content),
            None => into.fill(0),
        }
    }

    /// Overwrites part of a block: `at` counts from the start of the disk.
    pub(crate) fn patch(&mut self, at: u64, bytes: &[u8]) {
        let size = self.block_size.bytes() as u64;
        let inside = usize::try_from(at % size).expect("smaller than a block");
        let mut content = self.block(BlockNumber(at / size));
        content[inside..inside + bytes.len()].copy_from_slice(bytes);
        self.blocks.insert(at / size, content.into());
        // Rewriting a sector ends a latent error of it.
        self.bad.remove(&(at / size));
    }

    /// A range of the disk: `at` counts from its start.
    pub(crate) fn part(&self, at: u64, len: usize) -> Vec<u8> {
        let size = self.block_size.bytes() as u64;
        let mut part = Vec::with_capacity(len);
        while part.len() < len {
            let at = at + part.len() as u64;
            let inside = usize::try_from(at % size).expect("smaller than a block");
            let here = (len - part.len()).min(self.block_size.bytes() - inside);
            match self.blocks.get(&(at / size)) {
                Some(content) => part.extend_from_slice(&content[inside..inside + here]),
                None => part.resize(part.len() + here, 0),
            }
        }
        part
    }
}

/// The content of all media of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub(crate) pmem: Vec<u8>,
    /// The first byte of each line that reports an uncorrectable error when it is read.
    pub(crate) poisoned: BTreeSet<u64>,
    pub(crate) disks: Vec<DiskImage>,
    files: Vec<FileImage>,
}

impl Image {
    /// A span of zeroes, no disk and no file.
    ///
    /// # Panics
    /// When `pmem_bytes` is not a multiple of the line.
    #[must_use]
    pub fn blank(pmem_bytes: usize) -> Self {
        Self::from_pmem(vec![0; pmem_bytes])
    }

    /// A span with this content, no disk and no file.
    ///
    /// # Panics
    /// When the length is not a multiple of the line.
    #[must_use]
    pub fn from_pmem(pmem: Vec<u8>) -> Self {
        assert_eq!(pmem.len() % LINE_BYTES, 0, "a span is made of whole lines");
        Self { pmem, poisoned: BTreeSet::new(), disks: Vec::new(), files: Vec::new() }
    }

    /// No memory, no disk, and empty files: all that a store needs that keeps its data in files.
    #[must_use]
    pub fn of_files(count: u16, facts: FileFacts) -> Self {
        (0..count).fold(Self::blank(0), |image, _| image.with_file(FileImage::empty(facts)))
    }

    /// This image with one more file; the first file is number 0.
    #[must_use]
    pub fn with_file(mut self, file: FileImage) -> Self {
        self.files.push(file);
        self
    }

    /// This image with one more disk; the first disk is number 0.
    #[must_use]
    pub fn with_disk(mut self, disk: DiskImage) -> Self {
        self.disks.push(disk);
        self
    }

    /// The persistent memory.
    #[must_use]
    pub fn pmem(&self) -> &[u8] {
        &self.pmem
    }

    /// The persistent memory, to prepare or damage it.
    pub fn pmem_mut(&mut self) -> &mut [u8] {
        &mut self.pmem
    }

    /// A disk.
    ///
    /// # Panics
    /// When there is no such disk.
    #[must_use]
    pub fn disk(&self, number: u16) -> &DiskImage {
        &self.disks[usize::from(number)]
    }

    /// A disk, to prepare or damage it.
    ///
    /// # Panics
    /// When there is no such disk.
    pub fn disk_mut(&mut self, number: u16) -> &mut DiskImage {
        &mut self.disks[usize::from(number)]
    }

    /// A file, if there is one of this number.
    #[must_use]
    pub fn file(&self, number: u16) -> Option<&FileImage> {
        self.files.get(usize::from(number))
    }

    /// A file, to prepare or damage it.
    pub fn file_mut(&mut self, number: u16) -> Option<&mut FileImage> {
        self.files.get_mut(usize::from(number))
    }

    /// All files, with their numbers.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u16, &FileImage)> {
        (0_u16..).zip(&self.files)
    }

    /// Bit rot: turns one bit over, unnoticed by the medium. `at` counts bytes from the start of
    /// the medium.
    ///
    /// # Panics
    /// When the medium has no such byte.
    pub fn flip_bit(&mut self, medium: Medium, at: u64, bit: u8) {
        let mut byte = self.part(medium, at, 1);
        byte[0] ^= 1 << (bit % 8);
        self.patch(medium, at, &byte);
    }

    /// Poisons the line that holds this byte of the persistent memory. A read of the line reports
    /// an error, in this world and after every later crash, until [`heal`](Self::heal).
    pub fn poison(&mut self, at: u64) {
        let line = LINE_BYTES as u64;
        self.poisoned.insert(at / line * line);
    }

    /// Ends all poison.
    pub fn heal(&mut self) {
        self.poisoned.clear();
    }

    /// Overwrites bytes of a medium.
    pub(crate) fn patch(&mut self, medium: Medium, at: u64, bytes: &[u8]) {
        match medium {
            Medium::Pmem => {
                let at = usize::try_from(at).expect("inside the span");
                self.pmem[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Medium::Disk(number) => self.disk_mut(number).patch(at, bytes),
            Medium::File(number) => {
                if let Some(file) = self.file_mut(number) {
                    file.patch(at, bytes);
                }
            }
            Medium::FileLength(number) => {
                let word = bytes.first_chunk().copied().unwrap_or_default();
                if let Some(file) = self.file_mut(number) {
                    file.set_len(u64::from_le_bytes(word));
                }
            }
        }
    }

    /// Bytes of a medium.
    pub(crate) fn part(&self, medium: Medium, at: u64, len: usize) -> Vec<u8> {
        match medium {
            Medium::Pmem => {
                let at = usize::try_from(at).expect("inside the span");
                self.pmem[at..at + len].to_vec()
            }
            Medium::Disk(number) => self.disk(number).part(at, len),
            Medium::File(number) => {
                self.file(number).map_or_else(|| vec![0; len], |file| file.part(at, len))
            }
            Medium::FileLength(number) => {
                self.file(number).map_or(0, FileImage::len).to_le_bytes().to_vec()
            }
        }
    }

    /// A fingerprint of all content. Equal images have equal fingerprints; different ones collide
    /// with a chance of 2^-128.
    #[must_use]
    pub fn fingerprint(&self) -> u128 {
        let mut sum = fingerprint(Medium::Pmem, 0, &self.pmem);
        for (number, disk) in (0_u16..).zip(&self.disks) {
            for (block, content) in &disk.blocks {
                let at = block * disk.block_size.bytes() as u64;
                sum ^= fingerprint(Medium::Disk(number), at, content);
            }
        }
        self.files().fold(sum, |sum, (number, file)| sum ^ fingerprint_of_file(number, file))
    }
}

/// The share that a file has in an image's fingerprint.
pub(crate) fn fingerprint_of_file(number: u16, file: &FileImage) -> u128 {
    let length = fingerprint(Medium::FileLength(number), 0, &file.len().to_le_bytes());
    let pages = file.pages().map(|(at, content)| fingerprint(Medium::File(number), at, content));
    pages.fold(length, |sum, page| sum ^ page)
}

/// The share that `bytes` at `at` have in an image's fingerprint.
///
/// An image's fingerprint is the XOR of its words' shares, and a zero word's share is zero. So a
/// change is accounted for by XORing the old share out and the new one in.
pub(crate) fn fingerprint(medium: Medium, at: u64, bytes: &[u8]) -> u128 {
    let tag = match medium {
        Medium::Pmem => 0,
        Medium::Disk(number) => (u64::from(number) + 1) << 48,
        // A file is long: no bits of a place are free.
        Medium::File(number) => mix(u64::from(number) << 1),
        Medium::FileLength(number) => mix(u64::from(number) << 1 | 1),
    };
    let mut sum = 0;
    for (word, at) in bytes.chunks_exact(WORD_BYTES).zip((at..).step_by(WORD_BYTES)) {
        let value = u64::from_le_bytes(word.try_into().expect("a word"));
        if value != 0 {
            let low = mix(value ^ mix(at ^ tag));
            let high = mix(low.rotate_left(32) ^ value.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ at);
            sum ^= u128::from(high) << 64 | u128::from(low);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_never_written_are_zero() {
        let mut disk =
            DiskImage::blank(BlockSize::MIN, 4, DeviceFacts::new(64, Overwrite::OldOrNew));
        assert_eq!(disk.block(BlockNumber(3)), [0; 64]);
        disk.set_block(BlockNumber(3), &[7; 64]);
        disk.patch(3 * 64 + 8, &[9; 8]);
        let mut expected = [7; 64];
        expected[8..16].fill(9);
        assert_eq!(disk.block(BlockNumber(3)), expected);
    }

    #[test]
    fn a_fingerprint_knows_the_place_of_every_word() {
        let mut image = Image::blank(128).with_disk(DiskImage::blank(
            BlockSize::MIN,
            2,
            DeviceFacts::cautious(),
        ));
        let blank = image.fingerprint();
        assert_eq!(blank, 0);
        let mut seen = std::collections::BTreeSet::from([blank]);
        for at in (0..128).step_by(8) {
            image.pmem_mut()[at] = 1;
            assert!(seen.insert(image.fingerprint()));
            image.pmem_mut()[at] = 0;
        }
        image.disk_mut(0).set_block(BlockNumber(1), &[1; 64]);
        assert!(seen.insert(image.fingerprint()));
        image.disk_mut(0).set_block(BlockNumber(1), &[0; 64]);
        assert_eq!(image.fingerprint(), blank);
    }
}
