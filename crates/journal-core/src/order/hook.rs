//! Where tests reach into the order of persistence, at no cost to everybody else.
//!
//! Every store, flush, fence, disk write and sync of the core goes through a [`Hook`] and names its
//! [`Site`]. The default hook, [`NoHook`], is zero-sized and passes every call on. `sim-disk` has a
//! hook that counts sites and can make any of them misbehave (a *mutant*). The tests then have to
//! notice.
//!
//! A function that takes a site or a rule and hands it on is `#[inline]`, here and elsewhere in the
//! crate. The aim is not to inline it at any price, but to compile it where it is used. With
//! `NoHook` the compiler then sees that nobody looks at the site, and drops it. The no-alloc probe
//! looks for names of sites in what it builds.

use crate::order::rule::Rule;
use crate::order::site::Site;
use crate::ports::block_device::BlockDevice;
use crate::ports::error::{DeviceError, MediumError};
use crate::ports::pmem::Pmem;
use crate::ports::stitched::{Seeds, Stitched};
use crate::units::{BlockNumber, Offset};

/// Receives every ordered call together with the medium it is meant for.
///
/// The default methods pass the call on unchanged. An implementation may count, delay or drop it;
/// only tests do.
pub trait Hook {
    /// Whether the protocol keeps to a rule. It does, but in a test that wants to see what happens
    /// when it does not.
    #[inline]
    fn keeps(&self, _rule: Rule) -> bool {
        true
    }

    /// At a [`SiteKind::Store`](crate::order::site::SiteKind::Store) site.
    #[inline]
    fn store<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        pmem.store(at, bytes);
    }

    /// At a [`SiteKind::Store`](crate::order::site::SiteKind::Store) site that stores one word.
    #[inline]
    fn store_u64<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, value: u64) {
        pmem.store_u64(at, value);
    }

    /// At a [`SiteKind::Flush`](crate::order::site::SiteKind::Flush) site.
    #[inline]
    fn flush<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, len: usize) {
        pmem.flush(at, len);
    }

    /// At a [`SiteKind::Stream`](crate::order::site::SiteKind::Stream) site.
    #[inline]
    fn stream<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        pmem.stream(at, bytes);
    }

    /// At a [`SiteKind::Write`](crate::order::site::SiteKind::Write) site.
    #[inline]
    fn write<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.write_piece(site, pmem, at, bytes, bytes.len() as u64);
    }

    /// Every write comes by here: [`write`](Self::write) passes on a piece that is the whole.
    ///
    /// At a [`SiteKind::Write`](crate::order::site::SiteKind::Write) site, for a piece of
    /// `whole_bytes` that go out before one fence: a short piece goes the way of the whole. Storing
    /// it would first read its lines from the medium, behind everything that is on its way there.
    #[inline]
    fn write_piece<P: Pmem>(
        &mut self,
        _site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        whole_bytes: u64,
    ) {
        if whole_bytes < pmem.facts().stream_from_bytes as u64 {
            store_and_flush(pmem, at, bytes);
        } else {
            pmem.stream(at, bytes);
        }
    }

    /// Whether it may be given pieces to put together ([`write_checked`](Self::write_checked)). By
    /// default it is given what was copied together, as one piece.
    #[inline]
    fn stitches(&self) -> bool {
        false
    }

    /// As [`write_piece`](Self::write_piece), of a whole that is put together from pieces, with its
    /// checks; returns that of all. By default each line is a piece of it.
    fn write_checked<P: Pmem>(
        &mut self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        stitched: &Stitched<'_>,
        seeds: Seeds,
    ) -> u64 {
        stitched.each_checked_line(seeds, |offset, line| {
            let at = Offset(at.raw().saturating_add(offset as u64));
            self.write_piece(site, pmem, at, line, stitched.bytes() as u64);
        })
    }

    /// At a [`SiteKind::Fence`](crate::order::site::SiteKind::Fence) site.
    ///
    /// # Errors
    /// The medium's.
    #[inline(always)]
    fn fence<P: Pmem>(&mut self, _site: Site, pmem: &mut P) -> Result<(), MediumError> {
        pmem.fence()
    }

    /// At a [`SiteKind::DiskWrite`](crate::order::site::SiteKind::DiskWrite) site.
    ///
    /// # Errors
    /// The device's.
    #[inline]
    fn disk_write<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        device.write_vectored(first, from)
    }

    /// At a [`SiteKind::DiskSync`](crate::order::site::SiteKind::DiskSync) site.
    ///
    /// # Errors
    /// The device's.
    #[inline]
    fn disk_sync<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
    ) -> Result<(), DeviceError> {
        device.sync()
    }
}

/// The hook that does nothing; what every program but a test uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoHook;

impl Hook for NoHook {
    #[inline]
    fn stitches(&self) -> bool {
        true
    }

    #[inline(always)]
    fn write_checked<P: Pmem>(
        &mut self,
        _site: Site,
        pmem: &mut P,
        at: Offset,
        stitched: &Stitched<'_>,
        seeds: Seeds,
    ) -> u64 {
        pmem.stream_checked(at, stitched, seeds)
    }
}

/// C2: it needs registers that had to be saved, and streaming does not.
#[inline(never)]
fn store_and_flush<P: Pmem>(pmem: &mut P, at: Offset, bytes: &[u8]) {
    pmem.store(at, bytes);
    pmem.flush(at, bytes.len());
}
