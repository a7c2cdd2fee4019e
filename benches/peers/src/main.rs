//! This journal and other libraries, which do the same work in one run.
//!
//! ```text
//! apt-get install libpmem-dev libpmemlog-dev libpmemobj-dev
//! PMEM_IS_PMEM_FORCE=1 cargo run --release --manifest-path benches/peers/Cargo.toml -- --bench
//! ```
//!
//! `--quick` after `--bench` makes it short. The *limit* of a row is to store or stream the same
//! bytes, and to fence. The column "to best" is the ratio to the fastest atomic row. Atomic means
//! that after a crash the transaction is wholly there or not at all.
//!
//! Everything lies in memory. Files are in `/dev/shm`, where a sync costs a system call and no
//! more. The journal is in anonymous memory, which has the same lines and the same flushes. Peers
//! that index what they hold (SQLite, redb) do more than a log does. `libpmemlog`, `pwrite` and
//! `pmem_memcpy_persist` do less: they have no checksum, and the last two are not atomic.
#![deny(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its tables")]

mod ffi;
mod peers;

use std::path::Path;
use std::process::ExitCode;

use lab::bench::media::Folder;
use lab::bench::work::images;
use lab::bench::{Asked, print_load, print_machine};

fn main() -> ExitCode {
    if std::env::var_os("PMEM_IS_PMEM_FORCE").is_none_or(|value| value != "1") {
        eprintln!("set PMEM_IS_PMEM_FORCE=1: without it libpmem calls msync for each persist");
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
