//! What the forms cost in which policies log a change of a block: bytes, and time in both
//! directions.
//!
//! `cargo bench --bench codec` prints tables for each kind of change (`-- --quick` for short ones).
//! Then it runs criterion over the forms at one of the kinds. Blocks have 4 KiB of bytes without a
//! pattern, so only what did not change can be left out. There are 64 pairs of each kind, more than
//! the nearest cache holds. The time of an encoder includes finding what changed. Times are
//! compared with a copy of the block.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::std_instead_of_core, reason = "a program")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use journal_core::{Kernels, PortableKernels};
use lab::bench::media::Aligned;
use lab::bench::{Effort, Table, print_load, print_machine, timed};
use pmem_sys::NativeKernels;
use policy_codec::bitmap::{self, Unit};
use policy_codec::lzo::{self, LzoTable};
use policy_codec::moves::{self, MovesTable};
use policy_codec::{Changed, runs, scratch, xor};

const BLOCK_BYTES: usize = 4096;
const WORD_BYTES: usize = 8;
const PAIRS: usize = 64;

/// What the forms are compared with: a copy of a block from where the new images lie.
const COPY: &str = "copy of the block";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if !has("--list") {
        let milliseconds = Duration::from_millis;
        let effort = if !has("--bench") {
            // Started by `cargo test`, which only asks whether it runs.
            Effort { rounds: 1, batch: milliseconds(1) / 100 }
        } else if has("--quick") {
            Effort { rounds: 15, batch: milliseconds(1) / 5 }
        } else {
            Effort { rounds: 101, batch: milliseconds(2) / 5 }
        };
        print_machine();
        println!("comparison of words: {}\n", NativeKernels::detect().changed_words_by());
        for change in CHANGES {
            let images = images(&change);
            print_form_tables(&change, &pairs(&images), effort);
        }
        print_load("after");
    }
    let mut criterion = Criterion::default().configure_from_args();
    forms(&mut criterion);
    criterion.final_summary();
}

/// A kind of change.
struct Change {
    name: &'static str,
    make: fn(&mut Noise, &mut Vec<u8>),
}

const CHANGES: [Change; 7] = [
    Change { name: "1 % in one run", make: |noise, block| change_run(noise, block, 41) },
    Change { name: "10 % in one run", make: |noise, block| change_run(noise, block, 410) },
    Change { name: "1 % of words", make: |noise, block| change_words(noise, block, 5) },
    Change { name: "5 % of words", make: |noise, block| change_words(noise, block, 26) },
    Change { name: "10 % of words", make: |noise, block| change_words(noise, block, 51) },
    Change { name: "25 % of words", make: |noise, block| change_words(noise, block, 128) },
    Change { name: "20 bytes put in", make: put_in },
];

/// Random numbers; the seed is fixed.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: usize) -> usize {
        // Xorshift: any generator will do.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) as usize % end
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

fn change_run(noise: &mut Noise, block: &mut Vec<u8>, count: usize) {
    let at = noise.below(BLOCK_BYTES - count);
    let bytes = noise.bytes(count);
    block.splice(at..at + count, bytes);
}

fn change_words(noise: &mut Noise, block: &mut Vec<u8>, count: usize) {
    let mut words: Vec<usize> = (0..BLOCK_BYTES / WORD_BYTES).collect();
    for _ in 0..count {
        let word = words.swap_remove(noise.below(words.len()));
        let bytes = noise.bytes(WORD_BYTES);
        block.splice(word * WORD_BYTES..(word + 1) * WORD_BYTES, bytes);
    }
}

fn put_in(noise: &mut Noise, block: &mut Vec<u8>) {
    let at = noise.below(BLOCK_BYTES / 2);
    let bytes = noise.bytes(20);
    block.splice(at..at, bytes);
    block.truncate(BLOCK_BYTES);
}

/// An old image and the new one.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// The images of all pairs, one after the other.
fn images(change: &Change) -> Aligned {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let pair = |_| {
        let old = noise.bytes(BLOCK_BYTES);
        let mut new = old.clone();
        (change.make)(&mut noise, &mut new);
        [old, new]
    };
    (0..PAIRS).flat_map(pair).flatten().collect()
}

fn pairs(images: &[u8]) -> Vec<Pair<'_>> {
    images.chunks(2 * BLOCK_BYTES).map(|pair| pair.split_at(BLOCK_BYTES)).collect()
}

