//! Journals so small that a whole span is an input.

use super::{Act, Kind, Shape, What};

/// One of each layout: records alone, with a shield and tail words, with slots, with a log.
pub fn shapes() -> [Shape; 4] {
    let least = |kind| Shape { lane_bytes: 192, shield_blocks: 0, ..Shape::new(kind, 1) };
    let tails = journal_core::Protocol::TailPointer;
    [
        least(Kind::Full),
        Shape { shield_blocks: 1, protocol: tails, ..least(Kind::Words) },
        Shape { lane_slots: 2, ..least(Kind::Delta) },
        Shape { lane_log_blocks: 2, ..least(Kind::Logged) },
    ]
}

/// Their spans, with a record where one fits.
pub fn spans() -> [Vec<u8>; 4] {
    let acts = [Act::Commit(0, vec![(1, What::Fill(0x10))])];
    shapes().map(|shape| shape.made_by(&acts).0.pmem().to_vec())
}
