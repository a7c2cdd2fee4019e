//! Reading a trace of block updates: committed images, transaction by transaction.
//!
//! A trace (BTRC version 1, in a zstd frame; little-endian, unaligned) is a header (`BTRC`, u32
//! version, u32 block size, u64 device blocks, u16 length and name) and records that begin with a
//! tag: bases first (1: u64 block, image; 6: u64 block, all zero), ascending; then transactions
//! (2: u64 number; 3: u64 block, u8 class, u16 object size, u8 flags, image; 4: u64 number); then
//! the end (5: u64 transactions, u64 writes, u32 CRC-32 of everything before).
//!
//! The reader checks every rule of that, holds one transaction and the newest image of every block,
//! and gives of any bytes a trace or a typed error that says where.

pub mod envelope;
pub mod writer;

use core::fmt;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use journal_core::BlockSize;

use crate::trace::envelope::{BadEnvelope, Envelope};

/// The small trace of the tests, made by `replay --make-sample`.
pub const SAMPLE: &[u8] = include_bytes!("../../traces/sample.btrc.zst");

pub const MAGIC: [u8; 4] = *b"BTRC";
pub const VERSION: u32 = 1;

/// The tags of records.
pub mod tag {
    pub const BASE: u8 = 1;
    pub const BEGIN: u8 = 2;
    pub const WRITE: u8 = 3;
    pub const COMMIT: u8 = 4;
    pub const END: u8 = 5;
    pub const ZERO_BASE: u8 = 6;
}

/// The flags of a write.
pub mod flag {
    /// The block was not allocated before this transaction.
    pub const NEW: u8 = 1;
    /// It was not when the trace began.
    pub const NEW_IN_TRACE: u8 = 2;
    /// The image is what the block holds already.
    pub const SAME: u8 = 4;
}

/// The classes that mean something here.
pub mod class {
    pub const SUPERBLOCK: u8 = 1;
    pub const GROUP_DESCRIPTORS: u8 = 2;
    pub const BLOCK_BITMAP: u8 = 3;
    pub const INODE_BITMAP: u8 = 4;
    pub const INODES: u8 = 5;
    pub const DIRECTORY: u8 = 6;
    pub const FILE_DATA: u8 = 8;
    /// From here on pages of SQLite.
    pub const SQLITE: u8 = 16;

    pub const fn is_known(class: u8) -> bool {
        class <= 9 || (class >= SQLITE && class <= 21)
    }

    /// The size of the objects in blocks of this class; zero where there are none.
    pub const fn object_bytes(class: u8) -> u16 {
        match class {
            GROUP_DESCRIPTORS => 64,
            INODES => 256,
            _ => 0,
        }
    }
}

pub type Image = Arc<[u8]>;

/// The newest image of every block that the trace has.
pub type State = BTreeMap<u64, Image>;

/// One block's update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub block: u64,
    pub class: u8,
    pub object_bytes: u16,
    pub flags: u8,
    pub image: Image,
}

impl Write {
    /// Whether it is what files hold, or a page of a database: not what says where.
    pub const fn is_data(&self) -> bool {
        self.class == class::FILE_DATA || self.class >= class::SQLITE
    }

    pub const fn is_new(&self) -> bool {
        self.flags & flag::NEW != 0
    }
}

/// One transaction, its writes ascending by block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub number: u64,
    pub writes: Vec<Write>,
}

/// What stands before the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: String,
    pub block_size: BlockSize,
    pub device_blocks: u64,
}

/// What is wrong with a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// With the envelope around it.
    Envelope(BadEnvelope),
    /// It breaks off.
    CutOff,
    Magic,
    Version {
        found: u32,
    },
    BlockSize {
        bytes: u32,
    },
    /// The name is not UTF-8.
    Name,
    Tag {
        found: u8,
    },
    /// A base behind the first transaction.
    LateBase,
    /// Bases do not ascend.
    BaseOrder {
        block: u64,
    },
    OutOfDevice {
        block: u64,
    },
    /// A transaction inside another.
    Nested,
    /// A write or a commit outside a transaction.
    Outside,
    /// Transactions do not ascend.
    Order {
        transaction: u64,
    },
    /// A commit of another transaction than the one that began.
    OtherCommit {
        transaction: u64,
    },
    /// A transaction without a write.
    Empty {
        transaction: u64,
    },
    /// A block that is written has no base.
    NoBase {
        block: u64,
    },
    /// A block is written twice in a transaction.
    Twice {
        block: u64,
    },
    Class {
        found: u8,
    },
    /// The class has objects of another size.
    ObjectSize {
        found: u16,
    },
    /// Unknown flags, or flags that contradict each other, earlier ones or the image.
    Flags {
        block: u64,
        found: u8,
    },
    /// The end counts other transactions or writes than there are.
    Counts,
    Checksum,
    /// Something follows the end.
    Behind,
}

/// A trace that is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceError {
    pub bad: Bad,
    /// In which record: zero is the header.
    pub record: u64,
    /// How far the content had been read, in bytes.
    pub at: u64,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bad, record, at } = self;
        write!(f, "{bad:?} in record {record}, before byte {at} of the content")
    }
}

