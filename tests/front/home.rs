//! What happens to everybody when blocks cannot go home.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use journal_core::{
    DeviceError, DeviceFacts, Hook, Offset, Overwrite, Pmem as _, PmemRead as _, PmemShare as _,
    Site,
};
use nvm_journal::{
    BlockDevice, BlockNumber, Durability, Error, FileDisk, FullBlock, Journal, ObjectLog,
    Operation, Options, OptionsError, Region,
};

use crate::use_it::{BLOCK, Files, block, memory};

/// Panics once where something is written home, as a device of the host's own might.
#[derive(Clone, Debug, Default)]
struct Panics(Arc<AtomicBool>);

impl Hook for Panics {
    fn disk_write<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        if self.0.swap(false, Ordering::SeqCst) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        device.write_vectored(first, from)
    }
}

type Opened = Journal<FullBlock, Region, FileDisk, Panics>;

/// What a call answers; that it does.
fn told<R: Send + 'static>(
    journal: &Arc<Opened>,
    call: impl FnOnce(&Opened) -> R + Send + 'static,
) -> R {
    let (done, ends) = mpsc::channel();
    let its = Arc::clone(journal);
    std::thread::spawn(move || {
        let answer = call(&its);
        drop(its);
        done.send(answer).expect("is awaited");
    });
    ends.recv_timeout(Duration::from_secs(20)).expect("nobody waits for ever")
}

fn commit(journal: &Opened, number: u64) -> Result<(), Error> {
    let operations = [Operation::write(block(number), &[5; BLOCK])];
    journal.commit(&operations, Durability::Durable).map(drop)
}

/// Blocks that are on their way home are awaited by whoever reads them; after a panic there nobody
/// waits, whatever he asks for.
#[test]
fn a_panic_on_the_way_home_keeps_nobody_waiting() {
    let files = Files::new("home-panics");
    let panics = Panics::default();
    let options = Options::new().hook(panics.clone());
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let journal = Arc::new(journal);
    commit(&journal, 3).expect("commits");
    panics.0.store(true, Ordering::SeqCst);
    let its = Arc::clone(&journal);
    let checkpoint = std::thread::spawn(move || its.checkpoint().map(drop)).join();
    checkpoint.expect_err("panics");
    let calls: [fn(&Opened) -> Result<(), Error>; 6] = [
        |journal| journal.read(block(3), &mut [0; BLOCK]),
        |journal| journal.transact(|tx| tx.write_at(block(3), 9, b"new")),
        |journal| commit(journal, 3),
        |journal| commit(journal, 4),
        |journal| journal.sync(),
        |journal| journal.checkpoint().map(drop),
    ];
    for call in calls {
        assert_eq!(told(&journal, call), Err(Error::Failed));
    }
    let journal = Arc::into_inner(journal).expect("all threads are done");
    assert_eq!(journal.close().map(drop), Err(Error::Failed));
}

/// The thread in the background ends with its panic: from then on everybody is told, though nobody
/// asks for what it did.
#[test]
fn a_panic_in_the_background_is_told_to_everybody() {
    let files = Files::new("home-background");
    let panics = Panics::default();
    panics.0.store(true, Ordering::SeqCst);
    let options = Options::new().lanes(1).lane_bytes(128 << 10).background_checkpoint(true);
    let options = options.hook(panics);
    let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    // So full that it is asked to make room, and no fuller.
    (0..26).try_for_each(|number| commit(&journal, number)).unwrap_or_else(|error| {
        assert_eq!(error, Error::Failed);
    });
    let begun = Instant::now();
    while journal.read(block(99), &mut [0; BLOCK]) != Err(Error::Failed) {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody is told");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A device that may tear a block, and changes that are logged of one, need a shield: that is said
/// when the journal is formatted. One that was formatted for another device gives back all that
/// does not need one, and a whole image is the end of it.
#[test]
fn what_needs_a_shield_and_has_none_is_refused_or_stays_alone() {
    let files = Files::new("home-shield");
    let options = Options::new().policy(ObjectLog::new()).lanes(1).shield_blocks(0);
    let formatted = Journal::format(memory(1 << 20), files.disk(), &options).map(drop);
    assert_eq!(formatted, Err(Error::Options(OptionsError::NoShield)));
    let whole = Options::new().lanes(1).shield_blocks(0);
    drop(Journal::format(memory(1 << 20), files.disk(), &whole).expect("logs whole blocks"));

    let disk = files.disk();
    let atomic = disk.clone().with_facts(DeviceFacts::new(BLOCK as u32, Overwrite::OldOrNew));
    let region = memory(1 << 20);
    let reader = region.reader();
    let journal = Journal::format(region, atomic, &options).expect("formats");
    let image = [5; BLOCK];
    for number in 10..20 {
        let operations = [Operation::write(block(number), &image)];
        journal.commit(&operations, Durability::Durable).expect("commits");
    }
    journal.transact(|tx| tx.write_at(block(3), 9, b"new")).expect("commits");
    drop(journal);
    let mut left = vec![0; 1 << 20];
    reader.read_into(Offset(0), &mut left).expect("reads");
    let mut region = memory(1 << 20);
    region.store(Offset(0), &left);
    let journal = Journal::open(region, disk, &options).expect("opens");
    let used = || journal.stats().expect("counts").lanes[0].used_bytes;
    let before = used();
    let stays = Error::NoShield { block: block(3) };
    assert_eq!(journal.checkpoint(), Err(stays));
    assert!(used() < BLOCK as u64 && used() < before, "{} of {before}", used());
    let mut found = [0; BLOCK];
    journal.read(block(3), &mut found).expect("reads");
    assert_eq!(found[9..12], *b"new");
    journal.transact(|tx| tx.write(block(3), &image)).expect("commits");
    journal.checkpoint().expect("all can go home");
    assert_eq!(used(), 0);
    journal.close().expect("closes");
}
