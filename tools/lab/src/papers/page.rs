//! All rows as a page, `PAPERS.md`, and its plots.

use std::fmt::Write as _;
use std::path::Path;

use crate::engines::Failure;
use crate::papers::figures::njs::{Work, Write};
use crate::papers::figures::small::Folder;
use crate::papers::figures::{fgm, gates, hasfs, njs, sensitivity, small, today};
use crate::papers::merge::{counted, merged};
use crate::papers::row::Row;
use crate::plot::{Plot, Scale};

/// What is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Everything is divided by this; without, each figure has a scale of its own.
    pub scale: Option<u64>,
    /// Only sections whose names begin like this.
    pub figure: Option<&'a str>,
    /// Where the traces are; without, the rows that need them are left out, and the page says so.
    pub traces: Option<&'a Path>,
}

/// Some rows under one title.
pub struct Section {
    pub name: &'static str,
    title: &'static str,
    /// What the reader has to know of them.
    text: &'static str,
    pub rows: Vec<Row>,
    /// Text behind the rows.
    tail: String,
    /// What the README says of it.
    advice: String,
    plots: Vec<(&'static str, Plot)>,
}

impl Section {
    const fn new(name: &'static str, title: &'static str, text: &'static str) -> Self {
        Self {
            name,
            title,
            text,
            rows: Vec::new(),
            tail: String::new(),
            advice: String::new(),
            plots: Vec::new(),
        }
    }
}

const GATES: &str = "Gates: the baselines among themselves";
const TWO_LEVEL: &str = "Two-level logging: a memory card and PRAM";
const DELTA: &str = "Delta journaling: a memory card and NVRAM";
const FGM: &str = "FGM: objects of metadata in an NVDIMM";
const NJS: &str = "NJS: versions of blocks in NVM";
const HASFS: &str = "HasFS: slots in NVM as the page cache";
const SENSITIVITY: &str = "Sensitivity";
const TODAY: &str = "Media of today";
const TRUST: &str = "How far to trust this page";

const TRUST_TEXT: &str = "\
- Where the ring of a block journal lies, how warm the caches are, and what `none` does at an fsync
  were settled while the gates were being looked at. Where the ring lies alone moves some gates in
  and out of their bands.
- Numbers in the text are those of the run that the rows are of. Most figures are of one seed.
- The sections are of three builds of one day, and FGM's figures 13 and 14 of an earlier run. In all
  but the gates and media of today, a host that computed nothing waited for a core.
- FGM 12a gains several times what the paper does, and is in its band, which has no upper end. So do
  HasFS 9 and 10 beside data mode.
";

const HEAD: &str = "\
# The papers' time figures, in virtual time

Written by `cargo run --release -p lab --bin papers -- --results docs/PAPERS.md --traces DIR`.
The journal runs behind its front door on a timed memory and a timed disk; block journals run on
the same disks. One thread of the operating system runs everything, and a virtual clock says how
long the media would have taken. The same seed gives the same bytes.

- *must*: the band that ours has to be in. *sign*: the direction has to hold. Other rows are printed
  alone, and have no band. A test runs the gates and one figure of each paper at a coarse scale, in
  bands twice as wide that keep their sign, and fails outside.
- *k* is the scale: files, memory, journal, the drive's cache and all periods are divided by it.
- Media, and where their parameters come from: `crates/sim-disk/src/media/time`. What the host
  computes: `tools/lab/src/papers/host.rs`. No parameter of media or hosts was chosen for a policy.
- A row that is out says why by counts, and the text above its table names the cause.
- `--figure NAME` writes a section or a part of one anew, and leaves the others.

";

/// The scale of each group, if nobody says otherwise.
const AT_PAPERS_SIZE: u64 = 1;
const OF_NJS_SETTINGS: u64 = 1;
const OF_HASFS: u64 = 16;
/// At a coarser one the ring of FGM holds too few inodes: postmark gains nothing.
const OF_FGM_VARIED: u64 = 4;
const OF_SHORT: u64 = 64;

impl Wanted<'_> {
    /// Whether a section is wanted, or a part of it.
    fn has(&self, name: &str) -> bool {
        self.figure.is_none_or(|figure| name.starts_with(figure) || figure.starts_with(name))
    }

    /// Whether a part of a section is wanted.
    fn has_part(&self, name: &str) -> bool {
        self.figure.is_none_or(|figure| name.starts_with(figure))
    }

