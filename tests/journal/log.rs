//! Journals with a disk-side log: what goes there is read from there, and makes room.

use core::time::Duration;

use adaptive::Wish;
use journal_core::policy::{
    ApplyError, Change, Class, Encoder, Placement, Policy, PolicyId, Span, Thresholds, Update,
};
use journal_core::{DeviceFacts, NoHook, Overwrite, Rule};
use lab::erased::{DynDisk, DynHook, DynJournal, DynPolicy, any_options};
use nvm_journal::{
    Adaptive, AnyPolicy, BlockSize, CompressedDelta, Durability, Error, FileDisk, Hint, Joined,
    Journal, MapOptions, Operation, Options, OptionsError, TwoLevel,
};
use sim_disk::{DiskImage, Image, Model, Mutator, World};

use crate::use_it::{BLOCK, BLOCKS, Files, any_memory, block, memory};

/// Noise, another one for each number.
fn noise(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..BLOCK).map(|_| byte()).collect()
}

/// Each with the disk-side log in use.
fn policies() -> [AnyPolicy; 3] {
    let adaptive = adaptive::Settings::new().wish(Wish::Wear).bypass_above(64);
    [
        CompressedDelta::new().into(),
        TwoLevel::with(two_level::Settings::new().few_units(32)).into(),
        Adaptive::with(adaptive).into(),
    ]
}

/// Few segments, so that they are cleaned all the time.
fn options(policy: AnyPolicy) -> Options<AnyPolicy> {
    Options::new()
        .policy(policy)
        .lanes(2)
        .lane_bytes(64 << 10)
        .lane_log_blocks(12)
        .segment_blocks(4)
}

/// Rewrites blocks, a little or wholly, and holds what is read against what was written.
fn rewrite(journal: &Journal<AnyPolicy>, model: &mut [Vec<u8>], rounds: u64) {
    for round in 0..rounds {
        let at = (round * 7 + round / 5) as usize % model.len();
        let number = block(at as u64);
        match round % 4 {
            0 | 1 => {
                model[at] = noise(round);
                let image = &model[at];
                journal.transact(|tx| tx.write(number, image)).expect("commits");
            }
            2 => {
                model[at][100..108].copy_from_slice(&round.to_le_bytes());
                let bytes = &model[at][100..108];
                journal.transact(|tx| tx.write_at(number, 100, bytes)).expect("commits");
            }
            _ => {
                // In one call, without the old image.
                model[at][4000] = model[at][4000].wrapping_add(1);
                let write = [Operation::write(number, &model[at])];
                journal.commit(&write, Durability::Durable).expect("commits");
            }
        }
        let mut found = vec![0; BLOCK];
        let look = block((round * 3) % model.len() as u64);
        journal.read(look, &mut found).expect("reads");
        assert!(found == model[look.raw() as usize], "round {round}, {look}");
    }
}

fn holds(journal: &Journal<AnyPolicy>, model: &[Vec<u8>]) {
    for (number, expected) in (0..).zip(model) {
        let mut found = vec![0; BLOCK];
        journal.read(block(number), &mut found).expect("reads");
        assert!(found == *expected, "block {number}");
    }
}

#[test]
fn blocks_go_to_the_log_and_home_and_nothing_is_lost() {
    for policy in policies() {
        for background in [false, true] {
            let files = Files::new(&format!("log-{policy}-{background}"));
            let options = options(policy).background_checkpoint(background).keep_on_close(true);
            let span = Files::new(&format!("log-{policy}-{background}-span"));
            let _ = std::fs::remove_file(&span.0);
            let nvm = MapOptions::new().create(&span.0, 1 << 20).expect("a new file");
            let journal: Journal<AnyPolicy> =
                Journal::format(nvm, files.disk(), &options).expect("formats");
            assert_eq!(journal.block_count(), BLOCKS - 24);
            let mut model = vec![vec![0; BLOCK]; 16];
            rewrite(&journal, &mut model, 600);
            let stats = journal.stats().expect("goes on").total();
            assert!(stats.logged > 100, "{policy}: {}", stats.logged);
            journal.close().expect("closes");
            let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
            let nvm = MapOptions::new().open(&span.0).expect("is there");
            let journal = Journal::open(nvm, disk, &options).expect("opens");
            holds(&journal, &model);
            rewrite(&journal, &mut model, 100);
            journal.checkpoint().expect("goes home");
            holds(&journal, &model);
        }
    }
}

