//! What a policy is told of a change, and what becomes of it.

use std::sync::{Arc, Mutex};

use journal_core::policy::{
    ApplyError, Change, Class, Encoder, Kind, Patch, Placement, Policy, PolicyId, Span, Update,
};
use journal_core::{NoHook, PmemShare as _};
use lab::erased::{DynJournal, any_options};
use nvm_journal::{
    AnyJournal, AnyPolicy, Durability, Error, FullBlock, Hint, Journal, ObjectLog, Operation,
    Options,
};

use crate::home::copied;
use crate::use_it::{BLOCK, Files, any_memory, block, memory};

/// What a policy was told of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    block: u64,
    /// Of an image without ranges, none.
    pieces: Option<Vec<(u32, usize)>>,
    hint: Hint,
}

/// Logs the pieces of a change, each behind its place and length; of an image all. Notes what it
/// is told, which only a test may.
#[derive(Clone, Debug, Default)]
struct Pieces(Arc<Mutex<Vec<Told>>>);

impl Pieces {
    fn told(&self) -> Vec<Told> {
        core::mem::take(&mut *self.0.lock().expect("no thread panics with it"))
    }
}

impl Policy for Pieces {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E60)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let is_image = matches!(update.change, Change::Image(_));
        let pieces = update.change.pieces();
        let told = Told {
            block: update.block.raw(),
            pieces: (!is_image)
                .then(|| pieces.clone().map(|piece| (piece.at, piece.bytes.len())).collect()),
            hint: Hint {
                class: update.class,
                kind: update.kind,
                object_bytes: update.object_bytes,
            },
        };
        self.0.lock().expect("no thread panics with it").push(told);
        if is_image {
            return Placement::Image;
        }
        for piece in pieces {
            let len = piece.bytes.len() as u32;
            let head = [piece.at.to_le_bytes(), len.to_le_bytes()].concat();
            out.put(&head).and_then(|()| out.put(piece.bytes)).expect("these tests change little");
        }
        Placement::Encoded
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        let mut rest = payload;
        while let Some((head, behind)) = rest.split_first_chunk::<8>() {
            let at = u32::from_le_bytes(head[..4].try_into().expect("four bytes")) as usize;
            let len = u32::from_le_bytes(head[4..].try_into().expect("four bytes")) as usize;
            block[at..at + len].copy_from_slice(&behind[..len]);
            rest = &behind[len..];
        }
        Ok(())
    }
}

fn journal(files: &Files, policy: &Pieces) -> DynJournal {
    let options = any_options(policy.clone(), NoHook);
    Journal::format(any_memory(1 << 20), files.any_disk(), &options).expect("formats")
}

fn read(journal: &DynJournal, number: u64) -> Vec<u8> {
    let mut into = vec![0; BLOCK];
    journal.read(block(number), &mut into).expect("reads");
    into
}

fn told(block: u64, pieces: Option<&[(u32, usize)]>, hint: Hint) -> Told {
    Told { block, pieces: pieces.map(<[_]>::to_vec), hint }
}

#[test]
fn the_policy_is_told_what_write_at_changes() {
    let (files, policy) = (Files::new("ranges"), Pieces::default());
    let journal = journal(&files, &policy);
    let rows = Hint::METADATA.of_objects(256);
    let mut tx = journal.begin().expect("begins");
    tx.write_at(block(1), 100, b"one").expect("fits");
    tx.write_at(block(1), 3000, b"more").expect("fits");
    tx.write_at(block(1), 103, b"two").expect("fits");
    tx.write_at_with(block(2), rows, 256, b"row").expect("fits");
    tx.write_at(block(2), 512, b"row").expect("fits");
    tx.write_with(block(3), Hint::APPEND.of_objects(64), &[3; BLOCK]).expect("fits");
    tx.write_at(block(3), 5, b"three").expect("fits");
    tx.write_at(block(4), 5, b"four").expect("fits");
    tx.write(block(4), &[4; BLOCK]).expect("fits");
    tx.write_metadata(block(5), &[5; BLOCK]).expect("fits");
    tx.commit().expect("commits");
    let expected = [
        told(1, Some(&[(100, 6), (3000, 4)]), Hint::DATA),
        told(2, Some(&[(256, 3), (512, 3)]), rows),
        told(3, None, Hint::APPEND.of_objects(64)),
        told(4, None, Hint::DATA),
        told(5, None, Hint { class: Class::Metadata, kind: Kind::Overwrite, object_bytes: None }),
    ];
    assert_eq!(policy.told(), expected);
    let one = read(&journal, 1);
    assert_eq!((&one[99..107], &one[2999..3005]), (&b"\0onetwo\0"[..], &b"\0more\0"[..]));
    assert_eq!((&read(&journal, 3)[4..11], read(&journal, 4)[5]), (&b"\x03three\x03"[..], 4));
    journal.checkpoint().expect("writes home");
    assert_eq!((read(&journal, 1), &read(&journal, 2)[511..516]), (one, &b"\0row\0"[..]));
}

