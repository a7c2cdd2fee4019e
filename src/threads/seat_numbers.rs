//! Which thread a seat belongs to, as an age says it.

use crate::threads::block_locks::Age;

/// How many bits of an age say which seat it is of.
pub(crate) const NUMBER_BITS: u32 = 24;

/// The number of the seat that an age is of.
pub(crate) const fn number_in(age: Age) -> u64 {
    age.0 & ((1 << NUMBER_BITS) - 1)
}

/// The largest clock: the other bits of an age.
pub(crate) const CLOCK_MAX: u64 = u64::MAX >> NUMBER_BITS;

/// Whether an age is the last one of its seat, as an upkeep has it that copies or moves blocks.
pub(crate) const fn is_last(age: Age) -> bool {
    age.0 >> NUMBER_BITS == CLOCK_MAX
}

/// The seats of one thread.
#[derive(Debug)]
pub(crate) struct SeatNumbers(Vec<u64>);

impl SeatNumbers {
    pub(crate) fn of(numbers: impl IntoIterator<Item = u64>) -> Self {
        Self(numbers.into_iter().collect())
    }

    /// Whether the transaction of this age is on one of these seats.
    pub(crate) fn have(&self, age: Age) -> bool {
        self.0.contains(&number_in(age))
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }

    /// The number of the seat that an age is of.
    pub(crate) const fn number_in(age: Age) -> u64 {
        number_in(age)
    }
}
