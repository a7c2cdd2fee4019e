//! A rollback journal that nobody plays back before it is durable, and that ends durably.
//!
//! Where a batch is refused, SQLite writes its rollback journal at once, with a head that says how
//! many pages there are. If the power goes then, some of these pages may be torn, and SQLite's sums
//! do not tell of all that are. So the head gets its first bytes only when the rest is durable.

use core::sync::atomic::Ordering;
use std::io;
use std::sync::Arc;

use libsqlite3_sys as sys;

use super::host::HostFile;
use crate::database::mounted_file::MountedFile;
use crate::files::PlainFile;

/// Bytes of the head without which there is no rollback journal.
const MAGIC_BYTES: usize = 8;

/// The most bytes that one call writes to a file of the host: those of SQLite's largest page. Of
/// more, the host's VFS says that the disk is full.
const WRITE_BYTES: usize = 1 << 16;

/// A writer's rollback journal, as one of those of its database that are open.
pub(crate) struct RollbackJournal {
    file: Box<dyn PlainFile>,
    /// The bytes that are held back, once they are written. `None`: nothing is held back.
    magic: Option<[u8; MAGIC_BYTES]>,
    /// Whether SQLite would play the file back: its first byte is not zero.
    is_hot: bool,
    /// Whether something may be lost with the power.
    is_loose: bool,
    database: Arc<MountedFile>,
}

impl RollbackJournal {
    /// A journal as SQLite writes it. What the file has may be that of a process that was killed.
    pub(crate) fn open(
        mut file: Box<dyn PlainFile>,
        database: Arc<MountedFile>,
    ) -> io::Result<Self> {
        let mut first = [0];
        let is_hot = file.read_at(0, &mut first)? == 1 && first != [0];
        database.journals_open.fetch_add(1, Ordering::Relaxed);
        Ok(Self { file, magic: None, is_hot, is_loose: true, database })
    }

    /// The journal of a refused batch. An older journal in the same file ends: SQLite would take
    /// one of its later heads for the next head of the new one.
    pub(crate) fn held_back(
        mut file: Box<dyn PlainFile>,
        database: Arc<MountedFile>,
    ) -> io::Result<Self> {
        file.set_len(0)?;
        let mut journal = Self::open(file, database)?;
        journal.magic = Some([0; MAGIC_BYTES]);
        Ok(journal)
    }

    /// Ends a journal durably. SQLite does so too, except with `synchronous=NORMAL` or `OFF`: it
    /// relies on its next transaction, which would write the journal anew. A batch leaves it as it
    /// is, and a power cut could give back an old journal behind a newer batch.
    fn ends(&mut self) -> io::Result<()> {
        if core::mem::take(&mut self.is_hot) { self.sync_file() } else { Ok(()) }
    }

    fn sync_file(&mut self) -> io::Result<()> {
        if self.is_loose {
            self.file.sync()?;
            self.is_loose = false;
        }
        Ok(())
    }
}

