//! TPC-C by its pages: the five transactions in their mix over tables of some warehouses, with the
//! indexes that SQLite makes of their keys.
//!
//! The tables are a twelfth of the standard's, as in the real trace. Rows have the bytes of their
//! columns on average. Numbers that a transaction counts up grow by a byte when they first need
//! one, as SQLite stores them, and a row that grows moves in its page.

use sim_disk::Rng;

use crate::papers::generators::database::{PagedDatabase, letters};
use crate::papers::generators::phone::{Phone, RollbackEnd};
use crate::papers::generators::slotted::{CELL_BYTES, PageKind};

/// What the tables are divided by.
const SCALE: u64 = 12;
/// Rows of a warehouse.
const DISTRICTS: u64 = 10;
const ITEMS: u64 = 100_000 / SCALE;
const CUSTOMERS: u64 = 3_000 / SCALE;
const ORDERS: u64 = 3_000 / SCALE;
/// The part of the first orders that is delivered, in a hundred.
const DELIVERED: u64 = 70;
/// Lines of an order.
const LINES: (u64, u64) = (5, 15);
/// The mix, in a hundred: what writes; all others read.
const NEW_ORDERS: u64 = 45;
const PAYMENTS: u64 = 43;
const DELIVERIES: u64 = 4;
/// Of which customers in a hundred the data is rewritten by a payment.
const BAD_CREDIT: u64 = 10;
/// Bytes of a customer's data at most.
const DATA_BYTES: usize = 500;
/// Transactions that wrote something, in the real trace.
pub const WRITING: u64 = 407;
/// Blocks that are free: the real file system comes back to the first of them after as many.
const FREE_BLOCKS: u64 = 2_600;

/// Bytes of rows, with what a cell has beside its content.
#[derive(Clone, Copy)]
enum RowOf {
    Warehouse = 90,
    District = 101,
    Customer = 560,
    History = 71,
    Stock = 306,
    Order = 43,
    NewOrder = 18,
    Line = 63,
    Key = 24,
}

impl RowOf {
    fn content(self, key: u64) -> Vec<u8> {
        letters(key, self as usize - CELL_BYTES)
    }
}

/// Where a row has what a transaction counts, and where it grows.
const COUNTED_AT: usize = 8;
const COUNTED_BYTES: usize = 3;

/// A tree for each table and each index.
#[derive(Clone, Copy)]
struct Trees {
    warehouse: usize,
    district: usize,
    customer: usize,
    history: usize,
    stock: usize,
    orders: usize,
    order_keys: [usize; 3],
    new_orders: usize,
    new_order_keys: usize,
    lines: usize,
    line_keys: [usize; 2],
}

/// The workload so far.
struct Tpcc {
    rng: Rng,
    trees: Trees,
    warehouses: u64,
    /// Rows of tables that grow.
    orders: u64,
    lines: u64,
    history: u64,
    /// The next order of each district, and the first one that is not delivered.
    next: Vec<u64>,
    undelivered: Vec<u64>,
    /// The row of an order, its first line, and how many it has; by district and number.
    placed: Vec<Vec<(u64, u64, u64)>>,
    /// How often a row was counted up, of those that grow by it.
    stock_counts: Vec<u8>,
    customer_counts: Vec<u8>,
}

impl Tpcc {
    fn load(seed: u64, warehouses: u64) -> (Self, PagedDatabase) {
        let mut database = PagedDatabase::default();
        let mut table = || database.tree(PageKind::Table);
        let [warehouse, district, customer, history, stock, orders, new_orders, lines] =
            [(); 8].map(|()| table());
        let [a, b, c, d, e, new_order_keys] = [(); 6].map(|()| database.tree(PageKind::Index));
        let trees = Trees {
            warehouse,
            district,
            customer,
            history,
            stock,
            orders,
            order_keys: [a, b, c],
            new_orders,
            new_order_keys,
            lines,
            line_keys: [d, e],
        };
        let districts = (warehouses * DISTRICTS) as usize;
        let customers = districts * CUSTOMERS as usize;
        let mut tpcc = Self {
            rng: Rng::new(seed),
            trees,
            warehouses,
            orders: 0,
            lines: 0,
            history: 0,
            next: vec![0; districts],
            undelivered: vec![ORDERS * DELIVERED / 100; districts],
            placed: vec![Vec::new(); districts],
            stock_counts: vec![0; (warehouses * ITEMS) as usize],
            customer_counts: vec![0; customers],
        };
        for key in 0..warehouses {
            database.insert(warehouse, key, &RowOf::Warehouse.content(key));
        }
        for key in 0..districts as u64 {
            database.insert(district, key, &RowOf::District.content(key));
        }
        for key in 0..warehouses * ITEMS {
            database.insert(stock, key, &RowOf::Stock.content(key));
        }
        for key in 0..customers as u64 {
            database.insert(customer, key, &RowOf::Customer.content(key));
            tpcc.pay(&mut database);
        }
        for district in 0..districts {
            for number in 0..ORDERS {
                let is_delivered = number < tpcc.undelivered[district];
                tpcc.place(&mut database, district, is_delivered);
            }
        }
        (tpcc, database)
    }

    /// The skewed choice of the standard, clause 2.1.6.
    const fn skewed(&mut self, most: u64, count: u64) -> u64 {
        (self.rng.below(most + 1) | self.rng.below(count)) % count
    }

    /// A row of the history.
    fn pay(&mut self, database: &mut PagedDatabase) {
        database.insert(self.trees.history, self.history, &RowOf::History.content(self.history));
        self.history += 1;
    }

