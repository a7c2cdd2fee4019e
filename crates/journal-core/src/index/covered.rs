//! Frames that newer whole frames cover: the index need not know them (I5 of [`crate::index`]).
//!
//! A commit lets the index forget what lies below a whole frame that is not the newest. Heads may
//! then pass what covered it, and an open goes through the lanes in another order than they were
//! written. So the open may meet frames that were forgotten before it meets what covers them. Where
//! there are slots or a disk-side log it takes all of them in, and may need more room than there
//! was. Elsewhere it never does. Where there is too little, it first looks for each block's
//! *cover*, the whole frame that comes last. Of what comes before, it takes in no more than the
//! newest of each lane, and of the cover's lane nothing: as where the cover is not the newest.
//!
//! **Crash**: nothing of it is on the medium.

use crate::index::ahead::nothing_ahead;
use crate::index::frame::{FrameAt, Full, NodeId};
use crate::index::insert::{KEPT_MAX, covers, is_plain};
use crate::index::{Index, IndexMemory};

/// Whether two frames are the same one, whatever stamp each is noted under.
fn is_same(one: &FrameAt, other: &FrameAt) -> bool {
    let lies_at = |frame: &FrameAt| (frame.lane, frame.record, frame.payload, frame.form);
    lies_at(one) == lies_at(other)
}

impl<M: IndexMemory> Index<M> {
    /// Notes a frame that may be the last whole one of its block. All of them are to be noted, in
    /// the order in which they will be taken in; each block takes one entry.
    ///
    /// # Errors
    /// [`Full`]: there are more blocks than entries.
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

