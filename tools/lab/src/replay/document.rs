//! The pages of results: one that a reader understands, one for each trace with all tables, and
//! one that says what their columns are.

use core::fmt::Write as _;

use crate::replay::papers::papers;
use crate::replay::run::{Figures, Room};
use crate::replay::table::{NUMBERS, Row, Section, Table, WORDS, grouped, markdown, share};

/// What traces are of, by their names.
const WORKLOADS: &[(&str, &str)] = &[
    ("ext4-fileserver", "filebench fileserver, metadata alone"),
    ("ext4-iozone-datajournal", "IOzone-like writes with a sync each, data and metadata"),
    ("ext4-mobibench-datajournal", "Mobibench on SQLite on ext4, data and metadata"),
    ("ext4-postmark", "PostMark, metadata alone"),
    ("ext4-tpcc-datajournal", "TPC-C on SQLite on ext4, data and metadata"),
    ("ext4-varmail", "filebench varmail, metadata alone"),
    ("ext4-varmail-datajournal", "filebench varmail, data and metadata"),
    ("ext4-writefsync", "filebench writes with a sync each, metadata alone"),
    ("sqlite-mobibench", "Mobibench, SQLite's pages"),
    ("sqlite-tpcc", "TPC-C, SQLite's pages"),
];

const INTRODUCTION: &str = "\
What each policy makes of real sequences of block updates: SQLite's pages, and what ext4 (Linux
6.18) commits to its journal. One owner commits each transaction of a trace with one fence, into
one lane. The figures count what goes out to the media. Nothing is measured, so every machine gives
these numbers.

";

const BESIDE: &str = "\
A paper's figure stands beside ours, on the workload that comes closest. The papers ran other
kernels, and took their own baselines. *As in the paper* says that our figure is as good as the
paper's or better. [FIGURES.md](FIGURES.md) has what the papers say of the updates themselves.

";

const POLICIES: &str = "\
Bytes that commits write to persistent memory, as a share of what *full-block* writes.

";

const DISK: &str = "\
Blocks written to the disk. It counts the last checkpoint, which takes everything home.

";

const TIME: &str = "\
Time by a model that weighs these counts, on memory as fast as DRAM, as a multiple of the best
fixed policy. [How to read the tables](results/README.md) says what the model charges.

";

const CHECKED: &str = "\
Each policy's bytes are held against a bound that the images of the trace alone give. Then the
simulator cuts the power during the trace, recovers, and compares every block. A crash that is not
survived ends the run.

";

/// What the words over the columns of a trace's page mean.
const COLUMNS: &str = "\
# How to read the tables

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
- *image*, *encoded*, *slot*, *home*, *log* and *unchanged* are shares of the updates. An *image* is
  logged whole, and *encoded* is something shorter. In a *slot* there is a version of a block. What
  went *home* is an append that was synced there before its record. What went to the *log* is a
  block of the disk-side log. An *unchanged* block held the update already, so nothing was logged.
- *runs* to *moves* count the forms of deltas, and *mean bytes* are theirs without the 9 bytes that
  say which images they lead between.
- *updates* in front of *byte runs* are those that change something, appends left out. Behind it
  stands the mean of what each coder makes of them: headers apart, and at most the block. *logged*
  is what was logged.
