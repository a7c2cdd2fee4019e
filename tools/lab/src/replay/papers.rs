//! What the papers say of workloads that there are traces of, beside what came out here.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use crate::replay::run::Figures;
use crate::replay::table::{Section, WORDS, markdown, share};

/// What a paper compares: a policy with another one, in one figure.
struct Compared {
    paper: &'static str,
    policy: &'static str,
    against: &'static str,
    what: &'static str,
    count: fn(&Figures) -> u64,
    /// What it says, by the trace that comes closest.
    says: &'static [(&'static str, &'static str)],
}

const FGM: &[(&str, &str)] = &[
    ("ext4-varmail", "-92.6 / -99.3 / -91.0 %"),
    ("ext4-fileserver", "up to -90.4 %"),
    ("ext4-writefsync", "-93.7 %"),
    ("ext4-postmark", "about -90 %"),
];

const NJS: &[(&str, &str)] = &[
    ("ext4-postmark", "-41.7 %"),
    ("ext4-fileserver", "-30.3 %"),
    ("ext4-varmail", "-45.4 %"),
    ("ext4-varmail-datajournal", "-45.4 %"),
];

const HASFS: &[(&str, &str)] = &[
    ("ext4-varmail-datajournal", "no data at a checkpoint"),
    ("ext4-iozone-datajournal", "no data at a checkpoint"),
    ("sqlite-tpcc", "no data at a checkpoint"),
    ("ext4-fileserver", "metadata alone"),
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
    what: "blocks written to the disk",
    count: |figures| figures.disk.blocks,
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
        count: |figures| figures.disk.blocks - figures.disk_at_end,
        ..LCOW
    },
];

/// What a paper says of one policy, in one figure.
struct Shown {
    paper: &'static str,
    policy: &'static str,
    what: &'static str,
    value: fn(&Figures) -> String,
    says: &'static [(&'static str, &'static str)],
}

/// Of the bytes of the disk that the log does not write and a block journal would, those that went
/// to persistent memory instead.
fn nvm_share(figures: &Figures) -> String {
    let saved = figures.block_journal_blocks.saturating_sub(figures.log.blocks);
    share(nvm_bytes(figures), saved * figures.block_bytes)
}

const TWO_LEVEL: Shown = Shown {
    paper: "Two-level logging",
    policy: "two-level",
    what: "bytes that journaling writes to the disk, against a block journal there",
    value: |figures| change(figures.log.blocks, figures.block_journal_blocks),
    says: &[
        ("ext4-mobibench-datajournal", "-78 %"),
        ("ext4-varmail-datajournal", "-49 %, of filebench"),
    ],
};

const DELTA: Shown = Shown {
    paper: "Delta journaling",
    policy: "compressed-delta",
    says: &[("ext4-tpcc-datajournal", "-58 %")],
    ..TWO_LEVEL
};

const SHOWN: &[Shown] = &[
    TWO_LEVEL,
    Shown {
        what: "bytes in NVM, as a share of those saved on the disk",
        value: nvm_share,
        says: &[
            ("ext4-mobibench-datajournal", "16 %"),
            ("ext4-varmail-datajournal", "21 %, of filebench"),
        ],
        ..TWO_LEVEL
    },
    DELTA,
    Shown {
        what: "updates that change less than a tenth of the block",
        value: |figures| share(figures.differences.below_a_tenth, figures.differences.count),
        says: &[("ext4-tpcc-datajournal", "> 70 %")],
        ..DELTA
    },
    Shown {
        what: "mean delta, of a block",
        value: mean_delta,
        says: &[("ext4-tpcc-datajournal", "3.7 %")],
        ..DELTA
    },
    Shown {
        policy: "compressed-delta, moves",
        what: "mean delta, of a block",
        value: mean_delta,
        says: &[("ext4-tpcc-datajournal", "3.7 %")],
        ..DELTA
    },
];

fn mean_delta(figures: &Figures) -> String {
    share(figures.forms.bytes, figures.placed.encoded * figures.block_bytes)
}

/// Of a policy's figures, how far they are from another one's.
fn change(ours: u64, theirs: u64) -> String {
    if theirs == 0 {
        return format!("{ours} against 0");
    }
    format!("{:+.1} %", 100.0 * (ours as f64 / theirs as f64 - 1.0))
}

/// The papers' figures beside ours, of the policies and traces that there are.
pub fn papers(sections: &[Section]) -> String {
    let mut known: BTreeMap<(&str, &str), &Figures> = BTreeMap::new();
    for section in sections {
        for row in &section.rows {
            known.insert((&section.trace, row.known.name), &row.figures);
        }
    }
    let mut text = String::new();
    for Compared { paper, policy, against, what, count, says } in COMPARED {
        let headings = ["trace", "the paper says", "here"];
        let mut table = vec![headings.map(str::to_owned).to_vec()];
        for (trace, says) in *says {
            let pair = known.get(&(trace, policy)).zip(known.get(&(trace, against)));
            let Some((ours, theirs)) = pair else { continue };
            let row = [*trace, says, &change(count(ours), count(theirs))];
            table.push(row.map(str::to_owned).to_vec());
        }
        if table.len() > 1 {
            let lead = if text.is_empty() { "" } else { "\n" };
            writeln!(text, "{lead}{paper}: {what}.\n*{policy}* against *{against}*.\n")
                .expect("room in memory");
            text += &markdown(&table, WORDS);
        }
    }
    for Shown { paper, policy, what, value, says } in SHOWN {
        let headings = ["trace", "the paper says", "here"];
        let mut table = vec![headings.map(str::to_owned).to_vec()];
        for (trace, says) in *says {
            let Some(figures) = known.get(&(trace, policy)) else { continue };
            table.push([*trace, says, &value(figures)].map(str::to_owned).to_vec());
        }
        if table.len() > 1 {
            let lead = if text.is_empty() { "" } else { "\n" };
            writeln!(text, "{lead}{paper}: {what}.\n*{policy}*.\n").expect("room in memory");
            text += &markdown(&table, WORDS);
        }
    }
    if text.is_empty() {
        return "None of the policies that the papers propose was replayed.\n".to_owned();
    }
    text
}
