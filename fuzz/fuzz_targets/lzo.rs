//! LZO1X, under any bytes.
//!
//! 1. Any stream into any room gives a result: no panic, and nothing written beside the room.
//! 2. A stream that is read is read into that length only.
//! 3. What was encoded comes back, in no more bytes than the bound says, and in exactly that room;
//!    a table of its own makes the same stream.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use policy_codec::lzo::{LzoTable, bound, decode, encode, encode_once};

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Stream { bytes: &'a [u8], room_bytes: u16 },
    Bytes { bytes: &'a [u8], again: u8, room_bytes: u16 },
}

const GUARD_BYTES: usize = 64;
const GUARD: u8 = 0xA5;

/// Lets `work` have room between guards.
fn guarded<R>(room_bytes: usize, work: impl FnOnce(&mut [u8]) -> R) -> (R, Vec<u8>) {
    let mut memory = vec![GUARD; GUARD_BYTES + room_bytes + GUARD_BYTES];
    let end = GUARD_BYTES + room_bytes;
    let result = work(&mut memory[GUARD_BYTES..end]);
    let guards = memory[..GUARD_BYTES].iter().chain(&memory[end..]);
    assert!(guards.into_iter().all(|byte| *byte == GUARD), "wrote beside the room");
    (result, memory[GUARD_BYTES..end].to_vec())
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Stream { bytes, room_bytes } => {
        let room_bytes = usize::from(room_bytes);
        let (result, output) = guarded(room_bytes, |room| decode(bytes, room));
        if result.is_ok() {
            assert!(decode(bytes, &mut vec![0; room_bytes + 1]).is_err());
            assert!(room_bytes == 0 || decode(bytes, &mut vec![0; room_bytes - 1]).is_err());
            let mut stream = vec![0; bound(room_bytes)];
            let len = encode(&output, &mut LzoTable::new(), &mut stream).expect("the bound");
            let mut again = vec![0; room_bytes];
            assert_eq!(decode(&stream[..len], &mut again), Ok(()));
            assert_eq!(again, output);
        }
    }
    Input::Bytes { bytes, again, room_bytes } => {
        let bytes = bytes.repeat(usize::from(again % 40) + 1);
        let mut table = LzoTable::new();
        let (len, stream) = guarded(bound(bytes.len()), |room| {
            encode(&bytes, &mut table, room).expect("the bound")
        });
        let mut output = vec![0; bytes.len()];
        assert_eq!(decode(&stream[..len], &mut output), Ok(()));
        assert_eq!(output, bytes);
        let (once, of_its_own) = guarded(len, |room| encode_once(&bytes, room));
        assert_eq!(once, Ok(len));
        assert_eq!(of_its_own, stream[..len]);
        let room_bytes = usize::from(room_bytes) % (len + 1);
        let (fits, _) = guarded(room_bytes, |room| encode(&bytes, &mut table, room).is_ok());
        assert_eq!(fits, room_bytes == len);
    }
});
