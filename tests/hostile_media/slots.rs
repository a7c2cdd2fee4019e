//! Journals with slots, damaged and forged: held against the second reader like the others.

use std::collections::BTreeSet;

use journal_core::OpenError;
use journal_core::units::LaneNumber;
use sim_disk::rng::mix;
use sim_disk::{Image, Model, Rng, World};

use lab::second_reader::examine::{Findings, Outcome, examine, examine_without, go_on};
use lab::second_reader::forge::{RingMut, Target, put, seal, targets};
use lab::second_reader::images::{Sample, slotted};
use lab::second_reader::layout::BOOK;
use lab::second_reader::reader::{Content, Refusal, content_check, record_seed};
use lab::second_reader::versions::{State, entry_check};
use lab::second_reader::{Act, Truth, What, counting};

fn try_it(sample: &Sample, image: &Image) -> Result<Outcome, String> {
    let outcome = examine(&sample.shape, image)?;
    go_on(&sample.shape, &outcome)?;
    Ok(outcome)
}

/// What was said of damaged journals, by kinds.
#[derive(Debug, Default)]
struct Said {
    accepted: u32,
    torn_slots: u32,
    rotten_records: u32,
    rotten_slots: u32,
    rotten_entries: u32,
}

impl Said {
    fn note(&mut self, outcome: &Outcome) {
        match &outcome.opened {
            Ok(_) => {
                self.accepted += 1;
                let torn = outcome.recovery.is_some_and(|found| found.torn_slots > 0);
                self.torn_slots += u32::from(torn);
            }
            Err(OpenError::Rot { .. }) => self.rotten_records += 1,
            Err(OpenError::RottenSlot { .. }) => self.rotten_slots += 1,
            Err(OpenError::RottenEntry { .. }) => self.rotten_entries += 1,
            Err(_) => {}
        }
    }
}

/// Tries images made of all samples.
fn try_all(
    findings: &mut Findings,
    mut make: impl FnMut(&Sample, &mut dyn FnMut(&Image, String)),
) -> Said {
    let mut said = Said::default();
    for sample in slotted() {
        make(&sample, &mut |image, case| {
            let result = try_it(&sample, image).map(|outcome| said.note(&outcome));
            findings.note(result, || format!("{}: {case}", sample.name));
        });
    }
    said
}

#[test]
fn what_is_whole_is_shown() {
    let mut findings = Findings::default();
    try_all(&mut findings, |sample, try_one| try_one(&sample.image, String::new()));
    findings.check(10);
}

#[test]
fn every_byte_may_change() {
    let mut findings = Findings::default();
    let said = try_all(&mut findings, |sample, try_one| {
        for at in 0..sample.image.pmem().len() {
            for change in [1, 0x40, 0xFF] {
                let mut image = sample.image.clone();
                image.pmem_mut()[at] ^= change;
                try_one(&image, format!("byte {at}, {change}"));
            }
        }
    });
    findings.check(100_000);
    assert!(said.torn_slots > 1_000 && said.rotten_records > 1_000, "{said:?}");
    assert!(said.rotten_slots > 500 && said.rotten_entries > 300, "{said:?}");
}

#[test]
fn every_unit_may_be_replaced() {
    let mut findings = Findings::default();
    try_all(&mut findings, |sample, try_one| {
        let pmem = sample.image.pmem();
        for len in [8, 32, 64] {
            for at in (0..pmem.len() / len).map(|unit| unit * len) {
                let other = mix(at as u64) as usize % (pmem.len() / len) * len;
                let before = at.saturating_sub(len);
                let others = [other, before].map(|from| pmem[from..from + len].to_vec());
                for (way, unit) in [vec![0; len], vec![0xFF; len]].iter().chain(&others).enumerate()
                {
                    let mut image = sample.image.clone();
                    image.pmem_mut()[at..at + len].copy_from_slice(unit);
                    try_one(&image, format!("{len} bytes at {at}, way {way}"));
                }
            }
        }
    });
    findings.check(20_000);
}

#[test]
fn every_line_may_be_poisoned() {
    let (mut findings, mut refused, mut accepted) = (Findings::default(), 0, 0);
    for sample in slotted() {
        for line in (0..sample.image.pmem().len()).step_by(64) {
            let result = examine_without(&sample.shape, &sample.image, &BTreeSet::from([line]));
            let result = result.and_then(|outcome| match outcome.opened {
                Ok(_) => {
                    accepted += 1;
                    Ok(())
                }
                Err(OpenError::Medium(error)) => {
                    refused += 1;
                    let from = error.at.raw() as usize;
                    let is_there = (from..from + error.len).contains(&line);
                    if is_there { Ok(()) } else { Err(format!("{error} is somewhere else")) }
                }
                Err(error) => Err(error.to_string()),
            });
            findings.note(result, || format!("{}: line at {line}", sample.name));
        }
    }
    findings.check(400);
    assert!(refused > 100 && accepted > 100, "{refused} refused, {accepted} accepted");
}

