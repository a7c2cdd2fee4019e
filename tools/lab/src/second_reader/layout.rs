//! The tables of FORMAT.md, read from the document itself: what it says is what the reader uses.

use core::fmt;
use std::sync::LazyLock;

pub const FORMAT: &str = include_str!("../../../../FORMAT.md");

/// One line of a structure's table.
#[derive(Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub at: usize,
    pub len: usize,
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}+{}", self.name, self.at, self.len)
    }
}

/// A structure's fields, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub fields: Vec<Field>,
}

impl Layout {
    pub fn len(&self) -> usize {
        self.fields.last().map_or(0, |field| field.at + field.len)
    }

    pub fn field(&self, name: &str) -> &Field {
        let found = self.fields.iter().find(|field| field.name == name);
        found.unwrap_or_else(|| panic!("FORMAT.md has no field {name}"))
    }

    /// The number in a field of the structure that `bytes` begins with.
    pub fn number(&self, bytes: &[u8], name: &str) -> u64 {
        let field = self.field(name);
        little_endian(&bytes[field.at..field.at + field.len])
    }

    /// The field that a byte belongs to.
    pub fn name_at(&self, at: usize) -> &str {
        let inside = |field: &&Field| (field.at..field.at + field.len).contains(&at);
        self.fields.iter().find(inside).map_or("?", |field| &field.name)
    }
}

pub fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The rows of the first table behind a heading, as trimmed cells.
pub fn table(document: &str, heading: &str) -> Vec<Vec<String>> {
    let behind = document.lines().skip_while(|line| *line != heading).skip(1);
    let section = behind.take_while(|line| !line.starts_with('#'));
    let rows = section.skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|line| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    })
    .collect()
}

/// The table of a structure.
pub fn layout(document: &str, structure: &str) -> Layout {
    let rows = table(document, &format!("### `{structure}`"));
    let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{structure}: {cell}"));
    let fields = rows.iter().map(|row| Field {
        at: number(&row[0]),
        len: number(&row[1]),
        name: row[2].clone(),
    });
    Layout { fields: fields.collect() }
}

/// A number in a table, by the name in the row's first cell.
pub fn value(document: &str, heading: &str, name: &str) -> u64 {
    let rows = table(document, heading);
    let row = rows.iter().find(|row| row[0] == name);
    let row = row.unwrap_or_else(|| panic!("FORMAT.md has no {name} under {heading}"));
    row[1].parse().unwrap_or_else(|_| panic!("{name} is {}", row[1]))
}

/// Everything that the reader takes from the document.
pub struct Book {
    pub head: Layout,
    pub mark: Layout,
    pub kept_note: Layout,
    pub header: Layout,
    pub name: Layout,
    pub frame: Layout,
    pub named_slot: Layout,
    pub entry: Layout,
    pub version: u64,
    pub line: usize,
    pub lanes_max: u64,
    pub unit_bytes_max: u64,
    pub slots_max: u64,
    pub shield_blocks_max: u64,
    /// The kinds of checks.
    pub record_check: u64,
    pub entry_check: u64,
    pub content_check: u64,
    pub tail_word_check: u64,
    pub image: u64,
    pub encoded: u64,
    pub discard: u64,
    pub slot: u64,
    pub home: u64,
    pub log: u64,
    pub commit: u64,
    pub intent: u64,
    pub tail_pointer: u64,
    pub slots: u64,
    pub disk_log: u64,
    pub notes: u64,
    pub copy: u64,
}

pub static BOOK: LazyLock<Book> = LazyLock::new(|| {
    let constant = |name| value(FORMAT, "## 1. Conventions", name);
    let kind = |name| value(FORMAT, "### Kinds", name);
    let check = |name| value(FORMAT, "### Seeds", name);
    Book {
        head: layout(FORMAT, "SuperblockHeader"),
        mark: layout(FORMAT, "LaneMark"),
        kept_note: layout(FORMAT, "KeptNote"),
        header: layout(FORMAT, "RecordHeader"),
        name: layout(FORMAT, "Name"),
        frame: layout(FORMAT, "FrameHeader"),
        named_slot: layout(FORMAT, "NamedSlot"),
        entry: layout(FORMAT, "SlotEntry"),
        version: constant("FORMAT_VERSION"),
        line: usize::try_from(constant("LINE_BYTES")).expect("small"),
        lanes_max: constant("LANES_MAX"),
        unit_bytes_max: constant("UNIT_BYTES_MAX"),
        slots_max: constant("SLOTS_MAX"),
        shield_blocks_max: constant("SHIELD_BLOCKS_MAX"),
        record_check: check("Record"),
        entry_check: check("Entry"),
        content_check: check("Content"),
        tail_word_check: check("TailWord"),
        image: value(FORMAT, "### Forms", "Image"),
        encoded: value(FORMAT, "### Forms", "Encoded"),
        discard: value(FORMAT, "### Forms", "Discard"),
        slot: value(FORMAT, "### Forms", "Slot"),
        home: value(FORMAT, "### Forms", "Home"),
        log: value(FORMAT, "### Forms", "Log"),
        commit: kind("Commit"),
        intent: kind("Intent"),
        tail_pointer: value(FORMAT, "### Features", "TAIL_POINTER"),
        slots: value(FORMAT, "### Features", "SLOTS"),
        disk_log: value(FORMAT, "### Features", "DISK_LOG"),
        notes: value(FORMAT, "### Features", "NOTES"),
        copy: kind("Copy"),
    }
});
