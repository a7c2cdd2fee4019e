//! How costs grow with one thing at a time. There are five: the blocks of a transaction, the
//! threads, the size of the journal, the dirty blocks, and the changes behind a block.
//!
//! `cargo bench --bench growth` prints a table for each curve (`-- --quick` for short ones). `--
//! --plots FOLDER` also writes each as SVG. Each row has its limit in the same rounds. Criterion
//! has no part in this: a curve is read as a whole, and compares rows of the same rounds. The other
//! benches follow single calls.
//!
//! The medium is plain memory, and the device throws everything away, except where blocks are read.
//! Emptying lanes is not timed.
#![allow(clippy::print_stdout, reason = "a bench prints its tables")]
#![allow(clippy::std_instead_of_core, reason = "a program")]

mod blocks;
mod chain;
mod check;
mod curves;
mod dirty;
mod emptied;
mod size;
mod threads;

use std::path::{Path, PathBuf};

use lab::bench::media::Nowhere;
use lab::bench::work::images;
use lab::bench::{Asked, print_load, print_machine};
use lab::plot::Plot;
use pmem_sys::NativeKernels;

const MIB: u64 = 1 << 20;
/// Bytes of a change of less than a block.
const OBJECT_BYTES: usize = 256;
/// Blocks of the device.
const BLOCKS: u64 = 1 << 16;
const NOWHERE: Nowhere = Nowhere { blocks: BLOCKS };

/// A function that measures and prints a curve.
type Measure = fn(&[u8], Asked) -> Plot;

/// The curves by the names of their files.
const CURVES: [(&str, Measure); 6] = [
    ("blocks", blocks::print),
    ("threads", threads::print),
    ("size", size::print_commits),
    ("open", size::print_opens),
    ("dirty", dirty::print),
    ("chain", chain::print),
];

fn main() {
    let asked = Asked::of_arguments();
    if asked == Asked::List {
        CURVES.iter().for_each(|(name, _)| println!("growth/{name}: benchmark"));
        return;
    }
    if asked == Asked::Try {
        check::try_out();
    }
    let folder = plots_folder();
    print_machine();
    println!("medium: plain memory, blocks of 4 KiB, objects of {OBJECT_BYTES} bytes");
    println!("checks: {}\n", NativeKernels::detect());
    let images = images();
    for (name, measure) in CURVES {
        let plot = measure(&images, asked);
        let svg = plot.svg();
        check::hold(&plot, &svg);
        if let Some(folder) = &folder {
            save(folder, name, &svg);
        }
    }
    print_load("after");
}

/// The folder for plots, if they are wanted.
fn plots_folder() -> Option<PathBuf> {
    let mut arguments = std::env::args_os().skip_while(|argument| argument != "--plots");
    arguments.next()?;
    let folder = arguments.next().filter(|folder| !folder.to_string_lossy().starts_with("--"));
    Some(folder.expect("a folder behind --plots").into())
}

fn save(folder: &Path, name: &str, svg: &str) {
    std::fs::create_dir_all(folder).expect("a folder");
    let file = folder.join(format!("{name}.svg"));
    std::fs::write(&file, svg).expect("writes");
    println!("written: {}\n", file.display());
}
