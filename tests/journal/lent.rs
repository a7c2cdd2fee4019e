//! Policies that are lent the committed image where it is kept: patches come without an image, and
//! images without a copy of the old one.

use journal_core::{DeviceFacts, NoHook};
use lab::erased::{AnyMachine, DynDisk, DynJournal, DynPmem, DynPolicy, any_options, of_world};
use nvm_journal::{
    Adaptive, AnyPolicy, BlockSize, ByteDelta, CompressedDelta, Durability, FullBlock, Hint, Lcow,
    ObjectLog, Operation, TwoLevel,
};
use sim_disk::{DiskImage, Image, Model, World};

use crate::claims::Dice;
use crate::use_it::{BLOCK, Files, block, memory};

type Tx<'j> = nvm_journal::Transaction<'j, DynPolicy, AnyMachine>;

const SPAN_BYTES: u64 = 8 << 20;

/// Policies that log what leads from the old image to the new one.
fn differences() -> [AnyPolicy; 2] {
    [CompressedDelta::new().into(), Adaptive::new().into()]
}

/// A journal of a policy, whose cache has this number of blocks, all with some content.
fn format(files: &Files, policy: AnyPolicy, cached: usize) -> DynJournal {
    let options = any_options(policy, NoHook).lanes(2).cache_bytes(cached * BLOCK);
    let pmem = DynPmem::new(memory(SPAN_BYTES));
    let journal = DynJournal::format(pmem, DynDisk::new(files.disk()), &options).expect("formats");
    for number in 0..BLOCKS {
        journal.transact(|tx| tx.write(block(number), &noise(number))).expect("commits");
    }
    journal.checkpoint().expect("writes home");
    journal
}

const BLOCKS: u64 = 128;

fn noise(seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed + 1);
    (0..BLOCK / 8).flat_map(|_| dice.below(u64::MAX).to_le_bytes()).collect()
}

fn read(journal: &DynJournal, number: u64) -> Vec<u8> {
    let mut found = vec![0; BLOCK];
    journal.read(block(number), &mut found).expect("reads");
    found
}

/// What was logged by a call, in bytes of records.
fn logged(journal: &DynJournal, call: impl FnOnce()) -> u64 {
    let bytes = || journal.stats().expect("goes on").total().bytes;
    let before = bytes();
    call();
    bytes() - before
}

/// The image with bytes in another place.
fn patched(image: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    image[at..][..bytes.len()].copy_from_slice(bytes);
    image
}

#[test]
fn a_patch_on_a_kept_block_logs_what_differs_and_reads_nothing() {
    for policy in differences() {
        let files = Files::new(&format!("lent-{policy}"));
        let journal = format(&files, policy, 4096);
        let mut image = read(&journal, 3);
        let misses = || journal.stats().expect("works").cached.misses;
        let before = misses();
        for (turn, at) in [(1_u8, 0), (2, 1000), (3, BLOCK - 64)] {
            let bytes = [turn; 64];
            image = patched(&image, at, &bytes);
            let of_one = logged(&journal, || {
                journal.transact(|tx| tx.write_at(block(3), at, &bytes)).expect("commits");
            });
            // The header, one name of a frame, 13 bytes before the patch, and the check.
            assert_eq!(of_one, 192, "{policy}");
            assert!(read(&journal, 3) == image, "{policy}");
            // What is there already is not logged.
            let of_none = logged(&journal, || {
                journal.transact(|tx| tx.write_at(block(3), at, &bytes)).expect("commits");
            });
            assert_eq!(of_none, 0, "{policy}");
        }
        assert_eq!(misses(), before, "{policy}");
        // What a record says is what a checkpoint makes of it.
        journal.checkpoint().expect("writes home");
        assert!(files.home(block(3))[..] == image, "{policy}");
    }
}

