//! What needs a span made by hand: media whose write-back fails, and when streamed bytes drain.

use super::*;
use crate::map::facts::Reason;
use crate::map::pages::{PAGE_BYTES, Pages, Syncer};
use crate::map::{Mapping, memory};
use crate::processor::method::LINES_IN_FLIGHT;
use crate::region::emulator::EmulatorModel;
use core::time::Duration;
use journal_core::Granularity;
use rustix::io::Errno;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// A page-granular region over plain memory that is written back by `syncer`.
fn paged(pages: usize, syncer: Syncer) -> Region {
    let map = memory::map(pages * PAGE_BYTES).expect("there is memory");
    let facts = MapFacts {
        granularity: Granularity::Page,
        reason: Reason::PageCacheAsked,
        method: Method::best(),
        dirty_shutdowns: None,
    };
    let by = Durability::Pages(Pages::new(syncer));
    Region::whole(Span::new(Mapping::Ordinary(map), None, facts, by))
}

#[test]
fn a_fence_writes_back_the_pages_that_were_flushed_through_any_region() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&calls);
    let region = paged(
        16,
        Box::new(move |runs| {
            let runs = runs.iter().map(|run| (run.start / PAGE_BYTES, run.count));
            log.lock().expect("nobody panics").extend(runs);
            Ok(())
        }),
    );
    let (mut first, mut second) = region.split_at(Offset(8 * 4096)).expect("on a line");
    first.store(Offset(0), &[1; 8192]);
    first.store(Offset(4096 + 9), &[2; 1]);
    first.flush(Offset(4096 + 9), 1);
    second.stream(Offset(4090), &[3; 12]);
    second.flush(Offset(5 * 4096), 0);
    first.fence().expect("it can be written back");
    assert_eq!(*calls.lock().expect("nobody panics"), [(1, 1), (8, 2)]);
}

/// By whatever way the region streams it.
#[test]
fn what_is_streamed_is_there_and_in_flight_and_nothing_beside_it_changes() {
    let written_back = Arc::new(Mutex::new(0));
    let count = Arc::clone(&written_back);
    let syncer: Syncer = Box::new(move |runs| {
        let pages: usize = runs.iter().map(|run| run.count).sum();
        *count.lock().expect("nobody panics") += pages * PAGE_BYTES;
        Ok(())
    });
    let media = [
        (true, Region::anonymous(4096).expect("there is memory")),
        (true, Region::emulated(4096, EmulatorModel::njs()).expect("there is memory")),
        (false, paged(1, syncer)),
    ];
    for (is_by_lines, mut region) in media {
        let mut expected = [0; 4096];
        for (turn, (at, len)) in (1..).zip([
            (0, 64),
            (64, 256),
            (128, 65),
            (192, 1),
            (512, 127),
            (700, 64),
            (703, 200),
            (1024, 0),
            (4000, 96),
        ]) {
            let bytes = [turn; 256];
            LINES_IN_FLIGHT.set(0);
            region.stream(Offset(at as u64), &bytes[..len]);
            let lines = if is_by_lines { lines(at, len).count } else { 0 };
            assert_eq!(LINES_IN_FLIGHT.get(), lines, "{len} bytes at {at} of {region:?}");
            expected[at..at + len].fill(turn);
            region.fence().expect("it does not fail");
            let found = region.bytes(Offset(0), 4096).expect("it is there");
            assert!(found == expected, "{len} bytes at {at} of {region:?}");
        }
    }
    // Of the pages, one each time but the one that nothing was written at.
    assert_eq!(*written_back.lock().expect("nobody panics"), 8 * PAGE_BYTES);
}

#[test]
fn streaming_to_slow_memory_takes_as_long_as_the_model_says() {
    let latency = Duration::from_millis(2);
    let mut region = Region::emulated(4096, EmulatorModel::new(latency)).expect("there is memory");
    for (at, len) in [(0, 64), (0, 640), (7, 300), (64, 1)] {
        let start = Instant::now();
        region.stream(Offset(at), &[9; 640][..len]);
        assert!(start.elapsed() >= latency, "{len} bytes at {at}");
    }
}

