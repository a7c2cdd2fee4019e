//! All rows as a page, `PAPERS.md`, and its plots.

use std::fmt::Write as _;
use std::path::Path;

use crate::engines::Failure;
use crate::papers::explain::{
    self, DELTA, FGM, GATES, HASFS, NJS, SENSITIVITY, TITLES, TODAY, TRUST, TWO_LEVEL,
};
use crate::papers::figures::njs::{Work, Write};
use crate::papers::figures::small::Folder;
use crate::papers::figures::{fgm, gates, hasfs, njs, overwrite, sensitivity, small, today};
use crate::papers::merge::{Part, counted, merged, parts};
use crate::papers::plots::{self, FGM_13, FGM_14, NJS_9A, table_of_curves};
use crate::papers::row::Row;
use crate::plot::Plot;

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
    pub rows: Vec<Row>,
    /// Text behind the rows.
    tail: String,
    /// What the README says of it.
    advice: String,
}

impl Section {
    const fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title, rows: Vec::new(), tail: String::new(), advice: String::new() }
    }
}

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
            let mut section = Section::new("sensitivity", SENSITIVITY);
            section.tail = sensitivity::table(self.scale(OF_HASFS), self.scale(OF_FGM_VARIED))?;
            sections.push(section);
        }
        if self.has("today") {
            let mut section = Section::new("today", TODAY);
            (section.tail, section.advice) = today::tables(self.scale)?;
            sections.push(section);
        }
        Ok(sections)
    }

    fn gates(&self) -> Result<Section, Failure> {
        let mut section = Section::new("gates", GATES);
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
        let mut section = Section::new("two-level", TWO_LEVEL);
        let folder = self.traces.map(Folder);
        if let Some(folder) = &folder {
            section.rows = small::mobibench(folder)?;
        }
        let (rows, table) = small::generated_mobibench(folder.as_ref())?;
        section.rows.extend(rows);
        section.tail = table;
        match &folder {
            Some(folder) => section.rows.extend(small::filebench(folder)?),
            None => section.tail.push_str(WITHOUT_TRACES),
        }
        Ok(section)
    }

    fn delta(&self) -> Result<Section, Failure> {
        let mut section = Section::new("delta", DELTA);
        section.rows = small::overwrites(self.scale(AT_PAPERS_SIZE))?;
        let folder = self.traces.map(Folder);
        match &folder {
            Some(folder) => section.rows.extend(small::tpcc(folder)?),
            None => section.tail = WITHOUT_TRACES.to_owned(),
        }
        let (rows, table) = small::generated_tpcc(folder.as_ref())?;
        section.rows.extend(rows);
        section.tail.push_str(&table);
        Ok(section)
    }

    fn fgm(&self) -> Result<Section, Failure> {
        let mut section = Section::new("fgm", FGM);
        let scale = self.scale(AT_PAPERS_SIZE);
        section.rows = fgm::figures_9_to_12(scale, |figure| {
            self.has_part(&figure.replace("FGM ", "fgm-throughput-"))
        })?;
        if !self.has_part("fgm-txninfo") {
            return Ok(section);
        }
        let (rows, [speeds, commits]) = fgm::figure_13(self.scale(FIGURE_13_SCALE), scale)?;
        section.rows.extend(rows);
        let steps = fgm::SIZES.map(|bytes| match bytes {
            0..1024 => format!("{bytes} B"),
            _ => format!("{} K", bytes >> 10),
        });
        section.tail = table_of_curves(FGM_13, &steps, &speeds);
        section.tail.push_str(&table_of_curves(FGM_14, &steps, &commits));
        Ok(section)
    }

    fn njs(&self) -> Result<Section, Failure> {
        let mut section = Section::new("njs", NJS);
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
            let (rows, curves) = njs::figure_9(self.scale(FIGURE_9_SCALE), settings)?;
            section.rows.extend(rows);
            let steps = njs::DIFFERENCES.map(|percent| format!("{percent} %"));
            section.tail = table_of_curves(NJS_9A, &steps, &curves);
        }
        section.rows.extend(self.part("njs-10", || njs::figure_10(settings))?);
        section.rows.extend(self.part("njs-11", || njs::figure_11(settings))?);
        Ok(section)
    }

    fn hasfs(&self) -> Result<Section, Failure> {
        let mut section = Section::new("hasfs", HASFS);
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
    rows.extend(small::overwrites_of(&small::QUICK_OVERWRITES, scale.min(overwrite::SCALE_MAX))?);
    rows.extend(small::on_sample()?);
    Ok(rows.into_iter().map(Row::widened).collect())
}

