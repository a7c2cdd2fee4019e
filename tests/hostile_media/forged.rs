//! Journals that somebody made on purpose: every number may be anything, and all checks are right.

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::mpsc;

use journal_core::Buffers;
use journal_core::policy::{Change, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, Durability, EXAMINE_BYTES_MAX, Journal, LINE_BYTES, NoHook, OpenError, Operation,
    PortableKernels,
};
use sim_disk::{Image, Model, Rng, World};

use lab::second_reader::examine::{Findings, examine, examine_without, go_on};
use lab::second_reader::forge::{RingMut, Target, put, seal, seal_copy, seal_span, targets};
use lab::second_reader::images::{Sample, samples, slotted};
use lab::second_reader::layout::BOOK;
use lab::second_reader::reader::{Content, content_check, mark_of_close, record_seed};
use lab::second_reader::versions::State;
use lab::second_reader::{BLOCK_BYTES, Kind, Shape, contents, counting};

/// What a number is changed to.
fn values(number: usize, was: u64) -> u64 {
    let edges = [
        0,
        1,
        2,
        was.wrapping_add(1),
        was.wrapping_sub(1),
        was.wrapping_add(64),
        was.wrapping_mul(2),
        u64::MAX,
        u64::MAX - 63,
        1 << 63,
        u64::from(u32::MAX),
        3,
        33,
        65,
        1 << 16,
        136,
    ];
    edges[number % edges.len()]
}

const VALUES: usize = 16;

fn try_forged(sample: &Sample, image: &Image) -> Result<(), String> {
    let outcome = examine(&sample.shape, image)?;
    go_on(&sample.shape, &outcome)
}

#[test]
fn every_number_may_be_anything() {
    let mut findings = Findings::default();
    let mut accepted = 0;
    for sample in samples() {
        for target in targets(&sample.found) {
            for number in 0..VALUES {
                let mut image = sample.image.clone();
                let span = image.pmem_mut();
                put(span, &sample.found, &target, &|was| values(number, was));
                seal(span, &sample.found, &target);
                accepted += u32::from(sample.shape.read_by_the_book(&image).is_ok());
                let result = try_forged(&sample, &image);
                findings.note(result, || format!("{}: {target:?}, way {number}", sample.name));
            }
        }
    }
    findings.check(10_000);
    assert!(accepted > 3_000, "the checks were made right: {accepted}");
}

/// Changes some numbers at a time; returns which.
fn forge(sample: &Sample, rng: &mut Rng) -> (Image, Vec<Target>) {
    let all = targets(&sample.found);
    let chosen: Vec<Target> =
        (0..1 + rng.index(4)).map(|_| all[rng.index(all.len())].clone()).collect();
    let mut image = sample.image.clone();
    let span = image.pmem_mut();
    for target in &chosen {
        let (bits, small) = (rng.next_u64(), rng.below(40));
        let way = rng.below(4);
        let change = |was: u64| match way {
            0 => bits,
            1 => small,
            2 => was ^ 1 << (bits % 64),
            _ => values(bits as usize % VALUES, was),
        };
        put(span, &sample.found, target, &change);
    }
    chosen.iter().for_each(|target| seal(span, &sample.found, target));
    (image, chosen)
}

#[test]
fn many_numbers_may_be_anything() {
    let samples = samples();
    let mut findings = Findings::default();
    for seed in 0..40_000 {
        let mut rng = Rng::new(seed);
        let sample = &samples[rng.index(samples.len())];
        let (image, chosen) = forge(sample, &mut rng);
        let result = try_forged(sample, &image);
        findings.note(result, || format!("seed {seed}, {}: {chosen:?}", sample.name));
    }
    findings.check(40_000);
}

