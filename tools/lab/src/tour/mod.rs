//! A tour of the journal: what it does, what a killed process leaves, and what a power cut may.
//!
//! `cargo run --release -p lab --bin tour [-- --dir FOLDER] [--seconds N] [--kills N]`
//!
//! It ends with an error if any transaction was lost or torn.

pub mod kills;
pub mod load;
pub mod power;
pub mod show;
mod stop;
pub mod work;

use core::error::Error;
use core::time::Duration;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
pub use stop::{Place, Verdict};
use work::{Model, THREADS};

/// A tour of the journal.
#[derive(Parser)]
struct Arguments {
    /// Where its two files go; a temporary folder if it is not given.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// About how long the first two stops take.
    #[arg(long, value_name = "N", default_value = "20", value_parser = seconds)]
    seconds: Duration,
    /// How many kills at least are to hit a record while it is stored; it goes on for them.
    #[arg(long, value_name = "N", default_value_t = 3)]
    kills: u64,
    /// The process that is going to be killed: its folder, its run, and how far each thread is.
    #[arg(long, hide = true, num_args = 2.., allow_hyphen_values = true)]
    child: Vec<String>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| format!("{text} is no number"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// The program, with the arguments of the process.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done =
        if arguments.child.is_empty() { tour(arguments) } else { as_child(&arguments.child) };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tour: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The part of the process that is going to be killed.
fn as_child(words: &[String]) -> Result<bool, Box<dyn Error>> {
    let [folder, run, before @ ..] = words else { return Err("not for people".into()) };
    let before = before.iter().map(|word| word.parse()).collect::<Result<Vec<u64>, _>>()?;
    kills::child(&Place::new(folder.into()), run.parse()?, &before)?;
    Ok(true)
}

fn tour(arguments: Arguments) -> Result<bool, Box<dyn Error>> {
    let Arguments { dir: folder, seconds, kills, .. } = arguments;
    // Each of the first two stops takes half of it.
    let time = seconds / 2;
    let own = std::env::temp_dir().join(format!("nvm-journal-tour-{}", std::process::id()));
    let place = Place::new(folder.clone().unwrap_or(own));
    std::fs::create_dir_all(&place.folder)?;
    let is_good = stops(&place, time, kills);
    if !matches!(is_good, Ok(true)) {
        println!("The files are still there: {}", place.folder.display());
        return is_good;
    }
    std::fs::remove_file(&place.nvm)?;
    std::fs::remove_file(&place.disk)?;
    if folder.is_none() {
        std::fs::remove_dir(&place.folder)?;
    }
    println!("\nEvery acknowledged transaction was there, whole; none was there in part.");
    Ok(true)
}

/// The three stops; returns whether all is well.
fn stops(place: &Place, time: Duration, kills: u64) -> Result<bool, Box<dyn Error>> {
    let mut models: Vec<_> = (0..THREADS).map(Model::new).collect();
    println!("1. Two threads commit: one block, several, some discarded, some deferred.");
    let load = load::load(place, &mut models, time)?;
    println!("\n2. Processes are killed while they commit, and what they left is recovered.");
    let killed = kills::kills(place, &mut models, kills, time)?;
    println!(
        "\n3. A killed process tears nothing it has stored; a power cut does, in a simulator."
    );
    let cut = power::power()?;
    let is_bad = load.is_bad() || killed.is_bad() || cut.is_bad();
    if is_bad {
        println!("\nSOMETHING WAS LOST OR TORN: {load:?} {killed:?} {cut:?}");
    }
    Ok(!is_bad)
}
