//! Pinned blocks that the cache has no room for: they move to new places in the disk-side log, and
//! every crash meanwhile leaves what was committed.
//!
//! Nothing makes room but the want of room in the cache: no tick, and no threshold.

use journal_core::{BlockNumber, Overwrite, Rule, SiteKind};
use lab::oracle::{BLOCK_BYTES, BLOCKS, Block};
use nvm_journal::policy::Thresholds;
use sim_disk::{Explorer, Image, Mark, Model, Mutant, Mutation, Mutator, Scenario, World};

use crate::probe::Logged;
use crate::program::{Front, Program, read_all};

/// Blocks that the cache has room for.
const CACHED: usize = 3;

/// Rounds of changes: each is a transaction that changes two blocks.
#[derive(Clone)]
struct Evicted {
    program: Program,
    rounds: u8,
}

/// The blocks that a round changes.
fn changed(round: u8) -> [usize; 2] {
    let first = usize::from(round) * 2 % BLOCKS;
    [first, (first + 1) % BLOCKS]
}

/// What a block holds after some rounds: each leaves a byte behind in one word of its own.
fn content(rounds: u8, block: usize) -> Block {
    let mut content = [0; BLOCK_BYTES];
    for round in (1..=rounds).filter(|round| changed(*round).contains(&block)) {
        content[usize::from(round % 4) * 8] = round * 8 + block as u8;
    }
    content
}

impl Evicted {
    fn on_lanes(logs: Logged, lanes: u16, rounds: u8, mutator: Mutator) -> Self {
        let program = Program::new(logs, lanes, Vec::new());
        let program = Program {
            lane_bytes: 40 * 64,
            lane_segments: 8,
            batch: 4,
            overwrite: Overwrite::MayLeaveGarbage,
            pinned: Some(CACHED),
            thresholds: Some(Thresholds::new(255, 255)),
            mutator,
            ..program
        };
        Self { program, rounds }
    }

    fn new(rounds: u8, mutator: Mutator) -> Self {
        Self::on_lanes(Logged::Levels, 1, rounds, mutator)
    }

    fn change(&self, journal: &Front, round: u8) -> Result<(), String> {
        // Each round goes through a lane of its own.
        let others: Result<Vec<_>, _> =
            (0..u16::from(round) % self.program.lanes).map(|_| journal.begin()).collect();
        let _others = others.map_err(|error| error.to_string())?;
        let changed = journal.transact(|tx| {
            changed(round).into_iter().try_for_each(|block| {
                let at = usize::from(round % 4) * 8;
                tx.write_at(BlockNumber(block as u64), at, &content(round, block)[at..=at])
            })
        });
        changed.map_err(|error: nvm_journal::Error| error.to_string())
    }

    fn change_marked(&self, world: &World, journal: &Front, round: u8) -> Result<(), String> {
        world.called(round.into());
        self.change(journal, round)?;
        world.returned(round.into());
        Ok(())
    }

    /// Whether the cache bounds what is pinned, and nothing has gone home.
    fn is_bounded(journal: &Front, pinned_max: usize) -> Result<u64, String> {
        let stats = journal.stats().map_err(|error| error.to_string())?;
        let is_so = stats.cached.pinned <= pinned_max && stats.checkpointed.blocks == 0;
        if is_so { Ok(stats.moved) } else { Err(stats.to_string()) }
    }
}

impl Scenario for Evicted {
    fn name(&self) -> String {
        let Program { logs, lanes, .. } = &self.program;
        format!("{} rounds by {logs:?}, through {lanes} lanes", self.rounds)
    }

    fn start(&self) -> Image {
        self.program.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let journal = self.program.open(world).map_err(|error| error.to_string())?;
        for round in 1..=self.rounds {
            self.change_marked(world, &journal, round)?;
            let moved = Self::is_bounded(&journal, CACHED)?;
            if round > 2 && moved == 0 {
                return Err(format!("nothing is moved in round {round}"));
            }
        }
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let journal = self.program.open(world).map_err(|error| error.to_string())?;
        // Rounds go on behind each recovery.
        let (mut durable, mut called) = (0, 0);
        for mark in world.history() {
            match mark {
                Mark::Called(round) => called = round as usize,
                Mark::Returned(round) => durable = round as usize,
                Mark::Recovered(rounds) => (durable, called) = (rounds as usize, rounds as usize),
                Mark::PowerLost | Mark::Killed => {}
            }
        }
        // What was found is in the log by now.
        Self::is_bounded(&journal, 0)?;
        let found = read_all(&journal)?;
        let is_after = |rounds: &usize| {
            let mut blocks = found.iter().enumerate();
            blocks.all(|(block, found)| *found == content(*rounds as u8, block))
        };
        let rounds = (durable..=called).find(is_after);
        let Some(rounds) = rounds else {
            return Err(format!("neither {durable} nor {called} rounds are found: {found:?}"));
        };
        world.recovered(rounds as u64);
        // It goes on, and evicts more.
        for more in 1..=3 {
            let round = rounds as u8 + more;
            self.change_marked(world, &journal, round)?;
            Self::is_bounded(&journal, CACHED)?;
            let found = read_all(&journal)?;
            let mut blocks = found.iter().enumerate();
            if blocks.any(|(block, found)| *found != content(round, block)) {
                return Err(format!("behind round {round}: {found:?}"));
            }
        }
        Ok(())
    }
}

fn explorer() -> Explorer {
    let explorer = Explorer::new(Model::Torn8).with_images_per_point_max(1 << 5);
    explorer.with_random_per_point(8).with_recoveries_one_in(8)
}

#[test]
fn blocks_that_are_evicted_survive_every_crash() {
    // The last one has its blocks in slots before they are evicted.
    for (logs, lanes) in [(Logged::Levels, 1), (Logged::Levels, 2), (Logged::Cached, 1)] {
        let evicted = Evicted::on_lanes(logs, lanes, 6, Mutator::new());
        for explorer in [explorer(), explorer().with_kills()] {
            let report = explorer.explore(&evicted);
            let report = report.unwrap_or_else(|failure| panic!("{failure}"));
            assert!(report.images > 300, "{report}");
        }
    }
}

/// An eviction that writes home instead, or that relies on what is not durable, is noticed.
#[test]
fn an_eviction_needs_its_rules() {
    let without = |rule| explorer().explore(&Evicted::new(8, Mutator::without(&[rule])));
    assert!(without(Rule::EvictedToLog).is_err(), "blocks go home");
    let counting = Mutator::new();
    let _ = explorer().explore(&Evicted::new(8, counting.clone())).expect("holds");
    let sites: Vec<_> = counting.reached().into_keys().collect();
    let of_move = sites
        .iter()
        .filter(|site| site.name.starts_with("log.") && site.kind == SiteKind::DiskSync);
    let mut count = 0;
    for site in of_move {
        for mutation in Mutation::ALL.into_iter().filter(|it| it.applies_to(site.kind)) {
            let mutant = Mutant { site: *site, mutation };
            let broken = explorer().explore(&Evicted::new(8, Mutator::with(mutant)));
            assert!(broken.is_err(), "{mutant} is not noticed");
            count += 1;
        }
    }
    assert!(count > 0, "there is something to get wrong: {sites:?}");
}
