//! A directory of any bytes: an open says what is wrong and where, or shows files that can be read.

use std::sync::Arc;

use block_files::{BlockFiles, DamageKind, Error, Store};
use journal_core::check::crc64;
use nvm_journal::{BlockNumber, Durability, Operation};
use proptest::prelude::*;

use crate::calls::{journal, store, world};

const BLOCK: usize = 128;
const BLOCKS: u64 = 64;

/// Files of every shape: short, with holes, of several nodes, renamed, removed.
fn in_use() -> Arc<dyn Store> {
    let journal: Arc<dyn Store> = Arc::new(journal(&world(1 << 16, BLOCK as u32, BLOCKS)));
    let files = BlockFiles::format(Arc::clone(&journal)).expect("files");
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"] {
        files.create(name).expect("room");
    }
    let scattered = files.open_file("b").expect("there");
    for block in [8, 2, 6, 4, 0] {
        scattered.write_at(block * BLOCK as u64, b"x").expect("room");
    }
    files.open_file("c").expect("there").write_at(0, &[1; 300]).expect("room");
    files.remove("d").expect("there");
    journal
}

fn image(store: &dyn Store, block: u64) -> Vec<u8> {
    let mut image = vec![0; BLOCK];
    store.read_at(BlockNumber(block), 0, &mut image).expect("readable");
    image
}

fn put(store: &dyn Store, block: u64, mut image: Vec<u8>, is_sealed: bool) {
    if is_sealed {
        let check = crc64(block, &image[8..]);
        image[..8].copy_from_slice(&check.to_le_bytes());
    }
    let operations = [Operation::write(BlockNumber(block), &image)];
    store.commit(&operations, Durability::Durable).expect("a commit");
}

/// Opens, and uses whatever opens.
fn open(store: &Arc<dyn Store>) -> Result<BlockFiles, Error> {
    let files = BlockFiles::open(Arc::clone(store))?;
    for (name, len) in files.list() {
        let file = files.open_file(&name).expect("it is listed");
        let mut bytes = [0; 1000];
        for at in [0, 100, len.saturating_sub(50)] {
            file.read_at(at, &mut bytes).expect("in the store");
        }
        // There may be no room for it.
        let _written = file.write_at(len.min(2000), b"more");
        file.set_len(len / 2).expect("shorter");
        files.remove(&name).expect("it is there");
    }
    files.create("new").expect("room");
    Ok(files)
}

fn damage(store: &Arc<dyn Store>) -> (u64, DamageKind) {
    match open(store) {
        Err(Error::Damaged(damage)) => (damage.block.raw(), damage.kind),
        other => panic!("not damaged: {other:?}"),
    }
}

/// The block that a list names in a slot.
fn head(store: &dyn Store, slot: usize) -> u64 {
    let list = image(store, 1);
    u64::from_le_bytes(list[32 + 8 * slot..][..8].try_into().expect("eight"))
}

fn with_word(store: &dyn Store, block: u64, at: usize, word: u64) {
    let mut image = image(store, block);
    image[at..at + 8].copy_from_slice(&word.to_le_bytes());
    put(store, block, image, true);
}

#[test]
fn each_damage_is_named_where_it_is() {
    let fresh = in_use;
    let store = fresh();
    let mut rotten = image(&*store, 1);
    rotten[50] ^= 1;
    put(&*store, 1, rotten, false);
    assert_eq!(damage(&store), (1, DamageKind::Check));
    let store = fresh();
    let (a, b) = (head(&*store, 0), head(&*store, 1));
    with_word(&*store, 1, 32, BLOCKS);
    assert_eq!(damage(&store), (1, DamageKind::OutOfStore(BlockNumber(BLOCKS))));
    with_word(&*store, 1, 32, b);
    assert_eq!(damage(&store), (1, DamageKind::Shared(BlockNumber(b))));
    with_word(&*store, 1, 32, a);
    with_word(&*store, a, 16, u64::MAX);
    assert_eq!(damage(&store), (a, DamageKind::Length(u64::MAX)));
    with_word(&*store, a, 16, 0);
    with_word(&*store, a, 24, a);
    assert_eq!(damage(&store), (a, DamageKind::Shared(BlockNumber(a))), "a chain into itself");
    with_word(&*store, a, 24, b);
    assert_eq!(damage(&store), (b, DamageKind::Kind(3)), "a chain into another file");
    // Of b: its first extent.
    let store = fresh();
    with_word(&*store, b, 64 + 16, u64::MAX);
    assert_eq!(damage(&store).0, b);
    with_word(&*store, b, 64 + 16, 0);
    assert_eq!(damage(&store), (b, DamageKind::Count(0)));
    with_word(&*store, b, 64 + 16, 1);
    with_word(&*store, b, 64, u64::MAX);
    assert!(matches!(damage(&store), (_, DamageKind::BehindEnd { .. })));
    // The same name twice.
    let store = fresh();
    let mut twin = image(&*store, a);
    twin[32] = b'c';
    put(&*store, a, twin, true);
    assert!(matches!(damage(&store), (_, DamageKind::SameName)));
    let text = Error::Damaged(block_files::Damage {
        block: BlockNumber(9),
        kind: DamageKind::Twice { file_block: 3 },
    });
    assert!(text.to_string().contains("block 3 of the file is in two places"), "{text}");
}

#[test]
fn what_is_no_directory_is_told_apart() {
    let blank = store(1 << 16, BLOCK as u32, BLOCKS);
    assert_eq!(open(&blank).map(drop), Err(Error::NotFormatted));
    BlockFiles::open_or_format(Arc::clone(&blank)).expect("files");
    open(&blank).expect("files");
    let small = store(1 << 16, 64, BLOCKS);
    let refused = BlockFiles::format(small).map(drop);
    assert_eq!(refused, Err(Error::StoreTooSmall { block_bytes: 64, blocks: BLOCKS }));
    let mut header = image(&*blank, 0);
    header[40] = 2;
    put(&*blank, 0, header, true);
    assert_eq!(damage(&blank), (0, DamageKind::Version(2)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_told_or_does_no_harm(
        edits in prop::collection::vec((0..BLOCKS, 0..BLOCK, any::<u8>()), 1..8),
        is_sealed in any::<bool>(),
    ) {
        let store = in_use();
        for (block, at, value) in edits {
            let mut image = image(&*store, block);
            image[at] = value;
            put(&*store, block, image, is_sealed);
        }
        let _opened = open(&store);
    }

    #[test]
    fn words_that_look_right_are_told_or_do_no_harm(
        edits in prop::collection::vec((0..30_u64, 1..16_usize, 0..70_u64), 1..6),
    ) {
        let store = in_use();
        for (block, word, value) in edits {
            with_word(&*store, block, word * 8, value);
        }
        let _opened = open(&store);
    }
}
