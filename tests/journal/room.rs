//! What commits reserve in their lane, and give back.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Arc, mpsc};

use journal_core::NoHook;
use journal_core::policy::{ApplyError, Encoder, Placement, Policy, PolicyId, Update};
use lab::erased::{DynJournal, any_options};
use nvm_journal::{
    BlockSize, Durability, Error, FileDisk, Journal, MapOptions, Operation, Options, Transaction,
};

use crate::use_it::{BLOCK, Files, any_memory, block, memory};

/// Logs the first 40 bytes of a block, as if nothing else could change: with a header, a frame and
/// a check that is two lines to the byte, and three where the record names another one.
#[derive(Clone, Copy, Debug)]
struct Forty;

impl Policy for Forty {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E58)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        match update.change.image() {
            Some(image) if out.put(&image[..40]).is_ok() => Placement::Encoded,
            _ => Placement::Image,
        }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        let into = block.get_mut(..payload.len()).ok_or(ApplyError::OutOfBlock { at: 0 })?;
        into.copy_from_slice(payload);
        Ok(())
    }
}

/// How many blocks one transaction can have, and what keeps it from having more.
fn largest(journal: &DynJournal) -> (u64, Error) {
    let mut tx = journal.begin().expect("begins");
    let mut blocks = 0;
    loop {
        match tx.write(block(blocks), &[9; BLOCK]) {
            Ok(()) => blocks += 1,
            Err(error) => return (blocks, error),
        }
    }
}

/// A commit of one block in one call reserves what a name of a record in another lane would take,
/// before it is known whether there is one. A line too little given back, and the largest
/// transaction does not fit any more; a line too much, and there is more than there is.
#[test]
fn commits_in_one_call_give_back_what_they_do_not_need() {
    let open = |lane_bytes: u64| {
        let files = Files::new("room-one-call");
        let options = any_options(Forty, NoHook).lanes(2).lane_bytes(lane_bytes);
        let disk = files.any_disk();
        (Journal::format(any_memory(1 << 20), disk, &options).expect("formats"), files)
    };
    let (any, _files) = open(32 << 10);
    let (_, Error::TooLarge { needed, .. }) = largest(&any) else {
        panic!("a lane is too small for all blocks")
    };
    // To the line.
    let (journal, _files) = open(needed);
    let blocks = largest(&journal).0;
    let mut named = 0;
    for number in 0..90_u8 {
        // The holder of the first seat keeps its lane from the call.
        let held = (number % 3 == 0).then(|| journal.begin().expect("begins"));
        let before = journal.stats().expect("counts").total().bytes;
        let image = [number; BLOCK];
        let write = [Operation::write(block(0), &image)];
        journal.commit(&write, Durability::Durable).expect("commits");
        drop(held);
        match journal.stats().expect("counts").total().bytes - before {
            128 => {}
            192 => named += 1,
            bytes => panic!("a record of {bytes} bytes"),
        }
        if number % 7 == 0 {
            journal.checkpoint().expect("goes home");
            let (fits, refused) = largest(&journal);
            assert_eq!(fits, blocks, "after {number} commits");
            assert!(matches!(refused, Error::TooLarge { .. }), "{refused:?}");
        }
    }
    assert!(named > 20 && named < 80, "{named} records name one of the other lane");
}

/// A block that is written again and again fills the lanes, but never the index, neither while it
/// is written nor when the journal is opened again.
#[test]
fn a_block_that_is_written_again_and_again_takes_few_places_in_the_index() {
    let (files, span) = (Files::new("room-again"), Files::new("room-again-span"));
    let _ = std::fs::remove_file(&span.0);
    let nvm = MapOptions::new().create(&span.0, 2 << 20).expect("a new file");
    let options = Options::new().lanes(2).lane_bytes(900 << 10).index_frames(8).keep_on_close(true);
    let journal: Journal = Journal::format(nvm, files.disk(), &options).expect("formats");
    let mut image = [0; BLOCK];
    for round in 0..400_u32 {
        image[..4].copy_from_slice(&round.to_le_bytes());
        // The holder of the first seat keeps its lane from the call.
        let held = (round % 2 == 0).then(|| journal.begin().expect("begins"));
        let write = [Operation::write(block(0), &image)];
        journal.commit(&write, Durability::Durable).expect("commits");
        drop(held);
    }
    let stats = journal.stats().expect("counts");
    assert!(stats.lanes.iter().all(|lane| lane.commits > 100), "{stats}");
    assert_eq!((stats.checkpoints, stats.frames), (0, 3), "two, and one for the lane of the upper");
    journal.close().expect("closes");
    let disk = FileDisk::open(&files.0, BlockSize::DEFAULT).expect("is there");
    let nvm = MapOptions::new().open(&span.0).expect("is there");
    let journal: Journal = Journal::open(nvm, disk, &options).expect("opens");
    assert_eq!(journal.stats().expect("counts").frames, 3);
    let mut found = [0; BLOCK];
    journal.read(block(0), &mut found).expect("reads");
    assert!(found == image);
    journal.checkpoint().expect("goes home");
    assert_eq!(journal.stats().expect("counts").frames, 0);
}

