//! Journals to be damaged, with the content that they have to show.

use std::collections::BTreeSet;

use journal_core::policy::Policy as _;
use journal_core::{BlockNumber, Protocol};
use sim_disk::{Fault, FaultKind, Image, Model, Operation, World};

use crate::second_reader::layout::BOOK;
use crate::second_reader::reader::{Content, Found, Lane};
use crate::second_reader::versions::Versions;
use crate::second_reader::{Act, Kind, Shape, Truth, What, counting};

/// A valid journal.
#[derive(Clone)]
pub struct Sample {
    pub name: &'static str,
    pub shape: Shape,
    pub image: Image,
    pub found: Found,
    /// Whether the device holds torn blocks that only the intent makes whole.
    pub home_is_torn: bool,
}

/// What opening a damaged journal has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    Rot { lane: u16, sequence: u64 },
    Blocks(Vec<Content>),
}

impl Sample {
    pub fn new(name: &'static str, shape: Shape, acts: &[Act]) -> Self {
        let (image, truth) = shape.made_by(acts);
        Self::of(name, shape, image, truth)
    }

    fn of(name: &'static str, shape: Shape, image: Image, truth: Truth) -> Self {
        let found = shape.read_by_the_book(&image).expect("a valid journal");
        for (is, has) in found.blocks.iter().zip(&truth.0) {
            if let Some(block) = has {
                assert_eq!(is, &Content::Is(*block), "{name}");
            }
        }
        Self { name, shape, image, found, home_is_torn: false }
    }

    /// The bytes of the span that a range of a lane is.
    fn places(lane: &Lane, at: u64, len: u64) -> impl Iterator<Item = usize> {
        let (start, bytes) = (lane.start, lane.bytes);
        (at..at + len).map(move |at| (start + at % bytes) as usize)
    }

    /// What is to be found when these bytes of the span, and no others, are not what they were.
    ///
    /// A record with a changed byte does not count, and nothing behind it in its lane. If headers
    /// that are left, or the superblock, prove that it was durable, the journal is refused.
    pub fn expected(&self, changed: &BTreeSet<usize>) -> Expected {
        let is_changed = |lane: &Lane, at, len| {
            Self::places(lane, at, len).any(|place| changed.contains(&place))
        };
        let mut covered: Vec<u64> = self.found.lanes.iter().map(|lane| lane.covered()).collect();
        for (number, lane) in self.found.lanes.iter().enumerate() {
            for part in lane.records.iter().flat_map(|record| &record.parts) {
                if is_changed(lane, part.at, part.header.bytes.len() as u64) {
                    continue;
                }
                let own = (number as u64, part.header.field("watermark"));
                let named = part.header.names.iter().map(|(lane, name)| (*lane, name + 1));
                for (lane, to) in named.chain([own]) {
                    let known = &mut covered[lane as usize];
                    *known = to.max(*known);
                }
            }
        }
        let mut left = self.found.lanes.clone();
        for ((lane, covered), number) in left.iter_mut().zip(covered).zip(0..) {
            let broken = lane.records.iter().position(|record| {
                record.parts.iter().any(|part| is_changed(lane, part.at, part.total))
            });
            let Some(broken) = broken else { continue };
            let sequence = lane.records[broken].field("sequence");
            if sequence < covered {
                return Expected::Rot { lane: number, sequence };
            }
            lane.records.truncate(broken);
        }
        let apply =
            |payload: &[u8], block: &mut [u8]| self.shape.kind.apply(payload, block).is_ok();
        let versions = Versions::of(&left, &[]);
        let intent = self.intent_left(changed);
        let id = &self.shape.id;
        Expected::Blocks(versions.contents(intent, &self.image, &self.found.area, id, &apply))
    }

    fn intent_left(
        &self,
        changed: &BTreeSet<usize>,
    ) -> Option<&crate::second_reader::reader::Part> {
        let from = self.found.shield as usize;
        self.found
            .intent
            .as_ref()
            .filter(|part| changed.range(from..from + part.total as usize).next().is_none())
    }

