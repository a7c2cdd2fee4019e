//! The page of figures: each of a paper's beside ours.

use core::fmt::Write as _;

use crate::figures::distances::{Below, PERCENTS};
use crate::figures::gathered::Commits;
use crate::figures::sub_blocks::PartialWrites;
use crate::figures::{Counted, Gathered, SLOWER, TXN_INFO_BYTES};
use crate::replay::table::{NUMBERS, Table, WORDS, grouped, markdown, share};

const BLOCK_BYTES: f64 = 4096.0;

const HEAD: &str = "\
# The papers' figures of updates

What a block journal takes, and how much of it had changed: counted on real traces, so every machine
gives these numbers. [RESULTS.md](RESULTS.md) says what the traces are, and what each policy makes
of them. [PAPERS.md](PAPERS.md) has the figures that need time.

```sh
cargo run --release -p lab --bin figures -- --results docs *.btrc.zst
```

";

const INODES: &str = "\
## FGM, Fig. 2b to 2d: clean inodes in journaled inode blocks

An inode is modified if its 256 bytes differ from what the journal took of the block before. A block
of 4 KiB has 16 inodes. *None* are blocks that a transaction wrote although no inode differs; *below
half* counts them too. The paper ran 960,000 files under varmail and 800,000 under fileserver, and
says \"up to\" of its clean inodes and of one modified. Our traces have 1,000 and 10,000 files, and
each transaction of fileserver writes some 490 blocks.

";

const DISTANCES: &str = "\
## Delta journaling, Fig. 1: how far updates differ

Updates of blocks that were allocated before, by how far they differ from the image before. Blocks
that were written unchanged count, and differ by nothing. The paper's figure counts bytes: \"less
than 10 % difference, smaller than 400 bytes\". Its rule for compression counts bits of the XOR, so
they stand below. The paper ran TPC-C on SQLite on ext4.

Share of the updates of which less than so much of the bytes differs:

";

const BITS: &str = "\
Share of the updates of which less than so much of the bits differs:

";

const DELTAS: &str = "\
A delta is the XOR of both images, compressed by LZO. The paper's rule keeps it in NVRAM if less
than 25 % or more than 75 % of the bits differ. Here it has to be shorter than the block as well.
The paper gives the mean as 3.7 % of a block, about 150 bytes. *Of changes* leaves out the deltas of
unchanged blocks.

";

const SUB_BLOCKS: &str = "\
## Two-level logging: partially updated blocks, and what they waste

A sub-block of 128 bytes is clean if it holds what it held before. A block that was not allocated
before has no clean ones. A block is partially updated if it has at least one. *Wasted* is the share
of clean sub-blocks in all that was written. *Data* is file data, and pages of a database. The paper
ran Mobibench on SQLite, and does not say whether it counts metadata. It tracks what the host
writes, and here images are compared. Bytes that are written again as they were count as modified
there, and as clean here. That may be why 71 % of a partially updated block are clean in the paper,
and more in Mobibench here.

";

const GATHERED: &str = "\
## FGM, Fig. 14: commits, by the size of the `TxnInfo`

The transactions of the traces in ordered mode go through the front door into running transactions,
under `object-log`. A running transaction commits when its list of objects is full, or at the age of
5 s. As in the paper no fsync commits one. The host ticks ten times a second. When the trace has
ended, one more commit takes the rest.

The clock is virtual. Before a transaction ends, the host writes the blocks that its bitmaps newly
allocate to a disk, at their places, and syncs it. The disk and the processor are those that
[PAPERS.md](PAPERS.md) has for FGM's machine. Data that overwrites a block, and reads, are not in
the traces and take no time. *Own times* are those in the inodes: the machine on which the trace was
made, with a disk in memory.

A trace keeps what ext4 had put together in one transaction, and not the operations. So the objects
of a transaction come one by one, at equal intervals. *Inodes* are what the paper counts. *Metadata*
is all that changes, in objects and in pieces of 256 bytes. *Whole* is the same, with no transaction
of the trace split: a transaction that is longer than the list commits alone.

";

const PACES: &str = "\
From the smallest `TxnInfo` to the largest, inodes one by one. *Full* is the share of commits that a
full list of 128 KiB causes. The paper says 3 % of its Fig. 13a, which is varmail.

";

const SLOWER_CLOCKS: &str = "\
The fall depends on how fast inodes change. On varmail the paper has a 24th of the commits. If full
lists cause those at 256 bytes, and the timer those at 128 KiB, then 24 lists of 30 inodes fill in
5 s: 144 inodes a second. On fileserver the paper has a 500th. That is about what full lists alone
give: a list of 128 KiB names 546 times as many inodes as one of 256 bytes. So here is the fall once
more, and where each transaction takes longer:

";

fn row<const N: usize>(cells: [String; N]) -> Vec<String> {
    cells.to_vec()
}

fn headed<const N: usize>(headings: [&str; N]) -> Table {
    vec![headings.map(str::to_owned).to_vec()]
}