#[test]
fn the_log_may_have_a_disk_of_its_own() {
    let (files, other) = (Files::new("log-joined"), Files::new("log-joined-log"));
    let policy = AnyPolicy::from(CompressedDelta::new());
    let disk = Joined::new(files.disk(), other.disk()).expect("of one size");
    let lane_log_blocks = u32::try_from(BLOCKS / 2).expect("few");
    let options = options(policy).lane_log_blocks(lane_log_blocks);
    let options = options.policy(DynPolicy::new(policy)).hook(DynHook::default());
    let journal = Journal::format(any_memory(1 << 20), DynDisk::new(disk), &options);
    let journal = journal.expect("formats");
    assert_eq!(journal.block_count(), BLOCKS, "the store has its own disk to itself");
    let image = noise(1);
    journal.transact(|tx| tx.write(block(3), &image)).expect("commits");
    let mut found = vec![0; BLOCK];
    journal.read(block(3), &mut found).expect("reads");
    assert!(found == image);
    assert_eq!(journal.stats().expect("goes on").total().logged, 1);
    let is_there = |files: &Files| {
        let bytes = std::fs::read(&files.0).expect("is there");
        bytes.chunks(BLOCK).any(|block| block == image)
    };
    assert!(!is_there(&files) && is_there(&other));
    journal.close().expect("closes");
    assert!(is_there(&files));
}

#[test]
fn data_that_finds_no_room_in_its_lane_goes_to_the_log() {
    let files = Files::new("log-full");
    // Its store says what changes: it is little enough for the lane, as long as that has room.
    let settings = two_level::Settings::new().few_units(255).compares(false);
    let ranges = &[Span { at: 0, len: 3000 }];
    let policy = TwoLevel::with(settings);
    let options = options(policy.into()).lanes(1).lane_log_blocks(64);
    let journal: Journal<AnyPolicy> =
        Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let mut model = vec![vec![0; BLOCK]; 4];
    let mut commit = |round: u64, class: Class| {
        let at = round as usize % model.len();
        model[at][..3000].copy_from_slice(&noise(round)[..3000]);
        let change = Change::Ranges { image: &model[at], ranges };
        let mut update = Update::new(block(at as u64), change);
        update.class = class;
        journal.commit(&[Operation::Update(update)], Durability::Durable).expect("commits");
        let stats = journal.stats().expect("goes on");
        let total = stats.total();
        (total.logged, stats.lane_bytes - total.used_bytes, stats.checkpoints)
    };
    let full = (0..100).find_map(|round| {
        let (logged, free, checkpoints) = commit(round, Class::Data);
        assert_eq!(checkpoints, 0, "there was room on the disk");
        (logged > 0).then_some((round, free))
    });
    let (round, free) = full.expect("a lane is full some day");
    assert!(round > 10 && free < 4096, "{round}, {free}");
    assert_eq!(commit(100, Class::Data).0, 2);
    let (logged, _, _) = commit(101, Class::Metadata);
    assert_eq!(logged, 2, "metadata stays in memory: room is made for it");
    holds(&journal, &model);
    journal.close().expect("closes");
}

