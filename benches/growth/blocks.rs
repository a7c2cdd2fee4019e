//! A curve by the number of blocks in a transaction.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use journal_core::{BlockNumber, Durability, Operation};
use nvm_journal::FullBlock;

use crate::NOWHERE;
use crate::curves::Curves;
use lab::bench::media::{BLOCK, Bare, warm};
use lab::bench::work::{LANE_BYTES, front, image, make_room};
use lab::bench::{Asked, timed};
use lab::plot::Plot;

/// Blocks that are written in turn.
const WRITTEN: u64 = 1 << 12;

pub(crate) fn print(images: &[u8], asked: Asked) -> Plot {
    let most = [1, 2, 4, 8, 16, 32, 64, 128];
    let steps = asked.of(&[1, 2, 8][..], &most, &most);
    let title = "Nanoseconds a block, durable in one call, full-block";
    let mut curves = Curves::new(title, "blocks of 4 KiB in a transaction");
    let bare = Rc::new(RefCell::new(Bare::new(warm(LANE_BYTES))));
    let journal = Rc::new(front(FullBlock, NOWHERE, 1));
    for &blocks in steps {
        curves.step(blocks);
        let limit = "limit: stream, fence";
        let bare = Rc::clone(&bare);
        curves.point(limit, limit, blocks, move |count| {
            let mut bare = bare.borrow_mut();
            timed(count, |turn| {
                let pieces = (0..blocks).map(|at| image(images, turn + at));
                bare.commit(pieces, blocks as usize * BLOCK);
            })
        });
        let journal = Rc::clone(&journal);
        curves.point("front door", limit, blocks, move |count| {
            make_room(&journal, count, blocks);
            timed(count, |turn| {
                let first = turn * blocks % WRITTEN;
                let write =
                    |at| Operation::write(BlockNumber(first + at), image(images, turn + at));
                let operations: Vec<_> = (0..blocks).map(write).collect();
                black_box(journal.commit(&operations, Durability::Durable).expect("commits"));
            })
        });
    }
    curves.print(asked.effort())
}
