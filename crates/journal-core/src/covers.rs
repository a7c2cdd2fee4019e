//! What newer whole frames cover: frames in a ring that the index need not know (I5 of
//! [`crate::index`]).
//!
//! A commit lets the index forget what two whole frames cover. Heads may then pass what covered it,
//! and an open goes through the lanes in another order than they were written: it may meet frames
//! that were forgotten before it meets what covers them. It never needs more room than there was:
//! where there is too little, it first looks for each block's *cover*, the whole frame that comes
//! last, and takes in of what comes before no more than the newest of each lane.
//!
//! **Crash**: nothing of it is on the medium.

use crate::geometry::LANES_MAX;
use crate::index::{FrameAt, Full, Index, IndexMemory, NodeId};
use crate::record::Form;

/// How many frames of a chain that stay are gone through at most. Where there are more, since a
/// block was appended home again and again, what lies behind them stays as well: nobody walks a
/// long chain for every frame that is added.
const KEPT_MAX: usize = 2 * LANES_MAX as usize;

/// Whether the content is wholly in the record, or there is none.
const fn covers(form: Form) -> bool {
    matches!(form, Form::Image | Form::Discard)
}

/// Whether a newer frame of its lane can stand for it. Not what says where a block's content is.
const fn is_plain(form: Form) -> bool {
    matches!(form, Form::Image | Form::Discard | Form::Encoded)
}

/// The same frame, whatever stamp it is noted under.
fn is_same(one: &FrameAt, other: &FrameAt) -> bool {
    let place = |frame: &FrameAt| (frame.lane, frame.record, frame.payload, frame.form);
    place(one) == place(other)
}

impl<M: IndexMemory> Index<M> {
    /// Forgets what two whole frames make useless, of which this is the newest of its block, so
    /// that one that is written again and again does not fill the index: what lies below the
    /// second, if that is durable. Of each lane the newest of them stays, since the head of that
    /// lane has to pass it before those of other lanes pass what is newer.
    ///
    /// Not while a checkpoint is under way: what it has settled may end below the second.
    #[inline(always)]
    pub fn forget_below(
        &mut self,
        newest: NodeId,
        keeps_of_each_lane: bool,
        is_durable: impl FnOnce(&FrameAt) -> bool,
    ) {
        let below = |id: NodeId| self.node(id.0).filter(|node| covers(node.form()))?.older();
        let Some(second) = below(newest) else { return };
        let Some(below) = below(second) else { return };
        if is_durable(&self.frame(second)) {
            self.forget_from(below, keeps_of_each_lane);
        }
    }

    /// Forgets a frame and what is older, but for the newest of each lane.
    #[inline(always)]
    fn forget_from(&mut self, first: NodeId, keeps_of_each_lane: bool) {
        const { assert!(LANES_MAX as u32 <= u32::BITS, "each lane has a bit") };
        let mut seen = if keeps_of_each_lane { 0_u32 } else { u32::MAX };
        let (mut next, mut kept) = (Some(first), 0_usize);
        while let Some(id) = next.filter(|_| kept < KEPT_MAX) {
            let Some(node) = self.node(id.0) else { break };
            next = node.older();
            let bit = 1_u32.checked_shl(node.lane().raw().into()).unwrap_or(0);
            let bit = if is_plain(node.form()) { bit } else { 0 };
            if seen & bit != 0 {
                self.remove(id);
            } else {
                seen |= bit;
                kept = kept.saturating_add(1);
            }
        }
    }

    /// Notes a frame that may be the last whole one of its block. All of them are to be noted, in
    /// the order in which they will be taken in; each block takes one place.
    ///
    /// # Errors
    /// [`Full`]: there are more blocks than places.
    pub(crate) fn note_cover(&mut self, frame: FrameAt) -> Result<(), Full> {
        let Some(known) = self.newest(frame.block) else {
            return self.insert_awaited(frame);
        };
        let noted = self.frame(known);
        if noted.stamp > frame.stamp {
            return Ok(());
        }
        let stamp = frame.stamp;
        self.remove(known);
        // What comes behind a cover says only that stamps have risen.
        let stays = covers(noted.form) && !covers(frame.form);
        self.insert_awaited(if stays { FrameAt { stamp, ..noted } } else { frame })
    }

    /// All frames were noted: blocks without a cover keep no place.
    pub(crate) fn keep_covers(&mut self) {
        self.remove_where(|frame| !covers(frame.form));
    }

    /// Takes in a frame of a block whose cover may still be to come.
    ///
    /// Returns whether it is not: then the frame is as any other.
    ///
    /// # Errors
    /// [`Full`].
    pub(crate) fn insert_before_cover(&mut self, frame: FrameAt) -> Result<bool, Full> {
        let Some(cover) = self.newest(frame.block).filter(|id| self.is_awaited(*id)) else {
            return Ok(true);
        };
        if is_same(&self.frame(cover), &frame) {
            self.remove(cover);
            return self.insert(frame).map(|_| false);
        }
        let below = self.older(cover);
        if below.is_some_and(|id| self.frame(id).stamp > frame.stamp) {
            return Ok(false);
        }
        self.forget_of_lane(below, &frame);
        let awaited = self.frame(cover);
        self.remove(cover);
        self.insert(frame)?;
        self.insert_awaited(awaited).map(|()| false)
    }

