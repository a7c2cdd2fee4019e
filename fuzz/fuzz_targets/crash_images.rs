//! Any tape of events, under any model: walking its crash points ends without a panic, and the
//! images at each of them agree with what can be computed the simple way.
//!
//! 1. The fingerprint that a crash point predicts for a choice is the fingerprint of its image.
//! 2. Different choices are different images, where all are listed.
//! 3. The image that keeps nothing is listed, and so is the one that keeps everything, which is
//!    what a reader sees at that instant.

#![no_main]

use std::collections::HashSet;

use arbitrary::Arbitrary;
use journal_core::{BlockNumber, BlockSize, DeviceFacts, Overwrite};
use libfuzzer_sys::fuzz_target;
use sim_disk::{
    CrashPoint, CrashPoints, DiskImage, Event, FlushKind, Image, Mark, Model, Rng, Tape, Thread,
};

const LINE_BYTES: u64 = 64;
const SPAN_BYTES: u64 = 4 * LINE_BYTES;
const BLOCKS: u64 = 4;
const DISKS: u16 = 2;
// Small, since speed finds more than size: a cell's options grow with the power of these.
const STORED_BYTES_MAX: u8 = 80;
const EVENTS_MAX: usize = 24;
const IMAGES_MAX: u64 = 64;

#[derive(Arbitrary, Clone, Debug)]
enum Step {
    Store { at: u8, len: u8, value: u8 },
    Stream { at: u8, len: u8, value: u8 },
    Flush { line: u8, strong: bool },
    Fence { fails: bool },
    Exchange { word: u8, value: u64 },
    OrderStores,
    Write { disk: bool, block: u8, blocks: u8, value: u8 },
    Sync { disk: bool, fails: bool },
    Say(u8),
    Kill,
}

#[derive(Arbitrary, Debug)]
struct Input {
    model: u8,
    first: u8,
    seed: u64,
    facts: [u8; DISKS as usize],
    steps: Vec<(bool, Step)>,
}

/// Bytes that differ from word to word and from one value to the next.
fn content(value: u8, len: u64) -> Box<[u8]> {
    (0..len).map(|index| value.wrapping_mul(31).wrapping_add(index as u8 / 8)).collect()
}

impl Step {
    fn event(&self) -> Event {
        let range = |at: u8, len: u8| {
            let at = u64::from(at) % SPAN_BYTES;
            (at, u64::from(len % STORED_BYTES_MAX).min(SPAN_BYTES - at))
        };
        match *self {
            Self::Store { at, len, value } => {
                let (at, len) = range(at, len);
                Event::Store { at, bytes: content(value, len) }
            }
            Self::Stream { at, len, value } => {
                let (at, len) = range(at, len);
                Event::Stream { at, bytes: content(value, len) }
            }
            Self::Flush { line, strong } => Event::Flush {
                line: u64::from(line) * LINE_BYTES % SPAN_BYTES,
                kind: if strong { FlushKind::Strong } else { FlushKind::Weak },
            },
            Self::Fence { fails: false } => Event::Fence,
            Self::Fence { fails: true } => Event::FenceFailed,
            Self::Exchange { word, value } => {
                Event::Exchange { at: u64::from(word) * 8 % SPAN_BYTES, value }
            }
            Self::OrderStores => Event::OrderStores,
            Self::Write { disk, block, blocks, value } => {
                let first = u64::from(block) % BLOCKS;
                let blocks = u64::from(blocks) % (BLOCKS - first + 1);
                let bytes = BlockSize::MIN.bytes() as u64;
                let bytes_written = content(value, blocks * bytes);
                Event::DiskWrite { disk: disk.into(), at: first * bytes, bytes: bytes_written }
            }
            Self::Sync { disk, fails: false } => Event::DiskSync { disk: disk.into() },
            Self::Sync { disk, fails: true } => Event::DiskSyncFailed { disk: disk.into() },
            Self::Say(label) => Event::Mark(Mark::Returned(label.into())),
            Self::Kill => Event::Mark(Mark::Killed),
        }
    }
}

