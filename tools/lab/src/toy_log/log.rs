//! A toy store: a redo log of whole blocks in persistent memory over a disk.
//!
//! It is small enough to be explored to the last state, and uses every kind of persist site. It is
//! an example of a test of a store with the simulator, not of a store.
//!
//! Memory: one control word, then a ring of two-line records.
//!
//! ```text
//! +0    control   epoch << 32 | sequence of the first live record     (one atomic word)
//! +64   record 0  header line: sequence, epoch, block, check; payload line: the block's image
//! +192  record 1  ...
//! ```
//!
//! A record is live if its sequence and epoch are the expected ones and its check is right. A
//! commit is one record and one fence. A checkpoint writes home, syncs, and then moves the control
//! word. Opening makes durable what it found, checkpoints it, and begins a new epoch with the same
//! word, so that a record which an open did not find never comes back.

use journal_core::order::{InFlight, Ordered, OrderedDevice};
use journal_core::{BlockDevice, BlockNumber, DeviceError, Hook, MediumError, Offset, Pmem};

/// The image of a block.
pub type Block = [u8; 64];

const LINE: u64 = 64;
const RECORD: u64 = 2 * LINE;

journal_core::sites! {
    /// Every step of the protocol.
    pub mod site {
        PAYLOAD: Stream = "commit.payload";
        HEADER: Store = "commit.header";
        HEADER_FLUSH: Flush = "commit.header.flush";
        COMMIT: Fence = "commit.fence";
        HOME: DiskWrite = "checkpoint.home";
        HOME_SYNC: DiskSync = "checkpoint.sync";
        CONTROL: Write = "control.word";
        CONTROL_FENCE: Fence = "control.fence";
        FOUND: Flush = "open.found";
        FOUND_FENCE: Fence = "open.found.fence";
    }
}

/// What stopped the log.
#[derive(Debug)]
pub enum Error {
    /// The memory.
    Medium(MediumError),
    /// The disk.
    Device(DeviceError),
    /// An earlier call failed.
    Stuck,
}

impl From<MediumError> for Error {
    fn from(error: MediumError) -> Self {
        Self::Medium(error)
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// An open log.
#[derive(Debug)]
pub struct Log<P, D, H> {
    pmem: Ordered<P, H>,
    disk: OrderedDevice<D, H>,
    epoch: u32,
    /// The first live record.
    head: u32,
    /// Blocks of the live records, oldest first.
    live: Vec<(u64, Block)>,
    failed: bool,
}

impl<P: Pmem, D: BlockDevice, H: Hook + Clone> Log<P, D, H> {
    /// Opens the log on whatever the media hold; media of zeroes are an empty log.
    pub fn open(pmem: P, disk: D, hook: H) -> Result<Self, Error> {
        let pmem = Ordered::with_hook(pmem, hook.clone());
        let control = word(pmem.bytes(Offset(0), 8)?, 0);
        let mut log = Self {
            disk: OrderedDevice::with_hook(disk, hook),
            epoch: (control >> 32) as u32,
            head: control as u32,
            live: Vec::new(),
            failed: false,
            pmem,
        };
        while let Some(record) = log.record_at(log.next())? {
            log.live.push(record);
            if log.live.len() as u64 == log.capacity() {
                break;
            }
        }
        log.settle()?;
        log.checkpoint_to(log.epoch + 1)?;
        Ok(log)
    }

    /// Makes `image` the durable content of `block`.
    pub fn write(&mut self, block: u64, image: &Block) -> Result<(), Error> {
        self.guard(|log| {
            if log.live.len() as u64 == log.capacity() {
                log.checkpoint_to(log.epoch)?;
            }
            let at = log.place(log.next());
            let sequence = u64::from(log.next());
            let mut header = [0; 32];
            for (field, value) in header.chunks_exact_mut(8).zip([
                sequence,
                u64::from(log.epoch),
                block,
                check(sequence, log.epoch, block, image),
            ]) {
                field.copy_from_slice(&value.to_le_bytes());
            }
            let payload = log.pmem.stream(site::PAYLOAD, Offset(at + LINE), image);
            let header = log.pmem.store(site::HEADER, Offset(at), &header);
            let header = log.pmem.flush(site::HEADER_FLUSH, header);
            let _ = log.pmem.fence(site::COMMIT, payload.and(header))?;
            log.live.push((block, *image));
            Ok(())
        })
    }

    /// The content of a block.
    pub fn read(&mut self, block: u64) -> Result<Block, Error> {
        if self.failed {
            return Err(Error::Stuck);
        }
        if let Some((_, image)) = self.live.iter().rev().find(|(live, _)| *live == block) {
            return Ok(*image);
        }
        let mut image = [0; 64];
        self.disk.read(BlockNumber(block), &mut image)?;
        Ok(image)
    }

    /// After a failure the log does nothing any more.
    fn guard(&mut self, call: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Stuck);
        }
        let result = call(self);
        self.failed = result.is_err();
        result
    }

