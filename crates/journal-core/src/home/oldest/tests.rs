//! Lists that are made in parts, and put in order in parts.

extern crate std;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::format::record::Form;
use crate::index::{Entry, Index, LentMemory, Node};

const FRAMES: usize = 400;

fn frame(block: u64, lane: u16, sequence: u64) -> FrameAt {
    FrameAt {
        block: BlockNumber(block),
        stamp: Stamp(2 * sequence + u64::from(lane) + 1),
        lane: LaneNumber(lane),
        sequence: Sequence(sequence),
        record: 64 * sequence,
        payload: 0,
        len: 0,
        form: Form::Image,
        folded: false,
    }
}

/// Numbers by chance, the same ones each time: each call says below what.
pub(in crate::home) fn draws() -> impl FnMut(u64) -> u64 {
    let mut state = 1_u64;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    }
}

/// A pass in many parts, while frames come and go, lists what a pass at one go does, except for
/// what has gone: in this list and in the one that follows.
#[test]
#[cfg_attr(miri, ignore = "many passes over many frames")]
fn a_list_that_is_made_in_parts_has_every_frame_up_to_its_end() {
    for room in [5, 64, 300, 1000] {
        let (mut entries, mut nodes) = (vec![Entry::EMPTY; 1000], vec![Node::EMPTY; 700]);
        let memory = LentMemory { entries: &mut entries, nodes: &mut nodes };
        let mut index = Index::new(memory);
        // Nodes are used again, in another order.
        for at in 0..FRAMES as u64 {
            index.insert(frame(1000 + at, 0, 0)).expect("has room");
        }
        for at in 1..FRAMES as u64 {
            let block = BlockNumber(1000 + at * 7 % FRAMES as u64);
            let id = index.newest(block).expect("is there");
            index.remove(id);
        }
        let (mut next, mut bounds) = (1, [Sequence(0); LANES_MAX as usize]);
        let mut come = |index: &mut Index<LentMemory<'_>>, count: u64| {
            for at in next..next + count {
                index.insert(frame(at % 97, (at % 2) as u16, at)).expect("has room");
            }
            next += count;
            (bounds[0], bounds[1]) = (Sequence(next), Sequence(next));
            bounds
        };
        let bounds = come(&mut index, FRAMES as u64);
        let tails = [1 << 20; LANES_MAX as usize];
        let mut first = (vec![Listed::EMPTY; room], Left::NONE);
        let mut second = (vec![Listed::EMPTY; room], Left::NONE);
        let mut oldest = Oldest { memory: &mut first.0, left: &mut first.1 };
        let mut coming = Oldest { memory: &mut second.0, left: &mut second.1 };
        oldest.begin((&bounds, &tails), None);
        let mut listed = Vec::new();
        loop {
            let mut list = |list: &mut Oldest<'_>, index: &mut Index<LentMemory<'_>>| {
                let mut parts = 0;
                while !list.left.is_whole {
                    list.go_on(index, 37, |_| true);
                    parts += 1;
                    come(index, u64::from(index.free_frames() > 0));
                }
                parts
            };
            assert!(list(&mut oldest, &mut index) > 1 || !listed.is_empty());
            oldest.put_in_order(usize::MAX);
            let frames: Vec<_> = oldest.frames().iter().map(|it| it.sequence.raw()).collect();
            assert!(frames.is_sorted());
            listed.extend(frames);
            coming.begin((&bounds, &tails), Some(&oldest));
            list(&mut coming, &mut index);
            let behind = oldest.behind(oldest.frames().len());
            let first_kept = behind.map(|(sequence, _)| sequence);
            assert!(coming.follows(&first_kept));
            assert!(!coming.follows(&[Sequence(0); LANES_MAX as usize]));
            if coming.is_empty() {
                break;
            }
            oldest.take_over(&coming);
        }
        let all: Vec<u64> = (1..=FRAMES as u64).collect();
        assert_eq!(listed, all, "room for {room}");
    }
}

/// Where the frames of one record take more than half of the list, they stay and newer ones
/// leave. Where they take more than all of it, the list ends before them.
#[test]
fn a_record_is_in_a_list_as_a_whole_or_not_at_all() {
    const ROOM: usize = 20;
    for (of_first, others) in [(11, 30), (19, 30), (20, 30), (20, 0), (21, 0), (21, 30), (45, 5)] {
        for is_first_seen_last in [false, true] {
            let (mut entries, mut nodes) = (vec![Entry::EMPTY; 200], vec![Node::EMPTY; 120]);
            let memory = LentMemory { entries: &mut entries, nodes: &mut nodes };
            let mut index = Index::new(memory);
            let first = (0..of_first).map(|block| frame(block, 0, 1));
            let later = (2..2 + others).map(|at| frame(100 + at, 0, at));
            let mut all: Vec<_> = first.chain(later).collect();
            if is_first_seen_last {
                all.reverse();
            }
            for frame in all {
                index.insert(frame).expect("has room");
            }
            let mut bounds = [Sequence(0); LANES_MAX as usize];
            bounds[0] = Sequence(100);
            let tails = [1 << 20; LANES_MAX as usize];
            let (mut memory, mut left) = (vec![Listed::EMPTY; ROOM], Left::NONE);
            let mut list = Oldest { memory: &mut memory, left: &mut left };
            list.begin((&bounds, &tails), None);
            list.go_on(&mut index, usize::MAX, |_| true);
            let end = list.ends()[0].0;
            let below = (0..of_first).filter(|_| Sequence(1) < end).count();
            let below = below + (2..2 + others).filter(|at| Sequence(*at) < end).count();
            assert_eq!(list.len(), below, "{of_first}, {others}");
            // One that fills the list may leave it, if another frame comes.
            let is_in = end > Sequence(1);
            assert!(is_in || of_first >= ROOM as u64, "{of_first}, {others}");
            assert!(!is_in || of_first <= ROOM as u64, "{of_first}, {others}");
        }
    }
}

