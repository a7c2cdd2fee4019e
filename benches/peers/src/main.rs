//! The same work done by this journal and by other libraries, in one run.
//!
//! ```text
//! apt-get install libpmem-dev libpmemlog-dev libpmemobj-dev
//! PMEM_IS_PMEM_FORCE=1 cargo run --release --manifest-path benches/peers/Cargo.toml -- --bench
//! ```
//!
//! `--quick` after `--bench` makes it short. The *limit* of a row is to store or stream as many
//! bytes and to fence; "to best" is the ratio to the fastest of those that make the whole of a
//! transaction durable, or nothing of it.
//!
//! Everything lies in memory: files in `/dev/shm`, where a sync costs a system call and no more,
//! and the journal in anonymous memory, which has the same lines and the same flushes. Peers with
//! an index of what they hold (SQLite, redb) do more than a log does; `libpmemlog`, `pwrite` and
//! `pmem_memcpy_persist` do less: no checksum, and the last two no atomicity.
#![deny(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its tables")]

mod ffi;
mod peers;
#[path = "../../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::ExitCode;

use support::media::Folder;
use support::work::images;
use support::{Asked, print_load, print_machine};

fn main() -> ExitCode {
    if std::env::var_os("PMEM_IS_PMEM_FORCE").is_none_or(|value| value != "1") {
        eprintln!("PMEM_IS_PMEM_FORCE=1 is to be set: libpmem would call msync for each persist");
        return ExitCode::FAILURE;
    }
    let asked = Asked::of_arguments();
    let folder = Folder::below(Path::new("/dev/shm"), "nvm-journal-peers");
    let images = images();
    print_machine();
    for (bytes, count) in [(256, 1), (4096, 1), (4096, 8)] {
        peers::table(folder.path(), &images, bytes, count).print(asked.effort());
    }
    print_load("after");
    ExitCode::SUCCESS
}
