//! What came out, as tables for a terminal, as Markdown and as JSON.
//!
//! Only counts that are the same on every machine: no times.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use crate::crash::CrashReport;
use crate::run::Figures;

/// What a policy did with a trace.
pub(crate) struct Row {
    pub(crate) policy: &'static str,
    pub(crate) figures: Figures,
    pub(crate) crashes: CrashReport,
}

/// A trace, and what each policy did with it.
pub(crate) struct Section {
    pub(crate) trace: String,
    pub(crate) rows: Vec<Row>,
}

/// A column: its heading, and what stands in it.
type Column = (&'static str, fn(&Figures) -> String);

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// What commits cost.
const COMMITS: &[Column] = &[
    ("NVM bytes", |figures| grouped(figures.commits.bytes)),
    ("payload", |figures| grouped(figures.placed.payload)),
    ("headers", |figures| grouped(figures.placed.headers)),
    ("padding", |figures| grouped(figures.placed.padding)),
    ("lines", |figures| grouped(figures.commits.lines)),
    ("fences", |figures| grouped(figures.commits.fences)),
    ("bound", |figures| grouped(figures.bound)),
    ("bytes / bound", |figures| {
        format!("{:.3}", figures.commits.bytes as f64 / figures.bound.max(1) as f64)
    }),
    ("holds", |figures| if figures.holds() { "yes" } else { "NO" }.to_owned()),
];

/// Where updates went.
const PLACES: &[Column] = &[
    ("image", |figures| share(figures.placed.images, figures.updates)),
    ("encoded", |figures| share(figures.placed.encoded, figures.updates)),
    ("unchanged", |figures| share(figures.unchanged(), figures.updates)),
];

/// What happened besides.
const UPKEEP: &[Column] = &[
    ("disk blocks", |figures| grouped(figures.disk.blocks)),
    ("in runs", |figures| grouped(figures.disk.runs)),
    ("syncs", |figures| grouped(figures.disk.syncs)),
    ("checkpoints", |figures| grouped(figures.checkpoints)),
    ("reclaims", |figures| grouped(figures.reclaims)),
    ("copied", |figures| grouped(figures.copied)),
    ("shielded blocks", |figures| grouped(figures.shielded)),
    ("upkeep bytes", |figures| grouped(figures.upkeep.bytes)),
    ("upkeep fences", |figures| grouped(figures.upkeep.fences)),
];

const TABLES: [&[Column]; 3] = [COMMITS, PLACES, UPKEEP];

fn cells(columns: &[Column], rows: &[Row]) -> Vec<Vec<String>> {
    let headings = columns.iter().map(|(heading, _)| (*heading).to_owned());
    let mut table = vec![core::iter::once("policy".to_owned()).chain(headings).collect()];
    for row in rows {
        let values = columns.iter().map(|(_, value)| value(&row.figures));
        table.push(core::iter::once(row.policy.to_owned()).chain(values).collect());
    }
    table
}

fn crash_cells(rows: &[Row]) -> Vec<Vec<String>> {
    let headings = [
        "policy",
        "crashes",
        "under way kept",
        "under way lost",
        "recoveries crashed",
        "went on",
        "before",
    ];
    let mut table = vec![headings.map(str::to_owned).to_vec()];
    for Row { policy, crashes, .. } in rows {
        let places = crashes.places.iter().map(|(place, count)| format!("{place} {count}"));
        let places = places.collect::<Vec<_>>().join(", ");
        let CrashReport { crashes, kept, lost, nested, went_on, .. } = crashes;
        let counts = [crashes, kept, lost, nested, went_on].map(u64::to_string);
        table.push([&[(*policy).to_owned()][..], &counts, &[places]].concat());
    }
    table
}

/// Columns under each other.
fn plain(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in table {
        text.push_str("  ");
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let written = match column {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
            written.expect("room in memory");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// How columns behind the first are set.
const NUMBERS: &str = "--:";
const WORDS: &str = "---";

fn markdown(table: &[Vec<String>], set: &str) -> String {
    let mut text = String::new();
    for (at, row) in table.iter().enumerate() {
        writeln!(text, "| {} |", row.join(" | ")).expect("room in memory");
        if at == 0 {
            let rule = vec![set; row.len() - 1].join(" | ");
            writeln!(text, "| {WORDS} | {rule} |").expect("room in memory");
        }
    }
    text
}

impl Section {
    fn heading(&self) -> String {
        let counts = self.rows.first().map(|row| (row.figures.transactions, row.figures.updates));
        let (transactions, updates) = counts.unwrap_or_default();
        let (transactions, updates) = (grouped(transactions), grouped(updates));
        format!("{transactions} transactions, {updates} blocks written")
    }

    fn has_crashes(&self) -> bool {
        self.rows.iter().any(|row| row.crashes.crashes > 0)
    }

    /// For a terminal.
    pub(crate) fn plain(&self) -> String {
        let mut text = format!("{}: {}\n", self.trace, self.heading());
        for columns in TABLES {
            text += &plain(&cells(columns, &self.rows));
        }
        if self.has_crashes() {
            text += &plain(&crash_cells(&self.rows));
        }
        text
    }

    fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}.\n", self.trace, self.heading());
        for columns in TABLES {
            text += "\n";
            text += &markdown(&cells(columns, &self.rows), NUMBERS);
        }
        if self.has_crashes() {
            text += "\n";
            text += &markdown(&crash_cells(&self.rows), NUMBERS);
        }
        text
    }

    /// One object.
    pub(crate) fn json(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(Row::json).collect();
        // Names of traces are the only text that is not ours.
        format!("{{\"trace\":{:?},\"policies\":[{}]}}", self.trace, rows.join(","))
    }
}

impl Row {
    fn json(&self) -> String {
        let Figures { transactions, records, updates, placed, commits, upkeep, .. } = self.figures;
        let Figures { disk, checkpoints, reclaims, copied, shielded, bound, .. } = self.figures;
        let numbers = [
            ("transactions", transactions),
            ("records", records),
            ("updates", updates),
            ("images", placed.images),
            ("encoded", placed.encoded),
            ("unchanged", self.figures.unchanged()),
            ("payload_bytes", placed.payload),
            ("header_bytes", placed.headers),
            ("padding_bytes", placed.padding),
            ("nvm_bytes", commits.bytes),
            ("nvm_lines", commits.lines),
            ("fences", commits.fences),
            ("bound_bytes", bound),
            ("allowed_bytes", self.figures.allowed()),
            ("upkeep_bytes", upkeep.bytes),
            ("upkeep_lines", upkeep.lines),
            ("upkeep_fences", upkeep.fences),
            ("disk_blocks", disk.blocks),
            ("disk_runs", disk.runs),
            ("disk_syncs", disk.syncs),
            ("checkpoints", checkpoints),
            ("reclaims", reclaims),
            ("copied_bytes", copied),
            ("shielded_blocks", shielded),
            ("crashes", self.crashes.crashes),
        ];
        let numbers = numbers.map(|(name, number)| format!("\"{name}\":{number}"));
        format!("{{\"policy\":\"{}\",{}}}", self.policy, numbers.join(","))
    }
}

/// A figure of a paper, and what it is set beside.
struct Said {
    paper: &'static str,
    trace: &'static str,
    /// The policy, and the one that it is compared with.
    policy: &'static str,
    against: &'static str,
    what: &'static str,
    says: &'static str,
    count: fn(&Figures) -> u64,
}

const fn nvm_bytes(figures: &Figures) -> u64 {
    figures.commits.bytes
}

const fn disk_blocks(figures: &Figures) -> u64 {
    figures.disk.blocks
}

const fn fgm(trace: &'static str, says: &'static str) -> Said {
    let (policy, against, what) = ("object-log", "full-block", "journal bytes");
    Said { paper: "FGM", trace, policy, against, what, says, count: nvm_bytes }
}

const fn njs(trace: &'static str, says: &'static str) -> Said {
    let (policy, against) = ("byte-delta", "byte-delta, whole slots");
    let what = "journal bytes, Fig. 9b";
    Said { paper: "NJS", trace, policy, against, what, says, count: nvm_bytes }
}

const fn hasfs(trace: &'static str) -> Said {
    let (policy, against, what) = ("lcow", "full-block", "blocks written to the disk");
    Said { paper: "HasFS", trace, policy, against, what, says: "less", count: disk_blocks }
}

/// What the papers say of workloads that there are traces of.
const SAID: &[Said] = &[
    fgm("ext4-varmail", "-92.6 / -99.3 / -91.0 %"),
    fgm("ext4-fileserver", "up to -90.4 %"),
    fgm("ext4-writefsync", "-93.7 %"),
    fgm("ext4-postmark", "about -90 %"),
    njs("ext4-postmark", "-41.7 %"),
    njs("ext4-fileserver", "-30.3 %"),
    njs("ext4-varmail-datajournal", "-45.4 %"),
    hasfs("ext4-varmail-datajournal"),
    hasfs("ext4-fileserver"),
];

/// The papers' figures beside ours, of the policies that there are.
fn papers(sections: &[Section]) -> String {
    let mut known: BTreeMap<(&str, &str), &Figures> = BTreeMap::new();
    for section in sections {
        for row in &section.rows {
            known.insert((&section.trace, row.policy), &row.figures);
        }
    }
    let headings = ["paper", "trace", "policy", "against", "what", "the paper says", "here"];
    let mut table = vec![headings.map(str::to_owned).to_vec()];
    for Said { paper, trace, policy, against, what, says, count } in SAID {
        let pair = known.get(&(trace, policy)).zip(known.get(&(trace, against)));
        let Some((ours, theirs)) = pair else { continue };
        let change = count(ours) as f64 / count(theirs).max(1) as f64 - 1.0;
        let here = format!("{:+.1} %", 100.0 * change);
        let row = [*paper, trace, policy, against, what, says, &here];
        table.push(row.map(str::to_owned).to_vec());
    }
    if table.len() == 1 {
        return "None of the policies that the papers propose is here yet.\n".to_owned();
    }
    markdown(&table, WORDS)
}

const PREFACE: &str = "\
What each policy makes of real sequences of block updates: SQLite's pages, and what ext4 (Linux
6.18) commits to its journal. One owner commits each transaction of a trace with one fence, into
one lane; the figures are counted from what goes out to the media, not measured, so that they are
the same on every machine. Nothing here is a time.

- *NVM bytes* are those of all records of commits: *payload* (images and encoded changes),
  *headers* (record, names, frames, checks) and *padding* to the ends of lines.
- The *bound* is what the policy's idea of a change comes to, computed from the old and the new
  images without asking the policy. It *holds* where the NVM bytes are at most a tenth above it,
  with 24 bytes a frame and 128 bytes a record besides.
- *image*, *encoded*, *unchanged*: the share of updates that was logged as a whole image, logged as
  something shorter, or not logged because the block holds that already.
- The lane is reclaimed, and written home, when it is three quarters full, or where the policy says
  otherwise, and written home at the end. The disk is one that may tear an overwrite.
- *upkeep* is everything else that is written to NVM: superblocks, copies within the lane, and
  images that shield a block while it is overwritten.
- Crashes are simulated: a few transactions of the trace in short lanes, a power loss somewhere in
  the last of them or behind it, and every block of the trace compared. The last column says before
  what the power went.
";

/// The document.
pub(crate) fn document(sections: &[Section], command: &str) -> String {
    let mut text = format!("# Results\n\nMade by\n\n```sh\n{command}\n```\n\n{PREFACE}\n");
    text += "## Beside the papers\n\n";
    text += &papers(sections);
    for section in sections {
        text += "\n";
        text += &section.markdown();
    }
    text
}
