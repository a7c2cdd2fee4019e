//! The replay of traces: its reader against files that are none, its figures against counts made
//! once and looked at, and its crashes against a journal that gets its order wrong.
//!
//! What it is made of is shared with `examples/replay`, which replays longer traces.

#![allow(dead_code, reason = "the example uses the rest of what is shared")]

#[path = "../../examples/replay/bound.rs"]
mod bound;
#[path = "../../examples/replay/count.rs"]
mod count;
#[path = "../../examples/replay/crash.rs"]
mod crash;
mod crashes;
#[path = "../../examples/replay/deltas.rs"]
mod deltas;
mod deltas_cost;
mod figures;
mod files;
mod forgetful;
#[path = "../../examples/replay/frame.rs"]
mod frame;
#[path = "../../examples/replay/media.rs"]
mod media;
#[path = "../../examples/replay/papers.rs"]
mod papers;
#[path = "../../examples/replay/policies.rs"]
mod policies;
#[path = "../../examples/replay/room.rs"]
mod room;
mod rules;
#[path = "../../examples/replay/run.rs"]
mod run;
#[path = "../../examples/replay/table.rs"]
mod table;
mod tables;
#[path = "../../examples/replay/times.rs"]
mod times;
#[path = "../../examples/replay/trace.rs"]
mod trace;
#[path = "../../examples/replay/versions.rs"]
mod versions;
#[path = "../../examples/support/whole_slots.rs"]
mod whole_slots;
#[path = "../../examples/replay/writer.rs"]
mod writer;

use trace::{Header, State, Trace, TraceError, Transaction};

/// The trace that is kept, made by `--make-sample`.
const SAMPLE: &[u8] = include_bytes!("../traces/sample.btrc.zst");

/// Everything that a trace says.
#[derive(Clone, Debug, PartialEq)]
struct Whole {
    header: Header,
    bases: State,
    transactions: Vec<Transaction>,
    end: State,
}

fn read(file: &[u8]) -> Result<Whole, TraceError> {
    let mut trace = Trace::open(file)?;
    let (header, bases) = (trace.header().clone(), trace.state().clone());
    let mut transactions = Vec::new();
    while trace.advance()? {
        transactions.push(trace.transaction().clone());
    }
    assert_eq!(trace.advance(), Ok(false), "the end stays the end");
    Ok(Whole { header, bases, transactions, end: trace.state().clone() })
}
