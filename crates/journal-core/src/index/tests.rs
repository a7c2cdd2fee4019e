//! The index against a map of sorted lists.

extern crate std;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use zerocopy::FromZeros as _;

use super::*;
use crate::index::ahead::nothing_ahead;
use crate::index::frame::Full;
use crate::units::LANES_MAX;

fn frame(block: u64, stamp: u64) -> FrameAt {
    FrameAt {
        block: BlockNumber(block),
        stamp: Stamp(stamp),
        lane: LaneNumber((stamp % 3) as u16),
        sequence: Sequence(stamp),
        record: 0,
        payload: 0,
        len: 0,
        form: Form::Image,
        folded: false,
    }
}

/// Few are whole.
fn form_of(stamp: u64) -> Form {
    if stamp % 5 == 0 { Form::Image } else { Form::Encoded }
}

fn chain<M: IndexMemory>(index: &Index<M>, block: u64) -> Vec<u64> {
    let first = index.newest(BlockNumber(block));
    let ids = core::iter::successors(first, |id| index.older(*id));
    ids.map(|id| index.frame(id).stamp.raw()).collect()
}

/// What is done to an index.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64, u64),
    /// One of the block's frames.
    Remove(u64, u64),
    /// All frames of odd stamps, or of even ones.
    RemoveWhere(u64),
    /// Each block's frames below a stamp.
    RemoveLast(u64),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pair = || (0_u64..6, 1_u64..500);
    let step = prop_oneof![
        20 => pair().prop_map(|(block, stamp)| Step::Insert(block, stamp)),
        16 => pair().prop_map(|(block, number)| Step::Remove(block, number)),
        1 => (0_u64..2).prop_map(Step::RemoveWhere),
        2 => (1_u64..500).prop_map(Step::RemoveLast),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 0..if cfg!(miri) { 12 } else { 120 })
}

