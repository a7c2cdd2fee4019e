//! The papers' figures of updates, as `docs/FIGURES.md`:
//! `cargo run --release -p lab --bin figures -- [--results FOLDER] FILE.btrc.zst...`

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program reports")]

use std::fs::File;
use std::path::PathBuf;

use clap::Parser;
use lab::engines::Failure;
use lab::figures::{counted, page};
use lab::trace::Trace;

/// What the papers say of updates, beside what real traces say.
#[derive(Parser)]
struct Arguments {
    /// Also writes the page there, as FIGURES.md.
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// The traces.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let mut traces = Vec::new();
    for file in &arguments.files {
        eprintln!("{}", file.display());
        let in_file = |error: Failure| format!("{}: {error}", file.display());
        let source = File::open(file)?;
        let mut trace = Trace::open(source).map_err(|error| in_file(error.into()))?;
        traces.push(counted(&mut trace).map_err(in_file)?);
    }
    let text = page::page(&traces);
    print!("{text}");
    if let Some(results) = &arguments.results {
        std::fs::create_dir_all(results)?;
        std::fs::write(results.join("FIGURES.md"), text)?;
    }
    Ok(())
}
