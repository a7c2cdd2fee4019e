//! What is older than a block's content, and may not come back: images of an earlier intent, older
//! versions below the entry of the newest one, and words that a killed process has left in a slot.

use journal_core::policy::Thresholds;
use journal_core::units::BlockSize;
use journal_core::{
    BlockNumber, DeviceFacts, Durability, Geometry, Operation, Overwrite, PortableKernels,
    Protocol, Rule,
};
use lab::oracle::{Change, End};
use nvm_journal::{Error, Journal, On, Options};
use sim_disk::{
    DiskImage, Explorer, Image, Mark, Model, Mutator, Scenario, SimDisk, SimPmem, World,
};

use crate::probe::Logged;
use crate::program::{Program, Step};
use crate::rules::{needs, one};

use Change::{Append, Discard, Touch, Write};
use End::Durable;

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 8).with_random_per_point(32)
}

/// Block 0 goes home by an intent, which stays, since the other block keeps the head. Then it is
/// given up, and appended at home.
#[test]
fn an_append_at_home_is_not_undone_by_an_older_intent() {
    let change = |block, change| one(0, &[(block, change)], Durable);
    let steps = vec![
        change(3, Write),
        change(0, Touch),
        Step::OneBatch,
        change(0, Discard),
        change(0, Append),
    ];
    let program = Program::new(Logged::Patches, 1, steps);
    let overwrite = Overwrite::MayLeaveGarbage;
    let program = Program { lane_bytes: 32 * 64, batch: 1, overwrite, ..program };
    needs(Rule::AppendsNotRepeated, &explorer(), &program);
}

/// An older version of block 0 is in the first lane, held there by a change of block 1, when a slot
/// is wanted: the block goes home, and the entry of its newest version could go.
#[test]
fn the_entry_of_the_newest_version_stays_while_older_frames_do() {
    let change = |seat, block, change| one(seat, &[(block, change)], Durable);
    let steps = vec![change(0, 1, Touch), change(0, 0, Write), change(1, 0, Write), Step::Tick];
    let thresholds = Some(Thresholds::new(255, 255));
    let program = Program::new(Logged::Cached, 2, steps);
    let program = Program { lane_bytes: 32 * 64, lane_slots: 1, thresholds, ..program };
    needs(Rule::NewestVoidedLast, &explorer(), &program);
}

/// Bytes of a block that has two lines, of which one may be flushed and the other not.
const TWO_LINES: usize = 128;

const GEOMETRY: Geometry = Geometry {
    block_size: BlockSize::new(TWO_LINES as u32).expect("a block size"),
    lanes: 1,
    lane_bytes: 16 * 64,
    shield_blocks: 0,
    unit_bytes: 256,
    protocol: Protocol::OneFence,
    lane_slots: 3,
    lane_log_blocks: 0,
    segment_blocks: 0,
};

/// One block in versions, of which the third and the fourth differ in one line only.
struct Versions(Mutator);

fn version(number: u64) -> [u8; TWO_LINES] {
    let mut image = [0; TWO_LINES];
    image[..8].copy_from_slice(&number.to_le_bytes());
    image[64..72].copy_from_slice(&number.min(3).to_le_bytes());
    image
}

fn calls(history: &[Mark]) -> u64 {
    history.iter().filter(|mark| matches!(mark, Mark::Called(_))).count() as u64
}

/// Which version the block holds: the last one acknowledged, or one that was called since.
fn version_in(history: &[Mark], found: &[u8; TWO_LINES]) -> Result<u64, String> {
    let returned = history.iter().filter_map(|mark| match mark {
        Mark::Returned(number) => Some(*number),
        _ => None,
    });
    let mut allowed = returned.max().unwrap_or(0)..=calls(history);
    let fits = allowed.find(|number| version(*number) == *found);
    fits.ok_or_else(|| format!("lines begin with {}, {}: {history:?}", found[0], found[64]))
}

impl Versions {
    fn run(&self, world: &World, count: u64, is_recovery: bool) -> Result<(), String> {
        let failed = |error: Error| error.to_string();
        let options = Options::new().policy(Logged::Versions).hook(self.0.clone()).index_frames(16);
        let opened = Journal::open(world.pmem(), world.disk(0), &options);
        let journal: Journal<Logged, On<SimPmem, SimDisk, Mutator>> = opened.map_err(failed)?;
        let mut found = [0; TWO_LINES];
        journal.read(BlockNumber(0), &mut found).map_err(failed)?;
        let number = version_in(&world.history(), &found)?;
        if is_recovery {
            world.recovered(number);
        }
        for _ in 0..count {
            let next = calls(&world.history()) + 1;
            let image = version(next);
            world.called(next);
            let operations = [Operation::write(BlockNumber(0), &image)];
            journal.commit(&operations, Durability::Durable).map_err(failed)?;
            world.returned(next);
        }
        Ok(())
    }
}

impl Scenario for Versions {
    fn name(&self) -> String {
        "versions of one block".to_owned()
    }

    fn start(&self) -> Image {
        let span = GEOMETRY.span_bytes().expect("small") as usize;
        let facts = DeviceFacts::new(32, Overwrite::OldOrNew);
        let disk = DiskImage::blank(GEOMETRY.block_size, 1, facts);
        let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
        let (hook, kernels, policy) = (Mutator::new(), PortableKernels, Logged::Versions);
        let formatted =
            journal_core::format(world.pmem(), hook, &kernels, &GEOMETRY, [7; 16], &policy, 1);
        formatted.expect("formats");
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        self.run(world, 3, false)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.run(world, 1, true)
    }
}

/// A killed process has changed words of an older version and not flushed them; the next one
/// changes others, and a power loss forgets the first.
#[test]
fn a_slot_that_an_earlier_process_may_have_changed_is_written_whole_first() {
    let explorer = explorer().with_depth(1).with_kills();
    let explored = explorer.explore(&Versions(Mutator::new()));
    explored.unwrap_or_else(|failure| panic!("{failure}"));
    let broken = Versions(Mutator::without(&[Rule::SlotsWrittenWhole]));
    assert!(explorer.explore(&broken).is_err(), "and nothing notices");
}
