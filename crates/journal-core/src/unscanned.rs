//! Scanning the lanes of a journal that is being opened or examined: all of them by one thread, or
//! some of them by each of several.

use crate::check::Kernels;
use crate::common::Identity;
use crate::errors::OpenError;
use crate::geometry::{Geometry, Protocol};
use crate::hook::Hook;
use crate::order::Ordered;
use crate::pmem::Pmem;
use crate::ring::{RingOf, Source, View};
use crate::scan::Reader;
use crate::superblock::Superblock;
use crate::tail;
use crate::units::{LINE_BYTES, LaneNumber, Offset};
use crate::verdict::Scanned;

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
}

/// What scanning some lanes, or all, has found.
#[derive(Clone, Debug)]
#[must_use = "a journal opens by the scans of all its lanes"]
pub struct Scan(pub(crate) Scanned);

impl Scan {
    /// Both.
    pub fn and(mut self, more: Self) -> Self {
        self.0.join(&more.0);
        self
    }
}

impl<P: Pmem, H: Hook> Unscanned<'_, P, H> {
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
    /// `Medium`.
    pub fn scan(
        &self,
        lanes: impl IntoIterator<Item = LaneNumber>,
        kernels: &impl Kernels,
        front: &mut [u8],
    ) -> Result<Scan, OpenError> {
        let Self { whole, superblock, geometry, identity } = *self;
        let whole = View::of(whole);
        scan(&whole, superblock, geometry, identity, lanes, kernels, front).map(Scan)
    }
}

/// Scans some lanes of a journal.
pub(crate) fn scan(
    whole: &View<'_, impl Source>,
    superblock: &Superblock,
    geometry: &Geometry,
    identity: &Identity,
    lanes: impl IntoIterator<Item = LaneNumber>,
    kernels: &impl Kernels,
    scratch: &mut [u8],
) -> Result<Scanned, OpenError> {
    let device_blocks = superblock.head.device_blocks.get();
    let mut scanned = Scanned::of(superblock, geometry);
    for lane in lanes {
        let word_at = Offset(geometry.tails().raw().saturating_add(tail::place(lane.raw())));
        let tail_word = match geometry.protocol {
            Protocol::OneFence => None,
            Protocol::TailPointer => Some(tail::read(&whole.part(word_at, LINE_BYTES as u64))?),
        };
        let ring = RingOf::new(whole.part(geometry.lane(lane), geometry.lane_bytes));
        let mut reader =
            Reader { ring: &ring, lane, geometry, identity, kernels, scratch: &mut *scratch };
        scanned.walk(&mut reader, tail_word, device_blocks)?;
    }
    Ok(scanned)
}
