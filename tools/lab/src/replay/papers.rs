//! What the papers say of workloads that there are traces of, beside what came out here.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use crate::replay::run::Figures;
use crate::replay::table::{Section, Table, WORDS, markdown, share};

/// What a paper compares: a policy with another one, in one figure.
struct Compared {
    paper: &'static str,
    policy: &'static str,
    against: &'static str,
    what: &'static str,
    count: fn(&Figures) -> u64,
    /// What it says, by the trace that comes closest.
    says: &'static [Says],
}

/// What a paper says of a workload.
struct Says {
    /// The trace that comes closest.
    trace: &'static str,
    text: &'static str,
    wants: Wants,
}

/// Which of our figures bear a paper out.
#[derive(Clone, Copy)]
enum Wants {
    /// Percent, and less.
    AtMost(f64),
    /// A count of zero.
    Nothing,
    /// The paper's workload is another one.
    Incomparable,
}

use Wants::{AtMost, Incomparable, Nothing};

const fn says(trace: &'static str, text: &'static str, wants: Wants) -> Says {
    Says { trace, text, wants }
}

const FGM: &[Says] = &[
    says("ext4-varmail", "-92.6 / -99.3 / -91.0 %", AtMost(-91.0)),
    says("ext4-fileserver", "up to -90.4 %", AtMost(-90.4)),
    says("ext4-writefsync", "-93.7 %", AtMost(-93.7)),
    says("ext4-postmark", "about -90 %", AtMost(-90.0)),
];

const NJS: &[Says] = &[
    says("ext4-postmark", "-41.7 %", AtMost(-41.7)),
    says("ext4-fileserver", "-30.3 %", AtMost(-30.3)),
    says("ext4-varmail", "-45.4 %", AtMost(-45.4)),
    says("ext4-varmail-datajournal", "-45.4 %", AtMost(-45.4)),
];

const HASFS: &[Says] = &[
    says("ext4-varmail-datajournal", "no data at a checkpoint", Nothing),
    says("ext4-iozone-datajournal", "no data at a checkpoint", Nothing),
    says("sqlite-tpcc", "no data at a checkpoint", Nothing),
    says("ext4-fileserver", "metadata alone", Incomparable),
];

const fn nvm_bytes(figures: &Figures) -> u64 {
    figures.nvm.commits().bytes
}

const BYTE_DELTA: Compared = Compared {
    paper: "NJS",
    policy: "byte-delta",
    against: "byte-delta, whole slots",
    what: "journal bytes, Fig. 9b",
    count: nvm_bytes,
    says: NJS,
};

const LCOW: Compared = Compared {
    paper: "HasFS",
    policy: "lcow",
    against: "full-block",
    what: "blocks written to the disk, with a last checkpoint",
    count: |figures| figures.disk_with_rings.blocks,
    says: HASFS,
};

const COMPARED: &[Compared] = &[
    Compared {
        paper: "FGM",
        policy: "object-log",
        against: "full-block",
        what: "journal bytes",
        count: nvm_bytes,
        says: FGM,
    },
    BYTE_DELTA,
    Compared {
        what: "journal bytes in whole lines, Fig. 9b",
        count: Figures::line_bytes,
        ..BYTE_DELTA
    },
    Compared {
        policy: "byte-delta, all in slots",
        against: "byte-delta, all in whole slots",
        what: "journal bytes, with appends logged as well",
        ..BYTE_DELTA
    },
    LCOW,
    Compared {
        what: "blocks written to the disk before the trace ended",
        count: |figures| figures.disk_meanwhile.blocks,
        ..LCOW
    },
];

/// What a paper says of one policy, in one figure.
struct Shown {
    paper: &'static str,
    policy: &'static str,
    what: &'static str,
    value: fn(&Figures) -> Value,
    says: &'static [Says],
}

/// A figure of ours.
struct Value {
    /// Percent, where it can be said so.
    percent: Option<f64>,
    /// Whether nothing was counted.
    is_nothing: bool,
    text: String,
}

/// Of the bytes of the disk that the log does not write and a block journal would, those that went
/// to persistent memory instead.
fn nvm_share(figures: &Figures) -> Value {
    let saved = figures.block_journal_blocks.saturating_sub(figures.log.blocks);
    part(nvm_bytes(figures), saved * figures.block_bytes)
}

const TWO_LEVEL: Shown = Shown {
    paper: "Two-level logging",
    policy: "two-level",
    what: "bytes that journaling writes to the disk, against a block journal there",
    value: |figures| change(figures.log.blocks, figures.block_journal_blocks),
    says: &[
        says("ext4-mobibench-datajournal", "-78 %", AtMost(-78.0)),
        says("ext4-varmail-datajournal", "-49 %, of filebench", AtMost(-49.0)),
    ],
};