    /// Forgets the frame of the same lane in a chain that this one comes in front of.
    fn forget_of_lane(&mut self, first: Option<NodeId>, frame: &FrameAt) {
        let mut chain = core::iter::successors(first, |id| self.older(*id)).take(KEPT_MAX);
        let stands_for = |id: &NodeId| {
            let older = self.frame(*id);
            older.lane == frame.lane && is_plain(older.form)
        };
        if let Some(older) = chain.find(stands_for).filter(|_| is_plain(frame.form)) {
            self.remove(older);
        }
    }

    fn insert_awaited(&mut self, frame: FrameAt) -> Result<(), Full> {
        let id = self.insert(frame)?;
        if let Some(node) = self.node_mut(id.0) {
            node.awaited = true;
        }
        Ok(())
    }

    fn is_awaited(&self, id: NodeId) -> bool {
        self.node(id.0).is_some_and(|node| node.awaited)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::index::{Entry, Lent, Node};
    use crate::units::{BlockNumber, LaneNumber, Sequence, Stamp};

    fn frame(lane: u16, form: Form, stamp: u64) -> FrameAt {
        FrameAt {
            block: BlockNumber(1),
            stamp: Stamp(stamp),
            lane: LaneNumber(lane),
            sequence: Sequence(stamp),
            record: 64 * stamp,
            payload: 64 * stamp,
            len: 0,
            form,
            folded: false,
        }
    }

    fn chain(index: &Index<Lent<'_>>) -> Vec<u64> {
        let first = index.newest(BlockNumber(1));
        let ids = core::iter::successors(first, |id| index.older(*id));
        ids.map(|id| index.frame(id).stamp.raw()).collect()
    }

    #[test]
    fn what_two_whole_frames_cover_is_forgotten_but_for_one_of_each_lane() {
        let mut entries = vec![Entry::EMPTY; 5];
        let mut nodes = vec![Node::EMPTY; 16];
        let mut index = Index::new(Lent { entries: &mut entries, nodes: &mut nodes });
        let forms = [
            (0, Form::Image),
            (1, Form::Image),
            (1, Form::Encoded),
            (0, Form::Home),
            (0, Form::Encoded),
            (1, Form::Discard),
            (0, Form::Image),
        ];
        let mut newest = None;
        for (stamp, (lane, form)) in (1..).zip(forms) {
            newest = index.insert(frame(lane, form, stamp)).ok();
        }
        let newest = newest.expect("there is room");
        index.forget_below(newest, true, |second| second.stamp != Stamp(6));
        assert_eq!(chain(&index), [7, 6, 5, 4, 3, 2, 1], "it may not be there after a crash");
        index.forget_below(newest, true, |_| true);
        assert_eq!(chain(&index), [7, 6, 5, 4, 3], "an append is known by its frame");
        index.forget_below(newest, false, |_| true);
        assert_eq!(chain(&index), [7, 6, 4]);
        let newest = index.insert(frame(0, Form::Encoded, 8)).expect("there is room");
        index.forget_below(newest, false, |_| true);
        let newest = index.insert(frame(0, Form::Image, 9)).expect("there is room");
        index.forget_below(newest, false, |_| true);
        assert_eq!(chain(&index), [9, 8, 7, 6, 4], "it is built from what lies below");
    }

    /// As an open with little room does.
    #[test]
    fn before_a_cover_one_frame_of_each_lane_is_enough() {
        use Form::{Discard, Encoded, Home, Image};
        let frames = [
            (0, Encoded),
            (1, Encoded),
            (0, Encoded),
            (1, Home),
            (0, Image),
            (1, Encoded),
            (1, Discard),
            (0, Image),
            (0, Encoded),
            (1, Encoded),
        ];
        let frames = (1..).zip(frames).map(|(stamp, (lane, form))| frame(lane, form, stamp));
        let mut entries = vec![Entry::EMPTY; 3];
        let mut nodes = vec![Node::EMPTY; 6];
        let mut index = Index::new(Lent { entries: &mut entries, nodes: &mut nodes });
        for frame in frames.clone() {
            assert_eq!(index.note_cover(frame), Ok(()));
            assert_eq!(index.frames(), 1);
        }
        index.keep_covers();
        for frame in frames {
            if index.insert_before_cover(frame).expect("there is room") {
                assert!(frame.stamp > Stamp(8), "the cover has come");
                index.insert(frame).expect("there is room");
            }
        }
        assert_eq!(chain(&index), [10, 9, 8, 7, 5, 4]);
    }

    #[test]
    fn a_block_without_a_cover_is_taken_in_as_it_is() {
        let mut entries = vec![Entry::EMPTY; 3];
        let mut nodes = vec![Node::EMPTY; 2];
        let mut index = Index::new(Lent { entries: &mut entries, nodes: &mut nodes });
        for stamp in [1, 2] {
            assert_eq!(index.note_cover(frame(0, Form::Encoded, stamp)), Ok(()));
        }
        index.keep_covers();
        assert_eq!((index.frames(), index.blocks()), (0, 0));
        assert_eq!(index.insert_before_cover(frame(0, Form::Encoded, 1)), Ok(true));
    }
}