/// A journal that became another one, by its name or by its shape: what it holds is by its checks
/// of that journal too.
#[test]
fn every_check_may_be_right_by_a_forged_superblock() {
    let mut findings = Findings::default();
    let mut renamed = BTreeSet::new();
    for sample in samples().into_iter().chain(slotted()) {
        for target in targets(&sample.found) {
            let Target::Superblock { copies, field, .. } = &target else { continue };
            if copies.len() != 2 {
                continue;
            }
            for number in 0..VALUES {
                let mut image = sample.image.clone();
                put(image.pmem_mut(), &sample.found, &target, &|was| values(number, was));
                seal_folded(&sample, image.pmem_mut());
                seal_span(image.pmem_mut());
                let is_renamed = field.name == "journal_id";
                let found = sample.shape.read_by_the_book(&image);
                if found.is_ok_and(|found| is_renamed && found.blocks == sample.found.blocks) {
                    renamed.insert(sample.name);
                }
                let result = try_forged(&sample, &image);
                findings.note(result, || format!("{}: {target:?}, way {number}", sample.name));
            }
        }
    }
    findings.check(5_000);
    assert!(renamed.len() > 9, "what shows the same by another name: {renamed:?}");
    assert!(renamed.contains("folded"), "{renamed:?}");
}

/// Makes what entries say of their slots right, by the name that the journal has now.
fn seal_folded(sample: &Sample, span: &mut [u8]) {
    let id = span[BOOK.head.field("journal_id").at..][..16].to_vec();
    let area = &sample.found.area;
    let folded = sample
        .found
        .entries
        .iter()
        .filter(|entry| entry.state == State::Whole && area.log_at(entry.slot).is_none());
    for entry in folded {
        let content = &span[area.slot_at(entry.slot) as usize..][..BLOCK_BYTES];
        let check = content_check(&id, entry.slot, content);
        let at = entry.at as usize + BOOK.entry.field("content").at;
        span[at..at + 8].copy_from_slice(&check.to_le_bytes());
    }
}

/// What a journal says of its own shape says where its slots and their entries are.
#[test]
fn any_line_of_a_journal_of_another_shape_may_be_unreadable() {
    let mut findings = Findings::default();
    let mut reached = BTreeSet::new();
    for sample in slotted() {
        let superblocks = targets(&sample.found).into_iter().filter(|target| {
            matches!(target, Target::Superblock { copies, at: 0, .. } if copies.len() == 2)
        });
        for (target, number) in superblocks.flat_map(|it| (0..VALUES).map(move |n| (it.clone(), n)))
        {
            let mut image = sample.image.clone();
            let span = image.pmem_mut();
            put(span, &sample.found, &target, &|was| values(number, was));
            seal(span, &sample.found, &target);
            let world = World::boot(image.clone(), Model::Torn8);
            let mut scratch = vec![0; EXAMINE_BYTES_MAX];
            let examined = journal_core::examine(&world.pmem(), &PortableKernels, &mut scratch);
            let Ok(examination) = examined else { continue };
            let geometry = examination.geometry;
            if geometry == sample.shape.geometry() {
                continue;
            }
            reached.insert((geometry.slot_entries(), geometry.first_slot()));
            for line in (0..image.pmem().len()).step_by(LINE_BYTES) {
                let result = examine_without(&sample.shape, &image, &BTreeSet::from([line]));
                let result = result.map(drop);
                let what = || format!("{}: {target:?}, way {number}, line {line}", sample.name);
                findings.note(result, what);
            }
        }
    }
    findings.check(1_000);
    assert!(reached.len() > 3, "the entries were elsewhere: {reached:?}");
}

/// Forgeries are accepted, so that they test something: a forged stamp changes what is newest.
#[test]
fn forgeries_go_deep() {
    let samples = samples();
    let sample = samples.iter().find(|sample| sample.name == "both lanes").expect("a sample");
    let mut changed = 0;
    for target in targets(&sample.found) {
        let Target::Record { .. } = &target else { continue };
        let mut image = sample.image.clone();
        put(image.pmem_mut(), &sample.found, &target, &|was| was ^ 1);
        let without = sample.shape.read_by_the_book(&image);
        seal(image.pmem_mut(), &sample.found, &target);
        let with = sample.shape.read_by_the_book(&image);
        let blocks = |found: &Result<lab::second_reader::reader::Found, _>| {
            found.as_ref().ok().map(|found| found.blocks.clone())
        };
        changed += u32::from(blocks(&with) != blocks(&without));
    }
    assert!(changed > 20, "{changed} forgeries were noticed only by what they say");
}

