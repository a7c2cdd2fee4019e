//! The plots of the page: their points are the figures of its rows and tables, as it prints them.

use std::fmt::Write as _;

use crate::papers::explain::{DELTA, FGM, HASFS, NJS, TODAY, TWO_LEVEL};
use crate::papers::row::{Curves, PrintedRow, number_in};
use crate::plot::{Plot, Scale};

/// Where a plot's points stand.
enum Points {
    /// In rows: one for each step of each curve. A row's name is its figure, `|`, and what it
    /// compares; the step's text takes the place of `{}` in the curve's.
    Rows {
        steps: &'static [(&'static str, &'static str)],
        curves: &'static [(&'static str, &'static str)],
        /// Curves that have the paper's figures of these rows.
        papers: &'static [(&'static str, &'static str)],
    },
    /// In the table whose head begins with this cell: a curve a line, a step a column.
    Table(&'static str),
    /// In the table of media of today, in the lines of this work.
    Today(&'static str),
}

/// A plot of the page.
struct Plotted {
    section: &'static str,
    file: &'static str,
    title: &'static str,
    below: &'static str,
    scale: Scale,
    is_joined: bool,
    points: Points,
}

/// The heads of the tables of curves.
pub const FGM_13: &str = "FGM 13, operations a second";
pub const FGM_14: &str = "FGM 14, commits of 1,000 operations";
pub const NJS_9A: &str = "NJS 9a, gain in a hundred";

const MODES: &[(&str, &str)] =
    &[("none", "none"), ("writeback", "writeback"), ("ordered", "ordered"), ("data", "data")];
const CLOSINGS: &[(&str, &str)] = &[("10 ms", "10"), ("40 ms", "40"), ("150 ms", "150")];
const PRAM: &[(&str, &str)] =
    &[("4 MB", "4"), ("8", "8"), ("16", "16"), ("32", "32"), ("64", "64"), ("512", "512")];
const MACROS: &[(&str, &str)] = &[
    ("fileserver", "fileserver"),
    ("varmail", "varmail"),
    ("webserver", "webserver"),
    ("webproxy", "webproxy"),
];
const NJS_WORKS: &[(&str, &str)] =
    &[("postmark", "postmark"), ("fileserver", "fileserver"), ("varmail", "varmail")];

const ALL: &[Plotted] = &[
    Plotted {
        section: TWO_LEVEL,
        file: "papers-two-level-pram.svg",
        title: "Two-level logging: times faster, by the size of PRAM",
        below: "megabytes of PRAM, where a unit closes in 10 ms",
        scale: Scale::FromZero,
        is_joined: true,
        points: Points::Rows {
            steps: PRAM,
            curves: &[
                (
                    "mobibench",
                    "two-level, mobibench|/ log-structured; {} MB of PRAM, a unit closes in 10 ms",
                ),
                (
                    "the generator",
                    "two-level, mobibench|/ log-structured; {} MB of PRAM, a unit closes in 10 \
                     ms; the generator",
                ),
                (
                    "filebench",
                    "two-level, filebench|time a commit, / block journal of 16 MB; {} MB of \
                     PRAM, a unit closes in 10 ms",
                ),
            ],
            papers: &[],
        },
    },
    Plotted {
        section: TWO_LEVEL,
        file: "papers-two-level-closing.svg",
        title: "Two-level logging, mobibench: times faster, by the card",
        below: "how long a unit takes to close",
        scale: Scale::FromZero,
        is_joined: true,
        points: Points::Rows {
            steps: CLOSINGS,
            curves: &[
                (
                    "512 MB",
                    "two-level, mobibench|/ log-structured; 512 MB of PRAM, a unit closes in {} ms",
                ),
                (
                    "4 MB",
                    "two-level, mobibench|/ log-structured; 4 MB of PRAM, a unit closes in {} ms",
                ),
                (
                    "512 MB of 60 us",
                    "two-level, mobibench|/ log-structured; 512 MB of PRAM of 60 us, a unit \
                     closes in {} ms",
                ),
                (
                    "512 MB, generator",
                    "two-level, mobibench|/ log-structured; 512 MB of PRAM, a unit closes in {} \
                     ms; the generator",
                ),
                (
                    "4 MB, generator",
                    "two-level, mobibench|/ log-structured; 4 MB of PRAM, a unit closes in {} \
                     ms; the generator",
                ),
            ],
            papers: &[],
        },
    },
    Plotted {
        section: TWO_LEVEL,
        file: "papers-two-level-filebench.svg",
        title: "Two-level logging, filebench: times shorter a commit, by the card",
        below: "how long a unit takes to close",
        scale: Scale::Doubling,
        is_joined: true,
        points: Points::Rows {
            steps: CLOSINGS,
            curves: &[
                (
                    "512 MB",
                    "two-level, filebench|time a commit, / block journal of 16 MB; 512 MB of \
                     PRAM, a unit closes in {} ms",
                ),
                (
                    "4 MB",
                    "two-level, filebench|time a commit, / block journal of 16 MB; 4 MB of PRAM, \
                     a unit closes in {} ms",
                ),
            ],
            papers: &[],
        },
    },
    Plotted {
        section: DELTA,
        file: "papers-delta-3a.svg",
        title: "Delta journaling 3a: times faster, by how much differs",
        below: "bytes of a block that differ, in a hundred",
        scale: Scale::FromZero,
        is_joined: true,
        points: Points::Rows {
            steps: &[("10 %", "10"), ("50 %", "50"), ("90 %", "90")],
            curves: &[
                ("256 MB", "delta, overwrite|/ data mode; 256 MB, {} % differ"),
                ("512 MB", "delta, overwrite|/ data mode; 512 MB, {} % differ"),
            ],
            papers: &[
                ("256 MB, the paper", "delta, overwrite|/ data mode; 256 MB, {} % differ"),
                ("512 MB, the paper", "delta, overwrite|/ data mode; 512 MB, {} % differ"),
            ],
        },
    },
    Plotted {
        section: DELTA,
        file: "papers-delta-tpcc.svg",
        title: "Delta journaling, TPC-C: gain in a hundred, by the card",
        below: "how long a unit takes to close",
        scale: Scale::FromZero,
        is_joined: true,
        points: Points::Rows {
            steps: CLOSINGS,
            curves: &[
                ("the trace", "delta, TPC-C|/ data mode, disk alone; a unit closes in {} ms"),
                (
                    "the generator",
                    "delta, TPC-C|/ data mode, disk alone; a unit closes in {} ms; the generator",
                ),
            ],
            papers: &[],
        },
    },
    Plotted {
        section: FGM,
        file: "papers-fgm-9-12.svg",
        title: "FGM 9a, 10a and 12a: gain in a hundred",
        below: "workload",
        scale: Scale::FromZero,
        is_joined: false,
        points: Points::Rows {
            steps: &[
                ("varmail", "FGM 9a|varmail, appends of 4 KB"),
                ("fileserver", "FGM 10a|fileserver"),
                ("postmark, 500 K", "FGM 12a|postmark, 500 K files"),
                ("100 K", "FGM 12a|postmark, 100 K files"),
            ],
            curves: &[
                ("/ on a second disk", "{}: / ordered on a second disk"),
                ("/ in NVM", "{}: / ordered in NVM"),
            ],
            papers: &[
                ("/ disk, the paper", "{}: / ordered on a second disk"),
                ("/ NVM, the paper", "{}: / ordered in NVM"),
            ],
        },
    },
    Plotted {
        section: FGM,
        file: "papers-fgm-11.svg",
        title: "FGM 11a, writefsync: times faster",
        below: "an append, and appends for each fsync",
        scale: Scale::Logarithm,
        is_joined: false,
        points: Points::Rows {
            steps: &[
                ("4 KB x 32", "4 KB x 32"),
                ("4 KB x 128", "4 KB x 128"),
                ("16 KB x 32", "16 KB x 32"),
            ],
            curves: &[
                ("/ on a second disk", "FGM 11a|writefsync {}: / ordered on a second disk"),
                ("/ in NVM", "FGM 11a|writefsync {}: / ordered in NVM"),
            ],
            papers: &[
                ("/ disk, the paper", "FGM 11a|writefsync {}: / ordered on a second disk"),
                ("/ NVM, the paper", "FGM 11a|writefsync {}: / ordered in NVM"),
            ],
        },
    },
    Plotted {
        section: FGM,
        file: "papers-fgm-13.svg",
        title: "FGM 13: operations a second, by the size of the TxnInfo",
        below: "bytes of the TxnInfo",
        scale: Scale::Doubling,
        is_joined: true,
        points: Points::Table(FGM_13),
    },
    Plotted {
        section: FGM,
        file: "papers-fgm-14.svg",
        title: "FGM 14: commits of 1,000 operations, by the size of the TxnInfo",
        below: "bytes of the TxnInfo",
        scale: Scale::Logarithm,
        is_joined: true,
        points: Points::Table(FGM_14),
    },
    Plotted {
        section: NJS,
        file: "papers-njs-8.svg",
        title: "NJS 8: gain on data mode in a hundred",
        below: "workload",
        scale: Scale::FromZero,
        is_joined: false,
        points: Points::Rows {
            steps: &[
                ("sequential", "NJS 8a|IOzone, sequential"),
                ("re-write", "NJS 8a|IOzone, re-write"),
                ("random", "NJS 8a|IOzone, random"),
                ("postmark", "NJS 8b|postmark"),
                ("fileserver", "NJS 8b|fileserver"),
                ("varmail", "NJS 8b|varmail"),
            ],
            curves: &[
                ("stands still", "{}; stands still"),
                ("in the background", "{}; in the background"),
            ],
            papers: &[("the paper", "{}; stands still")],
        },
    },
    Plotted {
        section: NJS,
        file: "papers-njs-9a.svg",
        title: "NJS 9a: gain by byte update in regions that are written again, in a hundred",
        below: "bytes of a block that differ",
        scale: Scale::FromZero,
        is_joined: true,
        points: Points::Table(NJS_9A),
    },
    Plotted {
        section: NJS,
        file: "papers-njs-10.svg",
        title: "NJS 10: gain by the delayed checkpoint in a hundred",
        below: "workload",
        scale: Scale::FromZero,
        is_joined: false,
        points: Points::Rows {
            steps: NJS_WORKS,
            curves: &[("ours", "NJS 10|{}: delayed checkpoint / oldest first")],
            papers: &[("the paper", "NJS 10|{}: delayed checkpoint / oldest first")],
        },
    },
    Plotted {
        section: NJS,
        file: "papers-njs-11.svg",
        title: "NJS 11: all logged beside split, in a hundred",
        below: "workload",
        scale: Scale::FromZero,
        is_joined: false,
        points: Points::Rows {
            steps: NJS_WORKS,
            curves: &[
                ("stands still", "NJS 11|{}; stands still: all logged / split"),
                ("in the background", "NJS 11|{}; in the background: all logged / split"),
            ],
            papers: &[("the paper", "NJS 11|{}; stands still: all logged / split")],
        },
    },
    Plotted {
        section: HASFS,
        file: "papers-hasfs-7-9.svg",
        title: "HasFS 7 and 9, HDD: times faster than ext4",
        below: "mode of the journal of ext4",
        scale: Scale::Logarithm,
        is_joined: false,
        points: Points::Rows {
            steps: MODES,
            curves: &[
                ("random, 20 GB", "HasFS 7|HDD, 20 GB, random: / {}"),
                ("sequential, 20 GB", "HasFS 7|HDD, 20 GB, sequential: / {}"),
                ("random, 100 MB", "HasFS 9|HDD, 100 MB, random: / {}"),
            ],
            papers: &[],
        },
    },
    Plotted {
        section: HASFS,
        file: "papers-hasfs-8-10.svg",
        title: "HasFS 8 and 10, SSD: times faster than ext4",
        below: "mode of the journal of ext4",
        scale: Scale::Logarithm,
        is_joined: false,
        points: Points::Rows {
            steps: MODES,
            curves: &[
                ("random, 20 GB", "HasFS 8|SSD, 20 GB, random: / {}"),
                ("sequential, 20 GB", "HasFS 8|SSD, 20 GB, sequential: / {}"),
                ("random, 100 MB", "HasFS 10|SSD, 100 MB, random: / {}"),
            ],
            papers: &[],
        },
    },
    Plotted {
        section: HASFS,
        file: "papers-hasfs-11.svg",
        title: "HasFS 11, HDD: times faster",
        below: "workload",
        scale: Scale::Logarithm,
        is_joined: false,
        points: Points::Rows {
            steps: MACROS,
            curves: &[
                ("/ none", "HasFS 11|HDD, {}: / none"),
                ("/ writeback", "HasFS 11|HDD, {}: / writeback"),
                ("/ ordered", "HasFS 11|HDD, {}: / ordered"),
                ("/ data", "HasFS 11|HDD, {}: / data"),
                ("/ NVM journal", "HasFS 11|HDD, {}: / NVM journal of 1 GB"),
            ],
            papers: &[],
        },
    },
    Plotted {
        section: HASFS,
        file: "papers-hasfs-12.svg",
        title: "HasFS 12, SSD: times faster",
        below: "workload",
        scale: Scale::Logarithm,
        is_joined: false,
        points: Points::Rows {
            steps: MACROS,
            curves: &[
                ("/ none", "HasFS 12|SSD, {}: / none"),
                ("/ writeback", "HasFS 12|SSD, {}: / writeback"),
                ("/ ordered", "HasFS 12|SSD, {}: / ordered"),
                ("/ data", "HasFS 12|SSD, {}: / data"),
                ("/ NVM journal", "HasFS 12|SSD, {}: / NVM journal of 1 GB"),
            ],
            papers: &[],
        },
    },
    Plotted {
        section: TODAY,
        file: "papers-today-mail.svg",
        title: "Media of today, mail: operations a second, by policy",
        below: "policy",
        scale: Scale::Doubling,
        is_joined: false,
        points: Points::Today("mail"),
    },
    Plotted {
        section: TODAY,
        file: "papers-today-pages.svg",
        title: "Media of today, pages: operations a second, by policy",
        below: "policy",
        scale: Scale::Doubling,
        is_joined: false,
        points: Points::Today("pages"),
    },
];

/// A table of curves, for the page: a line each.
pub fn table_of_curves(head: &str, steps: &[String], curves: &[(String, Vec<f64>)]) -> String {
    let mut table = format!("\n| {head} | {} |\n", steps.join(" | "));
    let _ = writeln!(table, "|---|{}", "---|".repeat(steps.len()));
    for (name, values) in curves {
        let values: Vec<_> = values.iter().map(|value| format!("{value:.1}")).collect();
        let _ = writeln!(table, "| {name} | {} |", values.join(" | "));
    }
    table
}

/// The table among these lines whose head begins with this cell: its lines of cells, the head
/// first.
fn table<'a>(lines: &[&'a str], head: &str) -> Option<Vec<Vec<&'a str>>> {
    let cells = |line: &'a str| -> Option<Vec<&'a str>> {
        let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(inner.split(" | ").collect())
    };
    let first = lines.iter().position(|line| {
        cells(line).is_some_and(|cells| cells.first().is_some_and(|cell| *cell == head))
    })?;
    let rows = lines[first + 2..].iter().map_while(|line| cells(line));
    Some(cells(lines[first]).into_iter().chain(rows).collect())
}

