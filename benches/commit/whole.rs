//! Whole blocks, one thread, under the policy that logs whole blocks.

use std::cell::RefCell;
use std::hint::black_box;

use journal_core::policy::{ApplyError, Change, Encoder, Placement, Policy, PolicyId, Update};
use journal_core::{BlockNumber, Durability, Operation, Protocol};
use nvm_journal::FullBlock;

use crate::owner::whole_block;
use crate::{BLOCKS, NOWHERE, commit};
use lab::bench::media::{BLOCK, Bare, warm};
use lab::bench::work::{LANE_BYTES, commit_at_once, front, image, leaked, make_room, record_bytes};
use lab::bench::{Table, timed};

/// Writes of `blocks` neighbours.
fn writes(images: &[u8], first: u64, blocks: u64) -> Vec<Operation<'_>> {
    let write = |at| Operation::write(BlockNumber(first + at), image(images, at));
    (0..blocks).map(write).collect()
}

pub(crate) fn blocks(images: &[u8]) -> Table<'_> {
    let mut table = Table::new("durable transactions of whole blocks, one thread, full-block");
    let bare: &RefCell<Bare> = leaked(RefCell::new(Bare::new(warm(LANE_BYTES))));
    let journal: &_ = leaked(front(FullBlock, NOWHERE, 1));
    for blocks in [1_u64, 8, 64] {
        let versus = format!("{blocks:>2} blocks, limit");
        table.row(versus.clone(), &versus, 1, None, move |count| {
            let mut bare = bare.borrow_mut();
            timed(count, |turn| {
                let pieces = (0..blocks).map(|block| image(images, turn + block));
                bare.commit(pieces, blocks as usize * BLOCK);
            })
        });
        let one = || journal.commit(&writes(images, 0, blocks), Durability::Durable);
        let front = record_bytes(journal, one) - blocks as usize * BLOCK;
        table.row(
            format!("{blocks:>2} blocks, its record alone"),
            &versus,
            1,
            None,
            move |count| {
                let mut bare = bare.borrow_mut();
                timed(count, |turn| {
                    let pieces = (0..blocks).map(|block| image(images, turn + block));
                    let front = &image(images, turn)[..front];
                    bare.commit(pieces.chain([front]), blocks as usize * BLOCK + front.len());
                })
            },
        );
        if blocks > 1 {
            let name = format!("{blocks:>2} blocks, each with a fence, not atomic");
            table.row(name, &versus, 1, None, move |count| {
                let mut bare = bare.borrow_mut();
                timed(count * blocks, |turn| {
                    bare.commit(core::iter::once(image(images, turn)), BLOCK);
                })
            });
            table.out_of_contest();
        }
        let name = format!("{blocks:>2} blocks, front door");
        table.row(name, &versus, 1, None, move |count| {
            make_room(journal, count, blocks);
            timed(count, |turn| commit(journal, images, turn * blocks % (BLOCKS - 64), blocks))
        });
    }
    for blocks in [8_u64, 64] {
        let name = format!("{blocks:>2} blocks, front door, in one call");
        let versus = format!("{blocks:>2} blocks, limit");
        table.row(name, &versus, 1, None, move |count| {
            make_room(journal, count, blocks);
            timed(count, |turn| {
                let operations = writes(images, turn * blocks % (BLOCKS - 64), blocks);
                black_box(journal.commit(&operations, Durability::Durable).is_ok());
            })
        });
    }
    let versus = " 1 blocks, limit";
    table.row(" 1 blocks, front door, in one call", versus, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| commit_at_once(journal, images, turn % BLOCKS))
    });
    table.row(" 1 blocks, front door, transact", versus, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| {
            let block = BlockNumber(turn % BLOCKS);
            journal.transact(|tx| tx.write(block, image(images, turn))).expect("commits");
        })
    });
    table.row(" 1 blocks, front door, deferred", versus, 1, None, move |count| {
        make_room(journal, count, 1);
        timed(count, |turn| {
            let mut tx = journal.begin().expect("begins");
            tx.write(BlockNumber(turn % BLOCKS), image(images, turn)).expect("fits");
            black_box(tx.commit_deferred().is_ok());
        })
    });
    let one_owner = whole_block(images, FullBlock, Protocol::OneFence);
    table.row(" 1 blocks, core, one owner", versus, 1, None, one_owner);
    table
}

/// The default protocol, and the two-fence one of the published systems.
pub(crate) fn protocols(images: &[u8]) -> Table<'_> {
    let mut table = Table::new("one fence and two (tail pointer), core, one owner");
    for (protocol, fences) in [(Protocol::OneFence, "one fence"), (Protocol::TailPointer, "two")] {
        let of = |payload| format!("{payload}, {fences}");
        let versus = |payload| format!("{payload}, one fence");
        let whole = whole_block(images, FullBlock, protocol);
        table.row(of("4 KiB"), &versus("4 KiB"), 1, None, whole);
        let line = whole_block(images, FirstLine, protocol);
        table.row(of("64 B"), &versus("64 B"), 1, None, line);
    }
    table
}

/// Logs the first line of a block, and nothing else.
#[derive(Clone, Copy, Debug)]
struct FirstLine;

impl Policy for FirstLine {
    fn id(&self) -> PolicyId {
        PolicyId(0x7E58)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        match update.change {
            Change::Image(image) if out.put(&image[..64]).is_ok() => Placement::Encoded,
            _ => Placement::Image,
        }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        let place = block.get_mut(..payload.len()).ok_or(ApplyError::OutOfBlock { at: 0 })?;
        place.copy_from_slice(payload);
        Ok(())
    }
}
