//! The libraries, each with a way to make several pieces durable together.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;

use journal_core::policy::{Change, Patch, Update};
use journal_core::{BlockNumber, Durability, Operation};
use nvm_journal::{FullBlock, ObjectLog};
use okaywal::{Entry, EntryId, LogManager, SegmentReader, WriteAheadLog};
use redb::{Database, TableDefinition};
use rusqlite::Connection;

use crate::ffi::{Log, Mapped, Objects};
use lab::bench::media::{Bare, Nowhere, warm};
use lab::bench::work::{LANE_BYTES, commit_change, front, image, make_room};
use lab::bench::{Table, timed};

const POOL_BYTES: usize = 256 << 20;
const FILE_BYTES: u64 = 64 << 20;
/// Keys, or blocks, that are overwritten in turn.
const KEYS: u64 = 1 << 10;
const BLOCKS: Nowhere = Nowhere { blocks: KEYS };
/// Batches after which a peer gets time to clean up.
const CLEAN_UP: u64 = 8;

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("t");

/// What is made durable together.
#[derive(Clone, Copy)]
struct Pieces<'a> {
    images: &'a [u8],
    bytes: usize,
    count: u64,
}

impl<'a> Pieces<'a> {
    /// The pieces of a turn. Each turn begins `count` pieces after the one before.
    #[inline]
    fn at(self, turn: u64) -> impl Iterator<Item = &'a [u8]> {
        (turn..turn + self.count).map(move |at| &image(self.images, at)[..self.bytes])
    }

    const fn all_bytes(self) -> usize {
        self.bytes * self.count as usize
    }
}

/// One table: `count` pieces of `bytes` bytes each, durable together.
pub(crate) fn table<'a>(folder: &Path, images: &'a [u8], bytes: usize, count: u64) -> Table<'a> {
    let folder = folder.join(format!("{bytes}-{count}"));
    std::fs::create_dir(&folder).expect("a new folder");
    let mut rows = Rows {
        table: Table::new(format!("{count} x {bytes} B, durable")),
        limit: "limit",
        pieces: Pieces { images, bytes, count },
    };
    rows.bare();
    rows.ours();
    rows.pmdk(&folder);
    rows.pwrite(&folder);
    rows.okaywal(&folder);
    rows.raft_engine(&folder);
    rows.sqlite(&folder);
    rows.redb(&folder);
    rows.table
}

struct Rows<'a> {
    table: Table<'a>,
    limit: &'static str,
    pieces: Pieces<'a>,
}

impl<'a> Rows<'a> {
    /// Adds a row. `work` runs again and again, and `ready` before each batch.
    fn row(&mut self, name: &str, mut ready: impl FnMut(u64) + 'a, mut work: impl FnMut(u64) + 'a) {
        let (mut turn, count) = (0, self.pieces.count);
        self.table.row(name, self.limit, 1, None, move |batch| {
            ready(batch);
            timed(batch, |_| {
                work(turn);
                turn += count;
            })
        });
    }

    fn bare(&mut self) {
        let pieces = self.pieces;
        let mut bare = Bare::new(warm(LANE_BYTES));
        let work = move |turn| bare.commit(pieces.at(turn), pieces.all_bytes());
        self.row(self.limit, drop, work);
        self.table.out_of_contest();
    }

    fn ours(&mut self) {
        let Pieces { images, bytes, count } = self.pieces;
        if bytes < journal_core::BlockSize::DEFAULT.bytes() {
            let journal = Rc::new(front(ObjectLog::new(), BLOCKS, 1));
            let room = Rc::clone(&journal);
            let ready = move |batch| make_room(&room, batch, 1);
            self.row("nvm-journal, object-log, in one call", ready, move |turn| {
                let patch = [Patch { at: 512, bytes: &image(images, turn)[..bytes] }];
                let change = Change::Patches(&patch);
                commit_change(&journal, turn % KEYS, change, Durability::Durable);
            });
            return;
        }
        let journal = Rc::new(front(FullBlock, BLOCKS, 1));
        let room = Rc::clone(&journal);
        let ready = move |batch| make_room(&room, batch, count);
        self.row("nvm-journal, full-block, in one call", ready, move |turn| {
            let update = |at| {
                let change = Change::Image(image(images, turn + at));
                Operation::Update(Update::new(BlockNumber((turn + at) % KEYS), change))
            };
            let done = match count {
                1 => journal.commit(&[update(0)], Durability::Durable),
                _ => {
                    let operations: Vec<_> = (0..count).map(update).collect();
                    journal.commit(&operations, Durability::Durable)
                }
            };
            done.expect("commits");
        });
    }

