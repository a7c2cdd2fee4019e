//! Images that recovery cannot tell apart.
//!
//! Recovery is deterministic and sees the media through their ports alone. So a second image that
//! agrees on everything recovery read of the first one leads to the same run. Recovery asks for
//! reads in the same order, and gets the same answers. The memo is a tree of such questions, each
//! branch an answer, each leaf an outcome. Most images of a torn record differ only in bytes that
//! recovery no longer reads, once it found the record's header or its check wrong.

use std::collections::HashMap;

use crate::media::image::{Image, Medium};
use crate::media::world::ReadRange;
use crate::power::crash::CrashPoint;

/// Where in the tree.
type NodeId = u32;

#[derive(Debug)]
enum Node {
    /// Recovery asks this next; the answer says where to go on.
    Asks { read: ReadRange, answers: HashMap<u128, NodeId> },
    /// Recovery ended.
    Ended { digest: u64 },
}

/// The outcomes known so far.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    nodes: Vec<Node>,
    /// By what else the outcome depends on: the history, and how deep it was explored.
    roots: HashMap<(u128, u32), NodeId>,
}

/// Words around a range, as [`CrashPoint::part_fingerprint`] takes them.
fn answer(image: &Image, read: &ReadRange) -> u128 {
    let word = journal_core::WORD_BYTES as u64;
    let start = read.at / word * word;
    let end = (read.at + read.len as u64).next_multiple_of(word);
    let len = usize::try_from(end - start).expect("a range of a medium");
    crate::media::image::fingerprint(read.medium, start, &image.part(read.medium, start, len))
}

impl Memo {
    /// The digest that recovery finds, if it cannot tell this image from one it has seen.
    pub(crate) fn find(
        &self,
        root: (u128, u32),
        point: &CrashPoint,
        choice: &[usize],
    ) -> Option<u64> {
        let mut at = *self.roots.get(&root)?;
        loop {
            match &self.nodes[at as usize] {
                Node::Ended { digest } => return Some(*digest),
                Node::Asks { read: ReadRange { medium, at: place, len }, answers } => {
                    let answer = point.part_fingerprint(choice, *medium, *place, *len);
                    at = *answers.get(&answer)?;
                }
            }
        }
    }

    /// Remembers what recovery asked of an image, and what came of it.
    pub(crate) fn insert(
        &mut self,
        root: (u128, u32),
        image: &Image,
        reads: &[ReadRange],
        digest: u64,
    ) {
        let mut parent: Option<(NodeId, u128)> = None;
        let mut at = self.roots.get(&root).copied();
        let mut questions = distinct(reads).into_iter();
        loop {
            let next = questions.next();
            let id = match (at, next) {
                (Some(id), _) => id,
                (None, question) => {
                    let id = NodeId::try_from(self.nodes.len()).expect("fewer than 2^32 nodes");
                    self.nodes.push(match question {
                        Some(read) => Node::Asks { read, answers: HashMap::new() },
                        None => Node::Ended { digest },
                    });
                    match parent {
                        None => drop(self.roots.insert(root, id)),
                        Some((parent, answer)) => self.answer_with(parent, answer, id),
                    }
                    id
                }
            };
            let Some(read) = next else { return };
            let Node::Asks { read: known, answers } = &self.nodes[id as usize] else { return };
            debug_assert_eq!(*known, read, "recovery is deterministic");
            let answer = answer(image, &read);
            at = answers.get(&answer).copied();
            parent = Some((id, answer));
        }
    }

    fn answer_with(&mut self, parent: NodeId, answer: u128, id: NodeId) {
        if let Node::Asks { answers, .. } = &mut self.nodes[parent as usize] {
            answers.insert(answer, id);
        }
    }
}

/// The reads without those of ranges that were read before: their answer is known.
fn distinct(reads: &[ReadRange]) -> Vec<ReadRange> {
    let mut known: HashMap<(Medium, u64), usize> = HashMap::new();
    let mut distinct = Vec::with_capacity(reads.len());
    for read in reads {
        let longest = known.entry((read.medium, read.at)).or_default();
        if read.len > *longest {
            *longest = read.len;
            distinct.push(*read);
        }
    }
    distinct
}
