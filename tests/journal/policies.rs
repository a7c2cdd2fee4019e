//! Every policy behind the same door: chosen as a type or at run time, with fewer slots than
//! blocks, from one thread and from many, and found again by the next open.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, Ordering};
use std::panic::catch_unwind;
use std::sync::Arc;

use byte_delta::{Appends, Settings};
use journal_core::policy::{ApplyError, Change, Encoder, Placement, Policy, PolicyId, Update};
use journal_core::{
    BlockDevice, DeviceFacts, NoHook, Offset, Overwrite, Pmem as _, PmemRead as _, PmemShare as _,
};
use lab::erased::{DynDisk, DynJournal, DynPmem, any_options};
use nvm_journal::{
    AnyJournal, AnyPolicy, BlockSize, ByteDelta, Durability, Error, FileDisk, FullBlock, Hint,
    Journal, Lcow, MapOptions, Operation, Options, Stats,
};
use sim_disk::{DiskImage, Image, Model as Medium, World};

use crate::use_it::{BLOCK, BLOCKS, Files, any_memory, block, memory};

/// Small lanes and few slots: everything runs short again and again.
fn small(policy: AnyPolicy) -> Options<AnyPolicy> {
    Options::new().policy(policy).lanes(2).lane_bytes(96 << 10).lane_slots(12).batch_blocks(8)
}

fn all() -> impl Iterator<Item = AnyPolicy> {
    let all_in_slots = ByteDelta::with(Settings::new().appends(Appends::Slots));
    AnyPolicy::ALL.iter().copied().chain([all_in_slots.into()])
}

/// What blocks are to hold; discarded ones anything.
struct Model(Vec<Option<Vec<u8>>>);

impl Model {
    fn new() -> Self {
        Self(vec![Some(vec![0; BLOCK]); BLOCKS as usize])
    }

    fn judge(&self, journal: &AnyJournal, when: &str) {
        let mut found = vec![0; BLOCK];
        for (number, expected) in (0..).zip(&self.0) {
            journal.read(block(number), &mut found).expect("reads");
            let Some(expected) = expected else { continue };
            let differs = found.iter().zip(expected).position(|(found, is)| found != is);
            assert_eq!(differs, None, "{}, {when}: block {number}", journal.policy());
        }
    }