#[test]
fn every_number_may_be_anything() {
    let mut findings = Findings::default();
    let edges = [0, 1, 2, 3, 4, 5, 6, 7, 8, 64, 65, 1 << 16, 3 << 16, 1 << 32, 1 << 61, u64::MAX];
    let said = try_all(&mut findings, |sample, try_one| {
        for target in targets(&sample.found) {
            for value in edges {
                let set = |_| value;
                let add = |was: u64| was.wrapping_add(value);
                let ways: [&dyn Fn(u64) -> u64; 2] = [&set, &add];
                for (way, change) in ways.iter().enumerate() {
                    let mut image = sample.image.clone();
                    put(image.pmem_mut(), &sample.found, &target, change);
                    seal(image.pmem_mut(), &sample.found, &target);
                    try_one(&image, format!("{target:?}: {value}, way {way}"));
                }
            }
        }
    });
    findings.check(20_000);
    assert!(said.accepted > 8_000 && said.rotten_entries > 100, "{said:?}");
    assert!(said.torn_slots > 100 && said.rotten_slots > 100, "{said:?}");
}

/// Changes some numbers and bytes at a time; returns which numbers.
fn forge(sample: &Sample, all: &[Target], rng: &mut Rng) -> (Image, Vec<Target>) {
    let mut image = sample.image.clone();
    let span = image.pmem_mut();
    for _ in 0..rng.index(3) {
        span[rng.index(sample.image.pmem().len())] ^= 1 << rng.index(8);
    }
    let chosen = (0..1 + rng.index(4)).map(|_| all[rng.index(all.len())].clone());
    let chosen: Vec<Target> = chosen.collect();
    for target in &chosen {
        let (bits, small, way) = (rng.next_u64(), rng.below(24), rng.below(4));
        let change = |was: u64| match way {
            0 => bits,
            1 => small,
            2 => was ^ 1 << (bits % 64),
            _ => was.wrapping_add(small).wrapping_sub(12),
        };
        put(span, &sample.found, target, &change);
    }
    chosen.iter().for_each(|target| seal(span, &sample.found, target));
    (image, chosen)
}

#[test]
fn many_numbers_may_be_anything() {
    let mut findings = Findings::default();
    let said = try_all(&mut findings, |sample, try_one| {
        // What is of slots more often than all the rest.
        let all = targets(&sample.found);
        let is_of_slots = |target: &&Target| match target {
            Target::Entry { .. } => true,
            Target::Record { field, .. } => ["slot", "content", "block"].contains(&&field.name[..]),
            _ => false,
        };
        let of_slots: Vec<Target> = all.iter().filter(is_of_slots).cloned().collect();
        for seed in 0..4_000 {
            let mut rng = Rng::new(seed);
            let from = if rng.chance(1, 2) && !of_slots.is_empty() { &of_slots } else { &all };
            let (image, chosen) = forge(sample, from, &mut rng);
            try_one(&image, format!("seed {seed}, {chosen:?}"));
        }
    });
    findings.check(40_000);
    assert!(said.accepted > 5_000 && said.torn_slots > 500, "{said:?}");
}

/// A slot of another lane, or none, is not named by a record that counts.
#[test]
fn a_record_names_slots_of_its_own_lane() {
    let samples = slotted();
    let sample = samples.iter().find(|sample| sample.name == "slots").expect("a sample");
    let mut tried = 0;
    for target in targets(&sample.found) {
        let Target::Record { lane, record, field, .. } = &target else { continue };
        if field.name != "slot" {
            continue;
        }
        for slot in [3 * (1 - *lane as u64), 6, 3 << 16, (3 << 16) + 3, u32::MAX.into()] {
            let mut image = sample.image.clone();
            put(image.pmem_mut(), &sample.found, &target, &|_| slot);
            seal(image.pmem_mut(), &sample.found, &target);
            match sample.shape.read_by_the_book(&image) {
                Ok(found) => assert!(found.lanes[*lane].records.len() <= *record),
                Err(refusal) => assert!(matches!(refusal, Refusal::Rot { .. }), "{refusal:?}"),
            }
            let outcome = examine(&sample.shape, &image).unwrap_or_else(|what| panic!("{what}"));
            assert!(outcome.recovery.is_none_or(|found| found.torn_slots == 0));
            tried += 1;
        }
    }
    assert!(tried >= 20, "{tried}");
}

#[test]
fn every_shorter_span_is_refused() {
    let mut findings = Findings::default();
    for sample in slotted() {
        let pmem = sample.image.pmem();
        for len in (0..pmem.len()).step_by(64) {
            let image = Image::from_pmem(pmem[..len].to_vec());
            let image = image.with_disk(sample.image.disk(0).clone());
            let result = examine(&sample.shape, &image).and_then(|outcome| {
                if outcome.opened.is_ok() { Err("opened".into()) } else { Ok(()) }
            });
            findings.note(result, || format!("{}: {len} bytes", sample.name));
        }
    }
    findings.check(400);
}