/// What finds no room in the log either would go into the record whole: one that fits into an empty
/// lane as it is, and is too large for any like that.
#[test]
fn what_finds_no_room_in_the_log_either_stays_as_short_as_it_is() {
    let files = Files::new("log-short");
    let policy = TwoLevel::with(two_level::Settings::new().few_units(255).compares(false));
    let options = options(policy.into()).lanes(1);
    let journal: Journal<AnyPolicy> =
        Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let mut model = vec![vec![0; BLOCK]; 40];
    let free = || {
        let stats = journal.stats().expect("goes on");
        stats.lane_bytes - stats.total().used_bytes
    };
    let mut rounds = 0;
    while free() > 2400 {
        model[0][..1000].copy_from_slice(&noise(rounds)[..1000]);
        let ranges = &[Span { at: 0, len: 1000 }];
        let mut update = Update::new(block(0), Change::Ranges { image: &model[0], ranges });
        update.class = Class::Metadata;
        journal.commit(&[Operation::Update(update)], Durability::Durable).expect("commits");
        rounds += 1;
    }
    assert_eq!(journal.stats().expect("goes on").checkpoints, 0, "{rounds} rounds");
    let ranges = &[Span { at: 0, len: 64 }];
    for image in &mut model {
        image[..64].fill(0xA5);
    }
    let update = |(number, image)| {
        let change = Change::Ranges { image, ranges };
        Operation::Update(Update::new(block(number), change))
    };
    let operations: Vec<_> = (0..).zip(model.iter().map(Vec::as_slice)).map(update).collect();
    let committed = journal.commit(&operations, Durability::Durable);
    assert!(matches!(committed, Ok(Some(_))), "{committed:?}");
    assert_eq!(journal.stats().expect("goes on").total().logged, 0);
    holds(&journal, &model);
    journal.close().expect("closes");
}

#[test]
fn threads_share_a_log_that_is_short() {
    let files = Files::new("log-threads");
    let options = options(CompressedDelta::new().into()).background_checkpoint(true);
    let journal: Journal<AnyPolicy> =
        Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let journal = &journal;
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                let mut model = vec![vec![0; BLOCK]; 4];
                for round in 0..200_u64 {
                    let at = round % 4;
                    let number = block(thread * 4 + at);
                    model[at as usize] = noise(thread << 32 | round);
                    let image = &model[at as usize];
                    journal.transact(|tx| tx.write(number, image)).expect("commits");
                    let look = (round + 1) % 4;
                    let mut found = vec![0; BLOCK];
                    journal.read(block(thread * 4 + look), &mut found).expect("reads");
                    assert!(found == model[look as usize], "thread {thread}, round {round}");
                }
            });
        }
    });
}

#[test]
fn what_is_gathered_keeps_the_image_that_was_committed() {
    let files = Files::new("log-gathered");
    let options = options(CompressedDelta::new().into());
    let journal: Journal<AnyPolicy> =
        Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let image = noise(7);
    journal.transact(|tx| tx.write(block(2), &image)).expect("commits");
    for step in 0..10_u8 {
        journal.transact_gathered(|tx| tx.write_at(block(2), 9, &[step])).expect("is gathered");
    }
    let before = journal.stats().expect("goes on").total();
    journal.sync().expect("commits");
    let after = journal.stats().expect("goes on").total();
    // One byte that differs, in one record of two lines.
    assert_eq!((after.commits - before.commits, after.bytes - before.bytes), (1, 128));
    let mut found = vec![0; BLOCK];
    journal.read(block(2), &mut found).expect("reads");
    assert!(found[9] == 9 && found[10..] == image[10..]);
}

#[test]
fn what_is_logged_is_read_from_ordinary_memory_as_long_as_it_is_kept() {
    let files = Files::new("log-cached");
    let options = options(TwoLevel::new().into()).cache_bytes(BLOCK * 64);
    let journal: Journal<AnyPolicy> =
        Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let mut model = vec![vec![0; BLOCK]; 8];
    for round in 0..40_u64 {
        let at = round as usize % model.len();
        model[at][round as usize] = 1;
        let image = &model[at];
        journal.transact(|tx| tx.write(block(at as u64), image)).expect("commits");
    }
    let before = journal.stats().expect("goes on").cached;
    // Each block was read once, to be compared with.
    assert_eq!((before.misses, before.blocks), (8, 8));
    holds(&journal, &model);
    journal.checkpoint().expect("goes home");
    holds(&journal, &model);
    let after = journal.stats().expect("goes on").cached;
    assert_eq!((after.hits - before.hits, after.misses), (16, 8));
    // What was discarded has no content to be found.
    journal.transact(|tx| tx.discard(block(3))).expect("commits");
    journal.transact(|tx| tx.write_at(block(3), 0, &[5])).expect("commits");
    let mut found = vec![0; BLOCK];
    journal.read(block(3), &mut found).expect("reads");
    assert_eq!(found[0], 5);
    let none = Options::new().policy(AnyPolicy::from(TwoLevel::new())).cache_bytes(0);
    assert_eq!(none.plan(64 << 20, BlockSize::DEFAULT).expect("can be").cached_bytes, 0);
}