    fn patch(&mut self, number: u64, at: usize, bytes: &[u8]) {
        // Of what was discarded nothing is known but what was written.
        if let Some(content) = &mut self.0[number as usize] {
            content[at..][..bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// Sends home whatever it is asked about, live or not.
#[derive(Clone, Debug)]
pub(crate) struct Homeward;

impl Policy for Homeward {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E63)
    }

    fn place(&self, _update: &Update<'_>, _out: &mut Encoder<'_>) -> Placement {
        Placement::Home
    }

    fn apply(&self, _payload: &[u8], _block: &mut [u8]) -> Result<(), ApplyError> {
        Err(ApplyError::Malformed { at: 0 })
    }
}

#[test]
fn what_a_policy_sends_home_is_there_before_its_record() {
    for lanes in [1, 2] {
        let files = Files::new(&format!("homeward-{lanes}"));
        let options = any_options(Homeward, NoHook).lanes(lanes);
        let journal = Journal::format(any_memory(4 << 20), files.any_disk(), &options);
        let journal = journal.expect("formats");
        let mut found = [0; BLOCK];
        for (number, durability) in [(3, Durability::Durable), (4, Durability::Deferred)] {
            let image = [number as u8; BLOCK];
            let operations = [Operation::write(block(number), &image)];
            journal.commit(&operations, durability).expect("commits").expect("was logged");
            journal.read(block(number), &mut found).expect("reads");
            assert_eq!(found[0], number as u8, "block {number}");
        }
        assert_eq!(journal.stats().expect("counts").total().appended_home, 2);
    }
}

/// A policy that counts what a transaction appends answers the same where the blocks are written
/// home as where their record is made.
#[test]
fn what_goes_home_since_much_is_appended_is_written_there() {
    let files = Files::new("homeward-counted");
    let settings = adaptive::Settings::new().medium(adaptive::Medium::FRAM);
    let settings = settings.appends_home(Some(adaptive::Disk::CARD.sync_ns));
    let options = any_options(adaptive::Adaptive::with(settings), NoHook).lanes(1).cache_bytes(0);
    let journal = Journal::format(any_memory(4 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    // No form is shorter than such an image.
    let image = |number: u64| {
        let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        core::array::from_fn::<u8, BLOCK, _>(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
    };
    let images = [1, 2, 3].map(image);
    let check = |(number, image): (u64, &[u8; BLOCK])| -> Result<(), Error> {
        let mut found = [0; BLOCK];
        journal.read(block(number), &mut found)?;
        assert!(found == *image, "block {number} is not what was committed");
        Ok(())
    };
    let mut tx = journal.begin().expect("begins");
    for (number, image) in (0..).zip(&images) {
        tx.append(block(number), image).expect("has room");
    }
    tx.commit().expect("commits").expect("was logged");
    assert_eq!(journal.stats().expect("counts").total().appended_home, 3);
    (0..).zip(&images).try_for_each(check).expect("reads");
}

/// Of a block that is turned over it logs that alone, in no bytes at all.
#[derive(Clone, Debug)]
struct TurningOver;

impl Policy for TurningOver {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E65)
    }

    fn place(&self, update: &Update<'_>, _out: &mut Encoder<'_>) -> Placement {
        let (Some(old), Some(new)) = (update.old, update.change.image()) else {
            return Placement::Image;
        };
        let is_turned = old.iter().zip(new).all(|(old, new)| *old == !*new);
        if is_turned { Placement::Encoded } else { Placement::Image }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        block.iter_mut().for_each(|byte| *byte = !*byte);
        if payload.is_empty() { Ok(()) } else { Err(ApplyError::Malformed { at: 0 }) }
    }
}

/// Alone and beside others, in one lane and in two, read from the cache, from the memory, by the
/// next open, and from the disk.
#[test]
fn what_a_policy_encodes_may_be_no_bytes_at_all() {
    for (lanes, cache_bytes) in [(1, 0), (2, 1 << 20)] {
        let files = Files::new(&format!("turning-{lanes}"));
        let options = any_options(TurningOver, NoHook).lanes(lanes).cache_bytes(cache_bytes);
        let region = any_memory(4 << 20);
        let reader = region.reader();
        let mut disk = files.any_disk();
        let journal = Journal::format(region, disk.clone(), &options).expect("formats");
        let images = [[0x0F; BLOCK], [0xF0; BLOCK]];
        let turned = |number: u64, turn: usize| {
            let mut update = Update::new(block(number), Change::Image(&images[turn % 2]));
            update.old = Some(&images[(turn + 1) % 2]);
            Operation::Update(update)
        };
        let both = [1, 2].map(|number| Operation::write(block(number), &images[0]));
        journal.commit(&both, Durability::Durable).expect("commits");
        let judge = |journal: &DynJournal, expected: [usize; 2]| {
            for (number, turn) in [1, 2].into_iter().zip(expected) {
                let mut found = [0; BLOCK];
                journal.read(block(number), &mut found).expect("reads");
                assert!(found == images[turn % 2], "block {number}");
            }
        };
        for turn in 1..=3 {
            journal.commit(&[turned(1, turn)], Durability::Durable).expect("commits");
            judge(&journal, [turn, turn - 1]);
            let first = journal.begin().expect("begins");
            journal.commit(&[turned(2, turn)], Durability::Durable).expect("commits");
            drop(first);
            judge(&journal, [turn, turn]);
        }
        journal.commit(&[turned(1, 4), turned(2, 4)], Durability::Durable).expect("commits");
        judge(&journal, [4, 4]);
        drop(journal);
        let mut left = vec![0; 4 << 20];
        reader.read_into(Offset(0), &mut left).expect("reads");
        let mut region = any_memory(4 << 20);
        region.store(Offset(0), &left);
        let journal = Journal::open(region, disk.clone(), &options).expect("opens");
        judge(&journal, [4, 4]);
        journal.close().expect("closes");
        for number in [1, 2] {
            let mut found = [0; BLOCK];
            disk.read(block(number), &mut found).expect("reads");
            assert!(found == images[0], "block {number} at home");
        }
    }
}

/// Logs images, and panics once when it is told to.
#[derive(Clone, Debug, Default)]
struct Panicking(Arc<AtomicBool>);

impl Policy for Panicking {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E64)
    }

    fn place(&self, _update: &Update<'_>, _out: &mut Encoder<'_>) -> Placement {
        if self.0.swap(false, Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        Placement::Image
    }

    fn apply(&self, _payload: &[u8], _block: &mut [u8]) -> Result<(), ApplyError> {
        Err(ApplyError::Malformed { at: 0 })
    }
}

/// What a commit says that comes after one of the same operations in which the policy panicked.
fn after_a_panic(name: &str, operations: &[Operation<'_>]) -> Result<(), Error> {
    let files = Files::new(name);
    let policy = Panicking::default();
    let options = any_options(policy.clone(), NoHook);
    let journal = Journal::format(any_memory(1 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    let commit = || journal.commit(operations, Durability::Durable).map(drop);
    commit().expect("commits");
    policy.0.store(true, Ordering::Relaxed);
    catch_unwind(AssertUnwindSafe(commit)).expect_err("panics");
    commit()
}

#[test]
fn a_policy_that_panics_leaves_nobody_waiting() {
    let image = [1; BLOCK];
    let many: Vec<_> = (0..17).map(|at| Operation::write(block(at), &image)).collect();
    assert_eq!(after_a_panic("panics-alone", &many[..1]), Ok(()), "nothing was locked yet");
    assert_eq!(after_a_panic("panics-beside", &many[..2]), Ok(()), "nor here");
    assert_eq!(after_a_panic("panics-among-many", &many), Err(Error::Failed));
}

/// A number that looks random.
fn mix(seed: u64) -> u64 {
    let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 7
}

/// One transaction of some changes, made in the journal and in the model.
fn change(journal: &AnyJournal, model: &mut Model, round: u64) {
    let dice = mix(round);
    let number = dice % 60;
    let byte = round as u8;
    let mut tx = journal.begin().expect("begins");
    match dice >> 8 & 7 {
        0 => {
            tx.discard(block(number)).expect("fits");
            model.0[number as usize] = None;
        }
        1 if model.0[number as usize].is_none() => {
            tx.append(block(number), &[byte; BLOCK]).expect("fits");
            model.0[number as usize] = Some(vec![byte; BLOCK]);
        }
        2 => {
            tx.write_with(block(number), Hint::METADATA, &[byte; BLOCK]).expect("fits");
            model.0[number as usize] = Some(vec![byte; BLOCK]);
        }
        3 | 4 => {
            for number in [number, number + 60, number + 120] {
                tx.write(block(number), &[byte; BLOCK]).expect("fits");
                model.0[number as usize] = Some(vec![byte; BLOCK]);
            }
        }
        _ => {
            let at = (dice >> 16) as usize % (BLOCK - 9);
            tx.write_at(block(number), at, &[byte; 9]).expect("fits");
            model.patch(number, at, &[byte; 9]);
        }
    }
    if dice >> 40 & 3 == 0 { tx.commit_deferred() } else { tx.commit() }.expect("commits");
}

fn run(journal: &AnyJournal, model: &mut Model, rounds: core::ops::Range<u64>) {
    for round in rounds {
        change(journal, model, round);
        if round % 50 == 49 {
            model.judge(journal, "on the way");
        }
    }
}

#[test]
fn every_policy_keeps_what_a_model_says_through_reopening_and_closing() {
    for (turn, policy) in (0..).zip(all()) {
        let (files, span) =
            (Files::new(&format!("{turn}-any")), Files::new(&format!("{turn}-nvm")));
        let _ = std::fs::remove_file(&span.0);
        let options = small(policy);
        let nvm = MapOptions::new().create(&span.0, 1 << 20).expect("a new file");
        let journal = Journal::format(nvm, files.disk(), &options).expect("formats");
        let open = |options: &Options<AnyPolicy>| {
            let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
            let nvm = MapOptions::new().open(&span.0).expect("is there");
            Journal::open(nvm, disk, options).expect("opens")
        };
        let mut model = Model::new();
        run(&journal, &mut model, 0..400);
        journal.sync().expect("syncs");
        drop(journal);
        let journal = open(&options);
        model.judge(&journal, "after a reopen");
        run(&journal, &mut model, 400..600);
        journal.checkpoint().expect("writes home");
        model.judge(&journal, "after a checkpoint");
        run(&journal, &mut model, 600..800);
        journal.close().expect("closes");
        let journal = open(&options.clone().keep_on_close(true).drain_on_open(true));
        assert_eq!(journal.recovery().records, 0, "{policy}");
        model.judge(&journal, "after a close");
        run(&journal, &mut model, 800..1000);
        journal.close().expect("keeps");
        let journal = open(&options);
        model.judge(&journal, "after a close that keeps");
        journal.close().expect("closes");
        let mut disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
        let mut home = vec![0; BLOCK];
        for (number, expected) in (0..).zip(&model.0) {
            disk.read(block(number), &mut home).expect("reads");
            assert!(expected.as_ref().is_none_or(|expected| *expected == home), "{policy}");
        }
    }
}

/// Writes 40 blocks over and over with 12 slots in each of two lanes, and says what that took.
fn crowded(policy: AnyPolicy, name: &str) -> Stats {
    let files = Files::new(name);
    let options = small(policy);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    for round in 0..400_u64 {
        let content = [round as u8; BLOCK];
        journal.transact(|tx| tx.write(block(round % 40), &content)).expect("commits");
        // One is rewritten often, and little of it differs.
        let mut often = [0; BLOCK];
        often[128..192].fill(content[0] ^ 0xFF);
        journal.transact(|tx| tx.write(block(50), &often)).expect("commits");
        // Steps for slots pass what they have written home, and need no entries.
        if round % 20 == 19 {
            journal.checkpoint_rings().expect("frames become entries");
        }
    }
    let mut found = vec![0; BLOCK];
    for number in 0..40 {
        journal.read(block(number), &mut found).expect("reads");
        assert!(found == [(360 + number) as u8; BLOCK], "{policy}: block {number}");
    }
    journal.stats().expect("counts")
}

#[test]
fn slots_are_folded_collected_and_evicted_and_the_counters_say_so() {
    for policy in [ByteDelta::new().into(), Lcow::new().into()] {
        let stats = crowded(policy, &format!("crowded-{policy}"));
        let total = stats.total();
        let freed_slots = stats.folded.freed_slots + stats.checkpointed.freed_slots;
        assert_eq!(total.commits, 800);
        assert!(stats.folded.folded > 20, "{stats}");
        assert!(stats.checkpointed.blocks > 20, "{stats}");
        assert!(total.rewritten_slots > 20, "{stats}");
        let held_slots = 24 - u64::from(total.free_slots);
        assert_eq!(total.new_slots, freed_slots + held_slots, "{stats}");
        assert!(stats.to_string().contains(&format!("{freed_slots} slots freed")), "{stats}");
    }
    let whole = crowded(FullBlock.into(), "crowded-whole").total();
    assert_eq!((whole.new_slots, whole.rewritten_slots, whole.free_slots), (0, 0, 24));
}

#[test]
fn the_slots_of_lcow_take_the_writes_and_metadata_stays_in_the_rings() {
    let files = Files::new("lcow-slots");
    let options = Options::new().policy(AnyPolicy::from(Lcow::new())).lanes(1);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    for round in 0..4000_u64 {
        let content = [round as u8; BLOCK];
        journal.transact(|tx| tx.write(block(round % 50), &content)).expect("commits");
    }
    let stats = journal.stats().expect("counts");
    let (total, rewritten) = (stats.total(), stats.total().rewritten_slots);
    assert_eq!((stats.checkpointed.writes, total.new_slots + rewritten), (0, 4000), "{stats}");
    // How many are new depends on how often the ring is folded, and so on the index's room.
    assert!(rewritten > 3400, "the older version, again and again: {stats}");
    journal.transact(|tx| tx.write_metadata(block(99), &[9; BLOCK])).expect("commits");
    let after = journal.stats().expect("counts").total();
    assert_eq!((after.new_slots, after.rewritten_slots), (total.new_slots, rewritten));
}

/// Of content the memory holds 16 blocks in slots, and 4 in the ring.
#[test]
fn a_working_set_twice_the_memory_is_evicted_from_it_and_survives() {
    let options = any_options(Lcow::new(), NoHook).lanes(1).lane_bytes(16 << 10).lane_slots(16);
    let facts = DeviceFacts::new(512, Overwrite::OldOrNew);
    let disk = DiskImage::blank(BlockSize::DEFAULT, 64, facts);
    let world = World::boot(Image::blank(256 << 10).with_disk(disk), Medium::Torn8);
    let media = |world: &World| (DynPmem::new(world.pmem()), DynDisk::new(world.disk(0)));
    let (pmem, disk) = media(&world);
    let journal = Journal::format(pmem, disk, &options).expect("formats");
    let (mut contents, mut without_disk) = ([0; 40], 0);
    for round in 1..=1000_u64 {
        let number = mix(round) % 40;
        contents[number as usize] = round;
        let image: Vec<u8> = round.to_le_bytes().repeat(BLOCK / 8);
        let before = world.tape().counts();
        journal.transact(|tx| tx.write(block(number), &image)).expect("commits");
        let after = world.tape().counts();
        without_disk += u32::from(before.disk_writes == after.disk_writes);
    }
    let stats = journal.stats().expect("counts");
    assert!(stats.checkpointed.freed_slots > 100, "{stats}");
    assert!(without_disk > 700, "{without_disk} of 1000 commits without the disk");
    // Killed, not closed.
    let image = world.visible();
    drop(journal);
    let world = World::boot(image, Medium::Torn8);
    let options = any_options(Lcow::new(), NoHook);
    let (pmem, disk) = media(&world);
    let journal = Journal::open(pmem, disk, &options).expect("opens");
    let mut found = vec![0; BLOCK];
    for (number, content) in (0..).zip(contents) {
        journal.read(block(number), &mut found).expect("reads");
        assert_eq!(found, content.to_le_bytes().repeat(BLOCK / 8), "block {number}");
    }
}

#[test]
fn appends_go_home_before_their_record_and_are_counted() {
    let files = Files::new("appends");
    let options = Options::new().policy(AnyPolicy::from(ByteDelta::new()));
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    journal.transact(|tx| tx.append(block(7), &[7; BLOCK])).expect("commits");
    let mut disk = std::fs::read(&files.0).expect("is there");
    assert!(disk.split_off(7 * BLOCK).starts_with(&[7; BLOCK]));
    let total = journal.stats().expect("counts").total();
    assert_eq!((total.appended_home, total.new_slots, total.frames), (1, 0, 1));
}

/// Threads of which each has blocks of its own and writes them in ways of its own, and readers
/// that look at all of them: whatever is read is a content that was whole.
fn together(policy: AnyPolicy, background: bool) {
    let files = Files::new(&format!("together-{policy}-{background}"));
    let options = small(policy).background_checkpoint(background);
    let journal: AnyJournal =
        Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let ended = AtomicBool::new(false);
    let writer = |thread: u64| {
        for round in 0..500_u64 {
            let number = thread * 20 + mix(round << 8 | thread) % 20;
            let stamp = (round + 1) << 8 | thread;
            let image: Vec<u8> = stamp.to_le_bytes().repeat(BLOCK / 8);
            let deferred = round % 5 == 0;
            match round % 3 {
                0 => {
                    let operations = [Operation::write(block(number), &image)];
                    let durability =
                        if deferred { Durability::Deferred } else { Durability::Durable };
                    journal.commit(&operations, durability).expect("commits");
                }
                _ => {
                    let write = |tx: &mut nvm_journal::Transaction<'_, _, _>| {
                        tx.write(block(number), &image)?;
                        tx.write_at(block(100 + thread), 8 * (round as usize % 512), &image[..8])
                    };
                    let written = match deferred {
                        true => journal.transact_deferred(write),
                        false => journal.transact(write),
                    };
                    written.expect("commits");
                }
            }
            if round % 100 == 99 {
                journal.checkpoint().expect("writes home");
            }
        }
    };
    let reader = |seed: u64| {
        let mut found = vec![0; BLOCK];
        let mut newest = [0_u64; 80];
        let mut round = seed;
        while !ended.load(Ordering::Acquire) {
            round += 1;
            let number = mix(round) % 80;
            journal.read(block(number), &mut found).expect("reads");
            let stamp = found[..8].try_into().map(u64::from_le_bytes).expect("eight bytes");
            let is_whole = found.chunks_exact(8).all(|word| word == &found[..8]);
            assert!(is_whole, "{policy}: a mixture in block {number}");
            assert!(stamp >= newest[number as usize], "{policy}: block {number} went back");
            newest[number as usize] = stamp;
        }
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|seed| scope.spawn(move || reader(seed << 32))).collect();
        let writers: Vec<_> = (0..4).map(|thread| scope.spawn(move || writer(thread))).collect();
        let written: Vec<_> =
            writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        ended.store(true, Ordering::Release);
        assert!(written.into_iter().all(|thread| thread.is_ok()), "a writer panicked");
        assert!(readers.into_iter().all(|thread| thread.join().is_ok()), "a reader panicked");
    });
    for thread in 0..4 {
        let mut expected = [0_u64; 20];
        for round in 0..500_u64 {
            expected[(mix(round << 8 | thread) % 20) as usize] = (round + 1) << 8 | thread;
        }
        let mut found = vec![0; BLOCK];
        for (number, stamp) in (thread * 20..).zip(expected) {
            journal.read(block(number), &mut found).expect("reads");
            assert!(found == stamp.to_le_bytes().repeat(BLOCK / 8), "{policy}: block {number}");
        }
    }
    journal.close().expect("closes");
}

#[test]
fn readers_never_see_a_mixture_whatever_the_policy() {
    for policy in all() {
        for background in [false, true] {
            together(policy, background);
        }
    }
}

#[test]
fn whoever_opens_any_journal_gets_its_policy() {
    for (turn, policy) in (0..).zip(AnyPolicy::ALL.iter().copied()) {
        let (files, span) =
            (Files::new(&format!("{turn}-open")), Files::new(&format!("{turn}-span")));
        let _ = std::fs::remove_file(&span.0);
        let nvm = || MapOptions::new().open(&span.0).expect("is there");
        let disk = || FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
        let created = MapOptions::new().create(&span.0, 1 << 20).expect("a new file");
        let options = small(policy).keep_on_close(true);
        let journal = Journal::format(created, files.disk(), &options).expect("formats");
        journal.transact(|tx| tx.write(block(3), &[3; BLOCK])).expect("commits");
        journal.close().expect("keeps");
        let other = if turn == 0 { AnyPolicy::ALL[1] } else { AnyPolicy::ALL[0] };
        let refused = Journal::open(nvm(), disk(), &small(other)).expect_err("another policy");
        let says = refused.to_string();
        assert!(says.contains(&policy.id().0.to_string()), "{says}");
        assert!(says.contains(&other.id().0.to_string()), "{says}");
        let journal = Journal::open_any(nvm(), disk(), &Options::new()).expect("opens");
        // Its sizes of batches are those of this open.
        assert_eq!(journal.policy().id(), policy.id());
        let mut found = vec![0; BLOCK];
        journal.read(block(3), &mut found).expect("reads");
        assert!(found == [3; BLOCK]);
        drop(journal);
        // Settings of the same policy are kept.
        let given = Lcow::with(lcow::Settings::new().reclaim_at(77));
        let journal =
            Journal::open_any(nvm(), disk(), &Options::new().policy(given)).expect("opens");
        assert_eq!(journal.policy().id(), policy.id());
        if policy.id() == Lcow::ID {
            assert_eq!(*journal.policy(), given.into());
        }
    }
}

/// A policy of somebody else's.
#[derive(Clone, Copy, Debug)]
struct Foreign;

impl Policy for Foreign {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E61)
    }

