//! The torn-write shield: whole images of blocks that are about to be overwritten at home.
//!
//! The only whole copy of a block may be its home, on a device that may tear an overwrite. A crash
//! in the middle would then leave nothing to apply the block's deltas to. So the images of a batch
//! go into an *intent* first: one record in an area of its own, then one fence, and only then home.
//! The area is overwritten after the batch's sync.
//!
//! **Crash** before the fence: the intent is torn, and home untouched. After it: the next open
//! finds the intent and writes its images home again, all of them, before anything else needs the
//! area. Intents below the superblock's floor are of checkpoints that ended, and are not believed.

use zerocopy::IntoBytes as _;

use crate::format::front::{Extent, Front, extent};
use crate::format::geometry::Geometry;
use crate::format::identity::Identity;
use crate::format::record::{
    CHECK_BYTES, FRAME_BYTES, Form, FrameHeader, HEADER_BYTES, HeaderFields, RecordHeader,
    RecordKind, SHIELD_LANE, evidence_check,
};
use crate::order::ordered::{Durable, Hook, InFlight};
use crate::ports::error::MediumError;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::space::ring::Ring;
use crate::space::stored::{Stored, Wear};
use crate::units::{BlockNumber, Offset, Sequence, Stamp};

crate::sites! {
    pub(crate) mod site {
        IMAGE: Write = "shield.image";
        FRONT: Write = "shield.front";
        FENCE: Fence = "shield.fence";
        FOUND: Flush = "shield.found";
    }
}

/// The shield area.
#[derive(Debug)]
pub(crate) struct Shield<P, H> {
    area: Ring<P, H>,
    /// The number of the next batch.
    pub(crate) next_batch: u64,
    pub(crate) stored: Stored,
    pub(crate) wear: Wear,
}

/// An intent under construction: its images are stored one by one, its front at the end.
#[derive(Debug)]
pub(crate) struct Intent {
    blocks: usize,
    front: usize,
    stored: usize,
    in_flight: Option<InFlight>,
}

impl<P: Pmem, H: Hook> Shield<P, H> {
    pub(crate) const fn new(area: Ring<P, H>, next_batch: u64) -> Self {
        let wear = Wear::of(area.bytes());
        Self { area, next_batch, stored: Stored::NOTHING, wear }
    }

    /// Begins the intent of a batch of `blocks` blocks.
    pub(crate) fn begin(&self, geometry: &Geometry, blocks: usize) -> Intent {
        debug_assert!(blocks <= geometry.shield_blocks as usize, "the batch fits the area");
        let stamps = blocks.saturating_mul(size_of::<u64>());
        let front = extent(geometry, 0, blocks, stamps, blocks).map_or(0, |extent| extent.front);
        Intent { blocks, front, stored: 0, in_flight: None }
    }

    /// Stores the next image of the intent, and notes it in `front`.
    pub(crate) fn add(
        &mut self,
        intent: &mut Intent,
        front: &mut [u8],
        block: BlockNumber,
        stamp: Stamp,
        image: &[u8],
    ) {
        if intent.stored == 0 {
            front.fill(0);
        }
        let frame = FrameHeader {
            block: block.raw().into(),
            len: u32::try_from(image.len()).unwrap_or(u32::MAX).into(),
            form: Form::Image as u8,
            reserved: [0; 3],
        };
        let frame_at = intent.stored.saturating_mul(FRAME_BYTES).saturating_add(HEADER_BYTES);
        put(front, frame_at, frame.as_bytes());
        let stamps_at = intent.blocks.saturating_mul(FRAME_BYTES).saturating_add(HEADER_BYTES);
        let stamp_at = intent.stored.saturating_mul(size_of::<u64>()).saturating_add(stamps_at);
        put(front, stamp_at, &stamp.raw().to_le_bytes());
        let before = intent.stored.saturating_mul(image.len());
        let at = intent.front.saturating_add(before) as u64;
        self.stored.add(Offset(at), image.len());
        self.wear.add(Offset(at), image.len());
        let stored = self.area.write(site::IMAGE, at, image);
        intent.in_flight = Some(match intent.in_flight.take() {
            Some(in_flight) => in_flight.and(stored),
            None => stored,
        });
        intent.stored = intent.stored.saturating_add(1);
    }

    /// Stores the front and fences. From then on the batch may go home.
    pub(crate) fn finish(
        &mut self,
        intent: Intent,
        front: &mut [u8],
        geometry: &Geometry,
        identity: &Identity,
        kernels: &impl Kernels,
    ) -> Result<Durable<u64>, MediumError> {
        let number = self.next_batch;
        let images = intent.blocks.saturating_mul(geometry.block_size.bytes());
        let total = intent.front.saturating_add(images) as u64;
        let extent = Extent { front: intent.front, total };
        let header = RecordHeader::of(&HeaderFields {
            kind: RecordKind::Intent,
            part: 0,
            is_last: true,
            is_noted: false,
            lines: extent.lines(),
            frames: intent.blocks,
            names: 0,
            lane: SHIELD_LANE,
            position: 0,
            sequence: Sequence(number),
            durable_to: Sequence(0),
            stamp: Stamp(0),
            identity,
        });
        put(front, 0, header.as_bytes());
        let evidence = front.get(..HEADER_BYTES).unwrap_or_default();
        let check = evidence_check(kernels, identity.seeds.record, evidence);
        put(front, 0, &check.to_le_bytes());
        let (first, second) = self.area.slices(intent.front as u64, images)?;
        let mut check = kernels.crc64(kernels.crc64(identity.seeds.record, first), second);
        let body = intent.front.saturating_sub(CHECK_BYTES);
        check = kernels.crc64(check, front.get(..body).unwrap_or_default());
        put(front, body, &check.to_le_bytes());
        let front = front.get(..intent.front).unwrap_or_default();
        self.stored.add(Offset(0), front.len());
        self.wear.add(Offset(0), front.len());
        let stored = self.area.write(site::FRONT, 0, front);
        let in_flight = match intent.in_flight {
            Some(images) => images.and(stored),
            None => stored,
        };
        self.next_batch = number.saturating_add(1);
        self.area.region.fence(site::FENCE, in_flight.carrying(number))
    }

    /// The area, to look for an intent in it.
    pub(crate) const fn area(&self) -> &Ring<P, H> {
        &self.area
    }

    /// Flushes an intent that was found, so that a fence makes it durable.
    pub(crate) fn flush_found(&mut self, header: &RecordHeader) -> InFlight {
        self.area.flush_found(site::FOUND, 0, header.total_bytes())
    }

    /// The blocks of a loaded intent's front, with the stamps and offsets of their images.
    pub(crate) fn images<'f>(
        geometry: &Geometry,
        front: &'f [u8],
    ) -> impl Iterator<Item = (BlockNumber, Stamp, u64)> + use<'f, P, H> {
        let parsed = Front::parse(geometry, front);
        let images = parsed.map(|front| {
            let stamps = front.copied_stamps().map(Stamp);
            front.frames(geometry).zip(stamps)
        });
        let images = images.into_iter().flatten();
        images.map(|(frame, stamp)| (frame.block, stamp, frame.offset))
    }

    /// Copies an image out of the area.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<(), MediumError> {
        self.area.read(at, into)
    }
}

fn put(front: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = front.get_mut(at..at.saturating_add(bytes.len())) {
        to.copy_from_slice(bytes);
    }
}
