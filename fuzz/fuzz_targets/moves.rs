//! Deltas that follow what moved, under any bytes.
//!
//! 1. Any delta on any image gives a result: no panic, and nothing written beside the block.
//! 2. What was encoded makes the new image of the old one, with a table of any past, into exactly
//!    as much room as it says.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use policy_codec::moves::{MovesTable, apply, bound, decode, encode};

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Delta { delta: &'a [u8], old: &'a [u8], again: u8 },
    Edits { old: &'a [u8], again: u8, edits: Vec<Edit<'a>>, room_bytes: u16 },
}

#[derive(Arbitrary, Debug)]
enum Edit<'a> {
    Write { at: u16, bytes: &'a [u8] },
    Insert { at: u16, bytes: &'a [u8] },
    Remove { at: u16, count: u8 },
    Move { from: u16, to: u16, count: u8 },
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

fn edit(image: &mut Vec<u8>, edit: &Edit<'_>) {
    let len = image.len();
    let place = |at: u16| usize::from(at) % (len + 1);
    match edit {
        Edit::Write { at, bytes } => {
            let into = image.iter_mut().skip(place(*at));
            into.zip(*bytes).for_each(|(into, byte)| *into = *byte);
        }
        Edit::Insert { at, bytes } => {
            drop(image.splice(place(*at)..place(*at), bytes.iter().copied()))
        }
        Edit::Remove { at, count } => {
            let end = (place(*at) + usize::from(*count)).min(len);
            image.drain(place(*at)..end);
        }
        Edit::Move { from, to, count } => {
            let end = (place(*from) + usize::from(*count)).min(len);
            let moved: Vec<u8> = image.drain(place(*from)..end).collect();
            let to = usize::from(*to) % (image.len() + 1);
            drop(image.splice(to..to, moved));
        }
    }
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Delta { delta, old, again } => {
        let old = old.repeat(usize::from(again % 20) + 1);
        let (result, new) = guarded(old.len(), |room| decode(delta, &old, room));
        let (applied, block) = guarded(old.len(), |room| {
            room.copy_from_slice(&old);
            apply(delta, room)
        });
        assert_eq!(applied.is_ok(), result.is_ok());
        assert!(result.is_err() || new == block);
    }
    Input::Edits { old, again, edits, room_bytes } => {
        let old = old.repeat(usize::from(again % 20) + 1);
        let mut new = old.clone();
        edits.iter().for_each(|change| edit(&mut new, change));
        new.resize(old.len(), 0);
        let mut table = MovesTable::new();
        let (len, delta) = guarded(bound(new.len()), |room| {
            encode(&old, &new, &mut table, room).expect("the bound")
        });
        let mut made = vec![0; old.len()];
        assert_eq!(decode(&delta[..len], &old, &mut made), Ok(()));
        assert_eq!(made, new);
        let room_bytes = usize::from(room_bytes) % (len + 1);
        let (result, again) = guarded(room_bytes, |room| encode(&old, &new, &mut table, room));
        assert_eq!(result.is_ok(), room_bytes == len);
        assert!(result.is_err() || again == delta[..len]);
    }
});
