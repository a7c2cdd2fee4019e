//! Each rule of the format, broken once, in an envelope and with a checksum that are right.

use journal_core::BlockSize;

use crate::read;
use lab::trace::writer::TraceWriter;
use lab::trace::{Bad, class, flag};

const SIZE: BlockSize = BlockSize::MIN;
const ONE: [u8; 64] = [1; 64];
const TWO: [u8; 64] = [2; 64];

/// A trace of eight blocks, with two bases of ones and one of zeroes.
fn begun() -> TraceWriter {
    let mut writer = TraceWriter::new("rules", SIZE, 8);
    writer.base(1, Some(&ONE));
    writer.base(3, None);
    writer.base(5, Some(&ONE));
    writer
}

fn refused(write: impl FnOnce(&mut TraceWriter)) -> Option<(Bad, u64)> {
    let mut writer = begun();
    write(&mut writer);
    read(&writer.into_file()).err().map(|error| (error.bad, error.record))
}

/// A transaction that is as it should be.
fn good(writer: &mut TraceWriter, number: u64) {
    writer.begin(number);
    writer.write(1, 0, 0, &[number as u8 + 10; 64]);
    writer.commit(number);
}

#[test]
fn a_trace_may_have_gaps_and_no_transaction_at_all() {
    assert_eq!(refused(TraceWriter::end), None);
    let writer = |writer: &mut TraceWriter| {
        good(writer, 3);
        good(writer, 7);
        writer.end();
    };
    assert_eq!(refused(writer), None);
}

#[test]
fn headers_are_checked() {
    let header = |at: usize, bytes: &[u8]| {
        let mut writer = begun();
        writer.content[at..at + bytes.len()].copy_from_slice(bytes);
        writer.end();
        read(&writer.into_file()).map(drop).map_err(|error| (error.bad, error.record))
    };
    assert_eq!(header(0, b"B"), Ok(()));
    assert_eq!(header(0, b"X"), Err((Bad::Magic, 0)));
    assert_eq!(header(4, &[2]), Err((Bad::Version { found: 2 }, 0)));
    for bytes in [0_u32, 32, 65, 1 << 17] {
        assert_eq!(header(8, &bytes.to_le_bytes()), Err((Bad::BlockSize { bytes }, 0)));
    }
    assert_eq!(header(22, &[0xFF]), Err((Bad::Name, 0)));
    assert_eq!(header(20, &u16::MAX.to_le_bytes()), Err((Bad::CutOff, 0)));
    // The last base is outside a device of five blocks.
    assert_eq!(header(12, &[5]), Err((Bad::OutOfDevice { block: 5 }, 3)));
}

#[test]
fn bases_come_first_and_ascend() {
    let base = |block| refused(move |writer| writer.base(block, Some(&ONE)));
    assert_eq!(base(5), Some((Bad::BaseOrder { block: 5 }, 4)));
    assert_eq!(base(4), Some((Bad::BaseOrder { block: 4 }, 4)));
    assert_eq!(base(8), Some((Bad::OutOfDevice { block: 8 }, 4)));
    let late = refused(|writer| {
        good(writer, 1);
        writer.base(6, None);
    });
    assert_eq!(late, Some((Bad::LateBase, 7)));
    let inside = refused(|writer| {
        writer.begin(1);
        writer.base(6, None);
    });
    assert_eq!(inside, Some((Bad::LateBase, 5)));
}

#[test]
fn transactions_are_checked() {
    let order = |second| {
        refused(move |writer| {
            good(writer, 2);
            good(writer, second);
            writer.end();
        })
    };
    assert_eq!(order(3), None);
    assert_eq!(order(2), Some((Bad::Order { transaction: 2 }, 7)));
    assert_eq!(order(1), Some((Bad::Order { transaction: 1 }, 7)));
    let nested = refused(|writer| {
        writer.begin(1);
        writer.begin(2);
    });
    assert_eq!(nested, Some((Bad::Nested, 5)));
    let empty = refused(|writer| {
        writer.begin(1);
        writer.commit(1);
    });
    assert_eq!(empty, Some((Bad::Empty { transaction: 1 }, 5)));
    let other = refused(|writer| {
        writer.begin(1);
        writer.write(1, 0, 0, &TWO);
        writer.commit(2);
    });
    assert_eq!(other, Some((Bad::OtherCommit { transaction: 2 }, 6)));
    assert_eq!(refused(|writer| writer.commit(1)), Some((Bad::Outside, 4)));
    assert_eq!(refused(|writer| writer.write(1, 0, 0, &TWO)), Some((Bad::Outside, 4)));
    for found in [0, 7, 255] {
        assert_eq!(refused(|writer| writer.content.push(found)), Some((Bad::Tag { found }, 4)));
    }
    let unfinished = refused(|writer| {
        writer.begin(1);
        writer.end();
    });
    assert_eq!(unfinished, Some((Bad::CutOff, 5)));
}

