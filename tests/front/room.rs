//! What commits reserve in their lane, and give back.

use journal_core::policy::{ApplyError, Encoder, Placement, Policy, PolicyId, Update};
use nvm_journal::{
    BlockSize, Durability, Error, FileDisk, Journal, MapOptions, Operation, Options, Region,
};

use crate::use_it::{BLOCK, Files, block, memory};

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

type Opened = Journal<Forty, Region, FileDisk>;

/// How many blocks one transaction can have, and what keeps it from having more.
fn largest(journal: &Opened) -> (u64, Error) {
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
        let options = Options::new().policy(Forty).lanes(2).lane_bytes(lane_bytes);
        let disk = files.disk();
        (Journal::format(memory(1 << 20), disk, &options).expect("formats"), files)
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
        // Whoever holds the first seat keeps its lane from the call.
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
        // Whoever holds the first seat keeps its lane from the call.
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
