//! A hook that looks at its sites and rules: what a build with a real hook contains.

use core::hint::black_box;

use journal_core::{
    BlockDevice, BlockNumber, DeviceError, Hook, MediumError, Offset, Pmem, Rule, Site,
};

#[derive(Clone, Copy)]
pub(crate) struct KeepsNames;

impl Hook for KeepsNames {
    #[inline(never)]
    fn keeps(&self, rule: Rule) -> bool {
        black_box(rule);
        true
    }

    fn store<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        black_box(site.name);
        pmem.store(at, bytes);
    }

    fn store_u64<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, value: u64) {
        black_box(site.name);
        pmem.store_u64(at, value);
    }

    fn flush<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, len: usize) {
        black_box(site.name);
        pmem.flush(at, len);
    }

    fn stream<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        black_box(site.name);
        pmem.stream(at, bytes);
    }

    fn write_piece<P: Pmem>(
        &mut self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        _whole_bytes: u64,
    ) {
        black_box(site.name);
        pmem.stream(at, bytes);
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        black_box(site.name);
        pmem.fence()
    }

    fn disk_write<D: BlockDevice>(
        &mut self,
        site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        black_box(site.name);
        device.write_vectored(first, from)
    }

    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        black_box(site.name);
        device.sync()
    }
}