    /// An order, and its lines.
    fn place(&mut self, database: &mut PagedDatabase, district: usize, is_delivered: bool) -> u64 {
        let Trees { orders, order_keys, new_orders, new_order_keys, lines, line_keys, .. } =
            self.trees;
        let number = self.next[district];
        self.next[district] += 1;
        let key = (district as u64) << 32 | number;
        let row = self.orders;
        self.orders += 1;
        database.insert(orders, row, &RowOf::Order.content(row));
        let customer = self.rng.below(CUSTOMERS);
        let of_customer = (district as u64) << 48 | customer << 32 | number;
        for (tree, key) in order_keys.into_iter().zip([key, of_customer, of_customer]) {
            database.insert(tree, key, &RowOf::Key.content(key));
        }
        if !is_delivered {
            database.insert(new_orders, row, &RowOf::NewOrder.content(row));
            database.insert(new_order_keys, key, &RowOf::Key.content(key));
        }
        let count = LINES.0 + self.rng.below(LINES.1 - LINES.0 + 1);
        self.placed[district].push((row, self.lines, count));
        for line in 0..count {
            database.insert(lines, self.lines, &RowOf::Line.content(self.lines));
            for tree in line_keys {
                database.insert(tree, key << 8 | line, &RowOf::Key.content(key));
            }
            self.lines += 1;
        }
        count
    }

    /// Counts something up in a row, which grows by some bytes.
    fn count(database: &mut PagedDatabase, tree: usize, key: u64, word: u64, grows: usize) {
        database.update(tree, key, |row| {
            let counted = &mut row[COUNTED_AT..COUNTED_AT + COUNTED_BYTES];
            counted.copy_from_slice(&word.to_le_bytes()[..COUNTED_BYTES]);
            for _ in 0..grows {
                row.insert(COUNTED_AT, word as u8);
            }
        });
    }

    /// How much a row grows that was counted up this often: by these bytes, a step each.
    fn growth(counts: &mut u8, steps: &[usize]) -> usize {
        let grows = steps.get(usize::from(*counts)).copied().unwrap_or(0);
        *counts = counts.saturating_add(1);
        grows
    }

    fn new_order(&mut self, database: &mut PagedDatabase) {
        let warehouse = self.rng.below(self.warehouses);
        let district = warehouse * DISTRICTS + self.rng.below(DISTRICTS);
        let word = self.rng.next_u64();
        Self::count(database, self.trees.district, district, word, 0);
        let lines = self.place(database, district as usize, false);
        for _ in 0..lines {
            let item = warehouse * ITEMS + self.skewed(8_191, ITEMS);
            // The sum and the number of orders are two numbers, of which one grows at a time.
            let grows = Self::growth(&mut self.stock_counts[item as usize], &[1, 1]);
            let word = self.rng.next_u64();
            Self::count(database, self.trees.stock, item, word, grows);
        }
    }

    fn customer_of(&mut self, district: u64) -> u64 {
        district * CUSTOMERS + self.skewed(1_023, CUSTOMERS)
    }

    fn payment(&mut self, database: &mut PagedDatabase) {
        let warehouse = self.rng.below(self.warehouses);
        let district = warehouse * DISTRICTS + self.rng.below(DISTRICTS);
        let customer = self.customer_of(district);
        let word = self.rng.next_u64();
        Self::count(database, self.trees.warehouse, warehouse, word, 0);
        Self::count(database, self.trees.district, district, word, 0);
        // Two sums become numbers with a fraction: seven bytes more each.
        let grows = Self::growth(&mut self.customer_counts[customer as usize], &[14, 1]);
        Self::count(database, self.trees.customer, customer, word, grows);
        if self.rng.below(100) < BAD_CREDIT {
            let new = letters(word, 30);
            database.update(self.trees.customer, customer, |row| {
                let at = row.len().saturating_sub(DATA_BYTES);
                row.splice(at..at, new);
                row.truncate(RowOf::Customer as usize + DATA_BYTES / 4);
            });
        }
        self.pay(database);
    }

    fn delivery(&mut self, database: &mut PagedDatabase) {
        let warehouse = self.rng.below(self.warehouses);
        for district in warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS {
            let at = district as usize;
            let number = self.undelivered[at];
            let Some((row, first, count)) = self.placed[at].get(number as usize).copied() else {
                continue;
            };
            self.undelivered[at] += 1;
            database.delete(self.trees.new_orders, row);
            database.delete(self.trees.new_order_keys, district << 32 | number);
            let word = self.rng.next_u64();
            Self::count(database, self.trees.orders, row, word, 1);
            for line in first..first + count {
                // The date.
                Self::count(database, self.trees.lines, line, word, 26);
            }
            let customer = self.customer_of(district);
            let grows = Self::growth(&mut self.customer_counts[customer as usize], &[7, 7]);
            Self::count(database, self.trees.customer, customer, word, grows);
        }
    }
}

/// The workload as a trace, of this number of transactions that write something.
pub fn trace(seed: u64, warehouses: u64, writing: u64) -> Vec<u8> {
    let (mut tpcc, database) = Tpcc::load(seed, warehouses);
    let mut phone = Phone::new(database, RollbackEnd::Delete, FREE_BLOCKS);
    // The first transaction is part of what was there.
    tpcc.payment(&mut phone.database);
    phone.commit();
    phone.record();
    let mut written = 0;
    while written < writing {
        let database = &mut phone.database;
        match tpcc.rng.below(100) {
            at if at < NEW_ORDERS => tpcc.new_order(database),
            at if at < NEW_ORDERS + PAYMENTS => tpcc.payment(database),
            at if at < NEW_ORDERS + PAYMENTS + DELIVERIES => tpcc.delivery(database),
            _ => continue,
        }
        phone.commit();
        written += 1;
    }
    phone.into_trace("TPC-C, a generator")
}
