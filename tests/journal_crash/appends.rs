//! Appends beside checkpoints: every crash leaves what may be.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

use journal_core::Rule;
use nvm_journal::Error;

use crate::guards::{Scripted, Stage, within};
use crate::pending;
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

/// A checkpoint that ends behind its first batch, and so waits for no append.
fn one_batch(stage: &Stage) -> Result<(), String> {
    let each = |_: &_, _| ControlFlow::Break(());
    covering(&stage.world, || stage.journal.checkpoint_steps(each).map(drop))
}

/// Upkeeps of each kind while an append is on its way: its block is not known, or is discarded and
/// nothing else is in the way of the head.
fn around(
    stage: &Stage,
    (site, is_known): (&'static str, bool),
    has_whole: bool,
) -> Result<(), Error> {
    // The batch has nothing but a discard: its sync would be one of the append's home, too.
    let (written, discarded): (&[_], &[_]) = match is_known {
        true => (&[(3, Write)], &[(3, Discard)]),
        false => (&[(1, Write)], &[(1, Discard)]),
    };
    stage.transact(1, written, Durable)?;
    checkpoint(stage).expect("writes home");
    stage.transact(2, discarded, Durable)?;
    let was_there = Arc::new(AtomicBool::new(false));
    let helper = Arc::clone(&was_there);
    stage.at_first(site, move |stage| {
        stage.help(one_batch);
        assert!(stage.have_helped(), "a batch does not wait for an append");
        if has_whole {
            stage.help(checkpoint);
            assert!(!stage.have_helped(), "a whole checkpoint waits for an append");
            stage.help(|stage| {
                let emptied = || stage.journal.checkpoint_rings().map(drop);
                covering(&stage.world, emptied)
            });
            assert!(!stage.have_helped(), "so does what empties rings");
        }
        helper.store(true, Ordering::Relaxed);
    });
    stage.transact(4, &[(3, Append)], Durable)?;
    assert!(was_there.load(Ordering::Relaxed), "the append went home");
    stage.transact(5, &[(0, Write)], Durable)
}

/// A checkpoint waits for an append, and another one begins meanwhile. The checkpoint lets heads
/// pass the discards of both before the second one is written.
fn passed_beside_a_later_append(stage: &Stage) -> Result<(), Error> {
    stage.transact(1, &[(2, Write), (3, Write)], Durable)?;
    checkpoint(stage).expect("writes home");
    stage.transact(2, &[(2, Discard), (3, Discard)], Durable)?;
    let (there, written, synced) = (stage.clone(), AtomicU32::new(0), AtomicU32::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    stage.probe.watch(move |site| {
        pending::mark(&there.world, site);
        if site.name == "append.write" && written.fetch_add(1, Ordering::AcqRel) > 0 {
            while !is_over.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        if site.name != "append.sync" || synced.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let is_over = Arc::clone(&is_over);
        there.help(move |stage| {
            let written = checkpoint(stage);
            is_over.store(true, Ordering::Release);
            written
        });
        assert!(!there.have_helped(), "a whole checkpoint waits for an append");
        there.help_transact(5, &[(2, Append)], Durable);
        while written.load(Ordering::Acquire) < 2 {
            std::thread::yield_now();
        }
    });
    stage.transact(4, &[(3, Append)], Durable)?;
    while !stage.have_helped() {}
    assert_eq!(appended_home(stage), 2);
    stage.transact(6, &[(0, Write)], Durable)
}

#[test]
fn a_whole_checkpoint_waits_for_appends() {
    for lanes in [1, 2] {
        scripted(lanes, passed_beside_a_later_append).survives();
    }
    needs(Rule::AppendsGivenUp, || scripted(1, passed_beside_a_later_append));
}

fn known() -> Scripted {
    scripted(1, |stage| around(stage, ("append.sync", true), false))
}

fn unknown() -> Scripted {
    scripted(1, |stage| around(stage, ("append.sync", false), false))
}

#[test]
fn heads_go_on_beside_an_append() {
    for script in [
        |stage: &Stage| around(stage, ("append.write", false), true),
        |stage: &Stage| around(stage, ("append.write", true), true),
        |stage: &Stage| around(stage, ("append.sync", false), true),
        |stage: &Stage| around(stage, ("append.sync", true), true),
    ] {
        scripted(1, script).survives();
        scripted(2, script).survives();
    }
}

/// The script survives as the protocol is, and does not without the rule.
fn needs(rule: Rule, script: fn() -> Scripted) {
    within(60, move || {
        let explorer = Explorer::new(Model::Torn8).with_kills();
        let explorer = explorer.with_images_per_point_max(1 << 6).with_random_per_point(8);
        needs_beside(&[], rule, &explorer, |mutator| {
            let scripted = script();
            let program = Program { mutator, ..scripted.program.clone() };
            Scripted { program, ..scripted }
        });
    });
}

/// A killed process has written an append home, and a power loss takes it.
#[test]
fn no_head_passes_what_tells_of_an_append() {
    for script in [known as fn() -> Scripted, unknown] {
        needs(Rule::AppendsHeld, script);
    }
}
