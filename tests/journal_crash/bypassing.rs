//! Staged and gathered transactions whose lane has too little room: their data goes to the
//! disk-side log, and nothing is written home for them.
//!
//! Each transaction changes half of a block or two, so that its record would be long. They come one
//! after the other, so what a crash leaves has to be one of the states between them.

use journal_core::{BlockNumber, DeviceFacts, Overwrite, Rule};
use lab::erased::{DynHook, DynJournal, DynPolicy, any_options, of_world};
use nvm_journal::{BlockSize, Journal, Options, TwoLevel};
use sim_disk::{DiskImage, Explorer, Image, Mark, Model, Mutator, Scenario, World};

const BLOCK_BYTES: usize = 512;
const BLOCKS: usize = 4;

/// Which bytes of a block change.
const CHANGED: core::ops::Range<usize> = 128..384;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Durable,
    Deferred,
    Gathered,
}

use End::{Deferred, Durable, Gathered};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// These blocks, from a first one on, are changed in part.
    Patch(usize, usize, End),
    /// A block is written whole, in part again, and another one is discarded and written.
    Mixed(End),
    Sync,
    Checkpoint,
}

use Step::{Checkpoint, Mixed, Patch, Sync};

type State = [[u8; BLOCK_BYTES]; BLOCKS];

#[derive(Clone)]
struct Bypassing {
    steps: Vec<Step>,
    mutator: Mutator,
}

impl Bypassing {
    /// Steps that begin when the lane is full.
    fn new(steps: &[Step]) -> Self {
        let fills = (0..8).map(|step| Patch(step % BLOCKS, 1, Durable));
        Self { steps: fills.chain(steps.iter().copied()).collect(), mutator: Mutator::new() }
    }

    fn options(&self) -> Options<DynPolicy, DynHook> {
        let settings = two_level::Settings::new().few_units(255).compares(false);
        let options = any_options(TwoLevel::with(settings), self.mutator.clone());
        let options = options.lanes(1).lane_bytes(4096).shield_blocks(2).unit_bytes(256);
        // No commit makes room at its end.
        options.lane_log_blocks(32).segment_blocks(4).upkeep_in_commits(false)
    }

    fn open(&self, world: &World) -> Result<DynJournal, String> {
        let (nvm, disk) = of_world(world);
        Journal::open(nvm, disk, &self.options()).map_err(|error| format!("opens: {error}"))
    }

    fn states(&self) -> Vec<State> {
        let mut states = vec![[[0; BLOCK_BYTES]; BLOCKS]];
        for (number, step) in (1..).zip(&self.steps) {
            let mut state = states[states.len() - 1];
            match *step {
                Patch(first, count, _) => {
                    (first..first + count).for_each(|block| state[block][CHANGED].fill(number));
                }
                Mixed(_) => {
                    state[0] = [number; BLOCK_BYTES];
                    state[0][9..20].fill(0xEE);
                    state[1] = [number + 100; BLOCK_BYTES];
                }
                Sync | Checkpoint => {}
            }
            states.push(state);
        }
        states
    }

    fn judge(&self, world: &World, journal: &DynJournal) -> Result<u64, String> {
        let history = world.history();
        let called = history.iter().filter(|mark| matches!(mark, Mark::Called(_))).count();
        let durable = history.iter().filter_map(|mark| match mark {
            Mark::Returned(number) => Some(*number as usize),
            _ => None,
        });
        let durable = durable.max().unwrap_or(0);
        let mut found = [[0; BLOCK_BYTES]; BLOCKS];
        for (number, block) in (0..).zip(&mut found) {
            let read = journal.read(BlockNumber(number), block);
            read.map_err(|error| format!("reads {number}: {error}"))?;
        }
        let states = self.states();
        let fitting = (durable..=called).find(|at| states[*at] == found);
        let seen = || found.map(|block| (block[0], block[200]));
        fitting.map(|at| at as u64).ok_or_else(|| format!("{durable} to {called}: {:?}", seen()))
    }
}