    fn pmdk(&mut self, folder: &Path) {
        let pieces = self.pieces;
        let images = pieces.images;
        let mut mapped = Mapped::create(&folder.join("pmem"), POOL_BYTES);
        for _ in 0..POOL_BYTES / images.len() {
            mapped.append(images);
        }
        self.row("pmem_memcpy_persist of each, not atomic", drop, move |turn| {
            pieces.at(turn).for_each(|piece| mapped.append(piece));
        });
        self.table.out_of_contest();
        let mut log = Log::create(&folder.join("log"), POOL_BYTES);
        for _ in 0..POOL_BYTES / images.len() {
            log.append(images);
        }
        // Several blocks are one record, which is made before: the call takes one buffer, and no
        // list.
        let record: Vec<u8> = images.iter().copied().cycle().take(pieces.all_bytes()).collect();
        self.row("libpmemlog append", drop, move |_| log.append(&record));
        let mut objects = Objects::create(&folder.join("objects"), POOL_BYTES);
        for _ in 0..POOL_BYTES / 2 / images.len() {
            objects.overwrite(std::iter::once(images));
        }
        let work = move |turn| objects.overwrite(pieces.at(turn));
        self.row("libpmemobj transaction", drop, work);
    }

    fn pwrite(&mut self, folder: &Path) {
        let file = File::create_new(folder.join("plain")).expect("a file");
        let zeroes = vec![0; 1 << 20];
        for at in (0..FILE_BYTES).step_by(zeroes.len()) {
            file.write_all_at(&zeroes, at).expect("writes");
        }
        let pieces = self.pieces;
        let (bytes, all_bytes) = (pieces.bytes, pieces.all_bytes() as u64);
        self.row("pwrite of each, fdatasync, not atomic", drop, move |turn| {
            let start = turn * bytes as u64 % (FILE_BYTES - all_bytes);
            for (piece, at) in pieces.at(turn).zip((start..).step_by(bytes)) {
                file.write_all_at(piece, at).expect("writes");
            }
            file.sync_data().expect("syncs");
        });
        self.table.out_of_contest();
    }

    fn okaywal(&mut self, folder: &Path) {
        let log = okaywal::Configuration::default_for(folder.join("okaywal"))
            .preallocate_bytes(64 << 20)
            .checkpoint_after_bytes(60 << 20)
            .open(Forgets)
            .expect("opens");
        let pieces = self.pieces;
        self.row("okaywal, an entry", drop, move |turn| {
            let mut entry = log.begin_entry().expect("begins");
            for piece in pieces.at(turn) {
                entry.write_chunk(piece).expect("writes");
            }
            entry.commit().expect("commits");
        });
    }

    fn raft_engine(&mut self, folder: &Path) {
        let config = raft_engine::Config {
            dir: folder.join("raft-engine").to_string_lossy().into_owned(),
            batch_compression_threshold: raft_engine::ReadableSize(0),
            target_file_size: raft_engine::ReadableSize::mb(64),
            purge_threshold: raft_engine::ReadableSize::mb(256),
            ..raft_engine::Config::default()
        };
        let engine = Rc::new(raft_engine::Engine::open(config).expect("opens"));
        let cleaned = Rc::clone(&engine);
        let clean_up = every(CLEAN_UP, move || {
            cleaned.purge_expired_files().expect("purges");
        });
        let pieces = self.pieces;
        self.row("raft-engine, a batch, sync", clean_up, move |turn| {
            let mut batch = raft_engine::LogBatch::default();
            for (piece, at) in pieces.at(turn).zip(turn..) {
                let key = (at % KEYS).to_be_bytes().to_vec();
                batch.put(1, key, piece.to_vec()).expect("fits");
            }
            engine.write(&mut batch, true).expect("writes");
        });
    }

