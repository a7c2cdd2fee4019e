//! An operational machine with values instead of sets: it runs a program in every possible way and
//! collects what persistent memory holds.
//!
//! It knows nothing of the closed form. Each thread has a store buffer that empties in order, write
//! combining buffers that drain word by word whenever they like, and weak flushes that execute when
//! they like once the thread's earlier stores to the line are in the cache. All threads share cache
//! lines, and a line may be written back at any moment: then persistent memory holds what the cache
//! holds. Power fails in every state; what is in persistent memory then is an outcome.
//!
//! The decisions where descriptions of the hardware leave room:
//!
//! - a store call longer than a word is a bag of words, all of which leave the store buffer after
//!   the thread's earlier calls and before its later ones;
//! - a mark is something that others notice, so it waits until the thread's earlier stores have
//!   left the store buffer; what comes after it in the program has not happened yet then;
//! - a later store may overtake bytes in a write combining buffer; when they drain at last, they
//!   reach memory and the cache underneath it, byte for byte;
//! - an executed weak flush holds the line as of then, until the thread's fence makes it durable or
//!   a later write-back of the line makes it superfluous.

mod steps;

use core::hash::BuildHasherDefault;
use std::collections::HashSet;

pub(crate) use steps::Rule;
use steps::{Kind, Step, steps};

use crate::support::program::{LINES, MARKS_SHIFT, Mixer, Op, Packed, SEGMENTS_PER_LINE, States};

/// The content of a line: for each segment, five bits that say which step stored it (counted from
/// one), or zero where nobody has.
type Line = u32;
const AUTHOR_BITS: usize = 5;
const AUTHOR_MASK: Line = (1 << AUTHOR_BITS) - 1;
/// Marks a held line.
const HELD: Line = 1 << 31;

/// Every state that a power loss may leave when the program runs under this rule.
pub(crate) fn outcomes(program: &[(usize, Op)], rule: Rule) -> States {
    let machine = Machine { steps: steps(program, rule), rule };
    let mut outcomes = States::default();
    let mut seen: HashSet<State, BuildHasherDefault<Mixer>> = HashSet::default();
    let mut open = vec![State::default()];
    seen.insert(State::default());
    while let Some(state) = open.pop() {
        outcomes.insert(machine.outcome(&state));
        let mut visit = |next: State| {
            if seen.insert(next) {
                open.push(next);
            }
        };
        for line in 0..LINES {
            if state.durable[line] != state.cache[line] || state.is_held(line) {
                let mut next = state;
                next.write_back(line);
                visit(next);
            }
        }
        for index in 0..machine.steps.len() {
            if machine.may_step(&state, index) {
                visit(machine.stepped(state, index));
            }
        }
    }
    outcomes
}

/// A state of the machine. What is not `done` is still in the buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    done: u32,
    /// Which thread's flush of a line, where both hold it, executed last; a bit for each line.
    later: u32,
    cache: [Line; LINES],
    durable: [Line; LINES],
    /// What each thread's weak flushes hold.
    held: [[Line; LINES]; 2],
}

impl State {
    fn is_held(&self, line: usize) -> bool {
        self.held.iter().any(|held| held[line] != 0)
    }

    /// The line as it is in the cache reaches persistent memory.
    fn write_back(&mut self, line: usize) {
        self.durable[line] = self.cache[line];
        self.held[0][line] = 0;
        self.held[1][line] = 0;
        self.later &= !(1 << line);
    }

    /// A weak flush executes.
    fn hold(&mut self, thread: usize, line: usize) {
        self.held[thread][line] = self.cache[line] | HELD;
        self.later = self.later & !(1 << line) | (thread as u32) << line;
    }

    fn let_go(&mut self, thread: usize, line: usize) {
        self.held[thread][line] = 0;
        if !self.is_held(line) {
            self.later &= !(1 << line);
        }
    }

    /// What the thread's weak flushes hold reaches persistent memory.
    fn complete_flushes(&mut self, thread: usize) {
        for line in 0..LINES {
            let held = self.held[thread][line];
            if held != 0 {
                self.durable[line] = held & !HELD;
                if (self.later >> line & 1) as usize == thread {
                    // The other thread, if it holds the line at all, holds something older.
                    self.let_go(1 - thread, line);
                }
                self.let_go(thread, line);
            }
        }
    }
}

struct Machine {
    steps: Vec<Step>,
    rule: Rule,
}

impl Machine {
    fn outcome(&self, state: &State) -> Packed {
        let mut outcome = 0;
        for line in 0..LINES {
            for segment in 0..SEGMENTS_PER_LINE {
                let author = state.durable[line] >> (segment * AUTHOR_BITS) & AUTHOR_MASK;
                if author != 0 {
                    let bit = (line * SEGMENTS_PER_LINE + segment) * 3;
                    outcome |= self.steps[author as usize - 1].value & 7 << bit;
                }
            }
        }
        for (index, step) in self.steps.iter().enumerate() {
            if let Kind::Mark(label) = step.kind {
                outcome |= u64::from(state.done >> index & 1) << (MARKS_SHIFT as u64 + label);
            }
        }
        outcome
    }

    fn may_step(&self, state: &State, index: usize) -> bool {
        state.done & 1 << index == 0 && self.steps[index].after & !state.done == 0
    }

    /// Puts what a step stores into a line, underneath what is newer.
    fn put(&self, index: usize, done: u32, line: &mut Line) {
        let step = &self.steps[index];
        for segment in 0..SEGMENTS_PER_LINE {
            let bits = 7 << ((step.line * SEGMENTS_PER_LINE + segment) * 3);
            if step.mask & bits == 0 {
                continue;
            }
            let shift = segment * AUTHOR_BITS;
            let author = (*line >> shift & AUTHOR_MASK) as usize;
            let is_newer = match author.checked_sub(1) {
                None => true,
                Some(author)
                    if self.rule == Rule::Schedule || self.steps[author].thread == step.thread =>
                {
                    index > author
                }
                // Another thread's: it is older, unless this thread itself has gone on.
                Some(_) => !self.steps.iter().enumerate().skip(index + 1).any(|(later, by)| {
                    by.thread == step.thread && by.mask & bits != 0 && done & 1 << later != 0
                }),
            };
            if is_newer {
                *line = *line & !(AUTHOR_MASK << shift) | (index as Line + 1) << shift;
            }
        }
    }

    fn stepped(&self, mut state: State, index: usize) -> State {
        let step = &self.steps[index];
        let line = step.line;
        match step.kind {
            Kind::Write => self.put(index, state.done, &mut state.cache[line]),
            Kind::Drain => {
                self.put(index, state.done, &mut state.cache[line]);
                self.put(index, state.done, &mut state.durable[line]);
                // What a flush holds will reach memory too and must not undo this.
                for thread in 0..2 {
                    if state.held[thread][line] != 0 {
                        self.put(index, state.done, &mut state.held[thread][line]);
                    }
                }
            }
            Kind::Hold => state.hold(step.thread, line),
            Kind::WriteBack => state.write_back(line),
            Kind::Fence => state.complete_flushes(step.thread),
            Kind::Exchange => {
                state.complete_flushes(step.thread);
                self.put(index, state.done, &mut state.cache[line]);
            }
            Kind::Forget { everyone } => {
                for thread in (0..2).filter(|thread| everyone || *thread == step.thread) {
                    (0..LINES).for_each(|line| state.let_go(thread, line));
                }
            }
            Kind::Mark(_) => {}
        }
        state.done |= 1 << index;
        state
    }
}
