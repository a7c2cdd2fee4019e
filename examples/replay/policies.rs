//! The policies that are replayed, and what each of them may cost at most.
//!
//! A policy's *bound* is what its idea of a change comes to, in bytes, computed from the images
//! before and after without asking the policy. To add a policy: one [`Bound`], one row in [`ALL`].

use core::fmt;

use journal_core::policy::{ApplyError, Encoder, Pacing, Patch, Placement, Thresholds, Update};
use journal_core::{Policy, PolicyId};

use full_block::FullBlock;
use object_log::ObjectLog;

/// A block before and after an update that changes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changed<'a> {
    pub(crate) old: &'a [u8],
    pub(crate) new: &'a [u8],
    /// The size of its objects; zero where it has none.
    pub(crate) object_bytes: usize,
    /// Nothing of the old image is needed.
    pub(crate) is_append: bool,
}

/// What an update has to cost, by a policy's idea of it.
pub(crate) trait Bound: Sync {
    /// In bytes, for a block that changes.
    fn bytes(&self, changed: &Changed<'_>) -> u64;
}

/// The block as a whole.
struct WholeBlock;

impl Bound for WholeBlock {
    fn bytes(&self, changed: &Changed<'_>) -> u64 {
        changed.new.len() as u64
    }
}

/// The objects that change, each with 8 bytes to name it; never more than the block, and the block
/// where it is new.
struct ChangedObjects;

/// Pieces of blocks without objects.
const PIECE_BYTES: usize = 256;
const NAME_BYTES: u64 = 8;

impl Bound for ChangedObjects {
    fn bytes(&self, changed: &Changed<'_>) -> u64 {
        let Changed { old, new, object_bytes, is_append } = *changed;
        let whole = new.len() as u64;
        if is_append {
            return whole;
        }
        let size = if object_bytes == 0 { PIECE_BYTES } else { object_bytes };
        let objects = old.chunks(size).zip(new.chunks(size)).filter(|(old, new)| old != new);
        let bytes: u64 = objects.map(|(_, new)| new.len() as u64 + NAME_BYTES).sum();
        bytes.min(whole)
    }
}

/// A policy, whichever.
#[derive(Clone, Copy)]
pub(crate) struct Chosen(pub(crate) &'static (dyn Policy + Sync));

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.id().fmt(f)
    }
}

impl Policy for Chosen {
    fn id(&self) -> PolicyId {
        self.0.id()
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        self.0.place(update, out)
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        self.0.apply(payload, block)
    }

    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        self.0.rewrite_slot(older, newer, rewrite);
    }

    fn keeps_in_slots(&self) -> bool {
        self.0.keeps_in_slots()
    }

    fn thresholds(&self) -> Thresholds {
        self.0.thresholds()
    }

    fn pacing(&self) -> Pacing {
        self.0.pacing()
    }
}

/// A policy that can be replayed.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) policy: Chosen,
    pub(crate) bound: &'static dyn Bound,
    /// Whether appends go home before they are committed: what is home of a block that was new in
    /// a transaction which did not come about is then undefined.
    pub(crate) appends_go_home: bool,
}

/// All of them.
pub(crate) const ALL: &[Known] = &[
    Known {
        name: "full-block",
        policy: Chosen(&FullBlock),
        bound: &WholeBlock,
        appends_go_home: false,
    },
    Known {
        name: "object-log",
        policy: Chosen(&ObjectLog::new()),
        bound: &ChangedObjects,
        appends_go_home: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(object_bytes: usize, is_append: bool, touched: &[usize]) -> u64 {
        let (old, mut new) = ([0; 4096], [0; 4096]);
        for at in touched {
            new[*at] = 1;
        }
        let changed = Changed { old: &old, new: &new, object_bytes, is_append };
        assert_eq!(WholeBlock.bytes(&changed), 4096);
        ChangedObjects.bytes(&changed)
    }

    #[test]
    fn a_bound_counts_the_objects_that_change() {
        assert_eq!(objects(256, false, &[0, 1, 255]), 264);
        assert_eq!(objects(256, false, &[0, 256]), 528);
        assert_eq!(objects(64, false, &[0, 4095]), 144);
        // Without objects it is pieces.
        assert_eq!(objects(0, false, &[255, 256]), 528);
        // Never more than the block, and the block where it is new.
        let all: Vec<usize> = (0..4096).step_by(256).collect();
        assert_eq!(objects(256, false, &all[..15]), 3960);
        assert_eq!(objects(256, false, &all), 4096);
        assert_eq!(objects(256, true, &[0]), 4096);
    }
}
