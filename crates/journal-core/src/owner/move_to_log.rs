//! Moving blocks into the disk-side log. What is logged of a block as changes becomes whole there,
//! in a new block, and the rings need not keep it any more. What was below stays as it is until
//! nothing needs it; nothing is written home.
//!
//! It is a transaction like any other, of content that is committed already. A reader of the block
//! sees no difference, before, in the middle or after.
//!
//! **Crash**: as for a commit. Either the block's newest version is the one in the log, or it is
//! what it was, and the log's block is free.

use crate::commit::error::CommitError;
use crate::commit::operation::Operation;
use crate::home::error::JournalError;
use crate::owner::journal::{Durability, Journal};
use crate::owner::machine::Machine;
use crate::ports::policy::Policy;
use crate::reclaim::movable::{Movable, pick_to_move};
use crate::space::lane::Goes;
use crate::units::{BlockNumber, LaneNumber, Stamp};

/// Blocks that one call moves at most.
const BLOCKS_MAX: usize = 16;

/// The blocks that a call moves.
#[derive(Clone, Copy)]
struct Picked {
    blocks: [(Stamp, BlockNumber); BLOCKS_MAX],
    count: usize,
}

impl<L: Policy, M: Machine> Journal<'_, L, M> {
    /// Moves blocks of which changes are logged to new blocks in a lane's disk-side log. It takes
    /// those that were changed longest ago first, up to 16 of them, with one write, one sync and
    /// one fence. Returns how many it moved. A [fold](Self::fold) then lets the rings forget the
    /// changes.
    ///
    /// No blocks are moved where the log or the lane has no room: a [cleaner](Self::clean_log) or a
    /// checkpoint makes some. Blocks that [cannot be read](Self::unreadable) stay where they are.
    ///
    /// # Errors
    /// `NoSuchLane`, or as [`checkpoint`](Self::checkpoint).
    pub fn move_to_log(&mut self, lane: LaneNumber) -> Result<usize, JournalError> {
        self.check_not_failed()?;
        let Some(free) = self.free_log_blocks(lane) else {
            return Err(JournalError::NoSuchLane { lane });
        };
        let block_bytes = self.common.block_bytes();
        let room = self.blocks.len().checked_div(block_bytes).unwrap_or(0);
        let most = room.min(free as usize).min(self.batch.len()).min(BLOCKS_MAX);
        loop {
            let mut picked = self.pick_to_move(most);
            if picked.count == 0 {
                return Ok(0);
            }
            let moved = self.fail_on_panic(|journal| {
                // While images lie there nothing else does.
                let images = core::mem::take(&mut journal.blocks);
                let read = journal.read_to_move(&mut picked, images);
                let moved = read.and_then(|()| journal.move_blocks(lane, &picked, images));
                journal.blocks = images;
                moved
            });
            // Blocks that cannot be read are not picked again.
            if moved.is_err() || picked.count > 0 {
                return moved;
            }
        }
    }

    /// Reads the blocks, and leaves out those that cannot be.
    fn read_to_move(&mut self, picked: &mut Picked, images: &mut [u8]) -> Result<(), JournalError> {
        let block_bytes = self.common.block_bytes();
        let all = picked.blocks;
        let count = core::mem::take(&mut picked.count);
        for (stamp, block) in all.into_iter().take(count) {
            let images = images.chunks_exact_mut(block_bytes);
            let mut targets = picked.blocks.iter_mut().zip(images);
            let Some((to, image)) = targets.nth(picked.count) else { break };
            match self.read(block, image) {
                Err(error) if error.is_of_its_block() => {
                    self.index.set_unreadable(block, self.home.last_attempt());
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    *to = (stamp, block);
                    picked.count = picked.count.saturating_add(1);
                }
            }
        }
        Ok(())
    }

    fn pick_to_move(&mut self, most: usize) -> Picked {
        let mut found = [(Stamp(0), BlockNumber(0)); 2 * BLOCKS_MAX];
        let count = pick_to_move(&mut self.index, Movable::Changes, most, &mut found);
        let mut blocks = [(Stamp(0), BlockNumber(0)); BLOCKS_MAX];
        blocks.iter_mut().zip(found).for_each(|(to, one)| *to = one);
        Picked { blocks, count }
    }

    fn move_blocks(
        &mut self,
        lane: LaneNumber,
        picked: &Picked,
        images: &[u8],
    ) -> Result<usize, JournalError> {
        let block_bytes = self.common.block_bytes();
        let chosen = picked.blocks.get(..picked.count).unwrap_or_default();
        let mut operations = [Operation::Discard(BlockNumber(0)); BLOCKS_MAX];
        let images = images.chunks_exact(block_bytes);
        for ((to, (_, block)), image) in operations.iter_mut().zip(chosen).zip(images) {
            *to = Operation::write(*block, image);
        }
        let operations = operations.get(..chosen.len()).unwrap_or_default();
        match self.commit_as(lane, operations, None, Durability::Durable, Goes::DataToLog) {
            Ok(_) => Ok(chosen.len()),
            Err(CommitError::Medium(error)) => Err(JournalError::Medium(error)),
            Err(CommitError::Device(error)) => Err(JournalError::Device(error)),
            // There is no room for the record, or the policy does not log whole blocks.
            Err(_) => Ok(0),
        }
    }
}