    /// Where a lane ends: behind its last record.
    fn end_of(lane: &Lane) -> u64 {
        let head = BOOK.mark.number(&lane.note, "head");
        lane.records.last().map_or(head, |record| record.end())
    }

    /// Whether recovery has to read the line: it is of a live record, the one behind the last
    /// record of its lane, or of a believed intent.
    pub fn is_needed(&self, line: usize) -> bool {
        let of_lanes = self.found.lanes.iter().any(|lane| {
            let parts = lane.records.iter().flat_map(|record| &record.parts);
            let live = parts.flat_map(|part| Self::places(lane, part.at, part.total));
            live.chain(Self::places(lane, Self::end_of(lane), 1))
                .any(|place| place / 64 == line / 64)
        });
        let has_intent = self.found.intent.is_some();
        of_lanes || (has_intent && self.intent_left(&(line..line + 64).collect()).is_none())
    }

    /// Whether recovery may have to read the line, to see that something does not count: it is of
    /// the shield area, or of what begins at the end of a lane.
    pub fn may_be_needed(&self, line: usize) -> bool {
        let shield = self.found.shield as usize..self.found.lanes[0].start as usize;
        shield.contains(&line)
            || self.found.lanes.iter().any(|lane| {
                let end = Self::end_of(lane);
                let header = (lane.start + end % lane.bytes) as usize;
                let header = &self.image.pmem()[header..header + 64];
                let is_header = BOOK.header.number(header, "position") == end;
                let bytes = 64 * BOOK.header.number(header, "lines");
                let bytes = if is_header { bytes.min(lane.bytes) } else { 0 };
                Self::places(lane, end, bytes).any(|place| place / 64 == line / 64)
            })
    }

    /// Whether only an intent that was damaged could tell what blocks hold.
    pub fn is_beyond_help(&self, changed: &BTreeSet<usize>) -> bool {
        self.home_is_torn && self.intent_left(changed).is_none()
    }

    /// Bytes that no live structure covers.
    pub fn is_idle(&self, place: usize) -> bool {
        let found = &self.found;
        let of_copies = found
            .copies
            .iter()
            .any(|copy| (*copy as usize..(copy + found.copy_bytes) as usize).contains(&place));
        let of_lanes = found.lanes.iter().any(|lane| {
            let parts = lane.records.iter().flat_map(|record| &record.parts);
            parts
                .into_iter()
                .any(|part| Self::places(lane, part.at, part.total).any(|known| known == place))
        });
        !of_copies && !of_lanes
    }
}

impl Lane {
    /// Records that the superblock says were durable.
    pub fn covered_records(&self) -> usize {
        let covered = self.covered();
        self.records.iter().filter(|record| record.field("sequence") < covered).count()
    }

    /// Below it, the superblock says, records were durable.
    fn covered(&self) -> u64 {
        let field = |name| BOOK.mark.number(&self.note, name);
        field("epoch_first").max(field("durable_to"))
    }
}

fn commit(lane: u16, changes: &[(u64, What)]) -> Act {
    Act::Commit(lane, changes.to_vec())
}

fn mixed() -> Vec<Act> {
    let touched: Vec<_> = (3..8).map(|block| (block, What::Touch(0x30 + block as u8))).collect();
    vec![
        commit(0, &[(0, What::Fill(0x10))]),
        commit(0, &[(0, What::Touch(0x11))]),
        commit(1, &[(0, What::Touch(0x12)), (1, What::Fill(0x20))]),
        commit(0, &touched),
        Act::Defer(1, vec![(2, What::Fill(0x21))]),
        Act::Defer(1, vec![(1, What::Touch(0x22))]),
        Act::Sync,
    ]
}

