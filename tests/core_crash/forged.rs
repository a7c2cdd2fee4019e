//! What nobody but a forger writes into the entries of slots.

use core::time::Duration;
use std::sync::mpsc;

use byte_delta::ByteDelta;
use journal_core::Buffers;
use journal_core::check::crc64;
use journal_core::superblock::FORMAT_VERSION;
use sim_disk::suite::oracle::BLOCK_BYTES;
use sim_disk::suite::{ID, Step};
use sim_disk::{Image, Model, Scenario as _, World};

use crate::rules::write;
use lab::core_crash::program::{Kind, Program};

fn program(steps: Vec<Step>) -> Program {
    Program::new(Kind::ByteDelta, 1, steps)
}

/// The media after a program, and where its entries and its slots begin.
fn media(program: &Program) -> (Image, usize, usize) {
    let world = World::boot(program.start(), Model::Torn8);
    program.program(&world).expect("runs");
    let geometry = program.geometry();
    (world.visible(), geometry.slot_entries().raw() as usize, geometry.first_slot().raw() as usize)
}

/// The seed of a kind of checks, as FORMAT.md says it.
fn seed(kind: u32) -> u64 {
    crc64(0, &[&ID[..], &FORMAT_VERSION.to_le_bytes(), &kind.to_le_bytes()].concat())
}

/// The entry of a slot, whole.
fn entry(slot: u32, block: u64, stamp: u64, content: u64) -> Vec<u8> {
    let words = [block, stamp, content];
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let check = crc64(seed(2) ^ u64::from(slot), &body);
    [body, check.to_le_bytes().to_vec()].concat()
}

/// Opens a journal and writes everything home, which has an end.
fn opens_and_ends(program: Program, image: Image) {
    let (done, ends) = mpsc::channel();
    std::thread::spawn(move || {
        let world = World::boot(image, Model::Torn8);
        let mut buffers = Buffers::new(&program.geometry(), 64, 2);
        let opened = program.open(&world, ByteDelta::new(), buffers.borrow());
        let mut journal = opened.expect("nothing is wrong that an open could see");
        journal.checkpoint().expect("writes home");
        done.send(()).expect("somebody waits");
    });
    ends.recv_timeout(Duration::from_secs(20)).expect("an end");
}

/// An entry of the stamp that another slot's frame has in the ring.
#[test]
fn two_slots_of_one_version_are_given_back_in_the_end() {
    for fold in [false, true] {
        let mut steps = vec![write(0, 0)];
        steps.extend(fold.then_some(Step::Fold));
        let program = program(steps);
        let (mut image, entries, slots) = media(&program);
        let free = (0..6_usize).find(|slot| {
            image.pmem()[slots + slot * BLOCK_BYTES..][..BLOCK_BYTES].iter().all(|byte| *byte == 0)
        });
        let free = free.expect("one is free");
        let content = crc64(seed(3) ^ free as u64, &[0; BLOCK_BYTES]);
        let forged = entry(free as u32, 0, 1, content);
        image.pmem_mut()[entries + free * 32..][..32].copy_from_slice(&forged);
        opens_and_ends(program, image);
    }
}
