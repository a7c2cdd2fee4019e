//! Notes that a store gives with its transactions: they come back, and what they cost.

use std::collections::BTreeSet;

use journal_core::{
    Committed, DeviceFacts, EXAMINE_BYTES_MAX, Geometry, NoHook, Overwrite, PortableKernels,
    Protocol, examine,
};
use lab::erased::{DynDisk, DynHook, DynJournal, DynPmem, any_options};
use nvm_journal::{
    AnyPolicy, BlockNumber, BlockSize, Error, FullBlock, Journal, Options, OptionsError,
};
use sim_disk::{DiskImage, Image, Model, World};

use crate::use_it::{BLOCK, Files, any_memory, block};

fn options() -> Options<lab::erased::DynPolicy, DynHook> {
    any_options(FullBlock, NoHook)
}

fn journal(files: &Files) -> DynJournal {
    Journal::format(any_memory(4 << 20), files.any_disk(), &options()).expect("formats")
}

fn noted(journal: &DynJournal, number: u64, note: [u64; 2]) {
    let written = journal.transact(|tx| {
        tx.note(note)?;
        tx.write(block(number), &[number as u8; BLOCK])
    });
    written.expect("commits");
}

fn told(journal: &DynJournal) -> Vec<(BlockNumber, [u64; 2])> {
    told_by(journal).into_iter().map(|(block, note, _)| (block, note)).collect()
}

fn told_by(journal: &DynJournal) -> Vec<(BlockNumber, [u64; 2], Committed)> {
    let mut told = Vec::new();
    let each = |block, note, committed| told.push((block, note, committed));
    journal.each_noted(each).expect("reads");
    told
}

#[test]
fn records_tell_their_blocks_and_notes_until_a_checkpoint_removes_them() {
    let files = Files::new("noted");
    let journal = journal(&files);
    assert_eq!(told(&journal), []);
    noted(&journal, 3, [7, 12]);
    journal.transact(|tx| tx.write(block(4), &[4; BLOCK])).expect("commits");
    let both = journal.transact(|tx| {
        tx.note([0, 0])?;
        [5, 3].into_iter().try_for_each(|number| tx.write(block(number), &[9; BLOCK]))?;
        tx.note([u64::MAX, 1])
    });
    both.expect("commits");
    let last = [u64::MAX, 1];
    assert_eq!(told(&journal), [(block(3), [7, 12]), (block(3), last), (block(5), last)]);
    journal.checkpoint().expect("writes home");
    assert_eq!(told(&journal), []);
    assert_eq!(journal.recovery().note, None, "is what the open has found");
}

/// Of two notes of a block that lie in two lanes, the stamps say which is newer.
#[test]
fn records_tell_in_which_lane_they_are_and_which_is_newer() {
    let files = Files::new("noted-lanes");
    let options = options().lanes(2);
    let journal: DynJournal =
        Journal::format(any_memory(4 << 20), files.any_disk(), &options).expect("formats");
    let mut commits = Vec::new();
    for round in 0..6_u64 {
        // The first seat has one lane, the second one the other.
        let other = (round % 2 == 0).then(|| journal.begin().expect("begins"));
        let mut tx = journal.begin().expect("begins");
        tx.note([round, 0]).expect("may have notes");
        tx.write(block(3), &[round as u8; BLOCK]).expect("fits");
        commits.push(tx.commit().expect("commits").expect("is logged"));
        drop(other);
    }
    let lanes: BTreeSet<_> = commits.iter().map(|committed| committed.lane).collect();
    assert_eq!(lanes.len(), 2, "{commits:?}");
    let mut told = told_by(&journal);
    told.sort_by_key(|(_, _, committed)| committed.stamp);
    let expected = (0..).zip(commits).map(|(round, committed)| (block(3), [round, 0], committed));
    assert_eq!(told, expected.collect::<Vec<_>>());
}

