//! Any bytes as the whole span, as they are or with every check in them made right: a journal on
//! them is examined, opened, read, checkpointed and opened again, which ends, soon, without a
//! panic, and says what a second reader, made from FORMAT.md alone, says.

#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use sim_disk::{DiskImage, Image};

use lab::second_reader::Shape;
use lab::second_reader::examine::{examine, go_on};
use lab::second_reader::forge::seal_span;
use lab::second_reader::tiny::shapes;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// What it is opened with.
    shape: u8,
    sealed: bool,
    span: &'a [u8],
}

static SHAPES: LazyLock<Vec<(Shape, DiskImage)>> = LazyLock::new(|| {
    let with_disk = |shape: Shape| (shape, shape.format().disk(0).clone());
    shapes().map(with_disk).into()
});

fuzz_target!(|input: Input<'_>| {
    let (shape, disk) = &SHAPES[usize::from(input.shape) % SHAPES.len()];
    // Memory comes in whole lines.
    let mut span = input.span.to_vec();
    span.truncate(span.len() / 64 * 64);
    if input.sealed {
        seal_span(&mut span);
    }
    let image = Image::from_pmem(span).with_disk(disk.clone());
    let result = examine(shape, &image).and_then(|outcome| go_on(shape, &outcome));
    result.unwrap_or_else(|what| panic!("{what}"));
});
