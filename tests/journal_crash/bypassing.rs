//! Staged and gathered transactions whose lane has too little room: their data goes to the
//! disk-side log, and nothing is written home for them.

use journal_core::Overwrite;
use sim_disk::{Explorer, Image, Model, Scenario, World};

use crate::probe::Logged;
use crate::program::{Program, Step};
use crate::rules::one;
use lab::oracle::{Change, End};

use Change::{Append, Discard, Touch, Write};
use End::{Deferred, Durable, Gathered};

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 6).with_random_per_point(16)
}

/// A program whose lane holds two of its transactions by the bound for each.
fn program(steps: Vec<Step>) -> Program {
    let program = Program::new(Logged::Bypassing, 1, steps);
    let overwrite = Overwrite::MayLeaveGarbage;
    Program { lane_bytes: 14 * 64, lane_segments: 8, overwrite, ..program }
}

fn both(end: End) -> Step {
    one(0, &[(0, Touch), (1, Touch)], end)
}

/// A program during which no transaction stops for room.
struct WithoutStops(Program);

impl Scenario for WithoutStops {
    fn name(&self) -> String {
        format!("no stop: {}", self.0.name())
    }

    fn start(&self) -> Image {
        self.0.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let journal = self.0.open(world).map_err(|error| error.to_string())?;
        self.0.steps.iter().try_for_each(|step| self.0.step(world, &journal, step))?;
        let stats = journal.stats().map_err(|error| error.to_string())?;
        let stops = (stats.stops_for_bytes, stats.stops_for_slots, stats.checkpoints);
        let logged = stats.total().logged;
        let is_right = stops == (0, 0, 0) && logged > 0;
        if is_right { Ok(()) } else { Err(format!("{stops:?}, {logged} logged")) }
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.0.recover(world)
    }
}

fn survives(program: Program) -> u64 {
    let explored = explorer().with_kills().explore(&WithoutStops(program));
    explored.unwrap_or_else(|failure| panic!("{failure}")).images
}

#[test]
fn what_finds_no_room_in_its_lane_survives_every_crash_in_the_log() {
    let mut images = survives(program(vec![
        both(Durable),
        both(Durable),
        both(Durable),
        one(0, &[(2, Touch), (2, Write), (3, Append)], Deferred),
        one(0, &[(1, Discard), (2, Touch)], Durable),
    ]));
    images += survives(program(vec![
        both(Durable),
        both(Gathered),
        one(0, &[(1, Touch), (2, Touch)], Gathered),
        one(0, &[(3, Touch)], Gathered),
        Step::Sync,
        both(Gathered),
        Step::Sync,
    ]));
    assert!(images > 500, "{images}");
    let steps_after = vec![both(Durable), both(Gathered), Step::Sync, Step::Checkpoint];
    let steps = vec![both(Durable), both(Durable), both(Durable), both(Gathered), Step::Sync];
    let program = Program { steps_after, ..program(steps) };
    let explored = explorer().explore(&program);
    explored.unwrap_or_else(|failure| panic!("{failure}"));
}