- *byte-delta* sends appends home, *all in slots* logs them as well (the paper's all-journal).
  *Whole slots* are the same without the idea: each version is written whole.
- A policy says from which share of its lane or its slots on it makes room: three quarters if it
  says nothing. When the trace has ended, everything goes home. Without slots a lane is *reclaimed*
  by copying, and written home when that is not enough. With slots, rings are *folded*, older
  versions *collected* when that is not enough, and then everything goes home in a *checkpoint*.
  lcow writes home only what rings hold, and *evicts* from slots by batches.
- Where a policy has the disk-side log, folding and collecting come first too. Then segments of the
  log are *cleaned*, if it is the log that is short. Then what the ring would have to keep goes home
  in a *ring checkpoint*. A *block journal* on the disk would write the images, a descriptor for
  each 254 of them, and a commit for each transaction. It leaves out what goes home.
- The disk is one that may tear an overwrite. *At the end* says how much of what went to the disk
  did so when the trace had ended; *appended* what did before its record.
- *upkeep* is everything else that is written to NVM: superblocks, copies within the lane, and
  images that shield a block while it is overwritten; *entries* of slots, written and *voided*,
  stand beside it. Fences are those of all three.
- *us* are no measurement either, but one figure for all the counts: what they take on a medium and
  a disk that the model says (`tools/lab/src/replay/times.rs`). A line takes 3 ns and a fence 165 ns
  where persistent memory is as fast as DRAM, which was measured; 100 ns and 500 ns on PCM, which is
  chosen. So is the disk: 20 us for a write, 2 us for each block of it, 100 us for a sync. Coding
  takes what the adaptive policy's model says. *alone* is without the disk. *best* is the best of
  the policies that are fixed, those in whole slots left out. *Keeps up* says whether the adaptive
  policy for that medium takes at most 5 % longer than it.
- Crashes are simulated: a few transactions of the trace in short lanes with few slots, a power loss
  somewhere in the last of them or behind it, and every block of the trace compared. *Kept* and
  *lost* is the transaction that was under way. The last table says *before* what the power went.
";

/// Files by their names below the folder that they go to.
pub type Pages = Vec<(String, String)>;

/// All pages.
pub fn pages(sections: &[Section], command: &str, room: &Room) -> Pages {
    let mut pages = vec![
        ("RESULTS.md".to_owned(), overview(sections, command)),
        ("results/README.md".to_owned(), columns(room)),
    ];
    pages.extend(sections.iter().map(|section| {
        let head = "[All results](../RESULTS.md). [How to read the tables](README.md).\n\n";
        let text = section.markdown();
        (format!("results/{}.md", section.trace), text.replacen("\n\n", &format!("\n\n{head}"), 1))
    }));
    pages
}

/// The page that says what columns are.
fn columns(room: &Room) -> String {
    let Room { lane_bytes, slot_share, log_blocks, segment_blocks } = *room;
    let lane_bytes = grouped(lane_bytes);
    let mut text = COLUMNS.to_owned();
    writeln!(text, "- The lane has {lane_bytes} bytes. Where a policy needs slots, they and their")
        .expect("room in memory");
    writeln!(text, "  entries are {slot_share}/256 of that, and the ring the rest. The disk-side")
        .expect("room in memory");
    writeln!(text, "  log has {log_blocks} blocks in segments of {segment_blocks}, of which the")
        .expect("room in memory");
    writeln!(text, "  lane has the entries.").expect("room in memory");
    text
}

/// The page that a reader understands.
fn overview(sections: &[Section], command: &str) -> String {
    let mut text = format!("# Results\n\n{INTRODUCTION}```sh\n{command}\n```\n\n");
    text += "## The workloads\n\n";
    text += &markdown(&workloads(sections), WORDS);
    text += "\n## Beside the papers\n\n";
    text += BESIDE;
    text += &papers(sections);
    for (heading, says, cell) in [
        ("Bytes in persistent memory", POLICIES, nvm_cell as Cell),
        ("Blocks on the disk", DISK, disk_cell),
        ("Modelled time", TIME, time_cell),
    ] {
        write!(text, "\n## {heading}\n\n{says}").expect("room in memory");
        text += &markdown(&matrix(sections, cell), NUMBERS);
    }
    write!(text, "\n## Bounds and crashes\n\n{CHECKED}").expect("room in memory");
    text += &markdown(&checked(sections), NUMBERS);
    text
}

fn link(trace: &str) -> String {
    format!("[{trace}](results/{trace}.md)")
}

fn workloads(sections: &[Section]) -> Table {
    let headings = ["trace", "what it is", "transactions", "blocks written"];
    let mut table = vec![headings.map(str::to_owned).to_vec()];
    for section in sections {
        let known = WORKLOADS.iter().find(|(trace, _)| *trace == section.trace);
        let what = known.map_or("-", |(_, what)| what);
        let counts =
            section.rows.first().map(|row| (row.figures.transactions, row.figures.updates));
        let (transactions, updates) = counts.unwrap_or_default();
        let cells =
            [link(&section.trace), what.to_owned(), grouped(transactions), grouped(updates)];
        table.push(cells.to_vec());
    }
    table
}

/// What stands at a trace and a policy.
type Cell = fn(&Section, &Row) -> String;

fn nvm_cell(section: &Section, row: &Row) -> String {
    let bytes = |figures: &Figures| figures.nvm.commits().bytes;
    let full = section.rows.iter().find(|row| row.known.name == "full-block");
    full.map_or("-".to_owned(), |full| share(bytes(&row.figures), bytes(&full.figures)))
}

fn disk_cell(_: &Section, row: &Row) -> String {
    grouped(row.figures.disk.blocks)
}

fn time_cell(section: &Section, row: &Row) -> String {
    section.to_best_on_dram(row).map_or("-".to_owned(), |times| format!("{times:.2}"))
}

/// A row for each policy that some trace has, and a column for each trace.
fn matrix(sections: &[Section], cell: Cell) -> Table {
    let mut policies: Vec<&str> = Vec::new();
    for row in sections.iter().flat_map(|section| &section.rows) {
        if !policies.contains(&row.known.name) {
            policies.push(row.known.name);
        }
    }
    let traces = sections.iter().map(|section| section.trace.clone());
    let mut table = vec![core::iter::once("policy".to_owned()).chain(traces).collect::<Vec<_>>()];
    for policy in policies {
        let cells = sections.iter().map(|section| {
            let row = section.rows.iter().find(|row| row.known.name == policy);
            row.map_or("-".to_owned(), |row| cell(section, row))
        });
        table.push(core::iter::once(policy.to_owned()).chain(cells).collect());
    }
    table
}

fn checked(sections: &[Section]) -> Table {
    let headings = ["trace", "policies", "bounds that hold", "crashes survived"];
    let mut table = vec![headings.map(str::to_owned).to_vec()];
    for section in sections {
        let sum = |count: fn(&Row) -> u64| section.rows.iter().map(count).sum::<u64>();
        let counts = [
            section.rows.len() as u64,
            sum(|row| u64::from(row.figures.holds())),
            sum(|row| row.crashes.crashes),
        ];
        let cells = counts.into_iter().map(grouped);
        table.push(core::iter::once(link(&section.trace)).chain(cells).collect());
    }
    table
}