/// Goes through the steps with room for a number of frames, of a number of blocks, which lie a
/// given distance apart.
fn is_as_a_map_of_sorted_lists<M: IndexMemory>(
    mut index: Index<M>,
    (frames_max, blocks_max): (usize, usize),
    apart: u64,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut model: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for step in steps {
        let frames: usize = model.values().map(Vec::len).sum();
        match *step {
            Step::Insert(_, stamp) if model.values().flatten().any(|known| *known == stamp) => {}
            Step::Insert(block, stamp) => {
                let has_entry = model.contains_key(&block) || model.len() < blocks_max;
                let fits = frames < frames_max && has_entry;
                let frame = FrameAt { form: form_of(stamp), ..frame(apart * block, stamp) };
                prop_assert_eq!(index.insert(frame).is_ok(), fits);
                if fits {
                    let chain = model.entry(block).or_default();
                    chain.push(stamp);
                    chain.sort_by_key(|stamp| core::cmp::Reverse(*stamp));
                }
            }
            Step::Remove(block, number) => {
                let Some(stamps) = model.get_mut(&block) else { continue };
                let victim = stamps.remove(number as usize % stamps.len());
                let id = index.all().find(|id| index.frame(*id).stamp.raw() == victim);
                index.remove(id.expect("is in the index"));
            }
            Step::RemoveWhere(rest) => {
                index.remove_where(|frame| frame.stamp.raw() % 2 == rest, nothing_ahead);
                model.values_mut().for_each(|chain| chain.retain(|stamp| stamp % 2 != rest));
            }
            Step::RemoveLast(end) => {
                let cut = [Sequence(end); LANES_MAX as usize];
                for (block, chain) in &mut model {
                    let oldest = index.oldest(BlockNumber(apart * block)).expect("has one");
                    let (count, last) = index.last_below(oldest, &cut);
                    let last = last.map(|id| index.frame(id).stamp.raw());
                    prop_assert_eq!(last, chain.iter().find(|stamp| **stamp < end).copied());
                    prop_assert_eq!(count, chain.iter().filter(|stamp| **stamp < end).count());
                    chain.retain(|stamp| *stamp >= end);
                    index.remove_last_below(oldest, &cut);
                }
            }
            Step::Clear => {
                index.clear();
                model.clear();
            }
        }
        model.retain(|_, chain| !chain.is_empty());
        for block in 0..6 {
            let expected = model.get(&block).cloned().unwrap_or_default();
            let number = apart * block;
            prop_assert_eq!(chain(&index, number), expected);
            let newest = index.newest(BlockNumber(number)).map(|id| (id, index.frame(id).lane));
            let lead = index.lead(BlockNumber(number)).map(|lead| (lead.newest(), lead.lane()));
            prop_assert_eq!(lead, newest);
            let oldest = index.oldest(BlockNumber(number)).map(|id| index.frame(id).stamp.raw());
            prop_assert_eq!(oldest, chain(&index, number).last().copied());
            let ids = core::iter::successors(newest.map(|(id, _)| id), |id| index.older(*id));
            let whole = ids.clone().find(|id| index.frame(*id).is_whole());
            prop_assert_eq!(index.newest_whole(BlockNumber(number)), whole);
            for from in ids.collect::<Vec<_>>() {
                let mut below = core::iter::successors(Some(from), |id| index.older(*id));
                let whole = below.find(|id| index.frame(*id).is_whole());
                prop_assert_eq!(index.whole_below(from), whole);
            }
        }
        let mut expected: Vec<u64> = model.values().flatten().copied().collect();
        expected.sort_unstable();
        let ids = (0..index.node_count()).filter_map(|number| index.used_node(number));
        for ids in [index.all().collect::<Vec<_>>(), ids.collect()] {
            let mut found: Vec<_> = ids.iter().map(|id| index.frame(*id).stamp.raw()).collect();
            found.sort_unstable();
            prop_assert_eq!(&found, &expected);
        }
        prop_assert_eq!(index.nodes_free(), frames_max - expected.len());
        prop_assert_eq!(index.entries_free(), blocks_max - model.len());
        let mut blocks: Vec<_> = index.each_block().map(|block| block.raw() / apart).collect();
        blocks.sort_unstable();
        prop_assert_eq!(blocks, model.keys().copied().collect::<Vec<_>>());
    }
    Ok(())
}

/// Memory that another index has left as it was.
fn used() -> (Vec<Entry>, Vec<Node>) {
    let mut entries = vec![Entry::EMPTY; 5];
    let mut nodes = vec![Node::EMPTY; 12];
    let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
    for stamp in 1..=12 {
        index.insert(frame(stamp % 4, stamp)).expect("there is room");
    }
    (entries, nodes)
}

proptest! {
    #[test]
    fn chains_are_as_a_map_of_sorted_lists(steps in steps()) {
        let (mut entries, mut nodes) = used();
        let index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        is_as_a_map_of_sorted_lists(index, (12, 4), 1, &steps)?;
    }

    #[test]
    fn the_same_in_memory_of_zeroes(steps in steps()) {
        let (mut entries, mut nodes) = ([Entry::new_zeroed(); 14], [Node::new_zeroed(); 9]);
        let index = Index::over_zeroes(LentMemory { entries: &mut entries, nodes: &mut nodes });
        is_as_a_map_of_sorted_lists(index, (9, 13), 1, &steps)?;
    }

    /// Each block of a run of its own: they meet in the two groups, and behind them.
    #[test]
    #[cfg_attr(miri, ignore = "the same, and more of it")]
    fn the_same_of_blocks_far_apart(steps in steps(), apart in 1_u64..40) {
        let (mut entries, mut nodes) = ([Entry::EMPTY; 19], [Node::EMPTY; 30]);
        let index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        is_as_a_map_of_sorted_lists(index, (30, 18), RUN_BLOCKS * apart, &steps)?;
    }
}

