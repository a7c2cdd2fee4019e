//! Gates that other commands run: each leaves a file, `NAME.json` in the folder `gates` beside what
//! the build makes (`target/gates`), as `.ci/gate` writes it:
//!
//! ```json
//! {"gate": "fuzz", "required": 8, "reached": 8, "pass": true, "when": "2026-01-31T12:00:00Z",
//!  "note": "10 s each"}
//! ```
//!
//! The note may be missing. A file that is not there is a gate that was not run; one that cannot be
//! understood is a gate that does not hold, and so is one that says so itself.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

use super::{Bound, Gate, Standing};

/// What a file says.
#[derive(Deserialize)]
struct Said {
    gate: String,
    required: u64,
    reached: u64,
    pass: bool,
    when: String,
    note: Option<String>,
}

/// Names, and what they are called in a table.
pub const ELSEWHERE: [(&str, &str); 6] = [
    ("loom", "loom: interleavings of hand-offs, tests"),
    ("shuttle", "shuttle: schedules, workloads"),
    ("miri", "Miri: crates without undefined behaviour"),
    ("fuzz", "fuzz targets without a finding"),
    ("sanitizers", "sanitizers: runs without a finding"),
    ("cargo-mutants", "cargo-mutants: killed"),
];

/// All of them, as their files in `folder` say.
pub fn read(folder: &Path) -> Vec<Gate> {
    let read = |(file, name): (&str, &str)| {
        let text = match std::fs::read_to_string(folder.join(format!("{file}.json"))) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            // It is there.
            Err(_) => Some(String::new()),
        };
        gate(file, name, text.as_deref())
    };
    ELSEWHERE.into_iter().map(read).collect()
}

/// What a file's text says of the gate, `None` being no file.
fn gate(file: &str, name: &str, text: Option<&str>) -> Gate {
    let unread = |standing| Gate {
        name: name.to_owned(),
        of: String::new(),
        bound: Bound::AtLeast,
        required: None,
        standing,
        note: String::new(),
    };
    match text {
        None => unread(Standing::NotRun),
        Some(text) => understood(file, name, text).unwrap_or_else(|| unread(Standing::Unreadable)),
    }
}

fn understood(file: &str, name: &str, text: &str) -> Option<Gate> {
    let said: Said = serde_json::from_str(text).ok()?;
    if said.gate != file {
        return None;
    }
    let Said { required, reached, .. } = said;
    let note = said.note.map_or_else(String::new, |note| format!(", {note}"));
    let note = format!("{}{note}", said.when);
    let standing = if said.pass { Standing::Reached(reached) } else { Standing::Failed(reached) };
    Some(Gate { standing, note, ..Gate::at_least(name, "", required, reached) })
}

#[cfg(test)]
mod tests {
    use super::super::{exit_code, shortfalls, table};
    use super::*;

    const GOOD: &str = r#"{"gate": "fuzz", "required": 8, "reached": 8, "pass": true,
        "when": "2026-01-31T12:00:00Z", "note": "10 s each"}"#;

    fn of(text: &str) -> Gate {
        gate("fuzz", "fuzz targets", Some(text))
    }

    #[test]
    fn a_gate_without_its_file_was_not_run() {
        let nowhere = Path::new(env!("CARGO_MANIFEST_DIR")).join("there/is/no/such/folder");
        let gates = read(&nowhere);
        assert_eq!(gates.len(), ELSEWHERE.len());
        for (gate, line) in gates.iter().zip(table(&gates).lines().skip(1)) {
            assert_eq!(gate.holds(), None, "{gate:?}");
            assert!(line.ends_with("  not run") && !line.contains("pass"), "{line}");
        }
        assert!(shortfalls(&gates).is_empty());
        let run = Gate::at_least("states", "", 1, 1);
        assert_eq!(exit_code(&[gates, vec![run]].concat()), 0, "what was not run fails nothing");
    }

    #[test]
    fn files_are_believed_if_they_can_be_understood() {
        assert_eq!(of(GOOD).holds(), Some(true));
        assert_eq!(of(GOOD).note, "2026-01-31T12:00:00Z, 10 s each");
        assert_eq!(of(&GOOD.replace(", \"note\": \"10 s each\"", "")).holds(), Some(true));
        for (from, to, standing) in [
            ("\"reached\": 8", "\"reached\": 7", Standing::Reached(7)),
            ("true", "false", Standing::Failed(8)),
            ("\"fuzz\"", "\"loom\"", Standing::Unreadable),
            ("\"pass\": true,", "", Standing::Unreadable),
            ("\"when\"", "\"then\"", Standing::Unreadable),
            ("8,", "\"8\",", Standing::Unreadable),
            ("}", "", Standing::Unreadable),
        ] {
            let gate = of(&GOOD.replacen(from, to, 1));
            let wrong_note = format!("{from} -> {to}");
            assert_eq!(gate.standing, standing, "{wrong_note}");
            assert_eq!(gate.holds(), Some(false), "{wrong_note}");
            assert_ne!(exit_code(&[gate]), 0, "{wrong_note}");
        }
        assert_eq!(of("").standing, Standing::Unreadable);
    }
}
