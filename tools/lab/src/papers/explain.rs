//! What the page says of its figures. No number stands in these texts: each is put in where the
//! text has its name in braces, from the constants that the runs are made with, or from the page's
//! rows. A point whose rows the page does not have is left out.

use std::collections::BTreeMap;

use sim_disk::time::{HddModel, MemoryModel, SsdModel};

use crate::papers::BLOCK;
use crate::papers::figures::{fgm, hasfs, njs, overwrite, today};
use crate::papers::host::{self, BATCH_NS, COMMIT_AFTER_NS, Host, OLD_NS, WAITS_PERCENT};
use crate::papers::media::{self, BATCH_BLOCKS};
use crate::papers::row::{PrintedRow, number_in};

pub const GATES: &str = "Gates: the baselines among themselves";
pub const TWO_LEVEL: &str = "Two-level logging: a memory card and PRAM";
pub const DELTA: &str = "Delta journaling: a memory card and NVRAM";
pub const FGM: &str = "FGM: objects of metadata in an NVDIMM";
pub const NJS: &str = "NJS: versions of blocks in NVM";
pub const HASFS: &str = "HasFS: slots in NVM as the page cache";
pub const SENSITIVITY: &str = "Sensitivity";
pub const TODAY: &str = "Media of today";
pub const TRUST: &str = "How far to trust this page";

/// The titles, in their order.
pub const TITLES: [&str; 9] = [GATES, TWO_LEVEL, DELTA, FGM, NJS, HASFS, SENSITIVITY, TODAY, TRUST];

