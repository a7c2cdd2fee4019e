//! The pages of results: one that a reader understands, one for each trace with all tables, and
//! one that says what their columns are.

use core::fmt::Write as _;

use crate::replay::papers::papers;
use crate::replay::run::{Figures, Room};
use crate::replay::table::{NUMBERS, Row, Section, Table, WORDS, grouped, markdown, share};
use crate::replay::together::Together;

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
6.18) commits to its journal. Each transaction of a trace is one `Journal::commit`, durable when it
returns, and the host ticks behind it. The options are the defaults, except for these: one lane,
`relogs`, an index of a million frames, and a disk-side log for the policies that use one. lcow has
thresholds of 128 and 224. With the default index, which is smaller, long chains of changes are
logged whole from time to time, and some blocks go home for want of frames. The figures count what
goes out to the media. Nothing is measured, so every machine gives these numbers.

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
Blocks written to the disk, with a checkpoint of the rings at the end: what lies in slots or in the
disk-side log by then stays there. Under policies that use neither, everything goes home.

";

const RUNS: &str = "\
Writes of neighbouring blocks that these took. Appends that go home are among them.

";

const TOGETHER: &str = "\
Several threads, each with a trace of its own, commit into one journal. A further thread makes room.
In the end the journal reads what each trace ends with, and once it is closed the disk holds it.

";

const TIME: &str = "\
Time by a model that weighs these counts, on memory as fast as DRAM, as a multiple of the best
fixed policy. [How to read the tables](results/README.md) says what the model charges.
The adaptive policies aim at 1.05 on their medium, and a run in which one misses that is an error.

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
- A policy says from which share of its lane, its slots or its log on it makes room: three quarters
  if it says nothing. The journal makes room in the memory first: rings are *folded*, older
  versions in slots *freed*, blocks *moved* to the disk-side log, or *copied* to slots or behind the
  tail. Where that is not enough, blocks go home in *batches* of *checkpoints*. A *stop* is a
  transaction that found no room.
- A *block journal* on the disk would write the images, a descriptor for each 254 of them, and a
  commit for each transaction. It leaves out what goes home.
- The disk is one that may tear an overwrite. *Meanwhile* says what was written to it by the time
  when the trace had ended. *With rings* adds a checkpoint of the rings, and *all home* everything
  else. *Appended* is what went home before its record.
- *upkeep* is everything else that is written to NVM: superblocks, and images that shield a block
  while it is overwritten. What is *copied*, and *entries* of slots, written and *voided*, stand
  beside it. Fences are those of all four.
- *ring lines* to *shield lines* say how the memory wears: how many lines were stored there, each as
  often as it was, by commits and by the upkeep. Each of these regions has up to sixteen parts.
  *Most* is the share of the part that has most of them, which is 6.3 % where all are even.
- *us* are no measurement either, but one figure for all the counts: what they take on a medium and
  a disk that the model says (`tools/lab/src/replay/times.rs`). A line takes 3 ns and a fence 165 ns
  where persistent memory is as fast as DRAM, which was measured; 100 ns and 500 ns on PCM, which is
  chosen. So is the disk: 20 us for a write, 2 us for each block of it, 100 us for a sync. Coding
  takes what the adaptive policy's model says. *alone* is without the disk. *best* is the best of
  the policies that are fixed, those in whole slots left out. *Keeps up* says whether the adaptive
  policy for that medium takes at most 5 % longer than it.
- Crashes are simulated, through the front door too. A few transactions of the trace go into short
  lanes with few slots, and thresholds differ from crash to crash. The power goes somewhere in the
  last of them, or behind it. Then every block of the trace is compared. *Kept* and
  *lost* is the transaction that was under way. The last table says *before* what the power went.
";

/// Files by their names below the folder that they go to.
pub type Pages = Vec<(String, String)>;

/// All pages.
pub fn pages(sections: &[Section], beside: &[Beside], command: &str, room: &Room) -> Pages {
    let mut pages = vec![
        ("RESULTS.md".to_owned(), overview(sections, beside, command)),
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
    let Room { nvm_bytes, log_blocks, segment_blocks, .. } = *room;
    let nvm_bytes = grouped(nvm_bytes);
    let mut text = COLUMNS.to_owned();
    writeln!(text, "- The journal has {nvm_bytes} bytes of persistent memory. The options divide")
        .expect("room in memory");
    writeln!(text, "  them into one lane, slots where the policy uses some, and the shield. The")
        .expect("room in memory");
    writeln!(text, "  disk-side log has {log_blocks} blocks in segments of {segment_blocks}.")
        .expect("room in memory");
    text
}

/// The page that a reader understands.
fn overview(sections: &[Section], beside: &[Beside], command: &str) -> String {
    let mut text = format!("# Results\n\n{INTRODUCTION}```sh\n{command}\n```\n\n");
    text += "## The workloads\n\n";
    text += &markdown(&workloads(sections), WORDS);
    text += "\n## Beside the papers\n\n";
    text += BESIDE;
    text += &papers(sections);
    for (heading, says, cell) in [
        ("Bytes in persistent memory", POLICIES, nvm_cell as Cell),
        ("Blocks on the disk", DISK, disk_cell),
        ("Writes of the disk", RUNS, runs_cell),
        ("Modelled time", TIME, time_cell),
    ] {
        write!(text, "\n## {heading}\n\n{says}").expect("room in memory");
        text += &markdown(&matrix(sections, cell), NUMBERS);
    }
    write!(text, "\n## Bounds and crashes\n\n{CHECKED}").expect("room in memory");
    text += &markdown(&checked(sections), NUMBERS);
    if !beside.is_empty() {
        write!(text, "\n## Several threads\n\n{TOGETHER}").expect("room in memory");
        text += &markdown(&side_by_side(beside), WORDS);
    }
    text
}

/// What traces did beside each other under a policy.
pub struct Beside {
    pub policy: &'static str,
    pub together: Together,
}

fn side_by_side(beside: &[Beside]) -> Table {
    let headings = ["policy", "threads", "transactions", "blocks written", "all is there"];
    let mut table = vec![headings.map(str::to_owned).to_vec()];
    for Beside { policy, together, .. } in beside {
        let Together { threads, transactions, updates } = *together;
        let counts = [threads, transactions, updates].map(grouped);
        let cells = [&[(*policy).to_owned()][..], &counts, &["yes".to_owned()]].concat();
        table.push(cells);
    }
    table
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
    grouped(row.figures.disk_with_rings.blocks)
}

fn runs_cell(_: &Section, row: &Row) -> String {
    grouped(row.figures.disk_with_rings.runs)
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
