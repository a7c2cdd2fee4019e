//! Lanes that are scanned one by one, in any order, say together what they say in turn.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use journal_core::parts::{Found, Index, LentMemory, OpenMemory, Opened, Scanning, Unscanned};
use journal_core::units::LaneNumber;
use journal_core::{
    Entry, LaneMemory, Needs, NoHook, Node, OpenError, PortableKernels, Recovery, SlotState,
};
use sim_disk::{Image, Model, Rng, SimPmem, World};

use lab::second_reader::examine::Findings;
use lab::second_reader::forge::{Target, put, seal, targets};
use lab::second_reader::images::{Sample, samples, slotted};
use lab::second_reader::{Kind, Shape};

/// Each lane by itself, the last one first; the lowest one that cannot be read says so.
fn one_by_one<'u>(unscanned: &Unscanned<'u, SimPmem, NoHook>, front: &mut [u8]) -> Scanning<'u> {
    let scan = |lane| unscanned.scan([lane], &PortableKernels, front);
    let lanes: Vec<_> = unscanned.lanes().collect();
    let mut scans: Vec<Scanning<'u>> = lanes.into_iter().rev().map(scan).collect();
    let first = scans.pop().expect("there is a lane");
    // Of two that cannot be read the lower one counts; what is joined is joined either way round.
    scans.into_iter().rev().fold(first, |known, more| {
        let known = known?;
        Ok(more?.and(known))
    })
}

/// What opening says when its lanes are scanned like this, and what it leaves.
fn open(sample: &Sample, image: &Image, is_in_turn: bool) -> (Result<Recovery, OpenError>, Image) {
    let world = World::boot(image.clone(), Model::Torn8);
    let opened = || {
        let found = Found::load(world.pmem(), NoHook, &PortableKernels)?;
        let needs = Needs::of(found.geometry(), 1);
        let mut lanes: Vec<_> = (0..needs.lanes).map(|_| LaneMemory::EMPTY).collect();
        let mut slots = vec![SlotState::EMPTY; needs.slots];
        let (mut front, mut block) = (vec![0xA5; needs.front_bytes], vec![0; needs.blocks_bytes]);
        let memory = OpenMemory {
            lanes: &mut lanes,
            front: &mut front,
            block: &mut block,
            slots: &mut slots,
        };
        let (mut entries, mut nodes) = (vec![Entry::EMPTY; 2048], vec![Node::EMPTY; 1024]);
        let mut index = Index::new(LentMemory { entries: &mut entries, nodes: &mut nodes });
        let (disk, kind) = (world.disk(0), sample.shape.kind);
        let opened = if is_in_turn {
            found.open(disk, kind, PortableKernels, memory, &mut index)
        } else {
            found.open_by(disk, kind, PortableKernels, memory, &mut index, |lanes, _, front| {
                one_by_one(lanes, front)
            })
        };
        let Opened { recovery, .. } = opened?;
        Ok(recovery)
    };
    let opened = opened();
    (opened, world.visible())
}

#[test]
fn a_scan_is_of_lanes_that_there_are_and_by_memory_that_is_long_enough() {
    let samples = samples();
    let sample = samples.iter().find(|sample| sample.shape.lanes == 2).expect("has two lanes");
    // There is something behind the lanes, and it can be read.
    let mut span = sample.image.pmem().to_vec();
    span.resize(2 * span.len(), 0);
    let world = World::boot(Image::from_pmem(span), Model::Torn8);
    let found = Found::load(world.pmem(), NoHook, &PortableKernels).expect("is a journal");
    let (unscanned, needs) = (found.unscanned(), Needs::of(found.geometry(), 1));
    let mut front = vec![0; needs.front_bytes];
    let short = unscanned.scan(unscanned.lanes(), &PortableKernels, &mut front[1..]);
    let needed = needs.record_front_bytes;
    let given = needed - 1;
    let lacks = OpenError::MemoryTooShort { slice: "front bytes", given, needed };
    assert_eq!(short.err(), Some(lacks));
    let outside = catch_unwind(AssertUnwindSafe(|| {
        drop(unscanned.scan([LaneNumber(0), LaneNumber(2)], &PortableKernels, &mut front));
    }));
    assert!(outside.is_err(), "of two lanes the third one was scanned");
}

