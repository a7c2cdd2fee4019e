//! A program with no std, no allocator and no operating system that uses the core's public API.
//!
//! It is built as a static library, which is the last step of a build that has no `main`: the
//! compiler refuses it as soon as anything below asks for an allocator. `check` builds it, builds
//! it again in two ways that have to be noticed, and looks at what ended up in the library.

#![no_std]
#![forbid(unsafe_code)]

mod media;
mod sketch;

use core::hint::black_box;

use journal_core::policy::{Change, Encoder, Patch, Placement, Update};
use journal_core::units::Sequence;
use journal_core::{
    BlockNumber, DeviceError, Durable, Hook, MediumError, Offset, Ordered, OrderedDevice, Policy,
    check, sites,
};

use media::{BLOCK_BYTES, Disk, Memory};
use sketch::Sketch;

sites! {
    /// The steps of the sketched transaction. The names must not reach a release build.
    mod site {
        RECORD: Store = "probe.record";
        RECORD_FLUSH: Flush = "probe.record-flush";
        BODY: Stream = "probe.body";
        HEADER: Write = "probe.header";
        COMMIT: Fence = "probe.commit";
        HOME: DiskWrite = "probe.home";
        HOME_SYNC: DiskSync = "probe.home-sync";
    }
}

/// What the sketch can fail with.
enum Failure {
    Medium(MediumError),
    Device(DeviceError),
    Policy,
}

impl From<MediumError> for Failure {
    fn from(error: MediumError) -> Self {
        Self::Medium(error)
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// One update through all three ports, ordered by the types.
fn transaction<H: Hook>(
    lane: &mut Ordered<&mut Memory, H>,
    disk: &mut OrderedDevice<&mut Disk, H>,
) -> Result<Durable<Sequence>, Failure> {
    let old = [1; BLOCK_BYTES];
    let patches = [Patch { at: 8, bytes: b"changed" }];
    let mut update = Update::new(BlockNumber(1), Change::Patches(&patches));
    update.old = Some(&old);

    let mut room = [0; 64];
    let mut out = Encoder::new(&mut room);
    let Placement::Encoded = Sketch.place(&update, &mut out) else { return Err(Failure::Policy) };

    let sum = check::crc32(0, out.as_bytes());
    let stored = lane.store(site::RECORD, Offset(0), out.as_bytes());
    let stored = stored.and(lane.store_u64(site::RECORD, Offset(64), u64::from(sum)));
    let record = lane.flush(site::RECORD_FLUSH, stored);
    let body = lane.stream(site::BODY, Offset(128), &old);
    let header = lane.write(site::HEADER, Offset(256), &sum.to_le_bytes());
    let all = record.carrying(Sequence(1)).and(body).and(header);
    let durable = lane.fence(site::COMMIT, all)?;

    let mut new = old;
    Sketch.apply(lane.bytes(Offset(0), out.as_bytes().len())?, &mut new).map_err(drop_error)?;
    let home = disk.write(site::HOME, BlockNumber(1), &[&new])?;
    let _: Durable = disk.sync(site::HOME_SYNC, home)?;
    Ok(durable)
}

fn drop_error(_: journal_core::policy::ApplyError) -> Failure {
    Failure::Policy
}

fn run_with<H: Hook + Copy>(hook: H) -> u64 {
    let (mut memory, mut blocks) = (Memory::blank(), Disk::blank());
    let mut lane = Ordered::with_hook(black_box(&mut memory), hook);
    let mut disk = OrderedDevice::with_hook(black_box(&mut blocks), hook);
    match transaction(&mut lane, &mut disk) {
        Ok(durable) => durable.into_inner().raw(),
        Err(Failure::Policy) => 0,
        Err(Failure::Medium(error)) => error.at.raw(),
        Err(Failure::Device(error)) => error.block.raw(),
    }
}

fn run() -> u64 {
    #[cfg(not(feature = "keeps-site-names"))]
    let hook = journal_core::NoHook;
    #[cfg(feature = "keeps-site-names")]
    let hook = names::KeepsNames;
    black_box(run_with(hook))
}

/// Keeps `run` in the library without an exported symbol, which would need an unsafe attribute.
#[used]
static RUN: fn() -> u64 = run;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// A hook that looks at its sites: what a build with a real hook contains.
#[cfg(feature = "keeps-site-names")]
mod names {
    use core::hint::black_box;

    use journal_core::{
        BlockDevice, BlockNumber, DeviceError, Hook, MediumError, Offset, Pmem, Site,
    };

    #[derive(Clone, Copy)]
    pub(crate) struct KeepsNames;

    impl Hook for KeepsNames {
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

        fn write<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
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

        fn disk_sync<D: BlockDevice>(
            &mut self,
            site: Site,
            device: &mut D,
        ) -> Result<(), DeviceError> {
            black_box(site.name);
            device.sync()
        }
    }
}

/// What the probe has to notice: an allocation, with nobody there to serve it.
#[cfg(feature = "needs-an-allocator")]
mod allocates {
    extern crate alloc;

    fn allocate() -> usize {
        core::hint::black_box(alloc::boxed::Box::new([1_u8; 64])).len()
    }

    #[used]
    static ALLOCATE: fn() -> usize = allocate;
}
