//! What was seen, and the gates that it is held against.

use journal_core::Row;
use serde_json::{Map, Value, json};
use sim_disk::Model;
use sim_disk::mutants::{Bag, Verdict};
use sim_disk::suite::{Plan, alphabet};

use crate::core_crash::program::Kind;
use crate::crash_lab::sizes::Sizes;
use crate::crash_lab::work::{LENGTH_MAX, Seen};
use crate::gates::Gate;
use crate::gates::own::{Count, of_known_bugs};
use crate::known_bugs::{BUGS, Entry, Fate, Score, Tried};

/// One policy under one model.
pub struct Slot {
    pub policy: &'static str,
    pub model: Model,
    /// Programs of one step and of two that there are.
    all: [u64; 2],
    /// The row that fewest programs have reached, of those that can be.
    rarest: (Row, u64),
    /// What was seen; nothing that can be counted where a state was not allowed.
    pub seen: Option<Seen>,
}

/// The laboratory's journals have no tail words: only the tests of those reach their row.
const NO_TAIL_WORDS: &str = "the row of tail words, which no journal here has";

impl Slot {
    pub fn new(policy: &'static str, model: Model, plan: &Plan<Kind>, seen: Option<Seen>) -> Self {
        let none = Seen::default();
        let rows = seen.as_ref().unwrap_or(&none).rows;
        let rows = Row::ALL.iter().copied().zip(rows).filter(|(row, _)| plan.can_reach(*row));
        let rarest = rows.min_by_key(|(_, programs)| *programs).expect("rows can be reached");
        Self { policy, model, all: [1, 2].map(|length| plan.count(length) as u64), rarest, seen }
    }

    fn name(&self) -> String {
        format!("{}, {}", self.policy, self.model)
    }

    /// What is owed of this policy under this model.
    pub fn gates(&self, sizes: &Sizes) -> Vec<Gate> {
        let of = self.name();
        let violations = |count| Gate::at_most("states that were not allowed", &of, 0, count);
        let Some(seen) = &self.seen else { return vec![violations(1)] };
        let at_least = |name: &str, required, reached| Gate::at_least(name, &of, required, reached);
        let part = |all: u64, per_mille: u64| all * per_mille / 1_000;
        let [one, two] = self.all;
        let (one, two) =
            (part(one, sizes.length_one_per_mille), part(two, sizes.length_two_per_mille));
        let report = &seen.report;
        vec![
            at_least("programs of one step", one, seen.done[1]),
            at_least("programs of two steps", two, seen.done[2]),
            at_least("states", sizes.states, report.images),
            at_least("images of sampled points", sizes.sampled, report.images_sampled),
            at_least("images of a disk in part", sizes.disk_in_part, report.images_disk_in_part),
            at_least("recoveries crashed in turn", sizes.nested, seen.nested_images),
            at_least("programs on the rarest row", sizes.programs_per_row, self.rarest.1),
            violations(0),
        ]
    }

    /// What was not looked at, for the record.
    pub fn left_out(&self) -> Vec<String> {
        let of = self.name();
        let Some(seen) = &self.seen else {
            return vec![format!("{of}: everything after the state that was not allowed")];
        };
        let mut all = Vec::new();
        for (length, count) in (1..).zip(self.all) {
            let missing = count - seen.done[length];
            if missing > 0 {
                all.push(format!("{of}: {missing} of {count} programs of length {length}"));
            }
        }
        let (sampled, points) = (seen.report.points_sampled, seen.report.points);
        all.push(format!("{of}: images of {sampled} sampled points of {points}"));
        all
    }

    /// A line of the table of slots.
    fn line(&self) -> String {
        let Some(seen) = &self.seen else {
            return format!("{:<17} {:<9} NOT ALLOWED", self.policy, self.model.to_string());
        };
        let ([one, two], report) = (self.all, &seen.report);
        format!(
            "{:<17} {:<9} {:>10} {:>14} {:>10} {:>9} {:>9} {:>8} {:>5} {}",
            self.policy,
            self.model.to_string(),
            format!("{}/{one}", seen.done[1]),
            format!("{}/{two}", seen.done[2]),
            report.images,
            report.images_sampled,
            report.images_disk_in_part,
            seen.nested_images,
            self.rarest.1,
            format_args!("{:?}", self.rarest.0)
        )
    }

    pub fn json(&self) -> Value {
        let head = json!({
            "policy": self.policy,
            "model": self.model.to_string(),
            "allowed": self.seen.is_some(),
        });
        let Some(seen) = &self.seen else { return head };
        let report = &seen.report;
        let rows = Row::ALL.iter().zip(seen.rows);
        let rows = rows.map(|(row, programs)| (format!("{row:?}"), programs.into()));
        let counts = json!({
            "took_milliseconds": seen.took.as_millis() as u64,
            "programs_of_length_1": seen.done[1],
            "programs_of_length_1_all": self.all[0],
            "programs_of_length_2": seen.done[2],
            "programs_of_length_2_all": self.all[1],
            "programs_of_length_3": seen.done[3],
            "programs_on_harmed_media": seen.damaged,
            "programs_with_crashes_in_recovery": seen.nested,
            "crash_points": report.points,
            "crash_points_sampled": report.points_sampled,
            "kills": report.kills,
            "states": report.images,
            "states_distinct": report.images_distinct,
            "images_of_sampled_points": report.images_sampled,
            "images_of_a_disk_in_part": report.images_disk_in_part,
            "recoveries": report.recoveries,
            "recoveries_crashed_in_turn": seen.nested_images,
            "outcomes": report.outcomes,
            "rows": rows.collect::<Map<String, Value>>(),
        });
        let fields = [head, counts].into_iter().filter_map(|part| match part {
            Value::Object(fields) => Some(fields),
            _ => None,
        });
        Value::Object(fields.flatten().collect())
    }
}

