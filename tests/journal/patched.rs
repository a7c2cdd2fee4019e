//! Patches of a transaction, under a policy that logs them as they come: no content is read for
//! them, and every read sees them.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use journal_core::NoHook;
use lab::erased::{DynDisk, DynJournal, any_options};
use nvm_journal::policy::{Change, Patch, Policy as _, Span, Update};
use nvm_journal::ports::{BlockDevice, DeviceError, DeviceErrorKind, DeviceFacts, DeviceOperation};
use nvm_journal::{
    Adaptive, AnyJournal, AnyPolicy, BlockNumber, BlockSize, ByteDelta, CompressedDelta,
    Durability, Error, FileDisk, FullBlock, Hint, Journal, Lcow, MapOptions, ObjectLog, Operation,
    Options, Transaction, TwoLevel, Wish,
};

use crate::claims::Dice;
use crate::use_it::{BLOCK, Files, any_memory, block, memory};

type Log = AnyJournal;

fn options(cached_blocks: usize) -> Options<AnyPolicy> {
    options_of(ObjectLog::new().into(), cached_blocks)
}

fn options_of(policy: AnyPolicy, cached_blocks: usize) -> Options<AnyPolicy> {
    let options = Options::new().policy(policy).lanes(2).lane_bytes(256 << 10);
    options.lane_slots(24).cache_bytes(cached_blocks * BLOCK)
}

#[test]
fn a_patch_reads_nothing_and_what_is_kept_follows_it() {
    let files = Files::new("patched");
    let journal = Journal::format(memory(1 << 20), files.disk(), &options(4096)).expect("formats");
    let asked = |journal: &Log| {
        let cached = journal.stats().expect("works").cached;
        (cached.hits, cached.misses)
    };
    // Three patches of two blocks, one of them changed again: 64 + 64 + 8 bytes are logged.
    let patches = |tx: &mut Transaction<'_, AnyPolicy>| {
        tx.write_at(block(7), 100, &[1; 64])?;
        tx.write_at(block(9), 0, &[2; 64])?;
        tx.write_at(block(7), 3000, &[3; 8])?;
        tx.write_at(block(7), 110, &[4; 4])
    };
    journal.transact(patches).expect("commits");
    assert_eq!(asked(&journal), (0, 0));
    let first = journal.stats().expect("works").total().bytes;
    assert!(first <= 320, "{first} bytes");
    let mut content = [0; BLOCK];
    journal.read(block(7), &mut content).expect("reads");
    assert_eq!(asked(&journal), (0, 1));
    // From now on block 7 is kept, and its patches are put there.
    for round in 5..9 {
        let patch = |tx: &mut Transaction<'_, AnyPolicy>| tx.write_at(block(7), 200, &[round; 64]);
        journal.transact(patch).expect("commits");
        journal.read(block(7), &mut content).expect("reads");
        assert_eq!((content[199], content[200], content[263]), (0, round, round));
        assert_eq!(asked(&journal), (u64::from(round) - 4, 1));
    }
    assert_eq!((content[100], content[110], content[114], content[3000]), (1, 4, 1, 3));
}

/// What blocks hold; nothing of those that were discarded.
type Model = BTreeMap<u64, Option<Vec<u8>>>;

