//! What a check costs on this machine, by each way that it has: `cargo bench --bench kernels`.
//!
//! The lengths are those that matter: a short record, a record of a few names, a block, a long
//! stream. The bytes are in the cache, like those of a record that was just encoded.

use core::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use journal_core::Kernels;
use pmem_sys::NativeKernels;

fn crc64(criterion: &mut Criterion) {
    let bytes: Vec<u8> = (0_u32..64 << 10).map(|index| index.to_le_bytes()[0]).collect();
    let mut group = criterion.benchmark_group("crc64");
    for len in [64, 100, 256, 4 << 10, 64 << 10] {
        let part = bytes.get(..len).unwrap_or_default();
        group.throughput(Throughput::Bytes(len as u64));
        for kernels in NativeKernels::supported() {
            group.bench_function(BenchmarkId::new(kernels.to_string(), len), |bencher| {
                bencher.iter(|| kernels.crc64(black_box(0), black_box(part)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, crc64);
criterion_main!(benches);
