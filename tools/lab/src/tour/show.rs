//! Words and numbers for the reader.

use core::time::Duration;

pub fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

pub fn time(time: Duration) -> String {
    match time.as_nanos() {
        0..10_000 => format!("{} ns", time.as_nanos()),
        10_000..10_000_000 => format!("{:.0} us", time.as_secs_f64() * 1e6),
        _ => format!("{:.0} ms", time.as_secs_f64() * 1e3),
    }
}

/// Median, 99th of a hundred, and longest.
pub fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |part: usize| times.get((times.len() * part / 1000).min(times.len().max(1) - 1));
    let show = |part| at(part).copied().map_or("-".to_owned(), time);
    format!("p50 {}, p99 {}, longest {}", show(500), show(990), show(1000))
}
