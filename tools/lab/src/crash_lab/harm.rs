//! What needs no crash: bits that turn, operations that fail, lanes that are full.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use serde_json::{Value, json};
use sim_disk::suite::{FULL_LINES, Faults, Rot, RotSeen, fill};

use crate::core_crash::program::Kind;
use crate::crash_lab::sizes::Sizes;
use crate::crash_lab::work::each;
use crate::gates::Gate;
use crate::gates::own::{Count, of_harm};

/// Of the bits with which the journal opens, one in this number is followed further.
const GOES_ON_ONE_IN: usize = 16;

/// What came of one policy.
pub struct Harm {
    policy: &'static str,
    kind: Kind,
    bits: Count,
    /// How often an open said what of a turned bit, in the order of [`RotSeen::ALL`].
    seen: [u64; RotSeen::ALL.len()],
    faults: Count,
    full: Count,
    took: Duration,
    /// What was wrong.
    wrong: Vec<String>,
}

/// All policies, in order. The bits come last, and those of the first policy, of which there are
/// most, behind the others: where there is not time for all it is they that fall short.
pub fn harm_all(policies: &[(&'static str, Kind)], sizes: &Sizes, until: Instant) -> Vec<Harm> {
    let mut all: Vec<Harm> = policies.iter().map(|(name, kind)| Harm::new(name, *kind)).collect();
    for harm in &mut all {
        harm.timed(|harm| harm.fail_operations(sizes.faults_one_in, until));
        harm.timed(|harm| harm.fill_lanes(until));
    }
    for (number, harm) in all.iter_mut().enumerate().rev() {
        let one_in = sizes.bits_one_in[usize::from(number > 0)];
        harm.timed(|harm| harm.turn_bits(one_in, until));
    }
    all
}

impl Harm {
    fn new(policy: &'static str, kind: Kind) -> Self {
        let (none, seen) = (Count { required: 1, reached: 0 }, [0; RotSeen::ALL.len()]);
        let (took, wrong) = (Duration::ZERO, Vec::new());
        Self { policy, kind, bits: none, seen, faults: none, full: none, took, wrong }
    }

    fn timed(&mut self, part: impl FnOnce(&mut Self) -> Result<(), String>) {
        let begin = Instant::now();
        let wrong = part(self).err();
        self.wrong.extend(wrong);
        self.took += begin.elapsed();
    }

    fn turn_bits(&mut self, one_in: usize, until: Instant) -> Result<(), String> {
        let rot = Rot::of(self.kind)?;
        let count = rot.bits() / one_in;
        let seen = RotSeen::ALL.map(|_| AtomicU64::new(0));
        // Not the same bit of each byte.
        let bit = |index: usize| index * one_in + index / 8 % one_in;
        let turn = |index| rot.turn(bit(index), index % GOES_ON_ONE_IN == 0);
        let take = |said: RotSeen| {
            seen[said as usize].fetch_add(1, Ordering::Relaxed);
        };
        let turned = each(count, Some(until), turn, take);
        self.seen = seen.map(AtomicU64::into_inner);
        self.bits = Count { required: count as u64, reached: self.seen.iter().sum() };
        turned
    }

    fn fail_operations(&mut self, one_in: usize, until: Instant) -> Result<(), String> {
        let faults = Faults::of(self.kind)?;
        let count = 2 * (faults.operations() as usize).div_ceil(one_in);
        let done = AtomicU64::new(0);
        let fail = |index: usize| faults.fail((index / 2 * one_in) as u64, index % 2 == 1);
        let failed = each(count, Some(until), fail, |()| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        self.faults = Count { required: count as u64, reached: done.into_inner() };
        failed
    }

    fn fill_lanes(&mut self, until: Instant) -> Result<(), String> {
        let lanes =
            [1, 2].into_iter().flat_map(|lanes| FULL_LINES.map(move |lines| (lanes, lines)));
        let lanes: Vec<(u16, u64)> = lanes.collect();
        let (kind, done) = (self.kind, AtomicU64::new(0));
        let filled = each(
            lanes.len(),
            Some(until),
            |at| fill(kind, lanes[at].0, lanes[at].1),
            |_| {
                done.fetch_add(1, Ordering::Relaxed);
            },
        );
        self.full = Count { required: lanes.len() as u64, reached: done.into_inner() };
        filled
    }

    pub fn gates(&self) -> Vec<Gate> {
        of_harm(self.policy, self.bits, self.faults, self.full, self.wrong.len() as u64)
    }

    pub fn print(&self) {
        let [whole, refused, unreadable, last] = self.seen;
        println!(
            "{}: {:.1} s, {} bits turned: {whole} of no consequence, {refused} refused, \
             {unreadable} blocks unreadable, {last} times without the last transaction; \
             {} operations failed, {} lanes filled",
            self.policy,
            self.took.as_secs_f64(),
            self.bits.reached,
            self.faults.reached,
            self.full.reached
        );
        for what in &self.wrong {
            println!("\n{}: NOT ALLOWED\n\n{what}", self.policy);
        }
    }

    pub fn json(&self) -> Value {
        let [whole, refused, unreadable, last] = self.seen;
        json!({
            "policy": self.policy,
            "took_milliseconds": self.took.as_millis() as u64,
            "bits_turned": self.bits.reached,
            "bits_of_no_consequence": whole,
            "bits_refused": refused,
            "bits_with_unreadable_blocks": unreadable,
            "bits_without_the_last_transaction": last,
            "operations_failed": self.faults.reached,
            "lanes_filled": self.full.reached,
            "not_allowed": self.wrong.len(),
        })
    }
}
