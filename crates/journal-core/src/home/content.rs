//! The content of a block, built from its frames.

use crate::common::Common;
use crate::format::record::Form;
use crate::home::error::JournalError;
use crate::home::{Home, Lanes};
use crate::index::frame::{Bounds, FrameAt, NodeId};
use crate::index::{Index, IndexMemory, Indexes};
use crate::order::ordered::Hook;
use crate::ports::block_device::BlockDevice;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::Policy;
use crate::units::{BlockNumber, SlotNumber};

/// A view of a journal from which the content of blocks is built: lanes, and how far into them.
pub(crate) struct ContentView<'a, L, K, N: ?Sized> {
    pub(crate) common: &'a Common<L, K>,
    pub(crate) lanes: &'a N,
    pub(crate) bounds: &'a Bounds,
}

/// The frame from which the content up to `newest` is built, and whether that lies on top of what
/// is home.
#[must_use]
pub fn oldest_needed(index: &Index<impl IndexMemory>, newest: NodeId) -> (NodeId, bool) {
    oldest_behind(index, newest, |_| {})
}

/// Finds that frame, and looks at all frames of a chain on the way there.
#[inline(always)]
fn oldest_behind(
    index: &Index<impl IndexMemory>,
    newest: NodeId,
    mut looks_at: impl FnMut(&FrameAt),
) -> (NodeId, bool) {
    let mut oldest = newest;
    loop {
        let frame = index.frame(oldest);
        let is_lone = oldest == newest && frame.form != Form::Encoded;
        if !is_lone {
            looks_at(&frame);
        }
        match frame.form {
            Form::Encoded => {}
            form => return (oldest, form == Form::Home),
        }
        match index.older(oldest) {
            Some(older) => oldest = older,
            None => return (oldest, true),
        }
    }
}

impl<L: Policy, K: Kernels> Common<L, K> {
    /// Which block of the device must be read to build a block's content up to `newest`, if one
    /// must. It is the block's home, or the block of the disk-side log that it was written to.
    #[must_use]
    pub fn block_below(
        &self,
        index: &Index<impl IndexMemory>,
        block: BlockNumber,
        newest: Option<NodeId>,
    ) -> Option<BlockNumber> {
        let Some(newest) = newest else { return Some(block) };
        let (oldest, needs_home) = oldest_needed(index, newest);
        if needs_home {
            return Some(block);
        }
        let frame = index.frame(oldest);
        frame.slot().filter(|_| frame.form == Form::Log).and_then(|slot| self.where_logged(slot))
    }

    /// Where a block of the disk-side log is on the device.
    pub(crate) fn where_logged(&self, slot: SlotNumber) -> Option<BlockNumber> {
        let at = self.geometry.log_block(slot)?;
        Some(BlockNumber(self.device_blocks.saturating_add(at)))
    }
}

impl<P: Pmem, D: BlockDevice, H: Hook> Home<P, D, H> {
    /// A block's content up to the bounds: the newest whole placement below them, and everything
    /// newer on top of it.
    ///
    /// While it is built nobody else may remove frames, or write the block home.
    pub(crate) fn content<L: Policy, K: Kernels, N: Lanes<P, H> + ?Sized>(
        &mut self,
        view: &ContentView<'_, L, K, N>,
        indexes: &mut impl Indexes,
        block: BlockNumber,
        payload: &mut [u8],
        into: &mut [u8],
    ) -> Result<(), JournalError> {
        let ContentView { common, lanes, bounds } = *view;
        // What needs nothing of the device is built at once: the block is looked up one time.
        let below = indexes.of(block, |index| {
            let newest = index.newest_below(block, bounds);
            build_from_lanes(common, index, (block, newest), lanes, payload, into)
        })?;
        let Some(below) = below else { return Ok(()) };
        self.device.read(below, into).map_err(JournalError::Device)?;
        indexes.of(block, |index| {
            let Some(newest) = index.newest_below(block, bounds) else { return Ok(()) };
            apply_frames(common, index, newest, lanes, payload, into)
        })
    }
}

/// Builds a block's content up to `newest` in `into`, if the lanes alone have all of it. If not,
/// returns which block of the device [lies below](Common::block_below): the caller reads that, and
/// then [applies the frames](apply_frames).
///
/// # Errors
/// Those of [`apply_frames`].
pub fn build_from_lanes<L: Policy, K: Kernels, P: Pmem, H: Hook>(
    common: &Common<L, K>,
    index: &Index<impl IndexMemory>,
    (block, newest): (BlockNumber, Option<NodeId>),
    lanes: &(impl Lanes<P, H> + ?Sized),
    payload: &mut [u8],
    into: &mut [u8],
) -> Result<Option<BlockNumber>, JournalError> {
    let below = common.block_below(index, block, newest);
    if let (None, Some(newest)) = (below, newest) {
        apply_frames(common, index, newest, lanes, payload, into)?;
    }
    Ok(below)
}

/// Builds the content up to `newest` in `into`, which holds what
/// [lies below](Common::block_below).
///
/// # Errors
/// The medium's, a payload that does not apply, or rot in the disk-side log.
pub fn apply_frames<L: Policy, K: Kernels, P: Pmem, H: Hook>(
    common: &Common<L, K>,
    index: &Index<impl IndexMemory>,
    newest: NodeId,
    lanes: &(impl Lanes<P, H> + ?Sized),
    payload: &mut [u8],
    into: &mut [u8],
) -> Result<(), JournalError> {
    // All payloads are asked for before the first of them is needed.
    let (mut id, _) = oldest_behind(index, newest, |frame| lanes.prefetch(frame));
    loop {
        let frame: FrameAt = index.frame(id);
        match frame.form {
            Form::Discard => into.fill(0),
            Form::Home => {}
            Form::Log => {
                let slot = frame.slot();
                let is_as_said =
                    |slot| common.kernels.crc64(common.seeds.content(slot), into) == frame.payload;
                if !slot.is_some_and(is_as_said) {
                    let lies_at = slot.and_then(|slot| common.where_logged(slot));
                    let lies_at = lies_at.unwrap_or(frame.block);
                    return Err(JournalError::RottenLog { block: frame.block, lies_at });
                }
            }
            Form::Image | Form::Slot => lanes.read(&frame, into).map_err(JournalError::Medium)?,
            Form::Encoded => {
                let payload = payload.get_mut(..frame.len as usize);
                let Some(payload) = payload else { unreachable!("fits: it was made there") };
                lanes.read(&frame, payload).map_err(JournalError::Medium)?;
                common
                    .policy
                    .apply(payload, into)
                    .and_then(|()| match id == newest {
                        true => common.policy.check(payload, into),
                        false => Ok(()),
                    })
                    .map_err(|error| JournalError::Apply { block: frame.block, error })?;
            }
        }
        if id == newest {
            return Ok(());
        }
        let Some(newer) = index.newer(id) else { return Ok(()) };
        id = newer;
    }
}
