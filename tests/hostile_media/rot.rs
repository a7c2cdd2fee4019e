//! One thing in an acknowledged journal is not what was written: a bit, or a unit that is zeroes,
//! ones, noise, or what belongs elsewhere; or it is missing.

use std::collections::BTreeSet;

use journal_core::{MediumErrorKind, OpenError};
use sim_disk::Image;
use sim_disk::rng::mix;

use lab::second_reader::examine::{Findings, agree_on_blocks, examine, examine_without, go_on};
use lab::second_reader::images::{Expected, Sample, samples};
use lab::second_reader::layout::BOOK;
use lab::second_reader::reader::Content;
use lab::second_reader::reader::Refusal;
use lab::second_reader::refusal;

type Opened = Result<Vec<Content>, OpenError>;

/// Holds an outcome against what was done.
fn judge(sample: &Sample, changed: &BTreeSet<usize>, opened: &Opened) -> Result<(), String> {
    if sample.is_beyond_help(changed) {
        return Ok(());
    }
    let expected = sample.expected(changed);
    match (&expected, opened) {
        (Expected::Blocks(expected), Ok(blocks)) => agree_on_blocks(expected, blocks),
        (Expected::Rot { lane, sequence }, Err(error)) => {
            let rot = Refusal::Rot { lane: *lane, sequence: *sequence };
            if refusal(error) == Some(rot) { Ok(()) } else { Err(format!("{error}, not {rot:?}")) }
        }
        (expected, opened) => Err(format!("expected {expected:?}, and {opened:?}")),
    }
}

/// The bytes in which an image differs from the sample's.
fn changes(sample: &Sample, image: &Image) -> BTreeSet<usize> {
    let pairs = sample.image.pmem().iter().zip(image.pmem()).enumerate();
    pairs.filter(|(_, (was, is))| was != is).map(|(at, _)| at).collect()
}

/// Whether some line of a lane was replaced by a header that says it belongs there: it was made for
/// the same place of another lane, or of this one earlier. What is damaged then also lies.
fn plants_a_header(sample: &Sample, image: &Image) -> bool {
    sample.found.lanes.iter().any(|lane| {
        let (start, bytes) = (lane.start as usize, lane.bytes as usize);
        let ring = |image: &Image| image.pmem()[start..start + bytes].to_vec();
        let (was, is) = (ring(&sample.image), ring(image));
        let lines = was.chunks(64).zip(is.chunks(64)).zip((0..lane.bytes).step_by(64));
        lines.into_iter().any(|((was, is), at)| {
            let position = BOOK.header.number(is, "position");
            was != is && BOOK.header.number(is, "sequence") > 0 && position % lane.bytes == at
        })
    })
}

/// Opens a damaged sample.
fn try_damaged(sample: &Sample, image: &Image, goes_on: bool) -> Result<(), String> {
    let changed = changes(sample, image);
    let outcome = examine(&sample.shape, image)?;
    // The second reader has said already that it is read by the book.
    if !plants_a_header(sample, image) {
        judge(sample, &changed, &outcome.opened)?;
    }
    if goes_on { go_on(&sample.shape, &outcome) } else { Ok(()) }
}

#[test]
fn what_is_whole_is_shown() {
    let mut findings = Findings::default();
    for sample in samples() {
        findings.note(try_damaged(&sample, &sample.image, true), || sample.name.into());
    }
    findings.check(9);
}

#[test]
fn every_bit_of_superblocks_and_fronts_may_rot() {
    let mut findings = Findings::default();
    for sample in samples() {
        for at in 0..sample.image.pmem().len() {
            // Every bit that is read, one of eight elsewhere.
            let idle = sample.is_idle(at);
            for bit in (0..8).filter(|bit| !idle || *bit == at % 8) {
                let mut image = sample.image.clone();
                image.pmem_mut()[at] ^= 1 << bit;
                let result = try_damaged(&sample, &image, at % 61 == 0 && bit == 0);
                findings.note(result, || format!("{}: bit {bit} of {at}", sample.name));
            }
        }
    }
    findings.check(50_000);
}

