//! Which blocks are moved into the disk-side log.

use crate::format::record::Form;
use crate::home::oldest::Listed;
use crate::home::report::Scope;
use crate::home::search::is_in_scope;
use crate::index::Indexes;
use crate::index::frame::NodeId;
use crate::index::{Index, IndexMemory};
use crate::units::{BlockNumber, Stamp};

/// What is to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movable {
    /// Blocks of which changes are logged: the rings need not keep those afterwards.
    Changes,
    /// Blocks whose newest content lies in the rings, as changes or whole.
    InRings,
    /// Blocks whose newest content lies in the rings or in slots: reads look into the memory.
    InMemory,
    /// What a scope holds: a segment of the log, which is free afterwards.
    Of(Scope),
}

impl Movable {
    /// Whether it has a block, of which this is the newest frame.
    fn has(self, index: &Index<impl IndexMemory>, newest: NodeId) -> bool {
        let form = index.frame(newest).form;
        let is_there = match self {
            Self::Changes => form == Form::Encoded,
            Self::InRings => matches!(form, Form::Encoded | Form::Image),
            Self::InMemory => is_read_from_memory(form),
            Self::Of(scope) => is_in_scope(index, newest, scope),
        };
        is_there && !index.is_home(newest)
    }
}

/// Whether a read of a block looks into persistent memory, where the block's newest frame has this
/// form. If not, the device has the content, or there is none.
#[must_use]
pub const fn is_read_from_memory(newest: Form) -> bool {
    matches!(newest, Form::Encoded | Form::Image | Form::Slot)
}

/// The stamp of a block's newest content, if that lies in persistent memory. A block that cannot be
/// read has none there.
#[must_use]
pub fn stamp_in_memory(index: &Index<impl IndexMemory>, block: BlockNumber) -> Option<Stamp> {
    let newest = index.frame(index.newest(block)?);
    let is_there = is_read_from_memory(newest.form) && !index.is_unreadable(block);
    is_there.then_some(newest.stamp)
}

/// Blocks of an index whose newest content lies in persistent memory, each with its stamp, as
/// [`stamp_in_memory`] says.
pub fn each_in_memory<M: IndexMemory>(
    index: &Index<M>,
) -> impl Iterator<Item = (Stamp, BlockNumber)> + '_ {
    index.each_block().filter_map(|block| Some((stamp_in_memory(index, block)?, block)))
}

/// Picks blocks to move, of those that frames of a list are of: `most` of them at most, in the
/// order of their numbers. Returns how many.
pub fn pick_listed(
    indexes: &mut impl Indexes,
    what: Movable,
    listed: &[Listed],
    most: usize,
    picked: &mut [(Stamp, BlockNumber)],
) -> usize {
    let (mut count, most) = (0_usize, most.min(picked.len()));
    for block in listed.iter().map(|listed| listed.block) {
        if count == most {
            break;
        }
        let is_known = picked.get(..count).unwrap_or_default().iter().any(|(_, of)| *of == block);
        let found = indexes.of(block, |index| {
            let newest = index.newest(block)?;
            let goes = what.has(index, newest) && !index.is_unreadable(block);
            goes.then(|| index.frame(newest).stamp)
        });
        let found = found.filter(|_| !is_known);
        if let Some((to, stamp)) = picked.get_mut(count).zip(found) {
            *to = (stamp, block);
            count = count.saturating_add(1);
        }
    }
    let chosen = picked.get_mut(..count).unwrap_or_default();
    chosen.sort_unstable_by_key(|(_, block)| *block);
    count
}

/// Picks blocks to move: those that were changed longest ago, `most` of them at most, in the order
/// of their numbers. Returns how many. Blocks that cannot be read are not picked.
///
/// `picked` is where they are noted. A longer one makes less work.
pub fn pick_to_move(
    indexes: &mut impl Indexes,
    what: Movable,
    most: usize,
    picked: &mut [(Stamp, BlockNumber)],
) -> usize {
    let (mut count, most) = (0_usize, most.min(picked.len()));
    indexes.each(|index| {
        for block in index.each_block() {
            let newest = index.newest(block).filter(|newest| what.has(index, *newest));
            let Some(newest) = newest.filter(|_| !index.is_unreadable(block)) else { continue };
            let one = (index.frame(newest).stamp, block);
            if count == picked.len() {
                // There is always room for one more.
                picked.sort_unstable();
                count = most.min(picked.len().saturating_sub(1));
            }
            if let Some(to) = picked.get_mut(count) {
                *to = one;
                count = count.saturating_add(1);
            }
        }
    });
    let found = picked.get_mut(..count).unwrap_or_default();
    found.sort_unstable();
    let chosen = found.get_mut(..most.min(count)).unwrap_or_default();
    chosen.sort_unstable_by_key(|(_, block)| *block);
    chosen.len()
}
