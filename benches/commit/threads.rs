//! Whole blocks from two threads that run together.

use core::hint::{black_box, spin_loop};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use journal_core::{BlockNumber, Kernels as _, Offset, PmemSplit as _};
use nvm_journal::FullBlock;
use pmem_sys::NativeKernels;

use crate::{BLOCKS, NOWHERE, commit};
use lab::bench::media::{BLOCK, Bare, warm};
use lab::bench::work::{LANE_BYTES, both, commit_at_once, front, image, leaked, make_room};
use lab::bench::{Table, timed};

/// The bare medium for each of two threads.
pub(crate) fn halves() -> &'static [Mutex<Bare>; 2] {
    let halves = warm(2 * LANE_BYTES).split_at(Offset(LANE_BYTES)).expect("on a line");
    leaked([halves.0, halves.1].map(|half| Mutex::new(Bare::new(half))))
}

/// Waits until the line has this number, and stores the next one.
fn hand_over(line: &AtomicU64, number: u64) {
    let mut looks = 0_u32;
    while line.load(Ordering::Acquire) != number {
        looks += 1;
        // The other thread may need this processor.
        if looks % (1 << 10) == 0 { std::thread::yield_now() } else { spin_loop() }
    }
    line.store(number + 1, Ordering::Release);
}

pub(crate) fn two(images: &[u8]) -> Table<'_> {
    let mut table = Table::new("two threads, one block each; time per block over both");
    let journal: &_ = leaked(front(FullBlock, NOWHERE, 2));
    let halves = halves();
    let bare = move |thread: u64, turn: u64| {
        let mut bare = halves[thread as usize].lock().expect("no thread panics");
        bare.commit(core::iter::once(image(images, turn)), BLOCK);
    };
    let one_limit = "limit, one thread";
    table.row(one_limit, one_limit, 1, None, move |count| timed(count, |turn| bare(0, turn)));
    table.row("limit, two threads", one_limit, 2, None, move |count| both(count, bare));
    // How far the two processors are from each other. In a virtual machine that may change.
    let line: &_ = leaked(AtomicU64::new(0));
    table.row("a line, from one thread to the other", one_limit, 2, None, move |count| {
        line.store(0, Ordering::Relaxed);
        both(count, |thread, turn| hand_over(line, 2 * turn + thread))
    });
    // Whether each of them is a whole processor: two that share one are slower here.
    let (computed, kernels) =
        ("checks of 256 B in the caches, one thread", NativeKernels::detect());
    let check = move |turn| {
        black_box(kernels.crc64(0, &image(images, turn)[..256]));
    };
    table.row(computed, computed, 1, None, move |count| timed(count, check));
    table.row("checks of 256 B in the caches, two threads", computed, 2, None, move |count| {
        both(count, |_, turn| check(turn))
    });
    let one = "front door, one thread";
    table.row(one, one, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| commit(journal, images, turn % (BLOCKS / 2), 1))
    });
    let apart = move |thread: u64, turn: u64| {
        commit(journal, images, thread * (BLOCKS / 2) + turn % (BLOCKS / 2), 1);
    };
    table.row("front door, two threads, blocks of their own", one, 2, None, move |count| {
        make_room(journal, 2 * count, 1);
        both(count, apart)
    });
    let once = "front door, one thread, in one call";
    table.row(once, once, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| commit_at_once(journal, images, turn % (BLOCKS / 2)))
    });
    let apart = move |thread: u64, turn: u64| {
        commit_at_once(journal, images, thread * (BLOCKS / 2) + turn % (BLOCKS / 2));
    };
    table.row("front door, two threads, in one call", once, 2, None, move |count| {
        make_room(journal, 2 * count, 1);
        both(count, apart)
    });
    let together = move |_: u64, turn: u64| {
        journal.transact(|tx| tx.write(BlockNumber(0), image(images, turn))).expect("gets through");
    };
    table.row("front door, two threads, the same block", one, 2, None, move |count| {
        make_room(journal, 2 * count, 1);
        both(count, together)
    });
    table
}
