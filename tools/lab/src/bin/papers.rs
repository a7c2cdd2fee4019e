//! The papers' time figures, in virtual time, as `docs/PAPERS.md`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program reports")]

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use lab::engines::Failure;
use lab::papers::page::{self, Wanted};
use lab::papers::row::{Row, Verdict};

/// The papers' time figures, in virtual time.
#[derive(Parser)]
struct Arguments {
    /// Divides everything by this; without, each figure has a scale of its own.
    #[arg(long)]
    scale: Option<u64>,
    /// Only sections whose names begin like this: gates, two-level, delta, fgm, njs, hasfs,
    /// sensitivity, today. Or a part of one, as gates-hdd, gates-hasfs, gates-njs, gates-fgm,
    /// fgm-throughput, fgm-txninfo, njs-8, njs-9, njs-10, njs-11, hasfs-micro, hasfs-macro,
    /// hasfs-short and hasfs-recovery. Parts of these have names that go on: fgm-throughput-9a to
    /// -12a, and njs-8-sequential, -again, -random, -postmark, -fileserver and -varmail.
    #[arg(long)]
    figure: Option<String>,
    /// The gates and one figure of each paper, at a coarse scale, in bands twice as wide.
    #[arg(long)]
    quick: bool,
    /// The folder of the traces.
    #[arg(long)]
    traces: Option<PathBuf>,
    /// The page to write, with its plots beside it.
    #[arg(long)]
    results: Option<PathBuf>,
    /// Pages that earlier runs have printed: they are put into the page, and nothing is run.
    #[arg(long)]
    from: Vec<PathBuf>,
    /// The README, for the table of media of today.
    #[arg(long)]
    readme: Option<PathBuf>,
}

/// The scale of a quick run.
const QUICK_SCALE: u64 = 64;

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    if arguments.quick {
        let rows = page::quick_rows(arguments.scale.unwrap_or(QUICK_SCALE))?;
        print!("{}", Row::HEAD);
        rows.iter().for_each(|row| print!("{}", row.line()));
        let out = rows.iter().filter(|row| row.verdict() == Verdict::Out).count();
        return if out == 0 { Ok(()) } else { Err(format!("{out} rows are out").into()) };
    }
    if let (Some(results), false) = (&arguments.results, arguments.from.is_empty()) {
        for from in &arguments.from {
            let newer = fs::read_to_string(from)?;
            page::write(&newer, results, false)?;
        }
        return Ok(());
    }
    let figure = arguments.figure.as_deref();
    let traces = arguments.traces.as_deref();
    let sections = Wanted { scale: arguments.scale, figure, traces }.sections()?;
    if let Some(readme) = &arguments.readme {
        page::advise(&sections, readme)?;
    }
    let page = page::page(&sections);
    match &arguments.results {
        Some(results) => page::write(&page, results, figure.is_none())?,
        None => print!("{}", page::finished(&page).0),
    }
    Ok(())
}
