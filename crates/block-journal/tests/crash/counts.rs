//! What calls cost, to the block and to the sync, and how they fail.

use block_journal::{
    BlockJournal, Config, Error, FormatError, JournalDevice, Mode, OpenError, Partition, Stats,
};
use journal_core::{BlockDevice, BlockNumber, BlockSize, DeviceFacts};
use sim_disk::{DiskImage, Image, Model, SimDisk, World};

const BLOCK_BYTES: usize = 4096;
const HOMES: u64 = 16;

type Journal = BlockJournal<SimDisk, SimDisk>;

fn world(ring: u64) -> World {
    let disk = |blocks| DiskImage::blank(BlockSize::DEFAULT, blocks, DeviceFacts::cautious());
    let image = Image::blank(64).with_disk(disk(ring + 2)).with_disk(disk(HOMES));
    World::boot(image, Model::Torn8)
}

fn journal(world: &World, config: Config) -> Journal {
    BlockJournal::format(&mut world.disk(0), &world.disk(1), config).expect("a journal is made");
    let (journal, found) = BlockJournal::open(world.disk(0), world.disk(1), config).expect("open");
    assert!(found.was_closed && found.blocks_read == 0);
    journal
}

fn image(value: u8) -> [u8; BLOCK_BYTES] {
    [value; BLOCK_BYTES]
}

fn commit(journal: &mut Journal, metadata: &[u64], data: &[u64]) -> Result<(), Error> {
    let mut transaction = journal.begin();
    for block in metadata {
        transaction.metadata(BlockNumber(*block), &image(1))?;
    }
    for block in data {
        transaction.data(BlockNumber(*block), &image(2))?;
    }
    journal.commit(transaction)
}

#[test]
fn a_commit_costs_what_its_mode_says() -> Result<(), Error> {
    // Of one block of metadata and two of data: blocks to the ring, blocks home, and syncs.
    let costs = [(Mode::Data, 5, 0, 2, 0), (Mode::Ordered, 3, 2, 2, 1)];
    let more = [(Mode::Writeback, 3, 2, 2, 0), (Mode::None, 0, 3, 0, 1)];
    for (mode, ring, home, journal_syncs, home_syncs) in costs.into_iter().chain(more) {
        let mut journal = journal(&world(16), Config::new(mode));
        commit(&mut journal, &[1], &[2, 3])?;
        let stats = journal.stats();
        let found = (stats.journal_blocks(), stats.store_blocks());
        assert_eq!(found, (ring, home), "{mode:?}: {stats:?}");
        let syncs = (stats.journal_syncs, stats.home_syncs);
        assert_eq!(syncs, (journal_syncs, home_syncs), "{mode:?}: {stats:?}");
        for (block, value) in [(1, 1), (2, 2), (3, 2)] {
            let mut content = image(0);
            journal.read(BlockNumber(block), &mut content)?;
            assert!(content == image(value), "{mode:?}, block {block}");
        }
    }
    Ok(())
}

#[test]
fn one_disk_needs_no_sync_for_data_of_its_own() -> Result<(), Error> {
    let world = world(16 + HOMES);
    let parts = || {
        let part = |first, count| Partition::new(world.disk(0), BlockNumber(first), count);
        (part(0, 18).expect("it fits"), part(18, HOMES).expect("it fits"))
    };
    let config = Config::new(Mode::Ordered).journal_device(JournalDevice::SameDevice);
    let (mut journal, home) = parts();
    BlockJournal::format(&mut journal, &home, config).expect("a journal is made");
    let (mut journal, _) = BlockJournal::open(journal, home, config).expect("it opens");
    let before = world.tape().counts().disk_syncs;
    let mut transaction = journal.begin();
    transaction.metadata(BlockNumber(1), &image(1))?;
    transaction.data(BlockNumber(2), &image(2))?;
    journal.commit(transaction)?;
    assert_eq!(journal.stats().syncs(), 2);
    assert_eq!(world.tape().counts().disk_syncs - before, 2);
    Ok(())
}