    /// The records found may have been stored by a process that was killed before its fence.
    fn settle(&mut self) -> Result<(), Error> {
        let live = self.head..self.next();
        let mut found: Option<InFlight> = None;
        for sequence in live {
            let at = Offset(self.place(sequence));
            let flushed = self.pmem.flush_found(site::FOUND, at, RECORD as usize);
            found = Some(match found {
                Some(found) => found.and(flushed),
                None => flushed,
            });
        }
        if let Some(found) = found {
            let _ = self.pmem.fence(site::FOUND_FENCE, found)?;
        }
        Ok(())
    }

    fn checkpoint_to(&mut self, epoch: u32) -> Result<(), Error> {
        let mut newest = self.live.clone();
        newest.reverse();
        newest.sort_by_key(|(block, _)| *block);
        newest.dedup_by_key(|(block, _)| *block);
        for (block, image) in &newest {
            let home = self.disk.write(site::HOME, BlockNumber(*block), &[image])?;
            let _ = self.disk.sync(site::HOME_SYNC, home)?;
        }
        let (epoch, head) = (epoch, self.next());
        let control = u64::from(epoch) << 32 | u64::from(head);
        let word = self.pmem.write(site::CONTROL, Offset(0), &control.to_le_bytes());
        let _ = self.pmem.fence(site::CONTROL_FENCE, word)?;
        (self.epoch, self.head) = (epoch, head);
        self.live.clear();
        Ok(())
    }

    fn next(&self) -> u32 {
        self.head + self.live.len() as u32
    }

    fn capacity(&self) -> u64 {
        (self.pmem.pmem().len() - LINE) / RECORD
    }

    fn place(&self, sequence: u32) -> u64 {
        LINE + u64::from(sequence) % self.capacity() * RECORD
    }

    /// The record with this sequence, if it is there.
    fn record_at(&self, sequence: u32) -> Result<Option<(u64, Block)>, Error> {
        let at = self.place(sequence);
        let header = self.pmem.bytes(Offset(at), 32)?;
        let (found, epoch, block, sum) =
            (word(header, 0), word(header, 1), word(header, 2), word(header, 3));
        if found != u64::from(sequence) || epoch != u64::from(self.epoch) {
            return Ok(None);
        }
        let mut image = [0; 64];
        image.copy_from_slice(self.pmem.bytes(Offset(at + LINE), 64)?);
        let valid = sum == check(found, self.epoch, block, &image)
            && block < self.disk.device().block_count();
        Ok(valid.then_some((block, image)))
    }
}

fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().expect("eight bytes"))
}

fn check(sequence: u64, epoch: u32, block: u64, image: &Block) -> u64 {
    let words = image.chunks_exact(8).map(|chunk| word(chunk, 0));
    words.fold(sim_disk::rng::mix(sequence ^ u64::from(epoch) << 32 ^ block << 17), |sum, word| {
        sim_disk::rng::mix(sum ^ word)
    })
}