/// A journal of somebody else's is not even read.
#[test]
fn partners_come_before_any_lane() {
    let sample = &samples()[0];
    let mut image = sample.image.clone();
    image.poison(sample.shape.geometry().lane(LaneNumber(0)).raw());
    let other = [Kind::Full, Kind::Words].into_iter().find(|kind| *kind != sample.shape.kind);
    let stranger = Shape { kind: other.expect("one of two"), ..sample.shape };
    let says = |shape: &Shape| shape.with(&World::boot(image.clone(), Model::Torn8), |_| ()).err();
    assert!(matches!(says(&sample.shape), Some(OpenError::Medium(_))));
    assert!(matches!(says(&stranger), Some(OpenError::WrongPolicy { .. })));
}

fn compare(sample: &Sample, image: &Image) -> Result<bool, String> {
    let (in_turn, left) = open(sample, image, true);
    let (one_by_one, left_too) = open(sample, image, false);
    if in_turn != one_by_one {
        return Err(format!("{in_turn:?} in turn, and {one_by_one:?}"));
    }
    // What is left tells of the evidence: of epoch, generation and stamps.
    if left.fingerprint() != left_too.fingerprint() {
        return Err(format!("{in_turn:?}, and the media differ"));
    }
    Ok(in_turn.is_ok())
}

#[test]
fn any_journal_opens_the_same_when_its_lanes_are_scanned_one_by_one() {
    let samples: Vec<Sample> = samples().into_iter().chain(slotted()).collect();
    let mut findings = Findings::default();
    let (mut accepted, mut refused) = (0, 0);
    let mut note = |image: &Image, sample: &Sample, what: &dyn Fn() -> String| {
        let compared = compare(sample, image);
        accepted += u32::from(compared == Ok(true));
        refused += u32::from(compared == Ok(false));
        findings.note(compared.map(drop), what);
    };
    for sample in &samples {
        note(&sample.image, sample, &|| sample.name.to_string());
        for lane in 0..sample.shape.lanes {
            // A lane that has lost its beginning, as the other's evidence shows, or not.
            let geometry = sample.shape.geometry();
            let start = geometry.lane(LaneNumber(lane)).raw();
            for line in (start..start + geometry.lane_bytes).step_by(64) {
                let mut torn = sample.image.clone();
                torn.flip_bit(sim_disk::Medium::Pmem, line + 17, 3);
                note(&torn, sample, &|| format!("{}, turned in line {line}", sample.name));
                let mut gone = sample.image.clone();
                gone.poison(line);
                note(&gone, sample, &|| format!("{}, without line {line}", sample.name));
            }
        }
    }
    let mut forge = |sample: &Sample, target: &Target, change: &dyn Fn(u64) -> u64| {
        let mut image = sample.image.clone();
        put(image.pmem_mut(), &sample.found, target, change);
        seal(image.pmem_mut(), &sample.found, target);
        note(&image, sample, &|| format!("{}: {target:?} becomes {}", sample.name, change(0)));
    };
    for sample in &samples {
        for target in targets(&sample.found) {
            // Nearly the highest that a counter can be.
            forge(sample, &target, &|_| 1 << 60);
        }
    }
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let sample = &samples[rng.index(samples.len())];
        let all = targets(&sample.found);
        let (target, by) = (&all[rng.index(all.len())], 1 + rng.below(8));
        forge(sample, target, &|was| was.wrapping_add(by));
    }
    findings.check(4_500);
    assert!(accepted > 1_000 && refused > 1_000, "{accepted} accepted, {refused} refused");
}
