//! One figure of a paper beside ours, and what is said of it.

/// What has to hold of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    /// Ours has to be within.
    Must(f64, f64),
    /// Ours has to be on the side of this value where the paper's is: above it.
    Above(f64),
    /// Printed, explained and not asserted.
    Printed,
}

impl Band {
    /// From here on without an end.
    pub const fn at_least(least: f64) -> Self {
        Self::Must(least, f64::INFINITY)
    }

    /// A band twice as wide: about the middle of its ends, or from a nearer end on. Where all of
    /// it is on one side of what is neither more nor less, so is all of the wider one.
    fn widened(self, neither: f64) -> Self {
        let wider = self.twice_as_wide();
        match (self, wider) {
            (Self::Must(from, _), Self::Must(least, to)) if from >= neither => {
                Self::Must(least.max(neither), to)
            }
            (Self::Must(_, to), Self::Must(from, most)) if to <= neither => {
                Self::Must(from, most.min(neither))
            }
            _ => wider,
        }
    }

    fn twice_as_wide(self) -> Self {
        match self {
            Self::Must(from, to) if to.is_finite() && from.is_finite() => {
                let more = (to - from) / 2.0;
                Self::Must(from - more, to + more)
            }
            Self::Must(from, to) if to.is_finite() => Self::Must(from, to + to.abs() / 2.0),
            Self::Must(from, to) => Self::Must(from - from.abs() / 2.0, to),
            other => other,
        }
    }

    fn holds(self, ours: f64) -> bool {
        match self {
            Self::Must(from, to) => (from..=to).contains(&ours),
            Self::Above(least) => ours > least,
            Self::Printed => true,
        }
    }

    fn text(self, unit: Unit) -> String {
        match self {
            Self::Must(from, to) if to.is_infinite() => format!("must >= {}", unit.text(from)),
            Self::Must(from, to) if from.is_infinite() => format!("must <= {}", unit.text(to)),
            Self::Must(from, to) => format!("must {} .. {}", unit.text(from), unit.text(to)),
            Self::Above(least) => format!("sign: > {}", unit.text(least)),
            Self::Printed => "printed".to_owned(),
        }
    }
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// More or less in a hundred.
    Percent,
    /// How many times faster.
    Times,
    Millis,
    Seconds,
    /// Of something in a second.
    PerSecond,
    MegabytesPerSecond,
    Count,
}

impl Unit {
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Percent => format!("{value:+.1} %"),
            Self::Times => format!("{value:.2} x"),
            Self::Millis => format!("{value:.2} ms"),
            Self::Seconds => format!("{value:.2} s"),
            Self::PerSecond => format!("{value:.1} /s"),
            Self::MegabytesPerSecond => format!("{value:.1} MB/s"),
            Self::Count => format!("{value:.0}"),
        }
    }
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    In,
    Out,
    /// The direction is the paper's.
    Sign,
    /// There is no band.
    Printed,
}

impl Verdict {
    pub const fn text(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "**out**",
            Self::Sign => "sign",
            Self::Printed => "-",
        }
    }
}

/// A line of the tables.
#[derive(Clone, Debug)]
pub struct Row {
    pub figure: &'static str,
    pub compared: String,
    /// What the paper says, in its words.
    pub paper: &'static str,
    pub ours: f64,
    pub unit: Unit,
    pub band: Band,
    pub scale: u64,
    /// Why, by counts.
    pub why: String,
}

impl Row {
    pub fn verdict(&self) -> Verdict {
        match (self.band, self.band.holds(self.ours)) {
            (Band::Printed, _) => Verdict::Printed,
            (_, false) => Verdict::Out,
            (Band::Above(_), true) => Verdict::Sign,
            (Band::Must(..), true) => Verdict::In,
        }
    }

    /// Whether a test holds it.
    pub const fn is_must(&self) -> bool {
        matches!(self.band, Band::Must(..))
    }

    /// This row, in a band twice as wide.
    #[must_use]
    pub fn widened(self) -> Self {
        let neither = match self.unit {
            Unit::Percent => 0.0,
            Unit::Times => 1.0,
            _ => f64::NEG_INFINITY,
        };
        let band = if neither.is_finite() {
            self.band.widened(neither)
        } else {
            self.band.twice_as_wide()
        };
        Self { band, ..self }
    }

