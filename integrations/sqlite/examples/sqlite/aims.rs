//! What the figures should be, and whether they are.

use std::fmt;

use serde_json::{Value, json};

use crate::engine::Engine;
use crate::workload::Workload;

/// The most bytes of persistent memory that a policy of changes stores for a row.
const BYTES_MOST: f64 = 400.0;
/// How many times faster than a WAL on the disk.
const TIMES_LEAST: f64 = 20.0;

/// One aim.
pub(crate) struct Aim {
    what: String,
    found: String,
    is_met: bool,
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let says = if self.is_met { "met" } else { "NOT MET" };
        write!(f, "{:62} {:>10}  {says}", self.what, self.found)
    }
}

impl Aim {
    pub(crate) fn to_json(&self) -> Value {
        json!({ "aim": self.what, "found": self.found, "met": self.is_met })
    }
}

/// A number of the row of a table that has a name.
fn number(rows: &Value, (key, name): (&str, &str), column: &str) -> f64 {
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let row = rows.iter().find(|row| row[key] == name);
    row.and_then(|row| row[column].as_f64()).unwrap_or(f64::NAN)
}

/// All aims, for one row inserted. A figure that is missing meets none.
pub(crate) fn all(tables: &[Value], counts: &Value, counted: u32) -> Vec<Aim> {
    let insert = Workload::Insert.to_string();
    let latencies = tables.iter().find(|table| table["workload"] == insert.as_str());
    let rows = latencies.map_or(&Value::Null, |table| &table["engines"]);
    let of_engine = |engine: Engine, column| {
        let name = engine.to_string();
        number(rows, ("engine", &name), column)
    };
    let mut aims = Vec::new();
    // 1. Time.
    let ratio = of_engine(Engine::FULL_BLOCK, "to_wal_full_in_memory");
    aims.push(Aim {
        what: "full-block: no slower than SQLite WAL+FULL in memory".to_owned(),
        found: format!("{ratio:.2} of it"),
        is_met: ratio <= 1.0,
    });
    let times =
        of_engine(Engine::WAL_FULL_DISK, "p50_us") / of_engine(Engine::FULL_BLOCK, "p50_us");
    aims.push(Aim {
        what: format!("full-block: {TIMES_LEAST} times as fast as SQLite WAL+FULL on the disk"),
        found: format!("{times:.0} times"),
        is_met: times >= TIMES_LEAST,
    });
    // 2. Fences and bytes.
    let one_row = counts.as_array().map(Vec::as_slice).unwrap_or_default();
    for row in one_row.iter().filter(|row| row["workload"] == insert.as_str()) {
        let policy = row["policy"].as_str().unwrap_or_default();
        let each = |column: &str| row[column].as_f64().unwrap_or(f64::NAN) / f64::from(counted);
        let fences = each("fences");
        aims.push(Aim {
            what: format!("{policy}: 1.00 fences a commit"),
            found: format!("{fences:.3}"),
            is_met: fences < 1.005,
        });
        if row["of_changes"] == true {
            let bytes = each("nvm_bytes");
            aims.push(Aim {
                what: format!("{policy}: at most {BYTES_MOST} bytes a commit"),
                found: format!("{bytes:.0}"),
                is_met: bytes <= BYTES_MOST,
            });
        }
    }
    aims
}
