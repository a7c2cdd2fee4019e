//! A page whose sections were written by several runs: what a run has is put in the place of what
//! the page had.

use std::fmt::Write as _;

use crate::papers::row::Verdict;

/// Where a line of a table has its figure, what it compares, and its verdict.
const FIGURE: usize = 1;
const COMPARED: usize = 2;
const VERDICT: usize = 6;
const CELLS: usize = 10;

fn cell(line: &str, at: usize) -> Option<&str> {
    let cells: Vec<_> = line.split('|').map(str::trim).collect();
    let is_row = cells.len() == CELLS && cells[0].is_empty() && cells[FIGURE] != "figure";
    (is_row && !cells[FIGURE].starts_with("---")).then(|| cells[at])
}

/// The paper and the workload of a row: `gate: NJS 1` and `NJS 8b` are of one paper.
fn subject(line: &str) -> Option<(&str, &str)> {
    let figure = cell(line, FIGURE)?;
    let paper = figure.strip_prefix("gate: ").unwrap_or(figure).split(' ').next()?;
    let workload = cell(line, COMPARED)?.split([':', ',', ';']).next()?;
    Some((paper, workload))
}

/// How many rows have each verdict, as a line of the page. Rows whose gate is out do not count.
pub fn counted(page: &str) -> String {
    let has = |line: &str, verdict: Verdict| cell(line, VERDICT) == Some(verdict.text());
    let is_gate = |line: &str| cell(line, FIGURE).is_some_and(|it| it.starts_with("gate: "));
    let open_gates = page.lines().filter(|line| is_gate(line) && has(line, Verdict::Out));
    let open_gates: Vec<_> = open_gates.filter_map(subject).collect();
    let counts = |line: &&str| {
        is_gate(line) || subject(line).is_none_or(|subject| !open_gates.contains(&subject))
    };
    let count =
        |verdict: Verdict| page.lines().filter(|line| has(line, verdict)).filter(counts).count();
    let [within, sign, out, printed] =
        [Verdict::In, Verdict::Sign, Verdict::Out, Verdict::Printed].map(count);
    let judged = within + sign + out;
    let share = 100 * within / judged.max(1);
    let has_band = |line: &&str| cell(line, VERDICT).is_some() && !has(line, Verdict::Printed);
    let left = page.lines().filter(has_band).count() - judged;
    format!(
        "{within} rows are in their bands, {sign} have the paper's sign, and {out} are out: \
         {share} % of those that have a band are in it. {printed} are printed alone. {left} do \
         not count, since a gate of their baselines is out.\n"
    )
}

/// What is between two titles.
struct Part<'a> {
    title: &'a str,
    lines: Vec<&'a str>,
}

fn parts(page: &str) -> Vec<Part<'_>> {
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
    /// Text is the newer one; so are plots and a table of another kind, where there are any.
    fn renewed(self, newer: Self) -> Self {
        let is_new = |line: &&str| {
            let figure = cell(line, FIGURE);
            newer.lines.iter().any(|other| cell(other, FIGURE) == figure)
        };
        let rows = |part: &Self| -> Vec<&'a str> {
            part.lines.iter().copied().filter(|line| cell(line, FIGURE).is_some()).collect()
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
        let head = newer.lines.iter().take_while(|line| cell(line, FIGURE).is_none()).copied();
        let is_row = |line: &&&str| cell(line, FIGURE).is_some();
        let tail = |part: &Self| -> Vec<&'a str> {
            let count = part.lines.iter().rev().take_while(|line| !is_row(line)).count();
            part.lines[part.lines.len() - count..].to_vec()
        };
        let plots = |lines: &[&str]| lines.iter().any(|line| line.starts_with("!["));
        let (old_tail, new_tail) = (tail(&self), tail(&newer));
        let tail = if plots(&new_tail) || !plots(&old_tail) { new_tail } else { old_tail };
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
        let counts = "2 rows are in their bands, 0 have the paper's sign, and 2 are out: 50 %";
        assert!(merged.contains(counts));
    }

    #[test]
    fn a_row_whose_gate_is_out_does_not_count() {
        let of = |figure: &str, compared: &str, verdict: &str| {
            format!("| {figure} | {compared} | - | 1 | must | {verdict} | 1 | |\n")
        };
        let rows = [
            of("gate: A 1", "mail: fast / slow", "**out**"),
            of("gate: A 1", "files: fast / slow", "in"),
            of("A 8b", "mail; stands still", "in"),
            of("A 9", "mail, long: on / off", "**out**"),
            of("A 9", "files; stands still", "sign"),
            of("B 2", "mail: on / off", "in"),
        ];
        let counted = counted(&rows.concat());
        assert!(
            counted.starts_with("2 rows are in their bands, 1 have the paper's sign, and 1 are")
        );
        assert!(counted.contains("out: 50 %") && counted.contains("2 do not count"), "{counted}");
    }
}
