//! What the files of the suite came to, kept from run to run.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use crate::known::Known;

/// Tests that each file has at its end, also one that skips all of its own.
const NO_TESTS: u64 = 2;

/// What a file came to.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) file: String,
    pub(crate) tests: u64,
    pub(crate) seconds: f64,
    /// Tests that fail with the VFS alone.
    pub(crate) failed: Vec<String>,
    /// Tests that fail without the VFS as well.
    pub(crate) anyway: Vec<String>,
}

impl Outcome {
    /// The tests that fail and have no reason.
    fn unexplained(&self, known: &Known) -> Vec<&str> {
        let failed = self.failed.iter().map(String::as_str);
        failed.filter(|test| known.reason(&self.file, test).is_none()).collect()
    }

    pub(crate) fn line(&self, known: &Known) -> String {
        let Self { file, tests, seconds, failed, anyway } = self;
        let unexplained = self.unexplained(known);
        let mut line = format!("{file} ({seconds:.1} s): {tests} tests");
        if !failed.is_empty() || !anyway.is_empty() {
            line += &format!(
                ", {} failed, {} of them explained, and {} fail without the VFS as well",
                failed.len(),
                failed.len() - unexplained.len(),
                anyway.len()
            );
        }
        for test in unexplained {
            line += &format!("\n       UNEXPLAINED {test}");
        }
        line
    }

    fn to_text(&self) -> String {
        let Self { file, tests, seconds, failed, anyway } = self;
        format!("{file}\t{tests}\t{seconds}\t{}\t{}\n", failed.join(" "), anyway.join(" "))
    }

    fn of_text(line: &str) -> Option<Self> {
        let mut cells = line.split('\t');
        let mut cell = || cells.next();
        let (file, tests, seconds) = (cell()?, cell()?.parse().ok()?, cell()?.parse().ok()?);
        let words = |cell: &str| cell.split_whitespace().map(str::to_owned).collect();
        let (failed, anyway) = (words(cell()?), words(cell()?));
        Some(Self { file: file.to_owned(), tests, seconds, failed, anyway })
    }
}

/// What all files came to.
pub(crate) struct Results {
    all: BTreeMap<String, Outcome>,
    log: File,
}

impl Results {
    pub(crate) fn read(work: &Path) -> Result<Self, Box<dyn Error>> {
        let path = work.join("results.txt");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let outcomes = text.lines().filter_map(Outcome::of_text);
        let all = outcomes.map(|outcome| (outcome.file.clone(), outcome)).collect();
        let log = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { all, log })
    }

    pub(crate) fn has(&self, file: &str) -> bool {
        self.all.contains_key(file)
    }

    pub(crate) fn add(&mut self, outcome: Outcome) -> Result<(), Box<dyn Error>> {
        self.log.write_all(outcome.to_text().as_bytes())?;
        self.all.insert(outcome.file.clone(), outcome);
        Ok(())
    }

    /// Prints the sums; returns whether all these files ran, nothing is unexplained, and atomic
    /// batches were tested.
    pub(crate) fn tell(&self, known: &Known, files: &[&String]) -> bool {
        let all = || self.all.values();
        let failed: usize = all().map(|outcome| outcome.failed.len()).sum();
        let unexplained: usize = all().map(|outcome| outcome.unexplained(known).len()).sum();
        let anyway: usize = all().map(|outcome| outcome.anyway.len()).sum();
        let tests: u64 = all().map(|outcome| outcome.tests).sum();
        let seconds: f64 = all().map(|outcome| outcome.seconds).sum();
        let left: Vec<_> = files.iter().filter(|file| !self.has(file)).collect();
        let ran = files.len() - left.len();
        println!("\n{ran} of {} files, {tests} tests, {seconds:.0} s", files.len());
        println!("passed:      {}", tests.saturating_sub((failed + anyway) as u64));
        println!("failed:      {unexplained}");
        println!("explained:   {}", failed - unexplained);
        println!("fail anyway: {anyway} (without the VFS as well)");
        for outcome in all() {
            for test in outcome.unexplained(known) {
                println!("  UNEXPLAINED {} {test}", outcome.file);
            }
        }
        for file in &left {
            println!("  NOT RUN {file}");
        }
        let skipped: Vec<_> = all()
            .filter(|outcome| outcome.file.ends_with(".test") && outcome.tests <= NO_TESTS)
            .collect();
        println!("skip all that they have: {} files", skipped.len());
        for outcome in skipped {
            println!("  SKIPS {} ({} tests)", outcome.file, outcome.tests);
        }
        // Where batches are not atomic, these files skip all that they have.
        let mut is_run = true;
        for file in ["atomic.test", "atomic2.test"] {
            if let Some(outcome) = self.all.get(file) {
                println!("{file}: {} tests", outcome.tests);
                is_run &= outcome.tests > NO_TESTS;
            }
        }
        left.is_empty() && unexplained == 0 && is_run
    }
}
