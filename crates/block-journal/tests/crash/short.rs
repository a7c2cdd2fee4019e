//! Every crash of all short programs, in every mode.

use block_journal::{JournalDevice, Mode};
use journal_core::Overwrite;
use sim_disk::{Explorer, Fault, FaultKind, Model, Operation, Report, Scenario, World};

use crate::program::{Program, STEPS, Step, tell};

/// All programs of exactly this many steps.
fn programs(length: u32) -> impl Iterator<Item = Vec<Step>> {
    let kinds = STEPS.len();
    (0..kinds.pow(length)).map(move |number| {
        let digit = |place| number / kinds.pow(place) % kinds;
        (0..length).map(|place| STEPS[digit(place)]).collect()
    })
}

fn explore(explorer: &Explorer, program: &Program) -> Report {
    explorer.explore(program).unwrap_or_else(|failure| panic!("{failure}"))
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8)
}

#[test]
fn programs_of_one_and_two_steps_survive_kills_and_crashes_in_recovery() {
    for mode in Mode::ALL {
        let mut total = Report::default();
        for journal_device in [JournalDevice::OwnDevice, JournalDevice::SameDevice] {
            for steps in (1..=2).flat_map(programs) {
                let program = Program { journal_device, ..Program::new(mode, &steps) };
                total += explore(&explorer().with_kills(), &program);
                if steps.len() == 1 {
                    total += explore(&explorer().with_depth(1), &program);
                }
            }
        }
        tell(&format!("{mode:?}, up to two steps"), &total);
        assert_eq!(total.points_sampled, 0, "every image of every point was tried");
        assert!(total.nested > 100 && total.kills > 1_000, "{total}");
    }
}

#[test]
fn programs_of_three_steps_survive_every_crash() {
    for mode in Mode::ALL {
        let mut total = Report::default();
        // One ring is full after two transactions, the other holds them all.
        for (ring, steps) in
            [9, 16].into_iter().flat_map(|ring| programs(3).map(move |s| (ring, s)))
        {
            total += explore(&explorer(), &Program { ring, ..Program::new(mode, &steps) });
        }
        tell(&format!("{mode:?}, three steps"), &total);
        assert_eq!(total.points_sampled, 0, "every image of every point was tried");
    }
}

#[test]
fn units_may_be_left_with_garbage_or_whole() {
    let programs = [[STEPS[0], STEPS[3]], [STEPS[1], STEPS[0]], [STEPS[2], STEPS[3]]];
    for mode in Mode::ALL {
        let mut total = Report::default();
        for overwrite in [Overwrite::MayLeaveGarbage, Overwrite::NeverInPlace] {
            for steps in &programs {
                let program = Program { overwrite, ..Program::new(mode, steps) };
                total += explore(&explorer().with_depth(1), &program);
            }
        }
        tell(&format!("{mode:?}, garbage and whole blocks"), &total);
        assert!(total.images > 1_000, "{total}");
    }
}

#[test]
fn recovery_survives_crashes_of_its_own_two_deep() {
    let file_freed_and_used_again = [STEPS[0], STEPS[2], STEPS[3]];
    for mode in Mode::ALL {
        let program = Program { ring: 16, ..Program::new(mode, &file_freed_and_used_again) };
        let report = explore(&explorer().with_depth(2), &program);
        tell(&format!("{mode:?}, two crashes in recovery"), &report);
        assert!(report.nested > 50, "{report}");
    }
}

#[test]
fn an_error_at_any_call_is_survived() {
    for mode in Mode::ALL {
        let mut total = Report::default();
        for steps in programs(2) {
            let program = Program::new(mode, &steps);
            let world = World::boot(program.start(), Model::Torn8);
            program.program(&world).expect("runs without a fault");
            let counts = world.operations();
            for operation in [Operation::DiskRead, Operation::DiskWrite, Operation::DiskSync] {
                for index in 0..counts.of(operation) {
                    let fault = Some(Fault::on(operation, index, FaultKind::Error));
                    let program = Program { fault, ..program.clone() };
                    let few = explorer().with_images_per_point_max(32).with_random_per_point(8);
                    total += explore(&few, &program);
                }
            }
        }
        tell(&format!("{mode:?}, failing calls"), &total);
        assert!(total.programs > 500, "{total}");
    }
}