/// One transaction of some steps on few blocks, which checks what it reads.
fn steps(tx: &mut Transaction<'_, AnyPolicy>, dice: &mut Dice, model: &mut Model) {
    for _ in 0..1 + dice.below(6) {
        let number = dice.below(6);
        let content = model.get_mut(&number).expect("a block of the model");
        let byte = dice.below(256) as u8;
        match (dice.below(12), content.is_some()) {
            (0, _) => {
                tx.discard(block(number)).expect("discards");
                *content = None;
            }
            (1, _) | (_, false) => {
                tx.write(block(number), &[byte; BLOCK]).expect("writes");
                *content = Some(vec![byte; BLOCK]);
            }
            (2, true) => {
                let mut found = [0; BLOCK];
                tx.read(block(number), &mut found).expect("reads");
                assert_eq!(Some(&found[..]), content.as_deref());
            }
            (3, true) => {
                let (at, len) = (dice.below(4000) as usize, dice.below(96) as usize);
                let mut found = vec![0; len];
                tx.read_at(block(number), at, &mut found).expect("reads");
                let content = content.as_deref().expect("was looked at");
                assert_eq!(found, content[at..at + len]);
            }
            // Mostly short, near each other, and so that they overlap; some are long.
            (way, true) => {
                let long = if way == 4 { 3000 } else { 90 };
                let (at, len) = (dice.below(1000) as usize, dice.below(long) as usize);
                let new = vec![byte; len];
                tx.write_at(block(number), at, &new).expect("patches");
                content.as_mut().expect("was looked at")[at..at + len].copy_from_slice(&new);
            }
        }
    }
}

fn check(journal: &Log, model: &Model, round: u64) {
    for (number, content) in model {
        let mut found = [0; BLOCK];
        journal.read(block(*number), &mut found).expect("reads");
        if let Some(content) = content {
            assert!(found == content[..], "block {number} after {round} transactions");
        }
    }
}

#[test]
fn every_read_sees_the_patches_before_it() {
    for policy in AnyPolicy::ALL {
        let rounds = if matches!(policy, AnyPolicy::ObjectLog(_)) { 1500 } else { 120 };
        for cached_blocks in [0, 3, 64] {
            runs_as_its_model(*policy, cached_blocks, rounds);
        }
    }
    let compares = full_block::Settings::new().compares(true);
    let compared = [
        FullBlock::with(compares).into(),
        ByteDelta::with(byte_delta::Settings::new().compares(true)).into(),
        Lcow::with(lcow::Settings::new().compares(true)).into(),
    ];
    for policy in compared {
        runs_as_its_model(policy, 16, 300);
    }
}

fn runs_as_its_model(policy: AnyPolicy, cached_blocks: usize, rounds: u64) {
    let files = Files::new(&format!("patched-{policy}-{cached_blocks}"));
    let nvm = std::env::temp_dir().join(format!("{}-nvm", files.0.display()));
    let _ = std::fs::remove_file(&nvm);
    let made = MapOptions::new().create(&nvm, 1 << 20).expect("a new file");
    let options = options_of(policy, cached_blocks);
    let mut journal = Journal::format(made, files.disk(), &options).expect("formats");
    let mut dice = Dice(cached_blocks as u64);
    let mut model: Model = (0..6).map(|number| (number, Some(vec![0; BLOCK]))).collect();
    for round in 0..rounds {
        let before = model.clone();
        let mut tx = journal.begin().expect("begins");
        steps(&mut tx, &mut dice, &mut model);
        match dice.below(8) {
            0 => {
                tx.abort();
                model = before;
            }
            1 => tx.commit_deferred().map(drop).expect("commits"),
            2 | 3 => tx.commit_gathered().expect("gathers"),
            _ => tx.commit().map(drop).expect("commits"),
        }
        check(&journal, &model, round);
        if dice.below(40) == 0 {
            journal.checkpoint().expect("writes home");
            check(&journal, &model, round);
        }
        // What was synced outlives the process.
        if dice.below(60) == 0 {
            journal.sync().expect("syncs");
            drop(journal);
            let nvm = MapOptions::new().open(&nvm).expect("is there");
            let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
            journal = Journal::open(nvm, disk, &options).expect("opens");
            check(&journal, &model, round);
        }
    }
    drop(journal);
    std::fs::remove_file(&nvm).expect("was there");
}

