//! A curve by the number of changes that lie behind a whole block. Every read applies them.

use std::collections::HashMap;
use std::hint::black_box;
use std::rc::Rc;

use journal_core::policy::{Change, Patch};
use journal_core::{BlockNumber, Durability};
use nvm_journal::ObjectLog;

use crate::curves::Curves;
use crate::{MIB, NOWHERE, OBJECT_BYTES};
use lab::bench::media::BLOCK;
use lab::bench::work::{Front, commit_change, front_of, image};
use lab::bench::{Asked, timed};
use lab::plot::Plot;

/// Blocks with a chain of each length: more than the nearer caches hold.
const BLOCKS: u64 = 1 << 10;
/// More bytes than all chains take.
const LANE_BYTES: u64 = 128 * MIB;
const FRAMES: usize = 1 << 18;
/// The number of places in a block that change before the first one changes again.
const PLACES: u64 = (BLOCK / OBJECT_BYTES) as u64;

pub(crate) fn print(images: &[u8], asked: Asked) -> Plot {
    let all = [0, 1, 2, 4, 8, 16, 32];
    let steps = asked.of(&[0, 1, 4][..], &all, &all);
    let journal = Rc::new(journal(images, steps));
    let table: HashMap<u64, Box<[u8]>> =
        (0..BLOCKS).map(|block| (block, image(images, block).into())).collect();
    let table = Rc::new(table);
    let title = "Nanoseconds a read of a block by the front door, no cache";
    let mut curves = Curves::new(title, "changes of 256 B behind a whole frame, object-log");
    for (first, length) in (0..).step_by(BLOCKS as usize).zip(steps) {
        curves.step(length);
        let limit = "copy by a hash table";
        let table = Rc::clone(&table);
        curves.point(limit, limit, 1, move |count| {
            timed(count, |turn| {
                let mut content = [0; BLOCK];
                content.copy_from_slice(&table[&scattered(turn)]);
                black_box(&content);
            })
        });
        let journal = Rc::clone(&journal);
        curves.point("front door", limit, 1, move |count| {
            timed(count, |turn| {
                let mut content = [0; BLOCK];
                let block = BlockNumber(first + scattered(turn));
                journal.read(block, &mut content).expect("reads");
                black_box(&content);
            })
        });
    }
    curves.print(asked.effort())
}

/// A journal with `BLOCKS` blocks of each of these lengths in its lane.
fn journal(images: &[u8], lengths: &[u64]) -> Front<ObjectLog> {
    let journal = front_of(ObjectLog::new(), NOWHERE, 1, LANE_BYTES, FRAMES);
    let commit = |block, change: Change<'_>| {
        commit_change(&journal, block, change, Durability::Durable);
    };
    for (first, length) in (0..).step_by(BLOCKS as usize).zip(lengths) {
        for block in first..first + BLOCKS {
            commit(block, Change::Image(image(images, block)));
            for turn in 0..*length {
                let at = (turn % PLACES) as usize * OBJECT_BYTES;
                let bytes = &image(images, block + turn)[..OBJECT_BYTES];
                commit(block, Change::Patches(&[Patch { at: at as u32, bytes }]));
            }
        }
    }
    let stats = journal.stats().expect("counts");
    let frames = lengths.iter().map(|length| (1 + length) * BLOCKS).sum();
    assert_eq!((stats.frames as u64, stats.checkpoints), (frames, 0), "nothing went home");
    journal
}

/// The number of the next block, without a pattern.
#[inline]
fn scattered(turn: u64) -> u64 {
    turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 & (BLOCKS - 1)
}