/// The small check is for headers of what is not whole: a part that is counts without it, whatever
/// else of its lane can be read.
#[test]
fn a_part_counts_by_its_large_check() {
    let mut findings = Findings::default();
    let mut counted = 0;
    for sample in samples().into_iter().chain(slotted()) {
        let id = sample.shape.id;
        for (number, lane) in sample.found.lanes.iter().enumerate() {
            for record in &lane.records {
                let mut image = sample.image.clone();
                let (start, bytes) = (lane.start as usize, lane.bytes as usize);
                let mut ring = RingMut { span: image.pmem_mut(), start, bytes };
                ring.seal(record, &id);
                let mut seed = record_seed(&id);
                for part in &record.parts {
                    ring.turn_small_check(part.at);
                    seed = ring.seal_large(part.at, seed);
                }
                let name = |line| format!("{}: lane {number}, line {line:?}", sample.name);
                let found = sample.shape.read_by_the_book(&image);
                let records = found.map_or(0, |found| found.lanes[number].records.len());
                counted += u32::from(records == lane.records.len());
                findings.note(try_forged(&sample, &image), || name(None));
                for line in (start..start + bytes).step_by(LINE_BYTES) {
                    let result = examine_without(&sample.shape, &image, &BTreeSet::from([line]));
                    findings.note(result.map(drop), || name(Some(line)));
                }
            }
        }
    }
    findings.check(1_000);
    assert!(counted > 70, "the records still count: {counted}");
}

/// A header that is right says that its lists are longer than the part, and than the lane: nothing
/// of them is read.
#[test]
fn lists_beyond_a_part_end_a_lane() {
    let shape = Shape { lane_bytes: 4096, ..Shape::new(Kind::Words, 1) };
    let mut image = shape.format();
    let lane = shape.geometry().lane(LaneNumber(0)).raw() as usize;
    for (frames, lines) in [(4, 2), (300, 64), (4000, 64), (u64::from(u16::MAX), 3)] {
        let mut ring = RingMut { span: image.pmem_mut(), start: lane, bytes: 4096 };
        let header = [("kind", BOOK.commit), ("flags", 1), ("lines", lines), ("frames", frames)];
        for (name, value) in header.into_iter().chain([("sequence", 1), ("stamp", 1)]) {
            ring.put(0, BOOK.header.field(name), value);
        }
        ring.seal_small(0, &shape.id);
        for unreadable in [BTreeSet::new(), BTreeSet::from([lane + 2048])] {
            let outcome = examine_without(&shape, &image, &unreadable).expect("agree");
            assert!(outcome.opened.is_ok(), "{frames} frames: {:?}", outcome.opened);
        }
    }
}

/// What contradicts itself is no part, whether or not its images can be read.
#[test]
fn images_of_what_is_no_part_need_not_be_readable() {
    let shape = Shape { lane_bytes: 4096, ..Shape::new(Kind::Words, 1) };
    for (form, counts) in [(BOOK.discard, true), (0xEE, false)] {
        let mut image = shape.format();
        let lane = shape.geometry().lane(LaneNumber(0)).raw() as usize;
        let mut ring = RingMut { span: image.pmem_mut(), start: lane, bytes: 4096 };
        let header = [("kind", BOOK.commit), ("flags", 1), ("lines", 3), ("frames", 2)];
        for (name, value) in header.into_iter().chain([("sequence", 1), ("stamp", 1)]) {
            ring.put(0, BOOK.header.field(name), value);
        }
        for (at, block, form, len) in [(64, 0, BOOK.image, 64), (80, 1, form, 0)] {
            for (name, value) in [("block", block), ("form", form), ("len", len)] {
                ring.put(at, BOOK.frame.field(name), value);
            }
        }
        ring.seal_part(0, &shape.id, record_seed(&shape.id));
        let found = shape.read_by_the_book(&image).expect("is a journal");
        assert_eq!(found.lanes[0].records.len(), usize::from(counts));
        let image_line = BTreeSet::from([lane + 128]);
        let outcome = examine_without(&shape, &image, &image_line).expect("agree");
        assert_eq!(outcome.opened.is_err(), counts, "{:?}", outcome.opened);
    }
}

