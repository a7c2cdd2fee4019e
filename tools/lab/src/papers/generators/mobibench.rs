//! Mobibench: rows are inserted into three tables, updated and deleted, a transaction each.

use sim_disk::Rng;

use crate::papers::generators::database::{PagedDatabase, letters};
use crate::papers::generators::phone::{Phone, RollbackEnd};
use crate::papers::generators::slotted::{CELL_BYTES, PageKind};

/// Transactions of each kind in the real trace.
pub const OF_EACH_KIND: u64 = 400;
const TABLES: usize = 3;
/// A row takes 107 bytes, so that a page has 37.
const ROW_BYTES: usize = 107 - CELL_BYTES;
/// Bytes that an update changes.
const UPDATED_BYTES: usize = 97;
/// How often in a hundred an update finds its row in a table.
const FOUND: u64 = 70;
/// Blocks that are free: the real file system comes back to the first of them after as many.
const FREE_BLOCKS: u64 = 2_500;

/// The workload as a trace, with this number of transactions of each kind.
pub fn trace(seed: u64, of_each_kind: u64) -> Vec<u8> {
    let (mut rng, mut database) = (Rng::new(seed), PagedDatabase::default());
    let tables = [(); TABLES].map(|()| database.tree(PageKind::Table));
    let mut phone = Phone::new(database, RollbackEnd::Truncate, FREE_BLOCKS);
    phone.record();
    for key in 1..=of_each_kind {
        for table in tables {
            phone.database.insert(table, key, &letters(key, ROW_BYTES));
        }
        phone.commit();
    }
    for transaction in 0..of_each_kind {
        for table in tables {
            let key = 1 + rng.below(of_each_kind);
            if rng.below(100) < FOUND {
                let new = letters(of_each_kind + transaction, UPDATED_BYTES);
                phone.database.update(table, key, |row| row[..UPDATED_BYTES].copy_from_slice(&new));
            }
        }
        phone.commit();
    }
    let mut left: Vec<u64> = (1..=of_each_kind).collect();
    while !left.is_empty() {
        let key = left.swap_remove(rng.index(left.len()));
        for table in tables {
            phone.database.delete(table, key);
        }
        phone.commit();
    }
    phone.into_trace("mobibench, a generator")
}
