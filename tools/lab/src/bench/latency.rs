//! How long single calls take, by their percentiles.
//!
//! Cases come in turns of some calls each, in a new random order every round. So a slow spell of
//! the machine meets all of them.

use std::hint::black_box;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::Shuffler;

/// Calls of a turn.
const TURN: u64 = 200;
/// The first calls of a turn do not count: the caches hold another case's lines.
const WARM_UP: u64 = 20;
/// Before each call the bench waits until all stores have drained, and then for this long.
const PAUSE: Duration = Duration::from_micros(2);

/// The most nanoseconds. A longer time counts as this.
const MOST: u64 = 60_000_000_000;

/// How long some calls took.
pub struct Times(Histogram<u64>);

impl Times {
    pub fn new() -> Self {
        Self(Histogram::new_with_max(MOST, 3).expect("three digits"))
    }

    pub fn note(&mut self, took: Duration) {
        self.0.saturating_record(took.as_nanos() as u64);
    }

    /// The time at this percentile, in nanoseconds.
    pub fn at(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// The mean, in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Prints the line of a table.
    pub fn print(&self, name: &str) {
        let at = |percent| self.at(percent);
        println!(
            "{name:<62} {:>9} {:>9} {:>9} {:>9} {:>11}",
            at(50.0),
            at(90.0),
            at(99.0),
            at(99.9),
            self.0.max()
        );
    }
}

/// Prints the heading of such lines.
pub fn print_heading(title: &str) {
    println!("## {title}");
    println!(
        "{:<62} {:>9} {:>9} {:>9} {:>9} {:>11}",
        "case, ns", "p50", "p90", "p99", "p99.9", "most"
    );
}

struct Case<'a> {
    name: String,
    /// Runs before each turn.
    ready: Box<dyn FnMut(u64) + 'a>,
    call: Box<dyn FnMut(u64) + 'a>,
    returns: Times,
    drained: Times,
}

/// Calls that are made one at a time, with a pause before each.
pub struct Isolated<'a> {
    title: &'static str,
    cases: Vec<Case<'a>>,
}

impl<'a> Isolated<'a> {
    pub fn new(title: &'static str) -> Self {
        Self { title, cases: Vec::new() }
    }

    /// Adds a call. `ready` runs before each turn, with the number of its calls.
    pub fn row(
        &mut self,
        name: impl Into<String>,
        ready: impl FnMut(u64) + 'a,
        call: impl FnMut(u64) + 'a,
    ) {
        self.cases.push(Case {
            name: name.into(),
            ready: Box::new(ready),
            call: Box::new(call),
            returns: Times::new(),
            drained: Times::new(),
        });
    }

    /// Measures and prints two times for every call: until it returns, and until all its stores
    /// have left the processor's queue.
    pub fn print(mut self, rounds: u64) {
        let mut order: Vec<_> = (0..self.cases.len()).collect();
        let mut shuffler = Shuffler::new();
        for _ in 0..rounds {
            shuffler.shuffle(&mut order);
            for &index in &order {
                self.cases[index].turn();
            }
        }
        print_heading(self.title);
        for Case { name, returns, drained, .. } in &self.cases {
            returns.print(&format!("{name}, returns"));
            drained.print(&format!("{name}, drained"));
        }
        println!();
    }
}

impl Case<'_> {
    fn turn(&mut self) {
        (self.ready)(TURN);
        for turn in 0..TURN {
            fence(Ordering::SeqCst);
            let pause = Instant::now();
            while pause.elapsed() < PAUSE {
                std::hint::spin_loop();
            }
            let drains = turn % 2 == 1;
            let start = Instant::now();
            (self.call)(black_box(turn));
            if drains {
                fence(Ordering::SeqCst);
            }
            let took = start.elapsed();
            if turn >= WARM_UP {
                let times = if drains { &mut self.drained } else { &mut self.returns };
                times.note(took);
            }
        }
    }
}
