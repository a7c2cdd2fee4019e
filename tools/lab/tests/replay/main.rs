//! The replay of traces: its reader against files that are none, its figures against counts made
//! once and looked at, and its crashes against a journal that gets its order wrong.
//!
//! The program `replay` replays longer traces by the same parts.

mod crashes;
mod deltas_cost;
mod figures;
mod files;
mod forgetful;
mod promise;
mod rules;
mod tables;

use lab::trace::{Header, State, Trace, TraceError, Transaction};

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
