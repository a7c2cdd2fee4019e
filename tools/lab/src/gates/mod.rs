//! Gates: what is required, what was reached, and what follows from it.
//!
//! A gate that was not run is neither passed nor failed, and says so. One that was run and falls
//! short is the only thing that makes the laboratory fail. Nothing here runs or looks at a clock:
//! what is said of a list of gates depends on the list alone.

pub mod elsewhere;
pub mod own;

use core::fmt::Write as _;

use serde_json::{Value, json};

/// Which side of what is required is the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    AtLeast,
    AtMost,
}

/// What became of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Reached(u64),
    /// The run says that it does not hold, whatever the numbers are.
    Failed(u64),
    /// It left something that cannot be understood.
    Unreadable,
    NotRun,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Gate {
    pub name: String,
    /// The policy and the model that it is about; nothing where it is about everything.
    pub of: String,
    pub bound: Bound,
    /// Unknown where the command that runs it says so, and was not run.
    pub required: Option<u64>,
    pub standing: Standing,
    /// When it was run, and how, where another command did.
    pub note: String,
}

impl Gate {
    pub fn at_least(name: &str, of: &str, required: u64, reached: u64) -> Self {
        Self {
            name: name.to_owned(),
            of: of.to_owned(),
            bound: Bound::AtLeast,
            required: Some(required),
            standing: Standing::Reached(reached),
            note: String::new(),
        }
    }

    pub fn at_most(name: &str, of: &str, required: u64, reached: u64) -> Self {
        Self { bound: Bound::AtMost, ..Self::at_least(name, of, required, reached) }
    }

    /// Whether it holds; `None` where it was not run.
    pub fn holds(&self) -> Option<bool> {
        match (&self.standing, self.required) {
            (Standing::NotRun, _) => None,
            (Standing::Reached(reached), Some(required)) => Some(match self.bound {
                Bound::AtLeast => *reached >= required,
                Bound::AtMost => *reached <= required,
            }),
            (Standing::Reached(_), None) | (Standing::Failed(_) | Standing::Unreadable, _) => {
                Some(false)
            }
        }
    }

    fn reached(&self) -> Option<u64> {
        match self.standing {
            Standing::Reached(reached) | Standing::Failed(reached) => Some(reached),
            Standing::Unreadable | Standing::NotRun => None,
        }
    }

    /// How much of what is required was reached: what falls short comes before what holds.
    fn worth(&self) -> (bool, f64) {
        let part = match (self.reached(), self.required) {
            (Some(reached), Some(required)) if required > 0 => reached as f64 / required as f64,
            (reached, _) => -(reached.unwrap_or(0) as f64),
        };
        (self.holds() != Some(false), part)
    }

    fn verdict(&self) -> &'static str {
        match (self.holds(), &self.standing) {
            (None, _) => "not run",
            (Some(true), _) => "pass",
            (Some(false), Standing::Unreadable) => "UNREADABLE",
            (Some(false), Standing::Failed(_)) => "FAILED",
            (Some(false), _) => "FALLS SHORT",
        }
    }

    fn json(&self) -> Value {
        json!({
            "gate": self.name,
            "of": self.of,
            "bound": if self.bound == Bound::AtMost { "at most" } else { "at least" },
            "required": self.required,
            "reached": self.reached(),
            "pass": self.holds(),
            "note": self.note,
        })
    }
}

/// One line for each gate that was run and does not hold.
pub fn shortfalls(gates: &[Gate]) -> Vec<String> {
    let short = gates.iter().filter(|gate| gate.holds() == Some(false));
    let number = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |n| n.to_string());
    short
        .map(|gate| {
            let of = if gate.of.is_empty() { String::new() } else { format!("{}: ", gate.of) };
            let most = if gate.bound == Bound::AtMost { "at most " } else { "" };
            let (required, reached) = (number(gate.required), number(gate.reached()));
            let verdict = gate.verdict();
            let name = &gate.name;
            format!("{verdict}: {of}{name}: required {most}{required}, reached {reached}")
        })
        .collect()
}

/// What the process answers. A list without a gate that was run proves nothing, and is no success.
pub fn exit_code(gates: &[Gate]) -> u8 {
    let was_run = gates.iter().any(|gate| gate.holds().is_some());
    u8::from(!was_run || gates.iter().any(|gate| gate.holds() == Some(false)))
}

