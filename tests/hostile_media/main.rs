//! Media that lie: whatever the bytes are, opening a journal ends, soon, with a typed error or with
//! a journal that shows what it may show.
//!
//! Two oracles that share no code with the crate say what that is: what was done to a journal of
//! known content (`rot`, `faults`), and a second reader made from FORMAT.md, which has to say the
//! same of any bytes at all (`examine`). An audit finds damage that was done to a journal under way
//! (`audit`).

#![forbid(unsafe_code)]

mod audit;
mod faults;
mod forged;
mod noise;
mod requests;
mod rot;
mod scans;
mod sights;
mod slots;
mod tails;
mod unresolved;
mod wraps;