fn facts(choice: u8) -> DeviceFacts {
    let unit = [8, 16, 64, 512][usize::from(choice % 4)];
    let overwrite = [Overwrite::NeverInPlace, Overwrite::OldOrNew, Overwrite::MayLeaveGarbage];
    DeviceFacts::new(unit, overwrite[usize::from(choice / 4 % 3)])
}

/// What a reader sees, computed beside the simulator in the plainest way.
fn apply(visible: &mut Image, event: &Event) {
    match event {
        Event::Store { at, bytes } | Event::Stream { at, bytes } => put(visible, *at, bytes),
        Event::Exchange { at, value } => put(visible, *at, &value.to_le_bytes()),
        Event::DiskWrite { disk, at, bytes } => {
            let size = BlockSize::MIN.bytes();
            let blocks = (at / size as u64..).map(BlockNumber);
            for (block, content) in blocks.zip(bytes.chunks_exact(size)) {
                visible.disk_mut(*disk).set_block(block, content);
            }
        }
        _ => {}
    }
}

fn put(visible: &mut Image, at: u64, bytes: &[u8]) {
    let at = usize::try_from(at).unwrap();
    visible.pmem_mut()[at..at + bytes.len()].copy_from_slice(bytes);
}

fn check(point: &CrashPoint, visible: &[Image], rng: &mut Rng) {
    let nothing = vec![0; point.cells().len()];
    let everything: Vec<usize> = point.cells().iter().map(|cell| cell.newest()).collect();
    let choices = point.choices(IMAGES_MAX, 8, rng);
    let complete = !choices.is_sample();
    let mut listed = HashSet::new();
    let mut seen = 0_u128;
    for choice in choices {
        let predicted = point.fingerprint(&choice);
        assert_eq!(predicted, point.image(&choice).fingerprint(), "choice {choice:?}");
        listed.insert(predicted);
        seen += 1;
    }
    if complete {
        assert_eq!(seen, point.image_count(), "all choices are listed");
        assert_eq!(seen, listed.len() as u128, "and no image twice");
    }
    assert!(listed.contains(&point.fingerprint(&nothing)), "nothing was kept");
    assert!(listed.contains(&point.fingerprint(&everything)), "everything was kept");
    let everything = point.fingerprint(&everything);
    assert!(
        visible.iter().any(|seen| seen.fingerprint() == everything),
        "everything that was written is what a reader sees"
    );
}

fuzz_target!(|input: Input| {
    let model = Model::ALL[usize::from(input.model) % Model::ALL.len()];
    let blank = |choice| DiskImage::blank(BlockSize::MIN, BLOCKS, facts(choice));
    let start = input
        .facts
        .iter()
        .fold(Image::blank(SPAN_BYTES as usize), |image, choice| image.with_disk(blank(*choice)));

    let mut tape = Tape::new();
    // The visible content before each event, and at the end.
    let mut visible = vec![start.clone()];
    for (thread, step) in input.steps.iter().take(EVENTS_MAX) {
        let event = step.event();
        let mut next = visible.last().unwrap().clone();
        apply(&mut next, &event);
        visible.push(next);
        tape.push(Thread((*thread).into()), event);
    }

    let mut rng = Rng::new(input.seed);
    let first = usize::from(input.first) % (tape.len() + 1);
    for point in CrashPoints::new(&start, &tape, model, first) {
        assert!(first <= point.position() && point.position() <= tape.len());
        // With durable caches the power may also go in the middle of a store, of which a reader
        // then sees as much as the crash keeps.
        let until = if model == Model::Eadr { point.position() + 1 } else { point.position() };
        let seen = &visible[point.position()..=until.min(tape.len())];
        check(&point, seen, &mut rng);
    }
});
