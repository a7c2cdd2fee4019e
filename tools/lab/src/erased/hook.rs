//! Any hook, as one type.

use core::fmt;

use journal_core::hook::{Hook, Rule, Site};
use journal_core::{
    BlockDevice, BlockNumber, DeviceError, MediumError, NoHook, Offset, Pmem, Seeds, Stitched,
};

/// The calls of a [`Hook`], on any memory and any device.
trait Steps: Send + Sync {
    fn cloned(&self) -> Box<dyn Steps>;
    fn keeps(&self, rule: Rule) -> bool;
    fn store(&mut self, site: Site, pmem: &mut dyn Pmem, at: Offset, bytes: &[u8]);
    fn store_u64(&mut self, site: Site, pmem: &mut dyn Pmem, at: Offset, value: u64);
    fn flush(&mut self, site: Site, pmem: &mut dyn Pmem, at: Offset, len: usize);
    fn stream(&mut self, site: Site, pmem: &mut dyn Pmem, at: Offset, bytes: &[u8]);
    fn write(&mut self, site: Site, pmem: &mut dyn Pmem, at: Offset, bytes: &[u8]);
    fn write_piece(
        &mut self,
        site: Site,
        pmem: &mut dyn Pmem,
        at: Offset,
        bytes: &[u8],
        whole_bytes: u64,
    );
    fn stitches(&self) -> bool;
    fn write_checked(
        &mut self,
        site: Site,
        pmem: &mut dyn Pmem,
        at: Offset,
        stitched: &Stitched<'_>,
        seeds: Seeds,
    ) -> u64;
    fn fence(&mut self, site: Site, pmem: &mut dyn Pmem) -> Result<(), MediumError>;
    fn disk_write(
        &mut self,
        site: Site,
        device: &mut dyn BlockDevice,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError>;
    fn disk_sync(&mut self, site: Site, device: &mut dyn BlockDevice) -> Result<(), DeviceError>;
}

impl<H: Hook + Clone + Send + Sync + 'static> Steps for H {
    fn cloned(&self) -> Box<dyn Steps> {
        Box::new(self.clone())
    }

    fn keeps(&self, rule: Rule) -> bool {
        Hook::keeps(self, rule)
    }

    fn store(&mut self, site: Site, mut pmem: &mut dyn Pmem, at: Offset, bytes: &[u8]) {
        Hook::store(self, site, &mut pmem, at, bytes);
    }

    fn store_u64(&mut self, site: Site, mut pmem: &mut dyn Pmem, at: Offset, value: u64) {
        Hook::store_u64(self, site, &mut pmem, at, value);
    }

    fn flush(&mut self, site: Site, mut pmem: &mut dyn Pmem, at: Offset, len: usize) {
        Hook::flush(self, site, &mut pmem, at, len);
    }

    fn stream(&mut self, site: Site, mut pmem: &mut dyn Pmem, at: Offset, bytes: &[u8]) {
        Hook::stream(self, site, &mut pmem, at, bytes);
    }

    fn write(&mut self, site: Site, mut pmem: &mut dyn Pmem, at: Offset, bytes: &[u8]) {
        Hook::write(self, site, &mut pmem, at, bytes);
    }

    fn write_piece(
        &mut self,
        site: Site,
        mut pmem: &mut dyn Pmem,
        at: Offset,
        bytes: &[u8],
        whole_bytes: u64,
    ) {
        Hook::write_piece(self, site, &mut pmem, at, bytes, whole_bytes);
    }

    fn stitches(&self) -> bool {
        Hook::stitches(self)
    }

    fn write_checked(
        &mut self,
        site: Site,
        mut pmem: &mut dyn Pmem,
        at: Offset,
        stitched: &Stitched<'_>,
        seeds: Seeds,
    ) -> u64 {
        Hook::write_checked(self, site, &mut pmem, at, stitched, seeds)
    }

    fn fence(&mut self, site: Site, mut pmem: &mut dyn Pmem) -> Result<(), MediumError> {
        Hook::fence(self, site, &mut pmem)
    }

    fn disk_write(
        &mut self,
        site: Site,
        mut device: &mut dyn BlockDevice,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        Hook::disk_write(self, site, &mut device, first, from)
    }

    fn disk_sync(
        &mut self,
        site: Site,
        mut device: &mut dyn BlockDevice,
    ) -> Result<(), DeviceError> {
        Hook::disk_sync(self, site, &mut device)
    }
}

/// A hook behind a pointer. A clone of it holds a clone of that hook.
pub struct DynHook(Box<dyn Steps>);

impl DynHook {
    pub fn new(hook: impl Hook + Clone + Send + Sync + 'static) -> Self {
        Self(Box::new(hook))
    }
}

impl Default for DynHook {
    fn default() -> Self {
        Self::new(NoHook)
    }
}

impl Clone for DynHook {
    fn clone(&self) -> Self {
        Self(self.0.cloned())
    }
}

impl fmt::Debug for DynHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DynHook")
    }
}

impl Hook for DynHook {
    fn keeps(&self, rule: Rule) -> bool {
        self.0.keeps(rule)
    }

    fn store<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.0.store(site, pmem, at, bytes);
    }

    fn store_u64<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, value: u64) {
        self.0.store_u64(site, pmem, at, value);
    }

    fn flush<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, len: usize) {
        self.0.flush(site, pmem, at, len);
    }

    fn stream<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.0.stream(site, pmem, at, bytes);
    }

    fn write<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.0.write(site, pmem, at, bytes);
    }

    fn write_piece<P: Pmem>(
        &mut self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        whole_bytes: u64,
    ) {
        self.0.write_piece(site, pmem, at, bytes, whole_bytes);
    }

    fn stitches(&self) -> bool {
        self.0.stitches()
    }

    fn write_checked<P: Pmem>(
        &mut self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        stitched: &Stitched<'_>,
        seeds: Seeds,
    ) -> u64 {
        self.0.write_checked(site, pmem, at, stitched, seeds)
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        self.0.fence(site, pmem)
    }

    fn disk_write<D: BlockDevice>(
        &mut self,
        site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        self.0.disk_write(site, device, first, from)
    }

    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        self.0.disk_sync(site, device)
    }
}