impl Drop for RollbackJournal {
    fn drop(&mut self) {
        self.database.journals_open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PlainFile for RollbackJournal {
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(at, into)?;
        let held = self.magic.iter().flatten().skip(usize::try_from(at).unwrap_or(usize::MAX));
        into[..read].iter_mut().zip(held).for_each(|(place, byte)| *place = *byte);
        Ok(read)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.is_loose = true;
        if let Some(magic) = self.magic.as_mut().filter(|_| at < MAGIC_BYTES as u64) {
            let held = magic.iter_mut().skip(at as usize).zip(bytes);
            let count = held.map(|(place, byte)| *place = *byte).count();
            let without = [vec![0; count], bytes[count..].to_vec()].concat();
            return self.file.write_at(at, &without);
        }
        self.file.write_at(at, bytes)?;
        match bytes.first().filter(|_| at == 0) {
            Some(0) => self.ends(),
            Some(_) => {
                self.is_hot = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn len(&mut self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.is_loose = true;
        self.file.set_len(len)?;
        if len > 0 {
            return Ok(());
        }
        if let Some(magic) = &mut self.magic {
            *magic = [0; MAGIC_BYTES];
        }
        self.ends()
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_file()?;
        if let Some(magic) = self.magic.filter(|magic| *magic != [0; MAGIC_BYTES]) {
            self.is_loose = true;
            self.file.write_at(0, &magic)?;
            self.sync_file()?;
            (self.is_hot, self.magic) = (true, None);
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

/// A database that is mounted nowhere, whose rollback journal and WAL are in these files.
#[cfg(test)]
pub(super) fn unmounted(files: Option<Arc<dyn crate::files::Files>>) -> Arc<MountedFile> {
    use core::sync::atomic::AtomicU64;

    use nvm_journal::{BlockSize, FileDiskOptions};

    use crate::mount::{Mount, NO_HOOK};

    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let mount = Mount::new().anonymous().nvm_bytes(1 << 20);
    let (region, _) = mount.region().expect("memory");
    let disk = FileDiskOptions::new().growing(64);
    let path = std::env::temp_dir().join(format!("nvj-held-{}-{number}", std::process::id()));
    let disk = disk.create(&path, BlockSize::DEFAULT, 0).expect("a disk");
    std::fs::remove_file(path).expect("it was made just now");
    let file = mount.format(region, &disk, 0, NO_HOOK).expect("a journal");
    let mounted = MountedFile::new(file, Box::new(|_| Ok(())), None, false);
    Arc::new(mounted.with_files(files))
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;
    use std::sync::{Mutex, MutexGuard};

    use super::super::host::Host;
    use super::*;

    /// A file in memory.
    #[derive(Clone, Default)]
    struct InMemory(Arc<Mutex<Vec<u8>>>, Arc<AtomicU64>);

    impl InMemory {
        fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
            self.0.lock().expect("nobody panicked")
        }

        /// How often it was made durable.
        fn synced(&self) -> u64 {
            self.1.load(Ordering::Relaxed)
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
            self.1.fetch_add(1, Ordering::Relaxed);
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
        let (disk, database) = (InMemory::default(), unmounted(None));
        disk.bytes().resize(4096, 0xEE);
        let journal = RollbackJournal::held_back(Box::new(disk.clone()), Arc::clone(&database));
        let mut journal = journal.expect("a file");
        assert_eq!(*disk.bytes(), []);
        assert_eq!(database.journals_open.load(Ordering::Relaxed), 1);
        journal.write_at(0, b"a magic, and more").expect("a write");
        assert_eq!(*disk.bytes(), b"\0\0\0\0\0\0\0\0 and more");
        let mut seen = [9; 17];
        assert_eq!(journal.read_at(0, &mut seen).expect("a read"), 17);
        assert_eq!(&seen, b"a magic, and more", "SQLite reads what it has written");
        journal.sync().expect("a sync");
        assert_eq!(*disk.bytes(), b"a magic, and more");
        journal.write_at(0, &[0; 8]).expect("a write");
        assert_eq!(*disk.bytes(), b"\0\0\0\0\0\0\0\0 and more", "nothing is held back now");
        drop(journal);
        assert_eq!(database.journals_open.load(Ordering::Relaxed), 0);
    }

    /// A power cut cannot give it back behind a newer batch, whatever SQLite syncs.
    #[test]
    fn a_journal_ends_durably() {
        let (disk, database) = (InMemory::default(), unmounted(None));
        let open = || {
            let opened = RollbackJournal::open(Box::new(disk.clone()), Arc::clone(&database));
            opened.expect("a file")
        };
        let mut journal = open();
        // 1. What was never hot needs no sync.
        journal.write_at(0, &[0; 28]).expect("a write");
        journal.set_len(0).expect("a cut");
        assert_eq!(disk.synced(), 0);
        // 2. It is cut, or its head is cleared.
        journal.write_at(0, b"hot").expect("a write");
        journal.set_len(0).expect("a cut");
        assert_eq!(disk.synced(), 1);
        journal.write_at(0, b"hot").expect("a write");
        journal.sync().expect("a sync");
        journal.write_at(0, &[0; 28]).expect("a write");
        assert_eq!(disk.synced(), 3);
        journal.sync().expect("a sync");
        assert_eq!(disk.synced(), 3, "nothing has changed since");
        // 3. A killed process has left it.
        *disk.bytes() = b"hot".to_vec();
        open().set_len(0).expect("a cut");
        assert_eq!(disk.synced(), 4);
        // 4. One that is held back, and then cut, stays cut.
        let held = RollbackJournal::held_back(Box::new(disk.clone()), Arc::clone(&database));
        let mut held = held.expect("a file");
        held.write_at(0, b"a magic, and more").expect("a write");
        held.set_len(0).expect("a cut");
        held.sync().expect("a sync");
        assert_eq!(*disk.bytes(), []);
        held.write_at(0, b"a magic, and more").expect("a write");
        held.sync().expect("a sync");
        let before = disk.synced();
        held.set_len(0).expect("a cut");
        assert_eq!(disk.synced(), before + 1);
    }
}