    fn place(&self, _update: &Update<'_>, _out: &mut Encoder<'_>) -> Placement {
        Placement::Image
    }

    fn apply(&self, _: &[u8], _: &mut [u8]) -> Result<(), journal_core::policy::ApplyError> {
        Ok(())
    }
}

#[test]
fn a_journal_of_an_unknown_policy_is_refused_by_name() {
    let (files, span) = (Files::new("foreign"), Files::new("foreign-span"));
    let _ = std::fs::remove_file(&span.0);
    let nvm = MapOptions::new().create(&span.0, 1 << 20).expect("a new file");
    let options = any_options(Foreign, NoHook);
    let formatted = Journal::format(DynPmem::new(nvm), files.any_disk(), &options);
    drop(formatted.expect("formats"));
    let before = std::fs::read(&span.0).expect("is there");
    let nvm = MapOptions::new().open(&span.0).expect("is there");
    let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
    let refused = Journal::open_any(nvm, disk, &Options::new()).expect_err("is not known");
    assert_eq!(refused, Error::UnknownPolicy { id: PolicyId(0x7E61) });
    assert!(refused.to_string().contains(&0x7E61.to_string()), "{refused}");
    assert!(std::fs::read(&span.0).expect("is there") == before, "nothing was written");
}

/// The engine is compiled anew for each policy that is named as a type, so one is compared here.
/// What the others answer is tested beside `AnyPolicy`.
#[test]
fn a_policy_named_as_a_type_is_as_one_chosen_at_run_time() {
    fn lines<L: Policy + Clone + Send + Sync + 'static>(policy: L) -> (u64, u64) {
        let files = Files::new("typed");
        let options = Options::new().policy(policy).lanes(2).lane_bytes(96 << 10).lane_slots(12);
        let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
        for round in 0..100_u64 {
            let content = [round as u8; 100];
            journal.transact(|tx| tx.write_at(block(round % 9), 700, &content)).expect("commits");
        }
        let total = journal.stats().expect("counts").total();
        (total.bytes, total.rewritten_slots)
    }
    assert_eq!(lines(FullBlock), lines(AnyPolicy::from(FullBlock)));
}
