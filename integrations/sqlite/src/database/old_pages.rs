//! Pages of a shared file as they were before a transaction changed them.
//!
//! Guarantees: what is noted comes back in the reverse order, so that the oldest bytes of a place
//! come last. The memory that this takes has a bound, whatever a transaction changes: what is
//! noted beyond it lies in a file of its own. Where that file takes nothing, nothing is noted.

use std::collections::BTreeSet;
use std::io;

use block_files::{OneFile, Write};
use nvm_journal::BlockNumber;
use nvm_journal::ports::{DeviceError, DeviceErrorKind, DeviceOperation};

use crate::files::PlainFile;

/// How many bytes of old pages are in memory.
pub(crate) const IN_MEMORY: usize = 8 << 20;
/// What is taken back of a file at once, where it was cut.
const PIECE_BYTES: u64 = 512;
/// Behind the bytes of a note, the place and the length.
const TRAILER_BYTES: usize = 16;
/// How many places are known to be noted. Behind a bound they are forgotten, and noted once more.
const KNOWN: usize = 1 << 16;
/// The number by which the system says that a disk is full.
const NO_SPACE: i32 = 28;

/// Makes the file for what is noted beyond the memory.
pub(crate) type Spill = Box<dyn Fn() -> io::Result<Box<dyn PlainFile>> + Send + Sync>;

/// Where old pages are noted.
pub(crate) struct RoomForOld {
    pub(crate) in_memory: usize,
    pub(crate) spill: Spill,
}

/// Notes of a transaction: in a file, and behind that in memory.
#[derive(Default)]
pub(crate) struct OldPages {
    spilled: Option<(Box<dyn PlainFile>, u64)>,
    memory: Vec<u8>,
    known: BTreeSet<(u64, usize)>,
    len: Option<u64>,
}

fn refused(operation: DeviceOperation, error: &io::Error) -> block_files::Error {
    let is_full = error.kind() == io::ErrorKind::StorageFull;
    let os = error.raw_os_error().or_else(|| is_full.then_some(NO_SPACE));
    let error = DeviceError::new(operation, DeviceErrorKind::Io { os }, BlockNumber(0));
    nvm_journal::Error::Device(error).into()
}

impl OldPages {
    pub(crate) const fn is_empty(&self) -> bool {
        self.len.is_none()
    }

    /// Notes what a change is about to replace.
    pub(crate) fn note(
        &mut self,
        room: &RoomForOld,
        file: &OneFile,
        (writes, cut): (&[Write<'_>], Option<u64>),
    ) -> Result<(), block_files::Error> {
        let len = file.len();
        self.len.get_or_insert(len);
        for write in writes {
            let place = (write.at, write.bytes.len());
            if !self.known.contains(&place) {
                self.note_bytes(room, file, write.at, write.bytes.len())?;
                if self.known.len() >= KNOWN {
                    self.known.clear();
                }
                self.known.insert(place);
            }
        }
        // What is cut off goes in small pieces, because each has to fit into a lane.
        let mut at = cut.map_or(len, |to| to.min(len));
        while at < len {
            let bytes = (PIECE_BYTES - at % PIECE_BYTES).min(len - at);
            self.note_bytes(room, file, at, bytes as usize)?;
            at += bytes;
        }
        Ok(())
    }

    fn note_bytes(
        &mut self,
        room: &RoomForOld,
        file: &OneFile,
        at: u64,
        bytes: usize,
    ) -> Result<(), block_files::Error> {
        if bytes == 0 {
            return Ok(());
        }
        if !self.memory.is_empty() && self.memory.len() + bytes + TRAILER_BYTES > room.in_memory {
            let spilled = self.spill(room);
            spilled.map_err(|error| refused(DeviceOperation::Write, &error))?;
        }
        let first = self.memory.len();
        self.memory.resize(first + bytes, 0);
        let there = match file.read_at(at, &mut self.memory[first..]) {
            Ok(there) => there,
            Err(error) => {
                self.memory.truncate(first);
                return Err(error);
            }
        };
        self.memory.truncate(first + there);
        self.memory.extend([at, there as u64].iter().flat_map(|word| word.to_le_bytes()));
        Ok(())
    }

    fn spill(&mut self, room: &RoomForOld) -> io::Result<()> {
        let (file, end) = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(((room.spill)()?, 0)),
        };
        file.write_at(*end, &self.memory)?;
        *end += self.memory.len() as u64;
        self.memory.clear();
        Ok(())
    }

    /// Writes everything back that was noted.
    pub(crate) fn give_back(&mut self, to: &OneFile) -> Result<(), block_files::Error> {
        let Some(len) = self.len else { return Ok(()) };
        // 1. What is in memory, the youngest first.
        let mut end = self.memory.len();
        while let Some(trailer) = end.checked_sub(TRAILER_BYTES) {
            let (at, bytes) = place_of(&self.memory[trailer..end]);
            end = trailer - bytes;
            to.write_at(at, &self.memory[end..trailer])?;
        }
        // 2. What is in the file.
        if let Some((file, spilled)) = &mut self.spilled {
            let (mut page, mut end) = (Vec::new(), *spilled);
            while let Some(trailer) = end.checked_sub(TRAILER_BYTES as u64) {
                let mut words = [0; TRAILER_BYTES];
                read_all(&mut **file, trailer, &mut words)?;
                let (at, bytes) = place_of(&words);
                end = trailer - bytes as u64;
                page.resize(bytes, 0);
                read_all(&mut **file, end, &mut page)?;
                to.write_at(at, &page)?;
            }
        }
        to.set_len(len)
    }

    /// How many bytes are in memory, and in the file.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> (usize, u64) {
        (self.memory.len(), self.spilled.as_ref().map_or(0, |(_, bytes)| *bytes))
    }
}

fn place_of(trailer: &[u8]) -> (u64, usize) {
    let mut words = trailer.chunks_exact(8).map(|word| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        u64::from_le_bytes(bytes)
    });
    let (at, bytes) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    (at, bytes as usize)
}

fn read_all(file: &mut dyn PlainFile, at: u64, into: &mut [u8]) -> Result<(), block_files::Error> {
    let read = file.read_at(at, into).and_then(|read| {
        if read == into.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    });
    read.map_err(|error| refused(DeviceOperation::Read, &error))
}
