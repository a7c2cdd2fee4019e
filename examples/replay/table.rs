//! What came out, as tables for a terminal, as Markdown and as JSON.
//!
//! Only counts that are the same on every machine: no times.

use core::fmt::Write as _;
use std::collections::BTreeSet;

use crate::count::Account;
use crate::crash::CrashReport;
use crate::deltas::Overwrites;
use crate::papers::papers;
use crate::policies::{Known, Role};
use crate::run::{Figures, Made, Room};
use crate::times::{MEMORIES, Memory, keeps_up, least_of_fixed};

use adaptive::Form;

/// What a policy did with a trace.
pub(crate) struct Row {
    pub(crate) known: &'static Known,
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

/// Rows of cells, the headings first.
pub(crate) type Table = Vec<Vec<String>>;

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

pub(crate) fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// What commits cost.
const COMMITS: &[Column] = &[
    ("NVM bytes", |figures| grouped(figures.nvm.commits().bytes)),
    ("bound", |figures| grouped(figures.bound.bytes)),
    ("bytes / bound", |figures| ratio(figures.nvm.commits().bytes, figures.bound.bytes)),
    ("holds", |figures| yes(figures.holds())),
    ("lines", |figures| grouped(figures.nvm.commits().lines)),
    ("bound in lines", |figures| grouped(figures.bound.lines)),
    ("lines / bound", |figures| ratio(figures.nvm.commits().lines, figures.bound.lines)),
    ("holds in lines", |figures| yes(figures.holds_in_lines())),
    ("fences", |figures| grouped(figures.nvm.commits().fences)),
];

/// What that consists of.
const PARTS: &[Column] = &[
    ("payload", |figures| grouped(figures.placed.payload)),
    ("headers", |figures| grouped(figures.placed.headers)),
    ("padding", |figures| grouped(figures.placed.padding)),
    ("slot bytes", |figures| grouped(figures.nvm.slots.bytes)),
    ("slot lines", |figures| grouped(figures.nvm.slots.lines)),
    ("slots whole", |figures| grouped(figures.nvm.whole_slots)),
    ("slots rewritten", |figures| grouped(figures.rewritten())),
];

/// Where updates went.
const PLACES: &[Column] = &[
    ("image", |figures| share(figures.placed.images, figures.updates)),
    ("encoded", |figures| share(figures.placed.encoded, figures.updates)),
    ("slot", |figures| share(figures.placed.slots, figures.updates)),
    ("home", |figures| share(figures.placed.home, figures.updates)),
    ("log", |figures| share(figures.placed.logged, figures.updates)),
    ("unchanged", |figures| share(figures.unchanged(), figures.updates)),
];

/// What went to the disk.
const DISK: &[Column] = &[
    ("disk blocks", |figures| grouped(figures.disk.blocks)),
    ("at the end", |figures| grouped(figures.disk_at_end)),
    ("appended", |figures| grouped(figures.placed.home)),
    ("in runs", |figures| grouped(figures.disk.runs)),
    ("syncs", |figures| grouped(figures.disk.syncs)),
    ("shielded", |figures| grouped(figures.made.shielded)),
];

/// What of that went to its log.
const LOG: &[Column] = &[
    ("log blocks", |figures| grouped(figures.log.blocks)),
    ("bound", |figures| grouped(figures.bound.log_blocks)),
    ("in runs", |figures| grouped(figures.log.runs)),
    ("syncs", |figures| grouped(figures.log.syncs)),
    ("cleanings", |figures| grouped(figures.made.cleanings)),
    ("block journal", |figures| grouped(figures.block_journal_blocks)),
    ("log / that", |figures| ratio(figures.log.blocks, figures.block_journal_blocks)),
];

/// In which forms deltas were logged.
const FORMS: &[Column] = &[
    ("runs", |figures| grouped(figures.forms.of(Form::Runs))),
    ("words", |figures| grouped(figures.forms.of(Form::Words))),
    ("sub-blocks", |figures| grouped(figures.forms.of(Form::SubBlocks))),
    ("XOR", |figures| grouped(figures.forms.of(Form::Xor))),
    ("complement", |figures| grouped(figures.forms.of(Form::Complement))),
    ("moves", |figures| grouped(figures.forms.of(Form::Moves))),
    ("mean bytes", |figures| mean(figures.forms.bytes, figures.placed.encoded)),
];

/// What coders make of an update, and the policy that takes the fewest bytes.
const CODERS: &[Column] = &[
    ("updates", |figures| grouped(figures.overwrites.count)),
    ("byte runs", |figures| mean_of(figures, |of| of.runs)),
    ("XOR + LZO", |figures| mean_of(figures, |of| of.xor)),
    ("moves", |figures| mean_of(figures, |of| of.moves)),
    ("smallest", |figures| mean_of(figures, |of| of.smallest)),
    ("logged", |figures| mean_of(figures, |of| of.logged)),
    ("logged / smallest", |figures| ratio(figures.overwrites.logged, figures.overwrites.smallest)),
    ("XOR + LZO / logged", |figures| ratio(figures.overwrites.xor, figures.overwrites.logged)),
];

/// How room was made.
const ROOM: &[Column] = &[
    ("reclaims", |figures| grouped(figures.made.reclaims)),
    ("folds", |figures| grouped(figures.made.folds)),
    ("collections", |figures| grouped(figures.made.collections)),
    ("ring checkpoints", |figures| grouped(figures.made.ring_checkpoints)),
    ("evictions", |figures| grouped(figures.made.evictions)),
    ("checkpoints", |figures| grouped(figures.made.checkpoints)),
];

/// What was written besides.
const UPKEEP: &[Column] = &[
    ("copied", |figures| grouped(figures.made.copied)),
    ("entry bytes", |figures| grouped(figures.nvm.entries.bytes)),
    ("void bytes", |figures| grouped(figures.nvm.voids.bytes)),
    ("upkeep bytes", |figures| grouped(figures.nvm.upkeep.bytes)),
    ("upkeep fences", |figures| {
        let Account { entries, voids, upkeep, .. } = figures.nvm;
        grouped(entries.fences + voids.fences + upkeep.fences)
    }),
];

/// A table, and which rows are in it.
type Part = (&'static [Column], fn(&Known) -> bool);

const TABLES: [Part; 9] = [
    (COMMITS, |_| true),
    (PARTS, |_| true),
    (PLACES, |_| true),
    (FORMS, |known| known.coding.says_forms()),
    (CODERS, |known| known.role == Role::LeastBytes),
    (DISK, |_| true),
    (LOG, Known::has_log),
    (ROOM, |_| true),
    (UPKEEP, |_| true),
];

fn mean(sum: u64, count: u64) -> String {
    format!("{:.1}", sum as f64 / count.max(1) as f64)
}

fn mean_of(figures: &Figures, bytes: fn(&Overwrites) -> u64) -> String {
    mean(bytes(&figures.overwrites), figures.overwrites.count)
}

fn ratio(part: u64, whole: u64) -> String {
    format!("{:.3}", part as f64 / whole.max(1) as f64)
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "NO" }.to_owned()
}

fn cells((columns, is_in): Part, rows: &[Row]) -> Table {
    let headings = columns.iter().map(|(heading, _)| (*heading).to_owned());
    let mut table = vec![core::iter::once("policy".to_owned()).chain(headings).collect()];
    for row in rows.iter().filter(|row| is_in(row.known)) {
        let values = columns.iter().map(|(_, value)| value(&row.figures));
        table.push(core::iter::once(row.known.name.to_owned()).chain(values).collect());
    }
    table
}

/// What the model gives all of it, how that is to the best of the fixed policies, and what of it is
/// not the disk's.
fn time_cells(section: &Section) -> Table {
    let microseconds = |nanoseconds: u64| grouped(nanoseconds.div_ceil(1000));
    let mut headings = vec!["policy".to_owned()];
    for memory in &MEMORIES {
        let name = memory.medium.name;
        headings.extend([format!("{name} us"), "/ best".to_owned()]);
        headings.push(format!("{name} alone us"));
    }
    headings.push("keeps up".to_owned());
    let mut table = vec![headings];
    for row in &section.rows {
        let mut cells = vec![row.known.name.to_owned()];
        for memory in &MEMORIES {
            let ours = row.figures.time_ns(memory);
            let least = section.least(|figures| figures.time_ns(memory));
            let to_least = least.map_or("-".to_owned(), |least| ratio(ours, least));
            cells.extend([microseconds(ours), to_least]);
            cells.push(microseconds(row.figures.memory_ns(memory)));
        }
        cells.push(match row.known.role {
            Role::LeastTime(_) => yes(section.keeps_up(row)),
            _ => "-".to_owned(),
        });
        table.push(cells);
    }
    table
}

fn crash_cells(rows: &[Row]) -> [Table; 2] {
    let headings = ["policy", "crashes", "kept", "lost", "recoveries crashed", "went on"];
    let mut table = vec![headings.map(str::to_owned).to_vec()];
    let places = rows.iter().flat_map(|row| row.crashes.places.keys().copied());
    let places: BTreeSet<&str> = places.collect();
    let headings = places.iter().map(|place| (*place).to_owned());
    let mut before =
        vec![core::iter::once("before".to_owned()).chain(headings).collect::<Vec<_>>()];
    for Row { known, crashes, .. } in rows {
        let policy = known.name;
        let count = |place: &&str| crashes.places.get(place).copied().unwrap_or(0).to_string();
        let counts = places.iter().map(count);
        before.push(core::iter::once(policy.to_owned()).chain(counts).collect());
        let CrashReport { crashes, kept, lost, nested, went_on, .. } = crashes;
        let counts = [crashes, kept, lost, nested, went_on].map(u64::to_string);
        table.push([&[policy.to_owned()][..], &counts].concat());
    }
    [table, before]
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
pub(crate) const NUMBERS: &str = "--:";
pub(crate) const WORDS: &str = "---";

/// How long a line of a document may be.
const COLUMNS_MAX: usize = 100;

/// Tables with some of the columns each, and the first, so narrow that lines stay short.
fn narrow(table: &[Vec<String>]) -> Vec<Table> {
    let width = |rows: &Table| rows.iter().map(|row| row.join(" | ").len() + 4).max().unwrap_or(0);
    let columns = table.first().map_or(0, Vec::len);
    let first: Table = table.iter().map(|row| row[..1].to_vec()).collect();
    let (mut tables, mut next) = (Vec::new(), first.clone());
    for column in 1..columns {
        let with = |part: &Table| -> Table {
            let cells = part.iter().zip(table);
            cells.map(|(part, row)| [&part[..], &row[column..=column]].concat()).collect()
        };
        let wider = with(&next);
        if width(&wider) <= COLUMNS_MAX {
            next = wider;
        } else {
            tables.push(core::mem::replace(&mut next, with(&first)));
        }
    }
    tables.push(next);
    tables
}

pub(crate) fn markdown(table: &[Vec<String>], set: &str) -> String {
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

    /// The least of what the fixed policies take.
    fn least(&self, time: impl Fn(&Figures) -> u64) -> Option<u64> {
        least_of_fixed(self.rows.iter().map(|row| (row.known, &row.figures)), time)
    }

    fn keeps_up(&self, row: &Row) -> bool {
        let least = |memory: &Memory| self.least(|figures| figures.time_ns(memory));
        keeps_up(row.known, &row.figures, least)
    }

    /// Whether all is as it should be.
    pub(crate) fn holds(&self) -> bool {
        self.rows.iter().all(|row| row.figures.holds() && self.keeps_up(row))
    }

    /// All tables about costs that have somebody in them.
    fn tables(&self) -> Vec<Table> {
        let tables = TABLES.iter().map(|part| cells(*part, &self.rows));
        let tables = tables.chain([time_cells(self)]);
        tables.filter(|table| table.len() > 1).collect()
    }

    fn has_crashes(&self) -> bool {
        self.rows.iter().any(|row| row.crashes.crashes > 0)
    }

    /// For a terminal.
    pub(crate) fn plain(&self) -> String {
        let mut text = format!("{}: {}\n", self.trace, self.heading());
        for table in self.tables() {
            text += &plain(&table);
        }
        if self.has_crashes() {
            for table in crash_cells(&self.rows) {
                text += &plain(&table);
            }
        }
        text
    }

    fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}.\n", self.trace, self.heading());
        let mut tables = self.tables();
        if self.has_crashes() {
            tables.extend(crash_cells(&self.rows));
        }
        for table in tables.iter().flat_map(|table| narrow(table)) {
            text += "\n";
            text += &markdown(&table, NUMBERS);
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
        let Figures { transactions, records, updates, placed, nvm, .. } = self.figures;
        let Figures { disk, log, disk_at_end, made, bound, .. } = self.figures;
        let Figures { overwrites, .. } = self.figures;
        let Made { checkpoints, ring_checkpoints, evictions, folds, .. } = made;
        let Made { collections, cleanings, reclaims, copied, shielded, .. } = made;
        let numbers = [
            ("transactions", transactions),
            ("records", records),
            ("updates", updates),
            ("images", placed.images),
            ("encoded", placed.encoded),
            ("slots", placed.slots),
            ("home", placed.home),
            ("logged", placed.logged),
            ("unchanged", self.figures.unchanged()),
            ("payload_bytes", placed.payload),
            ("header_bytes", placed.headers),
            ("padding_bytes", placed.padding),
            ("record_bytes", nvm.records.bytes),
            ("slot_bytes", nvm.slots.bytes),
            ("slot_lines", nvm.slots.lines),
            ("slots_whole", nvm.whole_slots),
            ("slots_rewritten", self.figures.rewritten()),
            ("nvm_bytes", nvm.commits().bytes),
            ("nvm_lines", nvm.commits().lines),
            ("fences", nvm.commits().fences),
            ("bound_bytes", bound.bytes),
            ("bound_lines", bound.lines),
            ("bound_log_blocks", bound.log_blocks),
            ("allowed_bytes", self.figures.allowed()),
            ("entry_bytes", nvm.entries.bytes),
            ("entry_lines", nvm.entries.lines),
            ("entry_fences", nvm.entries.fences),
            ("void_bytes", nvm.voids.bytes),
            ("void_lines", nvm.voids.lines),
            ("void_fences", nvm.voids.fences),
            ("upkeep_bytes", nvm.upkeep.bytes),
            ("upkeep_lines", nvm.upkeep.lines),
            ("upkeep_fences", nvm.upkeep.fences),
            ("disk_blocks", disk.blocks),
            ("disk_blocks_at_end", disk_at_end),
            ("disk_runs", disk.runs),
            ("disk_syncs", disk.syncs),
            ("log_blocks", log.blocks),
            ("log_runs", log.runs),
            ("log_syncs", log.syncs),
            ("block_journal_blocks", self.figures.block_journal_blocks),
            ("delta_bytes", self.figures.forms.bytes),
            ("overwrites", overwrites.count),
            ("overwrites_run_bytes", overwrites.runs),
            ("overwrites_xor_bytes", overwrites.xor),
            ("overwrites_moves_bytes", overwrites.moves),
            ("overwrites_smallest_bytes", overwrites.smallest),
            ("overwrites_logged_bytes", overwrites.logged),
            ("coding_ns", self.figures.coding_ns),
            ("dram_ns", self.figures.time_ns(&MEMORIES[0])),
            ("pcm_ns", self.figures.time_ns(&MEMORIES[1])),
            ("checkpoints", checkpoints),
            ("ring_checkpoints", ring_checkpoints),
            ("evictions", evictions),
            ("folds", folds),
            ("collections", collections),
            ("cleanings", cleanings),
            ("reclaims", reclaims),
            ("copied_bytes", copied),
            ("shielded_blocks", shielded),
            ("crashes", self.crashes.crashes),
        ];
        let numbers = numbers.map(|(name, number)| format!("\"{name}\":{number}"));
        format!("{{\"policy\":\"{}\",{}}}", self.known.name, numbers.join(","))
    }
}

const PREFACE: &str = "\
What each policy makes of real sequences of block updates: SQLite's pages, and what ext4 (Linux
6.18) commits to its journal. One owner commits each transaction of a trace with one fence, into
one lane; the figures are counted from what goes out to the media, not measured, so that they are
the same on every machine. Nothing here is a time.