/// What a part that cannot be one says has to be readable all the same, and its images need not be:
/// as far as anybody knows it was one.
#[test]
fn what_reaches_behind_the_end_of_a_lane_has_to_be_readable() {
    let shape = Shape { lane_bytes: 4096, ..Shape::new(Kind::Words, 1) };
    let mut image = shape.format();
    let lane = shape.geometry().lane(LaneNumber(0)).raw() as usize;
    let mut ring = RingMut { span: image.pmem_mut(), start: lane, bytes: 4096 };
    // One that is whole, and behind it one as long as the ring.
    for (at, sequence, lines, form, len) in
        [(0, 1, 2, BOOK.discard, 0), (128, 2, 64, BOOK.image, 64)]
    {
        let header = [("kind", BOOK.commit), ("flags", 1), ("lines", lines), ("frames", 1)];
        let more = [("position", at), ("sequence", sequence), ("stamp", sequence)];
        for (name, value) in header.into_iter().chain(more) {
            ring.put(at, BOOK.header.field(name), value);
        }
        for (name, value) in [("form", form), ("len", len)] {
            ring.put(at + 64, BOOK.frame.field(name), value);
        }
        ring.seal_part(at, &shape.id, record_seed(&shape.id));
    }
    for (line, counts) in [(192, true), (1024, false)] {
        let unreadable = BTreeSet::from([lane + line]);
        let outcome = examine_without(&shape, &image, &unreadable).expect("agree");
        let is_medium = matches!(outcome.opened, Err(OpenError::Medium(_)));
        assert_eq!(is_medium, counts, "line at {line}: {:?}", outcome.opened);
    }
}

/// Each part of a record is evidence, the first one of two as well.
#[test]
fn what_any_part_of_a_record_names_counts() {
    let shape = Shape::new(Kind::Words, 2);
    for (naming, other) in [(0, 1), (1, 0)] {
        let mut image = shape.format();
        let lane = shape.geometry().lane(LaneNumber(0)).raw() as usize;
        let bytes = shape.lane_bytes as usize;
        let mut ring = RingMut { span: image.pmem_mut(), start: lane, bytes };
        let mut seed = record_seed(&shape.id);
        for part in [0, 1] {
            let (at, names) = (128 * part, u64::from(part == naming));
            let header = [("kind", BOOK.commit), ("flags", part), ("part", part), ("lines", 2)];
            let more = [("position", at), ("sequence", 1), ("stamp", 1), ("frames", 1)];
            for (name, value) in header.into_iter().chain(more).chain([("names", names)]) {
                ring.put(at, BOOK.header.field(name), value);
            }
            // Another lane's first record, which is not there.
            for (name, value) in [("lane", 1), ("sequence", names)] {
                ring.put(at + 64, BOOK.name.field(name), names * value);
            }
            let frame = at + 64 + 16 * names;
            for (name, value) in [("block", part), ("form", BOOK.discard)] {
                ring.put(frame, BOOK.frame.field(name), value);
            }
            seed = ring.seal_part(at, &shape.id, seed);
        }
        let outcome = examine(&shape, &image).expect("agree");
        let is_rot = matches!(outcome.opened, Err(OpenError::Rot { lane: LaneNumber(1), .. }));
        assert!(is_rot, "named by part {naming} and not by {other}: {:?}", outcome.opened);
    }
}