/// What a unit is replaced by.
fn replacements(pmem: &[u8], at: usize, len: usize) -> Vec<Vec<u8>> {
    let noise = (0..len).map(|byte| mix((at * 31 + byte) as u64) as u8).collect();
    let other = |seed: u64| {
        let unit = mix(seed ^ at as u64) as usize % (pmem.len() / len);
        pmem[unit * len..][..len].to_vec()
    };
    let before = pmem[at.saturating_sub(len).min(pmem.len() - len)..][..len].to_vec();
    vec![vec![0; len], vec![0xFF; len], noise, other(1), other(2), before]
}

#[test]
fn every_unit_may_be_replaced() {
    let mut findings = Findings::default();
    for sample in samples() {
        let pmem = sample.image.pmem();
        for len in [8, 64, 256] {
            for at in (0..pmem.len()).step_by(len).filter(|at| at + len <= pmem.len()) {
                for (number, unit) in replacements(pmem, at, len).into_iter().enumerate() {
                    let mut image = sample.image.clone();
                    image.pmem_mut()[at..at + len].copy_from_slice(&unit);
                    let result = try_damaged(&sample, &image, len > 8 && number == 0);
                    findings.note(result, || {
                        format!("{}: {len} bytes at {at}, way {number}", sample.name)
                    });
                }
            }
        }
    }
    findings.check(20_000);
}

/// A line that recovery needs and that cannot be read is an error, which says where in the span;
/// any other one is not missed. What does not count, but has to be read to see that, may be either.
fn judge_missing(sample: &Sample, line: usize, opened: &Opened) -> Result<(), String> {
    let lines = line..line + 64;
    match opened {
        Err(OpenError::Medium(error)) => {
            let from = error.at.raw() as usize;
            if error.kind != MediumErrorKind::Poisoned || !(from..from + error.len).contains(&line)
            {
                return Err(format!("{error} is somewhere else"));
            }
            let is_read = sample.is_needed(line) || sample.may_be_needed(line);
            if is_read { Ok(()) } else { Err(error.to_string()) }
        }
        _ if sample.is_needed(line) => Err("nothing is said of it".into()),
        _ => judge(sample, &lines.collect(), opened),
    }
}

#[test]
fn every_line_may_be_poisoned() {
    let mut findings = Findings::default();
    let (mut refused, mut accepted) = (0, 0);
    for sample in samples() {
        for line in (0..sample.image.pmem().len()).step_by(64) {
            let result = examine_without(&sample.shape, &sample.image, &BTreeSet::from([line]));
            let result = result.and_then(|outcome| {
                let of_verdict = if outcome.opened.is_ok() { &mut accepted } else { &mut refused };
                *of_verdict += 1;
                judge_missing(&sample, line, &outcome.opened)
            });
            findings.note(result, || format!("{}: line at {line}", sample.name));
        }
    }
    findings.check(300);
    assert!(refused > 100 && accepted > 100, "{refused} refused, {accepted} accepted");
}

/// The oracle is able to object: to loss where nothing was lost, to acceptance of what rotted, and
/// to wrong content.
#[test]
fn the_oracle_objects() {
    let samples = samples();
    let sample = samples.iter().find(|sample| sample.name == "both lanes").expect("a sample");
    let (mut lost, mut rotten) = (0, 0);
    for record in sample.found.lanes.iter().flat_map(|lane| {
        lane.records.iter().map(move |record| lane.start + record.parts[0].at % lane.bytes)
    }) {
        let mut image = sample.image.clone();
        image.pmem_mut()[record as usize + 80] ^= 1;
        let changed = changes(sample, &image);
        let outcome = examine(&sample.shape, &image).expect("agrees");
        judge(sample, &changed, &outcome.opened).expect("is as expected");
        // As if nothing, or something else, had been damaged.
        judge(sample, &BTreeSet::new(), &outcome.opened).expect_err("something was damaged");
        let whole = Ok(sample.found.blocks.clone());
        judge(sample, &changed, &whole).expect_err("a damaged record was accepted");
        match &outcome.opened {
            Ok(blocks) => {
                lost += 1;
                let mut wrong = blocks.clone();
                wrong[7] = Content::Is([0xAB; 64]);
                judge(sample, &changed, &Ok(wrong)).expect_err("a wrong block");
            }
            Err(_) => rotten += 1,
        }
    }
    assert_eq!((lost, rotten), (3, 3), "the last of lane 0, the last batch of lane 1");
}