/// The first call of a transaction that is in the way is repeated; the note is not forgotten then.
/// What a body notes in vain is.
#[test]
fn a_transaction_that_begins_again_has_the_note_of_its_last_try() {
    let files = Files::new("noted-again");
    let journal = journal(&files);
    let older = journal.begin().expect("begins");
    let mut other = journal.begin().expect("begins");
    other.write(block(1), &[1; BLOCK]).expect("fits");
    drop(older);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut tries = 0;
            let result = journal.transact(|tx| {
                tries += 1;
                if tries == 1 {
                    tx.note([1, 1])?;
                }
                tx.write(block(2), &[2; BLOCK])?;
                tx.write(block(1), &[2; BLOCK])
            });
            result.map(|()| tries)
        });
        std::thread::sleep(core::time::Duration::from_millis(20));
        other.commit().expect("commits");
        let tries = waits.join().expect("ends").expect("commits");
        let expected: &[_] =
            if tries == 1 { &[(block(1), [1, 1]), (block(2), [1, 1])] } else { &[] };
        assert_eq!(told(&journal), expected, "{tries} tries");
    });
}

#[test]
fn transactions_of_one_note_are_gathered_in_one_record() {
    let files = Files::new("noted-gathered");
    let journal = journal(&files);
    let gather = |number: u64, note: Option<[u64; 2]>| {
        let gathered = journal.transact_gathered(|tx| {
            note.map_or(Ok(()), |note| tx.note(note))?;
            tx.write(block(number), &[number as u8; BLOCK])
        });
        gathered.expect("gathers");
    };
    let (one, two) = ([1, 1], [2, 2]);
    for (number, note) in [(1, None), (2, None), (3, Some(one)), (4, Some(one)), (5, Some(two))] {
        gather(number, note);
    }
    gather(6, None);
    journal.sync().expect("commits");
    assert_eq!(journal.stats().expect("counts").gathered.commits, 4);
    assert_eq!(told(&journal), [(block(3), one), (block(4), one), (block(5), two)]);
}

#[test]
fn every_policy_keeps_notes_over_closes_and_opens() {
    for (turn, policy) in (0_u64..).zip(AnyPolicy::ALL.iter().copied()) {
        let facts = DeviceFacts::new(64, Overwrite::MayLeaveGarbage);
        let plan = any_options(policy, NoHook).lanes(2).disk_log(true);
        let disk = DiskImage::blank(BlockSize::DEFAULT, 512, facts);
        let world = World::boot(Image::blank(8 << 20).with_disk(disk), Model::Torn8);
        let (nvm, disk) = lab::erased::of_world(&world);
        let journal = Journal::format(nvm, disk, &plan).expect("formats");
        for round in 0..3 {
            noted(&journal, round, [turn, round]);
        }
        journal.close().expect("closes");
        for round in 3..6 {
            // Looking at it says so too.
            let mut scratch = vec![0; EXAMINE_BYTES_MAX];
            let seen = examine(&world.pmem(), &PortableKernels, &mut scratch).expect("is one");
            let note = seen.verdict.map(|found| found.note);
            assert_eq!(note, Ok(Some([turn, round - 1])), "{policy}");
            let (nvm, disk) = lab::erased::of_world(&world);
            let journal: DynJournal = Journal::open(nvm, disk, &plan).expect("opens");
            assert_eq!(journal.recovery().note, Some([turn, round - 1]), "{policy}");
            // The same image again is not logged, whatever the policy compares.
            noted(&journal, 100 + round, [turn, round]);
            if round == 4 {
                journal.checkpoint().expect("writes home");
            }
        }
    }
}

/// A lone patch of a block that the cache keeps takes a short way to its record, which has no room
/// for a note.
#[test]
fn a_note_beside_a_patch_of_a_kept_block_is_in_its_record() {
    for policy in AnyPolicy::ALL.iter().copied() {
        let facts = DeviceFacts::new(64, Overwrite::MayLeaveGarbage);
        let plan = any_options(policy, NoHook).lanes(2).cache_bytes(1 << 20);
        let disk = DiskImage::blank(BlockSize::DEFAULT, 512, facts);
        let world = World::boot(Image::blank(8 << 20).with_disk(disk), Model::Torn8);
        let (nvm, disk) = lab::erased::of_world(&world);
        let journal = Journal::format(nvm, disk, &plan).expect("formats");
        journal.transact(|tx| tx.write(block(1), &[1; BLOCK])).expect("commits");
        journal.read(block(1), &mut [0; BLOCK]).expect("reads, and keeps");
        let patched = journal.transact(|tx| {
            tx.note([5, 6])?;
            tx.write_at(block(1), 100, b"patch")
        });
        patched.expect("commits");
        drop(journal);
        let (nvm, disk) = lab::erased::of_world(&world);
        let journal: DynJournal = Journal::open(nvm, disk, &plan).expect("opens");
        assert_eq!(journal.recovery().note, Some([5, 6]), "{policy}");
        let mut found = [0; BLOCK];
        journal.read(block(1), &mut found).expect("reads");
        assert_eq!(found[98..107], *b"\x01\x01patch\x01\x01", "{policy}");
    }
}

