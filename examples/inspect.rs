//! Tells what is in a journal without opening it. Nothing is stored, flushed or fenced: the journal
//! of a killed process stays as it was left.
//!
//! ```sh
//! cargo run --example inspect -- FILE [frames]
//! ```
//!
//! `FILE` is the journal's memory. With `frames` it lists every block of every record. It ends with
//! what an open would say, and with an exit code that is not zero where an open would refuse it.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use core::error::Error;
use core::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use journal_core::units::LaneNumber;
use journal_core::{EXAMINE_BYTES_MAX, examine, examine_frames};
use nvm_journal::MapOptions;
use nvm_journal::ports::NativeKernels;

/// What an examination says, in lines, and whether an open would find a journal.
fn inspect(path: &Path, with_frames: bool) -> Result<(String, bool), Box<dyn Error>> {
    // Mapped as an open would map it: a journal that a process has open is refused.
    let memory = MapOptions::new().open(path)?;
    let mut scratch = vec![0; EXAMINE_BYTES_MAX];
    let kernels = NativeKernels::detect();
    let seen = examine(&memory, &kernels, &mut scratch)?;
    let mut told = String::new();
    // 1. How it is laid out, and for what.
    let geometry = &seen.geometry;
    writeln!(told, "policy {}, a disk of {} blocks", seen.policy, seen.device_blocks)?;
    writeln!(told, "{geometry:?}")?;
    // 2. Its superblock, of which there are two copies.
    writeln!(told, "epoch {:?}, generation {:?}", seen.epoch, seen.generation)?;
    for (at, state) in &seen.copies {
        writeln!(told, "  copy at {}: {state:?}", at.0)?;
    }
    if let Some(intent) = &seen.intent {
        writeln!(told, "shield: {intent:?}")?;
    }
    // 3. Its lanes, each with the rule by which it ends.
    for (number, lane) in (0..).zip(seen.lanes()) {
        let used = lane.tail - lane.head;
        writeln!(told, "lane {number}: {} records in {used} bytes", lane.records)?;
        writeln!(told, "  of them {} that an open would make durable", lane.found)?;
        writeln!(told, "  it ends by {:?}; records behind: {}", lane.row, lane.records_behind)?;
        if with_frames {
            let mut lines = String::new();
            let lane = LaneNumber(number);
            examine_frames(&memory, &kernels, &mut scratch, &seen, lane, |frame| {
                let (record, block) = (frame.sequence.raw(), frame.block.raw());
                let (form, bytes) = (frame.form, frame.len);
                lines += &format!("  record {record}: block {block}, {form:?} of {bytes} bytes\n");
            })?;
            told += &lines;
        }
    }
    // 4. What an open would say.
    match &seen.verdict {
        Ok(recovery) => writeln!(told, "it opens: {recovery:?}")?,
        Err(error) => writeln!(told, "it does not open: {error}")?,
    }
    Ok((told, seen.verdict.is_ok()))
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (Some(path), what) = (args.next(), args.next()) else {
        println!("inspect FILE [frames]");
        return ExitCode::FAILURE;
    };
    match inspect(Path::new(&path), what.is_some_and(|what| what == "frames")) {
        Ok((told, opens)) => {
            print!("{told}");
            if opens { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            println!("{}: {error}", path.to_string_lossy());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use nvm_journal::{BlockNumber, BlockSize, FileDisk, Journal, Options};

    use super::*;

    #[test]
    fn a_journal_is_told_as_it_was_left() -> Result<(), Box<dyn Error>> {
        let folder = std::env::temp_dir().join(format!("inspect-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let path = folder.join("nvm");
        let disk = FileDisk::create(folder.join("disk"), BlockSize::DEFAULT, 64)?;
        let memory = MapOptions::new().create(&path, 1 << 20)?;
        let journal = Journal::format(memory, disk, &Options::new().lanes(1))?;
        for _ in 0..3 {
            journal.transact(|tx| tx.write(BlockNumber(7), &[7; 4096]))?;
        }
        drop(journal);
        let before = std::fs::read(&path)?;
        let (told, opens) = inspect(&path, true)?;
        assert!(opens && told.contains("lane 0: 3 records"), "{told}");
        assert_eq!(told.matches(": block 7, Image of 4096 bytes").count(), 3, "{told}");
        assert_eq!(std::fs::read(&path)?, before, "nothing has changed");
        // Both copies of the superblock are lost.
        let mut lost = before;
        lost[..8192].fill(0);
        std::fs::write(&path, &lost)?;
        assert!(inspect(&path, false).is_err());
        std::fs::remove_dir_all(folder)?;
        Ok(())
    }
}
