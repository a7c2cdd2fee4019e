//! The versions of blocks that lie in slots: books that are kept beside the journal, of what it is
//! given and of what it is asked to give up.
//!
//! Nothing of the journal or of a policy is asked, so that what the journal says it has freed can
//! be compared with what it should have. The books are kept twice: of the frames that were written,
//! to know how many slots are in use, and with the images of the trace, for bounds.
//!
//! 1. A version goes to the place of the block's older one that was written last, or to a new one.
//!    In the disk-side log it always goes to a new one, and nothing goes to its place. What is
//!    encoded against a version needs it further.
//! 2. A fold keeps older versions only where an earlier fold has noted them, or what was in their
//!    place before them.
//! 3. Giving garbage back drops all older versions; writing a block home, all of it.

use std::collections::BTreeMap;

/// What the journal was asked to give up.
#[derive(Clone, Copy, Debug)]
pub enum GivenUp<'a> {
    /// Rings were folded, and their heads have passed everything.
    Folded,
    /// Garbage was given back.
    Superseded,
    /// These blocks are home.
    Home(&'a [u64]),
    /// Everything is home.
    All,
}

#[derive(Clone, Debug)]
struct Version<T> {
    content: T,
    /// In the disk-side log, not in a slot.
    is_logged: bool,
    is_folded: bool,
    /// Whether a fold has noted what was in its place before.
    is_over_folded: bool,
}

#[derive(Clone, Debug)]
struct Block<T> {
    /// Where it is in a slot.
    newest: Option<Version<T>>,
    older: Vec<Version<T>>,
}

/// The books; `T` is what is kept of a version.
#[derive(Clone, Debug)]
pub struct Versions<T> {
    blocks: BTreeMap<u64, Block<T>>,
    count: u64,
}

impl<T> Versions<T> {
    pub const fn new() -> Self {
        Self { blocks: BTreeMap::new(), count: 0 }
    }

    /// All of them: slots in use.
    pub const fn count(&self) -> u64 {
        self.count
    }

    pub fn has(&self, block: u64) -> bool {
        self.blocks.contains_key(&block)
    }

    fn block(&mut self, block: u64) -> &mut Block<T> {
        self.blocks.entry(block).or_insert(Block { newest: None, older: Vec::new() })
    }

    /// A version is written to a slot; returns the one whose place it takes, if it takes any.
    pub fn write(&mut self, block: u64, content: T) -> Option<T> {
        let versions = self.block(block);
        let place = versions.older.iter().rposition(|place| !place.is_logged);
        let replaced = place.map(|place| versions.older.remove(place));
        let is_over_folded =
            replaced.as_ref().is_some_and(|place| place.is_folded || place.is_over_folded);
        let version = Version { content, is_logged: false, is_folded: false, is_over_folded };
        let newest = versions.newest.replace(version);
        versions.older.extend(newest);
        self.count += u64::from(replaced.is_none());
        replaced.map(|version| version.content)
    }

    /// A version is written to the disk-side log.
    pub fn write_logged(&mut self, block: u64, content: T) {
        let versions = self.block(block);
        let version = Version { content, is_logged: true, is_folded: false, is_over_folded: false };
        let newest = versions.newest.replace(version);
        versions.older.extend(newest);
        self.count += 1;
    }

    /// A version is written elsewhere: those in slots are older.
    pub fn write_elsewhere(&mut self, block: u64) {
        if let Some(versions) = self.blocks.get_mut(&block) {
            versions.older.extend(versions.newest.take());
        }
    }

    /// Returns how many were given up.
    pub fn give_up(&mut self, what: GivenUp<'_>) -> u64 {
        match what {
            GivenUp::Folded => {
                for versions in self.blocks.values_mut() {
                    versions.older.retain(|place| place.is_folded || place.is_over_folded);
                    if let Some(newest) = &mut versions.newest {
                        (newest.is_folded, newest.is_over_folded) = (true, false);
                    }
                }
            }
            GivenUp::Superseded => {
                for versions in self.blocks.values_mut() {
                    versions.older.clear();
                    if let Some(newest) = &mut versions.newest {
                        newest.is_over_folded = false;
                    }
                }
            }
            GivenUp::Home(blocks) => {
                for block in blocks {
                    self.blocks.remove(block);
                }
            }
            GivenUp::All => self.blocks.clear(),
        }
        self.blocks.retain(|_, versions| versions.newest.is_some() || !versions.older.is_empty());
        let left =
            |versions: &Block<T>| versions.older.len() + usize::from(versions.newest.is_some());
        let left = self.blocks.values().map(left).sum::<usize>() as u64;
        core::mem::replace(&mut self.count, left) - left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_takes_the_place_of_the_one_before_the_newest() {
        let mut versions = Versions::new();
        let replaced = ['a', 'b', 'c', 'd'].map(|version| versions.write(7, version));
        assert_eq!(replaced, [None, None, Some('a'), Some('b')]);
        assert_eq!(versions.count(), 2);
        // What is written elsewhere leaves both behind.
        versions.write_elsewhere(7);
        assert_eq!(
            ['e', 'f', 'g'].map(|version| versions.write(7, version)),
            [Some('d'), Some('c'), Some('e')]
        );
        assert_eq!(versions.count(), 2);
    }

    #[test]
    fn a_version_in_the_log_takes_no_place_and_leaves_none() {
        let mut versions = Versions::new();
        versions.write_logged(7, 'a');
        versions.write_logged(7, 'b');
        assert_eq!(versions.count(), 2);
        assert_eq!(
            ['c', 'd', 'e'].map(|version| versions.write(7, version)),
            [None, None, Some('c')]
        );
        versions.write_logged(7, 'f');
        assert_eq!((versions.give_up(GivenUp::Superseded), versions.count()), (4, 1));
        assert_eq!((versions.give_up(GivenUp::Home(&[7])), versions.count()), (1, 0));
    }

    #[test]
    fn a_fold_keeps_what_an_earlier_one_has_noted() {
        let mut versions = Versions::new();
        for version in ['a', 'b'] {
            let _ = versions.write(7, version);
        }
        assert_eq!((versions.give_up(GivenUp::Folded), versions.count()), (1, 1));
        // Once written since, the noted one is older.
        assert_eq!(versions.write(7, 'c'), None);
        assert_eq!((versions.give_up(GivenUp::Folded), versions.count()), (0, 2));
        assert_eq!(versions.write(7, 'd'), Some('b'));
        // Written elsewhere, it leaves a place that the note of what was there before still names.
        versions.write_elsewhere(7);
        assert_eq!((versions.give_up(GivenUp::Folded), versions.count()), (0, 2));
        assert_eq!(versions.give_up(GivenUp::Superseded), 2);
        assert_eq!(versions.write(7, 'e'), None);
    }

    #[test]
    fn nothing_is_left_of_what_is_home() {
        let mut versions = Versions::new();
        for block in [1, 2, 3, 1, 2, 3] {
            let _ = versions.write(block, ());
        }
        assert_eq!((versions.give_up(GivenUp::Home(&[2, 9])), versions.count()), (2, 4));
        assert!(versions.has(1) && !versions.has(2));
        assert_eq!((versions.give_up(GivenUp::All), versions.count()), (4, 0));
        assert!(!versions.has(1));
    }
}
