//! Programs of the core that are crashed: what they do, the damage that their media take, and the
//! bugs that have to be noticed.

pub mod damage;
pub mod delta;
pub mod format;
pub mod format_over;
pub mod lives;
pub mod mutants;
pub mod program;
