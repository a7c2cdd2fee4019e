//! A curve by the number of dirty blocks, which are written round and round.

use std::cell::RefCell;
use std::rc::Rc;

use journal_core::Durability;
use journal_core::policy::{Change, Patch};
use nvm_journal::{FullBlock, ObjectLog};

use crate::curves::Curves;
use crate::emptied::Emptied;
use crate::{MIB, NOWHERE, OBJECT_BYTES};
use lab::bench::media::{BLOCK, Bare, warm};
use lab::bench::work::{Front, LANE_BYTES, commit_at_once, commit_change, front_of, image};
use lab::bench::{Asked, timed};
use lab::plot::Plot;

/// Commits between two checkpoints, after those that make all blocks dirty.
const MOST: u64 = 1 << 13;
/// The most bytes of a lane that a commit takes, for each of two sizes.
const RECORD_BYTES: [u64; 2] = [BLOCK as u64 + 256, OBJECT_BYTES as u64 + 256];
/// Frames of the index. No share of it is full before the lane is, even with the fewest blocks.
const FRAMES: usize = 1 << 18;

pub(crate) fn print(images: &[u8], asked: Asked) -> Plot {
    let all = [64, 512, 4096, 32768];
    let steps = asked.of(&[64, 512][..], &all, &all);
    // All steps have lanes of one size. A step goes around its lane once.
    let commits = steps.iter().copied().max().unwrap_or(0) + MOST;
    let lane_bytes = RECORD_BYTES.map(|bytes| (commits * bytes).next_multiple_of(MIB));
    let mut curves = Curves::new("Nanoseconds a commit, one call", "blocks that are dirty");
    let bare = Rc::new(RefCell::new(Bare::new(warm(LANE_BYTES))));
    for &blocks in steps {
        curves.step(blocks);
        let limits = ["limit of 4 KiB", "limit of 256 B"];
        for (limit, bytes) in limits.into_iter().zip([BLOCK, OBJECT_BYTES]) {
            let bare = Rc::clone(&bare);
            curves.point(limit, limit, 1, move |count| {
                let mut bare = bare.borrow_mut();
                timed(count, |turn| {
                    bare.commit(core::iter::once(&image(images, turn)[..bytes]), bytes);
                })
            });
        }
        let journal = front_of(FullBlock, NOWHERE, 1, lane_bytes[0], FRAMES);
        let mut whole = Emptied::new(journal, commit_at_once, (blocks, MOST));
        whole.run(images, commits);
        curves.point("4 KiB, full-block", limits[0], 1, move |count| whole.run(images, count));
        let journal = front_of(ObjectLog::new(), NOWHERE, 1, lane_bytes[1], FRAMES);
        let mut objects = Emptied::new(journal, commit_object, (blocks, MOST));
        objects.run(images, commits);
        curves.point("256 B, object-log", limits[1], 1, move |count| objects.run(images, count));
    }
    curves.print(asked.effort())
}

fn commit_object(journal: &Front<ObjectLog>, images: &[u8], block: u64) {
    let patch = [Patch { at: 512, bytes: &image(images, block)[..OBJECT_BYTES] }];
    commit_change(journal, block, Change::Patches(&patch), Durability::Durable);
}