/// Points of a section, one behind the other. One that begins with `- ` is a point of a list.
type Text = (&'static str, &'static [&'static str]);

const TEXTS: [Text; 9] = [
    (
        GATES,
        &[
            "No figure of a policy counts where a gate of its baselines is out.",
            "- HasFS Table 2, ordered and writeback: what fits under the dirty limit \
             ({dirty_percent} % of memory, {dirty_blocks} blocks at k = {one}) is nearly all that \
             is written in {micro_seconds} s. The drive adds some {random_a_second} blocks a \
             second. So no stall of the drive can show here, and the paper's must have another \
             cause.",
            "- An fsync without a journal ends when the drive has taken the blocks, in the \
             kernels of NJS ({kernel_njs}) and FGM ({kernel_fgm}). That of HasFS ({kernel_hasfs}) \
             flushes the drive's cache.",
            "- The kernel of FGM leaves the directory of a new file out of that fsync: \
             {kernel_directory} writes it. It flushes nothing behind a checkpoint of a journal \
             inside the file system: {kernel_flush} does.",
            "- In data mode an fsync is a synchronous handle of jbd2. It keeps a young \
             transaction open for as long as a commit takes on average, {batch_ms} ms at most. \
             Other threads join: on the HDD of NJS {fsyncs_a_commit} fsyncs of varmail share a \
             commit.",
            "- NJS 1, varmail, RAM disk / HDD: with the RAM disk the threads stand still for \
             checkpoints in {ram_still} of {ram_seconds} s, which is {ram_still_ms} ms an \
             operation. On the HDD that is {hdd_still_ms} ms. The {hdd_commits} commits there \
             take {hdd_commit_ms} ms an operation more: {hdd_each_ms} ms each, of two syncs and \
             the wait for others.",
            "- NJS 1, varmail: the paper's RAM disk is {paper_ram_behind} % behind none, and ours \
             is {ram_behind} %.",
            "- FGM 2a, varmail: the paper has a second disk for the journal where it compares \
             with memory, and so has the gate. But no reading of the figure has both of its \
             numbers here. Beside none, ours has {fgm_one_disk} % with one disk and \
             {fgm_two_disks} % with two, since a sweep writes inodes that none writes one by one. \
             Both times the drive of the homes is busy all the time.",
        ],
    ),
    (
        TWO_LEVEL,
        &[
            "SQLite's processor time is what makes the baseline as fast as the paper's. The \
             baseline is the one that was specified: one log takes data and node blocks. The \
             paper's is F2FS, which has a log for each (Lee and others, FAST {f2fs_year}): the \
             row beside it has two.",
            "The rows \"the generator\" are of Mobibench that is made: a small database under a \
             small file system. They show that the figure is not that of one trace. The table \
             behind the rows says how near the generator comes to the trace.",
        ],
    ),
    (
        DELTA,
        &[
            "The paper gives no transactions a minute for TPC-C: the row says at how much \
             processor time a commit ours is as far ahead as the paper's. The rows \"the \
             generator\" are of TPC-C that is made, page by page.",
            "- delta, overwrite: as in the paper, all that is committed goes home when little of \
             the NVM is free. The paper gives no figure for that: here it is less than an eighth, \
             and two rows have other parts. It also makes checkpoints by a timer, which is left \
             out. A difference takes {delta_bytes} bytes: that is the paper's mean of TPC-C, and \
             it gives none of the overwrites.",
            "- In the row \"room as we make it\" the library's own rule writes as few blocks home \
             as room is needed for.",
        ],
    ),
    (
        FGM,
        &[
            "- The disk of the homes is not synced before a commit elsewhere. This is an \
             assumption about the kernel, and the paper's own figure 11a is the only evidence for \
             it. With such a sync both would wait for a turn of that disk at each fsync. So at \
             most three times could come out of its {paper_11a}. The rows \"data is synced\" have \
             the sync.",
            "- With that sync FGM 9a is {synced_disk} beside a second disk, and {synced_nvm} \
             beside a journal in NVM.",
            "- The rows \"two and a tail word\" are the same policy with the usual protocol: a \
             record, a fence, a tail pointer, a fence. Where each fsync waits for a disk, \
             {fence_ns} ns of another fence are nothing.",
            "- FGM 11a: the drive writes {fsync_kb} KB in {fsync_ms} ms, and the journal on a \
             second disk waits for two turns, {two_turns_ms} ms. A run takes {writefsync_seconds} \
             s, as filebench's do that say nothing, and the file begins anew at {writefsync_gb} \
             GB. In a run that ends with the first time it is full, the drive's cache of \
             {hdd_cache_mb} MB holds {cache_percent} % of all that was written.",
            "- FGM 11a on NVM: a few blocks copied into DRAM are microseconds of each fsync, so \
             there is nothing to win.",
            "- A checkpoint goes through the shield, {fgm_shield} blocks at a time with a sync \
             behind each. The row \"no block is ever torn\" has none.",
            "- The index has room for all frames of the ring. By the default of `Options` it is \
             full long before the ring is, and checkpoints come more often.",
            "- FGM 12a, postmark of the larger set: the ring holds changes of nearly all inode \
             blocks, so each goes home once in a sweep. That is more than the paper's gain.",
            "- FGM 13, varmail: an fsync commits long before a TxnInfo is full.",
            "- FGM 13, postmark: ours gains with the TxnInfo until the timer commits before it is \
             full, and is level from there on. The paper loses beyond its best size, by what a \
             larger TxnInfo takes of the memory. Ours has no list that is longer than what it \
             names.",
            "- FGM 14: where the scale is coarser, the timer ({timer_seconds} s / k) commits \
             before the longest list is full.",
        ],
    ),
    (
        NJS,
        &[
            "- \"Stands still\": a tick before each commit acts on the policy's thresholds, at \
             three quarters as in the paper, and every thread waits for it. \"In the \
             background\": such ticks beside the threads.",
            "- Appends go home inside the commit, with one sync for each record. A record has \
             their names alone, so the running transaction takes in as many as it may change.",
            "- NJS 8b, fileserver and postmark: the drive is busy all the time, and an operation \
             of fileserver writes {files_ours} blocks to it by ours, and {files_there} by the \
             block journal. One of postmark writes {post_ours} and {post_there}. Ours puts what \
             is appended home at once, with each commit. The block journal has it in its ring \
             first, and never writes home what was deleted by then. Of what ours writes, what \
             checkpoints write is {checkpointed} % at most, so saving that gains little.",
            "- NJS 8a, re-write: both write the same {iozone_gb} GB to the same disk, which takes \
             most of the time. Where the threads stand still for checkpoints, ours is \
             {again_still}; in the background it is {again_beside}. The paper's gain would be \
             {again_needs} MB/s, and the drive writes {drive_mb} MB/s in order. So it takes a \
             faster drive, or an end that waits for less than all of the file.",
            "- The block journal writes no logged data home by age. That of Linux does, after \
             {old_seconds} s. When it was tried, random gained a little alone, and fileserver \
             lost. So the gain at random is by when the homes are written, and no more certain \
             than that.",
            "- Host: a page of data takes {logged_page_us} us more wherever it is logged, by ours \
             as by the block journal.",
            "- NJS 9a: the paper writes its file of {iozone_gb} GB again. No older version of its \
             data is left in {njs_mb} MB by then, so byte update has next to nothing to gain by, \
             and nothing to lose where all of a block differs. In the rows \"regions\" the \
             journal has them: {region_mb} MB are written three times before the next region. The \
             third pass is the first that finds an older version beside the newest, so a third of \
             the writes can gain. The paper does not write so, and these rows have no band.",
            "- NJS 10, the row without a delayed checkpoint: nothing is reclaimed ahead, and a \
             commit that finds no room writes the oldest blocks home, {oldest} at a time.",
        ],
    ),
    (
        HASFS,
        &[
            "- One cache as large as the slots has what was read and what was written, by last \
             use. So the journal's own clean slots are off: they would count the same blocks \
             twice.",
            "- Room is made by ticks beside the threads, from seven eighths on, in batches of \
             {batch_mb} MB at k = {one}.",
            "- HasFS 7 to 10: a run takes {micro_seconds} s, and ours fills its {slots_gb} GB to \
             less than three quarters in them. So nothing of ours goes to the disk, and \"larger \
             than the NVM\" never comes to be. What the rows compare is a write into a slot with \
             a write-back cache.",
            "- HasFS 11 and 12: a run ends after {longest_seconds} s / k. Some runs have \
             not filled the journal four times by then.",
            "- HDD, webserver: the threads read, and nothing differs. Webproxy also reads for \
             most of the time. Why it gains was not looked into.",
            "- HasFS 8, sequential: {seq_pages} pages take {seq_us} us of our host: \
             {operation_us} us, and for each page {page_us} us of the processor and {page_lines} \
             lines of {line_ns} ns. So there are {seq_most} writes a second at most, and \
             {seq_ours} come out. Without a journal {dirty_gb} GB fit under the dirty limit, and \
             the rest goes to the drive at {ssd_mb} MB/s, which was chosen with this figure in \
             view: {seq_none} a second. In the row \"a thread empties\" a thread beside the \
             writer moves the buffer into slots, which the paper may mean. It is {seq_beside} as \
             fast as none.",
            "- HasFS 11, varmail beside a journal in memory: in the run that was specified, the \
             threads stand still for that journal's checkpoints most of the time. The paper says \
             that they are rare, so its run must end before. The rows \"short\" end earlier. On \
             the HDD the two are then nearer, since both wait for reads. They have no band.",
            "- HasFS Table 4: the band is that of all that an open writes home. The paper writes \
             pages home and leaves metadata out. On the HDD ours writes the pages alone in \
             {pages_least} to {pages_most} s, since they are sorted.",
            "- HasFS Table 4, webproxy: it deletes a file of {proxy_file} blocks for each \
             {proxy_append} pages. So most of its {proxy_blocks} blocks of metadata are such \
             blocks: after a crash the home of a discarded block is written anew before the \
             discard is forgotten.",
        ],
    ),
    (
        SENSITIVITY,
        &[
            "Each parameter halved and doubled, all others as they are. Times faster than the \
             baseline.",
            "- HasFS 7, the turn and the seek: the figure is monotone in neither. Why was not \
             looked into.",
            "- HasFS 8: ours is bound by the processor and by the memory. Where a scattered write \
             costs half, the baseline is about as fast as ours, and the sign of the figure is \
             gone.",
            "- FGM 11a: the rate of the disk goes with its turn, so ours and the journal's wait \
             for turns both change with it.",
            "- NJS 8a: ours gains by the order in which a sweep writes home, so by what a seek \
             costs. At the papers' size it gains more than at a coarser scale.",
            "- NJS 8b: postmark and fileserver are below their bands with every parameter, and \
             varmail is in its own with each.",
            "- NJS 10: the figure keeps its sign, and is monotone in neither the turn nor the \
             seek.",
            "- FGM 10a: with a turn twice as long nearly nothing is gained. Why was not looked \
             into.",
            "- Two-level: the store that it is compared with writes more and syncs more often. \
             Where a byte is cheaper, or a command or a sync, the figure is below its band. \
             SQLite's processor time makes that store as fast as the paper's each time.",
        ],
    ),
    (
        TODAY,
        &[
            "All data goes through the journal of {today_mb} MB, which with FRAM is {fram_mb} MB. \
             There is no disk-side log unless the table says so, which is the default of \
             `Options`. Operations a second; the fastest is bold.",
            "- All policies make room from {reclaim} % of a lane on. Checkpoints run beside the \
             threads, so room that is made early makes nobody wait. At three quarters, which is \
             the default of most policies, the threads of *mail* wait for it.",
            "- `adaptive` is told how fast memory and disk are (`line_nanos`, `disk`; with NVMe \
             `home_nanos({nvme_home})`, since no commit waits there for a block that goes home), \
             and that appended data may go home (`appends_home`). With a log it puts data there \
             where that costs less (`bypasses`). The other policies have their defaults.",
            "- *mail*: varmail, with {mail_threads} threads, files of {mail_kb} KB and an fsync \
             after each append.",
            "- *pages*: one thread overwrites pages of a file of {pages_mb} MB at random. A tenth \
             of each page differs, in one run of bytes. An fsync comes after {pages_every} pages.",
            "`adaptive` is to be at most {behind_max} % behind the fastest. The second table says \
             what both take. Where all policies made room from one half on, by an earlier build, \
             `adaptive` was farther behind with FRAM: {half_pages} % at *pages*, and with a log \
             {half_mail_log} % at *mail* and {half_pages_log} % at *pages*. The share was chosen \
             after others had been tried.",
        ],
    ),
    (
        TRUST,
        &[
            "- Where the ring of a block journal lies, how warm the caches are, and what `none` \
             does at an fsync were settled while the gates were being looked at. Where the ring \
             lies alone moves some gates in and out of their bands.",
            "- Numbers in the text are computed from the rows, or are the constants of the runs. \
             Most figures are of one seed.",
            "- FGM 12a gains several times what the paper does, and is in its band, which has no \
             upper end. So do HasFS 9 and 10 beside data mode.",
            "- The generators were fitted to the form of the traces, and to no figure of a \
             policy.",
        ],
    ),
];

/// One side of what a row compares, by the counts that it prints.
struct SideOf<'a> {
    counts: &'a str,
    per_second: f64,
}

impl<'a> SideOf<'a> {
    /// Ours, and the other one.
    fn both(row: &PrintedRow<'a>) -> Option<[Self; 2]> {
        let (speeds, counts) = row.why.split_once("; ours ")?;
        let (ours, there) = counts.split_once("; there ")?;
        let (first, second) = speeds.strip_suffix(" /s")?.split_once(" against ")?;
        let [first, second] = [first, second].map(|speed| speed.parse().ok());
        Some([
            Self { counts: ours, per_second: first? },
            Self { counts: there, per_second: second? },
        ])
    }

    /// The number before some words.
    fn before(&self, words: &str) -> Option<f64> {
        let (head, _) = self.counts.split_once(words)?;
        head.rsplit(' ').next()?.parse().ok()
    }

    fn seconds(&self) -> Option<f64> {
        self.counts.split_once(" s,")?.0.parse().ok()
    }

    fn still(&self) -> Option<f64> {
        let (_, rest) = self.counts.split_once("stood still ")?;
        rest.split_once(' ')?.0.parse().ok()
    }

    fn operations(&self) -> Option<f64> {
        Some(self.per_second * self.seconds()?)
    }

    /// Blocks that went to the drive.
    fn blocks(&self) -> Option<f64> {
        let (_, rest) = self.counts.split_once(" writes of ")?;
        rest.split_once(' ')?.0.parse().ok()
    }

    /// Blocks that checkpoints wrote home.
    fn checkpointed(&self) -> Option<f64> {
        let (_, rest) = self.counts.split_once(" checkpoints of ")?;
        rest.split_once(' ')?.0.parse().ok()
    }
}

/// The numbers that texts have, by their names.
struct Facts<'a> {
    rows: Vec<PrintedRow<'a>>,
    values: BTreeMap<&'static str, String>,
}