#[test]
fn a_log_that_leaves_no_block_is_refused() {
    let files = Files::new("log-large");
    let policy = AnyPolicy::from(TwoLevel::new());
    let options = options(policy).lane_log_blocks(u32::try_from(BLOCKS).expect("few"));
    let refused = Journal::<AnyPolicy>::format(memory(1 << 20), files.disk(), &options);
    let log_blocks = 2 * BLOCKS;
    let expected = OptionsError::LogTooLarge { log_blocks, device_blocks: BLOCKS };
    assert_eq!(refused.expect_err("no block is left"), Error::Options(expected));
    assert!(policy.wants_log());
    let plan = |options: Options<AnyPolicy>| {
        options.plan(64 << 20, BlockSize::DEFAULT).expect("can be").geometry.lane_log_blocks
    };
    assert_eq!(plan(Options::new().policy(policy)), 0, "no commit syncs the disk by default");
    assert_eq!(plan(Options::new().policy(policy).disk_log(true)), (1 << 15) / 4, "of four lanes");
    assert_eq!(plan(Options::new().policy(AnyPolicy::default()).disk_log(true)), 0);
    let none = Options::new().policy(policy).lane_log_blocks(0);
    let plan = none.plan(64 << 20, BlockSize::DEFAULT).expect("can be");
    assert_eq!((plan.geometry.lane_log_blocks, plan.geometry.segment_blocks), (0, 0));
    let odd = Options::new().policy(policy).lane_log_blocks(65);
    assert!(odd.plan(64 << 20, BlockSize::DEFAULT).is_err(), "of whole segments");
}

#[test]
fn an_index_and_a_batch_of_nothing_are_refused() {
    let plan = |options: Options<AnyPolicy>| options.plan(64 << 20, BlockSize::DEFAULT);
    let options = Options::new().policy(AnyPolicy::from(TwoLevel::new()));
    assert_eq!(plan(options.clone().batch_blocks(0)).err(), Some(OptionsError::NoBatch));
    assert_eq!(plan(options.clone().index_frames(0)).err(), Some(OptionsError::NoFrames));
    assert!(plan(options.batch_blocks(1).index_frames(1)).is_ok());
}

/// A journal whose policy logs what changes, unless its lane is full.
fn bypassing(files: &Files, mutator: Mutator) -> DynJournal {
    let settings = two_level::Settings::new().few_units(255).compares(false);
    let options = any_options(TwoLevel::with(settings), mutator);
    let options = options.lanes(2).lane_bytes(64 << 10).lane_log_blocks(60).segment_blocks(4);
    Journal::format(any_memory(1 << 20), files.any_disk(), &options).expect("formats")
}

/// Changes blocks of each thread until some went to the log; returns what stopped transactions.
fn fill(journal: &DynJournal, is_gathered: bool, logged_at_least: u64) -> (u64, u64) {
    let logged = || journal.stats().expect("goes on").total().logged;
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                let mut model = vec![vec![0; BLOCK]; 4];
                for round in 0..400_u64 {
                    let at = (round % 4) as usize;
                    let number = block(thread * 4 + at as u64);
                    let bytes = &noise(thread << 32 | round)[..2000];
                    model[at][100..2100].copy_from_slice(bytes);
                    // What is written anew in the same transaction counts once.
                    let change = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
                        tx.write_at(number, 100, &bytes[..9])?;
                        tx.write_at(number, 100, bytes)
                    };
                    match is_gathered {
                        true => journal.transact_gathered(change),
                        false => journal.transact(change),
                    }
                    .expect("commits");
                    if is_gathered && round % 3 == thread % 3 {
                        journal.sync().expect("commits");
                    }
                    let mut found = vec![0; BLOCK];
                    journal.read(number, &mut found).expect("reads");
                    assert!(found == model[at], "thread {thread}, round {round}");
                    if logged() >= logged_at_least {
                        break;
                    }
                }
            });
        }
    });
    let stats = journal.stats().expect("goes on");
    assert!(logged() >= logged_at_least, "{stats}");
    (stats.stops_for_bytes + stats.stops_for_slots, stats.checkpoints)
}

