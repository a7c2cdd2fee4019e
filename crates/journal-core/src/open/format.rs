//! Formatting a span.

use crate::format::geometry::Geometry;
use crate::order::hook::Hook;
use crate::order::ordered::{InFlight, Ordered};
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::Policy;
use crate::scan::error::OpenError;
use crate::scan::lanes::check_fits;
use crate::space::superblocks::{Superblock, Superblocks};
use crate::space::{slots, superblocks};
use crate::units::Offset;

/// Formats a span: an empty journal of this geometry, for a store of so many blocks. Where the
/// geometry has a disk-side log, the device has that many blocks more.
///
/// 1. Whatever journal is there is made void, durably.
/// 2. The new one is built, and its second superblock copy.
/// 3. The first copy makes it count.
///
/// Until it has returned, a crash leaves the journal that was there before, no journal at all
/// ([`Unfinished`](crate::superblock::SuperblockError::Unfinished)), or the new one. Unless the new
/// one is there, format again.
///
/// `id` must be new (random): it keeps records of an earlier journal in the same span from being
/// believed.
///
/// # Errors
/// `Geometry`, with the span untouched, or `Medium`.
pub fn format<P: Pmem, H: Hook>(
    pmem: P,
    hook: H,
    kernels: &impl Kernels,
    geometry: &Geometry,
    id: [u8; 16],
    policy: &impl Policy,
    device_blocks: u64,
) -> Result<(), OpenError> {
    check_fits(geometry, pmem.len())?;
    let empty = Superblock::new(geometry, id, policy.id(), device_blocks);
    let mut whole = Ordered::with_hook(pmem, hook);
    let mut in_flight = Some(superblocks::void_all(&mut whole)?);
    if let Some(voided) = slots::void_all(&mut whole, geometry) {
        InFlight::join(&mut in_flight, voided);
    }
    let places = [geometry.second_superblock(), Offset(0)];
    let _ = Superblocks::new(whole, places).store_behind(in_flight, &empty, kernels)?;
    Ok(())
}