#[test]
fn noise_behind_a_valid_superblock_is_no_journal_of_slots() {
    let mut findings = Findings::default();
    try_all(&mut findings, |sample, try_one| {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let mut image = sample.image.clone();
            // The lanes as they are, half of the time.
            let found = &sample.found;
            let shield = found.shield as usize;
            let behind =
                found.lanes.last().map_or(shield, |lane| (lane.start + lane.bytes) as usize);
            let from = if rng.chance(1, 2) { shield } else { behind };
            image.pmem_mut()[from..].iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
            try_one(&image, format!("seed {seed}, from {from}"));
        }
    });
    findings.check(3_000);
}

/// A journal whose lane 0 has one record of two parts; each has a frame of block 5, in a slot of
/// its own where they differ.
pub(crate) fn twice_in_one_record(slots: [u64; 2], entry: Option<u64>) -> Sample {
    let sample = slotted().swap_remove(0);
    let shape = sample.shape;
    let mut image = shape.format();
    let found = shape.read_by_the_book(&image).expect("is a journal");
    let contents = [[0x51; 64], [0x52; 64]];
    for (slot, content) in slots.into_iter().zip(contents) {
        let at = found.area.slot_at(slot) as usize;
        image.pmem_mut()[at..at + 64].copy_from_slice(&content);
    }
    let check_of = |slot: u64| {
        let at = found.area.slot_at(slot) as usize;
        content_check(&shape.id, slot, &image.pmem()[at..at + 64])
    };
    let checks = slots.map(check_of);
    let payload = |part: usize| [checks[part], slots[part]].map(u64::to_le_bytes).concat();
    let payloads = [payload(0), payload(1)];
    let start = shape.geometry().lane(LaneNumber(0)).raw() as usize;
    let frames = [(BOOK.slot, &payloads[0][..]), (BOOK.slot, &payloads[1][..])];
    two_parts(&mut RingMut { span: image.pmem_mut(), start, bytes: 1024 }, &shape.id, frames);
    if let Some(slot) = entry {
        let at = found.entries[slot as usize].at as usize;
        let entry = &mut image.pmem_mut()[at..at + 32];
        for (place, number) in [(0, 5), (8, 1), (16, checks[usize::from(slot == slots[1])])] {
            entry[place..place + 8].copy_from_slice(&u64::to_le_bytes(number));
        }
        let check = entry_check(&shape.id, slot, entry);
        entry[24..].copy_from_slice(&check.to_le_bytes());
    }
    Sample { image, ..sample }
}

/// Stores a record of two parts, with a frame of block 5 in each, at the begin of a lane.
fn two_parts(ring: &mut RingMut<'_>, id: &[u8], frames: [(u64, &[u8]); 2]) {
    let mut check = record_seed(id);
    for ((part, (form, payload)), at) in (0..).zip(frames).zip([0, 128]) {
        let header = [("kind", BOOK.commit), ("flags", part), ("part", part), ("lines", 2)];
        let more = [("frames", 1), ("position", at), ("sequence", 1), ("stamp", 1)];
        for (name, value) in header.into_iter().chain(more) {
            ring.put(at, BOOK.header.field(name), value);
        }
        for (name, value) in [("block", 5), ("form", form), ("len", payload.len() as u64)] {
            ring.put(at + 64, BOOK.frame.field(name), value);
        }
        ring.write(at + 80, payload);
        check = ring.seal_part(at, id, check);
    }
}

/// A record that has a block twice: home, and changed behind that. What is home is not the newest.
#[test]
fn a_change_behind_an_append_in_one_record_is_not_home() {
    let shape = slotted()[0].shape;
    let mut image = shape.format();
    let start = shape.geometry().lane(LaneNumber(0)).raw() as usize;
    let frames = [(BOOK.home, &[][..]), (BOOK.encoded, &[3, 0, 0, 0, 0x99][..])];
    two_parts(&mut RingMut { span: image.pmem_mut(), start, bytes: 1024 }, &shape.id, frames);
    let outcome = examine(&shape, &image).unwrap_or_else(|what| panic!("{what}"));
    let mut changed = [0; 64];
    changed[3] = 0x99;
    assert_eq!(outcome.opened.as_ref().map(|blocks| blocks[5]), Ok(Content::Is(changed)));
    go_on(&shape, &outcome).unwrap_or_else(|what| panic!("{what}"));
}

