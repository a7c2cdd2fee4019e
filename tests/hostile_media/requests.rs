//! Requests that cannot be: each is refused by an error that says what and where, and the journal
//! and its media are as they were.

use journal_core::policy::{Change, Patch, Span, Update};
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, CommitError, Durability, JournalError, Operation};
use sim_disk::{Model, World};

use lab::second_reader::{Act, BLOCK_BYTES, BLOCKS, Kind, Shape, Truth, What, contents, counting};

const NOWHERE: BlockNumber = BlockNumber(BLOCKS);

fn shape() -> Shape {
    Shape::new(Kind::Words, 2)
}

/// The error of each commit, in a journal that is unchanged by all of them.
fn refused(cases: &[(u16, &[Operation<'_>], CommitError)]) {
    let world = World::boot(shape().format(), Model::Torn8);
    shape().drive(&world, &[Act::Commit(0, vec![(1, What::Fill(7))])], &mut Truth::default());
    shape()
        .with(&world, |journal| {
            let before = (world.tape().len(), world.visible(), contents(journal));
            for (lane, operations, expected) in cases {
                for durability in [Durability::Durable, Durability::Deferred] {
                    let found = journal.commit(LaneNumber(*lane), operations, durability);
                    assert_eq!(found.expect_err("is refused"), *expected);
                }
            }
            assert!(before == (world.tape().len(), world.visible(), contents(journal)));
            // It goes on.
            let image = counting(9);
            let operations = [Operation::write(BlockNumber(0), &image)];
            journal.commit(LaneNumber(1), &operations, Durability::Durable).expect("commits");
        })
        .expect("opens");
}

#[test]
fn transactions_that_cannot_be_are_refused() {
    let (image, long) = (counting(1), [0; BLOCK_BYTES + 1]);
    let write = |block| Operation::write(BlockNumber(block), &image);
    let long = [Operation::write(BlockNumber(2), &long)];
    let change = |change| [Operation::Update(Update::new(BlockNumber(3), change))];
    let overlapping = [Patch { at: 8, bytes: &[1; 8] }, Patch { at: 15, bytes: &[2] }];
    let outside = [Patch { at: BLOCK_BYTES as u32 - 1, bytes: &[1; 2] }];
    let bad = |at, len| CommitError::BadRange { block: BlockNumber(3), range: Span { at, len } };
    refused(&[
        (2, &[write(0)], CommitError::NoSuchLane { lane: LaneNumber(2) }),
        (0, &[], CommitError::Empty),
        (0, &[Operation::Discard(NOWHERE)], CommitError::OutOfDevice { block: NOWHERE }),
        (0, &[write(BLOCKS)], CommitError::OutOfDevice { block: NOWHERE }),
        (0, &[write(2), write(1)], CommitError::NotAscending { block: BlockNumber(1) }),
        (0, &[write(2), write(2)], CommitError::NotAscending { block: BlockNumber(2) }),
        (0, &long, CommitError::WrongLength { block: BlockNumber(2), bytes: BLOCK_BYTES + 1 }),
        (0, &change(Change::Patches(&overlapping)), bad(15, 1)),
        (0, &change(Change::Patches(&outside)), bad(BLOCK_BYTES as u32 - 1, 2)),
    ]);
}

#[test]
fn reads_that_cannot_be_are_refused() {
    let world = World::boot(shape().format(), Model::Torn8);
    let read = |block, bytes| {
        let read = |journal: &mut lab::second_reader::Opened<'_, _>| {
            journal.read(block, &mut vec![0; bytes]).expect_err("is refused")
        };
        shape().with(&world, read).expect("opens")
    };
    for (block, bytes) in
        [(NOWHERE, BLOCK_BYTES), (BlockNumber(0), BLOCK_BYTES - 1), (BlockNumber(0), 0)]
    {
        assert_eq!(read(block, bytes), JournalError::BadRequest { block, bytes });
    }
}