/// What was gathered with a note before counts before, though nothing else joins the two.
#[test]
fn a_note_is_newer_than_those_that_were_gathered_before() {
    let facts = DeviceFacts::new(64, Overwrite::MayLeaveGarbage);
    let disk = DiskImage::blank(BlockSize::DEFAULT, 64, facts);
    let world = World::boot(Image::blank(1 << 20).with_disk(disk), Model::Torn8);
    let (nvm, disk) = lab::erased::of_world(&world);
    let journal: DynJournal = Journal::format(nvm, disk, &options().lanes(2)).expect("formats");
    let gathered = journal.transact_gathered(|tx| {
        tx.note([1, 1])?;
        tx.write(block(1), &[1; BLOCK])
    });
    gathered.expect("gathers");
    noted(&journal, 2, [2, 2]);
    journal.sync().expect("commits");
    drop(journal);
    let (nvm, disk) = lab::erased::of_world(&world);
    let journal: DynJournal = Journal::open(nvm, disk, &options()).expect("opens");
    assert_eq!(journal.recovery().note, Some([2, 2]));
}

/// No two records have one stamp that have notes, whatever threads and lanes they are of.
#[test]
fn notes_of_threads_have_stamps_of_their_own() {
    let files = Files::new("noted-threads");
    let journal = Journal::format(any_memory(16 << 20), files.any_disk(), &options().lanes(4));
    let journal: DynJournal = journal.expect("formats");
    let stamps: Vec<_> = std::thread::scope(|scope| {
        let threads = (0..4_u64).map(|thread| {
            let journal = &journal;
            scope.spawn(move || {
                (0..500_u64)
                    .map(|round| {
                        let mut tx = journal.begin().expect("begins");
                        tx.note([thread, round]).expect("may have notes");
                        tx.write_at(block(thread), 0, &round.to_le_bytes()).expect("fits");
                        tx.commit().expect("commits").expect("changes something").stamp
                    })
                    .collect::<Vec<_>>()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("ends")).collect()
    });
    let apart: BTreeSet<_> = stamps.iter().map(|stamp| stamp.raw()).collect();
    assert_eq!(apart.len(), stamps.len());
}

/// A journal that was formatted before there were notes has none until the first is given. Where
/// the superblock has no room for one, that is an error, and everything else goes on.
#[test]
fn a_unit_that_is_too_short_for_notes_is_an_error() {
    for (lanes, fits) in [(1, true), (2, true), (3, false)] {
        let geometry = Geometry {
            block_size: BlockSize::DEFAULT,
            lanes,
            lane_bytes: 64 << 10,
            shield_blocks: 2,
            unit_bytes: 256,
            protocol: Protocol::OneFence,
            lane_slots: 0,
            lane_log_blocks: 0,
            segment_blocks: 0,
        };
        let facts = DeviceFacts::new(64, Overwrite::MayLeaveGarbage);
        let disk = DiskImage::blank(BlockSize::DEFAULT, 64, facts);
        let world = World::boot(Image::blank(1 << 20).with_disk(disk), Model::Torn8);
        let (kernels, id) = (PortableKernels, *b"sixteen bytes id");
        journal_core::format(world.pmem(), NoHook, &kernels, &geometry, id, &FullBlock, 64)
            .expect("formats");
        let open = || -> DynJournal {
            Journal::open(DynPmem::new(world.pmem()), DynDisk::new(world.disk(0)), &options())
                .expect("opens")
        };
        let journal = open();
        let given = journal.transact(|tx| {
            tx.write(block(1), &[1; BLOCK])?;
            tx.note([1, 2])
        });
        let is_too_short = |result: &Result<(), Error>| {
            matches!(result, Err(Error::Options(OptionsError::Geometry(_))))
        };
        assert_eq!((given.is_ok(), is_too_short(&given)), (fits, !fits), "{lanes}: {given:?}");
        journal.transact(|tx| tx.write(block(2), &[2; BLOCK])).expect("goes on");
        drop(journal);
        assert_eq!(open().recovery().note, fits.then_some([1, 2]));
    }
}