/// A policy's few bytes before each patch have room too, however small a block is.
#[test]
fn scattered_patches_of_small_blocks_commit() {
    for bytes in [64, 128, 256, 512] {
        let files = Files::new(&format!("patched-small-{bytes}"));
        let _ = std::fs::remove_file(&files.0);
        let block_size = BlockSize::new(bytes).expect("a size of blocks");
        let disk = FileDisk::create(&files.0, block_size, 16).expect("a new file");
        let options = Options::new().policy(AnyPolicy::from(ObjectLog::new()));
        let journal = Journal::format(memory(1 << 20), disk, &options).expect("formats");
        for step in [2, 4, 8] {
            let scattered = |tx: &mut Transaction<'_, AnyPolicy>| {
                (0..bytes as usize / step)
                    .try_for_each(|at| tx.write_at(block(3), at * step, &[at as u8; 1]))
            };
            journal.transact(scattered).expect("commits");
            let mut found = vec![0; bytes as usize];
            journal.read(block(3), &mut found).expect("reads");
            let expected = (0..found.len()).step_by(step).map(|at| (at / step) as u8);
            assert!(found.iter().copied().step_by(step).eq(expected), "{bytes} / {step}");
        }
    }
}

/// A disk that does not read one block while it is told to.
#[derive(Clone)]
struct Unreadable {
    disk: FileDisk,
    fails: Arc<AtomicBool>,
}

const BAD: u64 = 5;

impl BlockDevice for Unreadable {
    fn facts(&self) -> DeviceFacts {
        self.disk.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.disk.block_size()
    }

    fn block_count(&self) -> u64 {
        self.disk.block_count()
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        let blocks = first.raw()..first.raw() + (into.len() / BLOCK) as u64;
        if blocks.contains(&BAD) && self.fails.load(Ordering::SeqCst) {
            let (operation, kind) = (DeviceOperation::Read, DeviceErrorKind::Io { os: Some(5) });
            return Err(DeviceError { operation, kind, block: first });
        }
        self.disk.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        self.disk.write(first, from)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.disk.sync()
    }
}

/// A patch does not find out that the disk does not read what it is to be put on. The checkpoint
/// does, and leaves that block out: the journal goes on, and so does the block when it can.
#[test]
fn a_patch_of_what_the_disk_does_not_read_costs_its_block_alone() {
    let files = Files::new("patched-unreadable");
    let fails = Arc::new(AtomicBool::new(true));
    let disk = DynDisk::new(Unreadable { disk: files.disk(), fails: Arc::clone(&fails) });
    let options = any_options(ObjectLog::new(), NoHook).lanes(2).lane_bytes(256 << 10);
    let options = options.lane_slots(24).cache_bytes(0);
    let journal = DynJournal::format(any_memory(1 << 20), disk, &options).expect("formats");
    let patch = |number: u64, byte: u8| {
        journal.transact(|tx| tx.write_at(block(number), 10, &[byte; 4])).expect("commits");
    };
    patch(BAD, 1);
    patch(6, 2);
    let mut found = [0; BLOCK];
    assert!(matches!(journal.read(block(BAD), &mut found), Err(Error::Device(_))));
    let report = journal.checkpoint().expect("goes on");
    assert_eq!((report.unreadable, report.blocks), (1, 1));
    assert_eq!(journal.unreadable(), Ok(vec![block(BAD)]));
    // Now that it is known, a patch is refused, and the transaction can go on.
    let mut tx = journal.begin().expect("begins");
    assert!(matches!(tx.write_at(block(BAD), 20, &[9; 4]), Err(Error::Device(_))));
    tx.write_at(block(6), 20, &[3; 4]).expect("is another block");
    tx.commit().expect("commits");
    fails.store(false, Ordering::SeqCst);
    assert_eq!(journal.checkpoint().expect("writes home").unreadable, 0);
    for (number, at, byte) in [(BAD, 10, 1), (6, 10, 2), (6, 20, 3)] {
        journal.read(block(number), &mut found).expect("reads");
        assert_eq!(found[at..at + 4], [byte; 4]);
    }
    assert_eq!(journal.unreadable(), Ok(Vec::new()));
    journal.close().expect("all is home");
}

