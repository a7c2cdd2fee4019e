//! A rollback journal that nobody plays back before it is durable.
//!
//! Where a batch is refused, SQLite writes its rollback journal at once, with a head that says how
//! many pages there are. If the power goes then, some of these pages may be torn, and SQLite's sums
//! do not tell of all that are. So the head gets its first bytes only when the rest is durable.

use std::io;

use libsqlite3_sys as sys;

use super::host::HostFile;
use crate::files::PlainFile;

/// Bytes of the head without which there is no rollback journal.
const MAGIC_BYTES: usize = 8;

/// The most bytes that one call writes to a file of the host: those of SQLite's largest page. Of
/// more, the host's VFS says that the disk is full.
const WRITE_BYTES: usize = 1 << 16;

/// A rollback journal, without its first bytes until the first sync.
pub(crate) struct HeldBack {
    file: Box<dyn PlainFile>,
    /// The bytes that are held back, once they are written. `None`: the journal is durable.
    magic: Option<[u8; MAGIC_BYTES]>,
}

impl HeldBack {
    /// An older journal in the same file ends: SQLite would take one of its later heads for the
    /// next head of the new one.
    pub(crate) fn create(mut file: Box<dyn PlainFile>) -> io::Result<Self> {
        file.set_len(0)?;
        Ok(Self { file, magic: Some([0; MAGIC_BYTES]) })
    }
}

impl PlainFile for HeldBack {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(at, into)?;
        let held = self.magic.iter().flatten().skip(usize::try_from(at).unwrap_or(usize::MAX));
        into[..read].iter_mut().zip(held).for_each(|(place, byte)| *place = *byte);
        Ok(read)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(magic) = self.magic.as_mut().filter(|_| at < MAGIC_BYTES as u64) else {
            return self.file.write_at(at, bytes);
        };
        let held = magic.iter_mut().skip(at as usize).zip(bytes);
        let count = held.map(|(place, byte)| *place = *byte).count();
        let without = [vec![0; count], bytes[count..].to_vec()].concat();
        self.file.write_at(at, &without)
    }

    fn len(&mut self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()?;
        if let Some(magic) = self.magic {
            self.file.write_at(0, &magic)?;
            self.file.sync()?;
            self.magic = None;
        }
        Ok(())
    }
}

fn done(code: i32) -> io::Result<()> {
    match code {
        sys::SQLITE_OK => Ok(()),
        code if code & 0xff == sys::SQLITE_FULL => Err(io::ErrorKind::StorageFull.into()),
        code => Err(io::Error::other(format!("code {code}"))),
    }
}

fn place(at: u64) -> io::Result<i64> {
    i64::try_from(at).map_err(io::Error::other)
}

impl PlainFile for HostFile {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let left = PlainFile::len(self)?.saturating_sub(at);
        let there = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        done(self.read(place(at)?, &mut into[..there]))?;
        Ok(there)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut at = at;
        for piece in bytes.chunks(WRITE_BYTES) {
            done(self.write(place(at)?, piece))?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn len(&mut self) -> io::Result<u64> {
        Self::len(self).map_err(|code| io::Error::other(format!("code {code}")))
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        done(Self::set_len(self, place(len)?))
    }

    fn sync(&mut self) -> io::Result<()> {
        done(Self::sync(self))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, MutexGuard};

    use super::super::host::Host;
    use super::*;

    /// A file in memory.
    #[derive(Clone, Default)]
    struct InMemory(Arc<Mutex<Vec<u8>>>);

    impl InMemory {
        fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
            self.0.lock().expect("nobody panicked")
        }
    }

    impl PlainFile for InMemory {
        fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
            let file = self.bytes();
            let there = file.get(at as usize..).unwrap_or_default();
            let read = there.len().min(into.len());
            into[..read].copy_from_slice(&there[..read]);
            Ok(read)
        }

        fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
            let mut file = self.bytes();
            let end = at as usize + bytes.len();
            let len = file.len().max(end);
            file.resize(len, 0);
            file[at as usize..end].copy_from_slice(bytes);
            Ok(())
        }

        fn len(&mut self) -> io::Result<u64> {
            Ok(self.bytes().len() as u64)
        }

        fn set_len(&mut self, len: u64) -> io::Result<()> {
            self.bytes().resize(len as usize, 0);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Old pages go to such a file by megabytes.
    #[test]
    fn a_file_of_the_host_takes_many_bytes_at_once() {
        let mut file = Host::find().expect("a VFS").open_spill().expect("a temporary file");
        let bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at >> 9) as u8).collect();
        file.write_at(7, &bytes).expect("a disk with room");
        let mut found = vec![0; bytes.len()];
        for (number, piece) in found.chunks_mut(4096).enumerate() {
            let read = file.read_at(7 + number as u64 * 4096, piece);
            assert_eq!(read.expect("a read"), piece.len());
        }
        assert!(found == bytes);
    }

    /// With `journal_mode=PERSIST`, the file has an older journal. SQLite would read on in it.
    #[test]
    fn a_journal_that_is_held_back_has_nothing_of_an_older_one() {
        let disk = InMemory::default();
        disk.bytes().resize(4096, 0xEE);
        let mut journal = HeldBack::create(Box::new(disk.clone())).expect("a file");
        assert_eq!(*disk.bytes(), []);
        journal.write_at(0, b"a magic, and more").expect("a write");
        assert_eq!(*disk.bytes(), b"\0\0\0\0\0\0\0\0 and more");
        let mut seen = [9; 17];
        assert_eq!(journal.read_at(0, &mut seen).expect("a read"), 17);
        assert_eq!(&seen, b"a magic, and more", "SQLite reads what it has written");
        journal.sync().expect("a sync");
        assert_eq!(*disk.bytes(), b"a magic, and more");
        journal.write_at(0, &[0; 8]).expect("a write");
        assert_eq!(*disk.bytes(), b"\0\0\0\0\0\0\0\0 and more", "nothing is held back now");
    }
}