/// A copy is as old as what it is of, and lies behind what is newer.
#[test]
fn a_copy_behind_the_end_of_a_list_is_in_a_later_one() {
    let (mut entries, mut nodes) = (vec![Entry::EMPTY; 100], vec![Node::EMPTY; 60]);
    let memory = LentMemory { entries: &mut entries, nodes: &mut nodes };
    let mut index = Index::new(memory);
    let copy = FrameAt { stamp: Stamp(1), ..frame(99, 0, 30) };
    index.insert(copy).expect("has room");
    for at in 1..30 {
        index.insert(frame(at, 0, at)).expect("has room");
    }
    let mut bounds = [Sequence(0); LANES_MAX as usize];
    bounds[0] = Sequence(31);
    let tails = [1 << 20; LANES_MAX as usize];
    let (mut memory, mut left) = (vec![Listed::EMPTY; 10], Left::NONE);
    let mut list = Oldest { memory: &mut memory, left: &mut left };
    list.begin((&bounds, &tails), None);
    list.go_on(&mut index, usize::MAX, |_| true);
    list.put_in_order(usize::MAX);
    let blocks: Vec<_> = list.frames().iter().map(|listed| listed.block.raw()).collect();
    let end = list.behind(blocks.len())[0].0.raw();
    assert!(!blocks.is_empty() && blocks == (1..end).collect::<Vec<_>>(), "{blocks:?}");
}

/// However little of a list is in order, its beginning is what is oldest, records are in it as a
/// whole, and heads may go as far as all that is left lets them.
#[test]
#[cfg_attr(miri, ignore = "many lists")]
fn a_list_that_is_partly_in_order_keeps_heads_before_all_that_is_left() {
    let mut draw = draws();
    for _ in 0..2000 {
        // Lanes with records of several frames. Some are copies, of older stamps.
        let (mut memory, mut left) = (vec![Listed::EMPTY; 60], Left::NONE);
        let mut bounds = [Sequence(0); LANES_MAX as usize];
        bounds[..3].fill(Sequence(1000));
        let tails = [1 << 20; LANES_MAX as usize];
        let mut list = Oldest { memory: &mut memory, left: &mut left };
        list.begin((&bounds, &tails), None);
        for sequence in 1..=draw(20) {
            let lane = draw(3) as u16;
            let stamp = Stamp(if draw(8) == 0 { draw(10) } else { 2 * sequence + draw(2) });
            for block in 0..=draw(3) {
                if list.added() < 60 {
                    list.add_read(&FrameAt { stamp, ..frame(block, lane, sequence) });
                }
            }
        }
        list.left.is_whole = true;
        let (ends, mut all) = (*list.ends(), list.memory[..list.len()].to_vec());
        let first_of = |all: &[Listed]| {
            let mut first = ends;
            for listed in all {
                let lane = &mut first[usize::from(listed.lane.raw())];
                *lane = (*lane).min((listed.sequence, listed.record));
            }
            first
        };
        while !list.is_empty() {
            let least = draw(9) as usize;
            list.put_in_order(least);
            all.sort_by_key(|listed| (listed.age(), listed.lane, listed.sequence, listed.block));
            let mut ordered = list.frames().to_vec();
            assert!(ordered.is_sorted_by_key(Listed::age) && ordered.len() >= least.min(all.len()));
            ordered
                .sort_by_key(|listed| (listed.age(), listed.lane, listed.sequence, listed.block));
            let place = |listed: &Listed| (listed.stamp, listed.sequence, listed.block);
            assert!(ordered.iter().map(place).eq(all[..ordered.len()].iter().map(place)));
            let splits = all
                .get(ordered.len())
                .is_some_and(|next| ordered.last().is_some_and(|last| last.is_as_old_as(next)));
            assert!(!splits, "a record is in order in part");
            let is_known = !ordered.is_empty() || least > 0;
            for count in 0..=ordered.len() {
                let others = [&list.frames()[count..], &all[ordered.len()..]].concat();
                let (behind, first) = (list.behind(count), first_of(&others));
                assert!(behind.iter().zip(&first).all(|(behind, first)| behind <= first));
                assert!(!is_known || behind == first, "heads may go as far as that");
            }
            match draw(4) {
                0 => {
                    let cut = list.behind(ordered.len() / 2).map(|(sequence, _)| sequence);
                    list.drop_passed(&cut);
                    all.retain(|listed| !listed.is_below(&cut));
                }
                _ => {
                    let seen = list.frames().len().min(1 + draw(6) as usize);
                    let cut = list.behind(seen).map(|(sequence, _)| sequence);
                    let looked_at = list.frames()[..seen].to_vec();
                    let goes = |listed: &Listed| {
                        let is_it = |other: &Listed| place(other) == place(listed);
                        listed.is_below(&cut) && looked_at.iter().any(is_it)
                    };
                    all.retain(|listed| !goes(listed));
                    list.drop_below(seen, &cut);
                    if looked_at.iter().all(|listed| !listed.is_below(&cut)) {
                        // A copy lies behind the others.
                        list.pass(seen);
                        all.retain(|listed| !looked_at.iter().any(|it| place(it) == place(listed)));
                    }
                }
            }
            assert_eq!(list.len(), all.len());
        }
    }
}