/// A ring that was wrapped several times, with live records.
fn wrapped(kind: Kind) -> Sample {
    let shape = Shape::new(kind, 2);
    let mut acts = Vec::new();
    for round in 0..23_u8 {
        let block = u64::from(round) % 7;
        acts.push(commit(u16::from(round % 2), &[(block, What::Fill(round))]));
        acts.push(commit(u16::from(round / 2 % 2), &[(block, What::Touch(round))]));
    }
    acts.push(commit(1, &[(6, What::Fill(0x77)), (7, What::Discard)]));
    acts.push(commit(0, &[(5, What::Fill(0x78)), (6, What::Touch(0x79))]));
    Sample::new("wrapped", shape, &acts)
}

/// Copies of an image, of a chain over both lanes and of a discard, and work on top of them.
fn copied() -> Vec<Act> {
    vec![
        commit(0, &[(0, What::Fill(1))]),
        commit(1, &[(0, What::Touch(2)), (4, What::Fill(3))]),
        commit(0, &[(3, What::Discard)]),
        commit(0, &[(2, What::Fill(4))]),
        commit(0, &[(2, What::Fill(5))]),
        Act::Relog(0),
        commit(1, &[(0, What::Touch(6))]),
        commit(0, &[(4, What::Touch(7))]),
    ]
}

/// Power was lost in the middle of a record; then work went on in the next epoch.
fn after_a_crash() -> Sample {
    let shape = Shape::new(Kind::Words, 2);
    let acts = [
        commit(0, &[(0, What::Fill(1)), (1, What::Fill(2))]),
        commit(1, &[(2, What::Fill(3))]),
        commit(0, &[(3, What::Fill(4))]),
        commit(0, &[(4, What::Fill(5))]),
    ];
    let (mut image, _) = shape.made_by(&acts);
    let found = shape.read_by_the_book(&image).expect("valid");
    // The third record of lane 0 never arrived whole; what lies behind it did.
    let lane = &found.lanes[0];
    let torn = &lane.records[2].parts[0];
    let place = (lane.start + torn.at % lane.bytes) as usize;
    image.pmem_mut()[place + 70] ^= 0xFF;
    let mut truth = Truth::default();
    for (block, first) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
        truth.0[block] = Some(counting(first));
    }
    let world = World::boot(image, Model::Torn8);
    let acts = [commit(1, &[(0, What::Touch(9))]), commit(1, &[(5, What::Fill(6))])];
    shape.drive(&world, &acts, &mut truth);
    Sample::of("after a crash", shape, world.visible(), truth)
}

/// In the middle of a checkpoint, with the blocks at home whole or torn.
fn with_intent(home_is_torn: bool) -> Sample {
    let shape = Shape::new(Kind::Words, 2);
    let world = World::boot(shape.format(), Model::Torn8);
    world.inject(Fault::on(Operation::DiskSync, 0, FaultKind::Error));
    let acts = [
        commit(0, &[(0, What::Touch(1)), (1, What::Touch(2))]),
        commit(1, &[(1, What::Touch(3)), (2, What::Fill(4))]),
        Act::FailedCheckpoint,
    ];
    let mut truth = Truth::default();
    shape.drive(&world, &acts, &mut truth);
    let mut image = world.visible();
    if home_is_torn {
        image.disk_mut(0).set_block(BlockNumber(0), &[0xEE; 64]);
        image.disk_mut(0).set_block(BlockNumber(1), &[0xDD; 64]);
    }
    let name = if home_is_torn { "intent, home torn" } else { "intent, home whole" };
    let sample = Sample::of(name, shape, image, truth);
    assert!(sample.found.intent.is_some(), "an intent is believed");
    Sample { home_is_torn, ..sample }
}