/// A front longer than any that is written counts for nobody, however much memory there is to read
/// it.
#[test]
fn a_front_beyond_the_limit_does_not_count() {
    let shape = Shape { lane_bytes: 4096, ..Shape::new(Kind::Words, 1) };
    // The front is at most 2816 bytes long.
    for (frames, lines, counts) in [(49, 44, 1), (50, 45, 0)] {
        let mut image = shape.format();
        let lane = shape.geometry().lane(LaneNumber(0)).raw();
        let mut ring = RingMut { span: image.pmem_mut(), start: lane as usize, bytes: 4096 };
        let header = [("kind", BOOK.commit), ("flags", 1), ("lines", lines), ("frames", frames)];
        for (name, value) in header.into_iter().chain([("sequence", 1), ("stamp", 1)]) {
            ring.put(0, BOOK.header.field(name), value);
        }
        for frame in 0..frames {
            // Four times the first word of block 0, as zero.
            for (name, value) in [("form", BOOK.encoded), ("len", 40)] {
                ring.put(64 + 16 * frame, BOOK.frame.field(name), value);
            }
        }
        ring.seal_part(0, &shape.id, record_seed(&shape.id));
        let found = shape.read_by_the_book(&image).expect("is a journal");
        assert_eq!(found.lanes[0].records.len(), counts, "{frames} frames");
        let outcome = examine(&shape, &image).expect("agree");
        let records = outcome.recovery.expect("opens").records;
        assert_eq!(records, counts as u64, "{frames} frames");
    }
}

/// An open of a closed journal reads no further than to where its records end. The open after that
/// finds what was forged behind them.
#[test]
fn what_a_closed_journal_was_not_read_for_is_found_later() {
    let shape = Shape::new(Kind::Words, 1);
    let mut image = shape.format();
    let start = shape.geometry().lane(LaneNumber(0)).raw() as usize;
    let bytes = shape.geometry().lane_bytes as usize;
    let mut ring = RingMut { span: image.pmem_mut(), start, bytes };
    let header = [("kind", BOOK.commit), ("flags", 1), ("lines", 2), ("position", 64)];
    for (name, value) in header.into_iter().chain([("generation", 1 << 40), ("epoch", 9)]) {
        ring.put(64, BOOK.header.field(name), value);
    }
    ring.seal_small(64, &shape.id);
    let found = shape.read_by_the_book(&image).expect("nobody looks there");
    // The mark of the second is zero.
    for generation in [0, mark_of_close(0)] {
        let mut image = image.clone();
        for copy in found.copies.map(|copy| copy as usize) {
            let span = image.pmem_mut();
            let numbers = [("generation", generation), ("closed", mark_of_close(generation))];
            for (name, value) in numbers {
                let field = BOOK.head.field(name);
                let bytes = &value.to_le_bytes()[..field.len];
                span[copy + field.at..][..field.len].copy_from_slice(bytes);
            }
            seal_copy(span, copy);
        }
        let outcome = examine(&shape, &image).expect("agree");
        assert!(outcome.opened.is_ok(), "nobody looks there: {:?}", outcome.opened);
        go_on(&shape, &outcome).expect("a second reader finds it too");
        let again = shape.with(&outcome.world, |_| ());
        assert!(matches!(again, Err(OpenError::SuperblockLost { .. })), "{again:?}");
    }
}

/// Counters near their end: what a journal that was opened acknowledges is found again, or it says
/// that it cannot go on.
#[test]
fn what_is_committed_behind_a_forgery_is_found_again() {
    let mut findings = Findings::default();
    let mut committed = 0;
    for sample in samples().into_iter().chain(slotted()) {
        for target in targets(&sample.found) {
            for end in [1_u64 << 61, 1 << 62] {
                for value in [end - 66, end - 64, end - 3, end - 2, end - 1, end, end + 1] {
                    let mut image = sample.image.clone();
                    put(image.pmem_mut(), &sample.found, &target, &|_| value);
                    seal(image.pmem_mut(), &sample.found, &target);
                    let result = commit_and_find(&sample.shape, image, &mut committed);
                    findings.note(result, || format!("{}: {target:?}, {value:#x}", sample.name));
                }
            }
        }
    }
    findings.check(10_000);
    assert!(committed > 1_000, "{committed} went on");
}

