//! Whether a smaller device lacks a block that a journal speaks of, before the open begins.
//!
//! **Crash**: nothing is written.

use crate::home::shield::Shield;
use crate::index::frame::Full;
use crate::open::found::Found;
use crate::order::ordered::Hook;
use crate::order::source::SpanView;
use crate::ports::block_device::BlockDevice;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::scan::error::OpenError;
use crate::scan::reader::{IndexError, Reader};
use crate::scan::{intent, lanes};
use crate::space::part::{front_bytes_max, record_front_bytes_max};
use crate::space::ring::RingOf;
use crate::units::LaneNumber;

impl<P: Pmem, H: Hook + Clone> Found<P, H> {
    /// Checks that a smaller device has every block that the records and the shield speak of. An
    /// open finds the same out, but only after it has taken the span apart.
    ///
    /// It reads the lanes once, where the device is smaller, and nothing otherwise. `front` is as
    /// long as [`Needs::front_bytes`](crate::Needs::front_bytes) says.
    ///
    /// # Errors
    /// `WrongDevice` where the device lacks a block; `Medium`, `MemoryTooShort`.
    pub fn cuts_nothing(
        &self,
        device: &impl BlockDevice,
        kernels: &impl Kernels,
        front: &mut [u8],
    ) -> Result<(), OpenError> {
        let Self { whole, superblock, geometry, identity, .. } = self;
        let (of_store, given) = (superblock.header.device_blocks.get(), device.block_count());
        if given >= of_store {
            return Ok(());
        }
        let lacks = OpenError::WrongDevice {
            found: (geometry.block_size, of_store),
            given: (device.block_size(), given),
        };
        let (front_bytes, needed) = (front.len(), front_bytes_max(geometry));
        let Some(front) = front.get_mut(..needed) else {
            return Err(OpenError::MemoryTooShort {
                slice: "front bytes",
                given: front_bytes,
                needed,
            });
        };
        // 1. The records of each lane.
        let whole = SpanView::of(whole);
        let all = (0..geometry.lanes).map(LaneNumber);
        let (records, _) = front.split_at_mut(record_front_bytes_max(geometry));
        let scanned =
            lanes::scan_lanes(&whole, superblock, geometry, identity, all, kernels, records)?;
        for (number, (start, walked)) in (0..geometry.lanes).zip(scanned.lanes()) {
            let lane = LaneNumber(number);
            let ring = RingOf::new(whole.part(geometry.lane(lane), geometry.lane_bytes));
            let (ring, scratch) = (&ring, &mut *records);
            let mut reader =
                Reader { ring, lane, geometry, identity, kernels, scratch, all: None, lap: 0 };
            let mut at = start.head;
            while at < walked.tail {
                let is_there = |block: u64| if block < given { Ok(()) } else { Err(Full) };
                match reader.each_frame(at, &mut |frame| is_there(frame.block.raw())) {
                    Ok(next) => at = next,
                    Err(IndexError::Full) => return Err(lacks),
                    Err(IndexError::Medium(error)) => {
                        return Err(OpenError::Medium(error.of_whole(geometry.lane(lane))));
                    }
                }
            }
        }
        // 2. The images in the shield.
        if geometry.shield_blocks == 0 {
            return Ok(());
        }
        let area = RingOf::new(whole.part(geometry.shield(), geometry.shield_bytes()));
        let found = intent::load(&area, geometry, identity, of_store, kernels, front)?;
        let found = found.and_then(|(_, len)| front.get(..len)).unwrap_or_default();
        let mut images = Shield::<P, H>::images(geometry, found);
        if images.any(|(block, ..)| block.raw() >= given) { Err(lacks) } else { Ok(()) }
    }
}
