//! Any lives of a journal: each byte of the input is a choice of `lab::core_crash::lives`. Which
//! policy it has and what its lanes are, what is done with it, which call of its media fails, where
//! a process is killed, where the power goes and what is kept then. Whatever is chosen, each life
//! shows what it may after the one before, and all that is read in it is what was written.

#![no_main]

use lab::core_crash::lives;
use libfuzzer_sys::fuzz_target;
use sim_disk::generate::Source;

fuzz_target!(|bytes: &[u8]| {
    let choices = bytes.iter().map(|byte| u64::from(*byte)).collect();
    lives::long_life(&mut Source::replay(choices)).unwrap_or_else(|what| panic!("{what}"));
});