/// A line for each name, in the order in which they come first: where a gate is asked of several
/// policies and models, that of the one which is least ahead.
pub fn table(gates: &[Gate]) -> String {
    let mut text = format!("{:<46} {:>10} {:>12}\n", "gate", "required", "reached");
    let mut names: Vec<&str> = Vec::new();
    for gate in gates {
        if !names.contains(&&*gate.name) {
            names.push(&gate.name);
        }
    }
    for name in names {
        let same = gates.iter().filter(|gate| gate.name == name);
        let count = same.clone().count();
        let short = same.clone().filter(|gate| gate.holds() == Some(false)).count();
        let Some(least) = same.min_by(|a, b| a.worth().partial_cmp(&b.worth()).expect("numbers"))
        else {
            continue;
        };
        let cell = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let most = if least.bound == Bound::AtMost { "<= " } else { "" };
        let required = format!("{most}{}", cell(least.required));
        let (reached, verdict) = (cell(least.reached()), least.verdict());
        let mut line = format!("{name:<46} {required:>10} {reached:>12}  {verdict}");
        if short > 0 && count > 1 {
            write!(line, " ({short} of {count})").expect("room in memory");
        }
        if count > 1 {
            write!(line, ", least in {}", least.of).expect("room in memory");
        }
        if !least.note.is_empty() {
            write!(line, ", {}", least.note).expect("room in memory");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// All of them, for other programs.
pub fn json(gates: &[Gate]) -> Value {
    gates.iter().map(Gate::json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_run() -> Gate {
        Gate { required: None, standing: Standing::NotRun, ..Gate::at_least("loom", "", 0, 0) }
    }

    #[test]
    fn a_gate_that_falls_short_fails_the_command() {
        let good = Gate::at_least("states", "a", 10, 10);
        assert_eq!(exit_code(&[good.clone(), not_run()]), 0);
        assert!(shortfalls(&[good.clone(), not_run()]).is_empty());
        for bad in [
            Gate::at_least("states", "b", 10, 9),
            Gate::at_most("violations", "b", 0, 1),
            Gate { standing: Standing::Failed(10), ..Gate::at_least("fuzz", "b", 10, 10) },
            Gate { standing: Standing::Unreadable, ..not_run() },
            Gate { required: None, ..good.clone() },
        ] {
            let gates = [good.clone(), bad.clone(), not_run()];
            assert_ne!(exit_code(&gates), 0, "{bad:?}");
            let lines = shortfalls(&gates);
            assert_eq!(lines.len(), 1, "{bad:?}");
            assert!(lines[0].contains(&*bad.name), "{lines:?}");
        }
        assert_eq!(
            shortfalls(&[Gate::at_least("states", "b", 10, 9)]),
            ["FALLS SHORT: b: states: required 10, reached 9"]
        );
    }

    #[test]
    fn nothing_run_is_no_success() {
        assert_ne!(exit_code(&[]), 0);
        assert_ne!(exit_code(&[not_run()]), 0);
    }

    #[test]
    fn the_table_shows_the_least_and_never_calls_what_was_not_run_a_pass() {
        let gates = [
            Gate::at_least("states", "a", 10, 30),
            Gate::at_least("states", "b", 100, 99),
            Gate::at_least("states", "c", 10, 20),
            Gate::at_most("violations", "a", 0, 0),
            Gate::at_most("violations", "b", 0, 2),
            not_run(),
        ];
        let table = table(&gates);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert!(lines[1].contains(" 99  FALLS SHORT (1 of 3), least in b"), "{table}");
        assert!(
            lines[2].contains("<= 0            2  FALLS SHORT (1 of 2), least in b"),
            "{table}"
        );
        assert!(lines[3].ends_with("not run") && !lines[3].contains("pass"), "{table}");
        let said = json(&gates);
        let passes: Vec<_> =
            said.as_array().expect("a list").iter().map(|gate| &gate["pass"]).collect();
        let wanted = json!([true, false, true, true, false, null]);
        assert!(passes.into_iter().eq(wanted.as_array().expect("a list")), "{said}");
    }
}
