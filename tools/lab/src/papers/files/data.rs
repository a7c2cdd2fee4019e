//! What files hold: images that are made from a number.

use sim_disk::time::Generator;

use crate::papers::BLOCK;

const MAGIC: u64 = 0x6461_7461_6F66_6673;

/// Images of file data, by block and version.
#[derive(Clone, Copy, Debug)]
pub struct FileData;

impl FileData {
    /// The image of a version of a block, of which the first `differs` bytes belong to the version
    /// and the others to the block. No coder makes it shorter, and no word of it is in another
    /// version or at another place.
    fn put(block: u64, version: u64, differs: usize, into: &mut [u8]) {
        let (changed, kept) = into.split_at_mut(differs);
        for (part, version) in [(changed, version), (kept, 0)] {
            let mut words = part.chunks_exact_mut(8);
            let mut at = 0;
            words.by_ref().for_each(|to| {
                to.copy_from_slice(&Self::word(block, version, at).to_le_bytes());
                at += 1;
            });
            let rest = words.into_remainder();
            let len = rest.len();
            rest.copy_from_slice(&Self::word(block, version, at).to_le_bytes()[..len]);
        }
    }

    const fn word(block: u64, version: u64, at: u64) -> u64 {
        let mixed = block.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ version.wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
            ^ (at + 1).wrapping_mul(0xD1B5_4A32_D192_ED03);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^ (mixed >> 29)
    }

    /// An image that differs from the one before in its first `differs` bytes. It is marked where
    /// that is all of it.
    pub fn put_differing(block: u64, version: u64, differs: usize, into: &mut [u8]) {
        match differs {
            BLOCK => Self::put_marked(block, version, into),
            _ => Self::put(block, version, differs, into),
        }
    }

    /// The image of a version that is marked: a disk keeps such an image as its number.
    pub fn put_marked(block: u64, version: u64, into: &mut [u8]) {
        Self::put(block, version, BLOCK, into);
        into[..8].copy_from_slice(&(MAGIC ^ block).to_le_bytes());
        into[8..16].copy_from_slice(&version.to_le_bytes());
    }
}

impl Generator for FileData {
    fn version_of(&self, block: u64, bytes: &[u8]) -> Option<u64> {
        let number = |at: usize| {
            let word = bytes.get(at..at + 8)?;
            Some(u64::from_le_bytes(word.try_into().ok()?))
        };
        if number(0)? != MAGIC ^ block {
            return None;
        }
        let version = number(8)?;
        let mut image = [0; BLOCK];
        Self::put_marked(block, version, &mut image);
        (image[..] == *bytes).then_some(version)
    }

    fn image(&self, block: u64, version: u64, into: &mut [u8]) {
        Self::put_marked(block, version, into);
    }
}