#[test]
fn a_write_of_no_bytes_is_not_logged() {
    let (files, policy) = (Files::new("no-bytes"), Pieces::default());
    let journal = journal(&files, &policy);
    let mut tx = journal.begin().expect("begins");
    tx.write_at(block(1), BLOCK, b"").expect("fits");
    assert_eq!(tx.commit(), Ok(None));
    assert_eq!(policy.told(), []);
}

/// A checkpoint forgets a discard, and shows what was home before.
#[test]
fn what_was_discarded_is_logged_whole() {
    let (files, policy) = (Files::new("discarded"), Pieces::default());
    let journal = journal(&files, &policy);
    journal.transact(|tx| tx.write(block(1), &[1; BLOCK])).expect("commits");
    journal.checkpoint().expect("writes home");
    journal.transact(|tx| tx.discard(block(1))).expect("commits");
    policy.told();
    let mut tx = journal.begin().expect("begins");
    tx.write_at(block(1), 7, b"new").expect("fits");
    let mut seen = vec![0; BLOCK];
    tx.read(block(1), &mut seen).expect("reads");
    journal.checkpoint().expect("forgets the discard");
    tx.commit().expect("commits");
    assert_eq!(policy.told(), [told(1, None, Hint::DATA)]);
    assert_eq!(read(&journal, 1), seen, "what the transaction has seen is what it leaves");
    // The same inside one transaction.
    let mut tx = journal.begin().expect("begins");
    tx.discard(block(1)).expect("fits");
    tx.write_at(block(1), 7, b"newer").expect("fits");
    tx.commit().expect("commits");
    assert_eq!(policy.told(), [told(1, None, Hint::DATA)]);
    // From here on it is live.
    journal.transact(|tx| tx.write_at(block(1), 7, b"live")).expect("commits");
    assert_eq!(policy.told(), [told(1, Some(&[(7, 4)]), Hint::DATA)]);
}

#[test]
fn patches_and_ranges_are_taken_in_one_call() {
    let (files, policy) = (Files::new("patches"), Pieces::default());
    let journal = journal(&files, &policy);
    journal.transact(|tx| tx.write(block(1), &[1; BLOCK])).expect("commits");
    policy.told();
    let patches = [Patch { at: 3, bytes: b"abc" }, Patch { at: 6, bytes: b"d" }];
    let mut image = [0; BLOCK];
    image[9..11].fill(9);
    let ranges = [Span { at: 9, len: 2 }];
    let of = |number, change| Operation::Update(Update::new(block(number), change));
    let ranged = Change::Ranges { image: &image, ranges: &ranges };
    let both = [of(1, Change::Patches(&patches)), of(2, ranged)];
    journal.commit(&both, Durability::Durable).expect("commits").expect("was logged");
    assert_eq!(read(&journal, 1)[2..8], *b"\x01abcd\x01");
    assert_eq!(read(&journal, 2), image);
    let expected =
        [told(1, Some(&[(3, 3), (6, 1)]), Hint::DATA), told(2, Some(&[(9, 2)]), Hint::DATA)];
    assert_eq!(policy.told(), expected);
    let nothing =
        [of(1, Change::Patches(&[])), of(2, Change::Ranges { image: &image, ranges: &[] })];
    assert_eq!(journal.commit(&nothing, Durability::Durable), Ok(None));
    assert_eq!(policy.told(), [], "there was nothing to ask");
    let held = [of(2, Change::Patches(&[Patch { at: BLOCK as u32 - 1, bytes: b"xy" }]))];
    let range = Span { at: BLOCK as u32 - 1, len: 2 };
    let refused = Err(Error::BadRange { block: block(2), range });
    assert_eq!(journal.commit(&held, Durability::Durable), refused);
    let twice = [Span { at: 9, len: 2 }, Span { at: 10, len: 2 }];
    let twice = [of(2, Change::Ranges { image: &image, ranges: &twice })];
    let refused = Err(Error::BadRange { block: block(2), range: Span { at: 10, len: 2 } });
    assert_eq!(journal.commit(&twice, Durability::Durable), refused);
    let short = [of(2, Change::Ranges { image: &image[1..], ranges: &ranges })];
    let refused = Error::OutOfBlock { block: block(2), at: 0, bytes: BLOCK - 1 };
    assert_eq!(journal.commit(&short, Durability::Durable), Err(refused));
}

