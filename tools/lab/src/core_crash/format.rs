//! Formatting a span that holds a journal of another shape.

use full_block::FullBlock;
use journal_core::Buffers;
use journal_core::superblock::SuperblockError;
use journal_core::{
    BlockSize, DeviceFacts, Geometry, Journal, OpenError, Overwrite, PortableKernels, Protocol,
};
use sim_disk::{DiskImage, Image, Mark, Medium, Model, Mutator, Scenario, World};

const BLOCKS: u64 = 4;
const OLD_UNIT: u32 = 256;
const NEW_UNIT: u32 = 512;

/// Formats the span anew, with larger media units: the old second superblock copy lies between the
/// new ones.
pub struct Reformat {
    pub mutator: Mutator,
}

fn geometry(unit_bytes: u32) -> Geometry {
    let block_size = BlockSize::MIN;
    let protocol = Protocol::OneFence;
    Geometry {
        block_size,
        lanes: 1,
        lane_bytes: 512,
        shield_blocks: 0,
        unit_bytes,
        protocol,
        lane_slots: 3,
        lane_log_blocks: 0,
        segment_blocks: 0,
    }
}

fn format(world: &World, hook: Mutator, unit_bytes: u32) -> Result<(), OpenError> {
    let (geometry, id) = (geometry(unit_bytes), [unit_bytes.to_le_bytes()[1]; 16]);
    journal_core::format(world.pmem(), hook, &PortableKernels, &geometry, id, &FullBlock, BLOCKS)
}

/// Opens whichever journal is there; returns its media unit.
fn open(world: &World) -> Result<u32, OpenError> {
    let mut buffers = Buffers::new(&geometry(NEW_UNIT), 16, 1);
    let (pmem, disk, hook) = (world.pmem(), world.disk(0), Mutator::new());
    let journal = Journal::open(pmem, disk, FullBlock, hook, PortableKernels, buffers.borrow())?;
    Ok(journal.geometry().unit_bytes)
}

fn is_done(history: &[Mark]) -> bool {
    history.iter().any(|mark| matches!(mark, Mark::Returned(_)))
}

/// Rot in the first copy of the new journal, once there are two. It takes the magic, so that the
/// copy is not asked where its twin is, and that one is searched for.
pub fn rot_the_new_copy(image: &mut Image, history: &[Mark]) {
    if is_done(history) {
        image.flip_bit(Medium::Pmem, 3, 1);
    }
}

impl Scenario for Reformat {
    fn start(&self) -> Image {
        let span = geometry(NEW_UNIT).span_bytes().expect("small");
        let facts = DeviceFacts::new(64, Overwrite::OldOrNew);
        let disk = DiskImage::blank(BlockSize::MIN, BLOCKS, facts);
        let mut pmem = Image::blank(usize::try_from(span).expect("small"));
        // Slots' entries are not void before a format has seen to it.
        pmem.pmem_mut().fill(0xA5);
        let image = pmem.with_disk(disk);
        let world = World::boot(image, Model::Torn8);
        format(&world, Mutator::new(), OLD_UNIT).expect("formats");
        // Its superblock is of a higher generation than that of a new journal.
        assert_eq!(open(&world), Ok(OLD_UNIT));
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        world.called(1);
        format(world, self.mutator.clone(), NEW_UNIT).map_err(|error| error.to_string())?;
        world.returned(1);
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let found = match open(world) {
            Err(OpenError::Superblock(SuperblockError::Unfinished)) => 0,
            found => found.map_err(|error| error.to_string())?,
        };
        world.recovered(found.into());
        if found != NEW_UNIT && is_done(&world.history()) {
            return Err("the new journal is not there".into());
        }
        Ok(())
    }
}
