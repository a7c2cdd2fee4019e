//! What rewrites of a block cost by how much of it differs, and what a running transaction saves by
//! how much it may name, as the page `SWEEPS.md` and its plots.
//!
//! Bytes and lines are counted on simulated memory; times are medians on plain memory.

pub mod gathered;
mod parts;
pub mod rewrites;
pub mod running;

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use crate::plot::Plot;

pub use parts::{BLOCK, BLOCKS, Kept, Numbers, Sweep};

/// Measures all of it, with the traces of a folder, and writes the page and its plots into
/// `folder`.
///
/// # Errors
/// What is wrong with a folder, or with a trace.
pub fn write(folder: &Path, traces: &Path) -> Result<(), Box<dyn Error>> {
    let plots = folder.join("plots");
    std::fs::create_dir_all(&plots)?;
    let mut page = String::from(
        "# Sweeps\n\nWritten by `cargo run --release -p lab --bin sweeps -- docs --traces \
         DIR`. Times are of the\nmachine that it ran on; bytes and lines are the same on all.\n",
    );
    let rewrites = rewrites::measure()?;
    page.push_str(&rewrites.page);
    for (name, plot) in rewrites.plots {
        save(&plots.join(name), &plot, &mut page)?;
    }
    let running = running::measure()?;
    page.push_str(&running.page);
    for (name, plot) in running.plots {
        save(&plots.join(name), &plot, &mut page)?;
    }
    page.push_str(&gathered::measure(traces)?);
    std::fs::write(folder.join("SWEEPS.md"), &page)?;
    println!("{page}");
    Ok(())
}

fn save(file: &Path, plot: &Plot, page: &mut String) -> Result<(), Box<dyn Error>> {
    std::fs::write(file, plot.svg())?;
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    writeln!(page, "\n![{}](plots/{name})", plot.title)?;
    Ok(())
}