/// All slots, one a line.
pub fn print_slots(slots: &[Slot]) {
    println!(
        "\n{:<17} {:<9} {:>10} {:>14} {:>10} {:>9} {:>9} {:>8} {:>5}",
        "policy", "model", "one step", "two steps", "states", "sampled", "disk", "nested", "row"
    );
    slots.iter().for_each(|slot| println!("{}", slot.line()));
    println!(
        "one step, two steps: programs run, of all; sampled: images of sampled points; disk: of\n\
         a disk in part; nested: recoveries crashed in turn; row: programs on the rarest one"
    );
}

/// Prints what was seen under a model, at length.
pub fn print_model(model: Model, plan: &Plan<Kind>, seen: &Seen) {
    let report = &seen.report;
    let seconds = seen.took.as_secs_f64();
    println!("\nmodel {model}, {seconds:.0} s, {:.0} states/s", report.images as f64 / seconds);
    println!("  {} programs, of which", seen.done.iter().sum::<u64>() + seen.damaged + seen.nested);
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
    println!("  {:>9} on harmed media, {} with crashes inside recovery", seen.damaged, seen.nested);
    println!(
        "  {} crash points, {} of them sampled; {} kills",
        report.points, report.points_sampled, report.kills
    );
    println!(
        "  {} states, {} distinct; {} recoveries, {} of them crashed in turn; {} outcomes",
        report.images, report.images_distinct, report.recoveries, report.nested, report.outcomes
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
}

/// What became of the mutants.
pub fn gates_of_bag(bag: &Bag) -> Vec<Gate> {
    let fired = |verdict: &Verdict| !matches!(verdict, Verdict::NeverFired);
    let mutants = bag.verdicts.iter().filter(|(_, verdict)| fired(verdict)).count();
    let equivalent = |verdict: &Verdict| matches!(verdict, Verdict::Equivalent(_));
    let equivalents = bag.verdicts.iter().filter(|(_, verdict)| equivalent(verdict)).count();
    let killed = (bag.killed() + equivalents) as u64;
    let sites = crate::core_crash::mutants::sites().len();
    let missed = bag.unreached.len() + bag.untouched.len();
    let touched = sites.saturating_sub(missed) as u64;
    let strays = (bag.undeclared.len() + bag.stale_equivalents.len()) as u64;
    let mut killed =
        Gate::at_least("mutants killed or proven equivalent", "", mutants as u64, killed);
    killed.note = format!(
        "{} pairs of site and kind, {} with nothing to change",
        bag.verdicts.len(),
        bag.verdicts.len() - mutants
    );
    vec![
        killed,
        Gate::at_least("persist sites reached and got wrong", "", sites as u64, touched),
        Gate::at_most("sites undeclared, proofs stale", "", 0, strays),
    ]
}

/// What became of the known bugs.
pub fn gates_of_known_bugs(entries: &[Entry]) -> Vec<Gate> {
    let score = Score::of(entries);
    let Score { made, tested, absent, .. } = score;
    let mutants = Count { required: score.mutants as u64, reached: score.killed as u64 };
    let bugs = Count { required: BUGS as u64, reached: (made + tested + absent) as u64 };
    let note = format!("{made} by mutants, {tested} by tests of processes, {absent} not here");
    of_known_bugs(mutants, score.wrong as u64, bugs, &note)
}

/// What became of the known bugs, for other programs to read.
pub fn json_of_known_bugs(entries: &[Entry]) -> Value {
    let of_mutant = |tried: &Tried| {
        let (name, killed, states) = (&tried.name, tried.is_killed(), tried.states);
        json!({ "mutant": name, "killed": killed, "states": states })
    };
    let of_entry = |entry: &Entry| {
        let (how, mutants) = match &entry.fate {
            Fate::Tried(tried) => ("mutants", tried.iter().map(of_mutant).collect()),
            Fate::Tested(..) => ("tests of processes", Vec::new()),
            Fate::Absent(_) => ("not here", Vec::new()),
        };
        json!({
            "number": entry.number,
            "source": entry.source,
            "by": how,
            "mutants": mutants,
        })
    };
    entries.iter().map(of_entry).collect()
}

/// Prints what was not looked at.
pub fn print_left_out(slots: &[Slot]) {
    println!("\nleft out:");
    for line in slots.iter().flat_map(Slot::left_out) {
        println!("  {line}");
    }
    println!("  {NO_TAIL_WORDS}");
}
