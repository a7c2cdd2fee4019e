//! Any medium: a journal whose numbers and bytes are anything, with its checks made right again
//! where that is possible. Examining, opening, reading, a checkpoint and another opening end, soon,
//! without a panic, and say what a second reader, made from FORMAT.md alone, says.

#![no_main]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use lab::second_reader::examine::{examine_without, go_on};
use lab::second_reader::images::{Sample, samples, slotted};
use libfuzzer_sys::fuzz_target;
use sim_disk::Image;

use lab::second_reader::forge::{Target, put, seal, seal_span, targets};

// Small, since speed finds more than size.
const EDITS_MAX: usize = 6;
const POISONED_MAX: usize = 2;

#[derive(Arbitrary, Debug)]
enum Edit<'a> {
    /// A field of a structure becomes this.
    Number { target: u16, value: u64 },
    /// It changes by this.
    Step { target: u16, by: i8 },
    /// Bytes of the span become these.
    Bytes { at: u16, bytes: &'a [u8] },
    /// A line of the span becomes what another one is.
    Line { to: u8, from: u8 },
}

/// Which checks are made right.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
enum Sealed {
    Nothing,
    /// Those of the structures whose numbers were edited.
    Edited,
    /// All that there are, by what is there now.
    Everything,
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    sample: u8,
    edits: Vec<Edit<'a>>,
    sealed: Sealed,
    poisoned: Vec<u8>,
    /// Bytes that the span has less, or more.
    longer_by: i8,
}

static SAMPLES: LazyLock<Vec<(Sample, Vec<Target>)>> = LazyLock::new(|| {
    let with_targets = |sample: Sample| (targets(&sample.found), sample);
    let samples = samples().into_iter().chain(slotted()).map(with_targets);
    samples.map(|(targets, sample)| (sample, targets)).collect()
});

fn apply<'t>(
    edit: &Edit<'_>,
    image: &mut Image,
    base: &'t (Sample, Vec<Target>),
) -> Option<&'t Target> {
    let (sample, targets) = base;
    let span = image.pmem_mut();
    let lines = span.len() / 64;
    match edit {
        Edit::Number { target, value } => {
            let target = &targets[usize::from(*target) % targets.len()];
            put(span, &sample.found, target, &|_| *value);
            return Some(target);
        }
        Edit::Step { target, by } => {
            let target = &targets[usize::from(*target) % targets.len()];
            put(span, &sample.found, target, &|was| was.wrapping_add_signed((*by).into()));
            return Some(target);
        }
        Edit::Bytes { at, bytes } => {
            let at = usize::from(*at) % span.len();
            let len = bytes.len().min(span.len() - at);
            span[at..at + len].copy_from_slice(&bytes[..len]);
        }
        Edit::Line { to, from } => {
            let from = usize::from(*from) % lines * 64;
            span.copy_within(from..from + 64, usize::from(*to) % lines * 64);
        }
    }
    None
}

fuzz_target!(|input: Input<'_>| {
    let base = &SAMPLES[usize::from(input.sample) % SAMPLES.len()];
    let sample = &base.0;
    let mut image = sample.image.clone();
    let edits = input.edits.iter().take(EDITS_MAX);
    let edited: Vec<&Target> = edits.filter_map(|edit| apply(edit, &mut image, base)).collect();
    match input.sealed {
        Sealed::Nothing => {}
        Sealed::Edited => {
            edited.iter().for_each(|target| seal(image.pmem_mut(), &sample.found, target));
        }
        Sealed::Everything => seal_span(image.pmem_mut()),
    }
    let mut span = image.pmem().to_vec();
    span.resize(span.len().saturating_add_signed(isize::from(input.longer_by) * 64), 0x5A);
    let lines = span.len() / 64;
    let poisoned = input.poisoned.iter().take(POISONED_MAX);
    let poisoned: BTreeSet<usize> =
        poisoned.filter(|_| lines > 0).map(|line| usize::from(*line) % lines * 64).collect();
    let image = Image::from_pmem(span).with_disk(image.disk(0).clone());
    let outcome = examine_without(&sample.shape, &image, &poisoned);
    let result = outcome.and_then(|outcome| go_on(&sample.shape, &outcome));
    // A line that nobody needed at first may be missed later, once the heads have moved.
    let is_missed = |what: &String| !poisoned.is_empty() && what.contains("poisoned memory");
    if let Err(what) = result.or_else(|what| if is_missed(&what) { Ok(()) } else { Err(what) }) {
        panic!("{}: {what}", sample.name);
    }
});
