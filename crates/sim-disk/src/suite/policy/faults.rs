//! Calls that fail: each operation of a program, once and for ever.
//!
//! Whatever failed, a program that stops there leaves media on which the next open shows what it
//! may. This holds after a killed process, and after a power loss that takes or leaves what is not
//! durable.

use core::fmt;

use journal_core::policy::Policy;

use crate::media::fault::{Fault, FaultKind};
use crate::media::image::Image;
use crate::media::model::Model;
use crate::media::tape::Mark;
use crate::media::world::World;
use crate::power::explore::{Scenario as _, guarded};
use crate::suite::program::oracle::judge;
use crate::suite::program::plan::alphabet;
use crate::suite::program::program::{Program, choice, last_point, read_all};

/// A short program of everything that a journal of a policy can be asked, on two lanes, and how
/// many of its operations can fail.
#[derive(Clone, Debug)]
pub struct Faults<P> {
    program: Program<P>,
    operations: u64,
}

impl<P: Policy + Clone + fmt::Debug> Faults<P> {
    /// The program that takes each step of the [`alphabet`] once.
    ///
    /// # Errors
    /// What goes wrong without a fault.
    pub fn of(policy: P) -> Result<Self, String> {
        let program = Program::new(policy, 2, Vec::new());
        let steps = alphabet(&program.habits, program.lanes);
        Self::of_program(Program { steps, ..program })
    }

    /// Like [`of`](Self::of), with another program.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_program(program: Program<P>) -> Result<Self, String> {
        let world = World::boot(program.start(), Model::Torn8);
        guarded(|| program.program(&world))?;
        Ok(Self { operations: world.operations().all(), program })
    }

    /// How many operations can fail.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.operations
    }

    /// Has one operation fail, or it and all that follow, and opens what is left.
    ///
    /// # Errors
    /// A panic, or an open that does not show what it may.
    pub fn fail(&self, index: u64, for_ever: bool) -> Result<(), String> {
        let once = Fault::at(index, FaultKind::Error);
        let fault = if for_ever { once.for_ever() } else { once };
        self.fails(fault).map_err(|what| format!("{fault:?}: {what}"))
    }

    fn fails(&self, fault: Fault) -> Result<(), String> {
        let world = World::boot(self.program.start(), Model::Torn8);
        world.inject(fault);
        guarded(|| {
            // It stops where it is told of the fault; nothing says that it has to be told.
            let _ = self.program.program(&world);
            Ok(())
        })?;
        let operations = world.operations().all();
        if operations > 2 * self.operations {
            return Err(format!("{operations} operations, {} without it", self.operations));
        }
        let mut history = world.history();
        history.push(Mark::Killed);
        self.shows(world.visible(), &history).map_err(|what| format!("a kill: {what}"))?;
        history.pop();
        history.push(Mark::PowerLost);
        let point = last_point(&world)?;
        for kept in [|_| false, |_| true, |index: usize| index % 2 == 0] {
            let image = point.image(&choice(&point, kept));
            self.shows(image, &history).map_err(|what| format!("a power loss: {what}"))?;
        }
        Ok(())
    }

    fn shows(&self, image: Image, history: &[Mark]) -> Result<(), String> {
        let world = World::boot(image, Model::Torn8);
        guarded(|| {
            self.program.look(&world, &|journal| {
                judge(history, &read_all(journal)?, self.program.first_state())
            })
        })
    }
}