#[test]
fn a_failed_fence_sticks_to_the_whole_span() {
    let region = paged(4, Box::new(|_| Err(Errno::IO)));
    let (mut first, mut second) = region.split_at(Offset(4096)).expect("on a line");
    let reader = second.reader();
    first.store_u64(Offset(0), 7);
    assert_eq!(first.fence(), Ok(()), "nothing was in flight");
    first.flush(Offset(0), 8);
    let failed = MediumErrorKind::FenceFailed { os: Some(Errno::IO.raw_os_error()) };
    assert_eq!(first.fence().map_err(|error| error.kind), Err(failed));
    let stuck = Err(MediumErrorKind::Stuck);
    let mut word = [0; 8];
    assert_eq!(first.fence().map_err(|error| error.kind), stuck);
    assert_eq!(second.fence().map_err(|error| error.kind), stuck);
    assert_eq!(second.bytes(Offset(0), 8).map(|_| ()).map_err(|error| error.kind), stuck);
    assert_eq!(second.read_into(Offset(0), &mut word).map_err(|error| error.kind), stuck);
    assert_eq!(reader.read_into(Offset(0), &mut word).map_err(|error| error.kind), stuck);
}

/// The real system call on a range that is not mapped: the kernel's own error comes through.
#[test]
#[cfg_attr(miri, ignore = "Miri has no msync")]
fn the_kernels_error_comes_through() {
    // Nothing is ever mapped at the lowest addresses.
    let syncer = crate::map::page_cache::syncer(core::ptr::null_mut(), 2 * PAGE_BYTES);
    let mut region = paged(2, syncer);
    region.flush(Offset(4096), 1);
    let failed = MediumErrorKind::FenceFailed { os: Some(Errno::NOMEM.raw_os_error()) };
    assert_eq!(region.fence().map_err(|error| error.kind), Err(failed));
}

#[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
#[test]
fn bytes_streamed_by_another_thread_are_visible_before_they_are_lent() {
    let mut region = Region::anonymous(1 << 16).expect("there is memory");
    let bytes = [9; 4096];
    for (at, len) in [(0, 4096), (7, 300)] {
        region = thread::scope(|scope| {
            let streaming = scope.spawn(move || {
                region.stream(Offset(at), &bytes[..len]);
                region
            });
            streaming.join().expect("it does not panic")
        });
        assert!(!region.streamer.is_visible());
        assert_eq!(region.bytes(Offset(at), len), Ok(&bytes[..len]));
        assert!(region.streamer.is_visible());
    }
    let (mut first, second) = region.split_at(Offset(4096)).expect("on a line");
    first.stream(Offset(0), &bytes);
    assert!(!first.streamer.is_visible() && second.streamer.is_visible());
    first.fence().expect("plain memory does not fail");
    assert!(first.streamer.is_visible());
}

#[test]
fn regions_and_readers_may_be_sent_and_shared() {
    fn both<T: Send + Sync>() {}
    both::<Region>();
    both::<Reader>();
    // The two are declared to be both, whatever they are made of; this they owe to it.
    both::<Span>();
    let (region, _) = (Region::anonymous(64).expect("there is memory"), thread::current());
    let reader = region.reader();
    drop(region);
    assert_eq!(reader.read_into(Offset(0), &mut [0; 64]), Ok(()), "it outlives the region");
}

#[test]
fn flushing_nothing_is_refused_where_caches_are_lost() {
    let (best, nothing) = (Method::best(), Method::best().without_flush());
    let mut volatile = Region::anonymous(4096).expect("there is memory");
    let refused = UnsupportedMethod { flush: FlushMethod::Nothing, stream: nothing.stream() };
    // Where this build knows no flush, there is nothing to be refused.
    let expected = if best == nothing { Ok(()) } else { Err(refused) };
    assert_eq!(volatile.set_method(nothing), expected);
    assert_eq!(volatile.range.method, best);

    let facts = MapFacts {
        granularity: Granularity::Store,
        reason: Reason::PersistentCaches,
        method: nothing,
        dirty_shutdowns: None,
    };
    let map = Mapping::Ordinary(memory::map(4096).expect("there is memory"));
    let mut kept = Region::whole(Span::new(map, None, facts, Durability::Lines));
    assert_eq!(kept.set_method(best), Ok(()));
    assert_eq!(kept.set_method(nothing), Ok(()));
    assert_eq!(kept.range.method, nothing);
}
