//! Writes `SWEEPS.md` and its plots: `cargo run --release -p lab --bin sweeps -- docs --traces DIR`.

#![forbid(unsafe_code)]

use core::error::Error;
use std::path::PathBuf;

use clap::Parser;

/// What rewrites of a block cost by how much of it differs, and what a running transaction saves.
#[derive(Parser)]
struct Arguments {
    /// Where `SWEEPS.md` goes, with the folder `plots`.
    folder: PathBuf,
    /// Where the traces are.
    #[arg(long)]
    traces: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { folder, traces } = Arguments::parse();
    lab::sweeps::write(&folder, &traces)
}
