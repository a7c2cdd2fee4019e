//! Chains of frames that are built soon: their lines are asked for before they are needed.
//!
//! Of a chain, each node says where the next one is, and each frame where its payload is. A walk
//! would wait for memory at each of them. So while a block is built, the walks of the blocks behind
//! it go one node further each, and ask for what they come to. A lone frame is asked for as a
//! whole, shortly before its block is built. A chain whose content is in ordinary memory is not
//! walked. A matter of speed only.

use crate::commit::batched::Batched;
use crate::common::Common;
use crate::format::record::Form;
use crate::home::Lanes;
use crate::index::Indexes;
use crate::index::frame::NodeId;
use crate::order::ordered::Hook;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;

/// Blocks that walks go on for, and so the most nodes of a chain that are asked for.
const BLOCKS: usize = 8;

/// A lone frame is asked for this number of blocks ahead. It may be a whole block, so that those of
/// all [`BLOCKS`] would fill the nearest cache.
const LONE_AHEAD: usize = 2;

/// Walks of the next blocks of a batch, and the place in the batch from which on there are none.
#[derive(Debug)]
pub(super) struct Chains {
    walks: [Option<NodeId>; BLOCKS],
    begun: usize,
}

impl Chains {
    /// No walks.
    pub(super) const NONE: Self = Self { walks: [None; BLOCKS], begun: 0 };

    /// Goes on with the walks of the blocks behind the first of those that are `left`, which has
    /// this place in the batch.
    pub(super) fn look<P: Pmem, H: Hook, L, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &(impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        (first, left): (usize, &[Batched]),
    ) {
        let wants = |at| common.prefetch_line(at);
        for (number, batched) in (first..).zip(left).skip(1).take(BLOCKS) {
            let Some(walk) = self.walks.get_mut(number % BLOCKS) else { continue };
            let block = batched.block;
            if !batched.is_chain {
                if number == first.saturating_add(LONE_AHEAD) {
                    let frame = indexes.of(block, |i| i.newest(block).map(|id| i.frame(id)));
                    frame.iter().for_each(|frame| lanes.prefetch(frame));
                }
                continue;
            }
            if number >= self.begun {
                self.begun = number.saturating_add(1);
                let is_kept = indexes.prefetch_kept(block);
                *walk = if is_kept { None } else { indexes.of(block, |index| index.newest(block)) };
                continue;
            }
            let Some(id) = *walk else { continue };
            *walk = indexes.of(block, |index| {
                let frame = index.frame(id);
                lanes.prefetch(&frame);
                let older = index.older(id).filter(|_| frame.form == Form::Encoded)?;
                index.want_node(older, wants);
                Some(older)
            });
        }
    }
}