#[test]
fn writes_are_checked() {
    let write = |block, class, flags, image: &'static [u8]| {
        refused(move |writer| {
            writer.begin(1);
            writer.write(block, class, flags, image);
            writer.commit(1);
            writer.end();
        })
    };
    assert_eq!(write(3, class::INODES, flag::NEW | flag::NEW_IN_TRACE, &TWO), None);
    assert_eq!(write(5, 21, flag::SAME, &ONE), None);
    assert_eq!(write(8, 0, 0, &TWO), Some((Bad::OutOfDevice { block: 8 }, 5)));
    assert_eq!(write(2, 0, 0, &TWO), Some((Bad::NoBase { block: 2 }, 5)));
    for found in [10, 15, 22] {
        assert_eq!(write(1, found, 0, &TWO), Some((Bad::Class { found }, 5)));
    }
    let flags = |found, image| write(1, 0, found, image);
    assert_eq!(flags(8, &TWO), Some((Bad::Flags { block: 1, found: 8 }, 5)));
    assert_eq!(flags(0, &ONE), Some((Bad::Flags { block: 1, found: 0 }, 5)));
    assert_eq!(flags(flag::SAME, &TWO), Some((Bad::Flags { block: 1, found: flag::SAME }, 5)));
}

#[test]
fn a_block_is_new_in_the_trace_always_or_never() {
    let found = refused(|writer| {
        good(writer, 1);
        writer.begin(2);
        writer.write(1, 0, flag::NEW_IN_TRACE, &TWO);
    });
    assert_eq!(found, Some((Bad::Flags { block: 1, found: flag::NEW_IN_TRACE }, 8)));
}

#[test]
fn a_block_is_written_once_in_a_transaction() {
    let twice = refused(|writer| {
        writer.begin(1);
        writer.write(1, 0, 0, &TWO);
        writer.write(5, 0, 0, &TWO);
        writer.write(1, 0, 0, &TWO);
    });
    assert_eq!(twice, Some((Bad::Twice { block: 1 }, 7)));
}

#[test]
fn objects_have_the_size_of_their_class() {
    let found = refused(|writer| {
        writer.begin(1);
        writer.write(1, class::INODES, 0, &TWO);
        // Behind the class, before flags and image.
        let at = writer.content.len() - 64 - 3;
        writer.content[at..at + 2].copy_from_slice(&[128, 0]);
        writer.commit(1);
        writer.end();
    });
    assert_eq!(found, Some((Bad::ObjectSize { found: 128 }, 5)));
}

#[test]
fn the_end_counts_sums_up_and_is_the_end() {
    let end = |transactions, writes, wrong| {
        refused(move |writer| {
            good(writer, 1);
            writer.end_with(transactions, writes, wrong);
        })
    };
    assert_eq!(end(1, 1, 0), None);
    assert_eq!(end(2, 1, 0), Some((Bad::Counts, 7)));
    assert_eq!(end(1, 2, 0), Some((Bad::Counts, 7)));
    assert_eq!(end(1, 1, 1), Some((Bad::Checksum, 7)));
    let behind = refused(|writer| {
        writer.end();
        writer.content.push(0);
    });
    assert_eq!(behind, Some((Bad::Behind, 4)));
    assert_eq!(refused(|_| {}), Some((Bad::CutOff, 4)));
    assert_eq!(refused(|writer| good(writer, 1)), Some((Bad::CutOff, 7)));
}

#[test]
fn an_error_says_how_far_the_reader_had_come() {
    let mut writer = begun();
    good(&mut writer, 1);
    let at = writer.content.len() as u64 + 1;
    writer.content.extend([9, 0, 0]);
    let error = read(&writer.into_file()).expect_err("an unknown tag");
    assert_eq!((error.bad, error.record, error.at), (Bad::Tag { found: 9 }, 7, at));
    assert_eq!(
        error.to_string(),
        format!("Tag {{ found: 9 }} in record 7, before byte {at} of the content")
    );
}
