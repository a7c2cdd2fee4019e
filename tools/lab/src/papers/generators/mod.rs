//! Programs on a phone as generators: a small database under a small file system that journals
//! data. Each is deterministic by seed, and makes a trace, so whatever runs a real trace runs it.
//!
//! | file | what |
//! |---|---|
//! | `slotted` | a page of cells, laid out as SQLite does |
//! | `database` | trees of such pages, and which of them a transaction changes |
//! | `phone` | the commits that a transaction of SQLite with a rollback journal makes |
//! | `mobibench`, `tpcc` | the two workloads |
//! | `form` | what a trace looks like: a generator beside the real one |

pub mod database;
pub mod form;
pub mod mobibench;
pub mod phone;
pub mod slotted;
pub mod tpcc;
