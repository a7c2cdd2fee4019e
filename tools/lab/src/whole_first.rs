//! Slots that a killed process has changed: one block of two lines, of which one may be flushed
//! and the other not.

use journal_core::policy::Policy;
use journal_core::{BlockSize, DeviceFacts, Geometry, Overwrite, PortableKernels, Protocol, Rule};
use sim_disk::{DiskImage, Explorer, Image, Mark, Model, Mutator, Scenario, World};

/// Bytes of the block.
pub const TWO_LINES: usize = 128;

/// What an open journal of one block is asked for. What is written is to be durable.
#[derive(Debug)]
pub enum Ask<'a> {
    Read(&'a mut [u8; TWO_LINES]),
    Write(&'a [u8; TWO_LINES]),
}

/// A journal while it is open.
pub type OneBlock<'a> = &'a mut dyn FnMut(Ask<'_>) -> Result<(), String>;

/// What is done with it.
pub type Life<'a> = &'a mut dyn FnMut(OneBlock<'_>) -> Result<(), String>;

/// How a journal of one block is opened.
pub trait Opens {
    /// A policy that rewrites slots in part.
    type Policy: Policy;

    fn policy(&self) -> Self::Policy;

    /// Slots of its one lane.
    fn slots(&self) -> u32;

    /// # Errors
    /// The journal's, and those of the life.
    fn open(&self, world: &World, mutator: Mutator, live: Life<'_>) -> Result<(), String>;
}

/// A journal of one lane, with this many slots.
#[must_use]
pub fn geometry(lane_slots: u32) -> Geometry {
    Geometry {
        block_size: BlockSize::new(TWO_LINES as u32).expect("a block size"),
        lanes: 1,
        lane_bytes: 16 * 64,
        shield_blocks: 0,
        unit_bytes: 256,
        protocol: Protocol::OneFence,
        lane_slots,
        lane_log_blocks: 0,
        segment_blocks: 0,
    }
}

/// One block in versions, of which the third and the fourth differ in one line only.
struct Versions<'a, O>(&'a O, Mutator);

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

impl<O: Opens> Versions<'_, O> {
    fn run(&self, world: &World, count: u64, is_recovery: bool) -> Result<(), String> {
        self.0.open(world, self.1.clone(), &mut |block| {
            let mut found = [0; TWO_LINES];
            block(Ask::Read(&mut found))?;
            let number = version_in(&world.history(), &found)?;
            if is_recovery {
                world.recovered(number);
            }
            for _ in 0..count {
                let next = calls(&world.history()) + 1;
                world.called(next);
                block(Ask::Write(&version(next)))?;
                world.returned(next);
            }
            Ok(())
        })
    }
}

impl<O: Opens> Scenario for Versions<'_, O> {
    fn name(&self) -> String {
        "versions of one block".to_owned()
    }

    fn start(&self) -> Image {
        let geometry = geometry(self.0.slots());
        let span = geometry.span_bytes().expect("small") as usize;
        let facts = DeviceFacts::new(32, Overwrite::OldOrNew);
        let disk = DiskImage::blank(geometry.block_size, 1, facts);
        let world = World::boot(Image::blank(span).with_disk(disk), Model::Torn8);
        let (hook, kernels, policy) = (Mutator::new(), PortableKernels, self.0.policy());
        let formatted =
            journal_core::format(world.pmem(), hook, &kernels, &geometry, [7; 16], &policy, 1);
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

/// A killed process has changed words of an older version and not flushed them. The next one
/// changes others, and a power loss forgets the first. Nothing is lost, and without the rule that
/// prevents it something is.
///
/// # Panics
/// Where that is not so.
pub fn needs_slots_written_whole<O: Opens>(opens: &O, random_per_point: u32) {
    let explorer = Explorer::new(Model::Torn8)
        .with_images_per_point_max(1 << 8)
        .with_random_per_point(random_per_point)
        .with_depth(1)
        .with_kills();
    let explored = explorer.explore(&Versions(opens, Mutator::new()));
    explored.unwrap_or_else(|failure| panic!("{failure}"));
    let broken = Versions(opens, Mutator::without(&[Rule::SlotsWrittenWhole]));
    assert!(explorer.explore(&broken).is_err(), "and nothing notices");
}
