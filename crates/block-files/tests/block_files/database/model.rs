//! What a transaction does to redb, and to two maps.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use redb::{
    Database, Durability, MultimapTableDefinition, ReadableDatabase, ReadableTable,
    ReadableTableMetadata as _, TableDefinition, TableError,
};

const ROWS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("rows");
const SETS: MultimapTableDefinition<'_, u64, u64> = MultimapTableDefinition::new("sets");

/// Everything that is in a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    rows: BTreeMap<u64, Vec<u8>>,
    sets: BTreeMap<u64, BTreeSet<u64>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Insert(u64, u8, u16),
    Remove(u64),
    PopFirst,
    PopLast,
    /// Only keys that this one divides are kept.
    Retain(u64),
    /// The values of a range grow by a byte.
    Grow(u64, u64),
    DeleteRows,
    Join(u64, u64),
    Leave(u64, u64),
    LeaveAll(u64),
    /// What follows is taken back by a savepoint.
    Savepoint(Vec<Act>),
}

#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    acts: Vec<Act>,
    is_durable: bool,
    is_aborted: bool,
}

pub(crate) fn transactions() -> impl Strategy<Value = Transaction> {
    let key = 0..24_u64;
    let act = prop_oneof![
        6 => (key.clone(), any::<u8>(), 0..3000_u16)
            .prop_map(|(key, byte, len)| Act::Insert(key, byte, len)),
        3 => key.clone().prop_map(Act::Remove),
        1 => Just(Act::PopFirst),
        1 => Just(Act::PopLast),
        1 => (2..5_u64).prop_map(Act::Retain),
        1 => (key.clone(), key.clone()).prop_map(|(from, to)| Act::Grow(from, to)),
        1 => Just(Act::DeleteRows),
        3 => (0..4_u64, key.clone()).prop_map(|(set, value)| Act::Join(set, value)),
        2 => (0..4_u64, key).prop_map(|(set, value)| Act::Leave(set, value)),
        1 => (0..4_u64).prop_map(Act::LeaveAll),
    ];
    let acts = prop::collection::vec(act, 0..6);
    let undone = prop::option::weighted(0.1, acts.clone());
    (acts, undone, prop::bool::weighted(0.8), prop::bool::weighted(0.1)).prop_map(
        |(mut acts, undone, is_durable, is_aborted)| {
            // A savepoint has to come before all other changes of its transaction.
            acts.splice(0..0, undone.map(Act::Savepoint));
            Transaction { acts, is_durable, is_aborted }
        },
    )
}

impl Transaction {
    pub(crate) fn insert(key: u64) -> Self {
        Self { acts: vec![Act::Insert(key, 7, 100)], is_durable: true, is_aborted: false }
    }

    pub(crate) const fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Runs it; returns whether it was committed.
    pub(crate) fn run(&self, database: &Database, content: &mut Content) -> bool {
        let mut begun = database.begin_write().expect("a transaction");
        let how = if self.is_durable { Durability::Immediate } else { Durability::None };
        begun.set_durability(how).expect("a durability");
        for act in &self.acts {
            act_on(&mut begun, content, act);
        }
        if self.is_aborted {
            begun.abort().expect("an abort");
            return false;
        }
        begun.commit().expect("a commit");
        true
    }
}

fn act_on(begun: &mut redb::WriteTransaction, content: &mut Content, act: &Act) {
    if let Act::Savepoint(acts) = act {
        let savepoint = begun.ephemeral_savepoint().expect("a savepoint");
        let mut gone = content.clone();
        for act in acts {
            act_on(begun, &mut gone, act);
        }
        begun.restore_savepoint(&savepoint).expect("it is valid");
        return;
    }
    if matches!(act, Act::DeleteRows) {
        let was_there = begun.delete_table(ROWS).expect("a table");
        assert!(was_there || content.rows.is_empty());
        content.rows.clear();
        return;
    }
    let mut rows = begun.open_table(ROWS).expect("a table");
    let mut sets = begun.open_multimap_table(SETS).expect("a table");
    let (in_rows, in_sets) = (&mut content.rows, &mut content.sets);
    match *act {
        Act::Insert(key, byte, len) => {
            let value = vec![byte; usize::from(len)];
            let old = rows.insert(key, value.as_slice()).expect("room");
            assert_eq!(old.map(|old| old.value().to_vec()), in_rows.insert(key, value));
        }
        Act::Remove(key) => {
            let old = rows.remove(key).expect("readable");
            assert_eq!(old.map(|old| old.value().to_vec()), in_rows.remove(&key));
        }
        Act::PopFirst => {
            let old = rows.pop_first().expect("readable").map(|(key, _)| key.value());
            assert_eq!(old, in_rows.pop_first().map(|(key, _)| key));
        }
        Act::PopLast => {
            let old = rows.pop_last().expect("readable").map(|(key, _)| key.value());
            assert_eq!(old, in_rows.pop_last().map(|(key, _)| key));
        }
        Act::Retain(divisor) => {
            rows.retain(|key, _| key % divisor == 0).expect("readable");
            in_rows.retain(|key, _| key % divisor == 0);
        }
        Act::Grow(from, to) => {
            let range = from.min(to)..from.max(to);
            let found: Vec<_> = rows
                .range(range.clone())
                .expect("readable")
                .map(|row| row.expect("readable"))
                .map(|(key, value)| (key.value(), [value.value(), b"+"].concat()))
                .collect();
            for (key, value) in &found {
                rows.insert(key, value.as_slice()).expect("room");
            }
            in_rows.range_mut(range).for_each(|(_, value)| value.push(b'+'));
        }
        Act::Join(set, value) => {
            let was_there = sets.insert(set, value).expect("room");
            assert_eq!(was_there, !in_sets.entry(set).or_default().insert(value));
        }
        Act::Leave(set, value) => {
            let was_there = sets.remove(set, value).expect("readable");
            let values = in_sets.entry(set).or_default();
            assert_eq!(was_there, values.remove(&value));
        }
        Act::LeaveAll(set) => {
            let count = sets.remove_all(set).expect("readable").count();
            assert_eq!(count, in_sets.remove(&set).map_or(0, |values| values.len()));
        }
        Act::Savepoint(_) | Act::DeleteRows => {}
    }
    in_sets.retain(|_, values| !values.is_empty());
}

/// Everything in a database that is whole.
pub(crate) fn check(database: &mut Database) -> Content {
    let read = database.begin_read().expect("a transaction");
    let mut content = Content::default();
    match read.open_table(ROWS) {
        Ok(table) => {
            for row in table.iter().expect("readable") {
                let (key, value) = row.expect("readable");
                content.rows.insert(key.value(), value.value().to_vec());
            }
            assert_eq!(table.len().expect("readable"), content.rows.len() as u64);
        }
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => panic!("{error}"),
    }
    match read.open_multimap_table(SETS) {
        Ok(table) => {
            use redb::ReadableMultimapTable as _;
            for row in table.iter().expect("readable") {
                let (key, values) = row.expect("readable");
                let values = values.map(|value| value.expect("readable").value()).collect();
                content.sets.insert(key.value(), values);
            }
        }
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => panic!("{error}"),
    }
    content
}
