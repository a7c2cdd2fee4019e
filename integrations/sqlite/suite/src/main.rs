//! Runs SQLite's own suite with every database in a journal.
//!
//! ```sh
//! cargo run --release --manifest-path integrations/sqlite/suite/Cargo.toml -- --budget 1200
//! ```
//!
//! It fetches Debian's source package of SQLite by `apt-get source` from the mirror that this
//! machine uses, builds `testfixture` and the other test programs with the VFS as the default one,
//! and runs first what is about atomic batches, and then the list `veryquick`, one file at a time.
//! A later run goes on where the budget, in seconds, ended the last one. A run that its budget has
//! ended fails, and names the files that are left. It wants the packages
//! `gcc`, `make`, `tcl-dev` and `zlib1g-dev`, and root, because it runs the suite as `nobody`.
//!
//! A test that fails is run once more without the VFS. If it fails there as well, it says nothing
//! of the VFS. All others have to be in `known.txt`, each with its reason.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]

mod build;
mod known;
mod results;
mod run;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use build::Built;
use known::Known;
use results::Results;

/// What the command line says.
pub(crate) struct Settings {
    /// Where sources, programs and results are kept.
    pub(crate) work: PathBuf,
    /// When to begin no further test.
    pub(crate) end: Instant,
    /// Which files, by the beginnings of their names; empty: all of them.
    pub(crate) only: Vec<String>,
    /// Whether what has a result is run again.
    pub(crate) is_again: bool,
}

fn settings() -> Result<Settings, Box<dyn Error>> {
    let mut budget = Duration::from_secs(1200);
    let mut settings = Settings {
        work: std::env::temp_dir().join("nvm-journal-sqlite-suite"),
        end: Instant::now(),
        only: Vec::new(),
        is_again: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
        match argument.as_str() {
            "--budget" => budget = Duration::from_secs(value()?.parse()?),
            "--work" => settings.work = value()?.into(),
            "--again" => settings.is_again = true,
            name if !name.starts_with('-') => settings.only.push(argument),
            _ => return Err(format!("no such argument: {argument}").into()),
        }
    }
    std::fs::create_dir_all(&settings.work)?;
    settings.end = Instant::now() + budget;
    Ok(settings)
}

fn all() -> Result<bool, Box<dyn Error>> {
    let settings = settings()?;
    let built = Built::of(&settings.work)?;
    let known = Known::read()?;
    let mut results = Results::read(&settings.work)?;
    if settings.only.is_empty() {
        run::programs(&settings, &built, &mut results)?;
    }
    let files = run::files(&built)?;
    let is_wanted = |file: &&String| {
        settings.only.is_empty()
            || settings.only.iter().any(|name| file.starts_with(name.as_str()))
    };
    let files: Vec<&String> = files.iter().filter(is_wanted).collect();
    for (at, file) in files.iter().copied().enumerate() {
        if results.has(file) && !settings.is_again {
            continue;
        }
        if Instant::now() >= settings.end {
            println!("the budget is used up; the next run goes on at {file}");
            break;
        }
        let result = run::file(&built, file)?;
        println!("{:4}/{} {}", at + 1, files.len(), result.line(&known));
        results.add(result)?;
    }
    if files.is_empty() {
        return Err("no file of the suite has such a name".into());
    }
    Ok(results.tell(&known, &files))
}

fn main() -> ExitCode {
    match all() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("suite: {error}");
            ExitCode::FAILURE
        }
    }
}
