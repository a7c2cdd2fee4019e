//! The hot paths, for gungraun. `benches/counts/check` runs it and compares.

use gungraun::{
    Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use nvm_journal_counts::*;
use pmem_sys::NativeKernels;

type Deltas = Ready<nvm_journal::CompressedDelta<NativeKernels>>;

#[library_benchmark(setup = blocks, teardown = drop)]
#[bench::of_4_kib()]
fn commit_in_one_call(ready: Ready<nvm_journal::FullBlock>) -> Ready<nvm_journal::FullBlock> {
    commit_block(ready)
}

#[library_benchmark(teardown = drop)]
#[bench::of_8_blocks(blocks(), 8)]
#[bench::of_64_blocks(blocks(), 64)]
fn commit_at_once(
    ready: Ready<nvm_journal::FullBlock>,
    count: usize,
) -> Ready<nvm_journal::FullBlock> {
    commit_neighbours(ready, count)
}

#[library_benchmark(setup = blocks, teardown = drop)]
#[bench::of_4_kib()]
fn commit_in_steps(ready: Ready<nvm_journal::FullBlock>) -> Ready<nvm_journal::FullBlock> {
    commit_staged(ready)
}

#[library_benchmark(setup = objects, teardown = drop)]
#[bench::of_256_bytes()]
fn commit_of_an_object(ready: Ready<nvm_journal::ObjectLog>) -> Ready<nvm_journal::ObjectLog> {
    commit_object(ready)
}

#[library_benchmark(setup = deltas, teardown = drop)]
#[bench::of_256_bytes()]
fn commit_of_a_delta(ready: Deltas) -> Deltas {
    commit_delta(ready)
}

#[library_benchmark(setup = blocks, teardown = drop)]
#[bench::of_4_kib()]
fn read_from_the_cache(ready: Ready<nvm_journal::FullBlock>) -> Ready<nvm_journal::FullBlock> {
    read_cached(ready)
}

#[library_benchmark(setup = left_blocks, teardown = drop)]
#[bench::hundred_of_4_kib()]
fn scan_of_blocks(left: Left) -> Left {
    scan(left)
}

#[library_benchmark(setup = left_objects, teardown = drop)]
#[bench::hundred_of_256_bytes()]
fn scan_of_objects(left: Left) -> Left {
    scan(left)
}

library_benchmark_group!(
    name = hot_paths,
    benchmarks = [
        commit_in_one_call,
        commit_at_once,
        commit_in_steps,
        commit_of_an_object,
        commit_of_a_delta,
        read_from_the_cache,
        scan_of_blocks,
        scan_of_objects
    ]
);

main!(
    config = LibraryBenchmarkConfig::default()
        .tool(Callgrind::default().format([EventKind::Ir, EventKind::Dw])),
    library_benchmark_groups = hot_paths
);