/// What is lent when a block is patched may be gone when the transaction commits.
#[test]
fn what_was_evicted_before_the_commit_is_read_again() {
    for policy in differences() {
        let files = Files::new(&format!("lent-evicted-{policy}"));
        let journal = format(&files, policy, 64);
        let (mut one, two) = (read(&journal, 3), noise(1000));
        let small = logged(&journal, || {
            let mut tx = journal.begin().expect("begins");
            tx.write_at(block(3), 100, &[7; 64]).expect("patches");
            tx.write_at(block(3), 40, &[8; 8]).expect("patches");
            // Other blocks take all memory that there is for blocks.
            for number in (0..BLOCKS).filter(|number| *number != 3) {
                read(&journal, number);
            }
            tx.commit().expect("commits");
        });
        assert!(small <= 320, "{policy}: {small} bytes");
        one = patched(&patched(&one, 100, &[7; 64]), 40, &[8; 8]);
        assert!(read(&journal, 3) == one, "{policy}");
        // An image is logged all the same.
        let mut tx = journal.begin().expect("begins");
        tx.write(block(3), &two).expect("writes");
        for number in (0..BLOCKS).filter(|number| *number != 3) {
            read(&journal, number);
        }
        tx.commit().expect("commits");
        assert!(read(&journal, 3) == two, "{policy}");
        journal.checkpoint().expect("writes home");
        assert!(files.home(block(3))[..] == two, "{policy}");
    }
}

/// A checkpoint writes the block home and its frames are forgotten, while a patch waits.
#[test]
fn a_checkpoint_before_the_commit_changes_nothing() {
    for policy in differences() {
        let files = Files::new(&format!("lent-checkpoint-{policy}"));
        let journal = format(&files, policy, 4096);
        let mut image = noise(2000);
        journal.transact(|tx| tx.write(block(5), &image)).expect("commits");
        let mut tx = journal.begin().expect("begins");
        tx.write_at(block(5), 9, &[1; 30]).expect("patches");
        journal.checkpoint().expect("writes home");
        tx.write_at(block(5), 9, &[2; 3]).expect("patches");
        tx.commit().expect("commits");
        image = patched(&patched(&image, 9, &[1; 30]), 9, &[2; 3]);
        assert!(read(&journal, 5) == image, "{policy}");
        journal.checkpoint().expect("writes home");
        assert!(files.home(block(5))[..] == image, "{policy}");
    }
}

/// A block is patched, written, discarded and written anew in one transaction, in any order.
#[test]
fn what_a_transaction_makes_of_a_block_counts_from_what_was_committed() {
    for policy in AnyPolicy::ALL {
        let files = Files::new(&format!("lent-again-{policy}"));
        let journal = format(&files, *policy, 4096);
        let (old, new) = (read(&journal, 7), noise(3000));
        let patched_then_written = |tx: &mut Tx<'_>| {
            tx.write_at(block(7), 8, &[1; 8])?;
            tx.write(block(7), &new)?;
            tx.write_at(block(7), 16, &[2; 8])
        };
        journal.transact(patched_then_written).expect("commits");
        let second = patched(&new, 16, &[2; 8]);
        assert!(read(&journal, 7) == second, "{policy}");
        let discarded_between = |tx: &mut Tx<'_>| {
            tx.write_at(block(7), 8, &[1; 8])?;
            tx.discard(block(7))?;
            tx.write(block(7), &old)?;
            tx.write_at(block(7), 24, &[3; 8])
        };
        journal.transact(discarded_between).expect("commits");
        let third = patched(&old, 24, &[3; 8]);
        assert!(read(&journal, 7) == third, "{policy}");
        journal.transact(|tx| tx.discard(block(7))).expect("commits");
        journal.transact(|tx| tx.write_with(block(7), Hint::APPEND, &new)).expect("commits");
        journal.transact(|tx| tx.write_at(block(7), 0, &[4; 64])).expect("commits");
        let last = patched(&new, 0, &[4; 64]);
        assert!(read(&journal, 7) == last, "{policy}");
        journal.checkpoint().expect("writes home");
        assert!(read(&journal, 7) == last, "{policy}");
    }
}

#[test]
fn what_is_gathered_is_logged_on_what_was_committed_before_it() {
    for policy in differences() {
        let files = Files::new(&format!("lent-gathered-{policy}"));
        let journal = format(&files, policy, 4096);
        let mut image = read(&journal, 9);
        let bytes = logged(&journal, || {
            for (turn, at) in [(1_u8, 64), (2, 128), (3, 64)] {
                let patch = [turn; 32];
                journal.transact_gathered(|tx| tx.write_at(block(9), at, &patch)).expect("works");
                image = patched(&image, at, &patch);
            }
            assert!(read(&journal, 9) == image, "{policy}");
            // Another block while something is gathered: nothing is lent then.
            journal.transact(|tx| tx.write_at(block(10), 0, &[9; 16])).expect("commits");
            journal.sync().expect("syncs");
        });
        // An image that was lent when it was written.
        image[77] ^= 1;
        let of_image = logged(&journal, || {
            journal.transact_gathered(|tx| tx.write(block(9), &image)).expect("gathers");
            journal.sync().expect("syncs");
        });
        let is_small = bytes + of_image < 1536;
        assert!(is_small && read(&journal, 9) == image, "{policy}: {bytes}");
        journal.checkpoint().expect("writes home");
        assert!(files.home(block(9))[..] == image, "{policy}");
    }
}

