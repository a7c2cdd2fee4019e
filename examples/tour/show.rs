//! Words and numbers for the reader.

use core::time::Duration;
use std::io::{IsTerminal as _, Write as _};

const BAR: usize = 40;

/// One line on the terminal that says how far a part of the tour is; silent elsewhere.
pub(crate) struct Progress {
    what: &'static str,
    shown: bool,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, shown: std::io::stderr().is_terminal() }
    }

    pub(crate) fn show(&self, done: f64, note: &str) {
        if self.shown {
            let full = ((done.clamp(0.0, 1.0) * BAR as f64) as usize).min(BAR);
            let bar = format!("{}{}", "#".repeat(full), ".".repeat(BAR - full));
            let _ = write!(std::io::stderr(), "\r  {} [{bar}] {note:<28}", self.what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r{:90}\r", "");
        }
    }
}

pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

pub(crate) fn time(time: Duration) -> String {
    match time.as_nanos() {
        0..10_000 => format!("{} ns", time.as_nanos()),
        10_000..10_000_000 => format!("{:.0} us", time.as_secs_f64() * 1e6),
        _ => format!("{:.0} ms", time.as_secs_f64() * 1e3),
    }
}

/// Median, 99th of a hundred, and longest.
pub(crate) fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |part: usize| times.get((times.len() * part / 1000).min(times.len().max(1) - 1));
    let show = |part| at(part).copied().map_or("-".to_owned(), time);
    format!("p50 {}, p99 {}, longest {}", show(500), show(990), show(1000))
}
