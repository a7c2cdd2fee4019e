//! How large a gate is, for how long a run: the one place that says so.
//!
//! | over all policies | below 15 minutes | 15 minutes | 4 hours |
//! |---|---|---|---|
//! | programs of one step | all | all | all |
//! | programs of two steps | one in 1,000 | one in 200 | all |
//! | states | 100,000 | 1,000,000 | 100,000,000 |
//! | images of sampled points | 10,000 | 100,000 | 10,000,000 |
//! | images of a disk in part | 100 | 10,000 | 1,000,000 |
//! | recoveries crashed in turn | 300, once | 10,000, twice over | 10,000, twice over |
//! | programs that reach each row of the recovery table | 3 | 3 | 3 |
//!
//! All of them are asked of each policy under each of the two models. Of each policy alone:
//!
//! | | below 15 minutes | 15 minutes | 4 hours |
//! |---|---|---|---|
//! | bits turned, of a span of 16 KiB, in the first policy | one in 8 | all | all |
//! | the same in the others | one in 32 | one in 8 | all |
//! | operations that fail, once and for ever | one in 8 | all | all |
//! | lengths of lanes filled, of one and of two | all | all | all |
//! | programs of the front door | 40 | 400 | 20,000 |
//!
//! Once for all: every mutant killed, those of the known bugs too, every persist site got wrong,
//! and no state that was not allowed.
//!
//! A run of one policy owes what the ten minutes that it takes come to, or its part of that.

use core::time::Duration;

/// What a full run of one policy takes.
pub const FULL: Duration = Duration::from_secs(10 * 60);

/// Images of a crash point up to which all are tried, for programs of one step.
pub const IMAGES_ALL: u64 = 1 << 16;

/// What is owed of each policy under each model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub name: &'static str,
    pub length_one_per_mille: u64,
    pub length_two_per_mille: u64,
    pub states: u64,
    pub sampled: u64,
    pub disk_in_part: u64,
    pub nested: u64,
    pub programs_per_row: u64,
    /// Of the first policy, and of the others: one bit in this number is turned.
    pub bits_one_in: [usize; 2],
    /// One operation in this number fails.
    pub faults_one_in: usize,
    /// Programs of the front door.
    pub door_programs: u64,
    /// Not a gate, but what the run does: points of up to this number of images are explored whole
    /// in programs of one step, if there is time.
    pub images_all: u64,
    /// Not a gate either: one in this number of programs of one step also has its process killed,
    /// and goes on after recovery.
    pub thorough_one_in: usize,
    /// Not a gate either: how often over recoveries are crashed.
    pub nested_depth: u32,
}

const SHORT: Sizes = Sizes {
    name: "all policies, below 15 minutes",
    length_one_per_mille: 1_000,
    length_two_per_mille: 1,
    states: 100_000,
    sampled: 10_000,
    disk_in_part: 100,
    nested: 300,
    programs_per_row: 3,
    bits_one_in: [8, 32],
    faults_one_in: 8,
    door_programs: 40,
    images_all: 1 << 6,
    thorough_one_in: 16,
    nested_depth: 1,
};

const CHANGE: Sizes = Sizes {
    name: "all policies, 15 minutes",
    length_one_per_mille: 1_000,
    length_two_per_mille: 5,
    states: 1_000_000,
    sampled: 100_000,
    disk_in_part: 10_000,
    nested: 10_000,
    programs_per_row: 3,
    bits_one_in: [1, 8],
    faults_one_in: 1,
    door_programs: 400,
    images_all: 1 << 12,
    thorough_one_in: 4,
    nested_depth: 2,
};

const NIGHT: Sizes = Sizes {
    name: "all policies, 4 hours",
    length_one_per_mille: 1_000,
    length_two_per_mille: 1_000,
    states: 100_000_000,
    sampled: 10_000_000,
    disk_in_part: 1_000_000,
    nested: 10_000,
    programs_per_row: 3,
    bits_one_in: [1, 1],
    faults_one_in: 1,
    door_programs: 20_000,
    images_all: IMAGES_ALL,
    thorough_one_in: 1,
    nested_depth: 2,
};

impl Sizes {
    /// Of a run over all policies.
    pub const fn of_all(budget: Duration) -> Self {
        match budget.as_secs() / 60 {
            0..15 => SHORT,
            15..240 => CHANGE,
            _ => NIGHT,
        }
    }

    /// Of a run of one policy.
    pub fn of_one(budget: Duration) -> Self {
        let (full, seconds) = (FULL.as_secs(), budget.min(FULL).as_secs());
        let part = |of: u64| of * seconds / full;
        Self {
            name: "one policy, its part of 10 minutes",
            length_one_per_mille: 1_000,
            length_two_per_mille: part(1_000),
            states: part(1_000_000),
            sampled: part(100_000),
            disk_in_part: part(10_000),
            nested: 1,
            programs_per_row: 3,
            bits_one_in: if seconds < full { [8, 8] } else { [1, 1] },
            faults_one_in: if seconds < full { 8 } else { 1 },
            door_programs: part(400),
            images_all: part(IMAGES_ALL).next_power_of_two().clamp(1, IMAGES_ALL),
            thorough_one_in: 1,
            nested_depth: 2,
        }
    }
}