#[test]
fn whole_blocks_are_logged_of_ranges_and_never_of_patches() {
    let files = Files::new("whole");
    let journal = Journal::format(memory(1 << 20), files.disk(), &Options::new()).expect("formats");
    journal.transact(|tx| tx.write_at(block(1), 5, b"five")).expect("commits");
    let patches = [Patch { at: 3, bytes: b"abc" }];
    let patched = [Operation::Update(Update::new(block(1), Change::Patches(&patches)))];
    let refused = Error::CannotPlace { block: block(1), placement: Placement::Image };
    assert_eq!(journal.commit(&patched, Durability::Durable), Err(refused));
    assert_eq!(journal.commit(&patched, Durability::Durable), Err(refused), "it was given back");
    let mut content = vec![0; BLOCK];
    journal.read(block(1), &mut content).expect("reads");
    assert_eq!(content[4..10], *b"\0five\0");
    assert_eq!(journal.stats().expect("counts").total().commits, 1);
}

/// What the documentation of the policies says that an update costs.
#[test]
fn an_object_takes_six_lines_where_a_block_takes_sixty_six_and_a_patch_two() {
    fn lines_of<L: Policy + Clone + Send + Sync + 'static>(
        policy: L,
        name: &str,
        row: impl FnOnce(&Journal<L>) -> Result<(), Error>,
    ) -> u64 {
        let files = Files::new(name);
        let options = Options::new().policy(policy);
        let journal = Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
        row(&journal).expect("commits");
        let mut content = vec![0; BLOCK];
        journal.read(block(1), &mut content).expect("reads");
        assert_eq!(content[699..704], *b"\0row\0");
        let used_bytes = journal.stats().expect("counts").total().used_bytes;
        journal.checkpoint().expect("writes home");
        journal.read(block(1), &mut content).expect("reads");
        assert_eq!(content[699..704], *b"\0row\0");
        used_bytes / 64
    }
    let mut image = [0; BLOCK];
    image[700..703].copy_from_slice(b"row");
    let of_image = |journal: &AnyJournal| {
        let ranges = [Span { at: 700, len: 3 }];
        let change = Change::Ranges { image: &image, ranges: &ranges };
        let operation = Operation::Update(Update::new(block(1), change));
        journal.commit(&[operation], Durability::Durable).map(drop)
    };
    assert_eq!(lines_of(AnyPolicy::from(ObjectLog::new()), "lines-object", of_image), 6);
    let patch = |journal: &AnyJournal| journal.transact(|tx| tx.write_at(block(1), 700, b"row"));
    assert_eq!(lines_of(AnyPolicy::from(ObjectLog::new()), "lines-patch", patch), 2);
    let whole = |journal: &Journal| journal.transact(|tx| tx.write_at(block(1), 700, b"row"));
    assert_eq!(lines_of(FullBlock, "lines-block", whole), 66);
}

/// What is kept of a block is patched with ranges, as with patches. A read finds it there, and what
/// it finds is there after a restart. So it is even where an image was made of older content.
#[test]
fn what_is_kept_is_patched_with_ranges() {
    let files = Files::new("ranges-kept");
    let options = Options::new().policy(AnyPolicy::from(ObjectLog::new()));
    let options = options.lanes(1).cache_bytes(64 << 10);
    let region = memory(1 << 20);
    let reader = region.reader();
    let journal = Journal::format(region, files.disk(), &options).expect("formats");
    let older = vec![1; BLOCK];
    journal.transact(|tx| tx.write(block(1), &older)).expect("commits");
    journal.read(block(1), &mut vec![0; BLOCK]).expect("reads, and keeps");
    journal.transact(|tx| tx.write_at(block(1), 3000, b"other")).expect("commits");
    let (mut image, mut expected) = (older.clone(), older);
    image[700..703].copy_from_slice(b"row");
    expected[700..703].copy_from_slice(b"row");
    expected[3000..3005].copy_from_slice(b"other");
    let change = Change::Ranges { image: &image, ranges: &[Span { at: 700, len: 3 }] };
    let operation = Operation::Update(Update::new(block(1), change));
    journal.commit(&[operation], Durability::Durable).expect("commits");
    let hits = || journal.stats().expect("counts").cached.hits;
    let (before, mut found) = (hits(), vec![0; BLOCK]);
    journal.read(block(1), &mut found).expect("reads");
    let differing = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!((differing, hits() - before), (None, 1), "it is kept");
    drop(journal);
    let journal = Journal::open(copied(&reader), files.disk(), &options).expect("opens");
    journal.read(block(1), &mut found).expect("reads");
    assert!(found == expected, "it was logged");
}