fn add(page: &mut String, text: &str, table: &[Vec<String>], set: &str) {
    page.push_str(text);
    page.push_str(&markdown(table, set));
    page.push('\n');
}

/// Clean, one modified, and below half, as the paper has them.
fn inodes_in_paper(trace: &str) -> [&'static str; 3] {
    match trace {
        "ext4-varmail" => ["90 %", "90 %", "96.3 %"],
        "ext4-fileserver" => ["88 %", "47.6 %", "97.5 %"],
        _ => ["-"; 3],
    }
}

fn inodes(traces: &[Counted]) -> Table {
    let mut table = headed([
        "trace",
        "inode blocks",
        "clean inodes",
        "the paper",
        "one modified",
        "the paper",
        "below half",
        "the paper",
        "none",
    ]);
    for Counted { name, inodes, .. } in traces.iter().filter(|one| one.inodes.blocks() > 0) {
        let blocks = inodes.blocks();
        let [clean, one, below] = inodes_in_paper(name).map(str::to_owned);
        table.push(row([
            name.clone(),
            grouped(blocks),
            share(inodes.clean(), inodes.inodes()),
            clean,
            share(inodes.with_modified(1), blocks),
            one,
            share(inodes.below_half(), blocks),
            below,
            share(inodes.with_modified(0), blocks),
        ]));
    }
    table
}

fn below(traces: &[Counted], of: fn(&Counted) -> Below) -> Table {
    let percents = PERCENTS.map(|percent| format!("{percent} %"));
    let names = ["trace", "updates"].map(str::to_owned);
    let mut table = vec![names.into_iter().chain(percents).collect::<Vec<_>>()];
    for one in traces {
        let updates = one.distances.updates;
        let shares = of(one).map(|count| share(count, updates));
        table.push([one.name.clone(), grouped(updates)].into_iter().chain(shares).collect());
    }
    table
}

/// The paper's row stands above ours, where it counts what the table counts.
fn bytes_below(traces: &[Counted]) -> Table {
    let mut table = below(traces, |one| one.distances.bytes);
    let paper = PERCENTS.map(|percent| if percent == 10 { "> 70 %" } else { "-" });
    let cells = ["*the paper, TPC-C*", "-"].into_iter().chain(paper).map(str::to_owned);
    table.insert(1, cells.collect());
    table
}

fn deltas(traces: &[Counted]) -> Table {
    let headings =
        ["trace", "unchanged", "kept as deltas", "mean bytes", "of a block", "of changes"];
    let mut table = headed(headings);
    let paper = ["*the paper, TPC-C*", "-", "-", "about 150", "3.7 %", "-"];
    table.push(row(paper.map(str::to_owned)));
    for Counted { name, distances, .. } in traces {
        let of_block = |bytes: f64| format!("{:.1} %", 100.0 * bytes / BLOCK_BYTES);
        table.push(row([
            name.clone(),
            share(distances.unchanged, distances.updates),
            share(distances.deltas, distances.updates),
            format!("{:.0}", distances.mean_delta()),
            of_block(distances.mean_delta()),
            of_block(distances.mean_change()),
        ]));
    }
    table
}

fn sub_blocks(traces: &[Counted]) -> Table {
    let mut table = headed([
        "trace",
        "blocks",
        "partially updated",
        "wasted",
        "data blocks",
        "partially updated",
        "wasted",
    ]);
    let paper = ["*the paper, Mobibench*", "-", "45 %", "32 %", "-", "45 %", "32 %"];
    table.push(row(paper.map(str::to_owned)));
    let cells = |of: &PartialWrites| {
        let PartialWrites { blocks, partial, bytes, wasted } = *of;
        match blocks {
            0 => ["-"; 3].map(str::to_owned),
            _ => [grouped(blocks), share(partial, blocks), share(wasted, bytes)],
        }
    };
    for one in traces {
        let cells = cells(&one.writes).into_iter().chain(cells(&one.data));
        table.push([one.name.clone()].into_iter().chain(cells).collect());
    }
    table
}

fn bytes_name(bytes: u32) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { format!("{} KiB", bytes >> 10) }
}

/// How far a count falls.
fn fall(from: Commits, to: Commits) -> String {
    let change = to.count as f64 / from.count.max(1) as f64 - 1.0;
    format!("{:+.1} %", 100.0 * change)
}

fn commits(gathered: &Gathered) -> Table {
    let mut table = headed([
        "`TxnInfo`",
        "inodes: commits",
        "by the timer",
        "bytes",
        "metadata: commits",
        "by the timer",
        "bytes",
        "whole: commits",
        "by the timer",
        "bytes",
    ]);
    for (bytes, ways) in TXN_INFO_BYTES.into_iter().zip(&gathered.commits) {
        let cells = ways.iter().flat_map(|way| {
            [grouped(way.count), share(way.by_timer, way.count), grouped(way.bytes)]
        });
        table.push([bytes_name(bytes)].into_iter().chain(cells).collect());
    }
    table
}