#[test]
fn nobody_waits_for_a_checkpoint_while_the_log_has_room() {
    for is_gathered in [false, true] {
        let files = Files::new(&format!("log-bypass-{is_gathered}"));
        let journal = bypassing(&files, Mutator::new());
        assert_eq!(fill(&journal, is_gathered, 24), (0, 0), "{is_gathered}");
        let files = Files::new(&format!("log-no-bypass-{is_gathered}"));
        let journal = bypassing(&files, Mutator::without(&[Rule::StagedBypass]));
        let (stops, _) = fill(&journal, is_gathered, 0);
        let rounds = (0..100).map(|_| fill(&journal, is_gathered, 0).0);
        assert!(stops.max(rounds.max().unwrap_or(0)) > 0, "the rule is off, and nothing notices");
    }
}

/// What a transaction has reserved suffices whatever its blocks are in the end: written, patched,
/// discarded, metadata.
#[test]
fn a_bypassing_transaction_may_change_its_mind() {
    let files = Files::new("log-minds");
    let journal = bypassing(&files, Mutator::new());
    fill(&journal, false, 1);
    let image = |byte: u8| vec![byte; BLOCK];
    let before = journal.stats().expect("goes on").total().logged;
    for round in 0..6_u8 {
        let changed = journal.transact(|tx| {
            tx.write(block(1), &image(round))?;
            tx.discard(block(2))?;
            tx.write(block(2), &image(round + 1))?;
            tx.write(block(3), &image(9))?;
            tx.discard(block(3))?;
            tx.write_at(block(4), 5, &[round; 40])?;
            tx.write_metadata(block(1), &image(round + 2))?;
            tx.write_at(block(1), 7, &[7])?;
            tx.append(block(5), &image(round + 3))
        });
        changed.expect("commits");
        let mut found = vec![0; BLOCK];
        for (number, byte) in [(1, round + 2), (2, round + 1), (5, round + 3)] {
            journal.read(block(number), &mut found).expect("reads");
            assert!(found[0] == byte && found[4000] == byte, "round {round}, block {number}");
        }
        assert_eq!(found[7], round + 3);
        journal.read(block(4), &mut found).expect("reads");
        assert_eq!(found[5..45], [round; 40]);
    }
    assert!(journal.stats().expect("goes on").total().logged > before);
    journal.checkpoint().expect("writes home");
}

/// A block that was discarded keeps what was said of it, and a later patch makes it that again.
#[test]
fn a_bypassing_transaction_reserves_for_what_blocks_will_be() {
    for is_gathered in [false, true] {
        let files = Files::new(&format!("log-said-{is_gathered}"));
        let journal = bypassing(&files, Mutator::new());
        fill(&journal, false, 1);
        let image = vec![3; BLOCK];
        for round in 0..12_u8 {
            let first = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
                tx.write_metadata(block(1), &image)?;
                if is_gathered { Ok(()) } else { tx.discard(block(1)) }
            };
            let then = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
                (2..=9).try_for_each(|number| tx.write(block(number), &image))?;
                tx.write_at(block(1), 5, &[round; 40])
            };
            if is_gathered {
                journal.transact_gathered(first).expect("gathers");
                journal.transact_gathered(then).expect("gathers");
                journal.sync().expect("commits");
            } else {
                journal.transact(|tx| first(tx).and_then(|()| then(tx))).expect("commits");
            }
            let mut found = vec![0; BLOCK];
            journal.read(block(1), &mut found).expect("reads");
            assert_eq!(found[5..45], [round; 40]);
        }
    }
}