/// Discards a block, patches it, and has a checkpoint forget the discard before the patch commits.
/// The block then holds what the transaction has seen.
fn patch_over_a_discard(name: &str, discard: impl Fn(&Log)) {
    let files = Files::new(name);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options(0)).expect("formats");
    journal.transact(|tx| tx.write(block(3), &[7; BLOCK])).expect("commits");
    journal.checkpoint().expect("writes home");
    discard(&journal);
    let mut tx = journal.begin().expect("begins");
    tx.write_at(block(3), 10, &[1; 4]).expect("patches");
    let (mut seen, mut found) = ([0; BLOCK], [0; BLOCK]);
    tx.read(block(3), &mut seen).expect("reads");
    journal.sync().expect("syncs");
    journal.checkpoint().expect("writes home");
    tx.commit().expect("commits");
    journal.read(block(3), &mut found).expect("reads");
    assert!(found == seen && found[10..14] == [1; 4], "{name}");
}

#[test]
fn a_patch_of_a_discarded_block_does_not_show_what_lies_at_home() {
    patch_over_a_discard("patched-discarded", |journal| {
        journal.transact(|tx| tx.discard(block(3))).expect("commits");
    });
    patch_over_a_discard("patched-gathered", |journal| {
        journal.transact_gathered(|tx| tx.discard(block(3))).expect("gathers");
    });
}

/// What lies below a block that was not live is nothing to build on: it is logged whole.
#[test]
fn the_first_patch_of_a_new_block_is_logged_as_an_image() {
    let files = Files::new("patched-append");
    let journal = Journal::format(memory(1 << 20), files.disk(), &options(0)).expect("formats");
    let patch = |hint| journal.transact(|tx| tx.write_at_with(block(3), hint, 10, &[1; 4]));
    let bytes = || journal.stats().expect("works").total().bytes;
    patch(Hint::DATA).expect("commits");
    let short = bytes();
    assert!(short < 256, "{short} bytes");
    patch(Hint::APPEND).expect("commits");
    assert!(bytes() - short > BLOCK as u64, "{} bytes", bytes() - short);
}

/// Beside blocks that lie in the journal and stay, one block is changed again and again: by
/// transactions and by single calls, and where that stores little, by whole images too. Frames of
/// it never bring a checkpoint, nor a fold where versions are in slots.
#[test]
fn a_hot_block_does_not_fill_the_index() {
    let compares = byte_delta::Settings::new().compares(true);
    let policies: [(AnyPolicy, bool); 4] = [
        (ObjectLog::new().into(), false),
        (ByteDelta::new().into(), true),
        (ByteDelta::with(compares).into(), true),
        (Lcow::new().into(), true),
    ];
    for (number, (policy, writes_images)) in policies.into_iter().enumerate() {
        let files = Files::new(&format!("hot-{number}"));
        let nvm = std::env::temp_dir().join(format!("{}-nvm", files.0.display()));
        let _ = std::fs::remove_file(&nvm);
        let made = MapOptions::new().create(&nvm, 16 << 20).expect("a new file");
        let few = Options::new().policy(policy).lanes(1).lane_bytes(8 << 20);
        let few = few.index_frames(1 << 10).cache_bytes(if writes_images { 1 << 20 } else { 0 });
        let journal = Journal::format(made, files.disk(), &few).expect("formats");
        for number in 0..64 {
            let cold = |tx: &mut Transaction<'_, AnyPolicy>| tx.write(block(number), &[1; BLOCK]);
            journal.transact(cold).expect("commits");
        }
        let mut content = vec![1; BLOCK];
        for round in 0..20_000_u32 {
            let bytes = round.to_le_bytes();
            let at = round as usize * 8 % BLOCK;
            content[at..at + 4].copy_from_slice(&bytes);
            if round % 3 == 0 {
                let patch = [Patch { at: at as u32, bytes: &bytes }];
                let update = Update::new(block(7), Change::Patches(&patch));
                journal.commit(&[Operation::Update(update)], Durability::Durable).expect("commits");
            } else if round % 3 == 1 && writes_images {
                journal.transact(|tx| tx.write(block(7), &content)).expect("commits");
            } else {
                let patch = |tx: &mut Transaction<'_, AnyPolicy>| tx.write_at(block(7), at, &bytes);
                journal.transact(patch).expect("commits");
            }
        }
        let mut found = [0; BLOCK];
        journal.read(block(7), &mut found).expect("reads");
        assert!(found == content[..]);
        let stats = journal.stats().expect("works");
        assert_eq!((stats.checkpoints, stats.folded.fences), (0, 0), "{policy}: {stats}");
        assert_eq!(stats.total().fences, stats.total().commits, "{policy}: {stats}");
        assert!(stats.frames < 1 << 10 && stats.blocks == 64, "{policy}: {stats}");
        // An image ends a chain where frames are short: seldom, if what it covers is forgotten.
        let most = if writes_images { 2_600_000 } else { 4_000_000 };
        assert!(stats.total().bytes < most, "{policy}: {stats}");
        // What was forgotten is found again, and changes nothing.
        drop(journal);
        let nvm_again = MapOptions::new().open(&nvm).expect("is there");
        let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
        let journal = Journal::open(nvm_again, disk, &few).expect("opens");
        journal.read(block(7), &mut found).expect("reads");
        assert!(found == content[..], "{policy}");
        std::fs::remove_file(&nvm).expect("was there");
    }
}

