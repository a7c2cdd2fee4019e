//! The journal in persistent memory that is used as a disk.

use block_journal::{BlockJournal, Config, Mode, PmemDisk};
use journal_core::{BlockNumber, BlockSize, DeviceFacts, Overwrite};
use sim_disk::{DiskImage, Explorer, Image, Mark, Model, Scenario, SimDisk, SimPmem, World};

use crate::program::tell;

const RING: u32 = 9;
const BLOCK_BYTES: usize = 64;

type Journal = BlockJournal<PmemDisk<SimPmem>, SimDisk>;

/// Commits two blocks at a time, some times, with the number of the transaction in both.
struct Pairs {
    commits: u8,
}

impl Pairs {
    fn disk(world: &World) -> PmemDisk<SimPmem> {
        PmemDisk::new(world.pmem(), BlockSize::MIN)
    }

    fn open(world: &World) -> Result<Journal, String> {
        let opened = Journal::open(Self::disk(world), world.disk(0), Config::new(Mode::Data));
        opened.map(|(journal, _)| journal).map_err(|error| error.to_string())
    }

    fn commit(journal: &mut Journal, value: u8) -> Result<(), String> {
        let mut transaction = journal.begin();
        for block in 0..2 {
            let mut content = [0; BLOCK_BYTES];
            content[40] = value;
            let staged = transaction.metadata(BlockNumber(block), &content);
            staged.map_err(|error| error.to_string())?;
        }
        journal.commit(transaction).map_err(|error| error.to_string())
    }

    fn value(journal: &mut Journal) -> Result<u8, String> {
        let mut contents = [[0; BLOCK_BYTES]; 2];
        for (block, into) in (0..).zip(&mut contents) {
            journal.read(BlockNumber(block), into).map_err(|error| error.to_string())?;
        }
        let [one, other] = contents;
        if one == other { Ok(one[40]) } else { Err("half a transaction".to_owned()) }
    }
}

impl Scenario for Pairs {
    fn start(&self) -> Image {
        let disk = DiskImage::blank(BlockSize::MIN, 2, DeviceFacts::new(32, Overwrite::OldOrNew));
        let image = Image::blank((RING as usize + 2) * BLOCK_BYTES).with_disk(disk);
        let world = World::boot(image, Model::Torn8);
        let config = Config::new(Mode::Data);
        Journal::format(&mut Self::disk(&world), &world.disk(0), config).expect("a journal");
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let mut journal = Self::open(world)?;
        for value in 1..=self.commits {
            world.called(value.into());
            Self::commit(&mut journal, value)?;
            world.returned(value.into());
        }
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let mut journal = Self::open(world)?;
        let found = u64::from(Self::value(&mut journal)?);
        let history = world.history();
        let last = |of: fn(&Mark) -> Option<u64>| history.iter().rev().find_map(of).unwrap_or(0);
        let shown = last(|mark| match mark {
            Mark::Recovered(value) => Some(*value),
            _ => None,
        });
        let returned = last(|mark| match mark {
            Mark::Returned(value) => Some(*value),
            _ => None,
        });
        let called = last(|mark| match mark {
            Mark::Called(value) => Some(*value),
            _ => None,
        });
        if found < returned.max(shown) || found > called.max(shown) {
            return Err(format!("transaction {found}; {returned} returned, {called} was called"));
        }
        world.recovered(found);
        Ok(())
    }
}

#[test]
fn a_journal_in_persistent_memory_survives_every_crash() {
    for model in Model::ALL {
        let explorer = Explorer::new(model).with_kills().with_depth(1);
        let explorer = explorer.with_images_per_point_max(1 << 10);
        let report = explorer.explore(&Pairs { commits: 3 });
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        tell(&format!("{model}, in persistent memory"), &report);
        assert!(report.outcomes == 4 && report.images > 1_000, "{report}");
    }
}