    /// The rows of a part, if it is wanted.
    fn part(
        &self,
        name: &str,
        rows: impl FnOnce() -> Result<Vec<Row>, Failure>,
    ) -> Result<Vec<Row>, Failure> {
        if self.has_part(name) { rows() } else { Ok(Vec::new()) }
    }

    fn scale(&self, usual: u64) -> u64 {
        self.scale.unwrap_or(usual)
    }

    /// Runs what is wanted.
    ///
    /// # Errors
    /// Those of the journals, and of the traces.
    pub fn sections(&self) -> Result<Vec<Section>, Failure> {
        let mut sections = Vec::new();
        if self.has("gates") {
            sections.push(self.gates()?);
        }
        if self.has("two-level") {
            sections.push(self.two_level()?);
        }
        if self.has("delta") {
            sections.push(self.delta()?);
        }
        if self.has("fgm") {
            sections.push(self.fgm()?);
        }
        if self.has("njs") {
            sections.push(self.njs()?);
        }
        if self.has("hasfs") {
            sections.push(self.hasfs()?);
        }
        if self.has("sensitivity") {
            let mut section = Section::new("sensitivity", SENSITIVITY, sensitivity::TEXT);
            section.tail = sensitivity::table(self.scale(OF_HASFS), self.scale(OF_FGM_VARIED))?;
            sections.push(section);
        }
        if self.has("today") {
            let mut section = Section::new("today", TODAY, today::TEXT);
            (section.tail, section.advice) = today::tables(self.scale)?;
            sections.push(section);
        }
        Ok(sections)
    }

    fn gates(&self) -> Result<Section, Failure> {
        let mut section = Section::new(
            "gates",
            GATES,
            "No figure of a policy counts where a gate of its baselines is out.\n\
             \n\
             - HasFS Table 2, ordered and writeback: what fits under the dirty limit (15 % of \
             memory, 614,000 blocks at k = 1) is nearly all that is written in 30 s. The drive \
             adds some 350 blocks a second. So no stall of the drive can show here, and the \
             paper's must have another cause.\n\
             - An fsync without a journal ends when the drive has taken the blocks, in the \
             kernels of NJS (3.12) and FGM (2.6.34). That of HasFS (4.11) flushes the drive's \
             cache.\n\
             - The kernel of FGM leaves the directory of a new file out of that fsync: 2.6.35 \
             writes it. It flushes nothing behind a checkpoint of a journal inside the file \
             system: 3.4 does.\n\
             - In data mode an fsync is a synchronous handle of jbd2. It keeps a young \
             transaction open for as long as a commit takes on average, 15 ms at most. Other \
             threads join: on the HDD of NJS 15.5 fsyncs share a commit, and 7.7 would \
             otherwise.\n\
             - NJS 1, varmail, RAM disk / HDD: with the RAM disk the threads stand still for \
             checkpoints in 117 of 121 s, which is 0.48 ms an operation. On the HDD that is 0.43 \
             ms. The 1,577 commits there take 0.34 ms an operation more: 34 ms each, of two \
             syncs and the wait for others. The paper's RAM disk is slower: 37 % behind none, \
             where ours is 22 %.\n\
             - FGM 2a, varmail: the paper has a second disk for the journal where it compares \
             with memory, and so has the gate. But no reading of the figure has both of its \
             numbers here. Beside none, ours is 36 % slower with one disk and 30 % faster with \
             two, since a sweep writes inodes that none writes one by one. Both times the drive \
             of the homes is busy all the time.\n",
        );
        let (scale, of_hasfs) = (self.scale(AT_PAPERS_SIZE), self.scale(OF_HASFS));
        let parts = [
            self.part("gates-hdd", || gates::rows(scale))?,
            self.part("gates-hasfs", || hasfs::tables_1_and_2(of_hasfs))?,
            self.part("gates-njs", || njs::figure_1(scale))?,
            self.part("gates-fgm", || fgm::figure_2(scale))?,
        ];
        section.rows = parts.concat();
        Ok(section)
    }

    fn two_level(&self) -> Result<Section, Failure> {
        let mut section = Section::new(
            "two-level",
            TWO_LEVEL,
            "SQLite's processor time is what makes the baseline as fast as the paper's. The \
             baseline is the one that was specified: one log takes data and node blocks. The \
             paper's is F2FS, which has a log for each (Lee and others, FAST 2015): the row \
             beside it has two.\n",
        );
        match self.traces {
            Some(traces) => {
                section.rows = small::mobibench(&Folder(traces))?;
                section.rows.extend(small::filebench(&Folder(traces))?);
            }
            None => section.tail = WITHOUT_TRACES.to_owned(),
        }
        Ok(section)
    }