/// Two versions of one stamp are told apart by their slots, whichever of them is folded.
#[test]
fn a_record_may_put_a_block_into_two_slots() {
    for entry in [None, Some(0), Some(2)] {
        let sample = twice_in_one_record([0, 2], entry);
        let outcome = try_it(&sample, &sample.image).unwrap_or_else(|what| panic!("{what}"));
        let newest = outcome.opened.as_ref().map(|blocks| blocks[5]);
        assert_eq!(newest, Ok(Content::Is([0x52; 64])), "entry {entry:?}");
        let entries =
            sample.shape.read_by_the_book(&outcome.world.visible()).expect("opens").entries;
        assert!(entries.iter().all(|entry| entry.state == State::Void), "all is home");
    }
}

/// A slot that one record names twice, which nobody writes, is given back once.
#[test]
fn a_slot_that_is_named_twice_is_free_once() {
    let sample = twice_in_one_record([1, 1], None);
    let outcome = try_it(&sample, &sample.image).unwrap_or_else(|what| panic!("{what}"));
    let fill = |block: u64| Act::Commit(0, vec![(block, What::Fill(block as u8))]);
    let acts: Vec<Act> = [Act::Checkpoint].into_iter().chain((0..4).map(fill)).collect();
    let mut truth = Truth::default();
    let world = World::boot(sample.image.clone(), Model::Torn8);
    sample.shape.drive(&world, &acts, &mut truth);
    assert_eq!(outcome.opened.map(|blocks| blocks[5]), Ok(Content::Is([0x52; 64])));
    let found = sample.shape.read_by_the_book(&world.visible()).expect("is a journal");
    for block in 0..4 {
        assert_eq!(Some(found.blocks[block]), truth.0[block].map(Content::Is), "block {block}");
    }
}

/// Lane 0 with two records that are not known durable, in the slots 2 and 0 (which held the oldest
/// version of the second block).
fn after_a_batch(first: u64, second: u64, folds: bool) -> Sample {
    let shape = slotted()[0].shape;
    let commit = |block, byte| Act::Commit(0, vec![(block, What::Fill(byte))]);
    let mut acts = vec![
        // It keeps the frames where they are.
        Act::Commit(0, vec![(7, What::Patch(1))]),
        commit(second, 2),
        commit(second, 3),
        Act::Defer(0, vec![(first, What::Fill(4))]),
        Act::Defer(0, vec![(second, What::Fill(5))]),
        Act::Sync,
    ];
    acts.extend(folds.then_some(Act::Fold));
    Sample::new("a batch", shape, &acts)
}

fn slot_of(sample: &Sample, block: u64, from_newest: usize) -> usize {
    let mut versions = sample.found.versions.0[&block].iter().rev();
    let (slot, _) = versions.nth(from_newest).and_then(|version| version.slot).expect("a slot");
    slot as usize
}

/// The order in which blocks are looked at, which differs from pair to pair, makes no difference.
#[test]
fn a_folded_version_stays_when_its_record_goes() {
    for (first, second) in (0..6).flat_map(|first| (0..6).map(move |second| (first, second))) {
        if first == second {
            continue;
        }
        let sample = after_a_batch(first, second, true);
        let (torn, unread) = (slot_of(&sample, first, 0), slot_of(&sample, second, 1));
        let mut image = sample.image.clone();
        // The entry of the first block is void, its slot torn; so is the one of an older version.
        let entry = sample.found.entries[torn].at as usize;
        image.pmem_mut()[entry + 24..entry + 32].fill(0);
        for slot in [torn, unread] {
            image.pmem_mut()[sample.found.area.slot_at(slot as u64) as usize] ^= 1;
        }
        let outcome = examine(&sample.shape, &image).unwrap_or_else(|what| panic!("{what}"));
        assert_eq!(outcome.recovery.map(|found| found.torn_slots), Some(1));
        let newest = outcome.opened.as_ref().map(|blocks| blocks[second as usize]);
        assert_eq!(newest, Ok(Content::Is(counting(5))), "{first}, {second}");
    }
}

#[test]
fn a_slot_that_does_not_count_in_the_end_may_be_missing() {
    for (first, second) in (0..6).flat_map(|first| (0..6).map(move |second| (first, second))) {
        if first == second {
            continue;
        }
        let sample = after_a_batch(first, second, false);
        let area = &sample.found.area;
        let place = |slot: usize| area.slot_at(slot as u64) as usize;
        let mut image = sample.image.clone();
        image.pmem_mut()[place(slot_of(&sample, first, 0))] ^= 1;
        let missing = BTreeSet::from([place(slot_of(&sample, second, 0))]);
        let outcome = examine_without(&sample.shape, &image, &missing);
        let outcome = outcome.unwrap_or_else(|what| panic!("{first}, {second}: {what}"));
        let newest = outcome.opened.as_ref().map(|blocks| blocks[second as usize]);
        assert_eq!(newest, Ok(Content::Is(counting(3))), "{first}, {second}");
    }
}