#[test]
fn an_entry_is_where_it_is_said_to_be() {
    let mut entries = vec![Entry::EMPTY; 64];
    let mut nodes = vec![Node::EMPTY; 8];
    let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
    let addresses = EntryAddresses::of(&index);
    // Eight groups: those of some meet.
    let blocks = (0..8).map(|number| number * (RUN_BLOCKS + 1));
    for block in blocks.clone() {
        index.insert(frame(block, 1)).expect("there is room");
    }
    let at_home = |block: &u64| {
        let entry = index.entry(BlockNumber(*block)).expect("it was inserted");
        core::ptr::from_ref(entry).cast() == addresses.address_of(BlockNumber(*block))
    };
    // All but those that found another block in their entry.
    assert!(blocks.filter(at_home).count() > 4);
}

/// An append is home under its own stamp, and an open may drop its frame.
#[test]
fn what_is_written_over_an_append_without_a_frame_is_home() {
    let (mut entries, mut nodes) = ([Entry::EMPTY; 9], [Node::EMPTY; 8]);
    let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
    let (block, append) = (BlockNumber(1), FrameAt { form: Form::Home, ..frame(1, 4) });
    let older = index.insert(frame(1, 3)).expect("there is room");
    let dropped = index.insert_found(append).expect("there is room");
    index.set_home(block, Stamp(3));
    assert!(index.is_home(dropped), "a checkpoint that looked before the append");
    index.remove(dropped);
    assert!(!index.is_home(older), "what is home is the append's");
    index.set_home(block, Stamp(3));
    assert!(index.is_home(older));
}

/// In the middle of use: with free entries, and blocks whose searches lead past others.
#[test]
fn what_moves_to_larger_memory_is_found_there() {
    let mut few = (vec![Entry::EMPTY; 9], vec![Node::EMPTY; 8]);
    let mut more = (vec![Entry::EMPTY; 30], vec![Node::EMPTY; 20]);
    let mut index = Index::new(LentMemory { entries: &mut few.0, nodes: &mut few.1 });
    for stamp in 1..=8 {
        index.insert(frame(stamp % 3 * 8, stamp)).expect("there is room");
    }
    let second = index.newest(BlockNumber(8)).and_then(|newest| index.older(newest));
    index.remove(second.expect("it has several"));
    index.suspect_homes();
    index.insert(frame(7, 9)).expect("there is room");
    assert_eq!(index.free_frames(), 0);
    index.move_to(LentMemory { entries: &mut more.0, nodes: &mut more.1 });
    assert_eq!((index.free_frames(), index.frames(), index.blocks()), (12, 8, 4));
    let chains = [0, 8, 16, 7].map(|block| chain(&index, block));
    assert_eq!(chains, [vec![6, 3], vec![7, 1], vec![8, 5, 2], vec![9]]);
    let suspect = [0, 8, 16, 7].map(|block| index.is_suspect(BlockNumber(block)));
    assert_eq!(suspect, [true, true, true, false], "what came since is none");
    for stamp in 10..=21 {
        index.insert(frame(stamp, stamp)).expect("there is room");
    }
    assert_eq!(index.insert(frame(30, 30)), Err(Full));
    index.set_home(BlockNumber(8), Stamp(7));
    assert!(!index.is_suspect(BlockNumber(8)), "it was written");
}

