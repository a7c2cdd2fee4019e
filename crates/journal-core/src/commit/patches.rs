//! Patches that are stored from where they lie. A policy has said that it encodes each patch as a
//! few bytes, followed by those of the patch ([`Policy::prefix_of`]). So the policy need not be
//! asked to encode it.
//!
//! The bytes equal those the policy would have encoded. The laws of a policy say so, and tests
//! compare the two.

use crate::commit::one_operation::{Alone, Sole};
use crate::commit::operation::{Operation, Operations};
use crate::commit::prepared::{Prepared, Versions};
use crate::common::Common;
use crate::format::front::extent;
use crate::format::record::{Form, names_end};
use crate::index::frame::FrameAt;
use crate::order::ordered::Hook;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::{Change, Patch, Policy, Prefix, Update};
use crate::ports::stitched::Piece;
use crate::space::lane::{Ends, Lane, Names, OpenRecord};
use crate::space::part::{ENCODED_BLOCKS, Encoded, FrameIn, LentPayload, Lists, Part};

/// The most blocks of a transaction that is stored so, each with one patch.
const PIECES_MAX: usize = 16;

/// The most patches of a one-block transaction on this path. To put more of them in order takes
/// longer than the path saves.
const FEW: usize = 4;

/// A transaction of one operation, which is a few patches.
#[derive(Clone, Copy, Debug)]
pub struct Several<'a> {
    sole: Sole<'a>,
    patches: &'a [Patch<'a>],
}

impl<'a, L: Policy, K: Kernels> Alone<'a, L, K> for Several<'a> {
    #[inline(always)]
    fn of(common: &Common<L, K>, operation: &Operation<'a>, _encoded: &mut [u8]) -> Option<Self> {
        common.several(operation)
    }

    #[inline(always)]
    fn sole(&self) -> &Sole<'a> {
        &self.sole
    }

    #[inline(always)]
    fn sole_mut(&mut self) -> &mut Sole<'a> {
        &mut self.sole
    }

    #[inline(always)]
    fn store<P: Pmem, H: Hook>(
        &self,
        common: &Common<L, K>,
        lane: &mut Lane<P, H>,
        open: &mut OpenRecord,
        front: &mut [u8],
        _encoded: &[u8],
    ) -> FrameAt {
        let Self { sole, patches } = *self;
        // One after the other, so that each is put where it is once.
        let few: [_; FEW] = [
            common.piece_or_none(patches, 0),
            common.piece_or_none(patches, 1),
            common.piece_or_none(patches, 2),
            common.piece_or_none(patches, 3),
        ];
        common.store_several(lane, open, sole, few.get(..patches.len()).unwrap_or_default(), front)
    }
}

impl Several<'_> {
    /// Whether an operation is one that may become this.
    #[inline(always)]
    #[must_use]
    pub const fn may_be(operation: &Operation<'_>) -> bool {
        match operation {
            Operation::Update(Update { change: Change::Patches(patches), .. }) => {
                1 < patches.len() && patches.len() <= FEW
            }
            _ => false,
        }
    }
}

impl<L: Policy, K: Kernels> Common<L, K> {
    /// One of some patches, where its policy says what comes before it.
    #[inline(always)]
    pub(crate) fn piece<'a>(&self, patches: &'a [Patch<'a>], at: usize) -> Option<Piece<'a>> {
        let bytes = patches.get(at)?.bytes;
        let piece = Piece { prefix: self.policy.prefix_of(patches, at)?, bytes };
        (!bytes.is_empty() && piece.len() <= self.block_bytes()).then_some(piece)
    }

    #[inline(always)]
    fn piece_or_none<'a>(&self, patches: &'a [Patch<'a>], at: usize) -> Piece<'a> {
        self.piece(patches, at).unwrap_or(Piece::NONE)
    }

    /// The operation as 2 to 4 patches with prefixes, if it is the whole transaction.
    #[inline(always)]
    fn several<'a>(&self, operation: &Operation<'a>) -> Option<Several<'a>> {
        let Operation::Update(update) = operation else { return None };
        let Change::Patches(patches) = update.change else { return None };
        if !(2..=FEW).contains(&patches.len()) || self.geometry.lane_slots_and_log() > 0 {
            return None;
        }
        let mut bytes = 0_usize;
        for at in 0..patches.len() {
            bytes = bytes.saturating_add(self.piece(patches, at)?.len());
        }
        let len = u32::try_from(bytes).ok().filter(|_| bytes <= self.block_bytes())?;
        let frame = FrameIn { block: update.block, len, form: Form::Encoded, operation: 0 };
        Some(Several {
            sole: Sole { frame, prefix: Prefix::NONE, lent: &[], named: None },
            patches,
        })
    }