    fn delta(&self) -> Result<Section, Failure> {
        let mut section = Section::new(
            "delta",
            DELTA,
            "The paper gives no transactions a minute for TPC-C: the row says at how much \
             processor time a commit ours is as far ahead as the paper's.\n",
        );
        section.rows = small::overwrites(self.scale(AT_PAPERS_SIZE))?;
        match self.traces {
            Some(traces) => section.rows.extend(small::tpcc(&Folder(traces))?),
            None => section.tail = WITHOUT_TRACES.to_owned(),
        }
        Ok(section)
    }

    fn fgm(&self) -> Result<Section, Failure> {
        let mut section = Section::new(
            "fgm",
            FGM,
            "- The disk of the homes is not synced before a commit elsewhere. This is an \
             assumption about the kernel, and the paper's own figure 11a is the only evidence \
             for it. With such a sync both would wait for a turn of that disk at each fsync. \
             So at most 3 x could come out of its 15.8 x. The rows \"data is synced\" have the \
             sync, and show what hangs on this: 9a then gains 8 % and loses 5 %.\n\
             - The rows \"two and a tail word\" are the same policy with the usual protocol: a \
             record, a fence, a tail pointer, a fence. Where each fsync waits for a disk, 200 \
             ns of another fence are nothing.\n\
             - FGM 11a: the drive writes 128 KB in 0.87 ms, and the journal on a second disk \
             waits for two turns, 16.7 ms. A run takes 60 s, as filebench's do that say nothing, \
             and the file begins anew at 1 GB. In a run that ends with the first GB, the drive's \
             cache of 64 MB holds 6 % of all that was written.\n\
             - FGM 11a on NVM: a few blocks copied into DRAM are microseconds of each fsync, so \
             there is nothing to win.\n\
             - A checkpoint goes through the shield, 1,024 blocks at a time with a sync behind \
             each. The row \"no block is ever torn\" has none.\n\
             - The index has room for all frames of the ring. By the default of `Options` it is \
             full when a fifth of the ring is, and checkpoints then come nearly three times as \
             often.\n\
             - FGM 12a, 500 K files: the ring holds changes of nearly all inode blocks, so each \
             goes home once in a sweep. That is more than the paper's gain.\n\
             - FGM 13, varmail: an fsync commits long before a TxnInfo is full.\n\
             - FGM 13, postmark: ours gains up to 16 KiB, and is level from there on, since the \
             timer commits. The paper loses beyond 4 KB, by what a larger TxnInfo takes of the \
             memory. Ours has no list that is longer than what it names.\n\
             - FGM 14: where the scale is coarser, the timer (5 s / k) commits before a list of \
             128 KiB is full.\n",
        );
        let scale = self.scale(AT_PAPERS_SIZE);
        section.rows = fgm::figures_9_to_12(scale, |figure| {
            self.has_part(&figure.replace("FGM ", "fgm-throughput-"))
        })?;
        if !self.has_part("fgm-txninfo") {
            return Ok(section);
        }
        let (rows, curves) = fgm::figure_13(self.scale(FIGURE_13_SCALE), scale)?;
        section.rows.extend(rows);
        let steps = fgm::SIZES.iter().map(|bytes| match bytes {
            0..1024 => format!("{bytes} B"),
            _ => format!("{} K", bytes >> 10),
        });
        let plot = Plot {
            title: "FGM 13: operations a second, by the size of the TxnInfo",
            below: "bytes of the TxnInfo",
            scale: Scale::Doubling,
            steps: steps.collect(),
            curves,
        };
        section.plots.push(("papers-fgm-13.svg", plot));
        Ok(section)
    }

