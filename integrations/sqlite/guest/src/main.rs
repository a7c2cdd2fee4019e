//! Cuts the power of an emulated machine that writes to SQLite on the VFS.
//!
//! ```sh
//! cargo run --release --manifest-path integrations/sqlite/guest/Cargo.toml -- --cuts 100
//! cargo run --release --manifest-path integrations/sqlite/guest/Cargo.toml -- --plant
//! ```
//!
//! The machine is QEMU's, with Debian's kernel. The journal is a file on a file system with direct
//! access, mapped with `MAP_SYNC`; a mount that gets less is refused. The database is on a disk.
//! To cut the power, the emulator is killed: the machine's page cache is lost, and what the disk
//! was not told to make durable. The next boot finds what is left, checks all of it, and goes on.
//! Some cuts come in the middle of a recovery.
//!
//! What such a cut does **not** do is lose a line that was not flushed: the emulated memory has no
//! cache, and keeps each store in its order. The simulator loses those.
//!
//! With `--plant` the disk is not told to make anything durable, and the cuts have to show it.
//!
//! It wants the packages `qemu-system-x86`, `busybox-static`, `cpio`, `kmod`, `xz-utils` and
//! `e2fsprogs`, and fetches the kernel's package by `apt-get download` from the mirror that this
//! system uses.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]

mod image;
mod machine;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use image::Image;
use machine::{Ending, Machine, Seen};

/// What the command line says.
struct Settings {
    /// Where the kernel, the images and the memory are kept.
    work: PathBuf,
    cuts: u32,
    /// Seconds after which no further cut is begun.
    budget: u64,
    plants: bool,
    seed: u64,
}

impl Settings {
    fn of_arguments() -> Result<Self, Box<dyn Error>> {
        let mut settings = Self {
            work: std::env::temp_dir().join("nvm-journal-sqlite-guest"),
            cuts: 100,
            budget: 3600,
            plants: false,
            seed: 0x0C07_5EED,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
            match argument.as_str() {
                "--work" => settings.work = value()?.into(),
                "--cuts" => settings.cuts = value()?.parse()?,
                "--budget" => settings.budget = value()?.parse()?,
                "--seed" => settings.seed = value()?.parse()?,
                "--plant" => settings.plants = true,
                _ => return Err(format!("no such argument: {argument}").into()),
            }
        }
        std::fs::create_dir_all(&settings.work)?;
        settings.work = settings.work.canonicalize()?;
        Ok(settings)
    }
}

/// Numbers that look random and come again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What all cuts came to.
#[derive(Default)]
struct Sums {
    cuts: u32,
    in_recovery: u32,
    acknowledged: i64,
    checkpoints: u64,
}

/// Why the cuts have ended.
enum Ended {
    /// A boot behind a cut has said so, or has shown it.
    Lost(String),
    /// The machine or the host did not do what it should. This proves nothing of the cuts.
    Otherwise(Box<dyn Error>),
}

impl<E: Into<Box<dyn Error>>> From<E> for Ended {
    fn from(error: E) -> Self {
        Self::Otherwise(error.into())
    }
}

/// What a boot has shown against what was acknowledged before it. A machine that fails before the
/// first cut has lost nothing.
fn check(seen: &Seen, sums: &Sums) -> Result<(), Ended> {
    if let Some(failure) = &seen.failure {
        let failure = failure.clone();
        let is_lost = sums.cuts > 0 && !failure.starts_with("FAILED modprobe");
        return Err(if is_lost { Ended::Lost(failure) } else { failure.into() });
    }
    let acknowledged = sums.acknowledged;
    match seen.found {
        Some(found) if found < acknowledged => Err(Ended::Lost(format!(
            "transaction {acknowledged} was acknowledged, and {found} is the newest"
        ))),
        _ => Ok(()),
    }
}

/// Cuts the power again and again; returns why, once something is wrong.
fn cut(settings: &Settings, image: &Image, sums: &mut Sums) -> Result<(), Ended> {
    let start = Instant::now();
    let plant = if settings.plants { "no-disk-sync" } else { "none" };
    let machine = Machine { image, work: &settings.work, plant };
    machine.format()?;
    let mut dice = Dice(settings.seed | 1);
    while sums.cuts < settings.cuts && start.elapsed().as_secs() < settings.budget {
        // Each eighth cut comes while the database is opened, if the machine is that slow.
        let in_recovery = sums.cuts % 8 == 7;
        let ending = if in_recovery {
            Ending::BehindOpening(Duration::from_millis(dice.below(400)))
        } else {
            Ending::BehindFound(Duration::from_millis(200 + dice.below(2500)))
        };
        let seen = machine.run("run", ending)?;
        let newest = seen.found.into_iter().chain(seen.acknowledged).max();
        println!(
            "cut {:3}: found {}, acknowledged to {}, {} checkpoints, {:.1} s",
            sums.cuts + 1,
            seen.found.map_or("-".to_owned(), |found| found.to_string()),
            newest.map_or("-".to_owned(), |newest| newest.to_string()),
            seen.checkpoints,
            seen.seconds
        );
        check(&seen, sums)?;
        sums.cuts += 1;
        sums.in_recovery += u32::from(seen.found.is_none());
        sums.acknowledged = sums.acknowledged.max(newest.unwrap_or(0));
        sums.checkpoints += seen.checkpoints;
    }
    // The last boot closes the database, and reads it as a plain file.
    let seen = machine.run("end", Ending::Its(Duration::from_secs(120)))?;
    check(&seen, sums)?;
    if seen.closed.is_none() { Err("the database was not closed".into()) } else { Ok(()) }
}

fn all() -> Result<bool, Box<dyn Error>> {
    let settings = Settings::of_arguments()?;
    let image = Image::of(&settings.work)?;
    let mut sums = Sums::default();
    let done = cut(&settings, &image, &mut sums);
    println!(
        "{} cuts survived, {} of them before the database was open; {} transactions \
         acknowledged, {} checkpoints",
        sums.cuts, sums.in_recovery, sums.acknowledged, sums.checkpoints
    );
    match done {
        Ok(()) => {
            println!("nothing was lost");
            Ok(!settings.plants)
        }
        Err(Ended::Lost(what)) => {
            println!("the next boot says: {what}");
            Ok(settings.plants)
        }
        Err(Ended::Otherwise(error)) => Err(error),
    }
}

fn main() -> ExitCode {
    match all() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("power-cuts: {error}");
            ExitCode::FAILURE
        }
    }
}