/// Journals with slots, some of them after a crash that tore one, or an entry. The damage done to
/// them is judged by the second reader alone.
pub fn slotted() -> Vec<Sample> {
    let shape = Shape { lane_slots: 3, ..Shape::new(Kind::Delta, 2) };
    let tails = Shape { protocol: Protocol::TailPointer, ..shape };
    let logged = Shape { lane_log_blocks: 6, ..Shape::new(Kind::Logged, 2) };
    let logged_tails = Shape { protocol: Protocol::TailPointer, ..logged };
    vec![
        Sample::new("slots, formatted", shape, &[]),
        Sample::new("slots", shape, &versions()),
        Sample::new("slots and tail words", tails, &versions()),
        Sample::new("folded", shape, &folded()),
        Sample::new("folded, tail words", tails, &folded()),
        slots_wrapped(shape),
        torn_slot(shape, &[]),
        torn_slot(shape, &[commit(1, &[(0, What::Fill(9))]), commit(0, &[(5, What::Fill(10))])]),
        torn_entry(shape),
        slots_with_intent(shape),
        Sample::new("logged", logged, &versions_logged()),
        Sample::new("logged, tail words", logged_tails, &versions_logged()),
    ]
}

/// Blocks in the disk-side log: superseded, folded, given back, changed, given up.
fn versions_logged() -> Vec<Act> {
    vec![
        commit(0, &[(0, What::Fill(0x10)), (1, What::Fill(0x20))]),
        commit(1, &[(0, What::Fill(0x11))]),
        Act::Fold,
        commit(0, &[(0, What::Touch(0x12)), (2, What::Fill(0x30))]),
        Act::Garbage,
        commit(1, &[(5, What::Touch(0x50))]),
        commit(1, &[(1, What::Discard), (2, What::Fill(0x31))]),
        Act::Defer(0, vec![(2, What::Touch(0x32))]),
        Act::Sync,
    ]
}

/// Older versions that are rewritten, an append, patches on a slot, records of both lanes.
fn versions() -> Vec<Act> {
    vec![
        commit(0, &[(0, What::Fill(0x10)), (1, What::Fill(0x20))]),
        commit(0, &[(0, What::Fill(0x11))]),
        commit(1, &[(0, What::Touch(0x12)), (7, What::Append(0x70))]),
        commit(1, &[(0, What::Fill(0x13))]),
        commit(0, &[(0, What::Fill(0x14)), (7, What::Patch(0x71))]),
        Act::Defer(0, vec![(1, What::Patch(0x21)), (2, What::Fill(0x30)), (3, What::Discard)]),
        Act::Sync,
        commit(1, &[(0, What::Touch(0x15)), (1, What::Patch(0x22))]),
    ]
}

/// Folded versions: alone, with their frames, superseded, given back.
fn folded() -> Vec<Act> {
    vec![
        commit(0, &[(0, What::Fill(1)), (1, What::Fill(2))]),
        commit(1, &[(2, What::Fill(3)), (3, What::Fill(4))]),
        Act::Fold,
        commit(0, &[(0, What::Touch(5))]),
        commit(1, &[(0, What::Fill(6)), (2, What::Patch(7))]),
        Act::Garbage,
        // It stays, and so do the frames behind it.
        commit(1, &[(5, What::Patch(8))]),
        commit(1, &[(2, What::Touch(9)), (6, What::Append(10))]),
        Act::Fold,
        commit(1, &[(0, What::Touch(11)), (3, What::Discard)]),
    ]
}

/// Everything again and again.
fn slots_wrapped(shape: Shape) -> Sample {
    let mut acts = Vec::new();
    for round in 0..23_u8 {
        let block = u64::from(round) % 7;
        acts.push(commit(u16::from(round % 2), &[(block, What::Fill(round))]));
        acts.push(commit(u16::from(round / 2 % 2), &[(block, What::Touch(round))]));
        acts.push(commit(u16::from(round / 3 % 2), &[(block, What::Patch(round))]));
        match round % 5 {
            1 => acts.push(Act::Fold),
            3 => acts.push(Act::Garbage),
            4 => acts.push(Act::Checkpoint),
            _ => {}
        }
    }
    acts.push(commit(1, &[(6, What::Fill(0x77)), (7, What::Discard)]));
    Sample::new("slots, wrapped", shape, &acts)
}

