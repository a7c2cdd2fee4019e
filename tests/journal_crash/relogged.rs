//! Blocks that the upkeep copies in the memory so that heads go on: a host's ticks, and commits
//! that cross a threshold.

use core::time::Duration;

use journal_core::{BlockNumber, BlockSize, DeviceFacts, Rule};
use lab::erased::{DynHook, DynJournal, DynPolicy, any_options, of_world};
use nvm_journal::policy::Thresholds;
use nvm_journal::{Error, FullBlock, Lcow, Options, Stats};
use sim_disk::{DiskImage, Explorer, Image, Mark, Model, Mutator, Scenario, World};

const BLOCK_BYTES: usize = 64;
/// A block that is written once, one that is given up, and one that each round writes anew.
const COLD: BlockNumber = BlockNumber(1);
const GONE: BlockNumber = BlockNumber(2);
const HOT: BlockNumber = BlockNumber(5);
const ROUNDS: u8 = 14;

/// Where copies go.
#[derive(Clone, Copy, Debug, PartialEq)]
enum To {
    Tail,
    Slots,
}

/// Rounds of changes, with room made behind each.
#[derive(Clone)]
struct Relogged {
    to: To,
    in_commits: bool,
    mutator: Mutator,
}

/// What a block holds after a number of rounds.
fn content(rounds: u8, block: BlockNumber) -> [u8; BLOCK_BYTES] {
    match block {
        COLD if rounds > 0 => [99; BLOCK_BYTES],
        HOT => [rounds; BLOCK_BYTES],
        _ => [0; BLOCK_BYTES],
    }
}

impl Relogged {
    fn options(&self) -> Options<DynPolicy, DynHook> {
        let options = match self.to {
            To::Tail => any_options(FullBlock, self.mutator.clone()),
            To::Slots => any_options(Lcow::new(), self.mutator.clone()),
        };
        options
            .lanes(1)
            .lane_bytes(36 * 64)
            .lane_slots(if self.to == To::Slots { 8 } else { 0 })
            .unit_bytes(256)
            .index_frames(1 << 14)
            .thresholds(Thresholds::new(96, 255))
            .upkeep_in_commits(self.in_commits)
            .relogs(true)
    }

    fn open(&self, world: &World) -> Result<DynJournal, Error> {
        let (nvm, disk) = of_world(world);
        DynJournal::open(nvm, disk, &self.options())
    }

    /// Metadata, which goes into the ring under both policies.
    fn round(&self, journal: &DynJournal, round: u8) -> Result<(), Error> {
        journal.transact(|tx| {
            if round == 1 {
                tx.write_metadata(COLD, &content(round, COLD))?;
                tx.discard(GONE)?;
            }
            tx.write_metadata(HOT, &content(round, HOT))
        })?;
        if self.in_commits { Ok(()) } else { journal.tick(Duration::ZERO) }
    }

    fn all(&self, world: &World) -> Result<Stats, Error> {
        let journal = self.open(world)?;
        for round in 1..=ROUNDS {
            world.called(round.into());
            self.round(&journal, round)?;
            world.returned(round.into());
        }
        journal.stats()
    }
}

impl Scenario for Relogged {
    fn name(&self) -> String {
        format!("copies to {:?}, in commits: {}", self.to, self.in_commits)
    }

    fn start(&self) -> Image {
        let block_size = BlockSize::new(BLOCK_BYTES as u32).expect("a block size");
        let planned = self.options().plan(1 << 20, block_size).expect("a small journal");
        let disk = DiskImage::blank(block_size, 8, DeviceFacts::cautious());
        let world = World::boot(Image::blank(planned.nvm_bytes as usize).with_disk(disk), MODEL);
        let (nvm, disk) = of_world(&world);
        drop(DynJournal::format(nvm, disk, &self.options()).expect("formats"));
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let stats = self.all(world).map_err(|error| error.to_string())?;
        // Copies alone let the heads go on: nothing is written home for that.
        if stats.copied < 2 || stats.checkpointed.blocks > 0 {
            return Err(format!("{}: {} copied: {stats}", self.name(), stats.copied));
        }
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let failed = |error: Error| error.to_string();
        let journal = self.open(world).map_err(failed)?;
        let history = world.history();
        let durable = history.iter().filter(|mark| matches!(mark, Mark::Returned(_))).count();
        let called = history.iter().filter(|mark| matches!(mark, Mark::Called(_))).count();
        // What was found is copied in turn, and read again.
        for time in ["found", "copied"] {
            let mut found = [[0; BLOCK_BYTES]; 2];
            for (block, found) in [COLD, HOT].into_iter().zip(&mut found) {
                journal.read(block, found).map_err(failed)?;
            }
            let is_after =
                |rounds: &usize| found == [COLD, HOT].map(|block| content(*rounds as u8, block));
            let Some(rounds) = (durable..=called).find(is_after) else {
                return Err(format!("neither {durable} nor {called} rounds are {time}: {found:?}"));
            };
            world.recovered(rounds as u64);
            journal.tick(Duration::ZERO).map_err(failed)?;
        }
        Ok(())
    }
}

