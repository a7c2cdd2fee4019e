//! A page whose sections were written by several runs: what a run has is put in the place of what
//! the page had.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::papers::row::{PrintedRow, Verdict};

fn figure(line: &str) -> Option<&str> {
    PrintedRow::parse(line).map(|row| row.figure)
}

fn verdict_of(line: &str) -> Option<&str> {
    PrintedRow::parse(line).map(|row| row.verdict)
}

/// The paper and the workload of a row: `gate: NJS 1` and `NJS 8b` are of one paper.
fn subject(line: &str) -> Option<(&str, &str)> {
    let PrintedRow { figure, compared, .. } = PrintedRow::parse(line)?;
    let paper = figure.strip_prefix("gate: ").unwrap_or(figure).split(' ').next()?;
    let workload = compared.split([':', ',', ';']).next()?;
    Some((paper, workload))
}

/// The rows of the drive alone, which are a gate too.
const DRIVE: &str = "HDD alone";
/// The baseline of two-level logging on one trace, and the figure that needs it.
const LOG_STRUCTURED: (&str, &str) = ("gate: log-structured store", "two-level, mobibench");

fn is_gate(line: &str) -> bool {
    figure(line).is_some_and(|it| it.starts_with("gate: ") || it == DRIVE)
}

/// Whether the figure of a row says nothing while this gate is out.
fn spoils(gate: &str, row: &str) -> bool {
    let Some(of_row) = subject(row) else { return false };
    match figure(gate) {
        Some(DRIVE) => matches!(of_row, ("FGM" | "NJS", _) | ("HasFS", "HDD")),
        Some(gate) if gate == LOG_STRUCTURED.0 => figure(row) == Some(LOG_STRUCTURED.1),
        _ => subject(gate) == Some(of_row),
    }
}

/// How many rows have each verdict, as a line of the page. Gates count apart, and so do rows whose
/// gate is out.
pub fn counted(page: &str) -> String {
    let has = |line: &str, this: Verdict| verdict_of(line) == Some(this.text());
    let has_band = |line: &&str| verdict_of(line).is_some() && !has(line, Verdict::Printed);
    let (gates, rows): (Vec<_>, Vec<_>) =
        page.lines().filter(|line| verdict_of(line).is_some()).partition(|line| is_gate(line));
    let open_gates: Vec<_> = gates.iter().filter(|gate| has(gate, Verdict::Out)).collect();
    let (spoiled, rows): (Vec<&str>, Vec<&str>) =
        rows.into_iter().partition(|row| open_gates.iter().any(|gate| spoils(gate, row)));
    let count = |lines: &[&str], verdict| lines.iter().filter(|line| has(line, verdict)).count();
    let [within, sign, out, printed] = [Verdict::In, Verdict::Sign, Verdict::Out, Verdict::Printed]
        .map(|verdict| count(&rows, verdict));
    let share = 100 * within / (within + sign + out).max(1);
    let (judged, kept) = (gates.iter().filter(|gate| has_band(gate)).count(), Verdict::In);
    let kept = count(&gates, kept);
    let left = spoiled.iter().filter(|row| has_band(row)).count();
    let left_in = count(&spoiled, Verdict::In);
    let mut holds = BTreeMap::new();
    for row in rows.iter().filter(|row| has_band(row)) {
        *holds.entry(figure(row)).or_insert(true) &= !has(row, Verdict::Out);
    }
    let (figures, whole) = (holds.len(), holds.values().filter(|holds| **holds).count());
    format!(
        "Of the rows of policies {within} are in their bands, {sign} have the paper's sign, \
         and {out} are out: {share} % of those that have a band are in it. They are rows of \
         {figures} figures, of which {whole} have no row that is out. {printed} rows are printed \
         alone. {kept} of {judged} gates hold. {left} rows do not count, since a gate of their \
         baselines is out; {left_in} of these are in their bands.\n"
    )
}

/// What is between two titles.
pub struct Part<'a> {
    pub title: &'a str,
    pub lines: Vec<&'a str>,
}

pub fn parts(page: &str) -> Vec<Part<'_>> {
    let mut all = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            all.push(Part { title, lines: Vec::new() });
        } else if let Some(part) = all.last_mut() {
            part.lines.push(line);
        }
    }
    all
}

