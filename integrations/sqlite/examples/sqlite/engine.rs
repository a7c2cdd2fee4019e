//! The ways to make a commit of SQLite durable, and one that does not.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal_core::{BlockDevice, BlockNumber, DeviceError, MediumError, Offset, Pmem, Site};
use nvm_journal::ports::Hook;
use nvm_journal::{AnyPolicy, FullBlock, MapOptions};
use nvm_journal_sqlite::{Mount, Mounted, for_pages, mount, mount_with_hook};
use rusqlite::{Connection, OpenFlags};

use crate::workload::{State, Workload};

/// The name of the VFS.
pub(crate) const VFS: &str = "nvj";
/// Bytes of persistent memory.
const NVM_BYTES: u64 = 64 << 20;

/// A way to commit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Engine {
    Ours(AnyPolicy),
    /// On plain memory, which no crash survives: what flushes and fences cost, without a file.
    OnPlainMemory(AnyPolicy),
    Stock {
        mode: &'static str,
        synchronous: &'static str,
        is_in_memory: bool,
    },
}

impl Engine {
    /// What all others are held against.
    pub(crate) const WAL_FULL_MEMORY: Self =
        Self::Stock { mode: "WAL", synchronous: "FULL", is_in_memory: true };

    /// The one that the aims are of.
    pub(crate) const FULL_BLOCK: Self = Self::Ours(AnyPolicy::FullBlock(FullBlock));
    pub(crate) const WAL_FULL_DISK: Self =
        Self::Stock { mode: "WAL", synchronous: "FULL", is_in_memory: false };

    pub(crate) fn all() -> Vec<Self> {
        let disk = |mode, synchronous| Self::Stock { mode, synchronous, is_in_memory: false };
        let mut all: Vec<_> =
            AnyPolicy::ALL.iter().map(|policy| Self::Ours(for_pages(*policy))).collect();
        all.extend([
            Self::OnPlainMemory(FullBlock.into()),
            Self::WAL_FULL_MEMORY,
            Self::WAL_FULL_DISK,
            disk("WAL", "NORMAL"),
            disk("DELETE", "FULL"),
        ]);
        all
    }

    /// Whether a commit survives a power cut, on a medium that does.
    pub(crate) fn is_durable(&self) -> bool {
        let is_normal = matches!(self, Self::Stock { synchronous: "NORMAL", .. });
        !is_normal && !matches!(self, Self::OnPlainMemory(_))
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(policy) => write!(f, "nvm-journal {policy}"),
            Self::OnPlainMemory(policy) => write!(f, "{policy}, plain memory (loses)"),
            Self::Stock { mode, synchronous, is_in_memory } => {
                let place = if *is_in_memory { "in memory" } else { "on the disk" };
                let note = if self.is_durable() { "" } else { " (loses)" };
                write!(f, "SQLite {mode}+{synchronous} {place}{note}")
            }
        }
    }
}

/// An engine that is open.
pub(crate) struct Open {
    connection: Connection,
    mounted: Option<Mounted>,
    state: State,
}

fn settings(connection: &Connection, mode: &str, synchronous: &str) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(16);
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = {mode}; PRAGMA synchronous = {synchronous}; \
         PRAGMA cache_size = -98304"
    ))
}

impl Open {
    pub(crate) fn new(
        engine: Engine,
        template: &Path,
        disk: &Path,
        nvm: &Path,
        rows: i64,
    ) -> Result<Self, Box<dyn Error>> {
        let name = engine.to_string().replace([' ', '+', '(', ')', ','], "-");
        let state = State { seed: 0x5EED, rows };
        match engine {
            Engine::Ours(policy) | Engine::OnPlainMemory(policy) => {
                let path = disk.join(&name);
                std::fs::copy(template, &path)?;
                let mut settings = mount_of(policy, &nvm.join(name));
                if engine == Engine::OnPlainMemory(policy) {
                    settings = settings.anonymous().map(MapOptions::new().prefault());
                }
                let mounted = mount(&path, &settings)?;
                Ok(Self { connection: connect(&path)?, mounted: Some(mounted), state })
            }
            Engine::Stock { mode, synchronous, is_in_memory } => {
                let path = if is_in_memory { nvm.join(name) } else { disk.join(name) };
                std::fs::copy(template, &path)?;
                let connection = Connection::open(&path)?;
                settings(&connection, mode, synchronous)?;
                Ok(Self { connection, mounted: None, state })
            }
        }
    }

