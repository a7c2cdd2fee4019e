//! What a timed disk holds: only what was written to it.

use core::fmt;
use std::collections::BTreeMap;

/// Makes the images of a workload again from a number.
///
/// A workload that fills gigabytes makes its images by a formula. A disk that knows the formula
/// keeps the number, and not the image.
pub trait Generator: Send + fmt::Debug {
    /// The version whose image of this block these bytes are, if they are one.
    fn version_of(&self, block: u64, bytes: &[u8]) -> Option<u64>;

    /// Makes the image of a version again.
    fn image(&self, block: u64, version: u64, into: &mut [u8]);
}

/// Blocks, of which those that hold nothing but zeroes take no memory.
#[derive(Debug)]
pub(crate) struct Content {
    zeroes: Box<[u8]>,
    blocks: BTreeMap<u64, Kept>,
    generator: Option<Box<dyn Generator>>,
}

#[derive(Debug)]
enum Kept {
    Whole(Box<[u8]>),
    Version(u64),
}

impl Content {
    pub(crate) fn new(block_bytes: usize) -> Self {
        let zeroes = vec![0; block_bytes].into();
        Self { zeroes, blocks: BTreeMap::new(), generator: None }
    }

    pub(crate) fn set_generator(&mut self, generator: Box<dyn Generator>) {
        self.generator = Some(generator);
    }

    /// Blocks that are kept as they are.
    pub(crate) fn whole_blocks(&self) -> usize {
        self.blocks.values().filter(|kept| matches!(kept, Kept::Whole(_))).count()
    }

    pub(crate) fn write(&mut self, first: u64, from: &[u8]) {
        for (block, bytes) in (first..).zip(from.chunks(self.zeroes.len())) {
            if *bytes == *self.zeroes {
                self.blocks.remove(&block);
                continue;
            }
            let version = self.generator.as_ref().and_then(|made| made.version_of(block, bytes));
            let kept = version.map_or_else(|| Kept::Whole(bytes.into()), Kept::Version);
            self.blocks.insert(block, kept);
        }
    }

    pub(crate) fn read(&self, first: u64, into: &mut [u8]) {
        for (block, into) in (first..).zip(into.chunks_mut(self.zeroes.len())) {
            match (self.blocks.get(&block), &self.generator) {
                (Some(Kept::Whole(bytes)), _) => into.copy_from_slice(bytes),
                (Some(Kept::Version(version)), Some(made)) => made.image(block, *version, into),
                _ => into.fill(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte of a block is its version.
    #[derive(Debug)]
    struct Even;

    impl Generator for Even {
        fn version_of(&self, _: u64, bytes: &[u8]) -> Option<u64> {
            bytes.iter().all(|byte| *byte == bytes[0]).then(|| u64::from(bytes[0]))
        }

        fn image(&self, _: u64, version: u64, into: &mut [u8]) {
            into.fill(version as u8);
        }
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        for generator in [false, true] {
            let mut content = Content::new(64);
            if generator {
                content.set_generator(Box::new(Even));
            }
            let mut blocks = [0; 4 * 64];
            blocks[64..128].fill(7);
            blocks[130] = 9;
            content.write(1 << 40, &blocks);
            let mut into = [1; 6 * 64];
            content.read((1 << 40) - 1, &mut into);
            assert_eq!(into[64..5 * 64], blocks);
            assert!(into[..64].iter().chain(&into[5 * 64..]).all(|byte| *byte == 0));
            assert_eq!(content.whole_blocks(), if generator { 1 } else { 2 });
            content.write((1 << 40) + 2, &[0; 64]);
            content.read((1 << 40) + 2, &mut into[..64]);
            assert_eq!(into[..64], [0; 64]);
        }
    }
}