/// The page of some sections.
pub fn page(sections: &[Section]) -> String {
    let mut page = String::new();
    for section in sections {
        let _ = writeln!(page, "\n## {}\n", section.title);
        if !section.rows.is_empty() {
            page.push_str(Row::HEAD);
            section.rows.iter().for_each(|row| page.push_str(&row.line()));
        }
        page.push_str(&section.tail);
    }
    let _ = write!(page, "\n## {TRUST}\n");
    format!("{HEAD}{}{page}", counted(&page))
}

/// A page with the text of each section, and links to its plots. The numbers in the text are those
/// of the page's rows, and so are the points of the plots, which are returned by their files.
pub fn finished(page: &str) -> (String, Vec<(&'static str, Plot)>) {
    let head = page.split("\n## ").next().unwrap_or_default().trim_end();
    let (mut whole, mut plots) = (format!("{head}\n"), Vec::new());
    for Part { title, lines } in parts(page) {
        let is_behind = |line: &str| line.starts_with('|') || line.starts_with("**Not run**");
        let first = lines.iter().position(|line| is_behind(line)).unwrap_or(lines.len());
        let behind = lines[first..].iter().filter(|line| !line.starts_with("!["));
        let behind = behind.copied().collect::<Vec<_>>().join("\n");
        let text = explain::text(title, page);
        let _ = write!(whole, "\n## {title}\n\n{text}");
        if !behind.is_empty() {
            let _ = write!(whole, "\n{}\n", behind.trim_end());
        }
        for (file, plot) in plots::of_section(title, &lines) {
            let _ = write!(whole, "\n![{}](plots/{file})\n", plot.title);
            plots.push((file, plot));
        }
    }
    (whole, plots)
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

/// Writes a page and its plots, which go into a folder beside it. What only the older page has
/// stays, unless the page is whole.
///
/// # Errors
/// Those of the files.
pub fn write(page: &str, results: &Path, is_whole: bool) -> Result<(), Failure> {
    let folder = results.parent().unwrap_or_else(|| Path::new(".")).join("plots");
    std::fs::create_dir_all(&folder)?;
    let page = if is_whole { page.to_owned() } else { with_older(page, results)? };
    let (page, plots) = finished(&page);
    for (name, plot) in plots {
        std::fs::write(folder.join(name), plot.svg())?;
    }
    Ok(std::fs::write(results, page)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::row::{Band, Unit};

    #[test]
    fn a_finished_page_stays_as_it_is() {
        let mut section = Section::new("fgm", FGM);
        section.rows = vec![Row {
            figure: "FGM 11a",
            compared: "writefsync 4 KB x 32: / ordered in NVM".to_owned(),
            paper: "2.8 x",
            ours: 1.5,
            unit: Unit::Times,
            band: Band::Printed,
            scale: 1,
            why: String::new(),
        }];
        let steps = ["1 K".to_owned()];
        section.tail = table_of_curves(FGM_13, &steps, &[("mail".to_owned(), vec![4.0])]);
        let (page, made) = finished(&page(&[section]));
        let files: Vec<_> = made.iter().map(|(file, _)| *file).collect();
        assert_eq!(files, ["papers-fgm-11.svg", "papers-fgm-13.svg"]);
        for file in files {
            assert_eq!(page.matches(&format!("(plots/{file})")).count(), 1, "{page}");
        }
        assert!(page.contains("- FGM 11a: the drive writes 128 KB in 0.87 ms"), "{page}");
        assert_eq!(finished(&page).0, page);
        // A figure that is run again takes the old one's place, in the text too.
        let newer = page.replace("1.50 x", "1.75 x");
        let merged = merged(&page, &newer, &TITLES);
        assert_eq!(finished(&merged).0, newer);
    }
}