/// Changes a few blocks once, in one transaction.
type Changes = fn(&Log, &[u64], u32);

fn by_transact(journal: &Log, blocks: &[u64], round: u32) {
    let changed = |tx: &mut Transaction<'_, AnyPolicy>| {
        let at = round as usize % 32 * 64;
        blocks.iter().try_for_each(|number| tx.write_at(block(*number), at, &round.to_le_bytes()))
    };
    journal.transact(changed).expect("commits");
}

fn by_call(journal: &Log, blocks: &[u64], round: u32) {
    let patch = [Patch { at: round % 32 * 64, bytes: &round.to_le_bytes() }];
    let update = |number: &u64| Update::new(block(*number), Change::Patches(&patch));
    let operations: Vec<_> = blocks.iter().map(update).map(Operation::Update).collect();
    journal.commit(&operations, Durability::Durable).expect("commits");
}

fn by_images(journal: &Log, blocks: &[u64], round: u32) {
    let changed = |tx: &mut Transaction<'_, AnyPolicy>| {
        let mut image = [0; BLOCK];
        blocks.iter().try_for_each(|number| {
            tx.read(block(*number), &mut image)?;
            image[round as usize % 32 * 64..][..4].copy_from_slice(&round.to_le_bytes());
            tx.write(block(*number), &image)
        })
    };
    journal.transact(changed).expect("commits");
}

/// In one call, with what the caller knows of the old content: it brings that, or the ranges.
fn by_images_that_say_more(journal: &Log, blocks: &[u64], round: u32) {
    let ranges = [Span { at: round % 32 * 64, len: 4 }];
    let images = blocks.iter().map(|number| {
        let mut old = [0; BLOCK];
        journal.read(block(*number), &mut old).expect("reads");
        let mut new = old;
        new[round as usize % 32 * 64..][..4].copy_from_slice(&round.to_le_bytes());
        (old, new)
    });
    let images: Vec<_> = images.collect();
    let operations = blocks.iter().zip(&images).map(|(number, (old, new))| {
        let change = match round / 45 {
            0 => Change::Image(new),
            _ => Change::Ranges { image: new, ranges: &ranges },
        };
        let mut update = Update::new(block(*number), change);
        update.old = Some(old);
        Operation::Update(update)
    });
    let operations: Vec<_> = operations.collect();
    journal.commit(&operations, Durability::Durable).expect("commits");
}