    fn sqlite(&mut self, folder: &Path) {
        let database = Rc::new(Connection::open(folder.join("sqlite")).expect("opens"));
        // FULL: each commit syncs the log. Writing home is not timed.
        for (name, value) in
            [("page_size", "4096"), ("journal_mode", "WAL"), ("synchronous", "FULL")]
        {
            database.pragma_update(None, name, value).expect("is set");
        }
        database.pragma_update(None, "wal_autocheckpoint", 0).expect("is set");
        for (name, expected) in [("journal_mode", "wal"), ("synchronous", "2")] {
            let ask = format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}");
            let answer: String = database.query_row(&ask, (), |row| row.get(0)).expect("answers");
            assert_eq!(answer, expected, "{name}");
        }
        database.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)", ()).expect("a table");
        // A page has room for a row of 4000 bytes, and not for one of 4096.
        let pieces = self.pieces;
        let row_bytes = pieces.bytes.min(4000);
        database.execute_batch("BEGIN").expect("begins");
        for key in 0..KEYS {
            let value = &pieces.images[..row_bytes];
            database.execute("INSERT INTO t VALUES(?1, ?2)", (key as i64, value)).expect("inserts");
        }
        database.execute_batch("COMMIT").expect("commits");
        let home = Rc::clone(&database);
        let clean_up = every(CLEAN_UP, move || {
            let checkpoint = "PRAGMA wal_checkpoint(RESTART)";
            home.query_row(checkpoint, (), |_| Ok(())).expect("writes home");
        });
        let name = if row_bytes < pieces.bytes {
            "SQLite, WAL, FULL, rows of 4000 B"
        } else {
            "SQLite, WAL, FULL"
        };
        self.row(name, clean_up, move |turn| {
            let mut update = database.prepare_cached("UPDATE t SET v = ?2 WHERE k = ?1");
            let update = update.as_mut().expect("prepares");
            if pieces.count > 1 {
                database.execute_batch("BEGIN IMMEDIATE").expect("begins");
            }
            for (piece, at) in pieces.at(turn).zip(turn..) {
                let changed =
                    update.execute(((at % KEYS) as i64, &piece[..row_bytes])).expect("updates");
                assert_eq!(changed, 1);
            }
            if pieces.count > 1 {
                database.execute_batch("COMMIT").expect("commits");
            }
        });
    }

    fn redb(&mut self, folder: &Path) {
        let database = Database::create(folder.join("redb")).expect("opens");
        let write = move |pieces: &mut dyn Iterator<Item = (u64, &[u8])>| {
            let transaction = database.begin_write().expect("begins");
            let mut table = transaction.open_table(TABLE).expect("a table");
            for (key, piece) in pieces {
                table.insert(key, piece).expect("inserts");
            }
            drop(table);
            transaction.commit().expect("commits");
        };
        let pieces = self.pieces;
        let first = &pieces.images[..pieces.bytes];
        write(&mut (0..KEYS).map(|key| (key, first)));
        self.row("redb, durable", drop, move |turn| {
            let keys = (turn..).map(|at| at % KEYS);
            write(&mut keys.zip(pieces.at(turn)));
        });
    }
}

/// Does something before every `batches`th batch.
fn every(batches: u64, mut work: impl FnMut()) -> impl FnMut(u64) {
    let mut batch = 0;
    move |_| {
        batch += 1;
        if batch % batches == 0 {
            work();
        }
    }
}

/// Keeps nothing of what the log hands back to it.
#[derive(Debug)]
struct Forgets;

impl LogManager for Forgets {
    fn recover(&mut self, _entry: &mut Entry<'_>) -> std::io::Result<()> {
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _last: EntryId,
        _entries: &mut SegmentReader,
        _log: &WriteAheadLog,
    ) -> std::io::Result<()> {
        Ok(())
    }
}