/// Opens a journal, commits in every lane as long as it answers well, and opens it again.
fn commit_and_find(shape: &Shape, image: Image, committed: &mut u32) -> Result<(), String> {
    let world = World::boot(image, Model::Torn8);
    let mut expected = Vec::new();
    for round in 0..3_u8 {
        let opened = shape.with(&world, |journal| {
            let found = contents(journal);
            for (number, block) in &expected {
                let is = &found[*number as usize];
                if *is != Content::Is(*block) {
                    return Err(format!("round {round}: block {number} is {is:?}, not {block:?}"));
                }
            }
            if journal.checkpoint().is_err() {
                return Ok(false);
            }
            expected.clear();
            for lane in (0..shape.lanes).map(LaneNumber) {
                let number = u64::from(lane.raw());
                let new = counting(10 * round + lane.raw() as u8);
                let update = Update::new(BlockNumber(number), Change::Image(&new));
                let operations = [Operation::Update(update)];
                if journal.commit(lane, &operations, Durability::Durable).is_ok() {
                    expected.push((number, new));
                    *committed += 1;
                }
            }
            Ok(true)
        });
        match opened {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Ok(()),
            Ok(Err(what)) => return Err(what),
            Err(_) if round == 0 => return Ok(()),
            Err(error) => return Err(format!("opened {round} times, and then {error}")),
        }
    }
    Ok(())
}

/// A record of as many frames of block 0 as a front holds, of one form.
fn forge_record(ring: &mut RingMut<'_>, id: &[u8], number: u64, form: u64, slots: u64) {
    let is_slot = form == BOOK.slot;
    let (frames, len) = if is_slot { (85, 16) } else { (171, 0) };
    let at = number * RECORD_BYTES;
    let lines = RECORD_BYTES / 64;
    let header = [("kind", BOOK.commit), ("flags", 1), ("lines", lines), ("frames", frames)];
    let place = [("position", at), ("sequence", number + 1), ("stamp", number + 1)];
    for (name, value) in header.into_iter().chain(place) {
        ring.put(at, BOOK.header.field(name), value);
    }
    for frame in 0..frames {
        for (name, value) in [("form", form), ("len", len)] {
            ring.put(at + 64 + 16 * frame, BOOK.frame.field(name), value);
        }
        if is_slot {
            let payload = at + 64 + 16 * (frames + frame);
            ring.put(payload, BOOK.named_slot.field("slot"), (number * frames + frame) % slots);
        }
    }
    ring.seal_part(at, id, record_seed(id));
}

/// Bytes of the longest front.
const RECORD_BYTES: u64 = 2816;

/// Opens a journal of such records; it is soon done.
fn opens_soon(shape: Shape, form_of: impl Fn(u64) -> u64) {
    let mut image = shape.format();
    let lane = shape.geometry().lane(LaneNumber(0)).raw() as usize;
    let bytes = shape.lane_bytes as usize;
    let mut ring = RingMut { span: image.pmem_mut(), start: lane, bytes };
    let records = shape.lane_bytes / RECORD_BYTES;
    for number in 0..records {
        // What is newest is in no slot: they hold nothing.
        let form = if number + 1 == records { BOOK.discard } else { form_of(number) };
        forge_record(&mut ring, &shape.id, number, form, shape.lane_slots.into());
    }
    let (done, ends) = mpsc::channel();
    std::thread::spawn(move || {
        let world = World::boot(image, Model::Torn8);
        let mut buffers = Buffers::new(&shape.geometry(), 1 << 20, 2);
        let (pmem, disk, kernels) = (world.pmem(), world.disk(0), PortableKernels);
        let opened = Journal::open(pmem, disk, shape.kind, NoHook, kernels, buffers.borrow());
        let found = opened.map(|journal| journal.recovery().records);
        done.send(found).expect("somebody waits");
    });
    let found = ends.recv_timeout(Duration::from_secs(60)).expect("an end");
    assert_eq!(found, Ok(records));
}

/// Frames that no index forgets, and behind them ever more that make it look for what to forget.
#[test]
fn a_long_chain_is_not_walked_for_each_whole_frame() {
    let shape = Shape { lane_bytes: 8 << 20, ..Shape::new(Kind::Words, 1) };
    opens_soon(shape, |number| if number < 380 { BOOK.home } else { BOOK.discard });
}

/// Many changes of a block, and behind them versions of it in one slot after the other.
#[test]
fn a_long_chain_is_not_walked_for_each_slot() {
    let shape = Shape { lane_bytes: 16 << 20, lane_slots: 200_000, ..Shape::new(Kind::Delta, 1) };
    opens_soon(shape, |number| if number < 2400 { BOOK.encoded } else { BOOK.slot });
}
