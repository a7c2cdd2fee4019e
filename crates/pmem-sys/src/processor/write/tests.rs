//! Every alignment and length, seen instruction by instruction.

use super::*;
use crate::lines::lines;
use crate::processor::choices::{FlushMethod, StreamMethod};
use crate::processor::method::Method;
use core::cell::RefCell;

/// What an instruction did to the memory, by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Store { at: usize, len: usize },
    Stream { at: usize, len: usize },
    Flush { line: usize },
}

/// Executes `Method` and writes down what it was told; may leave one thing out.
#[derive(Clone, Copy)]
struct Recorder<'a> {
    method: Method,
    base: *const u8,
    events: &'a RefCell<Vec<Event>>,
    /// Number of the event that does not happen.
    omitted: Option<usize>,
}

impl Recorder<'_> {
    /// Whether it shall happen.
    fn happens(self, event: Event) -> bool {
        let mut events = self.events.borrow_mut();
        let number = events.len();
        events.push(event);
        self.omitted != Some(number)
    }

    fn offset(self, of: *const u8) -> usize {
        of.addr() - self.base.addr()
    }
}

impl Instructions for Recorder<'_> {
    unsafe fn store_word(self, to: *mut u8, value: u64) {
        assert!(to.addr() % WORD_BYTES == 0);
        if self.happens(Event::Store { at: self.offset(to), len: WORD_BYTES }) {
            // SAFETY: the caller's promise is the same.
            unsafe { self.method.store_word(to, value) };
        }
    }

    unsafe fn store_words(self, to: *mut u8, from: &[u8]) {
        assert!(to.addr() % WORD_BYTES == 0 && from.len() % WORD_BYTES == 0);
        if self.happens(Event::Store { at: self.offset(to), len: from.len() }) {
            // SAFETY: the caller's promise is the same.
            unsafe { self.method.store_words(to, from) };
        }
    }

    unsafe fn load_word(self, from: *const u8) -> u64 {
        assert!(from.addr() % WORD_BYTES == 0);
        // SAFETY: the caller's promise is the same.
        unsafe { self.method.load_word(from) }
    }

    unsafe fn load_words(self, from: *const u8, into: &mut [u8]) {
        assert!(from.addr() % WORD_BYTES == 0 && into.len() % WORD_BYTES == 0);
        // SAFETY: the caller's promise is the same.
        unsafe { self.method.load_words(from, into) };
    }

    unsafe fn stream_lines(self, to: *mut u8, from: &[u8]) {
        assert!(to.addr() % LINE_BYTES == 0 && from.len() % LINE_BYTES == 0);
        if self.happens(Event::Stream { at: self.offset(to), len: from.len() }) {
            // SAFETY: the caller's promise is the same.
            unsafe { self.method.stream_lines(to, from) };
        }
    }

    unsafe fn flush_lines(self, first: *mut u8, count: usize) {
        assert!(first.addr() % LINE_BYTES == 0);
        for line in 0..count {
            let line = self.offset(first) / LINE_BYTES + line;
            if self.happens(Event::Flush { line }) {
                // SAFETY: one of the caller's lines.
                unsafe { self.method.flush_lines(self.base.cast_mut().wrapping_add(line * 64), 1) };
            }
        }
    }

    fn fence(self) {
        self.method.fence();
    }
}

/// Room around the longest range at the worst alignment.
const LINES: usize = 8;

#[repr(align(64))]
struct Medium([u8; LINES * LINE_BYTES]);

/// A medium and a model of it, both full of the same non-zero bytes.
struct Pair {
    medium: Box<Medium>,
    model: Vec<u8>,
}

impl Pair {
    fn new() -> Self {
        let mut medium = Box::new(Medium([0; LINES * LINE_BYTES]));
        for (index, byte) in medium.0.iter_mut().enumerate() {
            *byte = (index % 251) as u8 | 1;
        }
        Self { model: medium.0.to_vec(), medium }
    }

    /// Runs one operation on the medium, and says what it did.
    fn run(&mut self, operation: Operation, at: usize, bytes: &[u8], how: How) -> Vec<Event> {
        let base = self.medium.0.as_mut_ptr();
        let events = RefCell::new(Vec::new());
        let with = Recorder { method: how.method, base, events: &events, omitted: how.omitted };
        let to = base.wrapping_add(at);
        match operation {
            // SAFETY: the range lies in the medium, which nobody else touches, with its lines.
            Operation::Store => unsafe { store(with, to, bytes) },
            // SAFETY: as above.
            Operation::Stream => unsafe { stream(with, to, bytes) },
        }
        with.fence();
        self.model[at..at + bytes.len()].copy_from_slice(bytes);
        events.into_inner()
    }