#[test]
fn commits_stand_still_while_a_quarter_is_not_free() -> Result<(), Error> {
    let mut journal = journal(&world(16), Config::new(Mode::Ordered));
    for block in 0..4 {
        commit(&mut journal, &[block], &[])?;
    }
    assert_eq!((journal.free_blocks(), journal.stats().stalls), (4, 0));
    commit(&mut journal, &[4], &[])?;
    assert_eq!((journal.free_blocks(), journal.stats().stalls), (1, 0));
    commit(&mut journal, &[0], &[])?;
    let stats = journal.stats();
    assert_eq!((stats.stalls, stats.checkpoints, stats.home_blocks), (1, 1, 1));
    // Blocks 1 to 4 and the newer image of 0: each goes home once.
    journal.checkpoint()?;
    assert_eq!((journal.free_blocks(), journal.stats().home_blocks), (16, 6));
    Ok(())
}

#[test]
fn a_block_that_a_newer_transaction_has_stays() -> Result<(), Error> {
    let mut journal = journal(&world(16), Config::new(Mode::Ordered));
    for _ in 0..9 {
        commit(&mut journal, &[7], &[])?;
    }
    let stats = journal.stats();
    assert!(stats.stalls > 0 && stats.home_blocks == 0, "{stats:?}");
    Ok(())
}

#[test]
fn freed_metadata_is_revoked_where_the_ring_holds_it() -> Result<(), Error> {
    let mut journal = journal(&world(16), Config::new(Mode::Ordered));
    commit(&mut journal, &[1], &[])?;
    let discard = |journal: &mut Journal, block| {
        let mut transaction = journal.begin();
        transaction.discard(BlockNumber(block))?;
        journal.commit(transaction)
    };
    discard(&mut journal, 2)?;
    assert_eq!(journal.stats().revoke_blocks, 0, "the ring holds no image of it");
    discard(&mut journal, 1)?;
    assert_eq!(journal.stats().revoke_blocks, 1);
    commit(&mut journal, &[], &[1])?;
    let stats = journal.stats();
    assert_eq!((stats.data_blocks, stats.data_blocks_logged), (1, 0));
    commit(&mut journal, &[3], &[])?;
    commit(&mut journal, &[], &[3])?;
    assert_eq!(journal.stats().data_blocks_logged, 1, "an image of it is held");
    journal.checkpoint()?;
    let mut content = image(0);
    journal.read(BlockNumber(1), &mut content)?;
    assert!(content == image(2));
    Ok(())
}

#[test]
fn an_image_that_begins_with_the_magic_is_escaped() -> Result<(), Error> {
    let world = world(16);
    let mut journal = journal(&world, Config::new(Mode::Ordered));
    let mut content = image(5);
    content[..4].copy_from_slice(b"BJL1");
    let mut transaction = journal.begin();
    transaction.metadata(BlockNumber(3), &content)?;
    journal.commit(transaction)?;
    assert_eq!(journal.stats().escaped_blocks, 1);
    drop(journal);
    let config = Config::new(Mode::Ordered);
    let (mut journal, found) =
        BlockJournal::open(world.disk(0), world.disk(1), config).expect("it opens");
    assert_eq!((found.transactions, found.replayed, found.revoked), (1, 1, 0));
    let mut read = image(0);
    journal.read(BlockNumber(3), &mut read)?;
    assert!(read == content);
    Ok(())
}

#[test]
fn a_transaction_that_does_not_fit_changes_nothing() -> Result<(), Error> {
    let mut journal = journal(&world(8), Config::new(Mode::Ordered));
    let seven: Vec<u64> = (0..7).collect();
    let refused = commit(&mut journal, &seven, &[]);
    assert_eq!(refused, Err(Error::TooLarge { needed: 9, ring: 8 }));
    commit(&mut journal, &seven[..6], &[])?;
    commit(&mut journal, &[1], &[2])?;
    let block = BlockNumber(HOMES);
    assert_eq!(journal.read(block, &mut image(0)), Err(Error::OutOfRange(block)));
    assert_eq!(journal.read(BlockNumber(0), &mut [0; 1]), Err(Error::WrongLength(1)));
    let other = self::journal(&world(8), Config::new(Mode::Ordered).id(5));
    assert_eq!(journal.commit(other.begin()), Err(Error::Foreign));
    Ok(())
}