impl<'a> Part<'a> {
    /// This part with the rows of a newer one: they take the place of all rows of their figures.
    /// Text is the newer one; so is a table of another kind behind them, where there is one.
    fn renewed(self, newer: Self) -> Self {
        let is_new = |line: &&str| {
            let this = figure(line);
            newer.lines.iter().any(|other| figure(other) == this)
        };
        let rows = |part: &Self| -> Vec<&'a str> {
            part.lines.iter().copied().filter(|line| figure(line).is_some()).collect()
        };
        let (old, new) = (rows(&self), rows(&newer));
        let table = self.lines.iter().position(|line| line.starts_with("| figure |"));
        let (Some(table), false) = (table, old.is_empty()) else { return newer };
        if new.is_empty() {
            // A run of no part of it: the text alone.
            let end = newer.lines.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1);
            let text = newer.lines[..end].iter().copied();
            let lines = text.chain([""]).chain(self.lines[table..].iter().copied());
            return Self { title: newer.title, lines: lines.collect() };
        }
        let first = old.iter().position(is_new).unwrap_or(old.len());
        let kept = |line: &&&str| !is_new(line);
        let before = old[..first].iter().filter(kept).copied();
        let after = old[first..].iter().filter(kept).copied();
        let rows: Vec<_> = before.chain(new).chain(after).collect();
        let head = newer.lines.iter().take_while(|line| figure(line).is_none()).copied();
        let is_row = |line: &&&str| figure(line).is_some();
        let tail = |part: &Self| -> Vec<&'a str> {
            let count = part.lines.iter().rev().take_while(|line| !is_row(line)).count();
            part.lines[part.lines.len() - count..].to_vec()
        };
        let (old_tail, new_tail) = (tail(&self), tail(&newer));
        let is_empty = new_tail.iter().all(|line| line.is_empty());
        let tail = if is_empty { old_tail } else { new_tail };
        let lines = head.chain(rows).chain(tail).collect();
        Self { title: newer.title, lines }
    }
}

/// The newer page, with what only the older one has. `order` are the titles.
pub fn merged(older: &str, newer: &str, order: &[&str]) -> String {
    let head = newer.split("\n## ").next().unwrap_or_default();
    let mut body = String::new();
    for title in order {
        let find = |page| parts(page).into_iter().find(|part| part.title == *title);
        let part = match (find(older), find(newer)) {
            (Some(older), Some(newer)) => older.renewed(newer),
            (older, newer) => match newer.or(older) {
                Some(part) => part,
                None => continue,
            },
        };
        let text = part.lines.join("\n");
        let _ = write!(body, "\n## {title}\n{}\n", text.trim_end());
    }
    // The count is the last line of the head.
    let head = head.trim_end();
    let head = head.rsplit_once('\n').map_or(head, |(head, _)| head);
    let counts = counted(&body);
    format!("{head}\n{counts}{body}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figure: &str, ours: &str, verdict: &str) -> String {
        format!("| {figure} | one / other | - | {ours} | printed | {verdict} | 1 | |\n")
    }

    fn page(body: &str) -> String {
        format!("# Page\n\ncounts\n\n## A\n\ntext\n\n{body}")
    }

    #[test]
    fn a_run_takes_the_place_of_its_figures_and_leaves_the_others() {
        let head = "| figure | compared | paper | ours | band | verdict | k | by counts |\n\
                    |---|---|---|---|---|---|---|---|\n";
        let [one, two, three] = ["1", "2", "3"].map(|figure| row(figure, "old", "in"));
        let plot = "\n![curve](plots/a.svg)\n";
        let older = page(&format!("{head}{one}{two}{three}{plot}\n## B\n\nwords\n"));
        let new = row("2", "new", "**out**");
        let newer = page(&format!("{head}{new}{new}"));
        let merged = merged(&older, &newer, &["A", "B"]);
        let expected = format!("{head}{one}{new}{new}{three}{plot}\n## B\n\nwords\n");
        assert!(merged.ends_with(&format!("\n## A\n\ntext\n\n{expected}")), "{merged}");
        let text = super::merged(&merged, "# Page\n\ncounts\n\n## A\n\nother text\n", &["A", "B"]);
        assert!(text.ends_with(&format!("\n## A\n\nother text\n\n{expected}")), "{text}");
        let counts = "2 are in their bands, 0 have the paper's sign, and 2 are out: 50 %";
        assert!(merged.contains(counts));
    }

    #[test]
    fn a_row_whose_gate_is_out_does_not_count() {
        let of = |figure: &str, compared: &str, verdict: &str| {
            format!("| {figure} | {compared} | - | 1 | must | {verdict} | 1 | |\n")
        };
        let rows = [
            of("HDD alone", "in order", "in"),
            of("gate: log-structured store", "on the card", "**out**"),
            of("two-level, mobibench", "/ log-structured; 4 MB", "in"),
            of("two-level, filebench", "/ log-structured; 4 MB", "sign"),
            of("gate: A 1", "mail: fast / slow", "**out**"),
            of("gate: A 1", "files: fast / slow", "in"),
            of("A 8b", "mail; stands still", "in"),
            of("A 9", "mail, long: on / off", "**out**"),
            of("A 9", "files; stands still", "sign"),
            of("B 2", "mail: on / off", "in"),
        ];
        let says = counted(&rows.concat());
        let counts = "policies 1 are in their bands, 2 have the paper's sign, and 0 are out: 33 %";
        assert!(says.contains(counts), "{says}");
        assert!(says.contains("2 of 4 gates hold. 3 rows do not count"), "{says}");
        assert!(says.contains("2 of these are in their bands"), "{says}");
        assert!(says.contains("rows of 3 figures, of which 3 have no row that is out"), "{says}");
        let both = [of("B 2", "mail: on / off", "in"), of("B 2", "files", "**out**")];
        let says = counted(&both.concat());
        assert!(says.contains("rows of 1 figures, of which 0 have no row that is out"), "{says}");
        // A drive that is not as it has to be spoils all that is on it.
        let rows = [of("HDD alone", "in order", "**out**"), of("FGM 9a", "mail: / other", "in")];
        assert!(counted(&rows.concat()).contains("1 rows do not count"));
    }
}
