//! The time figures of the papers, in virtual time: the journal behind its front door on timed
//! media, beside block journals on timed disks. All of it runs in one thread of the operating
//! system.
//!
//! | file | what |
//! |---|---|
//! | `row`, `page`, `merge` | a figure beside ours, and the page of all figures |
//! | `explain`, `plots` | what the page says of its rows, and what it draws of them |
//! | `gates` | the drives alone |
//! | `small`, `traces`, `overwrite` | two-level logging and delta journaling, on a memory card |
//! | `fgm`, `njs`, `hasfs` | the rows of the three file systems |
//! | `case`, `loads` | a machine, and what its threads do |
//! | `setup` | what a run is made with, and what it came to |
//! | `world` | the event loop: threads, commits, write-back, and what each waits for |
//! | `fs`, `cache`, `data` | a tiny file system, the host's page cache, and what files hold |
//! | `generators` | Mobibench and TPC-C as traces that are made |
//! | `store` | what keeps the blocks: no journal, a block journal, or the journal in memory |
//! | `media`, `policy`, `host` | media, policies whose encoding takes time, and constants |
//! | `sensitivity`, `today` | other parameters, and media that can be bought |

pub mod explain;
pub mod figures;
pub mod files;
pub mod generators;
pub mod host;
pub mod media;
pub mod merge;
pub mod page;
pub mod plots;
pub mod policy;
pub mod row;
pub mod store;
pub mod traces;

/// Bytes of a block, in every figure.
pub const BLOCK: usize = 4096;
