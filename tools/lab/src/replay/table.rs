//! What came out, as tables for a terminal, as Markdown and as JSON.
//!
//! Only counts that are the same on every machine: no times.

use core::fmt::Write as _;
use std::collections::BTreeSet;

use crate::bounds::deltas::Overwrites;
use crate::replay::count::Account;
use crate::replay::crash::CrashReport;
use crate::replay::policies::{Known, Role};
use crate::replay::run::{Figures, Made};
use crate::replay::times::{MEMORIES, Memory, keeps_up, least_of_fixed};

use adaptive::Form;
use serde_json::{Value, json};

/// What a policy did with a trace.
pub struct Row {
    pub known: &'static Known,
    pub figures: Figures,
    pub crashes: CrashReport,
}

/// A trace, and what each policy did with it.
pub struct Section {
    pub trace: String,
    pub rows: Vec<Row>,
}

/// A column: its heading, and what stands in it.
type Column = (&'static str, fn(&Figures) -> String);

/// Rows of cells, the headings first.
pub type Table = Vec<Vec<String>>;

pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

pub fn share(part: u64, whole: u64) -> String {
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
    ("meanwhile", |figures| grouped(figures.disk_meanwhile.blocks)),
    ("in runs", |figures| grouped(figures.disk_meanwhile.runs)),
    ("with rings", |figures| grouped(figures.disk_with_rings.blocks)),
    ("in runs", |figures| grouped(figures.disk_with_rings.runs)),
    ("all home", |figures| grouped(figures.disk.blocks)),
    ("in runs", |figures| grouped(figures.disk.runs)),
    ("syncs", |figures| grouped(figures.disk.syncs)),
    ("appended", |figures| grouped(figures.placed.home)),
    ("shielded", |figures| grouped(figures.made.shielded)),
];

/// What of that went to its log.
const LOG: &[Column] = &[
    ("log blocks", |figures| grouped(figures.log.blocks)),
    ("bound", |figures| grouped(figures.bound.log_blocks)),
    ("in runs", |figures| grouped(figures.log.runs)),
    ("syncs", |figures| grouped(figures.log.syncs)),
    ("moved there", |figures| grouped(figures.moved.blocks)),
    ("in runs", |figures| grouped(figures.moved.runs)),
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
    ("stops", |figures| grouped(figures.made.stops)),
    ("checkpoints", |figures| grouped(figures.made.checkpoints)),
    ("batches", |figures| grouped(figures.made.batches)),
    ("frames folded", |figures| grouped(figures.made.folded)),
    ("slots freed", |figures| grouped(figures.made.freed_slots)),
    ("by checkpoints", |figures| grouped(figures.made.homed_slots)),
    ("moved", |figures| grouped(figures.made.moved)),
    ("copied", |figures| grouped(figures.made.copied)),
];

/// What was written besides.
const UPKEEP: &[Column] = &[
    ("copied bytes", |figures| grouped(figures.nvm.moves.bytes)),
    ("entry bytes", |figures| grouped(figures.nvm.entries.bytes)),
    ("void bytes", |figures| grouped(figures.nvm.voids.bytes)),
    ("upkeep bytes", |figures| grouped(figures.nvm.upkeep.bytes)),
    ("upkeep fences", |figures| {
        let Account { entries, voids, moves, upkeep, .. } = figures.nvm;
        grouped(entries.fences + voids.fences + moves.fences + upkeep.fences)
    }),
];

/// How often the memory was stored to, and how unevenly.
const WEAR: &[Column] = &[
    ("ring lines", |figures| lines(&figures.wear.ring)),
    ("most", |figures| most(&figures.wear.ring)),
    ("slot lines", |figures| lines(&figures.wear.slots)),
    ("most", |figures| most(&figures.wear.slots)),
    ("entry lines", |figures| lines(&figures.wear.entries)),
    ("most", |figures| most(&figures.wear.entries)),
    ("shield lines", |figures| lines(&figures.wear.shield)),
    ("most", |figures| most(&figures.wear.shield)),
];

fn lines(parts: &[u64; 16]) -> String {
    grouped(parts.iter().sum())
}

/// The share of the part that has most.
fn most(parts: &[u64; 16]) -> String {
    share(parts.iter().copied().max().unwrap_or(0), parts.iter().sum())
}

/// A table, and which rows are in it.
type TableOf = (&'static [Column], fn(&Known) -> bool);

const TABLES: [TableOf; 10] = [
    (COMMITS, |_| true),
    (PARTS, |_| true),
    (PLACES, |_| true),
    (FORMS, |known| known.coding.says_forms()),
    (CODERS, |known| known.role == Role::LeastBytes),
    (DISK, |_| true),
    (LOG, Known::has_log),
    (ROOM, |_| true),
    (UPKEEP, |_| true),
    (WEAR, |_| true),
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

fn cells((columns, is_in): TableOf, rows: &[Row]) -> Table {
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
pub const NUMBERS: &str = "--:";
pub const WORDS: &str = "---";

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

pub fn markdown(table: &[Vec<String>], set: &str) -> String {
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

    /// What a policy takes on memory as fast as DRAM, as a multiple of the best fixed policy.
    pub fn to_best_on_dram(&self, row: &Row) -> Option<f64> {
        let time = |figures: &Figures| figures.time_ns(&MEMORIES[0]);
        self.least(time).map(|least| time(&row.figures) as f64 / least.max(1) as f64)
    }

    fn keeps_up(&self, row: &Row) -> bool {
        let least = |memory: &Memory| self.least(|figures| figures.time_ns(memory));
        keeps_up(row.known, &row.figures, least)
    }

    /// Whether all is as it should be.
    pub fn holds(&self) -> bool {
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
    pub fn plain(&self) -> String {
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

    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}.\n", self.trace, self.heading());
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
    pub fn json(&self) -> Value {
        json!({
            "trace": self.trace,
            "policies": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        })
    }
}

impl Row {
    fn json(&self) -> Value {
        let Figures { transactions, records, updates, placed, nvm, .. } = self.figures;
        let Figures { disk, disk_meanwhile, disk_with_rings, log, moved, .. } = self.figures;
        let Figures { made, wear, bound, overwrites, .. } = self.figures;
        let Made { checkpoints, batches, folded, freed_slots, homed_slots, .. } = made;
        let Made { copied, shielded, stops, .. } = made;
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
            ("disk_blocks_meanwhile", disk_meanwhile.blocks),
            ("disk_runs_meanwhile", disk_meanwhile.runs),
            ("disk_blocks_with_rings", disk_with_rings.blocks),
            ("disk_runs_with_rings", disk_with_rings.runs),
            ("disk_runs", disk.runs),
            ("disk_syncs", disk.syncs),
            ("log_blocks", log.blocks),
            ("log_runs", log.runs),
            ("log_syncs", log.syncs),
            ("moved_blocks", moved.blocks),
            ("moved_runs", moved.runs),
            ("moved_bytes", nvm.moves.bytes),
            ("moved_lines", nvm.moves.lines),
            ("moved_fences", nvm.moves.fences),
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
            ("batches", batches),
            ("frames_folded", folded),
            ("slots_freed", freed_slots),
            ("slots_homed", homed_slots),
            ("copied_blocks", copied),
            ("stops", stops),
            ("shielded_blocks", shielded),
            ("ring_lines", wear.ring.iter().sum()),
            ("slot_wear_lines", wear.slots.iter().sum()),
            ("entry_wear_lines", wear.entries.iter().sum()),
            ("shield_lines", wear.shield.iter().sum()),
            ("crashes", self.crashes.crashes),
        ];
        let numbers = numbers.map(|(name, number)| (name.to_owned(), number.into()));
        let policy = ("policy".to_owned(), self.known.name.into());
        Value::Object(core::iter::once(policy).chain(numbers).collect())
    }
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