    /// Stores the record of a change that consists of these.
    #[inline(always)]
    fn store_several<P: Pmem, H: Hook>(
        &self,
        lane: &mut Lane<P, H>,
        open: &mut OpenRecord,
        sole: Sole<'_>,
        pieces: &[Piece<'_>],
        front: &mut [u8],
    ) -> FrameAt {
        let Sole { frame, named, .. } = sole;
        let extent = self.sole_extent(&sole, sole.names());
        lane.check_fits(open, &extent);
        let name_count = sole.names();
        let end = frame.put(front, names_end(name_count));
        let payload = open.position().saturating_add(end as u64);
        let lent = LentPayload::Pieces(pieces);
        let (names, note) = (named, None);
        let lists = Lists { frame_count: 1, name_count, names, note, last: true, end, lent };
        lane.store_front(open, &extent, lists, open.check, &self.kernels, front);
        lane.frame_at(open, frame, payload)
    }

    /// The patch of an operation, where that is one, and a piece. Inlined, so that it comes back in
    /// registers (C1).
    #[inline(always)]
    fn piece_alone<'a>(&self, operation: &Operation<'a>) -> Option<Piece<'a>> {
        let Operation::Update(update) = operation else { return None };
        let Change::Patches(patches @ [_]) = update.change else { return None };
        self.piece(patches, 0)
    }

    /// The pieces of a transaction, if every operation is one patch with a prefix. `None` if there
    /// are more than 16, or more than fit one part.
    #[inline(always)]
    #[must_use]
    pub fn pieces<'a>(&self, operations: &'a (impl Operations + ?Sized)) -> Option<Pieces<'a>> {
        let count = operations.count();
        if !(1..=PIECES_MAX).contains(&count) {
            return None;
        }
        // As much of a part is encoded as leaves a block of room for the next one.
        let most = self.block_bytes().saturating_mul(ENCODED_BLOCKS.saturating_sub(1));
        let (mut pieces, mut bytes) = ([Piece::NONE; PIECES_MAX], 0_usize);
        for (at, to) in pieces.iter_mut().take(count).enumerate() {
            let piece = operations.with(
                at,
                #[inline(always)]
                |operation| self.piece_alone(operation),
            )?;
            if bytes > most {
                return None;
            }
            bytes = bytes.saturating_add(piece.len());
            *to = piece;
        }
        Some(Pieces { pieces, count, bytes })
    }

    /// What a transaction takes that consists of these.
    #[inline]
    #[must_use]
    pub fn prepared(&self, pieces: &Pieces<'_>, names: &Names) -> Option<Prepared> {
        let Pieces { count, bytes, .. } = *pieces;
        let extent = extent(&self.geometry, names.count(), count, bytes, 0)?;
        Some(Prepared::of_pieces(extent.total, count))
    }

    /// Stores a transaction that consists of pieces, for which there is room.
    #[inline]
    pub fn store_pieces<P: Pmem, H: Hook, O: Operations + ?Sized>(
        &self,
        lane: &mut Lane<P, H>,
        open: &mut OpenRecord,
        content: &PiecesOf<'_, O>,
        front: &mut [u8],
        versions: &mut impl Versions,
    ) {
        let PiecesOf { operations, pieces, names, ends } = *content;
        let frame_count = pieces.count;
        let pieces = pieces.pieces.get(..frame_count).unwrap_or_default();
        let frame = |at, piece: &Piece<'_>| FrameIn {
            block: operations.block(at),
            len: u32::try_from(piece.len()).unwrap_or(u32::MAX),
            form: Form::Encoded,
            operation: u32::try_from(at).unwrap_or(u32::MAX),
        };
        let part = Part {
            frame_count,
            frames: pieces.iter().enumerate().map(|(at, piece)| (frame(at, piece), &[][..])),
            encoded: Encoded::Pieces(pieces),
            image_count: 0,
            names,
            last: ends == Ends::Record,
        };
        self.store_part_and_take_in(lane, open, &part, front, versions);
    }
}

/// The pieces of a transaction, one of each operation.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    pieces: [Piece<'a>; PIECES_MAX],
    count: usize,
    /// Of all of them.
    bytes: usize,
}

/// A transaction that consists of pieces, to be stored.
#[derive(Debug)]
pub struct PiecesOf<'a, O: ?Sized> {
    /// What it does.
    pub operations: &'a O,
    /// The pieces of these operations.
    pub pieces: &'a Pieces<'a>,
    /// The records of other lanes that it overwrites.
    pub names: &'a Names,
    /// Whether the record ends with it.
    pub ends: Ends,
}