/// Where images are logged, a patch takes the page that is kept, and the commit gives it back.
#[test]
fn what_a_patch_takes_from_the_cache_is_read_as_it_was_until_the_commit() {
    for policy in [AnyPolicy::from(FullBlock), AnyPolicy::from(no_patches())] {
        let files = Files::new(&format!("lent-page-{policy}"));
        let journal = format(&files, policy, 4096);
        let old = read(&journal, 3);
        let cached = || journal.stats().expect("works").cached;
        let before = cached();
        let mut tx = journal.begin().expect("begins");
        tx.write_at(block(3), 100, &[1; 64]).expect("patches");
        assert_eq!((cached().hits, cached().blocks), (before.hits + 1, before.blocks - 1));
        let mut found = vec![0; BLOCK];
        tx.read(block(3), &mut found).expect("reads");
        assert!(found == patched(&old, 100, &[1; 64]), "{policy}");
        tx.abort();
        assert!(read(&journal, 3) == old, "{policy}: after an abort");
        // A reader builds the content anew meanwhile, and the commit puts its own in the place.
        for reads_between in [false, true] {
            let old = read(&journal, 3);
            let mut tx = journal.begin().expect("begins");
            tx.write_at(block(3), 200, &[2 + u8::from(reads_between); 64]).expect("patches");
            if reads_between {
                assert!(read(&journal, 3) == old, "{policy}: before the commit");
            }
            tx.commit().expect("commits");
            let new = patched(&old, 200, &[2 + u8::from(reads_between); 64]);
            let misses = cached().misses;
            assert!(read(&journal, 3) == new, "{policy}: after the commit");
            assert_eq!(cached().misses, misses, "{policy}: it is kept");
        }
        let last = read(&journal, 3);
        journal.checkpoint().expect("writes home");
        assert!(files.home(block(3))[..] == last, "{policy}");
    }
}

/// Versions, and patches as images.
fn no_patches() -> ByteDelta {
    ByteDelta::with(byte_delta::Settings::new().logs_patches(false))
}

/// A record of many blocks has several parts, for each of which the policy is asked again.
#[test]
fn a_record_of_several_parts_does_not_depend_on_what_is_kept() {
    for policy in differences() {
        let files = Files::new(&format!("lent-many-{policy}"));
        let journal = format(&files, policy, 4096);
        let images: Vec<_> = (0..BLOCKS).map(|number| read(&journal, number)).collect();
        let many = |tx: &mut Tx<'_>| {
            (0..100).try_for_each(|number| {
                tx.write_at(block(number), 50, &[number as u8; 150])?;
                tx.write_at(block(number), 3000, &[number as u8; 90])
            })
        };
        journal.transact(many).expect("commits");
        journal.checkpoint().expect("writes home");
        for (number, image) in (0..100).zip(&images) {
            let one = patched(image, 50, &[number as u8; 150]);
            let both = patched(&one, 3000, &[number as u8; 90]);
            assert!(files.home(block(number))[..] == both, "{policy}, {number}");
        }
    }
}