/// Of a block that is gathered more than once, the first transaction has said whether it was live.
/// Here it says that wrongly, and the policy then has no other place for it than the record. Other
/// transactions take all of the lane that is not reserved.
#[test]
fn a_gathered_block_takes_what_was_first_said_of_it() {
    let files = Files::new("log-first");
    let settings = adaptive::Settings::new().wish(Wish::Wear).bypass_above(128);
    let options = any_options(Adaptive::with(settings.appends_home(Some(1))), NoHook);
    let options = options.lanes(1).lane_bytes(64 << 10).index_frames(1 << 14);
    let options = options.lane_log_blocks(128).segment_blocks(4);
    let journal: DynJournal =
        Journal::format(any_memory(1 << 20), files.any_disk(), &options).expect("formats");
    for round in 1..4_u64 {
        let mut other = noise(round);
        journal.transact(|tx| tx.write_metadata(block(60), &other)).expect("commits");
        journal.transact(|tx| tx.write_metadata(block(1), &noise(round))).expect("commits");
        let first = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            tx.write_at_with(block(1), Hint::APPEND, 5, &[round as u8; 8])
        };
        let then = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            tx.write_at(block(1), 20, &[round as u8; 8])?;
            (2..40).try_for_each(|number| tx.write(block(number), &noise(round << 6 | number)))
        };
        journal.transact_gathered(first).expect("gathers");
        journal.transact_gathered(then).expect("gathers");
        for step in 0..200_u64 {
            other[..400].copy_from_slice(&noise(step)[..400]);
            let mut update = Update::new(block(60), Change::Image(&other));
            update.class = Class::Metadata;
            let committed = journal.commit(&[Operation::Update(update)], Durability::Durable);
            committed.expect("finds room");
        }
        journal.sync().expect("commits");
        let mut found = vec![0; BLOCK];
        journal.read(block(1), &mut found).expect("reads");
        assert!(found[5..13] == [round as u8; 8] && found[20..28] == [round as u8; 8]);
    }
}

/// A policy that counts what a transaction overwrites answers the same where the blocks are written
/// to the log as where their record is made.
#[test]
fn what_goes_to_the_log_since_much_is_overwritten_is_written_there() {
    let files = Files::new("log-counted");
    let settings = adaptive::Settings::new().medium(adaptive::Medium::FRAM);
    let settings = settings.bypasses(Some(adaptive::Disk::CARD));
    let options = any_options(Adaptive::with(settings), NoHook).lanes(1);
    let options = options.lane_log_blocks(32).segment_blocks(8).cache_bytes(0);
    let journal: DynJournal =
        Journal::format(any_memory(1 << 20), files.any_disk(), &options).expect("formats");
    // A sync of the card is worth it for four blocks.
    let mut logged = 0;
    for (count, goes) in [(3, false), (4, true), (9, true)] {
        let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
            (0..count).try_for_each(|number| tx.write(block(number), &noise(count << 8 | number)))
        };
        journal.transact(write).expect("commits");
        logged += if goes { count } else { 0 };
        assert_eq!(journal.stats().expect("counts").total().logged, logged, "of {count}");
        let mut found = vec![0; BLOCK];
        for number in 0..count {
            journal.read(block(number), &mut found).expect("reads");
            assert!(found == noise(count << 8 | number), "block {number} of {count}");
        }
    }
}

/// The sub-block is in each payload, so that a journal is opened with any.
#[test]
fn a_journal_is_opened_with_other_sub_blocks() {
    use policy_codec::bitmap::Unit;
    let world = {
        let facts = DeviceFacts::new(64, Overwrite::MayLeaveGarbage);
        let disk = DiskImage::blank(BlockSize::DEFAULT, 256, facts);
        World::boot(Image::blank(1 << 20).with_disk(disk), Model::Torn8)
    };
    let options = |unit| {
        let settings = two_level::Settings::new().sub_block(unit).logs_patches(false);
        any_options(TwoLevel::with(settings), NoHook).lanes(1).keep_on_close(true)
    };
    let units = [Unit::SUB_BLOCK, Unit::WORD, Unit::new(512).expect("a power of two")];
    let mut model = vec![vec![0; BLOCK]; 3];
    for (round, unit) in (0..9).zip(units.iter().cycle()) {
        let (nvm, disk) = lab::erased::of_world(&world);
        let journal: DynJournal = match round {
            0 => Journal::format(nvm, disk, &options(*unit)).expect("formats"),
            _ => Journal::open(nvm, disk, &options(*unit)).expect("opens"),
        };
        for (number, image) in (0..).zip(&mut model) {
            let mut found = vec![0; BLOCK];
            journal.read(block(number), &mut found).expect("reads");
            assert!(found == *image, "round {round}, block {number}");
            let at = 700 * number as usize + round;
            image[at] = round as u8 + 1;
            journal
                .transact(|tx| tx.write_at(block(number), at, &image[at..=at]))
                .expect("commits");
        }
        journal.close().expect("closes");
    }
}