    fn njs(&self) -> Result<Section, Failure> {
        let mut section = Section::new(
            "njs",
            NJS,
            "- \"Stands still\": a tick before each commit acts on the policy's thresholds, at \
             three quarters as in the paper, and every thread waits for it. \"In the \
             background\": such ticks beside the threads.\n\
             - Appends go home inside the commit, with one sync for each record. A record has \
             their names alone, so the running transaction takes in as many as it may change.\n\
             - Fileserver and postmark: the drive is busy all the time, and an operation of \
             fileserver writes 3.4 blocks to it by ours, and 3.5 by the block journal. One of \
             postmark writes 69 and 68. Ours puts what is appended home at once, with each \
             commit. The block journal has it in its ring first, and never writes home what was \
             deleted by then. Of what ours writes, metadata is a fortieth or less, so saving that \
             gains little.\n\
             - Re-write: both write the same 8 GB to the same disk, which takes most of the time. \
             Where the threads stand still for checkpoints, ours is the slower one. In the \
             background it has the sign.\n\
             - The block journal writes no logged data home by age. That of Linux does, after 30 \
             s. \
             When it was tried at k = 4, random gained 3 % alone, and fileserver lost 14 %. So the \
             gain at random is by when the homes are written, and no more certain than that.\n\
             - Host: a page of data takes 2 us more wherever it is logged, by ours as by the block \
             journal.\n\
             - NJS 9a: the paper writes its file of 8 GB again. No older version of its data \
             is left in 128 MB by then, so byte update has next to nothing to gain by, and \
             nothing to lose at 100 %. In the rows \"regions\" the journal has them: 16 MB are \
             written three times before the next 16 MB. The third pass is the first that finds \
             an older version beside the newest, so a third of the writes can gain. The paper \
             does not write so, and these rows have no band.\n\
             - NJS 10, the row without a delayed checkpoint: nothing is reclaimed ahead, and a \
             commit that finds no room writes the oldest blocks home, 64 at a time.\n",
        );
        let (scale, settings) = (self.scale(AT_PAPERS_SIZE), self.scale(OF_NJS_SETTINGS));
        for (part, write) in [
            ("njs-8-sequential", Write::Sequential),
            ("njs-8-again", Write::Again),
            ("njs-8-random", Write::Random),
        ] {
            section.rows.extend(self.part(part, || njs::figure_8a(write, scale))?);
        }
        for (part, work) in [
            ("njs-8-postmark", Work::Postmark),
            ("njs-8-fileserver", Work::Fileserver),
            ("njs-8-varmail", Work::Varmail),
        ] {
            section.rows.extend(self.part(part, || njs::figure_8b(work, scale))?);
        }
        if self.has_part("njs-9") {
            let (rows, plot) = njs::figure_9(self.scale(FIGURE_9_SCALE), settings)?;
            section.rows.extend(rows);
            section.plots.push(("papers-njs-9a.svg", plot));
        }
        section.rows.extend(self.part("njs-10", || njs::figure_10(settings))?);
        section.rows.extend(self.part("njs-11", || njs::figure_11(settings))?);
        Ok(section)
    }

    fn hasfs(&self) -> Result<Section, Failure> {
        let mut section = Section::new(
            "hasfs",
            HASFS,
            "- One cache as large as the slots has what was read and what was written, by last \
             use. So the journal's own clean slots are off: they would count the same blocks \
             twice.\n\
             - Room is made by ticks beside the threads, from seven eighths on, in batches of \
             128 MB at k = 1.\n\
             - Figures 7 to 10: a run takes 30 s, and ours fills its 14 GB to less than three \
             quarters in them. So nothing of ours goes to the disk, and \"larger than the NVM\" \
             never \
             comes to be. What the rows compare is a write into a slot with a write-back cache. \
             Runs \
             of figures 11 and 12 end after 150 s at k = 16, where some have not filled the \
             journal \
             four times.\n\
             - HDD, webserver: the threads read, and nothing differs. Webproxy also reads for \
             most of the time. Why it gains was not looked into.\n\
             - HasFS 8, sequential: 16 pages take 302 us of our host: 9 us, and for each page \
             5.5 us of the processor and 64 lines of 200 ns. So there are 3,310 writes a second \
             at most, and 3,279 come out. Without a journal 2.4 GB fit under the dirty limit, \
             and the rest goes to the drive at 150 MB/s, which was chosen with this figure in \
             view: 3,450 in 30 s. The row \"a thread empties\" has the sign: there a thread beside \
             the writer moves the buffer into slots, which the paper may mean.\n\
             - Varmail beside a journal of 1 GB in memory: in the run that was specified, the \
             threads stand still for that journal's checkpoints most of the time. The paper says \
             that they are rare, so its run must end before. The rows \"short\" end earlier. On \
             the \
             HDD the two are then nearly level, since both wait for reads. They have no band.\n\
             - Table 4: the band is that of all that an open writes home. The paper writes pages \
             home and leaves metadata out. On the HDD ours writes the pages alone in 0.1 to 0.3 \
             of its time, since they are sorted. Webproxy deletes a file of 8 blocks for each 4 \
             pages. Some 20,000 of its 23,505 blocks of metadata are such blocks: after a crash \
             the home of a discarded block is written anew before the discard is forgotten.\n",
        );
        let (scale, short) = (self.scale(OF_HASFS), self.scale(OF_SHORT));
        let small = self.scale(AT_PAPERS_SIZE);
        let parts = [
            self.part("hasfs-micro", || hasfs::figures_7_to_10(scale, small))?,
            self.part("hasfs-macro", || hasfs::figures_11_and_12(scale))?,
            self.part("hasfs-short", || hasfs::short_varmail(short))?,
            self.part("hasfs-recovery", || hasfs::table_4(scale))?,
        ];
        section.rows = parts.concat();
        Ok(section)
    }
}

