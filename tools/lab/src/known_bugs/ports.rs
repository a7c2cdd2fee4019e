//! Ports that keep less than they promise, and hooks that get a call wrong in a way of its own: for
//! the bugs that are neither a persist site got wrong nor a rule that is not kept.

use core::cell::Cell;
use std::rc::Rc;

use journal_core::check::crc64;
use journal_core::superblock::MAGIC;
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, Hook, Kernels, MediumError,
    MediumErrorKind, NoHook, Offset, Pmem, PmemFacts, PmemRead, PmemSplit, Rule, Site,
};
use sim_disk::suite::ID;
use sim_disk::suite::oracle::BLOCK_BYTES;
use sim_disk::{Mutator, SimDisk, SimPmem, World};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The fence does nothing, since flushes are taken to be durable at once.
    DrainEmpty,
    /// Flushes end in front of the point of persistence.
    FlushFallsShort,
    /// The last word of a stream is stored through the caches, and not flushed.
    StreamTailStored,
    /// A flush takes the line beside the one that was meant.
    NeighbourFlushed,
    /// What cannot be read now is taken for zeroes.
    ReadErrorIsEnd,
    /// An open reads the first lane for each of them.
    FirstLaneForAll,
    /// The last word of a buffer is left as an earlier read left it.
    BufferNotReset,
    /// A failed write of the disk is not passed on.
    WriteErrorSwallowed,
    /// A failed sync is called again, and that one counts.
    SyncTriedAgain,
    /// A failed fence of a superblock is not passed on.
    HeadErrorSwallowed,
    /// An open keeps the superblock that it begins with in memory.
    OpenNotWritten,
    /// A checkpoint keeps the superblock that moves the heads in memory.
    HeadsNotWritten,
    /// Records say that they are a line longer than they are.
    StrideTooLong,
    /// Of an intent only the first image is repeated.
    FirstImageOnly,
    /// One superblock copy is rewritten in place, the other one never.
    OneCopyInPlace,
    /// Checks leave out the content of blocks.
    ContentUnchecked,
    /// The check of a superblock is not looked at.
    HeaderUnchecked,
}

/// What all regions of a span have in common.
#[derive(Clone)]
pub struct Span {
    defect: Option<Defect>,
    /// Whether the journal is being opened.
    pub opens: Rc<Cell<bool>>,
    /// Where the first lane lies, and where the last one ends.
    lanes: (u64, u64, u64),
    first_lane: Rc<Vec<u8>>,
}

/// Persistent memory.
pub struct PortPmem {
    inner: SimPmem,
    start: u64,
    span: Span,
}

impl PortPmem {
    /// `lanes` says where the first one begins, where it ends and where the last one does.
    pub fn new(world: &World, defect: Option<Defect>, lanes: (u64, u64, u64)) -> Self {
        let inner = world.pmem().with_stream_from_bytes(1);
        let first = world.visible().pmem()[lanes.0 as usize..lanes.1 as usize].to_vec();
        let (opens, first_lane) = (Rc::new(Cell::new(true)), Rc::new(first));
        Self { inner, start: 0, span: Span { defect, opens, lanes, first_lane } }
    }

    pub const fn span(&self) -> &Span {
        &self.span
    }

    fn has(&self, defect: Defect) -> bool {
        self.span.defect == Some(defect)
    }

    /// The place in the first lane that is read for one in another.
    fn in_first_lane(&self, at: Offset, len: usize) -> Option<core::ops::Range<usize>> {
        let ((first, second, end), place) = (self.span.lanes, self.start + at.raw());
        let is_read = self.has(Defect::FirstLaneForAll) && self.span.opens.get();
        let is_of_another = (second..end).contains(&place);
        let from = ((place.checked_sub(second)?) % (second - first)) as usize;
        (is_read && is_of_another).then_some(from..from + len)
    }
}

static ZEROES: [u8; 4096] = [0; 4096];

impl PmemRead for PortPmem {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_into(&self, at: Offset, into: &mut [u8]) -> Result<(), MediumError> {
        let read =
            into.len() - if self.has(Defect::BufferNotReset) { into.len().min(8) } else { 0 };
        let bytes = self.bytes(at, into.len())?;
        into[..read].copy_from_slice(&bytes[..read]);
        Ok(())
    }
}

impl Pmem for PortPmem {
    fn facts(&self) -> PmemFacts {
        self.inner.facts()
    }

    fn bytes(&self, at: Offset, len: usize) -> Result<&[u8], MediumError> {
        let bytes = self.inner.bytes(at, len);
        if let Some(bytes) = self.in_first_lane(at, len).and_then(|at| self.span.first_lane.get(at))
        {
            return Ok(bytes);
        }
        match bytes {
            Err(error) if error.kind == MediumErrorKind::Transient => {
                let zeroes = self.has(Defect::ReadErrorIsEnd).then(|| ZEROES.get(..len)).flatten();
                zeroes.ok_or(error)
            }
            read => read,
        }
    }

    fn store(&mut self, at: Offset, bytes: &[u8]) {
        self.inner.store(at, bytes);
    }

    fn store_u64(&mut self, at: Offset, value: u64) {
        self.inner.store_u64(at, value);
    }

    fn stream(&mut self, at: Offset, bytes: &[u8]) {
        let (front, last) = bytes.split_at(bytes.len().saturating_sub(8));
        if self.has(Defect::StreamTailStored) {
            self.inner.stream(at, front);
            self.inner.store(Offset(at.raw() + front.len() as u64), last);
        } else {
            self.inner.stream(at, bytes);
        }
    }