impl Points {
    /// The steps and the curves that the lines of a section have.
    fn among(&self, lines: &[&str]) -> Option<(Vec<String>, Curves)> {
        match self {
            Self::Rows { steps, curves, papers } => {
                let rows: Vec<_> =
                    lines.iter().filter_map(|line| PrintedRow::parse(line)).collect();
                let row = |pattern: &str, step: &str| {
                    let name = pattern.replace("{}", step);
                    rows.iter().find(|row| row.is(&name))
                };
                let curve = |(name, pattern): &(&str, &str), is_paper| {
                    let point = |(_, step): &(&str, &str)| {
                        let cell = row(pattern, step).map(|row| match is_paper {
                            true => row.paper,
                            false => row.ours,
                        });
                        cell.and_then(number_in).unwrap_or(f64::NAN)
                    };
                    ((*name).to_owned(), steps.iter().map(point).collect::<Vec<_>>())
                };
                let all = curves.iter().map(|this| curve(this, false));
                let all = all.chain(papers.iter().map(|this| curve(this, true)));
                let all: Vec<_> =
                    all.filter(|(_, values)| values.iter().any(|it| it.is_finite())).collect();
                let steps = steps.iter().map(|(name, _)| (*name).to_owned());
                (!all.is_empty()).then(|| (steps.collect(), all))
            }
            Self::Table(head) => {
                let rows = table(lines, head)?;
                let curve = |cells: &Vec<&str>| {
                    let values = cells[1..].iter().map(|cell| cell.parse().unwrap_or(f64::NAN));
                    (cells[0].to_owned(), values.collect())
                };
                let steps = rows[0][1..].iter().map(|step| (*step).to_owned());
                Some((steps.collect(), rows[1..].iter().map(curve).collect()))
            }
            Self::Today(work) => {
                let rows = table(lines, "memory and disk")?;
                // Memory and disk, work, a column for each policy, scale.
                let policies = 2..rows[0].len() - 1;
                let curve = |cells: &Vec<&str>| {
                    let values = cells[policies.clone()].iter();
                    let values = values.map(|cell| number_in(cell).unwrap_or(f64::NAN));
                    let name = cells[0].replace(" and ", ", ").replace(", with a disk-side", " +");
                    (name, values.collect())
                };
                let steps = rows[0][policies.clone()].iter().map(|step| (*step).to_owned());
                let of_work = rows[1..].iter().filter(|cells| cells[1] == *work);
                Some((steps.collect(), of_work.map(curve).collect()))
            }
        }
    }
}

