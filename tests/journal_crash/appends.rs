//! Appends beside checkpoints: neither waits for the other, and every crash leaves what may be.

use core::sync::atomic::{AtomicBool, Ordering};

use journal_core::Rule;
use nvm_journal::Error;

use crate::guards::{Scripted, Stage, within};
use crate::probe::Logged;
use crate::program::{Program, Step, covering, read_block};
use crate::rules::{needs_beside, one};
use lab::oracle::{Change, End, content_of};
use sim_disk::{Explorer, Model};

use Change::{Append, Discard, Touch, Write};
use End::Durable;

fn scripted(lanes: u16, script: fn(&Stage) -> Result<(), Error>) -> Scripted {
    let scripted = Scripted::new(lanes, script);
    let program = Program::new(Logged::Appending, lanes, Vec::new());
    let steps_after = vec![one(0, &[(3, Touch)], Durable), Step::Checkpoint];
    let program = Program { lane_bytes: 32 * 64, lane_slots: 8, steps_after, ..program };
    Scripted { program, ..scripted }
}

fn checkpoint(stage: &Stage) -> Result<(), String> {
    covering(&stage.world, || stage.journal.checkpoint().map(drop))
}

fn appended_home(stage: &Stage) -> u64 {
    stage.journal.stats().expect("counts").total().appended_home
}

/// The disk is in the middle of writing a batch home.
fn beside_a_batch(appended: usize, site: &'static str) -> Scripted {
    let script: fn(&Stage) -> Result<(), Error> = match (appended, site) {
        (3, "checkpoint.home") => |stage| beside(stage, 3, "checkpoint.home"),
        (3, _) => |stage| beside(stage, 3, "checkpoint.sync"),
        (_, "checkpoint.home") => |stage| beside(stage, 2, "checkpoint.home"),
        _ => |stage| beside(stage, 2, "checkpoint.sync"),
    };
    scripted(1, script)
}

fn beside(stage: &Stage, appended: usize, site: &'static str) -> Result<(), Error> {
    stage.transact(1, &[(0, Write), (1, Write)], Durable)?;
    stage.transact(2, &[(2, Write)], Durable)?;
    stage.transact(3, &[(2, Discard)], Durable)?;
    stage.at_first(site, move |stage| {
        let changes: &'static [(usize, Change)] =
            if appended == 3 { &[(3, Append)] } else { &[(2, Append)] };
        stage.help_transact(4, changes, Durable);
        assert!(stage.have_helped(), "an append does not wait for a checkpoint");
        assert_eq!(appended_home(stage), 1);
    });
    checkpoint(stage).expect("writes home");
    assert_eq!(appended_home(stage), 1, "the checkpoint came to the site");
    assert_eq!(read_block(&stage.journal, appended)?, content_of(4, appended, Append));
    assert_eq!(stage.journal.stats()?.stops_for_home, 0);
    Ok(())
}

/// Blocks that were never written, and blocks that were discarded.
#[test]
fn an_append_does_not_wait_for_a_batch_on_its_way_home() {
    for appended in [2, 3] {
        for site in ["checkpoint.home", "checkpoint.sync"] {
            beside_a_batch(appended, site).survives();
        }
    }
}

/// Upkeeps of each kind while an append is on its way: its block is not known, or is discarded and
/// nothing else is in the way of the head.
fn around(stage: &Stage, site: &'static str, is_known: bool) -> Result<(), Error> {
    if is_known {
        stage.transact(1, &[(3, Write)], Durable)?;
        checkpoint(stage).expect("writes home");
        stage.transact(2, &[(3, Discard)], Durable)?;
    }
    let was_there = std::sync::Arc::new(AtomicBool::new(false));
    let helper = std::sync::Arc::clone(&was_there);
    stage.at_first(site, move |stage| {
        stage.help(checkpoint);
        assert!(stage.have_helped(), "a checkpoint does not wait for an append");
        stage.help(|stage| {
            let emptied = || stage.journal.checkpoint_rings().map(drop);
            covering(&stage.world, emptied)
        });
        assert!(stage.have_helped(), "nor does what empties rings");
        helper.store(true, Ordering::Relaxed);
    });
    stage.transact(4, &[(3, Append)], Durable)?;
    assert!(was_there.load(Ordering::Relaxed), "the append went home");
    stage.transact(5, &[(0, Write)], Durable)
}

fn known() -> Scripted {
    scripted(1, |stage| around(stage, "append.sync", true))
}

fn unknown() -> Scripted {
    scripted(1, |stage| around(stage, "append.sync", false))
}

#[test]
fn heads_go_on_beside_an_append() {
    for script in [
        |stage: &Stage| around(stage, "append.write", false),
        |stage: &Stage| around(stage, "append.write", true),
        |stage: &Stage| around(stage, "append.sync", false),
        |stage: &Stage| around(stage, "append.sync", true),
    ] {
        scripted(1, script).survives();
        scripted(2, script).survives();
    }
}

/// A killed process has written an append home, and a power loss takes it.
#[test]
fn no_head_passes_what_tells_of_an_append() {
    for script in [known as fn() -> Scripted, unknown] {
        within(60, move || {
            let explorer = Explorer::new(Model::Torn8).with_kills();
            let explorer = explorer.with_images_per_point_max(1 << 6).with_random_per_point(8);
            needs_beside(&[], Rule::AppendsHeld, &explorer, |mutator| {
                let scripted = script();
                let program = Program { mutator, ..scripted.program.clone() };
                Scripted { program, ..scripted }
            });
        });
    }
}
