//! Any sequence of puts and clears on a policy's `Encoder`: it holds exactly what was accepted,
//! accepts exactly what fits, and touches nothing outside its room.

#![no_main]

use arbitrary::Arbitrary;
use journal_core::policy::{Encoder, NoRoom};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    Put(&'a [u8]),
    /// Puts a number of bytes into the buffer, and says how many it put.
    PutWith(u8, u8),
    Clear,
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    room_bytes: u8,
    steps: Vec<Step<'a>>,
}

const GUARD_BYTES: usize = 16;
const GUARD: u8 = 0xA5;

fuzz_target!(|input: Input<'_>| {
    let room_bytes = usize::from(input.room_bytes);
    let mut memory = vec![GUARD; GUARD_BYTES + room_bytes + GUARD_BYTES];
    let mut out = Encoder::new(&mut memory[GUARD_BYTES..GUARD_BYTES + room_bytes]);
    let mut expected: Vec<u8> = Vec::new();
    for step in &input.steps {
        match step {
            Step::Put(bytes) => {
                let fits = expected.len() + bytes.len() <= room_bytes;
                assert_eq!(out.put(bytes), if fits { Ok(()) } else { Err(NoRoom) });
                if fits {
                    expected.extend(*bytes);
                }
            }
            Step::PutWith(count, says) => {
                let (count, says) = (usize::from(*count), usize::from(*says));
                let left = room_bytes - expected.len();
                let put = out.put_with(|room| {
                    assert_eq!(room.len(), left);
                    room.iter_mut().take(count).for_each(|byte| *byte = 7);
                    room.iter_mut().skip(count).for_each(|byte| *byte = 0);
                    if says < 250 { Ok(says) } else { Err(NoRoom) }
                });
                let fits = says < 250 && says <= left;
                assert_eq!(put, if fits { Ok(says) } else { Err(NoRoom) });
                if fits {
                    expected.extend((0..says).map(|at| if at < count { 7 } else { 0 }));
                }
            }
            Step::Clear => {
                out.clear();
                expected.clear();
            }
        }
        assert_eq!(out.as_bytes(), expected);
        assert_eq!(out.room_left(), room_bytes - expected.len());
    }
    let (before, rest) = memory.split_at(GUARD_BYTES);
    let guards = before.iter().chain(&rest[room_bytes..]);
    assert!(guards.into_iter().all(|byte| *byte == GUARD), "wrote outside the room");
});