const MODEL: Model = Model::Torn8;

fn each() -> impl Iterator<Item = Relogged> {
    let ways = [(To::Tail, false), (To::Tail, true), (To::Slots, false), (To::Slots, true)];
    ways.into_iter().map(|(to, in_commits)| Relogged { to, in_commits, mutator: Mutator::new() })
}

fn explorer() -> Explorer {
    Explorer::new(MODEL).with_images_per_point_max(1 << 6).with_random_per_point(16)
}

#[test]
fn blocks_that_are_copied_survive_every_crash() {
    for relogged in each() {
        let report = explorer().explore(&relogged);
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.images > 300, "{report}");
    }
}

/// A copy is the newest content of its block, and a head passes what it copies only then.
#[test]
fn a_copy_needs_its_rules() {
    for rule in [Rule::CopyIsNewest, Rule::RecordCheck] {
        for relogged in each() {
            let broken = Relogged { mutator: Mutator::without(&[rule]), ..relogged };
            assert!(explorer().explore(&broken).is_err(), "{rule:?}: {}", broken.name());
        }
    }
}

/// Without the option, what keeps a head back goes home.
#[test]
fn nothing_is_copied_unless_it_is_asked_for() {
    for relogged in each() {
        let world = World::boot(relogged.start(), MODEL);
        let (nvm, disk) = of_world(&world);
        let options = relogged.options().relogs(false);
        let journal = DynJournal::open(nvm, disk, &options).expect("opens");
        for round in 1..=5 * ROUNDS {
            relogged.round(&journal, round).expect("goes on");
        }
        let stats = journal.stats().expect("is alive");
        assert_eq!(stats.copied, 0, "{stats}");
        assert!(stats.checkpointed.blocks > 0, "{stats}");
    }
}

/// What says that a block is not live keeps a head back like any content. It is let go of where
/// what is at home is sure to stay. An open does not know that: what it has found is copied.
#[test]
fn a_discard_at_a_head_is_let_go_of_or_copied() {
    let mut all = Vec::new();
    for relogged in each() {
        let world = World::boot(relogged.start(), MODEL);
        let rounds = |journal: &DynJournal| {
            for round in 1..=5 * ROUNDS {
                let written = journal.transact(|tx| tx.write_metadata(HOT, &content(round, HOT)));
                written.expect("goes on");
                if !relogged.in_commits {
                    journal.tick(Duration::ZERO).expect("goes on");
                }
            }
            let stats = journal.stats().expect("is alive");
            assert_eq!(stats.checkpointed.blocks, 0, "{}: {stats}", relogged.name());
            stats.copied
        };
        let discard = |journal: &DynJournal| {
            journal.transact(|tx| tx.discard(GONE)).expect("goes on");
        };
        let journal = relogged.open(&world).expect("opens");
        discard(&journal);
        let let_go = rounds(&journal);
        discard(&journal);
        drop(journal);
        let journal = relogged.open(&world).expect("opens");
        all.push((relogged.name(), let_go, rounds(&journal)));
    }
    // The block that is written again and again may be copied too.
    let is_right = |(_, let_go, copied): &(String, u64, u64)| *let_go < 3 && *copied > let_go + 2;
    assert!(all.iter().all(is_right), "{all:?}");
}

/// What lies in slots is folded, which takes less.
#[test]
fn what_is_in_slots_is_not_copied() {
    for relogged in each().filter(|relogged| relogged.to == To::Slots) {
        let world = World::boot(relogged.start(), MODEL);
        let journal = relogged.open(&world).expect("opens");
        for round in 1..=5 * ROUNDS {
            let block = BlockNumber(u64::from(round % 2));
            let written = journal.transact(|tx| tx.write(block, &[round; BLOCK_BYTES]));
            written.expect("goes on");
            if !relogged.in_commits {
                journal.tick(Duration::ZERO).expect("goes on");
            }
        }
        let stats = journal.stats().expect("is alive");
        let is_right = stats.copied == 0 && stats.checkpointed.blocks == 0;
        assert!(is_right, "{}: {} copied: {stats}", relogged.name(), stats.copied);
    }
}