/// However a block is changed, it has no more frames than the setting says, and not many fewer.
#[test]
fn a_block_is_logged_whole_after_as_many_changes_as_the_setting_says() {
    let (one, few) = ([7], [7, 90]);
    let many: Vec<u64> = (0..20).map(|number| 2 + number * 5).collect();
    let ways: [(Changes, &[u64]); 9] = [
        (by_transact, &one),
        (by_transact, &many),
        (by_call, &one),
        (by_call, &few),
        (by_call, &many),
        (by_images, &one),
        (by_images, &few),
        (by_images_that_say_more, &one),
        (by_images_that_say_more, &few),
    ];
    let no_patches: [AnyPolicy; 2] = [
        CompressedDelta::with(compressed_delta::Settings::new().moves(true)).into(),
        TwoLevel::with(two_level::Settings::new().logs_patches(false).compares(true)).into(),
    ];
    let policies: Vec<_> = AnyPolicy::ALL.iter().copied().chain(no_patches).collect();
    for (policy, (way, (change, blocks))) in policies
        .iter()
        .flat_map(|policy| ways.into_iter().enumerate().map(move |way| (policy, way)))
    {
        let is_call = (2..5).contains(&way);
        if is_call && !policy.logs_patches() {
            continue;
        }
        let files = Files::new(&format!("whole-after-{policy}-{way}"));
        let options = Options::new().policy(*policy).lanes(1).lane_bytes(8 << 20);
        let options = options.cache_bytes(1 << 20).index_frames(1 << 14).whole_after(8);
        let journal = Journal::format(memory(16 << 20), files.disk(), &options).expect("formats");
        let (mut most, mut before, mut wholes) = (0, 0, 0);
        for round in 0..90 {
            change(&journal, blocks, round);
            let stats = journal.stats().expect("works");
            let bytes = stats.total().bytes - before;
            before += bytes;
            wholes += usize::from(bytes > (blocks.len() * BLOCK) as u64);
            most = most.max(stats.frames);
        }
        // Eight changes on an image, and the next image; beside that, a slot has a frame.
        assert!(most <= 11 * blocks.len(), "{policy}, way {way}: {most} frames");
        if way < 5 && policy.logs_patches() {
            assert!(most >= 9 * blocks.len(), "{policy}, way {way}: {most} frames");
            assert!(wholes <= 10, "{policy}, way {way}: {wholes} of 90 are whole");
        }
        let mut found = [0; BLOCK];
        journal.read(block(7), &mut found).expect("reads");
        for round in 58..90_u32 {
            let bytes = &found[round as usize % 32 * 64..][..4];
            assert_eq!(bytes, round.to_le_bytes(), "{policy}, way {way}");
        }
    }
}

/// Images of all blocks would not fit the lane. So the call goes on with what has changed, however
/// long the chains are.
#[test]
fn a_call_that_fits_as_changes_fits_after_any_number_of_them() {
    let compares = object_log::Settings::new().compares(true);
    let policies: [AnyPolicy; 3] = [
        CompressedDelta::new().into(),
        Adaptive::with(adaptive::Settings::new().wish(Wish::Wear)).into(),
        ObjectLog::with(compares).expect("a size of objects").into(),
    ];
    for policy in policies {
        let files = Files::new(&format!("whole-after-fits-{policy}"));
        let options = Options::new().policy(policy).lanes(1).lane_bytes(64 << 10);
        let options = options.cache_bytes(1 << 20).index_frames(1 << 12).whole_after(4);
        let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
        let mut images = vec![[0; BLOCK]; 20];
        for (number, image) in (0..).zip(&images) {
            journal.transact(|tx| tx.write(block(number), image)).expect("commits");
        }
        let mut longest = 0;
        for round in 0..40_u8 {
            for image in &mut images {
                image[usize::from(round) * 64..][..4].fill(round);
            }
            let writes =
                (0..).zip(&images).map(|(number, image)| Operation::write(block(number), image));
            let writes: Vec<_> = writes.collect();
            journal.commit(&writes, Durability::Durable).expect("fits as changes");
            longest = longest.max(journal.stats().expect("works").frames);
        }
        assert!(longest > 20 * 6, "{policy}: {longest} frames, chains go on");
        for (number, image) in (0..).zip(&images) {
            let mut found = [0; BLOCK];
            journal.read(block(number), &mut found).expect("reads");
            assert!(found == *image, "{policy}: block {number}");
        }
    }
}