    /// One of ours that counts what reaches the media.
    pub(crate) fn counted(
        policy: AnyPolicy,
        template: &Path,
        disk: &Path,
        nvm: &Path,
        rows: i64,
    ) -> Result<(Self, Media), Box<dyn Error>> {
        let path = disk.join("db");
        std::fs::copy(template, &path)?;
        let media = Media::default();
        let mounted = mount_with_hook(&path, &mount_of(policy, &nvm.join("nvm")), &media)?;
        let state = State { seed: 0x5EED, rows };
        Ok((Self { connection: connect(&path)?, mounted: Some(mounted), state }, media))
    }

    /// Does one transaction; returns how long it took.
    pub(crate) fn transaction(&mut self, workload: Workload) -> rusqlite::Result<Duration> {
        let start = Instant::now();
        if workload.is_several() {
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        }
        workload.run(&self.connection, &mut self.state)?;
        if workload.is_several() {
            self.connection.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(start.elapsed())
    }

    pub(crate) fn close(self) -> Result<(), Box<dyn Error>> {
        let Self { connection, mounted, .. } = self;
        connection.close().map_err(|(_, error)| error)?;
        if let Some(mounted) = mounted {
            mounted.close()?;
        }
        Ok(())
    }
}

fn mount_of(policy: AnyPolicy, nvm: &Path) -> Mount {
    Mount::new().nvm(nvm).nvm_bytes(NVM_BYTES).policy(policy)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), VFS)?;
    settings(&connection, "DELETE", "FULL")?;
    Ok(connection)
}

/// What reached the media.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    pub(crate) fences: u64,
    pub(crate) disk_writes: u64,
    pub(crate) disk_blocks: u64,
    pub(crate) disk_syncs: u64,
}

impl Counted {
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            lines: self.lines - before.lines,
            fences: self.fences - before.fences,
            disk_writes: self.disk_writes - before.disk_writes,
            disk_blocks: self.disk_blocks - before.disk_blocks,
            disk_syncs: self.disk_syncs - before.disk_syncs,
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    lines: AtomicU64,
    fences: AtomicU64,
    disk_writes: AtomicU64,
    disk_blocks: AtomicU64,
    disk_syncs: AtomicU64,
}

/// A hook that counts what reaches the media.
#[derive(Clone, Debug, Default)]
pub(crate) struct Media(Arc<Counts>);

impl Media {
    pub(crate) fn now(&self) -> Counted {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counted {
            bytes: now(&self.0.bytes),
            lines: now(&self.0.lines),
            fences: now(&self.0.fences),
            disk_writes: now(&self.0.disk_writes),
            disk_blocks: now(&self.0.disk_blocks),
            disk_syncs: now(&self.0.disk_syncs),
        }
    }

    fn stored(&self, at: Offset, bytes: usize) {
        let (first, end) = (at.raw() / 64, (at.raw() + bytes as u64).div_ceil(64));
        self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.0.lines.fetch_add(end - first, Ordering::Relaxed);
    }
}

impl Hook for Media {
    fn store<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.stored(at, bytes.len());
        pmem.store(at, bytes);
    }

    fn store_u64<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, value: u64) {
        self.stored(at, 8);
        pmem.store_u64(at, value);
    }

    fn stream<P: Pmem>(&mut self, _site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.stored(at, bytes.len());
        pmem.stream(at, bytes);
    }

    fn write_piece<P: Pmem>(
        &mut self,
        _site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        whole_bytes: u64,
    ) {
        self.stored(at, bytes.len());
        if whole_bytes < pmem.facts().stream_from_bytes as u64 {
            pmem.store(at, bytes);
            pmem.flush(at, bytes.len());
        } else {
            pmem.stream(at, bytes);
        }
    }

    fn fence<P: Pmem>(&mut self, _site: Site, pmem: &mut P) -> Result<(), MediumError> {
        self.0.fences.fetch_add(1, Ordering::Relaxed);
        pmem.fence()
    }

    fn disk_write<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        let bytes: usize = from.iter().map(|part| part.len()).sum();
        let blocks = bytes / device.block_size().bytes();
        self.0.disk_writes.fetch_add(1, Ordering::Relaxed);
        self.0.disk_blocks.fetch_add(blocks as u64, Ordering::Relaxed);
        device.write_vectored(first, from)
    }

    fn disk_sync<D: BlockDevice>(
        &mut self,
        _site: Site,
        device: &mut D,
    ) -> Result<(), DeviceError> {
        self.0.disk_syncs.fetch_add(1, Ordering::Relaxed);
        device.sync()
    }
}