    pub const HEAD: &'static str = concat!(
        "| figure | compared | paper | ours | band | verdict | k | by counts |\n",
        "|---|---|---|---|---|---|---|---|\n"
    );

    pub fn line(&self) -> String {
        let verdict = self.verdict().text();
        let Self { figure, compared, paper, ours, unit, band, scale, why } = self;
        let (ours, band) = (unit.text(*ours), band.text(*unit));
        // Counts are no prose.
        let why = if why.is_empty() { String::new() } else { format!("`{why}`") };
        format!(
            "| {figure} | {compared} | {paper} | {ours} | {band} | {verdict} | {scale} | {why} |\n"
        )
    }
}

/// Curves by their names, and the points of each: one for each step of a parameter.
pub type Curves = Vec<(String, Vec<f64>)>;

/// A line of the tables, as a page has it.
#[derive(Clone, Copy, Debug)]
pub struct PrintedRow<'a> {
    pub figure: &'a str,
    pub compared: &'a str,
    pub paper: &'a str,
    pub ours: &'a str,
    pub verdict: &'a str,
    pub why: &'a str,
}

impl<'a> PrintedRow<'a> {
    pub fn parse(line: &'a str) -> Option<Self> {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let ["", figure, compared, paper, ours, _, verdict, _, why, ""] = cells[..] else {
            return None;
        };
        let why = why.trim_matches('`');
        let is_row = figure != "figure" && !figure.starts_with("---");
        is_row.then_some(Self { figure, compared, paper, ours, verdict, why })
    }

    /// Its figure and what it compares: no other line has both.
    pub fn is(&self, name: &str) -> bool {
        name.split_once('|') == Some((self.figure, self.compared))
    }
}

/// The number that a cell has, where it has one: `+ 53.9 %`, `2.20 x`, `**1241**`.
pub fn number_in(cell: &str) -> Option<f64> {
    let cell = cell.trim_matches('*');
    let cell = cell.rsplit(": ").next().unwrap_or(cell).trim_start_matches("about ");
    let cell = cell.replace("+ ", "").replace("- ", "-");
    let mut words = cell.split(' ');
    let value = words.next()?.trim_start_matches('+').parse().ok()?;
    let unit = words.next().unwrap_or_default();
    (words.next().is_none() && unit != "->").then_some(value)
}

/// How much more `ours` is than `other`, in a hundred.
pub fn percent_more(ours: f64, other: f64) -> f64 {
    100.0 * (ours / other - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_has_is_what_was_printed() {
        let row = Row {
            figure: "A 1a",
            compared: "mail: / other".to_owned(),
            paper: "+ 53.9 %",
            ours: -1.25,
            unit: Unit::Percent,
            band: Band::Printed,
            scale: 4,
            why: "3 commits".to_owned(),
        };
        let line = row.line();
        let printed = PrintedRow::parse(line.trim_end()).expect("a row");
        assert!(printed.is("A 1a|mail: / other") && !printed.is("A 1|mail: / other"));
        assert_eq!((printed.verdict, printed.why), ("-", "3 commits"));
        assert_eq!((number_in(printed.ours), number_in(printed.paper)), (Some(-1.2), Some(53.9)));
        assert!(Row::HEAD.lines().all(|line| PrintedRow::parse(line).is_none()));
        assert_eq!(number_in("- 1 %"), Some(-1.0));
        assert_eq!(number_in("19.9 -> 4.3 ms: 4.6 x"), Some(4.6));
        assert_eq!(number_in("**521773**"), Some(521_773.0));
        for none in ["1.6 .. 46.6 x", "-", "loses", "> 4.4 x", "best at 4 KB, + 35 % there"] {
            assert_eq!(number_in(none), None, "{none}");
        }
    }

    #[test]
    fn a_wider_band_is_on_the_same_side() {
        let wider = |from, to, neither| Band::Must(from, to).widened(neither);
        assert_eq!(wider(12.0, 22.0, 1.0), Band::Must(7.0, 27.0));
        assert_eq!(wider(1.4, f64::INFINITY, 1.0), Band::at_least(1.0));
        assert_eq!(wider(30.0, f64::INFINITY, 0.0), Band::at_least(15.0));
        assert_eq!(wider(-60.0, -10.0, 0.0), Band::Must(-85.0, 0.0));
        assert_eq!(wider(-10.0, 40.0, 0.0), Band::Must(-35.0, 65.0));
    }
}
