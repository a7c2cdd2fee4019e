//! The intent that a shield area holds.

use crate::format::geometry::Geometry;
use crate::format::identity::Identity;
use crate::format::record::{RecordHeader, RecordKind, SHIELD_LANE};
use crate::order::source::Source;
use crate::ports::error::MediumError;
use crate::ports::kernels::Kernels;
use crate::scan::reader::{PartBounds, Reader};
use crate::space::ring::RingOf;

/// The intent in a shield area, if there is a whole one: its header, and how long its front is,
/// which is left in `scratch`.
pub(crate) fn load(
    area: &RingOf<impl Source>,
    geometry: &Geometry,
    identity: &Identity,
    device_blocks: u64,
    kernels: &impl Kernels,
    scratch: &mut [u8],
) -> Result<Option<(RecordHeader, usize)>, MediumError> {
    let lane = SHIELD_LANE;
    let mut reader =
        Reader { ring: area, lane, geometry, identity, kernels, scratch, all: None, lap: 0 };
    let bounds = PartBounds { end: area.bytes(), device_blocks };
    let Some(part) = reader.part(0, identity.seeds.record, bounds)? else { return Ok(None) };
    let header = *part.header;
    if header.record_kind() != Some(RecordKind::Intent) {
        return Ok(None);
    }
    Ok(reader.copy_front(0)?.map(|front| (header, front)))
}
