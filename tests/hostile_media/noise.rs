//! Bytes that nobody wrote, and spans of the wrong length.

use sim_disk::{Image, Rng};

use lab::second_reader::examine::{Findings, examine, go_on};
use lab::second_reader::images::{Sample, samples};
use lab::second_reader::{Kind, Shape};

fn random(rng: &mut Rng, len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8)).map(|_| rng.next_u64().to_le_bytes());
    words.flatten().take(len).collect()
}

fn with_disk_of(sample: &Sample, pmem: Vec<u8>) -> Image {
    Image::from_pmem(pmem).with_disk(sample.image.disk(0).clone())
}

#[test]
fn any_bytes_are_refused() {
    let sample = &samples()[2];
    let mut findings = Findings::default();
    for seed in 0..10_000 {
        let mut rng = Rng::new(seed);
        let lines = 1 + rng.index(40);
        let mut bytes = random(&mut rng, lines * 64);
        if rng.chance(1, 2) {
            let first = bytes.get_mut(..8).expect("a line");
            first.copy_from_slice(b"nvmjrnl\0");
        }
        let image = with_disk_of(sample, bytes);
        let result = examine(&sample.shape, &image).and_then(|outcome| {
            if outcome.opened.is_ok() { Err("noise was accepted".into()) } else { Ok(()) }
        });
        findings.note(result, || format!("seed {seed}"));
    }
    findings.check(10_000);
}

#[test]
fn noise_behind_a_valid_superblock_is_an_empty_journal() {
    let mut findings = Findings::default();
    for sample in samples() {
        let live: usize = sample.found.lanes.iter().map(|lane| lane.records.len()).sum();
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let mut bytes = sample.image.pmem().to_vec();
            let from = sample.found.shield as usize;
            let noise = random(&mut rng, bytes.len() - from);
            bytes[from..].copy_from_slice(&noise);
            let result =
                examine(&sample.shape, &with_disk_of(&sample, bytes)).and_then(|outcome| {
                    let lost = outcome.opened.is_ok()
                        && live > 0
                        && sample.found.lanes.iter().any(|lane| lane.covered_records() > 0);
                    if lost {
                        Err("covered records are gone".into())
                    } else {
                        go_on(&sample.shape, &outcome)
                    }
                });
            findings.note(result, || format!("{}: seed {seed}", sample.name));
        }
    }
    findings.check(2_000);
}

#[test]
fn every_shorter_span_is_refused() {
    let mut findings = Findings::default();
    for sample in samples() {
        let pmem = sample.image.pmem();
        for len in (0..pmem.len()).step_by(64) {
            let result = examine(&sample.shape, &with_disk_of(&sample, pmem[..len].to_vec()));
            let result =
                result.and_then(
                    |outcome| {
                        if outcome.opened.is_ok() { Err("opened".into()) } else { Ok(()) }
                    },
                );
            findings.note(result, || format!("{}: {len} bytes", sample.name));
        }
        // A longer one is none of the journal's business.
        let longer = [pmem, &[0x5A; 192]].concat();
        let result = examine(&sample.shape, &with_disk_of(&sample, longer));
        let result = result.and_then(|outcome| match &outcome.opened {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        });
        findings.note(result, || format!("{}: longer", sample.name));
    }
    findings.check(300);
}

/// A large span that is no journal is given up after the places where a second copy can be.
#[test]
fn the_search_for_a_second_copy_ends() {
    let shape = Shape::new(Kind::Words, 2);
    let sample = &samples()[2];
    let lines = 3 * (1 << 21) / 64;
    let outcome = examine(&shape, &with_disk_of(sample, vec![0xA5; lines * 64])).expect("ends");
    assert!(outcome.reads <= (1 << 21) / 64 + 3, "{} reads", outcome.reads);
}

/// A span that held another journal: its superblocks are never mistaken for those of the new one,
/// whichever of the new ones rots.
#[test]
fn an_older_journal_in_the_same_span_does_not_come_back() {
    let mut findings = Findings::default();
    for (old_unit, new_unit) in [(256, 512), (512, 256), (256, 256), (256, 1024), (1024, 256)] {
        let old = Shape { unit_bytes: old_unit, id: *b"the older one...", ..samples()[2].shape };
        let acts =
            [lab::second_reader::Act::Commit(0, vec![(0, lab::second_reader::What::Fill(9))])];
        let (image, _) = old.made_by(&acts);
        let mut span = image.pmem().to_vec();
        span.resize(span.len() + 4096, 0);
        let new = Shape { unit_bytes: new_unit, ..samples()[2].shape };
        let formatted = new.format_over(span);
        for at in 0..200 {
            let mut image = formatted.clone();
            image.pmem_mut()[at] ^= 1;
            let result = examine(&new, &image).and_then(|outcome| match &outcome.opened {
                Ok(blocks) if blocks[0] == lab::second_reader::reader::Content::Is([0; 64]) => {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            });
            findings.note(result, || format!("{old_unit}, then {new_unit}: byte {at}"));
        }
    }
    findings.check(1_000);
}

/// A crash cut a format short: a second copy of the older journal still lies between those of the
/// new one. Torn, the first copy is asked where its twin is; without its magic it is not, and the
/// older journal comes back, as both readers say.
#[test]
fn a_torn_first_copy_is_asked_where_its_twin_is() {
    let new = Shape { unit_bytes: 1024, ..Shape::new(Kind::Words, 2) };
    let old = Shape { unit_bytes: 256, id: *b"the older one...", ..new };
    let mut span = old.format().pmem().to_vec();
    let stale = span[256..512].to_vec();
    span.resize(new.span_bytes(), 0);
    let mut formatted = new.format_over(span);
    formatted.pmem_mut()[256..512].copy_from_slice(&stale);
    for (at, unit) in [(100, 1024), (20, 1024), (3, 256), (65, 256)] {
        let mut image = formatted.clone();
        image.pmem_mut()[at] ^= 1;
        let found = new.read_by_the_book(&image).expect("is a journal");
        assert_eq!(found.copies[1], unit, "byte {at}");
        examine(&new, &image).expect("agree");
    }
}