    fn flush(&mut self, at: Offset, len: usize) {
        match self.span.defect {
            Some(Defect::FlushFallsShort) => {}
            Some(Defect::NeighbourFlushed) => {
                let is_last = at.raw() + 64 + len as u64 > self.inner.len();
                let beside = if is_last { at.raw().saturating_sub(64) } else { at.raw() + 64 };
                self.inner.flush(Offset(beside), len);
            }
            Some(Defect::DrainEmpty) => {
                self.inner.flush(at, len);
                self.inner.fence().expect("no fault is injected");
            }
            _ => self.inner.flush(at, len),
        }
    }

    fn fence(&mut self) -> Result<(), MediumError> {
        if self.has(Defect::DrainEmpty) { Ok(()) } else { self.inner.fence() }
    }
}

impl PmemSplit for PortPmem {
    fn split_at(self, at: Offset) -> Result<(Self, Self), MediumError> {
        let (first, second) = self.inner.split_at(at)?;
        let behind = self.start + at.raw();
        let span = self.span.clone();
        Ok((
            Self { inner: first, start: self.start, span: self.span },
            Self { inner: second, start: behind, span },
        ))
    }
}

/// A disk.
pub struct PortDisk {
    pub inner: SimDisk,
    pub defect: Option<Defect>,
    /// How many blocks it lacks of those that the journal was formatted for.
    pub lacks: u64,
}

impl BlockDevice for PortDisk {
    fn facts(&self) -> DeviceFacts {
        self.inner.facts()
    }

    fn block_size(&self) -> BlockSize {
        self.inner.block_size()
    }

    fn block_count(&self) -> u64 {
        self.inner.block_count() - self.lacks
    }

    fn read(&mut self, first: BlockNumber, into: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read(first, into)
    }

    fn write(&mut self, first: BlockNumber, from: &[u8]) -> Result<(), DeviceError> {
        let written = self.inner.write(first, from);
        if self.defect == Some(Defect::WriteErrorSwallowed) { Ok(()) } else { written }
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        let synced = self.inner.sync();
        let again = synced.is_err() && self.defect == Some(Defect::SyncTriedAgain);
        if again { self.inner.sync() } else { synced }
    }
}

/// A hook, around the one that makes sites and rules misbehave.
#[derive(Clone)]
pub struct PortHook {
    pub inner: Mutator,
    pub defect: Option<Defect>,
    /// Calls so far of the site that the defect is about.
    pub calls: u32,
}

impl PortHook {
    /// Whether this is a call that a defect is about.
    fn hits(&mut self, defect: Defect, site: Site, name: &str) -> bool {
        let hits = self.defect == Some(defect) && site.name == name;
        self.calls += u32::from(hits);
        hits
    }
}

impl Hook for PortHook {
    fn keeps(&self, rule: Rule) -> bool {
        self.inner.keeps(rule)
    }

    fn write_piece<P: Pmem>(
        &mut self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        whole: u64,
    ) {
        // Two copies each time, and the first time when it is opened.
        let copy = "superblock.copy";
        if (self.hits(Defect::OneCopyInPlace, site, copy) && self.calls % 2 == 1)
            || (self.hits(Defect::OpenNotWritten, site, copy) && self.calls <= 2)
            || (self.hits(Defect::HeadsNotWritten, site, copy) && self.calls > 2)
        {
            return;
        }
        let longer = self.hits(Defect::StrideTooLong, site, "commit.front");
        let bytes = if longer { a_line_longer(pmem, at, bytes) } else { bytes.to_vec() };
        NoHook.write_piece(site, pmem, at, &bytes, whole);
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        let fenced = pmem.fence();
        let hits = self.hits(Defect::HeadErrorSwallowed, site, "superblock.copy.fence");
        if hits { Ok(()) } else { fenced }
    }

    fn disk_write<D: BlockDevice>(
        &mut self,
        site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        if self.hits(Defect::FirstImageOnly, site, "open.repeat") && self.calls > 1 {
            return Ok(());
        }
        device.write_vectored(first, from)
    }
}

/// The front of a record of one image that says it has one line more, with right checks.
fn a_line_longer<P: Pmem>(pmem: &P, at: Offset, front: &[u8]) -> Vec<u8> {
    let mut front = front.to_vec();
    let image = Offset(at.raw() + front.len() as u64);
    let image = pmem.bytes(image, BLOCK_BYTES).expect("it was stored before").to_vec();
    front[8] += 1;
    front[..4].fill(0);
    let check = crc64(crc64(0, &ID), &front[..64]);
    front[..4].copy_from_slice(&check.to_le_bytes()[..4]);
    let body = front.len() - 8;
    let check = crc64(crc64(crc64(0, &ID), &image), &front[..body]);
    front[body..].copy_from_slice(&check.to_le_bytes());
    front
}

/// Checks.
#[derive(Clone, Copy)]
pub struct PortKernels(pub Option<Defect>);

impl Kernels for PortKernels {
    fn crc64(&self, seed: u64, bytes: &[u8]) -> u64 {
        match self.0 {
            Some(Defect::ContentUnchecked) if bytes.len() == BLOCK_BYTES => seed,
            Some(Defect::HeaderUnchecked) if bytes.starts_with(&MAGIC) => 0,
            _ => crc64(seed, bytes),
        }
    }
}
