//! References for two more models, straight from their descriptions: at every instant of a
//! schedule, what was stored so far is replayed from the start, with and without each thing that a
//! power loss may take away. Nothing is ever folded or forgotten.

use std::collections::BTreeSet;

use sim_disk::FlushKind;

use crate::support::closed::product;
use crate::support::program::{LINES, MARKS_SHIFT, Op, Packed, Range, States};

const WORDS: usize = 2 * LINES;

/// How a word was stored, and whose fence makes it durable if it was streamed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Cached,
    Streamed {
        by: usize,
    },
    /// Its thread's fence failed, or it was killed: from then on it takes a flush.
    Left {
        since: usize,
    },
}

#[derive(Clone, Copy)]
struct Stored {
    op: usize,
    word: Range,
    value: u64,
    how: How,
    is_durable: bool,
}

#[derive(Default)]
struct Run {
    stored: Vec<Stored>,
    /// Thread, line and time of weak flushes that no fence has completed.
    flushes: Vec<(usize, usize, usize)>,
    marks: Packed,
}

impl Run {
    fn step(&mut self, time: usize, thread: usize, op: Op) {
        match op {
            Op::Store(range, value) => self.add(time, range, value, How::Cached),
            Op::Stream(range, value) => self.add(time, range, value, How::Streamed { by: thread }),
            Op::Flush(line, FlushKind::Weak) => self.flushes.push((thread, line, time)),
            Op::Flush(line, FlushKind::Strong) => self.flushed(line, time),
            Op::Fence => self.fence(thread),
            Op::Exchange(word, value) => {
                self.fence(thread);
                self.add(time, Range::word(word), value, How::Cached);
            }
            Op::FenceFailed => self.leave(time, |by| by == thread),
            Op::Killed => self.leave(time, |_| true),
            Op::Mark(label) => self.marks |= 1 << (MARKS_SHIFT as u64 + label),
            Op::OrderStores => {}
        }
    }

    fn add(&mut self, op: usize, range: Range, value: u64, how: How) {
        let words = range.words();
        self.stored.extend(words.map(|word| Stored { op, word, value, how, is_durable: false }));
    }

    fn fence(&mut self, thread: usize) {
        for (by, line, time) in self.flushes.clone() {
            if by == thread {
                self.flushed(line, time);
            }
        }
        self.flushes.retain(|(by, ..)| *by != thread);
        for stored in &mut self.stored {
            stored.is_durable |= stored.how == How::Streamed { by: thread };
        }
    }

    /// A flush at `time` has become certain.
    fn flushed(&mut self, line: usize, time: usize) {
        for stored in self.stored.iter_mut().filter(|stored| stored.word.line() == line) {
            stored.is_durable |= match stored.how {
                How::Cached => stored.op < time,
                How::Streamed { .. } => false,
                How::Left { since } => since < time,
            };
        }
    }

    fn leave(&mut self, time: usize, whose: impl Fn(usize) -> bool) {
        self.flushes.retain(|(by, ..)| !whose(*by));
        for stored in &mut self.stored {
            if matches!(stored.how, How::Streamed { by } if whose(by)) {
                stored.how = How::Left { since: time };
            }
        }
    }

    /// What a word may hold, if of the cached stores those up to some point between `oldest` and
    /// the end are there.
    fn contents(&self, word: usize, oldest: impl Fn(&[&Stored]) -> usize) -> BTreeSet<Packed> {
        let whole = Range::word(word).mask();
        let (cached, streamed): (Vec<&Stored>, Vec<&Stored>) = self
            .stored
            .iter()
            .filter(|stored| stored.word.mask() & whole != 0)
            .partition(|stored| stored.how == How::Cached);
        let free: Vec<usize> = streamed.iter().filter(|s| !s.is_durable).map(|s| s.op).collect();
        let mut contents = BTreeSet::new();
        for kept in oldest(&cached)..=cached.len() {
            for lost in 0..1_usize << free.len() {
                let is_lost = |stored: &Stored| {
                    free.iter().position(|op| *op == stored.op).is_some_and(|i| lost & 1 << i != 0)
                };
                let there = streamed.iter().copied().filter(|stored| !is_lost(stored));
                let mut there: Vec<&Stored> = there.chain(cached[..kept].iter().copied()).collect();
                there.sort_by_key(|stored| stored.op);
                contents.insert(there.iter().fold(0, |content, stored| {
                    content & !stored.word.mask() | stored.word.filled(stored.value)
                }));
            }
        }
        contents
    }

    fn add_states(&self, oldest: impl Fn(&[&Stored]) -> usize, states: &mut States) {
        let words: Vec<Vec<(Packed, Packed)>> = (0..WORDS)
            .map(|word| {
                let contents = self.contents(word, &oldest);
                contents.into_iter().map(|content| (content, Range::word(word).mask())).collect()
            })
            .collect();
        product(0, &words, &mut |state| {
            states.insert(state | self.marks);
        });
    }
}

/// Each word by itself holds its durable content or anything stored to it since.
pub(crate) fn torn_words(schedule: &[(usize, Op)]) -> States {
    let mut states = States::default();
    let mut run = Run::default();
    let oldest = |cached: &[&Stored]| {
        cached.iter().rposition(|stored| stored.is_durable).map_or(0, |last| last + 1)
    };
    run.add_states(oldest, &mut states);
    for (time, (thread, op)) in schedule.iter().enumerate() {
        run.step(time, *thread, *op);
        run.add_states(oldest, &mut states);
    }
    states
}

/// Everything that has reached the caches is there; words of the call under way in any order.
pub(crate) fn durable_caches(schedule: &[(usize, Op)]) -> States {
    let mut states = States::default();
    let mut run = Run::default();
    let all = |cached: &[&Stored]| cached.len();
    run.add_states(all, &mut states);
    for (time, (thread, op)) in schedule.iter().enumerate() {
        run.step(time, *thread, *op);
        let before_last = |cached: &[&Stored]| {
            let is_last = cached.last().is_some_and(|stored| stored.op == time);
            cached.len() - usize::from(is_last)
        };
        if matches!(op, Op::Store(..)) {
            run.add_states(before_last, &mut states);
        }
        run.add_states(all, &mut states);
    }
    states
}
