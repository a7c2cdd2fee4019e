//! Formatting a span.

use crate::format::geometry::Geometry;
use crate::order::ordered::{Hook, Ordered};
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::Policy;
use crate::scan::error::OpenError;
use crate::space::superblocks::{Superblock, Superblocks};
use crate::space::{slots, superblocks};
use crate::units::Offset;

/// Formats a span: an empty journal of this geometry, for a store of `device_blocks` blocks. Where
/// the geometry has a disk-side log, the device has the blocks of the log in addition.
///
/// 1. Whatever journal is there is made void, and its superblock copies are forgotten.
/// 2. The entries of slots are voided, and the second superblock copy is written.
/// 3. The first copy makes the new journal count.
///
/// Each step is durable before the next one begins.
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
    geometry.check_fits(pmem.len()).map_err(OpenError::Geometry)?;
    let empty = Superblock::new(geometry, id, policy.id(), device_blocks);
    let mut whole = Ordered::with_hook(pmem, hook);
    superblocks::void_all(&mut whole)?;
    slots::void_all(&mut whole, geometry)?;
    let offsets = [geometry.second_superblock(), Offset(0)];
    let _ = Superblocks::new(whole, offsets).store(&empty, kernels)?;
    Ok(())
}