const GB: f64 = (1 << 30) as f64;
const MB: f64 = (1 << 20) as f64;
/// Fsyncs of a round of varmail.
const VARMAIL_FSYNCS: f64 = 2.0;
/// What a write of IOzone takes.
const IOZONE_WRITE_BYTES: f64 = 65_536.0;
/// When the paper of F2FS appeared.
const F2FS_YEAR: u64 = 2015;

impl<'a> Facts<'a> {
    fn of(page: &'a str) -> Self {
        let rows = page.lines().filter_map(PrintedRow::parse).collect();
        let mut facts = Self { rows, values: BTreeMap::new() };
        facts.constants();
        facts.of_gates();
        facts.of_njs();
        facts.of_hasfs();
        facts
    }

    fn put(&mut self, name: &'static str, value: impl ToString) {
        self.values.insert(name, value.to_string());
    }

    /// A number with this many digits behind the point, where the page has what it is made of.
    fn put_number(&mut self, name: &'static str, digits: usize, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.put(name, format!("{value:.digits$}"));
        }
    }

    fn row(&self, name: &str) -> Option<&PrintedRow<'a>> {
        self.rows.iter().find(|row| row.is(name))
    }

    fn ours(&self, name: &str) -> Option<f64> {
        number_in(self.row(name)?.ours)
    }

    fn paper(&self, name: &str) -> Option<f64> {
        number_in(self.row(name)?.paper)
    }

    /// What the page has as ours, word for word.
    fn put_cell(&mut self, name: &'static str, row: &str) {
        if let Some(cell) = self.row(row).map(|row| row.ours) {
            self.put(name, cell);
        }
    }

    fn constants(&mut self) {
        let (hdd, ssd) = (HddModel::rpm_7200(), SsdModel::sata());
        let seconds = |nanos: u64| nanos / 1_000_000_000;
        let memory_blocks = hasfs::MEMORY_BYTES / BLOCK as u64;
        let dirty = memory_blocks * WAITS_PERCENT / 100;
        self.put("one", 1);
        self.put("f2fs_year", F2FS_YEAR);
        self.put("dirty_percent", WAITS_PERCENT);
        self.put("dirty_blocks", format!("{},000", (dirty + 500) / 1_000));
        self.put_number("dirty_gb", 1, Some((dirty * BLOCK as u64) as f64 / GB));
        self.put("micro_seconds", seconds(hasfs::RUN_NS));
        self.put("kernel_njs", host::KERNEL_NJS);
        self.put("kernel_fgm", host::KERNEL_FGM);
        self.put("kernel_hasfs", host::KERNEL_HASFS);
        self.put("kernel_directory", host::KERNEL_DIRECTORY);
        self.put("kernel_flush", host::KERNEL_FLUSH);
        self.put("batch_ms", BATCH_NS / 1_000_000);
        self.put("timer_seconds", seconds(COMMIT_AFTER_NS));
        self.put("old_seconds", seconds(OLD_NS));
        // FGM.
        self.put("fence_ns", MemoryModel::fgm().fence_ns);
        let blocks = fgm::WRITEFSYNC_EVERY;
        let turn_ms = hdd.revolution_ns as f64 / 1e6;
        self.put("fsync_kb", blocks * 4);
        let fsync_ms = turn_ms * (blocks * BLOCK as u64) as f64 / hdd.track_bytes as f64;
        self.put_number("fsync_ms", 2, Some(fsync_ms));
        self.put_number("two_turns_ms", 1, Some(2.0 * turn_ms));
        self.put("writefsync_seconds", seconds(fgm::WRITEFSYNC_NS));
        let file = (fgm::WRITEFSYNC_BLOCKS * BLOCK as u64) as f64;
        self.put_number("writefsync_gb", 0, Some(file / GB));
        let bytes_a_second = hdd.track_bytes as f64 * 1e9 / hdd.revolution_ns as f64;
        self.put_number("drive_mb", 0, Some(bytes_a_second / 1e6));
        for (name, percent) in today::BEHIND_AT_HALF {
            self.put_number(name, 1, Some(percent));
        }
        self.put_number("hdd_cache_mb", 0, Some(hdd.cache_bytes as f64 / MB));
        self.put_number("cache_percent", 0, Some(100.0 * hdd.cache_bytes as f64 / file));
        self.put("fgm_shield", media::shield_blocks(fgm::NVM_BYTES));
        // NJS.
        self.put("iozone_gb", njs::FILE_BLOCKS >> 18);
        self.put("njs_mb", njs::NVM_BYTES >> 20);
        self.put("region_mb", njs::REGION_BLOCKS >> 8);
        self.put("oldest", njs::OLDEST_BLOCKS);
        self.put("logged_page_us", Host::NJS.logged_page_ns / 1_000);
        // HasFS.
        let (host, memory) = (Host::HASFS, MemoryModel::hasfs());
        self.put("batch_mb", BATCH_BLOCKS >> 8);
        self.put("slots_gb", hasfs::NVM_BYTES >> 30);
        self.put("longest_seconds", seconds(host::LONGEST_RUNS * host::RUN_NS));
        let lines = BLOCK as u64 / memory.unit_bytes;
        let page_ns = host.page_ns + host.slot_page_ns;
        let pages = hasfs::SEQUENTIAL_BLOCKS;
        let write_ns = host.operation_ns + pages * (page_ns + lines * memory.unit_ns);
        self.put("seq_pages", pages);
        self.put("seq_us", (write_ns + 500) / 1_000);
        self.put("operation_us", host.operation_ns / 1_000);
        self.put_number("page_us", 1, Some(page_ns as f64 / 1e3));
        self.put("page_lines", lines);
        self.put("line_ns", memory.unit_ns);
        self.put("seq_most", 1_000_000_000 / write_ns);
        self.put("ssd_mb", ssd.write_bytes_per_second / 1_000_000);
        self.put("proxy_file", hasfs::WEBPROXY_BLOCKS);
        self.put("proxy_append", 4);
        // Media of today.
        self.put("today_mb", today::NVM_BYTES >> 20);
        self.put("fram_mb", (today::NVM_BYTES / today::OF_FRAM) >> 20);
        self.put_number("reclaim", 1, Some(f64::from(today::RECLAIM_AT) / 2.56));
        self.put("nvme_home", today::NVME_BESIDE.block_ns);
        self.put("delta_bytes", overwrite::DIFFERENCE_BYTES);
        self.put("mail_threads", today::MAIL_THREADS);
        self.put("mail_kb", 4 * today::MAIL_BLOCKS);
        self.put("pages_mb", today::PAGES_BLOCKS >> 8);
        self.put("pages_every", today::PAGES_EVERY);
        self.put("behind_max", today::BEHIND_MAX);
    }

    fn of_gates(&mut self) {
        let random_ms = self.ours("HDD alone|random 4 KiB in 8 GB, full queue");
        self.put_number("random_a_second", 0, random_ms.map(|ms| 1e3 / ms));
        let ram = "gate: NJS 1|varmail: RAM disk / HDD";
        let disk = "gate: NJS 1|varmail: data mode on HDD / none";
        let sides = |facts: &Self, name| facts.row(name).and_then(SideOf::both);
        if let (Some([ram, hdd]), Some([_, none])) = (sides(self, ram), sides(self, disk)) {
            let rounds = loads_rounds(&hdd);
            let commits = hdd.before(" commits");
            let share =
                rounds.zip(commits).map(|(rounds, commits)| rounds * VARMAIL_FSYNCS / commits);
            self.put_number("fsyncs_a_commit", 1, share);
            let each = |side: &SideOf<'_>| Some(1e3 * side.still()? / side.operations()?);
            self.put_number("ram_still", 0, ram.still());
            self.put_number("ram_seconds", 0, ram.seconds());
            self.put_number("ram_still_ms", 2, each(&ram));
            self.put_number("hdd_still_ms", 2, each(&hdd));
            self.put_number("hdd_commits", 0, commits);
            let more = each(&hdd).map(|still| 1e3 / hdd.per_second - still);
            self.put_number("hdd_commit_ms", 2, more);
            let of_each = more.zip(hdd.operations()).zip(commits);
            let of_each = of_each.map(|((ms, operations), commits)| ms * operations / commits);
            self.put_number("hdd_each_ms", 0, of_each);
            let behind = 100.0 * (1.0 - ram.per_second / none.per_second);
            self.put_number("ram_behind", 0, Some(behind));
        }
        let papers = self.paper(disk).zip(self.paper(ram));
        let behind = papers.map(|(disk, ram)| 100.0 - (100.0 + disk) * (100.0 + ram) / 100.0);
        self.put_number("paper_ram_behind", 0, behind);
        let fgm = |name| format!("gate: FGM 2a|varmail, appends of 4 KB: ordered on {name} / none");
        let signed = |value: f64| format!("{value:+.0}");
        if let Some(value) = self.ours(&fgm("HDD")) {
            self.put("fgm_one_disk", signed(value));
        }
        if let Some(value) = self.ours(&fgm("a second HDD")) {
            self.put("fgm_two_disks", signed(value));
        }
        let second = "ordered on a second disk";
        let of_11a = format!("FGM 11a|writefsync 4 KB x 32: / {second}");
        if let Some(paper) = self.row(&of_11a).map(|row| row.paper) {
            self.put("paper_11a", paper);
        }
        let of_9a = |other| format!("FGM 9a|varmail, appends of 4 KB: / {other}; data is synced");
        self.put_cell("synced_disk", &of_9a(second));
        self.put_cell("synced_nvm", &of_9a("ordered in NVM"));
    }

    fn of_njs(&mut self) {
        let mut checkpointed = Vec::new();
        for (work, ours, there) in
            [("fileserver", "files_ours", "files_there"), ("postmark", "post_ours", "post_there")]
        {
            let name = format!("NJS 8b|{work}; stands still");
            let Some(sides) = self.row(&name).and_then(SideOf::both) else { continue };
            let digits = if work == "fileserver" { 1 } else { 0 };
            for (name, side) in [ours, there].into_iter().zip(&sides) {
                let each = side.blocks().zip(side.operations()).map(|(some, all)| some / all);
                self.put_number(name, digits, each);
            }
            let share = sides[0].checkpointed().zip(sides[0].blocks());
            checkpointed.extend(share.map(|(some, all)| 100.0 * some / all));
        }
        if checkpointed.len() == 2 {
            let most = checkpointed.into_iter().fold(0.0, f64::max);
            self.put_number("checkpointed", 1, Some(most));
        }
        self.put_cell("again_still", "NJS 8a|IOzone, re-write; stands still");
        self.put_cell("again_beside", "NJS 8a|IOzone, re-write; in the background");
        let again = self.row("NJS 8a|IOzone, re-write; stands still").and_then(SideOf::both);
        let gain = self.paper("NJS 8a|IOzone, re-write; stands still");
        let needs = again.zip(gain).map(|([_, there], percent)| {
            there.per_second * (1.0 + percent / 100.0) * IOZONE_WRITE_BYTES / 1e6
        });
        self.put_number("again_needs", 0, needs);
    }

    fn of_hasfs(&mut self) {
        let sequential = "HasFS 8|SSD, 20 GB, sequential: / none";
        if let Some([ours, none]) = self.row(sequential).and_then(SideOf::both) {
            self.put_number("seq_ours", 0, Some(ours.per_second));
            self.put_number("seq_none", 0, Some(none.per_second));
        }
        self.put_cell("seq_beside", &format!("{sequential}; a thread empties"));
        let pages = ["fileserver", "webserver", "webproxy"].map(|work| {
            self.ours(&format!("HasFS Table 4|HDD, {work}: the {} pages alone", hasfs::PAGES))
        });
        let least = pages.iter().copied().flatten().reduce(f64::min);
        let most = pages.iter().copied().flatten().reduce(f64::max);
        self.put_number("pages_least", 2, least);
        self.put_number("pages_most", 2, most);
        let all = "HasFS Table 4|SSD, webproxy: an open that writes all home";
        let blocks = self.row(all).and_then(|row| {
            let (_, rest) = row.why.split_once(" s, ")?;
            rest.split_once(" blocks of metadata")?.0.parse().ok()
        });
        self.put_number("proxy_blocks", 0, blocks);
    }

    /// A point with its numbers; none where one is not there.
    fn filled(&self, point: &str) -> Option<String> {
        let mut parts = point.split('{');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}')?;
            text.push_str(self.values.get(name)?);
            text.push_str(rest);
        }
        Some(text)
    }
}