/// A thread that keeps most of a lane for a transaction that rests keeps no other from committing
/// through another lane, in one call or as a transaction, durable or not.
#[test]
fn who_finds_a_lane_reserved_goes_through_another() {
    let files = Files::new("room-reserved");
    let options = Options::new().lanes(2).lane_bytes(64 << 10);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let journal = Arc::new(journal);
    let image = [5; BLOCK];
    let mut rests = journal.begin().expect("begins");
    (0..12).for_each(|number| rests.write(block(number), &image).expect("fits"));
    let (ended, ends) = mpsc::channel();
    // Each is a thread of its own: by turns they favour either lane.
    for turn in 0..8 {
        let (its, ended) = (Arc::clone(&journal), ended.clone());
        std::thread::spawn(move || {
            let numbers = (20..28).map(block);
            let body = |tx: &mut Transaction<'_, _, _>| {
                numbers.clone().try_for_each(|number| tx.write(number, &[6; BLOCK]))
            };
            let durability = [Durability::Durable, Durability::Deferred][turn / 2 % 2];
            let result = match (turn % 2, durability) {
                (0, durability) => {
                    let image = [7; BLOCK];
                    let all: Vec<_> =
                        numbers.map(|number| Operation::write(number, &image)).collect();
                    its.commit(&all, durability).map(drop)
                }
                (_, Durability::Durable) => its.transact(body),
                (_, Durability::Deferred) => its.transact_deferred(body),
            };
            ended.send(result).expect("is awaited");
        });
        let result = ends.recv_timeout(Duration::from_secs(60));
        result.expect("goes through the other lane").expect("commits");
    }
    rests.commit().expect("was reserved");
}

/// Logs whole blocks, and panics once when it is asked how many objects an update is.
#[derive(Clone, Debug, Default)]
struct Miscounts(Arc<AtomicBool>);

impl Policy for Miscounts {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E59)
    }

    fn place(&self, _update: &Update<'_>, _out: &mut Encoder<'_>) -> Placement {
        Placement::Image
    }

    fn logs_images(&self) -> bool {
        true
    }

    fn apply(&self, _payload: &[u8], _block: &mut [u8]) -> Result<(), ApplyError> {
        Err(ApplyError::Malformed { at: 0 })
    }

    fn objects_in(&self, _update: &Update<'_>) -> u32 {
        if self.0.swap(false, Ordering::SeqCst) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        1
    }
}

/// A policy that panics when a transaction is gathered, as the first one or behind others, takes
/// nothing of the lane with it.
#[test]
fn a_transaction_that_a_panic_ends_has_nothing_reserved() {
    let (files, panics) = (Files::new("room-miscounts"), Miscounts::default());
    let options = any_options(panics.clone(), NoHook).lanes(1).lane_bytes(64 << 10);
    let journal = Journal::format(any_memory(1 << 20), files.any_disk(), &options);
    let journal = journal.expect("formats");
    let all = largest(&journal);
    assert!(matches!(all.1, Error::TooLarge { .. }));
    let gather = |number| {
        let mut tx = journal.begin().expect("begins");
        tx.write(block(number), &[number as u8; BLOCK]).expect("fits");
        tx.commit_gathered()
    };
    for is_first in [true, false] {
        if !is_first {
            gather(1).expect("is gathered");
        }
        panics.0.store(true, Ordering::SeqCst);
        catch_unwind(AssertUnwindSafe(|| gather(2))).expect_err("panics");
        gather(3).expect("is gathered");
        journal.sync().expect("commits");
        assert_eq!(largest(&journal), all, "{is_first}");
    }
}

/// A transaction that finds no room makes some, and the stats say how often and how long that was.
#[test]
fn stops_for_want_of_room_are_counted() {
    let files = Files::new("room-stops");
    let options = Options::new().lanes(1).lane_bytes(64 << 10);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    for number in 0..40 {
        journal.transact(|tx| tx.write(block(number), &[1; BLOCK])).expect("makes room");
    }
    let stats = journal.stats().expect("counts");
    assert!(stats.stops_for_bytes >= 2 && stats.stops_for_bytes == stats.checkpoints, "{stats}");
    assert_eq!((stats.stops_for_frames, stats.stops_for_slots), (0, 0));
    assert!(stats.longest_stop <= stats.stopped && stats.checkpointing <= stats.stopped, "{stats}");
    assert!(stats.to_string().contains("stops for want of room"));
}
