//! The reader of traces, under any bytes: as a file, or as what a right file holds.
//!
//! 1. Reading ends in a trace or in an error that says where: no panic, and no more memory than
//!    the content is long.
//! 2. A trace that was read, written again, is read as the same.

#![no_main]

use arbitrary::Arbitrary;
use journal_core::BlockSize;
use lab::trace::writer::TraceWriter;
use lab::trace::{self, Header, State, Trace, TraceError, Transaction, envelope};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    File(&'a [u8]),
    Content {
        /// Whether a last record is put behind it, with the counts and the sum that it has to have.
        ended: bool,
        bytes: &'a [u8],
    },
}

#[derive(Debug, PartialEq)]
struct Whole {
    header: Header,
    bases: State,
    transactions: Vec<Transaction>,
}

fn read(file: &[u8]) -> Result<Whole, TraceError> {
    let mut trace = Trace::open(file)?;
    let (header, bases) = (trace.header().clone(), trace.state().clone());
    let mut transactions = Vec::new();
    while trace.advance()? {
        transactions.push(trace.transaction().clone());
    }
    assert_eq!(trace.advance(), Ok(false), "the end stays the end");
    let mut state = bases.clone();
    for write in transactions.iter().flat_map(|transaction| &transaction.writes) {
        let old = state.insert(write.block, write.image.clone());
        assert!(old.is_some(), "a block that is written has a base");
    }
    assert_eq!(*trace.state(), state);
    Ok(Whole { header, bases, transactions })
}

fn written(whole: &Whole) -> Vec<u8> {
    let Header { name, block_size, device_blocks } = &whole.header;
    let mut writer = TraceWriter::new(name, *block_size, *device_blocks);
    whole.bases.iter().for_each(|(block, image)| writer.base(*block, Some(image)));
    for transaction in &whole.transactions {
        writer.begin(transaction.number);
        for write in &transaction.writes {
            writer.write(write.block, write.class, write.flags, &write.image);
        }
        writer.commit(transaction.number);
    }
    writer.end();
    writer.into_file()
}

/// How many transactions, and writes, there are before the last record: what the reader found when
/// it missed that one.
fn counts(content: &[u8]) -> (u64, u64) {
    let file = envelope::pack(content);
    let Ok(mut trace) = Trace::open(&file[..]) else { return (0, 0) };
    let (mut transactions, mut writes) = (0, 0);
    while trace.advance() == Ok(true) {
        transactions += 1;
        writes += trace.transaction().writes.len() as u64;
    }
    (transactions, writes)
}

fuzz_target!(|input: Input<'_>| {
    let file = match input {
        Input::File(bytes) => bytes.to_vec(),
        Input::Content { ended: false, bytes } => envelope::pack(bytes),
        Input::Content { ended: true, bytes } => {
            let mut writer = TraceWriter::new("", BlockSize::MIN, 0);
            writer.content = bytes.to_vec();
            // A tag has to follow a transaction that is to be read.
            let (transactions, writes) = counts(&[bytes, &[trace::tag::END]].concat());
            writer.end_with(transactions, writes, 0);
            writer.into_file()
        }
    };
    if let Ok(whole) = read(&file) {
        assert_eq!(read(&written(&whole)), Ok(whole));
    }
});
