//! Indexing rings that hold more frames than the index has room for.
//!
//! While a journal runs, its index forgets what newer frames cover, and has room for others then.
//! Whoever opens it meets all of it again, and not in the order in which it came: the lanes are
//! merged by stamp, and of many blocks all changes may lie before what covers them. Where that is
//! too much, the rings are gone through twice more: for the newest frame of each block that covers
//! what is older, and then for the rest. So there are never more frames than there were in the
//! index of who wrote them: each of these, and of what they cover one of each lane at most.

use crate::index::{FrameAt, Full, Index, IndexMemory};
use crate::record::Form;

impl FrameAt {
    /// Whether what is older need not be known, but for one frame of each lane.
    const fn covers(&self) -> bool {
        matches!(self.form, Form::Image | Form::Discard)
    }

    /// Whether the index may forget it.
    const fn is_plain(&self) -> bool {
        self.covers() || matches!(self.form, Form::Encoded)
    }

    /// Whether it comes before the last of those that cover their block. Of one stamp are the
    /// frames of one record, and a copy and what that was made of.
    fn comes_before(&self, cover: &Self) -> bool {
        let is_of_its_record = (self.lane, self.sequence) == (cover.lane, cover.sequence);
        let is_behind_it = is_of_its_record && self.payload >= cover.payload;
        self.stamp < cover.stamp || (self.stamp == cover.stamp && !is_behind_it)
    }

    fn is_at(&self, other: &Self) -> bool {
        (self.lane, self.sequence, self.payload) == (other.lane, other.sequence, other.payload)
    }
}

impl<M: IndexMemory> Index<M> {
    /// Takes in a frame if it covers what is older, in place of the one that did so until now.
    pub(crate) fn insert_cover(&mut self, frame: FrameAt) -> Result<(), Full> {
        let known = self.newest(frame.block);
        let is_newest = known.is_none_or(|known| self.frame(known).stamp <= frame.stamp);
        if !frame.covers() || !is_newest {
            return Ok(());
        }
        if let Some(known) = known {
            self.remove(known);
        }
        self.insert(frame).map(drop)
    }

    /// Takes in a frame below the one that covers it, in place of an older one of its lane; whether
    /// it has to be nowhere else.
    pub(crate) fn insert_covered(&mut self, frame: &FrameAt) -> Result<bool, Full> {
        let Some(newest) = self.newest(frame.block) else { return Ok(false) };
        let cover = self.frame(newest);
        if cover.covers() && cover.is_at(frame) {
            return Ok(true);
        }
        if !cover.covers() || !frame.comes_before(&cover) {
            return Ok(false);
        }
        let mut below = core::iter::successors(self.older(newest), |id| self.older(*id));
        let replaced = below.find(|id| {
            let known = self.frame(*id);
            known.lane == frame.lane && known.is_plain() && frame.is_plain()
        });
        if let Some(replaced) = replaced {
            self.remove(replaced);
        }
        self.insert_behind(newest, *frame)?;
        Ok(true)
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

    fn frame(lane: u16, sequence: u64, stamp: u64, payload: u64, form: Form) -> FrameAt {
        FrameAt {
            block: BlockNumber(7),
            stamp: Stamp(stamp),
            lane: LaneNumber(lane),
            sequence: Sequence(sequence),
            record: 0,
            payload,
            len: 0,
            form,
            folded: false,
        }
    }

    /// Stamps and payloads, the newest first.
    fn chain(index: &Index<Lent<'_>>) -> Vec<(u64, u64)> {
        let chain = core::iter::successors(index.newest(BlockNumber(7)), |id| index.older(*id));
        let frames = chain.map(|id| index.frame(id));
        frames.map(|frame| (frame.stamp.raw(), frame.payload)).collect()
    }

    fn with_index<R>(places: usize, call: impl FnOnce(&mut Index<Lent<'_>>) -> R) -> R {
        let mut entries = [Entry::EMPTY; 3];
        let mut nodes = vec![Node::EMPTY; places];
        call(&mut Index::new(Lent { entries: &mut entries, nodes: &mut nodes }))
    }

    #[test]
    fn what_two_whole_frames_cover_is_forgotten_but_for_one_of_each_lane() {
        let forms = [
            (0, Form::Image),
            (1, Form::Image),
            (1, Form::Encoded),
            (0, Form::Home),
            (0, Form::Encoded),
            (1, Form::Discard),
            (0, Form::Image),
        ];
        with_index(16, |index| {
            let insert = |index: &mut Index<Lent<'_>>, lane, stamp, form| {
                index.insert(frame(lane, stamp, stamp, 0, form)).expect("there is room")
            };
            let known = |index: &Index<Lent<'_>>| {
                chain(index).iter().map(|(stamp, _)| *stamp).collect::<Vec<_>>()
            };
            let mut newest = None;
            for (stamp, (lane, form)) in (1..).zip(forms) {
                newest = Some(insert(index, lane, stamp, form));
            }
            let newest = newest.expect("there are some");
            index.forget_below(newest, true, |second| second.stamp != Stamp(6));
            assert_eq!(known(index), [7, 6, 5, 4, 3, 2, 1], "it may not be there after a crash");
            index.forget_below(newest, true, |_| true);
            assert_eq!(known(index), [7, 6, 5, 4, 3], "an append is known by its frame");
            index.forget_below(newest, false, |_| true);
            assert_eq!(known(index), [7, 6, 4]);
            let newest = insert(index, 0, 8, Form::Encoded);
            index.forget_below(newest, false, |_| true);
            let newest = insert(index, 0, 9, Form::Image);
            index.forget_below(newest, false, |_| true);
            assert_eq!(known(index), [9, 8, 7, 6, 4], "it is built from what lies below");
        });
    }

    /// The second record of lane 0 has the block three times, and its second image covers the
    /// first; the third one of lane 1 is a copy, and what it was made of lies in lane 2.
    #[test]
    fn below_what_covers_it_one_frame_of_each_lane_is_known() {
        let (image, change) = (Form::Image, Form::Encoded);
        let images_and_changes = [
            frame(0, 1, 1, 0, image),
            frame(1, 1, 2, 0, change),
            frame(1, 2, 3, 10, change),
            frame(0, 2, 4, 10, image),
            frame(0, 2, 4, 20, image),
            frame(0, 2, 4, 30, change),
            frame(1, 3, 5, 20, change),
        ];
        let copy =
            [frame(1, 1, 1, 0, image), frame(2, 1, 2, 50, change), frame(1, 3, 2, 20, image)];
        let found = |frames: &[FrameAt], places: usize| {
            with_index(places, |index| {
                for frame in frames {
                    index.insert_cover(*frame).expect("one frame of a block");
                }
                for frame in frames {
                    if !index.insert_covered(frame).expect("one frame of a lane") {
                        index.insert(*frame).expect("what lies above");
                    }
                }
                chain(index)
            })
        };
        let expected = [(5, 20), (4, 30), (4, 20), (4, 10), (3, 10)];
        assert_eq!(found(&images_and_changes, 5), expected);
        assert_eq!(found(&copy, 3), [(2, 20), (2, 50), (1, 0)]);
    }
}
