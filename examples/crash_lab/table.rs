//! What was required, what was reached, and whether that is enough.

use core::time::Duration;

use journal_core::Row;
use sim_disk::Model;
use sim_disk::mutants::{Bag, Verdict};
use sim_disk::suite::{Plan, alphabet};

use crate::program::Kind;
use crate::work::{LENGTH_MAX, Seen};

/// States that a full run sees under each model at the least.
const STATES_MIN: u64 = 1_000_000;

/// Programs that reach each row of the recovery table at the least.
const PROGRAMS_PER_ROW_MIN: u64 = 3;

struct Line {
    what: String,
    required: u64,
    reached: u64,
}

pub(crate) struct Table {
    lines: Vec<Line>,
    left_out: Vec<String>,
    budget: Duration,
    full: Duration,
}

impl Table {
    pub(crate) const fn new(budget: Duration, full: Duration) -> Self {
        Self { lines: Vec::new(), left_out: Vec::new(), budget, full }
    }

    fn is_full(&self) -> bool {
        self.budget >= self.full
    }

    fn require(&mut self, what: String, required: u64, reached: u64) {
        self.lines.push(Line { what, required, reached });
    }

    /// What a shorter run owes: its part.
    fn part(&self, of: u64) -> u64 {
        if self.is_full() { of } else { of * self.budget.as_secs() / self.full.as_secs() }
    }

    /// Prints what was seen under a model, and notes what was required.
    pub(crate) fn add_model(&mut self, model: Model, plan: &Plan<Kind>, seen: &Seen) {
        let report = &seen.report;
        let seconds = seen.took.as_secs_f64();
        println!("\nmodel {model}, {seconds:.0} s, {:.0} states/s", report.images as f64 / seconds);
        println!(
            "  {} programs, of which",
            seen.done.iter().sum::<u64>() + seen.damaged + seen.nested
        );
        for length in 1..=LENGTH_MAX {
            let all = plan.count(length);
            let drawn = if length == LENGTH_MAX { ", drawn by chance" } else { "" };
            let limit = match seen.limits[length] {
                Some((least, most)) if least == most => format!("{most}"),
                Some((least, most)) => format!("{least} to {most}"),
                None => "-".to_owned(),
            };
            println!(
                "  {:>9} of {all} of length {length}{drawn}; points of up to {limit} images whole",
                seen.done[length]
            );
        }
        println!(
            "  {:>9} on harmed media, {} with crashes inside recovery",
            seen.damaged, seen.nested
        );
        println!(
            "  {} crash points, {} of them sampled; {} kills",
            report.points, report.points_sampled, report.kills
        );
        println!(
            "  {} states, {} distinct; {} recoveries, {} of them crashed in turn; {} outcomes",
            report.images,
            report.images_distinct,
            report.recoveries,
            report.nested,
            report.outcomes
        );
        println!("  starting states, with steps to choose from:");
        for start in &plan.starts {
            println!(
                "    {} lanes, {:>3} steps: {}",
                start.lanes,
                alphabet(&plan.habits, start.lanes).len(),
                start.name
            );
        }
        println!("  rows of the recovery table, with the programs that reached them:");
        for (row, programs) in Row::ALL.iter().zip(seen.rows) {
            println!("    {row:?}: {programs}");
        }
        self.require(format!("{model}: states"), self.part(STATES_MIN), report.images);
        for length in 1..=2_usize {
            let all = plan.count(length) as u64;
            let what = format!("{model}: programs of length {length}");
            let owed = if length == 1 { all } else { self.part(all) };
            self.require(what, owed, seen.done[length]);
            let missing = all - seen.done[length];
            if missing > 0 {
                self.left_out
                    .push(format!("{model}: {missing} of {all} programs of length {length}"));
            }
        }
        let sampled = report.points_sampled;
        self.left_out
            .push(format!("{model}: images of {sampled} sampled points of {}", report.points));
        self.require(format!("{model}: recoveries crashed in turn"), 1, seen.nested_images);
        // The laboratory's journals have no tail words: only the tests of those reach their row.
        let rows = Row::ALL.iter().zip(seen.rows).filter(|(row, _)| plan.can_reach(**row));
        let fewest = rows.map(|(_, programs)| programs).min().unwrap_or(0);
        self.left_out.push(format!("{model}: the row of tail words, which none of these has"));
        let what = format!("{model}: programs that reach the rarest row");
        self.require(what, PROGRAMS_PER_ROW_MIN, fewest);
    }

    /// Notes what became of the mutants.
    pub(crate) fn add_bag(&mut self, bag: &Bag) {
        let fired = |verdict: &Verdict| !matches!(verdict, Verdict::NeverFired);
        let mutants = bag.verdicts.iter().filter(|(_, verdict)| fired(verdict)).count();
        let equivalent = |verdict: &Verdict| matches!(verdict, Verdict::Equivalent(_));
        let equivalents = bag.verdicts.iter().filter(|(_, verdict)| equivalent(verdict)).count();
        let reached = bag.killed() + equivalents;
        self.require("mutants killed or proven equivalent".into(), mutants as u64, reached as u64);
        let sites: usize = journal_core::SITES.iter().map(|sites| sites.len()).sum();
        let missed = bag.unreached.len() + bag.untouched.len();
        let touched = sites.saturating_sub(missed) as u64;
        self.require("persist sites reached and got wrong".into(), sites as u64, touched);
        let strays = bag.undeclared.len() + bag.stale_equivalents.len();
        self.require("no undeclared site, no stale proof".into(), 1, u64::from(strays == 0));
    }

    /// Prints the table; whether everything was reached.
    pub(crate) fn print(&self) -> bool {
        println!("\n{:<44} {:>12} {:>12}", "", "required", "reached");
        let mut enough = true;
        for Line { what, required, reached } in &self.lines {
            let short = reached < required;
            enough &= !short;
            let note = if short { "  FALLS SHORT" } else { "" };
            println!("{what:<44} {required:>12} {reached:>12}{note}");
        }
        println!("{:<44} {:>12} {:>12}", "states that were not allowed", 0, 0);
        println!("\nleft out:");
        for left_out in &self.left_out {
            println!("  {left_out}");
        }
        println!("\n{}", if enough { "enough" } else { "NOT ENOUGH" });
        enough
    }
}