/// A list of all slots may be left in memory of which a later step gives a part.
#[test]
fn a_list_in_memory_that_became_shorter_is_none() {
    let (mut memory, mut left) = (vec![Listed::EMPTY; 20], Left::NONE);
    let mut list = Oldest { memory: &mut memory, left: &mut left };
    let mut frames = (1..=15).map(|at| frame(at, 0, at));
    assert!(frames.all(|frame| list.add_read(&frame)));
    list.put_in_order(usize::MAX);
    list.pass(12);
    assert_eq!((list.len(), list.frames().len()), (3, 3));
    let mut list = Oldest { memory: &mut memory[..10], left: &mut left };
    assert!(list.is_empty() && list.frames().is_empty());
    assert_eq!(list.put_in_order(1), 0);
}

/// Blocks have frames in three lanes, some of them copies, and some that slots' entries say too.
/// What a cut drops of a block is its old end, or it is said not to be known. Which frames have
/// left is known.
#[test]
#[cfg_attr(miri, ignore = "many lists")]
fn the_end_of_a_chain_that_a_cut_drops_is_all_that_it_drops() {
    let mut draw = draws();
    let (mut known, mut gone, mut nothing) = (0, 0, 0);
    for _ in 0..20_000 {
        let (mut entries, mut nodes) = (vec![Entry::EMPTY; 3], vec![Node::EMPTY; 9]);
        let memory = LentMemory { entries: &mut entries, nodes: &mut nodes };
        let (mut index, block, lanes) = (Index::new(memory), BlockNumber(7), 1 + draw(3));
        let (mut listed, mut has_copies, mut has_folded) = (Vec::new(), false, false);
        for sequence in 1..=1 + draw(8) {
            let (lane, copied) = (draw(lanes) as u16, draw(12) == 0);
            has_copies |= copied;
            let stamp = Stamp(if copied { 1 + draw(sequence) } else { sequence });
            let folded = draw(8) == 0;
            has_folded |= folded;
            let mut frame = FrameAt { stamp, folded, ..frame(7, lane, sequence) };
            if folded && draw(2) == 0 {
                // It has left the ring.
                frame.sequence = Sequence(0);
            } else {
                listed.push(Listed::of(&frame, 0));
            }
            let _newest = index.insert(frame).expect("has room");
        }
        for _ in 0..draw(4) {
            let at = draw(9) as usize;
            if let Some(id) = index.used_node(at) {
                index.remove(id);
            }
        }
        listed.sort_by_key(Listed::place);
        let cut = core::array::from_fn(|_| Sequence(draw(10)));
        let chain = core::iter::successors(index.oldest(block), |id| index.newer(*id));
        let chain: Vec<_> = chain.collect();
        for listed in &listed {
            let is_in = chain.iter().any(|id| listed.is_of(&index.frame(*id)));
            assert_eq!(listed.may_be_in(&index), is_in, "{listed:?} in {chain:?}");
        }
        let is_dropped = |frame: &FrameAt| frame.is_below(&cut) && frame.sequence != Sequence(0);
        let dropped: Vec<_> =
            chain.iter().copied().filter(|id| is_dropped(&index.frame(*id))).collect();
        let is_end = chain.starts_with(&dropped);
        let is_folded = dropped.iter().any(|id| index.frame(*id).folded);
        let below = listed.iter().filter(|listed| listed.is_below(&cut)).count();
        let Some(end) = DroppedEnd::of(&index, &listed, &cut) else {
            let is_there = listed.len() == chain.len();
            let is_simple = is_end && !has_folded && !chain.is_empty();
            let is_simple = is_simple && (is_there || lanes == 1 && !has_copies);
            assert!(!is_simple, "what is simple is known");
            continue;
        };
        assert!(is_end && !is_folded, "{dropped:?} of {chain:?}");
        assert_eq!((Some(&end.oldest), end.newest.as_ref()), (chain.first(), dropped.last()));
        known += 1;
        gone += usize::from(below > dropped.len());
        nothing += usize::from(below > 0 && dropped.is_empty());
    }
    assert!(known > 1000 && gone > 100 && nothing > 100, "{known}, {gone}, {nothing}");
}
