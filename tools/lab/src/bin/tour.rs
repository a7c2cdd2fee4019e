//! A tour of the journal: what it does, what a killed process leaves, and what a power cut may.
//!
//! `cargo run --release -p lab --bin tour [-- --dir FOLDER] [--seconds N] [--kills N]`

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::tour::main()
}