- *NVM bytes* are what commits write: records and slots. A record consists of *payload* (images and
  encoded changes), *headers* (record, names, frames, checks) and *padding* to the ends of lines.
  *Slot bytes* are versions in slots: *whole* ones, and what was *rewritten* of older ones.
- The *bound* is what the policy's idea of a change comes to, computed from the images of the trace
  without asking the policy. It *holds* where the NVM bytes are at most a tenth above it, with 24
  bytes a frame and 128 bytes a record besides. Memory is written in *lines* of 64 bytes: whether
  64 bytes for each line that is flushed are within that too is said, and not asked for. *Bound in
  lines* are those of them that cannot be left out.
- The bound of byte-delta is, for a block of which two versions lie in NVM, the 8-byte words that
  differ from the one before the newest; the block otherwise; nothing for what goes home.
- The bound of two-level is, for a block, 4 bytes and 128 for each sub-block that changes; for data
  of which more than half of them do, nothing but a block of the log. That of compressed-delta is
  the smallest of byte runs, bitmap with words, and compressed XOR, where less than a quarter of the
  bits differ or more than three; a block of the log otherwise. That of *adaptive, wear* is the
  smallest of byte runs, compressed XOR, and copies from the old image (*moves*). How short a
  compressed XOR or a delta of moves can be, the coders say, called with the images alone. No
  policy may write more blocks to the log than its bound has.
