//! Files that were damaged: an error that says where, and never another trace.

use crate::{Whole, read};
use lab::trace::SAMPLE;
use lab::trace::envelope::{BadEnvelope, CONTENT_BYTES_MAX, Envelope, WINDOW_BYTES_MAX};
use lab::trace::writer::Sample;
use lab::trace::{Bad, Trace, Write, class, flag};

fn sample() -> Whole {
    read(SAMPLE).expect("the trace that is kept is one")
}

#[test]
fn the_sample_is_what_the_command_makes() {
    assert_eq!(Ok(sample()), read(&Sample::file()));
}

#[test]
fn the_sample_has_all_that_matters() {
    let Whole { header, bases, transactions, end } = sample();
    assert_eq!((header.name.as_str(), header.block_size.bytes()), ("sample", 512));
    let mut state = bases;
    let (mut repeated, mut gaps, mut last) = (0, 0, 0);
    let mut writes: Vec<(Write, bool)> = Vec::new();
    for transaction in transactions {
        gaps += u64::from(transaction.number > last + 1);
        last = transaction.number;
        for write in transaction.writes {
            repeated += u64::from(writes.iter().any(|(before, _)| before.block == write.block));
            let old = state.insert(write.block, write.image.clone());
            let was_stale = old.is_some_and(|old| old.iter().any(|byte| *byte != 0));
            writes.push((write, was_stale));
        }
    }
    assert_eq!(state, end);
    let count = |is: &dyn Fn(&Write) -> bool| writes.iter().filter(|(write, _)| is(write)).count();
    assert!(repeated > 50 && gaps > 10);
    assert!(count(&Write::is_new) > 5);
    assert!(writes.iter().any(|(write, was_stale)| write.is_new() && *was_stale));
    assert!(count(&|write| write.flags & flag::SAME != 0) > 10);
    assert!(count(&|write| write.class == class::INODES && write.object_bytes == 256) > 10);
    assert!(count(&|write| write.object_bytes == 64) > 10);
    assert!(count(&|write| write.class == class::FILE_DATA && !write.is_new()) > 0);
    assert!(count(&|write| write.class >= class::SQLITE) > 2);
}

#[test]
fn a_file_that_breaks_off_is_an_error_wherever_it_does() {
    for len in 0..SAMPLE.len() {
        let error = read(&SAMPLE[..len]).expect_err("it breaks off");
        let is_envelope = matches!(error.bad, Bad::Envelope(_));
        assert!(is_envelope, "{len} bytes: {error}");
    }
    let longer = [SAMPLE, &[0]].concat();
    assert_eq!(read(&longer).expect_err("it goes on").bad, Bad::Envelope(BadEnvelope::Behind));
}

#[test]
fn a_bit_turned_over_is_an_error_or_changes_nothing() {
    let whole = sample();
    let mut harmless = 0;
    for at in 0..SAMPLE.len() {
        // One in each byte, and all of them where the envelope is described.
        let bits = if at < 16 { 0..8 } else { at % 8..at % 8 + 1 };
        for bit in bits {
            let mut file = SAMPLE.to_vec();
            file[at] ^= 1 << bit;
            if let Ok(found) = read(&file) {
                assert_eq!(found, whole, "byte {at}, bit {bit}");
                harmless += 1;
            }
        }
    }
    // A larger window, a bit that nobody uses, a copy from another line of a text that repeats.
    assert!(harmless < SAMPLE.len() / 16, "{harmless} of {}", SAMPLE.len());
}

#[test]
fn an_envelope_is_refused_by_its_header_alone() {
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = SAMPLE.to_vec();
        change(&mut file);
        Envelope::open(&file[..]).err()
    };
    assert_eq!(refused(&|_| {}), None);
    assert_eq!(refused(&|file| file[0] = 0), Some(BadEnvelope::NotZstd));
    assert_eq!(refused(&|file| file.truncate(7)), Some(BadEnvelope::Short));
    assert_eq!(refused(&|file| file[4] |= 8), Some(BadEnvelope::Reserved));
    assert_eq!(refused(&|file| file[4] |= 1), Some(BadEnvelope::Dictionary));
    assert_eq!(refused(&|file| file[4] &= !4), Some(BadEnvelope::NoChecksum));
    assert_eq!(refused(&|file| file[4] &= 0x3F), Some(BadEnvelope::NoContentSize));
    // 64 MiB is 16 doublings of 1 KiB, an eighth more is too much.
    assert_eq!(refused(&|file| file[5] = 16 << 3), None);
    let bytes = WINDOW_BYTES_MAX / 8 * 9;
    assert_eq!(refused(&|file| file[5] = 16 << 3 | 1), Some(BadEnvelope::Window { bytes }));
    let bytes = CONTENT_BYTES_MAX + 1;
    let longest = u32::try_from(bytes).expect("a gigabyte").to_le_bytes();
    let large = |file: &mut Vec<u8>| file[6..10].copy_from_slice(&longest);
    assert_eq!(refused(&large), Some(BadEnvelope::Content { bytes }));
}

#[test]
fn a_content_of_another_size_or_sum_is_refused() {
    let said = u32::from_le_bytes([SAMPLE[6], SAMPLE[7], SAMPLE[8], SAMPLE[9]]);
    for other in [said - 1, said + 1] {
        let mut file = SAMPLE.to_vec();
        file[6..10].copy_from_slice(&other.to_le_bytes());
        let expected = Bad::Envelope(BadEnvelope::WrongContentSize { said: other.into() });
        assert_eq!(read(&file).map(drop).map_err(|error| error.bad), Err(expected));
    }
    let mut file = SAMPLE.to_vec();
    *file.last_mut().expect("a sum") ^= 1;
    let error = read(&file).expect_err("another sum");
    assert_eq!(error.bad, Bad::Envelope(BadEnvelope::WrongChecksum));
}

#[test]
fn after_an_error_nothing_is_read_on() {
    let mut file = SAMPLE.to_vec();
    *file.last_mut().expect("a sum") ^= 1;
    let mut trace = Trace::open(&file[..]).expect("it begins well");
    let error = loop {
        match trace.advance() {
            Ok(more) => assert!(more, "there is an error at the end"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.bad, Bad::Envelope(BadEnvelope::WrongChecksum));
    assert_ne!(trace.advance().map_err(|error| error.bad), Ok(true));
}