fn falls(traces: &[(&str, &Gathered)]) -> Table {
    let mut table = headed([
        "trace",
        "own times",
        "commits, own times",
        "the disk's clock",
        "commits, the disk's clock",
        "fall",
        "the paper",
        "full",
        "the paper",
    ]);
    for (name, gathered) in traces {
        let (first, last) = (gathered.commits[0][0], gathered.commits[TXN_INFO_BYTES.len() - 1][0]);
        let [own_first, own_last] = gathered.by_own_times;
        let (paper, full) = match *name {
            "ext4-varmail" => ("-95.8 %", "3 %"),
            "ext4-fileserver" => ("-99.8 %", "-"),
            _ => ("-", "-"),
        };
        let seconds = |nanos: u64| format!("{:.1} s", nanos as f64 / 1e9);
        let pair = |from: Commits, to: Commits| {
            format!("{} to {}", grouped(from.count), grouped(to.count))
        };
        table.push(row([
            (*name).to_owned(),
            seconds(gathered.ends.own_ns),
            pair(own_first, own_last),
            seconds(gathered.ends.disk_ns),
            pair(first, last),
            fall(first, last),
            paper.to_owned(),
            share(last.by_full(), last.count),
            full.to_owned(),
        ]));
    }
    table
}

fn slower(traces: &[(&str, &Gathered)]) -> Table {
    let mut table = headed(["trace", "inodes a second", "fall"]);
    table[0].extend(SLOWER.map(|times| format!("{times} times as long")));
    for (name, gathered) in traces {
        let (first, last) = (gathered.commits[0][0], gathered.commits[TXN_INFO_BYTES.len() - 1][0]);
        let rate = gathered.inodes as f64 * 1e9 / gathered.ends.disk_ns.max(1) as f64;
        let falls = gathered.slower.map(|[first, last]| fall(first, last));
        let cells = [(*name).to_owned(), format!("{rate:.0}"), fall(first, last)];
        table.push(cells.into_iter().chain(falls).collect());
    }
    table
}

/// The page of these traces.
pub fn page(traces: &[Counted]) -> String {
    let mut page = HEAD.to_owned();
    add(&mut page, INODES, &inodes(traces), NUMBERS);
    add(&mut page, DISTANCES, &bytes_below(traces), NUMBERS);
    add(&mut page, BITS, &below(traces, |one| one.distances.bits), NUMBERS);
    add(&mut page, DELTAS, &deltas(traces), NUMBERS);
    add(&mut page, SUB_BLOCKS, &sub_blocks(traces), NUMBERS);
    let gathered: Vec<_> = traces
        .iter()
        .filter_map(|one| one.gathered.as_ref().map(|gathered| (one.name.as_str(), gathered)))
        .collect();
    page.push_str(GATHERED);
    add(&mut page, PACES, &falls(&gathered), WORDS);
    add(&mut page, SLOWER_CLOCKS, &slower(&gathered), NUMBERS);
    for (name, gathered) in gathered {
        let Gathered { transactions, objects, inodes, allocated, .. } = *gathered;
        let [transactions, objects, inodes, allocated] =
            [transactions, objects, inodes, allocated].map(grouped);
        let mut text = format!("### {name}\n\n");
        writeln!(
            text,
            "{transactions} transactions, {objects} changes of objects, {inodes} of inodes, \
             {allocated} blocks allocated.\n"
        )
        .expect("room in memory");
        add(&mut page, &text, &commits(gathered), NUMBERS);
    }
    let end = page.trim_end().len();
    page.truncate(end);
    page + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::counted;
    use crate::trace::{SAMPLE, Trace};

    #[test]
    fn a_paper_stands_beside_the_trace_that_it_is_of() {
        let mut one = counted(&mut Trace::open(SAMPLE).expect("a trace")).expect("a trace");
        one.name = "ext4-varmail".to_owned();
        let gathered = Gathered {
            transactions: 5,
            objects: 4,
            inodes: 3,
            allocated: 2,
            ends: crate::figures::pace::Ends { own_ns: 1_500_000_000, disk_ns: 9_000_000_000 },
            commits: [[Commits { count: 200, by_timer: 50, at_end: 1, bytes: 7 }; 3]; 6],
            by_own_times: [Commits { count: 10, ..Commits::default() }; 2],
            slower: [[4, 1].map(|count| Commits { count, ..Commits::default() }); 2],
        };
        one.gathered = Some(gathered);
        let text = page(&[one]);
        let expected =
            "| 1.5 s | 10 to 10 | 9.0 s | 200 to 200 | +0.0 % | -95.8 % | 74.5 % | 3 % |";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("| 90 % |") && text.contains("| > 70 % |"), "{text}");
        assert!(text.contains("| ext4-varmail | 0 | +0.0 % | -75.0 % | -75.0 % |"), "{text}");
        assert!(text.contains("| 128 KiB | 200 | 25.0 % | 7 |"), "{text}");
    }
}
