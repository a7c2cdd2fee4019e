//! A curve by the number of threads that commit together, each with blocks and a lane of its own.

use std::rc::Rc;
use std::sync::Mutex;

use journal_core::Durability;
use journal_core::policy::{Change, Patch};
use nvm_journal::{FullBlock, ObjectLog};

use crate::curves::Curves;
use crate::{NOWHERE, OBJECT_BYTES};
use lab::bench::Asked;
use lab::bench::media::{BLOCK, Bare, warm};
use lab::bench::work::{
    LANE_BYTES, commit_at_once, commit_change, front, image, make_room, together,
};
use lab::plot::Plot;

/// Blocks that a thread writes in turn.
const WRITTEN: u64 = 1 << 11;

pub(crate) fn print(images: &[u8], asked: Asked) -> Plot {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let steps: Vec<u64> = [1, 2, 4].into_iter().filter(|step| *step <= processors).collect();
    let lanes = steps.iter().copied().max().unwrap_or(1) as u16;
    let title = "Nanoseconds a commit over all threads, one call";
    let mut curves = Curves::new(title, "threads, no more than processors");
    let bare = || Mutex::new(Bare::new(warm(LANE_BYTES)));
    let bare: Rc<[_]> = (0..lanes).map(|_| bare()).collect();
    let blocks = Rc::new(front(FullBlock, NOWHERE, lanes));
    let objects = Rc::new(front(ObjectLog::new(), NOWHERE, lanes));
    for &threads in &steps {
        curves.step(threads);
        for (name, bytes) in [("limit of 4 KiB", BLOCK), ("limit of 256 B", OBJECT_BYTES)] {
            let bare = Rc::clone(&bare);
            curves.point_from_first(name, threads, move |count| {
                let bare = &*bare;
                together(threads, count, |thread, turn| {
                    let mut bare = bare[thread as usize].lock().expect("no thread panics");
                    bare.commit(core::iter::once(&image(images, turn)[..bytes]), bytes);
                })
            });
        }
        let journal = Rc::clone(&blocks);
        curves.point_from_first("4 KiB, full-block", threads, move |count| {
            make_room(&journal, threads * count, 1);
            let journal = &*journal;
            together(threads, count, |thread, turn| {
                commit_at_once(journal, images, thread * WRITTEN + turn % WRITTEN);
            })
        });
        let journal = Rc::clone(&objects);
        curves.point_from_first("256 B, object-log", threads, move |count| {
            make_room(&journal, threads * count, 1);
            let journal = &*journal;
            together(threads, count, |thread, turn| {
                let patch = [Patch { at: 512, bytes: &image(images, turn)[..OBJECT_BYTES] }];
                let block = thread * WRITTEN + turn % WRITTEN;
                commit_change(journal, block, Change::Patches(&patch), Durability::Durable);
            })
        });
    }
    curves.print(asked.effort())
}