#[test]
fn what_is_there_already_is_not_logged_where_the_policy_compares() {
    let objects = object_log::Settings::new().compares(true);
    let policies: [AnyPolicy; 6] = [
        FullBlock::with(full_block::Settings::new().compares(true)).into(),
        ByteDelta::with(byte_delta::Settings::new().compares(true)).into(),
        Lcow::with(lcow::Settings::new().compares(true)).into(),
        ObjectLog::with(objects).expect("settings that can be").into(),
        CompressedDelta::new().into(),
        Adaptive::new().into(),
    ];
    for policy in policies {
        let files = Files::new(&format!("lent-same-{policy}"));
        let journal = format(&files, policy, 4096);
        let image = read(&journal, 4);
        let same = logged(&journal, || {
            journal.transact(|tx| tx.write_at(block(4), 10, &image[10..90])).expect("commits");
            journal.transact(|tx| tx.write(block(4), &image)).expect("commits");
            let operation = [Operation::write(block(4), &image)];
            journal.commit(&operation, Durability::Durable).expect("commits");
            let twice = |tx: &mut Tx<'_>| {
                tx.write_at(block(4), 10, &image[10..90])?;
                tx.write_at(block(4), 200, &image[200..201])
            };
            journal.transact(twice).expect("commits");
        });
        assert_eq!(same, 0, "{policy}");
        // Back and forth in one transaction: what counts is what was committed.
        let back = |tx: &mut Tx<'_>| {
            tx.write_at(block(4), 10, &[!image[10]])?;
            tx.write_at(block(4), 10, &image[10..11])?;
            tx.write_at(block(4), 11, &[!image[11]])
        };
        journal.transact(back).expect("commits");
        let expected = patched(&image, 11, &[!image[11]]);
        assert!(read(&journal, 4) == expected, "{policy}");
        // One that does not compare logs it. So does one that has nothing to compare with.
        journal.transact(|tx| tx.write_at(block(4), 10, &image[10..12])).expect("commits");
        assert!(read(&journal, 4) == image, "{policy}");
    }
    let files = Files::new("lent-same-not");
    let journal = format(&files, FullBlock.into(), 4096);
    let image = read(&journal, 4);
    let same = logged(&journal, || {
        journal.transact(|tx| tx.write_at(block(4), 10, &image[10..90])).expect("commits");
    });
    assert!(same > BLOCK as u64);
}

/// Everything that is stored is stored for one of the purposes that are counted.
#[test]
fn the_bytes_by_purpose_are_all_that_the_medium_takes() {
    let policies: [AnyPolicy; 5] = [
        FullBlock.into(),
        no_patches().into(),
        Lcow::new().into(),
        TwoLevel::new().into(),
        CompressedDelta::new().into(),
    ];
    for policy in policies {
        let facts = DeviceFacts::cautious();
        let disk = DiskImage::blank(BlockSize::DEFAULT, 64, facts);
        let world = World::boot(Image::blank(SPAN_BYTES as usize).with_disk(disk), Model::Torn8);
        let (pmem, disk) = of_world(&world);
        let options = any_options(policy, NoHook).lanes(2).lane_bytes(64 << 10).lane_slots(16);
        let journal = DynJournal::format(pmem, disk, &options).expect("formats");
        let sums = || {
            let stats = journal.stats().expect("goes on");
            let bytes =
                stats.record_bytes + stats.slot_bytes + stats.shield_bytes + stats.superblock_bytes;
            assert_eq!(stats.record_lines * 64, stats.record_bytes, "records are whole lines");
            assert!(stats.slot_lines * 64 >= stats.slot_bytes);
            assert!(stats.shield_lines * 64 >= stats.shield_bytes);
            assert!(stats.superblock_lines * 64 >= stats.superblock_bytes);
            bytes
        };
        let of_medium = || {
            let counts = world.tape().counts();
            counts.stored_bytes + counts.streamed_bytes
        };
        let (before, medium_before) = (sums(), of_medium());
        let mut dice = Dice(7);
        for turn in 0..120 {
            let number = block(dice.below(16));
            let mut tx = journal.begin().expect("begins");
            match dice.below(5) {
                0 => tx.write(number, &noise(turn)).expect("writes"),
                1 => tx.write_with(number, Hint::METADATA, &noise(turn)).expect("writes"),
                2 => tx.discard(number).expect("discards"),
                _ => tx.write_at(number, 100, &[turn as u8; 40]).expect("patches"),
            }
            let ended = match dice.below(3) {
                0 => tx.commit_deferred().map(drop),
                1 => tx.commit_gathered(),
                _ => tx.commit().map(drop),
            };
            ended.expect("commits");
            if dice.below(20) == 0 {
                journal.checkpoint().expect("writes home");
            }
        }
        journal.checkpoint().expect("writes home");
        assert_eq!(sums() - before, of_medium() - medium_before, "{policy}");
        let stats = journal.stats().expect("goes on");
        assert!(stats.record_bytes > 0 && stats.superblock_bytes > 0, "{policy}");
        let has_shield = !matches!(policy, AnyPolicy::FullBlock(_));
        assert!(!has_shield || stats.shield_bytes + stats.slot_bytes > 0, "{policy}");
    }
}