/// Takes a step; returns whether all up to it is durable.
fn take(journal: &DynJournal, number: u8, step: Step) -> Result<bool, nvm_journal::Error> {
    let (Patch(_, _, end) | Mixed(end)) = step else {
        return match step {
            Sync => journal.sync(),
            _ => journal.checkpoint().map(drop),
        }
        .map(|()| true);
    };
    let block = |number: usize| BlockNumber(number as u64);
    let mut tx = journal.begin()?;
    match step {
        Patch(first, count, _) => {
            let bytes = [number; CHANGED.end - CHANGED.start];
            (first..first + count)
                .try_for_each(|at| tx.write_at(block(at), CHANGED.start, &bytes))?;
        }
        _ => {
            tx.write(block(0), &[number; BLOCK_BYTES])?;
            tx.write_at(block(0), 9, &[0xEE; 11])?;
            tx.discard(block(1))?;
            tx.write(block(1), &[number + 100; BLOCK_BYTES])?;
        }
    }
    match end {
        Durable => tx.commit().map(|_| true),
        Deferred => tx.commit_deferred().map(|_| false),
        Gathered => tx.commit_gathered().map(|()| false),
    }
}

impl Scenario for Bypassing {
    fn name(&self) -> String {
        format!("{:?}", self.steps)
    }

    fn start(&self) -> Image {
        let facts = DeviceFacts::new(64, Overwrite::MayLeaveGarbage);
        let size = BlockSize::new(BLOCK_BYTES as u32).expect("a block size");
        let disk = DiskImage::blank(size, 64, facts);
        let world = World::boot(Image::blank(16 << 10).with_disk(disk), Model::Torn8);
        let (nvm, disk) = of_world(&world);
        drop(Journal::format(nvm, disk, &self.options()).expect("formats"));
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let journal = self.open(world)?;
        for (number, step) in (1_u8..).zip(&self.steps) {
            world.called(number.into());
            let is_durable =
                take(&journal, number, *step).map_err(|error| format!("{step:?}: {error}"))?;
            if is_durable {
                world.returned(number.into());
            }
        }
        let stats = journal.stats().map_err(|error| error.to_string())?;
        let (stops, logged) = (stats.stops_for_bytes + stats.stops_for_slots, stats.total().logged);
        let is_right = stops == 0 && logged > stats.moved;
        if is_right { Ok(()) } else { Err(format!("{stops} stops, {logged} blocks logged")) }
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let journal = self.open(world)?;
        world.recovered(self.judge(world, &journal)?);
        // It goes on, in a lane that is still full.
        let before = self.judge(world, &journal)?;
        let bytes = [0xAA; 300];
        let written = journal.transact(|tx| tx.write_at(BlockNumber(20), 100, &bytes));
        written.map_err(|error| error.to_string())?;
        let gathered = journal.transact_gathered(|tx| tx.write_at(BlockNumber(21), 100, &bytes));
        gathered.and_then(|()| journal.sync()).map_err(|error| error.to_string())?;
        if self.judge(world, &journal)? == before { Ok(()) } else { Err("changed".to_owned()) }
    }
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 5).with_random_per_point(8)
}

fn survives(steps: &[Step]) -> u64 {
    let bypassing = Bypassing::new(steps);
    let explored = explorer().with_kills().explore(&bypassing);
    let images = explored.unwrap_or_else(|failure| panic!("{failure}")).images;
    let mutator = Mutator::without(&[Rule::StagedBypass]);
    let without = explorer().explore(&Bypassing { mutator, ..bypassing });
    assert!(without.is_err(), "{steps:?}: the rule is off, and nothing notices");
    images
}

#[test]
fn what_finds_no_room_in_its_lane_survives_every_crash_in_the_log() {
    let mut images = survives(&[Patch(0, 2, Durable), Patch(1, 2, Deferred), Sync]);
    images += survives(&[Patch(2, 1, Durable), Mixed(Durable)]);
    images += survives(&[Patch(0, 1, Gathered), Patch(0, 3, Gathered), Sync]);
    assert!(images > 500, "{images}");
}

/// More than there is room for even so: then room is made, and nothing is lost.
#[test]
fn what_goes_on_when_the_lane_is_full_to_the_end_survives_every_crash() {
    let rounds = (0..12).map(|round| Patch(round % BLOCKS, 1, Durable));
    let steps: Vec<_> = rounds.chain([Mixed(Gathered), Checkpoint]).collect();
    let scenario = Bypassing::new(&steps);
    let world = World::boot(scenario.start(), Model::Torn8);
    let journal = scenario.open(&world).expect("opens");
    for (number, step) in (1_u8..).zip(&scenario.steps) {
        world.called(number.into());
        take(&journal, number, *step).expect("is done");
        scenario.judge(&world, &journal).expect("is seen at once");
    }
    assert!(journal.stats().expect("goes on").stops_for_bytes > 0, "the lane is full");
}