const DELTA: Shown = Shown {
    paper: "Delta journaling",
    policy: "compressed-delta",
    says: &[says("ext4-tpcc-datajournal", "-58 %", AtMost(-58.0))],
    ..TWO_LEVEL
};

const SHOWN: &[Shown] = &[
    TWO_LEVEL,
    Shown {
        what: "bytes in NVM, as a share of those saved on the disk",
        value: nvm_share,
        says: &[
            says("ext4-mobibench-datajournal", "16 %", AtMost(16.0)),
            says("ext4-varmail-datajournal", "21 %, of filebench", AtMost(21.0)),
        ],
        ..TWO_LEVEL
    },
    DELTA,
    Shown {
        what: "mean delta, of a block",
        value: mean_delta,
        says: &[says("ext4-tpcc-datajournal", "3.7 %", AtMost(3.7))],
        ..DELTA
    },
    Shown {
        policy: "compressed-delta, moves",
        what: "mean delta, of a block",
        value: mean_delta,
        says: &[says("ext4-tpcc-datajournal", "3.7 %", AtMost(3.7))],
        ..DELTA
    },
];

fn mean_delta(figures: &Figures) -> Value {
    part(figures.forms.bytes, figures.placed.encoded * figures.block_bytes)
}

/// A part of a whole.
fn part(part: u64, whole: u64) -> Value {
    let percent = 100.0 * part as f64 / whole.max(1) as f64;
    Value { percent: Some(percent), is_nothing: part == 0, text: share(part, whole) }
}

/// Of a policy's figures, how far they are from another one's.
fn change(ours: u64, theirs: u64) -> Value {
    let percent = (theirs > 0).then(|| 100.0 * (ours as f64 / theirs as f64 - 1.0));
    let text = match percent {
        Some(percent) => format!("{percent:+.1} %"),
        None => format!("{ours} against 0"),
    };
    Value { percent, is_nothing: ours == 0, text }
}

impl Wants {
    /// Whether our figure bears the paper out, in a few words.
    fn verdict(self, value: &Value) -> String {
        let short = match (self, value.percent) {
            (Incomparable, _) => return "another workload".to_owned(),
            (Nothing, _) if value.is_nothing => return "as in the paper".to_owned(),
            (Nothing, _) => return "not reached".to_owned(),
            (AtMost(most), Some(percent)) => percent - most,
            (AtMost(_), None) => return "not compared".to_owned(),
        };
        // The papers round to a tenth.
        if short < 0.05 { "as in the paper".to_owned() } else { format!("{short:.1} points short") }
    }
}

/// The papers' figures beside ours, of the policies and traces that there are: a table for each.
pub fn papers(sections: &[Section]) -> String {
    let mut known: BTreeMap<(&str, &str), &Figures> = BTreeMap::new();
    for section in sections {
        for row in &section.rows {
            known.insert((&section.trace, row.known.name), &row.figures);
        }
    }
    let mut tables: Vec<(&str, Table)> = Vec::new();
    let mut add = |paper: &'static str, what: &str, says: &Says, value: &Value| {
        let row = [what, says.trace, says.text, &value.text, &says.wants.verdict(value)];
        let row = row.map(str::to_owned).to_vec();
        match tables.iter_mut().find(|(known, _)| *known == paper) {
            Some((_, table)) => table.push(row),
            None => {
                let headings = ["what", "workload", "the paper", "here", "verdict"];
                tables.push((paper, vec![headings.map(str::to_owned).to_vec(), row]));
            }
        }
    };
    for Compared { paper, policy, against, what, count, says } in COMPARED {
        let what = format!("{what}: {policy} against {against}");
        for one in *says {
            let pair = known.get(&(one.trace, policy)).zip(known.get(&(one.trace, against)));
            if let Some((ours, theirs)) = pair {
                add(paper, &what, one, &change(count(ours), count(theirs)));
            }
        }
    }
    for Shown { paper, policy, what, value, says } in SHOWN {
        for one in *says {
            if let Some(figures) = known.get(&(one.trace, policy)) {
                add(paper, &format!("{what}: {policy}"), one, &value(figures));
            }
        }
    }
    if tables.is_empty() {
        return "None of the policies that the papers propose was replayed.\n".to_owned();
    }
    let mut text = String::new();
    for (paper, table) in &tables {
        let lead = if text.is_empty() { "" } else { "\n" };
        writeln!(text, "{lead}### {paper}\n").expect("room in memory");
        text += &markdown(table, WORDS);
    }
    text
}