/// A way to log a change.
#[derive(Clone, Copy)]
struct Form {
    name: &'static str,
    encode: fn(&mut Tables, Pair<'_>, &mut [u8]) -> Option<usize>,
    /// Turns a block with the old image into the new one.
    apply: fn(&[u8], &mut [u8]) -> bool,
}

/// What encoders need beside both images.
struct Tables {
    native: NativeKernels,
    lzo: LzoTable,
    moves: MovesTable,
}

impl Tables {
    fn new() -> Self {
        let native = NativeKernels::detect();
        Self { native, lzo: LzoTable::new(), moves: MovesTable::new() }
    }
}

fn encode_runs(kernels: &impl Kernels, (old, new): Pair<'_>, out: &mut [u8]) -> Option<usize> {
    runs::encode(&Changed::between(kernels, old, new)?, Some(old), new, out).ok()
}

fn encode_bitmap(
    kernels: &impl Kernels,
    unit: Unit,
    (old, new): Pair<'_>,
    out: &mut [u8],
) -> Option<usize> {
    bitmap::encode(&Changed::between(kernels, old, new)?, unit, new, out).ok()
}

const FORMS: [Form; 8] = [
    Form {
        name: "runs",
        encode: |tables, pair, out| encode_runs(&tables.native, pair, out),
        apply: |payload, block| runs::apply(payload, block).is_ok(),
    },
    Form {
        name: "runs of whole words",
        encode: |tables, (old, new), out| {
            runs::encode(&Changed::between(&tables.native, old, new)?, None, new, out).ok()
        },
        apply: |payload, block| runs::apply(payload, block).is_ok(),
    },
    Form {
        name: "runs, portable",
        encode: |_, pair, out| encode_runs(&PortableKernels, pair, out),
        apply: |payload, block| runs::apply(payload, block).is_ok(),
    },
    Form {
        name: "bitmap of words",
        encode: |tables, pair, out| encode_bitmap(&tables.native, Unit::WORD, pair, out),
        apply: |payload, block| bitmap::apply(payload, Unit::WORD, block).is_ok(),
    },
    Form {
        name: "bitmap of words, portable",
        encode: |_, pair, out| encode_bitmap(&PortableKernels, Unit::WORD, pair, out),
        apply: |payload, block| bitmap::apply(payload, Unit::WORD, block).is_ok(),
    },
    Form {
        name: "bitmap of 128 bytes",
        encode: |tables, pair, out| encode_bitmap(&tables.native, Unit::SUB_BLOCK, pair, out),
        apply: |payload, block| bitmap::apply(payload, Unit::SUB_BLOCK, block).is_ok(),
    },
    Form {
        name: "XOR and LZO",
        encode: |tables, (old, new), out| {
            scratch::with(new.len(), |both| {
                xor::into(old, new, both).ok()?;
                lzo::encode(both, &mut tables.lzo, out).ok()
            })?
        },
        apply: |payload, block| {
            let applied = scratch::with(block.len(), |both| {
                lzo::decode(payload, both).is_ok() && xor::in_place(block, both).is_ok()
            });
            applied == Some(true)
        },
    },
    Form {
        name: "moves",
        encode: |tables, (old, new), out| moves::encode(old, new, &mut tables.moves, out).ok(),
        apply: |payload, block| moves::apply(payload, block).is_ok(),
    },
];

/// The payloads of all pairs, each applied once.
fn payloads(form: &Form, pairs: &[Pair<'_>]) -> Vec<Vec<u8>> {
    let (mut tables, mut out) = (Tables::new(), room());
    let payload = |pair: &Pair<'_>| {
        let len = (form.encode)(&mut tables, *pair, &mut out).expect("room for any form");
        let payload = out[..len].to_vec();
        let mut block = pair.0.to_vec();
        assert!((form.apply)(&payload, &mut block) && block == pair.1, "{}", form.name);
        payload
    };
    pairs.iter().map(payload).collect()
}

/// Blocks with the old images, one after the other.
fn olds(pairs: &[Pair<'_>]) -> Aligned {
    pairs.iter().flat_map(|(old, _)| old.iter().copied()).collect()
}

fn block(blocks: &mut Aligned, index: usize) -> &mut [u8] {
    &mut blocks[index * BLOCK_BYTES..][..BLOCK_BYTES]
}

fn room() -> Vec<u8> {
    vec![0; 2 * BLOCK_BYTES]
}

fn print_form_tables(change: &Change, pairs: &[Pair<'_>], effort: Effort) {
    let (mut encode, mut decode) = (Table::new("encode"), Table::new("decode into a block"));
    println!("# {}", change.name);
    for table in [&mut encode, &mut decode] {
        let mut block = room();
        table.row(COPY, COPY, 1, None, move |count| {
            timed(count, |index| {
                let (_, new) = black_box(pairs[index as usize % PAIRS]);
                black_box(&mut block)[..BLOCK_BYTES].copy_from_slice(new);
            })
        });
    }
    for form in FORMS {
        let payloads = payloads(&form, pairs);
        let bytes: usize = payloads.iter().map(Vec::len).sum();
        println!("{:<28} {:>6} bytes", form.name, bytes.div_ceil(PAIRS));
        let (mut tables, mut out) = (Tables::new(), room());
        encode.row(form.name, COPY, 1, None, move |count| {
            timed(count, |index| {
                let pair = black_box(pairs[index as usize % PAIRS]);
                black_box((form.encode)(&mut tables, pair, &mut out));
            })
        });
        let mut blocks = olds(pairs);
        decode.row(form.name, COPY, 1, None, move |count| {
            timed(count, |index| {
                let index = index as usize % PAIRS;
                black_box((form.apply)(black_box(&payloads[index]), block(&mut blocks, index)));
            })
        });
    }
    encode.print(effort);
    decode.print(effort);
}

/// The forms at one kind of change.
fn forms(criterion: &mut Criterion) {
    let images = images(&CHANGES[3]);
    let pairs = pairs(&images);
    for (name, decodes) in [("encode", false), ("decode", true)] {
        let mut group = criterion.benchmark_group(format!("codec {name}, {}", CHANGES[3].name));
        group.throughput(Throughput::Bytes(BLOCK_BYTES as u64));
        for form in FORMS {
            let payloads = payloads(&form, &pairs);
            let (mut tables, mut out, mut turn) = (Tables::new(), room(), 0);
            let mut blocks = olds(&pairs);
            group.bench_function(BenchmarkId::new(form.name, BLOCK_BYTES), |bencher| {
                bencher.iter(|| {
                    turn = (turn + 1) % PAIRS;
                    if decodes {
                        (form.apply)(black_box(&payloads[turn]), block(&mut blocks, turn))
                    } else {
                        (form.encode)(&mut tables, black_box(pairs[turn]), &mut out).is_some()
                    }
                });
            });
        }
        group.finish();
    }
}