impl core::error::Error for TraceError {}

/// The bytes of a trace, counted and summed up.
struct Bytes<R: Read> {
    envelope: Envelope<R>,
    buffer: Vec<u8>,
    used: usize,
    filled: usize,
    at: u64,
    sum: crc32fast::Hasher,
}

const BUFFER_BYTES: usize = 1 << 16;

impl<R: Read> Bytes<R> {
    fn fill(&mut self, mut into: &mut [u8]) -> Result<(), Bad> {
        while !into.is_empty() {
            if self.used == self.filled {
                self.filled = self.envelope.read(&mut self.buffer).map_err(Bad::Envelope)?;
                self.used = 0;
                if self.filled == 0 {
                    return Err(Bad::CutOff);
                }
            }
            let len = into.len().min(self.filled - self.used);
            let (now, later) = into.split_at_mut(len);
            now.copy_from_slice(&self.buffer[self.used..self.used + len]);
            self.used += len;
            self.at += len as u64;
            self.sum.update(now);
            into = later;
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8, Bad> {
        self.array::<1>().map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Result<u16, Bad> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Bad> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Bad> {
        self.array().map(u64::from_le_bytes)
    }

    fn image(&mut self, block_size: BlockSize) -> Result<Image, Bad> {
        let mut image = vec![0; block_size.bytes()];
        self.fill(&mut image)?;
        Ok(image.into())
    }

    fn header(&mut self) -> Result<Header, Bad> {
        if self.array()? != MAGIC {
            return Err(Bad::Magic);
        }
        let version = self.u32()?;
        if version != VERSION {
            return Err(Bad::Version { found: version });
        }
        let bytes = self.u32()?;
        let block_size = BlockSize::new(bytes).ok_or(Bad::BlockSize { bytes })?;
        let device_blocks = self.u64()?;
        let mut name = vec![0; usize::from(self.u16()?)];
        self.fill(&mut name)?;
        let name = String::from_utf8(name).map_err(|_| Bad::Name)?;
        Ok(Header { name, block_size, device_blocks })
    }
}

/// A trace that is being read.
pub struct Trace<R: Read> {
    bytes: Option<Bytes<R>>,
    header: Header,
    state: State,
    /// Blocks by whether they were allocated when the trace began, as their writes say.
    new_in_trace: BTreeMap<u64, bool>,
    /// The transaction read last; not in `state` yet.
    transaction: Transaction,
    /// The tag behind it, of the record that is read next.
    next_tag: u8,
    last_number: Option<u64>,
    transactions: u64,
    writes: u64,
    record: u64,
    at: u64,
    content_bytes: u64,
}

impl<R: Read> Trace<R> {
    /// Reads the header and the bases.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn open(source: R) -> Result<Self, TraceError> {
        let error = |bad, at| TraceError { bad, record: 0, at };
        let envelope = Envelope::open(source).map_err(|bad| error(Bad::Envelope(bad), 0))?;
        let content_bytes = envelope.content_bytes();
        let mut bytes = Bytes {
            envelope,
            buffer: vec![0; BUFFER_BYTES],
            used: 0,
            filled: 0,
            at: 0,
            sum: crc32fast::Hasher::new(),
        };
        let header = bytes.header().map_err(|bad| error(bad, bytes.at))?;
        let mut trace = Self {
            bytes: Some(bytes),
            header,
            state: State::new(),
            new_in_trace: BTreeMap::new(),
            transaction: Transaction::default(),
            next_tag: 0,
            last_number: None,
            transactions: 0,
            writes: 0,
            record: 0,
            at: 0,
            content_bytes,
        };
        trace.guarded(Self::bases)?;
        Ok(trace)
    }

    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The images before the transaction read last.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The transaction read last.
    pub const fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// How much of the content has been read.
    pub fn progress(&self) -> f64 {
        let at = self.bytes.as_ref().map_or(self.at, |bytes| bytes.at);
        at as f64 / self.content_bytes.max(1) as f64
    }

    /// Reads the next transaction; `false` behind the last one, when the whole file has been
    /// checked and [`state`](Self::state) is what it ends with.
    ///
    /// # Errors
    /// What is wrong; the trace is not to be read on.
    pub fn advance(&mut self) -> Result<bool, TraceError> {
        for write in core::mem::take(&mut self.transaction).writes {
            self.state.insert(write.block, write.image);
        }
        if self.next_tag != tag::END {
            return self.guarded(Self::read_transaction).map(|()| true);
        }
        match self.bytes.take() {
            None => Ok(false),
            Some(bytes) => self.end(bytes).map(|()| false),
        }
    }

    /// Says of an error where it is.
    fn guarded(
        &mut self,
        read: impl FnOnce(&mut Self, &mut Bytes<R>) -> Result<(), Bad>,
    ) -> Result<(), TraceError> {
        let Some(mut bytes) = self.bytes.take() else {
            return Err(TraceError { bad: Bad::CutOff, record: self.record, at: self.at });
        };
        let result = read(self, &mut bytes);
        self.at = bytes.at;
        // After an error nothing is left to read on.
        result.map_err(|bad| TraceError { bad, record: self.record, at: self.at })?;
        self.bytes = Some(bytes);
        Ok(())
    }

    fn read_tag(&mut self, bytes: &mut Bytes<R>) -> Result<u8, Bad> {
        self.record += 1;
        bytes.u8()
    }

    fn bases(&mut self, bytes: &mut Bytes<R>) -> Result<(), Bad> {
        let zero: Image = vec![0; self.header.block_size.bytes()].into();
        loop {
            self.next_tag = self.read_tag(bytes)?;
            if !matches!(self.next_tag, tag::BASE | tag::ZERO_BASE) {
                return Ok(());
            }
            let block = self.block(bytes)?;
            if self.state.last_key_value().is_some_and(|(last, _)| *last >= block) {
                return Err(Bad::BaseOrder { block });
            }
            let is_zero = self.next_tag == tag::ZERO_BASE;
            let size = self.header.block_size;
            let image = if is_zero { Arc::clone(&zero) } else { bytes.image(size)? };
            self.state.insert(block, image);
        }
    }

    fn block(&self, bytes: &mut Bytes<R>) -> Result<u64, Bad> {
        let block = bytes.u64()?;
        if block >= self.header.device_blocks {
            return Err(Bad::OutOfDevice { block });
        }
        Ok(block)
    }

    /// Reads a transaction whose tag was read, and the tag behind it.
    fn read_transaction(&mut self, bytes: &mut Bytes<R>) -> Result<(), Bad> {
        match self.next_tag {
            tag::BEGIN => {}
            tag::WRITE | tag::COMMIT => return Err(Bad::Outside),
            tag::BASE | tag::ZERO_BASE => return Err(Bad::LateBase),
            found => return Err(Bad::Tag { found }),
        }
        let number = bytes.u64()?;
        if self.last_number.is_some_and(|last| last >= number) {
            return Err(Bad::Order { transaction: number });
        }
        let mut writes = BTreeMap::new();
        loop {
            match self.read_tag(bytes)? {
                tag::WRITE => {
                    let write = self.read_write(bytes)?;
                    let block = write.block;
                    if writes.insert(block, write).is_some() {
                        return Err(Bad::Twice { block });
                    }
                }
                tag::COMMIT => break,
                tag::BEGIN => return Err(Bad::Nested),
                tag::BASE | tag::ZERO_BASE => return Err(Bad::LateBase),
                tag::END => return Err(Bad::CutOff),
                found => return Err(Bad::Tag { found }),
            }
        }
        let transaction = bytes.u64()?;
        if transaction != number {
            return Err(Bad::OtherCommit { transaction });
        }
        if writes.is_empty() {
            return Err(Bad::Empty { transaction });
        }
        self.last_number = Some(number);
        self.transactions += 1;
        self.writes += writes.len() as u64;
        let writes = writes.into_values().collect();
        self.transaction = Transaction { number, writes };
        self.next_tag = self.read_tag(bytes)?;
        Ok(())
    }

    fn read_write(&mut self, bytes: &mut Bytes<R>) -> Result<Write, Bad> {
        let block = self.block(bytes)?;
        let Some(old) = self.state.get(&block) else { return Err(Bad::NoBase { block }) };
        let class = bytes.u8()?;
        if !class::is_known(class) {
            return Err(Bad::Class { found: class });
        }
        let object_bytes = bytes.u16()?;
        if object_bytes != class::object_bytes(class) {
            return Err(Bad::ObjectSize { found: object_bytes });
        }
        let flags = bytes.u8()?;
        let image = bytes.image(self.header.block_size)?;
        // Whether a block was there when the trace began does not change.
        let is_new_in_trace = flags & flag::NEW_IN_TRACE != 0;
        let known = *self.new_in_trace.entry(block).or_insert(is_new_in_trace);
        let is_same = flags & flag::SAME != 0;
        let unknown = flags & !(flag::NEW | flag::NEW_IN_TRACE | flag::SAME);
        if unknown != 0 || known != is_new_in_trace || is_same != (*image == **old) {
            return Err(Bad::Flags { block, found: flags });
        }
        Ok(Write { block, class, object_bytes, flags, image })
    }

    /// Checks the last record, whose tag was read, and that nothing follows.
    fn end(&mut self, mut bytes: Bytes<R>) -> Result<(), TraceError> {
        let result = self.check_end(&mut bytes);
        self.at = bytes.at;
        let result = result.and_then(|()| match bytes.used == bytes.filled {
            true => bytes.envelope.finish().map_err(Bad::Envelope),
            false => Err(Bad::Behind),
        });
        result.map_err(|bad| TraceError { bad, record: self.record, at: self.at })
    }

    fn check_end(&self, bytes: &mut Bytes<R>) -> Result<(), Bad> {
        let counts = (bytes.u64()?, bytes.u64()?);
        if counts != (self.transactions, self.writes) {
            return Err(Bad::Counts);
        }
        let found = bytes.sum.clone().finalize();
        if bytes.u32()? == found { Ok(()) } else { Err(Bad::Checksum) }
    }
}