    fn is_as_the_model(&self) -> bool {
        self.medium.0[..] == self.model[..]
    }
}

#[derive(Clone, Copy)]
enum Operation {
    Store,
    Stream,
}

#[derive(Clone, Copy)]
struct How {
    method: Method,
    omitted: Option<usize>,
}

/// Whether everything stored is in flight: the line of each store was flushed after it.
fn all_in_flight(events: &[Event], omitted: Option<usize>) -> bool {
    let mut dirty = [false; LINES];
    for (number, event) in events.iter().enumerate() {
        if omitted == Some(number) {
            continue;
        }
        match *event {
            Event::Store { at, len } => {
                let run = lines(at, len);
                dirty[run.start / LINE_BYTES..][..run.count].fill(true);
            }
            Event::Stream { .. } => {}
            Event::Flush { line } => dirty[line] = false,
        }
    }
    !dirty.contains(&true)
}

fn methods() -> Vec<Method> {
    let flushes = FlushMethod::supported().collect::<Vec<_>>();
    let streams = StreamMethod::supported();
    if flushes.is_empty() {
        return vec![Method::best()];
    }
    streams
        .flat_map(|stream| flushes.iter().map(move |&flush| Method::new(flush, stream)))
        .map(|method| method.expect("both are supported"))
        .collect()
}

fn every_range() -> impl Iterator<Item = (usize, usize)> {
    let (alignments, lengths) = if cfg!(miri) { (21, 61) } else { (1, 1) };
    (0..64)
        .step_by(alignments)
        .flat_map(move |at| (0..=300).step_by(lengths).map(move |len| (LINE_BYTES + at, len)))
}

fn some_bytes(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 239) as u8 & !1).collect()
}

#[test]
fn every_length_at_every_alignment_stores_what_a_vector_holds_and_nothing_else() {
    for method in methods() {
        for (at, len) in every_range() {
            for operation in [Operation::Store, Operation::Stream] {
                let mut pair = Pair::new();
                pair.run(operation, at, &some_bytes(len), How { method, omitted: None });
                assert!(pair.is_as_the_model(), "{method}: {len} bytes at {at}");
            }
        }
    }
}

#[test]
fn a_stream_leaves_no_line_behind_in_the_cache() {
    let method = Method::best();
    for (at, len) in every_range() {
        let mut pair = Pair::new();
        let events =
            pair.run(Operation::Stream, at, &some_bytes(len), How { method, omitted: None });
        assert!(all_in_flight(&events, None), "{len} bytes at {at}: {events:?}");
        let whole_lines = ((at + len) / LINE_BYTES).saturating_sub(at.div_ceil(LINE_BYTES));
        let streamed: usize = events
            .iter()
            .map(|event| if let Event::Stream { len, .. } = event { *len } else { 0 })
            .sum();
        assert_eq!(streamed, whole_lines * LINE_BYTES, "{len} bytes at {at}");
    }
}

/// The checks above have teeth: whatever instruction a stream leaves out, one of them sees it.
#[test]
#[cfg_attr(miri, ignore = "other tests make these calls; this one tries those tests")]
fn each_instruction_of_a_stream_is_missed_if_it_is_left_out() {
    let method = Method::best();
    for (at, len) in every_range() {
        let bytes = some_bytes(len);
        let whole = Pair::new().run(Operation::Stream, at, &bytes, How { method, omitted: None });
        for omitted in (0..whole.len()).map(Some) {
            let mut pair = Pair::new();
            let events = pair.run(Operation::Stream, at, &bytes, How { method, omitted });
            assert!(
                !pair.is_as_the_model() || !all_in_flight(&events, omitted),
                "{len} bytes at {at} without {:?}",
                events[omitted.unwrap_or(0)]
            );
        }
    }
}

#[test]
fn reading_any_range_gives_what_a_vector_holds_and_writes_nothing_else() {
    let mut pair = Pair::new();
    for (at, len) in every_range() {
        let mut copy = vec![0xff; len + 2];
        let from = pair.medium.0.as_mut_ptr().wrapping_add(at);
        // SAFETY: the range lies in the medium, which nobody writes meanwhile.
        unsafe { read(Method::best(), from, &mut copy[1..=len]) };
        assert_eq!(copy[1..=len], pair.model[at..at + len]);
        assert_eq!((copy[0], copy[len + 1]), (0xff, 0xff));
    }
}