/// Sends data where there is no room for it: home, which is allowed for appends only, or to slots,
/// of which the journal has none. What is to be logged of it is then the block.
#[derive(Clone, Debug)]
struct SendsData(Placement);

impl Policy for SendsData {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E66)
    }

    fn place(&self, update: &Update<'_>, _out: &mut Encoder<'_>) -> Placement {
        if update.class == Class::Data { self.0 } else { Placement::Image }
    }

    fn apply(&self, _payload: &[u8], _block: &mut [u8]) -> Result<(), ApplyError> {
        Err(ApplyError::Malformed { at: 0 })
    }

    fn wants_log(&self) -> bool {
        true
    }

    fn bypasses_when_full(&self) -> bool {
        true
    }
}

/// Writes blocks as metadata until the lane is nearly full. No upkeep makes room unless asked.
fn nearly_full(files: &Files, policy: DynPolicy, log_blocks: u32) -> DynJournal {
    let options = Options::new().policy(policy).hook(DynHook::default()).lanes(1);
    let options = options.lane_bytes(64 << 10).lane_log_blocks(log_blocks).segment_blocks(4);
    let options = options.thresholds(Thresholds::new(255, 255));
    let journal: DynJournal =
        Journal::format(any_memory(1 << 20), files.any_disk(), &options).expect("formats");
    let free = || {
        let stats = journal.stats().expect("goes on");
        stats.lane_bytes - stats.total().used_bytes
    };
    let mut round = 0;
    while free() > 3 * BLOCK as u64 {
        journal.transact(|tx| tx.write_metadata(block(round % 4), &noise(round))).expect("commits");
        round += 1;
    }
    journal
}

#[test]
fn what_no_slot_or_home_takes_goes_to_the_log_where_the_lane_is_full() {
    for placement in [Placement::Home, Placement::Slot] {
        let files = Files::new(&format!("log-{placement:?}"));
        let journal = nearly_full(&files, DynPolicy::new(SendsData(placement)), 16);
        let image = [9; BLOCK];
        let write = |number| Operation::write(block(number), &image);
        journal.transact(|tx| (0..4).try_for_each(|at| tx.write(block(at), &image))).expect("fits");
        journal.commit(&[write(0), write(1), write(3)], Durability::Durable).expect("fits");
        let stats = journal.stats().expect("goes on");
        assert_eq!((stats.total().logged, stats.checkpoints), (7, 0), "{placement:?}: {stats}");
        for number in 0..4 {
            let mut found = vec![0; BLOCK];
            journal.read(block(number), &mut found).expect("reads");
            assert!(found == image, "{placement:?}, block {number}");
        }
        journal.close().expect("closes");
    }
}

/// Blocks of the log that an open transaction holds are free as soon as it ends: no other one, and
/// no upkeep, writes anything home for them.
#[test]
fn nobody_makes_room_for_blocks_of_the_log_that_are_held() {
    let settings = two_level::Settings::new().few_units(255).compares(false);
    let files = Files::new("log-held");
    let journal = nearly_full(&files, DynPolicy::new(TwoLevel::with(settings)), 8);
    let mut holder = journal.begin().expect("begins");
    for number in 10..18 {
        holder.write_at(block(number), 100, &noise(number)[..2000]).expect("finds room in the log");
    }
    journal.transact(|tx| tx.write_at(block(20), 0, &[1])).expect("finds room in the lane");
    journal.tick(Duration::from_secs(1)).expect("has nothing to do");
    let stats = journal.stats().expect("goes on");
    let made = (stats.stops_for_slots, stats.stops_for_bytes, stats.checkpoints);
    assert_eq!(made, (0, 0, 0), "{stats}");
    assert_eq!(stats.total().free_log_blocks, 8, "they are held, and not used");
    holder.commit().expect("commits");
    assert_eq!(journal.stats().expect("goes on").total().free_log_blocks, 0);
    // Now they are used, and room is made for the next ones.
    journal.transact(|tx| tx.write_at(block(21), 0, &[1])).expect("room is made");
    assert!(journal.stats().expect("goes on").checkpoints > 0);
}
