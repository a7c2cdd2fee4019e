//! Blocks that the upkeep moves into the disk-side log: a host's ticks empty the rings into it, and
//! segments of it into each other. Without ticks, transactions do so when the index is short.

use core::time::Duration;

use journal_core::{BlockNumber, Overwrite, Rule, SiteKind};
use lab::oracle::{BLOCK_BYTES, BLOCKS, Block};
use nvm_journal::policy::{Pacing, Thresholds};
use sim_disk::{Explorer, Image, Mark, Model, Mutant, Mutation, Mutator, Scenario, World};

use crate::probe::{Device, Logged, Probe};
use crate::program::{Front, Program, media, read_all};

/// Blocks that each round changes. The first round alone changes the others, so that segments of
/// the log are left with few blocks.
const CHANGED: usize = 3;

/// The number of transactions in lane 0 before each round's own, and the byte that they change: a
/// block, and where in it.
const AHEAD: u8 = 5;
const AHEAD_AT: (usize, usize) = (BLOCKS - 1, BLOCK_BYTES - 1);

/// What makes blocks move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Thresholds empty the rings at each tick.
    Thresholds,
    /// The timer does.
    Timer,
    /// No one ticks. Transactions move blocks before a small index is full.
    Frames,
}

/// Frames of that index.
const FRAMES: usize = 40;

/// Rounds of changes, with a tick behind each where there are any.
#[derive(Clone)]
struct Moved {
    program: Program,
    rounds: u8,
    by: By,
}

/// What a block holds after some rounds: each leaves a byte behind in one word of its own.
fn content(rounds: u8, block: usize) -> Block {
    let mut content = [0; BLOCK_BYTES];
    for round in 1..=rounds {
        if round == 1 || block < CHANGED {
            content[usize::from(round % 4) * 8] = round * 8 + block as u8;
        }
    }
    content
}

impl Moved {
    fn new(rounds: u8, mutator: Mutator) -> Self {
        Self::on_lanes(1, rounds, mutator)
    }

    fn on_lanes(lanes: u16, rounds: u8, mutator: Mutator) -> Self {
        let program = Program::new(Logged::Levels, lanes, Vec::new());
        let overwrite = Overwrite::MayLeaveGarbage;
        Self {
            program: Program {
                lane_bytes: u64::from(lanes) * 24 * 64,
                lane_segments: 6,
                batch: 4,
                overwrite,
                mutator,
                ..program
            },
            rounds,
            by: By::Thresholds,
        }
    }

    fn by_timer(rounds: u8, mutator: Mutator) -> Self {
        Self { by: By::Timer, ..Self::new(rounds, mutator) }
    }

    /// Three times as many rounds: it takes some until the index is nearly full.
    fn by_frames(rounds: u8, mutator: Mutator) -> Self {
        let moved = Self::new(3 * rounds, mutator);
        let program = Program { lane_bytes: 4 * moved.program.lane_bytes, ..moved.program };
        Self { by: By::Frames, program, ..moved }
    }

    /// The time of a tick, each of which is one of the timer.
    fn tick(&self, journal: &Front, number: u8) -> Result<(), String> {
        if self.by == By::Frames {
            return Ok(());
        }
        let now = Duration::from_secs(1 + u64::from(number));
        journal.tick(now).map_err(|error| error.to_string())
    }

    /// Opens the journal, which makes room at each tick.
    fn open(&self, world: &World) -> Result<Front, String> {
        let probe = Probe::new(self.program.mutator.clone());
        let options = self.program.options(probe);
        let options = match self.by {
            By::Thresholds => options.thresholds(Thresholds::new(0, 255)),
            By::Timer => {
                let each_second = Pacing::new(None, None, Some(Duration::from_secs(1)));
                options.thresholds(Thresholds::new(255, 255)).pacing(each_second)
            }
            By::Frames => options.thresholds(Thresholds::new(255, 255)).index_frames(FRAMES),
        };
        let (pmem, disk) = media(world, Device::new(world.disk(0)));
        let journal = Front::open(pmem, disk, &options);
        let journal = journal.map_err(|error| error.to_string())?;
        // The timer begins.
        self.tick(&journal, 0).map(|()| journal)
    }

    fn round(&self, journal: &Front, round: u8) -> Result<(), String> {
        let changed = if round == 1 { BLOCKS } else { CHANGED };
        // Of two lanes the last one takes what is moved, and the first one is ahead of it: these
        // have a stamp each.
        let ahead = if self.program.lanes > 1 { AHEAD } else { 0 };
        let (last, at) = AHEAD_AT;
        let written = (0..ahead)
            .try_for_each(|number| {
                journal.transact(|tx| tx.write_at(BlockNumber(last as u64), at, &[number]))
            })
            .and_then(|()| {
                journal.transact(|tx| {
                    (0..changed).try_for_each(|block| {
                        let at = usize::from(round % 4) * 8;
                        let bytes = &content(round, block)[at..=at];
                        tx.write_at(BlockNumber(block as u64), at, bytes)
                    })
                })
            });
        written.map_err(|error: nvm_journal::Error| error.to_string())
    }
}