#[test]
fn devices_are_checked() {
    let (world, config) = (world(16), Config::new(Mode::Data));
    let made = |config| BlockJournal::format(&mut world.disk(0), &world.disk(1), config);
    assert_eq!(made(config.ring_blocks(3)), Err(FormatError::RingTooSmall));
    assert_eq!(made(config.ring_blocks(17)), Err(FormatError::DeviceTooSmall));
    let open = |home| BlockJournal::open(world.disk(0), home, config).map(drop);
    let part = |count| Partition::new(world.disk(1), BlockNumber(0), count).expect("a part");
    assert_eq!(open(part(HOMES)), Err(OpenError::NotAJournal));
    made(config).expect("a journal is made");
    assert_eq!(open(part(HOMES - 1)), Err(OpenError::WrongDevices));
    assert_eq!(open(part(HOMES)), Ok(()));
    assert!(Partition::new(world.disk(1), BlockNumber(1), HOMES).is_none());
    let mut outside = image(0);
    assert!(part(2).read(BlockNumber(2), &mut outside).is_err());
}

#[test]
fn a_close_leaves_an_empty_ring() -> Result<(), Error> {
    let world = world(16);
    let mut journal = journal(&world, Config::new(Mode::Writeback));
    commit(&mut journal, &[1], &[2])?;
    let (_, mut home) = journal.close()?;
    let mut content = image(0);
    home.read(BlockNumber(1), &mut content)?;
    assert!(content == image(1));
    let (journal, found) =
        BlockJournal::open(world.disk(0), home, Config::new(Mode::Data)).expect("it opens");
    assert!(found.was_closed && found.transactions == 0, "{found:?}");
    assert_eq!((journal.stats(), journal.mode()), (Stats::default(), Mode::Data));
    Ok(())
}

#[test]
fn another_mode_finds_what_the_last_one_left() -> Result<(), Error> {
    for mode in Mode::ALL {
        let world = world(16);
        let mut journal = journal(&world, Config::new(Mode::Data));
        commit(&mut journal, &[1], &[2])?;
        drop(journal);
        let config = Config::new(mode);
        let (mut journal, found) =
            BlockJournal::open(world.disk(0), world.disk(1), config).expect("it opens");
        assert_eq!((found.transactions, found.replayed), (1, 2), "{mode:?}");
        for (block, value) in [(1, 1), (2, 2)] {
            let mut content = image(0);
            journal.read(BlockNumber(block), &mut content)?;
            assert!(content == image(value), "{mode:?}, block {block}");
        }
    }
    Ok(())
}

#[test]
fn what_was_written_back_goes_home_once_and_space_comes_back_later() -> Result<(), Error> {
    let world = world(32);
    let mut journal = journal(&world, Config::new(Mode::Ordered));
    commit(&mut journal, &[9, 2, 5], &[])?;
    let before = world.tape().counts().disk_syncs;
    journal.write_back(|block| block != BlockNumber(5))?;
    journal.write_back(|block| block != BlockNumber(5))?;
    assert_eq!((journal.stats().home_blocks, journal.free_blocks()), (2, 27));
    assert_eq!(world.tape().counts().disk_syncs, before);
    // The one that is left, and a sync for all three.
    journal.make_room(32)?;
    let stats = journal.stats();
    assert_eq!((stats.home_blocks, stats.home_syncs, journal.free_blocks()), (3, 1, 32));
    // Where nothing is left to write, the sync comes all the same.
    commit(&mut journal, &[1], &[])?;
    journal.write_back(|_| true)?;
    journal.checkpoint()?;
    let stats = journal.stats();
    assert_eq!((stats.home_blocks, stats.home_syncs), (4, 2));
    Ok(())
}
