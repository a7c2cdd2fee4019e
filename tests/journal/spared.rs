//! What a full lane writes home, and what it leaves: an image that is written again in time never
//! goes home.

use core::ops::ControlFlow::Continue;

use journal_core::policy::Thresholds;
use journal_core::{NoHook, Rule};
use lab::erased::{DynDisk, any_options};
use nvm_journal::{AnyPolicy, FullBlock, Journal, ObjectLog};
use sim_disk::Mutator;

use crate::use_it::{BLOCK, Files, any_memory, block};

/// Writes images of a set of blocks in turn, through a ring that has room for some 100 of them.
/// Returns how many blocks went home.
fn home_of(
    policy: AnyPolicy,
    set: u64,
    hook: impl journal_core::Hook + Send + Sync + Clone + 'static,
) -> u64 {
    const TURNS: u64 = 3000;
    let options = any_options(policy, hook).lanes(1).lane_bytes(100 * 4224).cache_bytes(0);
    let files = Files::new(&format!("spared-{set}-{policy}"));
    let disk = DynDisk::new(files.disk_of(1024));
    let journal = Journal::format(any_memory(2 << 20), disk, &options).expect("formats");
    for turn in 0..TURNS {
        let image = [turn as u8; BLOCK];
        journal.transact(|tx| tx.write(block(turn % set), &image)).expect("has room");
    }
    let mut found = [0; BLOCK];
    for number in 0..set {
        let last = (0..TURNS).rev().find(|turn| turn % set == number).expect("was written");
        journal.read(block(number), &mut found).expect("reads");
        assert!(found == [last as u8; BLOCK], "block {number} of {set}");
    }
    let stats = journal.stats().expect("counts");
    assert!(stats.stops_for_bytes > 10, "{stats:?}");
    stats.checkpointed.blocks
}

#[test]
fn an_image_that_is_written_again_before_its_lane_is_full_never_goes_home() {
    for policy in [FullBlock.into(), ObjectLog::new().into()] {
        assert_eq!(home_of(policy, 16, NoHook), 0);
        assert_eq!(home_of(policy, 48, NoHook), 0);
        // The ring has no room for all of these.
        assert!(home_of(policy, 300, NoHook) > 2500);
    }
}

/// Writes blocks once, in commits that cross the first threshold: their steps write nothing home.
/// Returns whether the journal has all of them.
fn has_all(hook: impl journal_core::Hook + Send + Sync + Clone + 'static) -> bool {
    let options = any_options(FullBlock, hook).lanes(1).lane_bytes(100 * 4224).lane_slots(8);
    let options = options.cache_bytes(0).thresholds(Thresholds::new(80, 255));
    let options = options.upkeep_in_commits(true);
    let files = Files::new("spared-reclaimed");
    let disk = DynDisk::new(files.disk_of(1024));
    let journal = Journal::format(any_memory(2 << 20), disk, &options).expect("formats");
    for number in 0..40 {
        journal.transact(|tx| tx.write(block(number), &[7; BLOCK])).expect("has room");
    }
    assert!(journal.stats().expect("counts").stops_in_commits > 0);
    let mut found = [0; BLOCK];
    (0..40).all(|number| {
        journal.read(block(number), &mut found).expect("reads");
        found == [7; BLOCK]
    })
}

#[test]
fn a_step_that_writes_nothing_home_keeps_what_is_needed() {
    assert!(has_all(NoHook));
    assert!(!has_all(Mutator::without(&[Rule::StepDropsUnneeded])), "nothing notices");
}

/// Each of both rules keeps some of them from going home.
#[test]
fn without_its_rules_a_step_writes_home_what_is_written_again() {
    for rule in [Rule::StepSparesCovered, Rule::StepSparesHome] {
        let home = home_of(FullBlock.into(), 48, Mutator::without(&[rule]));
        assert!(home > 100, "{rule:?}: {home}");
    }
}

/// Others change all blocks again behind each batch. None of them goes home again for that.
#[test]
fn a_checkpoint_writes_each_block_home_once() {
    const BLOCKS: u64 = 64;
    let options = any_options(ObjectLog::new(), NoHook).lanes(1).batch_blocks(8).cache_bytes(0);
    let options = options.index_frames(1 << 13);
    let files = Files::new("spared-once");
    let disk = DynDisk::new(files.disk_of(1024));
    let journal = Journal::format(any_memory(4 << 20), disk, &options).expect("formats");
    let change_all = |turn: u8| {
        for number in (0..BLOCKS).map(block) {
            let patch = [turn; 64];
            let at = usize::from(turn) * 64;
            journal.transact(|tx| tx.write_at(number, at, &patch)).expect("has room");
        }
    };
    (0..10).for_each(change_all);
    let mut turns = 10..22;
    let report = journal.checkpoint_steps(|_, _| {
        // Other threads may commit meanwhile; this one may not.
        let turn = turns.next();
        std::thread::scope(|scope| {
            turn.map(|turn| scope.spawn(move || change_all(turn))).is_some()
        });
        Continue(())
    });
    assert_eq!(report.expect("writes home").blocks, BLOCKS);
    let mut found = [0; BLOCK];
    for number in (0..BLOCKS).map(block) {
        journal.read(number, &mut found).expect("reads");
        assert!((0..turns.start).all(|turn| found[usize::from(turn) * 64] == turn), "{number}");
    }
}
