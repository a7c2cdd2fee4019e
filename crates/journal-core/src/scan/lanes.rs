//! Scanning the lanes of a journal that is being opened or examined: all of them by one thread, or
//! some of them by each of several.

use core::marker::PhantomData;

use crate::format::geometry::{Geometry, GeometryError, Protocol};
use crate::format::identity::Identity;
use crate::order::hook::Hook;
use crate::order::ordered::Ordered;
use crate::order::source::{Source, SpanView};
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::scan::error::OpenError;
use crate::scan::reader::Reader;
use crate::scan::verdict::Scanned;
use crate::space::part::record_front_bytes_max;
use crate::space::ring::RingOf;
use crate::space::superblocks::Superblock;
use crate::space::tail_word;
use crate::units::{LINE_BYTES, LaneNumber, Offset};

/// A journal that was found in a span, and whose lanes nobody has scanned yet.
///
/// Scanning takes nearly all of the time of an open after a crash. No lane's scan depends on
/// another's, and nothing is written: threads may share this.
#[derive(Debug)]
pub struct Unscanned<'a, P, H> {
    pub(crate) whole: &'a Ordered<P, H>,
    pub(crate) superblock: &'a Superblock,
    pub(crate) geometry: &'a Geometry,
    pub(crate) identity: &'a Identity,
    pub(crate) brand: Brand<'a>,
}

/// Neither longer nor shorter: what is scanned of one journal opens no other.
pub(crate) type Brand<'a> = PhantomData<fn(&'a ()) -> &'a ()>;

/// What scanning some lanes, or all, has found.
///
/// It opens the journal that was scanned, at that time:
///
/// ```compile_fail
/// use journal_core::parts::{Found, Indexes, OpenMemory, Scan};
/// use journal_core::{BlockDevice, Hook, Kernels, PmemSplit, Policy};
///
/// fn open<P: PmemSplit, H: Hook + Clone>(
///     found: Found<P, H>,
///     of_another: Scan<'_>,
///     (device, policy, kernels): (impl BlockDevice, impl Policy, impl Kernels),
///     (memory, indexes): (OpenMemory<'_, P, H>, &mut impl Indexes),
/// ) {
///     let _ = found.open_by(device, policy, kernels, memory, indexes, |_, _, _| Ok(of_another));
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a journal opens by the scans of all its lanes"]
pub struct Scan<'a>(pub(crate) Scanned, pub(crate) Brand<'a>);

/// How scanning ends.
pub type Scanning<'a> = Result<Scan<'a>, OpenError>;

impl Scan<'_> {
    /// Joins two scans: the result has the lanes of each.
    pub fn and(mut self, more: Self) -> Self {
        self.0.join(&more.0);
        self
    }
}

impl<'a, P: Pmem, H: Hook> Unscanned<'a, P, H> {
    /// The shape of the journal.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        self.geometry
    }

    /// Every lane.
    pub fn lanes(&self) -> impl Iterator<Item = LaneNumber> + use<P, H> {
        (0..self.geometry.lanes).map(LaneNumber)
    }

    /// Scans some of the lanes, in their order. `front` is as long as
    /// [`Needs::front_bytes`](crate::Needs::front_bytes) says; its content does not matter.
    ///
    /// # Errors
    /// `Medium`; `MemoryTooShort`.
    ///
    /// # Panics
    /// There is no such lane.
    pub fn scan(
        &self,
        lanes: impl IntoIterator<Item = LaneNumber>,
        kernels: &impl Kernels,
        front: &mut [u8],
    ) -> Scanning<'a> {
        let Self { whole, superblock, geometry, identity, brand } = *self;
        // Which records are whole must not depend on how much memory there is.
        let Some(front) = front.get_mut(..record_front_bytes_max(geometry)) else {
            return Err(OpenError::MemoryTooShort { slice: "front" });
        };
        let lanes = lanes.into_iter().inspect(|lane| {
            assert!(lane.raw() < geometry.lanes, "there is no {lane}");
        });
        let whole = SpanView::of(whole);
        let scanned = scan(&whole, superblock, geometry, identity, lanes, kernels, front)?;
        Ok(Scan(scanned, brand))
    }
}

/// Scans some lanes of a journal.
pub(crate) fn scan(
    whole: &SpanView<'_, impl Source>,
    superblock: &Superblock,
    geometry: &Geometry,
    identity: &Identity,
    lanes: impl IntoIterator<Item = LaneNumber>,
    kernels: &impl Kernels,
    scratch: &mut [u8],
) -> Result<Scanned, OpenError> {
    let device_blocks = superblock.header.device_blocks.get();
    let mut scanned = Scanned::of(superblock, geometry);
    for lane in lanes {
        let word_at = Offset(geometry.tails().raw().saturating_add(tail_word::place(lane.raw())));
        let tail_word = match geometry.protocol {
            Protocol::OneFence => None,
            Protocol::TailPointer => {
                Some(tail_word::read(&whole.part(word_at, LINE_BYTES as u64))?)
            }
        };
        let ring = RingOf::new(whole.part(geometry.lane(lane), geometry.lane_bytes));
        let scratch = &mut *scratch;
        let mut reader =
            Reader { ring: &ring, lane, geometry, identity, kernels, scratch, all: None, lap: 0 };
        scanned.walk(&mut reader, tail_word, device_blocks)?;
    }
    Ok(scanned)
}

pub(crate) fn check_fits(geometry: &Geometry, available: u64) -> Result<(), OpenError> {
    geometry.check().map_err(OpenError::Geometry)?;
    let needed = geometry.span_bytes().ok_or(OpenError::Geometry(GeometryError::Overflow))?;
    if needed > available {
        return Err(OpenError::Geometry(GeometryError::SpanTooSmall { needed, available }));
    }
    Ok(())
}