    /// All frames were noted: blocks without a cover keep no entry.
    pub(crate) fn keep_covers(&mut self) {
        self.remove_where(|frame| !covers(frame.form), nothing_ahead);
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
        let is_passed_first = self
            .node(cover.0)
            .is_some_and(|cover| cover.lane() == frame.lane && frame.sequence < cover.sequence());
        if is_passed_first && is_plain(frame.form) {
            return Ok(false);
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

    use proptest::prelude::*;

    use super::*;
    use crate::format::record::Form;
    use crate::index::insert::FORGOTTEN_MAX;
    use crate::index::{Entry, LentMemory, Node};
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

    fn chain(index: &Index<LentMemory<'_>>) -> Vec<u64> {
        let first = index.newest(BlockNumber(1));
        let ids = core::iter::successors(first, |id| index.older(*id));
        ids.map(|id| index.frame(id).stamp.raw()).collect()
    }

    #[test]
    fn what_a_whole_frame_below_another_covers_is_forgotten_but_for_one_of_each_lane() {
        let mut entries = vec![Entry::EMPTY; 5];
        let mut nodes = vec![Node::EMPTY; 16];
        let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        let forms = [
            (0, Form::Image),
            (2, Form::Image),
            (2, Form::Encoded),
            (0, Form::Home),
            (0, Form::Encoded),
            (1, Form::Discard),
        ];
        for (stamp, (lane, form)) in (1..).zip(forms) {
            let inserted = index.insert_over(&frame(lane, form, stamp), true, |_| true);
            assert_eq!(inserted, Ok(()));
        }
        assert_eq!(chain(&index), [6, 5, 4, 3, 2, 1], "nothing lies below two whole ones");
        let put = |index: &mut Index<_>, frame, keeps, is_durable| {
            assert_eq!(index.insert_over(&frame, keeps, |_| is_durable), Ok(()));
            chain(index)
        };
        let stayed = put(&mut index, frame(0, Form::Image, 7), true, false);
        assert_eq!(stayed, [7, 6, 5, 4, 3, 2, 1], "the second may not be there after a crash");
        let stayed = put(&mut index, frame(0, Form::Image, 8), true, true);
        assert_eq!(stayed, [8, 7, 6, 4, 3], "an append is known by its frame");
        assert_eq!(put(&mut index, frame(1, Form::Image, 9), false, true), [9, 8, 4]);
        let stayed = put(&mut index, frame(0, Form::Encoded, 10), false, true);
        assert_eq!(stayed, [10, 9, 4], "it is built from what lies just below");
        let stayed = put(&mut index, frame(0, Form::Image, 11), false, true);
        assert_eq!(stayed, [11, 10, 9, 4], "that is built from what lies below");
    }

    #[test]
    fn what_the_head_passes_later_stays() {
        let mut entries = vec![Entry::EMPTY; 3];
        let mut nodes = vec![Node::EMPTY; 4];
        let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        let at = |sequence, stamp| {
            let sequence = Sequence(sequence);
            FrameAt { sequence, ..frame(0, Form::Image, stamp) }
        };
        for frame in [at(9, 1), at(7, 2), at(10, 3)] {
            assert_eq!(index.insert_over(&frame, true, |_| true), Ok(()));
        }
        assert_eq!(chain(&index), [3, 2, 1], "the head is at the first one last");
        assert_eq!(index.insert_over(&at(11, 4), true, |_| true), Ok(()));
        assert_eq!(chain(&index), [4, 3]);
    }

    #[test]
    fn a_long_chain_is_forgotten_in_steps() {
        let found = 3 * FORGOTTEN_MAX as u64;
        let mut entries = vec![Entry::EMPTY; 3];
        let mut nodes = vec![Node::EMPTY; 4 * FORGOTTEN_MAX];
        let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        for stamp in 1..=found {
            assert!(index.insert_found(frame(0, Form::Image, stamp)).is_ok());
        }
        let mut left = Vec::new();
        for stamp in found + 1..=found + 4 {
            assert_eq!(index.insert_over(&frame(0, Form::Image, stamp), true, |_| true), Ok(()));
            left.push(chain(&index).len());
        }
        assert_eq!(left, [2 * FORGOTTEN_MAX + 1, FORGOTTEN_MAX + 2, 3, 2]);
    }

    /// A version in a slot.
    fn version(lane: u16, slot: u32, stamp: u64) -> FrameAt {
        FrameAt { len: slot, ..frame(lane, Form::Slot, stamp) }
    }

    #[test]
    fn a_version_covers_what_is_below_and_a_version_that_lost_its_slot_is_forgotten() {
        let mut entries = vec![Entry::EMPTY; 3];
        let mut nodes = vec![Node::EMPTY; 16];
        let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        let put = |index: &mut Index<_>, frame, is_durable| {
            assert_eq!(index.insert_over(&frame, true, |_| is_durable), Ok(()));
            chain(index)
        };
        assert_eq!(put(&mut index, version(0, 1, 1), true), [1]);
        assert_eq!(put(&mut index, version(0, 2, 2), true), [2, 1]);
        assert_eq!(put(&mut index, version(0, 1, 3), true), [3, 2]);
        assert_eq!(put(&mut index, version(0, 2, 4), true), [4, 3]);
        // Changes above the newest version, until there is a newer one that is durable.
        assert_eq!(put(&mut index, frame(0, Form::Encoded, 5), true), [5, 4, 3]);
        assert_eq!(put(&mut index, frame(1, Form::Encoded, 6), true), [6, 5, 4, 3]);
        assert_eq!(put(&mut index, version(0, 1, 7), false), [7, 6, 5, 4, 3]);
        let stayed = put(&mut index, frame(0, Form::Encoded, 8), false);
        assert_eq!(stayed, [8, 7, 6, 5, 4, 3], "the version may not be there after a crash");
        // Version 3 is stale. Versions 4 and 7 have their slots, and 6 is the newest of its lane.
        assert_eq!(put(&mut index, version(0, 3, 9), true), [9, 8, 7, 6, 5, 4, 3]);
        assert_eq!(put(&mut index, frame(0, Form::Encoded, 10), true), [10, 9, 7, 6, 4]);
    }

    #[test]
    fn a_version_that_an_entry_speaks_of_stays() {
        let mut entries = vec![Entry::EMPTY; 3];
        let mut nodes = vec![Node::EMPTY; 8];
        let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        for (slot, stamp) in [(1, 1), (2, 2)] {
            let inserted = index.insert_over(&version(0, slot, stamp), true, |_| true);
            assert_eq!(inserted, Ok(()));
        }
        let second = index.newest(BlockNumber(1)).expect("it is there");
        let oldest = index.older(second).expect("so is this");
        index.set_folded(oldest, true);
        for (slot, stamp) in [(1, 3), (2, 4), (1, 5)] {
            let inserted = index.insert_over(&version(0, slot, stamp), true, |_| true);
            assert_eq!(inserted, Ok(()));
        }
        assert_eq!(chain(&index), [5, 4, 1], "its slot is not free");
        // In another lane the head may pass what is newer first.
        for frame in [frame(1, Form::Image, 6), frame(1, Form::Image, 7)] {
            assert_eq!(index.insert_over(&frame, true, |_| true), Ok(()));
        }
        assert_eq!(chain(&index), [7, 6, 5, 4, 1]);
    }

    /// What stays of a block's frames, newest first.
    fn kept(frames: &[FrameAt], is_durable: impl Fn(&FrameAt) -> bool) -> Vec<FrameAt> {
        let [newest, second, below @ ..] = frames else { return frames.to_vec() };
        if !covers(second.form) || !is_durable(second) {
            return frames.to_vec();
        }
        let mut kept = vec![*newest, *second];
        let (mut lanes, mut forgotten) = (Vec::new(), 0);
        for frame in below {
            let is_behind = frame.lane == second.lane && frame.sequence < second.sequence;
            let goes = is_plain(frame.form) && (is_behind || lanes.contains(&frame.lane));
            if goes && forgotten < FORGOTTEN_MAX {
                forgotten += 1;
                continue;
            }
            if is_plain(frame.form) {
                lanes.push(frame.lane);
            }
            kept.push(*frame);
        }
        kept
    }

    /// Miri is slow, and each frame is looked up in all lists.
    const FRAMES: usize = if cfg!(miri) { 8 } else { 60 };

    proptest! {
        #[test]
        fn chains_are_as_lists_of_which_that_is_forgotten(
            frames in prop::collection::vec((0_u64..3, 0_u16..3, 0_usize..6, 1_u64..40), 1..FRAMES),
            durable in 0_u64..8,
        ) {
            let mut entries = vec![Entry::EMPTY; 5];
            let mut nodes = vec![Node::EMPTY; 60];
            let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
            let mut lists = [const { Vec::new() }; 3];
            let is_durable = |frame: &FrameAt| frame.sequence.raw() % 8 >= durable;
            for (number, (block, lane, form, stamp)) in (1..).zip(frames) {
                use Form::{Discard, Encoded, Home, Image};
                let form = [Image, Image, Image, Discard, Encoded, Home][form];
                let (block_number, sequence) = (BlockNumber(block), Sequence(number));
                // Most ascend, some are copies of what is older.
                let stamp = if stamp < 8 { stamp } else { 10 + number };
                let new = FrameAt { block: block_number, sequence, ..frame(lane, form, stamp) };
                let list = &mut lists[block as usize];
                let at = list.partition_point(|known: &FrameAt| known.stamp > new.stamp);
                list.insert(at, new);
                let stay = kept(&list[at..], is_durable);
                list.splice(at.., stay);
                prop_assert_eq!(index.insert_over(&new, true, is_durable), Ok(()));
                for (block, list) in (0..).zip(&lists) {
                    let first = index.newest(BlockNumber(block));
                    let ids = core::iter::successors(first, |id| index.older(*id));
                    let found: Vec<_> = ids.map(|id| index.frame(id)).collect();
                    let numbers = |frames: &[FrameAt]| -> Vec<_> {
                        frames.iter().map(|frame| (frame.stamp, frame.sequence)).collect()
                    };
                    prop_assert_eq!(numbers(&found), numbers(list));
                    let lead = index.lead(BlockNumber(block)).map(|lead| lead.lane());
                    prop_assert_eq!(lead, list.first().map(|frame| frame.lane));
                    let back = found.len().checked_sub(1).map(|_| {
                        let last = index.all().find(|id| {
                            index.frame(*id).block.raw() == block && index.older(*id).is_none()
                        });
                        core::iter::successors(last, |id| index.newer(*id)).count()
                    });
                    prop_assert_eq!(back.unwrap_or(0), list.len());
                    let whole = index.newest_whole(BlockNumber(block));
                    let whole = whole.map(|id| index.frame(id).stamp);
                    let newest = list.iter().find(|frame| frame.is_whole());
                    prop_assert_eq!(whole, newest.map(|frame| frame.stamp));
                    let oldest = index.oldest(BlockNumber(block)).map(|id| index.frame(id).stamp);
                    prop_assert_eq!(oldest, list.last().map(|frame| frame.stamp));
                }
                prop_assert_eq!(index.frames(), lists.iter().map(Vec::len).sum::<usize>());
            }
        }
    }

    /// As an open with little room does.
    #[test]
    fn before_a_cover_one_frame_of_each_other_lane_is_enough() {
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
        let mut nodes = vec![Node::EMPTY; 5];
        let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
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
        assert_eq!(chain(&index), [10, 9, 8, 7, 4]);
    }

    /// A patch came on a whole frame, what lies below was forgotten, and another block took the
    /// room. That one's stamp is low: its lane is another.
    #[test]
    fn an_open_needs_no_more_room_than_there_was() {
        let other = FrameAt { block: BlockNumber(2), ..frame(1, Form::Image, 1) };
        let [first, whole] = [1, 2].map(|stamp| frame(0, Form::Image, stamp));
        let patch = frame(0, Form::Encoded, 3);
        let mut entries = vec![Entry::EMPTY; 4];
        let mut nodes = vec![Node::EMPTY; 3];
        let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        for frame in [first, whole, patch, other] {
            assert_eq!(index.insert_over(&frame, true, |_| true), Ok(()));
        }
        assert_eq!((chain(&index), index.free_frames()), (vec![3, 2], 0));
        index.clear();
        let found = [first, other, whole, patch];
        for frame in found {
            assert_eq!(index.note_cover(frame), Ok(()));
        }
        index.keep_covers();
        for frame in found {
            if index.insert_before_cover(frame).expect("there is room") {
                assert_eq!(index.insert_over(&frame, true, |_| true), Ok(()));
            }
        }
        assert_eq!((chain(&index), index.free_frames()), (vec![3, 2], 0));
    }

    /// What two lanes hold after these writes, and how many frames the index had at most.
    fn written(writes: &[(u64, u16, usize)]) -> ([Vec<FrameAt>; 2], usize) {
        let mut entries = vec![Entry::EMPTY; 9];
        let mut nodes = vec![Node::EMPTY; 64];
        let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        let (mut lanes, mut last, mut most) = ([const { Vec::new() }; 2], [0; 2], 0);
        for (sequence, (block, lane, form)) in (1..).zip(writes) {
            let (block, at) = (BlockNumber(*block), usize::from(*lane));
            let overwritten = index.newest(block).map_or(0, |id| index.frame(id).stamp.raw());
            last[at] = overwritten.max(last[at]) + 1;
            let form = [Form::Image, Form::Image, Form::Encoded, Form::Discard, Form::Home][*form];
            let sequence = Sequence(sequence);
            let new = FrameAt { block, sequence, ..frame(*lane, form, last[at]) };
            most = most.max(index.frames() + 1);
            assert_eq!(index.insert_over(&new, true, |_| true), Ok(()));
            lanes[at].push(FrameAt { record: sequence.raw() * 64, ..new });
        }
        (lanes, most)
    }

    proptest! {
        #[test]
        fn what_was_written_with_some_room_is_opened_with_as_much(
            writes in prop::collection::vec((0_u64..3, 0_u16..2, 0_usize..5), 1..FRAMES),
        ) {
            let ([one, other], most) = written(&writes);
            let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
            let mut found = Vec::new();
            while let Some(next) = match (one.peek(), other.peek()) {
                (Some(a), Some(b)) if b.stamp < a.stamp => other.next(),
                (None, _) => other.next(),
                _ => one.next(),
            } {
                found.push(next);
            }
            let mut entries = vec![Entry::EMPTY; 9];
            let mut nodes = vec![Node::EMPTY; most];
            let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
            for frame in &found {
                prop_assert_eq!(index.note_cover(*frame), Ok(()));
            }
            index.keep_covers();
            for frame in &found {
                let taken = index.insert_before_cover(*frame);
                prop_assert!(taken.is_ok(), "{:?}", frame);
                if taken == Ok(true) {
                    prop_assert_eq!(index.insert_over(frame, true, |_| true), Ok(()));
                }
            }
            for block in (0..3).map(BlockNumber) {
                let newest = index.newest(block).map(|id| index.frame(id).record);
                let last = found.iter().rfind(|frame| frame.block == block);
                prop_assert_eq!(newest, last.map(|frame| frame.record));
            }
        }
    }

    #[test]
    fn a_block_without_a_cover_is_taken_in_as_it_is() {
        let mut entries = vec![Entry::EMPTY; 3];
        let mut nodes = vec![Node::EMPTY; 2];
        let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        for stamp in [1, 2] {
            assert_eq!(index.note_cover(frame(0, Form::Encoded, stamp)), Ok(()));
        }
        index.keep_covers();
        assert_eq!((index.frames(), index.blocks()), (0, 0));
        assert_eq!(index.insert_before_cover(frame(0, Form::Encoded, 1)), Ok(true));
    }
}