/// A crash left the last record of a lane whole, and torn the slot that it names; then work went
/// on.
fn torn_slot(shape: Shape, later: &[Act]) -> Sample {
    let before = [
        commit(0, &[(0, What::Fill(1)), (1, What::Fill(2))]),
        commit(1, &[(2, What::Fill(3))]),
        commit(0, &[(0, What::Fill(4))]),
    ];
    let (_, mut truth) = shape.made_by(&before);
    let last = commit(0, &[(0, What::Touch(5)), (4, What::Fill(6))]);
    let (mut image, _) = shape.made_by(&[&before[..], &[last]].concat());
    let found = shape.read_by_the_book(&image).expect("a valid journal");
    let newest = found.versions.0[&0].last().and_then(|version| version.slot);
    let (slot, _) = newest.expect("is in a slot");
    let at = usize::try_from(found.area.slot_at(slot)).expect("in the span");
    image.pmem_mut()[at + 40] ^= 0xFF;
    let left = shape.read_by_the_book(&image).expect("a valid journal");
    assert_eq!((found.lanes[0].records.len(), left.lanes[0].records.len()), (3, 2));
    let world = World::boot(image, Model::Torn8);
    if !later.is_empty() {
        shape.drive(&world, later, &mut truth);
    }
    Sample::of("torn slot", shape, world.visible(), truth)
}

/// A crash tore an entry that was being written.
fn torn_entry(shape: Shape) -> Sample {
    let acts =
        [commit(0, &[(0, What::Fill(1))]), commit(0, &[(0, What::Fill(3)), (1, What::Fill(2))])];
    let (mut image, truth) = shape.made_by(&acts);
    let found = shape.read_by_the_book(&image).expect("a valid journal");
    let (slot, _) = found.versions.0[&1].last().and_then(|version| version.slot).expect("a slot");
    let at = found.entries[usize::try_from(slot).expect("few")].at as usize;
    image.pmem_mut()[at + 24..at + 32].copy_from_slice(&[0xEE; 8]);
    Sample::of("torn entry", shape, image, truth)
}

/// In the middle of a checkpoint of what only the device has whole.
fn slots_with_intent(shape: Shape) -> Sample {
    let world = World::boot(shape.format(), Model::Torn8);
    world.inject(Fault::on(Operation::DiskSync, 0, FaultKind::Error));
    let acts = [
        commit(0, &[(0, What::Patch(1)), (1, What::Patch(2))]),
        commit(1, &[(1, What::Patch(3)), (2, What::Fill(4))]),
        Act::FailedCheckpoint,
    ];
    let mut truth = Truth::default();
    shape.drive(&world, &acts, &mut truth);
    let sample = Sample::of("slots, intent", shape, world.visible(), truth);
    assert!(sample.found.intent.is_some(), "an intent is believed");
    sample
}

pub fn samples() -> Vec<Sample> {
    let full = Shape { shield_blocks: 0, ..Shape::new(Kind::Full, 1) };
    vec![
        Sample::new("formatted", Shape::new(Kind::Words, 3), &[]),
        Sample::new(
            "full blocks",
            full,
            &[
                commit(0, &[(1, What::Fill(1))]),
                commit(0, &[(1, What::Touch(2)), (2, What::Fill(3))]),
                commit(0, &[(3, What::Fill(4)), (4, What::Discard)]),
            ],
        ),
        Sample::new("both lanes", Shape::new(Kind::Words, 2), &mixed()),
        Sample::new(
            "discards",
            Shape::new(Kind::Words, 2),
            &[
                commit(0, &[(0, What::Fill(1)), (1, What::Fill(2))]),
                commit(1, &[(0, What::Discard)]),
                commit(0, &[(0, What::Fill(3)), (2, What::Discard)]),
            ],
        ),
        Sample::new("copies", Shape::new(Kind::Words, 2), &copied()),
        wrapped(Kind::Words),
        wrapped(Kind::Full),
        after_a_crash(),
        with_intent(false),
        with_intent(true),
    ]
}