/// The plots of a section that has these lines, by their files.
pub fn of_section(section: &str, lines: &[&str]) -> Vec<(&'static str, Plot)> {
    let wanted = ALL.iter().filter(|plot| plot.section == section);
    let made = wanted.filter_map(|this| {
        let (steps, curves) = this.points.among(lines)?;
        let Plotted { title, below, scale, is_joined, .. } = *this;
        Some((this.file, Plot { title, below, scale, steps, is_joined, curves }))
    });
    made.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::row::{Band, Row, Unit};

    #[test]
    fn points_are_the_figures_of_the_rows() {
        let mut checked = 0;
        for plot in ALL {
            let Points::Rows { steps, curves, papers } = &plot.points else { continue };
            let mut value = 1.0;
            let mut lines = Vec::new();
            for (_, pattern) in *curves {
                for (_, step) in *steps {
                    let name = pattern.replace("{}", step);
                    let (figure, compared) = name.split_once('|').expect("a figure");
                    value += 1.5;
                    let row = Row {
                        figure: "",
                        compared: compared.to_owned(),
                        paper: "7.25 x",
                        ours: value,
                        unit: Unit::Times,
                        band: Band::Printed,
                        scale: 1,
                        why: String::new(),
                    };
                    lines.push(row.line().replacen("|  |", &format!("| {figure} |"), 1));
                }
            }
            let lines: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
            let (_, made) = of_section(plot.section, &lines)
                .into_iter()
                .find(|(file, _)| *file == plot.file)
                .expect("it is made of these rows");
            let mut expected = 1.0;
            for (name, values) in &made.curves[..curves.len()] {
                for point in values {
                    expected += 1.5;
                    assert_eq!(*point, expected, "{}, {name}", plot.file);
                    checked += 1;
                }
            }
            assert_eq!(made.curves.len(), curves.len() + papers.len());
            let mut of_papers = made.curves[curves.len()..].iter().flat_map(|(_, them)| them);
            assert!(of_papers.all(|point| *point == 7.25));
        }
        assert!(checked > 60);
    }

    #[test]
    fn points_are_the_figures_of_the_tables() {
        let steps = ["256 B", "1 K"].map(str::to_owned);
        let curves =
            vec![("mail".to_owned(), vec![1.5, 2.0]), ("files".to_owned(), vec![3.0, 4.5])];
        let page = table_of_curves(FGM_13, &steps, &curves);
        let lines: Vec<_> = page.lines().collect();
        let made = of_section(FGM, &lines);
        assert_eq!(made.len(), 1);
        assert_eq!((made[0].0, &made[0].1.curves), ("papers-fgm-13.svg", &curves));
        assert_eq!(made[0].1.steps, steps);
        let page = "| memory and disk | work | full-block | lcow | k |\n|---|---|---|---|---|\n\
                    | A and B | mail | 1 | **2** | 1 |\n| A and B | pages | 3 | 4 | 1 |\n";
        let made = of_section(TODAY, &page.lines().collect::<Vec<_>>());
        let points = |at: usize| made[at].1.curves[0].1.clone();
        assert_eq!((points(0), points(1)), (vec![1.0, 2.0], vec![3.0, 4.0]));
    }
}