/// Ten runs of three workloads each.
const FIGURE_13_SCALE: u64 = 1;
const FIGURE_9_SCALE: u64 = 1;

const WITHOUT_TRACES: &str =
    "**Not run**: the rows on traces need a folder of them (`--traces`).\n";

/// One figure of each paper and the gates that need no large run, at a coarse scale, in bands twice
/// as wide.
///
/// # Errors
/// Those of the journals.
pub fn quick_rows(scale: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = gates::rows(scale)?;
    rows.extend(hasfs::tables_1_and_2(scale)?);
    // A quarter of the journal holds few files at k = 64.
    rows.extend(njs::figure_1(scale.min(OF_HASFS))?);
    rows.extend(fgm::figure_2(scale)?);
    rows.extend(hasfs::figure_7_random(scale)?);
    rows.extend(fgm::writefsync_alone(scale)?);
    // Ours gains by one sorted sweep. At k = 64 the drive's cache has eight requests, and no order
    // to choose from: + 13.9 %. At the papers' size it is + 39 %, and the band is from + 30 % on.
    rows.extend(njs::random_alone(scale.min(OF_HASFS))?);
    // The shield alone takes 256 KiB of the 16 MB.
    rows.extend(small::overwrites_of(&small::QUICK_OVERWRITES, scale.min(8))?);
    rows.extend(small::on_sample()?);
    Ok(rows.into_iter().map(Row::widened).collect())
}

/// The titles, in their order.
const TITLES: [&str; 9] = [GATES, TWO_LEVEL, DELTA, FGM, NJS, HASFS, SENSITIVITY, TODAY, TRUST];

/// The page of some sections.
pub fn page(sections: &[Section]) -> String {
    let mut page = String::new();
    for section in sections {
        let _ = writeln!(page, "\n## {}\n\n{}", section.title, section.text);
        if !section.rows.is_empty() {
            page.push_str(Row::HEAD);
            section.rows.iter().for_each(|row| page.push_str(&row.line()));
        }
        page.push_str(&section.tail);
        for (name, plot) in &section.plots {
            let _ = writeln!(page, "\n![{}](plots/{name})", plot.title);
        }
    }
    let _ = write!(page, "\n## {TRUST}\n\n{TRUST_TEXT}");
    format!("{HEAD}{}{page}", counted(&page))
}

/// A page, with what only an older one has.
pub fn with_older(page: &str, results: &Path) -> Result<String, Failure> {
    Ok(match results.exists() {
        true => merged(&std::fs::read_to_string(results)?, page, &TITLES),
        false => page.to_owned(),
    })
}

/// Between these lines the README has what the command says.
const ADVICE: [&str; 2] = ["<!-- by the command papers -->\n", "<!-- end -->\n"];

/// Puts what the sections advise into the README.
///
/// # Errors
/// Those of the file; and if it has no place for it.
pub fn advise(sections: &[Section], readme: &Path) -> Result<(), Failure> {
    let text = std::fs::read_to_string(readme)?;
    let [begin, end] = ADVICE.map(|line| text.find(line));
    let (Some(begin), Some(end)) = (begin, end) else {
        return Err("the README has no place for advice".into());
    };
    let advice: String = sections.iter().map(|section| section.advice.as_str()).collect();
    let (before, after) = (&text[..begin + ADVICE[0].len()], &text[end..]);
    Ok(std::fs::write(readme, format!("{before}\n{advice}\n{after}"))?)
}

/// Writes the page, and the plots into a folder beside it. What only the older page has stays, if
/// not all of it is anew.
///
/// # Errors
/// Those of the files.
pub fn write(sections: &[Section], results: &Path, is_whole: bool) -> Result<(), Failure> {
    let folder = results.parent().unwrap_or_else(|| Path::new(".")).join("plots");
    std::fs::create_dir_all(&folder)?;
    for (name, plot) in sections.iter().flat_map(|section| &section.plots) {
        std::fs::write(folder.join(name), plot.svg())?;
    }
    let page = page(sections);
    let page = if is_whole { page } else { with_older(&page, results)? };
    Ok(std::fs::write(results, page)?)
}
