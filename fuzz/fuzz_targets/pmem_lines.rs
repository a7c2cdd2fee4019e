//! Any range and any unit: the units that a flush visits are those that hold a byte of the range,
//! computed once more in integers that cannot overflow.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pmem_sys::lines::{Run, lines, touched};

#[derive(Arbitrary, Debug)]
struct Input {
    at: usize,
    len: usize,
    /// Counts from the top of the address space, where the arithmetic is at its end.
    from_top: bool,
    unit_power: u8,
}

fn check(run: Run, at: usize, len: usize, unit: usize) {
    let unit = unit as u128;
    let (start, count) = (run.start as u128, run.count as u128);
    assert_eq!(start % unit, 0, "starts at a unit");
    // Bytes behind the end of the address space do not exist.
    let end = (at as u128 + len as u128).min(1 << usize::BITS);
    if at as u128 == end {
        assert_eq!(count, 0, "nothing to visit");
    } else {
        assert!(start <= at as u128 && (at as u128) < start + unit, "begins with the first byte");
        let last = start + (count - 1) * unit;
        assert!(last < end && end <= last + unit, "ends with the last byte");
    }
}

fuzz_target!(|input: Input| {
    let at = if input.from_top { usize::MAX - input.at } else { input.at };
    let unit = 1_usize << (u32::from(input.unit_power) % usize::BITS);
    check(touched(at, input.len, unit), at, input.len, unit);
    check(lines(at, input.len), at, input.len, journal_core::LINE_BYTES);
});
