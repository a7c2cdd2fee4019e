//! Journals whose device holds anything: an open says what is wrong, or shows what was committed.

use block_journal::{Config, Mode};
use journal_core::check::crc64;
use journal_core::{BlockNumber, Overwrite};
use proptest::prelude::*;
use sim_disk::{Image, Model, Scenario as _, World};

use crate::program::{BLOCK_BYTES, BLOCKS, Block, Journal, Planted, Program};

const RING: u32 = 16;
const DEVICE: usize = (RING as usize + 2) * BLOCK_BYTES;
/// The journal's id in all programs.
const ID: u64 = 77;

fn program() -> Program {
    let program = Program { ring: RING, ..Program::new(Mode::Data, &[]) };
    Program { overwrite: Overwrite::NeverInPlace, ..program }
}

type Contents = [Block; BLOCKS as usize];

fn contents(journal: &mut Journal<Planted>) -> Result<Contents, String> {
    let mut contents = [[0; BLOCK_BYTES]; BLOCKS as usize];
    for (block, into) in (0..).zip(&mut contents) {
        journal.read(BlockNumber(block), into).map_err(|error| error.to_string())?;
    }
    Ok(contents)
}

/// A journal that wrapped round its ring, with three transactions in it; and what it showed after
/// each since the ring was emptied last.
fn journal_in_use() -> (Image, Vec<Contents>) {
    let program = program();
    let world = World::boot(program.start(), Model::Torn8);
    let mut journal = program.open(&world).expect("a new journal");
    let mut shown = Vec::new();
    for value in 1..=7_u8 {
        let mut transaction = journal.begin();
        let number = u64::from(value);
        for block in [number % BLOCKS, (number + 1) % BLOCKS] {
            transaction.metadata(BlockNumber(block), &[value; BLOCK_BYTES]).expect("it fits");
        }
        transaction.discard(BlockNumber((number + 2) % BLOCKS)).expect("it fits");
        journal.commit(transaction).expect("a commit");
        if value == 4 {
            journal.checkpoint().expect("a checkpoint");
            shown.clear();
        }
        shown.push(contents(&mut journal).expect("what was committed"));
    }
    (world.visible(), shown)
}

/// Changes bytes of the journal's device; where asked, with checks that are right again.
fn harm(image: &mut Image, edits: &[(usize, u8)], seals: bool) {
    let disk = image.disk_mut(0);
    for (at, value) in edits {
        let number = BlockNumber((at / BLOCK_BYTES) as u64);
        let mut block = disk.block(number);
        block[at % BLOCK_BYTES] = *value;
        if seals {
            let seed = if number.raw() < 2 { 0 } else { ID };
            let check = crc64(crc64(crc64(seed, &block[..16]), &[0; 8]), &block[24..]);
            block[16..24].copy_from_slice(&check.to_le_bytes());
        }
        disk.set_block(number, &block);
    }
}

/// Opens, and goes on where that succeeds.
fn open(image: Image, looks_behind: bool) -> Result<Contents, String> {
    let program = program();
    let world = World::boot(image, Model::Torn8);
    let (journal, home) = program.devices(&world);
    let config = Config::new(Mode::Data).looks_behind(looks_behind);
    let opened = Journal::open_with_hook(journal, home, config, Planted::default());
    let (mut journal, _) = opened.map_err(|error| error.to_string())?;
    let found = contents(&mut journal)?;
    let mut transaction = journal.begin();
    transaction.metadata(BlockNumber(0), &[9; BLOCK_BYTES]).map_err(|error| error.to_string())?;
    // A journal of few blocks may have no room for it, or no number.
    if journal.commit(transaction).is_ok() {
        let expected = contents(&mut journal)?;
        assert_eq!(expected[0], [9; BLOCK_BYTES]);
        journal.close().map_err(|error| error.to_string())?;
    }
    Ok(found)
}

#[test]
fn a_journal_in_use_opens() {
    let (image, shown) = journal_in_use();
    assert_eq!(open(image, true).as_ref(), Ok(shown.last().expect("three transactions")));
    assert_eq!(shown.len(), 4);
}

#[test]
fn every_byte_may_be_damaged() {
    let (image, shown) = journal_in_use();
    let mut refused = 0;
    for at in 0..DEVICE {
        for flip in [0x01, 0x80, 0xFF] {
            let value = image.disk(0).block(BlockNumber((at / BLOCK_BYTES) as u64))[at % 64];
            let mut harmed = image.clone();
            harm(&mut harmed, &[(at, value ^ flip)], false);
            match open(harmed, true) {
                // Only the last commit block can go without a trace.
                Ok(found) => assert!(shown[shown.len() - 2..].contains(&found), "byte {at}"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_an_error_or_changes_nothing(
        edits in prop::collection::vec((0..DEVICE, any::<u8>()), 1..12),
    ) {
        let (mut image, shown) = journal_in_use();
        harm(&mut image, &edits, false);
        if let Ok(found) = open(image, true) {
            prop_assert!(shown.contains(&found), "{found:x?}");
        }
    }

    #[test]
    fn what_an_attacker_makes_is_opened_or_refused(
        edits in prop::collection::vec((0..DEVICE, any::<u8>()), 1..12),
        looks_behind in any::<bool>(),
    ) {
        let (mut image, _) = journal_in_use();
        harm(&mut image, &edits, true);
        let _opened = open(image, looks_behind);
    }

    #[test]
    fn a_device_of_noise_is_refused(noise in prop::collection::vec(any::<u8>(), DEVICE)) {
        let mut image = program().start();
        for (number, block) in (0..).zip(noise.chunks(BLOCK_BYTES)) {
            image.disk_mut(0).set_block(BlockNumber(number), block);
        }
        prop_assert!(open(image, true).is_err());
    }
}
