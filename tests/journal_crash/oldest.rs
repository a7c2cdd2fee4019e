//! Ticks that write home only what was committed longest ago: every crash of that, and of what is
//! committed behind it.

use journal_core::{Overwrite, Rule};
use lab::oracle::{Change, End};
use nvm_journal::policy::Thresholds;
use sim_disk::{Explorer, Image, Model, Mutator, Scenario, World};

use crate::probe::Logged;
use crate::program::{Front, Program, Step};
use crate::rules::one;

use Change::{Touch, Write};
use End::{Deferred, Durable};

/// A program whose ticks leave in the rings what was committed last.
#[derive(Clone)]
struct Oldest {
    program: Program,
}

impl Oldest {
    fn new(logs: Logged, lanes: u16, overwrite: Overwrite, mutator: Mutator) -> Self {
        let last = usize::from(lanes) - 1;
        let mut steps = Vec::new();
        for round in 0..5 {
            // Blocks 2 and 3 lie beside each other. Block 5 has old frames and new ones. When
            // blocks first go home, no commit was durable.
            let commits = [
                one(0, &[(0, Write), (2, Touch)], Deferred),
                one(last, &[(3, Touch)], if round % 3 == 1 { Durable } else { Deferred }),
                one(0, &[(5, Write)], if round % 3 == 2 { Durable } else { Deferred }),
                one(last, &[(5, Touch)], Deferred),
            ];
            for commit in commits {
                steps.extend([commit, Step::Tick]);
            }
        }
        let program = Program::new(logs, lanes, steps);
        let program = Program {
            lane_bytes: 20 * 64,
            batch: 1,
            overwrite,
            thresholds: Some(Thresholds::new(112, 112)),
            steps_after: vec![Step::Tick, one(0, &[(3, Touch)], Durable), Step::Tick],
            mutator,
            ..program
        };
        Self { program }
    }

    /// Ticks, and returns whether that wrote something home and left something.
    fn tick(&self, world: &World, journal: &Front) -> Result<bool, String> {
        let stats = || journal.stats().map_err(|error| error.to_string());
        let before = stats()?;
        self.program.step(world, journal, &Step::Tick)?;
        let after = stats()?;
        let is_home = after.checkpointed.blocks > before.checkpointed.blocks;
        Ok(is_home && after.blocks > 0)
    }
}

impl Scenario for Oldest {
    fn name(&self) -> String {
        format!("the oldest: {}", self.program.name())
    }

    fn start(&self) -> Image {
        self.program.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let journal = self.program.open(world).map_err(|error| error.to_string())?;
        let mut parts = 0;
        for step in &self.program.steps {
            match step {
                Step::Tick => parts += u32::from(self.tick(world, &journal)?),
                step => self.program.step(world, &journal, step)?,
            }
        }
        if parts < 2 {
            return Err(format!("{parts} ticks write a part home"));
        }
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.program.recover(world)
    }
}

fn explorer() -> Explorer {
    let explorer = Explorer::new(Model::Torn8).with_images_per_point_max(1 << 5);
    explorer.with_random_per_point(8).with_recoveries_one_in(8)
}

/// Each way to log and each device. `Whole` has no shield, so its blocks are never garbage.
fn each() -> impl Iterator<Item = (Logged, u16, Overwrite)> {
    use Overwrite::{MayLeaveGarbage, OldOrNew};
    let ways =
        [(Logged::Halves, MayLeaveGarbage), (Logged::Halves, OldOrNew), (Logged::Whole, OldOrNew)];
    ways.into_iter().flat_map(|(logs, overwrite)| [1, 2].map(|lanes| (logs, lanes, overwrite)))
}

#[test]
fn what_stays_in_the_rings_survives_every_crash() {
    for (logs, lanes, overwrite) in each() {
        let oldest = Oldest::new(logs, lanes, overwrite, Mutator::new());
        let report = explorer().explore(&oldest);
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.images > 300, "{report}");
    }
}

#[test]
fn writing_only_the_oldest_home_needs_its_rules() {
    for (logs, lanes, overwrite) in each() {
        // A shield makes durable what goes home, and restores it.
        let of_device = match overwrite {
            Overwrite::MayLeaveGarbage => Rule::ShieldFirst,
            _ => Rule::DurableGoesHome,
        };
        for rule in [of_device, Rule::CutKeepsNeeded] {
            let broken = Oldest::new(logs, lanes, overwrite, Mutator::without(&[rule]));
            assert!(explorer().explore(&broken).is_err(), "{rule:?}: {logs:?}, {lanes} lanes");
        }
    }
}
