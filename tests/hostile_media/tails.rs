//! Journals with tail words, damaged and forged: held against the second reader like the others.

use journal_core::Protocol;
use sim_disk::{Image, Model, World};

use lab::second_reader::examine::{Findings, examine, go_on};
use lab::second_reader::forge::{put, seal, targets};
use lab::second_reader::reader::{Content, Refusal, tail_word};
use lab::second_reader::{Act, Kind, Shape, Truth, What};

fn shape() -> Shape {
    Shape { protocol: Protocol::TailPointer, ..Shape::new(Kind::Words, 2) }
}

/// Where the tail words begin.
fn words_at(shape: &Shape) -> usize {
    usize::try_from(shape.geometry().tails().raw()).expect("a small span")
}

/// Journals of every age: formatted, in use, wrapped with a head that has moved, reopened.
fn images() -> Vec<Image> {
    let commit = |lane, block, first| Act::Commit(lane, vec![(block, What::Fill(first))]);
    let mixed = vec![
        commit(0, 0, 0x10),
        Act::Commit(0, vec![(0, What::Touch(0x11)), (3, What::Fill(0x13))]),
        Act::Commit(1, vec![(0, What::Touch(0x12)), (1, What::Discard)]),
        Act::Defer(1, vec![(2, What::Fill(0x21))]),
        Act::Defer(1, vec![(2, What::Touch(0x22))]),
        Act::Sync,
    ];
    let wrapped = (0..23_u8).map(|round| commit(u16::from(round % 2), u64::from(round) % 7, round));
    let wrapped: Vec<Act> = wrapped.collect();
    let reopened = [&mixed[..], &[Act::Reopen, commit(0, 5, 0x30), commit(1, 5, 0x31)]].concat();
    let lists = [Vec::new(), mixed, wrapped, reopened];
    // What the span held before is still where the words will be.
    let formatted = || shape().format_over(vec![0xA5; shape().span_bytes()]);
    let mut images = vec![formatted()];
    images.extend(lists.iter().map(|acts| {
        let world = World::boot(formatted(), Model::Torn8);
        let mut truth = Truth::default();
        shape().drive(&world, acts, &mut truth);
        let image = world.visible();
        let found = shape().read_by_the_book(&image).expect("a valid journal");
        for (is, has) in found.blocks.iter().zip(&truth.0) {
            assert!(has.is_none_or(|block| *is == Content::Is(block)), "{acts:?}");
        }
        image
    }));
    images
}

fn try_it(image: &Image) -> Result<(), String> {
    let outcome = examine(&shape(), image)?;
    go_on(&shape(), &outcome)
}

#[test]
fn every_byte_may_change() {
    let mut findings = Findings::default();
    for (number, image) in images().iter().enumerate() {
        for at in 0..image.pmem().len() {
            for change in [1, 0x40, 0xFF] {
                let mut damaged = image.clone();
                damaged.pmem_mut()[at] ^= change;
                findings.note(try_it(&damaged), || format!("image {number}, byte {at}, {change}"));
            }
        }
    }
    findings.check(40_000);
}

#[test]
fn a_word_may_be_anything() {
    let (mut findings, mut rotten, mut accepted) = (Findings::default(), 0, 0);
    for (number, image) in images().iter().enumerate() {
        for lane in 0..2 {
            let at = words_at(&shape()) + 64 * lane;
            let lines = (0..200).flat_map(|line| [64 * line, 64 * line + 1]);
            let edges = [u64::MAX, u64::MAX - 63, 1 << 63, 1 << 62, 1 << 61];
            let offsets: Vec<u64> = lines.chain(edges).collect();
            let words = offsets.iter().map(|to| tail_word(&shape().id, lane as u64, *to));
            for word in words.chain(offsets.iter().copied()) {
                let mut forged = image.clone();
                forged.pmem_mut()[at..at + 8].copy_from_slice(&word.to_le_bytes());
                match shape().read_by_the_book(&forged) {
                    Err(Refusal::Rot { .. }) => rotten += 1,
                    read => accepted += u32::from(read.is_ok()),
                }
                findings.note(try_it(&forged), || format!("image {number}, {lane}: {word}"));
            }
        }
    }
    findings.check(4_000);
    assert!(rotten > 2_000 && accepted > 400, "{rotten} and {accepted}");
}

#[test]
fn every_number_may_be_anything_beside_a_word() {
    let mut findings = Findings::default();
    for (number, image) in images().iter().enumerate() {
        let found = shape().read_by_the_book(image).expect("a valid journal");
        for target in targets(&found) {
            for value in [0, 1, 2, 64, 65, 128, 1 << 16, 1 << 63, u64::MAX - 63, u64::MAX] {
                let set = |_| value;
                let add = |was: u64| was.wrapping_add(value);
                let ways: [&dyn Fn(u64) -> u64; 2] = [&set, &add];
                for change in ways {
                    let mut forged = image.clone();
                    put(forged.pmem_mut(), &found, &target, change);
                    seal(forged.pmem_mut(), &found, &target);
                    let result = try_it(&forged);
                    findings.note(result, || format!("image {number}, {target:?}: {value}"));
                }
            }
        }
    }
    findings.check(10_000);
}