/// A count of what came may be too high where frames have left, and is put right by the first look.
#[test]
fn the_length_of_a_chain_is_that_of_its_frames() {
    let (mut entries, mut nodes) = (vec![Entry::EMPTY; 9], vec![Node::EMPTY; 600]);
    let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
    let block = BlockNumber(1);
    let change = |stamp| FrameAt { form: Form::Encoded, ..frame(1, stamp) };
    assert!(!index.has_chain_of(block, 1), "it has no frame");
    index.insert(frame(1, 1)).expect("there is room");
    assert!(!index.has_chain_of(block, 1), "it is whole");
    for stamp in 2..=300 {
        index.insert(change(stamp)).expect("there is room");
        for least in [1, 16, 255] {
            assert_eq!(index.has_chain_of(block, least), stamp > u64::from(least), "{stamp}");
        }
    }
    index.remove_where(|frame| frame.stamp <= Stamp(290), |_| {});
    assert!(index.has_chain_of(block, 10));
    assert!(!index.has_chain_of(block, 11));
    assert!(!index.has_chain_of(block, 11));
    for stamp in 301..=305 {
        assert!(!index.has_chain_of(block, 15), "{stamp}");
        index.insert(change(stamp)).expect("there is room");
    }
    assert!(index.has_chain_of(block, 15));
    index.insert(frame(1, 306)).expect("there is room");
    assert!(!index.has_chain_of(block, 1));
}

/// Of one stamp the later frame comes first.
#[test]
fn the_newest_whole_frame_is_found_among_those_of_its_stamp() {
    let (mut entries, mut nodes) = (vec![Entry::EMPTY; 9], vec![Node::EMPTY; 8]);
    let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
    let change = |stamp| FrameAt { form: Form::Encoded, ..frame(1, stamp) };
    let mut insert = |frame| index.insert(frame).expect("there is room");
    let (older, change_of_3) = (insert(frame(1, 2)), insert(change(3)));
    let (newest, first) = (insert(change(4)), insert(frame(1, 3)));
    let copy = insert(FrameAt { sequence: Sequence(9), ..frame(1, 3) });
    assert_eq!(index.newest_whole(BlockNumber(1)), Some(copy));
    assert_eq!(index.whole_below(newest), Some(copy));
    assert_eq!(index.whole_below(change_of_3), Some(older), "the others are above it");
    index.remove(copy);
    assert_eq!(index.whole_below(newest), Some(first));
    index.remove(first);
    assert_eq!(index.whole_below(newest), Some(older));
    index.remove(older);
    assert_eq!(index.whole_below(newest), None);
}

#[test]
fn an_entry_keeps_its_marks_when_a_frame_comes() {
    let (mut entries, mut nodes) = (vec![Entry::EMPTY; 9], vec![Node::EMPTY; 8]);
    let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
    let block = BlockNumber(1);
    index.insert(frame(1, 1)).expect("there is room");
    index.suspect_homes();
    index.set_leaving(block, true);
    for stamp in 2..5 {
        index.insert(frame(1, stamp)).expect("there is room");
        assert!(index.is_suspect(block) && index.is_leaving(block));
        let lane = index.lead(block).map(|lead| lead.lane());
        assert_eq!(lane, Some(LaneNumber((stamp % 3) as u16)));
    }
    index.set_home(block, Stamp(4));
    assert!(!index.is_suspect(block) && !index.is_leaving(block));
}

#[test]
fn a_block_is_known_to_have_no_entries() {
    let (mut entries, mut nodes) = (vec![Entry::EMPTY; 9], vec![Node::EMPTY; 8]);
    let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
    let version = |stamp| FrameAt { form: Form::Slot, ..frame(3, stamp) };
    let [first, second] = [1, 2].map(|stamp| index.insert(version(stamp)).expect("there is room"));
    assert!(!index.may_have_folded(BlockNumber(3)), "no entry is written");
    index.set_folded(first, true);
    assert!(index.may_have_folded(BlockNumber(3)));
    index.set_folded(second, true);
    index.set_folded(first, false);
    assert!(index.may_have_folded(BlockNumber(3)), "of the other version there is one");
    index.set_folded(second, false);
    assert!(!index.may_have_folded(BlockNumber(3)));
    let found = FrameAt { folded: true, ..version(3) };
    index.insert(found).expect("there is room");
    assert!(index.may_have_folded(BlockNumber(3)), "an open found it");
    assert!(!index.may_have_folded(BlockNumber(4)));
}