/// Rounds of varmail that a side has run.
fn loads_rounds(side: &SideOf<'_>) -> Option<f64> {
    let count = crate::papers::files::loads::VARMAIL_OPERATIONS as f64;
    side.operations().map(|operations| operations / count)
}

/// The text of a section, with the numbers of a page.
pub fn text(section: &str, page: &str) -> String {
    let facts = Facts::of(page);
    let points = TEXTS.iter().find(|(title, _)| *title == section).map_or(&[][..], |it| it.1);
    let filled: Vec<_> = points.iter().filter_map(|point| facts.filled(point)).collect();
    let mut text = String::new();
    let mut was_listed = true;
    for (at, point) in filled.iter().enumerate() {
        let is_listed = point.starts_with("- ");
        // A list stands apart from what is around it.
        if at > 0 && !(is_listed && was_listed) {
            text.push('\n');
        }
        text.push_str(point);
        text.push('\n');
        was_listed = is_listed;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words with a digit that names have: of figures, of file systems.
    const NAMES: [&str; 2] = ["jbd2", "F2FS"];
    const FIGURES: [&str; 8] = ["FGM", "NJS", "HasFS", "Table", "Figures", "figure", "to", "and"];

    /// Words of a point that have a digit, are in no braces, and name nothing.
    fn loose_numbers(point: &str) -> Vec<&str> {
        let words: Vec<_> = point.split_whitespace().collect();
        let is_loose = |at: &usize| {
            let word = words[*at];
            let outside = word.split('{').next().unwrap_or_default();
            let behind = word.rsplit('}').next().unwrap_or_default();
            let has_digit =
                [outside, behind].iter().any(|it| it.contains(|c: char| c.is_ascii_digit()));
            let is_figure = *at > 0 && FIGURES.contains(&words[at - 1]);
            has_digit && !NAMES.iter().any(|name| word.contains(name)) && !is_figure
        };
        (0..words.len()).filter(is_loose).map(|at| words[at]).collect()
    }

    #[test]
    fn no_text_has_a_number_of_its_own() {
        assert_eq!(loose_numbers("FGM 9a gains {a} of 15 s, {b}0 at 3.5"), ["15", "{b}0", "3.5"]);
        for (section, points) in TEXTS {
            for point in points {
                assert_eq!(loose_numbers(point), [""; 0], "{section}: {point}");
            }
        }
    }

    #[test]
    fn each_number_comes_from_the_page_or_is_a_constant() {
        // On an empty page the points of constants stand, and those of rows are left out.
        let constants = text(HASFS, "");
        assert!(constants.contains("ours fills its 14 GB"), "{constants}");
        assert!(!constants.contains("Table 4, webproxy") && !constants.contains('{'));
        let drive = "| HDD alone | random 4 KiB in 8 GB, full queue | - | 2.50 ms | - | in | 1 | |";
        let gates = text(GATES, drive);
        // 15 % of 16 GB are 629,145 blocks.
        assert!(gates.contains("629,000 blocks at k = 1") && gates.contains("some 400 blocks a"));
        let counts = |seconds: u64, still: f64| {
            format!(
                "{seconds} s, 100 commits, 5 writes of 700 blocks, 1 syncs, 0 reads, drive busy \
                 9 %, stood still {still:.1} s, journal filled 1.0 x"
            )
        };
        let row = |figure, compared, paper, why| {
            format!("| {figure} | {compared} | {paper} | +5.0 % | printed | - | 1 | `{why}` |\n")
        };
        let both = |first, second, ours: String, there: String| {
            format!("{first} against {second} /s; ours {ours}; there {there}")
        };
        let ram = both(130.0, 65.0, counts(10, 5.0), counts(20, 4.0));
        let disk = both(65.0, 260.0, counts(20, 4.0), counts(10, 0.0));
        let page = row("gate: NJS 1", "varmail: RAM disk / HDD", "+ 25 %", ram)
            + &row("gate: NJS 1", "varmail: data mode on HDD / none", "- 20 %", disk);
        let text = text(GATES, &page);
        // 1,300 operations are 100 rounds, and 200 fsyncs in 100 commits.
        assert!(text.contains("NJS 2.0 fsyncs of varmail share a commit"), "{text}");
        assert!(text.contains("in 5 of 10 s, which is 3.85 ms an operation"), "{text}");
        assert!(text.contains("is 0 % behind none, and ours is 50 %"), "{text}");
    }
}
