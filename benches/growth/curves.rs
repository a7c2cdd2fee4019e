//! Tables whose rows are the points of curves.

use std::time::Duration;

use lab::bench::{Effort, Table};
use lab::plot::{Plot, Scale};

/// Curves over common steps, with all points measured in the same rounds.
pub(crate) struct Curves<'a> {
    title: &'static str,
    below: &'static str,
    steps: Vec<String>,
    table: Table<'a>,
    /// The names of the curves, in the order of their first points; `rows` has the index of each
    /// row's curve.
    names: Vec<String>,
    rows: Vec<usize>,
}

impl<'a> Curves<'a> {
    /// No curves yet. `title` says what their points are, and `below` what the steps count.
    pub(crate) fn new(title: &'static str, below: &'static str) -> Self {
        let table = Table::new(format!("{title}, by {below}"));
        let (steps, names, rows) = (Vec::new(), Vec::new(), Vec::new());
        Self { title, below, steps, table, names, rows }
    }

    /// Goes on to the next step.
    pub(crate) fn step(&mut self, name: impl ToString) {
        self.steps.push(name.to_string());
    }

    /// Adds the point of a curve at this step, beside the one of another curve.
    pub(crate) fn point(
        &mut self,
        curve: &str,
        limit: &str,
        per_count: u64,
        run: impl FnMut(u64) -> Duration + 'a,
    ) {
        let step = self.steps.last().map_or("", |step| step);
        let versus = row_name(step, limit);
        self.table.row(row_name(step, curve), &versus, per_count, None, run);
        self.note(curve);
    }

    /// Adds the point of a curve at this step, beside the curve's own first point.
    pub(crate) fn point_from_first(
        &mut self,
        curve: &str,
        per_count: u64,
        run: impl FnMut(u64) -> Duration + 'a,
    ) {
        let [first, step] = [self.steps.first(), self.steps.last()];
        let [versus, name] = [first, step].map(|step| row_name(step.map_or("", |at| at), curve));
        self.table.row(name, &versus, per_count, None, run);
        self.note(curve);
    }

    fn note(&mut self, curve: &str) {
        let known = self.names.iter().position(|name| name == curve);
        self.rows.push(known.unwrap_or(self.names.len()));
        if known.is_none() {
            self.names.push(curve.to_owned());
        }
    }

    /// Measures and prints.
    pub(crate) fn print(self, effort: Effort) -> Plot {
        let Self { title, below, steps, table, names, rows } = self;
        let medians = table.print_medians(effort);
        let of = |curve: usize| {
            let points = rows.iter().zip(&medians).filter(|(row, _)| **row == curve);
            points.map(|(_, median)| *median).collect()
        };
        let curves = names.into_iter().enumerate().map(|(curve, name)| (name, of(curve)));
        let (scale, is_joined) = (Scale::FromZero, true);
        Plot { title, below, scale, steps, is_joined, curves: curves.collect() }
    }
}

fn row_name(step: &str, curve: &str) -> String {
    format!("{step:>7}, {curve}")
}
