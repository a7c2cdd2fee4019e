//! Single durable calls with a pause before each, like those of a store that has other things to
//! do.

use std::cell::RefCell;

use journal_core::policy::{Change, Patch, Update};
use journal_core::{BlockNumber, Durability, Protocol};
use nvm_journal::{FullBlock, ObjectLog};

use crate::owner::Owner;
use crate::{BLOCKS, NOWHERE, commit};
use lab::bench::latency::Isolated;
use lab::bench::media::{BLOCK, Bare, warm};
use lab::bench::work::{
    LANE_BYTES, commit_at_once, commit_change, front, image, leaked, make_room,
};

/// A step to a block of another run. Such steps meet all blocks before one comes again.
const FAR: u64 = 1_601;
const _: () = assert!(FAR % 2 == 1 && BLOCKS.is_power_of_two());

pub(crate) fn calls(images: &[u8]) -> Isolated<'_> {
    let mut calls = Isolated::new("durable calls one at a time, 2 us of nothing before each");
    calls.row("the clock alone", |_| (), |_| ());
    let bare: &RefCell<Bare> = leaked(RefCell::new(Bare::new(warm(LANE_BYTES))));
    for bytes in [256, BLOCK] {
        calls.row(
            format!("{bytes:>4} B, limit"),
            |_| (),
            move |turn| {
                let piece = &image(images, turn)[..bytes];
                bare.borrow_mut().commit(core::iter::once(piece), bytes);
            },
        );
    }
    // The bytes of the record, with nothing computed.
    calls.row(
        " 256 B, its record alone",
        |_| (),
        move |turn| {
            bare.borrow_mut().commit(core::iter::once(&image(images, turn)[..384]), 384);
        },
    );
    // `block` goes from neighbour to neighbour. `far` goes to another run each time, far from
    // blocks that the caches still have.
    let blocks_by = |step: u64| {
        let mut next = 0;
        move || {
            next += step;
            next % BLOCKS
        }
    };
    let (mut block, mut far) = (blocks_by(1), blocks_by(FAR));
    // The core has no locks, seats and shares of the index.
    let owner: &_ = leaked(RefCell::new(Owner::new(ObjectLog::new(), Protocol::OneFence, NOWHERE)));
    calls.row(
        " 256 B, core, one owner, object-log",
        |count| owner.borrow_mut().make_room(count),
        move |turn| {
            let patch = [Patch { at: 512, bytes: &image(images, turn)[..256] }];
            let update = Update::new(BlockNumber(block()), Change::Patches(&patch));
            owner.borrow_mut().commit(update, Durability::Durable);
        },
    );
    let objects: &_ = leaked(front(ObjectLog::new(), NOWHERE, 1));
    let room = |count| make_room(objects, count, 1);
    let object = |block, turn| {
        let patch = [Patch { at: 512, bytes: &image(images, turn)[..256] }];
        commit_change(objects, block, Change::Patches(&patch), Durability::Durable);
    };
    let name = " 256 B, front door, in one call, object-log";
    calls.row(name, room, move |turn| object(block(), turn));
    let name = " 256 B, front door, one call, blocks far apart";
    calls.row(name, room, move |turn| object(far(), turn));
    let blocks: &_ = leaked(front(FullBlock, NOWHERE, 1));
    let room = |count| make_room(blocks, count, 1);
    calls.row("4096 B, front door, in one call, full-block", room, move |_| {
        commit_at_once(blocks, images, block());
    });
    calls.row("4096 B, front door, one call, blocks far apart", room, move |_| {
        commit_at_once(blocks, images, far());
    });
    // Other blocks than those that the rows above have just brought into the caches.
    calls.row("4096 B, front door, begin, write, commit", room, move |_| {
        commit(blocks, images, (block() + BLOCKS / 2) % BLOCKS, 1);
    });
    calls
}