impl Scenario for Moved {
    fn name(&self) -> String {
        format!("{} rounds are moved, by {:?}", self.rounds, self.by)
    }

    fn start(&self) -> Image {
        self.program.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let journal = self.open(world)?;
        for round in 1..=self.rounds {
            world.called(round.into());
            self.round(&journal, round)?;
            world.returned(round.into());
            self.tick(&journal, round)?;
            let stats = journal.stats().map_err(|error| error.to_string())?;
            let is_home = self.by == By::Timer && stats.checkpointed.blocks > 0;
            let (moved, is_empty) = match self.by {
                // By then the index was nearly full. So small a one has no frames left at times,
                // and then blocks go home.
                By::Frames => (if round >= 12 { 3 } else { 0 }, true),
                // What was moved is not in the rings any more.
                _ => (round.into(), stats.total().used_bytes == 0),
            };
            // Nor is anything moved twice, where no segment is emptied.
            let changed = (BLOCKS + (usize::from(round) - 1) * (CHANGED + 1)) as u64;
            let is_twice = self.program.lanes > 1 && stats.moved > changed;
            if stats.moved < moved || !is_empty || is_home || is_twice {
                return Err(format!("behind round {round}: {stats}"));
            }
        }
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let journal = self.open(world)?;
        let history = world.history();
        let durable = history.iter().filter(|mark| matches!(mark, Mark::Returned(_))).count();
        let called = history.iter().filter(|mark| matches!(mark, Mark::Called(_))).count();
        // What was found is moved in turn, and read again.
        for (number, time) in [(1, "found"), (2, "moved")] {
            let mut found = read_all(&journal)?;
            found[AHEAD_AT.0][AHEAD_AT.1] = 0;
            let is_after = |rounds: &usize| {
                let mut blocks = found.iter().enumerate();
                blocks.all(|(block, found)| *found == content(*rounds as u8, block))
            };
            let rounds = (durable..=called).find(is_after);
            let Some(rounds) = rounds else {
                return Err(format!("neither {durable} nor {called} rounds are {time}: {found:?}"));
            };
            world.recovered(rounds as u64);
            self.tick(&journal, number)?;
        }
        Ok(())
    }
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 6).with_random_per_point(16)
}

#[test]
fn blocks_that_are_moved_survive_every_crash() {
    for moved in [Moved::new, Moved::by_timer, Moved::by_frames] {
        let report = explorer().explore(&moved(6, Mutator::new()));
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.images > 500, "{report}");
    }
}

/// Each bug at a persist site that a move passes is noticed. So is a fold that frees what an entry
/// does not say yet.
#[test]
fn a_block_is_in_the_log_before_the_rings_forget_it() {
    is_noticed(Moved::new);
    is_noticed(Moved::by_timer);
    is_noticed(Moved::by_frames);
}

fn is_noticed(moved: fn(u8, Mutator) -> Moved) {
    let counting = Mutator::new();
    let _ = explorer().explore(&moved(4, counting.clone())).expect("holds");
    let sites: Vec<_> = counting.reached().into_keys().collect();
    let of_move = sites.iter().filter(|site| {
        site.name.starts_with("log.") && site.kind == SiteKind::DiskSync
            || site.name == "slot.entry.fence"
    });
    let mut count = 0;
    for site in of_move {
        for mutation in Mutation::ALL.into_iter().filter(|it| it.applies_to(site.kind)) {
            let mutant = Mutant { site: *site, mutation };
            let broken = explorer().explore(&moved(6, Mutator::with(mutant)));
            assert!(broken.is_err(), "{mutant} is not noticed");
            count += 1;
        }
    }
    assert!(count > 0, "there is something to get wrong: {sites:?}");
}

/// The lane that blocks are moved to is behind the one that they come from.
#[test]
fn blocks_that_are_moved_to_another_lane_survive_every_crash() {
    let report = explorer().explore(&Moved::on_lanes(2, 4, Mutator::new()));
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.images > 500, "{report}");
}

/// With a lower stamp what was moved is not the newest version, and the rings keep the one that is.
/// That loses nothing: the blocks are moved once more.
#[test]
fn what_is_moved_to_another_lane_needs_its_stamp() {
    let without = Mutator::without(&[Rule::MovedAbove]);
    let broken = explorer().explore(&Moved::on_lanes(2, 4, without));
    assert!(broken.is_err(), "the rule is off, and nothing notices");
}