- *image*, *encoded*, *slot*, *home*, *log*, *unchanged*: the share of updates that was logged as a
  whole image, as something shorter, as a version in a slot, as an append that was synced at home
  before the record, as a block of the disk-side log; or not logged because the block holds that
  already.
- *runs* to *moves* count the forms of deltas, and *mean bytes* are theirs without the 9 bytes that
  say which images they lead between.
- *updates* in front of *byte runs* are those that change something, appends left out; behind it
  stands, for each coder, the mean of what it makes of them, headers apart and at most the block,
  and what was *logged*.
- *byte-delta* sends appends home, *all in slots* logs them as well (the paper's all-journal).
  *Whole slots* are the same without the idea: each version is written whole.
- A policy makes room when so much of its lane or of its slots is in use as it says, three quarters
  where it says nothing, and everything goes home when the trace has ended. Without slots a lane is
  *reclaimed* by copying, and written home when that is not enough. With slots, rings are *folded*,
  older versions *collected* when that is not enough, and then everything goes home in a
  *checkpoint*. lcow writes home only what rings hold, and *evicts* from slots by batches.
- Where a policy has the disk-side log, folding and collecting come first too; then segments of the
  log are *cleaned*, if it is the log that is short, and then what the ring would have to keep goes
  home in a *ring checkpoint*. *block journal* is what one on the disk would write: the images, a
  descriptor for each 254 of them and a commit for each transaction. What goes home is not in it.
- The disk is one that may tear an overwrite. *At the end* says how much of what went to the disk
  did so when the trace had ended; *appended* what did before its record.
- *upkeep* is everything else that is written to NVM: superblocks, copies within the lane, and
  images that shield a block while it is overwritten; *entries* of slots, written and *voided*,
  stand beside it. Fences are those of all three.
- *us* are no measurement either, but one figure for all the counts: what they take on a medium and
  a disk that the model says (`examples/replay/times.rs`). A line takes 3 ns and a fence 165 ns
  where persistent memory is as fast as DRAM, which was measured; 100 ns and 500 ns on PCM, which is
  chosen. So is the disk: 20 us for a write, 2 us for each block of it, 100 us for a sync. Coding
  takes what the adaptive policy's model says. *alone* is without the disk. *best* is the best of
  the policies that are fixed, those in whole slots left out. *Keeps up* says whether the adaptive
  policy for that medium takes at most 5 % longer than it.
- Crashes are simulated: a few transactions of the trace in short lanes with few slots, a power loss
  somewhere in the last of them or behind it, and every block of the trace compared. *Kept* and
  *lost* is the transaction that was under way. The last table says *before* what the power went.
";

/// The document.
pub(crate) fn document(sections: &[Section], command: &str, room: &Room) -> String {
    let mut text = format!("# Results\n\nMade by\n\n```sh\n{command}\n```\n\n{PREFACE}");
    let Room { lane_bytes, slot_share, log_blocks, segment_blocks } = *room;
    let lane_bytes = grouped(lane_bytes);
    writeln!(text, "- The lane has {lane_bytes} bytes. Where a policy needs slots, they and their")
        .expect("room in memory");
    writeln!(text, "  entries are {slot_share}/256 of that, and the ring the rest. The disk-side")
        .expect("room in memory");
    writeln!(text, "  log has {log_blocks} blocks in segments of {segment_blocks}, of which the")
        .expect("room in memory");
    writeln!(text, "  lane has the entries.\n").expect("room in memory");
    text += "## Beside the papers\n\n";
    text += &papers(sections);
    for section in sections {
        text += "\n";
        text += &section.markdown();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_split_where_lines_would_be_long() {
        let row = |cell: &str| {
            let cells = (0..8).map(|at| format!("{cell}{at}"));
            core::iter::once("name".to_owned()).chain(cells).collect::<Vec<_>>()
        };
        let table = vec![row("heading"), row("a cell of twenty cha")];
        let tables = narrow(&table);
        assert_eq!(tables.iter().map(|table| table[0].len()).collect::<Vec<_>>(), [4, 4, 3]);
        for table in &tables {
            assert!(markdown(table, NUMBERS).lines().all(|line| line.len() <= COLUMNS_MAX));
            assert_eq!(table[1][0], "name");
        }
        assert_eq!(tables[1][0][1], "heading3");
    }
}
